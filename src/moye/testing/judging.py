"""``judge``: is a kernel right, and cheap enough?  It runs in a process of its own, and the verdict is made here.

In: source text, a reference on NumPy arrays, cases.  Out: a ``Verdict``.

    verdict = mo.testing.judge(source, lambda x: 2 * x, mo.testing.cases(make, [(1000,), (1,), (997,)]))
    with mo.testing.Judge() as judge: verdicts = [judge(text, reference, cases) for text in texts]

Inputs, expected values and comparisons stay in this process.  The other one gets shapes first, and data only when the
host code of the source has ended; so it can neither compute on the host nor know what is expected.  It is no sandbox.
"""

from __future__ import annotations

import array
import contextlib
import inspect
import io
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from moye.errors import ArgumentError, SimulationError
from moye.testing import verdicts
from moye.testing.cases import Case, Limits, in_turn
from moye.testing.holes import holes
from moye.testing.memory import Array, Packed, pack
from moye.testing.verdicts import Result, Verdict
from moye.testing.wire import receive, send

Reference = Callable[..., Any]
_NAME = "submission.py"
_START = 60.0
_ENDING = 15.0
"""Seconds in which a child that was ended is gone, with all its memory."""
_LAST = 2.0
"""Seconds in which a child that has closed its connection ends by itself."""


class Judge:
    """Judges many sources: one process imports moye once, and forks for each of them.  Close it, or use ``with``.

    ``inside=True`` runs them in this process, without limits, and does not look for tampering: for platforms that have
    no processes, such as a browser.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self.inside = inside
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            try:
                self._server.wait(5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._control = self._server = None

    def __call__(self, source: str | Path, reference: Reference, cases: Sequence[Case], *, entry: str = "solve",
                 limits: Limits | None = None, stop: bool = False, seed: int = 0) -> Verdict:
        """Judge one source; see ``judge``."""
        text, several = _text(source), _several(cases)
        if not callable(reference):
            raise ArgumentError(f"judge: reference is {reference!r}, and must be a function of NumPy arrays")
        if not isinstance(entry, str) or not entry.isidentifier():
            raise ArgumentError(f"judge: entry is {entry!r}, and must be the name of a function or a kernel")
        if (empty := holes(text)):
            return Verdict("holes", f"line {', '.join(map(str, empty))}: fill in the hole")
        expected = [_expected(reference, case) for case in several]
        return self.run(text, limits or Limits(), lambda talk: [
            *_results(talk, several, expected, entry, stop, seed)])

    def run(self, text: str, limits: Limits, work: Callable[[Asks], list[Result]]) -> Verdict:
        """Run a source in a child, and let ``work`` ask it; the verdict has all ways in which the child may end."""
        start, folder = time.monotonic(), tempfile.mkdtemp(prefix="moye-judge-")
        talk: Talk | None = None
        try:
            path = Path(folder, _NAME)
            try:
                path.write_text(text, encoding="utf-8")
            except UnicodeEncodeError as error:
                return Verdict("error", f"it is no text: {error}")
            if self.inside:
                return _inside(path, work, limits, start)
            talk = self._talk(limits)
            try:
                talk.ask({"path": str(path), "limits": {"cpu": int(limits.cpu), "memory": int(limits.memory)}})
                results = work(talk)
            except Failed as failed:
                results = [Result("the module", failed.status, failed.message)]
            except _Over as over:
                ended = self._status(_LAST) if over.status is None else None
                talk.end()
                took = time.monotonic() - start
                status, message = over.status or _how_it_ended(self._status() if ended is None else ended,
                                                               took >= limits.cpu)
                if over.status is not None:
                    self._status()
                return Verdict(status, message, tuple(over.results), talk.text(), took)
            talk.end()
            if self._status() == -1:
                return Verdict(*_how_it_ended(-1, False), tuple(results), talk.text(), time.monotonic() - start)
            return verdicts.of_results(results, talk.text(), time.monotonic() - start)
        finally:
            if talk is not None:
                talk.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _talk(self, limits: Limits) -> Talk:
        """A new child."""
        if self._server is None or self._server.poll() is not None:
            self.close()
            self._start()
        assert self._control is not None, "just started"
        mine, its = socket.socketpair()
        reading, writing = os.pipe()
        rights = array.array("i", [its.fileno(), writing])
        self._control.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        its.close()
        os.close(writing)
        return Talk(mine, reading, limits)

    def _start(self) -> None:
        self._control, its = socket.socketpair()
        self._control.settimeout(_START)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOYE_")}
        home = str(Path(__file__).parents[2])
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                        "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
                        "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))}
        code = f"from moye.testing.worker import serve; serve({its.fileno()})"
        self._server = subprocess.Popen([sys.executable, "-c", code], pass_fds=[its.fileno()], env=environment,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        its.close()

    def _status(self, seconds: float = _ENDING) -> int | None:
        """How the child ended, as ``os.wait`` tells: -1 where nobody can, None if it has not ended by then."""
        assert self._control is not None, "a child was started"
        self._control.settimeout(seconds)
        line = b""
        try:
            while not line.endswith(b"\n"):
                part = self._control.recv(1)
                if not part:
                    break
                line += part
        except TimeoutError:
            if seconds < _ENDING:
                return None
        except OSError:
            pass
        if not line.endswith(b"\n"):
            self.close()
            return -1
        return int(line)


class Failed(Exception):
    """The source failed in a way that the child could tell."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(str(told))
        self.status = str(told.get("status"))
        self.message = str(told.get("message")).encode(errors="replace").decode()       # what can be printed
        self.findings: list[dict[str, Any]] = list(told.get("findings") or [])
        failures = {status for status in verdicts.STATUSES if status != "passed"}
        if self.status not in (failures if not self.findings else {*failures, "finding"}):
            self.status = "tampering"                   # a source may raise what says how it failed


class _Over(Exception):
    """The child has ended, or must.  ``status`` is None where how it ended tells."""

    def __init__(self, status: tuple[str, str] | None = None) -> None:
        super().__init__(str(status))
        self.status = status
        self.results: list[Result] = []


class Asks(Protocol):
    """Somebody who lets a source answer."""

    def ask(self, head: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict[str, Any], list[bytes]]:
        """What it answers; Failed where the source has failed."""


class _Inside:
    """A source in this process."""

    def __init__(self) -> None:
        from moye.testing.submission import Submission

        self.submission = Submission(lambda: None)

    def ask(self, head: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict[str, Any], list[bytes]]:
        answer, pieces = self.submission.answer(head, blobs)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer, pieces


def _inside(path: Path, work: Callable[[Asks], list[Result]], limits: Limits, start: float) -> Verdict:
    """The verdict on a source that runs here."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        talk = _Inside()
        try:
            talk.ask({"path": str(path)})
            results = work(talk)
        except Failed as failed:
            results = [Result("the module", failed.status, failed.message)]
    return verdicts.of_results(results, printed.getvalue()[:int(limits.output)], time.monotonic() - start)


class Talk:
    """The conversation with one child, within the limits."""

    def __init__(self, end: socket.socket, output: int, limits: Limits) -> None:
        self.socket, self.output, self.limits = end, output, limits
        self.deadline = time.monotonic() + limits.seconds + (_START if limits.seconds < _START else 0)
        self.printed, self.pid = bytearray(), 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(end, selectors.EVENT_READ)
        self.selector.register(output, selectors.EVENT_READ)
        end.settimeout(_START)
        try:
            self.pid = int(receive(end, self._wait)[0]["pid"])
        except (EOFError, OSError, ValueError, KeyError):
            raise SimulationError("the process that judges did not start") from None
        self.deadline = time.monotonic() + limits.seconds

    def ask(self, head: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict[str, Any], list[bytes]]:
        """What the child answers; Failed where the source has failed."""
        try:
            self.socket.settimeout(max(0.01, self.deadline - time.monotonic()))
            send(self.socket, head, blobs)
            answer, found = receive(self.socket, self._wait)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise _Over from None
        except TimeoutError:
            raise _Over(self._late()) from None
        except (ValueError, KeyError, TypeError):
            raise _Over(("tampering", "what it answered is no answer")) from None
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer, found

    def _late(self) -> tuple[str, str]:
        return "timeout", f"it ran for more than {self.limits.seconds:g} s"

    def _wait(self) -> None:
        """Until there is something to read, and what it prints is kept."""
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = [key.fileobj for key, _ in self.selector.select(left)]
            if self.output in ready:
                self._read()
            if self.socket in ready:
                return

    def _read(self) -> bool:
        part = os.read(self.output, 1 << 16)
        if not part:
            self.selector.unregister(self.output)
        self.printed += part[:max(0, int(self.limits.output) - len(self.printed))]
        return bool(part)

    def end(self) -> None:
        """End the child and its process group."""
        self.socket.close()
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def text(self) -> str:
        """What it printed, up to the limit."""
        os.set_blocking(self.output, False)
        try:
            while len(self.printed) < int(self.limits.output) and self._read():
                pass
        except (BlockingIOError, KeyError):
            pass
        return self.printed.decode(errors="replace")

    def close(self) -> None:
        self.end()
        self.selector.close()
        os.close(self.output)


def _how_it_ended(status: int | None, late: bool) -> tuple[str, str]:
    if status is None or status == -1:
        return "tampering", "it ended the process that judges"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU or (number == signal.SIGKILL and late):
            return "timeout", "it used more seconds of the CPU than its limit"
        return "crash", f"it was ended by {signal.Signals(number).name}"
    return "crash", f"its process ended with {os.WEXITSTATUS(status)}"


# --- one source ------------------------------------------------------------------------------------------------------


def judge(source: str | Path, reference: Reference, cases: Sequence[Case], *, entry: str = "solve",
          limits: Limits | None = None, stop: bool = False, seed: int = 0) -> Verdict:
    """Judge a kernel's source against a reference, in a process of its own.

    ``source`` is Python text, or the path of a file.  ``entry`` is its host function, called with the arguments of a
    case by name, which launches kernels; or, for cases with a ``block``, its kernel.  ``reference`` takes arguments of
    a case by the names of its parameters, as they are before the call, and returns the expected output: an array, or of
    several a tuple in the order of ``outputs`` and ``updated``, or a dict.  ``limits`` are those of ``Limits``.
    ``stop`` ends at the first case that fails.  ``seed`` chooses the schedules.

    The host code sees arrays of zeros: it may decide by shapes and numbers, not by data, and what it writes is an error
    ("host").  Every launch is checked as by ``mo.check``.  ``mo.testing.Judge`` keeps the process for many sources.
    """
    with Judge() as one:
        return one(source, reference, cases, entry=entry, limits=limits, stop=stop, seed=seed)


def _text(source: Any) -> str:
    if isinstance(source, Path):
        try:
            return source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"judge: cannot read {source}: {error}") from None
    if not isinstance(source, str):
        raise ArgumentError(f"judge: source is a {type(source).__name__}, and must be Python text or a Path")
    return source


def _several(cases: Any) -> list[Case]:
    found = list(cases) if isinstance(cases, (list, tuple)) else []
    if not found or not all(isinstance(case, Case) for case in found):
        raise ArgumentError(f"judge: cases is {cases!r}, and must be a list of mo.testing.Case",
                            hint="mo.testing.cases(make, sizes) makes one")
    return found


def _expected(reference: Reference, case: Case) -> dict[str, Array]:
    """The expected arrays of a case by name."""
    parameters = inspect.signature(reference).parameters
    if unknown := [name for name in parameters if name not in case.arguments]:
        raise ArgumentError(f"judge: the reference takes {unknown[0]!r}, and {case.name} has "
                            f"{', '.join(case.arguments)}")
    passed = {name: value.copy() if isinstance(value, np.ndarray) else value
              for name in parameters for value in [case.arguments[name]]}
    with np.errstate(all="ignore"):
        told = reference(**passed)
    named = dict(told) if isinstance(told, Mapping) else dict(zip(
        case.written, told if isinstance(told, tuple) else (told,), strict=False))
    if set(named) != set(case.written):
        raise ArgumentError(f"judge: the reference gives {len(named)} arrays, and {case.name} writes "
                            f"{', '.join(case.written)}")
    for name, value in named.items():
        named[name] = np.asarray(value)
        if named[name].shape != case.arguments[name].shape:
            raise ArgumentError(f"judge: the reference gives shape {named[name].shape} for {name} of {case.name}, "
                                f"which has {case.arguments[name].shape}")
    return named


def _results(talk: Asks, cases: Sequence[Case], expected: Sequence[Mapping[str, Array]], entry: str, stop: bool,
             seed: int) -> list[Result]:
    found: list[Result] = []
    for number, (case, wanted) in enumerate(zip(cases, expected, strict=True)):
        try:
            found.append(_result(talk, case, wanted, entry, seed + number))
        except _Over as over:
            over.results = found
            raise
        if not found[-1].ok and (stop or found[-1].status in verdicts.FATAL):
            break
    return found


def _result(talk: Asks, case: Case, expected: Mapping[str, Array], entry: str, seed: int) -> Result:
    packed = pack(case.arrays)
    for name in case.outputs:
        _poison(packed.view(name), seed)
    numbers = {name: value.item() if isinstance(value, np.generic) else value
               for name, value in case.arguments.items() if name not in case.arrays}
    token = secrets.token_hex(8)
    try:
        traced, _ = talk.ask({"entry": entry, "plan": packed.plan, "numbers": numbers, "outputs": list(case.outputs),
                              "grid": case.grid, "block": case.block, "cluster": case.cluster, "seed": seed,
                              "earliest": case.earliest,
                              "timeline": case.goals is not None and case.goals.overlap is not None})
        told, pieces = talk.ask({"token": token}, [bytes(piece) for piece in packed.pieces])
    except Failed as failed:
        return _failed(case, failed)
    if told.get("token") != token or [len(p) for p in pieces] != packed.plan["sizes"]:
        return Result(case.name, "tampering", "it answered before it had the data")
    return _weighed(case, packed, pieces, expected, told["done"]["reports"], traced["done"]["operations"])


def _failed(case: Case, failed: Failed) -> Result:
    findings, status = tuple(failed.findings), failed.status
    if status == "finding":
        try:
            status = verdicts.worst(verdicts.status_of(finding["code"]) for finding in findings)
        except (KeyError, TypeError, ValueError, AttributeError):
            return Result(case.name, "tampering", "it tells of findings that are none")
    return Result(case.name, status, failed.message, findings)


def _poison(x: Array, seed: int) -> None:
    """What no result should be: NaN, or bytes without a meaning, others for each seed."""
    if x.dtype.kind == "f" and seed % 2 == 0:
        x[...] = np.nan
        return
    raw = np.random.default_rng(seed).integers(1, 127, (*x.shape, x.itemsize)).astype(np.uint8)
    x[...] = raw.view(x.dtype)[..., 0] if x.dtype.kind != "b" else raw[..., 0] % 2


def _weighed(case: Case, packed: Packed, pieces: Sequence[bytes], expected: Mapping[str, Array],
             reports: Sequence[Mapping[str, Any]], operations: Mapping[str, int]) -> Result:
    """What a case has come to: findings first, then the result, then the goals."""
    numbers = totals(reports, operations)
    findings = tuple(finding for report in reports for finding in report["findings"])
    if findings:
        ordered = sorted(findings, key=lambda f: list(verdicts.STATUSES).index(verdicts.status_of(f["code"])))
        first = ordered[0]
        return Result(case.name, verdicts.status_of(first["code"]), _sentence(first), tuple(ordered), numbers)
    if unjudged := [text for report in reports for text in report["unsupported"]]:
        return Result(case.name, "unjudged", str(unjudged[0]), (), numbers)
    if (wrong := _wrong(case, packed, pieces, expected)) is not None:
        return Result(case.name, "wrong", wrong, (), numbers)
    if case.goals is not None and (missed := case.goals.missed(numbers)):
        status = verdicts.worst(status for status, _ in missed)
        return Result(case.name, status, "; ".join(text for _, text in missed), (), numbers)
    return Result(case.name, "passed", "", (), numbers)


def _sentence(finding: Mapping[str, Any]) -> str:
    """A finding with its places, as a report says it."""
    places = [f"  line {chain[-1]['line']}: {str(chain[-1]['source']).strip()}" for chain in finding["points"] if chain]
    hint = [f"hint: {finding['hint']}"] if finding["hint"] else []
    return "\n".join([f"{finding['code']}: {finding['message']}", *dict.fromkeys(places), *hint])


def _wrong(case: Case, packed: Packed, pieces: Sequence[bytes], expected: Mapping[str, Array]) -> str | None:
    """What is wrong with the memory that came back."""
    from moye.runtime.check.reference import compare

    for before, after, mask in zip(packed.pieces, pieces, packed.mask(case.written), strict=True):
        changed = (np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8)) & ~mask
        if changed.any():
            return f"{int(changed.sum())} bytes of memory that is no output were changed"
    for name, wanted in expected.items():
        got = packed.view(name, pieces)
        if case.exact:
            if (place := _first_difference(got, wanted.astype(got.dtype))) is not None:
                return f"{name}{place} is {got[place]!s} and {wanted[place]!s} is expected, bit for bit"
        elif (wrong := compare(name, got, wanted, _rtol(case, got), None)) is not None:
            return str(wrong)
    return None


def _first_difference(got: Array, wanted: Array) -> tuple[int, ...] | None:
    same = got == wanted
    if got.dtype.kind == "f":
        same = (same & (np.signbit(got) == np.signbit(wanted))) | (np.isnan(got) & np.isnan(wanted))
    places = np.argwhere(~same)
    return tuple(int(i) for i in places[0]) if len(places) else None


def _rtol(case: Case, got: Array) -> float:
    from moye.runtime.check.reference import RTOL

    if case.rtol is not None:
        return case.rtol
    return max(RTOL.get(x.dtype.name, 0.0) for x in (got, *case.arrays.values()))


def totals(reports: Sequence[Mapping[str, Any]], operations: Mapping[str, int]) -> dict[str, Any]:
    """The numbers of all launches of a case together; see ``Result``."""
    counters: dict[str, Any] = {}
    lines: list[dict[str, Any]] = []
    for report in reports:
        for name, value in report["counters"].items():
            if name != "lines":
                counters[name] = counters.get(name, 0) + value
        lines += [{**line, "kernel": report["kernel"]} for line in report["counters"]["lines"]]
    ours = [line for line in lines if line["space"] == "global" and "sectors" in line]
    moved, ideal, requests = (sum(line[name] for line in ours) for name in ("sectors", "ideal", "requests"))
    told = [report["overlap"] for report in reports if report["overlap"] is not None]
    products = sum(total for _, total in told)
    return {"launches": len(reports), "counters": counters, "operations": dict(operations), "lines": lines,
            "degree": max((in_turn(line) for line in lines if line["space"] == "shared"), default=1),
            "conflicts": counters.get("shared_conflicts", 0), "sector_ratio": moved / ideal if ideal else 1.0,
            "sectors_per_request": moved / requests if requests else 0.0,
            "overlap": sum(hidden for hidden, _ in told) / products if products else None}
