"""The kernel being traced on this thread: its builder, and the place in the user's code where tracing is.

In: nothing.  Out: ``builder()``, the Builder that expressions and tensors record into; ``locate()``, the user's frames.

    builder().emit(ops.SyncThreads())

Outside a trace ``builder()`` raises a TraceError that says so.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from moye.errors import Frame, Loc, TraceError
from moye.ir.builder import Builder

_PACKAGE = str(Path(__file__).parent.parent)           # as code objects have it: links in it are not followed
_KERNELS = str(Path(_PACKAGE) / "kernels")
MAKE_STATIC = ("an argument is static as n: mo.Constexpr, a tensor's extents as x: mo.Static, a loop variable in "
               "mo.static_range")
"""The hint where a static number is asked for."""


@dataclass(slots=True)
class _Code:
    """What is known of a code object, by id (equal ones may come from different files); it keeps the object alive."""

    code: CodeType
    frames: dict[int, Frame | None]
    positions: list[tuple[int | None, int | None, int | None, int | None]]


class _State(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder] = []
        self.joins: list[Any] = []


_state = _State()
_codes: dict[int, _Code] = {}
_ours: dict[int, bool] = {}
"""moye's own code objects that frames had, by id; they are in ``_codes``, too.  Whether it is the kernel's entry."""
_inside: dict[str, bool] = {}
known_internal = _inside.get
"""``is_internal`` of a file that was asked for before, else None, without a call of Python's."""


def builder() -> Builder:
    """The Builder of the kernel being traced; TraceError outside of one."""
    if not _state.builders:
        raise TraceError("this operation exists only inside a kernel: no kernel is being traced",
                         hint="call it from a function decorated with @mo.kernel or @mo.jit")
    return _state.builders[-1]


def tracing() -> bool:
    return bool(_state.builders)


class AtOnce:
    """An operand outside of kernels: a verb on it is traced alone, and runs at once.

    It has no metaclass: each verb of a kernel asks whether something is one, and ``abc`` answers that slowly.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """The name for messages."""

    @abstractmethod
    def run(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, registers: bool) -> Any:
        """What the verb gives; with ``registers`` it is handed all tensors in registers."""

    def outside(self) -> TraceError:
        """The error for a kernel that names this operand, or for an operation that only kernels have."""
        if not _state.builders:
            return TraceError(f"{self.label} is a tensor of the host, and this operation exists only inside a kernel",
                              hint="call it from a function decorated with @mo.kernel or @mo.jit")
        return TraceError(f"{self.label} is a tensor of the host, which a kernel does not reach",
                          hint="pass its array to the kernel: x.array", locs=(locate(),))


_P = ParamSpec("_P")
_R = TypeVar("_R")


def at_once(verb: Callable[_P, _R], *, registers: bool = False) -> Callable[_P, _R]:
    """A verb that also takes operands that live outside of kernels.  Inside of one they are refused."""

    @functools.wraps(verb)
    def either(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for operand in (*args, *kwargs.values()):
            if isinstance(operand, AtOnce):
                if _state.builders:
                    raise operand.outside()
                return operand.run(verb, args, kwargs, registers=registers)  # type: ignore[no-any-return]
        return verb(*args, **kwargs)

    return either


@contextmanager
def trace_into(new: Builder, joins: Any = None) -> Iterator[Builder]:
    """Make ``new`` the current builder inside the with statement; ``joins`` are the shared arrays that are one."""
    _state.builders.append(new)
    _state.joins.append(joins)
    try:
        yield new
    finally:
        _state.builders.pop()
        _state.joins.pop()


def joins() -> Any:
    """The shared arrays that are one in the trace that runs (``joined.Joins``); None if it cannot be made anew."""
    return _state.joins[-1] if _state.joins else None


def is_internal(file: str) -> bool:
    known = _inside.get(file)
    if known is None:
        known = file.startswith(_PACKAGE) and not file.startswith(_KERNELS)
        _inside[file] = known
    return known


LOOKING = frozenset({"IPython", "_pytest", "bdb", "code", "debugpy", "executing", "inspect", "ipykernel", "pdb",
                      "pluggy", "pprint", "pydevd", "_pydevd_bundle", "pytest", "reprlib", "rich", "stack_data",
                      "traceback"})
"""Packages that show objects to people while the program is stopped."""
_OF_DATACLASSES = ("reprlib", "wrapper")
"""The function around the repr of each dataclass, from Python 3.13 on: it shows objects to nobody by itself."""


def text_is_asked_for(frame: FrameType | None) -> bool:
    """Whether code of the kernel asks for an object's text, and not moye's own code or a debugger's."""
    while _state.builders and frame is not None and not is_internal(frame.f_code.co_filename):
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in LOOKING and (module, frame.f_code.co_name) != _OF_DATACLASSES:
            return False
        if module == "__main__" or (module not in sys.stdlib_module_names and frame.f_code.co_name != "__repr__"):
            return True
        frame = frame.f_back                                # the repr of a tuple or a dataclass, say: who asks for it?
    return False


def frame_of(code: CodeType, lasti: int) -> Frame | None:
    """The source frame of an instruction; None for moye's own code."""
    known = _codes.get(id(code))
    if known is None:
        positions = [] if is_internal(code.co_filename) else list(code.co_positions())
        known = _codes[id(code)] = _Code(code, {}, positions)
        if not positions:
            _ours[id(code)] = code.co_name == "_trace_entry"
    if not known.positions:
        return None
    if lasti not in known.frames:
        known.frames[lasti] = _frame(known, lasti)
    return known.frames[lasti]


def _frame(known: _Code, lasti: int) -> Frame:
    code = known.code
    if not 0 <= lasti // 2 < len(known.positions):
        return Frame(code.co_filename, code.co_firstlineno, 0, -1, code.co_name)
    line, end_line, column, end = known.positions[lasti // 2]
    last = (end or -1) if end_line == line else -1
    return Frame(code.co_filename, line or code.co_firstlineno, column or 0, last, code.co_name)


def locate() -> Loc:
    """The user's frames between the kernel's entry and here, outermost first."""
    frames: list[Frame] = []
    current: FrameType | None = sys._getframe(1)
    is_entry = _ours.get
    while current is not None:
        code = current.f_code
        entry = is_entry(id(code))
        # Most frames are moye's own: they are passed without a call, because each operation of a kernel comes by here.
        if entry is None:
            if code.co_name != "<lambda>" or not frames:
                frame = frame_of(code, current.f_lasti)
                if frame is not None:
                    frames.append(frame)
                elif _ours[id(code)]:
                    break
        elif entry:
            break
        current = current.f_back
    frames.reverse()
    return Loc(tuple(frames))
