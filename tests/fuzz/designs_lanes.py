"""Designs of lanes: groups of lanes in branches of their own, masks, exchanges of half warps, votes that end loops.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _counts(n: int, most: int = 100) -> np.ndarray:
    return np.random.default_rng(n).integers(0, most, n).astype(np.int32)


def parts_of_warp(rng: random.Random) -> Design:
    """The lanes of each part of a warp take a branch of their own, and fold by shuffles that name them alone."""
    width = rng.choice([8, 16])
    mask = (1 << width) - 1
    lows = [mask << i & 0xFFFFFFFF for i in range(0, 32, width)]
    steps, each = width.bit_length() - 1, "for d in mo.static_range({})".format
    branches = "".join(f"""
    {'elif' if i else 'if'} lane < {(i + 1) * width}:
        for _ in range({i + 1}):
            {each(steps)}: v += mo.shuffle_xor(v, 1 << d, {width}, {low:#x})
""" + ("" if i else f"""
                #= names all: {each(steps)}: v += mo.shuffle_xor(v, 1 << d)
                #= a step more: {each(steps + 1)}: v += mo.shuffle_xor(v, 1 << d, 32, {low:#x})
                #= names others: {each(steps)}: v += mo.shuffle_xor(v, 1 << d, {width}, {lows[1]:#x})
""") for i, low in enumerate(lows)).replace("\n\n", "\n")
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane = mo.thread_idx().x, mo.lane_idx()
    v = x[tid]
{branches.strip(chr(10))}
    y[tid] = v
"""
    x = _counts(64)
    rows = x.reshape(-1, 32 // width, width).astype(np.int64).sum(2)
    y = np.stack([rows[:, i] * width ** i for i in range(32 // width)], 1)
    return Design(text, 1, 64, lambda: [np.full(64, -1, np.int32), x.copy()],
                  lambda _: {0: np.repeat(y.ravel(), width).astype(np.int32)})


def halves(rng: random.Random) -> Design:
    """Half warps exchange through shared memory, as often as each has to, and meet with their own mask."""
    rounds = rng.choice([(1, 2), (2, 2), (3, 1)])
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane, s = mo.thread_idx().x, mo.lane_idx(), mo.shared_array(mo.int32, 64)
    v, base = x[tid], tid // 16 * 16
    if lane < 16:
        for k in range({rounds[0]}):
            s[tid] = v
            mo.sync_warp(0xFFFF)
                #- no barrier
                #= of all: mo.sync_warp()
                #= of the others: mo.sync_warp(0xFFFF0000)
                #= of half of them: if lane < 8: mo.sync_warp(0xFF)
            v = s[base + (tid + 1) % 16] + 1
            mo.sync_warp(0xFFFF)                                #- no second barrier
    else:
        for k in range({rounds[1]}):
            s[tid] = v
            mo.sync_warp(0xFFFF0000)                            #- no third barrier
            v = s[base + (tid + 3) % 16] + 2
            mo.sync_warp(0xFFFF0000)                            #- no fourth barrier
    #+ of the other half: v = s[tid ^ 16]
    y[tid] = v
"""
    x = _counts(64)
    rows = x.reshape(2, 2, 16).copy()
    for _ in range(rounds[0]):
        rows[:, 0] = np.roll(rows[:, 0], -1, 1) + 1
    for _ in range(rounds[1]):
        rows[:, 1] = np.roll(rows[:, 1], -3, 1) + 2
    harmless = set()
    if rounds[0] == 1:
        harmless |= {"no second barrier"}
    if rounds[1] == 1:
        harmless |= {"no fourth barrier"}
    return Design(text, 1, 64, lambda: [np.full(64, -1, np.int32), x.copy()], lambda _: {0: rows.ravel()},
                  harmless=frozenset(harmless))


def until_all_done(rng: random.Random) -> Design:
    """Each lane has steps of its own; a vote of those who are there says when all are done, and some leave before."""
    few, warps = rng.random() < 0.5, rng.choice([1, 2])
    n = 32 * warps
    leave = "if x[tid] == 0: return" if few else "pass"
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    left, steps, turns = x[tid], 0, 0
    {leave}
    more = mo.vote_any(left > 0)
    while more:
        if left > 0:
            left = left - 1
            steps = steps + tid
            #+ votes inside: more = mo.vote_any(left > 0)
        turns += 1
        more = mo.vote_any(left > 0)
            #= each for itself: more = left > 0
            #= votes inside: pass
            #= a leaver's: more = mo.vote_any(mo.shuffle_idx(left, {few * 3}) > 0)
            #= of one warp: more = left > 0 if tid < 16 else mo.vote_any(left > 0)
    #+ each for itself: if turns < 3: steps = mo.shuffle_xor(steps, 1)
    y[tid] = steps + {"turns" if few else "mo.shuffle_down(turns, 1)"}        # who has left gives nothing
"""
    x = _counts(n, 6)
    x[3], x[4] = 0 if few else 1, 4
    turns = np.repeat(x.reshape(-1, 32).max(1), 32)
    y = np.where((x == 0) & few, -1, x * np.arange(n) + turns).astype(np.int32)
    harmless = set() if few else {"a leaver's"}
    return Design(text, 1, n, lambda: [np.full(n, -1, np.int32), x.copy()], lambda _: {0: y},
                  harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (parts_of_warp, halves, until_all_done)}
