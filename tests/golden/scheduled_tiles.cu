// listed
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   along = m
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1,
       const int M, const int N, const int L) {
    // test_persistent.py:111  sched = mo.PersistentTileScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 256), L, 8,...
    const int M_plus_127_div_128 = (M + 127) >> 7;
    const int N_plus_255_div_256 = (N + 255) >> 8;
    // test_persistent.py:112  for t in range(sched.first, sched.tiles, sched.step):
    const int t0 = M_plus_127_div_128 * N_plus_255_div_256;
    for (int t = (int)blockIdx.x; t < t0 * L; t += (int)gridDim.x) {
        // test_persistent.py:113  out[t, 0], out[t, 1], out[t, 2] = sched.coordinates(t)
        const int out_part = (int)((unsigned)t / (unsigned)t0);
        const int out_part_1 = t - out_part * t0;
        const int out_part_2 = N_plus_255_div_256 * 8;
        const int out_part_3 = (int)((unsigned)out_part_1 / (unsigned)out_part_2);
        const int out_part_4 = out_part_1 - out_part_3 * out_part_2;
        const int out_part_3_times_8 = out_part_3 * 8;
        const int out_part_5 = min(M_plus_127_div_128 - out_part_3_times_8, 8);
        const int out_part_6 = (int)((unsigned)out_part_4 / (unsigned)out_part_5);
        out[t] = out_part_3_times_8 + out_part_4 - out_part_6 * out_part_5;
        out[t + out_s1] = out_part_6;
        out[t + out_s1 * 2] = out_part;
    }
}
