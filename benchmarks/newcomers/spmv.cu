extern "C" __global__ void __launch_bounds__(256)
spmv(float* __restrict__ y, const int* __restrict__ offsets, const int* __restrict__ columns,
     const float* __restrict__ values, const float* __restrict__ x, int rows) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float total = 0;
    int last = offsets[row + 1];
    for (int k = offsets[row] + lane; k < last; k += 32) total += values[k] * x[columns[k]];
#pragma unroll
    for (int s = 16; s; s >>= 1) total += __shfl_xor_sync(0xffffffff, total, s);
    if (lane == 0) y[row] = total;
}
