// copy_kernel
//   dst: float32 (dst_0,dst_1):(1,dst_s1), 16-byte aligned
//   src: float32 (src_0,src_1):(1,src_s1), 16-byte aligned
//   tile_shape = (32, 32)
//   thr_layout = (32,8):(1,32)
//   block (256, 1, 1)

extern "C" __global__ void __launch_bounds__(256)
copy_kernel(float* __restrict__ dst, const int dst_s1,
            const float* __restrict__ src, const int src_s1) {
    // 01_copy.py:14  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 01_copy.py:15  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 01_copy.py:16  gD = mo.tile(dst, tile_shape, (bx, by))  # (bM, bN)
    const int bx_times_32 = (int)blockIdx.x * 32;
    // 01_copy.py:18  tDgD = mo.parallelize(gD, thr_layout, tid)  # (THR_M, THR_N)
    const int tx_mod_32 = tx % 32;
    const int tx_div_32 = tx / 32;
    // 01_copy.py:20  mo.copyto(tDgD, tSgS)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        dst[bx_times_32 + by * dst_s1 * 32 + tx_mod_32 + tx_div_32 * dst_s1 + i * dst_s1 * 8] = src[bx_times_32 + by * src_s1 * 32 + tx_mod_32 + tx_div_32 * src_s1 + i * src_s1 * 8];
    }
}
