"""P4: waits for every asynchronous copy, where a part of what is in flight would do.

In: each ``cp.async`` wait of a run with the copies that are in flight then, and each shared read after it.
Out: ``WaitWatch.steps``: per wait how often newer groups were in flight, and how many of them nobody read before the
next wait.

It looks at the first block of each batch; where threads count groups differently it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Ref, TileRef
from moye.sim.costs.wavefronts import Ints
from moye.sim.flow.async_copies import AsyncCopies

NEVER = 127
"""The rank of what no copy in flight writes."""


@dataclass(slots=True)
class Steps:
    """One wait: executions with several groups in flight, and how many groups it could have left (the fewest)."""

    op: ops.CpAsyncWait
    several: int = 0
    groups: int = 0
    spare: int = NEVER
    alone: bool = False
    """Whether only one group was in flight at its last execution."""
    uneven: bool = False
    """Whether there were several at a later one: no count of groups fits all of them."""


@dataclass(slots=True)
class _Open:
    """The time from a wait to the next one: per buffer the rank (0: the newest group) of each byte in flight."""

    steps: Steps
    ranks: dict[int, Ints]
    groups: int
    least: int


class WaitWatch:
    """Watches waits that stand in a loop (``inside``: the ids of their ops)."""

    def __init__(self, inside: set[int]) -> None:
        self.inside = inside
        self.steps: dict[int, Steps] = {}
        self.open: _Open | None = None

    def before(self, op: ops.CpAsyncWait, copies: AsyncCopies) -> None:
        """The wait ``op`` begins."""
        self.close()
        if op.pending or id(op) not in self.inside or not copies.flying or isinstance(copies.committed, np.ndarray):
            return
        groups = {copy.group for copy in copies.flying}
        steps = self.steps.setdefault(id(op), Steps(op))
        steps.uneven |= steps.alone and len(groups) > 1
        steps.alone = len(groups) == 1
        if len(groups) < 2 or copies.committed in groups:       # not committed: no count could leave it in flight
            return
        ranks: dict[int, Ints] = {}
        for copy in copies.flying:
            end = copy.copy.dst                                 # type: ignore[attr-defined]
            bytes_ = ranks.setdefault(end.ref.buffer.id, np.full(end.ref.buffer.bytes, NEVER, np.int64))
            width = end.ref.dtype.bytes
            at = (np.unique(copy.to[:, :, 0])[:, None] * width + np.arange(width)).reshape(-1)
            at = at[(at >= 0) & (at < len(bytes_))]
            bytes_[at] = copies.committed - 1 - copy.group
        self.open = _Open(steps, ranks, len(groups), max(copies.committed - min(groups), 1))

    def access(self, ref: Ref | TileRef, address: Ints, size: int, how: str) -> None:
        """Shared memory is read: what the copies of the last wait brought is needed."""
        if self.open is None or how != "read":
            return
        ranks = self.open.ranks.get(ref.buffer.id)
        if ranks is None:
            return
        at = (address[:, :, 0].reshape(-1, 1) + np.arange(size)).reshape(-1)
        at = at[(at >= 0) & (at < len(ranks))]
        if len(at):
            self.open.least = min(self.open.least, int(ranks[at].min()))

    def begin(self) -> None:
        """The next blocks."""
        self.close()
        for steps in self.steps.values():
            steps.alone = False

    def close(self) -> None:
        """The next wait begins, or the blocks end."""
        now, self.open = self.open, None
        if now is not None:
            now.steps.several += 1
            now.steps.groups = max(now.steps.groups, now.groups)
            now.steps.spare = min(now.steps.spare, now.least)
