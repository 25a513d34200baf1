"""The waiting groups of a block that cannot go on, as data, and the sentence that tells them.

In: ``Waiter``s, each with the threads that could let it go on, and the threads that have exited.  Out: the class, a
message that names every group and follows the cycle if there is one, the program points, a hint.

It knows no barrier: whatever threads wait at makes Waiters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal as OneOf

from moye.errors import Loc
from moye.ir import ops
from moye.sim.findings.codes import clause, hint
from moye.sim.findings.wording import Crowd, bracketed, say

SHOWN = 6
"""The most groups or blocks that are told before "more"."""



@dataclass(frozen=True, slots=True)
class Waiter:
    """Threads of one block that wait at one point.

    ``needs`` are the threads that could let them go on.  ``missing`` arrivals of them are enough (0: all must come);
    ``count`` is what the barrier was told to expect.  Of an mbarrier: ``bytes`` that have not come (below 0: too many
    have), ``spent``: all who ever arrive at it have done so in this phase, ``gone``: some who could have exited,
    ``known``: ``needs`` are those who have arrived before, ``fills``: who waits wants to fill a stage that others read,
    ``left``: who of those that have arrived before have exited, ``last``: an arrival of theirs, ``skipped``: the phase
    before this one is complete, and nobody has waited for it, ``lapped``: so many more phases are complete than those
    who wait have waited for, ``again``: and who has arrived went on twice for the same phase of another barrier,
    ``unnamed``: multicasts that do not name this block would have brought the bytes, ``senders``: blocks of the cluster
    that have brought bytes in earlier phases, and wait before they send those of this one, ``early``: others have sent
    theirs before the threads that expect them have come here.
    Of a block barrier: ``role`` is the branch on one side of which it is, and on whose other side ``needs`` are.
    Of a block or named barrier: ``open``: no branch is around it, so that who has not come is only late.
    Of an operation of a warp: ``passed``: some of ``needs`` have gone past it, and wait somewhere behind.
    Of the barrier of a cluster: ``open``: who waits elsewhere would come to it next; ``others``: blocks of the cluster
    threads of which have not come.
    """

    kind: OneOf["block", "cluster", "named", "warp", "warpgroup", "mbarrier"]
    what: str
    """``named barrier 1``, ``sync_threads``, ``shuffle_xor``, ``phase 2 of full(0)``."""
    threads: tuple[int, ...]
    point: ops.Op
    needs: tuple[int, ...]
    missing: int = 0
    count: int = 0
    bytes: int = 0
    spent: bool = False
    gone: bool = False
    known: bool = False
    fills: bool = False
    left: tuple[int, ...] = ()
    last: ops.Op | None = None
    skipped: bool = False
    lapped: int = 0
    again: bool = False
    unnamed: bool = False
    senders: tuple[tuple[int, ...], ...] = ()
    early: bool = False
    role: ops.If | None = None
    open: bool = False
    passed: bool = False
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def wrong_bytes(self) -> bool:
        """Whether bytes alone keep the phase from being complete, and nobody who is late would mend it."""
        return not self.early if self.bytes < 0 else self.bytes > 0 and not self.missing and not self.senders


@dataclass(frozen=True, slots=True)
class Exited:
    """Threads that have ended; ``point`` is their ``return``, or None for the end of the kernel."""

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
        return _ring(self.waiters)

    @property
    def late(self) -> bool:
        """Whether all of the block is at the barrier of its cluster, and waits for other blocks alone."""
        return all(waiter.kind == "cluster" and waiter.others and not waiter.needs for waiter in self.waiters)

    @property
    def owed(self) -> bool:
        """Whether it waits for bytes that another block of its cluster has not sent, because it waits as well."""
        return any(waiter.senders for waiter in self.waiters)

    @property
    def code(self) -> str:
        """The class of the deadlock.

        At operations of warps alone, or where lanes have gone past one, it is C6; at the barrier of a block or cluster
        C4, or F7 inside one role; else C5, or F4 for a cycle.

        At an mbarrier it is D7 if only bytes are missing that nobody is late to send, D20 if a multicast left the block
        out, D9 if all have come and are too few, D8 if a phase was passed over, F3 if somebody left early, F5 if those
        were the readers, and F1 or D8 if somebody left because they did not wait for the others.  A thread also counts
        as gone if it waits where everybody else would come, were it not for an mbarrier.
        """
        kinds = {waiter.kind for waiter in self.waiters}
        if "warpgroup" in kinds:
            return "E6"
        if any(waiter.passed for waiter in self.waiters):
            return "C6"
        phases = [waiter for waiter in self.waiters if waiter.kind == "mbarrier"]
        if short := [waiter for waiter in phases if waiter.wrong_bytes]:
            return "D20" if all(waiter.unnamed for waiter in short) else "D7"
        if any(waiter.spent and waiter.missing for waiter in phases):
            return "D9"
        if any(waiter.skipped for waiter in phases):
            return "D8"
        blocks = [waiter for waiter in self.waiters if waiter.kind in ("block", "cluster")
                  and not (phases and waiter.open)]
        if blocks:
            return "F7" if all(waiter.role is not None for waiter in blocks) else "C4"
        if kinds == {"warp"}:
            return "C6"
        code = self._of_phases(phases) if phases else "F4" if self.cycle() else "C5"
        return "C5" if code == "F4" and self._too_few() else code

    def _too_few(self) -> bool:
        """Whether a named barrier would not open if all came who are there."""
        return any(waiter.count > self.size or waiter.missing > len(waiter.needs)
                   for waiter in self.waiters if waiter.kind == "named")

    def _of_phases(self, phases: list[Waiter]) -> str:
        """D8, F1, F3, F4 or F5."""
        through = {thread for waiter in self.waiters if waiter.open for thread in waiter.threads}
        ring = _ring([waiter for waiter in self.waiters if not waiter.open])
        left = [waiter for waiter in phases
                if (waiter.gone or not through.isdisjoint(waiter.needs)) and (waiter.known or not ring)]
        if not left:
            return "F4"
        if any(waiter.fills for waiter in left):
            return "F5"
        lapped = [waiter for waiter in left if waiter.lapped]
        return "F3" if not lapped else "D8" if any(waiter.again for waiter in lapped) else "F1"

    @property
    def hint(self) -> str | None:
        grid = self.code == "C4" and any(isinstance(waiter.point, ops.GridSync) for waiter in self.waiters)
        return hint(self.code, "grid" if grid else "deadlock")

    @property
    def told(self) -> tuple[Waiter, ...]:
        """The waiters in the order of the message: the cycle first."""
        ring = self.cycle()
        return ring + tuple(w for w in self.waiters if not any(w is other for other in ring))

    @property
    def locs(self) -> tuple[Loc, ...]:
        points = [waiter.point.loc for waiter in self.told]
        points += [waiter.last.loc for waiter in self.told if waiter.missing and waiter.last is not None]
        points += [waiter.role.loc for waiter in self.told if waiter.role is not None]
        points += [gone.point.loc for gone in self.exited if gone.point is not None]
        return tuple(dict.fromkeys(points))

    def __str__(self) -> str:
        parts = [self.sentence(waiter) for waiter in self.told[:SHOWN]]
        if len(self.told) > SHOWN:
            parts.append(_say("more_wait", {"rest": len(self.told) - SHOWN}))
        parts += [_say("have_left", {"here": Crowd(gone.threads, self.size),
                                     "point": gone.point and bracketed(gone.point)}) for gone in self.exited]
        return _say("deadlocked", {"block": self.block, "waiters": "; ".join(parts)})

    def sentence(self, waiter: Waiter) -> str:
        """``warps 0-3 wait at named barrier 1 (line 20) for 128 more arrivals, which only warps 4-7 could bring``"""
        facts = {field.name: getattr(waiter, field.name) for field in fields(waiter)} | {
            "here": Crowd(waiter.threads, self.size), "needs": Crowd(waiter.needs, self.size),
            "left": Crowd(waiter.left, self.size), "point": bracketed(waiter.point), "needed": bool(waiter.needs),
            "others": ", ".join(map(str, waiter.others[:SHOWN])), "several": len(waiter.others) > 1,
            "hidden": len(waiter.others) > SHOWN, "rest": len(waiter.others) - SHOWN,
            "senders": ", ".join(map(str, waiter.senders)), "many": len(waiter.senders) > 1}
        if waiter.kind == "mbarrier":
            return _say("waits_for_phase", facts | _phase(waiter))
        if waiter.missing:
            return _say("waits_for_arrivals", facts)
        aside = (waiter.role is not None or bool(waiter.others)) and bool(waiter.needs)
        return _say("waits_for_threads", facts | {"comma": "," if aside else ""})


def _phase(waiter: Waiter) -> dict[str, object]:
    """What a phase lacks, and who has been there."""
    lacks = [_say("lacks_arrivals", {"missing": waiter.missing, "count": waiter.count})] if waiter.missing else []
    lacks += [_say("lacks_bytes", {"bytes": waiter.bytes})] if waiter.bytes > 0 else []
    return {"lacks": " and ".join(lacks), "known": bool(waiter.missing and waiter.needs and waiter.known),
            "gone": bool(waiter.missing and waiter.left), "behind": waiter.lapped,
            "late": bool(waiter.lapped) and not waiter.skipped, "over": -waiter.bytes,
            "spare": waiter.bytes < 0 and not waiter.early}


def _say(name: str, facts: dict[str, object]) -> str:
    return say("*", clause("*", name), facts)


def _ring(waiters: Sequence[Waiter]) -> tuple[Waiter, ...]:
    """The first cycle among them."""
    edges = [[j for j, other in enumerate(waiters) if j != i and set(other.threads) & set(waiter.needs)]
             for i, waiter in enumerate(waiters)]
    for start in range(len(edges)):
        if path := _way_back(edges, start):
            return tuple(waiters[i] for i in path)
    return ()


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
