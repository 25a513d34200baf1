__device__ __forceinline__ unsigned step(unsigned state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

extern "C" __global__ void __launch_bounds__(256)
monte_carlo(int* __restrict__ inside, int draws, unsigned seed) {
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x + 1) * 2654435761u ^ seed;
    int found = 0;
    for (int k = 0; k < draws; k++) {
        state = step(state);
        float x = (float)(state >> 8) * (1.0f / (1 << 24));
        state = step(state);
        float y = (float)(state >> 8) * (1.0f / (1 << 24));
        if (x * x + y * y < 1) found++;
    }
    found = __reduce_add_sync(0xffffffff, found);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, found);
}
