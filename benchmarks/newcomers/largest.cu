__device__ __forceinline__ void atomic_max(float* p, float v) {
    if (__float_as_int(v) >= 0)
        atomicMax((int*)p, __float_as_int(v));
    else
        atomicMin((unsigned*)p, __float_as_uint(v));
}

extern "C" __global__ void __launch_bounds__(256)
largest(float* __restrict__ out, const float* __restrict__ x, int n) {
    float top = -__int_as_float(0x7f800000);
    int stride = gridDim.x * 256;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n / 4; i += stride) {
        float4 v = ((const float4*)x)[i];
        top = fmaxf(top, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, s));
    if (threadIdx.x % 32 == 0) atomic_max(out, top);
}
