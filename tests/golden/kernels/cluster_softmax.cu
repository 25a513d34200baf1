// softmax_kernel
//   Y: float32 (8,16384):(Y_s0,1), 16-byte aligned
//   X: float32 (8,16384):(X_s0,1), 16-byte aligned
//   copy = TiledCopy(CopyAtom(UniversalCopy(uint128), float32), tv (256,4):(4,1), tile (1,1024))
//   block (256, 1, 1), cluster (4, 1, 1)
//   40 bytes of static shared memory

__device__ __forceinline__ int cluster_ctarank() {
    int x; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(x)); return x;
}
__device__ __forceinline__ void cluster_arrive_release() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ unsigned map_shared_rank(unsigned address, unsigned rank) {
    unsigned mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}
__device__ __forceinline__ float ld_cluster_float(unsigned address) {
    float y; asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=f"(y) : "r"(address) : "memory"); return y;
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256)
softmax_kernel(float* Y, const int Y_s0,
               const float* __restrict__ X, const int X_s0) {
    __shared__ __align__(16) float scratch[8];  // 8:1
    __shared__ __align__(16) float part[2];  // 2:1
    const unsigned part_s = (unsigned)__cvta_generic_to_shared(part);

    // 16_cluster_reduction.py:18  tid, rank = mo.thread_idx().x, mo.cluster_rank()
    const int tx = threadIdx.x;
    // 16_cluster_reduction.py:20  row, bN = mo.block_idx().x // blocks, mo.size(X, 1) // blocks
    const int row = (int)blockIdx.x / 4;
    // 16_cluster_reduction.py:22  tXgX = thr.partition_S(mo.tile(X, (1, bN), (row, rank)))  # (CPY, CPY_M, CPY_N)
    const int cluster_rank_times_4096 = cluster_ctarank() * 4096;
    const int tx_times_4 = tx * 4;
    // 16_cluster_reduction.py:24  tXrX = mo.make_fragment_like(tXgX)  # (CPY, CPY_M, CPY_N)
    float tXrX[16];
    // 16_cluster_reduction.py:25  mo.copyto(copy, tXrX, tXgX)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 v = *(const float4*)&X[row * X_s0 + cluster_rank_times_4096 + tx_times_4 + 1024 * i];
        tXrX[4 * i] = v.x;
        tXrX[4 * i + 1] = v.y;
        tXrX[4 * i + 2] = v.z;
        tXrX[4 * i + 3] = v.w;
    }
    // 16_cluster_reduction.py:29  top = mo.block_reduce(tXrX.reduce("max"), scratch, "max")
    float top_part = tXrX[0], top_part_1 = tXrX[1], top_part_2 = tXrX[2], top_part_3 = tXrX[3];
    #pragma unroll
    for (int i = 4; i < 16; i += 4) {
        top_part = fmaxf(top_part, tXrX[i]);
        top_part_1 = fmaxf(top_part_1, tXrX[i + 1]);
        top_part_2 = fmaxf(top_part_2, tXrX[i + 2]);
        top_part_3 = fmaxf(top_part_3, tXrX[i + 3]);
    }
    top_part = fmaxf(fmaxf(top_part, top_part_1), fmaxf(top_part_2, top_part_3));
    const float top_part_4 = fmaxf(top_part, __shfl_xor_sync(0xffffffffu, top_part, 16));
    const float top_part_5 = fmaxf(top_part_4, __shfl_xor_sync(0xffffffffu, top_part_4, 8));
    const float top_part_6 = fmaxf(top_part_5, __shfl_xor_sync(0xffffffffu, top_part_5, 4));
    const float top_part_7 = fmaxf(top_part_6, __shfl_xor_sync(0xffffffffu, top_part_6, 2));
    const bool tx_mod_32_is_0 = tx % 32 == 0;
    const float top_part_8 = fmaxf(top_part_7, __shfl_xor_sync(0xffffffffu, top_part_7, 1));
    if (tx_mod_32_is_0) {
        scratch[tx / 32] = top_part_8;
    }
    __syncthreads();
    const float top_part_9 = fmaxf(fmaxf(fmaxf(fmaxf(fmaxf(scratch[0], scratch[1]), scratch[2]), scratch[3]), scratch[4]), scratch[5]);
    const float top = fmaxf(fmaxf(top_part_9, scratch[6]), scratch[7]);
    __syncthreads();
    // 16_cluster_reduction.py:30  tXrX[...] = mo.exp(tXrX - top)
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        tXrX[i] = expf(tXrX[i] - top);
    }
    // 16_cluster_reduction.py:31  total = mo.block_reduce(tXrX.reduce("add"), scratch)
    float total_part = tXrX[0], total_part_1 = tXrX[1], total_part_2 = tXrX[2], total_part_3 = tXrX[3];
    #pragma unroll
    for (int i = 4; i < 16; i += 4) {
        total_part += tXrX[i];
        total_part_1 += tXrX[i + 1];
        total_part_2 += tXrX[i + 2];
        total_part_3 += tXrX[i + 3];
    }
    total_part = total_part + total_part_1 + (total_part_2 + total_part_3);
    const float total_part_4 = total_part + __shfl_xor_sync(0xffffffffu, total_part, 16);
    const float total_part_5 = total_part_4 + __shfl_xor_sync(0xffffffffu, total_part_4, 8);
    const float total_part_6 = total_part_5 + __shfl_xor_sync(0xffffffffu, total_part_5, 4);
    const float total_part_7 = total_part_6 + __shfl_xor_sync(0xffffffffu, total_part_6, 2);
    const float total_part_8 = total_part_7 + __shfl_xor_sync(0xffffffffu, total_part_7, 1);
    if (tx_mod_32_is_0) {
        scratch[tx / 32] = total_part_8;
    }
    __syncthreads();
    const float total = scratch[0] + scratch[1] + scratch[2] + scratch[3] + scratch[4] + scratch[5] + scratch[6] + scratch[7];
    __syncthreads();
    // 16_cluster_reduction.py:32  if tid == 0:
    if (tx == 0) {
        // 16_cluster_reduction.py:33  part[0], part[1] = top, total
        part[0] = top;
        part[1] = total;
    }
    // 16_cluster_reduction.py:34  mo.cluster_sync()  # every part is there
    cluster_arrive_release();
    cluster_wait();
    // 16_cluster_reduction.py:38  highest = mo.max(highest, mo.map_shared_rank(part, p)[0])
    const unsigned part_0 = map_shared_rank(part_s, 0);
    const unsigned part_1 = map_shared_rank(part_s, 1);
    const unsigned part_2 = map_shared_rank(part_s, 2);
    const float highest = fmaxf(fmaxf(fmaxf(top, ld_cluster_float(part_0)), ld_cluster_float(part_1)), ld_cluster_float(part_2));
    const unsigned part_3 = map_shared_rank(part_s, 3);
    const float highest_1 = fmaxf(highest, ld_cluster_float(part_3));
    // 16_cluster_reduction.py:41  whole += there[1] * mo.exp(there[0] - highest)
    const float whole_part = ld_cluster_float(part_0 + 4) * expf(ld_cluster_float(part_0) - highest_1) + 0.0f + ld_cluster_float(part_1 + 4) * expf(ld_cluster_float(part_1) - highest_1);
    const float whole_part_1 = whole_part + ld_cluster_float(part_2 + 4) * expf(ld_cluster_float(part_2) - highest_1) + ld_cluster_float(part_3 + 4) * expf(ld_cluster_float(part_3) - highest_1);
    // 16_cluster_reduction.py:42  tXrX[...] = tXrX * (mo.exp(top - highest) / whole)
    const float tXrX_part = expf(top - highest_1) / whole_part_1;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        tXrX[i] *= tXrX_part;
    }
    // 16_cluster_reduction.py:43  mo.copyto(copy, tXgY, tXrX)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        *(float4*)&Y[row * Y_s0 + cluster_rank_times_4096 + tx_times_4 + 1024 * i] = make_float4(tXrX[4 * i], tXrX[4 * i + 1], tXrX[4 * i + 2], tXrX[4 * i + 3]);
    }
    // 16_cluster_reduction.py:44  mo.cluster_sync()  # and has been read
    cluster_arrive_release();
    cluster_wait();
}
