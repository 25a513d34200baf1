"""The lanes of each warp reverse their values through shared memory.  Since Volta the lanes of a warp do not run in
lockstep, and nothing orders the reads after the writes: class C3.

The report:

C3: lanes(0, 0) of block (0, 0, 0) may be read before it is written: no sync_warp among the lanes of warp 0 between the write by thread 0 at line 28 and the read by thread 31 at line 29
  examples/broken/c3_missing_sync_warp.py:28 in reverse_warps_kernel
    lanes[lane, warp] = x[i]
    ^^^^^^^^^^^^^^^^^
  examples/broken/c3_missing_sync_warp.py:29 in reverse_warps_kernel
    y[i] = lanes[31 - lane, warp]
           ^^^^^^^^^^^^^^^^^^^^^^
hint: sync_warp() between the two
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def reverse_warps_kernel(x, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    warp, lane = mo.warp_idx(), mo.lane_idx()
    lanes = mo.shared_array(mo.float32, (32, 4))        # (lane, warp)
    lanes[lane, warp] = x[i]
    y[i] = lanes[31 - lane, warp]


def reverse_warps(x, y, kernel=reverse_warps_kernel):
    return kernel[x.shape[0] // 128, 128](x, y)


def main():
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    report = reverse_warps(x, y, mo.check(reverse_warps_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
