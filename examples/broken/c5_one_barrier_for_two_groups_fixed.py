"""c5_one_barrier_for_two_groups.py with a named barrier for each group.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def reverse_halves_kernel(x, y):
    tid = mo.thread_idx().x
    group, me = tid // 64, tid % 64
    tile = mo.shared_array(mo.float32, (64, 2))         # (tile, group)
    tile[me, group] = x[tid]
    mo.barrier_sync(1 + group, 64)
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
