"""Tile after tile comes through one buffer. Every thread keeps the parity of the phase that it waits for.

The parity is flipped only by thread 0, where it loads. The others wait for a phase that is over: class D8.

The report:

D8: sA(0, 1) of block (0, 0, 0) is read by thread 1 at line 45, but the copy at line 41 completes phase 0 of full(0), and the wait at line 43 passes because no phase before the first is under way
  examples/broken/d8_parity_of_one_thread.py:41 in column_sums_kernel
    mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d8_parity_of_one_thread.py:43 in column_sums_kernel
    mo.mbarrier_wait(full, 0, phase)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d8_parity_of_one_thread.py:45 in column_sums_kernel
    total += sA[i, tid]
             ^^^^^^^^^^
hint: flip the parity each time the ring of stages wraps around
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
    total, phase = mo.float32(0), 1
    for k in range(mo.size(gA, 2)):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
            mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))
            phase = phase ^ 1
        mo.mbarrier_wait(full, 0, phase)
        for i in range(32):
            total += sA[i, tid]
        mo.sync_threads()
    out[bx, tid] = total


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[A.shape[1] // 32, 32](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))


def main(K=128, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
