"""Three stages: two tiles are on their way while one is added up, so the wait may leave one group in flight.  But it
leaves two, and one of them may be the tile that is read now: class D2.

The report:

D2: ring(64, 0) of block (0, 0, 0) is read while a copy into it may be in flight: the last wait between the asynchronous copy by thread 32 at line 41 (k = 0) and the read by thread 63 at line 49, cp_async_wait(2) at line 44 (k = 0), leaves the 2 newest groups in flight, and only one was committed after that of the copy
  examples/broken/d2_wait_too_permissive.py:41 in sum_of_tiles_kernel
    mo.copyto(copy, tXsX[:, :, k], tXgX[:, :, k])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d2_wait_too_permissive.py:49 in sum_of_tiles_kernel
    total += ring[127 - tid, k % stages] - ring[63 - tid, k % stages]
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: cp_async_wait(1)

D2: ring(64, 2) of block (0, 0, 0) is read while a copy into it may be in flight: the last wait between the asynchronous copy by thread 32 at line 47 and the read by thread 63 at line 49, cp_async_wait(2) at line 44 (k = 2), leaves the 2 newest groups in flight, and only one was committed after that of the copy
  examples/broken/d2_wait_too_permissive.py:47 in sum_of_tiles_kernel
    mo.copyto(copy, tXsX[:, :, (k + stages - 1) % stages], tXgX[:, :, k + stages - 1])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d2_wait_too_permissive.py:49 in sum_of_tiles_kernel
    total += ring[127 - tid, k % stages] - ring[63 - tid, k % stages]
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: cp_async_wait(1)
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_of_tiles_kernel(x, y, copy):
    tid, stages = mo.thread_idx().x, 3
    ring = mo.shared_array(mo.float32, (128, stages))   # (tile, stage)
    gX = mo.tile(x, (128,), (None,))                    # (tile, tiles)
    thr_copy = copy.get_slice(tid)
    tXgX, tXsX = thr_copy.partition_S(gX), thr_copy.partition_D(ring)       # (CPY, CPY_M, tiles), (CPY, CPY_M, stages)
    tiles, total = mo.size(gX, 1), 0.0
    for k in mo.static_range(stages - 1):
        mo.copyto(copy, tXsX[:, :, k], tXgX[:, :, k])
        mo.cp_async_commit()
    for k in range(tiles):
        mo.cp_async_wait(stages - 1)
        mo.sync_threads()
        if k + stages - 1 < tiles:
            mo.copyto(copy, tXsX[:, :, (k + stages - 1) % stages], tXgX[:, :, k + stages - 1])
        mo.cp_async_commit()
        total += ring[127 - tid, k % stages] - ring[63 - tid, k % stages]
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
