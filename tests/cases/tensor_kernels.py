"""Kernels of whole arrays: MoYe's first matmul, products of one thread, slices of parts of modes."""

from __future__ import annotations

import numpy as np

import moye as mo


@mo.kernel
def plain_matmul(A, sA_layout: mo.Constexpr, tA: mo.Constexpr, B, sB_layout: mo.Constexpr, tB: mo.Constexpr,
                 C, tC: mo.Constexpr):
    """The page on matmul of MoYe's manual: C = A * B^T without a tiled MMA, by projections of one layout of threads."""
    tid, bid = mo.thread_idx().x, mo.block_idx()
    sA = mo.shared_array(A.dtype, sA_layout)                            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)                            # (bN, bK)
    tiler = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    at = bid.x, bid.y, None
    gA = mo.tile(A, tiler, at, (1, None, 1))                            # (bM, bK, k)
    gB = mo.tile(B, tiler, at, (None, 1, 1))                            # (bN, bK, k)
    gC = mo.tile(C, tiler, at, (1, 1, None))                            # (bM, bN)
    tAgA = mo.parallelize(gA, tA, tid)                                  # (THR_M, THR_K, k)
    tBgB = mo.parallelize(gB, tB, tid)                                  # (THR_N, THR_K, k)
    tAsA = mo.parallelize(sA, tA, tid)                                  # (THR_M, THR_K)
    tBsB = mo.parallelize(sB, tB, tid)                                  # (THR_N, THR_K)
    tCsA = mo.parallelize(sA, tC, tid, (1, None))                       # (THR_M, bK)
    tCsB = mo.parallelize(sB, tC, tid, (None, 1))                       # (THR_N, bK)
    tCgC = mo.parallelize(gC, tC, tid)                                  # (THR_M, THR_N)
    tCrC = mo.make_fragment_like(tCgC)                                  # (THR_M, THR_N)
    tCrC[...] = 0
    for k in mo.range(mo.size(tAgA, 2)):
        mo.copyto(tAsA, tAgA[:, :, k])
        mo.copyto(tBsB, tBgB[:, :, k])
        mo.sync_threads()
        mo.gemm(tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


MATMUL_GRID, MATMUL_BLOCK = (2, 2), 64


def matmul_arguments(k: int = 24) -> tuple[object, ...]:
    """Arguments of ``plain_matmul`` at 64 x 32 x k, with padded shared tiles; A, B and C are at 0, 3 and 6."""
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.standard_normal((n, k), np.float32)) for n in (64, 32))
    C = np.full((64, 32), np.nan, np.float32, order="F")
    return (A, mo.make_layout((32, 8), (1, 33)), mo.make_layout((16, 4)), B, mo.make_layout((16, 8), (1, 17)),
            mo.make_layout((16, 4)), C, mo.make_layout((8, 8)))


@mo.kernel
def thread_gemm(D: mo.Static, A: mo.Static, B: mo.Static, C: mo.Static):
    """Each thread: D = A * B^T + C from registers, and from memory."""
    tid = mo.thread_idx().x
    if tid == 0:
        rA, rB, rC = (mo.make_fragment_like(t) for t in (A, B, C))
        mo.copyto(rA, A)
        mo.copyto(rB, B)
        mo.copyto(rC, C)
        rD = mo.make_fragment_like(rC)
        mo.gemm(rD, rA, rB, rC)
        mo.copyto(D[:, :, 0], rD)
    else:
        mo.copyto(D[:, :, 1], C)
        mo.gemm(A, B, D[:, :, 1])


GEMM_DTYPES = [(np.float32, np.float32), (np.float16, np.float32), (np.float64, np.float64), (np.int32, np.int32),
               (np.int8, np.int32)]


def gemm_arguments(dtype: type, sums: type) -> tuple[np.ndarray, ...]:
    """D (5, 3, 2), A (5, 4), B (3, 4), C (5, 3) of small integers, whose products are exact."""
    rng = np.random.default_rng(1)
    A, B = (rng.integers(-4, 5, (n, 4)).astype(dtype) for n in (5, 3))
    return np.zeros((5, 3, 2), sums, order="F"), A, B, rng.integers(-9, 9, (5, 3)).astype(sums)


@mo.kernel
def parts(out: mo.Static, x: mo.Static):
    """Parts of modes: of memory, of registers, and of coordinates."""
    out[...] = 0
    out[1:4, ::3] = 7                                                   # (3, 3)
    mo.copyto(out[4:, 2:6:2], x[0:2, 1:3])                              # (2, 2)
    mine = mo.make_fragment_like(x[:2, :4])                             # (2, 4)
    mo.copyto(mine, x[:2, :4])
    mine[:, 1:3] *= 2
    mine[0, ::2] = -1
    mo.copyto(out[:2, 4:], mine)
    where = mo.identity_tensor((6, 8))[2:, 1::2]                        # (4, 4)
    row, column = where[1, 2]
    out[5, 7] = row * 10 + column


def parts_expected(x: np.ndarray) -> np.ndarray:
    out = np.zeros((6, 8), np.float32)
    out[1:4, ::3] = 7
    out[4:, 2:6:2] = x[0:2, 1:3]
    mine = x[:2, :4].copy()
    mine[:, 1:3] *= 2
    mine[0, ::2] = -1
    out[:2, 4:] = mine
    out[5, 7] = 35
    return out
