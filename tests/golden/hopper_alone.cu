// alone_kernel
//   elected: int32 (elected_0):(1), 16-byte aligned
//   out: int32 (out_0):(1), 16-byte aligned
//   block (64, 1, 1)

__device__ __forceinline__ void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ bool elect() {
    unsigned elected;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(elected) :: "memory");
    return elected != 0;
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_read_1() {
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait_group_0() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(64) alone_kernel(int* elected, int* out) {
    // ops_kernels_hopper.py:93  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // ops_kernels_hopper.py:94  mo.griddepcontrol_wait()
    griddepcontrol_wait();
    // ops_kernels_hopper.py:95  elected[tid] = mo.popcount(mo.ballot(mo.elect()))
    elected[tx] = __popc(__ballot_sync(0xffffffffu, elect()));
    // ops_kernels_hopper.py:96  mo.fence_proxy_async()
    fence_proxy_async();
    // ops_kernels_hopper.py:97  if tid < 32 and mo.elect():
    const bool tx_below_32 = tx < 32;
    bool cond = tx_below_32;
    if (tx_below_32) {
        cond = elect();
    }
    if (cond) {
        // ops_kernels_hopper.py:98  mo.tma_store_arrive()
        bulk_commit_group();
        // ops_kernels_hopper.py:99  mo.tma_store_wait(1)
        bulk_wait_group_read_1();
        // ops_kernels_hopper.py:100  mo.tma_store_arrive()
        bulk_commit_group();
        // ops_kernels_hopper.py:101  mo.tma_store_wait(0, read=False)
        bulk_wait_group_0();
        // ops_kernels_hopper.py:102  out[0] = 7
        out[0] = 7;
    }
    // ops_kernels_hopper.py:103  mo.griddepcontrol_launch_dependents()
    griddepcontrol_launch_dependents();
}
