"""Proxy fences cover the memory that threads and bulk copies of the kernel share, and no more."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import moye as mo
from async_kernels import cleared, cleared_there, stored_then_loaded, zero_then_add
from moye.passes.scopes import CLUSTER, CTA, EVERYTHING, fenced_space
from moye.runtime import simulate


def _func(kernel, *args, cluster=(1, 1, 1), block=64):
    seen = []
    x = np.zeros((32, 64), np.float32)
    tma = mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout((32, 32), (32, 1)))
    whole = simulate.run

    def run(spec, *rest, **more):
        seen.append(spec.func)
        return whole(spec, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "run", run)
        given = [tma if arg == "tma" else x if arg == "view" else arg() if callable(arg) else arg for arg in args]
        mo.check(kernel, lints=False).launch(*given, grid=cluster[0], block=block, cluster=cluster)
    return seen[0]


def test_spaces():
    flat, flag, wide = (partial(np.zeros, *what) for what in ((128, np.float32), (1, np.int32), ((32, 64), np.float32)))
    assert fenced_space(_func(cleared, wide, "tma", "")) == CTA
    assert fenced_space(_func(cleared_there, wide, "tma", "", cluster=(2, 1, 1))) == CLUSTER
    assert fenced_space(_func(zero_then_add, flat, flat, "", block=128)) == EVERYTHING
    apart = _func(stored_then_loaded, wide, "tma", "view", flag, "")
    assert fenced_space(replace(apart, restrict=True)) == CTA
    assert fenced_space(replace(apart, restrict=False)) == EVERYTHING


def test_the_printed_fence():
    x = np.zeros(128, np.float32)
    source = zero_then_add.compile(x, x.copy(), "", block=128, arch="sm_90a").source
    assert "fence.proxy.async;" in source and "fence.proxy.async.shared" not in source
