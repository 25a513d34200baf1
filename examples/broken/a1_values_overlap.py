"""A (thread, value) layout written by hand in which neighbouring threads share an element.

Each of 32 threads copies two elements, but thread t starts at element t, not at 2 t: class A1.

The report:

A1: TiledCopy(CopyAtom(UniversalCopy(float32), float32), tv (32,2):(1,1), tile (64)) writes element (1) of the tile that tYgY is a part of from threads 0 and 1: its (thread, value) layout is not injective
  examples/broken/a1_values_overlap.py:28 in copy_kernel
    mo.copyto(copy, tYgY, tXgX)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: mo.make_tiled_copy of a compact thread layout gives each element to one thread
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
    copy = mo.TiledCopy(atom, mo.make_layout((32, 2), (1, 1)), (64,))
    return kernel[X.shape[0] // copy.tiler[0], 32](Y, X, copy)


def main(n=512):
    X = np.arange(n, dtype=np.float32)
    Y = np.full_like(X, np.nan)
    report = copy_all(Y, X, mo.check(copy_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
