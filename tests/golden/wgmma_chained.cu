// chained
//   D: float32 (64,64):(D_s0,1), 16-byte aligned
//   A: bfloat16 (64,64):(A_s0,1), 16-byte aligned
//   B: bfloat16 (128,64):(B_s0,1), 16-byte aligned
//   E: bfloat16 (64,128):(E_s0,1), 16-byte aligned
//   first = TiledMMA(SM90_64x128x16_F32BF16BF16_SS, atoms (1,1,1):(0,0,0))
//   second = TiledMMA(SM90_64x64x16_F32BF16BF16_RS_TT, atoms (1,1,1):(0,0,0))
//   layouts = (Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0)), Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)),
//       Sw<3,3,3> o 0 o ((64,1),(8,16)):((1,0),(64,512)))
//   block (128, 1, 1)
//   40960 bytes of static shared memory

struct bf16 { unsigned short bits; };
// A matrix in shared memory: 128-byte swizzle, leading offset 16, stride offset 1024 bytes.
constexpr unsigned long long wgmma_sw128_16_1024 = 1ull << 62 | 1024ull / 16 << 32 | 16ull / 16 << 16;
// A matrix in shared memory: 128-byte swizzle, leading offset 1024, stride offset 1024 bytes.
constexpr unsigned long long wgmma_sw128_1024_1024 = 1ull << 62 | 1024ull / 16 << 32 | 1024ull / 16 << 16;
__device__ __forceinline__ int swizzle_3_3_3(int x) {
    return x ^ (x >> 3 & 56);
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void warpgroup_arrive() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_64x128x16_f32bf16bf16_ss(float* d, unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned smem, unsigned long long layout) {
    unsigned long long matrix = (smem & 0x3ffff) >> 4 | layout; asm volatile("" : "+l"(matrix)); return matrix;
}
__device__ __forceinline__ void warpgroup_commit_batch() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void warpgroup_wait_0() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ __forceinline__ void wgmma_pin(float& x) {
    asm volatile("" : "+f"(x) :: "memory");
}
__device__ __forceinline__ unsigned to_bf16x2(float x0, float x1) {
    unsigned y; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1)); return y;
}
__device__ __forceinline__ void wgmma_pin(unsigned& x) {
    asm volatile("" : "+r"(x) :: "memory");
}
__device__ __forceinline__ void wgmma_64x64x16_f32bf16bf16_rs_tt(float* d, const unsigned* a, unsigned long long b, int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

extern "C" __global__ void __launch_bounds__(128)
chained(float* __restrict__ D, const int D_s0,
        const bf16* __restrict__ A, const int A_s0,
        const bf16* __restrict__ B, const int B_s0,
        const bf16* __restrict__ E, const int E_s0) {
    __shared__ __align__(1024) bf16 sA[4096];  // Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))
    __shared__ __align__(1024) bf16 sB[8192];  // Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))
    __shared__ __align__(1024) bf16 sE[8192];  // Sw<3,3,3> o 0 o ((64,1),(8,16)):((1,0),(64,512))
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);
    const unsigned sE_s = (unsigned)__cvta_generic_to_shared(sE);

    // wgmma_kernels.py:88  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // wgmma_kernels.py:92  mo.copyto(mo.parallelize(s, threads, tid), mo.parallelize(g, threads, tid))
    const int tx_mod_8 = tx % 8;
    const int tx_div_8 = tx / 8;
    const int smem0_at = tx_mod_8 * 64 + tx_div_8;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            sA[swizzle_3_3_3(smem0_at + 16 * j) + 512 * i] = A[tx_mod_8 * A_s0 + tx_div_8 + i * A_s0 * 8 + 16 * j];
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            sB[swizzle_3_3_3(smem0_at + 16 * j) + 512 * i] = B[tx_mod_8 * B_s0 + tx_div_8 + i * B_s0 * 8 + 16 * j];
        }
    }
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            sE[swizzle_3_3_3(tx_mod_8 + tx_div_8 * 64 + 8 * i) + 1024 * j] = E[tx_mod_8 * E_s0 + tx_div_8 + i * E_s0 * 8 + 16 * j];
        }
    }
    // wgmma_kernels.py:93  mo.fence_proxy_async()
    fence_proxy_async();
    // wgmma_kernels.py:94  mo.sync_threads()
    __syncthreads();
    // wgmma_kernels.py:97  scores = first.partition_fragment_C((mo.size(A, 0), mo.size(B, 0)))
    float scores[64];
    // wgmma_kernels.py:98  out = second.partition_fragment_C((mo.size(A, 0), mo.size(E, 0)))
    float out[32];
    // wgmma_kernels.py:99  mo.warpgroup_arrive()
    warpgroup_arrive();
    // wgmma_kernels.py:100  mo.gemm(first, one.partition_fragment_A(sA), one.partition_fragment_B(sB), scores, ac...
    const unsigned long long sA_desc = wgmma_descriptor(sA_s, wgmma_sw128_16_1024);
    const unsigned long long sB_desc = wgmma_descriptor(sB_s, wgmma_sw128_16_1024);
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        wgmma_64x128x16_f32bf16bf16_ss(scores, sA_desc + 2 * k, sB_desc + 2 * k, k > 0);
    }
    // wgmma_kernels.py:101  mo.warpgroup_commit_batch()
    warpgroup_commit_batch();
    // wgmma_kernels.py:102  mo.warpgroup_wait(0)
    warpgroup_wait_0();
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        wgmma_pin(scores[i]);
    }
    // wgmma_kernels.py:103  P = mo.fragment(((2, 2, 2), mo.size(scores, 1), mo.size(B, 0) // 16), E.dtype)
    unsigned P[32];
    // wgmma_kernels.py:104  P[...] = scores.to(E.dtype).with_layout(P.layout)
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        P[i] = to_bf16x2(scores[2 * i], scores[2 * i + 1]);
    }
    // wgmma_kernels.py:105  mo.warpgroup_arrive()
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        wgmma_pin(P[i]);
    }
    warpgroup_arrive();
    // wgmma_kernels.py:106  mo.gemm(second, P, two.partition_fragment_B(sE), out, accumulate=False)
    const unsigned long long sE_desc = wgmma_descriptor(sE_s, wgmma_sw128_1024_1024);
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        wgmma_64x64x16_f32bf16bf16_rs_tt(out, P + 4 * k, sE_desc + 128 * k, k > 0);
    }
    // wgmma_kernels.py:107  mo.warpgroup_commit_batch()
    warpgroup_commit_batch();
    // wgmma_kernels.py:108  mo.warpgroup_wait(0)
    warpgroup_wait_0();
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        wgmma_pin(out[i]);
    }
    // wgmma_kernels.py:109  mo.copyto(two.partition_C(D), out)
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            *(float2*)&D[tx % 4 * 2 + tx / 4 % 8 * D_s0 + tx / 32 * D_s0 * 16 + i * D_s0 * 8 + 8 * j] = make_float2(out[2 * i + 4 * j], out[2 * i + 4 * j + 1]);
        }
    }
}
