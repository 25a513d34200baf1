"""p3_uncoalesced.py with neighbouring threads along the rows.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(dst, src, thr_layout):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    tS = mo.parallelize(mo.tile(src, (32, 32), (bx, by)), thr_layout, tid)      # (THR_M, THR_N)
    tD = mo.parallelize(mo.tile(dst, (32, 32), (bx, by)), thr_layout, tid)      # (THR_M, THR_N)
    tR = mo.make_fragment_like(tD)                                              # (THR_M, THR_N)
    mo.copyto(tR, tS)
    tR[...] = tR * 2
    mo.copyto(tD, tR)


def scale(dst, src, kernel=scale_kernel):
    thr_layout = mo.make_layout((32, 8), (8, 1))
    return kernel[(src.shape[0] // 32, src.shape[1] // 32), 256](dst, src, thr_layout)


def main(M=64, N=96):
    src = np.random.default_rng(0).standard_normal((M, N), np.float32)
    report = scale(np.zeros((M, N), np.float32), src, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
