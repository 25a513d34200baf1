"""From two accesses that nothing orders to a finding: which class it is, which element, which words.

In: ``Clashes``: units, the earlier access to each (a record of shared_records.py), the thread that clashes with it.
Out: one ``Finding`` per class and pair of program points, given to the reporter with its number of occurrences.

Where classes overlap the most specific wins: D and B9 (asynchronous copies), then C, then B6.  It does not decide
whether two accesses are ordered; shared_races.py does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from moye.ir.nodes import Func
from moye.ir.ops import Op
from moye.sim.checks.barrier_reuse import Unordered
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.copy_groups import CopyGroups
from moye.sim.checks.judge import Spot, element, spot, tell, witnesses
from moye.sim.checks.shared_records import OP_BITS, PENDING, WAITED, Shadow, kind_of, op_of, thread_of
from moye.sim.findings.codes import hint, hint_between_roles
from moye.sim.findings.finding import Reporter
from moye.sim.findings.wording import at, crowd, trips_of
from moye.sim.flow.roles import role_of, same_side

ORDER = ("D1", "D2", "D3", "D4", "B9", "C3", "C1", "C2", "B6", "B11")
_D1, _D2, _D3, _D4, _B9, _C3, _C1, _C2, _B6, _B11 = range(len(ORDER))



@dataclass(frozen=True, slots=True)
class Clashes:
    """Entry by entry: a unit, its block, the earlier access, and the thread whose access is not ordered after it."""

    unit: Ints
    block: Ints
    record: Ints
    actor: Ints

    @property
    def thread(self) -> Ints:
        return thread_of(self.record)

    @property
    def kind(self) -> Ints:
        return kind_of(self.record)

    def pick(self, keep: Bools) -> Clashes:
        """Some of the entries."""
        return Clashes(self.unit[keep], self.block[keep], self.record[keep], self.actor[keep])


@dataclass(frozen=True, slots=True)
class Scene:
    """One clash, told: element, threads, block, and the two ops."""

    code: str
    what: str
    actor: int
    rival: int
    block: tuple[int, ...]
    op: Op
    other: Op | None
    verb: str
    """``read``, ``written``, ``copied`` or ``updated``: what the actor does."""
    unit: int
    column: int
    warp: int
    wait: Op | None
    """The wait for an asynchronous copy."""

    @property
    def threads(self) -> tuple[int, ...]:
        return (self.actor,) if self.other is None else (self.rival, self.actor)

    @property
    def here(self) -> str:
        return f"{self.what} of block {self.block}"

    @property
    def now(self) -> str:
        """``the read by thread 37 at line 47``"""
        return f"the {NOUNS[self.verb]} by thread {self.actor}{at(self.op)}"

    @property
    def then(self) -> str:
        """``the write by thread 5 at line 41``; of an asynchronous one the copy."""
        return f"the {'asynchronous copy' if self.code[0] == 'D' or self.code == 'B9' else 'write'} by thread " \
               f"{self.rival}{at(self.other)}"

    @property
    def barrier(self) -> str:
        """What is missing between the two, and whose lanes they are where that matters."""
        return f"sync_warp among the lanes of warp {self.warp}" if self.code == "C3" else "barrier"


_READ = "read"
NOUNS = {"read": "read", "written": "write", "copied": "asynchronous copy", "updated": "atomic update"}


Words = Callable[[Scene], tuple[str, str | None]]


class Judge:
    """Classifies clashes and reports them."""

    def __init__(self, reporter: Reporter, block_ids: Ints, warp: int, copies: CopyGroups, func: Func) -> None:
        self.func = func
        self.reporter = reporter
        self.block_ids = block_ids
        self.warp = warp
        self.copies = copies
        self.barriers: Mapping[int, Mapping[int, Op]] = {}
        """By tensor and element the initialisations of mbarriers."""
        self.ops: list[Op | None] = [None]
        self._numbers: dict[int, int] = {}

    def number(self, op: Op) -> int:
        """A small number for the op, for records."""
        number = self._numbers.get(id(op))
        if number is None:
            number = self._numbers[id(op)] = len(self.ops)
            self.ops.append(op)
        return number

    def block(self, column: Ints | int) -> tuple[int, ...]:
        """The coordinates of a block."""
        return tuple(int(x) for x in self.block_ids[int(column)])

    # --- classes -----------------------------------------------------------------------------------------------------

    def read(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str = "read") -> None:
        """Reads that nothing orders after the last write (or that find none)."""
        kind = clashes.kind
        early = self._waited_since(shadow, clashes)
        stale = np.zeros_like(early) if shadow.stale is None else shadow.stale[clashes.unit, clashes.block]
        unread = np.isin(op_of(clashes.record), [] if shadow.copies is None else list(shadow.copies.unread))
        pending = kind == PENDING
        codes = np.select([clashes.record == 0, stale, pending & early, pending & unread, pending, kind == WAITED],
                          [_B6, _B11, _D2, _D4, _D1, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, verb, lambda scene: self._tell_read(shadow, scene))

    def write(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str) -> None:
        """Writes that nothing orders after the last write."""
        codes = np.select([clashes.kind == PENDING, clashes.kind == WAITED], [_B9, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, verb, _tell_write)

    def overwrite(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str, asynchronous: bool) -> None:
        """Writes that nothing orders after earlier reads."""
        codes = np.full(clashes.unit.shape, _D4) if asynchronous else self._sync(clashes, _C2)
        self._report(shadow, op, clashes, codes, verb, _tell_overwrite)

    def overtaken(self, shadow: Shadow, op: Op, clashes: Clashes) -> None:
        """Reads that the next write may overtake, and has here."""
        self._report(shadow, op, clashes, self._sync(clashes, _C2), _READ, _tell_overtaken)

    def twice(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str) -> None:
        """Writes of one unit by two threads in one statement."""
        self._report(shadow, op, clashes, np.full(clashes.unit.shape, _C1), verb, _tell_twice)

    def two_groups(self, op: Op, number: int, lost: Unordered) -> None:
        """C5: threads arrive at a barrier that others have passed, and nothing orders the two."""
        size, block = len(lost.arrives), self.block(lost.column)
        later, first = (crowd(np.flatnonzero(mask).tolist(), size) for mask in (lost.arrives, lost.passed))
        what = f"named barrier {number}" if number else "barrier 0, which is that of sync_threads,"
        tell(self.reporter, "C5", f"{later} of block {block} and {first} use {what} in an order that nothing decides: "
             f"no barrier between {first} passing it{at(lost.before)} and {later} arriving{at(op)}",
             [lost.before, op], block, (int(lost.passed.argmax()), int(lost.arrives.argmax())), Spot(""),
             hint("C5", "groups"))

    def _sync(self, clashes: Clashes, code: int) -> Ints:
        return np.where(clashes.thread // self.warp == clashes.actor // self.warp, _C3, code)

    def _waited_since(self, shadow: Shadow, clashes: Clashes) -> Bools:
        """Whether the issuer of each copy has waited since it issued it."""
        if shadow.copies is None:
            return np.zeros(clashes.unit.shape, np.bool_)
        issued = shadow.copies.waits[clashes.unit, clashes.block]
        return self.copies.waits[clashes.thread, clashes.block] > issued

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, shadow: Shadow, op: Op, clashes: Clashes, codes: Ints, verb: str, words: Words) -> None:
        whole = _whole_block(codes, op_of(clashes.record))
        keys = (whole.astype(np.int64) << OP_BITS) | op_of(clashes.record)
        for _, same in witnesses(keys, clashes.unit):
            clear = same[codes[same] == whole[same]]
            i = int(clear[np.argmin(clashes.unit[clear])])
            scene = self._scene(shadow, op, clashes, i, ORDER[int(keys[i]) >> OP_BITS], verb)
            message, mend = words(scene)
            tell(self.reporter, scene.code, message, [scene.other, op], scene.block, scene.threads,
                 spot(shadow.buffer, scene.unit * shadow.unit), self._between_roles(scene) or mend, len(same),
                 swapped=words is _tell_overwrite)

    def _between_roles(self, scene: Scene) -> str | None:
        """What to do where the two ops are in two roles, which have no block barrier in common."""
        mend = hint_between_roles(scene.code)
        if mend is None or scene.other is None or scene.other is scene.op:
            return None
        branch = role_of(self.func, scene.op)
        return None if branch is None or same_side(branch, scene.op, scene.other) else mend

    def _scene(self, shadow: Shadow, op: Op, clashes: Clashes, i: int, code: str, verb: str) -> Scene:
        unit, column, record = int(clashes.unit[i]), int(clashes.block[i]), clashes.record[i:i + 1]
        wait = None
        if shadow.copies is not None and int(clashes.kind[i]) == WAITED:
            wait = self.ops[int(shadow.copies.wait_op[unit, column])]
        actor = int(clashes.actor[i])
        return Scene(code, element(shadow.buffer, unit * shadow.unit), actor, int(clashes.thread[i]),
                     self.block(column), op, self.ops[int(op_of(record)[0])], verb,
                     unit, column, actor // self.warp, wait)

    # --- words -------------------------------------------------------------------------------------------------------

    def _tell_read(self, shadow: Shadow, scene: Scene) -> tuple[str, str | None]:
        if scene.code == "B6" and (made := self._barrier(shadow, scene)) is not None:
            return (f"{scene.here} is {scene.verb} by thread {scene.actor}{at(scene.op)}, but it is an mbarrier since "
                    f"its initialisation{at(made)}, and holds no data", hint("B6", "mbarrier"))
        if scene.code == "B6":
            return f"{scene.here} is {scene.verb} by thread {scene.actor}{at(scene.op)} before anything wrote it", \
                hint("B6")
        if scene.code == "B11":
            return (f"{scene.here} is {scene.verb} by thread {scene.actor}{at(scene.op)}, but {shadow.buffer.name} was "
                    f"allocated again{at(shadow.allocated)} and nothing has written it since {scene.then}",
                    hint("B11"))
        if scene.code == "D1":
            return f"{scene.here} is {scene.verb} while a copy into it is in flight: {_not_waited(scene)}", hint("D1")
        if scene.code == "D4":
            return (f"{scene.here} is {scene.verb} while a copy into it is in flight: {scene.then} overwrites what an "
                    "earlier copy had brought and nobody had read", hint("D4", "unread"))
        if scene.code == "D2":
            why, mend = self._too_permissive(shadow, scene)
            return f"{scene.here} is {scene.verb} while a copy into it may be in flight: {why}", mend
        return _tell_unordered(scene)

    def _barrier(self, shadow: Shadow, scene: Scene) -> Op | None:
        """Where the element was made an mbarrier, if it was."""
        byte = scene.unit * shadow.unit
        return self.barriers.get(shadow.buffer.id, {}).get(byte * 8 // shadow.buffer.dtype.bits)

    def _too_permissive(self, shadow: Shadow, scene: Scene) -> tuple[str, str]:
        """Why the issuer's last wait did not cover the copy, and what would."""
        copies, counts, at_ = shadow.copies, self.copies, (scene.rival, scene.column)
        if copies is None:
            raise ValueError(f"{shadow.buffer.name} has no asynchronous copies to wait for")
        group = int(copies.group[scene.unit, scene.column])
        last = counts.told(int(counts.last[at_]), *at_)
        waited = f"cp_async_wait({last.pending}){at(last.op, last.trips)}"
        if group >= int(counts.at_wait[at_]):
            return (f"no cp_async_commit() between {scene.then} and the last wait before {scene.now}, {waited}, and a "
                    f"wait with a count covers committed copies only",
                    "cp_async_commit() after the copies, or cp_async_wait()")
        newer = int(counts.at_wait[at_]) - 1 - group
        left = "newest group" if last.pending == 1 else f"{last.pending} newest groups"
        after = ("none was", "only one was")[newer] if newer < 2 else f"only {newer} were"
        why = (f"the last wait between {scene.then} and {scene.now}, {waited}, leaves the {left} in flight, and "
               f"{after} committed after that of the copy")
        if int(counts.before[at_]) == int(counts.at_wait[at_]):
            before = counts.told(int(counts.previous[at_]), *at_)
            lacks = f"iteration {trips_of(before.trips)} lacks its commit: " if before.trips else ""
            return (f"{why}; {lacks}no cp_async_commit() since the wait before it{at(before.op)}",
                    "cp_async_commit() in each iteration, an empty group where nothing is left to copy")
        return why, f"cp_async_wait({newer})"


def _whole_block(codes: Ints, earlier: Ints) -> Ints:
    """C3 where nothing but lanes of a warp clash: with threads of other warps it is one missing block barrier."""
    for code in (_C1, _C2):
        across = np.unique(earlier[codes == code])
        if across.size:
            codes = np.where((codes == _C3) & np.isin(earlier, across), code, codes)
    return codes


def _tell_unordered(scene: Scene) -> tuple[str, str | None]:
    """C1, C3 and D3 of reads and writes alike."""
    if scene.code == "D3":
        return (f"{scene.here} may be {scene.verb} before {scene.then} has arrived: no barrier between the wait of "
                f"thread {scene.rival}{at(scene.wait)} and {scene.now}", hint("D3"))
    return (f"{scene.here} may be {scene.verb} before it is written: no {scene.barrier} between {scene.then} and "
            f"{scene.now}", hint(scene.code))


def _tell_write(scene: Scene) -> tuple[str, str | None]:
    if scene.code == "B9":
        return f"{scene.here} is {scene.verb} while a copy into it is in flight: {_not_waited(scene)}", hint("B9")
    if scene.code == "D3":
        return _tell_unordered(scene)
    return (f"{scene.here} is written twice in an order that nothing decides: no {scene.barrier} between {scene.then} "
            f"and {scene.now}", hint(scene.code))


def _tell_overwrite(scene: Scene) -> tuple[str, str | None]:
    return (f"{scene.here} may be overwritten while it is still being read: no {scene.barrier} between the read by "
            f"thread {scene.rival}{at(scene.other)} and {scene.now}", hint(scene.code))


def _tell_overtaken(scene: Scene) -> tuple[str, str | None]:
    return (f"{scene.here} may be overwritten while it is still being read: no {scene.barrier} between {scene.now} and "
            f"the next write by thread {scene.rival}{at(scene.other)}", hint(scene.code))


def _tell_twice(scene: Scene) -> tuple[str, str | None]:
    return (f"{scene.here} is written by threads {scene.rival} and {scene.actor} in one statement{at(scene.op)}: "
            f"nothing orders the two", hint("C1", "together"))


def _not_waited(scene: Scene) -> str:
    """No wait of the one that issued the copy, which is the only one who can."""
    if scene.rival == scene.actor:
        return (f"thread {scene.actor} has no cp_async_wait() between its asynchronous copy{at(scene.other)} and its "
                f"{NOUNS[scene.verb]}{at(scene.op)}")
    return f"no cp_async_wait() of thread {scene.rival} between {scene.then} and {scene.now}"
