"""Words of a warp, or of a block's first warps, sorted in registers: the greatest come first.

In: ``held``, register tensors: element v of each is a part of word v of a thread, and the first parts count most.
Out: the same, sorted.  Word i is word i % each of thread i // each.

    for mask in network(32 * each):
        compare(held, mask)

A step exchanges words i and i ^ mask unless they are in order.  Two sorted runs become one if each word first meets its
mirror image; so all steps have one direction (Batcher, Sorting networks and their applications, 1968).  Neighbours lie
in a thread, then in neighbouring lanes.  For steps between warps, threads exchange their words for some that are far
apart, in shared memory, so that these steps are within a thread, too.
"""

from __future__ import annotations

import itertools
from typing import Any

import moye as mo

EACH, FEW = 8, 512
"""Words of a thread of a block at most: 16 registers, or 24; half as many where the block has up to 512 of one number,
so that two blocks of 1024 threads fit into a multiprocessor.
"""
FLYING = 4
"""Numbers on their way between lanes: their latency is hidden, and registers are few."""


def merge(run: int) -> tuple[int, ...]:
    """The masks of the steps that make one run of two halves."""
    return (run - 1, *(run >> i for i in range(2, run.bit_length())))


def network(words: int) -> tuple[int, ...]:
    """The masks of the steps that sort this power of two."""
    return tuple(itertools.chain.from_iterable(merge(2 << i) for i in range(words.bit_length() - 1)))


@mo.jit
def ahead(x, y):
    """Whether a word comes before another."""
    if len(x) == 1:
        return x[0] > y[0]
    return (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] > y[1]))


@mo.jit
def compare(held, mask):
    """One step of a warp: of words i and i ^ mask, i has the greater one if it is less than the other."""
    each = mo.size(held[0])
    if mask < each:
        within_threads(held, mask)
    else:
        between_lanes(held, mask // each, mask % each)


@mo.jit
def within_threads(held, mask):
    """A step whose words lie together."""
    for v in mo.static_range(mo.size(held[0])):
        if v < (v ^ mask):
            x, y = [part[v] for part in held], [part[v ^ mask] for part in held]
            swap = ahead(y, x)
            for i in mo.static_range(len(held)):
                most = mo.where(swap, y[i], x[i])
                held[i][v], held[i][v ^ mask] = most, x[i] ^ y[i] ^ most       # fewer instructions than two choices


@mo.jit
def between_lanes(held, lanes, mask):
    """A step whose words lie in lanes that differ by one mask, at places of theirs that differ by another."""
    first = mo.lane_idx() < (mo.lane_idx() ^ lanes)
    for places in together(mo.size(held[0]), mask, FLYING // len(held)):
        words = [[part[v] for part in held] for v in places]
        others = [[mo.shuffle_xor(part[v ^ mask], lanes) for part in held] for v in places]
        for v, x, y in zip(places, words, others, strict=True):
            taken = ahead(y, x) == first
            for i in mo.static_range(len(held)):
                held[i][v] = mo.where(taken, y[i], x[i])


def together(each: int, mask: int, count: int) -> list[list[int]]:
    """Places of a thread's words in groups of so many, in each of them pairs v and v ^ mask."""
    order = sorted(range(each), key=lambda v: min(v, v ^ mask))
    return [order[i:i + count] for i in range(0, each, count)]


# --- a block's words in shared memory --------------------------------------------------------------------------------


def padded(room: int, dtype: Any) -> Any:
    """The layout of a part of ``room`` words: neither each-th ones nor neighbours have their banks in common."""
    line = 128 // dtype.bytes
    return mo.make_layout(((line, room // line),), ((1, line + 1),))


def threads_of(room: int, numbers: int) -> int:
    """How many threads sort this power of two of words of one number or two, from 32 words on."""
    return room // each_of(room, numbers)


def each_of(room: int, numbers: int) -> int:
    """Words of a thread.  Runs of two warps have two or more of each thread, so that they are merged within threads."""
    return min(EACH // 2 if numbers == 1 and room <= FEW else EACH, room // 32)


@mo.jit
def sort(room, shared):
    """Sort the words of shared arrays (room): ``threads_of`` threads call, between two barriers of the block."""
    tid, each, threads = mo.thread_idx().x, each_of(room, len(shared)), threads_of(room, len(shared))
    held = [mo.fragment((each,), part.dtype) for part in shared]                                    # (each)
    near = [mo.composition(part, mo.make_layout((each, threads)))[:, tid] for part in shared]       # (each)
    far = [mo.composition(part, mo.make_layout((threads, each))) for part in shared]                # (threads, each)
    copy(held, near)
    sort_of_warp(held)
    run = 64 * each
    while run <= room:
        second = run // threads // 2                    # words of the second half of a run lie mirrored
        lines = [threads - 1 - tid if v & second else tid for v in range(each)]
        copy(near, held)
        mo.barrier_sync(1, threads)
        for i, v in itertools.product(range(len(held)), range(each)):
            held[i][v] = far[i][lines[v], v]
        for mask in merge(run):
            if mask >= threads:
                within_threads(held, mask // threads)
        for i, v in itertools.product(range(len(held)), range(each)):
            far[i][lines[v], v] = held[i][v]
        mo.barrier_sync(1, threads)
        copy(held, near)
        merge_in_warp(held, (threads // each).bit_length() - 1)
        run *= 2
    copy(near, held)


@mo.jit
def copy(to, of):
    """All parts of a thread's words."""
    for part, given in zip(to, of, strict=True):
        mo.copyto(part, given)


@mo.jit
def sort_of_warp(held):
    """The network of a warp, in loops: unrolled it would take longer to load than to run."""
    each = mo.size(held[0])
    for mask in network(each):
        within_threads(held, mask)
    for i in mo.range(5, unroll=1):
        between_lanes(held, (2 << i) - 1, each - 1)
        merge_in_warp(held, i)


@mo.jit
def merge_in_warp(held, steps):
    """The last steps of a merge: so many between lanes, and those within threads."""
    for i in mo.range(steps, unroll=1):
        between_lanes(held, 1 << (steps - 1 - i), 0)
    for mask in merge(2 * mo.size(held[0]))[1:]:
        within_threads(held, mask)
