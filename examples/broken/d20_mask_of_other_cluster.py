"""Two blocks of a cluster each load half of one tile by multicast, for both of them.

The mask is meant for a column of blocks in a cluster of 2 x 2. This cluster has no block 2: class D20.

The report:

D20: copyto: the mask 0b101 names block 2 of a cluster of (2, 1, 1)
  examples/broken/d20_mask_of_other_cluster.py:30 in column_sums_kernel
    mo.copyto(A, sA, tile, barrier=(full, 0), multicast=0b101)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (32, 64)
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
    mo.cluster_sync()
    if tid == 0:
        tile = mo.tile(A.tensor, A.tile, (bx // 2, 0))  # (32, 64)
        mo.copyto(A, sA, tile, barrier=(full, 0), multicast=0b101)
    mo.mbarrier_wait(full, 0, 0)
    total = mo.float32(0)
    for i in range(16):
        total += sA[2 * i + mo.cluster_rank(), tid]     # each block has every second row
    out[tid, bx] = total
    mo.cluster_sync()


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))
    copy = mo.make_tma_copy(mo.TmaLoad(), A, layout, multicast=2)
    return kernel.launch(out, copy, grid=A.shape[0] // 16, block=64, cluster=2)


def main(n=64):
    A = np.random.default_rng(0).standard_normal((n, 64), np.float32)
    out = np.full((64, n // 16), np.nan, np.float32, order="F")
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
