extern "C" __global__ void __launch_bounds__(256)
gemv(float* __restrict__ y, const float* __restrict__ A, const float* __restrict__ x, int rows, int columns) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float4* __restrict__ a = (const float4*)(A + (long long)row * columns);
    const float4* __restrict__ b = (const float4*)x;
    float total = 0;
    for (int k = lane; k < columns / 4; k += 32) {
        float4 u = a[k], v = b[k];
        total += u.x * v.x;
        total += u.y * v.y;
        total += u.z * v.z;
        total += u.w * v.w;
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) total += __shfl_xor_sync(0xffffffff, total, s);
    if (lane == 0) y[row] = total;
}
