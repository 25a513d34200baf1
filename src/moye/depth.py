"""Python's recursion limit, raised while moye walks what a kernel computes: generated code has sums of 2000 terms.

In: a function that walks expressions.  Out: the same, under a limit of at least ``LEAST``.

>>> @deeply
... def print_kernel(func): ...

The limit belongs to the process: the last of several threads puts it back.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
LEAST = 10_000
_lock = threading.Lock()
_inside = 0
_before = 0


def deeply(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that may recurse deeply."""
    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _enter()
        try:
            return function(*args, **kwargs)
        finally:
            _leave()
    return call


def _enter() -> None:
    global _inside, _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
            if _before < LEAST:
                sys.setrecursionlimit(LEAST)
        _inside += 1


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if not _inside and _before < LEAST and sys.getrecursionlimit() == LEAST:
            sys.setrecursionlimit(_before)
