// transpose_kernel
//   dst: float32 (dst_0,dst_1):(1,dst_s1), 16-byte aligned
//   src: float32 (src_0,src_1):(1,src_s1), 16-byte aligned
//   smem_layout = (32,32):(1,33)
//   thr_layout = (32,8):(1,32)
//   block (256, 1, 1)
//   4220 bytes of static shared memory

extern "C" __global__ void __launch_bounds__(256)
transpose_kernel(float* __restrict__ dst, const int dst_s1,
                 const float* __restrict__ src, const int src_s1) {
    __shared__ __align__(16) float smem[1055];  // (32,32):(1,33)

    // 02_transpose.py:16  bx, by, _ = mo.block_idx()
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    // 02_transpose.py:17  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 02_transpose.py:24  mo.copyto(mo.parallelize(smem, thr_layout, tid), mo.parallelize(gS, thr_layout, tid))
    const int tx_mod_32 = tx % 32;
    const int tx_div_32 = tx / 32;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        smem[tx_mod_32 + tx_div_32 * 33 + 264 * i] = src[bx * 32 + by * src_s1 * 32 + tx_mod_32 + tx_div_32 * src_s1 + i * src_s1 * 8];
    }
    // 02_transpose.py:25  mo.sync_threads()
    __syncthreads();
    // 02_transpose.py:26  mo.copyto(mo.parallelize(gD, thr_layout, tid), mo.parallelize(smem_T, thr_layout, tid))
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        dst[by * 32 + bx * dst_s1 * 32 + tx_mod_32 + tx_div_32 * dst_s1 + i * dst_s1 * 8] = smem[tx_mod_32 * 33 + tx_div_32 + 8 * i];
    }
}
