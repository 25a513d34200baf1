extern "C" __global__ void __launch_bounds__(256)
sgemm(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
    __shared__ float sA[16][68], sB[16][64];
    int tid = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, ty = tid / 16, tx = tid % 16;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int i = tid / 16 + 16 * r, k = tid % 16;
            sA[k][i] = row + i < M && k0 + k < K ? A[(long long)(row + i) * K + k0 + k] : 0;
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int k = tid / 64 + 4 * r, j = tid % 64;
            sB[k][j] = k0 + k < K && column + j < N ? B[(long long)(k0 + k) * N + column + j] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 a4 = *(const float4*)&sA[k][4 * ty], b4 = *(const float4*)&sB[k][4 * tx];
            float a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (row + 4 * ty + i < M && column + 4 * tx + j < N)
                C[(long long)(row + 4 * ty + i) * N + column + 4 * tx + j] = acc[i][j];
}
