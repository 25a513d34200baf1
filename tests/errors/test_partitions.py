"""Tiled copies and tiled MMAs that do not fit the tile, each other or the block: classes A1 to A12, B10 and C6."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

ATOM = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
FMA = mo.UniversalFMA(mo.float32)
MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)


def layout(text):
    return mo.Layout.parse(text)


def tile(shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=np.float64).astype(dtype).reshape(shape)


def nans(shape):
    return np.full(shape, np.nan, np.float32)


@mo.kernel
def move(Y, X, copy_D, copy_S, named):
    tid = mo.thread_idx().x
    tXgX = copy_S.get_slice(tid).partition_S(X)
    tYgY = copy_D.get_slice(tid).partition_D(Y)
    mo.copyto(named, tYgY, tXgX)


@mo.kernel
def move_by_registers(Y: mo.Static, X: mo.Static, copy_D, copy_S):
    tid = mo.thread_idx().x
    tXgX = copy_S.get_slice(tid).partition_S(X)
    tYgY = copy_D.get_slice(tid).partition_D(Y)
    tXrX = mo.make_fragment_like(tXgX)
    mo.copyto(copy_S, tXrX, tXgX)
    doubled = tXrX * 2.0
    mo.copyto(copy_D, tYgY, doubled)


@mo.kernel
def product(C: mo.Static, A: mo.Static, B: mo.Static, mma, mma_out, scale):
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid)
    tCrC = mma.partition_fragment_C((32, 32))
    tCrC.fill(0)
    mo.gemm(mma, thr_mma.partition_A(A), thr_mma.partition_B(B), tCrC)
    if scale:
        tCrC[...] = tCrC * 2.0
    tCgC = mma_out.get_slice(tid).partition_C(C)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def views(Y, inner, outer):
    tid = mo.thread_idx().x
    staged = mo.shared_array(Y.dtype, inner)
    part = staged.with_layout(outer)
    part[tid] = Y[tid]


@mo.kernel
def composes(Y, inner, outer):
    staged = mo.composition(mo.shared_array(Y.dtype, inner), outer)
    staged[mo.thread_idx().x] = Y[mo.thread_idx().x]


@mo.kernel
def swizzled(Y, sizes: mo.Constexpr, align: mo.Constexpr):
    tid = mo.thread_idx().x
    first = mo.shared_array(mo.float32, sizes)
    second = mo.shared_array(mo.float16, mo.smem_layout_atom(mo.float16, "k"), align=align)
    if tid == 0:
        first[0] = 0.0
    second[0, tid] = 0.0
    Y[tid] = second[0, tid].to(mo.float32)


@mo.kernel
def bytes_of(Y, X):
    Y[0] = mo.recast(X, mo.uint8)[0].to(mo.float32)


@mo.kernel
def halves(Y, n):
    mo.assume(n % 2 == 0, "an {even} number")
    Y[0] = n // 2


@mo.kernel
def warps(C: mo.Static, A: mo.Static, B: mo.Static, mma, guarded: mo.Constexpr):
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid % 32)
    tCrC = mma.partition_fragment_C((16, 8))
    tCrC.fill(0)
    if guarded:
        if tid < 32:
            mo.gemm(mma, thr_mma.partition_A(A), thr_mma.partition_B(B), tCrC)
    else:
        mo.gemm(mma, thr_mma.partition_A(A), thr_mma.partition_B(B), tCrC)
    if tid < 32:
        mo.copyto(thr_mma.partition_C(C), tCrC)


@mo.kernel
def pool(Y, stages: mo.Constexpr):
    sA = mo.shared_array(mo.float32, (8192, stages))
    sB = mo.shared_array(mo.float32, (1024, stages))
    tid = mo.thread_idx().x
    sA[tid, 0] = Y[tid]
    sB[tid, 0] = Y[tid]
    Y[tid] = sA[tid, 0] + sB[tid, 0]


@mo.kernel
def load(A: mo.Static, mma, copy, copy_S, fixed: mo.Constexpr):
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.make_layout((32, 16), (24, 1)))
    sA[tid % 32, tid // 32] = A[tid % 32, tid // 32]
    mo.sync_threads()
    thr_copy = copy.get_slice(tid)
    tCrA = mma.make_fragment_A(mma.get_slice(tid).partition_A(sA))
    if fixed:
        tCrA = thr_copy.retile_D(tCrA)
    mo.copyto(copy, tCrA, copy_S.get_slice(tid).partition_S(sA))


ROWS = mo.make_tiled_copy(ATOM, layout("(8,8):(8,1)"))
COLUMNS = mo.make_tiled_copy(ATOM, layout("(8,8):(1,8)"))
GRID = mo.make_tiled_mma(FMA, layout("(4,4):(1,4)"))
GRID_T = mo.make_tiled_mma(FMA, layout("(4,4):(4,1)"))


def hand_made(tv, tiler):
    return mo.TiledCopy(ATOM, layout(tv), tiler)


def moves(copy, source=None, named=None, shape=(16, 16), block=64):
    return lambda Y: move[1, block](Y, tile(shape), copy, source or copy, named or copy)


def matrices(atoms):
    """An MMA of two warps and the ldmatrix copy of its A."""
    mma = mo.make_tiled_mma(MMA.op, mo.make_layout(atoms))
    return mma, mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4), mo.float16), mma)


ALONG_M, ALONG_N = matrices((2, 1, 1)), matrices((1, 2, 1))


REFUSED = {
    "ldmatrix_of_another_copy": ((1,), lambda Y: load[1, 64](tile((32, 16), np.float16), *ALONG_M, ALONG_N[1], True)),
    "values_of_two_threads": ((16, 16), moves(hand_made("(64,2):(1,1)", (16, 8)))),
    "threads_of_one_element": ((16, 16), moves(mo.make_tiled_copy(ATOM, layout("(8,8):(2,16)")))),
    "tile_half_copied": ((16, 16), moves(hand_made("(64,1):(1,0)", (16, 8)))),
    "partitions_of_two_copies": ((16, 16), moves(ROWS, COLUMNS)),
    "copy_names_the_source": ((16, 16), moves(ROWS, COLUMNS, COLUMNS)),
    "registers_of_another_copy": ((16, 16), lambda Y: move_by_registers[1, 64](Y, tile((16, 16)), ROWS, COLUMNS)),
    "accumulators_of_another_mma": ((32, 32), lambda C: product[1, 16](C, tile((32, 8)), tile((32, 8)), GRID, GRID_T,
                                                                       0)),
    "scaled_accumulators_of_another_mma": ((32, 32), lambda C: product[1, 16](C, tile((32, 8)), tile((32, 8)), GRID,
                                                                              GRID_T, 1)),
    "view_past_its_allocation": ((32,), lambda Y: views[1, 32](Y, layout("32:1"), layout("32:2"))),
    "composition_past_its_extent": ((32,), lambda Y: composes[1, 32](Y, layout("32:1"), layout("33:1"))),
    "swizzle_span_does_not_divide": ((64,), lambda Y: swizzled[1, 64](Y, 12, 16)),
    "assumption_is_broken": ((32,), lambda Y: halves[1, 1](Y, 7)),
    "warp_of_16": ((16, 8), lambda C: warps[1, 48](C, tile((16, 16), np.float16), tile((8, 16), np.float16), MMA,
                                                   False)),
    "pool_of_8_stages": ((128,), lambda Y: pool[1, 128](Y, 8)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, refuses):
    shape, call = REFUSED[name]
    Y = nans(shape)
    refuses(name, lambda: call(Y), Y)


def test_pool_beyond_an_architecture(refuses, monkeypatch):
    monkeypatch.setenv("MOYE_ARCH", "sm_86")
    Y = nans((128,))
    refuses("pool_of_4_stages_on_sm_86", lambda: pool[1, 128](Y, 4), Y)


def test_recast_beyond_32_bits(refuses):
    def call():
        with mo.compile_only(trace_only=True):
            bytes_of[1, 1](nans((1,)), mo.TensorLike(mo.float32, ((1 << 29) + 1,)))

    refuses("recast_beyond_32_bits", call)


def test_compiled_for_smaller_arrays(refuses):
    compiled = pool.compile(mo.TensorLike(mo.float32, (128,)), 1, block=128, arch="sm_90a")
    refuses("compiled_for_32_bit_indices",
            lambda: compiled.prepare(mo.TensorLike(mo.float32, (1 << 32,)), 1, grid=1))
    refuses("compiled_for_unit_strides",
            lambda: compiled.prepare(mo.TensorLike(mo.float32, (128,), (2,)), 1, grid=1))


def test_prepared_for_aligned_arrays(refuses):
    raw = np.zeros(256, np.float32)
    start = -raw.ctypes.data // 4 % 4
    aligned, other = raw[start:start + 32], raw[start + 33:start + 65]
    prepared = halves.prepare(aligned, 8, grid=1, block=1)
    refuses("prepared_for_aligned_arrays", lambda: prepared.update(Y=other))
    refuses("prepared_for_even_numbers", lambda: prepared.update(n=5))


# --- no false alarms -------------------------------------------------------------------------------------------------


def same(Y, X):
    assert np.array_equal(Y, X)


@pytest.mark.parametrize("other", [mo.make_tiled_copy(ATOM, layout("(8,8):(8,1)")),
                                   hand_made("((2,4,8),1):((8,16,1),0)", (8, 8))])
def test_equal_functions_are_the_same(other):
    X, Y = tile((16, 16)), nans((16, 16))
    move[1, 64](Y, X, ROWS, other, ROWS)
    same(Y, X)


@pytest.mark.parametrize("retiled", [True, False])
def test_ldmatrix_of_its_own_copy(retiled):
    load.trace(tile((32, 16), np.float16), *ALONG_M, ALONG_M[1], retiled, block=64)


def test_a_plain_copy_may_permute():
    @mo.kernel
    def permute(Y, X, copy_D, copy_S):
        tid = mo.thread_idx().x
        mo.copyto(copy_D.get_slice(tid).partition_D(Y), copy_S.get_slice(tid).partition_S(X))

    X, Y = tile((8, 8)), nans((8, 8))
    permute[1, 64](Y, X, ROWS, COLUMNS)
    same(Y, X.T)


def test_registers_may_be_used_again():
    @mo.kernel
    def twice(Y: mo.Static, X: mo.Static, first, second):
        tid = mo.thread_idx().x
        held = mo.make_fragment_like(first.get_slice(tid).partition_S(X))
        for copy in (first, second):
            thr_copy = copy.get_slice(tid)
            mo.copyto(copy, held, thr_copy.partition_S(X))
            mo.copyto(copy, thr_copy.partition_D(Y), held)
            mo.sync_threads()                           # other threads write the element in the next trip

    X, Y = tile((8, 8)), nans((8, 8))
    twice[1, 64](Y, X, ROWS, COLUMNS)
    same(Y, X)


def test_a_source_may_be_broadcast():
    @mo.kernel
    def spread(Y, X, copy):
        tid = mo.thread_idx().x
        thr_copy = copy.get_slice(tid)
        rows = X.with_layout(mo.make_layout((16, 16), (0, 1)))
        mo.copyto(copy, thr_copy.partition_D(Y), thr_copy.partition_S(rows))

    X, Y = tile((16,)), nans((16, 16))
    spread[1, 64](Y, X, ROWS)
    same(Y, np.broadcast_to(X, (16, 16)))


def test_accumulators_belong_to_the_mma_that_wrote_them():
    @mo.kernel
    def two(C: mo.Static, A: mo.Static, B: mo.Static, first, second):
        tid = mo.thread_idx().x
        tCrC = first.partition_fragment_C((32, 32))
        for mma in (first, second):
            thr_mma = mma.get_slice(tid)
            tCrC.fill(0)
            mo.gemm(mma, thr_mma.partition_A(A), thr_mma.partition_B(B), tCrC)
            mo.copyto(thr_mma.partition_C(C), tCrC)
            mo.sync_threads()                           # other threads write the element in the next trip

    A, B, C = tile((32, 8)), tile((32, 8)), nans((32, 32))
    two[1, 16](C, A, B, GRID, GRID_T)
    same(C, A @ B.T)


def test_other_mma_of_the_same_partition():
    named = mo.make_tiled_mma(FMA, layout("(4,4):(1,4)"), permutations=(4, 4))
    A, B, C = tile((32, 8)), tile((32, 8)), nans((32, 32))
    product[1, 16](C, A, B, GRID, named, 0)
    same(C, A @ B.T)


def test_retiled_accumulators_are_no_others():
    @mo.kernel
    def stored(C: mo.Static, A: mo.Static, B: mo.Static, mma, copy):
        tid = mo.thread_idx().x
        thr_mma = mma.get_slice(tid)
        tCrC = mma.partition_fragment_C((16, 8))
        tCrC.fill(0)
        mo.gemm(mma, thr_mma.partition_A(A), thr_mma.partition_B(B), tCrC)
        thr_copy = copy.get_slice(tid)
        mo.copyto(copy, thr_copy.partition_D(C), thr_copy.retile_S(tCrC))

    copy = mo.make_tiled_copy_C(mo.CopyAtom(mo.UniversalCopy(mo.float64), mo.float32), MMA)
    A, B, C = tile((16, 16), np.float16) % 8, tile((8, 16), np.float16) % 8, nans((16, 8))
    stored[1, 32](C, A, B, MMA, copy)
    same(C, A.astype(np.float32) @ B.T.astype(np.float32))


def test_a_warp_instruction_behind_a_condition():
    A, B, C = tile((16, 16), np.float16) % 8, tile((8, 16), np.float16) % 8, nans((16, 8))
    with pytest.raises(mo.UnsupportedError):            # by the simulator: tracing has no objection
        warps[1, 48](C, A, B, MMA, True)
    warps[1, 64](C, A, B, MMA, True)
    same(C, A.astype(np.float32) @ B.T.astype(np.float32))


def test_a_recast_within_reach():
    X, Y = tile((4,)), nans((1,))
    bytes_of[1, 1](Y, X)
    same(Y, X.view(np.uint8)[:1])


def test_a_swizzled_tile_where_its_span_divides():
    Y = nans((64,))
    swizzled[1, 64](Y, 256, 16)
    same(Y, np.zeros(64))


def test_check_tells_a_coded_error_as_a_finding():
    X, Y = tile((16, 16)), nans((16, 16))
    report = mo.check(move)[1, 64](Y, X, ROWS, COLUMNS, COLUMNS)
    assert [found.code for found in report.findings] == ["A5"] and not report.ok
    assert report.findings[0].lines and report.findings[0].hint
    with pytest.raises(mo.SimulationError, match=r"^A5: "):
        report.raise_if_any()
