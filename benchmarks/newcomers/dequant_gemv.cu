extern "C" __global__ void __launch_bounds__(256)
dequant_gemv(float* __restrict__ y, const signed char* __restrict__ A, const float* __restrict__ factors,
             const float* __restrict__ x, int rows, int columns) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const int4* __restrict__ a = (const int4*)(A + (long long)row * columns);
    const float4* __restrict__ b = (const float4*)x;
    float total = 0;
    for (int k = lane; k < columns / 16; k += 32) {
        int4 v = a[k];
        int words[4] = {v.x, v.y, v.z, v.w};
        float sums[4] = {};
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float4 u = b[4 * k + w];
            sums[0] += (float)(signed char)words[w] * u.x;
            sums[1] += (float)(signed char)(words[w] >> 8) * u.y;
            sums[2] += (float)(signed char)(words[w] >> 16) * u.z;
            sums[3] += (float)(words[w] >> 24) * u.w;
        }
        total += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) total += __shfl_xor_sync(0xffffffff, total, s);
    if (lane == 0) y[row] = total * factors[row];
}
