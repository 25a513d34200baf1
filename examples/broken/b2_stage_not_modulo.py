"""Two stages of shared memory are used in turn. Their index is counted on and is not taken modulo 2.

The third tile lands behind `staged`, in another array of the block: class B2, though inside its shared memory.

The report:

B2: thread 0 of block (0, 0, 0) writes staged(0, 2) at line 36, outside of staged with layout (128,2):(1,128): stage 2 of 2 stages, in mode 1
  examples/broken/b2_stage_not_modulo.py:36 in sum_of_tiles_kernel
    staged[tid, stage] = gX[tid, k]
    ^^^^^^^^^^^^^^^^^^
hint: take the stage modulo 2

B2: thread 0 of block (0, 0, 0) reads staged(127, 2) at line 38, outside of staged with layout (128,2):(1,128): stage 2 of 2 stages, in mode 1
  examples/broken/b2_stage_not_modulo.py:38 in sum_of_tiles_kernel
    totals[tid] = totals[tid] + staged[127 - tid, stage]
                                ^^^^^^^^^^^^^^^^^^^^^^^^
hint: take the stage modulo 2
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_of_tiles_kernel(x, y):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, (128, 2))      # (tile, stage)
    totals = mo.shared_array(mo.float32, 128)
    gX = mo.tile(x, (128,), (None,))                    # (tile, tiles)
    totals[tid] = 0
    stage = 0
    for k in range(mo.size(gX, 1)):
        staged[tid, stage] = gX[tid, k]
        mo.sync_threads()
        totals[tid] = totals[tid] + staged[127 - tid, stage]
        stage = stage + 1
    y[tid] = totals[tid]


def sum_of_tiles(x, y, kernel=sum_of_tiles_kernel):
    return kernel[1, 128](x, y)


def main(tiles=4):
    x, y = np.ones(128 * tiles, np.float32), np.zeros(128, np.float32)
    report = sum_of_tiles(x, y, mo.check(sum_of_tiles_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
