"""One thread loads tiles into a ring of stages. Two warps add up half a column each and give a stage back together.

The barrier between the two is that of the whole block, and the thread that loads never reaches it: class F7.

The report:

F7: block (0, 0, 0) is deadlocked: thread 64 waits for phase 0 of empty(0) (line 55), which lacks 1 of 1 arrivals; warps 0-1 wait at sync_threads (line 48), which is inside of one role (the branch at line 41), for thread 64; threads 65-95 have come to the end of the kernel
  examples/broken/f7_barrier_of_the_block_in_a_role.py:55 in column_sums_kernel
    mo.mbarrier_wait(empty, stage, phase ^ 1)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f7_barrier_of_the_block_in_a_role.py:48 in column_sums_kernel
    mo.sync_threads()                           # both halves are read
    ^^^^^^^^^^^^^^^^^
  examples/broken/f7_barrier_of_the_block_in_a_role.py:41 in column_sums_kernel
    if tid < 64:
       ^^^^^^^^
hint: barrier_sync(id, count) among the threads of the role
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
            mo.mbarrier_init(empty, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase = 0, 0
    if tid < 64:
        column, half = tid % 32, tid // 32
        total = mo.float32(0)
        for _ in range(mo.size(gA, 2)):
            mo.mbarrier_wait(full, stage, phase)
            for i in range(16):
                total += sA[16 * half + i, column, stage]
            mo.sync_threads()                           # both halves are read
            if tid == 0:
                mo.mbarrier_arrive(empty, stage)
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages
        out[half, 32 * bx + column] = total
    elif tid == 64:
        for k in range(mo.size(gA, 2)):
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages


def column_sums(out, A, kernel=column_sums_kernel):
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 96](out, copy, mo.tile_to_shape(atom, (32, 32, 2)))


def main(K=192, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((2, n), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
