__device__ __forceinline__ float scene(float x, float y, float z) {
    float ring = sqrtf(x * x + y * y) - 1;
    return sqrtf(ring * ring + z * z) - 0.4f;
}

extern "C" __global__ void __launch_bounds__(256)
ray_march(float* __restrict__ out, int steps, int rows, int columns) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= rows || j >= columns) return;
    float u = (2.0f * j - columns) / rows, v = (2.0f * i - rows) / rows, inverse = rsqrtf(u * u + v * v + 4);
    float dx = u * inverse, dy = v * inverse, dz = 2 * inverse, t = 0;
    for (int k = 0; k < steps; k++) {
        float d = scene(t * dx, t * dy, t * dz - 3);
        if (d < 0.001f) break;
        t += d;
        if (t > 10) break;
    }
    out[(long long)i * columns + j] = t;
}
