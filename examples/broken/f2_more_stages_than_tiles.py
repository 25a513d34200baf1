"""A warp adds up the columns of tiles that come through a ring of four stages. At the start all four are filled.

Here there are only two tiles. Nobody waits for the other copies, and the block may end before they arrive: class F2.

The report:

F2: block (0, 0, 0) fills all 4 stages of sA at line 38, and has 2 k-tiles: nobody waits for full(2) and full(3), and the block ends while copies into the stages are under way
  examples/broken/f2_more_stages_than_tiles.py:38 in column_sums_kernel
    mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, k))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f2_more_stages_than_tiles.py:43 in column_sums_kernel
    mo.mbarrier_wait(full, stage, k // stages % 2)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: fill as many stages as there are k-tiles, if these are fewer
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A, layout):
    stages = mo.size(layout, 2)
    sA = mo.shared_array(A.dtype, layout)               # (32, 32, stages)
    full = mo.mbarrier_array(stages)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx))          # (32, 32, k)
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
        mo.fence_mbarrier_init()
        for k in range(stages):
            mo.mbarrier_arrive_expect_tx(full, k, A.bytes)
            mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, k))
    mo.sync_threads()
    total = mo.float32(0)
    for k in range(tiles):
        stage = k % stages
        mo.mbarrier_wait(full, stage, k // stages % 2)
        for i in range(32):
            total += sA[i, tid, stage]
        mo.sync_threads()
        if tid == 0 and k + stages < tiles:
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k + stages], barrier=(full, stage))
    out[bx, tid] = total


def column_sums(out, A, kernel=column_sums_kernel):
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 32](out, copy, mo.tile_to_shape(atom, (32, 32, 4)))


def main(K=64, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
