extern "C" __global__ void __launch_bounds__(128)
substitute(float* __restrict__ x, const float* __restrict__ L, const float* __restrict__ b) {
    __shared__ float staged[4][32][33];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, system = blockIdx.x * 4 + warp;
    const float* __restrict__ source = L + (long long)system * 1024 + lane;
#pragma unroll
    for (int r = 0; r < 32; r++) staged[warp][r][lane] = source[32 * r];
    __syncwarp();
    float mine = b[system * 32 + lane];
#pragma unroll
    for (int r = 0; r < 32; r++) {
        float solved = __shfl_sync(0xffffffff, mine / staged[warp][lane][lane], r);
        if (lane == r)
            mine = solved;
        else if (lane > r)
            mine -= staged[warp][lane][r] * solved;
    }
    x[system * 32 + lane] = mine;
}
