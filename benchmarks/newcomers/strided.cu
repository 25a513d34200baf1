extern "C" __global__ void __launch_bounds__(128)
strided(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ factor,
        const float* __restrict__ offset, int rows, int columns, int out_row, int x_row, int x_column) {
    int j = blockIdx.x * 128 + threadIdx.x;
    if (j >= columns) return;
    float f = factor[j], o = offset[j];
    const float* __restrict__ source = x + (long long)blockIdx.y * x_row + (long long)j * x_column;
    float* __restrict__ target = out + (long long)blockIdx.y * out_row + j;
    long long source_step = (long long)gridDim.y * x_row, target_step = (long long)gridDim.y * out_row;
    for (int i = blockIdx.y; i < rows; i += gridDim.y) {
        *target = f * *source + o;
        source += source_step;
        target += target_step;
    }
}
