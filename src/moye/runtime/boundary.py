"""The boundary of moye's public calls: a traceback that leaves them shows the user's frames, not moye's own.

In: a public function.  Out: the same function, whose exceptions have short tracebacks; MOYE_TRACEBACK=1 keeps them
whole.

>>> @boundary
... def launch(self, *args): ...

Messages carry source frames of their own, with carets.
"""

from __future__ import annotations

import functools
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from moye import env
from moye.errors import TraceError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OWN = (str(Path(__file__).parent.parent), sysconfig.get_path("stdlib"), "<string>", "<frozen")


def boundary(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function whose exceptions are shown without moye's frames."""
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError as error:
            told = _too_deep(error)
            raise told from (error if told is not error and env.traceback() else None)
        except Exception as error:
            error.__traceback__ = _users(error.__traceback__)
            raise
    return call


def _users(step: types.TracebackType | None) -> types.TracebackType | None:
    """The frames of a traceback that belong neither to moye nor to the standard library in between."""
    if env.traceback():
        return step
    kept: list[types.TracebackType] = []
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_OWN) or "site-packages" in file.removeprefix(_OWN[0]):
            kept.append(step)
        step = step.tb_next
    result = None
    for old in reversed(kept):
        result = types.TracebackType(result, old.tb_frame, old.tb_lasti, old.tb_lineno)
    return result


def _too_deep(error: RecursionError) -> Exception:
    """The error for a kernel that nests too deeply for Python; an endless recursion of the user's is left as it is."""
    step, users = error.__traceback__, 0
    while step is not None:
        users += not step.tb_frame.f_code.co_filename.startswith(_OWN)
        step = step.tb_next
    if users > 100:
        return error
    return TraceError("this kernel nests expressions or branches more deeply than Python's recursion limit allows",
                      hint="give parts of it names of their own, or raise the limit: sys.setrecursionlimit(10_000)")

