"""c3_missing_sync_warp.py with the sync_warp that it lacks.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def reverse_warps_kernel(x, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    warp, lane = mo.warp_idx(), mo.lane_idx()
    lanes = mo.shared_array(mo.float32, (32, 4))        # (lane, warp)
    lanes[lane, warp] = x[i]
    mo.sync_warp()
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
