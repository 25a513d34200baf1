"""Software pipelines over the explicit operations: which stage is read, which is filled, what may be in flight.

In: how many stages of shared memory there are.  Out: stage indices, and the commits and waits that go with them.

    pipe = Pipeline(stages=3)
    for s in static_range(pipe.ahead): load(s, s); pipe.commit()
    state = pipe.start()
    for k in range(tiles):
        pipe.wait()
        load(state.write, k + pipe.ahead) if ...; pipe.commit(); multiply(state.read); state = state.next()

It moves no data and has no barrier of its own; the same calls can be written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from moye.errors import TraceError
from moye.ir import ops
from moye.tensor.context import builder, locate
from moye.tensor.expr import Scalar, where


@dataclass(frozen=True, slots=True)
class Pipeline:
    """At least 2 stages of shared memory: cp.async fills some while others are read.

    Each thread commits one group of copies per tile, and an empty one past the last tile.  So the newest groups are the
    tiles that may still be in flight.
    """

    stages: int

    def __post_init__(self) -> None:
        if not isinstance(self.stages, int) or self.stages < 2:
            raise TraceError(f"Pipeline(stages={self.stages}): a pipeline has at least 2 stages, a static number",
                             locs=(locate(),))

    @property
    def ahead(self) -> int:
        """How many tiles are requested before the first is used: all stages but one."""
        return self.stages - 1

    def start(self) -> PipelineState:
        """The first state: tile 0 is in stage 0, and the stage to fill is the one that the loads so far left."""
        return PipelineState(self, 0, self.ahead, 0)

    def commit(self) -> None:
        """``cp_async_commit()``: this thread's copies since the last commit are those of one tile."""
        builder().emit(ops.CpAsyncCommit())

    def wait(self) -> None:
        """``cp_async_wait(stages - 2); sync_threads()``: the oldest tile has arrived, for every thread of the block.

        All threads are then past the tile before it, whose stage is ``state.write``.
        """
        builder().emit(ops.CpAsyncWait(pending=self.stages - 2))
        builder().emit(ops.SyncThreads())


@dataclass(frozen=True, slots=True)
class PipelineState:
    """Where a pipeline stands; loops of the kernel carry it.

    ``read`` is the stage of the oldest tile.  ``write`` is the stage before it, which is free after ``wait``.
    ``phase`` is 0 or 1, the parity of how often ``read`` came round (an mbarrier of that stage is waited for with it).
    """

    varies: ClassVar[bool] = True

    pipeline: Pipeline
    read: Scalar
    write: Scalar
    phase: Scalar

    def next(self, more: Scalar = True) -> PipelineState:
        """The state one tile on.  If ``more`` is false, ``read`` stays: no other stage need be filled."""
        inside = self.read + 1 < self.pipeline.stages
        read = where(inside, self.read + 1, 0)
        phase = where(inside, self.phase, 1 - self.phase)
        write = where(self.write + 1 < self.pipeline.stages, self.write + 1, 0)
        return PipelineState(self.pipeline, where(more, read, self.read), write, where(more, phase, self.phase))
