# %% [markdown]
# # 8. TMA and mbarriers
#
# With `cp.async`, 256 threads compute 256 addresses to move a tile. Hopper has a unit that does it: the Tensor Memory
# Accelerator. One thread asks for a whole tile, by coordinates. The unit computes the addresses, swizzles, and fills
# with zeros what lies outside of the array.
#
# A tile that one thread asked for must be waited for by others. That is what an **mbarrier** is for: a barrier in
# shared memory, which also counts bytes.

# %%
import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(load, store):
    bM, bN = load.tile
    bx, by, _ = mo.block_idx()
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (bM, bN)
    arrived = mo.mbarrier_array(1)
    gS = mo.tile(load.tensor, (bM, bN), (bx, by))                       # (bM, bN), coordinates in the source
    gD = mo.tile(store.tensor, (bM, bN), (bx, by))                      # (bM, bN), coordinates in the target

    if mo.thread_idx().x == 0:
        mo.mbarrier_init(arrived, 0, 1)                                 # one thread will arrive
        mo.fence_mbarrier_init()                                        # and TMA may know of it
        mo.mbarrier_arrive_expect_tx(arrived, 0, load.bytes)            # it says how many bytes are to come
        mo.copyto(load, smem, gS, barrier=(arrived, 0))                 # returns at once
        mo.mbarrier_wait(arrived, 0, 0)                                 # phase 0 ends with the last byte
        mo.copyto(store, gD, smem)
        mo.tma_store_arrive()                                           # the stores so far are a group
        mo.tma_store_wait(0)                                            # that has left shared memory


layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (64, 32))       # rows of 128 bytes, swizzled
src = np.random.default_rng(0).standard_normal((100, 44), np.float32)
dst = np.full_like(src, np.nan)
load, store = mo.make_tma_copy(mo.TmaLoad(), src, layout), mo.make_tma_copy(mo.TmaStore(), dst, layout)
report = mo.check(copy_kernel)[(2, 2), 32](load, store)
print(report.head, " equal:", np.array_equal(dst, src))

# %% [markdown]
# The array is 100 x 44, and tiles are 64 x 32. There is no predicate in the kernel: what lies outside reads as zero,
# and is not stored.
#
# `mo.make_tma_copy` is called on the host. It describes the array and how a tile lies in shared memory. `load.tensor`
# is a tensor of coordinates, so that `mo.tile` gives the coordinates of the tile, and no address.
#
# ## Phases
#
# An mbarrier counts arrivals. When all have come, and all bytes that were announced, its *phase* ends and the next
# begins. A wait names the parity of the phase: 0 for the first, 1 for the second, 0 again. A wait for the phase that is
# over passes.
#
# A ring of stages has one barrier for each. This kernel adds up the columns of its rows, with two tiles on their way.

# %%
STAGES = 2


@mo.kernel
def row_sums(out, load):
    tid = mo.thread_idx().x
    stages = mo.shared_array(load.dtype, mo.tile_to_shape(load.smem_layout, (64, 32, STAGES)))      # (64, 32, stages)
    full = mo.mbarrier_array(STAGES)
    g = mo.tile(load.tensor, (64, 32), (mo.block_idx().x, None))        # (64, 32, k)
    if tid == 0:
        for s in mo.static_range(STAGES):
            mo.mbarrier_init(full, s, 1)
        mo.fence_mbarrier_init()
        for s in mo.static_range(STAGES):                               # fill the ring
            if s < mo.size(g, 2):
                mo.mbarrier_arrive_expect_tx(full, s, load.bytes)
                mo.copyto(load, stages[:, :, s], g[:, :, s], barrier=(full, s))
    mo.sync_threads()                                                   # everybody sees the barriers
    total = mo.float32(0)
    for k in range(mo.size(g, 2)):
        stage, parity = k % STAGES, k // STAGES % 2
        mo.mbarrier_wait(full, stage, parity)                           # every thread that reads waits
        for j in mo.static_range(32):
            total += stages[tid, j, stage]
        mo.sync_threads()                                               # all have read: the stage is free
        if tid == 0 and k + STAGES < mo.size(g, 2):
            mo.mbarrier_arrive_expect_tx(full, stage, load.bytes)
            mo.copyto(load, stages[:, :, stage], g[:, :, k + STAGES], barrier=(full, stage))
    out[mo.block_idx().x * 64 + tid] = total


x = np.random.default_rng(0).standard_normal((128, 200), np.float32)
out = np.full(128, np.nan, np.float32)
load = mo.make_tma_copy(mo.TmaLoad(), x, layout)
report = mo.check(row_sums, timeline=True)[2, 64](out, load)
print(report.head, " right:", np.allclose(out, x.sum(axis=1), atol=1e-4))

# %% [markdown]
# ## What goes wrong
#
# Asynchronous code that is wrong often works, because memory was fast enough. The simulator completes copies at the
# latest moment that is legal, so that a missing wait shows. Leave out the wait:

# %%
@mo.kernel
def without_a_wait(out, load):
    tid = mo.thread_idx().x
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (64, 32)
    full = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, smem, mo.tile(load.tensor, (64, 32), (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    out[tid] = smem[tid, 0]


print(mo.check(without_a_wait)[1, 64](out[:64], load).findings[0])

# %% [markdown]
# Or announce too few bytes. On a GPU the wait then passes too early, or never:

# %%
@mo.kernel
def wrong_bytes(out, load):
    tid = mo.thread_idx().x
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (64, 32)
    full = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes // 2)
        mo.copyto(load, smem, mo.tile(load.tensor, (64, 32), (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = smem[tid, 0]


print(mo.check(wrong_bytes)[1, 64](out[:64], load).findings[0])

# %% [markdown]
# ## What is refused
#
# TMA needs strides that are multiples of 16 bytes. A row of 45 floats is none:

# %%
try:
    mo.make_tma_copy(mo.TmaLoad(), np.zeros((100, 45), np.float32), layout)
except mo.MoyeError as error:
    print(error)

# %% [markdown]
# ## What you have now
#
# * `mo.make_tma_copy` on the host; one thread copies a tile by coordinates; edges need no predicates.
# * An mbarrier counts arrivals and bytes. Expect the bytes, copy, wait for the phase.
# * The parity of a stage changes every time around the ring.
#
# **Try:** give `row_sums` four stages. Then replace `k // STAGES % 2` by `0` and read the report.
#
# [Puzzles 30 to 32](../puzzles.md) go with this chapter: `moye puzzles start 30`.
#
# [Tensor memory copies](../kernel-language.md#tensor-memory-copies-tma) has the rest: reductions, multicast, im2col,
# runs of bytes. Next: [wgmma and warp roles](09_wgmma.md).
