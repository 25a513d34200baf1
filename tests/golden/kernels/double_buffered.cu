// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (128,8,2):(1,130,1040)
//   copy_A = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   B: float32 (B_0,B_1):(1,B_s1), 16-byte aligned
//   sB_layout = (128,8,2):(1,130,1040)
//   copy_B = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(UniversalFMA(float32), atoms (32,8,1):(1,32,0))
//   sA: shared float32 (128,8,2):(1,130,1040)
//   sB: shared float32 (128,8,2):(1,130,1040)
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
    const int t0 = A_s1 * 8;
    const int t1 = (int)blockIdx.x * 128;
    // 09_matmul_double_buffered.py:24  gB = mo.tile(B, (bN, bK), (by, None))  # (bN, bK, k)
    const int t2 = B_s1 * 8;
    // 09_matmul_double_buffered.py:28  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int t3 = tx % 32;
    const int t4 = t3 * 2;
    const int t5 = tx / 32;
    const int t6 = t1 + t4 + t5 * A_s1;
    // 09_matmul_double_buffered.py:29  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K, 2)
    const int t7 = t4 + t5 * 130;
    // 09_matmul_double_buffered.py:31  tBgB = thr_copy_B.partition_S(gB)  # (CPY, CPY_N, CPY_K, k)
    const int t8 = by * 128 + t4 + t5 * B_s1;
    // 09_matmul_double_buffered.py:33  mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sA_s + 4 * (t7 + 64 * i), &A[t6 + 64 * i]);
    }
    // 09_matmul_double_buffered.py:34  mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sB_s + 4 * (t7 + 64 * i), &B[t8 + 64 * i]);
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
        tCrA[i] = sA[t3 + 32 * i];
    }
    // 09_matmul_double_buffered.py:50  mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        tCrB[i] = sB[t5 + 8 * i];
    }
    // 09_matmul_double_buffered.py:52  for k_tile in range(k_tile_max):  # a loop of the kernel
    int smem_read = 0;
    int smem_write = 1;
    int tCsA_p = t3;
    int tCsB_p = t5;
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
            const int t9 = t7 + smem_write * 1040;
            const int t10 = k_tile + 1;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sA_s + 4 * (t9 + 64 * i), &A[t6 + t10 * t0 + 64 * i]);
            }
            // 09_matmul_double_buffered.py:65  mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sB_s + 4 * (t9 + 64 * i), &B[t8 + t10 * t2 + 64 * i]);
            }
            // 09_matmul_double_buffered.py:63  if k_block == 0 and k_tile < k_tile_max - 1:
            const int t11 = smem_read;
            smem_read = smem_write;
            smem_write = t11;
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
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 8] = sA[tCsA_p + 260 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 32] = sB[tCsB_p + 260 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 4] * tCrB[j + 16];
            }
        }
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 12] = sA[tCsA_p + 390 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 48] = sB[tCsB_p + 390 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 8] * tCrB[j + 32];
            }
        }
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 16] = sA[tCsA_p + 520 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 64] = sB[tCsB_p + 520 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 12] * tCrB[j + 48];
            }
        }
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 20] = sA[tCsA_p + 650 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 80] = sB[tCsB_p + 650 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 16] * tCrB[j + 64];
            }
        }
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 24] = sA[tCsA_p + 780 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 96] = sB[tCsB_p + 780 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 20] * tCrB[j + 80];
            }
        }
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 28] = sA[tCsA_p + 910 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 112] = sB[tCsB_p + 910 + 8 * i];
        }
        // 09_matmul_double_buffered.py:67  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 16; ++jj) {
                const int j = i & 1 ? 15 - jj : jj;
                tCrC[i + 4 * j] += tCrA[i + 24] * tCrB[j + 96];
            }
        }
        // 09_matmul_double_buffered.py:56  mo.cp_async_wait()
        cp_async_wait_all();
        // 09_matmul_double_buffered.py:57  mo.sync_threads()
        __syncthreads();
        // 09_matmul_double_buffered.py:58  tCsA_p = tCsA[:, :, :, smem_read]
        const int t12 = smem_read * 1040;
        const int t13 = t3 + t12;
        // 09_matmul_double_buffered.py:59  tCsB_p = tCsB[:, :, :, smem_read]
        const int t14 = t5 + t12;
        // 09_matmul_double_buffered.py:61  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i] = sA[t13 + 32 * i];
        }
        // 09_matmul_double_buffered.py:62  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i] = sB[t14 + 8 * i];
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
        tCsA_p = t13;
        tCsB_p = t14;
    }
    // 09_matmul_double_buffered.py:68  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            C[t1 + by * C_s1 * 128 + t3 + t5 * C_s1 + 32 * i + j * C_s1 * 8] = tCrC[i + 4 * j];
        }
    }
}
