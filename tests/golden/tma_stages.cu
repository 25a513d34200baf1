// stages_kernel
//   A: float16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   A: TmaLoad() of float16 tiles Sw<2,3,3> o 0 o ((8,4),(32,2)):((32,256),(1,1024)), 2 boxes of 32 x 32 with 64-byte swizzle
//   out: float16 (out_0,out_1):(1,out_s1), 16-byte aligned
//   stages = 2
//   block (128, 1, 1)
//   8208 bytes of static shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
struct f16 { unsigned short bits; };
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void tma_load_2d_hint(unsigned smem, const TensorMap* map, int c0, int c1, unsigned bar, unsigned long long policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1), "r"(bar), "l"(policy) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
__device__ __forceinline__ int swizzle_2_3_3(int x) {
    return x ^ (x >> 3 & 24);
}
__device__ __forceinline__ f16 add_16(f16 a, f16 b) {
    f16 y; asm("add.rn.f16 %0, %1, %2;" : "=h"(y.bits) : "h"(a.bits), "h"(b.bits)); return y;
}
__device__ __forceinline__ void landed(unsigned words) {
    asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0x7fc1d1ce; @p pmevent 0;}" :: "r"(words) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
stages_kernel(const __grid_constant__ TensorMap A, const int A_1,
              f16* __restrict__ out, const int out_s1) {
    __shared__ __align__(512) f16 sA[4096];  // Sw<2,3,3> o 0 o (((8,4),1),((32,2),1),(1,2)):(((32,256),0),((1,1024),0),(0,2048))
    __shared__ __align__(8) unsigned long long full[2];  // 2:1
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned full_s = (unsigned)__cvta_generic_to_shared(full);

    // tma_kernels.py:86  tid, bx = mo.thread_idx().x, mo.block_idx().x
    const int tx = threadIdx.x;
    const int bx = blockIdx.x;
    // tma_kernels.py:87  gA = mo.tile(A.tensor, A.tile, (bx, None))  # (bM, bK, k)
    const int tiles = (A_1 + 63) >> 6;
    const int bx_times_32 = bx * 32;
    // tma_kernels.py:89  if tid == 0:
    const bool tx_is_0 = tx == 0;
    if (tx_is_0) {
        // tma_kernels.py:91  mo.mbarrier_init(full, i, 1)
        mbarrier_init(full_s, 1);
        mbarrier_init(full_s + 8, 1);
        // tma_kernels.py:92  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    // tma_kernels.py:93  mo.sync_threads()
    __syncthreads();
    // tma_kernels.py:94  if tid == 0:
    if (tx_is_0) {
        // tma_kernels.py:95  for k in range(mo.min(tiles, stages)):
        for (int k = 0; k < min(tiles, 2); ++k) {
            // tma_kernels.py:96  mo.mbarrier_arrive_expect_tx(full, k, A.bytes)
            mbarrier_arrive_expect_tx(full_s + 8 * k, 4096);
            // tma_kernels.py:97  mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, k), hint="evict_first")
            const int k_times_2048 = k * 2048;
            const int k_times_64 = k * 64;
            tma_load_2d_hint(sA_s + 2 * k_times_2048, &A, k_times_64, bx_times_32, full_s + 8 * k, 0x12F0000000000000ull);
            tma_load_2d_hint(sA_s + 2 * (k_times_2048 + 1024), &A, k_times_64 + 32, bx_times_32, full_s + 8 * k, 0x12F0000000000000ull);
        }
    }
    // tma_kernels.py:98  total = mo.make_fragment_like(mo.make_layout(math.prod(A.tile) // BLOCK), A.dtype)
    f16 total[16];
    // tma_kernels.py:99  total.fill(0)
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        total[i] = f16{0x0000};
    }
    // tma_kernels.py:100  for k in range(tiles):
    for (int k = 0; k < tiles; ++k) {
        // tma_kernels.py:101  stage = k % stages
        const int stage = k & 1;
        // tma_kernels.py:102  mo.mbarrier_wait(full, stage, k // stages % 2)
        mbarrier_wait(full_s + 8 * stage, (k >> 1) & 1);
        // tma_kernels.py:103  tile = sA[:, :, stage]
        const int stage_times_2048 = stage * 2048;
        // tma_kernels.py:105  total[i] = total[i] + tile[tid + i * BLOCK]
        const f16 total_part = sA[swizzle_2_3_3(stage_times_2048 + tx % 32 * 32 + tx / 32)];
        total[0] = add_16(total[0], total_part);
        const int tx_plus_i = tx + 128;
        const f16 total_part_1 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i % 32 * 32 + tx_plus_i / 32)];
        total[1] = add_16(total[1], total_part_1);
        const int tx_plus_i_1 = tx + 256;
        const f16 total_part_2 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_1 % 32 * 32 + tx_plus_i_1 / 32)];
        total[2] = add_16(total[2], total_part_2);
        const int tx_plus_i_2 = tx + 384;
        const f16 total_part_3 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_2 % 32 * 32 + tx_plus_i_2 / 32)];
        total[3] = add_16(total[3], total_part_3);
        const int tx_plus_i_3 = tx + 512;
        const f16 total_part_4 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_3 % 32 * 32 + tx_plus_i_3 / 32)];
        total[4] = add_16(total[4], total_part_4);
        const int tx_plus_i_4 = tx + 640;
        const f16 total_part_5 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_4 % 32 * 32 + tx_plus_i_4 / 32)];
        total[5] = add_16(total[5], total_part_5);
        const int tx_plus_i_5 = tx + 768;
        const f16 total_part_6 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_5 % 32 * 32 + tx_plus_i_5 / 32)];
        total[6] = add_16(total[6], total_part_6);
        const int tx_plus_i_6 = tx + 896;
        const f16 total_part_7 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_6 % 32 * 32 + tx_plus_i_6 / 32)];
        total[7] = add_16(total[7], total_part_7);
        const int tx_plus_i_7 = tx + 1024;
        const f16 total_part_8 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_7 % 32 * 32 + tx_plus_i_7 / 32 % 32 + 1024)];
        total[8] = add_16(total[8], total_part_8);
        const int tx_plus_i_8 = tx + 1152;
        const f16 total_part_9 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_8 % 32 * 32 + tx_plus_i_8 / 32 % 32 + 1024)];
        total[9] = add_16(total[9], total_part_9);
        const int tx_plus_i_9 = tx + 1280;
        const f16 total_part_10 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_9 % 32 * 32 + tx_plus_i_9 / 32 % 32 + 1024)];
        total[10] = add_16(total[10], total_part_10);
        const int tx_plus_i_10 = tx + 1408;
        const f16 total_part_11 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_10 % 32 * 32 + tx_plus_i_10 / 32 % 32 + 1024)];
        total[11] = add_16(total[11], total_part_11);
        const int tx_plus_i_11 = tx + 1536;
        const f16 total_part_12 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_11 % 32 * 32 + tx_plus_i_11 / 32 % 32 + 1024)];
        total[12] = add_16(total[12], total_part_12);
        const int tx_plus_i_12 = tx + 1664;
        const f16 total_part_13 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_12 % 32 * 32 + tx_plus_i_12 / 32 % 32 + 1024)];
        total[13] = add_16(total[13], total_part_13);
        const int tx_plus_i_13 = tx + 1792;
        const f16 total_part_14 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_13 % 32 * 32 + tx_plus_i_13 / 32 % 32 + 1024)];
        total[14] = add_16(total[14], total_part_14);
        const int tx_plus_i_14 = tx + 1920;
        const f16 total_part_15 = sA[swizzle_2_3_3(stage_times_2048 + tx_plus_i_14 % 32 * 32 + tx_plus_i_14 / 32 % 32 + 1024)];
        total[15] = add_16(total[15], total_part_15);
        // tma_kernels.py:106  mo.sync_threads()
        landed(total_part.bits | total_part_1.bits | total_part_2.bits | total_part_3.bits | total_part_4.bits | total_part_5.bits | total_part_6.bits | total_part_7.bits | total_part_8.bits | total_part_9.bits | total_part_10.bits | total_part_11.bits | total_part_12.bits | total_part_13.bits | total_part_14.bits | total_part_15.bits);
        __syncthreads();
        // tma_kernels.py:107  if tid == 0 and k + stages < tiles:
        if (tx_is_0 && k + 2 < tiles) {
            // tma_kernels.py:108  mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mbarrier_arrive_expect_tx(full_s + 8 * stage, 4096);
            // tma_kernels.py:109  mo.copyto(A, sA[:, :, stage], gA[:, :, k + stages], barrier=(full, stage), hint="evict_...
            const int k_times_64 = k * 64;
            tma_load_2d_hint(sA_s + 2 * stage_times_2048, &A, k_times_64 + 128, bx_times_32, full_s + 8 * stage, 0x14F0000000000000ull);
            tma_load_2d_hint(sA_s + 2 * (stage_times_2048 + 1024), &A, k_times_64 + 160, bx_times_32, full_s + 8 * stage, 0x14F0000000000000ull);
        }
    }
    // tma_kernels.py:110  for i in mo.static_range(math.prod(A.tile) // BLOCK):
    const int bx_times_out_s1 = bx * out_s1;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        // tma_kernels.py:111  out[tid + i * BLOCK, bx] = total[i]
        out[tx + 128 * i + bx_times_out_s1] = total[i];
    }
}
