"""Eight warps leave eight sums, which eight lanes add up. The first shuffle has the distance for sixteen sums, so it
reads lanes that are not there: class C7.

The report:

C7: thread 0 of block (0, 0, 0) reads lane 8, which is not in the mask, in the shuffle at line 34 (distance = 8), and what comes of it is used at line 36
  examples/broken/c7_shuffle_from_inactive_lane.py:34 in sum_kernel
    part += mo.shuffle_xor(part, distance, mask=0xFF)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/c7_shuffle_from_inactive_lane.py:36 in sum_kernel
    y[0] = part
    ^^^^
hint: let every lane that is read reach the shuffle, and name it in the mask
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_kernel(x, y):
    tid = mo.thread_idx().x
    sums = mo.shared_array(mo.float32, 8)
    total = mo.warp_reduce(x[tid])
    if mo.lane_idx() == 0:
        sums[mo.warp_idx()] = total
    mo.sync_threads()
    if tid < 8:
        part = sums[tid]
        for distance in (8, 4, 2, 1):
            part += mo.shuffle_xor(part, distance, mask=0xFF)
        if tid == 0:
            y[0] = part


def total(x, y, kernel=sum_kernel):
    return kernel[1, 256](x, y)


def main():
    x, y = np.ones(256, np.float32), np.zeros(1, np.float32)
    report = total(x, y, mo.check(sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
