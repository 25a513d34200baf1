extern "C" __global__ void __launch_bounds__(256)
conv_1d(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ weights, int n, int inputs) {
    constexpr int TAPS = 31;
    __shared__ float signal[1024 + TAPS - 1], w[TAPS];
    int tid = threadIdx.x, start = blockIdx.x * 1024;
    if (tid < TAPS) w[tid] = weights[tid];
    for (int i = tid; i < 1024 + TAPS - 1; i += 256) signal[i] = start + i < inputs ? x[start + i] : 0;
    __syncthreads();
    float sums[4] = {};
#pragma unroll
    for (int k = 0; k < TAPS; k++)
#pragma unroll
        for (int r = 0; r < 4; r++) sums[r] += w[k] * signal[r * 256 + tid + k];
#pragma unroll
    for (int r = 0; r < 4; r++)
        if (start + r * 256 + tid < n) out[start + r * 256 + tid] = sums[r];
}
