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
    const int tiles_m = (M + 127) >> 7;
    const int tiles_n = (N + 127) >> 7;
    const int K_plus_63_div_64 = (K + 63) >> 6;
    const int tiles = tiles_m * tiles_n;
    const unsigned grid_x_1 = (unsigned)grid_x;
    const int last_wave = tiles - (int)((unsigned)tiles / grid_x_1) * grid_x;
    const int split_tiles = last_wave == 0 ? 0 : min(last_wave + grid_x, tiles);
    const int split_k_tiles = split_tiles * K_plus_63_div_64;
    const int share = (int)((unsigned)split_k_tiles / grid_x_1);
    const int longer_shares = split_k_tiles - share * grid_x;
    // test_stream_k.py:164  unit = sched.start()
    const int share_left = share + (bx < longer_shares ? 1 : 0);
    const int share_begin = bx * share + min(bx, longer_shares);
    const int unit_part = (int)((unsigned)share_begin / (unsigned)K_plus_63_div_64);
    const bool share_left_is_0 = share_left == 0;
    // test_stream_k.py:165  while unit.valid:
    int unit_block = bx;
    int unit_tile = share_left_is_0 ? split_tiles + bx : unit_part;
    int unit_k_first = share_left_is_0 ? 0 : share_begin - unit_part * K_plus_63_div_64;
    int unit_left = share_left_is_0 ? K_plus_63_div_64 : share_left;
    while (!(unit_tile >= tiles)) {
        // test_stream_k.py:166  m, n, _ = sched.coordinates(unit.tile)
        const int tiles_of_strip = tiles_n * 8;
        const int strip = (int)((unsigned)unit_tile / (unsigned)tiles_of_strip);
        const int tile_in_strip = unit_tile - strip * tiles_of_strip;
        const int strip_times_8 = strip * 8;
        const int strip_width = min(tiles_m - strip_times_8, 8);
        const int n = (int)((unsigned)tile_in_strip / (unsigned)strip_width);
        // test_stream_k.py:167  first, last = unit.peers
        const int first = unit_block + 1;
        const int unit_tile_plus_1 = unit_tile + 1;
        const int last_k_of_tile = unit_tile_plus_1 * K_plus_63_div_64 - 1;
        const int k_last = min(unit_k_first + unit_left, K_plus_63_div_64);
        const int share_plus_1 = share + 1;
        const int k_in_longer_shares = longer_shares * share_plus_1;
        const int owner = last_k_of_tile < k_in_longer_shares ? (int)((unsigned)last_k_of_tile / (unsigned)share_plus_1) : longer_shares + (int)((unsigned)max(last_k_of_tile - k_in_longer_shares, 0) / (unsigned)max(share, 1));
        // test_stream_k.py:168  out[unit.tile, unit.block, 0] = m + n
        const int out_at = unit_tile + unit_block * out_s1;
        out[out_at] = strip_times_8 + tile_in_strip - n * strip_width + n;
        // test_stream_k.py:169  out[unit.tile, unit.block, 1] = unit.k_last - unit.k_first
        const int out_part = k_last - unit_k_first;
        out[out_at + out_s2] = out_part;
        // test_stream_k.py:170  if unit.finishes:
        if (unit_k_first == 0) {
            // test_stream_k.py:171  out[unit.tile, unit.block, 2] = last - first
            out[out_at + out_s2 * 2] = (k_last == K_plus_63_div_64 ? first : owner + 1) - first;
        }
        // test_stream_k.py:172  unit = unit.next()
        const int left_after = unit_left - out_part;
        const bool share_ends = left_after == 0;
        // test_stream_k.py:165  while unit.valid:
        unit_tile = share_ends ? (unit_tile < split_tiles ? split_tiles + unit_block : unit_tile + grid_x) : unit_tile_plus_1;
        unit_k_first = 0;
        unit_left = share_ends ? K_plus_63_div_64 : left_after;
    }
}
