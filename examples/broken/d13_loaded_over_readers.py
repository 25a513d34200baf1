"""Tile after tile comes through one buffer, which two warps read.

Thread 0 requests the next tile as soon as it has read this one itself. Warp 1 may still be reading it: class D13.

The report:

D13: sA(0, 1) of block (0, 0, 0) may be overwritten by the copy at line 39 while it is still being read: nothing orders the read by thread 1 at line 42 before thread 0 issues it
  examples/broken/d13_loaded_over_readers.py:42 in column_sums_kernel
    total += sA[16 * half + i, column]
             ^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d13_loaded_over_readers.py:39 in column_sums_kernel
    mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the readers arrive at an mbarrier that the thread which copies waits for; one lane for its warp after sync_warp()
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (32, 32)
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx))          # (32, 32, k)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    column, half = tid % 32, tid // 32
    total = mo.float32(0)
    for k in range(mo.size(gA, 2)):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
            mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))
        mo.mbarrier_wait(full, 0, k % 2)
        for i in range(16):
            total += sA[16 * half + i, column]
    out[half, 32 * bx + column] = total


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[A.shape[1] // 32, 64](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))


def main(K=128, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((2, n), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
