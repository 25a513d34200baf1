"""Class B8: a predicated-off copy leaves the previous tile's data, and the kernel uses it.

In: a checked launch of a kernel with predicated copies that fill nothing in, or stores under a condition.  Out: a
finding, if the outputs depend on what such a statement has left.

The first run notes where a statement is off at an element that it wrote before and nothing since, and whether anybody
reads such an element before it is written. Only then the launch is run again, from the arguments as they were, with
other finite values in those elements: an output that changes was made from stale data. What is kept on purpose is not:
a condition that does not bound an index (guards.py) counts only where there was nothing to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, TensorParam, TileRef
from moye.ir.traits import Trait
from moye.sim.checks.global_regions import ATOMIC, SHARE, SPARE, WRITE, accesses
from moye.sim.findings.finding import Reporter, place_of
from moye.sim.findings.wording import named
from moye.sim.flow.guards import fixed, guards, is_ragged, loops_of
from moye.sim.flow.once import once_per_func
from moye.sim.values.leftovers import Leftovers
from moye.sim.values.masks import Mask, minus
from moye.sim.values.memory import Array, Fragment, Shared, TensorArg

CHUNK = 1 << 24
FRESH = -1
"""This stands for an owner while somebody writes the element."""


@dataclass(slots=True)
class Left:
    """The first element that a copy has left as it was."""

    op: ops.Copy | ops.Store
    thread: int
    block: tuple[int, ...]
    element: int
    count: int


@dataclass(frozen=True, slots=True)
class Statements:
    """What may leave something: by the id of each operation the number of its statement, what those write, and
    whether the predicate of a copy bounds an index."""

    numbers: dict[int, int]
    buffers: frozenset[int]
    bounds: dict[int, bool | None]


class Stale:
    """The copies to watch in one run; ``chosen`` (None: none) are those whose leftovers get other values."""

    def __init__(self, func: Func, chosen: frozenset[int] | None = None) -> None:
        self.chosen = chosen
        self.left: dict[int, Left] = {}
        self.shared: list[Leftovers] = []
        """What is left in shared memory; in registers it counts as read."""
        self.beyond: dict[tuple[int, object], Array] = {}
        """By buffer and statement the lanes whose indices name no element, (T or 1, B or 1), when it came last."""
        self._kept = False
        found = _statements(func)
        self.numbers, self.buffers, self._bounds = found.numbers, found.buffers, found.bounds

    @property
    def used(self) -> bool:
        """Whether anybody may have read what was left."""
        return self._kept or any(leftovers.read for leftovers in self.shared)

    def ragged(self, op: ops.Copy) -> bool:
        """Whether the predicate of a copy bounds an index."""
        return bool(self._bounds.get(id(op)))

    def within(self, op: ops.Copy, mask: Mask) -> Mask:
        """The lanes of the mask whose indices name an element: others would be counted as elements of the next row."""
        beyond = self.beyond.get((target_of(op).id, op.loc))
        return mask if beyond is None else minus(mask, beyond)

    def note(self, op: ops.Copy | ops.Store, memory: Shared | Fragment, rows: Array, wrong: Array, threads: int,
             block_ids: Array) -> None:
        """The lanes ``wrong`` leave the elements ``rows`` as they were; both are (V, T or 1, B or 1)."""
        number, shape = self.numbers[id(op)], (len(rows), threads, len(block_ids))
        if number not in self.left:
            v, t, b = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            element = int(np.broadcast_to(rows, shape)[v, t, b])
            self.left[number] = Left(op, t, tuple(int(i) for i in block_ids[b]), element, 0)
        self.left[number].count += int(np.count_nonzero(wrong)) * (math.prod(shape) // wrong.size)
        if isinstance(memory, Shared) and memory.left is not None:
            memory.left.note(rows, wrong)
        else:
            self._kept = True
        if self.chosen is not None and number in self.chosen:
            wrong = np.broadcast_to(wrong, shape)
            _, thread, block = np.nonzero(wrong)
            row = np.broadcast_to(rows, shape)[wrong]
            at = (row, block) if isinstance(memory, Shared) else (row, thread, block)
            memory.data[at] = _other(memory.data[at])

    def skipped(self, op: ops.Copy | ops.Store, memory: Shared | Fragment, rows: Array, mask: Mask, ragged: bool,
                outside: Callable[[], Array], threads: int, block_ids: Array) -> None:
        """The lanes of the mask do not write ``rows`` (V, T or 1, B or 1); ``outside``: there is nothing to read."""
        if memory.owner is None or mask is False:
            return
        wrong = (memory.owner.of(rows) == self.numbers[id(op)]) & _there(memory, rows)
        if mask is not None:
            wrong = wrong & np.asarray(mask)
        wrong = _used(memory, rows, wrong)
        if not ragged and wrong.any():
            wrong = wrong & outside()
        if wrong.any():
            self.note(op, memory, rows, wrong, threads, block_ids)

    def wrote(self, op: ops.Store, memory: Shared, rows: Array, mask: Mask) -> None:
        """The lanes of the mask have stored to ``rows``."""
        if mask is not False:
            _own(memory, rows, None if mask is None else np.asarray(mask), self.numbers[id(op)])

    def copied(self, op: ops.Copy, memory: Shared | Fragment, rows: Array, on: Mask, mask: Mask,
               outside: Callable[[], Array], threads: int, block_ids: Array) -> None:
        """A copy to the elements ``rows`` (V, T or 1, B or 1) runs in the lanes ``on`` out of ``mask``."""
        owner, number, mask = memory.owner, self.numbers[id(op)], self.within(op, mask)
        if owner is None:
            return
        if on is None or (on is not False and bool(np.all(on))):
            _own(memory, rows, None, number)
            return
        shape, here = (len(rows), threads, len(block_ids)), np.asarray(on)
        before = owner.of(rows)
        owner.put(rows, here, FRESH)                    # what no other lane writes now
        wrong = ~here & (before == number) & (owner.of(rows) == number) & _there(memory, rows)
        if mask is not None:
            wrong = wrong & np.asarray(mask)
        wrong = _used(memory, rows, wrong)
        if wrong.any():
            bounds = self._bounds[id(op)]
            some = bounds if bounds is not None else np.broadcast_to(here, shape).any(axis=(0, 1))
            wrong = wrong & (some | outside())
        if wrong.any():
            self.note(op, memory, rows, wrong, threads, block_ids)
        _own(memory, rows, here, number)


def _own(memory: Shared | Fragment, rows: Array, lanes: Array | None, number: int) -> None:
    """The lanes have written the elements ``rows`` (V, T or 1, B or 1); None means all lanes."""
    if memory.owner is not None:
        memory.owner.put(rows, lanes, number)
    if isinstance(memory, Shared) and memory.left is not None:
        memory.left.clear(rows, lanes)


def _there(memory: Shared | Fragment, rows: Array) -> Array:
    """Where rows are elements: a lane that is off may be anywhere."""
    there: Array = (rows >= 0) & (rows < len(memory.data))
    return there


def _used(memory: Shared | Fragment, rows: Array, wrong: Array) -> Array:
    """The elements of ``wrong`` that have been read since they were written."""
    return wrong & memory.left.used(rows) if isinstance(memory, Shared) and memory.left is not None and wrong.any() \
        else wrong


@once_per_func
def _statements(func: Func) -> Statements:
    keys: dict[tuple[object, int], list[ops.Copy | ops.Store]] = {}
    looped: set[int] = set()
    for op, inside in _walk(func.body, False):
        if isinstance(op, ops.Copy) and _keeps(op):
            keys.setdefault((op.loc, op.dst.buffer.id), []).append(op)
            if inside:
                looped.add(id(op))
    loops = loops_of(func)
    keys = {key: same for key, same in keys.items() if not _alike(same, loops)}
    for guard in (guard for several in guards(func).values() for guard in several):
        for op in (target.op for target in guard.targets):
            same = keys.setdefault((op.loc, target_of(op).id), [])
            looped.add(id(op))
            if op not in same:
                same.append(op)
    several = [same for same in keys.values() if len(same) > 1 or id(same[0]) in looped]
    return Statements({id(op): number for number, same in enumerate(several, 1) for op in same},
                      frozenset(target_of(same[0]).id for same in several),
                      {id(op): _bounds(op, loops) for same in several for op in same if isinstance(op, ops.Copy)})


def target_of(op: ops.Copy | ops.Store) -> Buffer:
    """What a statement writes."""
    return op.dst.buffer if isinstance(op, ops.Copy) else op.ref.buffer


def _bounds(op: ops.Copy, loops: dict[int, ops.For]) -> bool | None:
    """Whether the predicate of a copy bounds an index.  It is False if the leftovers are kept on purpose, None if it is
    not known."""
    if op.pred is None or isinstance(op.pred, TileRef):
        return None
    found = is_ragged(op.pred, loops)
    return False if found is None else found or None


def _alike(same: Sequence[ops.Copy | ops.Store], loops: dict[int, ops.For]) -> bool:
    """Whether copies are off for the same threads in every pass, which have never written what lies there."""
    preds = [op.pred for op in same if isinstance(op, ops.Copy)]
    kinds = {None if pred is None or isinstance(pred, TileRef) else fixed(pred, loops) for pred in preds}
    return len(kinds) == 1 and None not in kinds


def _walk(block: Block, inside: bool) -> Iterator[tuple[ops.Op, bool]]:
    for op in block:
        yield op, inside
        for inner in op.blocks():
            yield from _walk(inner, inside or Trait.LOOP in op.traits)


def _keeps(op: ops.Copy) -> bool:
    """Whether a copy from global memory leaves something as it was where its predicate is false."""
    return (op.pred is not None and not op.zero_fill and op.src.buffer.space is Space.GLOBAL
            and op.dst.buffer.space in (Space.SHARED, Space.REGISTER) and op.dst.dtype.bits == op.dst.buffer.dtype.bits
            and op.dst.dtype.bits >= 8)


def _other(values: Array) -> Array:
    """Other finite values."""
    if values.dtype.kind not in "fV":
        return values ^ 1 if values.dtype.kind in "iu" else ~values
    wide = values.astype(np.float64)
    other = (4 * np.abs(wide) + 3).astype(values.dtype)
    usable = np.isfinite(other.astype(np.float64)) & (other != values)
    return np.where(usable, other, values.dtype.type(0))


class Again:
    """The second run of a launch, if it needs one.  Made before the first run, because it needs the arguments."""

    def __init__(self, func: Func, arguments: Sequence[Any], memory: Callable[[Buffer], Any]) -> None:
        self.func, self.memory = func, memory
        self.stale = Stale(func)
        written = {buffer.id for _, buffer, kind, _ in accesses(func) if kind in (WRITE, ATOMIC)}
        self.outputs: list[tuple[Buffer, TensorArg]] = [
            (param.buffer, argument) for param, argument in zip(func.params, arguments, strict=True)
            if isinstance(param, TensorParam) and isinstance(argument, TensorArg) and param.buffer.id in written]
        self.bytes = sum(argument.memory.nbytes for _, argument in self.outputs) if self.stale.numbers else 0
        self.unsupported: list[str] = []
        self.before: list[Array] = []
        if self.bytes * (2 - SHARE) > SPARE:
            self.unsupported = [f"whether data that a predicated copy leaves behind is used: {self.bytes} bytes of "
                                "outputs are too many to run the kernel twice"]
            self.stale, self.bytes = Stale(Func("", [], Block(), (1, 1, 1))), 0
        elif self.stale.numbers:
            self.before = [argument.memory.copy() for _, argument in self.outputs]

    def judge(self, run: Callable[[Stale], None], reporter: Reporter) -> None:
        """Run the launch with other leftovers, and report the copies whose leftovers the outputs depend on."""
        if not self.stale.left or not self.stale.used:
            return
        first = [argument.memory.copy() for _, argument in self.outputs]
        try:
            noted = sorted(self.stale.left)
            changed = self._changed(run, frozenset(noted), first)
            for number in noted if changed is not None else ():
                alone = changed if len(noted) == 1 else self._changed(run, frozenset({number}), first)
                if alone is not None:
                    self._report(self.stale.left[number], alone, reporter)
        finally:
            for (_, argument), kept in zip(self.outputs, first, strict=True):
                argument.memory[...] = kept

    def _changed(self, run: Callable[[Stale], None], chosen: frozenset[int], first: list[Array]) -> str | None:
        """The first output element that differs, as text."""
        for (_, argument), before in zip(self.outputs, self.before, strict=True):
            argument.memory[...] = before
        run(Stale(self.func, chosen))
        for (buffer, argument), kept in zip(self.outputs, first, strict=True):
            size = kept.dtype.itemsize
            now, then = argument.memory.view(np.uint8), kept.view(np.uint8)
            for start in range(0, len(now), CHUNK):
                at = np.flatnonzero(now[start:start + CHUNK] != then[start:start + CHUNK])
                if at.size:
                    offset = (start + int(at[0])) // size - argument.base
                    coordinate = self.memory(buffer).coordinate(offset)
                    return named(buffer.name, coordinate)
        return None

    @staticmethod
    def _report(left: Left, output: str, reporter: Reporter) -> None:
        copy = isinstance(left.op, ops.Copy)
        alone = isinstance(left.op, ops.Copy) and left.op.pred is not None
        reporter.tell("B8", "alone" if alone else "-", (left.op,), block=left.block, threads=(left.thread,),
                      count=left.count, copy=copy, alone=alone, output=output,
                      **place_of(target_of(left.op), left.element))
