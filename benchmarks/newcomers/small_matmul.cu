extern "C" __global__ void __launch_bounds__(256)
small_matmul(float4* __restrict__ C, const float4* __restrict__ A, const float4* __restrict__ B, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float4 b[4];
#pragma unroll
    for (int k = 0; k < 4; k++) b[k] = B[4 * i + k];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        float4 a = A[4 * i + r], c;
        c.x = a.x * b[0].x + a.y * b[1].x + a.z * b[2].x + a.w * b[3].x;
        c.y = a.x * b[0].y + a.y * b[1].y + a.z * b[2].y + a.w * b[3].y;
        c.z = a.x * b[0].z + a.y * b[1].z + a.z * b[2].z + a.w * b[3].z;
        c.w = a.x * b[0].w + a.y * b[1].w + a.z * b[2].w + a.w * b[3].w;
        C[4 * i + r] = c;
    }
}
