"""The kernel being traced on this thread: its builder, and where in the user's code tracing stands.

In: nothing.  Out: ``builder()``, the Builder that expressions and tensors record into; ``locate()``, the user's frames.

>>> builder().emit(ops.SyncThreads())

Outside a trace ``builder()`` raises a TraceError that says so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

from moye.errors import Frame, Loc, TraceError
from moye.ir.builder import Builder

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_KERNELS = str(Path(_PACKAGE) / "kernels")


class _State(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []


_state = _State()
_frames: dict[tuple[CodeType, int], Frame | None] = {}
_inside: dict[str, bool] = {}


def builder() -> Builder:
    """The Builder of the kernel being traced; TraceError outside of one."""
    if not _state.builders:
        raise TraceError("this operation exists only inside a kernel: no kernel is being traced",
                         hint="call it from a function decorated with @mo.kernel or @mo.jit")
    return _state.builders[-1]


def tracing() -> bool:
    return bool(_state.builders)


@contextmanager
def trace_into(new: Builder) -> Iterator[Builder]:
    """Make ``new`` the current builder for the duration of the with statement."""
    _state.builders.append(new)
    try:
        yield new
    finally:
        _state.builders.pop()


def _is_internal(file: str) -> bool:
    known = _inside.get(file)
    if known is None:
        known = file.startswith(_PACKAGE) and not file.startswith(_KERNELS)
        _inside[file] = known
    return known


def frame_of(code: CodeType, lasti: int) -> Frame | None:
    """The source frame of an instruction; None for moye's own code."""
    key = (code, lasti)
    if key in _frames:
        return _frames[key]
    frame = None
    if not _is_internal(code.co_filename):
        line, _, column, end = _position(code, lasti)
        frame = Frame(code.co_filename, line, column, end, code.co_name)
    _frames[key] = frame
    return frame


def _position(code: CodeType, lasti: int) -> tuple[int, int, int, int]:
    for index, (line, end_line, column, end) in enumerate(code.co_positions()):
        if index == lasti // 2:
            same_line = end_line == line
            return line or code.co_firstlineno, end_line or 0, column or 0, (end or -1) if same_line else -1
    return code.co_firstlineno, 0, 0, -1


def locate() -> Loc:
    """The user's frames between the kernel's entry and here, outermost first."""
    frames: list[Frame] = []
    current = sys._getframe(1)
    while current is not None:
        code = current.f_code
        if code.co_name == "_trace_entry" and _is_internal(code.co_filename):
            break
        if code.co_name != "<lambda>" or not frames:
            frame = frame_of(code, current.f_lasti)
            if frame is not None:
                frames.append(frame)
        if current.f_back is None:
            break
        current = current.f_back
    frames.reverse()
    return Loc(tuple(frames))
