"""What a checker found, and who keeps it: ``Finding``, ``Reporter``, and coordinates for the messages.

In: proven violations.  Out: findings whose text is one sentence, the source frames with carets, and a hint; the
reporter keeps one of each (code, tensor, source lines) and counts the rest.

    coordinate_of(buffer, 35)       # of a buffer with layout (32,2):(1,32)
    # (3, 1)

Nothing here decides whether something is a violation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from moye.errors import FactError, Loc, SimulationError
from moye.ir.nodes import Buffer, Func
from moye.ir.ops import Op
from moye.layout import ComposedLayout, Layout, offsets, rank, size
from moye.layout.tuples import flatten_tuple
from moye.sim.findings.codes import CODES, clause, hint, sentence
from moye.sim.findings.wording import named, say

Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the program points (the write first), the block, the threads in the same order, the element.

    ``count``: how often it was seen (elements x threads, as far as they were told apart).
    """

    code: str
    message: str
    locs: tuple[Loc, ...]
    block: tuple[int, ...] | None
    threads: tuple[int, ...]
    tensor: str
    coordinate: Coordinate | None
    hint: str | None
    count: int = field(default=1, compare=False)

    @property
    def title(self) -> str:
        return CODES[self.code].title

    @property
    def lines(self) -> tuple[str, ...]:
        """``file:line`` of each program point."""
        return tuple(str(loc.innermost) for loc in self.locs)

    def reworded(self, name: str, case: str | None = None) -> Finding:
        """The same with the sentence in the clause of this name, and with the hint of the case if one is given."""
        message = say(self.code, clause(self.code, name), {"sentence": self.message})
        return replace(self, message=message, hint=self.hint if case is None else hint(self.code, case))

    def __str__(self) -> str:
        points = dict.fromkeys(loc for loc in self.locs if loc.frames)
        parts = [f"{self.code}: {self.message}", *(loc.render() for loc in points)]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class StopSimulation(SimulationError):
    """Ends a simulation at its first violation; ``finding`` says which."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message, finding=finding, hint=finding.hint, locs=finding.locs, code=finding.code)


class Reporter:
    """Collects the findings of one launch of ``func``; with ``stop_on_first`` the first one ends it.

    ``codes``: the classes to report, None for all.
    """

    def __init__(self, func: Func, stop_on_first: bool, codes: frozenset[str] | None = None) -> None:
        self.func = func
        self.stop_on_first = stop_on_first
        self.codes = codes
        self.findings: list[Finding] = []
        self.told = 0
        """How often one was told, those among them that are like an earlier one."""
        self.strict = False
        """Whether writes that agree are violations, too."""
        self.advice: list[Finding] = []
        """What is no violation: findings about writes that agree, arrivals that nobody waits for."""
        self._agree = False
        self.judged: set[tuple[str, Loc]] = set()
        """(tensor, place) of the accesses whose coordinates were found outside: their memory is not counted again."""
        self._places: dict[tuple[str, str, tuple[str, ...]], int] = {}

    @contextmanager
    def agreed(self, agree: bool) -> Iterator[None]:
        """Within the block findings are about writes of one value."""
        self._agree = agree
        try:
            yield
        finally:
            self._agree = False

    def tell(self, code: str, case: str, points: Sequence[Op | None], *, block: tuple[int, ...] | None = None,
             threads: tuple[int, ...] = (), tensor: str = "", coordinate: Coordinate | None = None, count: int = 1,
             mend: str | None = None, around: str | None = None, fatal: bool = False, lint: bool = False,
             **facts: Any) -> Finding:
        """One violation of a class in a case: its words are those of the table of codes, with these facts.

        ``points`` that are not known (None) are left out.  ``mend`` is the case of the hint, if it is another one;
        ``around`` is a clause that has the hint in it; ``lint`` is no violation, but for ``strict``.  Facts without
        being given: ``block``, ``thread`` (the last), ``tensor``, ``element``, ``op`` (the last point), ``count``.
        """
        known = {"block": block, "thread": threads[-1] if threads else None, "tensor": tensor, "op": points[-1],
                 "count": count, "element": "" if coordinate is None else named(tensor, coordinate)} | facts
        told = hint(code, case if mend is None else mend)
        told = None if told is None else say(code, told, known)
        if told is not None and around is not None:
            told = say(code, clause(code, around), known | {"mend": told})
        message, locs = say(code, sentence(code, case), known), tuple(op.loc for op in points if op is not None)
        found = Finding(code, message, locs, block, threads, tensor, coordinate, told, count)
        self.add(found, fatal=fatal, lint=lint)
        return found

    def add(self, finding: Finding, *, fatal: bool = False, lint: bool = False) -> None:
        """Keep the finding, unless one with the same code, tensor and source lines is there: then count it there.

        ``fatal``: the kernel cannot go on, so that its class is not asked for.
        """
        if not fatal and self.codes is not None and finding.code not in self.codes:
            return
        key = (finding.code, finding.tensor, finding.lines)
        if (self._agree or lint) and not self.strict:
            if all((known.code, known.tensor, known.lines) != key for known in self.advice):
                self.advice.append(finding if lint else finding.reworded("agreed"))
            return
        self.told += 1
        place = self._places.setdefault(key, len(self.findings))
        if place < len(self.findings):
            known = self.findings[place]
            self.findings[place] = replace(known, count=known.count + finding.count)
            return
        self.findings.append(finding)
        if self.stop_on_first:
            raise StopSimulation(finding)


def coordinate_of(buffer: Buffer, element_offset: int) -> Coordinate | None:
    """The coordinate at ``element_offset`` of the buffer, one integer a mode; None where its layout has a gap.

    ``layout(*coordinate) == element_offset``; of several coordinates the colexicographically first.
    """
    try:
        index = _inverse(buffer.layout).get(element_offset)
    except FactError:
        return None                                     # a dynamic layout: nothing to search through
    return None if index is None else _split(index, buffer.layout)


def place_of(buffer: Buffer, element_offset: int) -> dict[str, Any]:
    """The facts about an element of registers or shared memory: ``frag(3, 1)``, or ``frag[35]`` in a gap."""
    coordinate = coordinate_of(buffer, element_offset)
    shown = f"{buffer.name}[{element_offset}]" if coordinate is None else named(buffer.name, coordinate)
    return {"tensor": buffer.name, "coordinate": coordinate, "element": shown}


@dataclass(frozen=True, slots=True)
class Beyond:
    """An element outside of a tensor by the index of one mode alone, which has ``extent``."""

    coordinate: Coordinate
    mode: int
    extent: int


def coordinate_beyond(buffer: Buffer, element_offset: int) -> Beyond | None:
    """The coordinate of an element outside of the buffer, if the index of its outermost mode alone leads there.

    That is the mode with the largest stride, the stages of a pipeline: ``(5, 3)`` at offset 101 of (32,2):(1,32).
    """
    layout = buffer.layout.layout if isinstance(buffer.layout, ComposedLayout) else buffer.layout
    leaves = [(stride, extent, number) for number in range(rank(layout))
              for extent, stride in zip(flatten_tuple(layout.mode(number).shape),
                                        flatten_tuple(layout.mode(number).stride), strict=True)
              if isinstance(extent, int) and isinstance(stride, int)]
    if not leaves or len(leaves) != len(flatten_tuple(layout.shape)):
        return None
    stride, extent, outermost = max(leaves)
    if not stride or [leaf for leaf in leaves if leaf[2] == outermost][-1][0] != stride:
        return None
    outer, inner = divmod(element_offset, stride)
    coordinate, whole = coordinate_of(buffer, inner), size(layout, outermost)
    if coordinate is None or 0 <= outer < extent or not isinstance(whole, int):
        return None
    index = coordinate[outermost] + outer * (whole // extent)
    return Beyond((*coordinate[:outermost], index, *coordinate[outermost + 1:]), outermost, whole)


@functools.lru_cache(maxsize=64)
def _inverse(layout: Layout | ComposedLayout) -> dict[int, int]:
    """Offset -> index."""
    table: dict[int, int] = {}
    for index, offset in enumerate(offsets(layout)):
        table.setdefault(offset, index)
    return table


def _split(index: int, layout: Layout | ComposedLayout) -> Coordinate:
    parts = []
    for mode in range(rank(layout)):
        extent = size(layout, mode)
        if not isinstance(extent, int):
            raise TypeError(f"mode {mode} of {layout} has the dynamic extent {extent}: an inverse was made of it")
        parts.append(index % extent)
        index //= extent
    return tuple(parts)
