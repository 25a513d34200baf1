"""A block of 256 threads that uses a tiled copy of 128.

Threads 128 to 255 have no part of the tile: class A10.

The report:

A10: the tiled copy CopyAtom(UniversalCopy(float32), float32) has 128 threads, but the thread index given to get_slice runs over 256 (a block of (256, 1, 1))
  examples/broken/a10_block_of_other_size.py:25 in copy_kernel
    thr_copy = copy.get_slice(tid)
               ^^^^^^^^^^^^^^^^^^^
hint: launch kernel[grid, 128](...), or take the slice under the condition of its 128 threads, with their index from 0
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(Y, X, copy):
    tid = mo.thread_idx().x
    bx, _, _ = mo.block_idx()
    thr_copy = copy.get_slice(tid)
    tXgX = thr_copy.partition_S(mo.tile(X, copy.tiler, (bx,)))     # (CPY, CPY_M)
    tYgY = thr_copy.partition_D(mo.tile(Y, copy.tiler, (bx,)))     # (CPY, CPY_M)
    mo.copyto(copy, tYgY, tXgX)


def copy_all(Y, X, kernel=copy_kernel):
    atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
    copy = mo.make_tiled_copy(atom, mo.make_layout((128,)), mo.make_layout((4,)))
    return kernel[X.shape[0] // copy.tiler[0], 256](Y, X, copy)


def main(n=1024):
    X = np.arange(n, dtype=np.float32)
    Y = np.full_like(X, np.nan)
    report = copy_all(Y, X, mo.check(copy_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
