"""One thread loads tiles into a ring of stages, and a warp adds up their columns. The last tile reaches past the array.

The loop that loads goes over whole tiles only. The loop that reads goes over all tiles and waits for ever: class F3.

The report:

F3: block (0, 0, 0) is deadlocked: warp 0 waits for phase 2 of full(0) (line 41), which lacks 1 of 1 arrivals (thread 32 has arrived there at line 50, and has left); warp 1 has come to the end of the kernel
  examples/broken/f3_one_trip_less.py:41 in column_sums_kernel
    mo.mbarrier_wait(full, stage, phase)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f3_one_trip_less.py:50 in column_sums_kernel
    mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let both sides go through equally many phases of each barrier
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A, K, layout):
    stages = mo.size(layout, 2)
    sA = mo.shared_array(A.dtype, layout)               # (32, 32, stages)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx), ragged=True)         # (32, 32, k)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase = 0, 0
    if tid < 32:
        total = mo.float32(0)
        for _ in range(mo.ceil_div(K, 32)):
            mo.mbarrier_wait(full, stage, phase)
            for i in range(32):
                total += sA[i, tid, stage]              # rows past the array are 0
            mo.mbarrier_arrive(empty, stage)
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages
        out[bx, tid] = total
    elif tid == 32:
        for k in range(K // 32):
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages


def column_sums(out, A, kernel=column_sums_kernel):
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    return kernel[A.shape[1] // 32, 64](out, copy, A.shape[0], mo.tile_to_shape(atom, (32, 32, 2)))


def main(K=150, n=64):
    A = np.random.default_rng(0).standard_normal((K, n), np.float32)
    out = np.full((n // 32, 32), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
