"""Accumulators as rows and columns, rows folded across threads, and accumulators as operand A of the next product."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.tensor.accumulators import row_lanes

BF16, F16, F32 = mo.bfloat16, mo.float16, mo.float32
PRODUCTS = {  # name: tiled MMA, tile, whether rows lie in one warp
    "m16n8k16": (mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32BF16BF16F32_TN, mo.make_layout((4, 1))), (128, 32)),
    "m16n8k8": (mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.make_layout((2, 1))), (32, 24)),
    "m8n8k4": (mo.make_tiled_mma(mo.mma.SM80_8x8x4_F64F64F64F64_TN, mo.make_layout((2, 1))), (32, 16)),
    "permuted": (mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 1)), (32, 32, 16)),
                 (64, 64)),
    "rows apart": (mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 1)),
                                     (mo.make_layout((16, 2, 2), (1, 32, 16)),)), (64, 16)),
    "wgmma 8": (mo.make_tiled_mma(mo.mma.wgmma(BF16, BF16, F32, 8)), (64, 8)),
    "wgmma 64": (mo.make_tiled_mma(mo.mma.wgmma(BF16, BF16, F32, 64)), (128, 128)),
    "wgmma x 2": (mo.make_tiled_mma(mo.mma.wgmma(F16, F16, F32, 32), mo.make_layout((2, 1))), (128, 32)),
    "scalar": (mo.make_tiled_mma(mo.UniversalFMA(F32), mo.make_layout((4, 8), (8, 1))), (16, 32)),
    "scalar by columns": (mo.make_tiled_mma(mo.UniversalFMA(F32), mo.make_layout((4, 8))), (8, 16)),
    "quad pairs": (mo.make_tiled_mma(mo.mma.SM70_8x8x4_F32F16F16F32_TN, mo.make_layout((4, 1))), (32, 16)),
}


@mo.kernel
def rows_of(out, folds, C: mo.Static, kind: mo.Constexpr, mma):
    """What each thread's rows and columns are, and the fold of every row, which each of its threads writes."""
    tid = mo.thread_idx().x
    thr = mma.get_slice(tid)
    tCgC = thr.partition_C(C)
    acc = thr.make_fragment_C(tCgC)                             # (MMA, MMA_M, MMA_N)
    mo.copyto(acc, tCgC)
    view, top = mo.mn_view(acc, mma), mo.row_reduce(acc, kind, mma)
    places = mo.mn_view(mma.partition_fragment_C((mo.size(C, 0), mo.size(C, 1))), mma)
    for i in mo.static_range(mo.size(view, 0)):
        for j in mo.static_range(mo.size(view, 1)):
            out[tid, i, j] = view[i, j]
        folds[tid, i] = top[i]
    view[...] = view - top                                      # rows broadcast along columns
    places[...] = view
    mo.copyto(tCgC, acc)


@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_of_accumulators(name):
    mma, (M, N) = PRODUCTS[name]
    dtype = np.float64 if mma.op.c_dtype == mo.float64 else np.float32
    C = (np.arange(M)[:, None] * 1000.0 + np.random.default_rng(0).permutation(N)).astype(dtype)
    threads, start = mo.size(mma), C.copy()
    held = M * N // threads
    rows = M * len(row_members(mma)) // threads
    out, folds = np.full((threads, rows, held // rows), np.nan, dtype), np.full((threads, rows), np.nan, dtype)
    report = mo.check(rows_of)[1, threads](out, folds, C, "max", mma)
    assert report.ok, report
    assert (out // 1000 == out[:, :, :1] // 1000).all()                     # a row of the view is in one row of C
    assert (out % 1000 == out[:, :1] % 1000).all()                          # and a column in one column
    assert sorted(out.ravel()) == sorted(start.ravel())
    assert (folds == out[:, :, 0] // 1000 * 1000 + N - 1).all()
    assert (start - start.max(1, keepdims=True) == C).all()
    out, folds = out * 0, folds * 0
    rows_of[1, threads](out, folds, start.copy(), "sum", mma)
    assert (folds == start.sum(1)[(out[:, :, 0] // 1000).astype(int)]).all()


@mo.kernel
def places_of(out, C: mo.Static, mma):
    """The coordinates of each register, as the view of the partition's coordinates has them, beside its value."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    thr = mma.get_slice(tid)
    tCgC = thr.partition_C(C)
    acc = thr.make_fragment_C(tCgC)
    mo.copyto(acc, tCgC)
    view, places = mo.mn_view(acc, mma), mo.mn_view(thr.partition_C(mo.identity_tensor(mo.shape(C))), mma)
    assert mo.shape(view) == mo.shape(places)
    for i in mo.static_range(mo.size(view, 0)):
        for j in mo.static_range(mo.size(view, 1)):
            m, n = places[i, j]
            out[m + bx, n] = view[i, j]


@pytest.mark.parametrize("name", PRODUCTS)
def test_coordinates_of_accumulators(name):
    mma, tile = PRODUCTS[name]
    C = np.arange(tile[0] * tile[1]).reshape(tile).astype(np.float64 if mma.op.c_dtype == mo.float64 else np.float32)
    out = np.full_like(C, np.nan)
    assert mo.check(places_of)[1, mo.size(mma)](out, C, mma).ok
    assert (out == C).all()


@mo.kernel
def stored_by_rows(out, C: mo.Static, layout, mma):
    """Through shared memory, by rows and columns: the elements of memory that belong to each register."""
    thr, sC = mma.get_slice(mo.thread_idx().x), mo.shared_array(C.dtype, layout)        # (M, N)
    tCgC = thr.partition_C(C)
    acc = thr.make_fragment_C(tCgC)
    mo.copyto(acc, tCgC)
    view, shared, result = (mo.mn_view(t, mma) for t in (acc, thr.partition_C(sC), thr.partition_C(out)))
    for i in mo.static_range(mo.size(view, 0)):
        for j in mo.static_range(mo.size(view, 1)):
            shared[i, j] = view[i, j]
    for i in mo.static_range(mo.size(view, 0)):
        for j in mo.static_range(mo.size(view, 1)):
            result[i, j] = shared[i, j]


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_elements_of_memory(name, swizzled):
    mma, (M, N) = PRODUCTS[name]
    C = np.arange(M * N).reshape(M, N).astype(np.float64 if mma.op.c_dtype == mo.float64 else np.float32)
    out, plain = np.full_like(C, np.nan), mo.make_layout((M, N), (N, 1))
    layout = mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, plain) if swizzled else plain
    assert mo.check(stored_by_rows, lints=False)[1, mo.size(mma)](out, C, layout, mma).ok
    assert (out == C).all()


def test_coordinates_of_another_operand_are_refused():
    @mo.kernel
    def of_A(mma):
        mo.mn_view(mma.get_slice(mo.thread_idx().x).partition_A(mo.identity_tensor((64, 16))), mma)

    with pytest.raises(mo.TensorError, match=r"is no partition of TiledMMA.* mode 0 has 4 values") as caught:
        of_A.trace(PRODUCTS["m16n8k16"][0], block=128)
    assert "partition_C" in str(caught.value)


def row_members(mma):
    """How many threads share a row."""
    members = {0}
    for lane in row_lanes(mma):
        members |= {lane ^ other for other in members}
    return members


def test_the_lanes_of_a_row_follow_from_the_layouts():
    assert row_lanes(PRODUCTS["m16n8k16"][0]) == row_lanes(PRODUCTS["wgmma 64"][0]) == (1, 2)
    assert row_lanes(PRODUCTS["scalar"][0]) == (1, 2, 4) and row_lanes(PRODUCTS["scalar by columns"][0]) == (4, 8, 16)
    assert row_lanes(PRODUCTS["quad pairs"][0]) == (2,)


def test_accumulators_have_the_modes_of_cute():
    @mo.kernel
    def shapes(C: mo.Static, mma, columns: mo.Constexpr):
        acc = mma.partition_fragment_C((64, columns))
        made = mma.make_fragment_C(mma.get_slice(mo.thread_idx().x).partition_C(C))
        assert acc.shape == made.shape == ((2, 2, columns // 8), 1, 1)
        assert acc.layout == mo.make_layout(((2, 2, columns // 8), 1, 1))
        assert mo.mn_view(acc, mma).shape == ((2, 1), (2, columns // 8, 1))

    for columns in (8, 64, 256):
        mma = mo.make_tiled_mma(mo.mma.wgmma(BF16, BF16, F32, columns))
        shapes.trace(mo.TensorLike(F32, (64, columns)), mma, columns, block=128)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m16n8k16", "wgmma 64"])
def test_the_exchange_is_two_shuffles_a_row(name):
    mma, (M, N) = PRODUCTS[name]
    compiled = rows_of.compile(mo.TensorLike(F32, (128, 4, 64)), mo.TensorLike(F32, (128, 4)),
                               mo.TensorLike(F32, (M, N), (N, 1)), "max", mma, block=mo.size(mma), arch="sm_90a")
    rows = M // (mo.size(mma) // 4)
    assert compiled.source.count("__shfl_xor_sync") == 2 * rows and compiled.sass.count("SHFL.BFLY") == 2 * rows


def test_rows_of_a_product_that_is_under_way():
    @mo.kernel
    def early(out, A, B, layout: mo.Constexpr, mma, waits: mo.Constexpr):
        tid = mo.thread_idx().x
        sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)
        rows = mo.make_layout((64, 2))
        mo.copyto(mo.parallelize(sA, rows, tid), mo.parallelize(A, rows, tid))
        mo.copyto(mo.parallelize(sB, rows, tid), mo.parallelize(B, rows, tid))
        mo.fence_proxy_async()
        mo.sync_threads()
        thr, acc = mma.get_slice(tid), mma.partition_fragment_C((64, 64))
        mo.warpgroup_arrive()
        mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=False)
        mo.warpgroup_commit_batch()
        if waits:
            mo.warpgroup_wait(0)
        top = mo.row_reduce(acc, "max", mma)
        mo.warpgroup_wait(0)
        for i in mo.static_range(2):
            out[tid // 32 * 16 + tid % 32 // 4 + 8 * i] = top[i]

    A, B = (np.random.default_rng(i).integers(-3, 4, (64, 64)).astype(np.float16) for i in (0, 1))
    layout = mo.tile_to_shape(mo.smem_layout_atom(F16, "k"), (64, 64))
    mma, out = mo.make_tiled_mma(mo.mma.wgmma(F16, F16, F32, 64)), np.zeros(64, np.float32)
    assert mo.check(early)[1, 128](out, A, B, layout, mma, True).ok and (out == (A.astype(int) @ B.T).max(1)).all()
    report = mo.check(early)[1, 128](out, A, B, layout, mma, False)
    assert {finding.code[0] for finding in report.findings} == {"E"}


# --- operand A -------------------------------------------------------------------------------------------------------


def half(op, *atoms):
    return mo.make_tiled_mma(op, mo.make_layout(atoms or (1, 1)))


M16 = mo.mma.SM80_16x8x16_F32F16F16F32_TN
CHAINS = {  # name: the first product, the second one, M and N of the first
    "mma.sync": (half(M16, 4, 1), half(M16, 4, 1), (64, 32)),
    "several rows of atoms": (half(M16, 2, 1), half(M16, 2, 1), (128, 64)),
    "f16 accumulators": (half(mo.mma.SM80_16x8x16_F16F16F16F16_TN, 1, 1), half(M16, 1, 1), (32, 16)),
    "k of 8": (half(M16, 2, 1), half(mo.mma.SM80_16x8x8_F32F16F16F32_TN, 2, 1), (64, 40)),
    "wgmma": (half(mo.mma.wgmma(F16, F16, F32, 64)), half(mo.mma.wgmma(F16, F16, F32, 128, a_source="registers")),
              (64, 64)),
    "wgmma, two along N": (half(mo.mma.wgmma(F16, F16, F32, 32)),
                           half(mo.mma.wgmma(F16, F16, F32, 64, a_source="registers")), (128, 64)),
    "two warpgroups": (half(mo.mma.wgmma(F16, F16, F32, 64), 2, 1),
                       half(mo.mma.wgmma(F16, F16, F32, 64, a_source="registers"), 2, 1), (128, 64)),
    "wgmma to mma.sync": (half(mo.mma.wgmma(F16, F16, F32, 16)), half(M16, 4, 1), (64, 16)),
}


@mo.kernel
def as_A(out, X: mo.Static, first, second):
    """Each thread's A, once as the second product partitions X, once as the first one's accumulators."""
    tid = mo.thread_idx().x
    tCgX, tAgX = first.get_slice(tid).partition_C(X), second.get_slice(tid).partition_A(X)
    acc, A = mo.make_fragment_like(tCgX, mo.float16), second.make_fragment_A(tAgX)
    mo.copyto(acc, tCgX)
    mo.copyto(A, tAgX)
    P = mo.accumulators_as_A(acc, first, second)                # (MMA, MMA_M, MMA_K)
    assert [mo.size(P, mode) for mode in range(3)] == [mo.size(A, mode) for mode in range(3)]
    for i in mo.static_range(mo.size(A)):
        out[tid, i, 0] = A[i % mo.size(A, 0), i // mo.size(A, 0) % mo.size(A, 1), i // mo.size(A, 0) // mo.size(A, 1)]
        out[tid, i, 1] = P[i % mo.size(A, 0), i // mo.size(A, 0) % mo.size(A, 1), i // mo.size(A, 0) // mo.size(A, 1)]


@pytest.mark.parametrize("name", CHAINS)
def test_accumulators_are_in_place_as_A(name):
    first, second, (M, N) = CHAINS[name]
    X = np.random.default_rng(0).permutation(M * N).reshape(M, N).astype(np.float16)
    threads = mo.size(first)
    out = np.full((threads, M * N // threads, 2), np.nan, np.float16)
    report = mo.check(as_A)[1, threads](out, X, first, second)
    assert report.ok, report
    assert (out[:, :, 0] == out[:, :, 1]).all() and sorted(out[:, :, 0].ravel()) == sorted(X.ravel())


# --- what is refused -------------------------------------------------------------------------------------------------

TF32 = mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
FP8 = mo.mma.wgmma(mo.float8_e4m3fn, mo.float8_e4m3fn, F32, 32, a_source="registers")


@pytest.mark.parametrize(("first", "second", "dtype", "message"), [
    (half(TF32), half(TF32), mo.tfloat32, "a thread needs values that other threads hold"),
    (half(mo.mma.wgmma(mo.float8_e4m3fn, mo.float8_e4m3fn, F32, 64)), half(FP8), mo.float8_e4m3fn,
     "a thread needs values that other threads hold"),
    (half(M16, 2, 2), half(M16, 2, 2), F16, "a thread needs values that other threads hold"),
    (half(M16, 2, 1), half(M16, 4, 1), F16, "the one has 64 threads and the other 128"),
    (half(M16, 1, 1), half(M16, 1, 1), F32, "holds float32, and A of"),
    (half(M16, 4, 1), half(mo.mma.wgmma(F16, F16, F32, 64)), F16, "takes A from shared memory"),
])
def test_what_is_no_A(first, second, dtype, message):
    @mo.kernel
    def wrong(x, first, second, dtype: mo.Constexpr):
        acc = first.partition_fragment_C((64, 64))
        mo.accumulators_as_A(mo.make_fragment_like(acc, dtype), first, second)

    with pytest.raises(mo.TensorError) as refused:
        wrong.trace(mo.TensorLike(F32, (4,)), first, second, dtype, block=mo.size(first))
    assert message in refused.value.message


def test_accumulators_of_too_few_columns():
    @mo.kernel
    def wrong(x, mma):
        mo.accumulators_as_A(mma.partition_fragment_C((16, 8)).to(mo.float16), mma, mma)

    with pytest.raises(mo.TensorError, match="8 accumulators along K are no multiple of 16"):
        wrong.trace(mo.TensorLike(F32, (4,)), half(M16), block=32)


@pytest.mark.parametrize(("mma", "message"), [
    (half(M16, 2, 2), "the warps 0, 2 hold parts of the same rows"),
    (mo.make_tiled_mma(mo.UniversalFMA(F32), mo.make_layout((4, 64), (64, 1))), "the warps 0, 1 hold parts"),
    (half(M16, 1, 1, 2), "has 2 atoms along K, each with a part of every sum"),
])
def test_rows_of_several_warps_are_refused(mma, message):
    @mo.kernel
    def wrong(x, mma):
        mo.row_reduce(mma.partition_fragment_C((64, 64)), "max", mma)

    with pytest.raises(mo.TensorError) as refused:
        wrong.trace(mo.TensorLike(F32, (4,)), mma, block=mo.size(mma))
    assert message in refused.value.message


@pytest.mark.parametrize("call", [
    lambda x, acc, mma: mo.mn_view(x, mma), lambda x, acc, mma: mo.mn_view(acc[None, None, 0], mma),
    lambda x, acc, mma: mo.row_reduce(mo.fragment((2, 2, 2), F32), "add", mma), lambda x, acc, mma: mo.mn_view(acc, 3),
    lambda x, acc, mma: mo.row_reduce(acc, "mean", mma)])
def test_what_is_no_accumulator(call):
    @mo.kernel
    def wrong(x, mma, call: mo.Constexpr):
        call(x, mma.partition_fragment_C((64, 64)), mma)

    with pytest.raises(mo.MoyeError):
        wrong.trace(mo.TensorLike(F32, (4,)), half(M16), call, block=32)
