"""b2_stage_not_modulo.py with the index of the stage taken modulo 2.  It is clean.
"""

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
        stage = (stage + 1) % 2
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
