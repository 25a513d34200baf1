// listed
//   out: int32 (out_0,out_1,out_2):(1,out_s1,out_s2), 16-byte aligned
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1, const int out_s2,
       const int M, const int N, const int K) {
    // test_stream_k.py:163  sched = mo.StreamKScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 128), mo.ceil_div(K,...
    const int grid_x = gridDim.x;
    // test_stream_k.py:164  unit = sched.start()
    const int bx = blockIdx.x;
    // test_stream_k.py:163  sched = mo.StreamKScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 128), mo.ceil_div(K,...
    const int M_plus_127_div_128 = (M + 127) >> 7;
    const int N_plus_127_div_128 = (N + 127) >> 7;
    const int K_plus_63_div_64 = (K + 63) >> 6;
    const int sched_part = M_plus_127_div_128 * N_plus_127_div_128;
    const unsigned grid_x_1 = (unsigned)grid_x;
    const int sched_part_1 = sched_part - (int)((unsigned)sched_part / grid_x_1) * grid_x;
    const int sched_part_2 = sched_part_1 == 0 ? 0 : min(sched_part_1 + grid_x, sched_part);
    const int sched_part_3 = sched_part_2 * K_plus_63_div_64;
    const int sched_part_4 = (int)((unsigned)sched_part_3 / grid_x_1);
    const int sched_part_5 = sched_part_3 - sched_part_4 * grid_x;
    // test_stream_k.py:164  unit = sched.start()
    const int unit_part = sched_part_4 + (bx < sched_part_5 ? 1 : 0);
    const int unit_part_1 = bx * sched_part_4 + min(bx, sched_part_5);
    const int unit_part_2 = (int)((unsigned)unit_part_1 / (unsigned)K_plus_63_div_64);
    const bool unit_part_is_0 = unit_part == 0;
    // test_stream_k.py:165  while unit.valid:
    int unit_block = bx;
    int unit_tile = unit_part_is_0 ? sched_part_2 + bx : unit_part_2;
    int unit_k_first = unit_part_is_0 ? 0 : unit_part_1 - unit_part_2 * K_plus_63_div_64;
    int unit_left = unit_part_is_0 ? K_plus_63_div_64 : unit_part;
    while (!(unit_tile >= sched_part)) {
        // test_stream_k.py:166  m, n, _ = sched.coordinates(unit.tile)
        const int t0 = N_plus_127_div_128 * 8;
        const int t1 = (int)((unsigned)unit_tile / (unsigned)t0);
        const int t2 = unit_tile - t1 * t0;
        const int t1_times_8 = t1 * 8;
        const int t3 = min(M_plus_127_div_128 - t1_times_8, 8);
        const int n = (int)((unsigned)t2 / (unsigned)t3);
        // test_stream_k.py:167  first, last = unit.peers
        const int first = unit_block + 1;
        const int unit_tile_plus_1 = unit_tile + 1;
        const int t4 = unit_tile_plus_1 * K_plus_63_div_64 - 1;
        const int t5 = min(unit_k_first + unit_left, K_plus_63_div_64);
        const int sched_part_4_plus_1 = sched_part_4 + 1;
        const int t6 = sched_part_5 * sched_part_4_plus_1;
        const int t7 = t4 < t6 ? (int)((unsigned)t4 / (unsigned)sched_part_4_plus_1) : sched_part_5 + (int)((unsigned)max(t4 - t6, 0) / (unsigned)max(sched_part_4, 1));
        // test_stream_k.py:168  out[unit.tile, unit.block, 0] = m + n
        const int out_at = unit_tile + unit_block * out_s1;
        out[out_at] = t1_times_8 + t2 - n * t3 + n;
        // test_stream_k.py:169  out[unit.tile, unit.block, 1] = unit.k_last - unit.k_first
        const int t5_minus_unit_k_first = t5 - unit_k_first;
        out[out_at + out_s2] = t5_minus_unit_k_first;
        // test_stream_k.py:170  if unit.finishes:
        if (unit_k_first == 0) {
            // test_stream_k.py:171  out[unit.tile, unit.block, 2] = last - first
            out[out_at + out_s2 * 2] = (t5 == K_plus_63_div_64 ? first : t7 + 1) - first;
        }
        // test_stream_k.py:172  unit = unit.next()
        const int unit_part_3 = unit_left - t5_minus_unit_k_first;
        const bool unit_part_3_is_0 = unit_part_3 == 0;
        // test_stream_k.py:165  while unit.valid:
        unit_tile = unit_part_3_is_0 ? (unit_tile < sched_part_2 ? sched_part_2 + unit_block : unit_tile + grid_x) : unit_tile_plus_1;
        unit_k_first = 0;
        unit_left = unit_part_3_is_0 ? K_plus_63_div_64 : unit_part_3;
    }
}
