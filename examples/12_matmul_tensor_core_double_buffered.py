"""The double-buffered tensor-core product of MoYe's manual: tf32, tiles of 128x128x16, four warps.

Example 09 with the operands of example 11: two stages of shared memory, and the fragments of the next k block are read
while the warp multiplies this one.  Atoms lie 2x2, and the permutation (32, 32, 8) gives each warp two of them side by
side along N, the four matrices of an ldmatrix.  Shared memory is padded (A) and swizzled (B): no bank conflicts.
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, read_A, B, sB_layout, copy_B, read_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK, 2)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK, 2)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K, 2)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K, 2)
    mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.partition_fragment_A(sA[:, :, 0])    # (MMA, MMA_M, MMA_K), tf32
    tCrB = thr_mma.partition_fragment_B(sB[:, :, 0])    # (MMA, MMA_N, MMA_K), tf32
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    thr_read_A = read_A.get_slice(tid)
    tXsA = thr_read_A.partition_S(sA)                   # (CPY, CPY_M, CPY_K, 2)
    tXrA = thr_read_A.retile_D(tCrA)                    # (CPY, CPY_M, CPY_K)
    thr_read_B = read_B.get_slice(tid)
    tXsB = thr_read_B.partition_S(sB)                   # (CPY, CPY_N, CPY_K, 2)
    tXrB = thr_read_B.retile_D(tCrB)                    # (CPY, CPY_N, CPY_K)

    mo.cp_async_wait()
    mo.sync_threads()
    smem_read, smem_write = 0, 1
    tXsA_p = tXsA[:, :, :, smem_read]                   # (CPY, CPY_M, CPY_K)
    tXsB_p = tXsB[:, :, :, smem_read]                   # (CPY, CPY_N, CPY_K)
    mo.copyto(read_A, tXrA[:, :, 0], tXsA_p[:, :, 0])
    mo.copyto(read_B, tXrB[:, :, 0], tXsB_p[:, :, 0])
    k_tile_max, k_block_max = mo.size(tAgA, 3), mo.size(tCrA, 2)
    for k_tile in range(k_tile_max):                    # a loop of the kernel
        for k_block in mo.static_range(k_block_max):    # unrolled while tracing
            k_block_next = k_block + 1
            if k_block == k_block_max - 1:
                mo.cp_async_wait()
                mo.sync_threads()
                tXsA_p = tXsA[:, :, :, smem_read]
                tXsB_p = tXsB[:, :, :, smem_read]
                k_block_next = 0
            mo.copyto(read_A, tXrA[:, :, k_block_next], tXsA_p[:, :, k_block_next])
            mo.copyto(read_B, tXrB[:, :, k_block_next], tXsB_p[:, :, k_block_next])
            if k_block == 0 and k_tile < k_tile_max - 1:
                mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
                smem_read, smem_write = smem_write, smem_read
            mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    """A and C are column-major, B is row-major."""
    bM, bN, bK = 128, 128, 16
    sA_layout = mo.make_layout((bM, bK, 2), (1, bM + 8, (bM + 8) * bK))
    rows = mo.ComposedLayout(mo.Swizzle(2, 2, 3), 0, mo.make_layout((8, bK), (bK, 1)))
    sB_layout = mo.tile_to_shape(rows, (bN, bK, 2))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32),
                                mo.make_layout((16, 8)), mo.make_layout((4, 1)))
    copy_B = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32),
                                mo.make_layout((32, 4), (4, 1)), mo.make_layout((1, 4)))
    mma_C = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.make_layout((2, 2, 1), (2, 1, 1)), (32, 32, 8))
    read_A = mo.make_tiled_copy_A(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mma_C)
    read_B = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(4), mo.float32), mma_C)
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, read_A, B, sB_layout, copy_B, read_B, C, mma_C)


def main(M=512, N=384, K=64):
    rng = np.random.default_rng(0)
    A, B = np.asfortranarray(rng.standard_normal((M, K), np.float32)), rng.standard_normal((N, K), np.float32)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    C = mo.testing.array(np.full((M, N), np.nan, np.float32, order="F"))
    matmul(mo.testing.array(A), mo.testing.array(B), C)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 2e-3, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K}, tf32: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
