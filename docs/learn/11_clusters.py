# %% [markdown]
# # 11. Clusters
#
# Blocks do not see each other's shared memory, unless they are in a **cluster**: up to eight blocks (16 on request)
# that run at the same time on neighbouring multiprocessors. Inside a cluster, a block can read and write the shared
# memory of another one, and barriers cover all of its threads.
#
# ## A sum over four blocks
#
# Each block sums a quarter of a row. Then every block reads the four parts, and scales its own quarter.

# %%
import numpy as np

import moye as mo

THREADS, BLOCKS = 128, 4


@mo.kernel
def normalise(Y, X):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    row, part = mo.block_idx().x // BLOCKS, mo.size(X, 1) // BLOCKS
    scratch = mo.shared_array(mo.float32, THREADS // 32)
    mine = mo.shared_array(mo.float32, 1)                       # the sum of this block
    total = mo.float32(0)
    for j in mo.range(tid, part, THREADS):
        total += X[row, rank * part + j]
    total = mo.block_reduce(total, scratch)
    if tid == 0:
        mine[0] = total
    mo.cluster_sync()                                           # every part is there
    whole = mo.float32(0)
    for p in mo.static_range(BLOCKS):
        whole += mo.map_shared_rank(mine, p)[0]                 # the tensor of block p of this cluster
    for j in mo.range(tid, part, THREADS):
        Y[row, rank * part + j] = X[row, rank * part + j] / whole
    mo.cluster_sync()                                           # every part has been read


X = np.random.default_rng(0).random((3, 2048), np.float32)
Y = np.full_like(X, np.nan)
report = mo.check(normalise).launch(Y, X, grid=3 * BLOCKS, block=THREADS, cluster=BLOCKS)
print(report.head, " right:", np.allclose(Y, X / X.sum(axis=1, keepdims=True), rtol=1e-5))

# %% [markdown]
# A launch with a cluster is written with `launch(..., grid=, block=, cluster=)`. `mo.map_shared_rank(mine, p)` is the
# same tensor in block p. It is a view; reading it goes over the network between multiprocessors.
#
# ## Two barriers, two reasons
#
# The first barrier is obvious. Here is what happens without the second one:

# %%
@mo.kernel
def leaves_early(Y, X):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    mine = mo.shared_array(mo.float32, 1)
    if tid == 0:
        mine[0] = X[rank]
    mo.cluster_sync()
    if tid == 0:
        Y[rank] = mo.map_shared_rank(mine, (rank + 1) % BLOCKS)[0]


x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
print(mo.check(leaves_early).launch(y, x, grid=BLOCKS, block=32, cluster=BLOCKS).findings[0])

# %% [markdown]
# A block that ends gives its shared memory back, though its neighbour may still be about to read it. On a GPU that is a
# rare and strange fault. The checker knows that nothing orders the two.
#
# `mo.sync_threads()` in place of `mo.cluster_sync()` is another classic. It orders the threads of one block alone:

# %%
@mo.kernel
def wrong_barrier(Y, X):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    mine = mo.shared_array(mo.float32, 1)
    mo.cluster_sync()                                           # all blocks have begun
    if tid == 0:
        mine[0] = X[rank]
    mo.sync_threads()
    if tid == 0:
        Y[rank] = mo.map_shared_rank(mine, (rank + 1) % BLOCKS)[0]
    mo.cluster_sync()


print(mo.check(wrong_barrier).launch(y, x, grid=BLOCKS, block=32, cluster=BLOCKS).findings[0])

# %% [markdown]
# ## What else clusters are for
#
# * A load by TMA can go to several blocks at once (`multicast=`): blocks in a row of C need the same tile of A.
# * mbarriers take arrivals from other blocks (`mo.mbarrier_arrive(bars, i, cta=rank)`).
# * `mo.st_async` writes to another block's shared memory and counts the bytes at its mbarrier.
#
# [Barriers in memory, clusters, register budgets](../kernel-language.md#barriers-in-memory-clusters-register-budgets)
# has them, and [example 16](../../examples/16_cluster_reduction.py) is a softmax of rows that no single block could
# hold.
#
# ## What you have now
#
# * `cluster=` in the launch, `mo.cluster_rank()`, `mo.map_shared_rank(tensor, rank)`, `mo.cluster_sync()`.
# * Shared memory of another block: there after the first barrier, and until the last.
#
# **Try:** let each block fold only the part of its left neighbour, in three rounds (a ring). How many barriers does it
# take?
#
# [Puzzles 38 to 39](../puzzles.md) go with this chapter: `moye puzzles start 38`.
#
# Next: [kernels in PyTorch](12_pytorch.md).
