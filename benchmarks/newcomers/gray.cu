extern "C" __global__ void __launch_bounds__(256)
gray(unsigned char* __restrict__ out, const unsigned char* __restrict__ image, int rows, int columns) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i >= rows || j >= columns) return;
    const unsigned char* __restrict__ pixel = image + ((long long)i * columns + j) * 3;
    out[(long long)i * columns + j] = (unsigned char)(0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2] + 0.5f);
}
