"""Blocks of a cluster pass columns on. In each round a thread shows its number to the other and adds what it sees.

The next round writes the number anew while the other block may still be reading it: class C2.

The report:

C2: shown(0) of block (1, 0, 0) may be overwritten while it is still being read: no barrier of the cluster between the read by thread 63 of block (0, 0, 0) at line 33 and the write by thread 0 of block (1, 0, 0) at line 31
  examples/broken/c2_overwritten_while_another_block_reads.py:31 in mix_kernel
    shown[tid] = value
    ^^^^^^^^^^
  examples/broken/c2_overwritten_while_another_block_reads.py:33 in mix_kernel
    value += 0.5 * other[63 - tid]
                   ^^^^^^^^^^^^^^^
hint: cluster_sync() between the two
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def mix_kernel(out, X, rounds):
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    shown = mo.shared_array(mo.float32, 64)
    other = mo.map_shared_rank(shown, rank ^ 1)
    value = X[tid, bx]
    for _ in range(rounds):
        shown[tid] = value
        mo.cluster_sync()
        value += 0.5 * other[63 - tid]
    out[tid, bx] = value
    mo.cluster_sync()


def mix(out, X, kernel=mix_kernel):
    return kernel.launch(out, X, 3, grid=X.shape[1], block=64, cluster=2)


def main(columns=4):
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((64, columns), np.float32))
    out = np.full_like(X, np.nan)
    report = mix(out, X, mo.check(mix_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
