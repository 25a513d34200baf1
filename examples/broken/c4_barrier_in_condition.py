"""A tree of sums whose barrier has slipped into the condition. The threads that add meet at one barrier, and the others
meet at another one: class C4.

The report:

C4: the threads of block (0, 0, 0) have come to different barriers: warps 0-1 at sync_threads at line 32 (stride = 64), warps 2-3 at sync_threads at line 35
  examples/broken/c4_barrier_in_condition.py:32 in sum_kernel
    mo.sync_threads()
    ^^^^^^^^^^^^^^^^^
  examples/broken/c4_barrier_in_condition.py:35 in sum_kernel
    mo.sync_threads()
    ^^^^^^^^^^^^^^^^^
hint: move sync_threads out of the condition
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_kernel(x, y):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    part = mo.shared_array(mo.float32, 128)
    part[tid] = x[bx * 128 + tid]
    mo.sync_threads()
    for stride in (64, 32, 16, 8, 4, 2, 1):
        if tid < stride:
            part[tid] = part[tid] + part[tid + stride]
            mo.sync_threads()
    if tid == 0:
        y[bx] = part[0]
    mo.sync_threads()


def sums(x, y, kernel=sum_kernel):
    return kernel[x.shape[0] // 128, 128](x, y)


def main():
    x, y = np.ones(256, np.float32), np.zeros(2, np.float32)
    report = sums(x, y, mo.check(sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
