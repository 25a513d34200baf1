// copy_kernel
//   out: float32 (out_0):(1), 16-byte aligned
//   x: float32 (x_0):(1), 16-byte aligned
//   run = 1024
//   block (128, 1, 1)
//   4104 bytes of static shared memory

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_load(unsigned target, const void* source, unsigned bytes, unsigned bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(target), "l"(source), "r"(bytes), "r"(bar) : "memory");
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
__device__ __forceinline__ void bulk_store(void* target, unsigned source, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(target), "r"(source), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_0() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128)
copy_kernel(float* __restrict__ out,
            const float* __restrict__ x, const int x_0) {
    __shared__ __align__(16) float smem[1024];  // 1024:1
    __shared__ __align__(8) unsigned long long bars[1];  // 1:0
    const unsigned smem_s = (unsigned)__cvta_generic_to_shared(smem);
    const unsigned bars_s = (unsigned)__cvta_generic_to_shared(bars);

    // bulk_kernels.py:48  left = mo.min(mo.size(x) - bx * run, run)
    const int bx_times_1024 = (int)blockIdx.x * 1024;
    const int left = min(x_0 - bx_times_1024, 1024);
    // bulk_kernels.py:50  load_run(smem, gX, left)
    //   bulk_kernels.py:21  if tid == 0:
    const bool tx_is_0 = (int)threadIdx.x == 0;
    if (tx_is_0) {
        //   bulk_kernels.py:22  mo.mbarrier_init(bars, 0, 1)
        mbarrier_init(bars_s, 1);
        //   bulk_kernels.py:23  mo.fence_mbarrier_init()
        fence_mbarrier_init();
    }
    //   bulk_kernels.py:24  mo.sync_threads()
    __syncthreads();
    //   bulk_kernels.py:25  if tid == 0:
    if (tx_is_0) {
        //   bulk_kernels.py:27  mo.mbarrier_arrive_expect_tx(bars, 0, elements * smem.dtype.bytes)
        const int left_times_4 = left * 4;
        mbarrier_arrive_expect_tx(bars_s, left_times_4);
        //   bulk_kernels.py:28  mo.copyto(mo.BulkCopy(), smem, source, barrier=(bars, 0), size=size)
        bulk_load(smem_s, &x[bx_times_1024], left_times_4, bars_s);
    }
    //   bulk_kernels.py:29  mo.mbarrier_wait(bars, 0, 0)
    mbarrier_wait(bars_s, 0);
    // bulk_kernels.py:51  store_run(mo.BulkCopy(), gO, smem, left)
    //   bulk_kernels.py:35  mo.fence_proxy_async()
    fence_proxy_async();
    //   bulk_kernels.py:36  mo.sync_threads()
    __syncthreads();
    //   bulk_kernels.py:37  if mo.thread_idx().x == 0:
    if (tx_is_0) {
        //   bulk_kernels.py:38  mo.copyto(copy, target, smem, size=size, hint=hint)
        bulk_store(&out[bx_times_1024], smem_s, left * 4);
        //   bulk_kernels.py:39  mo.tma_store_arrive()
        bulk_commit_group();
        //   bulk_kernels.py:40  mo.tma_store_wait(0, read=False)
        bulk_wait_group_0();
    }
}
