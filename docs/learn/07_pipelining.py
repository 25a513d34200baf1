# %% [markdown]
# # 7. Asynchronous copies and double buffering
#
# This chapter follows five pages of MoYe.jl's manual, with the same kernels and the same sizes of tiles: 128 x 128 x 8,
# 256 threads, float32. [Example 03](../../examples/03_matmul_tiled.py), the kernel that chapter 5 used, is where it
# begins.
#
# ## Memcpy async
#
# Since Ampere, a thread can ask for a copy from global to shared memory and go on: `cp.async`. The data does not pass
# through registers. In the tiled copy, only the atom changes. In the kernel there is one more line,
# `mo.cp_async_wait()`.

# %%
import numpy as np

import moye as mo


@mo.kernel
def async_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


rng = np.random.default_rng(0)
M, N, K = 128, 128, 64
A, B = (np.asfortranarray(rng.standard_normal((rows, K), np.float32)) for rows in (M, N))
expected = A.astype(np.float64) @ B.T.astype(np.float64)


def run(kernel, sA_layout, copy, mma):
    """Check a kernel on one tile of C, with a timeline; return the report."""
    C = np.full((M, N), np.nan, np.float32, order="F")
    report = mo.check(kernel, timeline=True)[(M // 128, N // 128), 256](A, sA_layout, copy, B, sA_layout, copy, C, mma)
    error = np.linalg.norm(C - expected) / np.linalg.norm(expected)
    print(f"{report.verdict}; relative error below 1e-6: {error < 1e-6}; overlap: {report.timeline().overlap()}")
    return report


padded = mo.make_layout((128, 8), (1, 129))
one = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32, cache="always"), mo.float32), mo.make_layout((32, 8)))
square = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)))
report = run(async_kernel, padded, one, square)

# %% [markdown]
# A thread's wait covers its own copies. The barrier after it covers everybody's. Both are needed, in this order. The
# first kernel of the manual's page waits, and has no barrier before the products ([it is
# here](../../examples/broken/d3_missing_barrier.py)). On a GPU that may well give the right result. This is the same
# fault in small:

# %%
@mo.kernel
def rotated(out, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 128)
    mo.copyto(CP_ASYNC, mo.tile(staged, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    mo.cp_async_wait()
    out[tid] = staged[(tid + 1) % 128]


CP_ASYNC = mo.CpAsync(mo.float32, cache="always")
print(mo.check(rotated)[1, 128](np.zeros(128, np.float32), np.ones(128, np.float32)).findings[0])

# %% [markdown]
# ## Vectorized copy
#
# `cp.async` moves 4, 8 or 16 bytes. With 8 bytes, half as many instructions do. In moye (and in MoYe.jl) the dtype of
# the atom is a width alone, so an atom of `float64` moves two floats. But now each thread's two floats must be aligned
# to 8 bytes in shared memory, and columns of 129 floats are not:

# %%
pair = mo.CopyAtom(mo.CpAsync(mo.float64, cache="always"), mo.float32)
two = mo.make_tiled_copy(pair, mo.make_layout((32, 8)), mo.make_layout((2, 1)))
C = np.zeros_like(expected, np.float32)
print(mo.check(async_kernel)[(1, 1), 256](A, padded, two, B, padded, two, C, square).findings[0])

# %% [markdown]
# On a GPU that would be a misaligned address, at run time. Columns of 130 floats mend it, as in the manual:

# %%
report = run(async_kernel, mo.make_layout((128, 8), (1, 130)), two, square)

# %% [markdown]
# ## Overlap copies with the products
#
# So far each copy is waited for at once: the overlap is 0. The next kernel moves the tile from shared memory into
# registers first. Then shared memory is free, and the next tile can be copied into it while this one is multiplied from
# registers.

# %%
@mo.kernel
def overlapped_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    mo.copyto(copy_A, tAsA, tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB, tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA)                # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB)                # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    k_max = mo.size(tAgA, 3)
    for k in range(k_max):
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(tCrA, tCsA)
        mo.copyto(tCrB, tCsB)
        mo.sync_threads()
        if k < k_max - 1:
            mo.copyto(copy_A, tAsA, tAgA[:, :, :, k + 1])
            mo.copyto(copy_B, tBsB, tBgB[:, :, :, k + 1])
        mo.gemm(mma_C, tCrA, tCrB, tCrC)            # C += A * B
    mo.copyto(tCgC, tCrC)


report = run(overlapped_kernel, padded, one, square)
report.timeline()

# %% [markdown]
# Each row is a set of warps that do the same, from left to right in program order. A bar is a copy from its issue to
# its end. A dark MMA runs while a copy is in flight.
#
# Two barriers are in the loop, and both are needed: the first says that the tile has arrived for all, the second that
# all have read it.
#
# ## Double buffering
#
# That kernel needs all of a tile in registers. The last one of the manual uses two stages of shared memory instead.
# While one is multiplied, the other is filled. Registers hold two values of k: this one, and the next, which is read
# while this one is multiplied.

# %%
@mo.kernel
def double_buffered_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK, 2)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK, 2)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K, 2)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K, 2)
    mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K, 2)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K, 2)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])    # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.cp_async_wait()
    mo.sync_threads()
    smem_read, smem_write = 0, 1
    tCsA_p = tCsA[:, :, :, smem_read]                   # (MMA, MMA_M, MMA_K)
    tCsB_p = tCsB[:, :, :, smem_read]                   # (MMA, MMA_N, MMA_K)
    mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    k_tile_max, k_block_max = mo.size(tAgA, 3), mo.size(tCrA, 2)
    for k_tile in range(k_tile_max):                    # a loop of the kernel
        for k_block in mo.static_range(k_block_max):    # unrolled while tracing
            k_block_next = k_block + 1
            if k_block == k_block_max - 1:
                mo.cp_async_wait()
                mo.sync_threads()
                tCsA_p = tCsA[:, :, :, smem_read]
                tCsB_p = tCsB[:, :, :, smem_read]
                k_block_next = 0
            mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
            mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
            if k_block == 0 and k_tile < k_tile_max - 1:
                mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
                smem_read, smem_write = smem_write, smem_read
            mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
    mo.copyto(tCgC, tCrC)


two_stages = mo.make_layout((128, 8, 2), (1, 130, 1040))
wide = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((32, 8)))
report = run(double_buffered_kernel, two_stages, two, wide)
report.timeline()

# %% [markdown]
# Of the eight products of a tile, seven begin while the copies of the next tile are on their way: those of k_block 0 to
# 6. Before the last one, the kernel waits. The last tile has no next one.
#
# `k_tile` is a loop of the kernel, `k_block` is unrolled while tracing (`mo.static_range`). So `if k_block ==
# k_block_max - 1` is decided while tracing, and `if k_block == 0 and k_tile < k_tile_max - 1` is half decided: for
# k_block 0 it becomes an `if` in the kernel.
#
# ## What a wrong pipeline looks like
#
# A stage that is not switched, a wait that is too weak, a copy into a stage that is still being read: these are D2, D4
# and V1 of [the checker](../checker.md). Each has an example that is made of this kernel.
#
# With three stages and more, a thread has several tiles under way, and must not wait for all of them.
# `mo.cp_async_commit()` ends a *group* of copies, and `mo.cp_async_wait(1)` waits until at most one group is left, the
# newest.
#
# `mo.Pipeline(stages)` keeps the indices and the waits for you, as in step 9 of [the SGEMM](05_sgemm.md).
#
# ## What you have now
#
# * `cp.async` is an atom. `mo.cp_async_wait()` and then `mo.sync_threads()` make its data visible to all.
# * With two stages, copies of the next tile run beside the products of this one.
# * `report.timeline().overlap()` says how many products hide a copy, and the picture says which.
#
# **Try:** take `mo.cp_async_wait()` out of the double-buffered kernel. Which code is it? Then take out
# `mo.sync_threads()` alone.
#
# [Puzzles 27 to 29](../puzzles.md) go with this chapter: `moye puzzles start 27`.
#
# Next: copies of whole tiles by one thread: [TMA and mbarriers](08_tma.md).
