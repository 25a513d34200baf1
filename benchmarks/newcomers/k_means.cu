extern "C" __global__ void __launch_bounds__(256)
k_means(int* __restrict__ nearest, const float* __restrict__ points, const float* __restrict__ centres, int k, int n) {
    constexpr int D = 16;
    __shared__ __align__(16) float staged[64][D];
    int tid = threadIdx.x, i = blockIdx.x * 256 + tid;
    for (int t = tid; t < k * D; t += 256) (&staged[0][0])[t] = centres[t];
    __syncthreads();
    if (i >= n) return;
    float4 p[D / 4];
#pragma unroll
    for (int j = 0; j < D / 4; j++) p[j] = ((const float4*)points)[(long long)i * (D / 4) + j];
    float best = __int_as_float(0x7f800000);
    int where = 0;
    for (int c = 0; c < k; c++) {
        float distance = 0;
#pragma unroll
        for (int j = 0; j < D / 4; j++) {
            float4 q = *(const float4*)&staged[c][4 * j];
            float dx = p[j].x - q.x, dy = p[j].y - q.y, dz = p[j].z - q.z, dw = p[j].w - q.w;
            distance += dx * dx;
            distance += dy * dy;
            distance += dz * dz;
            distance += dw * dw;
        }
        if (distance < best) {
            best = distance;
            where = c;
        }
    }
    nearest[i] = where;
}
