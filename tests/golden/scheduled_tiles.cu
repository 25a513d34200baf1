// listed
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   along = m
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1,
       const int M, const int N, const int L) {
    // test_persistent.py:111  sched = mo.PersistentTileScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 256), L, 8,...
    const int tiles_m = (M + 127) >> 7;
    const int tiles_n = (N + 255) >> 8;
    // test_persistent.py:112  for t in range(sched.first, sched.tiles, sched.step):
    const int tiles_of_batch = tiles_m * tiles_n;
    for (int t = (int)blockIdx.x; t < tiles_of_batch * L; t += (int)gridDim.x) {
        // test_persistent.py:113  out[t, 0], out[t, 1], out[t, 2] = sched.coordinates(t)
        const int out_part = (int)((unsigned)t / (unsigned)tiles_of_batch);
        const int tile_in_batch = t - out_part * tiles_of_batch;
        const int tiles_of_strip = tiles_n * 8;
        const int strip = (int)((unsigned)tile_in_batch / (unsigned)tiles_of_strip);
        const int tile_in_strip = tile_in_batch - strip * tiles_of_strip;
        const int strip_times_8 = strip * 8;
        const int strip_width = min(tiles_m - strip_times_8, 8);
        const int out_part_1 = (int)((unsigned)tile_in_strip / (unsigned)strip_width);
        out[t] = strip_times_8 + tile_in_strip - out_part_1 * strip_width;
        out[t + out_s1] = out_part_1;
        out[t + out_s1 * 2] = out_part;
    }
}
