"""Names in moye's own modules that kernels read: they hardly ever change, and one number tells that none did.

In: captures.  Out: those of other modules, which are looked at in each launch, and a ``Watch`` of the rest.

    others, watch = apart(captures)
    watch is None or watch.sure()                       # nothing was assigned since, or all is as it was

A kernel of products reads some fifty names; to look at each costs two microseconds a launch.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

from moye.lang.contents import Contents
from moye.lang.trace import Capture

edits = [0]
"""How often a name of a watched module was given another value, or was deleted."""


class _Module(types.ModuleType):
    """A module that counts.  A reload gives it another ``__spec__`` first, so that it is counted as well."""

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get(name, value) is not value:         # a new name is none that a kernel has read
            edits[0] += 1
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        edits[0] += 1
        super().__delattr__(name)


class Watch:
    """Names of watched modules, and what they held; ``seen`` is the number of edits up to which they are known to."""

    __slots__ = ("_names", "seen")

    def __init__(self, captures: Sequence[Capture]) -> None:
        self.seen = [-1]
        self._names = [(vars(module), capture.name, capture.value) for capture in captures
                       if (module := _watchable(capture)) is not None]

    def sure(self) -> bool:
        """Whether all hold what they held, by as short a look as is enough."""
        return edits[0] == self.seen[0] or self.holds()

    def holds(self) -> bool:
        """The same; looks at each, and then knows it up to now."""
        now = edits[0]
        if any(space.get(name) is not value for space, name, value in self._names):
            return False
        self.seen[0] = now
        return True


def apart(captures: Sequence[Capture]) -> tuple[list[Capture], Watch | None]:
    """The captures of other modules, closures and functions; and the rest, whose modules are watched from here on."""
    others = [capture for capture in captures if _watchable(capture) is None]
    if len(others) == len(captures):
        return others, None
    for capture in captures:
        if (module := _watchable(capture)) is not None:
            module.__class__ = _Module
    return others, Watch(captures)


def _watchable(capture: Capture) -> types.ModuleType | None:
    """The module of moye in which a name lives; None for any other place."""
    space = capture.namespace
    if not isinstance(space, dict) or isinstance(capture.value, Contents):
        return None
    name = space.get("__name__", "")
    module = sys.modules.get(name) if name.partition(".")[0] == __name__.partition(".")[0] else None
    return module if type(module) in (types.ModuleType, _Module) and vars(module) is space else None
