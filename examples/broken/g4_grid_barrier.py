"""A barrier of the whole grid: every block adds to a counter and polls until all have come.  If there are more blocks
than the device holds at once, those that run wait for those that cannot start.

g4_grid_barrier_fixed.py launches few enough.

The report:

G4: thread 0 of block (0, 0, 0) polls memory forever: the 44 blocks that have not started wait for it to end; threads 1-1023 wait at sync_threads (line 35) for thread 0
  examples/broken/g4_grid_barrier.py:33 in shift_kernel
    while mo.load(arrived, 0, order="acquire") < blocks:
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/g4_grid_barrier.py:35 in shift_kernel
    mo.sync_threads()
    ^^^^^^^^^^^^^^^^^
hint: launch no more blocks than can be resident together
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def shift_kernel(x, y, z, arrived):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    blocks = mo.grid_dim().x
    y[bx * 1024 + tid] = x[bx * 1024 + tid] + 1
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(arrived, 0, 1, order="release")
        while mo.load(arrived, 0, order="acquire") < blocks:
            pass
    mo.sync_threads()
    z[bx * 1024 + tid] = y[(blocks - 1 - bx) * 1024 + tid]


def shift(x, y, z, arrived, kernel=shift_kernel):
    """``arrived`` starts at zero."""
    return kernel[x.size // 1024, 1024](x, y, z, arrived)


def main():
    blocks = 300                                        # an H100 holds 264 of 1024 threads
    x = np.arange(blocks * 1024, dtype=np.float32)
    report = shift(x, np.empty_like(x), np.empty_like(x), np.zeros(1, np.int32), mo.check(shift_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
