extern "C" __global__ void __launch_bounds__(256)
scan(int* __restrict__ out, const int* __restrict__ x) {
    __shared__ int scratch[8];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int4 v = ((const int4*)x)[blockIdx.x * 256 + tid];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    int mine = v.w;
#pragma unroll
    for (int s = 1; s < 32; s *= 2) {
        int other = __shfl_up_sync(0xffffffff, mine, s);
        if (lane >= s) mine += other;
    }
    if (lane == 31) scratch[warp] = mine;
    __syncthreads();
    int before = mine - v.w;
#pragma unroll
    for (int w = 0; w < 7; w++)
        if (w < warp) before += scratch[w];
    v.x += before;
    v.y += before;
    v.z += before;
    v.w += before;
    ((int4*)out)[blockIdx.x * 256 + tid] = v;
}
