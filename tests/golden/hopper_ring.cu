// ring_kernel
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   x: int32 (x_0,x_1,x_2):(1,x_s1,x_s2), 16-byte aligned
//   stages = 3
//   block (256, 1, 1)
//   1584 bytes of static shared memory

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
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ __forceinline__ void setmaxnreg_inc_160() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1)
ring_kernel(int* __restrict__ out, const int out_s1,
            const int* __restrict__ x, const int x_1, const int x_s1, const int x_s2) {
    __shared__ __align__(8) unsigned long long full[3];  // 3:1
    __shared__ __align__(8) unsigned long long empty[3];  // 3:1
    __shared__ __align__(16) int ring[384];  // (128,3):(1,128)
    const unsigned full_s = (unsigned)__cvta_generic_to_shared(full);
    const unsigned empty_s = (unsigned)__cvta_generic_to_shared(empty);

    // ops_kernels_hopper.py:25  tid, bx = mo.thread_idx().x, mo.block_idx().x
    const int tx = threadIdx.x;
    const int bx = blockIdx.x;
    // ops_kernels_hopper.py:26  lane = tid % WARPGROUP
    const int lane = tx % 128;
    // ops_kernels_hopper.py:30  if tid == 0:
    if (tx == 0) {
        // ops_kernels_hopper.py:31  for s in mo.static_range(stages):
        #pragma unroll
        for (int s = 0; s < 3; ++s) {
            // ops_kernels_hopper.py:32  mo.mbarrier_init(full, s, WARPGROUP)
            mbarrier_init(full_s + 8 * s, 128);
            // ops_kernels_hopper.py:33  mo.mbarrier_init(empty, s, WARPGROUP)
            mbarrier_init(empty_s + 8 * s, 128);
        }
        // ops_kernels_hopper.py:34  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    // ops_kernels_hopper.py:35  mo.sync_threads()
    __syncthreads();
    // ops_kernels_hopper.py:37  if mo.warpgroup_idx() == 0:
    if (tx / 128 == 0) {
        // ops_kernels_hopper.py:38  mo.warpgroup_reg_dealloc(40)
        setmaxnreg_dec_40();
        // ops_kernels_hopper.py:39  for k in range(tiles):
        int phase = 0;
        int stage = 0;
        // ops_kernels_hopper.py:41  ring[lane, stage] = x[lane, k, bx]
        const int* x_k = &x[lane + bx * x_s2];
        // ops_kernels_hopper.py:39  for k in range(tiles):
        for (int k = 0; k < x_1; ++k) {
            // ops_kernels_hopper.py:40  mo.mbarrier_wait(empty, stage, phase ^ 1)
            const int phase_1 = phase ^ 1;
            mbarrier_wait(empty_s + 8 * stage, phase_1);
            // ops_kernels_hopper.py:41  ring[lane, stage] = x[lane, k, bx]
            ring[lane + stage * 128] = x_k[0];
            // ops_kernels_hopper.py:42  mo.mbarrier_arrive(full, stage)
            mbarrier_arrive(full_s + 8 * stage);
            // ops_kernels_hopper.py:43  stage += 1
            const int stage_plus_1 = stage + 1;
            // ops_kernels_hopper.py:44  if stage == stages:
            int stage_1 = stage_plus_1;
            if (stage_plus_1 == 3) {
                phase = phase_1;
                stage_1 = 0;
            }
            // ops_kernels_hopper.py:39  for k in range(tiles):
            stage = stage_1;
            // ops_kernels_hopper.py:41  ring[lane, stage] = x[lane, k, bx]
            x_k += x_s1;
        }
    } else {
        // ops_kernels_hopper.py:47  mo.warpgroup_reg_alloc(160)
        setmaxnreg_inc_160();
        // ops_kernels_hopper.py:49  for _ in range(tiles):
        int phase = 0;
        int stage = 0;
        int total = 0;
        for (int x_2 = 0; x_2 < x_1; ++x_2) {
            // ops_kernels_hopper.py:50  mo.mbarrier_wait(full, stage, phase)
            mbarrier_wait(full_s + 8 * stage, phase);
            // ops_kernels_hopper.py:52  mo.mbarrier_arrive(empty, stage)
            const int total_part = total + ring[127 - lane + stage * 128];
            mbarrier_arrive(empty_s + 8 * stage);
            // ops_kernels_hopper.py:53  stage += 1
            const int stage_plus_1 = stage + 1;
            // ops_kernels_hopper.py:54  if stage == stages:
            int stage_1 = stage_plus_1;
            if (stage_plus_1 == 3) {
                phase ^= 1;
                stage_1 = 0;
            }
            // ops_kernels_hopper.py:49  for _ in range(tiles):
            stage = stage_1;
            total = total_part;
        }
        // ops_kernels_hopper.py:56  out[lane, bx] = total
        out[lane + bx * out_s1] = total;
    }
}
