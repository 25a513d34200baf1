"""From two accesses that nothing orders to a finding: which class it is, which element, which words.

In: ``Clashes``: units, the earlier access to each (a record of shadow.py) and the thread that clashes with it now.
Out: one ``Finding`` per class and pair of program points, given to the reporter with its number of occurrences.

Where classes overlap the most specific wins: D and B9 (asynchronous copies), then C, then B6.  It does not decide
whether two accesses are ordered; shared.py does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moye.errors import Loc
from moye.ir.nodes import Buffer
from moye.ir.ops import CpAsyncWait, Op
from moye.sim.checkers.clocks import Bools, Ints
from moye.sim.checkers.copies import CopyGroups
from moye.sim.checkers.findings import Coordinate, Finding, Reporter, coordinate_of
from moye.sim.checkers.shadow import OP_BITS, PENDING, WAITED, Shadow, kind_of, op_of, thread_of

ORDER = ("D1", "D2", "D3", "D4", "B9", "C3", "C1", "C2", "B6")
_D1, _D2, _D3, _D4, _B9, _C3, _C1, _C2, _B6 = range(len(ORDER))

HINTS = {
    "D1": "cp_async_wait() and then sync_threads() before the read",
    "D3": "sync_threads() after cp_async_wait()",
    "D4": "sync_threads() between the last read of the stage and the copy that refills it",
    "B9": "cp_async_wait() and then sync_threads() before the memory is used again",
    "C1": "sync_threads() between the two",
    "C2": "sync_threads() between the reads and the next write",
    "C3": "sync_warp() between the two",
    "B6": "write or fill it first",
}


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
    """``read by``, ``written by`` ..."""
    unit: int
    column: int
    warp: int
    waited: str
    """`` (line 12)`` of the wait for an asynchronous copy, or nothing."""

    @property
    def now(self) -> str:
        return f"{self.what} is {self.verb} thread {self.actor} of block {self.block}"


Tell = Callable[[Scene], tuple[str, str | None]]


class Judge:
    """Classifies clashes and reports them."""

    def __init__(self, reporter: Reporter, block_ids: Ints, warp: int, copies: CopyGroups) -> None:
        self.reporter = reporter
        self.block_ids = block_ids
        self.warp = warp
        self.copies = copies
        self.ops: list[Op | None] = [None]
        self._numbers: dict[int, int] = {}

    def number(self, op: Op) -> int:
        """A small number for the op, for records."""
        number = self._numbers.get(id(op))
        if number is None:
            number = self._numbers[id(op)] = len(self.ops)
            self.ops.append(op)
        return number

    # --- classes -----------------------------------------------------------------------------------------------------

    def read(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str = "read by") -> None:
        """Reads that nothing orders after the last write (or that find none)."""
        kind = clashes.kind
        early = self._waited_since(shadow, clashes)
        codes = np.select([clashes.record == 0, (kind == PENDING) & early, kind == PENDING, kind == WAITED],
                          [_B6, _D2, _D1, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, verb, lambda scene: self._tell_read(shadow, scene))

    def write(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str) -> None:
        """Writes that nothing orders after the last write."""
        codes = np.select([clashes.kind == PENDING, clashes.kind == WAITED], [_B9, _D3], self._sync(clashes, _C1))
        self._report(shadow, op, clashes, codes, verb, _tell_write)

    def overwrite(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str, asynchronous: bool) -> None:
        """Writes that nothing orders after earlier reads."""
        codes = np.full(clashes.unit.shape, _D4) if asynchronous else self._sync(clashes, _C2)
        self._report(shadow, op, clashes, codes, verb, _tell_overwrite)

    def twice(self, shadow: Shadow, op: Op, clashes: Clashes, verb: str) -> None:
        """Writes of one unit by two threads in one statement."""
        self._report(shadow, op, clashes, np.full(clashes.unit.shape, _C1), verb, _tell_twice)

    def _sync(self, clashes: Clashes, code: int) -> Ints:
        return np.where(clashes.thread // self.warp == clashes.actor // self.warp, _C3, code)

    def _waited_since(self, shadow: Shadow, clashes: Clashes) -> Bools:
        """Whether the issuer of each copy has waited since it issued it."""
        if shadow.copies is None:
            return np.zeros(clashes.unit.shape, np.bool_)
        issued = shadow.copies.waits[clashes.unit, clashes.block]
        return self.copies.waits[clashes.thread, clashes.block] > issued

    # --- reports -----------------------------------------------------------------------------------------------------

    def _report(self, shadow: Shadow, op: Op, clashes: Clashes, codes: Ints, verb: str, tell: Tell) -> None:
        keys = (codes.astype(np.int64) << OP_BITS) | op_of(clashes.record)
        for key in np.unique(keys):
            same = np.flatnonzero(keys == key)
            i = int(same[np.argmin(clashes.unit[same])])
            scene = self._scene(shadow, op, clashes, i, ORDER[int(key) >> OP_BITS], verb)
            message, hint = tell(scene)
            first, second = _points(scene)
            threads = (scene.actor,) if scene.other is None else (scene.rival, scene.actor)
            locs = (first,) if second is None else (first, second)
            if tell is _tell_overwrite:                 # the write comes first
                locs, threads = locs[::-1], threads[::-1]
            byte = scene.unit * shadow.unit
            self.reporter.add(Finding(scene.code, message, locs, scene.block, threads, shadow.buffer.name,
                                      _coordinate(shadow.buffer, byte), hint), len(same))

    def _scene(self, shadow: Shadow, op: Op, clashes: Clashes, i: int, code: str, verb: str) -> Scene:
        unit, column, record = int(clashes.unit[i]), int(clashes.block[i]), clashes.record[i:i + 1]
        wait = None
        if shadow.copies is not None and int(clashes.kind[i]) == WAITED:
            wait = self.ops[int(shadow.copies.wait_op[unit, column])]
        actor = int(clashes.actor[i])
        return Scene(code, _element(shadow.buffer, unit * shadow.unit), actor, int(clashes.thread[i]),
                     tuple(int(x) for x in self.block_ids[column]), op, self.ops[int(op_of(record)[0])], verb,
                     unit, column, actor // self.warp, "" if wait is None else _line(wait))

    # --- words -------------------------------------------------------------------------------------------------------

    def _tell_read(self, shadow: Shadow, scene: Scene) -> tuple[str, str | None]:
        if scene.code == "B6":
            return f"{scene.now} before anything wrote it", HINTS["B6"]
        if scene.code == "D1":
            return (f"{scene.now} while {_copy(scene)} into it is in flight: {_not_waited(scene)}",
                    HINTS["D1"])
        if scene.code == "D2":
            why, hint = self._too_permissive(shadow, scene)
            return f"{scene.now} while {_copy(scene)} into it may be in flight: {why}", hint
        return _tell_unordered(scene)

    def _too_permissive(self, shadow: Shadow, scene: Scene) -> tuple[str, str]:
        """Why the issuer's last wait did not cover the copy, and what would."""
        copies, counts, at = shadow.copies, self.copies, (scene.rival, scene.column)
        if copies is None:
            raise ValueError(f"{shadow.buffer.name} has no asynchronous copies to wait for")
        group = int(copies.group[scene.unit, scene.column])
        wait = self.ops[int(counts.wait_op[at])]
        pending = wait.pending if isinstance(wait, CpAsyncWait) else None
        where = "" if wait is None else _line(wait)
        if group >= int(counts.at_wait[at]):
            return (f"no cp_async_commit() stands between it and the wait of thread {scene.rival}{where}, and a wait "
                    f"with a count covers committed copies only",
                    "cp_async_commit() after the copies, or cp_async_wait()")
        newer = int(counts.at_wait[at]) - 1 - group
        left = "newest group" if pending == 1 else f"{pending} newest groups"
        after = ("none was", "only one was")[newer] if newer < 2 else f"only {newer} were"
        why = (f"thread {scene.rival} waited{where} with cp_async_wait({pending}), which leaves its {left} in flight, "
               f"and {after} committed after this one")
        if int(counts.before[at]) == int(counts.at_wait[at]):
            return (f"{why}; no group was committed since the wait before, after {int(counts.at_wait[at])} commits "
                    f"in all", "an empty cp_async_commit() in each iteration of the tail keeps the counts right")
        return why, f"cp_async_wait({newer})"


def _tell_unordered(scene: Scene) -> tuple[str, str | None]:
    """C1, C3 and D3 share their sentence, for reads and writes alike."""
    if scene.code == "D3":
        return (f"{scene.now} while nothing orders it after {_copy(scene)}: the copy was waited for{scene.waited}, but "
                f"there is no barrier between that wait and this {_noun(scene)}", HINTS["D3"])
    why = f"{_missing(scene)} between them"
    return f"{scene.now} while nothing orders it after the write by thread {scene.rival}: {why}", HINTS[scene.code]


def _tell_write(scene: Scene) -> tuple[str, str | None]:
    if scene.code == "B9":
        return (f"{scene.now} while {_copy(scene)} into it is in flight: {_not_waited(scene)}",
                HINTS["B9"])
    if scene.code == "D3":
        return _tell_unordered(scene)
    return (f"{scene.now} and was written by thread {scene.rival}, and nothing orders the two writes: "
            f"{_missing(scene)} between them", HINTS[scene.code])


def _tell_overwrite(scene: Scene) -> tuple[str, str | None]:
    this = "copy" if scene.code == "D4" else "write"
    return (f"{scene.now} while thread {scene.rival} may still be reading it: {_missing(scene)} between that read and "
            f"this {this}", HINTS[scene.code])


def _tell_twice(scene: Scene) -> tuple[str, str | None]:
    return (f"{scene.now} and by thread {scene.rival} in one statement: two writes that nothing orders",
            "let one thread write each element")


def _missing(scene: Scene) -> str:
    if scene.code == "C3":
        return f"both are lanes of warp {scene.warp}, and there is no sync_warp"
    return "there is no barrier"


def _noun(scene: Scene) -> str:
    return "read" if scene.verb == "read by" else "write"


def _not_waited(scene: Scene) -> str:
    return f"thread {scene.rival} has not waited for it"


def _copy(scene: Scene) -> str:
    return "the asynchronous copy by " + ("itself" if scene.rival == scene.actor else f"thread {scene.rival}")


def _line(op: Op) -> str:
    return f" (line {op.loc.line})" if op.loc.line else ""


def _points(scene: Scene) -> tuple[Loc, Loc | None]:
    return (scene.op.loc, None) if scene.other is None else (scene.other.loc, scene.op.loc)


def _coordinate(buffer: Buffer, byte: int) -> Coordinate | None:
    return coordinate_of(buffer, byte * 8 // buffer.dtype.bits)


def _element(buffer: Buffer, byte: int) -> str:
    """``sA(17, 3)``, or the byte where the layout has no element (padding)."""
    coordinate = _coordinate(buffer, byte)
    if coordinate is None:
        return f"byte {byte} of {buffer.name}"
    return f"{buffer.name}({', '.join(map(str, coordinate))})"
