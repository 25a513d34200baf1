typedef unsigned short half_word;

__device__ __forceinline__ void copy16(unsigned target, const void* source) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source));
}

__device__ __forceinline__ void load4(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128)
hgemm(float* __restrict__ C, const half_word* __restrict__ A, const half_word* __restrict__ B, int N, int K) {
    __shared__ __align__(128) half_word sA[64 * 64], sB[64 * 64];
    int tid = threadIdx.x, lane = tid % 32, warp_m = tid / 32 % 2, warp_n = tid / 64;
    unsigned a0 = (unsigned)__cvta_generic_to_shared(sA), b0 = (unsigned)__cvta_generic_to_shared(sB);
    int r0 = tid / 8, chunk = tid % 8;
    const half_word* gA = A + (long long)(blockIdx.y * 64 + r0) * K + chunk * 8;
    const half_word* gB = B + (long long)(blockIdx.x * 64 + r0) * K + chunk * 8;
    unsigned target = (r0 * 8 + (chunk ^ r0 % 8)) * 16;
    float acc[2][4][4] = {};
    int row_a = warp_m * 16 + lane % 16, high_a = lane / 16;
    int row_b = warp_n * 8 + lane % 8, part_b = lane / 8;
    for (int k0 = 0; k0 < K; k0 += 64) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            copy16(a0 + target + i * 2048, gA + (long long)i * 16 * K);
            copy16(b0 + target + i * 2048, gB + (long long)i * 16 * K);
        }
        gA += 64;
        gB += 64;
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            unsigned a[2][4], b[4][2];
#pragma unroll
            for (int m = 0; m < 2; m++) {
                int row = row_a + m * 32;
                load4(a[m], a0 + (row * 8 + ((2 * k + high_a) ^ row % 8)) * 16);
            }
#pragma unroll
            for (int n = 0; n < 4; n += 2) {
                int row = row_b + (n + part_b / 2) * 16;
                unsigned r[4];
                load4(r, b0 + (row * 8 + ((2 * k + part_b % 2) ^ row % 8)) * 16);
                b[n][0] = r[0]; b[n][1] = r[1]; b[n + 1][0] = r[2]; b[n + 1][1] = r[3];
            }
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < 4; n++) multiply(acc[m][n], a[m], b[n][0], b[n][1]);
        }
        __syncthreads();
    }
    float* out = C + (long long)(blockIdx.y * 64 + warp_m * 16 + lane / 4) * N + blockIdx.x * 64 + warp_n * 8 + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2*)(out + (long long)(m * 32 + h * 8) * N + n * 16) =
                    make_float2(acc[m][n][2 * h], acc[m][n][2 * h + 1]);
}
