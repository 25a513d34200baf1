__device__ __forceinline__ void add(unsigned a, unsigned b, unsigned c, unsigned& sum, unsigned& carry) {
    sum = a ^ b ^ c;
    carry = (a & b) | (c & (a ^ b));
}

extern "C" __global__ void __launch_bounds__(256)
life(unsigned* __restrict__ out, const unsigned* __restrict__ cells, int rows, int words) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= rows || j >= words) return;
    int left = j == 0 ? words - 1 : j - 1, right = j == words - 1 ? 0 : j + 1;
    unsigned ones[3], twos[3], mine = 0;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        int r = i + d - 1;
        r = r < 0 ? rows - 1 : r == rows ? 0 : r;
        const unsigned* __restrict__ row = cells + (long long)r * words;
        unsigned here = row[j], west = here << 1 | row[left] >> 31, east = here >> 1 | row[right] << 31;
        if (d == 1) {
            mine = here;
            ones[1] = west ^ east;
            twos[1] = west & east;
        } else {
            add(west, here, east, ones[d], twos[d]);
        }
    }
    unsigned one, carry, two, four;
    add(ones[0], ones[1], ones[2], one, carry);
    add(twos[0], twos[1], twos[2], two, four);
    four ^= two & carry;
    two ^= carry;
    out[(long long)i * words + j] = two & ~four & (one | mine);
}
