"""a2_part_uncopied.py with four values for each thread: the whole tile.
"""

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
    copy = mo.TiledCopy(atom, mo.make_layout((32, 4), (1, 32)), (128,))
    return kernel[X.shape[0] // copy.tiler[0], 32](Y, X, copy)


def main(n=512):
    X = np.arange(n, dtype=np.float32)
    Y = np.full_like(X, np.nan)
    report = copy_all(Y, X, mo.check(copy_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
