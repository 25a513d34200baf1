# %% [markdown]
# # 6. Tensor cores
#
# A tensor core multiplies small matrices: one instruction, issued by a whole warp. In Triton that is `tl.dot`. In moye
# it is an atom of a tiled MMA, and `mo.gemm` is the same call as before. What is new is who holds what: the 32 threads
# of the warp each bring a few elements of A and B, in an order that the hardware prescribes.

# %%
import numpy as np

import moye as mo

atom = mo.mma.SM80_16x8x16_F32F16F16F32_TN
print(atom, "multiplies", atom.shape_mnk, "with", atom.threads, "threads")
atom

# %% [markdown]
# The picture has A (16 x 16, left), B (16 x 8, above, transposed) and C (16 x 8). `T5 V1` is value 1 of thread 5. These
# layouts are data in moye, like any other layout. The printer takes the instruction from the atom, and the simulator
# takes the meaning. You need not learn them by heart.
#
# ## A product of one warp

# %%
@mo.kernel
def warp_product(A: mo.Static, B: mo.Static, C: mo.Static, mma):
    thr_mma = mma.get_slice(mo.thread_idx().x)
    tCgA, tCgB, tCgC = thr_mma.partition_A(A), thr_mma.partition_B(B), thr_mma.partition_C(C)
    tCrA = thr_mma.make_fragment_A(tCgA)                # (MMA, MMA_M, MMA_K), 8 halves
    tCrB = thr_mma.make_fragment_B(tCgB)                # (MMA, MMA_N, MMA_K), 4 halves
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N), 4 floats
    tCrC.fill(0)
    mo.copyto(tCrA, tCgA)
    mo.copyto(tCrB, tCgB)
    mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


rng = np.random.default_rng(0)
A, B = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((8, 16)).astype(np.float16)
C = np.full((16, 8), np.nan, np.float32)
report = mo.check(warp_product)[1, 32](A, B, C, mo.make_tiled_mma(atom))
print("clean:", report.ok, " right:", np.allclose(C, A.astype(np.float64) @ B.T.astype(np.float64), atol=1e-4))
print(report.table())

# %% [markdown]
# `mo.Static` says that these extents are known while tracing: registers need that. A block has 32 threads, because the
# atom has. With another number the launch is refused:

# %%
print(mo.check(warp_product)[1, 64](A, B, C, mo.make_tiled_mma(atom)).findings[0])

# %% [markdown]
# Look at the column `bytes`: elements of A are loaded 4 bytes at a time. A thread's eight halves lie in four places.
#
# ## ldmatrix
#
# That is what `ldmatrix` is for. It reads four 8 x 8 matrices of halves from shared memory, with 16 bytes for each row,
# and gives each thread what the MMA wants. It is a copy atom. `make_tiled_copy_A` makes the tiled copy that fits a
# tiled MMA, and `retile_D` shows the MMA's registers in the order in which that copy fills them.

# %%
@mo.kernel
def through_shared(A, B, C, layout_A, layout_B, copy_A, copy_B, read_A, read_B, mma):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, layout_A), mo.shared_array(B.dtype, layout_B)     # (32, 64), (32, 64)
    gA, gB = mo.tile(A, (32, 64), (0, 0)), mo.tile(B, (32, 64), (0, 0))                 # (32, 64), (32, 64)
    gC = mo.tile(C, (32, 32), (0, 0))                                                   # (32, 32)
    thr_A, thr_B = copy_A.get_slice(tid), copy_B.get_slice(tid)
    mo.copyto(copy_A, thr_A.partition_D(sA), thr_A.partition_S(gA))
    mo.copyto(copy_B, thr_B.partition_D(sB), thr_B.partition_S(gB))
    mo.sync_threads()

    thr_mma, thr_read_A, thr_read_B = mma.get_slice(tid), read_A.get_slice(tid), read_B.get_slice(tid)
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K), ..
    tCgC = thr_mma.partition_C(gC)                                                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                                                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.copyto(read_A, thr_read_A.retile_D(tCrA), thr_read_A.partition_S(sA))            # ldmatrix
    mo.copyto(read_B, thr_read_B.retile_D(tCrB), thr_read_B.partition_S(sB))
    mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


mma = mo.make_tiled_mma(atom, mo.make_layout((2, 2)), (32, 32, 16))                     # four warps, as 2 x 2
wide = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16)
copy = mo.make_tiled_copy(wide, mo.make_layout((16, 8), (8, 1)), mo.make_layout((1, 8)))
ldmatrix = mo.CopyAtom(mo.LdMatrix(4), mo.float16)
read_A, read_B = mo.make_tiled_copy_A(ldmatrix, mma), mo.make_tiled_copy_B(ldmatrix, mma)

A, B = (rng.standard_normal((32, 64)).astype(np.float16) for _ in range(2))
C = np.full((32, 32), np.nan, np.float32)
exact = A.astype(np.float64) @ B.T.astype(np.float64)
rows = mo.make_layout((32, 64), mo.LayoutRight)
report = mo.check(through_shared)[1, 128](A, B, C, rows, rows, copy, copy, read_A, read_B, mma)
print("clean:", report.ok, " right:", np.allclose(C, exact, atol=1e-3))
print(report.table())

# %% [markdown]
# Right, but `ldmatrix` has bank conflicts of degree 8: rows of 64 halves are 128 bytes, so all rows begin in the same
# bank. It is the transpose of chapter 3 again. Padding would break nothing here, but the usual way is a swizzle that
# moves 16 bytes as a whole. `mo.smem_layout_atom` knows it.

# %%
swizzled = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (32, 64))
print(swizzled)
report = mo.check(through_shared)[1, 128](A, B, C, swizzled, swizzled, copy, copy, read_A, read_B, mma)
print("right:", np.allclose(C, exact, atol=1e-3))
print(report.table())

# %% [markdown]
# One row of `ldmatrix` is eight halves. Seen in units of 16 bytes, the tile is 32 x 8, and each row and each column of
# eight visits all banks:

# %%
mo.draw("(8,8):(8,1)", swizzle="3,0,3", banks=True, bits=128)

# %% [markdown]
# ## Which instruction
#
# `mo.mma.find` lists those for given dtypes, largest first. The names are CuTe's. For Hopper's `wgmma`, see [chapter
# 9](09_wgmma.md).

# %%
print(mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32))
print(mo.mma.find(mo.int8, mo.int8, mo.int32))

# %% [markdown]
# ## What you have now
#
# * A tensor-core instruction is an atom. It says which thread holds what, and all else follows.
# * `ldmatrix` fills fragments from shared memory; `retile_D` matches its order to the MMA's.
# * Shared memory for it is swizzled in units of 16 bytes.
#
# **Try:** draw `read_A`. Which addresses does thread 9 give, and which elements does it get? (They are not the same.)
#
# [Puzzles 24 to 26](../puzzles.md) go with this chapter: `moye puzzles start 24`.

# %%
picture = mo.draw(read_A, max_cells=256)
print(len(picture.sheet.panels), "panels:", [panel.title for panel in picture.sheet.panels])

# %% [markdown]
# A whole product made of this is [example 13](../../examples/13_matmul_pipelined.py). Next: how copies hide behind
# products: [asynchronous copies and double buffering](07_pipelining.md).
