"""Two stages. Each step waits for its tile, adds it up, and requests the tile after the next into the stage just read.

Other threads may still be reading that stage: class D4.

The report:

D4: ring(64, 0) of block (0, 0, 0) may be overwritten while it is still being read: no barrier between the read by thread 63 at line 38 and the asynchronous copy by thread 32 at line 40
  examples/broken/d4_prefetch_into_read_stage.py:40 in sum_of_tiles_kernel
    mo.copyto(copy, tXsX[:, :, k % stages], tXgX[:, :, k + stages])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d4_prefetch_into_read_stage.py:38 in sum_of_tiles_kernel
    total += ring[127 - tid, k % stages] - ring[63 - tid, k % stages]
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: sync_threads() between the last read of the stage and the copy that refills it
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_of_tiles_kernel(x, y, copy):
    tid, stages = mo.thread_idx().x, 2
    ring = mo.shared_array(mo.float32, (128, stages))   # (tile, stage)
    gX = mo.tile(x, (128,), (None,))                    # (tile, tiles)
    thr_copy = copy.get_slice(tid)
    tXgX, tXsX = thr_copy.partition_S(gX), thr_copy.partition_D(ring)       # (CPY, CPY_M, tiles), (CPY, CPY_M, stages)
    tiles, total = mo.size(gX, 1), 0.0
    for k in mo.static_range(stages):
        mo.copyto(copy, tXsX[:, :, k], tXgX[:, :, k])
        mo.cp_async_commit()
    for k in range(tiles):
        mo.cp_async_wait(stages - 1)
        mo.sync_threads()
        total += ring[127 - tid, k % stages] - ring[63 - tid, k % stages]
        if k + stages < tiles:
            mo.copyto(copy, tXsX[:, :, k % stages], tXgX[:, :, k + stages])
        mo.cp_async_commit()
    y[tid] = total


def sum_of_tiles(x, y, kernel=sum_of_tiles_kernel):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32), mo.make_layout(64), mo.make_layout(2))
    return kernel[1, 64](x, y, copy)


def main(tiles=6):
    x, y = np.arange(128 * tiles, dtype=np.float32), np.zeros(64, np.float32)
    report = sum_of_tiles(x, y, mo.check(sum_of_tiles_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
