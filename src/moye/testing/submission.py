"""One source that is judged: it is loaded, asked for its launches, and these are run on data that come later.

In: messages of the judge (``judging.py``).  Out: answers, both as plain data.

    submission.answer({"path": path}); submission.answer(case); submission.answer({"token": token}, pieces)

The host code of the source runs while all arrays hold nothing, and kernels are traced.  Only then do the data arrive,
and moye runs the launches: no code of the source runs beside the data.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from moye.errors import MoyeError
from moye.ir.inline import Inline, InlineEffect
from moye.runtime import arguments, sessions
from moye.runtime.check.checking import Refused, judged, options
from moye.runtime.compile import Dim3, Specialised
from moye.testing.memory import Room, byte_bounds

Launched = tuple[str, Dim3, Dim3, arguments.Call, Specialised, bool]
Answer = tuple[dict[str, Any], list[bytes]]
_LONGEST = 10_000
"""Characters of a message that are passed on."""


class Ended(Exception):
    """The source has failed: ``told`` says how."""

    def __init__(self, status: str, message: str, findings: Any = ()) -> None:
        super().__init__(message)
        self.told = {"status": status, "message": message[:_LONGEST], "findings": list(findings)}


class Recorder:
    """A session that notes launches."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, Dim3, Dim3, sessions.Launch, bool]] = []

    def launch(self, name: str, grid: Dim3, block: Dim3, prepared: sessions.Launch, *, dependent: bool = False) -> None:
        self.launches.append((name, grid, block, prepared, dependent))


class Submission:
    """A source.  ``own`` is called whenever its code has run, and may raise Ended."""

    def __init__(self, own: Callable[[], None]) -> None:
        self.own = own
        self.path = Path()
        self.module: types.ModuleType | None = None
        self.waiting: tuple[list[Launched], dict[str, Any], Room] | None = None

    def answer(self, head: dict[str, Any], pieces: Sequence[bytes] = ()) -> Answer:
        """What the judge is told; ``failed`` says how the source failed."""
        try:
            if "path" in head:
                return {"done": self._guarded(partial(self._load, Path(head["path"])))}, []
            if "values" in head:
                return {"done": self._guarded(partial(self._values, head["values"]))}, []
            if "token" in head:
                return self._guarded(partial(self._run, head["token"], pieces)), self._contents()
            return {"done": self._guarded(partial(self._case, head))}, []
        except Ended as ended:
            return {"failed": ended.told}, []

    def _guarded(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The source's own code, with every way in which it may end."""
        try:
            return work()
        except Ended:
            raise
        except MoyeError as error:
            raise Ended("refused", self._refusal(error)) from None
        except MemoryError:
            raise Ended("memory", "it needed more memory than its limit") from None
        except RecursionError:
            raise Ended("error", "RecursionError: it calls itself without end") from None
        except SystemExit as left:
            raise Ended("error", f"it exited with {left.code!r}") from None
        except BaseException as error:
            raise Ended("error", self._said(error)) from None

    def _refusal(self, error: MoyeError) -> str:
        own = type(error).__module__.partition(".")[0] == "moye"        # else its text is the source's own code
        return str(error).replace(f"{self.path.parent}{os.sep}", "") if own else self._said(error)

    def _said(self, error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if Path(frame.filename).name == self.path.name]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f" (line {line} of {self.path.name})" if line else ""
        try:
            text = str(error).strip()[:_LONGEST] or "no text"
        except BaseException as worse:                  # its text is the source's own code
            text = f"its text raises {type(worse).__name__}"
        return f"{type(error).__name__}: {text}{where}"

    def _load(self, path: Path) -> dict[str, Any]:
        self.path = path
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec is not None and spec.loader is not None, "a Python file"
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self.module = module
        self.own()
        return {}

    def _values(self, names: list[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            if not hasattr(self.module, name):
                raise Ended("error", f"{self.path.name} has no {name}")
            found[name] = plain(getattr(self.module, name), name)
        self.own()
        return {"values": found}

    def _case(self, head: dict[str, Any]) -> dict[str, Any]:
        room = Room(head["plan"], head["outputs"])
        launches = self._recorded(head, room)
        self.waiting = launches, head, room
        return {"operations": operations(launches)}

    def _run(self, token: str, pieces: Sequence[bytes]) -> dict[str, Any]:
        if self.waiting is None:
            raise Ended("error", "there is nothing to run")
        launches, head, room = self.waiting
        room.fill(pieces)
        return {"done": _run(launches, head, room), "token": token}

    def _contents(self) -> list[bytes]:
        return [] if self.waiting is None else self.waiting[2].contents()

    def _recorded(self, head: dict[str, Any], room: Room) -> list[Launched]:
        """The launches that the source makes of arrays that hold nothing yet, traced."""
        entry: Any = getattr(self.module, head["entry"], None)
        if not callable(entry) and head["block"] is None:
            raise Ended("error", f"{self.path.name} has no function {head['entry']}")
        if head["block"] is not None and not hasattr(entry, "launch"):
            raise Ended("error", f"{self.path.name} has no kernel {head['entry']}")
        recorder = Recorder()
        passed = {**head["numbers"], **room.arrays}
        with sessions.current.set(recorder):
            if head["block"] is None:
                entry(**passed)
            else:
                entry.launch(**passed, grid=_extents(head["grid"]), block=_extents(head["block"]),
                             cluster=_extents(head["cluster"]))
        if room.touched():
            raise Ended("host", "the host code writes to an array: what it writes does not count, only kernels do")
        if not recorder.launches:
            raise Ended("wrong", f"{head['entry']} launches no kernel")
        launches = [(name, grid, block, *_traced(name, grid, block, prepared), dependent)
                    for name, grid, block, prepared, dependent in recorder.launches]
        self.own()
        return launches


def _extents(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _traced(name: str, grid: Dim3, block: Dim3, prepared: sessions.Launch) -> tuple[arguments.Call, Specialised]:
    try:
        call, spec = prepared()
        if type(call) is not arguments.Call or type(spec) is not Specialised:
            raise Ended("tampering", "it changed the launches that were noted")
        for op in spec.func.body.walk():
            if isinstance(op, Inline | InlineEffect) and op.snippet.meaning is not None:
                raise Ended("unjudged", f"the source says itself what {op.snippet} means (simulate=), and none of its "
                            "code runs beside the data")
        return call, spec
    except MoyeError as error:
        if not error.code:
            raise
        from moye.runtime.check.report import refused

        report = refused(error, name, grid, block)
        raise Ended("finding", str(error), report.as_dict()["findings"]) from None


def operations(launches: list[Launched]) -> dict[str, int]:
    """How many statements of each kind the kernels have, under their names in the IR."""
    kinds: Counter[str] = Counter()
    for spec in {id(spec): spec for _, _, _, _, spec, _ in launches}.values():
        kinds.update(type(op).__name__ for op in spec.func.body.walk())
    return dict(kinds)


def _run(launches: list[Launched], head: dict[str, Any], room: Room) -> dict[str, Any]:
    reports = []
    for name, grid, block, call, spec, dependent in launches:
        poison = _holding_nothing(call, room, head["outputs"]) if len(launches) == 1 else ()
        how = options(head["earliest"], head["timeline"], None, True, None, None, head["seed"], None, poison)
        try:
            report = judged(name, grid, block, partial(_pair, call, spec), how, dependent=dependent)
        except Refused as no:
            report = no.report
        told = report.as_dict()
        told["counters"] = report.counters() if report.traffic is not None else {"lines": []}
        told["overlap"] = None
        if report.recorded is not None:
            overlap = report.timeline().overlap()
            told["overlap"] = [overlap.overlapped, overlap.total]
        reports.append(told)
        if report.findings:
            break
    return {"reports": reports}


def _pair(call: arguments.Call, spec: Specialised) -> tuple[arguments.Call, Specialised]:
    return call, spec


def _holding_nothing(call: arguments.Call, room: Room, outputs: list[str]) -> list[str]:
    """The kernel's names of arrays that are outputs alone, and lie in no other array's memory."""
    spans = {name: byte_bounds(x) for name, x in room.arrays.items()}
    alone = [spans[name] for name in outputs if not any(
        low < spans[name][1] and spans[name][0] < high for other, (low, high) in spans.items() if other != name)]
    return [name for name, info, _ in call.arrays if any(low <= info.ptr < high for low, high in alone)]


def plain(value: Any, name: str) -> Any:
    """A number, a tuple, a layout or a tiled copy as data."""
    from moye.layout import ComposedLayout, Layout, Swizzle

    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (Layout, ComposedLayout, Swizzle)):
        return {"layout": str(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item, name) for item in value]
    if hasattr(value, "layout_tv") and hasattr(value, "tiler"):
        return {"tv": str(value.layout_tv), "tile": plain(value.tiler, name)}
    raise Ended("error", f"{name} is a {type(value).__name__}, and must be a number, a tuple, a layout or a tiled copy")
