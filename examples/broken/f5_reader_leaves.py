"""One thread loads tiles into a ring of stages. A warp adds up the columns of the first few of them.

The warp leaves when it has enough. The thread that loads waits for ever for a stage to be given back: class F5.

The report:

F5: block (0, 0, 0) is deadlocked: thread 32 waits for phase 1 of empty(0) (line 49), which lacks 32 of 32 arrivals (warp 0 has arrived there at line 44, and has left); threads 0-31 and 33-63 have come to the end of the kernel
  examples/broken/f5_reader_leaves.py:49 in column_sums_kernel
    mo.mbarrier_wait(empty, stage, phase ^ 1)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f5_reader_leaves.py:44 in column_sums_kernel
    mo.mbarrier_arrive(empty, stage)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the readers release every stage that is filled for them, or tell the one who fills them to stop
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A, layout, most):
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
        for _ in range(mo.min(mo.size(gA, 2), most)):
            mo.mbarrier_wait(full, stage, phase)
            for i in range(32):
                total += sA[i, tid, stage]
            mo.mbarrier_arrive(empty, stage)
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages
        out[bx, tid] = total
    elif tid == 32:
        for k in range(mo.size(gA, 2)):
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages


def column_sums(out, A, most, kernel=column_sums_kernel):
    """Of the first ``most`` tiles."""
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 64](out, copy, mo.tile_to_shape(atom, (32, 32, 2)), most)


def main(K=192, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, 2, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
