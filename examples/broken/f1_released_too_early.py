"""One thread loads tiles into a ring of stages. A warp adds up their columns and gives the stages back.

It gives a stage back as soon as the tile is there, and reads it only then. The next tile may come first: class F1.

The report:

F1: sA(0, 0, 0) of block (0, 0, 0) is read by thread 0 at line 47 after it has released the stage at line 45, at empty(0), for which thread 32 waits before it fills the stage again at line 54
  examples/broken/f1_released_too_early.py:45 in column_sums_kernel
    mo.mbarrier_arrive(empty, stage)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f1_released_too_early.py:47 in column_sums_kernel
    total += sA[i, tid, stage]
             ^^^^^^^^^^^^^^^^^
  examples/broken/f1_released_too_early.py:54 in column_sums_kernel
    mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: arrive at the barrier after the last read of the stage
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A, layout):
    stages = mo.size(layout, 2)
    sA = mo.shared_array(A.dtype, layout)               # (32, 32, stages)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx))          # (32, 32, k)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase = 0, 0
    if tid < 32:
        total = mo.float32(0)
        for _ in range(mo.size(gA, 2)):
            mo.mbarrier_wait(full, stage, phase)
            mo.mbarrier_arrive(empty, stage)
            for i in range(32):
                total += sA[i, tid, stage]
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages
        out[bx, tid] = total
    elif tid == 32:
        for k in range(mo.size(gA, 2)):
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages


def column_sums(out, A, kernel=column_sums_kernel):
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 64](out, copy, mo.tile_to_shape(atom, (32, 32, 2)))


def main(K=192, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
