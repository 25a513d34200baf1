"""ldmatrix on a shared tile that is contiguous along M, for operands that must be contiguous along K.

A row of an 8x8 matrix is 16 contiguous bytes along K. Neighbours along K are 24 elements apart in this tile: class A9.

The report:

A9: LdMatrix(4) moves rows of 8 contiguous float16, but a thread's row of sA is 8:24: its layout is (((2,4),1),1,1):(((24,48),0),0,0)
  examples/broken/a9_wrong_major.py:30 in load_kernel
    mo.copyto(copy, thr_copy.retile_D(tCrA), thr_copy.partition_S(sA))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: the tile is contiguous along the other mode: transpose=True (16-bit elements alone)
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def load_kernel(Y: mo.Static, A: mo.Static, sA_layout, copy, mma):
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, sA_layout)            # (16, 16)
    for i in mo.static_range(8):
        sA[tid % 16, tid // 16 + 2 * i] = A[tid % 16, tid // 16 + 2 * i]
    mo.sync_threads()
    thr_copy = copy.get_slice(tid)
    tCrA = mma.make_fragment_A(mma.get_slice(tid).partition_A(sA))  # (MMA, MMA_M, MMA_K)
    mo.copyto(copy, thr_copy.retile_D(tCrA), thr_copy.partition_S(sA))
    mo.copyto(mma.get_slice(tid).partition_A(Y), tCrA)


def load(Y, A, kernel=load_kernel):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
    copy = mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4), mo.float16), mma)
    sA_layout = mo.make_layout((16, 16), (1, 24))
    return kernel[1, 32](Y, A, sA_layout, copy, mma)


def main():
    A = np.arange(256, dtype=np.float16).reshape(16, 16)
    Y = np.zeros_like(A)
    report = load(Y, A, mo.check(load_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
