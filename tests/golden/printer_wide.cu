// wide<locals>.kernel
//   block (32, 2, 1), cluster (2, 1, 1)
//   66560 bytes of dynamic shared memory

struct f16 { unsigned short bits; };

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
wide_locals_kernel(float* A, const long long A_s1,
                   const f16* int_) {
    extern __shared__ __align__(128) unsigned char smem_pool[];
    float* const sA = reinterpret_cast<float*>(smem_pool);  // (128,128):(1,128)
    f16* const sB = reinterpret_cast<f16*>(smem_pool + 65536);  // (64,8):(1,64)

    const long long thread_x = threadIdx.x;
    unsigned r[4];
    const long long thread_x_times_4 = thread_x * 4;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        r[i] = ((const unsigned*)int_)[thread_x_times_4 + i];
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        ((unsigned*)sB)[thread_x_times_4 + i] = r[i];
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        sA[thread_x + 32 * i] = A[thread_x + A_s1 * 3 + 32 * i];
    }
    __syncthreads();
    A[thread_x] = sA[thread_x + 5];
}
