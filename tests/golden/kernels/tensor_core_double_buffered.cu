// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (128,16,2):(1,136,2176)
//   copy_A = TiledCopy(CopyAtom(CpAsync(uint128, cache="always"), float32), tv (128,4):(4,1), tile (64,8))
//   read_A = TiledCopy(CopyAtom(UniversalCopy(float32), float32), tv
//       (((4,8),2,2),((2,2),1,1)):(((32,1),0,16),((8,128),0,0)), tile (32,8))
//   B: float32 (B_0,B_1):(B_s0,1), 16-byte aligned
//   sB_layout = Sw<2,2,3> o 0 o ((8,16),(16,1),(1,2)):((16,128),(1,0),(0,2048))
//   copy_B = TiledCopy(CopyAtom(CpAsync(uint128, cache="always"), float32), tv ((4,32),4):((128,1),32), tile
//       (32,16))
//   read_B = TiledCopy(CopyAtom(LdMatrix(4), float32), tv (((4,8),2,2),(2,2,1)):(((32,1),8,0),(128,16,0)), tile
//       (32,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(SM80_16x8x8_F32TF32TF32F32_TN, atoms (2,2,1):(2,1,1), permutations (32, 32, 8))
//   block (128, 1, 1)
//   33792 bytes of static shared memory

__device__ __forceinline__ void cp_async_16(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ int swizzle_2_2_3(int x) {
    return x ^ (x >> 3 & 12);
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, unsigned src_smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(src_smem) : "memory");
}
__device__ __forceinline__ void mma_sm80_16x8x8_f32tf32tf32f32_tn(float& d0, float& d1, float& d2, float& d3,
    float a0, float a1, float a2, float a3,
    float b0, float b1,
    float c0, float c1, float c2, float c3) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)),
          "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

extern "C" __global__ void __launch_bounds__(128)
matmul_kernel(const float* __restrict__ A, const int A_1, const int A_s1,
              const float* __restrict__ B, const int B_s0,
              float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[4344];  // (128,16,2):(1,136,2176)
    __shared__ __align__(512) float sB[4096];  // Sw<2,2,3> o 0 o ((8,16),(16,1),(1,2)):((16,128),(1,0),(0,2048))
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 12_matmul_tensor_core_double_buffered.py:16  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 12_matmul_tensor_core_double_buffered.py:17  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 12_matmul_tensor_core_double_buffered.py:21  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int k_tile_max = A_1 >> 4;
    const int A_s1_times_16 = A_s1 * 16;
    const int bx_times_128 = (int)blockIdx.x * 128;
    // 12_matmul_tensor_core_double_buffered.py:26  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int A_s1_times_8 = A_s1 * 8;
    const int tx_mod_16_times_4 = tx % 16 * 4;
    const int tx_div_16 = tx / 16;
    const int tAgA_at = bx_times_128 + tx_mod_16_times_4 + tx_div_16 * A_s1;
    // 12_matmul_tensor_core_double_buffered.py:27  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K, 2)
    const int tAsA_at = tx_mod_16_times_4 + tx_div_16 * 136;
    // 12_matmul_tensor_core_double_buffered.py:29  tBgB = thr_copy_B.partition_S(gB)  # (CPY, CPY_N, CPY_K, k)
    const int B_s0_times_32 = B_s0 * 32;
    const int tx_mod_4 = tx % 4;
    const int tx_div_4 = tx / 4;
    const int tBgB_at = by * B_s0 * 128 + tx_mod_4 * 4 + tx_div_4 * B_s0;
    // 12_matmul_tensor_core_double_buffered.py:30  tBsB = thr_copy_B.partition_D(sB)  # (CPY, CPY_N, CPY_K, 2)
    const int tx_times_4 = tx * 4;
    // 12_matmul_tensor_core_double_buffered.py:31  mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            cp_async_16(sA_s + 4 * (tAsA_at + 64 * i + 1088 * j), &A[tAgA_at + 64 * i + j * A_s1_times_8]);
        }
    }
    // 12_matmul_tensor_core_double_buffered.py:32  mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_16(sB_s + 4 * (swizzle_2_2_3(tx_times_4) + 512 * i), &B[tBgB_at + i * B_s0_times_32]);
    }
    // 12_matmul_tensor_core_double_buffered.py:35  tCgC = thr_mma.partition_C(gC)  # (MMA, MMA_M, MMA_N)
    const int tx_div_32_mod_2 = tx / 32 % 2;
    const int tx_div_64_times_16 = tx / 64 * 16;
    // 12_matmul_tensor_core_double_buffered.py:36  tCrA = thr_mma.partition_fragment_A(sA[:, :, 0])  # (MMA, MMA_...
    float tCrA[32];
    // 12_matmul_tensor_core_double_buffered.py:37  tCrB = thr_mma.partition_fragment_B(sB[:, :, 0])  # (MMA, MMA_...
    float tCrB[32];
    // 12_matmul_tensor_core_double_buffered.py:38  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[128];
    // 12_matmul_tensor_core_double_buffered.py:39  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 128; ++i) {
        tCrC[i] = 0.0f;
    }
    // 12_matmul_tensor_core_double_buffered.py:41  tXsA = thr_read_A.partition_S(sA)  # (CPY, CPY_M, CPY_K, 2)
    const int tXsA_p_at = tx_mod_4 * 136 + tx_div_4 % 8 + tx_div_64_times_16;
    // 12_matmul_tensor_core_double_buffered.py:44  tXsB = thr_read_B.partition_S(sB)  # (CPY, CPY_N, CPY_K, 2)
    const int tXsB_p_at = tx % 8 * 16 + tx / 8 % 2 * 4 + tx_div_16 % 2 * 256 + tx_div_32_mod_2 * 128;
    // 12_matmul_tensor_core_double_buffered.py:47  mo.cp_async_wait()
    cp_async_wait_all();
    // 12_matmul_tensor_core_double_buffered.py:48  mo.sync_threads()
    __syncthreads();
    // 12_matmul_tensor_core_double_buffered.py:52  mo.copyto(read_A, tXrA[:, :, 0], tXsA_p[:, :, 0])
    #pragma unroll
    for (int l = 0; l < 4; ++l) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                tCrA[i + 2 * j + 4 * l] = sA[tXsA_p_at + 8 * i + 544 * j + 32 * l];
            }
        }
    }
    // 12_matmul_tensor_core_double_buffered.py:53  mo.copyto(read_B, tXrB[:, :, 0], tXsB_p[:, :, 0])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned w0, w1, w2, w3;
        ldmatrix_x4(w0, w1, w2, w3, sB_s + 4 * (swizzle_2_2_3(tXsB_p_at) + 512 * i));
        tCrB[4 * i] = __uint_as_float(w0);
        tCrB[4 * i + 1] = __uint_as_float(w1);
        tCrB[4 * i + 2] = __uint_as_float(w2);
        tCrB[4 * i + 3] = __uint_as_float(w3);
    }
    // 12_matmul_tensor_core_double_buffered.py:55  for k_tile in range(k_tile_max):  # a loop of the kernel
    int smem_read = 0;
    int smem_write = 1;
    int tXsA_p = tXsA_p_at;
    int tXsB_p = tXsB_p_at;
    // 12_matmul_tensor_core_double_buffered.py:67  mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_t...
    const float* A_k_tile = &A[tAgA_at + 1 * A_s1_times_16];
    // 12_matmul_tensor_core_double_buffered.py:55  for k_tile in range(k_tile_max):  # a loop of the kernel
    for (int k_tile = 0; k_tile < k_tile_max; ++k_tile) {
        // 12_matmul_tensor_core_double_buffered.py:64  mo.copyto(read_A, tXrA[:, :, k_block_next], tXsA_p[:, :, k_blo...
        #pragma unroll
        for (int l = 0; l < 4; ++l) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    tCrA[i + 2 * j + 4 * l + 16] = sA[tXsA_p + 1088 + 8 * i + 544 * j + 32 * l];
                }
            }
        }
        // 12_matmul_tensor_core_double_buffered.py:65  mo.copyto(read_B, tXrB[:, :, k_block_next], tXsB_p[:, :, k_blo...
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned w0, w1, w2, w3;
            ldmatrix_x4(w0, w1, w2, w3, sB_s + 4 * (swizzle_2_2_3(tXsB_p + 8) + 512 * i));
            tCrB[4 * i + 16] = __uint_as_float(w0);
            tCrB[4 * i + 17] = __uint_as_float(w1);
            tCrB[4 * i + 18] = __uint_as_float(w2);
            tCrB[4 * i + 19] = __uint_as_float(w3);
        }
        // 12_matmul_tensor_core_double_buffered.py:66  if k_block == 0 and k_tile < k_tile_max - 1:
        if (k_tile < k_tile_max - 1) {
            // 12_matmul_tensor_core_double_buffered.py:67  mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_t...
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    cp_async_16(sA_s + 4 * (tAsA_at + smem_write * 2176 + 64 * i + 1088 * j), &A_k_tile[64 * i + j * A_s1_times_8]);
                }
            }
            // 12_matmul_tensor_core_double_buffered.py:68  mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_t...
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                cp_async_16(sB_s + 4 * (swizzle_2_2_3(tx_times_4 + smem_write * 2048) + 512 * i), &B[tBgB_at + k_tile * 16 + 16 + i * B_s0_times_32]);
            }
            // 12_matmul_tensor_core_double_buffered.py:66  if k_block == 0 and k_tile < k_tile_max - 1:
            const int smem_write_next = smem_read;
            smem_read = smem_write;
            smem_write = smem_write_next;
        }
        // 12_matmul_tensor_core_double_buffered.py:70  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block],...
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 8; ++jj) {
                const int j = i & 1 ? 7 - jj : jj;
                mma_sm80_16x8x8_f32tf32tf32f32_tn(tCrC[4 * i + 16 * j], tCrC[4 * i + 16 * j + 1], tCrC[4 * i + 16 * j + 2], tCrC[4 * i + 16 * j + 3],
                    tCrA[4 * i], tCrA[4 * i + 1], tCrA[4 * i + 2], tCrA[4 * i + 3],
                    tCrB[2 * j], tCrB[2 * j + 1],
                    tCrC[4 * i + 16 * j], tCrC[4 * i + 16 * j + 1], tCrC[4 * i + 16 * j + 2], tCrC[4 * i + 16 * j + 3]);
            }
        }
        // 12_matmul_tensor_core_double_buffered.py:59  mo.cp_async_wait()
        cp_async_wait_all();
        // 12_matmul_tensor_core_double_buffered.py:60  mo.sync_threads()
        __syncthreads();
        // 12_matmul_tensor_core_double_buffered.py:61  tXsA_p = tXsA[:, :, :, smem_read]
        const int tXsA_p_at_1 = tXsA_p_at + smem_read * 2176;
        // 12_matmul_tensor_core_double_buffered.py:62  tXsB_p = tXsB[:, :, :, smem_read]
        const int tXsB_p_at_1 = tXsB_p_at + smem_read * 2048;
        // 12_matmul_tensor_core_double_buffered.py:64  mo.copyto(read_A, tXrA[:, :, k_block_next], tXsA_p[:, :, k_blo...
        #pragma unroll
        for (int l = 0; l < 4; ++l) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    tCrA[i + 2 * j + 4 * l] = sA[tXsA_p_at_1 + 8 * i + 544 * j + 32 * l];
                }
            }
        }
        // 12_matmul_tensor_core_double_buffered.py:65  mo.copyto(read_B, tXrB[:, :, k_block_next], tXsB_p[:, :, k_blo...
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned w0, w1, w2, w3;
            ldmatrix_x4(w0, w1, w2, w3, sB_s + 4 * (swizzle_2_2_3(tXsB_p_at_1) + 512 * i));
            tCrB[4 * i] = __uint_as_float(w0);
            tCrB[4 * i + 1] = __uint_as_float(w1);
            tCrB[4 * i + 2] = __uint_as_float(w2);
            tCrB[4 * i + 3] = __uint_as_float(w3);
        }
        // 12_matmul_tensor_core_double_buffered.py:70  mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block],...
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 8; ++jj) {
                const int j = i & 1 ? 7 - jj : jj;
                mma_sm80_16x8x8_f32tf32tf32f32_tn(tCrC[4 * i + 16 * j], tCrC[4 * i + 16 * j + 1], tCrC[4 * i + 16 * j + 2], tCrC[4 * i + 16 * j + 3],
                    tCrA[4 * i + 16], tCrA[4 * i + 17], tCrA[4 * i + 18], tCrA[4 * i + 19],
                    tCrB[2 * j + 16], tCrB[2 * j + 17],
                    tCrC[4 * i + 16 * j], tCrC[4 * i + 16 * j + 1], tCrC[4 * i + 16 * j + 2], tCrC[4 * i + 16 * j + 3]);
            }
        }
        // 12_matmul_tensor_core_double_buffered.py:55  for k_tile in range(k_tile_max):  # a loop of the kernel
        tXsA_p = tXsA_p_at_1;
        tXsB_p = tXsB_p_at_1;
        // 12_matmul_tensor_core_double_buffered.py:67  mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_t...
        A_k_tile += A_s1_times_16;
    }
    // 12_matmul_tensor_core_double_buffered.py:71  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        #pragma unroll
        for (int l = 0; l < 4; ++l) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    C[bx_times_128 + by * C_s1 * 128 + tx_mod_4 * C_s1 * 2 + tx % 32 / 4 + tx_div_64_times_16 + tx_div_32_mod_2 * C_s1 * 8 + i * C_s1 + 8 * j + 32 * l + n * C_s1 * 16] = tCrC[i + 2 * j + 4 * l + 16 * n];
                }
            }
        }
    }
}
