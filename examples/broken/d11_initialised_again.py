"""Tiles come through two stages, each with an mbarrier. The next tile is loaded while the threads wait for this one.

The loading thread initialises the mbarrier of this tile for the tile after the next, while it is in use: class D11.

The report:

D11: full(0) of block (0, 0, 0) is initialised again at line 37 while its phase 0 is under way: 4096 bytes are missing
  examples/broken/d11_initialised_again.py:37 in column_sums_kernel
    mo.mbarrier_init(full, k % 2, 1)            # for tile k + 2
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: initialise it once, before the loop, and wait for the parity of each phase in turn
"""

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A, layout):
    sA, full = mo.shared_array(A.dtype, layout), mo.mbarrier_array(2)       # (32, 32, 2)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx))          # (32, 32, k)
    tiles = mo.size(gA, 2)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(full, 1, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
        mo.copyto(A, sA[:, :, 0], gA[:, :, 0], barrier=(full, 0))
    mo.sync_threads()
    total = mo.float32(0)
    for k in range(tiles):
        if tid == 0 and k + 1 < tiles:
            mo.mbarrier_arrive_expect_tx(full, (k + 1) % 2, A.bytes)
            mo.copyto(A, sA[:, :, (k + 1) % 2], gA[:, :, k + 1], barrier=(full, (k + 1) % 2))
            mo.mbarrier_init(full, k % 2, 1)            # for tile k + 2
        mo.mbarrier_wait(full, k % 2, k // 2 % 2)
        for i in range(32):
            total += sA[i, tid, k % 2]
        mo.sync_threads()
    out[bx, tid] = total


def column_sums(out, A, kernel=column_sums_kernel):
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 32](out, copy, mo.tile_to_shape(atom, (32, 32, 2)))


def main(K=192, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
