# %% [markdown]
# # 5. An SGEMM in ten steps
#
# We write `C = A @ B.T` in float32, slowly, and make it better ten times. Each step has a *cost sheet* from the
# simulator. It counts what the kernel asks of the memory, for every 100 multiply-adds of a warp:
#
# * **sectors**: pieces of 32 bytes of global memory,
# * **requests**: instructions of a warp that read or write shared memory,
# * **wavefronts**: how many steps shared memory needs for them (more than the ideal means bank conflicts),
# * **overlap**: the share of products that begin while a copy from global memory is on its way.
#
# All matrices are column-major, as in the manual of MoYe: A is (M, K), B is (N, K), C is (M, N), and mode 0 is
# contiguous.

# %%
import numpy as np

import moye as mo

rng = np.random.default_rng(0)
M, N, K = 128, 256, 64
A, B = (np.asfortranarray(rng.standard_normal((rows, K), np.float32)) for rows in (M, N))
expected = A.astype(np.float64) @ B.T.astype(np.float64)
STEPS, SHEET = {}, {}


def step(function):
    """Run a step in the checking simulator, compare it with NumPy, and print its cost sheet."""
    C = np.full((M, N), np.nan, np.float32, order="F")
    report = function(A, B, C, run=lambda kernel: mo.check(kernel, timeline=True))
    assert report.ok, str(report)
    assert np.linalg.norm(C - expected) < 1e-6 * np.linalg.norm(expected)
    lines, hundred = report.counters()["lines"], M * N * K / 32 / 100
    sectors = sum(line.get("sectors", 0) for line in lines) / hundred
    requests, wavefronts, ideal = (sum(line[key] for line in lines if line["space"] == "shared") / hundred
                                   for key in ("requests", "wavefronts", "ideal"))
    overlap = report.timeline().overlap()
    STEPS[function.__name__] = function
    SHEET[function.__name__] = (sectors, requests, wavefronts, float(overlap.share) if overlap.total else 0.0)
    print(f"{function.__name__}: {sectors:.1f} sectors, {requests:.1f} requests, {wavefronts:.1f} wavefronts "
          f"(ideal {ideal:.1f}), overlap {SHEET[function.__name__][3]:.0%}")
    return function

# %% [markdown]
# ## Step 1: a thread for each element
#
# The first kernel that comes to mind. Threads of a warp have neighbouring columns of C.

# %%
@mo.kernel
def one_element(A, B, C, thr_layout):
    bx, by, _ = mo.block_idx()
    gC = mo.tile(C, (mo.size(thr_layout, 0), mo.size(thr_layout, 1)), (bx, by))        # (bM, bN)
    gA = mo.tile(A, (mo.size(thr_layout, 0), 1), (bx, None))[:, 0, :]                  # (bM, K)
    gB = mo.tile(B, (mo.size(thr_layout, 1), 1), (by, None))[:, 0, :]                  # (bN, K)
    i, j = mo.idx2crd(mo.shape(thr_layout), mo.thread_idx().x, mo.stride(thr_layout))      # which row, which column
    total = mo.float32(0)
    for k in range(mo.size(A, 1)):
        total += gA[i, k] * gB[j, k]
    gC[i, j] = total


@step
def step_1(A, B, C, run):
    threads = mo.make_layout((8, 32), (32, 1))
    return run(one_element)[(A.shape[0] // 8, B.shape[0] // 32), 256](A, B, C, threads)

# %% [markdown]
# Every multiply-add loads two numbers from global memory. C is written 32 sectors at a time, but only once, so that
# hardly shows.
#
# ## Step 2: neighbours down a column
#
# The same kernel with another layout of threads. The writes of C are coalesced now. A is read by lines, and B is one
# number for the whole warp.

# %%
@step
def step_2(A, B, C, run):
    threads = mo.make_layout((32, 8))
    return run(one_element)[(A.shape[0] // 32, B.shape[0] // 8), 256](A, B, C, threads)

# %% [markdown]
# ## Step 3: tiles in shared memory
#
# Threads of a block need the same rows of A and B. So the block copies a tile of each to shared memory once, and
# everybody reads it there. A tiled copy says who copies what, a tiled MMA who computes what. This kernel is that of
# [example 03](../../examples/03_matmul_tiled.py), and it will stay as it is for five steps.

# %%
@mo.kernel
def tiled(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (bM, bK), (bx, None)), mo.tile(B, (bN, bK), (by, None))             # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                                                     # (bM, bN)
    thr_A, thr_B, thr_mma = copy_A.get_slice(tid), copy_B.get_slice(tid), mma_C.get_slice(tid)
    tAgA, tAsA = thr_A.partition_S(gA), thr_A.partition_D(sA)           # (CPY, CPY_M, CPY_K, k), (CPY, CPY_M, CPY_K)
    tBgB, tBsB = thr_B.partition_S(gB), thr_B.partition_D(sB)           # (CPY, CPY_N, CPY_K, k), (CPY, CPY_N, CPY_K)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.sync_threads()                                               # the tiles are there
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()                                               # and have been read
    mo.copyto(tCgC, tCrC)


FMA = mo.UniversalFMA(mo.float32)
WORD = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)


@step
def step_3(A, B, C, run):
    tile, threads = mo.make_layout((32, 32)), mo.make_layout((32, 32))
    copy, mma = mo.make_tiled_copy(WORD, threads), mo.make_tiled_mma(FMA, threads)
    return run(tiled)[(A.shape[0] // 32, B.shape[0] // 32), 1024](A, tile, copy, B, tile, copy, C, mma)

# %% [markdown]
# What is new in the kernel: `partition_A`, `partition_B` and `partition_C` give a thread the rows of A, the rows of B
# and the elements of C that it multiplies, as `partition_S` did for copies. `make_fragment_C` makes registers of that
# shape: the sums. `mo.gemm(mma_C, tCsA, tCsB, tCrC)` adds the products to them. In the comments, `MMA` is one
# instruction, here one multiply-add.
#
# Global memory is asked for a sixteenth of what it was. But each multiply-add still reads two numbers, from shared
# memory now. A multiprocessor can start four multiply-adds for one request to shared memory, so shared memory is what
# it waits for.
#
# ## Step 4: more elements for a thread
#
# A thread that has eight elements of a row of C reads one number of A for eight products. 256 threads as 32 x 8, and a
# tile of 32 x 64: the tiled MMA repeats itself over the tile.

# %%
@step
def step_4(A, B, C, run):
    tA, tB, threads = mo.make_layout((32, 32)), mo.make_layout((64, 32)), mo.make_layout((32, 8))
    copy, mma = mo.make_tiled_copy(WORD, threads), mo.make_tiled_mma(FMA, threads)
    return run(tiled)[(A.shape[0] // 32, B.shape[0] // 64), 256](A, tA, copy, B, tB, copy, C, mma)

# %% [markdown]
# ## Step 5: eight by eight
#
# Eight rows and eight columns: 16 numbers are read for 64 products. The tile is 128 x 128, and eight deep.

# %%
SQUARE = mo.make_layout((16, 16))


@step
def step_5(A, B, C, run):
    tile, mma = mo.make_layout((128, 8)), mo.make_tiled_mma(FMA, SQUARE)
    copy = mo.make_tiled_copy(WORD, mo.make_layout((32, 8)))
    return run(tiled)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, copy, B, tile, copy, C, mma)

# %% [markdown]
# By hand, `mo.fragment((8, 8), mo.float32)` makes such registers, and `mo.make_fragment_like(t)` those for a tensor
# `t`; two loops of `mo.static_range(8)` would be the products.
#
# This is the largest step. The sums take 64 registers of each thread, of 255 at most, so tiles cannot grow much
# further.
#
# ## Step 6: copies of 16 bytes
#
# Four times fewer instructions move the tiles. Only the atom and the layouts of the tiled copy change.

# %%
QUAD = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32)
WIDE = mo.make_tiled_copy(QUAD, mo.make_layout((32, 8)), mo.make_layout((4, 1)))


@step
def step_6(A, B, C, run):
    tile, mma = mo.make_layout((128, 8)), mo.make_tiled_mma(FMA, SQUARE)
    return run(tiled)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, WIDE, B, tile, WIDE, C, mma)

# %% [markdown]
# ## Step 7: reads of 16 bytes
#
# A thread's eight rows are 16 apart, so each is read on its own. A *permutation* of the tiled MMA gives a thread four
# rows side by side, twice, and columns likewise.

# %%
QUADS = mo.Layout.parse("(16,4):(4,1)")                 # thread t's value v is row 4 t + v, no longer t + 16 v
PERMUTED = mo.make_tiled_mma(FMA, SQUARE, (QUADS, QUADS, 1))


@step
def step_7(A, B, C, run):
    tile = mo.make_layout((128, 8))
    return run(tiled)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, WIDE, B, tile, WIDE, C, PERMUTED)

# %% [markdown]
# With 2 x 2 threads it looks like this: thread 0 has four rows and four columns side by side. Without the permutation
# it would have every second one.

# %%
quads = mo.Layout.parse("(2,4):(4,1)")
mo.draw(mo.make_tiled_mma(FMA, mo.make_layout((2, 2)), (quads, quads, 1)))

# %% [markdown]
# A quarter of the requests. The wavefronts did not change: as many words cross as before. What is gained is
# instructions, and each instruction that is no multiply-add takes the place of one. C is written 16 bytes at a time,
# too.
#
# ## Step 8: asynchronous copies
#
# A plain copy goes through registers: load, wait, store. `cp.async` copies from global to shared memory without them.
# It is one more atom, and one more line: someone must wait for it. Chapter 7 tells more.

# %%
@mo.kernel
def asynchronous(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (bM, bK), (bx, None)), mo.tile(B, (bN, bK), (by, None))             # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                                                     # (bM, bN)
    thr_A, thr_B, thr_mma = copy_A.get_slice(tid), copy_B.get_slice(tid), mma_C.get_slice(tid)
    tAgA, tAsA = thr_A.partition_S(gA), thr_A.partition_D(sA)           # (CPY, CPY_M, CPY_K, k), (CPY, CPY_M, CPY_K)
    tBgB, tBsB = thr_B.partition_S(gB), thr_B.partition_D(sB)           # (CPY, CPY_N, CPY_K, k), (CPY, CPY_N, CPY_K)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()                                              # my copies are there
        mo.sync_threads()                                               # everybody's are
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


CP_ASYNC = mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float32)
ASYNC = mo.make_tiled_copy(CP_ASYNC, mo.make_layout((32, 8)), mo.make_layout((4, 1)))


@step
def step_8(A, B, C, run):
    tile = mo.make_layout((128, 8))
    return run(asynchronous)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, ASYNC, B, tile, ASYNC, C, PERMUTED)

# %% [markdown]
# Nothing overlaps yet: the kernel waits for each copy at once.
#
# ## Step 9: stages
#
# Give shared memory a third mode, and copy tile k + 2 while tile k is multiplied. `mo.Pipeline(3)` counts the stages.

# %%
@mo.kernel
def staged(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C, pipe):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)       # (bM, bK, stages), (bN, ..)
    gA, gB = mo.tile(A, (bM, bK), (bx, None)), mo.tile(B, (bN, bK), (by, None))             # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                                                     # (bM, bN)
    thr_A, thr_B, thr_mma = copy_A.get_slice(tid), copy_B.get_slice(tid), mma_C.get_slice(tid)
    tAgA, tAsA = thr_A.partition_S(gA), thr_A.partition_D(sA)           # (CPY, CPY_M, CPY_K, k), (.., stages)
    tBgB, tBsB = thr_B.partition_S(gB), thr_B.partition_D(sB)           # (CPY, CPY_N, CPY_K, k), (.., stages)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K, stages), (.., stages)
    tCgC = thr_mma.partition_C(gC)                                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    k_tiles = mo.size(gA, 2)
    for k in mo.static_range(pipe.ahead):                               # fill all stages but one
        if k < k_tiles:
            mo.copyto(copy_A, tAsA[:, :, :, k], tAgA[:, :, :, k])
            mo.copyto(copy_B, tBsB[:, :, :, k], tBgB[:, :, :, k])
        pipe.commit()
    state = pipe.start()
    for k in range(k_tiles):
        pipe.wait()                                                     # state.read has arrived, state.write is free
        if k + pipe.ahead < k_tiles:
            mo.copyto(copy_A, tAsA[:, :, :, state.write], tAgA[:, :, :, k + pipe.ahead])
            mo.copyto(copy_B, tBsB[:, :, :, state.write], tBgB[:, :, :, k + pipe.ahead])
        pipe.commit()
        mo.gemm(mma_C, tCsA[:, :, :, state.read], tCsB[:, :, :, state.read], tCrC)
        state = state.next()
    mo.copyto(tCgC, tCrC)


@step
def step_9(A, B, C, run):
    tile, pipe = mo.make_layout((128, 8, 3)), mo.Pipeline(3)
    return run(staged)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, ASYNC, B, tile, ASYNC, C, PERMUTED, pipe)

# %% [markdown]
# Now almost all products begin while a copy is on its way, and one barrier for each tile is left of two.
#
# ## Step 10: registers ahead
#
# One latency is still open: a product waits for the numbers that it reads from shared memory. So read those for the
# next k into a second set of registers before multiplying this k. This is [example
# 09](../../examples/09_matmul_double_buffered.py), the last kernel of MoYe's manual, with 16-byte accesses.

# %%
@mo.kernel
def ahead(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)       # (bM, bK, 2), (bN, bK, 2)
    gA, gB = mo.tile(A, (bM, bK), (bx, None)), mo.tile(B, (bN, bK), (by, None))             # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                                                     # (bM, bN)
    thr_A, thr_B, thr_mma = copy_A.get_slice(tid), copy_B.get_slice(tid), mma_C.get_slice(tid)
    tAgA, tAsA = thr_A.partition_S(gA), thr_A.partition_D(sA)           # (CPY, CPY_M, CPY_K, k), (.., 2)
    tBgB, tBsB = thr_B.partition_S(gB), thr_B.partition_D(sB)           # (CPY, CPY_N, CPY_K, k), (.., 2)
    mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K, 2), (.., 2)
    tCgC = thr_mma.partition_C(gC)                                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])                    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])                    # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.cp_async_wait()
    mo.sync_threads()
    read, write = 0, 1
    here_A, here_B = tCsA[:, :, :, read], tCsB[:, :, :, read]           # (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    mo.copyto(tCrA[:, :, 0], here_A[:, :, 0])
    mo.copyto(tCrB[:, :, 0], here_B[:, :, 0])
    k_tiles = mo.size(gA, 2)
    for k_tile in range(k_tiles):
        for k in mo.static_range(bK):                                   # unrolled
            if k == bK - 1:                                             # the next k is in the next tile
                mo.cp_async_wait()
                mo.sync_threads()
                here_A, here_B = tCsA[:, :, :, read], tCsB[:, :, :, read]
            mo.copyto(tCrA[:, :, (k + 1) % bK], here_A[:, :, (k + 1) % bK])
            mo.copyto(tCrB[:, :, (k + 1) % bK], here_B[:, :, (k + 1) % bK])
            if k == 0 and k_tile < k_tiles - 1:
                mo.copyto(copy_A, tAsA[:, :, :, write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, write], tBgB[:, :, :, k_tile + 1])
                read, write = write, read                               # for the reads after the barrier
            mo.gemm(mma_C, tCrA[:, :, k], tCrB[:, :, k], tCrC)
    mo.copyto(tCgC, tCrC)


@step
def step_10(A, B, C, run):
    tile = mo.make_layout((128, 8, 2))
    return run(ahead)[(A.shape[0] // 128, B.shape[0] // 128), 256](A, tile, ASYNC, B, tile, ASYNC, C, PERMUTED)

# %% [markdown]
# ## All together
#
# The sheet counts work, and not time. The last column is measured on an H200 by `benchmarks/sgemm_steps.py`, at 4096 x
# 4096 x 4096. cuBLAS reached 51.8 TFLOP/s in the same run.

# %%
import csv
from pathlib import Path

data = Path(mo.__file__).parents[2] / "benchmarks" / "data" / "sgemm_steps.csv"
measured = {row["step"]: row["tflops"] for row in csv.DictReader(data.open())} if data.exists() else {}
print("step     sectors  requests  wavefronts  overlap  H200 TFLOP/s")
for name, (sectors, requests, wavefronts, overlap) in SHEET.items():
    speed = measured.get(name, "in the repository alone")
    print(f"{name:8} {sectors:7.1f}  {requests:8.1f}  {wavefronts:10.1f}  {overlap:7.0%}  {speed}")

# %% [markdown]
# Steps 2 and 8 gain nothing here. Step 2 reads hardly fewer sectors than step 1. Step 8 saves 4 % of the wavefronts,
# which are not what it waits for: its threads wait for global memory, and step 9 asks for that earlier. Overlap is a
# share of copies that have arithmetic behind them, and not of time: step 10 has less of it, and is faster.
#
# `moye.kernels.gemm_simt` does the same with tiles that fit the product, any extents and any strides, and reaches 1.02
# to 1.04 of cuBLAS on three large shapes ([figures](../performance.md)).
#
# ## What you have now
#
# * The kernel is a few verbs. Steps 3 to 7 changed arguments alone.
# * Count what a multiply-add costs: sectors first, then requests to shared memory, then what overlaps.
#
# **Try:** give step 7 a tile of 64 x 64 and `mo.make_layout((8, 8))` threads. The tiled copy must have 64 threads then,
# too; what does the report say if it has not? What happens to the sectors, and why?
#
# [Puzzles 19 to 23](../puzzles.md) go with this chapter: `moye puzzles start 19`.
#
# Next: [tensor cores](06_tensor_cores.md).
