"""g3_relaxed_ticket.py with a ticket that releases and acquires: clean."""


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
        drawn = mo.atomic_add(ticket, 0, 1, order="acq_rel")
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
