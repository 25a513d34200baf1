"""A ring of stages that threads fill and threads empty, by whatever means: its full and empty mbarriers.

In: how many stages, how many arrivals fill one and free one.  Out: the calls of ``lang/hopper.py``.

    pipe = PipelineCpAsync(stages=4, producers=32, consumers=128); pipe.init(); sync_threads()
    state = pipe.producer_start()               # each of 32 threads that load
    for k in range(tiles): pipe.producer_acquire(state); copyto(CpAsync(...), ...); pipe.producer_commit(state); ...
    state = pipe.consumer_start()               # each of 128 threads that read
    for k in range(tiles): pipe.consumer_wait(state); ...; pipe.consumer_release(state); state = state.next()

It moves no data (cutlass/pipeline/sm90_pipeline.hpp, PipelineAsync; OrderedSequenceBarrier).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from moye.errors import TraceError
from moye.lang import hopper
from moye.lang.scopes import Named
from moye.pipelines.barriers import in_first_thread, name_barriers
from moye.pipelines.tma import PipelineTmaState, Ring
from moye.tensor.context import locate
from moye.tensor.expr import Scalar, where

_MOST = (1 << 20) - 1  # arrivals that one phase of an mbarrier counts (PTX ISA, mbarrier)


class PipelineAsync(Named):
    """Two mbarriers a stage: ``producers`` arrivals fill stage i, at ``full[i]``, and ``consumers`` free it.

    Who fills a stage stores to it, and arrives.  TraceError for numbers that are not static, or below 1.
    """

    __slots__ = ("consumers", "empty", "full", "producers", "stages")

    def __init__(self, stages: int, producers: int, consumers: int) -> None:
        for name, value in (("stages", stages), ("producers", producers), ("consumers", consumers)):
            _static(type(self).__name__, name, value)
        self.stages, self.producers, self.consumers = stages, producers, consumers
        self.full, self.empty = hopper.mbarrier_array(stages), hopper.mbarrier_array(stages)

    def named(self, name: str) -> None:
        """Name the barriers after the first variable that holds the pipeline."""
        name_barriers(name, full=self.full, empty=self.empty)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stages={self.stages}, producers={self.producers}, consumers={self.consumers})"

    def init(self) -> None:
        """Initialise the barriers in thread 0.  After it, all who use them need a barrier: sync_threads."""
        with in_first_thread():
            for i in range(self.stages):
                hopper.mbarrier_init(self.full, i, self.producers)
                hopper.mbarrier_init(self.empty, i, self.consumers)
            hopper.fence_mbarrier_init()

    # --- who fills ---

    def producer_start(self) -> PipelineTmaState:
        """Stage 0, phase 1: the first wait of each stage returns at once, because nothing is there yet."""
        return PipelineTmaState(Ring(self.stages), 0, 1)

    def producer_acquire(self, state: PipelineTmaState) -> None:
        """Wait until the stage is empty."""
        self._require("producer_acquire", state)
        hopper.mbarrier_wait(self.empty, state.stage, state.phase)

    def producer_commit(self, state: PipelineTmaState) -> None:
        """Arrive at the stage's full barrier: what this thread has stored to the stage is there."""
        self._require("producer_commit", state)
        hopper.mbarrier_arrive(self.full, state.stage)

    # --- who reads ---

    def consumer_start(self) -> PipelineTmaState:
        """Stage 0, phase 0."""
        return PipelineTmaState(Ring(self.stages), 0, 0)

    def consumer_try_wait(self, state: PipelineTmaState) -> Scalar:
        """Whether the stage is full, asked once; ``consumer_wait`` where it is not."""
        self._require("consumer_try_wait", state)
        return hopper.mbarrier_try_wait(self.full, state.stage, state.phase)

    def consumer_wait(self, state: PipelineTmaState) -> None:
        """Wait until the stage is full."""
        self._require("consumer_wait", state)
        hopper.mbarrier_wait(self.full, state.stage, state.phase)

    def consumer_release(self, state: PipelineTmaState) -> None:
        """Arrive once at the stage's empty barrier."""
        self._require("consumer_release", state)
        hopper.mbarrier_arrive(self.empty, state.stage)

    def _require(self, what: str, state: PipelineTmaState) -> None:
        if not isinstance(state, PipelineTmaState):
            raise TraceError(f"{what}: {state!r} is no state of a pipeline", locs=(locate(),),
                             hint="pipe.producer_start() and pipe.consumer_start() give the first ones")
        if state.ring.stages != self.stages:
            raise TraceError(f"{what}: the state goes round {state.ring.stages} stages, the pipeline has {self.stages}",
                             locs=(locate(),))


class PipelineCpAsync(PipelineAsync):
    """A pipeline whose producers copy by ``CpAsync``: a stage is full when their copies are complete.

    ``producers`` counts the threads that copy, each of which commits.  They do not wait for their own copies.
    """

    __slots__ = ()

    def producer_commit(self, state: PipelineTmaState) -> None:
        """Arrive at the stage's full barrier as soon as this thread's copies so far are complete."""
        self._require("producer_commit", state)
        hopper.cp_async_mbarrier_arrive(self.full, state.stage)


class PipelineOrder(Named):
    """Groups of threads that take turns: group 0 first, then 1, and so on, and group 0 again.

    ``threads`` of each group arrive when its turn is over.  With two groups that compute and load in turns this is the
    order of ping-pong kernels.
    """

    __slots__ = ("groups", "threads", "turns")

    def __init__(self, groups: int = 2, threads: int = 128) -> None:
        for name, value in (("groups", groups), ("threads", threads)):
            _static("PipelineOrder", name, value)
        self.groups, self.threads = groups, threads
        self.turns = hopper.mbarrier_array(groups)

    def named(self, name: str) -> None:
        """Name the barriers after the first variable that holds the object."""
        name_barriers(name, turns=self.turns)

    def __repr__(self) -> str:
        return f"PipelineOrder(groups={self.groups}, threads={self.threads})"

    def init(self) -> None:
        """Initialise the barriers in thread 0.  After it, all who use them need a barrier: sync_threads."""
        with in_first_thread():
            for i in range(self.groups):
                hopper.mbarrier_init(self.turns, i, self.threads)
            hopper.fence_mbarrier_init()

    def start(self, group: Scalar) -> OrderState:
        """The first turn of a group; that of group 0 needs no wait."""
        return OrderState(group, where(group == 0, 1, 0))

    def wait(self, state: OrderState) -> None:
        """Wait for the turn of the group."""
        hopper.mbarrier_wait(self.turns, state.group, state.phase)

    def arrive(self, state: OrderState) -> None:
        """The turn is over: the next group may go on."""
        following = state.group + 1
        hopper.mbarrier_arrive(self.turns, where(following == self.groups, 0, following))


@dataclass(frozen=True, slots=True)
class OrderState:
    """A group and the parity of its next turn; loops of the kernel carry it."""

    varies: ClassVar[bool] = True

    group: Any
    phase: Any

    def next(self) -> OrderState:
        """The state of the group's next turn."""
        return OrderState(self.group, self.phase ^ 1)


def _static(what: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or not 1 <= value <= _MOST:
        raise TraceError(f"{what}: {name}={value} is no static number from 1 to {_MOST}", locs=(locate(),))
