// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (128,8):(1,130)
//   copy_A = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   B: float32 (B_0,B_1):(1,B_s1), 16-byte aligned
//   sB_layout = (128,8):(1,130)
//   copy_B = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv (256,2):(2,1), tile (64,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(UniversalFMA(float32), atoms (16,16,1):(1,16,0))
//   four = True
//   block (256, 1, 1)
//   8312 bytes of static shared memory

__device__ __forceinline__ void cp_async_8(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ __forceinline__ void cp_async_8_if(bool when, unsigned dst_smem, const void* src) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 8;}" :: "r"(dst_smem), "l"(src), "r"((int)when) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
matmul_kernel(const float* __restrict__ A, const int A_1, const int A_s1,
              const float* __restrict__ B, const int B_s1,
              float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[1038];  // (128,8):(1,130)
    __shared__ __align__(16) float sB[1038];  // (128,8):(1,130)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 06_matmul_overlapped.py:15  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 06_matmul_overlapped.py:16  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 06_matmul_overlapped.py:20  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int k_max = A_1 >> 3;
    const int A_s1_times_8 = A_s1 * 8;
    const int bx_times_128 = (int)blockIdx.x * 128;
    // 06_matmul_overlapped.py:21  gB = mo.tile(B, (bN, bK), (by, None))  # (bN, bK, k)
    const int B_s1_times_8 = B_s1 * 8;
    // 06_matmul_overlapped.py:25  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int tx_mod_32_times_2 = tx % 32 * 2;
    const int tx_div_32 = tx / 32;
    const int tAgA_at = bx_times_128 + tx_mod_32_times_2 + tx_div_32 * A_s1;
    // 06_matmul_overlapped.py:26  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K)
    const int tAsA_at = tx_mod_32_times_2 + tx_div_32 * 130;
    // 06_matmul_overlapped.py:28  tBgB = thr_copy_B.partition_S(gB)  # (CPY, CPY_N, CPY_K, k)
    const int tBgB_at = by * 128 + tx_mod_32_times_2 + tx_div_32 * B_s1;
    // 06_matmul_overlapped.py:31  mo.copyto(copy_A, tAsA, tAgA[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sA_s + 4 * (tAsA_at + 64 * i), &A[tAgA_at + 64 * i]);
    }
    // 06_matmul_overlapped.py:32  mo.copyto(copy_B, tBsB, tBgB[:, :, :, 0])
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        cp_async_8(sB_s + 4 * (tAsA_at + 64 * i), &B[tBgB_at + 64 * i]);
    }
    // 06_matmul_overlapped.py:35  tCsA = thr_mma.partition_A(sA)  # (MMA, MMA_M, MMA_K)
    const int tx_mod_16 = tx % 16;
    const int tx_div_16 = tx / 16;
    // 06_matmul_overlapped.py:38  tCrA = thr_mma.make_fragment_A(tCsA)  # (MMA, MMA_M, MMA_K)
    float tCrA[64];
    // 06_matmul_overlapped.py:39  tCrB = thr_mma.make_fragment_B(tCsB)  # (MMA, MMA_N, MMA_K)
    float tCrB[64];
    // 06_matmul_overlapped.py:40  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[64];
    // 06_matmul_overlapped.py:41  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        tCrC[i] = 0.0f;
    }
    // 06_matmul_overlapped.py:44  for k in range(k_max):
    for (int k = 0; k < k_max; ++k) {
        // 06_matmul_overlapped.py:45  mo.cp_async_wait()
        cp_async_wait_all();
        // 06_matmul_overlapped.py:46  mo.sync_threads()
        __syncthreads();
        // 06_matmul_overlapped.py:47  mo.copyto(tCrA, tCsA)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                tCrA[i + 8 * j] = sA[tx_mod_16 + 16 * i + 130 * j];
            }
        }
        // 06_matmul_overlapped.py:48  mo.copyto(tCrB, tCsB)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                tCrB[i + 8 * j] = sB[tx_div_16 + 16 * i + 130 * j];
            }
        }
        // 06_matmul_overlapped.py:49  mo.sync_threads()
        __syncthreads();
        // 06_matmul_overlapped.py:50  if k < k_max - 1:
        const bool when = k < k_max - 1;
        // 06_matmul_overlapped.py:51  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k + 1])
        const int k_plus_1 = k + 1;
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            cp_async_8_if(when, sA_s + 4 * (tAsA_at + 64 * i), &A[tAgA_at + k_plus_1 * A_s1_times_8 + 64 * i]);
        }
        // 06_matmul_overlapped.py:52  mo.copyto(copy_B, tBsB, tBgB[:, :, :, k + 1])
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            cp_async_8_if(when, sB_s + 4 * (tAsA_at + 64 * i), &B[tBgB_at + k_plus_1 * B_s1_times_8 + 64 * i]);
        }
        // 06_matmul_overlapped.py:54  mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)  # D = A * B + C
        #pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int jj = 0; jj < 8; ++jj) {
                    const int j = i & 1 ? 7 - jj : jj;
                    tCrC[i + 8 * j] += tCrA[i + 8 * kk] * tCrB[j + 8 * kk];
                }
            }
        }
    }
    // 06_matmul_overlapped.py:57  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            C[bx_times_128 + by * C_s1 * 128 + tx_mod_16 + tx_div_16 * C_s1 + 16 * i + j * C_s1 * 16] = tCrC[i + 8 * j];
        }
    }
}
