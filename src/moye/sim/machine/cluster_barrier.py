"""The barrier of a cluster of blocks, and which block of the batch is which of its cluster.

In: arrivals and waits with their masks.  Out: who may go on.

The blocks of a cluster are neighbours in a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.ir import ops
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array


class Cluster:
    """Counts the arrivals of each thread at barrier.cluster, which has no number: there is one per cluster."""

    def __init__(self, batch: BatchState, size: int) -> None:
        self.batch, self.size = batch, size
        self.reset()

    def reset(self) -> None:
        shape = self.batch.threads, self.batch.blocks
        self.came: Array = np.zeros(shape, np.int64)
        self.waited: Array = np.zeros(shape, np.int64)
        self.points: list[ops.Op] = []
        self.last: Array = np.zeros(shape, np.int16)
        """The last arrival of each thread, as an index into ``points``."""

    def arrive(self, op: ops.ClusterArrive, mask: Mask) -> None:
        if mask is False:
            return
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        self._in_turn(op, lanes & (self.came > self.waited), waits=False)
        self.came += lanes
        if not any(point is op for point in self.points):
            self.points.append(op)
        number = next(i for i, point in enumerate(self.points) if point is op)
        self.last = np.where(lanes, np.int16(number), self.last)
        if self.batch.watch is not None:
            self.batch.watch.checker.engines.cluster_arrive(lanes, relaxed=op.relaxed)
        if self.batch.barriers.waiting:
            self.batch.barriers.resolve()

    def passed(self, lanes: Array) -> Array:
        """Which of these lanes find that all threads of their cluster have arrived as often as they have."""
        last = np.where(self.batch.gone(), np.iinfo(np.int64).max, self.came).min(axis=0)
        last = np.repeat(last.reshape(-1, self.size).min(axis=1), self.size)
        return np.asarray(lanes & (self.came <= last))

    def mapped(self, op: ops.MapShared, rank: Any, mask: Mask) -> Array:
        """The columns of the blocks of these ranks (T or 1, B), for the lanes of the mask."""
        ranks = np.broadcast_to(np.asarray(rank, np.int64), np.broadcast_shapes(np.shape(rank), (1, self.batch.blocks)))
        wrong = (ranks < 0) | (ranks >= self.size)
        if wrong.any():
            lanes = lanes_of(mask, self.batch.threads, self.batch.blocks) & wrong
            block, thread = np.nonzero(lanes.T)
            self.remote(op, thread, block, np.broadcast_to(ranks, lanes.shape)[thread, block])
        own = np.arange(self.batch.blocks) // self.size * self.size
        return np.asarray(own + np.clip(ranks, 0, self.size - 1), np.uint32)

    def remote(self, op: ops.Op, thread: Array, block: Array, rank: Array) -> Array:
        """The columns of the blocks of these ranks; D20 for a rank that the cluster does not have."""
        bad = (rank < 0) | (rank >= self.size)
        if bad.any() and self.batch.watch is not None:
            watch, n = self.batch.watch, int(np.argmax(bad))
            lane = int(thread[n]), int(block[n])
            watch.tell("D20", "rank", op, lane, int(bad.sum()), rank=int(rank[n]), size=self.size)
        return np.asarray(block // self.size * self.size + np.clip(rank, 0, self.size - 1))

    def comes(self, op: ops.ClusterWait, lanes: Array) -> None:
        """These lanes come to the wait."""
        self._in_turn(op, lanes & (self.came <= self.waited), waits=True)

    def _in_turn(self, op: ops.Op, bad: Array, *, waits: bool) -> None:
        """C4: arriving and waiting do not alternate for these lanes."""
        watch = self.batch.watch
        if watch is None or not bad.any():
            return
        block = int(np.argmax(bad.any(axis=0)))
        thread = int(np.argmax(bad[:, block]))
        watch.tell("C4", "turn", op, (thread, block), int(bad.sum()), waits=waits, before=self.waited.any())

    def leave(self, op: ops.ClusterWait, lanes: Array) -> None:
        """These lanes go on."""
        self.batch.barriers.meetings.cluster(op, lanes, self.came, self.points, self.last)
        self.waited = np.where(lanes, self.came, self.waited)
        if self.batch.watch is not None:
            self.batch.watch.checker.engines.cluster_leave(lanes)
