"""Row-major matrices, copied by threads that run along their columns: class P3.

Neighbouring threads touch elements a row apart. Each takes a sector of 32 bytes for its 4 bytes.

The report:

P3: src is read with 32 sectors of 32 bytes a request, where 4 hold what is asked for; neighbouring threads are 384 bytes apart
  examples/broken/p3_uncoalesced.py:34 in scale_kernel
    mo.copyto(tR, tS)
    ^^^^^^^^^^^^^^^^^
hint: src is contiguous along mode 1: let neighbouring threads run along it

P3: dst is written with 32 sectors of 32 bytes a request, where 4 hold what is asked for; neighbouring threads are 384 bytes apart
  examples/broken/p3_uncoalesced.py:36 in scale_kernel
    mo.copyto(tD, tR)
    ^^^^^^^^^^^^^^^^^
hint: dst is contiguous along mode 1: let neighbouring threads run along it
"""

# ruff: noqa: E501

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
    thr_layout = mo.make_layout((32, 8), (1, 32))
    return kernel[(src.shape[0] // 32, src.shape[1] // 32), 256](dst, src, thr_layout)


def main(M=64, N=96):
    src = np.random.default_rng(0).standard_normal((M, N), np.float32)
    report = scale(np.zeros((M, N), np.float32), src, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
