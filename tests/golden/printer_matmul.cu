// matmul
//   A: global float32 (M,K):(1,A_s1)
//   B: global float32 (N,K):(1,B_s1)
//   C: global float32 (M,N):(1,C_s1)
//   copy_A: CpAsync(float64, cache="always")
//   mma_C: UniversalFMA(float32) x (32,8)
//   block (256, 1, 1)
//   16632 bytes of static shared memory

__device__ __forceinline__ void cp_async_8(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256)
matmul(const float* __restrict__ A, const int A_1, const int A_s1,
       const float* __restrict__ B, const int B_s1,
       float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[2078];  // (128,8,2):(1,130,1040)
    __shared__ __align__(16) float sB[2078];  // (128,8,2):(1,130,1040)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // matmul.py:2  def matmul(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    const int thread_x = threadIdx.x;
    // matmul.py:5  mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    const int t0 = (int)blockIdx.x * 128;
    const int thread_x_mod_32 = thread_x % 32;
    const int thread_x_mod_32_times_2 = thread_x_mod_32 * 2;
    const int thread_x_div_32 = thread_x / 32;
    const int A_at = t0 + thread_x_mod_32_times_2 + thread_x_div_32 * A_s1;
    const int sA_at = thread_x_mod_32_times_2 + thread_x_div_32 * 130;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sA_s + 4 * (sA_at + 64 * i), &A[A_at + 64 * i]);
    }
    // matmul.py:6  mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    const int t1 = (int)blockIdx.y * 128;
    const int B_at = t1 + thread_x_mod_32_times_2 + thread_x_div_32 * B_s1;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sB_s + 4 * (sA_at + 64 * i), &B[B_at + 64 * i]);
    }
    // matmul.py:7  tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])  # (MMA, MMA_M, MMA_K)
    float tCrA[32];
    // matmul.py:8  tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])  # (MMA, MMA_N, MMA_K)
    float tCrB[128];
    // matmul.py:9  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[64];
    // matmul.py:10  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        tCrC[i] = 0.0f;
    }
    // matmul.py:11  mo.cp_async_wait()
    cp_async_wait_all();
    // matmul.py:12  mo.sync_threads()
    __syncthreads();
    // matmul.py:13  smem_read, smem_write = 0, 1
    int smem_read = 0;
    int smem_write = 1;
    // matmul.py:14  tCsA_p = tCsA[:, :, :, smem_read]
    int tCsA_p = thread_x_mod_32;
    // matmul.py:15  tCsB_p = tCsB[:, :, :, smem_read]
    int tCsB_p = thread_x_div_32;
    // matmul.py:16  mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        tCrA[i] = sA[tCsA_p + 32 * i];
    }
    // matmul.py:17  mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        tCrB[i] = sB[tCsB_p + 8 * i];
    }
    const int A_1_div_8 = A_1 >> 3;
    // matmul.py:18  for k_tile in range(k_tile_max):
    for (int k_tile = 0; k_tile < A_1_div_8; ++k_tile) {
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 4] = sA[tCsA_p + 130 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 16] = sB[tCsB_p + 130 + 8 * i];
        }
        // matmul.py:27  if k_block == 0 and k_tile < k_tile_max - 1:
        if (k_tile < A_1_div_8 - 1) {
            // matmul.py:28  mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
            const int k_tile_times_8_plus_8 = k_tile * 8 + 8;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sA_s + 4 * (sA_at + smem_write * 1040 + 64 * i), &A[A_at + k_tile_times_8_plus_8 * A_s1 + 64 * i]);
            }
            // matmul.py:29  mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                cp_async_8(sB_s + 4 * (sA_at + smem_write * 1040 + 64 * i), &B[B_at + k_tile_times_8_plus_8 * B_s1 + 64 * i]);
            }
            // matmul.py:30  smem_read, smem_write = smem_write, smem_read
            const int smem_write_next = smem_read;
            smem_read = smem_write;
            smem_write = smem_write_next;
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i] * tCrB[j];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 8] = sA[tCsA_p + 260 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 32] = sB[tCsB_p + 260 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 4] * tCrB[j + 16];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 12] = sA[tCsA_p + 390 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 48] = sB[tCsB_p + 390 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 8] * tCrB[j + 32];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 16] = sA[tCsA_p + 520 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 64] = sB[tCsB_p + 520 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 12] * tCrB[j + 48];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 20] = sA[tCsA_p + 650 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 80] = sB[tCsB_p + 650 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 16] * tCrB[j + 64];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 24] = sA[tCsA_p + 780 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 96] = sB[tCsB_p + 780 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 20] * tCrB[j + 80];
            }
        }
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i + 28] = sA[tCsA_p + 910 + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i + 112] = sB[tCsB_p + 910 + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 24] * tCrB[j + 96];
            }
        }
        // matmul.py:21  mo.cp_async_wait()
        cp_async_wait_all();
        // matmul.py:22  mo.sync_threads()
        __syncthreads();
        // matmul.py:23  tCsA_p = tCsA[:, :, :, smem_read]
        tCsA_p = thread_x_mod_32 + smem_read * 1040;
        // matmul.py:24  tCsB_p = tCsB[:, :, :, smem_read]
        tCsB_p = thread_x_div_32 + smem_read * 1040;
        // matmul.py:25  mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            tCrA[i] = sA[tCsA_p + 32 * i];
        }
        // matmul.py:26  mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            tCrB[i] = sB[tCsB_p + 8 * i];
        }
        // matmul.py:31  mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                tCrC[i + 4 * j] += tCrA[i + 28] * tCrB[j + 112];
            }
        }
    }
    // matmul.py:32  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            C[t0 + thread_x_mod_32 + (t1 + thread_x_div_32) * C_s1 + 32 * i + j * C_s1 * 8] = tCrC[i + 4 * j];
        }
    }
}
