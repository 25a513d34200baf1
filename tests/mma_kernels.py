"""Matrix products by every tensor-core operation, for ``CASES``: 2x2 atoms a warp, fragments straight from memory.

In: nothing.  Out: ``WARP_MMAS`` and a case ``mma-<CuTe's name>`` for each: D = A * B^T + C over a loop of k-tiles.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye.dtypes import Kind
from ops_kernels import TOLERANCE, add, numpy_of, poison

WARP_MMAS = tuple(mo.mma.ALL.values())
BLOCKS, DEPTH = 2, 3


@mo.kernel
def mma_kernel(D, A, B, C, mma, bK: mo.Constexpr):
    """Blocks along M; two atoms along M and N for each warp, bK values of k at a time."""
    bM, bN = 2 * mma.tile_size(0), 2 * mma.tile_size(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    thr = mma.get_slice(tid)
    tCgA = thr.partition_A(mo.tile(A, (bM, bK), (bx, None)))    # (MMA, MMA_M, MMA_K, k)
    tCgB = thr.partition_B(mo.tile(B, (bN, bK), (0, None)))     # (MMA, MMA_N, MMA_K, k)
    tCgC = thr.partition_C(mo.tile(C, (bM, bN), (bx, 0)))       # (MMA, MMA_M, MMA_N)
    tCgD = thr.partition_C(mo.tile(D, (bM, bN), (bx, 0)))       # (MMA, MMA_M, MMA_N)
    tCrA = thr.make_fragment_A(tCgA[:, :, :, 0])                # (MMA, MMA_M, MMA_K)
    tCrB = thr.make_fragment_B(tCgB[:, :, :, 0])                # (MMA, MMA_N, MMA_K)
    tCrC = thr.make_fragment_C(tCgC)                            # (MMA, MMA_M, MMA_N)
    mo.copyto(tCrC, tCgC)
    for k in range(mo.size(tCgA, 3)):
        mo.copyto(tCrA, tCgA[:, :, :, k])
        mo.copyto(tCrB, tCgB[:, :, :, k])
        mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgD, tCrC)


def tiled(op):
    """Two warps along M, or eight quad-pairs."""
    return mo.make_tiled_mma(op, mo.make_layout((2, 1) if op.threads == 32 else (4, 2)))


def data(rng, shape, dtype):
    """Normal numbers that the dtype holds exactly, or all of its integers."""
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype.numpy)
    x = rng.standard_normal(shape).astype(np.float32 if dtype.bits < 64 else np.float64)
    if dtype == mo.tfloat32:
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(numpy_of(dtype))


def start(rng, shape, dtype):
    """Accumulators: integers small or so near both ends that sums leave the 32 bits."""
    if not dtype.is_integer:
        return data(rng, shape, dtype)
    ends = np.array([0, 1000, 2**31 - 20000, 20000 - 2**31])
    return (ends[rng.integers(0, 4, shape)] + rng.integers(-1000, 1000, shape)).astype(np.int32)


def depth(op):
    """K of a k-tile: two instructions."""
    return 2 * op.shape_mnk[2]


def arguments(op):
    def make(rng, n):
        mma = tiled(op)
        M, N, K = BLOCKS * 2 * mma.tile_size(0), 2 * mma.tile_size(1), DEPTH * depth(op)
        return [poison((M, N), op.d_dtype), data(rng, (M, K), op.a_dtype), data(rng, (N, K), op.b_dtype),
                start(rng, (M, N), op.c_dtype), mma, depth(op)]
    return make


def expected(args):
    """float64, or integers that wrap or saturate at each instruction."""
    out, A, B, C, mma = args[:5]
    if mma.op.d_dtype.kind is Kind.FLOAT:
        return {0: (A.astype(np.float64) @ B.astype(np.float64).T + C.astype(np.float64)).astype(out.dtype)}
    total, k = C.astype(np.int64), mma.op.shape_mnk[2]
    A, B = A.astype(np.int64), B.astype(np.int64)
    for i in range(0, A.shape[1], k):
        total = total + A[:, i:i + k] @ B[:, i:i + k].T
        total = np.clip(total, -2**31, 2**31 - 1) if mma.op.saturate else total.astype(np.int32).astype(np.int64)
    return {0: total.astype(np.int32)}


for _op in WARP_MMAS:
    add(f"mma-{_op}", mma_kernel, arguments(_op), expected, sizes=(1,), grid=lambda n: BLOCKS,
        tolerance=0 if _op.d_dtype.is_integer else 10 * TOLERANCE[_op.d_dtype.name])
