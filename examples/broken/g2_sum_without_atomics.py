"""Every block adds its part to one number by reading and writing it. So parts of other blocks get lost.

g2_sum_without_atomics_fixed.py adds atomically.

The report:

G2: out(0) is written by thread 0 of block (0, 0, 0) and read by thread 0 of block (7, 0, 0), and both blocks change it: without atomics, or an order between the blocks, one may undo the other's work
  examples/broken/g2_sum_without_atomics.py:30 in sum_kernel
    out[0] = out[0] + part
    ^^^^^^
  examples/broken/g2_sum_without_atomics.py:30 in sum_kernel
    out[0] = out[0] + part
             ^^^^^^
hint: mo.atomic_add, or a slice of a workspace for each block
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_kernel(x, out):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, 4)            # one number for each warp
    part = mo.block_reduce(x[bx * 128 + tid], scratch)
    if tid == 0:
        out[0] = out[0] + part


def total(x, out, kernel=sum_kernel):
    """``out`` starts at zero."""
    return kernel[x.size // 128, 128](x, out)


def main(n=1024):
    x, out = np.ones(n, np.float32), np.zeros(1, np.float32)
    report = total(x, out, mo.check(sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
