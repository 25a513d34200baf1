extern "C" __global__ void __launch_bounds__(256)
transpose(float* __restrict__ out, const float* __restrict__ x, int rows, int columns) {
    __shared__ float staged[32][33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int j = blockIdx.x * 32 + tx, i = blockIdx.y * 32 + ty;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        if (i + k < rows && j < columns) staged[ty + k][tx] = x[(long long)(i + k) * columns + j];
    __syncthreads();
    j = blockIdx.y * 32 + tx;
    i = blockIdx.x * 32 + ty;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        if (i + k < columns && j < rows) out[(long long)(i + k) * rows + j] = staged[tx][ty + k];
}
