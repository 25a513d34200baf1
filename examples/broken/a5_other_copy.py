"""The source and the destination of one copy are partitioned by two tiled copies of one tile.

The threads of `copy_A` run along the columns, those of `copy_B` along the rows. The shapes agree, and the tile arrives
permuted: class A5.

The report:

A5: tAgA is partitioned by TiledCopy(CopyAtom(UniversalCopy(float32), float32), tv (256,1):(1,0), tile (16,16)) and tAsA by TiledCopy(CopyAtom(UniversalCopy(float32), float32), tv ((16,16),1):((16,1),0), tile (16,16)): value 0 of thread 1 is element (1,0) of the tile in tAgA and (0,1) in tAsA
  examples/broken/a5_other_copy.py:28 in stage_kernel
    mo.copyto(copy_A, tAsA, tAgA)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: partition both with the tiled copy that copyto names
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def stage_kernel(B, A, copy_A, copy_B):
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.make_layout((32, 32)))
    tAgA = copy_A.get_slice(tid).partition_S(A)         # (CPY, CPY_M, CPY_K)
    tAsA = copy_B.get_slice(tid).partition_D(sA)        # (CPY, CPY_M, CPY_K)
    mo.copyto(copy_A, tAsA, tAgA)
    mo.sync_threads()
    tBsA = copy_B.get_slice(tid).partition_S(sA)        # (CPY, CPY_M, CPY_K)
    tBgB = copy_B.get_slice(tid).partition_D(B)         # (CPY, CPY_M, CPY_K)
    mo.copyto(copy_B, tBgB, tBsA)


def stage(B, A, kernel=stage_kernel):
    atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
    copy_A = mo.make_tiled_copy(atom, mo.make_layout((16, 16), (1, 16)))
    copy_B = mo.make_tiled_copy(atom, mo.make_layout((16, 16), (16, 1)))
    return kernel[1, 256](B, A, copy_A, copy_B)


def main():
    A = np.asfortranarray(np.arange(1024, dtype=np.float32).reshape(32, 32))
    B = np.full((32, 32), np.nan, np.float32)
    report = stage(B, A, mo.check(stage_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
