extern "C" __global__ void __launch_bounds__(512)
fft(float* __restrict__ out_re, float* __restrict__ out_im, const float* __restrict__ in_re,
    const float* __restrict__ in_im) {
    __shared__ float re[1024], im[1024];
    int tid = threadIdx.x, start = blockIdx.x * 1024;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int i = tid + 512 * k, to = __brev(i) >> 22;
        re[to] = in_re[start + i];
        im[to] = in_im[start + i];
    }
    for (int half = 1; half < 1024; half *= 2) {
        __syncthreads();
        int at = tid & (half - 1), i = 2 * tid - at, j = i + half;
        float angle = at * -3.14159265358979f / half, s = __sinf(angle), c = __cosf(angle);
        float u = re[j] * c - im[j] * s, v = re[j] * s + im[j] * c, a = re[i], b = im[i];
        re[i] = a + u;
        im[i] = b + v;
        re[j] = a - u;
        im[j] = b - v;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; k++) {
        int i = tid + 512 * k;
        out_re[start + i] = re[i];
        out_im[start + i] = im[i];
    }
}
