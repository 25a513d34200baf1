"""Blocks of a cluster that work together through each other's shared memory: softmax of rows too long for one block.

A row is spread over the registers of a cluster's blocks.  Each block finds the maximum of its part and the sum of its
exponentials; `mo.map_shared_rank` is the tensor with these two numbers in the shared memory of another block, so that
every block folds the parts of all.  One barrier of the cluster says that the parts are there, another one that they
have been read: no block ends while others need its shared memory.
"""

import numpy as np

import moye as mo

THREADS, BLOCKS = 256, 4


@mo.kernel
def softmax_kernel(Y: mo.Static, X: mo.Static, copy):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    blocks = mo.cluster_dim().x
    row, bN = mo.block_idx().x // blocks, mo.size(X, 1) // blocks
    thr = copy.get_slice(tid)
    tXgX = thr.partition_S(mo.tile(X, (1, bN), (row, rank)))    # (CPY, CPY_M, CPY_N)
    tXgY = thr.partition_D(mo.tile(Y, (1, bN), (row, rank)))    # (CPY, CPY_M, CPY_N)
    tXrX = mo.make_fragment_like(tXgX)                          # (CPY, CPY_M, CPY_N)
    mo.copyto(copy, tXrX, tXgX)

    scratch = mo.shared_array(mo.float32, THREADS // 32)        # one number for each warp
    part = mo.shared_array(mo.float32, 2)                       # maximum and sum of this block
    top = mo.block_reduce(tXrX.reduce("max"), scratch, "max")
    tXrX[...] = mo.exp(tXrX - top)
    total = mo.block_reduce(tXrX.reduce("add"), scratch)
    if tid == 0:
        part[0], part[1] = top, total
    mo.cluster_sync()                                           # every part is there

    highest, whole = top, 0.0
    for p in mo.static_range(blocks):
        highest = mo.max(highest, mo.map_shared_rank(part, p)[0])
    for p in mo.static_range(blocks):
        there = mo.map_shared_rank(part, p)                     # (2), of block p
        whole += there[1] * mo.exp(there[0] - highest)
    tXrX[...] = tXrX * (mo.exp(top - highest) / whole)
    mo.copyto(copy, tXgY, tXrX)
    mo.cluster_sync()                                           # and has been read


COPY = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32), mo.make_layout((1, THREADS)),
                          mo.make_layout((1, 4)))


def softmax(Y, X, kernel=softmax_kernel):
    """``X`` has rows of a multiple of 4096 elements, next to each other."""
    return kernel.launch(Y, X, COPY, grid=X.shape[0] * BLOCKS, block=THREADS, cluster=BLOCKS)


def main(M=64, N=16384):
    X = 4 * np.random.default_rng(0).standard_normal((M, N), np.float32)
    Y = mo.testing.array(np.full((M, N), np.nan, np.float32), arch="sm_90")
    softmax(Y, mo.testing.array(X, arch="sm_90"))
    wide = np.exp(X.astype(np.float64) - X.max(axis=1, keepdims=True))
    expected = wide / wide.sum(axis=1, keepdims=True)
    error = np.linalg.norm(mo.testing.host(Y) - expected) / np.linalg.norm(expected)
    assert error < 1e-6, f"relative error {error:.1e}"
    print(f"softmax of {M} rows of {N}, {BLOCKS} blocks a row: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
