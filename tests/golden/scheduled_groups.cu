// listed
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   offsets: int32 (offsets_0):(1), 16-byte aligned
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1,
       const int* __restrict__ offsets, const int offsets_0,
       const int N) {
    // test_grouped.py:83  work = sched.start()
    const int bx = blockIdx.x;
    // test_grouped.py:88  work = work.next()
    const int grid_x = gridDim.x;
    // test_grouped.py:82  sched = mo.GroupedTileScheduler(offsets, 128, mo.ceil_div(N, 128))
    const int t0 = (N + 127) >> 7;
    const int t1 = offsets_0 - 1;
    // test_grouped.py:83  work = sched.start()
    const int t2 = offsets[0];
    const int t3 = offsets[min(t1, 1)];
    int begin = t2;
    int end = t3;
    int first = 0;
    int group = 0;
    int tiles = ((t3 - t2 + 127) >> 7) * t0;
    while ((group < t1 && bx >= first + tiles)) {
        const int end_1 = offsets[min(group + 2, t1)];
        begin = end;
        const int t4 = ((end_1 - end + 127) >> 7) * t0;
        end = end_1;
        first += tiles;
        group += 1;
        tiles = t4;
    }
    // test_grouped.py:84  while work.valid:
    int work_tile = bx;
    int work_group = group;
    int work_first = first;
    int work_begin = begin;
    int work_end = end;
    while (!(work_group >= t1)) {
        // test_grouped.py:85  group, m, n, row, rows = work.coordinates()
        const int t5 = (work_end - work_begin + 127) >> 7;
        const int t6 = work_tile - work_first;
        const int t7 = t0 * 8;
        const int t8 = (int)((unsigned)t6 / (unsigned)t7);
        const int t9 = t6 - t8 * t7;
        const int t10 = t8 * 8;
        const int t11 = min(t5 - t10, 8);
        const int n = (int)((unsigned)t9 / (unsigned)t11);
        const int m = t10 + t9 - n * t11;
        const int row = work_begin + m * 128;
        // test_grouped.py:86  out[work.tile, 0], out[work.tile, 1], out[work.tile, 2] = group, m, n
        out[work_tile] = work_group;
        out[work_tile + out_s1] = m;
        out[work_tile + out_s1 * 2] = n;
        // test_grouped.py:87  out[work.tile, 3], out[work.tile, 4] = row, rows
        out[work_tile + out_s1 * 3] = row;
        out[work_tile + out_s1 * 4] = work_end - row;
        // test_grouped.py:88  work = work.next()
        const int t12 = work_tile + grid_x;
        int begin_1 = work_begin;
        int end_1 = work_end;
        int first_1 = work_first;
        int group_1 = work_group;
        int tiles_1 = t5 * t0;
        while ((group_1 < t1 && t12 >= first_1 + tiles_1)) {
            const int end_2 = offsets[min(group_1 + 2, t1)];
            begin_1 = end_1;
            const int t13 = ((end_2 - end_1 + 127) >> 7) * t0;
            end_1 = end_2;
            first_1 += tiles_1;
            group_1 += 1;
            tiles_1 = t13;
        }
        // test_grouped.py:84  while work.valid:
        work_tile = t12;
        work_group = group_1;
        work_first = first_1;
        work_begin = begin_1;
        work_end = end_1;
    }
}
