__device__ __forceinline__ unsigned long long mixed(unsigned long long x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

extern "C" __global__ void __launch_bounds__(256)
hash(unsigned char* __restrict__ fresh, unsigned long long* __restrict__ table,
     const unsigned long long* __restrict__ keys, int size, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    unsigned long long key = keys[i], found;
    unsigned mask = size - 1, at = (unsigned)mixed(key) & mask;
    for (;;) {
        found = atomicCAS(table + at, 0ull, key);
        if (found == 0 || found == key) break;
        at = (at + 1) & mask;
    }
    fresh[i] = found == 0;
}
