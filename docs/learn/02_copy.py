# %% [markdown]
# # 2. A copy
#
# A kernel is a Python function with `@mo.kernel`. It is launched with a grid of blocks and a number of threads:
# `kernel[grid, threads](arguments)`. In Triton a program handles a block of elements, and the compiler shares them
# among threads. Here you say which thread has which elements. That is more to write, and it is what makes everything
# later possible.
#
# NumPy arrays run in the simulator, CUDA tensors run on their GPU. Nothing else changes.

# %%
import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(dst, src, thr_layout):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gD = mo.tile(dst, (32, 32), (bx, by))               # (32, 32), the tile of this block
    gS = mo.tile(src, (32, 32), (bx, by))               # (32, 32)
    tDgD = mo.parallelize(gD, thr_layout, tid)          # (1, 4), the elements of this thread
    tSgS = mo.parallelize(gS, thr_layout, tid)          # (1, 4)
    mo.copyto(tDgD, tSgS)


src = np.asfortranarray(np.random.default_rng(0).standard_normal((64, 96), np.float32))
dst = np.full_like(src, np.nan)
threads = mo.make_layout((32, 8))                       # 256 threads as 32 x 8; neighbours go down a column
copy_kernel[(2, 3), 256](dst, src, threads)
print("equal:", np.array_equal(dst, src))

# %% [markdown]
# The grid is 2 x 3 blocks, and `mo.block_idx()` says which one this is, as `tl.program_id` does. Each block has 256
# threads, and the same code runs in each of them; `mo.thread_idx().x` is its number. The hardware runs threads in
# groups of 32, the *warps*: an instruction is carried out for all 32 at once, a load too.
#
# Three verbs do the work, and two of them move nothing:
#
# * `mo.tile(src, (32, 32), (bx, by))` is a **view**: the tile of this block. It is `tensor[32*bx : 32*bx+32, ...]`,
#   without a copy.
# * `mo.parallelize(gS, thr_layout, tid)` is a view of the elements that thread `tid` has.
# * `mo.copyto(dst, src)` moves data. The destination comes first.
#
# The names follow CuTe: `gS` is S in **g**lobal memory. `tSgS` is what this **t**hread has of it. The comment at each
# line is the shape. Write it; it is the best documentation a kernel can have.
#
# ## What a thread has
#
# The layout says who has what. Here are the first eight rows and columns of the 32 x 32 tile, with the 256 threads as
# 32 x 8.

# %%
mo.draw(mo.make_layout((32, 32)), thr="(32,8)", val="(1,1)", max_cells=64)

# %% [markdown]
# Going down a column the thread number counts up by one. The array is column-major, so the 32 threads of a warp read 32
# neighbours: 128 bytes, one line of memory. That is called *coalesced*.
#
# ## What it costs
#
# `mo.check` runs the same launch in the simulator with every check, and counts what each access costs. Global memory
# moves in **sectors** of 32 bytes. 32 threads that read 4 bytes each need at least four sectors.

# %%
report = mo.check(copy_kernel)[(2, 3), 256](dst, src, threads)
print(report.head)
print(report.table())

# %% [markdown]
# Four sectors for each request, and four is the ideal. Now give the threads the other order: neighbours go along a row.

# %%
across = mo.make_layout((8, 32), (32, 1))               # 8 x 32 threads, row-major
report = mo.check(copy_kernel)[(2, 3), 256](dst, src, across)
print("equal:", np.array_equal(dst, src))
print(report.table())
print(report.lints[0])

# %% [markdown]
# The result is the same, and each request touches 32 sectors: an eighth of each is used. On a GPU this copy would be
# several times slower. The kernel did not change. Only a layout did, and the checker says so without a GPU.
#
# ## Wider copies
#
# A thread can move 16 bytes with one instruction. For that its elements must be neighbours. A **tiled copy** says so: 8
# x 8 threads, each with 4 x 1 elements.

# %%
@mo.kernel
def wide_copy_kernel(dst, src, tiled_copy):
    bx, by, _ = mo.block_idx()
    thr_copy = tiled_copy.get_slice(mo.thread_idx().x)
    tSgS = thr_copy.partition_S(mo.tile(src, (32, 32), (bx, by)))       # (CPY, CPY_M, CPY_N)
    tDgD = thr_copy.partition_D(mo.tile(dst, (32, 32), (bx, by)))       # (CPY, CPY_M, CPY_N)
    mo.copyto(tiled_copy, tDgD, tSgS)


atom = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32)
wide = mo.make_tiled_copy(atom, mo.make_layout((8, 8)), mo.make_layout((4, 1)))
dst.fill(np.nan)
report = mo.check(wide_copy_kernel)[(2, 3), 64](dst, src, wide)
print("clean:", report.ok, " equal:", np.array_equal(dst, src))
print(report.table())

# %% [markdown]
# `get_slice(thread)` is the part of a thread; `partition_S` and `partition_D` give its elements of the source and of
# the destination. In the comments, `CPY` is what one instruction moves, and `CPY_M` and `CPY_N` say how often it is
# repeated along each mode.
#
# `UniversalCopy(mo.uint128)` is the *atom*, one instruction of 16 bytes. A tiled copy repeats it over threads and
# values. A warp now moves 512 bytes with a request, in 16 sectors: still the ideal.
#
# ## What the GPU would run
#
# The kernel is printed as CUDA C++, with your names and lines. Compiling needs no GPU either.

# %%
program = wide_copy_kernel.compile(dst, src, wide, block=64, arch="sm_90a")
lines = program.source.splitlines()
print("\n".join(lines[next(i for i, line in enumerate(lines) if "__global__" in line):]))

# %% [markdown]
# ## What is refused
#
# A tile of 32 must divide the extent, because `tile` promises full tiles. You are not asked to be careful: every launch
# checks it, on the GPU too.

# %%
try:
    copy_kernel[(2, 3), 256](dst[:60], src[:60], threads)
except mo.PreconditionError as error:
    print(error)

# %% [markdown]
# ## Any length
#
# An array of any length needs blocks enough, and threads that do nothing where there is no element. In Triton that is
# the mask. Here it is an `if`, as in Python:

# %%
@mo.kernel
def any_length(dst, src):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(src):
        dst[i] = src[i]


x = np.random.default_rng(0).standard_normal(1000, np.float32)
out = np.full_like(x, np.nan)
report = mo.check(any_length)[mo.ceil_div(1000, 128), 128](out, x)
print(report.head, " equal:", np.array_equal(out, x))

# %% [markdown]
# For wide copies the mask is a tensor of its own. `ragged=True` lets a tile reach past the end, `mo.identity_tensor`
# tiled in the same way has the coordinates of its elements, and `mo.elem_less` says which are inside. Vectors that are
# inside as a whole still move at once.

# %%
@mo.kernel
def wide_and_ragged(dst, src):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    gS, gD = mo.tile(src, (4,), (i,), ragged=True), mo.tile(dst, (4,), (i,), ragged=True)       # (4), (4)
    cS = mo.tile(mo.identity_tensor(mo.shape(src)), (4,), (i,), ragged=True)                    # (4), coordinates
    inside = mo.elem_less(cS, mo.shape(src))                                                    # (4), true or false
    held = mo.make_fragment_like(gS)                                                            # (4), registers
    mo.copyto(held, gS, pred=inside, zero_fill=True)
    mo.copyto(gD, held, pred=inside)


out.fill(np.nan)
report = mo.check(wide_and_ragged)[mo.ceil_div(1000, 256), 64](out, x)
print(report.head, " equal:", np.array_equal(out, x))
print(report.table())

# %% [markdown]
# [Masked copies](../kernel-language.md#masked-copies) has the rest.
#
# A loop in a kernel is `for i in range(n)`; `for i in mo.static_range(4)` is unrolled while the kernel is traced, so
# that `i` is a plain Python number there.
#
# ## What you have now
#
# * `@mo.kernel`, `kernel[grid, threads](...)`; NumPy runs in the simulator.
# * `tile` for the block, `parallelize` or a tiled copy for the thread, `copyto` to move.
# * An `if`, or `ragged=True` and a predicate, for arrays of any length.
# * Neighbouring threads should touch neighbouring memory; `report.table()` shows whether they do.
#
# **Try:** make `src` row-major (`np.ascontiguousarray`). Which of the two thread layouts is now the good one? Which
# `val` layout must the wide copy have?
#
# [Puzzles 6 to 9](../puzzles.md) go with this chapter: `moye puzzles start 6`.

# %%
row_major, target = np.ascontiguousarray(src), np.full(src.shape, np.nan, np.float32)
print(mo.check(copy_kernel)[(2, 3), 256](target, row_major, across).table())

# %% [markdown]
# A thread's four neighbours now lie along a row, so `val` is `(1, 4)`:

# %%
wide_rows = mo.make_tiled_copy(atom, mo.make_layout((8, 8), (8, 1)), mo.make_layout((1, 4)))
target.fill(np.nan)
report = mo.check(wide_copy_kernel)[(2, 3), 64](target, row_major, wide_rows)
print("clean:", report.ok, " equal:", np.array_equal(target, row_major))
print(report.table())

# %% [markdown]
# Next: [shared memory and banks](03_banks.md).
