extern "C" __global__ void __launch_bounds__(512)
bitonic(int* __restrict__ out, const int* __restrict__ x) {
    __shared__ int keys[1024];
    int tid = threadIdx.x, start = blockIdx.x * 1024;
    keys[tid] = x[start + tid];
    keys[tid + 512] = x[start + tid + 512];
    for (int size = 2; size <= 1024; size <<= 1) {
        for (int step = size >> 1; step > 0; step >>= 1) {
            __syncthreads();
            int i = 2 * tid - (tid & (step - 1));
            int a = keys[i], b = keys[i + step];
            if ((a > b) == ((tid & size >> 1) == 0)) {
                keys[i] = b;
                keys[i + step] = a;
            }
        }
    }
    __syncthreads();
    out[start + tid] = keys[tid];
    out[start + tid + 512] = keys[tid + 512];
}
