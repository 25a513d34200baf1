extern "C" __global__ void __launch_bounds__(256)
mandelbrot(int* __restrict__ out, float left, float top, float step, int limit, int rows, int columns) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= rows || j >= columns) return;
    float cx = left + j * step, cy = top + i * step, x = 0, y = 0;
    int n = 0;
    while (x * x + y * y <= 4 && n < limit) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        n++;
    }
    out[(long long)i * columns + j] = n;
}
