// send_kernel
//   out: float32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   x: float32 (x_0,x_1):(1,x_s1), 16-byte aligned
//   layout = Sw<3,2,3> o 0 o ((8,2),(32,1)):((32,256),(1,0))
//   block (128, 1, 1), cluster (4, 1, 1)
//   4112 bytes of static shared memory

__device__ __forceinline__ int cluster_ctarank() {
    int x; asm("mov.u32 %0, %cluster_ctarank;" : "=r"(x)); return x;
}
__device__ __forceinline__ unsigned map_shared_rank(unsigned address, unsigned rank) {
    unsigned mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ int swizzle_3_2_3(int x) {
    return x ^ (x >> 3 & 28);
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void cluster_arrive_release() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_send(unsigned target, unsigned source, unsigned bytes, unsigned bar) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(target), "r"(source), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128)
send_kernel(float* out, const int out_s1,
            const float* __restrict__ x, const int x_s1,
            const int rounds) {
    __shared__ __align__(1024) float mine[512];  // Sw<3,2,3> o 0 o ((8,2),(32,1)):((32,256),(1,0))
    __shared__ __align__(1024) float comes[512];  // Sw<3,2,3> o 0 o ((8,2),(32,1)):((32,256),(1,0))
    __shared__ __align__(8) unsigned long long bars[2];  // 2:1
    const unsigned mine_s = (unsigned)__cvta_generic_to_shared(mine);
    const unsigned comes_s = (unsigned)__cvta_generic_to_shared(comes);
    const unsigned bars_s = (unsigned)__cvta_generic_to_shared(bars);

    // bulk_kernels.py:152  blocks, rank, bx, tid = mo.cluster_dim().x, mo.cluster_rank(), mo.block_idx().x, mo.th...
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    // bulk_kernels.py:155  next_one = mo.map_shared_rank(comes, (rank + 1) % blocks)
    const int next_one_part = (cluster_ctarank() + 1) & 3;
    const unsigned comes_next_one_part = map_shared_rank(comes_s, next_one_part);
    // bulk_kernels.py:156  if tid == 0:
    const bool tx_is_0 = tx == 0;
    if (tx_is_0) {
        // bulk_kernels.py:157  mo.mbarrier_init(bars, 1, 1)
        mbarrier_init(bars_s + 8, 1);
        // bulk_kernels.py:158  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    // bulk_kernels.py:159  for i in range(tid, elements, BLOCK):
    for (int i = tx; i < 512; i += 128) {
        // bulk_kernels.py:160  mine[i] = x[i, bx]
        mine[swizzle_3_2_3((i & 15) * 32 + (i >> 4))] = x[i + bx * x_s1];
    }
    // bulk_kernels.py:161  for k in range(rounds):
    for (int k = 0; k < rounds; ++k) {
        // bulk_kernels.py:162  mo.fence_proxy_async()
        fence_proxy_async();
        // bulk_kernels.py:163  mo.cluster_sync()
        cluster_arrive_release();
        cluster_wait();
        // bulk_kernels.py:164  if tid == 0:
        if (tx_is_0) {
            // bulk_kernels.py:165  mo.mbarrier_arrive_expect_tx(bars, 1, elements * x.dtype.bytes)
            mbarrier_arrive_expect_tx(bars_s + 8, 2048);
            // bulk_kernels.py:166  mo.copyto(mo.BulkCopy(), next_one, mine, barrier=(bars, 1))
            const unsigned bars_next_one_part = map_shared_rank(bars_s, next_one_part);
            bulk_send(comes_next_one_part, mine_s, 2048, bars_next_one_part + 8);
        }
        // bulk_kernels.py:167  mo.mbarrier_wait(bars, 1, k % 2)
        mbarrier_wait(bars_s + 8, k & 1);
        // bulk_kernels.py:168  mo.cluster_sync()
        cluster_arrive_release();
        cluster_wait();
        // bulk_kernels.py:169  for i in range(tid, elements, BLOCK):
        for (int i = tx; i < 512; i += 128) {
            // bulk_kernels.py:170  mine[i] = comes[i]
            const int comes_at = (i & 15) * 32 + (i >> 4);
            mine[swizzle_3_2_3(comes_at)] = comes[swizzle_3_2_3(comes_at)];
        }
    }
    // bulk_kernels.py:171  mo.sync_threads()
    __syncthreads();
    // bulk_kernels.py:172  for i in range(tid, elements, BLOCK):
    for (int i = tx; i < 512; i += 128) {
        // bulk_kernels.py:173  out[i, bx] = mine[i]
        out[i + bx * out_s1] = mine[swizzle_3_2_3((i & 15) * 32 + (i >> 4))];
    }
    // bulk_kernels.py:174  mo.cluster_sync()
    cluster_arrive_release();
    cluster_wait();
}
