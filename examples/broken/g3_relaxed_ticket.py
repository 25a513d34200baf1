"""Each block stores a partial sum and draws a ticket. The block with the last ticket adds up all parts.  The ticket is
relaxed: when it is drawn, nothing says that the parts of other blocks are there.

g3_relaxed_ticket_fixed.py draws it with release and acquire.

The report:

G3: parts(0) is written by thread 0 of block (0, 0, 0) and read by thread 0 of block (7, 0, 0): the blocks signal through global memory, but no release and acquire orders the two
  examples/broken/g3_relaxed_ticket.py:32 in sum_kernel
    parts[bx] = part
    ^^^^^^^^^
  examples/broken/g3_relaxed_ticket.py:37 in sum_kernel
    total += parts[i]
             ^^^^^^^^
hint: sync_threads(), then signal with order="release"; wait with order="acquire", then sync_threads()
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sum_kernel(x, parts, ticket, out):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    blocks = mo.grid_dim().x
    scratch = mo.shared_array(mo.float32, 4)            # one number for each warp
    part = mo.block_reduce(x[bx * 128 + tid], scratch)
    if tid == 0:
        parts[bx] = part
        drawn = mo.atomic_add(ticket, 0, 1)
        if drawn == blocks - 1:
            total = 0.0
            for i in range(blocks):
                total += parts[i]
            out[0] = total


def total(x, parts, ticket, out, kernel=sum_kernel):
    """``parts`` has a number for each block; ``ticket`` starts at zero."""
    return kernel[x.size // 128, 128](x, parts, ticket, out)


def main(n=1024):
    x, parts = np.ones(n, np.float32), np.full(n // 128, np.nan, np.float32)
    ticket, out = np.zeros(1, np.int32), np.full(1, np.nan, np.float32)
    report = total(x, parts, ticket, out, mo.check(sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
