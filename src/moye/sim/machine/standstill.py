"""Whether threads that poll go round: whether all that decides about them is as it was, look after look.

In: the batches whose threads all poll or wait.  Out: ``Standstill.look``, true once they have come back to one state so
often that nothing new can come.

``stuck`` of stops.py tells of polls among which nothing is written at all.  Here threads may compute and write what
they like, as long as no condition that ends one of their loops depends on it.  One run is deterministic, so a state
that comes back comes back for ever.  Loads that find older values first may see them for as many looks as they are
behind; where turns are drawn, or copies land only now, a state must come back often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, TensorParam
from moye.sim.flow.groups import Group
from moye.sim.flow.spins import Ends, ends, repeats
from moye.sim.machine.launch import Launch
from moye.sim.operations.access import GlobalEnd, RegisterEnd, SharedEnd
from moye.sim.operations.atomics import AtomicSite
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.plans import LoadSite
from moye.sim.values.masks import lanes_of
from moye.sim.values.memory import Array, TensorArg

PATIENT, SURE, OFTEN = 32, 16, 1000
"""Looks before anything is compared; how often one state comes back where runs are determined, and elsewhere."""
SLICE = 1 << 18
"""Bytes that are compared with each look: with more of them, fewer looks are taken."""
MOST = 1 << 28
"""Bytes of memory that decide, above which nothing is compared."""
Scope = ops.Loop | ops.For


class Polling(BatchState, Protocol):
    """Blocks that run together, some of whose threads poll."""

    program: Any
    plans: list[Any]
    ready: list[Group]
    spinning: list[Group]
    paused: list[Group]
    polled: dict[int, ops.Op]


class Standstill:
    """The looks of the batches that poll together: of a launch, or of one batch whose threads wake each other."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.scopes: dict[int, tuple[Scope, bool]] | None = None
        self.found: dict[frozenset[int], Ends | None] = {}
        self.cells: dict[int, tuple[Any, _Cells]] = {}
        self.missed = 0
        """How often loops that give up had missed something."""
        self.again()

    def again(self) -> None:
        """Something has got on."""
        self.looks, self.next, self.hits, self.since, self.power = 0, PATIENT, 0, 0, 1
        self.before: bytes | None = None
        self.marks: tuple[int, ...] = ()
        self.lag = self.lags = 0
        self.late, self.writes = self.launch.late, self.launch.writes
        self.held: dict[int, Any] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing at all was written since the state that came back."""
        return self.writes == self.launch.writes

    def look(self, batches: Sequence[Polling], *marks: int) -> bool:
        """All of these have had a turn; ``marks`` change where somebody got on.  Whether they go round."""
        missed = self.launch.globals.between.missed if self.launch.check else 0
        if marks != self.marks or missed != self.missed:        # they will not miss it for ever
            self.again()
            self.marks, self.missed = marks, missed
        self.looks += 1
        if self.looks < self.next:
            return False
        state, size = self._state(batches)
        lag = launch.globals.between.lag if (launch := self.launch).check else 0
        self.lag, self.lags = lag - self.lags, lag
        self.next = self.looks + 1 + size // SLICE
        if state is None:
            self.again()
            self.marks = marks
            return False
        return self._compared(state + str(self.lag).encode())

    def passed(self, batch: Polling, group: Group, loop: ops.Loop) -> bool:
        """The only threads of a batch that run have made a pass of a loop.  Whether they go round."""
        self.looks += 1
        scope = self._scope(loop)
        if scope is None or self.looks < self.next:
            return False
        decided = self._ends(batch.program.func, {id(scope): scope})
        state, size = self._digest([batch], [(batch, group, True)], decided) if decided is not None else (None, 0)
        self.next = self.looks + 1 + size // SLICE
        if state is None:
            return False
        between, missed = (self.launch.globals.between, self.missed) if self.launch.check else (None, 0)
        lag, self.missed = (between.lag, between.missed) if between is not None else (0, 0)
        if missed != self.missed:                       # they will not miss it for ever
            self.again()
        return self._compared(state + str(lag).encode())

    def _compared(self, state: bytes) -> bool:
        """Brent's way to find a period: compare with one state for a while, then with a later one for twice as long."""
        launch = self.launch
        if state == self.before:
            self.hits += 1
            sure = launch.late == self.late and launch.schedule.steady
            return self.hits >= (SURE if sure else OFTEN) + self.lag
        self.since += 1
        if self.before is None or self.since >= self.power:
            self.before, self.late, self.since, self.hits, self.power = state, launch.late, 0, 0, 2 * self.power
            self.writes = launch.writes
        return False

    # --- the state ---------------------------------------------------------------------------------------------------

    def _state(self, batches: Sequence[Polling]) -> tuple[bytes | None, int]:
        """All that decides, and how many bytes of memory it is; None where more may decide."""
        loops: dict[int, Scope] = {}
        groups: list[tuple[Polling, Group, bool]] = []
        held = {id(entry): entry for batch in batches for entry in batch.barriers.waiting}
        for batch in batches:
            if batch.paused:
                return None, 0
            for group in (*batch.spinning, *batch.ready):
                if group.pc not in batch.polled:
                    return None, 0                      # it is on its way
                groups.append((batch, group, True))
            for entry in batch.barriers.waiting:
                if id(entry) in self.held and (loop := self._scope(entry.op)) is None:
                    continue                            # it has not moved
                groups.append((batch, entry.group, False))
                if (loop := self._scope(entry.op)) is None:
                    if self.before is not None:
                        return None, 0
                else:
                    loops[id(loop)] = loop
        self.held = held
        for batch, group, polls in groups:
            if polls:
                loop = self._scope(batch.polled[group.pc])
                if loop is None:
                    return None, 0
                loops[id(loop)] = loop
        decided = self._ends(batches[0].program.func, loops)
        if decided is None:
            return None, 0
        return self._digest(batches, groups, decided)

    def _scope(self, op: ops.Op) -> Scope | None:
        """The outermost loop around an op, or the op itself, if its state is all that we know of."""
        if self.scopes is None:
            self.scopes = dict(_outermost(self.launch.func.body, None))
        loop = self.scopes.get(id(op))
        return loop[0] if loop is not None and loop[1] else None

    def _ends(self, func: Func, loops: dict[int, Scope]) -> Ends | None:
        key = frozenset(loops)
        if key not in self.found:
            self.found[key] = ends(loops.values(), _aliases(func, self.launch))
        return self.found[key]

    def _digest(self, batches: Sequence[Polling], groups: list[tuple[Polling, Group, bool]],
                decided: Ends) -> tuple[bytes | None, int]:
        size, text = 0, hashlib.blake2b(digest_size=16)
        for memory in self._memory(batches, decided):
            size += memory.nbytes
            if size > MOST:
                return None, 0
            text.update(np.ascontiguousarray(memory).view(np.uint8).data)
        order = {id(batch): number for number, batch in enumerate(batches)}
        for batch, group, polls in groups:
            slots = batch.program.slots
            wanted = {slots[name].index for name in decided.names if name in slots} if polls else None
            wheels = {slots[name].index: by for name, by in decided.remainders.items() if name in slots}
            text.update(f"{order[id(batch)]} {group.pc} {polls}".encode())
            text.update(np.packbits(lanes_of(group.mask, batch.threads, batch.blocks)).tobytes())
            for slot in batch.program.live[group.pc]:
                if wanted is None or slot.index in wanted:
                    value = group.env[slot.index]
                    text.update(_bytes(value % wheels[slot.index] if polls and slot.index in wheels else value))
        return text.digest(), size

    def _memory(self, batches: Sequence[Polling], decided: Ends) -> Iterable[Array]:
        for param, argument in zip(self.launch.func.params, self.launch.arguments, strict=True):
            if isinstance(param, TensorParam) and isinstance(argument, TensorArg) and param.buffer.id in decided.whole:
                yield argument.memory
        for batch in batches:
            yield from (shared.data for number, shared in batch.shared.items() if number in decided.whole)
            yield from (fragment.data for number, fragment in batch.fragments.items() if number in decided.whole)
            for number, site in enumerate(batch.program.sites):
                if isinstance(site, (LoadSite, AtomicSite)) and id(site.op) in decided.reads:
                    yield from self._cells(batch.plans[number])

    def _cells(self, plan: Any) -> Iterable[Array]:
        """The places that an operation has looked at since it is watched, and what is there."""
        end = plan.end
        if isinstance(end, RegisterEnd):
            yield end.fragment.data
        elif not isinstance(end, (GlobalEnd, SharedEnd)) or (isinstance(end, SharedEnd) and not end.same):
            yield end.memory.data
        else:
            if id(end) not in self.cells:
                self.cells[id(end)] = end, _Cells(end.locate)
                end.locate = self.cells[id(end)][1]     # type: ignore[assignment]
            cells = self.cells[id(end)][1]
            found = np.array(sorted(cells.seen), np.int64)
            yield found
            yield end.memory.read(found) if isinstance(end, GlobalEnd) else end.memory.data.take(found, 0, mode="clip")


class _Cells:
    """Finds the places of an operation, and keeps them."""

    def __init__(self, locate: Any) -> None:
        self.locate, self.seen = locate, set[int]()

    def __call__(self, *place: Any) -> Array:
        index: Array = self.locate(*place)
        self.seen.update(np.unique(index).tolist())
        return index

    def __getattr__(self, name: str) -> Any:
        return getattr(self.locate, name)


def _bytes(value: Any) -> bytes:
    return np.asarray(value).tobytes() if not isinstance(value, int) else str(value).encode()


def _outermost(block: Iterable[ops.Op], loop: tuple[Scope, bool] | None) -> Iterable[tuple[int, tuple[Scope, bool]]]:
    """Every op with the outermost loop around it, itself included, and whether that loop's state is known."""
    for op in block:
        around = loop
        if around is None and isinstance(op, (ops.Loop, ops.For)):
            around = op, repeats(op)
        if around is not None:
            yield id(op), around
        for inner in op.blocks():
            yield from _outermost(inner, around)


def _aliases(func: Func, launch: Launch) -> Callable[[Buffer], Iterable[Buffer]]:
    """Which buffers may be the same memory: arguments that overlap; those of the block are apart."""
    tensors = [(param.buffer, argument.memory) for param, argument in zip(func.params, launch.arguments, strict=True)
               if isinstance(param, TensorParam) and isinstance(argument, TensorArg)]
    memories = {buffer.id: memory for buffer, memory in tensors}

    def same(buffer: Buffer) -> Iterable[Buffer]:
        if buffer.space is not Space.GLOBAL or buffer.id not in memories:
            return [buffer]
        mine = memories[buffer.id]
        return [each for each, memory in tensors if each is buffer or np.may_share_memory(mine, memory)]

    return same
