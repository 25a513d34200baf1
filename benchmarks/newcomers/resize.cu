extern "C" __global__ void __launch_bounds__(256)
resize(unsigned char* __restrict__ out, const unsigned char* __restrict__ image, float scale_y, float scale_x,
       int rows, int columns, int image_rows, int image_columns, int channels) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= rows || j >= columns) return;
    float y = fmaxf((i + 0.5f) * scale_y - 0.5f, 0), x = fmaxf((j + 0.5f) * scale_x - 0.5f, 0);
    int y0 = (int)y, x0 = (int)x, y1 = min(y0 + 1, image_rows - 1), x1 = min(x0 + 1, image_columns - 1);
    float fy = y - y0, fx = x - x0;
    const unsigned char* __restrict__ a = image + ((long long)y0 * image_columns + x0) * channels;
    const unsigned char* __restrict__ b = image + ((long long)y0 * image_columns + x1) * channels;
    const unsigned char* __restrict__ c = image + ((long long)y1 * image_columns + x0) * channels;
    const unsigned char* __restrict__ d = image + ((long long)y1 * image_columns + x1) * channels;
    unsigned char* __restrict__ target = out + ((long long)i * columns + j) * channels;
    for (int k = 0; k < channels; k++) {
        float upper = a[k] * (1 - fx) + b[k] * fx, lower = c[k] * (1 - fx) + d[k] * fx;
        target[k] = (unsigned char)__float2uint_rn(upper * (1 - fy) + lower * fy);
    }
}
