extern "C" __global__ void __launch_bounds__(256)
max_pool(float* __restrict__ out, const float* __restrict__ x, int rows, int columns, int height, int width) {
    int j = blockIdx.x * 64 + threadIdx.x, i = blockIdx.y * 4 + threadIdx.y;
    if (i >= rows || j >= columns) return;
    const float* __restrict__ plane = x + (long long)blockIdx.z * height * width;
    float top = -__int_as_float(0x7f800000);
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int s = 0; s < 3; s++) {
            int y = 2 * i + r - 1, z = 2 * j + s - 1;
            if ((unsigned)y < (unsigned)height && (unsigned)z < (unsigned)width) top = fmaxf(top, plane[y * width + z]);
        }
    out[((long long)blockIdx.z * rows + i) * columns + j] = top;
}
