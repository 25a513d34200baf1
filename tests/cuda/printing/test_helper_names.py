"""The functions that the printer writes beside a kernel: no variable of the user's hides one, no two are the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.intrinsics import Intrinsics

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@mo.kernel
def both_kinds(out, x, y):
    i = mo.thread_idx().x
    rX, rY = mo.fragment((4,), x.dtype), mo.fragment((4,), y.dtype)
    mo.copyto(rX, mo.tile(x, (4,), (i,)))
    mo.copyto(rY, mo.tile(y, (4,), (i,)))
    mo.copyto(mo.tile(out, (4,), (i,)), rX.to(mo.float32) * rY.to(mo.float32))


def test_both_kinds_of_8_bit_floats_in_one_kernel():
    """Each has its own function of a word, of one and the same C type."""
    x, y = np.ones(128, E4M3), np.ones(128, E5M2)
    assert "from_e4m3x4(" in both_kinds.compile(np.zeros(128, np.float32), x, y, block=32, arch="sm_90a").source


@mo.kernel
def named_like_functions(out, x, n):
    i = mo.thread_idx().x
    gX = mo.tile(x, (8,), (i,), ragged=True)
    match_all, aligned_16 = mo.fragment((8,), x.dtype), mo.elem_less(mo.tile(mo.identity_tensor((n,)), (8,), (i,),
                                                                             ragged=True), (n,))
    mo.copyto(match_all, gX, pred=aligned_16, zero_fill=True)
    put_16 = mo.match_all(i // 32).to(mo.float16)
    add_f16x2 = match_all + match_all * put_16
    fma_f16x2 = add_f16x2 * add_f16x2 + put_16
    mo.copyto(mo.tile(out, (8,), (i,)), fma_f16x2)


def test_variables_called_like_functions():
    x = np.ones(250, np.float16)
    source = named_like_functions.compile(np.zeros(256, np.float16), x, 250, block=32, arch="sm_90a").source
    assert all(f"{name}(" in source for name in ("match_all", "put_16", "fma_f16x2"))


def test_the_table_of_names_is_whole():
    with pytest.raises(AssertionError, match="a variable of the user's may be called mine"):
        Intrinsics().function("mine", "int (int x)", "return x;")


def test_two_functions_of_the_same_parameters():
    helpers = Intrinsics()
    helpers.function("put_8", "int (int x)", "return x;", overload="a")
    with pytest.raises(AssertionError, match="two functions put_8"):
        helpers.function("put_8", "int (int x)", "return x + 1;", overload="b")
