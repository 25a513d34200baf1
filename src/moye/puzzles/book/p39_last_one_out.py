"""# The last one out

In this cluster the block of rank 0 sums what all four have. The others put their numbers into their shared memory, wait until all have
done so, and are done. Shared memory belongs to a block that runs: when a block ends, another block may get its memory.

Who could still need something when the blocks 1 to 3 end? Mend the kernel.
"""

import moye as mo


@mo.kernel
def sum_kernel(out, x):
    tid, rank, first = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x * 64
    mine = mo.shared_array(mo.float32, 64)
    mine[tid] = x[first + tid]
    mo.cluster_sync()
    if rank == 0:
        total = mo.float32(0)
        for other in mo.static_range(4):
            total += mo.map_shared_rank(mine, other)[tid]
        out[mo.block_idx().x // 4 * 64 + tid] = total
    mo.cluster_sync()                                   #? -


def solve(out, x):
    sum_kernel.launch(out, x, grid=x.shape[0] // 64, block=64, cluster=4)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, clusters):
    return {"out": np.empty(64 * clusters, np.float32), "x": rng.standard_normal(256 * clusters).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 4, 64).sum(1, dtype=np.float64).reshape(-1), make=make, sizes=((2,), (1,)), given="copies",
    variants={"rtol": 1e-5},
    hints=("Block 0 reads the memory of blocks that may have ended.",
           "All blocks of the cluster come to a barrier of the cluster again, after the last read."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="four blocks (rows); block 0 reads all of them"))
