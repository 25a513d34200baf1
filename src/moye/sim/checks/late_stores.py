"""Flags that several threads store: a store that comes late takes back what has been made of them since.

In: strong writes of places, as they happen.  Out: G3 (in shared memory C2) if somebody changes a value that two have
stored, after one of them, but not after the other; if somebody sets a counter back while others may still draw; or if
a thread clears a flag, waits for it, and nothing orders its store before the one that it waits for.

    if tid % 32 == 0:               # two warps; the next block waits for one of them, stores b + 2, and then the
        mo.store(turn, 0, b + 1)    # other warp may still store b + 1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from moye.dtypes import Space
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Func, Literal
from moye.sim.checks.flag_history import Between, Clock, Eye, Location, Writer
from moye.sim.checks.signal_memory import counts
from moye.sim.findings.finding import Reporter

REMEMBERED = 16
"""So many of the last writes of each place are known."""


@dataclass(slots=True)
class _Written:
    op: ops.Op
    writer: Writer
    version: int
    """Its number among the values of the place."""
    value: Any
    """None if it is not known, after an atomic."""
    alone: bool = True
    """Whether no other warp stores it by the same statement: then it is known who has stored what is found."""
    seen: bool = False
    """Whether an atomic has found it: then it is not late."""


class LateStores:
    """The last writes of all flags of a launch."""

    def __init__(self, func: Func, between: Between, reporter: Reporter,
                 place: Callable[[int], tuple[int, ...]]) -> None:
        self.func, self.between, self.reporter, self.place = func, between, reporter, place
        self._last: dict[Location, deque[_Written]] = {}
        self._drawn: dict[Location, deque[_Written]] = {}
        """The last draws of numbers of each counter since it was set back."""
        self._loose: dict[tuple[Location, int], tuple[_Written, ops.Store, Writer]] = {}
        """The stores, by place and version, that nothing orders after the store before, and that one."""

    def written(self, op: ops.Store | ops.Atomic, location: Location, writer: Writer, value: Any,
                knows: Callable[[], tuple[Eye, Clock]], twins: Sequence[Writer] = ()) -> None:
        """A thread writes a value, ``twins`` of other warps the same one by the same statement."""
        last = self._last.setdefault(location, deque(maxlen=REMEMBERED))
        if isinstance(op, ops.Atomic) and last and last[-1].alone:
            last[-1].seen = True
        if _twice(each.value for each in last if each.value != value):
            self._judge(op, location, writer, value, *knows())
        if isinstance(op, ops.Store) and last and not twins:
            self._compare(last[-1], op, location, writer, value, knows)
        last.extend(_Written(op, each, location.latest, value, alone=not twins) for each in (*twins, writer))

    def _compare(self, last: _Written, op: ops.Store, location: Location, writer: Writer, value: Any,
                 knows: Callable[[], tuple[Eye, Clock]]) -> None:
        """Keep a store that nothing orders after the last one, of another value by another warp."""
        other = isinstance(last.op, ops.Store) and last.version == location.latest - 1 and last.value != value
        if not self.between.awaited or not other or _warp(last.writer) == _warp(writer):
            return
        eye, clock = knows()
        if self.between.view(eye, clock, location) < last.version and not self.between.before(
                eye, clock, last.writer):
            self._loose[location, location.latest] = last, op, writer

    def awaited(self, op: ops.Op, location: Location, version: int, block: int, thread: int) -> None:
        """A thread that polls has found the version before, and now this one."""
        if (found := self._loose.get((location, version))) is None:
            return
        own, store, writer = found
        if own.writer[:2] != (block, thread) or not self._waits(op):
            return
        buffer, there, here = store.ref.buffer, self.place(block), self.place(writer[0])
        self.reporter.tell("C2" if buffer.space is not Space.GLOBAL else "G3", "own", (own.op, store, op), block=here,
                           threads=(thread, writer[1]), tensor=buffer.name, rival=thread, other=there, stores=own.op,
                           value=own.value)

    def _waits(self, op: ops.Op) -> bool:
        """Whether the innermost loop around a load does nothing with memory but this: else another look may end it, or
        it stores there itself in each pass."""
        around = [list(loop.body.walk()) for loop in self.func.body.walk() if isinstance(loop, (ops.Loop, ops.For))]
        inside = min((body for body in around if any(inner is op for inner in body)), key=len, default=[])
        return not any(inner is not op and isinstance(inner, (ops.Load, ops.Store, ops.Atomic, ops.MbarrierTest))
                       for inner in inside)

    def reset(self, op: ops.Store | ops.Atomic, location: Location, writer: Writer, value: Any,
              knows: Callable[[], tuple[Eye, Clock]]) -> None:
        """A thread has written a counter: if that sets it back, all who have drawn a number must have done so before.

        In another order a number would be drawn twice.  Whether somebody draws one must not depend on what others have
        drawn: of such counters (``Traffic.reset``) the results decide nothing.
        """
        last = self._drawn.setdefault(location, deque(maxlen=REMEMBERED))
        if counts(op):
            last.append(_Written(op, writer, location.latest, None))
            return
        if isinstance(op, ops.Atomic):
            value = op.value.value if op.kind == "exch" and isinstance(op.value, Literal) else None
        if value is None or value != location.values[0] or not last:
            return
        eye, clock = knows()
        found = self.between.view(eye, clock, location)
        for each in last:
            if each.version > found and _warp(each.writer) != _warp(writer) and not self.between.before(
                    eye, clock, each.writer):
                buffer, there, here = op.ref.buffer, self.place(each.writer[0]), self.place(writer[0])
                self.reporter.tell("C2" if buffer.space is not Space.GLOBAL else "G3", "reset", (each.op, op),
                                   block=here, threads=(each.writer[1], writer[1]), tensor=buffer.name,
                                   rival=each.writer[1], other=there, draws=each.op, value=value)
        last.clear()

    def _judge(self, op: ops.Store | ops.Atomic, location: Location, writer: Writer, value: Any, eye: Eye,
               clock: Clock) -> None:
        # Coherence: what a thread writes comes after what it has found, and what was found before.
        found = self.between.view(eye, clock, location)
        # A warp executes the store of its lanes at once.
        known = [(each, (each.alone and each.version <= found) or _warp(each.writer) == _warp(writer) or
                  self.between.before(eye, clock, each.writer))
                 for each in self._last[location] if each.value is not None and each.value != value]
        for each, before in known:
            # What was found is the store of one of several warps, whichever: the others may still come.
            if before or each.seen or not any((first or other.version <= found) and _same(each, other)
                                              for other, first in known):
                continue
            buffer, there, here = op.ref.buffer, self.place(each.writer[0]), self.place(writer[0])
            self.reporter.tell("C2" if buffer.space is not Space.GLOBAL else "G3", "late", (each.op, op), block=here,
                               threads=(each.writer[1], writer[1]), tensor=buffer.name, rival=each.writer[1],
                               other=there, stores=each.op, value=each.value)


def _twice(values: Iterable[Any]) -> bool:
    """Whether a value that is known is there more than once."""
    known = [value for value in values if value is not None]
    return len(set(known)) < len(known)


def twins(writers: Iterable[Writer], last: Writer) -> list[Writer]:
    """Of the threads that store one place by one statement, one of each other warp than that of the ``last``."""
    found = {_warp(writer): writer for writer in writers}
    found.pop(_warp(last), None)
    return list(found.values())


def _same(a: _Written, b: _Written) -> bool:
    return bool(a.value == b.value) and a.writer[:2] != b.writer[:2]


def _warp(writer: Writer) -> tuple[int, int]:
    return writer[0], writer[1] // WARP
