// matmul_kernel
//   A: float32 (A_0,A_1):(1,A_s1), 16-byte aligned
//   sA_layout = (16,8):(1,16)
//   copy_A = TiledCopy(CopyAtom(CpAsync(uint128, cache="always"), float32), tv (32,4):(4,1), tile (16,8))
//   read_A = TiledCopy(CopyAtom(UniversalCopy(float32), float32), tv ((4,8),((2,2),1,1)):((16,1),((8,64),0,0)), tile
//       (16,8))
//   B: float32 (B_0,B_1):(B_s0,1), 16-byte aligned
//   sB_layout = (8,8):(8,1)
//   copy_B = TiledCopy(CopyAtom(CpAsync(float64, cache="always"), float32), tv ((4,8),2):((16,1),8), tile (8,8))
//   read_B = TiledCopy(CopyAtom(LdMatrix(2), float32), tv ((4,8),(2,1,1)):((8,1),(32,0,0)), tile (8,8))
//   C: float32 (C_0,C_1):(1,C_s1), 16-byte aligned
//   mma_C = TiledMMA(SM80_16x8x8_F32TF32TF32F32_TN, atoms (1,1,1):(0,0,0))
//   block (32, 1, 1)
//   768 bytes of static shared memory

__device__ __forceinline__ void cp_async_16(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_8(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ __forceinline__ void ldmatrix_x2(unsigned& r0, unsigned& r1, unsigned src_smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(src_smem) : "memory");
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

extern "C" __global__ void __launch_bounds__(32)
matmul_kernel(const float* __restrict__ A, const int A_1, const int A_s1,
              const float* __restrict__ B, const int B_s0,
              float* __restrict__ C, const int C_s1) {
    __shared__ __align__(16) float sA[128];  // (16,8):(1,16)
    __shared__ __align__(16) float sB[64];  // (8,8):(8,1)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 11_matmul_ldmatrix.py:17  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 11_matmul_ldmatrix.py:18  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 11_matmul_ldmatrix.py:22  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int A_s1_times_8 = A_s1 * 8;
    const int bx_times_16 = (int)blockIdx.x * 16;
    // 11_matmul_ldmatrix.py:27  tAgA = thr_copy_A.partition_S(gA)  # (CPY, CPY_M, CPY_K, k)
    const int tx_mod_4 = tx % 4;
    const int tx_div_4 = tx / 4;
    // 11_matmul_ldmatrix.py:28  tAsA = thr_copy_A.partition_D(sA)  # (CPY, CPY_M, CPY_K)
    const int tx_times_4 = tx * 4;
    // 11_matmul_ldmatrix.py:30  tBgB = thr_copy_B.partition_S(gB)  # (CPY, CPY_N, CPY_K, k)
    const int tBgB_at = by * B_s0 * 8 + tx_mod_4 * 2 + tx_div_4 * B_s0;
    // 11_matmul_ldmatrix.py:31  tBsB = thr_copy_B.partition_D(sB)  # (CPY, CPY_N, CPY_K)
    const int tx_times_2 = tx * 2;
    // 11_matmul_ldmatrix.py:35  tCrA = thr_mma.partition_fragment_A(sA)  # (MMA, MMA_M, MMA_K), tf32
    const int tXsA_at = tx_mod_4 * 16 + tx_div_4;
    float tCrA[4];
    // 11_matmul_ldmatrix.py:36  tCrB = thr_mma.partition_fragment_B(sB)  # (MMA, MMA_N, MMA_K), tf32
    float tCrB[2];
    // 11_matmul_ldmatrix.py:37  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[4];
    // 11_matmul_ldmatrix.py:38  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        tCrC[i] = 0.0f;
    }
    // 11_matmul_ldmatrix.py:44  tXsB = thr_read_B.partition_S(sB)  # (CPY, CPY_N, CPY_K)
    const int tXsB_at = tx % 8 * 8 + tx / 8 % 2 * 4;
    // 11_matmul_ldmatrix.py:48  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
    const float* A_k = &A[bx_times_16 + tx_mod_4 * 4 + tx_div_4 * A_s1];
    // 11_matmul_ldmatrix.py:47  for k in range(mo.size(tAgA, 3)):
    for (int k = 0; k < (A_1 >> 3); ++k) {
        // 11_matmul_ldmatrix.py:48  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        cp_async_16(sA_s + 4 * tx_times_4, A_k);
        // 11_matmul_ldmatrix.py:49  mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        cp_async_8(sB_s + 4 * tx_times_2, &B[tBgB_at + k * 8]);
        // 11_matmul_ldmatrix.py:50  mo.cp_async_wait()
        cp_async_wait_all();
        // 11_matmul_ldmatrix.py:51  mo.sync_threads()
        __syncthreads();
        // 11_matmul_ldmatrix.py:52  mo.copyto(read_A, tXrA, tXsA)
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                tCrA[i + 2 * j] = sA[tXsA_at + 8 * i + 64 * j];
            }
        }
        // 11_matmul_ldmatrix.py:53  mo.copyto(read_B, tXrB, tXsB)
        unsigned w0, w1;
        ldmatrix_x2(w0, w1, sB_s + 4 * tXsB_at);
        tCrB[0] = __uint_as_float(w0);
        tCrB[1] = __uint_as_float(w1);
        // 11_matmul_ldmatrix.py:54  mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)
        mma_sm80_16x8x8_f32tf32tf32f32_tn(tCrC[0], tCrC[1], tCrC[2], tCrC[3],
            tCrA[0], tCrA[1], tCrA[2], tCrA[3],
            tCrB[0], tCrB[1],
            tCrC[0], tCrC[1], tCrC[2], tCrC[3]);
        // 11_matmul_ldmatrix.py:55  mo.sync_threads()
        __syncthreads();
        // 11_matmul_ldmatrix.py:48  mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        A_k += A_s1_times_8;
    }
    // 11_matmul_ldmatrix.py:56  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            C[bx_times_16 + by * C_s1 * 8 + tx_mod_4 * C_s1 * 2 + tx_div_4 + i * C_s1 + 8 * j] = tCrC[i + 2 * j];
        }
    }
}
