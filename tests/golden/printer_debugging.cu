// debugging
//   block (32, 1, 1)

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
__device__ __forceinline__ float f32(f16 x) {
    float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;
}
__device__ __forceinline__ float f32(bf16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}

extern "C" __global__ void __launch_bounds__(32)
debugging(const int n, const signed char x_int8, const unsigned char x_uint8, const short x_int16,
          const unsigned short x_uint16, const int x_int32, const unsigned x_uint32, const long long x_int64,
          const unsigned long long x_uint64, const f16 x_float16, const bf16 x_bfloat16, const float x_float32,
          const double x_float64, const bool x_bool) {
    printf("[block (%d,%d,%d) thread (%d,%d,%d)] 100%% \"sure\"\\ %d\n",
           blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z,
           n);
    printf("[block (%d,%d,%d) thread (%d,%d,%d)] %d%d%d%d%d%u%lld%llu%g%g%g%g%s\n",
           blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z,
           x_int8, x_uint8, x_int16, x_uint16, x_int32, x_uint32, x_int64, x_uint64, f32(x_float16), f32(x_bfloat16), x_float32, x_float64, x_bool ? "True" : "False");
    if (n >= 5) {
        printf("[block (%d,%d,%d) thread (%d,%d,%d)] n is too large\n",
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
        __trap();
    }
}
