extern "C" __global__ void __launch_bounds__(256)
permute(float* __restrict__ out, const float* __restrict__ x, int I, int J, int K) {
    __shared__ float staged[32][33];
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32, i = blockIdx.z, j = blockIdx.y * 32, k = blockIdx.x * 32;
    const float* __restrict__ source = x + ((long long)i * J + j + ty) * K + k + tx;
    float* __restrict__ target = out + ((long long)(k + ty) * I + i) * J + j + tx;
#pragma unroll
    for (int r = 0; r < 32; r += 8) staged[ty + r][tx] = source[(long long)r * K];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 32; r += 8) target[(long long)r * I * J] = staged[tx][ty + r];
}
