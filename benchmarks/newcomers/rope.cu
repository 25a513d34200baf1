extern "C" __global__ void __launch_bounds__(256)
rope(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ cos,
     const float* __restrict__ sin, int heads, int dim) {
    int d = threadIdx.x % 64, half = dim / 2;
    float c = cos[blockIdx.x * half + d], s = sin[blockIdx.x * half + d];
    long long base = (long long)blockIdx.x * heads * dim;
    for (int h = threadIdx.x / 64; h < heads; h += 4) {
        const float* __restrict__ source = x + base + h * dim + d;
        float* __restrict__ target = out + base + h * dim + d;
        float a = source[0], b = source[half];
        target[0] = a * c - b * s;
        target[half] = b * c + a * s;
    }
}
