"""What holds within a ``with`` block: for the thread or task that is in it, or for the whole process.

In: a value.  Out: within the block ``get()`` is that value, for those whom it concerns.

>>> with session.set(mine): session.get()

Tasks that begin within the block are in it, as are threads that are given the context (``asyncio.to_thread``); other
threads are not, unless ``everywhere``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Scoped(Generic[T]):
    """One such value; the innermost block counts, and one of a thread's own before those of the process."""

    def __init__(self, name: str) -> None:
        self._own: ContextVar[T | None] = ContextVar(name, default=None)
        self._shared: list[T] = []

    def get(self) -> T | None:
        own = self._own.get()
        if own is not None or not self._shared:
            return own
        return self._shared[-1]

    @contextmanager
    def set(self, value: T, *, everywhere: bool = False) -> Iterator[T]:
        """``value`` within the block."""
        if everywhere:
            self._shared.append(value)
            try:
                yield value
            finally:
                self._shared[:] = [kept for kept in self._shared if kept is not value]
            return
        before = self._own.get()
        self._own.set(value)
        try:
            yield value
        finally:                                        # not by a token: a generator may be closed in another context
            self._own.set(before)
