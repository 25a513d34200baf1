# %% [markdown]
# # 4. Races, and how they are found
#
# The warps of a block run in any order. If one writes what another one reads, and nothing orders the two, the result
# depends on luck. That is a *race*. In Triton you rarely meet one, because the compiler places the barriers. Here you
# place them, so you need to know when one is missing. On a GPU the wrong kernel often gives the right result, until it
# does not.

# %%
import numpy as np

import moye as mo


@mo.kernel
def reverse(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    staged[tid] = x[tid]
    x[tid] = staged[255 - tid]


x = np.arange(256, dtype=np.float32)
report = mo.check(reverse)[1, 256](x)
print(report.details()[0])

# %% [markdown]
# Read the report from the top. `C1` is the class of the defect. The sentence says who did what, to which element, and
# what is missing. Then both lines of the kernel, and a hint. Nothing was guessed: the simulator knows for every element
# who wrote it last, and which barriers that thread and the reader have passed since.
#
# A plain launch finds it, too. The first violation is raised as an error.

# %%
try:
    reverse[1, 256](np.arange(256, dtype=np.float32))
except mo.SimulationError as error:
    print(error.finding.code, error.finding.title)

# %% [markdown]
# ## The barrier that mends it

# %%
@mo.kernel
def reverse_right(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    staged[tid] = x[tid]
    mo.sync_threads()
    x[tid] = staged[255 - tid]


report = mo.check(reverse_right)[1, 256](x)
print(report.head)

# %% [markdown]
# *Clean for this launch* means: with these arguments and this grid, no two accesses race, in whatever order the threads
# run. It is not a test that passed by luck.
#
# ## The other half
#
# One barrier is not enough in a loop. Here each round writes the buffer again, while slow threads may still read the
# last round.

# %%
@mo.kernel
def rounds(out, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    total = mo.float32(0)
    for i in range(mo.size(x, 1)):
        staged[tid] = x[tid, i]
        mo.sync_threads()
        total += staged[255 - tid]
    out[tid] = total


x = np.asfortranarray(np.random.default_rng(0).standard_normal((256, 4), np.float32))
out = np.empty(256, np.float32)
report = mo.check(rounds)[1, 256](out, x)
print(report.details()[0])

# %% [markdown]
# `C2` is the mirror of `C1`: written while another thread may still read. Two things mend it: a second barrier at the
# end of the loop, or a second buffer, used in turns. The second way has a name, double buffering, and a chapter of its
# own.
#
# ## Barriers of one warp
#
# Threads of a warp do not run in lockstep on today's GPUs. Code that relies on it is wrong, and the checker says so.
# But when only one warp uses the data, `mo.sync_warp()` is enough and cheaper.

# %%
@mo.kernel
def pairs(x):
    lane = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 32)
    staged[lane] = x[lane]
    mo.sync_warp()
    x[lane] = staged[lane ^ 1]


print(mo.check(pairs)[1, 32](np.arange(32, dtype=np.float32)).head)

# %% [markdown]
# ## What else is found
#
# Shared memory begins *poisoned*. Reading what nobody wrote is a finding of its own, and so are reads out of bounds:

# %%
@mo.kernel
def shifted(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    if tid < 200:
        staged[tid] = x[tid]
    mo.sync_threads()
    x[tid] = staged[tid]


print(mo.check(shifted)[1, 256](np.arange(256, dtype=np.float32)).details()[0])

# %% [markdown]
# A barrier is for all threads of the block. If some skip it, the others wait for them:

# %%
@mo.kernel
def some_wait(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 256)
    if tid < 200:
        staged[tid] = x[tid]
        mo.sync_threads()
        x[tid] = staged[199 - tid]


print(mo.check(some_wait)[1, 256](np.arange(256, dtype=np.float32)).details()[0])

# %% [markdown]
# ## Between blocks
#
# Blocks have no barrier in common. If all add to one number, reading, adding and writing are three steps, and another
# block may come between them:

# %%
@mo.kernel
def sums(out, x):
    tid = mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, 4)                    # a number for each warp
    total = mo.block_reduce(x[mo.block_idx().x * 128 + tid], scratch)
    if tid == 0:
        out[0] += total


print(mo.check(sums)[4, 128](np.zeros(1, np.float32), np.ones(512, np.float32)).details()[0])

# %% [markdown]
# `mo.atomic_add(out, 0, total)` does the three steps as one.

# %%
@mo.kernel
def sums_right(out, x):
    tid = mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, 4)
    total = mo.block_reduce(x[mo.block_idx().x * 128 + tid], scratch)
    if tid == 0:
        mo.atomic_add(out, 0, total)


total = np.zeros(1, np.float32)
print(mo.check(sums_right)[4, 128](total, np.ones(512, np.float32)).head, total)

# %% [markdown]
# [The checker's page](../checker.md) has each class of defect, with a kernel that has it and the line that mends it.
#
# ## In your own tests
#
# `pytest --moye-check` checks every launch of your tests. `moye check script.py` does so for a script that you do not
# want to change. `moye explain C1` tells more about a code.
#
# ## What you have now
#
# * Between a write and a read by another thread there must be a barrier. Between that read and the next write, too.
# * `mo.check(kernel)[grid, threads](...)` returns a report; `report.ok` is true if nothing was found.
# * A barrier is for all threads of a block. Blocks have none; they have atomics.
# * Codes name the classes: C1 and C2 are races in shared memory, B6 reads what nobody wrote.
#
# **Try:** mend `rounds` once with a barrier and once with two buffers, `staged = mo.shared_array(mo.float32, (256,
# 2))`. Count barriers.
#
# [Puzzles 15 to 18](../puzzles.md) go with this chapter: `moye puzzles start 15`.

# %%
@mo.kernel
def rounds_with_two_buffers(out, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, (256, 2))
    total = mo.float32(0)
    for i in range(mo.size(x, 1)):
        staged[tid, i % 2] = x[tid, i]
        mo.sync_threads()
        total += staged[255 - tid, i % 2]
    out[tid] = total


report = mo.check(rounds_with_two_buffers)[1, 256](out, x)
print(report.head, np.allclose(out, x[::-1].sum(axis=1), atol=1e-6))

# %% [markdown]
# Why is one barrier per round enough now? A thread can be at most one barrier ahead, and one round ahead it writes the
# other buffer.
#
# Next: a real kernel, step by step: [an SGEMM in ten steps](05_sgemm.md).
