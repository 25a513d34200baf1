"""The lanes that wait in a block that cannot go on, as data: parked lanes -> ``Waiter``s.

In: the barriers of a batch, one of their entries, a block.  Out: ``Waiter``s with the threads that could let them go.

What is said of them is in deadlock.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Protocol

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.sim.checks.stages import KEPT
from moye.sim.findings.deadlock import Waiter
from moye.sim.flow.absent import gone_past, path_to
from moye.sim.flow.mbarrier_phases import name
from moye.sim.flow.roles import is_open, leads_to, role_of, same_side
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.memory import Array

NAMES: dict[type, str] = {ops.SyncWarp: "sync_warp", ops.Shuffle: "a shuffle", ops.Vote: "a vote", ops.Elect: "elect",
                          ops.Redux: "a fold of the warp", ops.Match: "a match", ops.WgmmaFence: "warpgroup_arrive",
                          ops.TensorMapRelease: "release_tensormap"}


class Entry(Protocol):
    """Lanes (T, B) at a blocking op."""

    op: ops.Op
    lanes: Array
    barrier: int
    element: Array | None


class Parked(Protocol):
    """What is asked of the barriers."""

    batch: BatchState
    counts: dict[int, Array]
    expected: dict[int, int]

    @property
    def waiting(self) -> Sequence[Entry]: ...
    def named_by(self, op: ops.Op) -> Array: ...


def numbers(lanes: Array) -> tuple[int, ...]:
    """The threads of a mask (T,)."""
    return tuple(int(t) for t in np.flatnonzero(lanes))


def span_of(op: ops.Op) -> int:
    """How many neighbouring threads meet at a warp-wide op."""
    return WARPGROUP if isinstance(op, ops.WgmmaFence) else WARP


def waiters(barriers: Parked, entry: Entry, block: int) -> Iterator[Waiter]:
    """The lanes of an entry in one block, with the threads that could let them go on."""
    alive, lanes = ~barriers.batch.gone()[:, block], entry.lanes[:, block]
    if isinstance(entry.op, ops.MbarrierWait):
        yield from _phases(barriers, entry, entry.op, block)
    elif isinstance(entry.op, ops.NamedBarrier):
        here = [e.lanes[:, block] for e in barriers.waiting if e.barrier == entry.barrier]
        lacking = max(0, barriers.expected[entry.barrier] - int(barriers.counts[entry.barrier][block]))
        yield Waiter("named", f"named barrier {entry.barrier}", numbers(lanes), entry.op,
                     numbers(alive & ~np.logical_or.reduce(here)), lacking, entry.op.threads,
                     open=_open(barriers, entry))
    elif isinstance(entry.op, ops.ClusterWait):
        yield _cluster(barriers, entry, lanes, alive, block)
    elif isinstance(entry.op, ops.GridSync):
        yield _grid(barriers, entry, lanes, alive, block)
    elif isinstance(entry.op, ops.SyncThreads):
        here = [e.lanes[:, block] for e in barriers.waiting if isinstance(e.op, ops.SyncThreads)]
        yield Waiter("block", "sync_threads", numbers(lanes), entry.op, numbers(alive & ~np.logical_or.reduce(here)),
                     role=_role(barriers, entry, alive, block), open=_open(barriers, entry))
    else:
        group = np.arange(barriers.batch.threads) // span_of(entry.op)
        mates = np.isin(group, group[lanes]) & barriers.named_by(entry.op)
        kind = "warpgroup" if isinstance(entry.op, ops.WgmmaFence) else "warp"
        yield Waiter(kind, NAMES[type(entry.op)], numbers(lanes), entry.op,  # type: ignore[arg-type]
                     numbers(alive & mates & ~lanes), passed=_passed(barriers, entry, alive & mates & ~lanes, block))


def _passed(barriers: Parked, entry: Entry, missing: Array, block: int) -> bool:
    """Whether some of these threads have gone past an operation of their warp, and wait somewhere behind it."""
    body, laps = barriers.batch.launch.func.body, barriers.batch.laps.of
    here, most = path_to(body, entry.op), entry.lanes[:, block]
    assert here is not None, "it is an op of the kernel"

    def ahead(loop: ops.Op) -> Array:
        if id(loop) not in laps:                        # they may be in another pass
            return np.full_like(entry.lanes, -1, np.int64)
        return np.asarray(laps[id(loop)] - laps[id(loop)][most, block].max())

    for other in barriers.waiting:
        late = other.lanes & missing[:, None]
        if other.op is not entry.op and late[:, block].any() and \
                gone_past(here, path_to(body, other.op), ahead, late)[:, block].any():
            return True
    return False


def _cluster(barriers: Parked, entry: Entry, lanes: Array, alive: Array, block: int) -> Waiter:
    """The lanes that wait at the barrier of the cluster, and those of all its blocks that have not arrived."""
    batch, size = barriers.batch, barriers.batch.cluster.size
    mine = int(batch.cluster.came[lanes, block].max())
    first = block // size * size
    lacking = ~batch.gone() & (batch.cluster.came < mine)
    others = [tuple(int(i) for i in batch.block_ids[b]) for b in range(first, first + size)
              if b != block and lacking[:, b].any()]
    needs = alive & lacking[:, block]
    late = all(leads_to(batch.launch.func, other.op, ops.ClusterArrive) for other in barriers.waiting
               if (other.lanes[:, block] & needs).any())
    return Waiter("cluster", "the cluster's barrier", numbers(lanes), entry.op, numbers(needs), open=late,
                  others=tuple(others))


def _grid(barriers: Parked, entry: Entry, lanes: Array, alive: Array, block: int) -> Waiter:
    """The lanes that wait at the barrier of the grid, and the threads of all blocks that have not come."""
    batch = barriers.batch
    came = np.logical_or.reduce([e.lanes for e in barriers.waiting if isinstance(e.op, ops.GridSync)])
    others = [tuple(int(i) for i in batch.block_ids[b]) for b in np.flatnonzero(~came.all(axis=0)) if b != block]
    return Waiter("block", "grid_sync", numbers(lanes), entry.op, numbers(alive & ~came[:, block]),
                  open=_open(barriers, entry), others=tuple(others))


def _open(barriers: Parked, entry: Entry) -> bool:
    """Whether all threads would come to it."""
    return is_open(barriers.batch.launch.func, entry.op)


def _role(barriers: Parked, entry: Entry, alive: Array, block: int) -> ops.If | None:
    """The branch that keeps the other warps from a block barrier, if they are all on its other side; lanes that are
    through with their role may be past it.
    """
    branch = role_of(barriers.batch.launch.func, entry.op)
    if branch is None:
        return None
    others = [other for other in barriers.waiting if other.lanes[:, block].any()]
    mine = np.logical_or.reduce([other.lanes[:, block] for other in others if isinstance(other.op, ops.SyncThreads)])
    apart = not any(same_side(branch, entry.op, other.op) for other in others
                    if not isinstance(other.op, ops.SyncThreads))
    late = [other.lanes[:, block] for other in others if not isinstance(other.op, ops.MbarrierWait)
            and _open(barriers, other)]
    warp, elsewhere = np.arange(len(mine)) // WARP, alive & ~np.logical_or.reduce([mine, *late])
    return branch if apart and not np.isin(warp[mine], warp[elsewhere]).any() else None


def _phases(barriers: Parked, entry: Entry, op: ops.MbarrierWait, block: int) -> Iterator[Waiter]:
    """One waiter per barrier: those who have arrived there before could arrive again; if nobody has, anybody could."""
    assert entry.element is not None, "it waits for a phase"
    phases, lanes = barriers.batch.mbarriers.of(op.ref.buffer), entry.lanes[:, block]
    alive = ~barriers.batch.gone()[:, block]
    for element in np.unique(entry.element[lanes, block]).tolist():
        mine = lanes & (entry.element[:, block] == element)
        came = phases.came[element, :, block]
        here = phases.here[element, :, block]
        needs = came & ~here if came.any() else ~mine
        missing = max(0, int(phases.pending[element, block]))
        number = int(phases.phase[element, block])
        alone = int(came.sum()) <= int(phases.count[element, block])
        what = f"phase {number} of {name(op.ref, element)}"
        far = bool(phases.far[element, block])
        away = far and _gone_elsewhere(barriers, came, block)
        lapped = 0 if far or not alone else _lapped(barriers, op, element, int(np.argmax(mine)), block, number)
        if not phases.ready[element, block]:
            what = f"{name(op.ref, element)}, which is not initialised,"
        yield Waiter("mbarrier", what, numbers(mine), op, numbers(needs & alive), missing,
                     int(phases.count[element, block]), int(phases.bytes[element, block]),
                     bool(came.any() and not (came & ~here).any() and not (far and number)),
                     away or bool((needs & ~alive).any()), bool(came.any()),
                     _fills(barriers, op, element, block), *_left(barriers, op, element, came & ~here & ~alive, block),
                     skipped=alone and _skipped(barriers, op, element, block, number), lapped=lapped,
                     again=lapped > 0 and _again(barriers, came, block),
                     unnamed=0 < int(phases.bytes[element, block]) <= int(phases.unnamed[element, block]),
                     senders=_senders(barriers, op, element, block),
                     early=missing > 0 and bool((needs & alive & came).any()) and
                     number in phases.sent.get((element, block), {}).values())


def _senders(barriers: Parked, op: ops.MbarrierWait, element: int, block: int) -> tuple[tuple[int, ...], ...]:
    """The blocks of the cluster that wait elsewhere and have sent nothing in this phase, but have in one before."""
    batch = barriers.batch
    phases = batch.mbarriers.of(op.ref.buffer)
    if phases.bytes[element, block] <= 0 or phases.pending[element, block] > 0:
        return ()
    stuck = [entry.lanes for entry in barriers.waiting if isinstance(entry.op, ops.MbarrierWait)]
    waits = np.logical_or.reduce(stuck).any(axis=0)
    late = [sender for sender, phase in phases.sent.get((element, block), {}).items()
            if phase < int(phases.phase[element, block]) and waits[sender]]
    return tuple(tuple(int(i) for i in batch.block_ids[sender]) for sender in sorted(late))


def _gone_elsewhere(barriers: Parked, came: Array, block: int) -> bool:
    """Whether threads of other blocks of the cluster have exited that may have arrived."""
    size = prod(barriers.batch.launch.func.cluster_dim)
    peers = [peer for peer in range(block // size * size, (block // size + 1) * size) if peer != block]
    return bool(barriers.batch.gone()[came][:, peers].any())


def _left(barriers: Parked, op: ops.MbarrierWait, element: int, gone: Array,
          block: int) -> tuple[tuple[int, ...], ops.Op | None]:
    """Threads that have arrived at a barrier and left, and where the last of them arrived, if that is followed."""
    watch = barriers.batch.watch
    arrivals = None if watch is None or not gone.any() else \
        watch.checker.engines.stages.arrivals.get((op.ref.buffer.id, element))
    last = None if arrivals is None else arrivals.op.get(int(arrivals.moment[gone, block].max()))
    return numbers(gone), last


def _skipped(barriers: Parked, op: ops.MbarrierWait, element: int, block: int, number: int) -> bool:
    """Whether an odd number of phases up to the one that is waited for are complete, and nobody has waited for them.

    Then the parity is the other one; with an even number those who arrive go on too early.
    """
    watch = barriers.batch.watch
    if watch is None:
        return False
    waits = watch.checker.engines.stages.waits.get((op.ref.buffer.id, element), ())
    passed = max((int(wait.phase[block]) for wait in waits if wait.lanes[:, block].any()), default=0)
    return (number - passed) % 2 == 1


def _lapped(barriers: Parked, op: ops.MbarrierWait, element: int, thread: int, block: int, number: int) -> int:
    """How many more phases are complete than the thread has waited for, if the parity makes it wait all the same."""
    watch = barriers.batch.watch
    if watch is None:
        return 0
    waits = watch.checker.engines.stages.waits.get((op.ref.buffer.id, element), [])
    own = [int(wait.phase[block]) for wait in waits if wait.lanes[thread, block]]
    first = 0
    if len(waits) == KEPT:                              # the first ones are not known
        if not own:
            return 0
        first = max(0, own[0] - 1)
    ahead = number - first - len({phase for phase in own if phase})
    return ahead if ahead > 0 and ahead % 2 == 0 else 0


def _again(barriers: Parked, came: Array, block: int) -> bool:
    """Whether one of these threads has gone on twice for the same phase of an mbarrier: the second parity is wrong."""
    watch = barriers.batch.watch
    for waits in () if watch is None else watch.checker.engines.stages.waits.values():
        twice = np.zeros_like(came)
        phases: dict[int, Array] = {}
        for wait in waits:
            lanes, phase = wait.lanes[:, block] & came, int(wait.phase[block])
            twice |= lanes & phases.get(phase, np.zeros_like(came))
            phases[phase] = phases.get(phase, np.zeros_like(came)) | lanes
        if twice.any():
            return True
    return False


def _fills(barriers: Parked, op: ops.MbarrierWait, element: int, block: int) -> bool:
    """Whether a barrier is one at which the readers of a stage arrive; its tensor may have those for copies, too."""
    watch = barriers.batch.watch
    if watch is not None and (op.ref.buffer.id, element) in watch.checker.engines.stages.fills:
        return False
    if barriers.batch.mbarriers.of(op.ref.buffer).free[:, block].any():
        return True
    pairs = {} if watch is None else watch.checker.engines.stages.empty
    return any(buffer is op.ref.buffer and buffer.id != full for full, buffer in pairs.items())
