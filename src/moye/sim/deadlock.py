"""Who waits for whom in a block that cannot go on: the groups as data, and the sentence that tells them.

In: ``Waiter``s, each with the threads that could let it go on, and the threads that have exited.  Out: the class, a
message that names every group and follows the cycle if there is one, the program points, a hint.

It knows no barrier: whatever threads wait at makes Waiters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from moye.errors import Loc
from moye.ir import ops
from moye.sim.checkers.words import bracketed, crowd, several

SHOWN = 6
"""How many groups are told before "more"."""

HINTS = {
    "C4": "let every thread of the block reach sync_threads, or use barrier_sync(id, count) among some of them",
    "C5": "count the threads that arrive and those that wait at the barrier, and no others",
    "C6": "let every lane of the mask reach it",
    "F4": "one of them must arrive before it waits",
}


@dataclass(frozen=True, slots=True)
class Waiter:
    """Threads of one block that wait at one point.

    ``needs`` are the threads that could let them go on.  ``missing`` arrivals of them are enough (0: all must come);
    ``count`` is what the barrier was told to expect.
    """

    kind: OneOf["block", "named", "warp"]
    what: str
    """``named barrier 1``, ``sync_threads``, ``shuffle_xor``."""
    threads: tuple[int, ...]
    point: ops.Op
    needs: tuple[int, ...]
    missing: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Exited:
    """Threads that are through; ``point`` is their ``return``, None for the end of the kernel."""

    threads: tuple[int, ...]
    point: ops.Op | None


@dataclass(frozen=True, slots=True)
class Deadlock:
    """One block none of whose threads can move."""

    block: tuple[int, ...]
    size: int
    waiters: tuple[Waiter, ...]
    exited: tuple[Exited, ...] = ()

    def cycle(self) -> tuple[Waiter, ...]:
        """Waiters each of which needs threads of the next, and the last of the first; empty if there are none."""
        edges = [[j for j, other in enumerate(self.waiters) if j != i and set(other.threads) & set(waiter.needs)]
                 for i, waiter in enumerate(self.waiters)]
        for start in range(len(edges)):
            if path := _way_back(edges, start):
                return tuple(self.waiters[i] for i in path)
        return ()

    @property
    def code(self) -> str:
        """The class: of a block barrier C4, of warps alone C6, else C5 if a count cannot be met, F4 if it could."""
        kinds = {waiter.kind for waiter in self.waiters}
        if "block" in kinds:
            return "C4"
        if kinds == {"warp"}:
            return "C6"
        named = [waiter for waiter in self.waiters if waiter.kind == "named"]
        if any(waiter.count > self.size or waiter.missing > len(waiter.needs) for waiter in named):
            return "C5"
        return "F4" if self.cycle() else "C5"

    @property
    def hint(self) -> str:
        return HINTS[self.code]

    @property
    def told(self) -> tuple[Waiter, ...]:
        """The waiters in the order of the message: the cycle first."""
        ring = self.cycle()
        return ring + tuple(w for w in self.waiters if not any(w is other for other in ring))

    @property
    def locs(self) -> tuple[Loc, ...]:
        points = [waiter.point.loc for waiter in self.told]
        points += [gone.point.loc for gone in self.exited if gone.point is not None]
        return tuple(dict.fromkeys(points))

    def __str__(self) -> str:
        parts = [self.sentence(waiter) for waiter in self.told[:SHOWN]]
        if len(self.told) > SHOWN:
            parts.append(f"{len(self.told) - SHOWN} more groups wait")
        parts += [self._left(gone) for gone in self.exited]
        return f"block {self.block} is deadlocked: {'; '.join(parts)}"

    def sentence(self, waiter: Waiter) -> str:
        """``warps 0-3 wait at named barrier 1 (line 20) for 128 more arrivals, which only warps 4-7 could bring``"""
        verb = "wait" if several(waiter.threads, self.size) else "waits"
        head = f"{crowd(waiter.threads, self.size)} {verb} at {waiter.what}{bracketed(waiter.point)}"
        if waiter.missing:
            more = f"{waiter.missing} more arrival{'s' if waiter.missing > 1 else ''}"
            if not waiter.needs:
                return f"{head} for {more}, and no other thread is left to bring them"
            return f"{head} for {more}, which only {crowd(waiter.needs, self.size)} could bring"
        return f"{head} for {crowd(waiter.needs, self.size)}" if waiter.needs else head

    def _left(self, gone: Exited) -> str:
        have = "have" if several(gone.threads, self.size) else "has"
        how = "come to the end of the kernel" if gone.point is None else f"returned{bracketed(gone.point)}"
        return f"{crowd(gone.threads, self.size)} {have} {how}"


def _way_back(edges: list[list[int]], start: int) -> list[int]:
    """The shortest path from ``start`` to itself, without its second mention."""
    paths, seen = [[start]], {start}
    while paths:
        path = paths.pop(0)
        for step in edges[path[-1]]:
            if step == start:
                return path
            if step not in seen:
                seen.add(step)
                paths.append([*path, step])
    return []
