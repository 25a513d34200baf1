"""moye.jax without JAX."""

from __future__ import annotations

import sys

import pytest

import moye as mo


@mo.kernel
def nothing(y, x):
    y[0] = x[0]


class Like:
    shape, dtype = (4,), "float32"


def test_jax_is_asked_for_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    f = mo.jax.call(nothing, Like(), grid=1, block=32)
    with pytest.raises(mo.ArgumentError, match=r"moye\.jax needs JAX, with jax\.ffi"):
        f(1)
