// matmul_kernel
//   A: bfloat16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   A: TmaLoad() of bfloat16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sA_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   B: bfloat16 (B_0,B_1):(B_s0,1), 16-byte aligned
//   B: TmaLoad() of bfloat16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sB_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   C: bfloat16 (C_0,C_1):(C_s0,1), 16-byte aligned
//   C: TmaStore() of bfloat16 tiles Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192)), 2 boxes of 64 x 128 with 128-byte swizzle
//   sC_layout = Sw<3,3,3> o 0 o ((8,16),(64,2),(1,2)):((64,512),(1,8192),(0,16384))
//   mma = TiledMMA(SM90_64x128x16_F32BF16BF16_SS, atoms (1,1,1):(0,0,0))
//   copy_C = TiledCopy(CopyAtom(StMatrix(4), bfloat16), tv ((4,8,4),((2,2,16),1,1)):((128,1,16),((64,8,512),0,...
//   sA: shared bfloat16 Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   sB: shared bfloat16 Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   sC: shared bfloat16 Sw<3,3,3> o 0 o ((8,16),(64,2),(1,2)):((64,512),(1,8192),(0,16384))
//   pipe_full: shared uint64 5:1
//   pipe_empty: shared uint64 5:1
//   block (384, 1, 1)
//   229456 bytes of dynamic shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
struct bf16 { unsigned short bits; };
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void setmaxnreg_dec_24() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
}
__device__ __forceinline__ bool elect() {
    unsigned elected;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(elected) :: "memory");
    return elected != 0;
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void tma_load_2d(unsigned smem, const TensorMap* map, int c0, int c1, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}
__device__ __forceinline__ void setmaxnreg_inc_240() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
}
__device__ __forceinline__ void bar_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void bar_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
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
    return (smem & 0x3ffff) >> 4 | layout;
}
__device__ __forceinline__ void warpgroup_commit_batch() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void warpgroup_wait_1() {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ __forceinline__ void warpgroup_wait_0() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ __forceinline__ void wgmma_pin(float& x) {
    asm volatile("" : "+f"(x) :: "memory");
}
__device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
__device__ __forceinline__ void put_16(unsigned& word, int shift, unsigned x) {
    word = word & ~(0xffffu << shift) | (x & 0xffffu) << shift;
}
__device__ __forceinline__ void bulk_wait_group_read_0() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void stmatrix_x4(unsigned dst_smem, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(dst_smem), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}
__device__ __forceinline__ int swizzle_3_3_3(int x) {
    return x ^ (x >> 3 & 56);
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void tma_store_2d(unsigned smem, const TensorMap* map, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
matmul_kernel(const __grid_constant__ TensorMap A,
              const __grid_constant__ TensorMap B,
              const __grid_constant__ TensorMap C,
              const int M, const int N, const int K) {
    extern __shared__ __align__(1024) unsigned char smem_pool[];
    bf16* const sA = reinterpret_cast<bf16*>(smem_pool);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
    bf16* const sB = reinterpret_cast<bf16*>(smem_pool + 81920);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
    bf16* const sC = reinterpret_cast<bf16*>(smem_pool + 163840);  // Sw<3,3,3> o 0 o ((8,16),(64,2),(1,2)):((64,512),(1,8192),(0,16384))
    unsigned long long* const pipe_full = reinterpret_cast<unsigned long long*>(smem_pool + 229376);  // 5:1
    unsigned long long* const pipe_empty = reinterpret_cast<unsigned long long*>(smem_pool + 229416);  // 5:1
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);
    const unsigned sC_s = (unsigned)__cvta_generic_to_shared(sC);
    const unsigned pipe_full_s = (unsigned)__cvta_generic_to_shared(pipe_full);
    const unsigned pipe_empty_s = (unsigned)__cvta_generic_to_shared(pipe_empty);
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);

    // 18_matmul_persistent.py:100  pipe.init()
    const int tx = threadIdx.x;
    // 18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sche...  < 18_matmul_persistent.py:106
    const int bx = blockIdx.x;
    const int grid_x = gridDim.x;
    // 18_matmul_persistent.py:100  pipe.init()
    if (tx == 0) {
        mbarrier_init(pipe_full_s, 1);
        mbarrier_init(pipe_empty_s, 1);
        mbarrier_init(pipe_full_s + 8, 1);
        mbarrier_init(pipe_empty_s + 8, 1);
        mbarrier_init(pipe_full_s + 16, 1);
        mbarrier_init(pipe_empty_s + 16, 1);
        mbarrier_init(pipe_full_s + 24, 1);
        mbarrier_init(pipe_empty_s + 24, 1);
        mbarrier_init(pipe_full_s + 32, 1);
        mbarrier_init(pipe_empty_s + 32, 1);
        fence_mbarrier_init();
    }
    // 18_matmul_persistent.py:101  mo.sync_threads()
    __syncthreads();
    // 18_matmul_persistent.py:102  sched, k_tiles = mo.PersistentTileScheduler(mo.ceil_div(M, BM), mo.ceil_div(N,...
    const int t0 = (M + 127) >> 7;
    const int t1 = (N + 127) >> 7;
    const int k_tiles = (K + 63) >> 6;
    // 18_matmul_persistent.py:103  if mo.warpgroup_idx() == 2:
    if (warpgroup == 2) {
        // 18_matmul_persistent.py:104  mo.warpgroup_reg_dealloc(24)  # of 168 registers each, 144 go to
        setmaxnreg_dec_24();
        // 18_matmul_persistent.py:105  if mo.warp_idx() == 8 and mo.elect():  < 18_matmul_persistent.py:105
        const bool t2 = tx / 32 == 8;
        bool cond = t2;
        if (t2) {
            cond = elect();
        }
        if (cond) {
            // 18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sche...  < 18_matmul_persistent.py:106
            int state_stage = 0;
            int state_phase = 1;
            for (int tile = bx; tile < t0 * t1; tile += grid_x) {
                // 18_matmul_persistent.py:25  m, n, _ = sched.coordinates(tile)  # neighbours...  < 18_matmul_persistent.py:106
                const int t3 = t1 * 8;
                const int t4 = (int)((unsigned)tile / (unsigned)t3);
                const int t5 = tile - t4 * t3;
                const int t6 = t4 * 8;
                const int t7 = min(t0 - t6, 8);
                const int n = (int)((unsigned)t5 / (unsigned)t7);
                const int m = t6 + t5 - n * t7;
                // 18_matmul_persistent.py:26  for k in range(k_tiles):  < 18_matmul_persistent.py:106
                int state_stage_1 = state_stage;
                int state_phase_1 = state_phase;
                for (int k = 0; k < k_tiles; ++k) {
                    // 18_matmul_persistent.py:27  pipe.producer_acquire(state)  < 18_matmul_persistent.py:106
                    mbarrier_wait(pipe_empty_s + 8 * state_stage_1, state_phase_1);
                    mbarrier_arrive_expect_tx(pipe_full_s + 8 * state_stage_1, 32768);
                    // 18_matmul_persistent.py:28  mo.copyto(A, sA[:, :, state.stage], gA[:, :, m,...  < 18_matmul_persistent.py:106
                    const int t8 = state_stage_1 * 8192;
                    const int t9 = k * 64;
                    tma_load_2d(sA_s + 2 * t8, &A, t9, m * 128, pipe_full_s + 8 * state_stage_1);
                    // 18_matmul_persistent.py:29  mo.copyto(B, sB[:, :, state.stage], gB[:, :, n,...  < 18_matmul_persistent.py:106
                    tma_load_2d(sB_s + 2 * t8, &B, t9, n * 128, pipe_full_s + 8 * state_stage_1);
                    // 18_matmul_persistent.py:30  state = state.next()  < 18_matmul_persistent.py:106
                    const int t10 = state_stage_1 + 1;
                    const bool t11 = t10 == 5;
                    // 18_matmul_persistent.py:26  for k in range(k_tiles):  < 18_matmul_persistent.py:106
                    state_stage_1 = t11 ? 0 : t10;
                    state_phase_1 = t11 ? state_phase_1 ^ 1 : state_phase_1;
                }
                // 18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sche...  < 18_matmul_persistent.py:106
                state_stage = state_stage_1;
                state_phase = state_phase_1;
            }
        }
    } else {
        // 18_matmul_persistent.py:108  mo.warpgroup_reg_alloc(240)  # those who hold the sums
        setmaxnreg_inc_240();
        // 18_matmul_persistent.py:75  lane, group = mo.thread_idx().x % GROUP, mo.warp...  < 18_matmul_persistent.py:109
        const int lane = tx % 128;
        // 18_matmul_persistent.py:80  if group == 1:  < 18_matmul_persistent.py:109
        int state_stage = 0;
        int state_phase = 0;
        if (warpgroup == 1) {
            // 18_matmul_persistent.py:81  mo.barrier_arrive(TURN, 2 * GROUP)  # warpgroup...  < 18_matmul_persistent.py:109
            bar_arrive(3, 256);
            // 18_matmul_persistent.py:82  state = state.advance(k_tiles)  # and the stages...  < 18_matmul_persistent.py:109
            const unsigned k_tiles_1 = (unsigned)k_tiles;
            // 18_matmul_persistent.py:80  if group == 1:  < 18_matmul_persistent.py:109
            state_stage = (int)(k_tiles_1 % 5);
            state_phase = (int)((k_tiles_1 / 5) & 1u);
        }
        // 18_matmul_persistent.py:83  for tile in range(sched.first + group * sched.st...  < 18_matmul_persistent.py:109
        int state_stage_1 = state_stage;
        int state_phase_1 = state_phase;
        for (int tile = bx + warpgroup * grid_x; tile < t0 * t1; tile += grid_x * 2) {
            // 18_matmul_persistent.py:84  m, n, _ = sched.coordinates(tile)  < 18_matmul_persistent.py:109
            const int t12 = t1 * 8;
            const int t13 = (int)((unsigned)tile / (unsigned)t12);
            const int t14 = tile - t13 * t12;
            const int t15 = t13 * 8;
            const int t16 = min(t0 - t15, 8);
            const int n = (int)((unsigned)t14 / (unsigned)t16);
            // 18_matmul_persistent.py:85  acc = mma.partition_fragment_C((BM, BN))  # (MMA...  < 18_matmul_persistent.py:109
            float acc[128];
            // 18_matmul_persistent.py:86  mo.barrier_sync(TURN + group, 2 * GROUP)  # 128...  < 18_matmul_persistent.py:109
            bar_sync(warpgroup + 3, 256);
            // 18_matmul_persistent.py:37  for k in range(k_tiles):  < 18_matmul_persistent.py:109
            int before_stage = state_stage_1;
            int state_stage_2 = state_stage_1;
            int state_phase_2 = state_phase_1;
            for (int k = 0; k < k_tiles; ++k) {
                // 18_matmul_persistent.py:38  pipe.consumer_wait(state)  < 18_matmul_persistent.py:109
                mbarrier_wait(pipe_full_s + 8 * state_stage_2, state_phase_2);
                // 18_matmul_persistent.py:39  mo.warpgroup_arrive()  < 18_matmul_persistent.py:109
                warpgroup_arrive();
                // 18_matmul_persistent.py:41  mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:...  < 18_matmul_persistent.py:109
                const int t17 = state_stage_2 * 8192;
                const bool t18 = k > 0;
                const unsigned long long tCrA_desc = wgmma_descriptor(sA_s + 2 * t17, 0x4000004000010000ull);
                const unsigned long long tCrB_desc = wgmma_descriptor(sB_s + 2 * t17, 0x4000004000010000ull);
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    wgmma_64x128x16_f32bf16bf16_ss(acc + 64 * i, tCrA_desc + 512 * i, tCrB_desc, t18);
                }
                const int t19 = t17 + 16;
                const unsigned long long tCrA_desc_1 = wgmma_descriptor(sA_s + 2 * t19, 0x4000004000010000ull);
                const unsigned long long tCrB_desc_1 = wgmma_descriptor(sB_s + 2 * t19, 0x4000004000010000ull);
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    wgmma_64x128x16_f32bf16bf16_ss(acc + 64 * i, tCrA_desc_1 + 512 * i, tCrB_desc_1, true);
                }
                const int t20 = t17 + 32;
                const unsigned long long tCrA_desc_2 = wgmma_descriptor(sA_s + 2 * t20, 0x4000004000010000ull);
                const unsigned long long tCrB_desc_2 = wgmma_descriptor(sB_s + 2 * t20, 0x4000004000010000ull);
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    wgmma_64x128x16_f32bf16bf16_ss(acc + 64 * i, tCrA_desc_2 + 512 * i, tCrB_desc_2, true);
                }
                const int t21 = t17 + 48;
                const unsigned long long tCrA_desc_3 = wgmma_descriptor(sA_s + 2 * t21, 0x4000004000010000ull);
                const unsigned long long tCrB_desc_3 = wgmma_descriptor(sB_s + 2 * t21, 0x4000004000010000ull);
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    wgmma_64x128x16_f32bf16bf16_ss(acc + 64 * i, tCrA_desc_3 + 512 * i, tCrB_desc_3, true);
                }
                // 18_matmul_persistent.py:42  mo.warpgroup_commit_batch()  < 18_matmul_persistent.py:109
                warpgroup_commit_batch();
                // 18_matmul_persistent.py:43  mo.warpgroup_wait(1)  # the products of the stag...  < 18_matmul_persistent.py:109
                warpgroup_wait_1();
                // 18_matmul_persistent.py:44  if k > 0 and lane == 0:  < 18_matmul_persistent.py:109
                if (t18 && lane == 0) {
                    // 18_matmul_persistent.py:45  pipe.consumer_release(before)  < 18_matmul_persistent.py:109
                    mbarrier_arrive(pipe_empty_s + 8 * before_stage);
                }
                // 18_matmul_persistent.py:46  before, state = state, state.next()  < 18_matmul_persistent.py:109
                const int t22 = state_stage_2 + 1;
                const bool t23 = t22 == 5;
                // 18_matmul_persistent.py:37  for k in range(k_tiles):  < 18_matmul_persistent.py:109
                before_stage = state_stage_2;
                state_stage_2 = t23 ? 0 : t22;
                state_phase_2 = t23 ? state_phase_2 ^ 1 : state_phase_2;
            }
            // 18_matmul_persistent.py:48  mo.barrier_arrive(TURN + 1 - mo.warpgroup_idx(),...  < 18_matmul_persistent.py:109
            bar_arrive(4 - warpgroup, 256);
            // 18_matmul_persistent.py:49  mo.warpgroup_wait(0)  < 18_matmul_persistent.py:109
            warpgroup_wait_0();
            #pragma unroll
            for (int i = 0; i < 128; ++i) {
                wgmma_pin(acc[i]);
            }
            // 18_matmul_persistent.py:50  if lane == 0:  < 18_matmul_persistent.py:109
            const bool t24 = lane == 0;
            if (t24) {
                // 18_matmul_persistent.py:51  pipe.consumer_release(before)  < 18_matmul_persistent.py:109
                mbarrier_arrive(pipe_empty_s + 8 * before_stage);
            }
            // 18_matmul_persistent.py:88  state = state.advance(k_tiles)  # past the stage...  < 18_matmul_persistent.py:109
            const unsigned t25 = (unsigned)(state_stage_2 + k_tiles);
            // 18_matmul_persistent.py:89  store(C, sC[:, :, group], copy_C, acc, m, n)  < 18_matmul_persistent.py:109
            const int t26 = warpgroup * 16384;
            // 18_matmul_persistent.py:59  thr_copy, rounded = copy_C.get_slice(lane), acc....  < 18_matmul_persistent.py:109
            unsigned rounded[64];
            #pragma unroll
            for (int i = 0; i < 128; ++i) {
                put_16(rounded[i / 2], i % 2 * 16, to_bf16(acc[i]).bits);
            }
            // 18_matmul_persistent.py:60  if lane == 0:  < 18_matmul_persistent.py:109
            if (t24) {
                // 18_matmul_persistent.py:61  mo.tma_store_wait(0)  # only the thread that sto...  < 18_matmul_persistent.py:109
                bulk_wait_group_read_0();
            }
            // 18_matmul_persistent.py:62  mo.barrier_sync(STORE + group, GROUP)  # so all...  < 18_matmul_persistent.py:109
            const int t27 = warpgroup + 1;
            bar_sync(t27, 128);
            // 18_matmul_persistent.py:63  mo.copyto(copy_C, thr_copy.partition_D(sC), thr_...  < 18_matmul_persistent.py:109
            #pragma unroll
            for (int l = 0; l < 2; ++l) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        stmatrix_x4(sC_s + 2 * (swizzle_3_3_3(t26 + tx % 16 * 64 + lane / 16 % 2 * 8 + lane / 32 * 1024 + 16 * i) + 8192 * j + 4096 * l), rounded[4 * i + 16 * j + 32 * l], rounded[4 * i + 16 * j + 32 * l + 1], rounded[4 * i + 16 * j + 32 * l + 2], rounded[4 * i + 16 * j + 32 * l + 3]);
                    }
                }
            }
            // 18_matmul_persistent.py:64  mo.fence_proxy_async()  # what this thread wrote...  < 18_matmul_persistent.py:109
            fence_proxy_async();
            // 18_matmul_persistent.py:65  mo.barrier_sync(STORE + group, GROUP)  # and now...  < 18_matmul_persistent.py:109
            bar_sync(t27, 128);
            // 18_matmul_persistent.py:66  if lane == 0:  < 18_matmul_persistent.py:109
            if (t24) {
                // 18_matmul_persistent.py:68  mo.copyto(C, gC[:, :, m, n], sC)  < 18_matmul_persistent.py:109
                const int t28 = (t15 + t14 - n * t16) * 128;
                const int t29 = n * 128;
                tma_store_2d(sC_s + 2 * t26, &C, t29, t28);
                tma_store_2d(sC_s + 2 * (t26 + 8192), &C, t29 + 64, t28);
                // 18_matmul_persistent.py:69  mo.tma_store_arrive()  < 18_matmul_persistent.py:109
                bulk_commit_group();
            }
            // 18_matmul_persistent.py:83  for tile in range(sched.first + group * sched.st...  < 18_matmul_persistent.py:109
            state_stage_1 = (int)(t25 % 5);
            state_phase_1 = state_phase_2 ^ (int)((t25 / 5) & 1u);
        }
        // 18_matmul_persistent.py:90  if lane == 0:  < 18_matmul_persistent.py:109
        if (lane == 0) {
            // 18_matmul_persistent.py:91  mo.tma_store_wait(0)  # shared memory is freed w...  < 18_matmul_persistent.py:109
            bulk_wait_group_read_0();
        }
    }
}
