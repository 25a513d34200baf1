// staged_copy_kernel
//   dst: float32 (dst_0,dst_1):(1,dst_s1), 16-byte aligned
//   src: float32 (src_0,src_1):(1,src_s1), 16-byte aligned
//   smem_layout = (32,32):(1,33)
//   thr_layout = (32,8):(1,32)
//   block (256, 1, 1)
//   4220 bytes of static shared memory

extern "C" __global__ void __launch_bounds__(256)
staged_copy_kernel(float* __restrict__ dst, const int dst_s1,
                   const float* __restrict__ src, const int src_s1) {
    __shared__ __align__(16) float smem[1055];  // (32,32):(1,33)

    // 01_copy.py:26  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 01_copy.py:27  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 01_copy.py:29  gD = mo.tile(dst, tile_shape, (bx, by))  # (bM, bN)
    const int bx_times_32 = (int)blockIdx.x * 32;
    // 01_copy.py:31  tDgD = mo.parallelize(gD, thr_layout, tid)  # (THR_M, THR_N)
    const int tx_mod_32 = tx % 32;
    const int tx_div_32 = tx / 32;
    // 01_copy.py:33  tSsS = mo.parallelize(smem, thr_layout, tid)  # (THR_M, THR_N)
    const int tSsS_at = tx_mod_32 + tx_div_32 * 33;
    // 01_copy.py:35  mo.copyto(tSsS, tSgS)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        smem[tSsS_at + 264 * i] = src[bx_times_32 + by * src_s1 * 32 + tx_mod_32 + tx_div_32 * src_s1 + i * src_s1 * 8];
    }
    // 01_copy.py:36  mo.copyto(tDgD, tSsS)
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        dst[bx_times_32 + by * dst_s1 * 32 + tx_mod_32 + tx_div_32 * dst_s1 + i * dst_s1 * 8] = smem[tSsS_at + 264 * i];
    }
}
