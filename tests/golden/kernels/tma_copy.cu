// copy_kernel
//   load: float32 (load_0,load_1):(load_s0,1), 16-byte aligned
//   load: TmaLoad() of float32 tiles Sw<3,2,3> o 0 o ((8,8),(32,1)):((32,256),(1,0)), 1 box of 32 x 64 with 128-byte swizzle
//   store: float32 (store_0,store_1):(store_s0,1), 16-byte aligned
//   store: TmaStore() of float32 tiles Sw<3,2,3> o 0 o ((8,8),(32,1)):((32,256),(1,0)), 1 box of 32 x 64 with 128-byte swizzle
//   block (32, 1, 1)
//   8200 bytes of static shared memory

struct __align__(64) TensorMap { unsigned long long words[16]; };
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
__device__ __forceinline__ void tma_store_2d(unsigned smem, const TensorMap* map, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];"
                 :: "r"(smem), "l"(map), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_read_0() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(32)
copy_kernel(const __grid_constant__ TensorMap load,
            const __grid_constant__ TensorMap store) {
    __shared__ __align__(1024) float smem[2048];  // Sw<3,2,3> o 0 o ((8,8),(32,1)):((32,256),(1,0))
    __shared__ __align__(8) unsigned long long arrived[1];  // 1:0
    const unsigned smem_s = (unsigned)__cvta_generic_to_shared(smem);
    const unsigned arrived_s = (unsigned)__cvta_generic_to_shared(arrived);

    // 14_tma_copy.py:25  gS = mo.tile(load.tensor, (bM, bN), (bx, by))  # (bM, bN), coordinates in the source
    const int bx_times_64 = (int)blockIdx.x * 64;
    const int by_times_32 = (int)blockIdx.y * 32;
    // 14_tma_copy.py:28  if mo.thread_idx().x == 0:
    if ((int)threadIdx.x == 0) {
        // 14_tma_copy.py:29  mo.mbarrier_init(arrived, 0, 1)  # one thread will arrive, below
        mbarrier_init(arrived_s, 1);
        // 14_tma_copy.py:30  mo.fence_mbarrier_init()  # and TMA may know of it
        fence_mbarrier_init();
        // 14_tma_copy.py:31  mo.mbarrier_arrive_expect_tx(arrived, 0, load.bytes)  # it says how many bytes are to come
        mbarrier_arrive_expect_tx(arrived_s, 8192);
        // 14_tma_copy.py:32  mo.copyto(load, smem, gS, barrier=(arrived, 0))  # returns at once
        tma_load_2d(smem_s, &load, by_times_32, bx_times_64, arrived_s);
        // 14_tma_copy.py:33  mo.mbarrier_wait(arrived, 0, 0)  # phase 0 ends with the last byte
        mbarrier_wait(arrived_s, 0);
        // 14_tma_copy.py:34  mo.copyto(store, gD, smem)
        tma_store_2d(smem_s, &store, by_times_32, bx_times_64);
        // 14_tma_copy.py:35  mo.tma_store_arrive()  # the stores so far are a group
        bulk_commit_group();
        // 14_tma_copy.py:36  mo.tma_store_wait(0)  # that has left shared memory before it is freed
        bulk_wait_group_read_0();
    }
}
