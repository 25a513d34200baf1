// count_kernel
//   x: float32 (x_0):(1), 16-byte aligned
//   count: int32 (count_0):(1), 16-byte aligned
//   largest: int32 (largest_0):(1), 16-byte aligned
//   block (256, 1, 1)

__device__ __forceinline__ void red_add_relaxed_gpu_global(int* p, int x) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory");
}
__device__ __forceinline__ void red_max_relaxed_gpu_global(int* p, int x) {
    asm volatile("red.relaxed.gpu.global.max.s32 [%0], %1;" :: "l"(p), "r"(x) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
count_kernel(const float* __restrict__ x,
             const float threshold,
             int* __restrict__ count,
             int* __restrict__ largest) {
    // 07_reductions.py:45  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 07_reductions.py:47  above = mo.popcount(mo.ballot(gX[tid] > threshold))
    const int bx_times_256_plus_tx = (int)blockIdx.x * 256 + tx;
    const int above = __popc(__ballot_sync(0xffffffffu, x[bx_times_256_plus_tx] > threshold));
    // 07_reductions.py:48  if mo.lane_idx() == 0:
    const bool tx_mod_32_is_0 = tx % 32 == 0;
    if (tx_mod_32_is_0) {
        // 07_reductions.py:49  mo.atomic_add(count, 0, above)
        red_add_relaxed_gpu_global(count, above);
    }
    // 07_reductions.py:50  most = mo.warp_reduce(int(gX[tid] * 1000), "max")
    const int most = __reduce_max_sync(0xffffffffu, (int)(x[bx_times_256_plus_tx] * 1000.0f));
    // 07_reductions.py:51  if mo.lane_idx() == 0:
    if (tx_mod_32_is_0) {
        // 07_reductions.py:52  mo.atomic_max(largest, 0, most)
        red_max_relaxed_gpu_global(largest, most);
    }
}
