"""Tiles that several blocks have shares of (stream-K): who ends one leaves its sums in memory, who began it adds them.

In: the sums of a share of a tile's k tiles, a unit of ``mo.StreamKScheduler``.  Out: these in memory, or those of all.

    if unit.finishes: take_up(plan, memory, acc, unit)      # and store
    else: leave(plan, memory, acc, unit)

A block begins with the end of a tile and ends with the beginning of another, so that hardly any has to wait.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP
from moye.kernels.gemm.sm90.epilogue import GATHERING, meet

_AT_ONCE = 4
"""Loads of 16 bytes that a thread waits for together: registers beside the sums."""


@mo.jit
def leave(plan, memory, acc, unit):
    """The sums to the slot of this block, then its flag."""
    tid, (parts, flags) = of_tile(plan), memory
    slot = slot_of(plan, unit.block)
    mo.copyto(quads(plan, parts, acc, slot)[:, tid, :], acc.with_layout(mo.make_layout((4, mo.size(acc) // 4))))
    together(plan)
    if tid == 0:
        mo.store(flags, slot, 1, order="release")


@mo.jit
def take_up(plan, memory, acc, unit):
    """acc plus the sums of all other blocks that have shares of its tile, in one order, so that results repeat."""
    tid, (parts, flags) = of_tile(plan), memory
    first, last = unit.peers
    mine = acc.with_layout(mo.make_layout((4, mo.size(acc) // 4)))
    count = mo.size(mine, 1)
    for peer in mo.range(first, last, unroll=1):
        slot = slot_of(plan, peer)
        if tid == 0:
            while mo.load(flags, slot, order="acquire") == 0:
                pass
            flags[slot] = 0                                             # for the next launch
        together(plan)
        theirs = quads(plan, parts, acc, slot)
        for begin in mo.static_range(0, count, _AT_ONCE):
            some = min(_AT_ONCE, count - begin)
            part = mo.fragment((4, some), parts.dtype)
            for i in mo.static_range(some):
                mo.copyto(part[:, i], theirs[:, tid, begin + i])
            for i in mo.static_range(some):
                mine[:, begin + i] = mine[:, begin + i] + part[:, i]


@mo.jit
def quads(plan, parts, acc, slot):
    """The sums in a slot (4, threads, sums / 4): four at a time beside those of other threads."""
    return parts[:, slot].with_layout(mo.make_layout((4, threads_of(plan), mo.size(acc) // 4)))


@mo.jit
def slot_of(plan, block):
    """Blocks of a cluster have a number together."""
    return block if plan.config.cluster == 1 else block * plan.config.cluster + mo.cluster_rank()


@mo.jit
def threads_of(plan):
    """Threads that share a tile."""
    return GROUP if plan.in_turns else plan.config.groups * GROUP


@mo.jit
def of_tile(plan):
    """Which of them this one is."""
    return mo.thread_idx().x % threads_of(plan)


@mo.jit
def together(plan):
    """The threads that share a tile meet."""
    if plan.in_turns:
        meet(False, mo.warpgroup_idx())
    else:
        mo.barrier_sync(GATHERING, threads_of(plan))
