"""A ragged sum through shared memory. In the last tile, the copy is predicated off beyond the end of x. There the tile
before has left its numbers, and they are added once more.

b8_stale_tail_fixed.py fills zeros in.

The report:

B8: staged(22) keeps what an earlier run of this copy left there, because its predicate is false for thread 22 of block (0, 0, 0), and the stale value is used: with another one in its place out(0) changes
  examples/broken/b8_stale_tail.py:31 in sums_kernel
    mo.copyto(mine, mo.tile(x, (1,), (at,)), pred=at < n)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: zero_fill=True
"""

# ruff: noqa: E501

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
        mo.copyto(mine, mo.tile(x, (1,), (at,)), pred=at < n)
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
