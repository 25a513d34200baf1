"""Everything that moye can complain about: error classes, source locations, caret frames.

In: a sentence, the program points it is about and at most one hint.  Out: exceptions whose text is the sentence,
then source frames with carets (outermost call first), then ``hint:``.

>>> raise LayoutError("complement of (2,2):(1,1): modes 0 and 1 overlap", hint="drop one of the modes")
Traceback (most recent call last):
    ...
moye.errors.LayoutError: complement of (2,2):(1,1): modes 0 and 1 overlap
hint: drop one of the modes

Each class also inherits the builtin it refines.  It does not decide *when* something is wrong; callers do.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Frame:
    """One source line of a call chain: file, 1-based line, 0-based columns (``end`` is -1 when unknown), function."""

    file: str
    line: int
    column: int = 0
    end: int = -1
    function: str = ""

    def text(self) -> str:
        """The source line, or the empty string where there is none."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Loc:
    """A program point: its call chain, outermost frame first."""

    frames: tuple[Frame, ...] = ()

    @property
    def innermost(self) -> Frame | None:
        return self.frames[-1] if self.frames else None

    @property
    def line(self) -> int:
        """Line number of the innermost frame, 0 when unknown."""
        return self.frames[-1].line if self.frames else 0

    def render(self) -> str:
        """The frames as text, each with its source line and a caret underneath; of a recursion the first three."""
        parts = []
        for frame, same in groupby(self.frames):
            text, times = _render_frame(frame), len(list(same))
            parts += [text] * min(times, _REPEATED)
            if times > _REPEATED:
                parts.append(f"  ... and {times - _REPEATED} more of these calls")
        return "\n".join(parts)

    def __str__(self) -> str:
        return " > ".join(str(frame) for frame in self.frames) or "<unknown>"


UNKNOWN = Loc()
_REPEATED = 3  # frames of a function that calls itself at one place, as in Python's tracebacks


def caret(text: str, column: int) -> str:
    """A one-line text with a caret under one of its characters, for the end of a message."""
    return f"    {text}\n    {' ' * column}^"


def _render_frame(frame: Frame) -> str:
    where = f"  {frame.file}:{frame.line}"
    if frame.function:
        where += f" in {frame.function}"
    source = frame.text()
    if not source.strip():
        return where
    indent = len(source) - len(source.lstrip())
    start = max(frame.column, indent)
    end = frame.end if frame.end > start else len(source)
    return f"{where}\n    {source.strip()}\n    {' ' * (start - indent)}{'^' * max(1, end - start)}"


class MoyeError(Exception):
    """Base of every error that moye raises on purpose.

    ``message`` is one sentence with both values; ``locs`` the program points; ``hint`` what to do, or None.
    ``code`` is the class of the checker's catalogue that the error belongs to (``A5``), None for all others; a
    traceback then ends with the command that tells more of it.
    """

    def __init__(self, message: str, *, hint: str | None = None, locs: Iterable[Loc] = (),
                 code: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.code = code
        self.locs: list[Loc] = [loc for loc in locs if loc.frames]
        super().__init__(message)
        if code:
            self.add_note(f"moye explain {code} tells more")

    def at(self, loc: Loc) -> MoyeError:
        """Attach a program point, unless one is already there; returns self."""
        if not self.locs and loc.frames:
            self.locs.append(loc)
        return self

    def __str__(self) -> str:
        head = f"{self.code}: {self.message}" if self.code else self.message
        parts = [head, *(loc.render() for loc in self.locs)]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class LayoutError(MoyeError, ValueError):
    """A layout operation outside its domain (non-divisible composition, overlapping complement, ...)."""


class FactError(LayoutError):
    """An answer needs a fact that a dynamic integer does not have."""


class TensorError(MoyeError, ValueError):
    """A tensor, tiled copy or tiled MMA used in a way that its layout or dtype does not allow."""


class AlignmentError(TensorError):
    """A vector access whose address is not a multiple of its width (classes B3, B4 of the checker)."""


class DTypeError(MoyeError, TypeError):
    """A dtype that an operation, an atom or an argument does not accept."""


class TraceError(MoyeError, TypeError):
    """A Python construct that a kernel cannot use, or used in a way that tracing cannot follow."""


class MissingError(TraceError, AttributeError):
    """A name that what is used in a kernel does not have."""


class PreconditionError(MoyeError, ValueError):
    """An argument that breaks what the kernel's trace assumed; nothing was launched."""


class ArgumentError(MoyeError, TypeError):
    """An argument of the wrong kind, rank, dtype or device; nothing was launched."""


class LaunchError(MoyeError, ValueError):
    """A launch configuration that the device or the kernel does not allow; nothing was launched."""


class IRError(MoyeError, AssertionError):
    """The verifier found malformed IR: a defect of moye, not of the user's kernel."""


class CompileError(MoyeError, RuntimeError):
    """NVRTC rejected the printed source, or a needed package is missing."""


class PerformanceWarning(UserWarning):
    """The compiler notes that a kernel loses time; raised once when it is compiled for a launch."""


class DriverError(MoyeError, RuntimeError):
    """The CUDA driver returned an error."""


class SimulationError(MoyeError, RuntimeError):
    """The simulated kernel violated a rule of the machine; ``finding`` holds the first violation."""

    def __init__(self, message: str, *, finding: object = None, hint: str | None = None,
                 locs: Sequence[Loc] = (), code: str | None = None) -> None:
        super().__init__(message, hint=hint, locs=locs, code=code)
        self.finding = finding


class UnsupportedError(MoyeError, NotImplementedError):
    """Something that moye knows about and cannot judge or run here; it says what and why."""
