"""a9_wrong_major.py with a tile that is contiguous along K.
"""

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
    sA_layout = mo.make_layout((16, 16), (24, 1))
    return kernel[1, 32](Y, A, sA_layout, copy, mma)


def main():
    A = np.arange(256, dtype=np.float16).reshape(16, 16)
    Y = np.zeros_like(A)
    report = load(Y, A, mo.check(load_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
