"""Run a whole Python program with every launch checked: what ``moye check`` does.

In: ``script.py`` or ``script.py::function``, its arguments.  Out: lines of text as launches end, then ``Outcome``.

    outcome = check_program("script.py::main", ["128"], print); outcome.status      # 0

A clean launch is one line, and equal ones share a line.  A finding is shown in full the first time.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moye.errors import ArgumentError, MoyeError
from moye.runtime.check.checking import checking
from moye.runtime.check.report import Report

CLEAN, VIOLATIONS, FAILED = 0, 1, 2
Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """The reports of all launches, and how the program itself ended: None, or what it raised."""

    target: str
    reports: list[Report]
    failure: str | None = None

    def status(self, *, fail_on_unsupported: bool = False) -> int:
        """The exit status: 1 for proven violations, 2 if the program itself failed, else 0."""
        if any(report.findings or (fail_on_unsupported and report.unsupported) for report in self.reports):
            return VIOLATIONS
        return CLEAN if self.failure is None else FAILED

    def __str__(self) -> str:
        kernels = len({report.kernel for report in self.reports})
        bad = sum(bool(report.findings) for report in self.reports)
        told = [f"{_counted(len(self.reports), 'launch', 'launches')} of {_counted(kernels, 'kernel')}",
                f"{_counted(bad, 'launch', 'launches')} with findings" if bad else "no findings"]
        if unjudged := sum(bool(report.unsupported) for report in self.reports):
            told.append(f"{unjudged} not judged completely")
        if lints := sum(len(report.lints) for report in self.reports):
            told.append(_counted(lints, "lint"))
        end = "" if self.failure is None else f"; the program failed: {self.failure}"
        return f"{self.target}: {', '.join(told)}{end}"

    def as_json(self) -> str:
        """All of it, for other programs."""
        return json.dumps({"target": self.target, "failure": self.failure, "status": self.status(),
                           "launches": [report.as_dict() for report in self.reports]}, indent=1) + "\n"


def check_program(target: str, arguments: Sequence[str], say: Say, *, earliest: bool = False, blocks: int | None = None,
                  lints: bool = True) -> Outcome:
    """Run a program with every launch in the checking simulator; ArgumentError if there is no such program."""
    path, _, function = target.partition("::")
    if not Path(path).is_file():
        raise ArgumentError(f"there is no script {path}")
    printer, failure = _Printer(say, lints), None
    with _as_program(path, arguments):
        try:
            with checking(earliest=earliest, blocks=blocks, lints=lints, each=printer.report, explicit=True,
                          everywhere=True) as reports:
                _run(path, function, arguments)
        except SystemExit as left:
            if left.code not in (None, 0):
                failure = f"it exited with {left.code!r}"
        except Exception as error:
            if isinstance(error, _NoFunctionError):
                raise ArgumentError(str(error)) from None
            failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            if not (isinstance(error, MoyeError) and error.code):       # that one is among the reports
                traceback.print_exc()
    printer.flush()
    return Outcome(target, reports, failure)


class _NoFunctionError(Exception):
    """The script has no such function."""


def _run(path: str, function: str, arguments: Sequence[str]) -> None:
    if not function:
        runpy.run_path(path, run_name="__main__")
        return
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _NoFunctionError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Any = module
    for part in function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _NoFunctionError(f"{path} has no function {function}")
    found(*(_literal(argument) for argument in arguments))


def _literal(text: str) -> Any:
    """A number from ``128``, a string from ``fast``."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@contextmanager
def _as_program(path: str, arguments: Sequence[str]) -> Iterator[None]:
    """``sys.argv`` and ``sys.path`` as the script expects them."""
    argv, paths = list(sys.argv), list(sys.path)
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, paths


class _Printer:
    """Prints launches as they end."""

    def __init__(self, say: Say, lints: bool) -> None:
        self.say, self.lints = say, lints
        self.seen: set[tuple[Any, ...]] = set()
        self.line, self.times = "", 0

    def report(self, report: Report) -> None:
        details = report.details(lints=self.lints)
        keys: list[tuple[Any, ...]] = [(report.kernel, f.code, getattr(f, "tensor", ""), str(getattr(f, "locs", "")))
                for f in (*report.findings, *(report.lints if self.lints else ()))]
        keys += [(report.kernel, text) for text in report.unsupported]
        new = [text for text, key in zip(details, keys, strict=True) if key not in self.seen]
        self.seen.update(keys)
        line = report.head + (", as above" if details and not new else "")
        if line != self.line:
            self.flush()
            self.line = line
        self.times += 1
        if new:
            self.flush()
            self.say("\n".join(new))

    def flush(self) -> None:
        """Print the line that several launches may share."""
        if self.times:
            self.say(self.line + (f" ({self.times} times)" if self.times > 1 else ""))
        self.line, self.times = "", 0


def _counted(number: int, what: str, plural: str | None = None) -> str:
    return f"{number} {what if number == 1 else plural or f'{what}s'}"
