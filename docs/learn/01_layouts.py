# %% [markdown]
# # 1. Layouts, seen
#
# A tensor in PyTorch has a shape and strides. The strides say where an element lies: element `(i, j)` of a tensor with
# strides `(s, t)` lies at offset `i * s + j * t`. moye calls the pair a **layout**, and writes it `shape:stride`. A
# layout is a function from coordinates to offsets, and nothing else. It owns no memory.
#
# You need no GPU for this chapter, nor for any other one: [install moye](../start.md), and type along in a notebook or
# a file. In a notebook the last line of a cell shows itself, as below. In a file, `print(mo.draw(rows))` shows it as
# text, and `mo.draw(rows, file="rows.svg")` writes the picture.

# %%
import moye as mo

rows = mo.make_layout((4, 8), (8, 1))           # as PyTorch would lay out a (4, 8) tensor: row-major
print(rows, "puts (2, 3) at", rows(2, 3))
rows

# %% [markdown]
# A notebook shows the picture by itself; in a script, `print(mo.draw(rows))` shows it as text, and `.save("rows.svg")`
# keeps it. It has the offset of each coordinate. Mode 0 (PyTorch says dimension 0) runs down, mode 1 to the right.
# Mode 1 is *contiguous*: its stride is 1, so neighbours in a row are neighbours in memory.
#
# If you give no strides, the layout is compact and **column-major**: mode 0 is contiguous. This is the opposite of
# PyTorch.

# %%
columns = mo.make_layout((4, 8))
columns

# %% [markdown]
# A layout also takes a single index. It counts through the modes from left to right, so index 5 of a (4, 8) layout is
# coordinate (1, 1). What changes from layout to layout is the offset.

# %%
for index in (0, 1, 4, 5):
    print(index, "row-major:", rows(index), " column-major:", columns(index))

# %% [markdown]
# Triton programs write such offsets by hand: `offs_m[:, None] * stride_m + offs_n[None, :] * stride_n`. Here the layout
# does it, and other tools can read it: pictures, the copy functions, and the checker.
#
# ## Shapes inside shapes
#
# A mode may be a tuple itself. This is the one idea of CuTe that PyTorch does not have. `((2,2),4)` has two modes; mode
# 0 has four coordinates, which are counted in two steps with strides of their own.

# %%
nested = mo.Layout.parse("((2,2),4):((1,8),2)")
print("size of mode 0:", mo.size(nested, 0))
print("offset of (3, 1):", nested(3, 1), " of ((1, 1), 1):", nested((1, 1), 1))
nested

# %% [markdown]
# No pair of strides gives the offsets 0, 1, 8, 9 down a column. A nested mode does, and you can still index it by one
# number. That is how moye describes tiles, the elements of a thread, and the fragments of a tensor core, all with the
# same thing.
#
# ## Cutting into tiles
#
# `zipped_divide` cuts a layout into tiles. The result has two modes: inside a tile, and which tile.

# %%
tiles = mo.zipped_divide(rows, (2, 4))
print(tiles)
print("the tile in row 1, column 0:", tiles[:, (1, 0)], "begins at", tiles(0, (1, 0)))

# %% [markdown]
# Read the result from left to right. `(2,4):(8,1)` is one tile: two rows of four, and a row is still 8 elements long.
# `(2,2):(16,4)` says where tiles begin: 16 further for the next row of tiles, 4 further for the next column.
#
# ## Sharing a tile among threads
#
# To copy a tile, each thread of a block must know which elements are its own. Take 8 threads as 2 rows of 4, and divide
# again: now "inside" are the threads, and "which" are the elements that one thread has. `mo.draw` shows who has what:
# `thr` is the layout of the threads, and `val` that of the elements that a thread has side by side, here one.

# %%
mo.draw(rows, thr="(2,4):(4,1)", val="(1,1)")

# %% [markdown]
# `T5` is thread 5. Each thread has an element in each (2, 4) tile: four in all, `V0` to `V3` in the picture.
#
# For a kernel, the same is written down as a *tiled copy*: an instruction, the threads, and the values that each has
# side by side. Chapter 2 uses one. With two values below each other for each of 2 x 4 threads, the tile is 4 x 4:

# %%
atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
copy = mo.make_tiled_copy(atom, mo.make_layout((2, 4)), mo.make_layout((2, 1)))
print(copy)
mo.draw(rows, thr="(2,4)", val="(2,1)")

# %% [markdown]
# ## Composition
#
# All of this is one operation underneath: composition, `composition(A, B)(c) == A(B(c))`. A second layout picks
# elements of the first one. To see every second row of `rows`, compose by mode:

# %%
even = mo.composition(rows, (mo.make_layout(2, 2), mo.make_layout(8)))
print(even, [even(i, 0) for i in range(2)])
assert [even(i, j) for i in range(2) for j in range(8)] == [rows(2 * i, j) for i in range(2) for j in range(8)]

# %% [markdown]
# ## What you have now
#
# * A layout is `shape:stride`. It maps coordinates to offsets.
# * Compact layouts are column-major unless you give strides.
# * Modes may be nested, and everything is still indexed by a plain number or by a coordinate.
# * Tiles and threads' shares are layouts, too.
#
# **Try:** write the layout of a (4, 4) tensor whose elements lie in memory in 2 x 2 squares, one after the other, and
# look at it with `mo.draw`. Then write the transpose of `rows` without moving anything.
#
# [Puzzles 1 to 5](../puzzles.md) go with this chapter: `moye puzzles start 1`.

# %%
squares = mo.Layout.parse("((2,2),(2,2)):((1,8),(2,4))")
transposed = mo.make_layout((8, 4), (1, 8))
assert all(transposed(j, i) == rows(i, j) for i in range(4) for j in range(8))
squares

# %% [markdown]
# All verbs with their laws are in [the layout algebra](../layouts.md). Next: [a copy](02_copy.md), where these tiles
# move real data.
