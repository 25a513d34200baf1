// listed
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   along = m
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1,
       const int M, const int N, const int L) {
    // test_persistent.py:108  sched = mo.PersistentTileScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 256), L, 8,...
    const int t0 = (M + 127) >> 7;
    const int t1 = (N + 255) >> 8;
    // test_persistent.py:109  for t in range(sched.first, sched.tiles, sched.step):
    const int t2 = t0 * t1;
    for (int t = (int)blockIdx.x; t < t2 * L; t += (int)gridDim.x) {
        // test_persistent.py:110  out[t, 0], out[t, 1], out[t, 2] = sched.coordinates(t)
        const int t3 = (int)((unsigned)t / (unsigned)t2);
        const int t4 = t - t3 * t2;
        const int t5 = t1 * 8;
        const int t6 = (int)((unsigned)t4 / (unsigned)t5);
        const int t7 = t4 - t6 * t5;
        const int t8 = t6 * 8;
        const int t9 = min(t0 - t8, 8);
        const int t10 = (int)((unsigned)t7 / (unsigned)t9);
        out[t] = t8 + t7 - t10 * t9;
        out[t + out_s1] = t10;
        out[t + out_s1 * 2] = t3;
    }
}
