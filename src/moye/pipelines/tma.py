"""A ring of stages that one thread fills by TMA and warpgroups empty: its full and empty mbarriers, and who waits.

In: how many stages, the bytes that fill one, the arrivals that free one.  Out: the calls of ``lang/hopper.py``.

    pipe = PipelineTma(stages=4, bytes=A.bytes + B.bytes); pipe.init(); sync_threads()
    state = pipe.producer_start()               # the one thread that loads
    for k in range(tiles): pipe.producer_acquire(state); copyto(..., barrier=pipe.barrier(state)); state = state.next()
    state = pipe.consumer_start()               # those who multiply
    for k in range(tiles): pipe.consumer_wait(state); ...; pipe.consumer_release(state); state = state.next()

It moves no data; the same calls can be written out (cutlass/pipeline/sm90_pipeline.hpp, PipelineTmaAsync).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from moye import dtypes as dt
from moye.errors import TraceError
from moye.lang import hopper
from moye.lang.builtins import assume
from moye.lang.scopes import Named, called
from moye.pipelines.barriers import in_first_thread, name_barriers
from moye.tensor.context import locate
from moye.tensor.expr import Expr, Scalar, operand_of, where
from moye.tensor.tensor import Tensor

_MOST = (1 << 20) - 1  # bytes, and arrivals, that one phase of an mbarrier counts (PTX ISA, mbarrier)


class PipelineTma(Named):
    """Two mbarriers a stage: loads of stage i complete at ``full[i]``, and its readers arrive at ``empty[i]``.

    ``bytes`` is what the loads of one stage bring.  ``consumers`` is the number of arrivals that free a stage; in a
    cluster it counts those of all blocks that read it.
    """

    __slots__ = ("bytes", "consumers", "empty", "full", "stages")

    def __init__(self, stages: int, bytes: int, consumers: int = 2) -> None:
        for name, value in (("stages", stages), ("bytes", bytes), ("consumers", consumers)):
            if not isinstance(value, int) or not 1 <= value <= _MOST:
                raise TraceError(f"PipelineTma: {name}={value} is no static number from 1 to {_MOST}", locs=(locate(),))
        self.stages, self.bytes, self.consumers = stages, bytes, consumers
        self.full, self.empty = hopper.mbarrier_array(stages), hopper.mbarrier_array(stages)

    def named(self, name: str) -> None:
        """Name the barriers after the first variable that holds the pipeline."""
        name_barriers(name, full=self.full, empty=self.empty)

    def __repr__(self) -> str:
        return f"PipelineTma(stages={self.stages}, bytes={self.bytes}, consumers={self.consumers})"

    def init(self) -> None:
        """Initialise the barriers in thread 0 (mbarrier_init, fence_mbarrier_init).  After it, all who use them need a
        barrier: sync_threads, or cluster_sync in a cluster.
        """
        with in_first_thread():
            for i in range(self.stages):
                hopper.mbarrier_init(self.full, i, 1)
                hopper.mbarrier_init(self.empty, i, self.consumers)
            hopper.fence_mbarrier_init()

    # --- the thread that loads ---

    def producer_start(self) -> PipelineTmaState:
        """Stage 0, phase 1: the first wait of each stage returns at once, because nothing is there yet."""
        return PipelineTmaState(Ring(self.stages), 0, 1)

    def producer_acquire(self, state: PipelineTmaState, *, bytes: Scalar | None = None) -> None:
        """Wait until the stage is empty, arrive at its full barrier, and expect ``bytes`` (default: the pipeline's)."""
        self._require("producer_acquire", state)
        hopper.mbarrier_wait(self.empty, state.stage, state.phase)
        hopper.mbarrier_arrive_expect_tx(self.full, state.stage, self.bytes if bytes is None else bytes)

    def barrier(self, state: PipelineTmaState) -> tuple[Tensor, Scalar]:
        """The barrier on which loads into the stage complete: ``copyto(..., barrier=pipe.barrier(state))``."""
        self._require("barrier", state)
        return self.full, state.stage

    def producer_tail(self, state: PipelineTmaState) -> None:
        """Wait until every stage has been released, so that nobody arrives at a block that has ended."""
        self._require("producer_tail", state)
        for _ in range(self.stages):
            hopper.mbarrier_wait(self.empty, state.stage, state.phase)
            state = state.next()

    # --- those who multiply ---

    def consumer_start(self) -> PipelineTmaState:
        """Stage 0, phase 0."""
        return PipelineTmaState(Ring(self.stages), 0, 0)

    def consumer_wait(self, state: PipelineTmaState) -> None:
        """Wait until the loads of the stage are complete and visible."""
        self._require("consumer_wait", state)
        hopper.mbarrier_wait(self.full, state.stage, state.phase)

    def consumer_release(self, state: PipelineTmaState, *, cta: Scalar | None = None) -> None:
        """Arrive once at the stage's empty barrier, of block ``cta`` of the cluster if one is given."""
        self._require("consumer_release", state)
        hopper.mbarrier_arrive(self.empty, state.stage, cta=cta)

    def _require(self, what: str, state: PipelineTmaState) -> None:
        if not isinstance(state, PipelineTmaState):
            raise TraceError(f"{what}: {state!r} is no state of a PipelineTma", locs=(locate(),),
                             hint="pipe.producer_start() and pipe.consumer_start() give the first ones")
        if state.ring.stages != self.stages:
            raise TraceError(f"{what}: the state goes round {state.ring.stages} stages, the pipeline has {self.stages}",
                             locs=(locate(),))


@dataclass(frozen=True, slots=True)
class Ring:
    """The static part of a state: how many stages there are."""

    stages: int


@dataclass(frozen=True, slots=True)
class PipelineTmaState:
    """A stage and the parity to wait for there; loops of the kernel carry it.

    Pipelines of equal depth that are advanced together may share one.
    """

    varies: ClassVar[bool] = True

    ring: Ring
    stage: Any
    phase: Any

    def next(self) -> PipelineTmaState:
        """The state one stage on; the phase flips where the ring begins again."""
        if self.ring.stages == 1:
            return PipelineTmaState(self.ring, self.stage, self.phase ^ 1)
        stage = self.stage + 1
        anew = called("round_ends", stage == self.ring.stages)  # one comparison for both; of < ptxas makes two
        return PipelineTmaState(self.ring, where(anew, 0, stage), where(anew, self.phase ^ 1, self.phase))

    def advance(self, n: Scalar) -> PipelineTmaState:
        """The state ``n`` >= 0 stages on, as by ``next`` n times: past the tiles of another group of consumers.

        A parity can tell a phase only from the next one, not from the one after.  So wait only when the other group has
        waited for the stages that it was left (PTX ISA, mbarrier.test_wait).
        """
        if isinstance(n, Expr) and not n.dtype.is_float:
            assume(n >= 0, "a pipeline's state does not go back")
            return self._around(n)
        if not isinstance(n, int) or n < 0:
            raise TraceError(f"advance({n}): a state goes on by a number of stages >= 0", locs=(locate(),))
        stages = self.ring.stages
        phase = self.phase ^ (n // stages & 1)
        if n % stages == 0:
            return PipelineTmaState(self.ring, self.stage, phase)
        stage = self.stage + n % stages
        inside = stage < stages
        return PipelineTmaState(self.ring, where(inside, stage, stage - stages), where(inside, phase, phase ^ 1))

    def _around(self, n: Expr) -> PipelineTmaState:
        """Go on by a number that is known only when the kernel runs: an unsigned division by a constant."""
        reached = Expr(operand_of(self.stage + n, dt.uint32))
        rounds = reached // self.ring.stages
        return PipelineTmaState(self.ring, (reached % self.ring.stages).to(dt.int32),
                                self.phase ^ (rounds & 1).to(dt.int32))
