// matmul_kernel
//   A: float16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   sA_layout = Sw<3,3,3> o 0 o ((8,8),(64,1),(1,3)):((64,512),(1,0),(0,4096))
//   copy_A = TiledCopy(CopyAtom(CpAsync(uint128, cache="global"), float16), tv ((8,16),8):((128,1),16), tile
//       (16,64))
//   load_A = TiledCopy(CopyAtom(LdMatrix(4), float16), tv ((4,8,2,2),((2,2,2),1,1)):((64,1,16,0),((32,8,256),0,0)),
//       tile (32,16))
//   B: float16 (B_0,B_1):(B_s0,1), 16-byte aligned
//   sB_layout = Sw<3,3,3> o 0 o ((8,8),(64,1),(1,3)):((64,512),(1,0),(0,4096))
//   copy_B = TiledCopy(CopyAtom(CpAsync(uint128, cache="global"), float16), tv ((8,16),8):((128,1),16), tile
//       (16,64))
//   load_B = TiledCopy(CopyAtom(LdMatrix(4), float16), tv ((4,8,2,2),((2,2),2,1)):((64,1,0,8),((32,256),16,0)), tile
//       (32,16))
//   C: float32 (C_0,C_1):(C_s0,1), 16-byte aligned
//   mma = TiledMMA(SM80_16x8x16_F32F16F16F32_TN, atoms (2,2,1):(1,2,0), permutations (32, 32, 16))
//   pipe = Pipeline(stages=3)
//   block (128, 1, 1)
//   49152 bytes of static shared memory

struct f16 { unsigned short bits; };
__device__ __forceinline__ int swizzle_3_3_3(int x) {
    return x ^ (x >> 3 & 56);
}
__device__ __forceinline__ void cp_async_cg_16_if(bool when, unsigned dst_smem, const void* src) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}" :: "r"(dst_smem), "l"(src), "r"((int)when) : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending> __device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, unsigned src_smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(src_smem) : "memory");
}
__device__ __forceinline__ void mma_sm80_16x8x16_f32f16f16f32_tn(float& d0, float& d1, float& d2, float& d3,
    unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1,
    float c0, float c1, float c2, float c3) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3),
          "r"(b0), "r"(b1),
          "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

extern "C" __global__ void __launch_bounds__(128)
matmul_kernel(const f16* __restrict__ A, const int A_1, const int A_s0,
              const f16* __restrict__ B, const int B_s0,
              float* __restrict__ C, const int C_s0) {
    __shared__ __align__(1024) f16 sA[12288];  // Sw<3,3,3> o 0 o ((8,8),(64,1),(1,3)):((64,512),(1,0),(0,4096))
    __shared__ __align__(1024) f16 sB[12288];  // Sw<3,3,3> o 0 o ((8,8),(64,1),(1,3)):((64,512),(1,0),(0,4096))
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);

    // 13_matmul_pipelined.py:15  bx, by, _ = mo.block_idx()
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    // 13_matmul_pipelined.py:16  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 13_matmul_pipelined.py:20  gA = mo.tile(A, (bM, bK), (bx, None))  # (bM, bK, k)
    const int k_tiles = A_1 >> 6;
    // 13_matmul_pipelined.py:25  tAgA, tAsA = thr_copy_A.partition_S(gA), thr_copy_A.partition_D(sA)  # (CPY, CPY...
    const int A_s0_times_16 = A_s0 * 16;
    const int tx_mod_8 = tx % 8;
    const int tx_mod_8_times_8 = tx_mod_8 * 8;
    const int tx_div_8 = tx / 8;
    const int tAgA_at = bx * A_s0 * 64 + tx_mod_8_times_8 + tx_div_8 * A_s0;
    const int tx_times_8 = tx * 8;
    // 13_matmul_pipelined.py:26  tBgB, tBsB = thr_copy_B.partition_S(gB), thr_copy_B.partition_D(sB)  # (CPY, CPY...
    const int B_s0_times_16 = B_s0 * 16;
    const int tBgB_at = by * B_s0 * 64 + tx_mod_8_times_8 + tx_div_8 * B_s0;
    // 13_matmul_pipelined.py:29  tCsA, tCsB = thr_load_A.partition_S(sA), thr_load_B.partition_S(sB)  # (LDSM, LD...
    const int tx_div_16_mod_2 = tx / 16 % 2;
    const int tx_div_32_mod_2 = tx / 32 % 2;
    const int tCsA_at = tx % 16 * 64 + tx_div_16_mod_2 * 8 + tx_div_32_mod_2 * 1024;
    const int tx_div_64 = tx / 64;
    const int tCsB_at = tx_mod_8 * 64 + tx_div_8 % 2 * 8 + tx_div_16_mod_2 * 1024 + tx_div_64 * 512;
    // 13_matmul_pipelined.py:30  tCrA = thr_mma.partition_fragment_A(sA[:, :, 0])  # (MMA, MMA_M, MMA_K)
    unsigned tCrA[32];
    // 13_matmul_pipelined.py:31  tCrB = thr_mma.partition_fragment_B(sB[:, :, 0])  # (MMA, MMA_N, MMA_K)
    unsigned tCrB[32];
    // 13_matmul_pipelined.py:34  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N)
    float tCrC[32];
    // 13_matmul_pipelined.py:35  tCrC.fill(0)
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        tCrC[i] = 0.0f;
    }
    // 13_matmul_pipelined.py:39  if k_tile < k_tiles:
    const bool when = k_tiles > 0;
    // 13_matmul_pipelined.py:40  mo.copyto(copy_A, tAsA[:, :, :, k_tile], tAgA[:, :, :, k_tile])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_if(when, sA_s + 2 * (swizzle_3_3_3(tx_times_8) + 1024 * i), &A[tAgA_at + i * A_s0_times_16]);
    }
    // 13_matmul_pipelined.py:41  mo.copyto(copy_B, tBsB[:, :, :, k_tile], tBgB[:, :, :, k_tile])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_if(when, sB_s + 2 * (swizzle_3_3_3(tx_times_8) + 1024 * i), &B[tBgB_at + i * B_s0_times_16]);
    }
    // 13_matmul_pipelined.py:42  pipe.commit()
    cp_async_commit();
    // 13_matmul_pipelined.py:39  if k_tile < k_tiles:
    const bool when_1 = k_tiles > 1;
    // 13_matmul_pipelined.py:40  mo.copyto(copy_A, tAsA[:, :, :, k_tile], tAgA[:, :, :, k_tile])
    const int tx_times_8_plus_k_tile = tx_times_8 + 4096;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_if(when_1, sA_s + 2 * (swizzle_3_3_3(tx_times_8_plus_k_tile) + 1024 * i), &A[tAgA_at + 64 + i * A_s0_times_16]);
    }
    // 13_matmul_pipelined.py:41  mo.copyto(copy_B, tBsB[:, :, :, k_tile], tBgB[:, :, :, k_tile])
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_if(when_1, sB_s + 2 * (swizzle_3_3_3(tx_times_8_plus_k_tile) + 1024 * i), &B[tBgB_at + 64 + i * B_s0_times_16]);
    }
    // 13_matmul_pipelined.py:42  pipe.commit()
    cp_async_commit();
    // 13_matmul_pipelined.py:44  for k_tile in range(k_tiles):  # a loop of the kernel, which carries the state
    int state_read = 0;
    int state_write = 2;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        // 13_matmul_pipelined.py:45  pipe.wait()  # state.read has arrived, state.write is free
        cp_async_wait_group<1>();
        __syncthreads();
        // 13_matmul_pipelined.py:46  if k_tile + pipe.ahead < k_tiles:
        const bool when_2 = k_tile + 2 < k_tiles;
        // 13_matmul_pipelined.py:47  mo.copyto(copy_A, tAsA[:, :, :, state.write], tAgA[:, :, :, k_tile + pipe.ahead])
        const int tAsA_at = tx_times_8 + state_write * 4096;
        const int k_tile_times_64_plus_128 = k_tile * 64 + 128;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_cg_16_if(when_2, sA_s + 2 * (swizzle_3_3_3(tAsA_at) + 1024 * i), &A[tAgA_at + k_tile_times_64_plus_128 + i * A_s0_times_16]);
        }
        // 13_matmul_pipelined.py:48  mo.copyto(copy_B, tBsB[:, :, :, state.write], tBgB[:, :, :, k_tile + pipe.ahead])
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_cg_16_if(when_2, sB_s + 2 * (swizzle_3_3_3(tAsA_at) + 1024 * i), &B[tBgB_at + k_tile_times_64_plus_128 + i * B_s0_times_16]);
        }
        // 13_matmul_pipelined.py:49  pipe.commit()
        cp_async_commit();
        // 13_matmul_pipelined.py:50  for k in mo.static_range(mo.size(tCrA, 2)):  # unrolled: one instruction deep in K
        const int state_read_times_4096 = state_read * 4096;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            // 13_matmul_pipelined.py:51  mo.copyto(load_A, tXrA[:, :, k], tCsA[:, :, k, state.read])
            const int state_read_offset = state_read_times_4096 + 16 * k;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldmatrix_x4(tCrA[4 * i + 8 * k], tCrA[4 * i + 8 * k + 1], tCrA[4 * i + 8 * k + 2], tCrA[4 * i + 8 * k + 3], sA_s + 2 * (swizzle_3_3_3(tCsA_at + state_read_offset) + 2048 * i));
            }
            // 13_matmul_pipelined.py:52  mo.copyto(load_B, tXrB[:, :, k], tCsB[:, :, k, state.read])
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldmatrix_x4(tCrB[4 * i + 8 * k], tCrB[4 * i + 8 * k + 1], tCrB[4 * i + 8 * k + 2], tCrB[4 * i + 8 * k + 3], sB_s + 2 * (swizzle_3_3_3(tCsB_at + state_read_offset) + 2048 * i));
            }
            // 13_matmul_pipelined.py:53  mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], tCrC)
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int jj = 0; jj < 4; ++jj) {
                    const int j = i & 1 ? 3 - jj : jj;
                    mma_sm80_16x8x16_f32f16f16f32_tn(tCrC[4 * i + 8 * j], tCrC[4 * i + 8 * j + 1], tCrC[4 * i + 8 * j + 2], tCrC[4 * i + 8 * j + 3],
                        tCrA[4 * i + 8 * k], tCrA[4 * i + 8 * k + 1], tCrA[4 * i + 8 * k + 2], tCrA[4 * i + 8 * k + 3],
                        tCrB[2 * j + 8 * k], tCrB[2 * j + 8 * k + 1],
                        tCrC[4 * i + 8 * j], tCrC[4 * i + 8 * j + 1], tCrC[4 * i + 8 * j + 2], tCrC[4 * i + 8 * j + 3]);
                }
            }
        }
        // 13_matmul_pipelined.py:54  state = state.next()
        const int state_read_plus_1 = state_read + 1;
        const int state_write_plus_1 = state_write + 1;
        // 13_matmul_pipelined.py:44  for k_tile in range(k_tiles):  # a loop of the kernel, which carries the state
        state_read = state_read_plus_1 < 3 ? state_read_plus_1 : 0;
        state_write = state_write_plus_1 < 3 ? state_write_plus_1 : 0;
    }
    // 13_matmul_pipelined.py:55  mo.copyto(tCgC, tCrC)
    #pragma unroll
    for (int l = 0; l < 4; ++l) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                *(float2*)&C[bx * C_s0 * 64 + by * 64 + tx % 4 * 2 + tx % 32 / 4 * C_s0 + tx_div_32_mod_2 * C_s0 * 16 + tx_div_64 * 8 + i * C_s0 * 8 + j * C_s0 * 32 + 16 * l] = make_float2(tCrC[2 * i + 4 * j + 8 * l], tCrC[2 * i + 4 * j + 8 * l + 1]);
            }
        }
    }
}
