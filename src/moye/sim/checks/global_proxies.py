"""Proxy fences for global memory: what threads wrote, and bulk copies of the same launch read or overwrite.

In: proxy fences with what their threads knew.  Out: whether one lies between a write and a bulk copy.

The fence may be the writer's, the copying thread's, or anybody's whom the order between the two passes (PTX ISA, memory
consistency model: proxy-preserved base causality order).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.sim.checks.clocks import Bools
from moye.sim.checks.flag_history import Between, Eye

Lane = tuple[int, int]
"""The number of a block among those that run, and a thread of it."""
KEPT = 512
"""So many fences of the groups of a block are remembered."""


@dataclass(frozen=True, slots=True)
class _Fence:
    """A group of threads (T,) fenced at an epoch, and what one of them knew."""

    members: Bools
    epoch: int
    eye: Eye


class GlobalFences:
    """The proxy fences of one launch."""

    def __init__(self, between: Between, threads: int) -> None:
        self.between, self.threads = between, threads
        self.by_block: dict[int, list[_Fence]] = {}

    def fence(self, members: Bools, epoch: int, eye: Eye) -> None:
        """Threads fence; what they do next has another epoch."""
        kept = self.by_block.setdefault(eye.block, [])
        kept.append(_Fence(members, epoch, eye))
        del kept[:-KEPT]

    def knows(self, eye: Eye, lane: Lane, epoch: int) -> bool:
        """Whether somebody is ordered after what another lane did at an epoch."""
        block, thread = lane
        if self.between.before_meeting(block, thread, epoch):
            return True
        if block == eye.block:
            return thread == eye.thread or epoch <= int(eye.row[thread])
        if any(mate == block and epoch <= int(epochs[thread]) for mate, epochs in eye.far):
            return True
        links = self.between.visible(eye)
        return bool(links) and epoch <= int(self.between.known(links, block, self.threads)[thread])

    def between_proxies(self, writer: Lane, epoch: int, actor: Eye) -> bool:
        """Whether a fence lies between a lane's write at an epoch and what the actor does now."""
        return any(self._covers(fence, writer, epoch) and self._before(fence, actor)
                   for block in dict.fromkeys((writer[0], actor.block, *self.by_block))
                   for fence in reversed(self.by_block.get(block, ())))

    def _covers(self, fence: _Fence, writer: Lane, epoch: int) -> bool:
        if writer[0] == fence.eye.block and fence.members[writer[1]]:
            return epoch <= fence.epoch
        return self.knows(fence.eye, writer, epoch)

    def _before(self, fence: _Fence, actor: Eye) -> bool:
        if actor.block == fence.eye.block and fence.members[actor.thread]:
            return True
        member = int(np.argmax(fence.members))
        return self.knows(actor, (fence.eye.block, member), fence.epoch)
