"""Which keys each warp of a launch goes through: equal shares of all tiles, whatever the lengths of sequences.

In: lengths on the device.  Out: where the share of a warp begins, how many tiles it has, and what comes next.

A problem is a tile of rows of one head of keys of one sequence, and has a tile of keys at least.  Its tiles are gone
through by a team: a warp, or all warps of a block in turn (``plan.phases``).  Teams work in crews: the problems of a
sequence go ``plan.together``, as many teams of a crew each for a problem of its own, so that what lies side by side in
memory is read at one time.  The tiles of all sequences stand in a line, and crew number c has those from c * share on:
so a share may begin and end in the middle of a problem, and have several.  What a team has of a problem is a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.attention.decode.plan import LEAST


@dataclass(frozen=True, slots=True)
class Work:
    """What is the same for all warps: every sequence has so many ``problems``, which go ``together``, a crew for each.

    A tile has so many ``keys``.
    """

    lengths: Any
    queries: Any
    left: Any
    problems: Any
    crews: Any
    together: int
    keys: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The begin of what a crew has of a problem, number ``number`` of its sequence, which has tiles first up to end.

    ``left``: the tiles of the share from tile ``tile`` on.
    """

    batch: Any
    number: Any
    tile: Any
    first: Any
    end: Any
    length: Any
    left: Any

    @property
    def count(self) -> Any:
        """Tiles that the crew has of this problem."""
        return mo.min(self.end - self.tile, self.left)


@mo.jit
def tiles_of(work, batch):
    """(first tile that the queries of a sequence see, tile behind the last one, keys)."""
    length = mo.max(work.lengths[batch], 0)
    first = 0 if work.left is None else mo.max(length - work.queries - work.left, 0) // work.keys
    return first, mo.max(mo.ceil_div(length, work.keys), first + 1), length


@mo.jit
def count_of(work, batch):
    """The tiles of a sequence in the line."""
    first, end, _ = tiles_of(work, batch)
    return (end - first) * (work.problems // work.together)


@mo.jit
def share_of(work, batch=0):
    """(tiles of a share, place in the line of the first tile of sequence ``batch``, tiles of all); by each warp alone.
    """
    total, before = mo.int32(0), mo.int32(0)
    for i in mo.range(mo.lane_idx(), mo.size(work.lengths), 32):
        count = count_of(work, i)
        total += count
        before += mo.where(i < batch, count, 0)
    total, before = mo.warp_reduce(total), mo.warp_reduce(before)
    return mo.max(mo.ceil_div(total, work.crews), LEAST // work.keys), before, total


@mo.jit
def found(work, place):
    """(the sequence that has this place of the line, how far behind its first tile it lies)."""
    before, own, within = mo.int32(0), mo.int32(0), mo.int32(0)
    for first in mo.range(0, mo.size(work.lengths), 32, unroll=1):
        batch, mine = first + mo.lane_idx(), mo.int32(0)
        if batch < mo.size(work.lengths):
            mine = count_of(work, batch)
        upto = before + mo.warp_scan(mine)
        if (upto - mine <= place) & (place < upto):     # of one lane, once
            own, within = batch, place - (upto - mine)
        before = mo.shuffle_idx(upto, 31)
    return mo.warp_reduce(own), mo.warp_reduce(within)


@mo.jit
def dealt(work, team):
    """Where the share of team number ``team`` begins."""
    share, _, total = share_of(work)
    crew = team // work.together
    batch, within = found(work, crew * share)
    left = mo.where(crew < work.crews, mo.max(mo.min(total - crew * share, share), 0), 0)
    first, end, length = tiles_of(work, batch)
    number = within // (end - first) * work.together + team % work.together
    return Cursor(batch, number, first + within % (end - first), first, end, length, left)


@mo.jit
def after(work, at):
    """The cursor behind what a crew has of a problem; behind the end of the share it says nothing but that."""
    batch, number, first, end, length = at.batch, at.number + work.together, at.first, at.end, at.length
    if number >= work.problems:
        number, batch = number - work.problems, batch + 1
        if batch < mo.size(work.lengths):
            first, end, length = tiles_of(work, batch)
    return Cursor(batch, number, first, first, end, length, at.left - at.count)


@dataclass(frozen=True, slots=True)
class Parts:
    """The crews ``first`` up to ``last`` that have a part of a problem, in each of which it has team ``own``.

    A team has room for two parts: that of the problem in which its share begins, and, ``late``, of a later one.  All
    others it has whole.
    """

    first: Any
    last: Any
    own: Any
    late: Any
    together: int

    @property
    def count(self) -> Any:
        """How many parts there are."""
        return self.last - self.first + 1

    def place(self, p: Any) -> Any:
        """Where part number p lies among those of all teams."""
        return 2 * ((self.first + p) * self.together + self.own) + mo.where(p == 0, self.late, 0)


@mo.jit
def parts_of(work, share, start, batch, number):
    """The ``Parts`` of a problem of a sequence whose first tile has place ``start`` of the line."""
    first, end, _ = tiles_of(work, batch)
    begin = start + number // work.together * (end - first)
    crew = begin // share
    return Parts(crew, (begin + (end - first) - 1) // share, number % work.together,
                 mo.where(begin > crew * share, 1, 0), work.together)
