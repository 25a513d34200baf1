"""``&``, ``|`` and ``^`` beside Python integers that the dtype holds only without its sign: the numbers of C++."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import moye as mo

SIGNED = (np.int8, np.int16, np.int32, np.int64)
SIGNS = (operator.and_, operator.or_, operator.xor)


@mo.kernel
def masked(out, x, mask: mo.Constexpr):
    i = mo.thread_idx().x
    for k, sign in enumerate(SIGNS):
        found = sign(x[i], mask)
        out[i, k], out[i, k + 3] = found.to(out.dtype), sign(mask, x[i]) > 0


@mo.kernel
def of_registers(out, x, mask: mo.Constexpr):
    i = mo.thread_idx().x
    held = mo.fragment((4,), x.dtype)
    mo.copyto(held, mo.tile(x, (4,), (i,)))
    for k, sign in enumerate(SIGNS):
        mo.copyto(mo.tile(out[:, k], (4,), (i,)), sign(held, mask).to(out.dtype))


def numbers(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([least, least + 1, -7, -1, 0, 1, 5, most], dtype)


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.75])
def test_of_signed_integers(dtype, share):
    bits = np.iinfo(dtype).bits
    mask = int((1 << bits) * share) - (share == 1.0)                # all bits, the first, the first two
    x = numbers(dtype)
    exact = [[sign(int(a) % (1 << bits), mask) for sign in SIGNS] for a in x]
    out = np.zeros((8, 6), np.uint64)
    masked[1, 8](out, x, mask)
    assert out[:, :3].tolist() == exact
    assert (out[:, 3:] == np.array([[a > 0 for a in row] for row in exact])).all()
    of_registers[1, 2](out, x, mask)
    assert out[:, :3].tolist() == exact


def test_the_dtype_is_unsigned_where_the_sign_would_be_the_mask():
    @mo.kernel
    def packed(out, high, low):
        i = mo.thread_idx().x
        assert (low[i] & 0x7FFFFFFF).dtype == mo.int32 and (low[i] & -256).dtype == mo.int32
        assert (low[i] & 0xFFFFFFFF).dtype == mo.uint32 == (0x80000000 ^ low[i]).dtype
        out[i] = high[i].to(mo.int64) << 32 | (low[i] & 0xFFFFFFFF)

    high, low, out = np.arange(-4, 4, dtype=np.int32), -np.arange(8, dtype=np.int32), np.zeros(8, np.int64)
    packed[1, 8](out, high, low)
    assert (out == (high.astype(np.int64) << 32) + (low.astype(np.int64) & 0xFFFFFFFF)).all()
    source = packed.compile(out, high, low, block=8, arch="sm_90a").source
    assert "(long long)((unsigned)low[tx] & 4294967295u)" in source


def test_too_many_bits_are_refused():
    @mo.kernel
    def beyond(x):
        x[0] = x[0] & 0x1FF

    with pytest.raises(mo.DTypeError, match="511 does not fit int8"):
        beyond[1, 1](np.zeros(1, np.int8))
