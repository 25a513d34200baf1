"""b8_stale_tail.py with zeros where the predicate is false: clean."""


import numpy as np

import moye as mo


@mo.kernel
def sums_kernel(x, out):
    tid = mo.thread_idx().x
    n = mo.size(x)
    staged = mo.shared_array(mo.float32, 64)
    mine = mo.tile(staged, (1,), (tid,))                # (1,)
    total = 0.0
    for tile in range(mo.ceil_div(n, 64)):
        at = tile * 64 + tid
        mo.copyto(mine, mo.tile(x, (1,), (at,)), pred=at < n, zero_fill=True)
        mo.sync_threads()
        total += staged[63 - tid]
        mo.sync_threads()
    out[tid] = total


def sums(x, out, kernel=sums_kernel):
    return kernel[1, 64](x, out)


def main(n=150):
    x, out = np.ones(n, np.float32), np.full(64, np.nan, np.float32)
    report = sums(x, out, mo.check(sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
