// cluster_kernel
//   out: int32 (out_0,out_1,out_2,out_3):(out_s0,out_s1,out_s2,1), 16-byte aligned
//   block (32, 1, 1), cluster (2, 2, 2)
//   16 bytes of static shared memory

__device__ __forceinline__ int cluster_ctaid_x() {
    int x; asm("mov.u32 %0, %cluster_ctaid.x;" : "=r"(x)); return x;
}
__device__ __forceinline__ int cluster_ctaid_y() {
    int x; asm("mov.u32 %0, %cluster_ctaid.y;" : "=r"(x)); return x;
}
__device__ __forceinline__ int cluster_ctaid_z() {
    int x; asm("mov.u32 %0, %cluster_ctaid.z;" : "=r"(x)); return x;
}
__device__ __forceinline__ int cluster_ctarank() {
    int x; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(x)); return x;
}
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned barrier, unsigned rank) {
    asm volatile("{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];}"
                 :: "r"(barrier), "r"(rank) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cluster(unsigned barrier, unsigned bytes, unsigned rank) {
    asm volatile("{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %2; "
                 "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [remote], %1;}"
                 :: "r"(barrier), "r"(bytes), "r"(rank) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

extern "C" __global__ void __cluster_dims__(2, 2, 2) __launch_bounds__(32) cluster_kernel(int* __restrict__ out, const int out_s0, const int out_s1, const int out_s2) {
    __shared__ __align__(8) unsigned long long bars[2];  // 2:1
    const unsigned bars_s = (unsigned)__cvta_generic_to_shared(bars);

    // ops_kernels_hopper.py:116  tid, block = mo.thread_idx().x, mo.block_idx()
    const int tx = threadIdx.x;
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    const int bz = blockIdx.z;
    // ops_kernels_hopper.py:119  if tid == 0:
    const bool tx_is_0 = tx == 0;
    if (tx_is_0) {
        // ops_kernels_hopper.py:120  mo.mbarrier_init(bars, 0, x * y * z)
        mbarrier_init(bars_s, 8);
        // ops_kernels_hopper.py:121  mo.mbarrier_init(bars, 1, x * y * z)
        mbarrier_init(bars_s + 8, 8);
        // ops_kernels_hopper.py:122  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    // ops_kernels_hopper.py:123  mo.cluster_arrive(relaxed=True)
    cluster_arrive_relaxed();
    // ops_kernels_hopper.py:124  mo.cluster_wait()
    cluster_wait();
    // ops_kernels_hopper.py:125  if tid < x * y * z:
    if (tx < 8) {
        // ops_kernels_hopper.py:126  mo.mbarrier_arrive(bars, 0, cta=tid)
        mbarrier_arrive_cluster(bars_s, tx);
        // ops_kernels_hopper.py:127  mo.mbarrier_arrive_expect_tx(bars, 1, 0, cta=tid)
        mbarrier_arrive_expect_tx_cluster(bars_s + 8, 0, tx);
    }
    // ops_kernels_hopper.py:128  mo.mbarrier_wait(bars, 0, 0)
    mbarrier_wait(bars_s, 0);
    // ops_kernels_hopper.py:129  mo.mbarrier_wait(bars, 1, 0)
    mbarrier_wait(bars_s + 8, 0);
    // ops_kernels_hopper.py:132  if tid == 0:
    if (tx_is_0) {
        // ops_kernels_hopper.py:134  out[i, block.x, block.y, block.z] = values[i]
        const int bx_times_out_s1 = bx * out_s1;
        const int by_times_out_s2 = by * out_s2;
        out[bx_times_out_s1 + by_times_out_s2 + bz] = cluster_ctarank();
        out[out_s0 + bx_times_out_s1 + by_times_out_s2 + bz] = cluster_ctaid_x();
        out[out_s0 * 2 + bx_times_out_s1 + by_times_out_s2 + bz] = cluster_ctaid_y();
        out[out_s0 * 3 + bx_times_out_s1 + by_times_out_s2 + bz] = cluster_ctaid_z();
        out[out_s0 * 4 + bx_times_out_s1 + by_times_out_s2 + bz] = bx / 2;
        out[out_s0 * 5 + bx_times_out_s1 + by_times_out_s2 + bz] = by / 2;
        out[out_s0 * 6 + bx_times_out_s1 + by_times_out_s2 + bz] = bz / 2;
    }
    // ops_kernels_hopper.py:135  mo.cluster_arrive(relaxed=True)
    cluster_arrive_relaxed();
    // ops_kernels_hopper.py:136  mo.cluster_wait()
    cluster_wait();
}
