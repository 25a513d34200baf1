extern "C" __global__ void __launch_bounds__(256)
stencil_3d(float* __restrict__ out, const float* __restrict__ x, float c0, float c1, int planes, int rows,
           int columns) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i < 1 || i >= rows - 1 || j < 1 || j >= columns - 1) return;
    long long plane = (long long)rows * columns;
    const float* __restrict__ source = x + (long long)i * columns + j;
    float* __restrict__ target = out + (long long)i * columns + j;
    float below = source[0], here = source[plane];
    for (int k = 1; k < planes - 1; k++) {
        source += plane;
        target += plane;
        float above = source[plane];
        float around = source[-columns] + source[columns] + source[-1] + source[1];
        *target = c0 * here + c1 * (below + above + around);
        below = here;
        here = above;
    }
}
