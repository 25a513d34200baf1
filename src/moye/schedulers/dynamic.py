"""Tiles dealt out while the kernel runs: whoever is free takes the next number from a counter in global memory.

In: a counter, tiles along M and N, batches.  Out: tile numbers, handed over through shared memory; their coordinates.

    sched = DynamicTileScheduler(counter, mo.ceil_div(M, bM), mo.ceil_div(N, bN), consumers=256)
    sched.init(); sync_threads()
    state = sched.producer_start(); tile = mo.int32(0)          # one thread
    while tile < sched.tiles: tile = sched.fetch(state); state = state.next()
    state = sched.consumer_start(); tile = sched.take(state)    # those who compute
    while tile < sched.tiles: m, n, l = sched.coordinates(tile); ...; state = state.next(); tile = sched.take(state)
"""

from __future__ import annotations

from typing import Any

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import TensorError
from moye.lang.builtins import atomic_add, atomic_exch, grid_dim
from moye.pipelines.barriers import OnlyIf
from moye.pipelines.threads import PipelineAsync
from moye.pipelines.tma import PipelineTmaState
from moye.schedulers.persistent import PersistentTileScheduler
from moye.tensor.context import locate
from moye.tensor.tensor import AUTO, Tensor, shared_array


class DynamicTileScheduler(PersistentTileScheduler):
    """Tiles as of a PersistentTileScheduler, in that order, one to whoever comes first.

    ``counter`` is an int32 tensor in global memory of one element at least, 0 when the first launch begins: the last
    fetch of a launch sets it to 0 again.  Launches that may overlap need one each.  One thread of each block fetches
    numbers, up to ``stages`` ahead, and ``consumers`` threads take each of them.  TensorError for another counter.
    """

    __slots__ = ("counter", "pipe", "slots")

    def __init__(self, counter: Tensor, tiles_m: Any, tiles_n: Any, batches: Any = 1, group: int = 8,
                 along: str = "m", *, consumers: int, stages: int = 2) -> None:
        super().__init__(tiles_m, tiles_n, batches, group, along)
        if not isinstance(counter, Tensor) or counter.space is not Space.GLOBAL or counter.dtype is not dt.int32:
            raise TensorError(f"DynamicTileScheduler: the counter is an int32 tensor in global memory, not {counter!r}",
                              locs=(locate(),))
        self.counter = counter
        self.pipe = PipelineAsync(stages, 1, consumers)
        self.pipe.named("tile")
        self.slots = shared_array(dt.int32, stages)
        if self.slots.buffer.name.startswith(AUTO):
            self.slots.buffer.name = "tile_numbers"

    def init(self) -> None:
        """Initialise the barriers in thread 0.  After it, all who use them need a barrier: sync_threads."""
        self.pipe.init()

    # --- the thread that fetches ---

    def producer_start(self) -> PipelineTmaState:
        """The state before the first fetch."""
        return self.pipe.producer_start()

    def fetch(self, state: PipelineTmaState) -> Any:
        """The next tile number, also for those who take it; ``tiles`` or more once all have been dealt out.

        The fetching thread stops then.  Who comes last of all blocks resets the counter.
        """
        self.pipe.producer_acquire(state)
        tile = atomic_add(self.counter, 0, 1)
        grid = grid_dim()
        with OnlyIf(tile == self.tiles + (grid.x * grid.y * grid.z - 1)):
            atomic_exch(self.counter, 0, 0)
        self.slots[state.stage] = tile
        self.pipe.producer_commit(state)
        return tile

    # --- those who compute ---

    def consumer_start(self) -> PipelineTmaState:
        """The state before the first tile is taken."""
        return self.pipe.consumer_start()

    def take(self, state: PipelineTmaState) -> Any:
        """Wait for the next tile number, and leave its place free again; ``tiles`` or more at the end."""
        self.pipe.consumer_wait(state)
        tile = self.slots[state.stage]
        self.pipe.consumer_release(state)
        return tile
