// narrow_kernel
//   out: float8_e4m3fn (out_0):(1), 16-byte aligned
//   x: float32 (x_0):(1), 16-byte aligned
//   y: float32 (y_0):(1), 16-byte aligned
//   block (128, 1, 1)

struct e4m3 { unsigned char bits; };
__device__ __forceinline__ unsigned to_e4m3x4(float x0, float x1, float x2, float x3) {
    unsigned y;
    asm("{.reg .b16 low, high;"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;"
        "mov.b32 %0, {low, high};}"
        : "=r"(y)
        : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
    return y;
}
__device__ __forceinline__ unsigned pack(e4m3 x0, e4m3 x1, e4m3 x2, e4m3 x3) {
    return x0.bits | (unsigned)x1.bits << 8 | (unsigned)x2.bits << 16 | (unsigned)x3.bits << 24;
}

extern "C" __global__ void __launch_bounds__(128)
narrow_kernel(e4m3* __restrict__ out,
              const float* __restrict__ x,
              const float* __restrict__ y) {
    // convert_kernels.py:52  gX, gY = (mo.tile(t, (each,), (i,)) for t in (x, y))
    const int i_times_16 = ((int)blockIdx.x * 128 + (int)threadIdx.x) * 16;
    // convert_kernels.py:53  acc, residual = mo.make_fragment_like(gX), mo.make_fragment_like(gY)
    float acc[16];
    float residual[16];
    // convert_kernels.py:54  mo.copyto(acc, gX)
    #pragma unroll
    for (int ii = 0; ii < 4; ++ii) {
        const float4 v = *(const float4*)&x[i_times_16 + 4 * ii];
        acc[4 * ii] = v.x;
        acc[4 * ii + 1] = v.y;
        acc[4 * ii + 2] = v.z;
        acc[4 * ii + 3] = v.w;
    }
    // convert_kernels.py:55  mo.copyto(residual, gY)
    #pragma unroll
    for (int ii = 0; ii < 4; ++ii) {
        const float4 v = *(const float4*)&y[i_times_16 + 4 * ii];
        residual[4 * ii] = v.x;
        residual[4 * ii + 1] = v.y;
        residual[4 * ii + 2] = v.z;
        residual[4 * ii + 3] = v.w;
    }
    // convert_kernels.py:56  mo.copyto(mo.tile(out, (each,), (i,)), (acc * 0.5 + residual).to(out.dtype))
    e4m3 frag4[16];
    float frag4_f32[16];
    #pragma unroll
    for (int ii = 0; ii < 16; ++ii) {
        frag4_f32[ii] = acc[ii] * 0.5f + residual[ii];
    }
    #pragma unroll
    for (int ii = 0; ii < 4; ++ii) {
        const unsigned w = to_e4m3x4(frag4_f32[4 * ii], frag4_f32[4 * ii + 1], frag4_f32[4 * ii + 2], frag4_f32[4 * ii + 3]);
        frag4[4 * ii] = e4m3{(unsigned char)w};
        frag4[4 * ii + 1] = e4m3{(unsigned char)(w >> 8)};
        frag4[4 * ii + 2] = e4m3{(unsigned char)(w >> 16)};
        frag4[4 * ii + 3] = e4m3{(unsigned char)(w >> 24)};
    }
    *(uint4*)&out[i_times_16] = make_uint4(pack(frag4[0], frag4[1], frag4[2], frag4[3]), pack(frag4[4], frag4[5], frag4[6], frag4[7]), pack(frag4[8], frag4[9], frag4[10], frag4[11]), pack(frag4[12], frag4[13], frag4[14], frag4[15]));
}
