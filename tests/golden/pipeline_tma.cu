// roles
//   C: float32 (C_0,C_1):(C_s0,1), 16-byte aligned
//   A: float16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   A: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   B: float16 (B_0,B_1):(B_s0,1), 16-byte aligned
//   B: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,4),(64,1)):((64,512),(1,0)), 1 box of 64 x 32 with 128-byte swizzle
//   stages = 3
//   fault =
//   block (384, 1, 1)
//   61488 bytes of dynamic shared memory

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
__device__ __forceinline__ void wgmma_64x32x16_f32f16f16_ss(float* d, unsigned long long a, unsigned long long b, int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
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

extern "C" __global__ void __launch_bounds__(384, 1)
roles(float* __restrict__ C, const int C_0, const int C_1, const int C_s0,
      const __grid_constant__ TensorMap A, const int A_1,
      const __grid_constant__ TensorMap B,
      const int K) {
    extern __shared__ __align__(1024) unsigned char smem_pool[];
    f16* const sA = reinterpret_cast<f16*>(smem_pool);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,3)):((64,512),(1,0),(0,8192))
    f16* const sB = reinterpret_cast<f16*>(smem_pool + 49152);  // Sw<3,3,3> o 0 o ((8,4),(64,1),(1,3)):((64,512),(1,0),(0,2048))
    unsigned long long* const pipe_full = reinterpret_cast<unsigned long long*>(smem_pool + 61440);  // 3:1
    unsigned long long* const pipe_empty = reinterpret_cast<unsigned long long*>(smem_pool + 61464);  // 3:1
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);
    const unsigned pipe_full_s = (unsigned)__cvta_generic_to_shared(pipe_full);
    const unsigned pipe_empty_s = (unsigned)__cvta_generic_to_shared(pipe_empty);
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);

    // pipeline_tma_kernels.py:88  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // pipeline_tma_kernels.py:100  produce(A, B, sA, sB, pipe, n_tiles, fault)
    //   pipeline_tma_kernels.py:48  gA = mo.tile(A.tensor, (BM, BK), (mo.block_idx().x, None))  # (bM, bK, k), co...
    const int bx = blockIdx.x;
    // pipeline_tma_kernels.py:93  pipe.init()
    if (tx == 0) {
        mbarrier_init(pipe_full_s, 1);
        mbarrier_init(pipe_empty_s, 2);
        mbarrier_init(pipe_full_s + 8, 1);
        mbarrier_init(pipe_empty_s + 8, 2);
        mbarrier_init(pipe_full_s + 16, 1);
        mbarrier_init(pipe_empty_s + 16, 2);
        fence_mbarrier_init();
    }
    // pipeline_tma_kernels.py:95  mo.sync_threads()
    __syncthreads();
    // pipeline_tma_kernels.py:96  n_tiles, k_tiles = mo.ceil_div(mo.size(C, 1), BN), mo.ceil_div(K, BK)
    const int n_tiles = (C_1 + 31) >> 5;
    const int k_tiles = (K + 63) >> 6;
    // pipeline_tma_kernels.py:97  if mo.warpgroup_idx() == 2:
    if (warpgroup == 2) {
        // pipeline_tma_kernels.py:98  mo.warpgroup_reg_dealloc(40)
        setmaxnreg_dec_40();
        // pipeline_tma_kernels.py:99  if tid == CONSUMERS:
        if (tx == 256) {
            // pipeline_tma_kernels.py:100  produce(A, B, sA, sB, pipe, n_tiles, fault)
            //   pipeline_tma_kernels.py:48  gA = mo.tile(A.tensor, (BM, BK), (mo.block_idx().x, None))  # (bM, bK, k), co...
            const int A_1_plus_63_div_64 = (A_1 + 63) >> 6;
            const int bx_times_128 = bx * 128;
            //   pipeline_tma_kernels.py:51  for n in range(n_tiles):
            int state_stage = 0;
            int state_phase = 1;
            for (int n = 0; n < n_tiles; ++n) {
                //   pipeline_tma_kernels.py:52  for k in range(mo.size(gA, 2)):
                int state_stage_1 = state_stage;
                int state_phase_1 = state_phase;
                for (int k = 0; k < A_1_plus_63_div_64; ++k) {
                    //   pipeline_tma_kernels.py:56  pipe.producer_acquire(state, bytes=A.bytes if fault == "expects too few" else...
                    mbarrier_wait(pipe_empty_s + 8 * state_stage_1, state_phase_1);
                    mbarrier_arrive_expect_tx(pipe_full_s + 8 * state_stage_1, 20480);
                    //   pipeline_tma_kernels.py:57  mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
                    const int k_times_64 = k * 64;
                    tma_load_2d(sA_s + 2 * state_stage_1 * 8192, &A, k_times_64, bx_times_128, pipe_full_s + 8 * state_stage_1);
                    //   pipeline_tma_kernels.py:58  mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                    tma_load_2d(sB_s + 2 * state_stage_1 * 2048, &B, k_times_64, n * 32, pipe_full_s + 8 * state_stage_1);
                    //   pipeline_tma_kernels.py:59  state = state.next()
                    const int state_stage_1_plus_1 = state_stage_1 + 1;
                    const bool round_ends = state_stage_1_plus_1 == 3;
                    //   pipeline_tma_kernels.py:52  for k in range(mo.size(gA, 2)):
                    state_stage_1 = round_ends ? 0 : state_stage_1_plus_1;
                    state_phase_1 = round_ends ? state_phase_1 ^ 1 : state_phase_1;
                }
                //   pipeline_tma_kernels.py:51  for n in range(n_tiles):
                state_stage = state_stage_1;
                state_phase = state_phase_1;
            }
        }
    } else {
        // pipeline_tma_kernels.py:102  mo.warpgroup_reg_alloc(232)
        setmaxnreg_inc_232();
        // pipeline_tma_kernels.py:103  consume(C, sA, sB, pipe, n_tiles, k_tiles, fault)
        //   pipeline_tma_kernels.py:64  thr_mma, first = PAIR.get_slice(mo.thread_idx().x % CONSUMERS), mo.thread_idx...
        const int tx_mod_128 = tx % 128;
        const bool first = tx_mod_128 == 0;
        //   pipeline_tma_kernels.py:65  tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(s...
        const int tCrA_at = warpgroup % 2 * 4096;
        //   pipeline_tma_kernels.py:67  for n in range(n_tiles):
        int state_stage = 0;
        int state_phase = 0;
        for (int n = 0; n < n_tiles; ++n) {
            //   pipeline_tma_kernels.py:68  acc, before = PAIR.partition_fragment_C((BM, BN)), state  # (MMA, MMA_M, MMA_N)
            float acc[16];
            //   pipeline_tma_kernels.py:69  for k in range(k_tiles):
            int before_stage = state_stage;
            int state_stage_1 = state_stage;
            int state_phase_1 = state_phase;
            for (int k = 0; k < k_tiles; ++k) {
                //   pipeline_tma_kernels.py:71  pipe.consumer_wait(state)
                mbarrier_wait(pipe_full_s + 8 * state_stage_1, state_phase_1);
                //   pipeline_tma_kernels.py:72  multiply(PAIR, tCrA, tCrB, acc, state.stage, k)
                //     pipeline_tma_kernels.py:37  mo.warpgroup_arrive()
                warpgroup_arrive();
                //     pipeline_tma_kernels.py:38  for kk in mo.static_range(mo.size(tCrA, 2)):
                const int state_stage_1_times_8192 = state_stage_1 * 8192;
                const int state_stage_1_times_2048 = state_stage_1 * 2048;
                const bool k_above_0 = k > 0;
                #pragma unroll
                for (int kk = 0; kk < 4; ++kk) {
                    //     pipeline_tma_kernels.py:39  mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], acc, accumulate=...
                    const unsigned long long tCrA_desc = wgmma_descriptor(sA_s + 2 * (tCrA_at + state_stage_1_times_8192 + 16 * kk), wgmma_sw128_16_1024);
                    const unsigned long long tCrB_desc = wgmma_descriptor(sB_s + 2 * (state_stage_1_times_2048 + 16 * kk), wgmma_sw128_16_1024);
                    wgmma_64x32x16_f32f16f16_ss(acc, tCrA_desc, tCrB_desc, kk > 0 || k_above_0);
                }
                //     pipeline_tma_kernels.py:40  mo.warpgroup_commit_batch()
                warpgroup_commit_batch();
                //   pipeline_tma_kernels.py:75  mo.warpgroup_wait(1)
                warpgroup_wait_1();
                //   pipeline_tma_kernels.py:76  if k > 0 and first and fault == "":
                if (k_above_0 && first) {
                    //   pipeline_tma_kernels.py:77  pipe.consumer_release(before)
                    mbarrier_arrive(pipe_empty_s + 8 * before_stage);
                }
                //   pipeline_tma_kernels.py:78  before, state = state, state.next()
                const int state_stage_1_plus_1 = state_stage_1 + 1;
                const bool round_ends = state_stage_1_plus_1 == 3;
                //   pipeline_tma_kernels.py:69  for k in range(k_tiles):
                before_stage = state_stage_1;
                state_stage_1 = round_ends ? 0 : state_stage_1_plus_1;
                state_phase_1 = round_ends ? state_phase_1 ^ 1 : state_phase_1;
            }
            //   pipeline_tma_kernels.py:79  mo.warpgroup_wait(0)
            warpgroup_wait_0();
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                wgmma_pin(acc[i]);
            }
            //   pipeline_tma_kernels.py:80  if first and fault not in ("no release", "released too early"):
            if (first) {
                //   pipeline_tma_kernels.py:81  pipe.consumer_release(before)
                mbarrier_arrive(pipe_empty_s + 8 * before_stage);
            }
            //   pipeline_tma_kernels.py:82  store(C, PAIR, acc, (BM, BN), mo.block_idx().x, n)
            //     pipeline_tma_kernels.py:25  cC = mo.tile(mo.identity_tensor(mo.shape(C)), extents, (m, n), ragged=True)
            const int n_times_32 = n * 32;
            //     pipeline_tma_kernels.py:27  tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)  # (MMA, MMA_...
            const int C_s0_times_8 = C_s0 * 8;
            const int tx_mod_4_times_2 = tx % 4 * 2;
            const int tx_mod_128_div_4_mod_8 = tx_mod_128 / 4 % 8;
            const int tx_mod_128_div_32 = tx_mod_128 / 32;
            const int C_at = bx * C_s0 * 128 + n_times_32 + tx_mod_4_times_2 + tx_mod_128_div_4_mod_8 * C_s0 + tx_mod_128_div_32 * C_s0 * 16 + warpgroup % 2 * C_s0 * 64;
            const int row = bx * 128 + tx_mod_128_div_4_mod_8 + tx_mod_128_div_32 * 16 + warpgroup % 2 * 64;
            const int column = n_times_32 + tx_mod_4_times_2;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            const bool row_below_C_0 = row < C_0;
            if (row_below_C_0 && column < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at] = acc[0];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_1 = column + 1;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_1 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 1] = acc[1];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            const bool row_below_C_0_1 = row + 8 < C_0;
            if (row_below_C_0_1 && column < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8] = acc[2];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_1 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 1] = acc[3];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_2 = column + 8;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_2 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 8] = acc[4];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_3 = column + 9;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_3 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 9] = acc[5];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_2 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 8] = acc[6];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_3 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 9] = acc[7];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_4 = column + 16;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_4 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 16] = acc[8];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_5 = column + 17;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_5 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 17] = acc[9];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_4 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 16] = acc[10];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_5 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 17] = acc[11];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_6 = column + 24;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_6 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 24] = acc[12];
            }
            //     pipeline_tma_kernels.py:29  row, column = tCcC[i]
            const int column_7 = column + 25;
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0 && column_7 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + 25] = acc[13];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_6 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 24] = acc[14];
            }
            //     pipeline_tma_kernels.py:30  if row < mo.size(C, 0) and column < mo.size(C, 1):
            if (row_below_C_0_1 && column_7 < C_1) {
                //     pipeline_tma_kernels.py:31  tCgC[i] = acc[i]
                C[C_at + C_s0_times_8 + 25] = acc[15];
            }
            //   pipeline_tma_kernels.py:67  for n in range(n_tiles):
            state_stage = state_stage_1;
            state_phase = state_phase_1;
        }
    }
}
