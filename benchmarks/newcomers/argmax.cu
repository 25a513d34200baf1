extern "C" __global__ void __launch_bounds__(256)
argmax(int* __restrict__ place, const float* __restrict__ x, int n) {
    __shared__ float keys[8];
    __shared__ int places[8];
    int tid = threadIdx.x;
    const float* __restrict__ row = x + (long long)blockIdx.x * n;
    float best = -__int_as_float(0x7f800000);
    int where = 0;
    for (int j = tid; j < n; j += 256) {
        float v = row[j];
        if (v > best) {
            best = v;
            where = j;
        }
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) {
        float v = __shfl_xor_sync(0xffffffff, best, s);
        int w = __shfl_xor_sync(0xffffffff, where, s);
        if (v > best || (v == best && w < where)) {
            best = v;
            where = w;
        }
    }
    if (tid % 32 == 0) {
        keys[tid / 32] = best;
        places[tid / 32] = where;
    }
    __syncthreads();
    if (tid == 0) {
#pragma unroll
        for (int w = 1; w < 8; w++)
            if (keys[w] > best || (keys[w] == best && places[w] < where)) {
                best = keys[w];
                where = places[w];
            }
        place[blockIdx.x] = where;
    }
}
