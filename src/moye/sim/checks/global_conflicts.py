"""From two accesses to global memory that nothing orders to a finding: which class, which element, which facts.

In: ``Clash``: units, what happens to them now and the earlier record that it clashes with.  Out: one finding per class
and pair of program points; what it says is in findings/codes.py.

Within a block that is C1-C3, at once; of stores by TMA D3, and D17, D1 or B9 while they are not complete.  Between
blocks it is told when the batch is through, because the class depends on what else the two blocks do: who only writes
is G1, who reads and writes what the other writes too is G2, who only reads is G5, and G3 takes precedence where the
kernel signals through global memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Value
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_records import UnitTracks
from moye.sim.checks.global_regions import ATOMIC, READ, STRONG, WRITE, tensors_of
from moye.sim.checks.judge import witnesses
from moye.sim.findings.finding import Reporter
from moye.sim.findings.wording import Clause
from moye.sim.flow.once import once_per_func
from moye.sim.flow.polling import polls
from moye.sim.values.memory import Global

KEPT = 4096
"""Clashes of one pair of program points that are kept until the class is known."""
_DONE = {WRITE: "written", READ: "read", ATOMIC: "updated atomically", STRONG: "read"}


@dataclass(frozen=True, slots=True)
class Clash:
    """Entry by entry a unit, the record of the access now and of the earlier one; ``together`` in one statement."""

    tracks: UnitTracks
    buffer: Buffer
    op: ops.Op
    kind: int
    rival_kind: int
    unit: Ints
    record: Ints
    rival: Ints
    together: bool = False
    agree: bool = False
    """Whether both write the same value."""

    def pick(self, at: Ints) -> Clash:
        return Clash(self.tracks, self.buffer, self.op, self.kind, self.rival_kind, self.unit[at], self.record[at],
                     self.rival[at], self.together, self.agree)

    @property
    def soft(self) -> bool:
        """Whether both are atomic: then they clash only where a scope is too small."""
        return {self.kind, self.rival_kind} <= {ATOMIC, STRONG}

    @property
    def kinds(self) -> frozenset[int]:
        return frozenset((self.kind, self.rival_kind))

    def blocks(self) -> tuple[Ints, Ints]:
        return self.tracks.packing.block(self.record), self.tracks.packing.block(self.rival)


@dataclass(slots=True)
class _Pending:
    clash: Clash
    count: int = 0
    keys: set[tuple[int, int, int]] = field(default_factory=set)
    """(unit, lesser block, greater block)."""


@once_per_func
def _used(func: Func) -> frozenset[int]:
    """The values that something is made of."""
    return frozenset(operand.id for op in func.body.walk() for operand in op.operands() if isinstance(operand, Value))


@once_per_func
def signals(func: Func) -> bool:
    """Whether blocks may tell each other something: loops that poll, ordered accesses, atomics whose result is used."""
    used = _used(func)
    return any(_signals(op, used) for op in func.body.walk())


def _signals(op: ops.Op, used: frozenset[int]) -> bool:
    if isinstance(op, (ops.Loop, ops.For)):
        return polls(op) and any(ref.buffer.space is Space.GLOBAL for inner in op.body.walk()
                                 for ref, _ in inner.refs() if isinstance(inner, (ops.Load, ops.Atomic)))
    if not any(ref.buffer.space is Space.GLOBAL for ref, _ in op.refs()):
        return False
    if isinstance(op, ops.Atomic):
        return op.order != "relaxed" or op.result.id in used
    return ops.is_ordered(op)


Place = Callable[[int], tuple[int, int, int]]
"""The coordinates of a block, from its position among those that run."""


class Conflicts:
    """Classifies clashes and reports them."""

    def __init__(self, func: Func, numbered: list[ops.Op], place: Place, reporter: Reporter,
                 memory: Callable[[Buffer], Global], sizes: Mapping[int, int]) -> None:
        self.ops, self.place, self.reporter, self.memory = numbered, place, reporter, memory
        self.signals = signals(func)
        self.remote = any(isinstance(op, ops.MbarrierArrive) and op.rank is not None for op in func.body.walk())
        self.cluster = prod(func.cluster_dim)
        self.used = _used(func)
        self.sizes = sizes
        """The bytes of each atomic access, by the id of the op."""
        self._pending: dict[tuple[int, int, int, int, int, bool], _Pending] = {}
        self._writers: dict[int, set[tuple[int, int]]] = {}
        """Per region the units that blocks are known to write against each other, and the blocks."""

    # --- within a block ----------------------------------------------------------------------------------------------

    def within(self, clash: Clash) -> None:
        """Threads of one block that no barrier orders."""
        packing = clash.tracks.packing
        actor, rival = packing.thread(clash.record), packing.thread(clash.rival)
        late = clash.rival_kind in (READ, STRONG) and not clash.soft
        warp = (actor // WARP == rival // WARP) & (not clash.together)
        across = np.unique(packing.op(clash.rival[~warp]))
        warp &= ~np.isin(packing.op(clash.rival), across)       # a sync_warp alone would not do
        for same in (False, True):
            for number in np.unique(packing.op(clash.rival[warp == same])).tolist():
                at = np.flatnonzero((warp == same) & (packing.op(clash.rival) == number))
                stored = isinstance(self.ops[number - 1], ops.AnyBulk) and not late
                self._inside(clash.pick(at), "D3" if stored else "C3" if same else "C2" if late else "C1", late)

    def _inside(self, clash: Clash, code: str, late: bool) -> None:
        facts = self._facts(clash)
        case, mend = "global_over" if late else "global", "store"
        if clash.together:
            case, mend = "one_global", "twice"
        elif clash.soft:
            case = mend = "sizes"
            facts |= self._sizes(clash)
        elif late and clash.kind == ATOMIC and clash.rival_kind == READ:
            mend = "atomic"
        with self.reporter.agreed(clash.agree):
            self._add(code, case, clash, facts, swapped=late, mend=mend,
                      around="overlapping" if facts["alias"] and not clash.together else None)

    def unfinished(self, clash: Clash, store: ops.AnyBulk, wait: ops.BulkWait | None) -> None:
        """D17: the thread that stored has waited (``wait``) for the read of the source alone; D1, B9: not at all."""
        code = "D17" if wait is not None else "D1" if clash.kind in (READ, STRONG) else "B9"
        self._add(code, "store", clash, self._facts(clash) | {"store": store, "wait": wait}, [store, wait, clash.op])

    def lasting(self, clash: Clash, copy: ops.Op, waited: bool | None) -> None:
        """B9: written while a copy may still read it, C2 where others have waited for that; None: cp.async."""
        facts = self._facts(clash) | {"copy": copy, "bulk": isinstance(copy, ops.AnyBulk)}
        self._add("C2" if waited else "B9", "source" if waited is None else "load", clash, facts, [copy, clash.op])

    def unfenced(self, clash: Clash, fenced: bool) -> None:
        """D12: written by threads and read by a bulk copy, with no proxy fence in between; D13: overwritten by one.

        D14 where threads have ``fenced``, but not in between.
        """
        for _, same in witnesses(clash.tracks.packing.op(clash.rival), clash.unit):
            part, over = clash.pick(same), clash.kind == WRITE
            code = "D14" if fenced else "D13" if over else "D12"
            self._add(code, "global", part, self._facts(part) | {"done": "overwritten" if over else "read"})

    # --- between blocks ----------------------------------------------------------------------------------------------

    def add(self, clash: Clash) -> None:
        """Keep clashes between blocks until ``tell``."""
        packing = clash.tracks.packing
        for number in np.unique(packing.op(clash.rival)).tolist():
            part = clash.pick(np.flatnonzero(packing.op(clash.rival) == number))
            key = (clash.tracks.region.start, id(clash.op), int(number), clash.kind, clash.rival_kind,
                   clash.agree)
            found = self._pending.get(key)
            first = np.unique(np.stack([part.unit, *part.blocks()]), axis=1, return_index=True)[1]
            first.sort()
            kept = part.pick(first[np.argsort(part.unit[first], kind="stable")[:KEPT]])
            if found is None:
                found = self._pending[key] = _Pending(kept)
            elif len(found.keys) < KEPT:
                found.clash = _joined(found.clash, kept)
            found.count += len(part.unit)
            mine, other = kept.blocks()
            found.keys.update(zip(kept.unit.tolist(), np.minimum(mine, other).tolist(),
                                  np.maximum(mine, other).tolist(), strict=True))

    def tell(self) -> None:
        """Report what is kept."""
        pending, self._pending = list(self._pending.values()), {}
        regions = {id(p.clash.tracks) for p in pending}
        for region in regions:
            mine = [p for p in pending if id(p.clash.tracks) == region]
            writers = self._writers.setdefault(region, set())
            writers |= {(unit, block) for p in mine if p.clash.kinds == {WRITE} for unit, a, b in p.keys
                        for block in (a, b)}
            both = {unit for p in mine if p.clash.kinds == {WRITE, READ} for unit, a, b in p.keys
                    if (unit, a) in writers and (unit, b) in writers}
            for p in mine:
                self._tell(p, writers, both)

    def _tell(self, p: _Pending, writers: set[tuple[int, int]], both: set[int]) -> None:
        """``both``: the units that one of two blocks reads and both write."""
        clash = p.clash
        if clash.kinds == {WRITE}:
            code = "G3" if self.signals and not clash.agree and self._op(clash, 0) is not clash.op else "G1"
            self._split(p, lambda unit, a, b: unit in both, None, code)
        elif clash.kinds == {WRITE, READ}:
            handed = self.signals or (self.remote and self._one_cluster(clash, 0))
            alone = "G3" if handed and not self._aliased(clash) else "G5"
            self._split(p, lambda unit, a, b: (unit, a) in writers and (unit, b) in writers,
                        "G3" if self.signals else "G2", alone)
        else:
            self._between(clash, self._class(clash), p.count)

    def _split(self, p: _Pending, changed: Callable[[int, int, int], bool], yes: str | None, no: str) -> None:
        """Report the clashes ``changed`` by both blocks as ``yes`` (None: not at all), the others as ``no``."""
        blocks = zip(p.clash.unit.tolist(), *(side.tolist() for side in p.clash.blocks()), strict=True)
        inside: Bools = np.array([changed(*key) for key in blocks], np.bool_)
        for code, here in ((yes, np.flatnonzero(inside)), (no, np.flatnonzero(~inside))):
            if code is not None and here.size:
                self._between(p.clash.pick(here), code, p.count if here.size == inside.size else len(here))

    def _class(self, clash: Clash) -> str:
        """The class where an atomic access takes part."""
        if clash.soft:
            return "D19" if not self._uneven(clash) else "G2" if clash.kinds == {ATOMIC} else "G3"
        if clash.kinds != {ATOMIC, WRITE}:
            return "G3"
        atomic = clash.op if clash.kind == ATOMIC else self._op(clash, 0)
        unread = isinstance(atomic, ops.AnyBulk) or (isinstance(atomic, ops.Atomic)
                                                     and atomic.result.id not in self.used)
        return "G2" if unread else "G3"

    def _uneven(self, clash: Clash) -> bool:
        """Whether two atomic accesses have different sizes."""
        return self.sizes[id(clash.op)] != self.sizes[id(self._op(clash, 0))]

    def _sizes(self, clash: Clash) -> dict[str, Any]:
        """What there is to tell of two atomic accesses."""
        less, more = sorted((self.sizes[id(clash.op)], self.sizes[id(self._op(clash, 0))]))
        return {"one": Clause("access_then"), "two": Clause("access_now"), "less": less, "more": more}

    def _aliased(self, clash: Clash) -> bool:
        """Whether the two accesses reach the element through different arguments."""
        return clash.buffer not in tensors_of(self._op(clash, 0))

    def _between(self, clash: Clash, code: str, count: int) -> None:
        facts, late, case = self._facts(clash), clash.rival_kind in (READ, STRONG), "-"
        # The write comes first.
        facts |= {name: Clause(which) for name, which in zip(
            ("two", "one") if late else ("one", "two"), ("access_then", "access_now"), strict=True)}
        if code in ("G1", "G3", "G5") and not clash.together and self._one_cluster(clash, int(np.argmin(clash.unit))):
            case = "arrival" if self.remote and not self.signals else "cluster"
        if clash.soft and code != "D19":
            case, facts = "sizes", facts | self._sizes(clash)
        mend = "atomic" if code == "G3" and case == "-" and clash.kinds == {ATOMIC, READ} else case
        with self.reporter.agreed(clash.agree):
            self._add(code, case, clash, facts, count=count, swapped=late, mend=mend)

    def _one_cluster(self, clash: Clash, i: int) -> bool:
        mine, other = (int(blocks[i]) for blocks in clash.blocks())
        return mine // self.cluster == other // self.cluster

    # --- what is told ------------------------------------------------------------------------------------------------

    def _facts(self, clash: Clash) -> dict[str, Any]:
        """What there is to tell of the lowest unit."""
        i = int(np.argmin(clash.unit))
        packing, sides = clash.tracks.packing, (clash.record, clash.rival)
        mine, other = (self.place(int(blocks[i])) for blocks in clash.blocks())
        actor, rival = (int(packing.thread(side[i:i + 1])[0]) for side in sides)
        earlier = self._op(clash, i)
        return {"actor": actor, "rival": rival, "block": mine, "of": other, "apart": mine != other,
                "detail": bool(packing.detail), "op": clash.op, "other": earlier, "done": _DONE[clash.kind],
                "did": _DONE[clash.rival_kind], "warp": actor // WARP, "alias": " or ".join(
                    sorted(tensor.name for tensor in tensors_of(earlier))) if self._aliased(clash) else ""}

    def _add(self, code: str, case: str, clash: Clash, facts: dict[str, Any], points: Sequence[ops.Op | None] = (), *,
             count: int = 0, swapped: bool = False, **how: Any) -> None:
        """Tell a clash: ``swapped`` where the earlier access reads, since the write comes first in a finding."""
        points = points or (facts["other"], clash.op)
        threads = (facts["rival"], facts["actor"]) if facts["detail"] else ()
        if swapped:
            points, threads = points[::-1], threads[::-1]
        memory, region = self.memory(clash.buffer), clash.tracks.region
        offset = (region.start + int(clash.unit.min()) * region.unit - memory.address) // memory.itemsize
        self.reporter.tell(code, case, points, threads=threads, tensor=clash.buffer.name,
                           coordinate=memory.coordinate(offset), count=count or len(clash.unit), **how, **facts)

    def _op(self, clash: Clash, i: int) -> ops.Op:
        """The op of the earlier access."""
        return self.ops[int(clash.tracks.packing.op(clash.rival[i:i + 1])[0]) - 1]


def _joined(a: Clash, b: Clash) -> Clash:
    unit, record, rival = (np.concatenate(pair)[:KEPT] for pair in
                           ((a.unit, b.unit), (a.record, b.record), (a.rival, b.rival)))
    return Clash(a.tracks, a.buffer, a.op, a.kind, a.rival_kind, unit, record, rival, a.together, a.agree)
