"""`ldmatrix.x2` takes its addresses from 16 threads, so only those 16 execute it here.  But it is an instruction of the
whole warp: class C6.

The report:

C6: LdMatrix(2) at line 34 is an instruction of a whole warp, but only threads 0-15 of warp 0 of block (0, 0, 0) execute it
  examples/broken/c6_ldmatrix_by_half_a_warp.py:34 in to_registers_kernel
    mo.copyto(read, tXrX, tXsX)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the condition around it be the same for the whole warp
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def to_registers_kernel(x, y, read):
    tid = mo.thread_idx().x
    tile = mo.shared_array(mo.float16, mo.make_layout((8, 16), (16, 1)))
    for j in mo.static_range(4):
        tile[tid // 4, tid % 4 + 4 * j] = x[tid // 4, tid % 4 + 4 * j]
    mo.sync_warp()
    gY = mo.tile(y, (8, 16), (0, 0))
    thr_read = read.get_slice(tid)
    tXsX = thr_read.partition_S(tile)                   # (CPY, CPY_N, CPY_K)
    tYgY = thr_read.partition_D(gY)                     # (CPY, CPY_N, CPY_K)
    tXrX = mo.make_fragment_like(tYgY)
    tXrX.fill(0)
    if mo.lane_idx() < 16:
        mo.copyto(read, tXrX, tXsX)
    mo.copyto(tYgY, tXrX)


def to_registers(x, y, kernel=to_registers_kernel):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
    read = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(2), mo.float16), mma)
    return kernel[1, 32](x, y, read)


def main():
    x, y = np.arange(128, dtype=np.float16).reshape(8, 16), np.zeros((8, 16), np.float16)
    report = to_registers(x, y, mo.check(to_registers_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
