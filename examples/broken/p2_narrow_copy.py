"""A thread copies four neighbouring elements, 4 bytes at a time: class P2.

Copies of 16 bytes would be as right, and would take a quarter of the instructions.

The report:

P2: UniversalCopy(float32) copies 4 bytes at a time from gS to gD, where 16 are possible: a thread's values lie side by side on both sides, at multiples of 16 bytes
  examples/broken/p2_narrow_copy.py:28 in copy_kernel
    mo.copyto(tiled, thr.partition_D(gD), thr.partition_S(gS))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: mo.UniversalCopy(mo.uint128)
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(dst, src, tiled):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    thr = tiled.get_slice(tid)
    gS = mo.tile(src, (128, 8), (bx, by))               # (128, 8)
    gD = mo.tile(dst, (128, 8), (bx, by))               # (128, 8)
    mo.copyto(tiled, thr.partition_D(gD), thr.partition_S(gS))


def copy(dst, src, kernel=copy_kernel):
    atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
    tiled = mo.make_tiled_copy(atom, mo.make_layout((32, 8)), mo.make_layout((4, 1)))
    return kernel[(src.shape[0] // 128, src.shape[1] // 8), 256](dst, src, tiled)


def main(M=256, N=16):
    src = np.asfortranarray(np.random.default_rng(0).standard_normal((M, N), np.float32))
    report = copy(np.zeros((M, N), np.float32, order="F"), src, mo.check(copy_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
