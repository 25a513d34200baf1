"""Findings about shared memory that several blocks of a cluster use: which class, which element, which words.

In: ``Meeting``s: accesses of one block that nothing orders after those of another.  Out: findings B6, B9, B11, C1-C3,
D1, D6, D13, D15, D18, D19, E3, whose words name both blocks.

D19 rather than C1 or C2 where the last block barrier of both threads is one statement, and lies after the earlier
access: it orders the threads of each block alone.  It does not decide whether two accesses are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_verdicts import Engine
from moye.sim.checks.judge import Spot, element, spot, tell, witnesses
from moye.sim.checks.shared_records import ENGINE, OP_BITS, PENDING, Shadow, epoch_of, kind_of, op_of, thread_of
from moye.sim.checks.shared_verdicts import Judge
from moye.sim.findings.codes import hint
from moye.sim.findings.wording import at

_READERS = {"store": "store", "send": "copy on"}
READ, WRITTEN, LOADED = "read", "written", "loaded"
_NOUN = {READ: "read", WRITTEN: "write", LOADED: "copy"}
_CODES = ("C3", "C1", "C2", "D19", "B9", "D1", "D6", "D13", "D15", "E3", "B6", "B11")
_C3, _C1, _C2, _D19, _B9, _D1, _D6, _D13, _D15, _E3, _B6, _B11 = range(len(_CODES))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Entry by entry: a unit of block ``owner``, which ``thread`` of block ``actor`` accesses now, and the record of
    the earlier access by block ``rival``; blocks are columns."""

    unit: Ints
    owner: Ints
    actor: Ints
    thread: Ints
    rival: Ints
    record: Ints

    def pick(self, keep: Ints | Bools) -> Meeting:
        return Meeting(self.unit[keep], self.owner[keep], self.actor[keep], self.thread[keep], self.rival[keep],
                       self.record[keep])


@dataclass(slots=True)
class Arrival:
    """The last arrival by each block at an mbarrier of another, (rank of the one, column of the other): the thread, its
    epoch (0: none) and how often it had come to the barrier of the cluster."""

    op: ops.Op
    name: str
    thread: Ints
    epoch: Ints
    came: Ints


@dataclass(frozen=True, slots=True)
class Scene:
    """One clash, told."""

    code: str
    what: str
    then: str
    now: str
    barrier: str
    other: ops.Op | None
    threads: tuple[int, ...]
    record: int
    scope: int
    """The number of the block barrier that lies between the two, 0 for none."""


Tell = Callable[[Shadow, ops.Op, Meeting, Ints, str], None]
"""``PeerJudge.after_write`` or ``after_read``."""


class PeerJudge:
    """Tells them to the reporter of the shared checker's judge."""

    def __init__(self, judge: Judge, engines: Sequence[Engine], relaxed: bool) -> None:
        self.judge, self.engines = judge, engines
        self.more = "; a relaxed arrival orders nothing" if relaxed else ""

    # --- races -------------------------------------------------------------------------------------------------------

    def after_write(self, shadow: Shadow, op: ops.Op, met: Meeting, scope: Ints, verb: str) -> None:
        """Accesses that nothing orders after the last write."""
        kind, plain = kind_of(met.record), self._plain(met, scope, _C1)
        copied, pending = (_D6, _D1) if verb == READ else (_B9, _B9)
        codes = np.select([kind == ENGINE, kind == PENDING], [copied, pending], _D13 if verb == LOADED else plain)
        self._report(shadow, op, met, codes, scope, verb, WRITTEN, lambda scene: self._unordered(scene, verb))

    def after_read(self, shadow: Shadow, op: ops.Op, met: Meeting, scope: Ints, verb: str) -> None:
        """Writes that nothing orders after earlier reads."""
        codes = np.full(met.unit.shape, _D13) if verb == LOADED else self._plain(met, scope, _C2)
        self._report(shadow, op, met, codes, scope, verb, READ,
                     lambda scene: f"{scene.what} may be overwritten while it is still being read: "
                                   f"{self._missing(scene)}", swapped=True)

    def over_engine(self, shadow: Shadow, op: ops.Op, met: Meeting, number: int, verb: str) -> None:
        """Writes over what an asynchronous unit of the owner may still read."""
        engine = self.engines[number]
        code, what = (_E3, "wgmma") if engine.kind == "products" else (_D15, _READERS[engine.kind])
        self._report(shadow, op, met, np.full(met.unit.shape, code), np.zeros_like(met.unit), verb, READ,
                     lambda scene: f"{scene.what} is overwritten while the {what}{at(scene.other)} of {engine.name} "
                                   f"may still read it: {scene.now} is not ordered after a wait of that block for it")

    def together(self, shadow: Shadow, op: ops.Op, met: Meeting) -> None:
        """Writes of one element by two threads in one statement."""
        nothing = np.zeros_like(met.unit)
        self._report(shadow, op, met, np.full(met.unit.shape, _C1), nothing, WRITTEN, WRITTEN,
                     lambda scene: f"{scene.what} is written in one statement by two threads: nothing orders "
                                   f"{scene.then} and {scene.now}", mend=hint("C1", "together"))

    def missing(self, shadow: Shadow, op: ops.Op, met: Meeting, stale: bool) -> None:
        """B6: reads of what nothing has written; B11 where its owner has allocated it again since."""
        nothing = np.zeros_like(met.unit)
        since = f" since {shadow.buffer.name} was allocated again{at(shadow.allocated)}" if stale else ""
        self._report(shadow, op, met, np.full(met.unit.shape, _B11 if stale else _B6), nothing, READ, WRITTEN,
                     lambda scene: f"{scene.what} is read before anything wrote it{since}: {scene.now}")

    def _plain(self, met: Meeting, scope: Ints, code: int) -> Ints:
        """The class of two accesses by threads: of one warp, of one block, or of two."""
        inside = met.actor == met.rival
        lanes = inside & (thread_of(met.record) // WARP == met.thread // WARP)
        return np.select([lanes, ~inside & (scope > 0)], [_C3, _D19], code)

    def _unordered(self, scene: Scene, verb: str) -> str:
        if scene.code in ("B9", "D1", "D6"):
            record = np.array([scene.record])
            does = "filled again" if verb == LOADED else verb
            what = f"{scene.what} is {does} while a copy into it may be in flight"
            if kind_of(record)[0] != ENGINE:
                return f"{what}: no wait and {scene.barrier} between {scene.then} and {scene.now}"
            engine, phase = self.engines[int(thread_of(record)[0])], int(epoch_of(record)[0]) - 1
            return f"{what}: the copy{at(scene.other)} completes phase {phase} of {engine.name}, and nothing orders " \
                   f"{scene.now} after a wait of that block for it"
        before = "may be read before it is written" if verb == READ else \
            "is written twice in an order that nothing decides" if verb == WRITTEN else "may be filled too early"
        return f"{scene.what} {before}: {self._missing(scene)}"

    def _missing(self, scene: Scene) -> str:
        if scene.code == "D13":
            return f"nothing orders {scene.then} before {scene.now}"
        if scene.code != "D19":
            return f"no {scene.barrier} between {scene.then} and {scene.now}"
        barrier = self.judge.ops[scene.scope]
        name = "the fence" if isinstance(barrier, ops.Fence) else "sync_threads"
        return f"{name}{at(barrier)} between {scene.then} and {scene.now} orders the threads of one block alone"

    # --- blocks that are not there -----------------------------------------------------------------------------------

    def ends(self, shadow: Shadow, met: Meeting, verb: str) -> None:
        """D18: accesses that nothing orders before the end of the block whose memory it is; ``record`` is theirs."""
        for i, same in witnesses(op_of(met.record), met.unit):
            op = self.judge.ops[int(op_of(met.record[i:i + 1])[0])]
            assert op is not None, "an access is an op"
            self._outlived(shadow, op, met, i, len(same), verb)

    def ended(self, shadow: Shadow, op: ops.Op, met: Meeting, verb: str) -> None:
        """D18: accesses to the memory of a block that has ended."""
        self._outlived(shadow, op, met, int(np.argmin(met.unit)), len(met.unit), verb)

    def _outlived(self, shadow: Shadow, op: ops.Op, met: Meeting, i: int, count: int, verb: str) -> None:
        owner = self._block(met.owner[i])
        self._add(shadow, "D18", f"block {owner} may end before {self._who(verb, met.thread[i], met.actor[i], op)} of "
                  f"{self._element(shadow, met, i)} in its shared memory: no barrier of the cluster between the two",
                  met, i, [op], (int(met.thread[i]),), count, hint("D18"))

    def arrives(self, arrival: Arrival, owner: int, rank: int, actor: int, count: int) -> None:
        """D18: an arrival at an mbarrier of a block that may have ended."""
        who, thread = self._block(owner), int(arrival.thread[rank, owner])
        message = f"block {who} may end before the arrival by thread {thread} of block {self._block(actor)}" \
                  f"{at(arrival.op)} at its {arrival.name}: no barrier of the cluster between the two"
        tell(self.judge.reporter, "D18", message, [arrival.op], who, (thread,), Spot(arrival.name.partition("(")[0]),
             hint("D18", "arrival"), count)

    def early(self, shadow: Shadow, op: ops.Op, met: Meeting, verb: str) -> None:
        """D18: accesses to the memory of a block that may not have started."""
        i = int(np.argmin(met.unit))
        who, what = self._who(verb, met.thread[i], met.actor[i], op), self._element(shadow, met, i)
        self._add(shadow, "D18", f"block {self._block(met.owner[i])} may start after {who} of {what} in its shared "
                  f"memory: no barrier of the cluster before it", met, i, [op], (int(met.thread[i]),), len(met.unit),
                  hint("D18", "early"))

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, shadow: Shadow, op: ops.Op, met: Meeting, codes: Ints, scope: Ints, verb: str, before: str,
                words: Callable[[Scene], str], *, mend: str | None = None, swapped: bool = False) -> None:
        keys = (codes.astype(np.int64) << OP_BITS) | op_of(met.record)
        for i, same in witnesses(keys, met.unit):
            scene = self._scene(shadow, op, met, i, _CODES[int(codes[i])], int(scope[i]), verb, before)
            inside = met.actor[i] == met.rival[i] and scene.code in ("C1", "C2")
            self._add(shadow, scene.code, words(scene), met, i, [scene.other, op], scene.threads, len(same),
                      mend or (hint("C1") if inside else hint(scene.code, "cluster")), swapped)

    def _scene(self, shadow: Shadow, op: ops.Op, met: Meeting, i: int, code: str, scope: int, verb: str,
               before: str) -> Scene:
        record = met.record[i:i + 1]
        other, rival, thread = self.judge.ops[int(op_of(record)[0])], int(thread_of(record)[0]), int(met.thread[i])
        copy = kind_of(record)[0] in (ENGINE, PENDING) and before == WRITTEN and other is not None
        then = f"the asynchronous copy by thread {rival} of block {self._block(met.rival[i])}{at(other)}" if copy else \
            self._who(before, rival, met.rival[i], other)
        inside = met.actor[i] == met.rival[i]
        return Scene(code, f"{self._element(shadow, met, i)} of block {self._block(met.owner[i])}", then,
                     self._who(verb, thread, met.actor[i], op),
                     f"sync_warp among the lanes of warp {thread // WARP}" if code == "C3" else
                     "barrier" if inside else "barrier of the cluster", other,
                     (thread,) if other is None else (rival, thread), int(record[0]), scope)

    def _who(self, verb: str, thread: Ints | int, column: Ints | int, op: ops.Op | None) -> str:
        """``the read by thread 5 of block (1, 0, 0) at line 47``"""
        return f"the {_NOUN[verb]} by thread {int(thread)} of block {self._block(column)}{at(op)}"

    def _element(self, shadow: Shadow, met: Meeting, i: int) -> str:
        return element(shadow.buffer, int(met.unit[i]) * shadow.unit)

    def _block(self, column: Ints | int) -> tuple[int, ...]:
        return self.judge.block(column)

    def _add(self, shadow: Shadow, code: str, message: str, met: Meeting, i: int, points: Sequence[ops.Op | None],
             threads: tuple[int, ...], count: int, mend: str, swapped: bool = False) -> None:
        tell(self.judge.reporter, code, message, points, self._block(met.owner[i]), threads,
             spot(shadow.buffer, int(met.unit[i]) * shadow.unit),
             mend + self.more if "cluster_sync" in mend else mend, count, swapped=swapped)
