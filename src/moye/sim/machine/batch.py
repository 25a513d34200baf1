"""Runs one batch of blocks: its memory, its groups of lanes, which of them goes next.

In: a ``Program`` (generated code) and a ``Launch`` (arguments, reporter, hooks).  Out: memory changed, findings
reported; ``run`` says "done", or "spinning" where somebody polls memory that others must change.

Groups at the same segment merge; the one that is furthest behind runs first, so that lanes meet again.  While all
threads of all blocks are at one point, the loop in ``_advance`` is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from moye.dtypes import Space
from moye.errors import Loc
from moye.ir import ops
from moye.sim.checks.global_races import GlobalChecker
from moye.sim.checks.shared_races import SharedChecker
from moye.sim.checks.watch import Watch
from moye.sim.findings.deadlock import Exited
from moye.sim.flow.absent import Laps
from moye.sim.flow.apart import Apart
from moye.sim.flow.async_copies import AsyncCopies
from moye.sim.flow.groups import Group, merge_values, same_values
from moye.sim.machine.barriers import Barriers
from moye.sim.machine.cluster_barrier import Cluster
from moye.sim.machine.launch import places
from moye.sim.machine.register_budgets import Budgets
from moye.sim.machine.standstill import Standstill
from moye.sim.machine.stops import Turns, endless
from moye.sim.machine.waiters import span_of
from moye.sim.operations.mbarriers import Mbarriers
from moye.sim.operations.tma import TensorCopies
from moye.sim.operations.wgmma import Products
from moye.sim.values.doubts import Doubts
from moye.sim.values.leftovers import Leftovers, RegisterTable, SharedTable
from moye.sim.values.masks import Mask, both, lanes_of, minus, union
from moye.sim.values.memory import Array, Fragment, Shared

if TYPE_CHECKING:
    from moye.sim.generate.program import Program
    from moye.sim.machine.launch import Launch


_FULL = 0xFFFFFFFF


class Batch:
    """Some blocks of a launch that run together; ``restart`` makes it the next ones."""

    def __init__(self, program: Program, launch: Launch, first: int, count: int) -> None:
        func = program.func
        self.program, self.launch = program, launch
        self.threads, self.blocks, self.block_dim = func.threads, count, func.block_dim
        self.watch: Watch | None = None
        self.params = launch.params
        earliest = launch.hooks.asynchronous == "earliest"
        self.copies = AsyncCopies(earliest=earliest)
        self.mbarriers, self.cluster = Mbarriers(self), Cluster(self, math.prod(func.cluster_dim))
        self.tensor_copies = TensorCopies(self, earliest=earliest)
        self.products = Products(self, earliest=earliest)
        self.barriers, self.budgets = Barriers(self), Budgets(self)
        self.laps, self.doubts, self.turns = Laps(self.threads, count), Doubts(self.threads, count), Turns(self)
        registers = [b for b in func.buffers if b.space is Space.REGISTER]
        self.fragments = {b.id: Fragment(b, self.threads, count) for b in registers}
        self.shared = {b.id: Shared(b, count) for b in func.shared_buffers}
        self._own()
        self.specials: dict[str, Any] = _threads(func.block_dim)
        self.restart(first)
        self.plans: list[Any] = [site.bind(self) for site in program.sites]
        if (probe := launch.hooks.probe) is not None:
            self.plans = [probe.watched(plan, self) for plan in self.plans]

    def _own(self) -> None:
        """Keep the writer of each element, if leftovers of predicated copies are looked for."""
        stale = self.launch.stale
        if stale is None:
            return
        for number in stale.buffers:
            if number in self.shared:
                shared = self.shared[number]
                shared.owner = SharedTable(len(shared.data), self.blocks, np.int16)
                shared.left = Leftovers(len(shared.data), self.blocks)
                stale.shared.append(shared.left)
            else:
                fragment = self.fragments[number]
                fragment.owner = RegisterTable(fragment.data.shape)

    def restart(self, first: int) -> None:
        """Begin with the blocks ``first`` to ``first + self.blocks - 1`` of those that run."""
        self.numbers = self.launch.numbers(first, self.blocks)
        self.block_ids = places(self.numbers, self.launch.grid)
        self.tape = self.launch.tape.of(self, self.numbers) if self.launch.tape is not None else None
        for axis, name in enumerate(("block_x", "block_y", "block_z")):
            self.specials[name] = np.ascontiguousarray(self.block_ids[None, :, axis], np.int32)
        self.specials |= _in_cluster(self.block_ids, self.program.func.cluster_dim)
        for name, extent in zip(("grid_x", "grid_y", "grid_z"), self.launch.grid, strict=True):
            self.specials[name] = extent
        for shared in self.shared.values():
            shared.reset()
        for part in (self.copies, self.barriers, self.budgets, self.mbarriers, self.cluster, self.tensor_copies,
                     self.products, self.laps, self.doubts, self.turns):
            part.reset()
        self.exited: Mask = False
        self.returned: dict[Loc, tuple[ops.Exit, Mask]] = {}
        self.spinning: list[Group] = []
        self.paused: list[Group] = []                   # those that give way
        self._events, self._spun = 0, False             # strong writes so far; whether the last group polls
        self._quiet, self._held = 0, 0                  # rounds without an effect, and since somebody has gone on
        self._before = 0, 0                             # what was written before the last round
        self._rounds: Standstill | None = Standstill(self.launch)   # None once those that poll wake each other for ever
        self._circling: tuple[ops.Loop, Standstill] | None = None  # the loop that is watched, and how it goes on
        self.polled: dict[int, ops.Op] = {}
        self.seen: dict[int, list[list[Any]]] = {}      # what those that poll carried at their last look ...
        self.looking: dict[int, list[list[Any]]] = {}   # ... and carry in this round
        self.ready: list[Group] = [Group(0, [None] * len(self.program.slots), None)]
        turn = self.launch.hooks.apart
        self.apart = None if turn is None else Apart(self.program.func, self.threads, self.blocks, turn)
        if self.launch.check:
            checker = SharedChecker(self.program.func, self.threads, self.blocks, self.launch.reporter, self.block_ids)
            checker.ignored = self.launch.hooks.ignored
            globals_ = GlobalChecker(self.launch.globals, first, self.blocks, checker)
            if self.launch.meter is not None:
                self.launch.meter.begin(self.blocks)
            if self.watch is None:
                self.watch = Watch(self.threads, self.block_ids, self.launch.reporter, checker, globals_,
                                   self.launch.meter, self.program.func, self.fragments, self.doubts)
            else:
                self.watch.restart(self.block_ids, checker, globals_)
            self.watch.depend(self.launch.dependence)

    # --- lanes -------------------------------------------------------------------------------------------------------

    def normal(self, lanes: Array) -> Mask:
        """The smallest form of a mask (T, B)."""
        if lanes.all():
            return None
        if (lanes == lanes[:, :1]).all():
            return lanes[:, :1]
        return lanes[:1] if (lanes == lanes[:1]).all() else lanes

    def gone(self) -> Array:
        """The threads (T, B) that have exited."""
        if self.exited is False:
            return np.zeros((self.threads, self.blocks), np.bool_)
        return lanes_of(self.exited, self.threads, self.blocks)

    def lanes(self, mask: Mask) -> Array | None:
        """The mask as the checkers take it: None for everybody, else (T, 1 or B)."""
        if mask is None:
            return None
        lanes = np.asarray(mask)
        return np.broadcast_to(lanes, (self.threads, lanes.shape[1]))

    def leave(self, mask: Mask, op: ops.Exit | None = None) -> None:
        """The threads of the mask exit, by a ``return`` or at the end of the kernel."""
        self.exited = union(self.exited, mask)
        if self.watch is not None and self.watch.checker.peers.on:
            self.watch.checker.peers.left(self.gone())
            self.tensor_copies.left(self.gone())
        if op is not None:
            self.returned[op.loc] = (op, union(self.returned.get(op.loc, (op, False))[1], mask))

    def exits(self, block: int) -> tuple[Exited, ...]:
        """The threads of a block that have exited, by where."""
        rest, found = self.gone()[:, block].copy(), []
        for op, mask in self.returned.values():
            if mask is not False and (here := lanes_of(mask, self.threads, self.blocks)[:, block]).any():
                rest &= ~here
                found.append(Exited(tuple(int(t) for t in np.flatnonzero(here)), op))
        if rest.any():
            found.append(Exited(tuple(int(t) for t in np.flatnonzero(rest)), None))
        return tuple(found)

    def merge(self, into: Group, other: Group) -> bool:
        """Make one group of two at the same segment, if their values allow it."""
        slots = self.program.live[into.pc]
        mask = False if other.mask is None else other.mask
        env = merge_values(slots, into.env, other.env, mask)
        if env is None:
            return False
        into.env = env
        joined = union(into.mask, other.mask)
        into.mask = joined if joined is None else self.normal(lanes_of(joined, self.threads, self.blocks))
        return True

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Run until every block is done, or until somebody must wait for other blocks."""
        # Copies by TMA land only once nobody else can move: that is the latest time that the waits allow.
        while self.ready or self.tensor_copies.land() or self.barriers.arrive_in_parts():
            while self.ready:
                self._advance(self._next())
                self._wake()
        if self.spinning or self.paused:
            return "spinning"
        # Nobody polls, nothing is in flight, and threads wait: nothing can let them go any more.
        if self.barriers.waiting:
            self.barriers.deadlock()
        else:
            self.barriers.finish()
            self.tensor_copies.finish()
            self.products.finish()
        self.budgets.finish()
        if self.watch is not None:
            self.watch.checker.finish()
            self.watch.globals.finish()
        self.launch.done += self.blocks
        return "done"

    def _wake(self) -> None:
        """Let the groups that poll look at once if somebody else has changed a flag; the one that waits longest comes
        first."""
        if self.watch is None:
            return
        events = self.launch.globals.between.events
        if events != self._events and self.spinning and not self._spun and self.launch.schedule.wakes():
            if self._rounds is not None and self._rounds.look([self]):
                self._rounds = None                     # others may help: other batches, blocks that have not begun
            if self._rounds is not None:
                self.ready, self.spinning = [*self.spinning, *self.ready], []
        self._events, self._spun = events, False

    def resume(self) -> str:
        """Let those that poll look again."""
        self.seen, self.looking = self.looking, {}
        if not self.launch.schedule.late:
            self.ready = []
            if self.paused:
                self._unpause()
            self.ready, self.spinning = [*self.spinning, *self.ready], []
            return self.run()
        result = "spinning"
        for group in self.launch.schedule.turns(self.spinning):
            if group in self.spinning:                  # one after the other, each as far as it gets
                self.spinning.remove(group)
                self.ready = [group]
                result = self.run()
        return result

    def _next(self) -> Group:
        able = self.ready
        if self.apart is not None:
            self.ready = [part for group in self.ready for part in self.apart.parts(group)]
            able = self.apart.first(self.ready)
        if len(self.ready) == 1:
            return self.ready.pop()
        # Segments are numbered in program order: whoever is behind catches up, and lanes meet again behind a branch.
        pc = min(group.pc for group in able)
        here = [group for group in able if group.pc == pc]
        group = here[0]
        self.ready.remove(group)
        for other in here[1:]:
            if self.merge(group, other):
                self.ready.remove(other)
        return group

    def _advance(self, group: Group) -> None:
        """Run a group until it parks, splits or exits, or until another group is behind it."""
        pc, env, mask = group.pc, group.env, group.mask
        code = self.program.code
        while True:
            self.launch.steps += 1
            result = code[pc](self, env, mask)
            if type(result) is not int:
                kind, mask = result[0], result[1]
                if mask is False:
                    self._exited()
                    return
                if kind == "go":
                    result = result[2]
                else:
                    group.env, group.mask = env, mask
                    result = self._handlers[kind](self, group, result)
                    if result is None:
                        return
                    mask = group.mask
            pc = result
            if self.turns.watched is not None:
                self._goes_round(pc, env, mask)
            # Somebody else may be behind now, so ``_next`` chooses again.
            if self.ready:
                group.pc, group.mask = pc, mask
                self.ready.append(group)
                return

    def _goes_round(self, pc: int, env: list[Any], mask: Mask) -> None:
        """A pass of a watched loop is over: the simulation ends if nothing can come of more of them.

        Nobody else runs as long as these do not wait, so what has come back, often enough, comes back for ever.
        """
        loop, self.turns.watched = self.turns.watched, None
        assert loop is not None, "a loop is watched"
        if self.ready or self.spinning or self.paused or self.barriers.waiting:
            return
        if self._circling is None or self._circling[0] is not loop:
            self._circling = loop, Standstill(self.launch)
        rounds = self._circling[1]
        if rounds.passed(self, Group(pc, env, mask), loop):
            endless(self, loop, mask, case="passes", looks=self.turns.made(loop, mask))

    def _exited(self) -> None:
        if self.barriers.holds:
            self.barriers.resolve()

    def _branch(self, group: Group, result: tuple[Any, ...]) -> int | None:
        _, mask, condition, yes, no = result
        taken = both(mask, condition)
        rest = minus(mask, taken)
        if taken is False or rest is False:
            return int(no if taken is False else yes)
        # Both halves go on from here with an environment of their own; ``merge`` makes one of them again.
        self.ready.append(Group(no, list(group.env), rest))
        group.mask = taken
        return int(yes)

    def _wait(self, group: Group, result: tuple[Any, ...]) -> int | None:
        _, mask, op, payload, after = result
        group.mask = mask
        if isinstance(op, ops.MbarrierWait):
            return int(after) if self.barriers.await_phase(op, group, payload, after) else None
        # All threads of all blocks are here, so nobody has to be waited for: by far the most frequent case.
        if mask is None and not isinstance(op, (ops.NamedBarrier, ops.ClusterWait)) and \
                getattr(op, "mask", _FULL) == _FULL:
            if self.watch is not None:
                if isinstance(op, ops.GridSync):
                    self.watch.globals.meet()
                if isinstance(op, ops.SyncThreads):
                    self.watch.checker.barrier(op, None)
                elif isinstance(op, ops.SyncWarp):
                    self.watch.checker.warp_sync(op, op.mask, None)
                else:
                    self.watch.checker.engines.met(None, span_of(op))
            return int(after)
        group.pc = after
        self.barriers.arrive(op, group, payload)
        return None

    def _spin(self, group: Group, result: tuple[Any, ...]) -> None:
        _, _, op, after = result
        self._spun = True
        group.pc = after
        self.polled[after] = op
        self.turns.meet(op, group.mask)
        self.turns.watched = None                       # who polls is looked at elsewhere
        slots = self.program.deciding(op, after)
        if slots is None:
            self.launch.moves += 1
        else:
            values = [group.env[slot.index] for slot in slots]
            # A look with other values than in the last round is progress, too: a loop that counts its turns may end by
            # itself.
            if not any(same_values(values, before) for before in self.seen.get(after, ())):
                self.launch.moves += 1
            self.looking.setdefault(after, []).append(values)
        for other in self.spinning:
            if other.pc == after and self.merge(other, group):
                return
        self.spinning.append(group)

    def _pause(self, group: Group, result: tuple[Any, ...]) -> int | None:
        group.mask = result[1]
        if not self.launch.pauses.stops(result[2], group):
            return int(result[3])
        group.pc = result[3]
        self.paused.append(group)
        return None

    def _unpause(self) -> None:
        """Once nobody else gets on, one of those that give way does."""
        launch = self.launch
        # Those that poll find one value after the other, and the newest in the end.
        before, self._before = self._before, (launch.writes, launch.globals.between.lag)
        self._quiet, self._held = self._quiet + 1 if self._before == before else 0, self._held + 1
        launch.moves += 1
        group = launch.pauses.next
        if launch.pauses.over(self._quiet, self._held) and group in self.paused:
            self._held = 0
            launch.writes += 1
            launch.pauses.remove(group)
            self.paused.remove(group)
            self.ready.append(group)

    def _leave(self, group: Group, result: tuple[Any, ...]) -> None:
        self.leave(result[1])
        self._exited()

    _handlers: ClassVar[dict[str, Callable[[Any, Group, tuple[Any, ...]], int | None]]] = {
        "branch": _branch, "wait": _wait, "yield": _spin, "pause": _pause, "leave": _leave}


def _in_cluster(block_ids: Array, cluster: tuple[int, int, int]) -> dict[str, Any]:
    """The cluster's registers: each block's place within its cluster, (1, B)."""
    x, y, z = (np.ascontiguousarray(block_ids[None, :, axis] % cluster[axis], np.int32) for axis in range(3))
    rank = x + cluster[0] * (y + cluster[1] * z)
    return {"cluster_block_x": x, "cluster_block_y": y, "cluster_block_z": z, "cluster_rank": rank}


def _threads(block_dim: tuple[int, int, int]) -> dict[str, Any]:
    """The thread index registers: (T, 1), or 0 where the block has extent 1."""
    x, y, z = block_dim
    linear = np.arange(x * y * z, dtype=np.int32)[:, None]
    index = {"thread_x": linear % x, "thread_y": linear // x % y, "thread_z": linear // (x * y)}
    return {name: array if extent > 1 else 0 for (name, array), extent in zip(index.items(), block_dim, strict=True)}
