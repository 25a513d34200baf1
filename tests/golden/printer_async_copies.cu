// async_copies
//   block (128, 1, 1)
//   16384 bytes of static shared memory

__device__ __forceinline__ int swizzle_3_2_3(int x) {
    return x ^ (x >> 3 & 28);
}
__device__ __forceinline__ void cp_async_4(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending> __device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
__device__ __forceinline__ void cp_async_4_zfill(unsigned dst_smem, const void* src, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(dst_smem), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_8(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_8_zfill(unsigned dst_smem, const void* src, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(dst_smem), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_16(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_16_zfill(unsigned dst_smem, const void* src, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(dst_smem), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_cg_16(unsigned dst_smem, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(dst_smem), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_async_cg_16_zfill(unsigned dst_smem, const void* src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst_smem), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128) async_copies(float* A) {
    __shared__ __align__(1024) float sA[4096];  // (64,64):(1,64)
    const unsigned sA_s = (unsigned)__cvta_generic_to_shared(sA);

    const int thread_x = threadIdx.x;
    bool flags[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        flags[i] = thread_x < 7;
    }
    const bool thread_x_below_9 = thread_x < 9;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_4(sA_s + 4 * (swizzle_3_2_3(thread_x) + 512 * i), &A[thread_x + 512 * i]);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    if (thread_x_below_9) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_4(sA_s + 4 * (swizzle_3_2_3(thread_x) + 512 * i), &A[thread_x + 512 * i]);
        }
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_4_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x) + 512 * i), &A[thread_x + 512 * i], thread_x_below_9 ? 4 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_4_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x) + 512 * i), &A[thread_x + 512 * i], flags[i] ? 4 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    const int thread_x_times_2 = thread_x * 2;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_8(sA_s + 4 * (swizzle_3_2_3(thread_x_times_2) + 512 * i), &A[thread_x_times_2 + 512 * i]);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    if (thread_x_below_9) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_8(sA_s + 4 * (swizzle_3_2_3(thread_x_times_2) + 512 * i), &A[thread_x_times_2 + 512 * i]);
        }
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_8_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_2) + 512 * i), &A[thread_x_times_2 + 512 * i], thread_x_below_9 ? 8 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_8_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_2) + 512 * i), &A[thread_x_times_2 + 512 * i], flags[i] ? 8 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    const int thread_x_times_4 = thread_x * 4;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_16(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i]);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    if (thread_x_below_9) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_16(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i]);
        }
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_16_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i], thread_x_below_9 ? 16 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_16_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i], flags[i] ? 16 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i]);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    if (thread_x_below_9) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            cp_async_cg_16(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i]);
        }
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i], thread_x_below_9 ? 16 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        cp_async_cg_16_zfill(sA_s + 4 * (swizzle_3_2_3(thread_x_times_4) + 512 * i), &A[thread_x_times_4 + 512 * i], flags[i] ? 16 : 0);
    }
    cp_async_commit();
    cp_async_wait_group<0>();
    __syncthreads();
    cp_async_wait_all();
    float r[16];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            r[4 * i + j] = sA[swizzle_3_2_3(thread_x_times_4 + j) + 512 * i];
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            A[thread_x_times_4 + 512 * i + j] = r[4 * i + j];
        }
    }
}
