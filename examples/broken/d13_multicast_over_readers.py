"""Two blocks of a cluster load halves of each tile by multicast, for both of them, through one buffer.

Warps tell their own block twice that they have read the tile, and never tell the other block. Its next half may come
too early: class D13.

The report:

D13: sA(0, 0) of block (1, 0, 0) may be overwritten while it is still being read: nothing orders the read by thread 0 of block (1, 0, 0) at line 44 before the copy by thread 0 of block (0, 0, 0) at line 41
  examples/broken/d13_multicast_over_readers.py:41 in row_sums_kernel
    mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0), multicast=0b11)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d13_multicast_over_readers.py:44 in row_sums_kernel
    total += sA[lane, tid // 32 * 16 + i]
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the readers arrive at an mbarrier of the block that copies (cta=), for which its thread waits
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def row_sums_kernel(out, A):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (32, 32)
    full, empty = mo.mbarrier_array(1), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, 0))           # (32, 32, k)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(empty, 0, 4)                   # two warps of each block
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    total, lane = mo.float32(0), tid % 32
    for k in range(mo.size(gA, 2)):
        if tid == 0:
            mo.mbarrier_wait(empty, 0, k % 2 ^ 1)
            mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
            mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0), multicast=0b11)
        mo.mbarrier_wait(full, 0, k % 2)
        for i in range(16):
            total += sA[lane, tid // 32 * 16 + i]
        mo.sync_warp()
        if lane < 2:
            mo.mbarrier_arrive(empty, 0, cta=mo.cluster_rank())
    out[tid, bx] = total
    mo.cluster_sync()


def row_sums(out, A, kernel=row_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    copy = mo.make_tma_copy(mo.TmaLoad(), A, layout, multicast=2)
    return kernel.launch(out, copy, grid=out.shape[1], block=64, cluster=2)


def main(n=128, blocks=2):
    A = np.random.default_rng(0).standard_normal((n, 32), np.float32)
    out = np.full((64, blocks), np.nan, np.float32, order="F")
    report = row_sums(out, A, mo.check(row_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
