// copy_kernel
//   source: float16 (source_0,source_1):(source_s0,1), 16-byte aligned
//   source: TmaLoad() of float16 tiles Sw<3,3,3> o 0 o ((8,4),(64,2)):((64,512),(1,2048)), 2 boxes of 64 x 32 with 128-byte swizzle
//   target: float16 (target_0,target_1):(target_s0,1), 16-byte aligned
//   target: TmaStore() of float16 tiles Sw<3,3,3> o 0 o ((8,4),(64,2)):((64,512),(1,2048)), 2 boxes of 64 x 32 with 128-byte swizzle
//   block (128, 1, 1)
//   8200 bytes of static shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
struct f16 { unsigned short bits; };
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void tma_load_2d(unsigned smem, const TensorMap* map, int c0, int c1, unsigned bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void tma_store_2d(unsigned smem, const TensorMap* map, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_0() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128)
copy_kernel(const __grid_constant__ TensorMap source,
            const __grid_constant__ TensorMap target) {
    __shared__ __align__(1024) f16 smem[4096];  // Sw<3,3,3> o 0 o ((8,4),(64,2)):((64,512),(1,2048))
    __shared__ __align__(8) unsigned long long bars[1];  // 1:0
    const unsigned smem_s = (unsigned)__cvta_generic_to_shared(smem);
    const unsigned bars_s = (unsigned)__cvta_generic_to_shared(bars);

    // tma_kernels.py:55  load_tile(source, smem)
    //   tma_kernels.py:36  mo.copyto(tma, smem, mo.tile(tma.tensor, tma.tile, mo.block_idx()[:mo.rank(tma.tensor)...
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    //   tma_kernels.py:29  if tid == 0:
    const bool tx_is_0 = (int)threadIdx.x == 0;
    if (tx_is_0) {
        //   tma_kernels.py:30  mo.prefetch_tensormap(tma)
        prefetch_tensormap(&source);
        //   tma_kernels.py:31  mo.mbarrier_init(bars, 0, 1)
        mbarrier_init(bars_s, 1);
        //   tma_kernels.py:32  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    //   tma_kernels.py:33  mo.sync_threads()
    __syncthreads();
    //   tma_kernels.py:34  if tid == 0:
    if (tx_is_0) {
        //   tma_kernels.py:35  mo.mbarrier_arrive_expect_tx(bars, 0, tma.bytes)
        mbarrier_arrive_expect_tx(bars_s, 8192);
        //   tma_kernels.py:36  mo.copyto(tma, smem, mo.tile(tma.tensor, tma.tile, mo.block_idx()[:mo.rank(tma.tensor)...
        const int bx_times_32 = bx * 32;
        const int by_times_128 = by * 128;
        tma_load_2d(smem_s, &source, by_times_128, bx_times_32, bars_s);
        tma_load_2d(smem_s + 4096, &source, by_times_128 + 64, bx_times_32, bars_s);
    }
    //   tma_kernels.py:37  mo.mbarrier_wait(bars, 0, 0)
    mbarrier_wait(bars_s, 0);
    // tma_kernels.py:56  store_tile(target, smem)
    //   tma_kernels.py:43  mo.fence_proxy_async()
    fence_proxy_async();
    //   tma_kernels.py:44  mo.sync_threads()
    __syncthreads();
    //   tma_kernels.py:45  if mo.thread_idx().x == 0:
    if (tx_is_0) {
        //   tma_kernels.py:46  mo.copyto(tma, mo.tile(tma.tensor, tma.tile, mo.block_idx()[:mo.rank(tma.tensor)]), smem)
        const int bx_times_32 = bx * 32;
        const int by_times_128 = by * 128;
        tma_store_2d(smem_s, &target, by_times_128, bx_times_32);
        tma_store_2d(smem_s + 4096, &target, by_times_128 + 64, bx_times_32);
        //   tma_kernels.py:47  mo.tma_store_arrive()
        bulk_commit_group();
        //   tma_kernels.py:48  mo.tma_store_wait(0, read=False)
        bulk_wait_group_0();
    }
}
