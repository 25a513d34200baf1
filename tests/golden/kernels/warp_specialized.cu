// matmul_kernel
//   A: float16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   A: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sA_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   B: float16 (B_0,B_1):(B_s0,1), 16-byte aligned
//   B: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sB_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
//   C: float16 (C_0,C_1):(C_s0,1), 16-byte aligned
//   C: TmaStore() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192)), 2 boxes of 64 x 128 with 128-byte swizzle
//   sC_layout = Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))
//   mma = TiledMMA(SM90_64x128x16_F32F16F16_SS, atoms (2,1,1):(1,0,0))
//   copy_C = TiledCopy(CopyAtom(StMatrix(4), float16), tv ((4,8,8),((2,2,16),1,1)):((256,1,16),((128,8,1024),0,0)),
//       tile (128,128))
//   block (384, 1, 1)
//   196688 bytes of dynamic shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
struct f16 { unsigned short bits; };
// A matrix in shared memory: 128-byte swizzle, leading offset 16, stride offset 1024 bytes.
constexpr unsigned long long wgmma_sw128_16_1024 = 1ull << 62 | 1024ull / 16 << 32 | 16ull / 16 << 16;
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void setmaxnreg_dec_40() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
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
__device__ __forceinline__ void setmaxnreg_inc_232() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;" ::: "memory");
}
__device__ __forceinline__ void warpgroup_arrive() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_64x128x16_f32f16f16_ss(float* d, unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
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
__device__ __forceinline__ unsigned to_f16x2(float x0, float x1) {
    unsigned y; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1)); return y;
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
__device__ __forceinline__ void bar_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void tma_store_2d(unsigned smem, const TensorMap* map, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_read_0() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
matmul_kernel(const __grid_constant__ TensorMap A, const int A_1,
              const __grid_constant__ TensorMap B,
              const __grid_constant__ TensorMap C,
              const int K) {
    extern __shared__ __align__(1024) unsigned char smem_pool[];
    f16* const sA = reinterpret_cast<f16*>(smem_pool);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
    f16* const sB = reinterpret_cast<f16*>(smem_pool + 81920);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,5)):((64,512),(1,0),(0,8192))
    f16* const sC = reinterpret_cast<f16*>(smem_pool + 163840);  // Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))
    unsigned long long* const pipe_full = reinterpret_cast<unsigned long long*>(smem_pool + 196608);  // 5:1
    unsigned long long* const pipe_empty = reinterpret_cast<unsigned long long*>(smem_pool + 196648);  // 5:1
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);
    const unsigned sC_s = (unsigned)__cvta_generic_to_shared(sC);
    const unsigned pipe_full_s = (unsigned)__cvta_generic_to_shared(pipe_full);
    const unsigned pipe_empty_s = (unsigned)__cvta_generic_to_shared(pipe_empty);
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);

    // 17_matmul_warp_specialized.py:76  pipe.init()
    const int tx = threadIdx.x;
    // 17_matmul_warp_specialized.py:81  produce(A, B, sA, sB, pipe)
    //   17_matmul_warp_specialized.py:19  bx, by, _ = mo.block_idx()
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    // 17_matmul_warp_specialized.py:76  pipe.init()
    const bool tx_is_0 = tx == 0;
    if (tx_is_0) {
        mbarrier_init(pipe_full_s, 1);
        mbarrier_init(pipe_empty_s, 2);
        mbarrier_init(pipe_full_s + 8, 1);
        mbarrier_init(pipe_empty_s + 8, 2);
        mbarrier_init(pipe_full_s + 16, 1);
        mbarrier_init(pipe_empty_s + 16, 2);
        mbarrier_init(pipe_full_s + 24, 1);
        mbarrier_init(pipe_empty_s + 24, 2);
        mbarrier_init(pipe_full_s + 32, 1);
        mbarrier_init(pipe_empty_s + 32, 2);
        fence_mbarrier_init();
    }
    // 17_matmul_warp_specialized.py:77  mo.sync_threads()
    __syncthreads();
    // 17_matmul_warp_specialized.py:78  if mo.warpgroup_idx() == 2:
    if (warpgroup == 2) {
        // 17_matmul_warp_specialized.py:79  mo.warpgroup_reg_dealloc(40)  # registers that the other two take
        setmaxnreg_dec_40();
        // 17_matmul_warp_specialized.py:80  if mo.warp_idx() == CONSUMERS // 32 and mo.elect():
        const bool tx_div_32_is_8 = tx / 32 == 8;
        bool cond = tx_div_32_is_8;
        if (tx_div_32_is_8) {
            cond = elect();
        }
        if (cond) {
            // 17_matmul_warp_specialized.py:81  produce(A, B, sA, sB, pipe)
            //   17_matmul_warp_specialized.py:20  gA = mo.tile(A.tensor, (BM, BK), (bx, None))  # (BM, BK, k), coordinate...
            const int bx_times_128 = bx * 128;
            //   17_matmul_warp_specialized.py:21  gB = mo.tile(B.tensor, (BN, BK), (by, None))  # (BN, BK, k)
            const int by_times_128 = by * 128;
            //   17_matmul_warp_specialized.py:23  for k in range(mo.size(gA, 2)):
            int state_stage = 0;
            int state_phase = 1;
            for (int k = 0; k < ((A_1 + 63) >> 6); ++k) {
                //   17_matmul_warp_specialized.py:24  pipe.producer_acquire(state)  # and expect the bytes of both tiles
                mbarrier_wait(pipe_empty_s + 8 * state_stage, state_phase);
                mbarrier_arrive_expect_tx(pipe_full_s + 8 * state_stage, 32768);
                //   17_matmul_warp_specialized.py:25  mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(s...
                const int state_stage_times_8192 = state_stage * 8192;
                const int k_times_64 = k * 64;
                tma_load_2d(sA_s + 2 * state_stage_times_8192, &A, k_times_64, bx_times_128, pipe_full_s + 8 * state_stage);
                //   17_matmul_warp_specialized.py:26  mo.copyto(B, sB[:, :, state.stage], gB[:, :, k], barrier=pipe.barrier(s...
                tma_load_2d(sB_s + 2 * state_stage_times_8192, &B, k_times_64, by_times_128, pipe_full_s + 8 * state_stage);
                //   17_matmul_warp_specialized.py:27  state = state.next()
                const int state_stage_plus_1 = state_stage + 1;
                const bool round_ends = state_stage_plus_1 == 5;
                //   17_matmul_warp_specialized.py:23  for k in range(mo.size(gA, 2)):
                state_stage = round_ends ? 0 : state_stage_plus_1;
                state_phase = round_ends ? state_phase ^ 1 : state_phase;
            }
        }
    } else {
        // 17_matmul_warp_specialized.py:83  mo.warpgroup_reg_alloc(232)
        setmaxnreg_inc_232();
        // 17_matmul_warp_specialized.py:84  store(C, sC, copy_C, consume(mma, sA, sB, pipe, mo.ceil_div(K, BK)))
        //   17_matmul_warp_specialized.py:34  thr_mma, first = mma.get_slice(tid % CONSUMERS), tid % 128 == 0
        const int tx_mod_256 = tx % 256;
        const bool first = tx % 128 == 0;
        //   17_matmul_warp_specialized.py:35  tCrA = thr_mma.partition_fragment_A(sA)  # (MMA, MMA_M, MMA_K, stages):...
        const int tCrA_at = warpgroup % 2 * 4096;
        //   17_matmul_warp_specialized.py:37  tCrC = mma.partition_fragment_C((BM, BN))  # (MMA, MMA_M, MMA_N): regis...
        float tCrC[64];
        //   17_matmul_warp_specialized.py:40  for k in range(k_tiles):
        int before_stage = 0;
        int state_stage = 0;
        int state_phase = 0;
        for (int k = 0; k < ((K + 63) >> 6); ++k) {
            //   17_matmul_warp_specialized.py:41  pipe.consumer_wait(state)
            mbarrier_wait(pipe_full_s + 8 * state_stage, state_phase);
            //   17_matmul_warp_specialized.py:42  mo.warpgroup_arrive()
            warpgroup_arrive();
            //   17_matmul_warp_specialized.py:43  for kk in mo.static_range(mo.size(tCrA, 2)):  # one instruction deep in...
            const int state_stage_times_8192 = state_stage * 8192;
            const bool k_above_0 = k > 0;
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                //   17_matmul_warp_specialized.py:44  mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage],...
                const int tCrB_at = state_stage_times_8192 + 16 * kk;
                const unsigned long long tCrA_desc = wgmma_descriptor(sA_s + 2 * (tCrA_at + tCrB_at), wgmma_sw128_16_1024);
                const unsigned long long tCrB_desc = wgmma_descriptor(sB_s + 2 * tCrB_at, wgmma_sw128_16_1024);
                wgmma_64x128x16_f32f16f16_ss(tCrC, tCrA_desc, tCrB_desc, kk > 0 || k_above_0);
            }
            //   17_matmul_warp_specialized.py:45  mo.warpgroup_commit_batch()
            warpgroup_commit_batch();
            //   17_matmul_warp_specialized.py:46  mo.warpgroup_wait(1)  # the products of the stage before are done
            warpgroup_wait_1();
            //   17_matmul_warp_specialized.py:47  if k > 0 and first:
            if (k_above_0 && first) {
                //   17_matmul_warp_specialized.py:48  pipe.consumer_release(before)  # one arrival of each warpgroup
                mbarrier_arrive(pipe_empty_s + 8 * before_stage);
            }
            //   17_matmul_warp_specialized.py:49  before, state = state, state.next()
            const int state_stage_plus_1 = state_stage + 1;
            const bool round_ends = state_stage_plus_1 == 5;
            //   17_matmul_warp_specialized.py:40  for k in range(k_tiles):
            before_stage = state_stage;
            state_stage = round_ends ? 0 : state_stage_plus_1;
            state_phase = round_ends ? state_phase ^ 1 : state_phase;
        }
        //   17_matmul_warp_specialized.py:50  mo.warpgroup_wait(0)
        warpgroup_wait_0();
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            wgmma_pin(tCrC[i]);
        }
        //   17_matmul_warp_specialized.py:60  part = tCrC.to(sC.dtype)  # (MMA, MMA_M, MMA_N): rounds to float16
        unsigned part[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
            part[i] = to_f16x2(tCrC[2 * i], tCrC[2 * i + 1]);
        }
        //   17_matmul_warp_specialized.py:61  mo.copyto(copy_C, thr_copy.partition_D(sC), thr_copy.retile_S(part))
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                stmatrix_x4(sC_s + 2 * (swizzle_3_3_3(tx % 16 * 64 + tx_mod_256 / 16 % 2 * 8 + tx_mod_256 / 32 * 1024 + 16 * i) + 8192 * j), part[4 * i + 16 * j], part[4 * i + 16 * j + 1], part[4 * i + 16 * j + 2], part[4 * i + 16 * j + 3]);
            }
        }
        //   17_matmul_warp_specialized.py:62  mo.fence_proxy_async()  # what this thread wrote is visible to TMA
        fence_proxy_async();
        //   17_matmul_warp_specialized.py:63  mo.barrier_sync(1, CONSUMERS)
        bar_sync(1, 256);
        // 17_matmul_warp_specialized.py:84  store(C, sC, copy_C, consume(mma, sA, sB, pipe, mo.ceil_div(K, BK)))
        //   17_matmul_warp_specialized.py:64  if tid == 0:
        if (tx_is_0) {
            //   17_matmul_warp_specialized.py:65  mo.copyto(C, mo.tile(C.tensor, (BM, BN), (bx, by)), sC)
            const int bx_times_128 = bx * 128;
            const int by_times_128 = by * 128;
            tma_store_2d(sC_s, &C, by_times_128, bx_times_128);
            tma_store_2d(sC_s + 16384, &C, by_times_128 + 64, bx_times_128);
            //   17_matmul_warp_specialized.py:66  mo.tma_store_arrive()
            bulk_commit_group();
            //   17_matmul_warp_specialized.py:67  mo.tma_store_wait(0)
            bulk_wait_group_read_0();
        }
    }
}
