// listed
//   out: int32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   offsets: int32 (offsets_0):(1), 16-byte aligned
//   block (32, 1, 1)

extern "C" __global__ void __launch_bounds__(32)
listed(int* __restrict__ out, const int out_s1,
       const int* __restrict__ offsets, const int offsets_0,
       const int N) {
    // test_grouped.py:85  work = sched.start()
    const int bx = blockIdx.x;
    // test_grouped.py:90  work = work.next()
    const int grid_x = gridDim.x;
    // test_grouped.py:84  sched = mo.GroupedTileScheduler(offsets, 128, mo.ceil_div(N, 128))
    const int tiles_n = (N + 127) >> 7;
    const int sched_part = offsets_0 - 1;
    // test_grouped.py:85  work = sched.start()
    const int work_part = offsets[0];
    const int work_part_1 = offsets[min(sched_part, 1)];
    int begin = work_part;
    int end = work_part_1;
    int first = 0;
    int group = 0;
    int tiles = ((work_part_1 - work_part + 127) >> 7) * tiles_n;
    // test_grouped.py:85  work = sched.start()
    while (true) {
        const bool group_below_sched_part = group < sched_part;
        if (!(group_below_sched_part && bx >= first + tiles)) {
            break;
        }
        const int end_1 = offsets[min(group + 2, sched_part)];
        const int end_2 = offsets[min(group + 3, sched_part)];
        const int end_3 = offsets[min(group + 4, sched_part)];
        const int end_4 = offsets[min(group + 5, sched_part)];
        if (group_below_sched_part && bx >= first + tiles) {
            begin = end;
            const int tiles_next = ((end_1 - end + 127) >> 7) * tiles_n;
            end = end_1;
            first += tiles;
            group += 1;
            tiles = tiles_next;
        }
        if (group < sched_part && bx >= first + tiles) {
            begin = end;
            const int tiles_next = ((end_2 - end + 127) >> 7) * tiles_n;
            end = end_2;
            first += tiles;
            group += 1;
            tiles = tiles_next;
        }
        if (group < sched_part && bx >= first + tiles) {
            begin = end;
            const int tiles_next = ((end_3 - end + 127) >> 7) * tiles_n;
            end = end_3;
            first += tiles;
            group += 1;
            tiles = tiles_next;
        }
        if (group < sched_part && bx >= first + tiles) {
            begin = end;
            const int tiles_next = ((end_4 - end + 127) >> 7) * tiles_n;
            end = end_4;
            first += tiles;
            group += 1;
            tiles = tiles_next;
        }
    }
    // test_grouped.py:86  while work.valid:
    int work_tile = bx;
    int work_group = group;
    int work_first = first;
    int work_begin = begin;
    int work_end = end;
    while (!(work_group >= sched_part)) {
        // test_grouped.py:87  group, m, n, row, rows = work.coordinates()
        const int tiles_m_of_group = (work_end - work_begin + 127) >> 7;
        const int tile_in_group = work_tile - work_first;
        const int tiles_of_strip = tiles_n * 8;
        const int strip = (int)((unsigned)tile_in_group / (unsigned)tiles_of_strip);
        const int tile_in_strip = tile_in_group - strip * tiles_of_strip;
        const int strip_times_8 = strip * 8;
        const int strip_width = min(tiles_m_of_group - strip_times_8, 8);
        const int n = (int)((unsigned)tile_in_strip / (unsigned)strip_width);
        const int m = strip_times_8 + tile_in_strip - n * strip_width;
        const int row = work_begin + m * 128;
        // test_grouped.py:88  out[work.tile, 0], out[work.tile, 1], out[work.tile, 2] = group, m, n
        out[work_tile] = work_group;
        out[work_tile + out_s1] = m;
        out[work_tile + out_s1 * 2] = n;
        // test_grouped.py:89  out[work.tile, 3], out[work.tile, 4] = row, rows
        out[work_tile + out_s1 * 3] = row;
        out[work_tile + out_s1 * 4] = work_end - row;
        // test_grouped.py:90  work = work.next()
        const int work_tile_plus_grid_x = work_tile + grid_x;
        int begin_1 = work_begin;
        int end_1 = work_end;
        int first_1 = work_first;
        int group_1 = work_group;
        int tiles_1 = tiles_m_of_group * tiles_n;
        // test_grouped.py:90  work = work.next()
        while (true) {
            const bool group_1_below_sched_part = group_1 < sched_part;
            if (!(group_1_below_sched_part && work_tile_plus_grid_x >= first_1 + tiles_1)) {
                break;
            }
            const int end_2 = offsets[min(group_1 + 2, sched_part)];
            const int end_3 = offsets[min(group_1 + 3, sched_part)];
            const int end_4 = offsets[min(group_1 + 4, sched_part)];
            const int end_5 = offsets[min(group_1 + 5, sched_part)];
            if (group_1_below_sched_part && work_tile_plus_grid_x >= first_1 + tiles_1) {
                begin_1 = end_1;
                const int tiles_1_next = ((end_2 - end_1 + 127) >> 7) * tiles_n;
                end_1 = end_2;
                first_1 += tiles_1;
                group_1 += 1;
                tiles_1 = tiles_1_next;
            }
            if (group_1 < sched_part && work_tile_plus_grid_x >= first_1 + tiles_1) {
                begin_1 = end_1;
                const int tiles_1_next = ((end_3 - end_1 + 127) >> 7) * tiles_n;
                end_1 = end_3;
                first_1 += tiles_1;
                group_1 += 1;
                tiles_1 = tiles_1_next;
            }
            if (group_1 < sched_part && work_tile_plus_grid_x >= first_1 + tiles_1) {
                begin_1 = end_1;
                const int tiles_1_next = ((end_4 - end_1 + 127) >> 7) * tiles_n;
                end_1 = end_4;
                first_1 += tiles_1;
                group_1 += 1;
                tiles_1 = tiles_1_next;
            }
            if (group_1 < sched_part && work_tile_plus_grid_x >= first_1 + tiles_1) {
                begin_1 = end_1;
                const int tiles_1_next = ((end_5 - end_1 + 127) >> 7) * tiles_n;
                end_1 = end_5;
                first_1 += tiles_1;
                group_1 += 1;
                tiles_1 = tiles_1_next;
            }
        }
        // test_grouped.py:86  while work.valid:
        work_tile = work_tile_plus_grid_x;
        work_group = group_1;
        work_first = first_1;
        work_begin = begin_1;
        work_end = end_1;
    }
}
