"""From two accesses to global memory that nothing orders to a finding: which class, which element, which words.

In: ``Clash``: units, what happens to them now and the earlier record that it clashes with.  Out: one finding per class
and pair of program points.

Within a block that is C1-C3, at once; of stores by TMA D3, and D17, D1 or B9 while they are not complete.  Between
blocks it is told when the batch is through, because the class depends on what else the two blocks do: who only writes
is G1, who reads and writes what the other writes too is G2, who only reads is G5, and G3 takes precedence where the
kernel signals through global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from moye.dtypes import Space
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Value
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_records import UnitTracks
from moye.sim.checks.global_regions import ATOMIC, READ, STRONG, WRITE, tensors_of
from moye.sim.checks.judge import Spot, tell, witnesses
from moye.sim.findings.codes import hint
from moye.sim.findings.finding import Reporter
from moye.sim.findings.wording import at
from moye.sim.flow.once import once_per_func
from moye.sim.flow.segments import polls
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
Lane = tuple[tuple[int, int, int], int]
"""Block and thread."""


class Conflicts:
    """Classifies clashes and reports them."""

    def __init__(self, func: Func, numbered: list[ops.Op], place: Place, reporter: Reporter,
                 memory: Callable[[Buffer], Global]) -> None:
        self.ops, self.place, self.reporter, self.memory = numbered, place, reporter, memory
        self.signals = signals(func)
        self.remote = any(isinstance(op, ops.MbarrierArrive) and op.rank is not None for op in func.body.walk())
        self.cluster = prod(func.cluster_dim)
        self.used = _used(func)
        self._pending: dict[tuple[int, int, int, int, int, bool], _Pending] = {}
        self._writers: dict[int, set[tuple[int, int]]] = {}
        """Per region the units that blocks are known to write against each other, and the blocks."""

    # --- within a block ----------------------------------------------------------------------------------------------

    def within(self, clash: Clash) -> None:
        """Threads of one block that no barrier orders."""
        packing = clash.tracks.packing
        actor, rival = packing.thread(clash.record), packing.thread(clash.rival)
        late = clash.rival_kind in (READ, STRONG)
        warp = (actor // WARP == rival // WARP) & (not clash.together)
        across = np.unique(packing.op(clash.rival[~warp]))
        warp &= ~np.isin(packing.op(clash.rival), across)       # a sync_warp alone would not do
        for same in (False, True):
            for number in np.unique(packing.op(clash.rival[warp == same])).tolist():
                at = np.flatnonzero((warp == same) & (packing.op(clash.rival) == number))
                stored = isinstance(self.ops[number - 1], ops.AnyBulk) and not late
                self._inside(clash.pick(at), "D3" if stored else "C3" if same else "C2" if late else "C1", late)

    def _inside(self, clash: Clash, code: str, late: bool) -> None:
        (where, actor), (_, rival), what, spot, other = self._witness(clash)
        why = (f"both are lanes of warp {actor // WARP}, and there is no sync_warp" if code == "C3"
               else "there is no barrier")
        alias = " through " + " or ".join(sorted(tensor.name for tensor in tensors_of(other))) if self._aliased(clash) \
            else ""
        head = f"{what} in global memory is {_DONE[clash.kind]} by thread {actor} of block {where}"
        mend = hint(code, "store")
        if clash.together:
            text, mend = f"{head} and by thread {rival} in one statement: two writes that nothing orders", \
                hint("C1", "together")
        elif late:
            text = f"{head} while thread {rival} may still be reading it{alias}: {why} between that read and this write"
        else:
            text = f"{head} while nothing orders it after the write by thread {rival}{alias}: {why} between them"
        if alias and not clash.together:
            mend = f"pass arguments that do not overlap, or {mend}"
        with self.reporter.agreed(clash.agree):
            tell(self.reporter, code, text, [other, clash.op], where, (rival, actor), spot, mend, len(clash.unit),
                 swapped=late)

    def unfinished(self, clash: Clash, store: ops.AnyBulk, wait: ops.BulkWait | None) -> None:
        """D17: the thread that stored has waited (``wait``) for the read of the source alone; D1, B9: not at all."""
        (mine, actor), (other, rival), what, spot, _ = self._witness(clash)
        code = "D17" if wait is not None else "D1" if clash.kind in (READ, STRONG) else "B9"
        who = f"thread {rival}" if mine == other else f"thread {rival} of block {other}"
        why = f"the wait{at(wait)} of {who} is over as soon as the store has read its source" if wait is not None else \
            f"{who}, which stores it, has not waited for it"
        text = (f"{what} in global memory is {_act(clash.kind, mine, actor)}{at(clash.op)}, but the store{at(store)} "
                f"may not have written it: {why}")
        tell(self.reporter, code, text, [store, wait, clash.op], mine, (rival, actor), spot, hint(code, "store"),
             len(clash.unit))

    def lasting(self, clash: Clash, copy: ops.Op, waited: bool | None) -> None:
        """B9: written while a copy may still read it, C2 where others have waited for that; None: cp.async."""
        (where, actor), (_, rival), what, spot, _ = self._witness(clash)
        code, kind = "C2" if waited else "B9", "bulk copy" if isinstance(copy, ops.AnyBulk) else "asynchronous copy"
        why = f"no barrier lies between a wait for the copy and thread {actor}" if waited else \
            f"thread {rival}, which issued it, has not waited for it" if waited is None else \
            "nobody has waited for the mbarrier on which it completes"
        text = (f"{what} in global memory is {_act(clash.kind, where, actor)}{at(clash.op)}, while the {kind}{at(copy)}"
                f" may still be reading it: {why}")
        mend = hint(code, "source" if waited is None else "load")
        tell(self.reporter, code, text, [copy, clash.op], where, (rival, actor), spot, mend, len(clash.unit))

    def unfenced(self, clash: Clash, fenced: bool) -> None:
        """D12: written by threads and read by a bulk copy, with no proxy fence in between; D13: overwritten by one.

        D14 where threads have ``fenced``, but not in between.
        """
        for _, same in witnesses(clash.tracks.packing.op(clash.rival), clash.unit):
            part, over = clash.pick(same), clash.kind == WRITE
            (here, actor), (there, writer), what, spot, other = self._witness(part)
            who = f"thread {writer}" if here == there else f"thread {writer} of block {there}"
            verb = "overwritten" if over else "read"
            text = (f"{what} in global memory is {verb} by the copy{at(part.op)} of thread {actor} of block {here}, "
                    f"which goes through the asynchronous proxy: no fence_proxy_async() lies between the write by {who}"
                    f"{at(other)} and the copy")
            code = "D14" if fenced else "D13" if over else "D12"
            tell(self.reporter, code, text, [other, part.op], here, (writer, actor), spot, hint("D12", "global"),
                 len(part.unit))

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
            return "D19"
        if clash.kinds != {ATOMIC, WRITE}:
            return "G3"
        atomic = clash.op if clash.kind == ATOMIC else self._op(clash, 0)
        unread = isinstance(atomic, ops.AnyBulk) or (isinstance(atomic, ops.Atomic)
                                                     and atomic.result.id not in self.used)
        return "G2" if unread else "G3"

    def _aliased(self, clash: Clash) -> bool:
        """Whether the two accesses reach the element through different arguments."""
        return clash.buffer not in tensors_of(self._op(clash, 0))

    def _between(self, clash: Clash, code: str, count: int) -> None:
        i = int(np.argmin(clash.unit))
        packing = clash.tracks.packing
        mine, other = (self.place(int(blocks[i])) for blocks in clash.blocks())
        threads = tuple(int(packing.thread(r[i:i + 1])[0]) for r in (clash.rival, clash.record)) \
            if packing.detail else ()
        what, spot = self._element(clash, i)
        earlier = self._op(clash, i)
        through = sorted(tensor.name for tensor in tensors_of(earlier))
        alias = f" through {' or '.join(through)}" if self._aliased(clash) else ""
        acts = [_act(clash.rival_kind, other, threads[0] if threads else None) + alias,
                _act(clash.kind, mine, threads[1] if threads else None)]
        late = clash.rival_kind in (READ, STRONG)
        acts = acts[::-1] if late else acts             # the write comes first
        why, mend = _WHY[code], hint(code)
        if code in ("G1", "G3", "G5") and not clash.together and self._one_cluster(clash, i):
            why, mend = ": no barrier of their cluster lies between the two", hint("G3", "cluster")
            if self.remote and not self.signals:
                why += ", and an arrival at the mbarrier of another block hands over shared memory alone"
                mend = hint("G3", "arrival")
        text = f"{what} is {acts[0]} and {acts[1]}{why}"
        with self.reporter.agreed(clash.agree):
            tell(self.reporter, code, text, [earlier, clash.op], mine, threads, spot, mend, count, swapped=late)

    def _one_cluster(self, clash: Clash, i: int) -> bool:
        mine, other = (int(blocks[i]) for blocks in clash.blocks())
        return mine // self.cluster == other // self.cluster

    # --- words -------------------------------------------------------------------------------------------------------

    def _witness(self, clash: Clash) -> tuple[Lane, Lane, str, Spot, ops.Op]:
        """The lowest unit: who accesses it now and who did before, its name, the element, the earlier op."""
        i = int(np.argmin(clash.unit))
        now, before = ((self.place(int(blocks[i])), int(clash.tracks.packing.thread(record[i:i + 1])[0]))
                       for blocks, record in zip(clash.blocks(), (clash.record, clash.rival), strict=True))
        return now, before, *self._element(clash, i), self._op(clash, i)

    def _op(self, clash: Clash, i: int) -> ops.Op:
        """The op of the earlier access."""
        return self.ops[int(clash.tracks.packing.op(clash.rival[i:i + 1])[0]) - 1]

    def _element(self, clash: Clash, i: int) -> tuple[str, Spot]:
        memory, region = self.memory(clash.buffer), clash.tracks.region
        offset = (region.start + int(clash.unit[i]) * region.unit - memory.address) // memory.itemsize
        coordinate = memory.coordinate(offset)
        return f"{clash.buffer.name}({', '.join(map(str, coordinate))})", Spot(clash.buffer.name, coordinate)


_WHY = {
    "G1": ": blocks run in any order, so nothing says which of the two stays",
    "G2": ", and both blocks change it: without atomics, or an order between the blocks, one may undo the other's work",
    "G3": ": the blocks signal through global memory, but no release and acquire orders the two",
    "G5": ": nothing orders the blocks, so the read may find either value",
    "D19": ", and the scope of one of the two ends at its block",
}


def _act(kind: int, block: tuple[int, int, int], thread: int | None) -> str:
    return f"{_DONE[kind]} by " + (f"block {block}" if thread is None else f"thread {thread} of block {block}")


def _joined(a: Clash, b: Clash) -> Clash:
    unit, record, rival = (np.concatenate(pair)[:KEPT] for pair in
                           ((a.unit, b.unit), (a.record, b.record), (a.rival, b.rival)))
    return Clash(a.tracks, a.buffer, a.op, a.kind, a.rival_kind, unit, record, rival, a.together, a.agree)
