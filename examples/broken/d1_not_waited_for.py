"""A tile is copied asynchronously and read after a barrier. Nobody waits for the copy; a barrier does not: class D1.

The report:

D1: tile(192) of block (0, 0, 0) is read while a copy into it is in flight: no cp_async_wait() of thread 48 between the asynchronous copy by thread 48 at line 28 and the read by thread 63 at line 31 (i = 0)
  examples/broken/d1_not_waited_for.py:28 in reverse_kernel
    mo.copyto(copy, thr_copy.partition_D(tile), thr_copy.partition_S(gX))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d1_not_waited_for.py:31 in reverse_kernel
    gY[tid + 64 * i] = tile[255 - tid - 64 * i]
                       ^^^^^^^^^^^^^^^^^^^^^^^^
hint: cp_async_wait() and then sync_threads() before the read
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def reverse_kernel(x, y, copy):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    tile = mo.shared_array(mo.float32, 256)
    gX, gY = mo.tile(x, (256,), (bx,)), mo.tile(y, (256,), (bx,))
    thr_copy = copy.get_slice(tid)
    mo.copyto(copy, thr_copy.partition_D(tile), thr_copy.partition_S(gX))
    mo.sync_threads()
    for i in mo.static_range(4):
        gY[tid + 64 * i] = tile[255 - tid - 64 * i]


def reverse(x, y, kernel=reverse_kernel):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32), mo.make_layout(64), mo.make_layout(4))
    return kernel[x.shape[0] // 256, 64](x, y, copy)


def main():
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    report = reverse(x, y, mo.check(reverse_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
