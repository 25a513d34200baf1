"""p1_bank_conflicts.py with columns padded by one element, so that a row meets every bank once.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(dst, src, smem_layout, thr_layout):
    bM, bN = mo.size(smem_layout, 0), mo.size(smem_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    smem = mo.shared_array(src.dtype, smem_layout)              # (bM, bN)
    smem_T = smem.with_layout(mo.select(smem_layout, 1, 0))     # (bN, bM), the same memory
    gS = mo.tile(src, (bM, bN), (bx, by))                       # (bM, bN)
    gD = mo.tile(dst, (bN, bM), (by, bx))                       # (bN, bM)
    mo.copyto(mo.parallelize(smem, thr_layout, tid), mo.parallelize(gS, thr_layout, tid))
    mo.sync_threads()
    mo.copyto(mo.parallelize(gD, thr_layout, tid), mo.parallelize(smem_T, thr_layout, tid))


def transpose(dst, src, kernel=transpose_kernel):
    smem_layout = mo.make_layout((32, 32), (1, 33))
    thr_layout = mo.make_layout((32, 8))
    grid = (mo.ceil_div(src.shape[0], 32), mo.ceil_div(src.shape[1], 32))
    return kernel[grid, mo.size(thr_layout)](dst, src, smem_layout, thr_layout)


def main(M=64, N=96):
    src = np.asfortranarray(np.random.default_rng(0).standard_normal((M, N), np.float32))
    report = transpose(np.zeros((N, M), np.float32, order="F"), src, mo.check(transpose_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
