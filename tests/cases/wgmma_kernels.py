"""Matrix products by wgmma without TMA: shared memory is filled by plain stores, then shown to the tensor cores.

In: an operation, how its tiles lie.  Out: kernels, ``CASES`` (every family, source and majors; several N, swizzles,
atoms and tiles), their arguments and expected results: D = A * B^T + C over a loop of k-tiles in two stages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import mma_kernels
import moye as mo
from moye.atoms import sm90
from ops_kernels import poison

DEPTH, STAGES = 3, 2


@mo.kernel
def wgmma_kernel(D: mo.Static, A: mo.Static, B: mo.Static, C: mo.Static, mma, sA_layout, sB_layout,
                 add_c: mo.Constexpr):
    """One block; one group stays in flight, unless A is in registers, which the next k-tile overwrites."""
    op, tid = mma.op, mo.thread_idx().x
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    if op.a_dtype == mo.tfloat32:
        A, B = mo.recast(A, mo.tfloat32), mo.recast(B, mo.tfloat32)
    sA = mo.shared_array(op.a_dtype, sA_layout)                 # (bM, bK, stages)
    sB = mo.shared_array(op.b_dtype, sB_layout)                 # (bN, bK, stages)
    gA = mo.tile(A, (bM, bK), (0, None))                        # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (0, None))                        # (bN, bK, k)
    threads = mo.make_layout((8, mo.size(mma) // 8))
    thr = mma.get_slice(tid)
    tCsA = thr.partition_A(sA)                                  # (MMA, MMA_M, MMA_K, stages)
    tCsB = thr.partition_B(sB)                                  # (MMA, MMA_N, MMA_K, stages)
    tCrB = thr.make_fragment_B(tCsB)
    tCrA = thr.make_fragment_A(tCsA) if op.shared == "ab" else thr.make_fragment_A(tCsA[:, :, :, 0])
    tCgC = thr.partition_C(C)                                   # (MMA, MMA_M, MMA_N)
    acc = mma.partition_fragment_C((bM, bN))
    if add_c:
        mo.copyto(acc, tCgC)
    for k in range(mo.size(gA, 2)):
        stage = k % STAGES
        mo.copyto(mo.parallelize(sA[:, :, stage], threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sB[:, :, stage], threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
        mo.fence_proxy_async()
        mo.sync_threads()
        if op.shared != "ab":
            mo.copyto(tCrA, tCsA[:, :, :, stage])
        mo.warpgroup_arrive()
        if op.shared == "ab":
            mo.gemm(mma, tCrA[:, :, :, stage], tCrB[:, :, :, stage], acc, accumulate=add_c or k > 0)
        else:
            mo.gemm(mma, tCrA, tCrB[:, :, :, stage], acc, accumulate=add_c or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1 if op.shared == "ab" else 0)
        mo.sync_threads()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(D), acc)


@mo.kernel
def one_k_at_a_time(D: mo.Static, A: mo.Static, B: mo.Static, mma, sA_layout, sB_layout):
    """Slices of one instruction along k, the first of which starts from zero; one k-tile."""
    op, tid = mma.op, mo.thread_idx().x
    sA, sB = mo.shared_array(op.a_dtype, sA_layout), mo.shared_array(op.b_dtype, sB_layout)
    threads = mo.make_layout((8, mo.size(mma) // 8))
    mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(A, threads, tid))
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(B, threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrA = thr.partition_fragment_A(sA)                         # (MMA, MMA_M, MMA_K)
    tCrB = thr.partition_fragment_B(sB)                         # (MMA, MMA_N, MMA_K)
    acc = mma.partition_fragment_C((mo.size(sA_layout, 0), mo.size(sB_layout, 0)))
    mo.warpgroup_arrive()
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], acc, accumulate=k > 0)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(D), acc)


@mo.kernel
def chained(D: mo.Static, A: mo.Static, B: mo.Static, E: mo.Static, first, second, layouts: mo.Constexpr):
    """D = (A * B^T) * E: accumulators of one product are A in registers of the next, as in attention."""
    tid = mo.thread_idx().x
    threads = mo.make_layout((8, 16))
    shared = [mo.shared_array(x.dtype, layout) for x, layout in zip((A, B, E), layouts, strict=True)]
    for s, g in zip(shared, (A, B, E), strict=True):
        mo.copyto(mo.parallelize(s, threads, tid), mo.parallelize(g, threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    sA, sB, sE = shared
    one, two = first.get_slice(tid), second.get_slice(tid)
    scores = first.partition_fragment_C((mo.size(A, 0), mo.size(B, 0)))
    out = second.partition_fragment_C((mo.size(A, 0), mo.size(E, 0)))
    mo.warpgroup_arrive()
    mo.gemm(first, one.partition_fragment_A(sA), one.partition_fragment_B(sB), scores, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    P = mo.fragment(((2, 2, 2), mo.size(scores, 1), mo.size(B, 0) // 16), E.dtype)
    P[...] = scores.to(E.dtype).with_layout(P.layout)
    mo.warpgroup_arrive()
    mo.gemm(second, P, two.partition_fragment_B(sE), out, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(two.partition_C(D), out)


def chained_arguments(rng, M=64, N=128, K=64, P=64):
    """A of (M, K), B of (N, K), E of (P, N), the last contiguous along P in shared memory."""
    types = (mo.bfloat16, mo.bfloat16, mo.float32)
    first = mo.make_tiled_mma(mo.mma.wgmma(*types, N))
    second = mo.make_tiled_mma(mo.mma.wgmma(*types, P, b_major="mn", a_source="registers"))
    layouts = (smem_layout(mo.bfloat16, "k", 128, M, (M, K)), smem_layout(mo.bfloat16, "k", 128, N, (N, K)),
               smem_layout(mo.bfloat16, "mn", 128, P, (P, N)))
    data = [mma_kernels.data(rng, shape, mo.bfloat16) for shape in ((M, K), (N, K), (P, N))]
    return [poison((M, P), mo.float32), *data, first, second, layouts]


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An operation with how many warpgroups along M, instructions along M and N each, and bytes of a k-major row."""

    op: object
    groups: int = 1
    tiles: tuple[int, int] = (1, 1)
    width: int = 128
    add_c: bool = False

    @property
    def threads(self):
        return 128 * self.groups

    @property
    def shape(self):
        """(bM, bN, bK): 128 bytes of k."""
        m, n, k = self.op.shape_mnk
        return self.groups * self.tiles[0] * m, self.tiles[1] * n, 4 * k

    def layouts(self, stages=STAGES):
        bM, bN, bK = self.shape
        tails = (stages,) if stages else ()
        return (smem_layout(self.op.a_dtype, self.op.a_major, self.width, 64, (bM, bK, *tails)),
                smem_layout(self.op.b_dtype, self.op.b_major, self.width, self.op.shape_mnk[1], (bN, bK, *tails)))

    def arguments(self, rng):
        bM, bN, bK = self.shape
        op, K = self.op, DEPTH * bK
        return [poison((bM, bN), op.d_dtype), mma_kernels.data(rng, (bM, K), op.a_dtype),
                mma_kernels.data(rng, (bN, K), op.b_dtype), mma_kernels.start(rng, (bM, bN), op.c_dtype),
                mo.make_tiled_mma(op, mo.make_layout((self.groups, 1))), *self.layouts(), self.add_c]


def smem_layout(dtype, major, width, rows, shape):
    """The tile of the widest rows up to ``width`` bytes that the hardware reads ``rows`` of at once."""
    while major == "mn" and rows * dtype.bits // 8 % width:
        width //= 2
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, major, width), shape)


def expected(arguments):
    """float64, or integers that wrap or saturate at each instruction."""
    out, A, B, C, mma, *_, add_c = arguments
    return mma_kernels.expected([out, A, B, C if add_c else 0 * C, mma])[0]


def error(found, arguments):
    """The largest error, relative to the sum of the products' magnitudes; of integers one that counts."""
    wanted = expected(arguments)
    if wanted.dtype.kind == "i":
        return 0 if np.array_equal(found, wanted) else 1
    _, A, B, C, *_, add_c = (x.astype(np.float64) if isinstance(x, np.ndarray) else x for x in arguments)
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    worst = (apart / (np.abs(A) @ np.abs(B).T + np.abs(C) * add_c)).max()
    return worst if np.isfinite(worst) else 1


def tolerance(op):
    """Of ``error``: some roundings to float16 or float32, the 13 bits that sums of products of 8-bit floats keep."""
    if op.d_dtype != mo.float32:
        return 2**-9 if op.d_dtype == mo.float16 else 0
    return 2**-11 if op.a_dtype.bits == 8 else 2**-19


def _cases():
    for family in sm90.FAMILIES:
        for source in ("SS", "RS"):
            for majors in family.majors(source):
                for n, more in ((8, {"tiles": (1, 2)}), (24, {"tiles": (2, 1), "width": 64, "add_c": True}),
                                (64, {"tiles": (2, 2), "groups": 2, "width": 32}), (256, {"groups": 2}),
                                (128, {"width": 16})):
                    yield Case(mo.mma.__getattr__(family.name(n, source, majors)), **more)
            if family.integer:
                yield Case(mo.mma.__getattr__(family.name(48, source, "TN", saturate=True)), add_c=True)


CASES = {f"{case.op}-{case.width}": case for case in _cases()}
