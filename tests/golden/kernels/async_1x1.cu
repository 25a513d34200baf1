// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (128,8):(1,129)
//   copy_A = TiledCopy(CopyAtom(CpAsync(float32, cache="always"), float32), tv (256,1):(1,0), tile (32,8))
//   B: float32 (B_0,B_1):(1,B_s1), 16-byte aligned
//   sB_layout = (128,8):(1,129)
//   copy_B = TiledCopy(CopyAtom(CpAsync(float32, cache="always"), float32), tv (256,1):(1,0), tile (32,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(UniversalFMA(float32), atoms (16,16,1):(1,16,0))
//   block (256, 1, 1)
//   8252 bytes of static shared memory

__device__ __forceinline__ void cp_async_4(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256)
matmul_kernel(const float* __restrict__ A, const int A_1, const int A_s1,
              const float* __restrict__ B, const int B_s1,
              float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[1031];  // (128,8):(1,129)
    __shared__ __align__(16) float sB[1031];  // (128,8):(1,129)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 04_matmul_async.py:15  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 04_matmul_async.py:16  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 04_matmul_async.py:20  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int A_s1_times_8 = A_s1 * 8;
    const int bx_times_128 = (int)blockIdx.x * 128;
    // 04_matmul_async.py:21  gB = mo.tile(B, (bN, bK), (by, None))  # (bN, bK, k)
    const int B_s1_times_8 = B_s1 * 8;
    // 04_matmul_async.py:25  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int tx_mod_32 = tx % 32;
    const int tx_div_32 = tx / 32;
    // 04_matmul_async.py:26  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K)
    const int tAsA_at = tx_mod_32 + tx_div_32 * 129;
    // 04_matmul_async.py:32  tCsA = thr_mma.partition_A(sA)  # (MMA, MMA_M, MMA_K)
    const int tx_mod_16 = tx % 16;
    const int tx_div_16 = tx / 16;
    // 04_matmul_async.py:35  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[64];
    // 04_matmul_async.py:36  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        tCrC[i] = 0.0f;
    }
    // 04_matmul_async.py:39  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
    const float* A_k = &A[bx_times_128 + tx_mod_32 + tx_div_32 * A_s1];
    // 04_matmul_async.py:40  mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
    const float* B_k = &B[by * 128 + tx_mod_32 + tx_div_32 * B_s1];
    // 04_matmul_async.py:38  for k in range(mo.size(tAgA, 3)):
    for (int k = 0; k < (A_1 >> 3); ++k) {
        // 04_matmul_async.py:39  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_4(sA_s + 4 * (tAsA_at + 32 * i), &A_k[32 * i]);
        }
        // 04_matmul_async.py:40  mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_4(sB_s + 4 * (tAsA_at + 32 * i), &B_k[32 * i]);
        }
        // 04_matmul_async.py:41  mo.cp_async_wait()
        cp_async_wait_all();
        // 04_matmul_async.py:42  mo.sync_threads()
        __syncthreads();
        // 04_matmul_async.py:43  mo.gemm(mma_C, tCsA, tCsB, tCrC)
        float frag_a[8];
        float frag_b[8];
        #pragma unroll
        for (int k_1 = 0; k_1 < 8; ++k_1) {
            const int k_1_times_129 = k_1 * 129;
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                frag_a[i] = sA[tx_mod_16 + k_1_times_129 + 16 * i];
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                frag_b[i] = sB[tx_div_16 + k_1_times_129 + 16 * i];
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int jj = 0; jj < 8; ++jj) {
                    const int j = i & 1 ? 7 - jj : jj;
                    tCrC[i + 8 * j] += frag_a[i] * frag_b[j];
                }
            }
        }
        // 04_matmul_async.py:44  mo.sync_threads()
        __syncthreads();
        // 04_matmul_async.py:39  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        A_k += A_s1_times_8;
        // 04_matmul_async.py:40  mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        B_k += B_s1_times_8;
    }
    // 04_matmul_async.py:45  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            C[bx_times_128 + by * C_s1 * 128 + tx_mod_16 + tx_div_16 * C_s1 + 16 * i + j * C_s1 * 16] = tCrC[i + 8 * j];
        }
    }
}
