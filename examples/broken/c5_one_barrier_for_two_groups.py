"""Warps 0-1 and warps 2-3 each work on a tile of their own and synchronise among themselves, but on one named barrier.

The barrier counts arrivals, not who arrives: warps 0 and 2 may let each other through.  Class C5.

The report:

C5: warps 0-3 of block (0, 0, 0) arrive at named barrier 1 at line 26 before it opens: 128 threads where 64 are expected
  examples/broken/c5_one_barrier_for_two_groups.py:26 in reverse_halves_kernel
    mo.barrier_sync(1, 64)
    ^^^^^^^^^^^^^^^^^^^^^^
hint: a named barrier for each group, with the number of its threads as the count
"""


import numpy as np

import moye as mo


@mo.kernel
def reverse_halves_kernel(x, y):
    tid = mo.thread_idx().x
    group, me = tid // 64, tid % 64
    tile = mo.shared_array(mo.float32, (64, 2))         # (tile, group)
    tile[me, group] = x[tid]
    mo.barrier_sync(1, 64)
    y[tid] = tile[63 - me, group]


def reverse_halves(x, y, kernel=reverse_halves_kernel):
    return kernel[1, 128](x, y)


def main():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    report = reverse_halves(x, y, mo.check(reverse_halves_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
