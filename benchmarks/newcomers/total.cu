extern "C" __global__ void __launch_bounds__(256)
total(float* __restrict__ out, const float* __restrict__ x, int n) {
    __shared__ float scratch[8];
    float sum = 0;
    const float4* __restrict__ v = (const float4*)x;
    int stride = gridDim.x * 256;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n / 4; i += stride) {
        float4 t = v[i];
        sum += (t.x + t.y) + (t.z + t.w);
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < 8 ? scratch[threadIdx.x] : 0;
#pragma unroll
        for (int s = 4; s; s >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, s);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
