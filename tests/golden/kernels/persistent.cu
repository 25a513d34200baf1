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
//   copy_C = TiledCopy(CopyAtom(StMatrix(4), bfloat16), tv ((4,8,4),((2,2,16),1,1)):((128,1,16),((64,8,512),0,0)),
//       tile (64,128))
//   block (384, 1, 1)
//   229456 bytes of dynamic shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
struct bf16 { unsigned short bits; };
// A matrix in shared memory: 128-byte swizzle, leading offset 16, stride offset 1024 bytes.
constexpr unsigned long long wgmma_sw128_16_1024 = 1ull << 62 | 1024ull / 16 << 32 | 16ull / 16 << 16;
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
    unsigned long long matrix = (smem & 0x3ffff) >> 4 | layout; asm volatile("" : "+l"(matrix)); return matrix;
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
__device__ __forceinline__ unsigned to_bf16x2(float x0, float x1) {
    unsigned y; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1)); return y;
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
    // 18_matmul_persistent.py:106  produce(A, B, sA, sB, pipe, sched, k_tiles)
    //   18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sched.step):
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
    const int tiles_m = (M + 127) >> 7;
    const int tiles_n = (N + 127) >> 7;
    const int k_tiles = (K + 63) >> 6;
    // 18_matmul_persistent.py:103  if mo.warpgroup_idx() == 2:
    if (warpgroup == 2) {
        // 18_matmul_persistent.py:104  mo.warpgroup_reg_dealloc(24)  # of 168 registers each, 144 go to
        setmaxnreg_dec_24();
        // 18_matmul_persistent.py:105  if mo.warp_idx() == 8 and mo.elect():
        const bool tx_div_32_is_8 = tx / 32 == 8;
        bool cond = tx_div_32_is_8;
        if (tx_div_32_is_8) {
            cond = elect();
        }
        if (cond) {
            // 18_matmul_persistent.py:106  produce(A, B, sA, sB, pipe, sched, k_tiles)
            //   18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sched.step):
            int state_stage = 0;
            int state_phase = 1;
            for (int tile = bx; tile < tiles_m * tiles_n; tile += grid_x) {
                //   18_matmul_persistent.py:25  m, n, _ = sched.coordinates(tile)  # neighbours in time share rows of A or B,...
                const int tiles_of_strip = tiles_n * 8;
                const int strip = (int)((unsigned)tile / (unsigned)tiles_of_strip);
                const int tile_in_strip = tile - strip * tiles_of_strip;
                const int strip_times_8 = strip * 8;
                const int strip_width = min(tiles_m - strip_times_8, 8);
                const int n = (int)((unsigned)tile_in_strip / (unsigned)strip_width);
                const int m = strip_times_8 + tile_in_strip - n * strip_width;
                //   18_matmul_persistent.py:26  for k in range(k_tiles):
                int state_stage_1 = state_stage;
                int state_phase_1 = state_phase;
                for (int k = 0; k < k_tiles; ++k) {
                    //   18_matmul_persistent.py:27  pipe.producer_acquire(state)
                    mbarrier_wait(pipe_empty_s + 8 * state_stage_1, state_phase_1);
                    mbarrier_arrive_expect_tx(pipe_full_s + 8 * state_stage_1, 32768);
                    //   18_matmul_persistent.py:28  mo.copyto(A, sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
                    const int state_stage_1_times_8192 = state_stage_1 * 8192;
                    const int k_times_64 = k * 64;
                    tma_load_2d(sA_s + 2 * state_stage_1_times_8192, &A, k_times_64, m * 128, pipe_full_s + 8 * state_stage_1);
                    //   18_matmul_persistent.py:29  mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                    tma_load_2d(sB_s + 2 * state_stage_1_times_8192, &B, k_times_64, n * 128, pipe_full_s + 8 * state_stage_1);
                    //   18_matmul_persistent.py:30  state = state.next()
                    const int state_stage_1_plus_1 = state_stage_1 + 1;
                    const bool round_ends = state_stage_1_plus_1 == 5;
                    //   18_matmul_persistent.py:26  for k in range(k_tiles):
                    state_stage_1 = round_ends ? 0 : state_stage_1_plus_1;
                    state_phase_1 = round_ends ? state_phase_1 ^ 1 : state_phase_1;
                }
                //   18_matmul_persistent.py:24  for tile in range(sched.first, sched.tiles, sched.step):
                state_stage = state_stage_1;
                state_phase = state_phase_1;
            }
        }
    } else {
        // 18_matmul_persistent.py:108  mo.warpgroup_reg_alloc(240)  # those who hold the sums
        setmaxnreg_inc_240();
        // 18_matmul_persistent.py:109  consume(C, sA, sB, sC, mma, copy_C, pipe, sched, k_tiles)
        //   18_matmul_persistent.py:75  lane, group = mo.thread_idx().x % GROUP, mo.warpgroup_idx()
        const int lane = tx % 128;
        //   18_matmul_persistent.py:80  if group == 1:
        int state_stage = 0;
        int state_phase = 0;
        if (warpgroup == 1) {
            //   18_matmul_persistent.py:81  mo.barrier_arrive(TURN, 2 * GROUP)  # warpgroup 0 has the first turn,
            bar_arrive(3, 256);
            //   18_matmul_persistent.py:82  state = state.advance(k_tiles)  # and the stages of the first tile
            const unsigned k_tiles_1 = (unsigned)k_tiles;
            //   18_matmul_persistent.py:80  if group == 1:
            state_stage = (int)(k_tiles_1 % 5);
            state_phase = (int)((k_tiles_1 / 5) & 1u);
        }
        //   18_matmul_persistent.py:83  for tile in range(sched.first + group * sched.step, sched.tiles, 2 * sched.st...
        int state_stage_1 = state_stage;
        int state_phase_1 = state_phase;
        for (int tile = bx + warpgroup * grid_x; tile < tiles_m * tiles_n; tile += grid_x * 2) {
            //   18_matmul_persistent.py:84  m, n, _ = sched.coordinates(tile)
            const int tiles_of_strip = tiles_n * 8;
            const int strip = (int)((unsigned)tile / (unsigned)tiles_of_strip);
            const int tile_in_strip = tile - strip * tiles_of_strip;
            const int strip_times_8 = strip * 8;
            const int strip_width = min(tiles_m - strip_times_8, 8);
            const int n = (int)((unsigned)tile_in_strip / (unsigned)strip_width);
            //   18_matmul_persistent.py:85  acc = mma.partition_fragment_C((BM, BN))  # (MMA, MMA_M, MMA_N): 128 register...
            float acc[128];
            //   18_matmul_persistent.py:86  mo.barrier_sync(TURN + group, 2 * GROUP)  # 128 threads wait; the 128 that ar...
            bar_sync(warpgroup + 3, 256);
            //   18_matmul_persistent.py:87  state = multiply(mma, tCrA, tCrB, acc, pipe, state, k_tiles)
            //     18_matmul_persistent.py:37  for k in range(k_tiles):
            int before_stage = state_stage_1;
            int state_stage_2 = state_stage_1;
            int state_phase_2 = state_phase_1;
            for (int k = 0; k < k_tiles; ++k) {
                //     18_matmul_persistent.py:38  pipe.consumer_wait(state)
                mbarrier_wait(pipe_full_s + 8 * state_stage_2, state_phase_2);
                //     18_matmul_persistent.py:39  mo.warpgroup_arrive()
                warpgroup_arrive();
                //     18_matmul_persistent.py:40  for kk in mo.static_range(mo.size(tCrA, 2)):
                const int state_stage_2_times_8192 = state_stage_2 * 8192;
                const bool k_above_0 = k > 0;
                #pragma unroll
                for (int kk = 0; kk < 4; ++kk) {
                    //     18_matmul_persistent.py:41  mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], acc,...
                    const int tCrA_at = state_stage_2_times_8192 + 16 * kk;
                    const unsigned long long tCrA_desc = wgmma_descriptor(sA_s + 2 * tCrA_at, wgmma_sw128_16_1024);
                    const unsigned long long tCrB_desc = wgmma_descriptor(sB_s + 2 * tCrA_at, wgmma_sw128_16_1024);
                    #pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        wgmma_64x128x16_f32bf16bf16_ss(acc + 64 * i, tCrA_desc + 512 * i, tCrB_desc, kk > 0 || k_above_0);
                    }
                }
                //     18_matmul_persistent.py:42  mo.warpgroup_commit_batch()
                warpgroup_commit_batch();
                //     18_matmul_persistent.py:43  mo.warpgroup_wait(1)  # the products of the stage before are done
                warpgroup_wait_1();
                //     18_matmul_persistent.py:44  if k > 0 and lane == 0:
                if (k_above_0 && lane == 0) {
                    //     18_matmul_persistent.py:45  pipe.consumer_release(before)
                    mbarrier_arrive(pipe_empty_s + 8 * before_stage);
                }
                //     18_matmul_persistent.py:46  before, state = state, state.next()
                const int state_stage_2_plus_1 = state_stage_2 + 1;
                const bool round_ends = state_stage_2_plus_1 == 5;
                //     18_matmul_persistent.py:37  for k in range(k_tiles):
                before_stage = state_stage_2;
                state_stage_2 = round_ends ? 0 : state_stage_2_plus_1;
                state_phase_2 = round_ends ? state_phase_2 ^ 1 : state_phase_2;
            }
            //     18_matmul_persistent.py:48  mo.barrier_arrive(TURN + 1 - mo.warpgroup_idx(), 2 * GROUP)
            bar_arrive(4 - warpgroup, 256);
            //     18_matmul_persistent.py:49  mo.warpgroup_wait(0)
            warpgroup_wait_0();
            #pragma unroll
            for (int i = 0; i < 128; ++i) {
                wgmma_pin(acc[i]);
            }
            //     18_matmul_persistent.py:50  if lane == 0:
            const bool lane_is_0 = lane == 0;
            if (lane_is_0) {
                //     18_matmul_persistent.py:51  pipe.consumer_release(before)
                mbarrier_arrive(pipe_empty_s + 8 * before_stage);
            }
            //   18_matmul_persistent.py:88  state = state.advance(k_tiles)  # past the stages that the other group reads...
            const unsigned state_part = (unsigned)(state_stage_2 + k_tiles);
            //   18_matmul_persistent.py:89  store(C, sC[:, :, group], copy_C, acc, m, n)
            const int warpgroup_times_16384_ = warpgroup * 16384;
            //     18_matmul_persistent.py:59  thr_copy, rounded = copy_C.get_slice(lane), acc.to(C.dtype)  # (MMA, MMA_M,...
            unsigned rounded[64];
            #pragma unroll
            for (int i = 0; i < 64; ++i) {
                rounded[i] = to_bf16x2(acc[2 * i], acc[2 * i + 1]);
            }
            //     18_matmul_persistent.py:60  if lane == 0:
            if (lane_is_0) {
                //     18_matmul_persistent.py:61  mo.tma_store_wait(0)  # only the thread that stored can wait for its store,
                bulk_wait_group_read_0();
            }
            //     18_matmul_persistent.py:62  mo.barrier_sync(STORE + group, GROUP)  # so all of them wait for that thread
            const int warpgroup_plus_1_ = warpgroup + 1;
            bar_sync(warpgroup_plus_1_, 128);
            //     18_matmul_persistent.py:63  mo.copyto(copy_C, thr_copy.partition_D(sC), thr_copy.retile_S(rounded))
            #pragma unroll
            for (int l = 0; l < 2; ++l) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        stmatrix_x4(sC_s + 2 * (swizzle_3_3_3(warpgroup_times_16384_ + tx % 16 * 64 + lane / 16 % 2 * 8 + lane / 32 * 1024 + 16 * i) + 8192 * j + 4096 * l), rounded[4 * i + 16 * j + 32 * l], rounded[4 * i + 16 * j + 32 * l + 1], rounded[4 * i + 16 * j + 32 * l + 2], rounded[4 * i + 16 * j + 32 * l + 3]);
                    }
                }
            }
            //     18_matmul_persistent.py:64  mo.fence_proxy_async()  # what this thread wrote is visible to TMA,
            fence_proxy_async();
            //     18_matmul_persistent.py:65  mo.barrier_sync(STORE + group, GROUP)  # and now what all of them wrote
            bar_sync(warpgroup_plus_1_, 128);
            //     18_matmul_persistent.py:66  if lane == 0:
            if (lane_is_0) {
                //     18_matmul_persistent.py:68  mo.copyto(C, gC[:, :, m, n], sC)
                const int m_times_128 = (strip_times_8 + tile_in_strip - n * strip_width) * 128;
                const int n_times_128 = n * 128;
                tma_store_2d(sC_s + 2 * warpgroup_times_16384_, &C, n_times_128, m_times_128);
                tma_store_2d(sC_s + 2 * (warpgroup_times_16384_ + 8192), &C, n_times_128 + 64, m_times_128);
                //     18_matmul_persistent.py:69  mo.tma_store_arrive()
                bulk_commit_group();
            }
            //   18_matmul_persistent.py:83  for tile in range(sched.first + group * sched.step, sched.tiles, 2 * sched.st...
            state_stage_1 = (int)(state_part % 5);
            state_phase_1 = state_phase_2 ^ (int)((state_part / 5) & 1u);
        }
        // 18_matmul_persistent.py:109  consume(C, sA, sB, sC, mma, copy_C, pipe, sched, k_tiles)
        //   18_matmul_persistent.py:90  if lane == 0:
        if (lane == 0) {
            //   18_matmul_persistent.py:91  mo.tma_store_wait(0)  # shared memory is freed with the block
            bulk_wait_group_read_0();
        }
    }
}
