# %% [markdown]
# # 3. Shared memory and banks
#
# Each block has *shared memory*: fast, small, and seen by all threads of the block. Triton uses it for you. Here you
# allocate it, and choose its layout. A transpose needs it: it reads along columns and writes along rows, and one of the
# two would not be coalesced.

# %%
import numpy as np

import moye as mo


@mo.kernel
def transpose(dst, src, smem_layout, thr_layout):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    smem = mo.shared_array(src.dtype, smem_layout)              # (32, 32)
    smem_T = smem.with_layout(mo.select(smem_layout, 1, 0))     # (32, 32), the same memory with its modes exchanged
    gS = mo.tile(src, (32, 32), (bx, by))                       # (32, 32)
    gD = mo.tile(dst, (32, 32), (by, bx))                       # (32, 32)

    mo.copyto(mo.parallelize(smem, thr_layout, tid), mo.parallelize(gS, thr_layout, tid))
    mo.sync_threads()                                           # all have written before anyone reads
    mo.copyto(mo.parallelize(gD, thr_layout, tid), mo.parallelize(smem_T, thr_layout, tid))


src = np.asfortranarray(np.random.default_rng(0).standard_normal((64, 96), np.float32))
dst = np.full((96, 64), np.nan, np.float32, order="F")
threads = mo.make_layout((32, 8))
plain = mo.make_layout((32, 32))
report = mo.check(transpose)[(2, 3), 256](dst, src, plain, threads)
print("right:", np.array_equal(dst, src.T), " clean:", report.ok)
print(report.table())

# %% [markdown]
# The result is right and both global accesses are ideal. But one line has degree 32.
#
# ## Banks
#
# Shared memory has 32 **banks**, each four bytes wide. Word `w` lies in bank `w % 32`. In one step (a *wavefront*),
# each bank serves one word. If two threads of a warp want different words of one bank, the request takes two
# wavefronts; if all 32 do, 32. Here are the banks of a 32 x 32 tile (the first eight rows and columns):

# %%
mo.draw(plain, banks=True, bits=32, max_cells=64)

# %% [markdown]
# Down a column, each element has a bank of its own. Along a row, all are in one bank. The kernel writes columns and
# reads rows.
#
# ## Padding
#
# Make each column one word longer. The tile is still 32 x 32. Only the stride of mode 1 changes, from 32 to 33.

# %%
padded = mo.make_layout((32, 32), (1, 33))
dst.fill(np.nan)
report = mo.check(transpose)[(2, 3), 256](dst, src, padded, threads)
print("right:", np.array_equal(dst, src.T))
print(report.table())
mo.draw(padded, banks=True, bits=32, max_cells=64)

# %% [markdown]
# Degree 1 everywhere. The kernel did not change: it asked the layout for its offsets, and the layout is an argument.
#
# You need not find this yourself. The report of the first run had a hint, with layouts that it had counted:

# %%
print(mo.check(transpose)[(2, 3), 256](dst, src, plain, threads).lints[0])

# %% [markdown]
# ## Swizzles
#
# Padding wastes memory, and it breaks the alignment that 16-byte accesses need. A **swizzle** moves elements within the
# tile instead: it XORs some bits of the offset into others. `Swizzle(5, 0, 5)` XORs five bits at position 5 (the
# column) into the five at position 0 (the bank).

# %%
swizzled = mo.composition(mo.Swizzle(5, 0, 5), plain)
dst.fill(np.nan)
report = mo.check(transpose)[(2, 3), 256](dst, src, swizzled, threads)
print("right:", np.array_equal(dst, src.T), " bank conflicts:", report.counters()["shared_conflicts"])
mo.draw(swizzled, banks=True, bits=32, max_cells=64)

# %% [markdown]
# Every row and every column has each bank once. `mo.cosize` shows the price of the two:

# %%
print("padded:", mo.cosize(padded), "words,  swizzled:", mo.cosize(swizzled), "words")

# %% [markdown]
# ## Ask without a kernel
#
# The analysis is a library. It answers before there is a kernel: what would a warp pay that reads a row of this layout?

# %%
from moye.layout import analysis

row = mo.Layout.parse("32:32")                                  # 32 threads along a row of the plain tile
print("a row of the plain tile:", analysis.bank_conflicts(row, 32).degree, "wavefronts")
print("of the padded tile:     ", analysis.bank_conflicts(mo.Layout.parse("32:33"), 32).degree)

# %% [markdown]
# ## What you have now
#
# * `mo.shared_array(dtype, layout)`, and `mo.sync_threads()` between writing and reading.
# * 32 banks; threads of a warp should be in different banks, or read the same word.
# * A padded or swizzled layout is passed as an argument; the kernel stays.
#
# **Try:** which strides `(1, s)` have no conflicts along a row? Ask the analysis for `s` from 32 to 40 and explain the
# pattern.
#
# [Puzzles 10 to 14](../puzzles.md) go with this chapter: `moye puzzles start 10`.

# %%
print({s: analysis.bank_conflicts(mo.Layout.parse(f"32:{s}"), 32).degree for s in range(32, 41)})

# %% [markdown]
# More in [layout analysis](../analysis.md). Next: what happens without that `sync_threads`: [races](04_races.md).
