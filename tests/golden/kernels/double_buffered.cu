// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (128,8,2):(1,130,1040)
//   copy_A = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   B: float32 (B_0,B_1):(1,B_s1), 16-byte aligned
//   sB_layout = (128,8,2):(1,130,1040)
//   copy_B = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(UniversalFMA(float32), atoms (32,8,1):(1,32,0))
//   block (256, 1, 1)
//   16632 bytes of static shared memory

__device__ __forceinline__ void cp_async_8(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256)
matmul_kernel(const float* __restrict__ A, const int A_1, const int A_s1,
              const float* __restrict__ B, const int B_s1,
              float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[2078];  // (128,8,2):(1,130,1040)
    __shared__ __align__(16) float sB[2078];  // (128,8,2):(1,130,1040)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 09_matmul_double_buffered.py:18  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 09_matmul_double_buffered.py:19  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 09_matmul_double_buffered.py:23  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int k_tile_max = A_1 >> 3;
    const int A_s1_times_8 = A_s1 * 8;
    const int bx_times_128 = (int)blockIdx.x * 128;
    // 09_matmul_double_buffered.py:24  gB = mo.tile(B, (bN, bK), (by, None))  # (bN, bK, k)
    const int B_s1_times_8 = B_s1 * 8;
    // 09_matmul_double_buffered.py:28  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int tx_mod_32 = tx % 32;
    const int tx_mod_32_times_2 = tx_mod_32 * 2;
    const int tx_div_32 = tx / 32;
    const int tAgA_at = bx_times_128 + tx_mod_32_times_2 + tx_div_32 * A_s1;
    // 09_matmul_double_buffered.py:29  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K, 2)
    const int tAsA_at = tx_mod_32_times_2 + tx_div_32 * 130;
    // 09_matmul_double_buffered.py:31  tBgB = thr_copy_B.partition_S(gB)  # (CPY, CPY_N, CPY_K, k)
    const int tBgB_at = by * 128 + tx_mod_32_times_2 + tx_div_32 * B_s1;
    // 09_matmul_double_buffered.py:33  mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sA_s + 4 * (tAsA_at + 64 * i), &A[tAgA_at + 64 * i]);
    }
    // 09_matmul_double_buffered.py:34  mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sB_s + 4 * (tAsA_at + 64 * i), &B[tBgB_at + 64 * i]);
    }
    // 09_matmul_double_buffered.py:40  tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])  # (MMA, MMA_M, MMA_K)
    float tCrA[32];
    // 09_matmul_double_buffered.py:41  tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])  # (MMA, MMA_N, MMA_K)
    float tCrB[128];
    // 09_matmul_double_buffered.py:42  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[64];
    // 09_matmul_double_buffered.py:43  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        tCrC[i] = 0.0f;
    }
    // 09_matmul_double_buffered.py:44  mo.cp_async_wait()
    cp_async_wait_all();
    // 09_matmul_double_buffered.py:45  mo.sync_threads()
    __syncthreads();
    // 09_matmul_double_buffered.py:49  mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        tCrA[i] = sA[tx_mod_32 + 32 * i];
    }
    // 09_matmul_double_buffered.py:50  mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        tCrB[i] = sB[tx_div_32 + 8 * i];
    }
    // 09_matmul_double_buffered.py:52  for k_tile in range(k_tile_max):  # a loop of the kernel
    int smem_read = 0;
    int smem_write = 1;
    int tCsA_p = tx_mod_32;
    int tCsB_p = tx_div_32;
    for (int k_tile = 0; k_tile < k_tile_max; ++k_tile) {
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 4] = sA[tCsA_p + 130 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 16] = sB[tCsB_p + 130 + 8 * i];
        }
        // 09_matmul_double_buffered.py:63  if k_block == 0 and k_tile < k_tile_max - 1:
        if (k_tile < k_tile_max - 1) {
            // 09_matmul_double_buffered.py:64  mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
            const int tAsA_at_1 = tAsA_at + smem_write * 1040;
            const int k_tile_plus_1 = k_tile + 1;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sA_s + 4 * (tAsA_at_1 + 64 * i), &A[tAgA_at + k_tile_plus_1 * A_s1_times_8 + 64 * i]);
            }
            // 09_matmul_double_buffered.py:65  mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sB_s + 4 * (tAsA_at_1 + 64 * i), &B[tBgB_at + k_tile_plus_1 * B_s1_times_8 + 64 * i]);
            }
            // 09_matmul_double_buffered.py:63  if k_block == 0 and k_tile < k_tile_max - 1:
            const int smem_write_next = smem_read;
            smem_read = smem_write;
            smem_write = smem_write_next;
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i] * tCrB[j];
            }
        }
        // 09_matmul_double_buffered.py:53  for k_block in mo.static_range(k_block_max):  # unrolled while tracing
        #pragma unroll
        for (int k_block = 1; k_block < 7; ++k_block) {
            // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                tCrA[i + 4 * k_block + 4] = sA[tCsA_p + 130 * k_block + 130 + 32 * i];
            }
            // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                tCrB[i + 16 * k_block + 16] = sB[tCsB_p + 130 * k_block + 130 + 8 * i];
            }
            // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int jj = 0; jj < 16; ++jj) {
                    const int j = i & 1 ? 15 - jj : jj;
                    tCrC[i + 4 * j] += tCrA[i + 4 * k_block] * tCrB[j + 16 * k_block];
                }
            }
        }
        // 09_matmul_double_buffered.py:56  mo.cp_async_wait()
        cp_async_wait_all();
        // 09_matmul_double_buffered.py:57  mo.sync_threads()
        __syncthreads();
        // 09_matmul_double_buffered.py:58  tCsA_p = tCsA[:, :, :, smem_read]
        const int smem_read_times_k_block = smem_read * 1040;
        const int tCsA_p_at = tx_mod_32 + smem_read_times_k_block;
        // 09_matmul_double_buffered.py:59  tCsB_p = tCsB[:, :, :, smem_read]
        const int tCsB_p_at = tx_div_32 + smem_read_times_k_block;
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i] = sA[tCsA_p_at + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i] = sB[tCsB_p_at + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 28] * tCrB[j + 112];
            }
        }
        // 09_matmul_double_buffered.py:52  for k_tile in range(k_tile_max):  # a loop of the kernel
        tCsA_p = tCsA_p_at;
        tCsB_p = tCsB_p_at;
    }
    // 09_matmul_double_buffered.py:68  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            C[bx_times_128 + by * C_s1 * 128 + tx_mod_32 + tx_div_32 * C_s1 + 32 * i + j * C_s1 * 8] = tCrC[i + 4 * j];
        }
    }
}
