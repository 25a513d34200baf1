// matmul_kernel
//   A: float16 (A_0,A_1):(A_s0,1), 16-byte aligned
//   A: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sA_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))
//   B: float16 (B_0,B_1):(B_s0,1), 16-byte aligned
//   B: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0)), 1 box of 64 x 128 with 128-byte swizzle
//   sB_layout = Sw<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))
//   C: float32 (C_0,C_1):(C_s0,1), 16-byte aligned
//   mma = TiledMMA(SM90_64x128x16_F32F16F16_SS, atoms (2,1,1):(1,0,0))
//   block (384, 1, 1)
//   131136 bytes of dynamic shared memory

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

extern "C" __global__ void __launch_bounds__(384, 1)
matmul_kernel(const __grid_constant__ TensorMap A, const int A_1,
              const __grid_constant__ TensorMap B,
              float* __restrict__ C, const int C_s0,
              const int K) {
    extern __shared__ __align__(1024) unsigned char smem_pool[];
    f16* const sA = reinterpret_cast<f16*>(smem_pool);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))
    f16* const sB = reinterpret_cast<f16*>(smem_pool + 65536);  // Sw<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))
    unsigned long long* const full = reinterpret_cast<unsigned long long*>(smem_pool + 131072);  // 4:1
    unsigned long long* const empty = reinterpret_cast<unsigned long long*>(smem_pool + 131104);  // 4:1
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);
    const unsigned sB_s = (unsigned)__cvta_generic_to_shared(sB);
    const unsigned full_s = (unsigned)__cvta_generic_to_shared(full);
    const unsigned empty_s = (unsigned)__cvta_generic_to_shared(empty);
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);

    // 15_matmul_wgmma.py:69  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 15_matmul_wgmma.py:70  bx, by, _ = mo.block_idx()
    const int bx = blockIdx.x;
    // 15_matmul_wgmma.py:71  gC = mo.tile(C, (BM, BN), (bx, by))  # (BM, BN)
    const int by_times_128 = (int)blockIdx.y * 128;
    // 15_matmul_wgmma.py:75  if tid == 0:
    if (tx == 0) {
        // 15_matmul_wgmma.py:76  for stage in mo.static_range(STAGES):
        #pragma unroll
        for (int stage = 0; stage < 4; ++stage) {
            // 15_matmul_wgmma.py:77  mo.mbarrier_init(full, stage, 1)  # the producer arrives; the bytes it expects count...
            mbarrier_init(full_s + 8 * stage, 1);
            // 15_matmul_wgmma.py:78  mo.mbarrier_init(empty, stage, 2)  # a thread of each warpgroup arrives
            mbarrier_init(empty_s + 8 * stage, 2);
        }
        // 15_matmul_wgmma.py:79  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    // 15_matmul_wgmma.py:80  mo.sync_threads()
    __syncthreads();
    // 15_matmul_wgmma.py:82  if mo.warpgroup_idx() == 2:
    if (warpgroup == 2) {
        // 15_matmul_wgmma.py:83  mo.warpgroup_reg_dealloc(40)  # registers that the other two take
        setmaxnreg_dec_40();
        // 15_matmul_wgmma.py:84  if tid == CONSUMERS:
        if (tx == 256) {
            // 15_matmul_wgmma.py:85  produce(A, B, ring)
            //   15_matmul_wgmma.py:30  gA = mo.tile(A.tensor, (BM, BK), (bx, None))  # (BM, BK, k), coordinates in A
            const int bx_times_128 = bx * 128;
            //   15_matmul_wgmma.py:33  for k in range(mo.size(gA, 2)):
            int phase = 1;
            int stage = 0;
            for (int k = 0; k < ((A_1 + 63) >> 6); ++k) {
                //   15_matmul_wgmma.py:34  mo.mbarrier_wait(empty, stage, phase)
                mbarrier_wait(empty_s + 8 * stage, phase);
                //   15_matmul_wgmma.py:35  mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
                mbarrier_arrive_expect_tx(full_s + 8 * stage, 32768);
                //   15_matmul_wgmma.py:36  mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
                const int stage_times_8192 = stage * 8192;
                const int k_times_64 = k * 64;
                tma_load_2d(sA_s + 2 * stage_times_8192, &A, k_times_64, bx_times_128, full_s + 8 * stage);
                //   15_matmul_wgmma.py:37  mo.copyto(B, sB[:, :, stage], gB[:, :, k], barrier=(full, stage))
                tma_load_2d(sB_s + 2 * stage_times_8192, &B, k_times_64, by_times_128, full_s + 8 * stage);
                //   15_matmul_wgmma.py:38  stage, phase = next_stage(stage, phase)
                //     15_matmul_wgmma.py:19  stage += 1
                const int stage_plus_1 = stage + 1;
                //     15_matmul_wgmma.py:20  if stage == STAGES:
                int stage_1 = stage_plus_1;
                if (stage_plus_1 == 4) {
                    phase ^= 1;
                    stage_1 = 0;
                }
                //   15_matmul_wgmma.py:33  for k in range(mo.size(gA, 2)):
                stage = stage_1;
            }
        }
    } else {
        // 15_matmul_wgmma.py:87  mo.warpgroup_reg_alloc(232)
        setmaxnreg_inc_232();
        // 15_matmul_wgmma.py:88  consume(gC, mma, ring, mo.ceil_div(K, BK))
        //   15_matmul_wgmma.py:47  tCrA = thr_mma.partition_fragment_A(sA)  # (MMA, MMA_M, MMA_K, stages): descriptor...
        const int tx_mod_128 = tx % 128;
        const int tCrA_at = warpgroup % 2 * 4096;
        //   15_matmul_wgmma.py:49  tCgC = thr_mma.partition_C(gC)  # (MMA, MMA_M, MMA_N)
        const int tCgC_at = bx * C_s0 * 128 + by_times_128 + tx % 4 * 2 + tx_mod_128 / 4 % 8 * C_s0 + tx_mod_128 / 32 * C_s0 * 16 + warpgroup % 2 * C_s0 * 64;
        //   15_matmul_wgmma.py:50  tCrC = thr_mma.make_fragment_C(tCgC)  # (MMA, MMA_M, MMA_N): registers
        float tCrC[64];
        //   15_matmul_wgmma.py:52  for k in range(k_tiles):
        int before = 0;
        int phase = 0;
        int stage = 0;
        for (int k = 0; k < ((K + 63) >> 6); ++k) {
            //   15_matmul_wgmma.py:53  mo.mbarrier_wait(full, stage, phase)
            mbarrier_wait(full_s + 8 * stage, phase);
            //   15_matmul_wgmma.py:54  mo.warpgroup_arrive()
            warpgroup_arrive();
            //   15_matmul_wgmma.py:55  for kk in mo.static_range(mo.size(tCrA, 2)):  # one instruction deep in K; the fir...
            const int stage_times_8192 = stage * 8192;
            const bool k_above_0 = k > 0;
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                //   15_matmul_wgmma.py:56  mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], tCrC, accumulate=kk > 0...
                const int stage_times_8192_plus_kk = stage_times_8192 + 16 * kk;
                const unsigned long long tCrA_desc = wgmma_descriptor(sA_s + 2 * (tCrA_at + stage_times_8192_plus_kk), wgmma_sw128_16_1024);
                const unsigned long long tCrB_desc = wgmma_descriptor(sB_s + 2 * stage_times_8192_plus_kk, wgmma_sw128_16_1024);
                wgmma_64x128x16_f32f16f16_ss(tCrC, tCrA_desc, tCrB_desc, kk > 0 || k_above_0);
            }
            //   15_matmul_wgmma.py:57  mo.warpgroup_commit_batch()
            warpgroup_commit_batch();
            //   15_matmul_wgmma.py:58  mo.warpgroup_wait(1)  # all but the products of this stage are done
            warpgroup_wait_1();
            //   15_matmul_wgmma.py:59  if k > 0 and tid % 128 == 0:
            if (k_above_0 && tx_mod_128 == 0) {
                //   15_matmul_wgmma.py:60  mo.mbarrier_arrive(empty, before)  # so the stage before it is empty, for this war...
                mbarrier_arrive(empty_s + 8 * before);
            }
            //   15_matmul_wgmma.py:62  stage, phase = next_stage(stage, phase)
            //     15_matmul_wgmma.py:19  stage += 1
            const int stage_plus_1 = stage + 1;
            //     15_matmul_wgmma.py:20  if stage == STAGES:
            int stage_1 = stage_plus_1;
            if (stage_plus_1 == 4) {
                phase ^= 1;
                stage_1 = 0;
            }
            //   15_matmul_wgmma.py:52  for k in range(k_tiles):
            before = stage;
            stage = stage_1;
        }
        //   15_matmul_wgmma.py:63  mo.warpgroup_wait(0)
        warpgroup_wait_0();
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            wgmma_pin(tCrC[i]);
        }
        //   15_matmul_wgmma.py:64  mo.copyto(tCgC, tCrC)
        #pragma unroll
        for (int j = 0; j < 16; ++j) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                *(float2*)&C[tCgC_at + i * C_s0 * 8 + 8 * j] = make_float2(tCrC[2 * i + 4 * j], tCrC[2 * i + 4 * j + 1]);
            }
        }
    }
}
