"""Two blocks of a cluster each add up half of a row. The first one reads the other's part from its shared memory.

The other block may end before that, and its shared memory may go to the next block: class D18.

The report:

D18: block (1, 0, 0) may end before the read by thread 0 of block (0, 0, 0) at line 32 of part(0) in its shared memory: no barrier of the cluster between the two
  examples/broken/d18_exit_while_read.py:32 in row_sums_kernel
    out[row] = total + mo.map_shared_rank(part, 1)[0]
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: cluster_sync() before the kernel ends
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def row_sums_kernel(out, X):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    row = mo.block_idx().x // 2
    scratch = mo.shared_array(mo.float32, 4)            # one number for each warp
    part = mo.shared_array(mo.float32, 1)
    total = mo.block_reduce(X[rank * 128 + tid, row], scratch)
    if tid == 0:
        part[0] = total
    mo.cluster_sync()
    if tid == 0 and rank == 0:
        out[row] = total + mo.map_shared_rank(part, 1)[0]


def row_sums(out, X, kernel=row_sums_kernel):
    return kernel.launch(out, X, grid=2 * X.shape[1], block=128, cluster=2)


def main(rows=4):
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((256, rows), np.float32))
    out = np.full(rows, np.nan, np.float32)
    report = row_sums(out, X, mo.check(row_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
