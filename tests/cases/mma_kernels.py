"""Matrix products by every tensor-core operation, for ``CASES``: 2x2 atoms a warp, fragments straight from memory.

In: nothing.  Out: ``WARP_MMAS`` and a case ``mma-<CuTe's name>`` for each: D = A * B^T + C over a loop of k-tiles;
kernels of one instruction, of raw tf32 operands, and of fragments that a loop carries.
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
    thr, op = mma.get_slice(tid), mma.op
    if op.a_dtype.bits < 8:                                     # arrays of 32-bit words
        A, B = mo.recast(A, op.a_dtype), mo.recast(B, op.b_dtype)
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
    if dtype.bits < 8:
        return rng.integers(0, 1 << 32, (shape[0], shape[1] * dtype.bits // 32), np.uint32)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype.numpy)
    x = rng.standard_normal(shape).astype(np.float32 if dtype.bits < 64 else np.float64)
    if dtype == mo.tfloat32:
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(numpy_of(dtype))


def taken_out(x, dtype):
    """The elements of an array of integers, or of words that hold several."""
    if dtype.bits >= 8:
        return x.astype(np.int64)
    mask = (1 << dtype.bits) - 1
    parts = x.astype(np.int64)[..., None] >> np.arange(0, 32, dtype.bits) & mask
    signed = np.where(parts > mask >> 1, parts - mask - 1, parts) if dtype.is_signed else parts
    return signed.reshape(len(x), -1)


PRODUCTS = {
    "mul": lambda a, b: a @ b.T,
    "xor": lambda a, b: (a[:, None] ^ b[None]).sum(-1),
    "and": lambda a, b: (a[:, None] & b[None]).sum(-1),
}


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


def overflows(args):
    """Whether sums of integers leave 32 bits, which the checker tells of unless they saturate."""
    op, A, B, C = args[4].op, *args[1:4]
    if not op.d_dtype.is_integer or op.saturate:
        return False
    total, k = C.astype(np.int64), op.shape_mnk[2]
    A, B = taken_out(A, op.a_dtype), taken_out(B, op.b_dtype)
    for i in range(0, A.shape[1], k):
        total = total + PRODUCTS[op.product](A[:, i:i + k], B[:, i:i + k])
        if (total != total.astype(np.int32)).any():
            return True
    return False


def expected(args):
    """float64, or integers that wrap or saturate at each instruction."""
    out, A, B, C, mma = args[:5]
    if mma.op.d_dtype.kind is Kind.FLOAT:
        return {0: (A.astype(np.float64) @ B.astype(np.float64).T + C.astype(np.float64)).astype(out.dtype)}
    total, k = C.astype(np.int64), mma.op.shape_mnk[2]
    A, B = taken_out(A, mma.op.a_dtype), taken_out(B, mma.op.b_dtype)
    for i in range(0, A.shape[1], k):
        total = total + PRODUCTS[mma.op.product](A[:, i:i + k], B[:, i:i + k])
        total = np.clip(total, -2**31, 2**31 - 1) if mma.op.saturate else total.astype(np.int32).astype(np.int64)
    return {0: total.astype(np.int32)}


@mo.kernel
def one_tile(D, A, B, C, mma):
    """D = A * B + C: one instruction of a warp (or one of each of its quad-pairs), D apart from C."""
    thr, op = mma.get_slice(mo.thread_idx().x), mma.op
    if op.a_dtype.bits < 8:
        A, B = mo.recast(A, op.a_dtype), mo.recast(B, op.b_dtype)
    bM, bN, bK = mma.tile_size(0), mma.tile_size(1), mma.tile_size(2)
    tCgC = thr.partition_C(mo.tile(C, (bM, bN), (0, 0)))
    tCgA = thr.partition_A(mo.tile(A, (bM, bK), (0, 0)))
    tCgB = thr.partition_B(mo.tile(B, (bN, bK), (0, 0)))
    a, b = thr.make_fragment_A(tCgA), thr.make_fragment_B(tCgB)
    c, d = thr.make_fragment_C(tCgC), thr.make_fragment_C(tCgC)
    mo.copyto(a, tCgA)
    mo.copyto(b, tCgB)
    mo.copyto(c, tCgC)
    mo.gemm(mma, d, a, b, c)
    mo.copyto(thr.partition_C(mo.tile(D, (bM, bN), (0, 0))), d)


def one_tile_arguments(op, rng, order="C"):
    mma = mo.make_tiled_mma(op, mo.make_layout((1, 1) if op.threads == 32 else (2, 2)))
    M, N, K = (mma.tile_size(d) for d in range(3))
    A, B = data(rng, (M, K), op.a_dtype), data(rng, (N, K), op.b_dtype)
    if op.a_dtype.bits >= 8:
        A, B = (np.asarray(x, order=order) for x in (A, B))
    return [np.zeros((M, N), numpy_of(op.d_dtype)), A, B, start(rng, (M, N), op.c_dtype), mma]


@mo.kernel
def raw_tf32(D: mo.Static, A: mo.Static, B: mo.Static, mma):
    """The bits of float32 as tf32, without a conversion."""
    thr = mma.get_slice(mo.thread_idx().x)
    tCgA = thr.partition_A(mo.recast(A, mo.tfloat32))
    tCgB = thr.partition_B(mo.recast(B, mo.tfloat32))
    tCgD = thr.partition_C(D)
    a, b, d = thr.make_fragment_A(tCgA), thr.make_fragment_B(tCgB), thr.make_fragment_C(tCgD)
    mo.copyto(a, tCgA)
    mo.copyto(b, tCgB)
    d.fill(0)
    mo.gemm(mma, a, b, d)
    mo.copyto(tCgD, d)


@mo.kernel
def buffered(D: mo.Static, A: mo.Static, B: mo.Static, mma, bK: mo.Constexpr):
    """Fragments of the next k-tile are loaded before the product of this one: registers live across iterations."""
    bM, bN = 2 * mma.tile_size(0), 2 * mma.tile_size(1)
    thr = mma.get_slice(mo.thread_idx().x)
    tCgA = thr.partition_A(mo.tile(A, (bM, bK), (0, None)))     # (MMA, MMA_M, MMA_K, k)
    tCgB = thr.partition_B(mo.tile(B, (bN, bK), (0, None)))     # (MMA, MMA_N, MMA_K, k)
    tCgD = thr.partition_C(mo.tile(D, (bM, bN), (0, 0)))        # (MMA, MMA_M, MMA_N)
    c = thr.make_fragment_C(tCgD)
    a, b = thr.make_fragment_A(tCgA[:, :, :, 0]), thr.make_fragment_B(tCgB[:, :, :, 0])
    more_a, more_b = mo.make_fragment_like(a), mo.make_fragment_like(b)
    c.fill(0)
    mo.copyto(a, tCgA[:, :, :, 0])
    mo.copyto(b, tCgB[:, :, :, 0])
    last = mo.size(tCgA, 3) - 1
    for k in range(last):
        mo.copyto(more_a, tCgA[:, :, :, k + 1])
        mo.copyto(more_b, tCgB[:, :, :, k + 1])
        mo.gemm(mma, a, b, c)
        mo.copyto(a, more_a)
        mo.copyto(b, more_b)
    mo.gemm(mma, a, b, c)
    mo.copyto(tCgD, c)


@mo.kernel
def staged(D, A: mo.Static, B: mo.Static, mma):
    """Operands in shared memory: each k of the tile is loaded into registers before its products."""
    tid = mo.thread_idx().x
    thr, op = mma.get_slice(tid), mma.op
    sA, sB = (mo.shared_array(x.dtype, mo.make_layout(x.shape, (mo.size(x, 1), 1))) for x in (A, B))
    threads = mo.make_layout((8, 8))
    for shared, source in ((sA, A), (sB, B)):
        mo.copyto(mo.parallelize(shared, threads, tid), mo.parallelize(source, threads, tid))
    mo.sync_threads()
    if op.a_dtype.bits < 8:
        sA, sB = mo.recast(sA, op.a_dtype), mo.recast(sB, op.b_dtype)
    tCgD = thr.partition_C(mo.tile(D, (2 * mma.tile_size(0), 2 * mma.tile_size(1)), (0, 0)))
    c = thr.make_fragment_C(tCgD)
    c.fill(0)
    mo.gemm(mma, thr.partition_A(sA), thr.partition_B(sB), c)
    mo.copyto(tCgD, c)


@mo.kernel
def scattered(D: mo.Static, A: mo.Static, B: mo.Static, C: mo.Static, mma):
    """Fragments whose values do not lie side by side: registers are packed for the instruction and taken apart."""
    thr, op = mma.get_slice(mo.thread_idx().x), mma.op
    parts = thr.partition_A(A), thr.partition_B(B), thr.partition_C(C)
    a, b, c = (mo.fragment(mo.make_layout(part.shape, reverse(part.shape)), dtype)
               for part, dtype in zip(parts, (op.a_dtype, op.b_dtype, op.c_dtype), strict=True))
    for fragment, part in zip((a, b, c), parts, strict=True):
        mo.copyto(fragment, part)
    mo.gemm(mma, a, b, c)
    mo.copyto(thr.partition_C(D), c)


def reverse(shape):
    """Row-major strides."""
    leaves, total = [], 1
    for extent in reversed(mo.flatten(mo.make_layout(shape)).shape):
        leaves.insert(0, total)
        total *= extent
    return _nested(shape, iter(leaves))


def _nested(shape, leaves):
    return tuple(_nested(s, leaves) for s in shape) if isinstance(shape, tuple) else next(leaves)


for _op in WARP_MMAS:
    add(f"mma-{_op}", mma_kernel, arguments(_op), expected, sizes=(1,), grid=lambda n: BLOCKS,
        tolerance=0 if _op.d_dtype.is_integer else 10 * TOLERANCE[_op.d_dtype.name], lossy=_op.d_dtype.is_integer)
