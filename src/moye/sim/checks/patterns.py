"""Release and acquire patterns of two operations on one place: what a relaxed access tells because of another one.

In: the strong writes and reads of each thread of a batch, in program order.  Out: ``writes``: the releases that a write
publishes; ``relaxed``: the values that a thread has found and acquires now.

    st.release [M]; st.relaxed [M]              # who finds the second value knows what lies before the first
    ld.relaxed [M]; ld.acquire [M]              # the second look acquires what the first one has found, too

PTX ISA, memory consistency model, release and acquire patterns.  Those with a fence are in signals.py.
"""

from __future__ import annotations

from dataclasses import replace

from moye.ir import ops
from moye.sim.checks.flag_history import Location, Place, Release
from moye.sim.checks.global_regions import scope_of
from moye.sim.checks.signal_memory import RELEASES


class Patterns:
    """What each thread of a batch has done at each place."""

    def __init__(self) -> None:
        self._released: dict[tuple[int, int, Place], list[Release]] = {}
        self._found: dict[tuple[int, int, Location], list[tuple[int, int]]] = {}

    def writes(self, op: ops.Op, place: Place, block: int, thread: int, own: list[Release]) -> list[Release]:
        """The releases of a write, whose ``own`` ones are given, and those that come before it."""
        key, scope = (block, thread, place), scope_of(op)
        before = self._released.get(key, [])
        if getattr(op, "order", None) in RELEASES:
            # It holds all that earlier ones held; a wider one reaches more readers.
            self._released[key] = [*own, *(old for old in before if old.scope > scope)]
            return own
        # Both must reach the reader: the release, and the write that it finds.
        return [*(replace(old, scope=min(old.scope, scope)) for old in before), *own]

    def finds(self, location: Location, value: int, scope: int, block: int, thread: int) -> None:
        """A relaxed read has found a value."""
        found = self._found.setdefault((block, thread, location), [])
        if not found or found[-1] != (value, scope):
            found.append((value, scope))

    def relaxed(self, location: Location, value: int, block: int, thread: int) -> list[tuple[int, int]]:
        """A thread acquires, and finds this value: the values of other chains that it has found before, and the scopes
        of these reads."""
        found = self._found.pop((block, thread, location), [])
        return [(old, scope) for old, scope in found if location.chain[old] != location.chain[value]]
