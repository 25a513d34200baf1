__device__ __forceinline__ float fold_max(float v, float* scratch) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, s));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[0];
#pragma unroll
    for (int w = 1; w < 8; w++) v = fmaxf(v, scratch[w]);
    __syncthreads();
    return v;
}

__device__ __forceinline__ float fold_sum(float v, float* scratch) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v += __shfl_xor_sync(0xffffffff, v, s);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[0];
#pragma unroll
    for (int w = 1; w < 8; w++) v += scratch[w];
    __syncthreads();
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
softmax(float* __restrict__ out, const float* __restrict__ x, int n) {
    __shared__ float scratch[8];
    const float* __restrict__ row = x + (long long)blockIdx.x * n;
    float* __restrict__ result = out + (long long)blockIdx.x * n;
    float top = -__int_as_float(0x7f800000);
    for (int j = threadIdx.x; j < n; j += 256) top = fmaxf(top, row[j]);
    top = fold_max(top, scratch);
    float total = 0;
    for (int j = threadIdx.x; j < n; j += 256) total += expf(row[j] - top);
    total = fold_sum(total, scratch);
    for (int j = threadIdx.x; j < n; j += 256) result[j] = expf(row[j] - top) / total;
}
