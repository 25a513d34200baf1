"""b6_read_before_written.py with counters that start at zero.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def histogram_kernel(x, counts):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    bins = mo.shared_array(mo.int32, 64)
    bins[tid] = 0
    mo.sync_threads()
    mo.atomic_add(bins, x[bx * 64 + tid] % 64, 1)
    mo.sync_threads()
    mo.atomic_add(counts, tid, bins[tid])


def histogram(x, counts, kernel=histogram_kernel):
    return kernel[x.shape[0] // 64, 64](x, counts)


def main():
    x, counts = np.full(128, 5, np.int32), np.zeros(64, np.int32)
    report = histogram(x, counts, mo.check(histogram_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
