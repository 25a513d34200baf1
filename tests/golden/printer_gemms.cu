// gemms
//   block (32, 1, 1)

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
__device__ __forceinline__ float f32(f16 x) {
    float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;
}
__device__ __forceinline__ f16 to_f16(float x) {
    f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
__device__ __forceinline__ float f32(bf16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}
__device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
__device__ __forceinline__ void mma_sm80_16x8x8_f32tf32tf32f32_tn(float& d0, float& d1, float& d2, float& d3,
    float a0, float a1, float a2, float a3,
    float b0, float b1,
    float c0, float c1, float c2, float c3) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)),
          "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}
__device__ __forceinline__ void put_16(unsigned& word, int shift, unsigned x) {
    word = word & ~(0xffffu << shift) | (x & 0xffffu) << shift;
}
__device__ __forceinline__ void mma_sm80_16x8x16_f16f16f16f16_tn(unsigned& d0, unsigned& d1,
    unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1,
    unsigned c0, unsigned c1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(d0), "=r"(d1)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3),
          "r"(b0), "r"(b1),
          "r"(c0), "r"(c1));
}
__device__ __forceinline__ void mma_sm80_8x8x4_f64f64f64f64_tn(double& d0, double& d1,
    double a0,
    double b0,
    double c0, double c1) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
        : "=d"(d0), "=d"(d1)
        : "d"(a0),
          "d"(b0),
          "d"(c0), "d"(c1));
}
__device__ __forceinline__ void put_8(unsigned& word, int shift, unsigned x) {
    word = word & ~(0xffu << shift) | (x & 0xffu) << shift;
}
__device__ __forceinline__ void mma_sm80_16x8x32_s32s8s8s32_tn(int& d0, int& d1, int& d2, int& d3,
    unsigned a0, unsigned a1, unsigned a2, unsigned a3,
    unsigned b0, unsigned b1,
    int c0, int c1, int c2, int c3) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3),
          "r"(b0), "r"(b1),
          "r"(c0), "r"(c1), "r"(c2), "r"(c3));
}

extern "C" __global__ void __launch_bounds__(32)
gemms(f16* __restrict__ g_float16,
      bf16* __restrict__ g_bfloat16,
      float* __restrict__ g_float32,
      double* __restrict__ g_float64,
      int* __restrict__ g_int32,
      float* __restrict__ D_SM80_16x8x8_F32TF32TF32F32_TN,
      const float* __restrict__ A_SM80_16x8x8_F32TF32TF32F32_TN,
      const float* __restrict__ B_SM80_16x8x8_F32TF32TF32F32_TN,
      f16* __restrict__ D_SM80_16x8x16_F16F16F16F16_TN,
      const f16* __restrict__ A_SM80_16x8x16_F16F16F16F16_TN,
      const f16* __restrict__ B_SM80_16x8x16_F16F16F16F16_TN,
      double* __restrict__ D_SM80_8x8x4_F64F64F64F64_TN,
      const double* __restrict__ A_SM80_8x8x4_F64F64F64F64_TN,
      const double* __restrict__ B_SM80_8x8x4_F64F64F64F64_TN,
      int* __restrict__ D_SM80_16x8x32_S32S8S8S32_TN,
      const signed char* __restrict__ A_SM80_16x8x32_S32S8S8S32_TN,
      const signed char* __restrict__ B_SM80_16x8x32_S32S8S8S32_TN) {
    f16 a_float16[8];
    f16 b_float16[12];
    f16 c_float16[24];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        a_float16[i] = g_float16[i];
    }
    #pragma unroll
    for (int i = 0; i < 12; ++i) {
        b_float16[i] = g_float16[i];
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        c_float16[i] = g_float16[i];
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 6; ++j) {
                c_float16[i + 4 * j] = to_f16(f32(a_float16[i + 4 * k]) * f32(b_float16[j + 6 * k]) + f32(c_float16[i + 4 * j]));
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            c_float16[2 * (i % 2) + i / 2 + 4 * j] = to_f16(f32(a_float16[2 * (i % 2) + i / 2]) * f32(b_float16[j]) + f32(c_float16[i % 2 + 2 * (i / 2) + 4 * j]));
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 6; ++jj) {
                const int j = i & 1 ? 5 - jj : jj;
                c_float16[i + 4 * j] = to_f16(f32(a_float16[i + 4 * k]) * f32(b_float16[j + 6 * k]) + f32(c_float16[i + 4 * j]));
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int jj = 0; jj < 6; ++jj) {
            const int j = i & 1 ? 5 - jj : jj;
            c_float16[2 * (i % 2) + i / 2 + 4 * j] = to_f16(f32(a_float16[2 * (i % 2) + i / 2]) * f32(b_float16[j]) + f32(c_float16[i % 2 + 2 * (i / 2) + 4 * j]));
        }
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        g_float16[i] = c_float16[i];
    }
    bf16 a_bfloat16[8];
    bf16 b_bfloat16[12];
    bf16 c_bfloat16[24];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        a_bfloat16[i] = g_bfloat16[i];
    }
    #pragma unroll
    for (int i = 0; i < 12; ++i) {
        b_bfloat16[i] = g_bfloat16[i];
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        c_bfloat16[i] = g_bfloat16[i];
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 6; ++j) {
                c_bfloat16[i + 4 * j] = to_bf16(f32(a_bfloat16[i + 4 * k]) * f32(b_bfloat16[j + 6 * k]) + f32(c_bfloat16[i + 4 * j]));
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            c_bfloat16[2 * (i % 2) + i / 2 + 4 * j] = to_bf16(f32(a_bfloat16[2 * (i % 2) + i / 2]) * f32(b_bfloat16[j]) + f32(c_bfloat16[i % 2 + 2 * (i / 2) + 4 * j]));
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 6; ++jj) {
                const int j = i & 1 ? 5 - jj : jj;
                c_bfloat16[i + 4 * j] = to_bf16(f32(a_bfloat16[i + 4 * k]) * f32(b_bfloat16[j + 6 * k]) + f32(c_bfloat16[i + 4 * j]));
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int jj = 0; jj < 6; ++jj) {
            const int j = i & 1 ? 5 - jj : jj;
            c_bfloat16[2 * (i % 2) + i / 2 + 4 * j] = to_bf16(f32(a_bfloat16[2 * (i % 2) + i / 2]) * f32(b_bfloat16[j]) + f32(c_bfloat16[i % 2 + 2 * (i / 2) + 4 * j]));
        }
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        g_bfloat16[i] = c_bfloat16[i];
    }
    float a_float32[8];
    float b_float32[12];
    float c_float32[24];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        a_float32[i] = g_float32[i];
    }
    #pragma unroll
    for (int i = 0; i < 12; ++i) {
        b_float32[i] = g_float32[i];
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        c_float32[i] = g_float32[i];
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 6; ++j) {
                c_float32[i + 4 * j] += a_float32[i + 4 * k] * b_float32[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            c_float32[2 * (i % 2) + i / 2 + 4 * j] = a_float32[2 * (i % 2) + i / 2] * b_float32[j] + c_float32[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 6; ++jj) {
                const int j = i & 1 ? 5 - jj : jj;
                c_float32[i + 4 * j] += a_float32[i + 4 * k] * b_float32[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int jj = 0; jj < 6; ++jj) {
            const int j = i & 1 ? 5 - jj : jj;
            c_float32[2 * (i % 2) + i / 2 + 4 * j] = a_float32[2 * (i % 2) + i / 2] * b_float32[j] + c_float32[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        g_float32[i] = c_float32[i];
    }
    double a_float64[8];
    double b_float64[12];
    double c_float64[24];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        a_float64[i] = g_float64[i];
    }
    #pragma unroll
    for (int i = 0; i < 12; ++i) {
        b_float64[i] = g_float64[i];
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        c_float64[i] = g_float64[i];
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 6; ++j) {
                c_float64[i + 4 * j] += a_float64[i + 4 * k] * b_float64[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            c_float64[2 * (i % 2) + i / 2 + 4 * j] = a_float64[2 * (i % 2) + i / 2] * b_float64[j] + c_float64[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 6; ++jj) {
                const int j = i & 1 ? 5 - jj : jj;
                c_float64[i + 4 * j] += a_float64[i + 4 * k] * b_float64[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int jj = 0; jj < 6; ++jj) {
            const int j = i & 1 ? 5 - jj : jj;
            c_float64[2 * (i % 2) + i / 2 + 4 * j] = a_float64[2 * (i % 2) + i / 2] * b_float64[j] + c_float64[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        g_float64[i] = c_float64[i];
    }
    int a_int32[8];
    int b_int32[12];
    int c_int32[24];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        a_int32[i] = g_int32[i];
    }
    #pragma unroll
    for (int i = 0; i < 12; ++i) {
        b_int32[i] = g_int32[i];
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        c_int32[i] = g_int32[i];
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 6; ++j) {
                c_int32[i + 4 * j] += a_int32[i + 4 * k] * b_int32[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            c_int32[2 * (i % 2) + i / 2 + 4 * j] = a_int32[2 * (i % 2) + i / 2] * b_int32[j] + c_int32[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int jj = 0; jj < 6; ++jj) {
                const int j = i & 1 ? 5 - jj : jj;
                c_int32[i + 4 * j] += a_int32[i + 4 * k] * b_int32[j + 6 * k];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int jj = 0; jj < 6; ++jj) {
            const int j = i & 1 ? 5 - jj : jj;
            c_int32[2 * (i % 2) + i / 2 + 4 * j] = a_int32[2 * (i % 2) + i / 2] * b_int32[j] + c_int32[i % 2 + 2 * (i / 2) + 4 * j];
        }
    }
    #pragma unroll
    for (int i = 0; i < 24; ++i) {
        g_int32[i] = c_int32[i];
    }
    float rD_SM80_16x8x8_F32TF32TF32F32_TN[8];
    float rA_SM80_16x8x8_F32TF32TF32F32_TN[8];
    float rB_SM80_16x8x8_F32TF32TF32F32_TN[4];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        rD_SM80_16x8x8_F32TF32TF32F32_TN[i] = D_SM80_16x8x8_F32TF32TF32F32_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        rA_SM80_16x8x8_F32TF32TF32F32_TN[i] = A_SM80_16x8x8_F32TF32TF32F32_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        rB_SM80_16x8x8_F32TF32TF32F32_TN[i] = B_SM80_16x8x8_F32TF32TF32F32_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mma_sm80_16x8x8_f32tf32tf32f32_tn(rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 1], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 2], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 3],
            rA_SM80_16x8x8_F32TF32TF32F32_TN[4 * i], rA_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 1], rA_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 2], rA_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 3],
            rB_SM80_16x8x8_F32TF32TF32F32_TN[0], rB_SM80_16x8x8_F32TF32TF32F32_TN[1],
            rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 1], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 2], rD_SM80_16x8x8_F32TF32TF32F32_TN[4 * i + 3]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        D_SM80_16x8x8_F32TF32TF32F32_TN[i] = rD_SM80_16x8x8_F32TF32TF32F32_TN[i];
    }
    unsigned rD_SM80_16x8x16_F16F16F16F16_TN[4];
    unsigned rA_SM80_16x8x16_F16F16F16F16_TN[8];
    unsigned rB_SM80_16x8x16_F16F16F16F16_TN[4];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        put_16(rD_SM80_16x8x16_F16F16F16F16_TN[i / 2], i % 2 * 16, D_SM80_16x8x16_F16F16F16F16_TN[i].bits);
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        put_16(rA_SM80_16x8x16_F16F16F16F16_TN[i / 2], i % 2 * 16, A_SM80_16x8x16_F16F16F16F16_TN[i].bits);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        put_16(rB_SM80_16x8x16_F16F16F16F16_TN[i / 2], i % 2 * 16, B_SM80_16x8x16_F16F16F16F16_TN[i].bits);
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mma_sm80_16x8x16_f16f16f16f16_tn(rD_SM80_16x8x16_F16F16F16F16_TN[2 * i], rD_SM80_16x8x16_F16F16F16F16_TN[2 * i + 1],
            rA_SM80_16x8x16_F16F16F16F16_TN[4 * i], rA_SM80_16x8x16_F16F16F16F16_TN[4 * i + 1], rA_SM80_16x8x16_F16F16F16F16_TN[4 * i + 2], rA_SM80_16x8x16_F16F16F16F16_TN[4 * i + 3],
            rB_SM80_16x8x16_F16F16F16F16_TN[0], rB_SM80_16x8x16_F16F16F16F16_TN[1],
            rD_SM80_16x8x16_F16F16F16F16_TN[2 * i], rD_SM80_16x8x16_F16F16F16F16_TN[2 * i + 1]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        D_SM80_16x8x16_F16F16F16F16_TN[i] = f16{(unsigned short)(rD_SM80_16x8x16_F16F16F16F16_TN[i / 2] >> (i % 2 * 16))};
    }
    double rD_SM80_8x8x4_F64F64F64F64_TN[4];
    double rA_SM80_8x8x4_F64F64F64F64_TN[2];
    double rB_SM80_8x8x4_F64F64F64F64_TN[2];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        rD_SM80_8x8x4_F64F64F64F64_TN[i] = D_SM80_8x8x4_F64F64F64F64_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        rA_SM80_8x8x4_F64F64F64F64_TN[i] = A_SM80_8x8x4_F64F64F64F64_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        rB_SM80_8x8x4_F64F64F64F64_TN[i] = B_SM80_8x8x4_F64F64F64F64_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mma_sm80_8x8x4_f64f64f64f64_tn(rD_SM80_8x8x4_F64F64F64F64_TN[2 * i], rD_SM80_8x8x4_F64F64F64F64_TN[2 * i + 1],
            rA_SM80_8x8x4_F64F64F64F64_TN[i],
            rB_SM80_8x8x4_F64F64F64F64_TN[0],
            rD_SM80_8x8x4_F64F64F64F64_TN[2 * i], rD_SM80_8x8x4_F64F64F64F64_TN[2 * i + 1]);
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        D_SM80_8x8x4_F64F64F64F64_TN[i] = rD_SM80_8x8x4_F64F64F64F64_TN[i];
    }
    int rD_SM80_16x8x32_S32S8S8S32_TN[8];
    unsigned rA_SM80_16x8x32_S32S8S8S32_TN[8];
    unsigned rB_SM80_16x8x32_S32S8S8S32_TN[4];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        rD_SM80_16x8x32_S32S8S8S32_TN[i] = D_SM80_16x8x32_S32S8S8S32_TN[i];
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        put_8(rA_SM80_16x8x32_S32S8S8S32_TN[i / 4], i % 4 * 8, (unsigned char)A_SM80_16x8x32_S32S8S8S32_TN[i]);
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        put_8(rB_SM80_16x8x32_S32S8S8S32_TN[i / 4], i % 4 * 8, (unsigned char)B_SM80_16x8x32_S32S8S8S32_TN[i]);
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        mma_sm80_16x8x32_s32s8s8s32_tn(rD_SM80_16x8x32_S32S8S8S32_TN[4 * i], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 1], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 2], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 3],
            rA_SM80_16x8x32_S32S8S8S32_TN[4 * i], rA_SM80_16x8x32_S32S8S8S32_TN[4 * i + 1], rA_SM80_16x8x32_S32S8S8S32_TN[4 * i + 2], rA_SM80_16x8x32_S32S8S8S32_TN[4 * i + 3],
            rB_SM80_16x8x32_S32S8S8S32_TN[0], rB_SM80_16x8x32_S32S8S8S32_TN[1],
            rD_SM80_16x8x32_S32S8S8S32_TN[4 * i], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 1], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 2], rD_SM80_16x8x32_S32S8S8S32_TN[4 * i + 3]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        D_SM80_16x8x32_S32S8S8S32_TN[i] = rD_SM80_16x8x32_S32S8S8S32_TN[i];
    }
}
