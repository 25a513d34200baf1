"""Data that is read between two looks at a number, and used if both find the same: seqlocks, and snapshots like them.

In: a Func; strong loads as they happen, with the values that they find; fences.  Out: finding G3 if the data may be
torn although the number is the same.

No two accesses race there, as all are strong, and the run may find what belongs together.  So it is judged what the
loads might find.  By the first look the reader must know the data that belongs to the number: whatever its writer wrote
before is ordered before the read.  And if a read finds what is written for the next number, the second look must find
that number begun: the writer has fenced between the two, and the reader between the read and the second look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.clocks import Bools
from moye.sim.checks.flag_history import Between, Location, Writer
from moye.sim.checks.global_regions import scope_of
from moye.sim.checks.signal_memory import ACQUIRES
from moye.sim.findings.finding import Reporter
from moye.sim.flow.double_looks import Twice, twices


@dataclass(slots=True)
class _Read:
    """What a thread has read since its first look."""

    op: ops.Load
    location: Location
    floor: int
    """The oldest value that it may have found."""
    fences: int


@dataclass(slots=True)
class _Reader:
    """A thread that has looked once."""

    location: Location
    value: int
    fences: int = 0
    """Its fences since then."""
    reads: dict[int, _Read] = field(default_factory=dict)


class Versions:
    """The readers of one batch, whose blocks count from ``first`` in the launch."""

    def __init__(self, func: Func, between: Between, reporter: Reporter, first: int,
                 place: Callable[[int], tuple[int, ...]]) -> None:
        self.between, self.reporter, self.first, self.place = between, reporter, first, place
        self.all = twices(func)
        self.roles: dict[int, list[Twice]] = {}
        for twice in self.all:
            for op in (twice.first, twice.last, *twice.data):
                self.roles.setdefault(id(op), []).append(twice)
        self.readers: dict[tuple[int, int, int], _Reader] = {}
        self.looks: list[tuple[Location, int, int, int, int]] = []
        """Of the load that happens: the place, the number of the value, the oldest that may be found, the block and the
        thread."""

    def fence(self, lanes: Bools) -> None:
        for (_, block, thread), reader in self.readers.items():
            reader.fences += bool(lanes[thread, block])

    def look(self, op: ops.Op, location: Location, value: int, floor: int, block: int, thread: int) -> None:
        """A thread finds a value; ``floor`` is the oldest that it might have found."""
        self.looks.append((location, value, floor, block, thread))

    def loaded(self, op: ops.Load, values: Any, newest: Any) -> None:
        """A strong load has found these values (T or 1, B or 1), where memory holds the ``newest``."""
        looks, self.looks = self.looks, []
        for location, value, floor, block, thread in looks:
            for twice in self.roles[id(op)]:
                key = id(twice), block, thread
                if op is twice.first:
                    self.readers[key] = _Reader(location, value)
                elif (reader := self.readers.get(key)) is None:
                    continue
                elif op is not twice.last:
                    reader.reads[id(op)] = _Read(op, location, floor, reader.fences)
                elif location is reader.location and value == reader.value:
                    number, most = (_one(found, block, thread) for found in (values, newest))
                    if twice.holds(number):
                        self._judge(twice, reader, block, thread, number, most)

    # --- what might have been found ----------------------------------------------------------------------------------

    def _judge(self, twice: Twice, reader: _Reader, block: int, thread: int, number: int, newest: int) -> None:
        for read in reader.reads.values():
            for fault in (self._older(twice, reader, read, block, newest),
                          self._newer(reader, read, block, thread)):
                if fault:
                    self.reporter.tell("G3", "torn", (twice.first, read.op, twice.last),
                                       block=self.place(self.first + block), threads=(thread,),
                                       tensor=read.op.ref.buffer.name, version=twice.first.ref.buffer.name,
                                       read=read.op, **{"number": number, **fault})

    def _older(self, twice: Twice, reader: _Reader, read: _Read, block: int, newest: int) -> Mapping[str, Any] | None:
        """The data of a number that both looks might have found may be missed: nothing orders it before the read."""
        numbers = reader.location
        heard = read.fences or twice.first.order in ACQUIRES
        for value in range(max(1, reader.value), numbers.latest + 1):
            number = int(numbers.values[value]) if value < numbers.latest else newest
            writer = numbers.writer[value]
            if writer is None or not twice.holds(number):
                continue
            last = max((w for w in self._by(read.location, writer) if read.location.at[w] < numbers.at[value]),
                       default=0)
            told = self._told(twice.first, numbers, value, block, read.location.writer[last])
            if read.floor < last and not (told and heard):
                return {"number": number, "may": "what was there before", "who": "writer" if heard else "reader",
                        "where": "between the data and that number" if heard else
                        "between the first look and the read"}
        return None

    def _newer(self, reader: _Reader, read: _Read, block: int, thread: int) -> Mapping[str, Any] | None:
        """The data of the next number may be found, and the second look still find this one."""
        location, numbers = read.location, reader.location
        since = numbers.at[reader.value]
        for w in range(1, location.latest + 1):
            writer = location.writer[w]
            if location.at[w] <= since or writer is None or w <= read.floor or \
                    writer[:2] == (self.first + block, thread):
                continue
            if next(self._by(numbers, writer), None) is None:
                continue                                # it does not write under these numbers
            begun = [v for v in self._by(numbers, writer) if v > reader.value and numbers.at[v] < location.at[w]]
            told = begun and self._told(read.op, location, w, block, numbers.writer[begun[-1]])
            if begun and told and (read.op.order in ACQUIRES or reader.fences > read.fences):
                return None
            mine = not (begun and told)
            return {"may": "what is written for the next number", "who": "writer" if mine else "reader",
                    "where": "between the next number and the data" if mine else "between the read and the second look"}
        return None

    @staticmethod
    def _by(location: Location, writer: Writer) -> Iterator[int]:
        """The values that a thread has written."""
        for value, who in enumerate(location.writer):
            if who is not None and who[:2] == writer[:2]:
                yield value

    def _told(self, op: ops.Load, location: Location, value: int, block: int, event: Writer | None) -> bool:
        """Whether who finds a value by an op, and acquires it, is ordered after an event."""
        if event is None:
            return True
        clock = self.between.gather(location, value, self.first + block, scope_of(op))
        return any(event[2] <= epochs[event[1]] for release in clock.values() for epochs in release.of(event[0]))


def _one(values: Any, block: int, thread: int) -> int:
    """What a thread has of values (T or 1, B or 1)."""
    rows, columns = np.shape(values)
    return int(values[thread if rows > 1 else 0, block if columns > 1 else 0])
