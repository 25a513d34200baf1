__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v += __shfl_xor_sync(0xffffffff, v, s);
    return v;
}

extern "C" __global__ void __launch_bounds__(256)
layer_norm(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ weight,
           const float* __restrict__ bias, float eps, int rows) {
    constexpr int N = 1024, PARTS = N / 128;
    int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= rows) return;
    const float4* __restrict__ source = (const float4*)(x + (long long)row * N);
    float4* __restrict__ target = (float4*)(out + (long long)row * N);
    float4 v[PARTS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        v[j] = source[32 * j + lane];
        sum += (v[j].x + v[j].y) + (v[j].z + v[j].w);
    }
    float mean = warp_sum(sum) * (1.0f / N);
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        v[j].x -= mean; v[j].y -= mean; v[j].z -= mean; v[j].w -= mean;
        squares += (v[j].x * v[j].x + v[j].y * v[j].y) + (v[j].z * v[j].z + v[j].w * v[j].w);
    }
    float scale = rsqrtf(warp_sum(squares) * (1.0f / N) + eps);
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        float4 w = ((const float4*)weight)[32 * j + lane], b = ((const float4*)bias)[32 * j + lane];
        target[32 * j + lane] = make_float4(v[j].x * scale * w.x + b.x, v[j].y * scale * w.y + b.y,
                                            v[j].z * scale * w.z + b.z, v[j].w * scale * w.w + b.w);
    }
}
