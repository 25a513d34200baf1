"""What a picture of a timeline shows: warps that do the same as one row, the first and last trips of long loops.

In: events.  Out: ``Row``s, and ``Columns``: the steps shown, with a gap where trips are left out.

    Columns(events, head=2, tail=1).shown      # (0, 1, 2, Gap(count=29, name="k_tile", ...), 1043, ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from moye.sim.timeline.events import Event


@dataclass(frozen=True, slots=True)
class Row:
    """Warps of one block that do the same, and the events of the first of them."""

    block: tuple[int, int, int]
    warps: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def label(self) -> str:
        """``warps 0-7``, ``warp 3``, ``warps 0,2``."""
        first, last = self.warps[0], self.warps[-1]
        if first == last:
            return f"warp {first}"
        whole = self.warps == tuple(range(first, last + 1))
        return f"warps {first}-{last}" if whole else f"warps {','.join(map(str, self.warps))}"


def rows(events: Sequence[Event]) -> list[Row]:
    """One row per set of warps that do the same."""
    found: dict[tuple[object, ...], tuple[list[int], tuple[Event, ...]]] = {}
    for (block, warp), group in groupby(events, key=lambda e: (e.block, e.warp)):
        mine = tuple(group)
        key = (block, *(event.alike for event in mine))
        found.setdefault(key, ([], mine))[0].append(warp)
    return [Row(mine[0].block, tuple(warps), mine) for warps, mine in found.values()]


MOST = 400
"""Columns of a picture: what is longer, such as a while loop, is cut in the middle."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps ``first`` to ``last`` are left out: ``count`` trips of the loop over ``name``, or steps where it is ""."""

    count: int
    name: str
    first: int
    last: int

    @property
    def label(self) -> str:
        """What is left out: ``29 trips of k_tile``, ``120 steps``."""
        return f"{self.count} trips of {self.name}" if self.name else f"{self.count} steps"


@dataclass(frozen=True, slots=True)
class Section:
    """Columns ``first`` to ``last`` belong to one trip of an outermost loop, or to none (label "")."""

    label: str
    first: int
    last: int


class Columns:
    """The steps of some events that are shown; of each outermost loop the first ``head`` and last ``tail`` trips."""

    def __init__(self, events: Iterable[Event], head: int, tail: int) -> None:
        trip: dict[int, tuple[str, int] | None] = {}
        for event in events:
            trip.setdefault(event.step, event.trips[0] if event.trips else None)
        self.hidden = _hidden(set(filter(None, trip.values())), head, tail)
        self.shown: tuple[int | Gap, ...] = _cut(tuple(self._columns(sorted(trip.items()))))
        self.place: dict[int, int] = {}
        for column, what in enumerate(self.shown):
            for step in (what,) if isinstance(what, int) else range(what.first, what.last + 1):
                self.place[step] = column
        self.trip = trip

    def _columns(self, steps: list[tuple[int, tuple[str, int] | None]]) -> Iterable[int | Gap]:
        for name, group in groupby(steps, key=lambda s: s[1][0] if s[1] in self.hidden and s[1] else ""):
            part = list(group)
            if name:
                yield Gap(len({trip for _, trip in part}), name, part[0][0], part[-1][0])
            else:
                yield from (step for step, _ in part)

    def visible(self, event: Event) -> bool:
        """Whether the event has a column of its own."""
        return isinstance(self.shown[self.place[event.step]], int)

    def sections(self) -> list[Section]:
        """Runs of columns of one trip, left to right; gaps stand between them."""
        found: list[Section] = []
        for column, what in enumerate(self.shown):
            trip = self.trip[what] if isinstance(what, int) else None
            label = f"{trip[0]} = {trip[1]}" if trip else ""
            if isinstance(what, int) and found and found[-1].label == label and found[-1].last == column - 1:
                found[-1] = Section(label, found[-1].first, column)
            elif isinstance(what, int):
                found.append(Section(label, column, column))
        return found


def _cut(shown: tuple[int | Gap, ...]) -> tuple[int | Gap, ...]:
    """At most MOST columns: three quarters from the beginning, the others from the end."""
    if len(shown) <= MOST:
        return shown
    begin = MOST * 3 // 4
    middle = shown[begin:begin - MOST]
    ends = [(what, what) if isinstance(what, int) else (what.first, what.last) for what in (middle[0], middle[-1])]
    return (*shown[:begin], Gap(len(middle), "", ends[0][0], ends[1][1]), *shown[begin - MOST:])


def _hidden(trips: set[tuple[str, int]], head: int, tail: int) -> set[tuple[str, int]]:
    """The trips to leave out: at least two of a loop, or none."""
    hidden: set[tuple[str, int]] = set()
    for name in {name for name, _ in trips}:
        values = sorted(value for other, value in trips if other == name)
        middle = values[head:len(values) - tail]
        if len(middle) > 1:
            hidden |= {(name, value) for value in middle}
    return hidden
