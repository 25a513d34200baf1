"""Threads that give way in some schedules: who does, and who goes on first once nobody else gets any further.

In: a Func, the number of a schedule, how many blocks run.  Out: ``Pauses``, which the batches of a launch share.

A store of a flag that comes late, after all that others do meanwhile, may undo it: a counter that is set back when the
next round has begun.  A look that comes late may miss what it is to wait for.  So there all of them are as late as they
can be.  Fences by fence.sc have one order, in which some schedules let threads take turns.
"""

from __future__ import annotations

from moye.ir.nodes import Func
from moye.sim.flow.giving_way import Way, sites
from moye.sim.flow.groups import Group
from moye.sim.machine.schedules import CROSSED, IN_TURN

MOST, LEAST, SHARED = 64, 8, 1024
"""Threads give way so often in a launch, the more blocks the less often: each time all others have several turns.
Those that wait for ever are to be found out, too."""
QUIET = 2
"""So many turns of all others without an effect."""
LONGEST, IN_ALL = 64, 256
"""So many turns at most, of one and of all that give way: loops may do something in each pass while they wait."""


class Pauses:
    """The groups that give way in one launch."""

    def __init__(self, func: Func, seed: int, blocks: int) -> None:
        ways = set(sites(func).values()) if seed >= 2 and seed % 2 == 0 else set[Way]()
        self.in_turn = "fence" in ways and seed % 4 == 2 and seed >= IN_TURN
        """Whether who came first goes on first, and only fences count; else the last one does, so that others wait."""
        self.ways: set[Way] = {"fence"} if self.in_turn else ways
        if "fence" in ways and seed < CROSSED:          # one schedule in which nobody gives way
            self.ways = set()
        self.left = max(LEAST, min(MOST, SHARED // max(1, blocks)))
        self.waiting: list[Group] = []
        self.turns = 0

    def stops(self, way: Way, group: Group) -> bool:
        """Whether a group gives way here."""
        if way not in self.ways or not self.left or self.turns > IN_ALL:
            return False
        self.left -= 1
        self.waiting.append(group)
        return True

    def over(self, quiet: int, held: int) -> bool:
        """After one more turn of all others: whether somebody goes on, after so many without an effect, or in all."""
        self.turns += 1
        return quiet > QUIET or held > LONGEST or self.turns > IN_ALL

    @property
    def next(self) -> Group:
        """Who goes on first."""
        return self.waiting[0 if self.in_turn else -1]

    def remove(self, group: Group) -> None:
        """It goes on."""
        self.waiting.remove(group)
