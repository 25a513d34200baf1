"""Loops that tracing unrolls: ``for`` over anything but a range of the kernel.

In: the protocol of ``loops.py``, an iterable of Python.  Out: the body's IR once for each item.

    for dy, dx in ((0, 1), (1, 0)):
        if not inside(y + dy, x + dx): continue         # the kernel decides: the rest is for some threads
        total += image[y + dy, x + dx]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from moye.lang.jumps import Meeting
from moye.lang.loops import MOST_TURNS, Locals, Loop, too_many_turns
from moye.lang.scopes import above, leave, regions, require_end
from moye.tensor.context import builder


class StaticFor(Loop):
    """Python's own iteration: the body is traced once per item.

    ``jumps``: the statements in the body that leave a turn or the loop.  Where the kernel decides about one, what
    follows is for the threads that have not jumped, and the variables meet behind the turn, or the loop.
    """

    def __init__(self, iterable: Iterable[object], names: tuple[str, ...], target: str,
                 jumps: Collection[str] = ()) -> None:
        super().__init__(names)
        self.iterable = iterable
        self.target = target
        self.jumps = jumps
        self.around = builder().trips
        self.turn: Meeting | None = None
        self.over: Meeting | None = None
        self.met: Locals = {}
        """What the last turn has left in the variables, where its ways had to meet."""

    def __iter__(self) -> Iterator[Any]:
        regions().append(self)
        b = builder()
        try:
            for trip, item in enumerate(self.iterable):
                if trip >= MOST_TURNS:
                    raise too_many_turns("this for", "loop over range(n), a loop of the kernel")
                if self.target:
                    b.trips = (*self.around, (self.target, item if type(item) is int else trip))
                yield item
                self._meet({})
                if self.jumps and b.terminated():       # no thread comes to further turns
                    break
        finally:
            leave(self)
            b.trips = self.around

    @property
    def left(self) -> bool:
        """Whether some threads have jumped, and do not come to the point that is being traced."""
        return any(meeting is not None and meeting.left for meeting in (self.turn, self.over))

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        values = {**variables, **self.met}
        self.met = {}
        if "break" in self.jumps and self.over is None:
            self.over = Meeting(self.names, values)
        if "continue" in self.jumps:
            self.turn = Meeting(self.names, values)
        return super().begin(values)

    def end(self, variables: Locals) -> None:
        self._meet(variables)

    def _meet(self, variables: Locals) -> None:
        turn, self.turn = self.turn, None
        if turn is not None:
            self.met = turn.close(variables)

    def after(self, variables: Locals) -> tuple[Any, ...]:
        # A Python ``break`` leaves the generator suspended: its ``finally`` may run much later.
        leave(self)
        builder().trips = self.around
        values = {**variables, **self.met}
        return super().after(values if self.over is None else self.over.close(values))

    def abandon(self) -> None:
        """All threads return from within the loop, so that nothing meets."""
        for meeting in (self.turn, self.over):
            if meeting is not None:
                builder().join()
        self.turn = self.over = None

    def _decided(self) -> bool:
        """Whether tracing decides about a jump: then it is Python's own."""
        return not above(self) and (self.turn is None or not self.turn.left)

    def break_(self, variables: Locals, through: bool = False) -> int:
        if self._decided():
            self._meet(variables)
            self.met = {}
            return 1
        require_end("break", through)
        assert self.over is not None, "the loop has a break"
        self.over.leave(variables)
        return 0

    def continue_(self, variables: Locals, through: bool = False) -> int:
        if self._decided():
            self._meet(variables)
            return 2
        require_end("continue", through)
        assert self.turn is not None, "the loop has a continue"
        self.turn.leave(variables)
        return 0
