// sum_kernel
//   x: float32 (x_0):(1), 16-byte aligned
//   total: float32 (total_0):(1), 16-byte aligned
//   per_thread = 4
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
    float value_part = tXrX[0], value_part_1 = tXrX[1];
    #pragma unroll
    for (int i = 2; i < 4; i += 2) {
        value_part += tXrX[i];
        value_part_1 += tXrX[i + 1];
    }
    value_part += value_part_1;
    const float value_part_2 = value_part + __shfl_xor_sync(0xffffffffu, value_part, 16);
    const float value_part_3 = value_part_2 + __shfl_xor_sync(0xffffffffu, value_part_2, 8);
    const float value_part_4 = value_part_3 + __shfl_xor_sync(0xffffffffu, value_part_3, 4);
    const float value_part_5 = value_part_4 + __shfl_xor_sync(0xffffffffu, value_part_4, 2);
    const float value_part_6 = value_part_5 + __shfl_xor_sync(0xffffffffu, value_part_5, 1);
    if (tx % 32 == 0) {
        scratch[tx / 32] = value_part_6;
    }
    __syncthreads();
    const float value = scratch[0] + scratch[1] + scratch[2] + scratch[3] + scratch[4] + scratch[5] + scratch[6] + scratch[7];
    // 07_reductions.py:24  if tid == 0:
    if (tx == 0) {
        // 07_reductions.py:25  mo.atomic_add(total, 0, value)
        red_add_relaxed_gpu_global(total, value);
    }
}
