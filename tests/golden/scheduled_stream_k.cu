// listed
//   out: int32 (out_0,out_1,out_2):(1,out_s1,out_s2), 16-byte aligned
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1, const int out_s2,
       const int M, const int N, const int K) {
    // test_stream_k.py:157  sched = mo.StreamKScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 128), mo.ceil_div(K,...
    const int grid_x = gridDim.x;
    // test_stream_k.py:158  unit = sched.start()
    const int bx = blockIdx.x;
    // test_stream_k.py:157  sched = mo.StreamKScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 128), mo.ceil_div(K,...
    const int t0 = (M + 127) >> 7;
    const int t1 = (N + 127) >> 7;
    const int t2 = (K + 63) >> 6;
    const int t3 = t0 * t1;
    const unsigned grid_x_1 = (unsigned)grid_x;
    const int t4 = t3 - (int)((unsigned)t3 / grid_x_1) * grid_x;
    const int t5 = t4 == 0 ? 0 : min(t4 + grid_x, t3);
    const int t6 = t5 * t2;
    const int t7 = (int)((unsigned)t6 / grid_x_1);
    const int t8 = t6 - t7 * grid_x;
    // test_stream_k.py:158  unit = sched.start()
    const int t9 = t7 + (bx < t8 ? 1 : 0);
    const int t10 = bx * t7 + min(bx, t8);
    const int t11 = (int)((unsigned)t10 / (unsigned)t2);
    const bool t12 = t9 == 0;
    // test_stream_k.py:159  while unit.valid:
    int unit_block = bx;
    int unit_tile = t12 ? t5 + bx : t11;
    int unit_k_first = t12 ? 0 : t10 - t11 * t2;
    int unit_left = t12 ? t2 : t9;
    while (!(unit_tile >= t3)) {
        // test_stream_k.py:160  m, n, _ = sched.coordinates(unit.tile)
        const int t13 = t1 * 8;
        const int t14 = (int)((unsigned)unit_tile / (unsigned)t13);
        const int t15 = unit_tile - t14 * t13;
        const int t16 = t14 * 8;
        const int t17 = min(t0 - t16, 8);
        const int n = (int)((unsigned)t15 / (unsigned)t17);
        // test_stream_k.py:161  first, last = unit.peers
        const int first = unit_block + 1;
        const int t18 = unit_tile + 1;
        const int t19 = t18 * t2 - 1;
        const int t20 = min(unit_k_first + unit_left, t2);
        const int t21 = t7 + 1;
        const int t22 = t8 * t21;
        const int t23 = t19 < t22 ? (int)((unsigned)t19 / (unsigned)t21) : t8 + (int)((unsigned)max(t19 - t22, 0) / (unsigned)max(t7, 1));
        // test_stream_k.py:162  out[unit.tile, unit.block, 0] = m + n
        const int t24 = unit_tile + unit_block * out_s1;
        out[t24] = t16 + t15 - n * t17 + n;
        // test_stream_k.py:163  out[unit.tile, unit.block, 1] = unit.k_last - unit.k_first
        const int t25 = t20 - unit_k_first;
        out[t24 + out_s2] = t25;
        // test_stream_k.py:164  if unit.finishes:
        if (unit_k_first == 0) {
            // test_stream_k.py:165  out[unit.tile, unit.block, 2] = last - first
            out[t24 + out_s2 * 2] = (t20 == t2 ? first : t23 + 1) - first;
        }
        // test_stream_k.py:166  unit = unit.next()
        const int t26 = unit_left - t25;
        const bool t27 = t26 == 0;
        // test_stream_k.py:159  while unit.valid:
        unit_tile = t27 ? (unit_tile < t5 ? t5 + unit_block : unit_tile + grid_x) : t18;
        unit_k_first = 0;
        unit_left = t27 ? t2 : t26;
    }
}
