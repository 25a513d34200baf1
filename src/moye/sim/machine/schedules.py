"""The order in which a run takes blocks, and who of those that poll looks first: by a seed, 0 for the plain order.

In: a seed, the number of blocks.  Out: ``Schedule``, which the machine asks; ``Rewind``, which puts outputs back so
that a launch can run again in another order.

>>> Schedule(2, 132, 1).positions(0, 4)
array([ 49,  56, 106, 102])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from moye.sim.values.memory import Array, TensorArg

T = TypeVar("T")
SEVERAL = 3
"""The schedules of a kernel whose blocks signal to each other, if nobody says how many; one more if threads poll."""
MOST_BLOCKS, MOST_BYTES = 512, 1 << 30
"""One schedule is enough for launches beyond this, unless somebody says how many."""
DEAR = 3_000_000
"""One schedule is also enough if the first takes more steps of synchronisation: following what many blocks tell each
other takes seconds."""

LATE_AND_LAST = 5
"""With this seed the last ones come when the first are done, and find old values first."""
IN_TURN = 6
"""The first schedule in which threads take turns at fences by fence.sc."""
CROSSED, TOGETHER = 4, 4
"""From this seed on who is first at one atomic may be last at the next; so many blocks, or clusters, at least run at
once then."""


class Schedule:
    """One order.  Odd seeds run few blocks at once, so that some end before others begin; even ones many.

    Seed 1 takes them backwards and seeds 3 and 5 forwards, so that of any two blocks each has come first once, and been
    done with all that it need not wait for.  Who has waited longest looks last with seed 1, with seed 3 first.  With
    odd seeds those that poll are ``late``: they look too early, then when nobody else moves, and find the newest value
    alone, so that they miss one that another follows; every other time they are ``prompt``, and find it in their first
    look.  With even ones from 2 on, one of several flags looks old for longer than the others, and threads give way
    (pauses.py); with those from 4 on, threads that come to atomics together take turns in another order at every other
    tensor.

    Only blocks that are all ``resident`` may begin in any order: others may count on the one that devices keep to.
    If it is ``turned``, the last of the threads that come to an atomic together is always first.
    """

    def __init__(self, seed: int, blocks: int, cluster: int, *, resident: bool = True, turned: bool = False) -> None:
        self.seed, self.blocks, self.cluster, self.late, self.turned = seed, blocks, cluster, seed % 2 == 1, turned
        self._random = np.random.default_rng(seed)
        self._order: Array | None = None
        if seed and resident:
            clusters = -(-blocks // cluster)
            forth = np.arange(clusters)
            first = forth[::-1] if seed == 1 else forth if seed in (3, 5) else self._random.permutation(clusters)
            self._order = (first[:, None] * cluster + np.arange(cluster)).reshape(-1)

    def positions(self, first: int, count: int) -> Array:
        """Which blocks come at these positions; the blocks of a cluster stay neighbours."""
        return np.arange(first, first + count) if self._order is None else self._order[first:first + count]

    def size(self, usual: int) -> int:
        """How many blocks run at once, where ``usual`` ones could."""
        clusters = max(1, usual // self.cluster)
        if not self.seed:
            return usual
        if self.seed % 2:
            return self.cluster * -(-clusters // 64)
        drawn = int(self._random.integers(max(1, clusters // 4), clusters + 1))
        return self.cluster * (max(drawn, min(clusters, TOGETHER)) if self.seed >= CROSSED else drawn)

    def turns(self, waiting: Sequence[T]) -> list[T]:
        """In which order those that wait get their turn."""
        if self.seed < 2 or self.seed == 3:
            return list(waiting)[::-1 if self.seed == 1 else 1]
        return [waiting[i] for i in self._random.permutation(len(waiting))]

    def laggard(self, flags: Sequence[T]) -> T | None:
        """Which of the flags that are polled looks old for longest: each in another schedule, the first with seed 2.

        A loop that looks at several flags in each pass may find one set and the other not, in either order.
        """
        return None if self.seed < 2 or self.late or len(flags) < 2 else flags[(self.seed // 2 - 1) % len(flags)]

    def laggard_of_one(self, flags: Sequence[T]) -> T | None:
        """The tensor of flags of which every other one looks old for longer, where no second tensor is polled: a warp
        whose lanes poll one each may find some set and others not."""
        return flags[0] if len(flags) == 1 and self.seed >= 2 and not self.late else None

    def backwards(self, tensor: Callable[[], int]) -> bool:
        """Whether of threads that come to one atomic together the last is first: of every other tensor, so that who is
        last at one counter need not be at the next.  ``tensor`` is its number in the kernel."""
        return self.turned or (self.seed >= CROSSED and not self.late and tensor() % 2 == self.seed // 2 % 2)

    @property
    def prompt(self) -> bool:
        """Whether those that poll find the newest value at once: a look that seldom is the first to succeed may be."""
        return self.seed % 4 == 3

    @property
    def steady(self) -> bool:
        """Whether nothing is drawn while it runs: where a state comes back, so does what follows it."""
        return self.seed < 2 or self.seed == 3

    def wakes(self) -> bool:
        """Whether those that poll look at once when a flag changes."""
        return not self.seed or (not self.late and bool(self._random.random() < 0.5))


class Rewind:
    """The outputs of a launch before it ran."""

    def __init__(self, outputs: Sequence[TensorArg]) -> None:
        self._before = [(argument, argument.memory.copy()) for argument in outputs]
        self._after: list[Array] = []

    def keep(self) -> None:
        """Keep what is there now: it is the result."""
        self._after = [argument.memory.copy() for argument, _ in self._before]

    def back(self) -> None:
        """Put everything back as it was before the launch."""
        for argument, before in self._before:
            argument.memory[...] = before

    def restore(self) -> None:
        """Put the result back."""
        for (argument, _), after in zip(self._before, self._after, strict=True):
            argument.memory[...] = after
