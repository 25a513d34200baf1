// scan_kernel
//   out: float32 (out_0):(1), 16-byte aligned
//   x: float32 (x_0):(1), 16-byte aligned
//   block (256, 1, 1)

extern "C" __global__ void __launch_bounds__(256)
scan_kernel(float* __restrict__ out,
            const float* __restrict__ x) {
    // 07_reductions.py:31  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 07_reductions.py:32  lane = mo.lane_idx()
    const int lane = tx % 32;
    // 07_reductions.py:35  value = gX[tid]
    const int bx_times_256_plus_tx = (int)blockIdx.x * 256 + tx;
    const float value = x[bx_times_256_plus_tx];
    // 07_reductions.py:37  below = mo.shuffle_up(value, 1 << step)
    const float below = __shfl_up_sync(0xffffffffu, value, 1);
    // 07_reductions.py:38  value = mo.where(lane >= 1 << step, value + below, value)
    const float value_1 = lane >= 1 ? value + below : value;
    // 07_reductions.py:37  below = mo.shuffle_up(value, 1 << step)
    const float below_1 = __shfl_up_sync(0xffffffffu, value_1, 2);
    // 07_reductions.py:38  value = mo.where(lane >= 1 << step, value + below, value)
    const float value_2 = lane >= 2 ? value_1 + below_1 : value_1;
    // 07_reductions.py:37  below = mo.shuffle_up(value, 1 << step)
    const float below_2 = __shfl_up_sync(0xffffffffu, value_2, 4);
    // 07_reductions.py:38  value = mo.where(lane >= 1 << step, value + below, value)
    const float value_3 = lane >= 4 ? value_2 + below_2 : value_2;
    // 07_reductions.py:37  below = mo.shuffle_up(value, 1 << step)
    const float below_3 = __shfl_up_sync(0xffffffffu, value_3, 8);
    // 07_reductions.py:38  value = mo.where(lane >= 1 << step, value + below, value)
    const float value_4 = lane >= 8 ? value_3 + below_3 : value_3;
    // 07_reductions.py:37  below = mo.shuffle_up(value, 1 << step)
    const float below_4 = __shfl_up_sync(0xffffffffu, value_4, 16);
    // 07_reductions.py:39  gO[tid] = value
    out[bx_times_256_plus_tx] = lane >= 16 ? value_4 + below_4 : value_4;
}
