"""Signed integers compared with unsigned ones: of any widths, as scalars and as register tensors, beside Python's."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

SIGNED, UNSIGNED = (np.int8, np.int16, np.int32, np.int64), (np.uint8, np.uint16, np.uint32, np.uint64)


@mo.kernel
def compared(out, a, b):
    x, y, o = a[mo.thread_idx().x], b[mo.thread_idx().x], out[mo.thread_idx().x, :]
    o[0], o[1], o[2], o[3], o[4], o[5] = x < y, x <= y, x > y, x >= y, x == y, x != y
    o[6], o[7], o[8], o[9], o[10], o[11] = y < x, y <= x, y > x, y >= x, y == x, y != x


@mo.kernel
def of_registers(out, a, b):
    tid = mo.thread_idx().x
    x, y = mo.fragment((4,), a.dtype), mo.fragment((4,), b.dtype)
    mo.copyto(x, mo.tile(a, (4,), (tid,)))
    mo.copyto(y, mo.tile(b, (4,), (tid,)))
    mo.copyto(mo.tile(out, (4,), (tid,)), mo.where(x < y, 1, 0))


def numbers(signed, unsigned):
    """The ends of both dtypes, -1 beside its bits, and small numbers."""
    rng, low, high = np.random.default_rng(0), np.iinfo(signed), np.iinfo(unsigned)
    bits = np.array(-1).astype(signed).astype(unsigned)
    a = np.array([low.min, -1, -1, 0, 1, low.max, *rng.integers(-3, 3, 26)]).astype(signed)
    b = np.array([high.max, bits, 0, 0, high.max, high.max // 2, *rng.integers(0, 3, 26)], unsigned)
    return a, b


@pytest.mark.parametrize("unsigned", UNSIGNED)
@pytest.mark.parametrize("signed", SIGNED)
def test_comparisons_are_of_the_numbers(signed, unsigned):
    a, b = numbers(signed, unsigned)
    out = np.full((32, 12), -1, np.int32)
    assert mo.check(compared)[1, 32](out, a, b).ok
    for row, x, y in zip(out, a.tolist(), b.tolist(), strict=True):
        there, back = [x < y, x <= y, x > y, x >= y, x == y, x != y], [y < x, y <= x, y > x, y >= x, y == x, y != x]
        assert row.tolist() == there + back


@pytest.mark.parametrize("signed", SIGNED)
def test_of_register_tensors(signed):
    a, b = numbers(signed, np.uint32)
    out = np.full(32, -1, np.int32)
    assert mo.check(of_registers)[1, 8](out, a, b).ok
    assert out.tolist() == [x < y for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_extrema_with_numbers_that_the_dtype_does_not_hold():
    @mo.kernel
    def clamped(out, x):
        assert mo.max(x[0], -1000).dtype == mo.uint8
        out[0], out[1], out[2] = mo.max(x[0], -1000), mo.min(300, x[0]), min(max(-5, x[0]), 70000)

    out = np.zeros(3, np.int32)
    assert mo.check(clamped)[1, 1](out, np.array([7], np.uint8)).ok and out.tolist() == [7, 7, 7]

    @mo.kernel
    def never(out, x):
        out[0] = mo.min(x[0], -1000)

    with pytest.raises(mo.DTypeError, match="-1000 does not fit uint8"):
        never[1, 1](out, np.array([7], np.uint8))


def test_indices_are_compared_as_before():
    """What is known not to be negative needs no second comparison."""
    @mo.kernel
    def guarded(out, n: mo.uint32):
        if mo.thread_idx().x < n:
            out[mo.thread_idx().x] = 1

    source = guarded.compile(np.zeros(32, np.int32), 5, block=32, arch="sm_90a").source
    assert "||" not in source
    assert "<" in source


def test_equality_with_what_no_value_is_equal_to_is_refused():
    @mo.kernel
    def all_lanes(out):
        if mo.ballot(out[mo.thread_idx().x] > 0) == -1:
            out[0] = 1

    with pytest.raises(mo.DTypeError, match=r"-1 does not fit uint32"):
        all_lanes.trace(np.zeros(32, np.int32), block=32)


@mo.kernel
def extrema(out, a, b):
    x, y, o = a[mo.thread_idx().x], b[mo.thread_idx().x], out[mo.thread_idx().x, :]
    o[0], o[1], o[2], o[3] = mo.min(x, y), mo.max(x, y), mo.max(y, x), min(y, x)


@pytest.mark.parametrize("signed", SIGNED[:3])
def test_extrema_are_of_the_numbers(signed):
    """The greatest has the unsigned dtype: its bits are right, which is all that an int32 array keeps."""
    a, b = numbers(signed, np.uint32)
    out = np.full((32, 4), 77, np.int32)
    assert mo.check(extrema)[1, 32](out, a, b).ok
    small, large = np.minimum(a.astype(np.int64), b), np.maximum(a.astype(np.int64), b)
    assert (out == np.stack([small, large, large, small], 1).astype(np.int32)).all()
    extrema.compile(out, a, b, block=32, arch="sm_90a")


@mo.kernel
def least(out, wide, a, b):
    out[0], wide[0] = mo.min(a[0], b[0]), min(b[0], a[0])
    out[1], wide[1] = mo.max(a[0], b[0]), max(b[0], a[0])


@pytest.mark.parametrize(("signed", "unsigned"), [(np.int8, np.uint8), (np.int16, np.uint32), (np.int32, np.uint32),
                                                  (np.int64, np.uint64)])
def test_the_least_of_both_stays_negative(signed, unsigned):
    """Whatever it is converted to."""
    out, wide = np.zeros(2, np.float64), np.zeros(2, np.int64)
    assert mo.check(least)[1, 1](out, wide, np.array([-5], signed), np.array([7], unsigned)).ok
    assert out.tolist() == [-5, 7] and wide.tolist() == [-5, 7]
