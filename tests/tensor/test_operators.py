"""Every operator of Python on register tensors: on either side, in place, and through a view; and who has them all."""

from __future__ import annotations

import importlib
import inspect
import operator

import numpy as np
import pytest

import moye as mo
from moye.layout import DynInt
from moye.tensor.context import AtOnce

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


def derived(cls):
    return [each for direct in cls.__subclasses__() for each in (direct, *derived(direct))]


@pytest.mark.parametrize("cls, module", [(DynInt, "moye.layout.basis"), (DynInt, "moye.tensor.expr"),
                                         (DynInt, "moye.cuda.export.formulas"), (AtOnce, "moye.runtime.host_tensors")])
def test_classes_without_a_metaclass_have_all_that_they_promise(cls, module):
    """Python looks for abstract methods only where ``abc`` is the metaclass, and these would give None."""
    importlib.import_module(module)
    here = [each for each in derived(cls) if each.__module__ == module]
    assert here
    assert not [name for each in here for name in dir(each)
                if getattr(inspect.getattr_static(each, name), "__isabstractmethod__", False)]
