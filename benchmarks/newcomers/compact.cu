extern "C" __global__ void __launch_bounds__(256)
compact(float* __restrict__ out, int* __restrict__ count, const float* __restrict__ x, float limit, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float value = x[i];
        if (value > limit) out[atomicAdd(count, 1)] = value;
    }
}
