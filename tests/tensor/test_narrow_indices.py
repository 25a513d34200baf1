"""Integers of 8 and 16 bits as indices, and what they are compared with, beside what NumPy finds."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

DTYPES = (np.uint8, np.int8, np.uint16, np.bool_)


def places(dtype):
    return (np.arange(32) % 2 == 1) if dtype is np.bool_ else np.linspace(0, 100, 32).astype(dtype)


@mo.kernel
def of_a_table(out, x, at, extent: mo.Constexpr):
    """A shared table that has as many elements as the dtype has values, or more: a byte looks up its number."""
    tid = mo.thread_idx().x
    table = mo.shared_array(x.dtype, extent)
    for i in range(tid, extent, 32):
        table[i] = x[i]
    mo.sync_threads()
    out[tid] = table[at[tid]]


@mo.kernel
def of_static(out, x: mo.Static, at):
    out[mo.thread_idx().x] = x[at[mo.thread_idx().x] * 1, 3]


@mo.kernel
def of_layouts(out, at):
    tid = mo.thread_idx().x
    layout = mo.make_layout((128, 4), (16, 1))
    out[tid, 0] = layout(at[tid], 3)
    out[tid, 1] = mo.crd2idx((at[tid], 3), layout)
    out[tid, 2] = mo.crd2idx((3, at[tid]), (256, 128))
    out[tid, 3] = mo.idx2crd((4, 300), at[tid])[1] * 4 + mo.idx2crd((4, 300), at[tid])[0]


@mo.kernel
def of_threads(out, x, at):
    """A thread's index that has eight bits takes its part of a tile of 4096 elements."""
    tid = mo.thread_idx().x
    column = mo.tile(x, (4096,), (0,))
    rows = column.with_layout(mo.make_layout((128, 32), (32, 1)))
    out[tid, 0] = mo.parallelize(column, mo.make_layout(128), at[tid])[31]
    out[tid, 1] = mo.parallelize(rows, mo.make_layout((128, 1)), at[tid])[0, 5]


@mo.kernel
def divided(out, at):
    tid = mo.thread_idx().x
    out[tid, 0] = mo.ceil_div(at[tid], 200)
    out[tid, 1] = mo.ceil_div(at[tid], 64)


@mo.kernel
def compared(out, at):
    x = at[mo.thread_idx().x]
    mine = out[mo.thread_idx().x, :]
    mine[0], mine[1], mine[2] = x < 70000, x > -40000, x <= -40000
    mine[3], mine[4], mine[5] = 70000 >= x, -40000 < x, x >= 70000         # noqa: SIM300


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extent", [256, 300])
def test_tables(dtype, extent):
    x, at, out = np.arange(300, dtype=np.int32) * 7, places(dtype), np.zeros(32, np.int32)
    assert mo.check(of_a_table)[1, 32](out, x, at, extent).ok
    assert (out == 7 * at.astype(int)).all()
    assert of_a_table.compile(out, x, at, extent, block=32, arch="sm_90a").spills == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_static_extents(dtype):
    x, at, out = np.arange(256 * 256, dtype=np.int32).reshape(256, 256), places(dtype), np.zeros(32, np.int32)
    assert mo.check(of_static)[1, 32](out, x, at).ok
    assert (out == x[at.astype(int), 3]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    at, out = places(dtype), np.zeros((32, 4), np.int32)
    assert mo.check(of_layouts)[1, 32](out, at).ok
    i = at.astype(int)
    assert (out == np.stack([16 * i + 3, 16 * i + 3, 256 * i + 3, i], 1)).all()
    of_layouts.compile(out, at, block=32, arch="sm_90a")


@pytest.mark.parametrize("dtype", DTYPES[:3])             # a bool is known to be 0 or 1, which are not 128 threads
def test_threads(dtype):
    x, at, out = np.arange(4096, dtype=np.int32), places(dtype), np.zeros((32, 2), np.int32)
    assert mo.check(of_threads)[1, 32](out, x, at).ok
    assert (out == np.stack([31 * 128 + at.astype(int), 32 * at.astype(int) + 5], 1)).all()
    of_threads.compile(out, x, at, block=32, arch="sm_90a")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounded_up(dtype):
    at, out = places(dtype), np.zeros((32, 2), np.int32)
    assert mo.check(divided)[1, 32](out, at).ok
    i = at.astype(int)
    assert (out == np.stack([-(-i // 200), -(-i // 64)], 1)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_comparisons_with_what_no_value_reaches(dtype):
    info = np.iinfo(dtype)
    at, out = np.linspace(info.min, info.max, 32).astype(dtype), np.full((32, 6), -1, np.int32)
    assert mo.check(compared)[1, 32](out, at).ok
    assert (out == [1, 1, 0, 1, 1, 0]).all()


def test_arithmetic_says_which_dtype_holds_the_number():
    @mo.kernel
    def scaled(out, at):
        out[0] = at[0] * 1000

    with pytest.raises(mo.DTypeError, match=r"1000 does not fit uint8") as raised:
        scaled.trace(np.zeros(1, np.int32), np.zeros(1, np.uint8), block=1)
    assert raised.value.hint == "convert the other operand, with .to(mo.int32)"


@pytest.mark.parametrize("dtype", [mo.uint8, mo.uint16, mo.uint32, mo.uint64], ids=str)
def test_minus_one_has_bits_of_an_unsigned_number(dtype):
    """There is no other operand in ``mo.uint32(-1)``, what C programs call a key that is in no table."""
    @mo.kernel
    def k(out):
        out[0] = dtype(-1)

    with pytest.raises(mo.DTypeError, match=f"-1 does not fit {dtype}") as raised:
        k.trace(np.zeros(1, np.uint64), block=1)
    same = f"0x{'f' * (dtype.bits // 4)}, the same bits"
    assert raised.value.hint == f"{same}, or convert the other operand, with .to(mo.int32)"


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_quotients_of_large_numbers_are_rounded_up_without_a_sum(dtype):
    @mo.kernel
    def quotients(out, x):
        i = mo.thread_idx().x
        out[i, 0], out[i, 1], out[i, 2] = mo.ceil_div(x[i], 7), mo.ceil_div(x[i], x[0]), mo.ceil_div(7, x[i])

    most = int(np.iinfo(dtype).max)
    numbers = [most, most - 1, most - 6, most // 2 + 1, 1, 6, 7, 8]
    x, out = np.array(numbers, dtype), np.zeros((8, 3), np.uint64)
    quotients[1, 8](out, x)
    assert out.tolist() == [[-(-n // 7), -(-n // most), -(-7 // n)] for n in numbers]


def test_floats_are_no_integers():
    @mo.kernel
    def halves(out, x, function: mo.Constexpr):
        out[0] = function(x[0])

    for function in (lambda n: mo.ceil_div(n, 2), lambda n: mo.ceil_div(n, n), lambda n: mo.layout.round_up(n, 4)):
        with pytest.raises(mo.DTypeError, match="is no integer, and extents, indices and ceil_div take nothing else"):
            halves[1, 1](np.zeros(1, np.float32), np.ones(1, np.float32), function)


def test_floats_are_no_coordinates():
    @mo.kernel
    def moved(x):
        mo.domain_offset((x[0],), x)[0] = 1.0

    with pytest.raises(mo.TensorError, match="is a float32, not an integer"):
        moved[1, 1](np.ones(4, np.float32))
