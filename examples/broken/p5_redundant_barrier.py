"""A barrier at the end of a kernel, where nobody touches shared memory any more: class P5.  lints="deep" looks for it.

The report:

P5: sync_threads orders nothing in this launch: 4 blocks checked without it are as clean as with it
  examples/broken/p5_redundant_barrier.py:26 in reverse_kernel
    mo.sync_threads()
    ^^^^^^^^^^^^^^^^^
hint: leave it out, unless another launch needs it
"""


import numpy as np

import moye as mo


@mo.kernel
def reverse_kernel(y, x):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    staged[tid] = mo.tile(x, (256,), (bx,))[tid]
    mo.sync_threads()
    value = staged[255 - tid]
    mo.sync_threads()
    mo.tile(y, (256,), (bx,))[tid] = value


def reverse(y, x, kernel=reverse_kernel):
    return kernel[x.shape[0] // 256, 256](y, x)


def main(N=1024):
    x = np.arange(N, dtype=np.float32)
    report = reverse(np.zeros_like(x), x, mo.check(reverse_kernel, lints="deep"))
    print(report)
    return report


if __name__ == "__main__":
    main()
