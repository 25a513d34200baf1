"""The process that a source runs in.  ``serve`` forks one child for each source, so that moye is imported once.

In: over sockets, sources and cases (``judging.py``).  Out: reports and arrays.

A child asks the source's host code for its launches while all arrays are zero, and traces their kernels.  Only then
do the data arrive, and moye runs the launches: no code of the source runs beside the data.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import io
import os
import resource
import signal
import socket
import sys
import threading
import traceback
import types
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from moye.errors import MoyeError
from moye.runtime import arguments, sessions, simulate
from moye.runtime.check.checking import Refused, judged, options
from moye.runtime.compile import Dim3, Specialised
from moye.testing import tampering
from moye.testing.memory import Room, byte_bounds
from moye.testing.wire import receive, send

Launched = tuple[str, Dim3, Dim3, arguments.Call, Specialised, bool]
_LOADED = ("moye.sim.machine.machine", "moye.sim.costs.table", "moye.sim.costs.advice", "moye.sim.timeline.view",
           "moye.sim.generate.program", "moye.runtime.kernel", "moye.runtime.check.check", "moye.pipelines",
           "moye.schedulers", "moye.mma", "moye.kernels", "moye.runtime.tma_arguments", "moye.lang.collectives")


def serve(number: int) -> None:
    """Fork a child for each socket that comes; tell how it ended.  Until the other end is closed."""
    control = socket.socket(fileno=number)
    for name in _LOADED:
        importlib.import_module(name)
    _first_launch()
    untouched = tampering.Snapshot()
    gc.freeze()
    while True:
        told, numbers, _, _ = socket.recv_fds(control, 1, 2)
        if not told:
            return
        if (child := os.fork()) == 0:
            control.close()
            _child(socket.socket(fileno=numbers[0]), numbers[1], untouched)
        for one in numbers:
            os.close(one)
        _, status = os.waitpid(child, 0)
        try:
            control.sendall(f"{status}\n".encode())
        except OSError:                                 # nobody listens any longer
            return


def _first_launch() -> None:
    """Imports what a launch imports, so that children need not."""
    from moye.lang.builtins import thread_idx
    from moye.runtime.kernel import kernel

    @kernel
    def filled(out: Any) -> None:
        out[thread_idx().x] = 0

    filled[1, 32](np.zeros(32, np.float32))


def _child(end: socket.socket, output: int, untouched: tampering.Snapshot) -> None:
    code = 0
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(output, number)
        send(end, {"pid": os.getpid()})
        _Child(end, untouched).run()
    except EOFError:
        pass
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Ended(Exception):
    """The source has failed: ``told`` says how."""

    def __init__(self, status: str, message: str, findings: Any = ()) -> None:
        super().__init__(message)
        self.told = {"status": status, "message": message, "findings": list(findings)}


class Recorder:
    """A session that notes launches."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, Dim3, Dim3, sessions.Launch, bool]] = []

    def launch(self, name: str, grid: Dim3, block: Dim3, prepared: sessions.Launch, *, dependent: bool = False) -> None:
        self.launches.append((name, grid, block, prepared, dependent))


class _Child:
    """Judges one source, as the messages ask."""

    def __init__(self, end: socket.socket, untouched: tampering.Snapshot) -> None:
        self.end, self.untouched = end, untouched
        self.path = Path()
        self.module: types.ModuleType | None = None

    def run(self) -> None:
        head, _ = receive(self.end)
        self._limit(head["limits"])
        self.path = Path(head["path"])
        os.chdir(self.path.parent)
        if not self._answer(lambda: self._load()):
            return
        while True:
            head, _ = receive(self.end)
            if "values" in head:
                self._answer(lambda names=head["values"]: {"values": self._values(names)})
            else:
                self._case(head)

    @staticmethod
    def _limit(limits: dict[str, int]) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu"], limits["cpu"] + 1))
        resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))

    def _answer(self, work: Any) -> bool:
        """Tell what the work gave, or how it failed; whether it did not."""
        try:
            found = self._guarded(work)
        except Ended as ended:
            send(self.end, {"failed": ended.told})
            return False
        send(self.end, {"done": found})
        return True

    def _guarded(self, work: Any) -> Any:
        """The source's own code, with every way in which it may end."""
        try:
            return work()
        except Ended:
            raise
        except MoyeError as error:
            raise Ended("refused", str(error)) from None
        except MemoryError:
            raise Ended("memory", "it needed more memory than its limit") from None
        except RecursionError:
            raise Ended("error", "RecursionError: it calls itself without end") from None
        except SystemExit as left:
            raise Ended("error", f"it exited with {left.code!r}") from None
        except BaseException as error:
            raise Ended("error", self._said(error)) from None

    def _said(self, error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if Path(frame.filename).name == self.path.name]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f" (line {line} of {self.path.name})" if line else ""
        return f"{type(error).__name__}: {str(error).strip() or 'no text'}{where}"

    def _load(self) -> dict[str, Any]:
        spec = importlib.util.spec_from_file_location("submission", self.path)
        assert spec is not None and spec.loader is not None, "a Python file"
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self.module = module
        self._own()
        return {}

    def _own(self) -> None:
        """Ended if the source changed what judges it; what it may change is as it was."""
        if (said := self.untouched.changed()) is not None:
            raise Ended("tampering", said)
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        simulate.set_progress(None)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        for name in [name for name in os.environ if name.startswith("MOYE_")]:
            del os.environ[name]

    # --- values ------------------------------------------------------------------------------------------------------

    def _values(self, names: list[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            if not hasattr(self.module, name):
                raise Ended("error", f"{self.path.name} has no {name}")
            found[name] = plain(getattr(self.module, name), name)
        self._own()
        return found

    # --- cases -------------------------------------------------------------------------------------------------------

    def _case(self, head: dict[str, Any]) -> None:
        room = Room(head["plan"], head["outputs"])
        try:
            launches = self._guarded(lambda: self._recorded(head, room))
        except Ended as ended:
            send(self.end, {"failed": ended.told})
            return
        send(self.end, {"done": {"operations": operations(launches)}})
        data, pieces = receive(self.end)
        room.fill(pieces)
        try:
            told = self._guarded(lambda: _run(launches, head, room))
        except Ended as ended:
            send(self.end, {"failed": ended.told})
            return
        send(self.end, {"done": told, "token": data["token"]}, room.contents())

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
        self._own()
        return launches


def _extents(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _traced(name: str, grid: Dim3, block: Dim3, prepared: sessions.Launch) -> tuple[arguments.Call, Specialised]:
    try:
        return prepared()
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
