__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1 + erff(v * 0.7071067811865476f)); }

__device__ __forceinline__ unsigned both(unsigned word) {
    float low = gelu(__uint_as_float(word << 16)), high = gelu(__uint_as_float(word & 0xffff0000));
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

extern "C" __global__ void __launch_bounds__(256)
gelu_bf16(uint4* __restrict__ out, const uint4* __restrict__ x) {
    int i = blockIdx.x * 256 + threadIdx.x;
    uint4 v = x[i];
    out[i] = make_uint4(both(v.x), both(v.y), both(v.z), both(v.w));
}
