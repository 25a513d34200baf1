extern "C" __global__ void __launch_bounds__(256)
histogram(int* __restrict__ out, const unsigned char* __restrict__ x, int n) {
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    int stride = gridDim.x * 256;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n / 16; i += stride) {
        uint4 v = ((const uint4*)x)[i];
        unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int w = 0; w < 4; w++)
#pragma unroll
            for (int b = 0; b < 4; b++) atomicAdd(&bins[words[w] >> 8 * b & 255], 1);
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
