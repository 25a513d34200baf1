// sum_kernel
//   x: float32 (x_0):(1), 16-byte aligned
//   total: float32 (total_0):(1), 16-byte aligned
//   per_thread = 4
//   scratch: shared float32 8:1
//   block (256, 1, 1)
//   32 bytes of static shared memory

__device__ __forceinline__ void red_add_relaxed_gpu_global(float* p, float x) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(p), "f"(x) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
sum_kernel(const float* __restrict__ x,
           float* __restrict__ total) {
    __shared__ __align__(16) float scratch[8];  // 8:1

    // 07_reductions.py:17  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 07_reductions.py:20  tXrX = mo.make_fragment_like(tXgX)  # (per_thread)
    float tXrX[4];
    // 07_reductions.py:21  mo.copyto(tXrX, tXgX)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        tXrX[i] = x[(int)blockIdx.x * 1024 + tx + 256 * i];
    }
    // 07_reductions.py:23  value = mo.block_reduce(tXrX.reduce("add"), scratch)
    float t0 = tXrX[0];
    #pragma unroll
    for (int i = 1; i < 4; ++i) {
        t0 += tXrX[i];
    }
    const float t1 = t0 + __shfl_xor_sync(0xffffffffu, t0, 16);
    const float t2 = t1 + __shfl_xor_sync(0xffffffffu, t1, 8);
    const float t3 = t2 + __shfl_xor_sync(0xffffffffu, t2, 4);
    const float t4 = t3 + __shfl_xor_sync(0xffffffffu, t3, 2);
    const float t5 = t4 + __shfl_xor_sync(0xffffffffu, t4, 1);
    if (tx % 32 == 0) {
        scratch[tx / 32] = t5;
    }
    __syncthreads();
    const float value = scratch[0] + scratch[1] + scratch[2] + scratch[3] + scratch[4] + scratch[5] + scratch[6] + scratch[7];
    __syncthreads();
    // 07_reductions.py:24  if tid == 0:
    if (tx == 0) {
        // 07_reductions.py:25  mo.atomic_add(total, 0, value)
        red_add_relaxed_gpu_global(total, value);
    }
}
