"""Proxy fences for global memory: what threads wrote, and bulk copies of the same launch read or overwrite.

In: proxy fences with what their threads knew.  Out: whether one lies between a write and a bulk copy.

The fence may be the writer's, the copying thread's, or anybody's whom the order between the two passes (PTX ISA, memory
consistency model: proxy-preserved base causality order).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.sim.checks.clocks import Bools, Ints
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
        self.old: dict[int, dict[bytes, _Fence]] = {}
        """The last fence of each group of a block that is no longer remembered: it knew more than those before it."""
        self.doubtful = False
        """Whether one of those may have been the fence that was asked for."""

    def fence(self, members: Bools, epoch: int, eye: Eye) -> None:
        """Threads fence; what they do next has another epoch."""
        kept = self.by_block.setdefault(eye.block, [])
        kept.append(_Fence(members, epoch, eye))
        if len(kept) > KEPT:
            gone = kept.pop(0)
            self.old.setdefault(eye.block, {})[gone.members.tobytes()] = gone

    def knows(self, eye: Eye, lane: Lane, epoch: int) -> bool:
        """Whether somebody is ordered after what another lane did at an epoch."""
        return bool(self._knows(eye, lane[0], np.array([lane[1]]), np.array([epoch]))[0])

    def unfenced(self, actor: Eye, block: int, thread: Ints, epoch: Ints) -> Bools:
        """Of writes by threads of a block at these epochs those that the actor is ordered after, without a fence."""
        bad = self._knows(actor, block, thread, epoch)
        for fence in (fence for number in dict.fromkeys((block, actor.block, *self.by_block))
                      for fence in reversed(self.by_block.get(number, ()))):
            if not bad.any():
                return bad
            covered = bad & self._covers(fence, block, thread, epoch)
            if covered.any() and self._before(fence, actor):
                bad &= ~covered
        for fence in (fence for groups in self.old.values() for fence in groups.values()):
            lost = bad & self._covers(fence, block, thread, epoch)
            self.doubtful |= bool(lost.any())
            bad &= ~lost
        return bad

    def _knows(self, eye: Eye, block: int, thread: Ints, epoch: Ints) -> Bools:
        """Whether somebody is ordered after what threads of a block did at these epochs."""
        known: Bools = self.between.before_meeting(block, thread, epoch)
        if block == eye.block:
            known = known | (thread == eye.thread) | (epoch <= eye.row[thread])
            return known
        for mate, epochs in eye.far:
            if mate == block:
                known = known | (epoch <= epochs[thread])
        if not known.all() and (links := self.between.visible(eye)):
            known = known | (epoch <= self.between.known(links, block, self.threads)[thread])
        return known

    def _covers(self, fence: _Fence, block: int, thread: Ints, epoch: Ints) -> Bools:
        if block != fence.eye.block:
            return self._knows(fence.eye, block, thread, epoch)
        return np.where(fence.members[thread], epoch <= fence.epoch, self._knows(fence.eye, block, thread, epoch))

    def _before(self, fence: _Fence, actor: Eye) -> bool:
        if actor.block == fence.eye.block and fence.members[actor.thread]:
            return True
        member = int(np.argmax(fence.members))
        return self.knows(actor, (fence.eye.block, member), fence.epoch)
