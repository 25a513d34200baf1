"""The judge of shared memory: which class a clash is, who is told of many, and the facts for its words.

In: ``Clashes``, accesses that nothing orders after earlier ones: by threads of a block, between blocks of a cluster,
by asynchronous units; what is known of pipelines and waits.  Out: one finding for each class and pair of program
points, with how often it was seen; what it says is in findings/codes.py.

Where classes overlap the most specific wins: D and B9 (asynchronous copies), then C, then B6.  Between blocks D19 wins
over C1 and C2 where the last block barrier of both threads is one statement and lies after the earlier access.
It does not decide whether two accesses are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.bulk_waits import BulkWaits
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.copy_groups import CopyGroups
from moye.sim.checks.shared_records import (
    ENGINE,
    OP_BITS,
    PENDING,
    WAITED,
    Clashes,
    Shadow,
    epoch_of,
    kind_of,
    op_of,
    thread_of,
)
from moye.sim.checks.stages import Lapse, Stages, Wait
from moye.sim.findings.codes import hint, hint_between_roles
from moye.sim.findings.finding import Coordinate, Reporter, coordinate_of
from moye.sim.findings.wording import Clause, Crowd, at, named, trips_of
from moye.sim.flow.roles import role_of, same_side

READ, WRITTEN, COPIED, UPDATED, LOADED = "read", "written", "copied", "updated", "loaded"
"""What an access does; ``copied`` by cp.async, ``loaded`` by a tensor copy."""
_ORDER = ("D1", "D2", "D3", "D4", "B9", "C3", "C1", "C2", "D19", "B9", "D1", "D6", "D13", "B6", "B11", "D15", "E3")
"""The classes, in the order in which the clashes of one access are told."""
_D1, _D2, _D3, _D4, _B9, _C3, _C1, _C2, _D19, _FAR_B9, _FAR_D1, _D6, _D13, _B6, _B11, _D15, _E3 = range(len(_ORDER))

Facts = dict[str, Any]
Points = Sequence[ops.Op | None]
Where = tuple[str, Coordinate | None]
"""A tensor, and an element of it or none in particular."""
Tell = Callable[[Shadow, ops.Op, Clashes, Ints, str], None]
"""``Judge.after_write`` or ``after_read``."""


@dataclass(slots=True)
class Engine:
    """``major`` is the barrier tensor, the storing thread, the warpgroup, or of copies to another block the engine of
    the mbarrier there, and ``minor`` the rank of that block."""

    kind: str
    name: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Units that a proxy does not see: ``foreign`` where another thread fenced, ``late`` where after the barrier."""

    clashes: Clashes
    foreign: Bools
    late: Bools
    away: bool = False
    """Whether threads of other blocks wrote them."""


def witnesses(keys: Ints, unit: Ints) -> Iterator[tuple[int, Ints]]:
    """Clashes with one key are told as one: the entry with the lowest unit, and all of them."""
    for key in np.unique(keys):
        same = np.flatnonzero(keys == key)
        yield int(same[np.argmin(unit[same])]), same


class Judge:
    """Classifies the clashes of one batch of blocks and tells them."""

    def __init__(self, reporter: Reporter, block_ids: Ints, warp: int, copies: CopyGroups, stages: Stages,
                 func: Func) -> None:
        self.reporter, self.block_ids, self.warp, self.func = reporter, block_ids, warp, func
        self.copies, self.stages = copies, stages
        self.engines: list[Engine] = []
        self.barriers: dict[int, dict[int, ops.MbarrierInit]] = {}
        """The elements of each tensor that are mbarriers."""
        self.relaxed = prod(func.cluster_dim) > 1 and any(
            isinstance(op, ops.ClusterArrive) and op.relaxed for op in func.body.walk())
        self.ops: list[ops.Op | None] = [None]
        self._numbers: dict[int, int] = {}

    def number(self, op: ops.Op) -> int:
        """A small number for the op, for records."""
        number = self._numbers.get(id(op))
        if number is None:
            number = self._numbers[id(op)] = len(self.ops)
            self.ops.append(op)
        return number

    def block(self, column: Ints | int) -> tuple[int, ...]:
        """The coordinates of a block."""
        return tuple(int(x) for x in self.block_ids[int(column)])

    # --- threads of one block ----------------------------------------------------------------------------------------

    def read(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str = READ) -> None:
        """Reads that nothing orders after the last write (or that find none)."""
        kind = clashes.kind
        early = self._waited_since(shadow, clashes)
        stale = np.zeros_like(early) if shadow.stale is None else shadow.stale[clashes.unit, clashes.block]
        unread = np.isin(op_of(clashes.record), [] if shadow.copies is None else list(shadow.copies.unread))
        pending = kind == PENDING
        codes = np.select([clashes.record == 0, stale, pending & early, pending & unread, pending, kind == WAITED],
                          [_B6, _B11, _D2, _D4, _D1, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, "read", verb)

    def write(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> None:
        """Writes that nothing orders after the last write."""
        codes = np.select([clashes.kind == PENDING, clashes.kind == WAITED], [_B9, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, "write", verb)

    def overwrite(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str, asynchronous: bool) -> None:
        """Writes that nothing orders after earlier reads."""
        codes = np.full(clashes.unit.shape, _D4) if asynchronous else self._sync(clashes, _C2)
        self._report(shadow, op, clashes, codes, "over", verb)

    def overtaken(self, shadow: Shadow, op: ops.Op, clashes: Clashes) -> None:
        """Reads that the next write may overtake, and has here."""
        self._report(shadow, op, clashes, self._sync(clashes, _C2), "overtaken", READ)

    def uneven(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> None:
        """Atomic accesses of different sizes."""
        self._report(shadow, op, clashes, self._sync(clashes, _C1), "sizes_here", verb)

    def twice(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> None:
        """Writes of one unit by two threads in one statement."""
        self._report(shadow, op, clashes, np.full(clashes.unit.shape, _C1), "twice", verb)

    def _sync(self, clashes: Clashes, code: int) -> Ints:
        return np.where(clashes.thread // self.warp == clashes.actor // self.warp, _C3, code)

    def _waited_since(self, shadow: Shadow, clashes: Clashes) -> Bools:
        """Whether the issuer of each copy has waited since it issued it."""
        if shadow.copies is None:
            return np.zeros(clashes.unit.shape, np.bool_)
        issued = shadow.copies.waits[clashes.unit, clashes.block]
        return self.copies.waits[clashes.thread, clashes.block] > issued

    # --- threads of two blocks of a cluster --------------------------------------------------------------------------

    def after_write(self, shadow: Shadow, op: ops.Op, met: Clashes, scope: Ints, verb: str) -> None:
        """Accesses that nothing orders after the last write.

        ``scope`` is the number of the block barrier that lies between the two, 0 for none.
        """
        copied, pending = (_D6, _FAR_D1) if verb == READ else (_FAR_B9, _FAR_B9)
        codes = np.select([met.kind == ENGINE, met.kind == PENDING], [copied, pending],
                          _D13 if verb == LOADED else self._plain(met, scope, _C1))
        self._report(shadow, op, met, codes, "read" if verb == READ else "write", verb, scope)

    def after_read(self, shadow: Shadow, op: ops.Op, met: Clashes, scope: Ints, verb: str) -> None:
        """Writes that nothing orders after earlier reads."""
        codes = np.full(met.unit.shape, _D13) if verb == LOADED else self._plain(met, scope, _C2)
        self._report(shadow, op, met, codes, "over", verb, scope)

    def too_narrow(self, shadow: Shadow, op: ops.Op, met: Clashes, scope: Ints, verb: str) -> None:
        """D19: atomic accesses by two blocks, of which one has the scope of its block."""
        self._report(shadow, op, met, np.full(met.unit.shape, _D19), "atomics", verb, mend="atomics")

    def over_engine_there(self, shadow: Shadow, op: ops.Op, met: Clashes, verb: str) -> None:
        """Writes over what an asynchronous unit of the owner may still read."""
        products = self.engines[int(met.thread[0])].kind == "products"
        self._report(shadow, op, met, np.full(met.unit.shape, _E3 if products else _D15), "far", verb)

    def together(self, shadow: Shadow, op: ops.Op, met: Clashes) -> None:
        """Writes of one element by two threads in one statement."""
        self._report(shadow, op, met, np.full(met.unit.shape, _C1), "far_twice", WRITTEN, mend="twice")

    def missing(self, shadow: Shadow, op: ops.Op, met: Clashes, stale: bool) -> None:
        """B6: reads of what nothing has written; B11 where its owner has allocated it again since."""
        self._report(shadow, op, met, np.full(met.unit.shape, _B11 if stale else _B6), "far", READ)

    def _plain(self, met: Clashes, scope: Ints, code: int) -> Ints:
        """The class of two accesses by threads: of one warp, of one block, or of two."""
        inside = np.asarray(met.by) == np.asarray(met.rival)
        lanes = inside & (met.thread // self.warp == met.actor // self.warp)
        return np.where(lanes, _C3, np.where(~inside & (scope > 0), _D19, code))

    # --- blocks that are not there -----------------------------------------------------------------------------------

    def ends(self, shadow: Shadow, met: Clashes, verb: str) -> None:
        """D18: accesses that nothing orders before the end of the block whose memory it is; ``record`` is theirs."""
        for i, same in witnesses(op_of(met.record), met.unit):
            op = self.ops[int(op_of(met.record[i:i + 1])[0])]
            assert op is not None, "an access is an op"
            self._absent(shadow, op, met, i, len(same), "-", verb)

    def absent(self, shadow: Shadow, op: ops.Op, met: Clashes, case: str, verb: str) -> None:
        """D18: accesses to the memory of a block that has ended, or may not have started."""
        self._absent(shadow, op, met, int(np.argmin(met.unit)), len(met.unit), case, verb)

    def _absent(self, shadow: Shadow, op: ops.Op, met: Clashes, i: int, count: int, case: str, verb: str) -> None:
        facts = self._facts(shadow, op, met, i, verb)
        self._add("D18", case, [op], (facts["actor"],), shadow, met, i, count, facts)

    # --- mbarriers ---------------------------------------------------------------------------------------------------

    def mbarrier(self, code: str, case: str, op: ops.Op, of: tuple[Buffer, int], lane: tuple[int, int],
                 before: tuple[ops.Op | None, int] | None = None, count: int = 1, **facts: Any) -> None:
        """D10 and D11: ``lane`` (thread, column) uses one of the mbarriers; ``before``: an earlier use, its thread."""
        point, rival = before or (None, -1)
        self.tell(code, case, [point, op], lane[1], (lane[0],) if rival < 0 else (rival, lane[0]),
                  facts | {"mbarrier": named(of[0].name, of[1:]), "before": point, "rival": rival}, (of[0].name, None),
                  count)

    # --- asynchronous units ------------------------------------------------------------------------------------------

    def read_any(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str = READ) -> None:
        """A read of what is not there, or not known to be; asynchronous units may have written it."""
        early, never = clashes.engine, clashes.record == 0
        if early.any():
            self.unwaited(shadow, op, clashes.pick(early), verb)
        rest = ~early & ~never if self.unfilled(shadow, op, clashes.pick(never), verb) else ~early
        if rest.any():
            self.read(shadow, op, clashes.pick(rest), verb)

    def write_any(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> None:
        """A write over what is not known to have been written."""
        early = clashes.engine
        if early.any():
            self.unwaited(shadow, op, clashes.pick(early), verb)
        if not early.all():
            self.write(shadow, op, clashes.pick(~early), verb)

    def unwaited(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> None:
        """D6, or D8 where the wait was for another phase, F1 where the stage was released since; B9 for writes."""
        for i, count in self._each(clashes):
            facts, block = self._facts(shadow, op, clashes, i, verb), int(clashes.block[i])
            engine, reads = self.engines[facts["rival"]], verb in (READ, UPDATED)
            full = engine.major, engine.minor
            if self.stages.broken.get(engine.major) == "F1" or (
                    reads and self._late(shadow, op, clashes, i, count, full, verb)):
                continue
            wait = self.stages.last_wait(full, facts["actor"], block)
            points, code = [facts["other"], op], "D6" if reads else "B9"
            if wait is not None and reads and int(wait.phase[block]) <= facts["phase"]:
                code, points = "D8", [facts["other"], wait.op, op]
                facts |= _passed(wait, block)
            self._add(code, "engine", points, (facts["actor"],), shadow, clashes, i, count, facts)
            self.stages.tell(engine.major, code)

    def load_over_write(self, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, stage: int) -> None:
        """A tensor copy into what was written, with nothing to order the two."""
        for i, count in self._each(clashes):
            early = bool(clashes.engine[i])
            if early and (self._unacquired(shadow, op, clashes, i, count, stage)
                          or self._unseen(shadow, op, clashes, i, stage)):
                return
            facts = self._facts(shadow, op, clashes, i, LOADED)
            self._add("B9" if early else "D13", "filled", [facts["other"], op], (facts["actor"],), shadow, clashes, i,
                      count, facts, mend="engine" if early else None)

    def load_over_read(self, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, stage: int) -> None:
        """D13: a tensor copy into what others may still read; F1 where it is a stage that was not acquired."""
        for i, count in self._each(clashes):
            if self._unacquired(shadow, op, clashes, i, count, stage) or \
                    self._early(shadow, op, clashes, i, stage):
                return
            facts = self._facts(shadow, op, clashes, i, LOADED)
            self._add("D13", "-", [facts["other"], op], (facts["rival"], facts["actor"]), shadow, clashes, i, count,
                      facts)

    def over_engine(self, shadow: Shadow, op: ops.Op, clashes: Clashes, bulk: BulkWaits | None, stage: int) -> None:
        """E3 or D15: written while an engine may still read it; D16 where somebody else has waited.

        ``bulk`` is None where the thread that stores has waited for it, so that a barrier alone is missing.
        """
        copy = op if isinstance(op, ops.AnyBulk) else None
        for i, count in self._each(clashes):
            facts = self._facts(shadow, op, clashes, i, WRITTEN) | {"copy": copy is not None}
            engine, other, point = self.engines[facts["rival"]], facts["other"], None
            if copy is not None and copy.kind == "load" and engine.kind == "products" and \
                    self._unacquired(shadow, copy, clashes, i, count, stage):
                return
            code, case, points = "D15", "sent", [other, op]
            if engine.kind == "products":
                code, case, points = self._over_products(copy, clashes, i, facts, stage)
            elif engine.kind != "send":
                code, case, point = self._meant(bulk, engine, facts, int(clashes.block[i]))
                points = [other, op] if point is None else [other, point, op]
            self._add(code, case, points, (facts["actor"],), shadow, clashes, i, count, facts | {"wait": point})

    def _over_products(self, copy: ops.AnyBulk | None, clashes: Clashes, i: int, facts: Facts,
                       stage: int) -> tuple[str, str, list[ops.Op | None]]:
        """E3, or F1 where the stage was released before the products were issued: class, case, program points."""
        other, op, block = facts["other"], facts["op"], int(clashes.block[i])
        warpgroup = self.engines[facts["rival"]].major
        wait = None if copy is None else self.stages.filled(_full(copy), stage, facts["actor"], block)[1]
        first = warpgroup * WARPGROUP
        lapse = None if wait is None else self.stages.arrived(wait, block, slice(first, first + WARPGROUP))
        if lapse is None:
            beside = copy is None and facts["actor"] // WARPGROUP != warpgroup      # its waits are for others
            return "E3", "beside" if beside else "-", [other, op]
        facts |= _released(lapse, -1)
        if lapse.moment <= int(self.stages.issued[warpgroup, facts["phase"]][block]):
            return "F1", "-", [lapse.arrival, other, op]
        return "E3", "released", [other, lapse.arrival, op]

    def _meant(self, bulk: BulkWaits | None, engine: Engine, facts: Facts,
               block: int) -> tuple[str, str, ops.BulkWait | None]:
        """The class and case of a store that no wait covers, and the wait that was meant to, if there is one."""
        if bulk is None:
            return "D15", "-", None
        if (own := bulk.own(engine.major, facts["phase"], block)) is not None:
            facts["committed"] = own.committed
            return "D15", "early", own.op
        if (stranger := bulk.stranger(engine.major, facts["phase"], block)) is not None:
            facts["strangers"] = Crowd(np.flatnonzero(stranger.lanes).tolist(), len(stranger.lanes))
            return "D16", "-", stranger.op
        return "D15", "-", None

    def unfenced(self, shadow: Shadow, op: ops.Op, lost: Fenced, verb: str) -> None:
        """D12 of what is ``read``, D13 of what is ``overwritten``; D14 where the fence is another thread's."""
        for i, count in self._each(lost.clashes):
            code = "D14" if lost.foreign[i] and not lost.late[i] else "D12" if verb == READ else "D13"
            facts = self._facts(shadow, op, lost.clashes, i, verb) | {
                "away": lost.away, "unit": "wgmma" if isinstance(op, ops.Wgmma) else "copy", "over": verb != READ,
                "why": Clause("announced" if lost.clashes.engine[i] else "fenced_late" if lost.late[i] else "unfenced")}
            self._add(code, "proxy", [facts["other"], op], (facts["rival"], facts["actor"]), shadow, lost.clashes, i,
                      count, facts)

    # --- stages: who fills -------------------------------------------------------------------------------------------

    def refilled(self, op: ops.MbarrierArrive, stage: int, thread: int, block: int) -> None:
        """F1, or D8 where a wait was for another phase: a thread expects a tile in a stage where it expects one."""
        full = op.ref.buffer
        lapse = self.stages.refilled(full, stage, thread, block)
        if lapse is not None and full.id not in self.stages.broken:
            facts = {"head": Clause("begun_again"), "full": named(full.name, (stage,)), "actor": thread, "op": op}
            self._lapse(lapse, facts, full, block, (full.name, None))

    def _unacquired(self, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, i: int, count: int, stage: int) -> bool:
        """F1 and D8 of a copy into a stage that somebody may still use; whether it is told."""
        full, thread, block = _full(op), int(clashes.actor[i]), int(clashes.block[i])
        if full.id in self.stages.broken:
            return True
        lapse, _ = self.stages.filled(full, stage, thread, block)
        return self._filled_again(lapse, shadow, op, clashes, i, count)

    def _unseen(self, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, i: int, stage: int) -> bool:
        """F1 where who released a stage had not waited for the tile in it; whether it is told."""
        block = int(clashes.block[i])
        _, wait = self.stages.filled(_full(op), stage, int(clashes.actor[i]), block)
        lapse = None if wait is None else self.stages.arrived(wait, block, slice(0, None))
        return self._filled_again(lapse, shadow, op, clashes, i, 1)

    def _filled_again(self, lapse: Lapse | None, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, i: int,
                      count: int) -> bool:
        if lapse is not None:
            facts = self._facts(shadow, op, clashes, i, LOADED) | {"head": Clause("filled_again")}
            self._lapse(lapse, facts, _full(op), int(clashes.block[i]), self._where(shadow, clashes, i), count)
        return lapse is not None

    def _lapse(self, lapse: Lapse, facts: Facts, full: Buffer, block: int, where: Where, count: int = 1) -> None:
        """Nobody has waited for the readers, or they for the tile, or a wait was for the wrong phase."""
        facts |= _released(lapse, -1)
        op, thread = facts["op"], facts["actor"]
        if lapse.kind == "released":
            self.tell("F1", "release", [lapse.arrival, op], block, (lapse.thread, thread), facts, where, count)
        elif lapse.wait is None:
            self.tell("F1", "acquire", [op], block, (thread,), facts, where, count)
        else:
            facts |= _passed(lapse.wait, block)
            self.tell("D8", "unreleased", [lapse.wait.op, op], block, (thread,), facts, where, count)
        self.stages.tell(full.id, "F1")

    def _early(self, shadow: Shadow, op: ops.AnyAsync, clashes: Clashes, i: int, stage: int) -> bool:
        """F1 where a reader has released the stage and reads it then; whether it is told."""
        _, wait = self.stages.filled(_full(op), stage, int(clashes.actor[i]), int(clashes.block[i]))
        same = np.flatnonzero(op_of(clashes.record) == op_of(clashes.record[i:i + 1]))
        found = None if wait is None else self.stages.released(
            wait, clashes.thread[same], clashes.block[same], epoch_of(clashes.record[same]))
        if found is None:
            return False
        i, lapse = int(same[found[0]]), found[1]
        facts = self._facts(shadow, op, clashes, i, LOADED)
        facts |= _released(lapse, facts["rival"])
        self._add("F1", "early", [lapse.arrival, facts["other"], op], (facts["rival"], facts["actor"]), shadow, clashes,
                  i, len(same), facts)
        self.stages.tell(_full(op).id, "F1")
        return True

    def unused(self, op: ops.AnyAsync, stage: int, thread: int, block: int) -> bool:
        """F2 of a copy that nobody waits for when the block ends; whether it is told."""
        full, smem = _full(op), op.smem
        used = self.stages.used(full, block)
        if not used or stage in used or smem is None:
            return False
        rest = [named(full.name, (element,)) for element in range(full.elements or 0) if element not in used]
        facts = {"stages": full.elements, "op": op, "tiles": len(used), "left": len(rest),
                 "rest": f"{', '.join(rest[:-1])} and {rest[-1]}" if len(rest) > 1 else rest[0]}
        self.tell("F2", "-", [op, used[min(used)].op], block, (thread,), facts, (smem.buffer.name, None))
        return True

    # --- stages: who reads -------------------------------------------------------------------------------------------

    def _late(self, shadow: Shadow, op: ops.Op, clashes: Clashes, i: int, count: int, full: tuple[int, int],
              verb: str) -> bool:
        """F1 of a read while the next copy into the stage is under way; whether it is told."""
        thread, block = int(clashes.actor[i]), int(clashes.block[i])
        wait = self.stages.last_wait(full, thread, block)
        lapse = None if wait is None else self.stages.since(*full, block, _mates(op, thread), wait.moment)
        if lapse is None:
            return False
        facts = self._facts(shadow, op, clashes, i, verb) | _released(lapse, thread)
        self._add("F1", "late", [lapse.arrival, op, facts["other"]], (thread,), shadow, clashes, i, count, facts)
        self.stages.tell(full[0], "F1")
        return True

    def unfilled(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str) -> bool:
        """D6 and D8 of a read where the copy into a tile has not even been issued; whether it is told."""
        copy = self.stages.copies.get(shadow.buffer.id)
        if copy is None or not len(clashes.unit):
            return False
        i, full = int(np.argmin(clashes.unit)), _full(copy)
        thread, block = int(clashes.actor[i]), int(clashes.block[i])
        wait = self.stages.last_of(full.id, thread, block)
        if wait is not None and wait.phase[block]:
            return False
        code, points = ("D6", [copy, op]) if wait is None else ("D8", [copy, wait.op, op])
        facts = self._facts(shadow, op, clashes, i, verb) | {"copy": copy, "full": full.name}
        facts |= {} if wait is None else _passed(wait, block)
        self._add(code, "unfilled", points, (thread,), shadow, clashes, i, len(clashes.unit), facts)
        self.stages.tell(full.id, code)
        return True

    # --- what is told ------------------------------------------------------------------------------------------------

    def _report(self, shadow: Shadow, op: ops.Op, clashes: Clashes, codes: Ints, case: str, verb: str,
                scope: Ints | None = None, *, mend: str | None = None) -> None:
        """Tell the clashes of each class with each op as one; ``scope`` as in ``after_write``."""
        far, before = clashes.by is not None, op_of(clashes.record)
        whole = codes if far else _whole_block(codes, before)
        keys = (whole.astype(np.int64) << OP_BITS) | before
        for _, same in witnesses(keys, clashes.unit):
            clear = same[codes[same] == whole[same]]
            i = int(clear[np.argmin(clashes.unit[clear])])
            code = _ORDER[int(whole[i])]
            facts = self._facts(shadow, op, clashes, i, verb, reads=case == "over")
            points, threads = (facts["other"], op), (facts["rival"], facts["actor"])[facts["other"] is None:]
            if case == "over":                          # the write comes first in a finding
                points, threads = points[::-1], threads[::-1]
            details = self._details_there(code, clashes, i, case, facts, verb, scope) if far else \
                self._details(shadow, code, clashes, i, case, facts)
            there = "inside" if code in ("C1", "C2") and not facts["across"] else \
                "sent" if code == "D15" and facts["sent"] else "cluster"
            how = mend or there if far else self._between_roles(code, op, facts["other"])
            self._add(code, details, points, threads, shadow, clashes, i, len(same), facts, mend=how)

    def _facts(self, shadow: Shadow, op: ops.Op, clashes: Clashes, i: int, verb: str, *,
               reads: bool = False) -> Facts:
        """What there is to tell of one clash; ``reads``: the earlier access is a read."""
        record = clashes.record[i:i + 1]
        number, kind = int(op_of(record)[0]), int(kind_of(record)[0])
        by, of = (None if column is None else self.block(column[i]) for column in (clashes.by, clashes.rival))
        actor, rival, other = int(clashes.actor[i]), int(thread_of(record)[0]), self.ops[number]
        copied = kind in (PENDING, WAITED if by is None else ENGINE) and other is not None
        unit = self.engines[rival] if clashes.engine[i] else None
        return {"element": element(shadow.buffer, int(clashes.unit[i]) * shadow.unit),
                "owner": self.block(clashes.block[i]), "actor": actor, "rival": rival, "by": by, "of": of,
                "op": op, "other": other, "done": verb, "noun": Clause(f"a_{verb}"),
                "deed": Clause("a_read" if reads else "a_copied" if copied else "a_written"),
                "across": by != of, "warp": actor // self.warp, "allocated": shadow.allocated,
                "engine": None if unit is None else unit.name, "sent": unit is not None and unit.kind == "send",
                "phase": int(epoch_of(record)[0]) - 1}

    def _details(self, shadow: Shadow, code: str, clashes: Clashes, i: int, case: str, facts: Facts) -> str:
        """The case of a clash within a block; what else there is to tell goes into the facts."""
        unit, column = int(clashes.unit[i]), int(clashes.block[i])
        if code in ("D1", "B9") and facts["actor"] == facts["rival"]:
            facts["unwaited"] = Clause("unwaited_own")
        elif case == "sizes_here":
            facts["less"], facts["more"] = sorted(ref.dtype.bytes for op in (facts["op"], facts["other"])
                                                  for ref, _ in op.refs())
        elif code == "B11":
            facts["deed"] = Clause("a_written")
        elif code == "B6":
            element = unit * shadow.unit * 8 // shadow.buffer.dtype.bits
            facts["made"] = self.barriers.get(shadow.buffer.id, {}).get(element)
            return case if facts["made"] is None else "mbarrier"
        elif code == "D3" and shadow.copies is not None:
            facts["wait"] = self.ops[int(shadow.copies.wait_op[unit, column])]
        elif code == "D2":
            return self._too_permissive(shadow, unit, (facts["rival"], column), facts)
        return case

    def _details_there(self, code: str, clashes: Clashes, i: int, case: str, facts: Facts, verb: str,
                       scope: Ints | None) -> str:
        """The same of a clash between blocks."""
        if code == "D19" and scope is not None:
            barrier = self.ops[int(scope[i])]
            facts |= {"scope": barrier, "fence": isinstance(barrier, ops.Fence)}
        if code not in ("D6", "D1", "B9"):
            return case
        facts |= {"why": Clause("no_phase" if clashes.engine[i] else "no_wait")}
        facts |= {"done": "filled again"} if verb == LOADED else {}
        return "far"

    def _too_permissive(self, shadow: Shadow, unit: int, issuer: tuple[int, int], facts: Facts) -> str:
        """Why the issuer's last wait did not cover the copy."""
        copies, counts = shadow.copies, self.copies
        assert copies is not None, "there are copies to wait for"
        group, last = int(copies.group[unit, issuer[1]]), counts.told(int(counts.last[issuer]), *issuer)
        facts |= {"waited": f"cp_async_wait({last.pending}){at(last.op, last.trips)}", "pending": last.pending,
                  "newer": int(counts.at_wait[issuer]) - 1 - group}
        if facts["newer"] < 0:
            return "open"
        if int(counts.before[issuer]) != int(counts.at_wait[issuer]):
            return "-"
        before = counts.told(int(counts.previous[issuer]), *issuer)
        facts |= {"before": before.op, "trips": trips_of(before.trips)}
        return "tail"

    def _between_roles(self, code: str, op: ops.Op, other: ops.Op | None) -> str | None:
        """What to do where the two ops are in two roles, which have no block barrier in common."""
        if hint_between_roles(code) is None or other is None or other is op:
            return None
        branch = role_of(self.func, op)
        return None if branch is None or same_side(branch, op, other) else "roles"

    def _each(self, clashes: Clashes) -> list[tuple[int, int]]:
        """(a witness, how many) per op of the earlier access and kind: the lowest unit."""
        return [(i, len(same)) for i, same in witnesses(op_of(clashes.record) * 4 + clashes.kind, clashes.unit)]

    def _where(self, shadow: Shadow, clashes: Clashes, i: int) -> Where:
        """The element; none where the layout has a gap (padding)."""
        return shadow.buffer.name, _coordinate(shadow.buffer, int(clashes.unit[i]) * shadow.unit)

    def _add(self, code: str, case: str, points: Points, threads: tuple[int, ...], shadow: Shadow, clashes: Clashes,
             i: int, count: int, facts: Facts, *, mend: str | None = None) -> None:
        """Tell one clash."""
        relaxed = clashes.by is not None and self.relaxed and "cluster_sync" in (hint(code, mend or case) or "")
        self.tell(code, case, points, int(clashes.block[i]), threads, facts, self._where(shadow, clashes, i), count,
                   mend=mend, around="relaxed" if relaxed else None)

    def tell(self, code: str, case: str, points: Points, column: int, threads: tuple[int, ...], facts: Facts,
             where: Where = ("", None), count: int = 1, **how: Any) -> None:
        """One violation: ``column`` is its block, ``facts`` and ``how`` are as for ``Reporter.tell``."""
        self.reporter.tell(code, case, points, block=self.block(column), threads=threads, tensor=where[0],
                           coordinate=where[1], count=count, **how, **facts)


def _whole_block(codes: Ints, earlier: Ints) -> Ints:
    """C3 where nothing but lanes of a warp clash: with threads of other warps it is one missing block barrier."""
    for code in (_C1, _C2):
        across = np.unique(earlier[codes == code])
        if across.size:
            codes = np.where((codes == _C3) & np.isin(earlier, across), code, codes)
    return codes


def _coordinate(buffer: Buffer, byte: int) -> Coordinate | None:
    return coordinate_of(buffer, byte * 8 // buffer.dtype.bits)


def element(buffer: Buffer, byte: int) -> str:
    """``sA(17, 3)``, or the byte where the layout has no element."""
    where = _coordinate(buffer, byte)
    return f"byte {byte} of {buffer.name}" if where is None else named(buffer.name, where)


def _passed(wait: Wait, block: int) -> Facts:
    """Why a wait was over: which phase was complete."""
    phase = int(wait.phase[block])
    return {"wait": wait.op, "phases": phase, "before": phase - 1}


def _released(lapse: Lapse, reader: int) -> Facts:
    """Who has released a stage, and where."""
    return {"releaser": lapse.thread, "own": lapse.thread == reader, "arrival": lapse.arrival,
            "empty": named(lapse.empty.name, (lapse.element,))}


def _full(op: ops.AnyAsync) -> Buffer:
    assert op.barrier is not None, "a load completes on a barrier"
    return op.barrier.buffer.root


def _mates(op: ops.Op, thread: int) -> slice:
    """The threads that act together with one: its warpgroup for wgmma, else its warp."""
    size = WARPGROUP if isinstance(op, ops.Wgmma) else WARP
    return slice(thread // size * size, thread // size * size + size)
