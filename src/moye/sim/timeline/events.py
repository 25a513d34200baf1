"""What a timeline is made of: ``Event``, a statement run by a warp; ``Overlap``, how many MMAs hide copies; ``Span``.

In: nothing.  Out: records.

>>> Overlap(217, 256).share
Fraction(217, 256)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from moye.errors import Frame, Loc
from moye.sim.timeline.effort import Unit
from moye.sim.timeline.kinds import Kind

OWN = ("cp.async", "copy", "load")
"""The kinds of copies from global memory that are in flight for the warp that issued them; "tma" is for its block."""


@dataclass(frozen=True, slots=True)
class Event:
    """One statement run by one warp of one block.

    ``index`` is its place in ``Timeline.events``, ``order`` its place in the program order of its warp, ``step`` its
    time: a statement that several warps run together has one step, and steps respect barriers.
    ``kind``: "cp.async" (issue of an asynchronous copy), "commit", "wait", "barrier", "copy" (global to shared
    memory, synchronous), "load" (global memory to registers), "read" and "write" (shared memory to and from registers),
    "mma", "store" (to global memory), "use" (the first use of what a load brought, where it is none of these); of
    sm_90 "tma" (a tensor or bulk copy from global memory), "tma store" (to it), "tma send" (to another block), "arrive"
    (at an mbarrier; a wait for one is noted when it passes).
    ``trips`` are (variable, value) of the loops around it, outermost first: those of the kernel, then unrolled ones.
    ``buffer`` and ``stage``: the shared tensor that it touches and, if that has three or more modes, the coordinate
    in the last one, where all active lanes agree; of mbarriers the number.
    ``done``, of what ``goes_on``, a copy or a wgmma: the index of the event that ends it, maybe of another warp; None
    where nothing does.  ``until``: the step of that event.  ``completes``: the indices of the events that end here.
    ``in_flight``: how many copies were issued before this event and end after it, see ``Timeline.overlap``.
    """

    index: int
    block: tuple[int, int, int]
    warp: int
    order: int
    step: int
    kind: Kind
    lanes: int
    frame: Frame | None
    tensors: tuple[str, ...]
    trips: tuple[tuple[str, int], ...]
    buffer: str | None
    stage: int | None
    done: int | None
    completes: tuple[int, ...]
    in_flight: int
    until: int | None = None
    goes_on: bool = False

    @property
    def where(self) -> str:
        """``file:line`` of the user's statement."""
        return str(self.frame) if self.frame is not None else "<unknown>"

    @property
    def text(self) -> str:
        """The source line of the user's statement, without its comment."""
        return re.sub(r"\s{2,}#.*", "", self.frame.text()).strip() if self.frame is not None else ""

    @property
    def loops(self) -> str:
        """``trips`` as text: ``k_tile=3 k_block=0``."""
        return " ".join(f"{name}={value}" for name, value in self.trips)

    @property
    def alike(self) -> tuple[object, ...]:
        """What is the same for warps that do the same: everything but who, and indices."""
        return (self.kind, self.step, self.lanes, self.frame, self.tensors, self.trips, self.buffer, self.stage,
                self.in_flight, self.until)


@dataclass(frozen=True, slots=True)
class Overlap:
    """``overlapped`` of ``total`` MMAs run while a copy is in flight."""

    overlapped: int
    total: int

    @property
    def share(self) -> Fraction:
        """Exact; 0 where there is no MMA."""
        return Fraction(self.overlapped, self.total) if self.total else Fraction(0)

    def __str__(self) -> str:
        return f"{self.overlapped} of {self.total} MMAs ({self.share})"


@dataclass(frozen=True, slots=True)
class Span:
    """A unit works for a warp from clock ``begin`` to ``end``; of a load ``end`` is when the data is there.

    ``taken`` are the clocks for which the unit can do nothing else.
    ``order`` is the event's place in ``Timeline.events``; None for arithmetic, of which there are no events.
    """

    block: int
    warp: int
    unit: Unit
    begin: float
    end: float
    taken: float
    loc: Loc
    order: int | None = None
    stage: int | None = None
