"""Two blocks of a cluster each add up half of a row. The first one reads the other's part from its shared memory.

Nothing says that the other block has written its part by then: class C1.

The report:

C1: part(0) of block (1, 0, 0) may be read before it is written: no barrier of the cluster between the write by thread 0 of block (1, 0, 0) at line 32 and the read by thread 0 of block (0, 0, 0) at line 34
  examples/broken/c1_other_block_not_waited_for.py:32 in row_sums_kernel
    part[0] = total
    ^^^^^^^
  examples/broken/c1_other_block_not_waited_for.py:34 in row_sums_kernel
    out[row] = total + mo.map_shared_rank(part, 1)[0]
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: cluster_sync() between the two
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
    if tid == 0 and rank == 0:
        out[row] = total + mo.map_shared_rank(part, 1)[0]
    mo.cluster_sync()


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
