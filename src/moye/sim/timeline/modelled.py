"""A timeline in clocks of a simple model: what runs beside what, if units are as fast as ``effort.py`` says.

In: the ``Tape`` of a launch.  Out: ``Modelled``: when each unit is busy, for whom; a picture.

    model_of(tape).busy("tensor")       # 0.71

Each warp does its statements in its order, as soon as what it waits for has happened: copies, products, arrivals at an
mbarrier, a barrier.  A unit serves one warp after the other, first come, first served.  No clock is measured, and each
block has a multiprocessor for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from moye.errors import Loc
from moye.sim.timeline.bars import bars
from moye.sim.timeline.effort import LATENCY, Effort, Unit
from moye.sim.timeline.events import Span
from moye.sim.timeline.kinds import Kind
from moye.sim.timeline.order import Draft, drafts_of
from moye.sim.timeline.tape import Computed, Tape

ISSUE = 4
"""Clocks of a statement that asks for something and goes on."""
QUARTERS = 4
"""Tensor cores and arithmetic units of a multiprocessor; warp w uses number w % 4."""
APART = ("tensor", "math", "special")
"""Units of which there are four."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """``clocks`` from the first statement to the end of the last, and the spans in between, in the order of begin."""

    kernel: str
    clocks: float
    spans: tuple[Span, ...]

    def busy(self, unit: Unit) -> float:
        """The share of the clocks for which a unit is busy; of the four where there are four, and over all blocks."""
        blocks = len({span.block for span in self.spans})
        wide = QUARTERS if unit in APART else 1
        taken = sum(span.taken for span in self.spans if span.unit == unit)
        return taken / (self.clocks * wide * blocks) if self.spans else 0.0

    def svg(self) -> str:
        """A picture: per role of warps what is loaded, multiplied and computed, from left to right in clocks."""
        return bars(str(self), self.clocks, self.spans)

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return f"{self.kernel}: {self.clocks:,.0f} modelled clocks, tensor cores busy {self.busy('tensor'):.0%}"


def model_of(tape: Tape) -> Modelled:
    """The model's clocks of every sampled block."""
    drafts = drafts_of(tape)
    spans: list[Span] = []
    for block in tape.sampled:
        spans += _Block(tape, drafts, block).run()
    last = max((span.end for span in spans), default=0.0)
    return Modelled(tape.statements.func.name, last, tuple(sorted(spans, key=lambda s: (s.begin, s.block, s.warp))))


@dataclass(slots=True, eq=False)
class _Item:
    """Something that a warp does: an event, or arithmetic; after others (``after``, by identity)."""

    warp: int
    step: int
    efforts: tuple[Effort, ...]
    loc: Loc
    kind: Kind | None = None
    order: int | None = None
    stage: int | None = None
    goes_on: bool = False
    after: list[_Item] = field(default_factory=list)
    ended: list[_Item] = field(default_factory=list)
    """What ends here: it must be over, and not only begun."""
    begun: float | None = None
    over: float = 0.0


class _Block:
    """One block: the items of its warps, and the clocks that they get."""

    def __init__(self, tape: Tape, drafts: Sequence[Draft], block: int) -> None:
        self.block = block
        self.streams: dict[int, list[_Item]] = defaultdict(list)
        self.items = {index: _of_draft(index, draft) for index, draft in enumerate(drafts) if draft.block == block}
        mine = {index: drafts[index] for index in self.items}
        for item in self.items.values():
            self.streams[item.warp].append(item)
        for computed in tape.computed:
            for item in _of_sum(computed, block):
                self.streams[item.warp].append(item)
        for stream in self.streams.values():
            stream.sort(key=lambda item: (item.step, item.kind is not None))
        for index, draft in mine.items():
            self.items[index].ended = [self.items[c] for c in draft.completes if c in self.items]
        self._barriers(mine)
        _phases(self.items, mine)
        self.clock: dict[int, float] = defaultdict(float)
        self.free: dict[tuple[Unit, int], float] = defaultdict(float)

    # --- who waits for whom ------------------------------------------------------------------------------------------

    def _barriers(self, drafts: dict[int, Draft]) -> None:
        """What stands behind a barrier comes after the arrivals of its round that the run had seen by then."""
        behind = {id(item): following for stream in self.streams.values() for item, following in pairwise(stream)}
        rounds: dict[object, tuple[list[_Item], int]] = {}
        for index, draft in _in_order(drafts):
            barrier, item = draft.note.statement.barrier, self.items[index]
            if barrier is None:
                continue
            key = barrier.which, barrier.threads, barrier.number
            members, count = rounds.get(key, ([], 0))
            if count >= barrier.threads:
                members, count = [], 0
            members.append(item)
            rounds[key] = members, count + draft.bits.bit_count()
            if barrier.waits and id(item) in behind:
                behind[id(item)].after = members
        for stream in self.streams.values():
            for item in stream:
                item.after = [other for other in item.after if other.step < item.step]

    # --- time --------------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[Span]:
        """The earliest statement that can begin is next, until there is none."""
        waiting = {warp: iter(stream) for warp, stream in self.streams.items()}
        heads = {warp: next(stream) for warp, stream in waiting.items()}
        while heads:
            starts = [(start, item.step, warp) for warp, item in heads.items()
                      if (start := self._start(item)) is not None]
            assert starts, "the order of the run is one in which nobody waits for what comes later"
            start, _, warp = min(starts)
            yield from self._do(heads[warp], start)
            following = next(waiting[warp], None)
            if following is None:
                del heads[warp]
            else:
                heads[warp] = following

    def _start(self, item: _Item) -> float | None:
        """When an item can begin; None while that is not known."""
        at = self.clock[item.warp]
        for other in item.after:
            if other.begun is None:
                return None
            at = max(at, other.begun)
        for other in item.ended:
            if other.begun is None:
                return None
            at = max(at, other.over)
        return at

    def _do(self, item: _Item, start: float) -> Iterator[Span]:
        item.begun = item.over = until = start
        for effort in item.efforts:
            key = effort.unit, item.warp % QUARTERS if effort.unit in APART else 0
            begin = max(start, self.free[key])
            end = self.free[key] = begin + effort.clocks
            until = max(until, end)
            item.over = max(item.over, end + (LATENCY if effort.unit == "memory" else 0))
            there = item.over if item.goes_on else end
            yield Span(self.block, item.warp, effort.unit, begin, there, effort.clocks, item.loc, item.order,
                       item.stage)
        if item.goes_on or item.kind in ("store", "arrive", "commit"):
            until = start + ISSUE
        elif item.kind in ("copy", "load"):
            until = item.over
        self.clock[item.warp] = until


def _in_order(drafts: dict[int, Draft]) -> list[tuple[int, Draft]]:
    """In the order of the run."""
    return sorted(drafts.items(), key=lambda pair: (pair[1].note.step, pair[0]))


def _of_draft(index: int, draft: Draft) -> _Item:
    statement = draft.note.statement
    stages = draft.note.stages
    stage = stages[draft.sample][draft.warp] if isinstance(stages, tuple) else stages
    return _Item(draft.warp, draft.note.step, statement.efforts, statement.loc, statement.kind, index, stage,
                 statement.goes_on)


def _of_sum(computed: Computed, block: int) -> Iterator[_Item]:
    if block in computed.blocks:
        for warp, bits in enumerate(computed.lanes[computed.blocks.index(block)]):
            if bits:
                yield _Item(warp, computed.step, computed.sum.efforts, computed.sum.loc)


def _phases(items: dict[int, _Item], drafts: dict[int, Draft]) -> None:
    """A wait for a phase comes after the arrivals that the run saw before it, and the end of the phase's loads."""
    loads: dict[object, list[_Item]] = defaultdict(list)
    arrivals: dict[tuple[int, int | None], list[_Item]] = defaultdict(list)
    seen: dict[tuple[int, int, int | None], int] = defaultdict(int)
    for index, draft in _in_order(drafts):
        item, statement, place = items[index], draft.note.statement, draft.note.statement.place
        if statement.kind == "tma":
            for mark in draft.marks:
                loads[mark.mbarrier, mark.phase].append(item)
        elif statement.kind == "arrive" and place is not None:
            arrivals[place.buffer.id, item.stage].append(item)
        elif statement.kind == "wait" and draft.marks and place is not None:
            key = place.buffer.id, item.stage
            known = arrivals[key]
            item.after = [*item.after, *known[seen[draft.warp, *key]:]]
            seen[draft.warp, *key] = len(known)
            item.ended = [*item.ended, *_unique(load for mark in draft.marks
                                                for load in loads[mark.mbarrier, mark.phase])]


def _unique(items: Iterable[_Item]) -> list[_Item]:
    return list({id(item): item for item in items}.values())
