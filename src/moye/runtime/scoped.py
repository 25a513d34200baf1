"""A value that holds inside a ``with`` block: for the thread or task that is in it, or for the whole process.

In: a value.  Out: inside the block ``get()`` is that value, for the threads and tasks that it concerns.

    with session.set(mine): session.get()

Tasks that begin in the block are in it, and so are threads that are given the context (``asyncio.to_thread``).  Other
threads are not, unless it is ``everywhere``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Scoped(Generic[T]):
    """One such value; the innermost block counts, and a thread's own block counts before those of the process."""

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
        """Set ``value`` inside the block."""
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
