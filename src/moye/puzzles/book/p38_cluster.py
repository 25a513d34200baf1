"""# A look into the neighbour's memory

The blocks of a *cluster* run at the same time, and may read each other's shared memory. `mo.map_shared_rank(tensor, rank)` is the same
tensor in the block of that rank.

Each block of a cluster of 4 keeps 64 numbers. `out` is each number plus its right neighbour; the neighbour of a block's last number is
the first one of the next block of the cluster (after the last block comes the first again). Fill in the neighbour's memory, and the
barrier without which it may not yet be written: `mo.cluster_sync()` is a barrier of all blocks of the cluster.
"""

import moye as mo


@mo.kernel
def neighbours_kernel(out, x):
    tid, rank, first = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x * 64
    mine = mo.shared_array(mo.float32, 64)
    mine[tid] = x[first + tid]
    mo.cluster_sync()                                   #? ...
    right = mo.map_shared_rank(mine, (rank + 1) % 4)    #? right = ...
    after = mo.float32(0)
    if tid < 63:
        after = mine[tid + 1]
    else:
        after = right[0]
    out[first + tid] = mine[tid] + after
    mo.cluster_sync()


def solve(out, x):
    neighbours_kernel.launch(out, x, grid=x.shape[0] // 64, block=64, cluster=4)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, clusters):
    return {"out": np.empty(256 * clusters, np.float32), "x": rng.standard_normal(256 * clusters).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: (x.reshape(-1, 256) + np.roll(x.reshape(-1, 256), -1, 1)).reshape(-1), make=make, sizes=((2,), (1,)),
    hints=("mo.cluster_rank() is this block's number in the cluster; the next one is (rank + 1) % 4.",
           "Between the write and the read stands a barrier, as within a block, but of the cluster."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="four blocks (rows) of a cluster, eight numbers each"))
