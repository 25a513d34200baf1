extern "C" __global__ void __launch_bounds__(128)
column_sums(float* __restrict__ sums, float* __restrict__ squares, const float* __restrict__ x, int rows, int columns) {
    int j = blockIdx.x * 128 + threadIdx.x;
    if (j >= columns) return;
    int each = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * each, last = min(first + each, rows);
    const float* __restrict__ source = x + (long long)first * columns + j;
    float total = 0, square = 0;
    for (int i = first; i < last; i++, source += columns) {
        float v = *source;
        total += v;
        square += v * v;
    }
    atomicAdd(sums + j, total);
    atomicAdd(squares + j, square);
}
