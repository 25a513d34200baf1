"""Kernels of the MoYe manual's pages, in moye: every variant from the plain tiled matmul to the double-buffered one.

All compute C = A * B^T with A (M, K), B (N, K), C (M, N), column-major.  The numbered examples run them.
"""

import moye as mo


@mo.kernel
def matmul_missing_barrier(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    """The first kernel of the manual's page on asynchronous copies: it waits, but no barrier follows (a race)."""
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


@mo.kernel
def matmul_async(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    """One shared tile, asynchronous copies, operands straight from shared memory."""
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


@mo.kernel
def matmul_overlapped(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C, four: mo.Constexpr = False):
    """Global-to-shared copies of the next tile overlap the products, whose operands are already in registers."""
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    mo.copyto(copy_A, tAsA, tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB, tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA)                # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB)                # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    k_max = mo.size(tAgA, 3)
    for k in range(k_max):
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(tCrA, tCsA)
        mo.copyto(tCrB, tCsB)
        mo.sync_threads()
        if k < k_max - 1:
            mo.copyto(copy_A, tAsA, tAgA[:, :, :, k + 1])
            mo.copyto(copy_B, tBsB, tBgB[:, :, :, k + 1])
        if four:
            mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)
        else:
            mo.gemm(mma_C, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def matmul_double_buffered(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    """Two shared stages, and the next k's operands prefetched into registers."""
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
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K, 2)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K, 2)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])    # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    mo.cp_async_wait()
    mo.sync_threads()
    smem_read, smem_write = 0, 1
    tCsA_p = tCsA[:, :, :, smem_read]                   # (MMA, MMA_M, MMA_K)
    tCsB_p = tCsB[:, :, :, smem_read]                   # (MMA, MMA_N, MMA_K)
    mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])

    k_tile_max = mo.size(tAgA, 3)
    k_block_max = mo.size(tCrA, 2)
    for k_tile in range(k_tile_max):
        for k_block in mo.static_range(k_block_max):
            k_block_next = k_block + 1
            if k_block == k_block_max - 1:
                mo.cp_async_wait()
                mo.sync_threads()
                tCsA_p = tCsA[:, :, :, smem_read]
                tCsB_p = tCsB[:, :, :, smem_read]
                k_block_next = 0
            mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
            mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
            if k_block == 0 and k_tile < k_tile_max - 1:
                mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
                smem_read, smem_write = smem_write, smem_read
            mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
    mo.copyto(tCgC, tCrC)
