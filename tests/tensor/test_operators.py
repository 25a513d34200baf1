"""Every operator of Python on register tensors: on either side, in place, and through a view."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import moye as mo

SIGNS = {"<<": operator.lshift, ">>": operator.rshift, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
         "|": operator.or_, "^": operator.xor, "+": operator.add, "-": operator.sub, "*": operator.mul,
         "divmod": lambda a, b: divmod(a, b)[1], "pos": lambda a, b: +a + b}
IN_PLACE = {"<<=": operator.ilshift, ">>=": operator.irshift, "**=": operator.ipow, "^=": operator.ixor,
            "+=": operator.iadd}
PLAIN = {"<<=": operator.lshift, ">>=": operator.rshift, "**=": operator.pow, "^=": operator.xor, "+=": operator.add}
X = np.arange(1, 9, dtype=np.int32)


@mo.kernel
def sides(out, x, number, step: mo.Constexpr):
    r = mo.fragment((8,), x.dtype)
    mo.copyto(r, x)
    mo.copyto(out[:, 0], step(r, number))
    mo.copyto(out[:, 1], step(number, r))
    mo.copyto(out[:, 2], step(r, r))


@mo.kernel
def through_a_view(out, x, step: mo.Constexpr):
    r = mo.fragment((8,), x.dtype)
    mo.copyto(r, x)
    part = r[::2]
    step(part, 2)
    mo.copyto(out, r)


@pytest.mark.parametrize("sign", SIGNS)
def test_either_side(sign):
    out = np.zeros((8, 3), np.int32, order="F")
    assert mo.check(sides)[1, 1](out, X, 2, SIGNS[sign]).ok
    wanted = [[SIGNS[sign](int(x), 2), SIGNS[sign](2, int(x)), SIGNS[sign](int(x), int(x))] for x in X]
    assert out.tolist() == wanted


@pytest.mark.parametrize("sign", IN_PLACE)
def test_in_place_writes_what_is_seen(sign):
    out = np.zeros(8, np.int32)
    assert mo.check(through_a_view)[1, 1](out, X, IN_PLACE[sign]).ok
    wanted = X.copy()
    wanted[::2] = PLAIN[sign](X[::2], 2)
    assert out.tolist() == wanted.tolist()
