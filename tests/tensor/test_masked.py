"""Copies under predicates of single elements, and predicates from coordinates: what they take, refuse, and print."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import moye as mo
from moye.ir import ops
from moye.layout import elem_leq
from moye.layout import elem_less as tuples_less


@mo.kernel
def doubled(out, x, width: mo.Constexpr, beyond: mo.Constexpr, start: mo.Constexpr):
    """out[start + i] = 2 x[start + i], in vectors of ``width``; the predicate lets ``beyond`` more elements through."""
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    moved = [mo.domain_offset((start,), t) if start else t for t in (x, out, mo.identity_tensor(mo.shape(x)))]
    gX, gO, cX = (mo.tile(t, (width,), (i,), ragged=True) for t in moved)
    inside = mo.elem_less(cX, (mo.size(x, 0) + beyond,))
    held = mo.make_fragment_like(gX)
    mo.copyto(held, gX, pred=inside, zero_fill=True)
    mo.copyto(gO, held + held, pred=inside)


def arrays(n=1001, dtype=np.float32):
    x = np.arange(n).astype(dtype)
    return np.zeros_like(x), x


def copies(func):
    return [op for op in func.body.walk() if isinstance(op, ops.Copy)]


@pytest.mark.parametrize("dtype, width, start, group, tested", [
    (np.float32, 4, 0, 4, ("none", "none")), (np.float32, 4, 1, 4, ("src", "dst")),
    (np.float32, 4, 4, 4, ("none", "none")), (np.float32, 6, 0, 2, ("none", "none")),
    (np.float32, 3, 0, 1, ("none", "none")), (np.float16, 8, 0, 8, ("none", "none")),
    (np.float16, 16, 3, 8, ("src", "dst")), (np.uint8, 16, 0, 16, ("none", "none")),
    (np.float64, 2, 0, 2, ("none", "none"))])
def test_groups(dtype, width, start, group, tested):
    """As many elements as 16 bytes and the tile hold; addresses that nothing proves are tested when the kernel runs."""
    func = doubled.trace(*arrays(dtype=dtype), width, 0, start, block=64)
    assert [(op.group, op.width, op.tested) for op in copies(func)] == [(group, 1, side) for side in tested]


def test_one_condition_stays_as_wide_as_before():
    """A predicate of the whole copy needs no groups."""
    @mo.kernel
    def kernel(out, x, limit):
        i = mo.thread_idx().x
        mo.copyto(mo.tile(out, (4,), (i,)), mo.tile(x, (4,), (i,)), pred=i < limit)

    out, x = arrays(256)
    assert [(op.group, op.width) for op in copies(kernel.trace(out, x, 3, block=64))] == [(1, 4)]


@pytest.mark.parametrize("dtype, wide", [(np.float32, "v4"), (np.float16, "v4"), (np.float64, "v2")])
def test_ptx(dtype, wide):
    """The wide accesses are there, and the single ones beside them."""
    out, x = arrays(dtype=dtype)
    width = 16 // x.itemsize
    ptx = doubled.compile(out, x, width, 0, 0, block=64, arch="sm_90a").ptx
    for access in ("ld.global.nc", "st.global"):
        lines = [line for line in ptx.splitlines() if access in line]
        assert len(lines) == 1 + width
        assert sum(f".{wide}." in line for line in lines) == 1


@pytest.mark.parametrize("n", [1001, 1000, 3, 1])
@pytest.mark.parametrize("start", [0, 1])
def test_bounds_of_masked_elements_are_not_judged(n, start):
    out, x = arrays(n)
    report = mo.check(doubled)[4, 64](out, x, 4, 0, start)
    assert report.ok, report
    assert (out[start:] == 2 * x[start:]).all() and (out[:start] == 0).all()


@pytest.mark.parametrize("beyond", [1, 2])
def test_a_predicate_that_is_too_large_is_found(beyond):
    out, x = arrays(1001)
    report = mo.check(doubled)[4, 64](out, x, 4, beyond, 0)
    assert {finding.code for finding in report.findings} == {"B1"}
    assert "x(1001)" in str(report)


def test_costs_are_those_of_the_wide_accesses():
    """No lint about accesses of 4 bytes 16 bytes apart, where the vectors are whole."""
    out, x = arrays(1024)
    report = mo.check(doubled)[4, 64](out, x, 4, 0, 0)
    assert report.ok and not [lint for lint in report.lints if lint.code == "P3"]


def test_row_major_tiles():
    """A predicate of two modes: rows beyond the last, and columns."""
    @mo.kernel
    def kernel(out, x):
        tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
        parts = [mo.parallelize(mo.tile(t, (16, 32), (bx, by), ragged=True), mo.make_layout((8, 8)), tid)
                 for t in (x, out, mo.identity_tensor(mo.shape(x)))]
        inside = mo.elem_less(parts[2], mo.shape(x))
        held = mo.make_fragment_like(parts[0])
        mo.copyto(held, parts[0], pred=inside, other=5.0)
        mo.copyto(parts[1], held * 2.0, pred=inside)

    x = np.random.default_rng(0).standard_normal((37, 50)).astype(np.float32)
    out = np.zeros_like(x)
    assert mo.check(kernel)[(3, 2), 64](out, x).ok
    assert (out == 2 * x).all()


@mo.jit
def _kept(out, x, tile, threads, values):
    at = (mo.block_idx().x, mo.block_idx().y)
    thr = mo.make_tiled_copy(mo.CopyAtom(mo.AutoCopy(), x.dtype), threads, values).get_slice(mo.thread_idx().x)
    gX, cX = (mo.tile(t, tile, at, ragged=True) for t in (x, mo.identity_tensor(mo.shape(x))))
    held, inside = mo.make_fragment_like(thr.partition_S(gX)), mo.elem_less(thr.partition_S(cX), mo.shape(x))
    mo.copyto(held, thr.partition_S(gX), pred=inside, other=-1)
    mo.copyto(thr.partition_D(mo.tile(out, tile, at)), held)


@mo.kernel
def static_kept(out: mo.Static, x: mo.Static, tile: mo.Constexpr, threads, values):
    _kept(out, x, tile, threads, values)


@mo.kernel
def dynamic_kept(out, x, tile: mo.Constexpr, threads, values):
    _kept(out, x, tile, threads, values)


@pytest.mark.parametrize("seed", range(10))
def test_ragged_tiles_of_any_extents(seed):
    """Extents that are known while tracing mask as others do, those of 1 among them."""
    rng = random.Random(seed)
    threads, values = ([rng.choice([1, 2, 3, 4]) for _ in range(2)] for _ in range(2))
    tile, tiles = [a * b for a, b in zip(threads, values, strict=True)], [rng.choice([1, 1, 2]) for _ in range(2)]
    shape = [n * t - rng.choice([0, t - 1, rng.randrange(t)]) for n, t in zip(tiles, tile, strict=True)]
    x = np.arange(math.prod(shape), dtype=np.int16).reshape(shape, order=rng.choice("CF"))
    expected = np.full([n * t for n, t in zip(tiles, tile, strict=True)], -1, np.int16)
    expected[:shape[0], :shape[1]] = x
    for kernel in (static_kept, dynamic_kept):
        out = np.zeros_like(expected)
        layouts = (mo.make_layout(tuple(each)) for each in (threads, values))
        assert mo.check(kernel).launch(out, x, tuple(tile), *layouts, grid=tuple(tiles), block=math.prod(threads)).ok
        assert (out == expected).all(), (kernel, shape, tile)


@mo.kernel
def asked(out, x, i, j):
    """mo.inside and mo.elem_less of traced coordinates."""
    m, n = mo.size(x, 0), mo.size(x, 1)
    out[0] = mo.where(mo.inside((i, j), (m, n)), 1, 0)
    out[1] = mo.where(mo.elem_less((i, j), (m, n)), 1, 0)
    out[2] = mo.where(mo.inside((i, 0), (m, n)), 1, 0)


@pytest.mark.parametrize("i, j", [(0, 0), (2, 4), (3, 4), (2, 5), (-1, 2), (1, -1), (-(1 << 31), 0)])
@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_inside(i, j, wide):
    out, x = np.zeros(3, np.int32), np.zeros((3, 5), np.float32)
    asked[1, 1](out, x, wide(i), wide(j))
    assert out.tolist() == [0 <= i < 3 and 0 <= j < 5, i < 3 and j < 5, 0 <= i < 3]


@pytest.mark.parametrize("at", [(0, 0), (2, 4), (-1, 2), (2, 5)])
def test_inside_of_numbers(at):
    """Law: inside(a, s) == (elem_leq(0, a) and elem_less(a, s))."""
    assert mo.inside(at, (3, 5)) == (elem_leq((0, 0), at) and mo.elem_less(at, (3, 5)))
    assert mo.elem_less(at, (3, 5)) == tuples_less(at, (3, 5))


def test_other_is_a_traced_number():
    @mo.kernel
    def kernel(out, x, other):
        i = mo.thread_idx().x
        held = mo.fragment((4,), x.dtype)
        mo.copyto(held, mo.tile(x, (4,), (i,), ragged=True), pred=i * 4 + 4 <= mo.size(x, 0), other=other * 2)
        mo.copyto(mo.tile(out, (4,), (i,)), held)

    out, x = np.zeros(16, np.float32), np.arange(9, dtype=np.float32)
    assert mo.check(kernel)[1, 4](out, x, 4.0).ok
    assert (out == np.r_[x[:8], np.full(8, 8)]).all()
    source = kernel.compile(out, x, 4.0, block=4, arch="sm_90a").source
    assert "float4" in source and "make_float4(" in source


def test_other_that_nobody_set_is_found():
    """What fills is as good as the number that it is."""
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        unset, held = mo.fragment((1,), x.dtype), mo.fragment((4,), x.dtype)
        tile = mo.tile(x, (4,), (i,), ragged=True)
        mo.copyto(held, tile, pred=mo.elem_less(mo.tile(mo.identity_tensor(mo.shape(x)), (4,), (i,), ragged=True),
                                                mo.shape(x)), other=unset[0])
        mo.copyto(mo.tile(out, (4,), (i,)), held)

    report = mo.check(kernel)[1, 4](np.zeros(16, np.float32), np.zeros(9, np.float32))
    assert not report.ok
    assert mo.check(kernel)[1, 4](np.zeros(16, np.float32), np.zeros(16, np.float32)).ok


# --- what is refused -------------------------------------------------------------------------------------------------


def refused(kernel, *arguments, block=32):
    with pytest.raises(mo.TensorError) as found:
        kernel.trace(*arguments, block=block)
    return str(found.value)


def test_other_needs_a_predicate():
    @mo.kernel
    def kernel(x, zero_fill: mo.Constexpr):
        held = mo.fragment((4,), x.dtype)
        pred = None if not zero_fill else mo.thread_idx().x < 3
        mo.copyto(held, mo.tile(x, (4,), (0,)), pred=pred, zero_fill=zero_fill, other=1.0)

    x = np.zeros(64, np.float32)
    assert "there is no pred=" in refused(kernel, x, False)
    assert "in place of zero_fill=True" in refused(kernel, x, True)


def test_other_is_no_tensor():
    @mo.kernel
    def kernel(x):
        held = mo.fragment((4,), x.dtype)
        mo.copyto(held, mo.tile(x, (4,), (0,)), pred=mo.thread_idx().x < 3, other=held)

    assert "is no number" in refused(kernel, np.zeros(64, np.float32))


def test_asynchronous_copies_fill_with_zeros():
    @mo.kernel
    def kernel(x):
        held = mo.shared_array(x.dtype, 4)
        mo.copyto(mo.CpAsync(mo.uint128), held, mo.tile(x, (4,), (0,)), pred=mo.thread_idx().x < 1, other=1.0)

    assert "fills with zeros alone" in refused(kernel, np.zeros(64, np.float32))


def test_misalignment_is_of_global_memory():
    @mo.kernel
    def kernel(x, bytes: mo.Constexpr, shared: mo.Constexpr):
        mo.misalignment(mo.shared_array(x.dtype, 4) if shared else x, bytes)

    x = np.zeros(64, np.float32)
    assert "smem" in refused(kernel, x, 16, True)
    assert "2, 4, 8 or 16 bytes" in refused(kernel, x, 32, False)
    assert "hold whole elements" in refused(kernel, x, 2, False)


def test_with_lead_takes_one_mode():
    @mo.kernel
    def kernel(x):
        mo.with_lead(x, 3)

    assert "one mode" in refused(kernel, np.zeros((4, 4), np.float32))


def test_what_lies_in_front_is_judged():
    """Elements before the tensor are none of it."""
    @mo.kernel
    def kernel(out, x):
        row = mo.with_lead(x[1, None], 2)
        out[mo.thread_idx().x] = row[mo.thread_idx().x]

    out, x = np.zeros(4, np.float32), np.zeros((2, 8), np.float32)
    report = mo.check(kernel)[1, 4](out, x)
    assert "B1" in {finding.code for finding in report.findings}
