"""A tile of 32 rows comes by TMA, and 32 threads each add up a column.

Only the thread that issued the copy waits for the mbarrier. The others may read the tile before it arrives: class D6.

The report:

D6: sA(0, 1) of block (0, 0, 0) is read by thread 1 at line 39 without a wait for phase 0 of full(0), which the copy at line 35 completes
  examples/broken/d6_tile_read_before_wait.py:35 in column_sums_kernel
    mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (bx, 0)), barrier=(full, 0))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d6_tile_read_before_wait.py:39 in column_sums_kernel
    total += sA[i, tid]
             ^^^^^^^^^^
hint: mbarrier_wait(barrier, stage, phase) before the tile is read
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (32, 32)
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (bx, 0)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
    total = mo.float32(0)
    for i in range(32):
        total += sA[i, tid]
    out[bx, tid] = total


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[A.shape[0] // 32, 32](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))


def main(n=64):
    A = np.random.default_rng(0).standard_normal((n, 32), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
