"""Who takes launches in the place of the device: the innermost ``checking`` block of a thread or task.

In: nothing.  Out: that block's session, or None.  The launch path knows a session by this protocol alone, so that it
does not depend on what judges launches.

>>> if (taken := session()) is not None: taken.launch(name, grid, block, prepared)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moye.runtime.arguments import Call
from moye.runtime.compile import Dim3, Specialised
from moye.runtime.scoped import Scoped

Launch = Callable[[], tuple[Call, Specialised]]
"""Classifies, specialises and looks at what must hold; it may raise."""


class Session(Protocol):
    """What the launch path asks of a session."""

    def launch(self, name: str, grid: Dim3, block: Dim3, prepared: Launch, *, dependent: bool = False) -> None:
        """Judge a launch in place of running it; what refuses it raises, as without a session."""


current: Scoped[Session] = Scoped("checking")


def session() -> Session | None:
    """The innermost session that this thread or task is in, None outside of all."""
    return current.get()
