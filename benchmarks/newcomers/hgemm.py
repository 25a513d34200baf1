"""C = A B^T of bfloat16 by mma.sync: 64 x 64 x 64 a block, cp.async into swizzled rows, ldmatrix, four warps."""

import ml_dtypes
import numpy as np

import moye as mo

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32BF16BF16F32_TN, mo.make_layout((2, 2)), (32, 32, 16))
LOAD = mo.CopyAtom(mo.LdMatrix(4), mo.bfloat16)
SMEM = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.bfloat16), mo.make_layout((16, 8), (8, 1)),
                          mo.make_layout((1, 8)))


@mo.kernel
def kernel(C, A, B, smem, copy, mma, load_A, load_B):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(A.dtype, smem), mo.shared_array(B.dtype, smem)     # (64, 64)
    gA = mo.tile(A, (64, 64), (by, None))                                       # (64, 64, k)
    gB = mo.tile(B, (64, 64), (bx, None))                                       # (64, 64, k)
    gC = mo.tile(C, (64, 64), (by, bx))                                         # (64, 64)
    thr_copy, thr = copy.get_slice(tid), mma.get_slice(tid)
    thr_A, thr_B = load_A.get_slice(tid), load_B.get_slice(tid)
    tAgA, tAsA = thr_copy.partition_S(gA), thr_copy.partition_D(sA)
    tBgB, tBsB = thr_copy.partition_S(gB), thr_copy.partition_D(sB)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K)
    tCgC = thr.partition_C(gC)                                                  # (MMA, MMA_M, MMA_N)
    tCrC = thr.make_fragment_C(tCgC)
    tCrC.fill(0)
    for k in mo.range(mo.size(gA, 2)):
        mo.copyto(copy, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(load_A, thr_A.retile_D(tCrA), thr_A.partition_S(sA))
        mo.copyto(load_B, thr_B.retile_D(tCrB), thr_B.partition_S(sB))
        mo.gemm(mma, tCrA, tCrB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def case(small):
    M, N, K = (64, 128, 128) if small else (4096, 4096, 1024)
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((rows, K), np.float32).astype(ml_dtypes.bfloat16) for rows in (M, N))
    C = np.full((M, N), np.nan, np.float32)
    return {"arguments": (C, A, B, SMEM, COPY, MMA, mo.make_tiled_copy_A(LOAD, MMA), mo.make_tiled_copy_B(LOAD, MMA)),
            "outputs": (0,), "twin": (C, A, B, N, K), "grid": (N // 64, M // 64), "block": 128,
            "expected": lambda: (A.astype(np.float32).astype(float) @ B.astype(np.float32).astype(float).T,)}
