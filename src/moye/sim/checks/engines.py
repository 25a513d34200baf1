"""What asynchronous units do to shared memory: tensor copies and wgmma, their mbarriers, groups and proxy fences.

In: the copies, products, arrivals, waits and fences of one batch.  Out: records and clocks for the shared checker, and
findings D6, D8, D10, D12-D16, E3, F1 through the judge.

Each mbarrier is an engine: what a load of phase n writes has epoch n + 1, and whoever waits for that phase has heard of
it.  Each thread that stores, and each warpgroup, is one: what its group n reads has epoch n + 1.
"""

from __future__ import annotations

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.sim.checks.bulk_waits import BulkWaits
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import Boxes, Chunks, Made, Memory
from moye.sim.checks.footprint import Footprint
from moye.sim.checks.judge import Engine, Fenced
from moye.sim.checks.phase_order import PhaseOrder
from moye.sim.checks.sent_copies import SentCopies
from moye.sim.checks.shared_proxies import Proxies, renewed
from moye.sim.checks.shared_records import (
    ENGINE,
    SYNC,
    Shadow,
    epoch_of,
    kind_of,
    op_of,
    pack,
    put,
    renew,
    take,
    thread_of,
)

_CHUNK = 16


class Engines:
    """The asynchronous units of one batch."""

    def __init__(self, checker: Memory, func: Func) -> None:
        self.checker = checker
        self.judge, self.stages = checker.judge, checker.judge.stages
        self.proxies = Proxies(checker)
        self.order = PhaseOrder(checker, self.barrier, func)
        self.all, self.barriers = self.judge.engines, self.judge.barriers
        self._numbers: dict[tuple[str, int, int], int] = {}
        self.made: dict[tuple[int, int], Made] = {}
        self.shown: dict[tuple[int, int], Bools] = {}
        """The blocks (B,) in which the initialisation of an mbarrier was fenced."""
        self.released: dict[tuple[int, int], Bools] = {}
        """Those in which that was by fence_mbarrier_init(), which releases it to the cluster."""
        self.bulk = BulkWaits()
        self.sent = SentCopies(checker, self.all)
        self._combining: set[int] = set()
        """The numbers of the statements that combine by red.async."""
        self.came: Ints = np.zeros((checker.threads, checker.blocks), np.int64)
        """The number of times that each thread has arrived at the barrier of its cluster."""
        self.left: Ints = self.came.copy()
        """The number of times that each thread has passed that barrier."""
        self._turns: Ints = np.zeros((2, checker.blocks), np.int64)

    def engine(self, kind: str, major: int, minor: int, name: str) -> int:
        """The number of an engine, new or old."""
        key = (kind, major, minor)
        if key not in self._numbers:
            self._numbers[key] = self.checker.clocks.engine()
            self.all.append(Engine(kind, name, major, minor))
        return self._numbers[key]

    def barrier(self, buffer: Buffer, element: int) -> int:
        """The engine of an mbarrier."""
        return self.engine("mbarrier", buffer.id, element, f"{buffer.name}({element})")

    # --- mbarriers ---------------------------------------------------------------------------------------------------

    def init(self, op: ops.MbarrierInit, element: int, lanes: Bools) -> None:
        """A thread initialises a barrier."""
        who, clocks = self.checker.everyone(lanes), self.checker.clocks
        thread = who.argmax(axis=0)
        epoch = clocks.now[clocks.group[thread], np.arange(clocks.columns)]
        key = (op.ref.buffer.id, element)
        self.order.begun(op.ref.buffer, element)
        self._initialised_again(op, element, thread, who)
        came = self.came[np.broadcast_to(thread, (self.checker.blocks,)), np.arange(self.checker.blocks)]
        self.barriers.setdefault(op.ref.buffer.id, {})[element] = op
        here, blocks, before = who.any(axis=0), lanes.any(axis=0), self.made.get(key)
        if before is None:
            by = np.zeros(self.checker.blocks, np.int64)
            self.made[key] = Made([op], by, thread, np.where(here, epoch, 0), came)
            self.shown[key], self.released[key] = np.zeros((2, self.checker.blocks), np.bool_)
            return
        # Blocks of a cluster may initialise theirs at several places.
        at = before.at if any(other is op for other in before.at) else [*before.at, op]
        self.made[key] = Made(at, np.where(blocks, [other is op for other in at].index(True), before.by),
                              np.where(here, thread, before.thread), np.where(here, epoch, before.epoch),
                              np.where(blocks, came, before.came))
        self.shown[key], self.released[key] = self.shown[key] & ~blocks, self.released[key] & ~blocks

    def _initialised_again(self, op: ops.MbarrierInit, element: int, thread: Ints, who: Bools) -> None:
        """Report D11 if other warps may not have passed their waits, or not have arrived, yet."""
        key = op.ref.buffer.id, element
        passed, arrived = self.stages.passed.pop(key, None), self.stages.reached.pop(key, None)
        before: ops.Op | None
        if passed is not None and (found := self._not_before(passed, thread, who)) is not None:
            (waiter, block), count = found
            wait = self.stages.last_wait(key, waiter, block)
            case, before = "waited", None if wait is None else wait.op
        elif arrived is not None and (found := self._not_before(arrived, thread, who)) is not None:
            (waiter, block), count = found
            last = self.stages.arrivals[key]
            case, before = "arrived", last.op.get(int(last.moment[waiter, block]))
        else:
            return
        self.judge.mbarrier("D11", case, op, (op.ref.buffer, element), (int(thread[block]), block),
                            (before, waiter), count)

    def _not_before(self, epoch: Ints, thread: Ints, who: Bools) -> tuple[tuple[int, int], int] | None:
        """The first thread of another warp, and its block, that has done something (T, B) which nothing orders before
        one thread of each column; and how many there are."""
        clocks = self.checker.clocks
        epoch = epoch if clocks.columns > 1 else epoch.max(axis=1, keepdims=True)
        known = clocks.seen[clocks.group[thread], clocks.group[:, None], np.arange(clocks.columns)]
        bad = (epoch > known) & who.any(axis=0) & (np.arange(len(who))[:, None] // WARP != thread // WARP)
        return (_first(bad), int(bad.sum())) if bad.any() else None

    def _visible(self, op: ops.Op, ref: Ref, element: int, lanes: Bools, *, proxy: bool = False) -> None:
        """Report D10 if the initialisation is not ordered before this use; once for each tensor of barriers."""
        key = (ref.buffer.id, element)
        made = self.made.get(key)
        if made is None:
            self.judge.mbarrier("D10", "unmade", op, (ref.buffer, element), _first(lanes))
            return
        if proxy:
            self._fenced(op, ref, element, lanes, np.arange(self.checker.blocks))
        who, clocks = self.checker.everyone(lanes), self.checker.clocks
        thread, epoch, column = self._columns(made.thread), self._columns(made.epoch), np.arange(clocks.columns)
        for group in np.flatnonzero(clocks.groups_of(who).any(axis=1)).tolist():
            here = who & (clocks.group == group)[:, None]
            known = clocks.seen[group, clocks.group[thread], column] >= epoch
            here[thread, column] = False
            # With such a fence any barrier of the cluster will do.
            here &= self._columned(~self.released[key] | (self.left <= made.came))
            if (bad := here & ~known).any():
                lane = _first(bad)
                self.judge.mbarrier("D10", "-", op, (ref.buffer, element), lane,
                                    (made.op(lane[1]), int(thread[lane[1]])), int(bad.sum()))
                for other, init in self.made.items():
                    if other[0] == ref.buffer.id:
                        init.epoch = np.zeros_like(init.epoch)
                return

    def _fenced(self, op: ops.Op, ref: Ref, element: int, lanes: Bools, owner: Ints) -> None:
        """Report D10 if a copy of these threads (T, B) completes on a barrier of the blocks ``owner`` (B,) whose
        initialisation no fence shows to other proxies; once for each tensor of barriers."""
        key = (ref.buffer.id, element)
        if not (bad := lanes & ~self.shown[key][owner]).any():
            return
        lane = _first(bad)
        away = int(owner[lane[1]])
        self.judge.mbarrier("D10", "unfenced", op, (ref.buffer, element), lane, (self.made[key].op(away), -1),
                            owner=self.judge.block(away), away=away != lane[1])
        for other, shown in self.shown.items():
            if other[0] == ref.buffer.id:
                shown[:] = True

    def _columned(self, mask: Bools) -> Bools:
        """A mask (T, blocks) as (T, columns)."""
        return mask if self.checker.clocks.columns > 1 else np.logical_or.reduce(mask, axis=1)[:, None]

    def _columns(self, x: Ints) -> Ints:
        columns = self.checker.clocks.columns
        return np.broadcast_to(x, (columns,)) if len(x) == 1 else x

    def arrive(self, op: ops.MbarrierArrive, element: int, lanes: Bools, phase: Ints, to: Ints | None) -> None:
        """Threads arrive (release) in the ``phase`` under way per block, at the barrier of the block of the cluster
        whose rank (T, B) ``to`` says.
        """
        ref = op.ref
        channel = (f"arrive {ref.buffer.id}", element)
        self.order.arrive(op, element, lanes, phase, to)
        if to is None:
            self._visible(op, ref, element, lanes)
            if op.arrives:
                clocks = self.checker.clocks
                self.stages.arrive(op, element, lanes, clocks.now[clocks.group], phase)
            if op.arrives and not op.copies:            # copies arrive themselves: what else their thread does is open
                clocks.send(channel, self.checker.groups(self.checker.everyone(lanes)))
            return
        # mbarrier.arrive on another block's barrier releases to that block alone, so each rank has its own channel.
        ranks = np.unique(to[lanes]).tolist()
        for rank in ranks:
            self._visible_there(op, ref, element, lanes & (to == rank), rank)
        self.checker.peers.arrived(op, ref, element, np.where(lanes, to, -1))
        if self._alike(lanes, to):
            self.checker.clocks.arrive(channel, self.checker.groups(self.checker.everyone(lanes)), None)
            return
        self.checker.expand()
        for rank in ranks:
            who = self.checker.groups(self.checker.everyone(lanes & (to == rank)))
            self.checker.clocks.arrive(channel, who, rank)

    def hand_over(self, op: ops.MbarrierArrive, element: int, lanes: Bools, phase: Ints) -> None:
        """Copies by cp.async of these threads complete with the ``phase`` under way, per block, of a barrier."""
        buffer, checker, here = op.ref.buffer, self.checker, lanes.any(axis=0)
        if checker.clocks.columns == 1 and (phase[here] != phase[here][0]).any():
            checker.expand()
        who = checker.everyone(lanes)
        if checker.clocks.columns > 1:
            who = checker.everyone(lanes)               # with a column for each block now
        epoch = phase if checker.clocks.columns > 1 else phase[here][:1]
        self._fill(buffer, element, np.flatnonzero(here), phase[here])
        engine = self.barrier(buffer, element)
        for shadow in checker.shadows.values():
            shadow.hand_over(np.broadcast_to(who, (checker.threads, checker.clocks.columns)), engine, epoch + 1)

    def _fill(self, full: Buffer, element: int, block: Ints, phase: Ints) -> None:
        """Copies that complete in these phases begin, entry by entry."""
        self.stages.fill(full, element, block, phase)
        self.order.fill(full, element, block, phase)

    def _alike(self, lanes: Bools, to: Ints) -> bool:
        """Whether blocks do not differ yet, and the same groups of every block arrive at each block of its cluster."""
        clocks = self.checker.clocks
        if clocks.columns > 1 or (lanes != lanes[:, :1]).any():
            return False
        ranks = np.arange(self.checker.cluster)[:, None, None]
        there: Bools = (to == ranks) & lanes                                            # (ranks, T, B)
        groups = np.stack([there[:, clocks.group == g].any(axis=1) for g in range(clocks.groups)])
        return bool((groups == groups[:, :1, :1]).all())

    def _visible_there(self, op: ops.Op, ref: Ref, element: int, lanes: Bools, rank: int, *,
                       proxy: bool = False) -> None:
        """Report D10 of the barrier of another block; once for each tensor of barriers."""
        key = (ref.buffer.id, element)
        made = self.made.get(key)
        if made is None:
            self.judge.mbarrier("D10", "unmade", op, (ref.buffer, element), _first(lanes))
            return
        clocks, size = self.checker.clocks, self.checker.cluster
        if proxy:
            every = np.arange(self.checker.blocks)
            self._fenced(op, ref, element, lanes, every // size * size + rank)
        thread, block = np.nonzero(lanes)
        owner = block // size * size + rank
        column = np.zeros_like(block) if clocks.columns == 1 else block
        maker, epoch = (np.broadcast_to(x, (self.checker.blocks,))[owner] for x in (made.thread, made.epoch))
        known = clocks.known_far(clocks.group[thread], np.full_like(block, rank), clocks.group[maker], column)
        bad = (known < epoch) & ((owner != block) | (thread != maker))
        bad &= ~self.released[key][owner] | (self.left[thread, block] <= made.came[owner])
        if bad.any():
            at = int(np.argmax(bad))
            self.judge.mbarrier("D10", "cluster", op, (ref.buffer, element), (int(thread[at]), int(block[at])),
                                (made.op(int(owner[at])), int(maker[at])), int(bad.sum()),
                                owner=self.judge.block(owner[at]))
            for other, init in self.made.items():
                if other[0] == ref.buffer.id:
                    init.epoch = np.zeros_like(init.epoch)

    def _visible_far(self, op: ops.AnyAsync, ref: Ref, element: int, boxes: Boxes, far: Bools) -> None:
        """Report D10 of the barriers of other blocks, at which the boxes ``far`` of a multicast arrive."""
        rank = boxes.block % self.checker.cluster
        for there in np.unique(rank[far]).tolist():
            lanes = np.zeros((self.checker.threads, self.checker.blocks), np.bool_)
            here = far & (rank == there)
            lanes[boxes.thread[here], boxes.issuer[here]] = True
            self._visible_there(op, ref, element, lanes, there, proxy=not isinstance(op, ops.AsyncStore))

    def phase(self, buffer: Buffer, element: int, where: Bools) -> None:
        """A phase is complete in the blocks ``where``."""
        # A wait acquires what the completed phase has gathered; arrivals of the next one stay in their own channel.
        self.order.over(buffer, element, where)
        columns = self.checker.everyone(where[None])[0]
        self.checker.clocks.publish((f"arrive {buffer.id}", element), (f"phase {buffer.id}", element), columns)

    def passed(self, op: ops.AnyPhase, ref: Ref, element: int, lanes: Bools, phase: Ints) -> None:
        """Threads go on after a wait (acquire); ``phase`` is the one under way, per block."""
        self._visible(op, ref, element, lanes)
        self.order.before_wait(op, element, lanes, phase)
        engine, who = self.barrier(ref.buffer, element), self.checker.groups(self.checker.everyone(lanes))
        clocks = self.checker.clocks
        if clocks.columns == 1 and (phase[lanes.any(axis=0)] != phase[lanes.any(axis=0)][0]).any():
            self.checker.expand()
            who = self.checker.groups(self.checker.everyone(lanes))
        epoch = phase if clocks.columns > 1 else phase[lanes.any(axis=0)][:1]
        clocks.receive((f"phase {ref.buffer.id}", element), who)
        if self.checker.flags is not None:
            self.checker.flags.waited((ref.buffer.id, element), lanes)
        clocks.hear(engine, who, epoch)
        self.stages.wait(op, element, lanes, phase, clocks.now[clocks.group])
        self.order.wait(op, element, lanes, phase)

    # --- other synchronisation ---------------------------------------------------------------------------------------

    def met(self, lanes: Bools | None, size: int = WARP) -> None:
        """The lanes of each warp, or of each warpgroup, that are among these have come to one instruction."""
        self.order.waits.meet(lanes, size)
        self.order.met(lanes)

    def fence(self, op: ops.ProxyFence, lanes: Bools | None) -> None:
        """Each thread makes its writes visible to the asynchronous proxy, or its mbarriers to everybody."""
        who, clocks = self.checker.everyone(lanes), self.checker.clocks
        for key, made in self.made.items():
            here = np.broadcast_to(who[self._columns(made.thread), np.arange(clocks.columns)], self.shown[key].shape)
            self.shown[key] |= here
            self.released[key] |= here & (op.kind == "mbarrier_init")
        if op.kind == "async":
            self.proxies.fence(who)

    def cluster_arrive(self, lanes: Bools, *, relaxed: bool) -> None:
        """Threads arrive at the barrier of their cluster; unless ``relaxed`` they release what they have done."""
        self.came += lanes
        self.sent.arrive(lanes, self.came)
        if relaxed:
            self.order.forget(lanes)
        # Two channels in turn are enough: nobody arrives a third time before all have passed the first.
        for turn in () if relaxed else np.unique(self.came[lanes]).tolist():
            here = lanes & (self.came == turn)
            who, channel = self.checker.groups(self.checker.everyone(here)), ("cluster", turn % 2)
            whole = np.repeat(here.any(axis=0).reshape(-1, self.checker.cluster).any(axis=1), self.checker.cluster)
            stale = whole & (self._turns[turn % 2] != turn)     # everybody has passed the barrier two turns ago
            self._turns[turn % 2, whole] = turn
            self.checker.clocks.close(channel, self._columned(stale[None])[0])
            self.checker.clocks.meet(channel, who)

    def cluster_leave(self, lanes: Bools) -> None:
        """Threads pass the barrier of their cluster (acquire)."""
        clocks = self.checker.clocks
        for turn in np.unique(self.came[lanes]).tolist():
            who = self.checker.groups(self.checker.everyone(lanes & (self.came == turn)))
            # barrier.cluster.wait acquires by default (PTX ISA); even after a relaxed arrival it says that all have
            # started.
            clocks.receive(("cluster", turn % 2), who)
            clocks.start(who)
        self.sent.leave(lanes, self.came)
        self.left = np.where(lanes, self.came, self.left)

    def bulk_wait(self, op: ops.BulkWait, lanes: Bools, limit: Ints) -> None:
        """Threads know that their groups below ``limit`` (T, B) have read their sources."""
        self.bulk.waited(op, lanes, limit)
        checker = self.checker
        if checker.clocks.columns == 1 and (np.where(lanes, limit, limit[:, :1]) != limit[:, :1]).any():
            checker.expand()
        who = checker.everyone(lanes)
        # Only the thread that issues bulk copies waits for its groups; others learn of it by a barrier.
        checker.clocks.wait_for_own(checker.everyone(who), limit if checker.clocks.columns > 1 else limit[:, :1])

    def _heard(self, lanes: Bools, epoch: Ints) -> tuple[Bools, Ints]:
        """The groups of a mask and an epoch per column."""
        here = lanes.any(axis=0)
        if self.checker.clocks.columns == 1 and (epoch[here] != epoch[here][0]).any():
            self.checker.expand()
        who = self.checker.groups(self.checker.everyone(lanes))
        return who, epoch if self.checker.clocks.columns > 1 else epoch[here][:1]

    def products_done(self, lanes: Bools, limit: Ints) -> None:
        """Warpgroups know that their products of the groups below ``limit`` (T, B) are complete."""
        self.met(lanes, WARPGROUP)
        for engine, entry in enumerate(self.all):
            first = entry.major * WARPGROUP
            if entry.kind == "products" and lanes[first].any():
                only = np.zeros_like(lanes)
                only[first:first + WARPGROUP] = lanes[first:first + WARPGROUP]
                who, epoch = self._heard(only, np.maximum(limit[first], 0))
                self.checker.clocks.hear(engine, who, epoch)

    # --- accesses ----------------------------------------------------------------------------------------------------

    def load(self, op: ops.AnyBulk, smem: Ref, barrier: Ref, chunks: Chunks, boxes: Boxes) -> None:
        """Boxes begin to be written, in the phase under way of their barriers."""
        for element in np.unique(boxes.element).tolist():
            mine = boxes.element == element
            own = boxes.issuer == boxes.block
            self._visible(op, barrier, element, self._lanes(boxes, mine & own), proxy=True)
            self._visible_far(op, barrier, element, boxes, mine & ~own)
            engine = self.barrier(barrier.buffer, element)
            found = self._find(smem, chunks, boxes, mine)
            if found is None:
                continue
            shadow, at, row = found
            self._fill(barrier.buffer, element, boxes.block[mine], boxes.phase[mine])
            self.order.copy(barrier.buffer, element, boxes, mine)
            broken = self.stages.broken
            if own.all():
                if barrier.buffer.id not in broken:
                    self._overwrites(shadow, op, at, element)
            elif self.checker.clocks.columns > 1 or not self.checker.peers.clear(shadow, at):
                self.checker.expand()                   # the report says which blocks it is
                found = self._find(smem, chunks, boxes, mine, apart=True)
                assert found is not None, "the boxes are the same"
                shadow, at, row = found
                if barrier.buffer.id not in broken:
                    self._overwrites(shadow, op, at.pick(own[row]), element)
                if barrier.buffer.id not in broken:     # nothing is told of the block's own part
                    self.checker.peers.loaded(shadow, op, at.pick(~own[row]), boxes.issuer[row][~own[row]])
            epoch = boxes.phase[row][:, None] + 1       # that of its box: boxes of blocks that do the same are alike
            record = pack(epoch, self.judge.number(op), ENGINE, np.full_like(epoch, engine))
            put(shadow.write, at.unit, at.block, record)
            renewed(shadow, at)
            renew(shadow, at)

    def stored(self, op: ops.AsyncStore, smem: Ref, barrier: Ref, width: int, boxes: Boxes) -> None:
        """Threads begin to write ``width`` bytes each into blocks of the cluster, or combine them with what is there.

        They complete in the phase under way of mbarriers of those blocks, by no other proxy than that of threads.
        """
        self.checker.expand()
        if op.by is not None:
            self._combining.add(self.judge.number(op))
        for element in np.unique(boxes.element).tolist():
            mine, own = boxes.element == element, boxes.issuer == boxes.block
            if (mine & own).any():
                self._visible(op, barrier, element, self._lanes(boxes, mine & own))
            self._visible_far(op, barrier, element, boxes, mine & ~own)
            found = self._find(smem, lambda start: np.array([start]), boxes, mine, apart=True, chunk=width)
            if found is None:
                continue
            shadow, at, row = found
            self._fill(barrier.buffer, element, boxes.block[mine], boxes.phase[mine])
            self.order.copy(barrier.buffer, element, boxes, mine)
            assert at.block is not None, "the blocks of a cluster are told apart"
            if op.by is not None:                       # atomic, so that they may meet others of their kind
                last = shadow.write[at.unit, at.block]
                shadow.write[at.unit, at.block] = np.where(
                    self.combined(last), pack(np.zeros_like(last), self.judge.number(op), SYNC, at.first), last)
            if barrier.buffer.id not in self.stages.broken:
                self._overwrites(shadow, op, at.pick(own[row]), element)
            if barrier.buffer.id not in self.stages.broken:
                self.checker.peers.stored(shadow, op, at, boxes.issuer[row])
            epoch = boxes.phase[row][:, None] + 1
            engine = self.barrier(barrier.buffer, element)
            put(shadow.write, at.unit, at.block, pack(epoch, self.judge.number(op), ENGINE,
                                                      np.full_like(epoch, engine)))
            renewed(shadow, at, announced=True)
            renew(shadow, at)

    def combined(self, record: Ints) -> Bools:
        """Whether these last writes are by red.async: atomic, so that others that are need no order with them."""
        if not self._combining:
            return np.zeros(record.shape, np.bool_)
        found: Bools = (record != 0) & (kind_of(record) == ENGINE) & np.isin(op_of(record), list(self._combining))
        return found

    def _overwrites(self, shadow: Shadow, op: ops.AnyAsync, at: Footprint, stage: int) -> None:
        if not len(at.unit):
            return
        # First the order of threads and copy: without it the missing fence is the lesser fault.
        if (clashes := self.checker.against_write(shadow, at, initialised=False)) is not None or \
                (_overwrites_atomics(op) and (clashes := self.proxies.unordered(shadow, at)) is not None):
            self.judge.load_over_write(shadow, op, clashes, stage)
        elif not isinstance(op, ops.AsyncStore) and (lost := self._unseen(shadow, at)) is not None:
            self.judge.unfenced(shadow, op, lost, "overwritten")
        if (clashes := self.checker.against(shadow.reads, at)) is not None:
            shadow.reads.forget(clashes.unit, clashes.block)
            self.judge.load_over_read(shadow, op, clashes, stage)
        self.against_engines(shadow, op, at, stage)
        self.checker.peers.local(shadow, op, at, "loaded")

    def store(self, op: ops.AnyBulk, smem: Ref, chunks: Chunks, boxes: Boxes) -> None:
        """Boxes begin to be read."""
        for thread in np.unique(boxes.thread).tolist():
            engine = self.checker.clocks.stores[thread] = self.engine("store", thread, 0, f"thread {thread}")
            self.bulk.issued(thread, boxes.block[boxes.thread == thread], boxes.group[boxes.thread == thread])
            self._read(op, smem, chunks, boxes, boxes.thread == thread, engine)

    def send(self, op: ops.BulkCopy, barrier: Ref, chunks: Chunks, boxes: Boxes, to: Ints) -> None:
        """Boxes that will be read for blocks of the cluster of these ranks; ``group`` is the barrier's phase there.

        Whoever has heard that the phase is complete knows that they have been read.
        """
        self.checker.expand()
        for element, rank in np.unique(np.stack([boxes.element, to]), axis=1).T.tolist():
            mine = (boxes.element == element) & (to == rank)
            self._visible_there(op, barrier, element, self._lanes(boxes, mine), rank, proxy=True)
            there = self.barrier(barrier.buffer, element)
            engine = self.engine("send", there, rank, f"{barrier.buffer.name}({element}) of the block of rank {rank}")
            self._read(op, op.src, chunks, boxes, mine, engine)

    def products(self, op: ops.Wgmma, ref: TileRef, chunks: Chunks, boxes: Boxes, warpgroup: int) -> None:
        """An operand that will be read by one warpgroup; ``boxes`` has an entry for each of its groups of threads."""
        engine = self.engine("products", warpgroup, 0, f"warpgroup {warpgroup}")
        self.stages.product(warpgroup, boxes.block, boxes.group)
        self._read(op, ref, chunks, boxes, np.ones(len(boxes.thread), np.bool_), engine)

    def _read(self, op: ops.Op, ref: Ref | TileRef, chunks: Chunks, boxes: Boxes, mine: Bools, engine: int) -> None:
        found = self._find(ref, chunks, boxes, mine)
        if found is None:
            return
        shadow, at, row = found
        if (clashes := self.checker.against_write(shadow, at, initialised=True)) is not None or \
                (clashes := self.proxies.unordered(shadow, at)) is not None:
            self.judge.read_any(shadow, op, clashes)
        elif (lost := self._unseen(shadow, at)) is not None:
            self.judge.unfenced(shadow, op, lost, "read")
        self.checker.peers.local(shadow, op, at, "read")
        last = shadow.engines.setdefault(engine, np.zeros_like(shadow.write))
        epoch = boxes.group[row][:, None] + 1
        put(last, at.unit, at.block, pack(epoch, self.judge.number(op), ENGINE, np.full_like(epoch, engine)))

    def _unseen(self, shadow: Shadow, at: Footprint) -> Fenced | None:
        """Units that threads wrote, or changed by atomics, and that asynchronous units may not see."""
        return self.proxies.unfenced(shadow, at) or self.proxies.unshown(shadow, at)

    def _lanes(self, boxes: Boxes, mine: Bools) -> Bools:
        lanes = np.zeros((self.checker.threads, self.checker.blocks), np.bool_)
        lanes[boxes.thread[mine], boxes.block[mine]] = True
        return lanes

    def _find(self, ref: Ref | TileRef, chunks: Chunks, boxes: Boxes, mine: Bools, *, apart: bool = False,
              chunk: int = _CHUNK) -> tuple[Shadow, Footprint, Ints] | None:
        """The units of these boxes, one entry per unit and issuing thread; and a box of each entry.

        ``apart``: each block has entries of its own, even where all do the same.  A chunk has ``chunk`` bytes.
        """
        checker, places = self.checker, np.flatnonzero(mine)
        uniform = not apart and _uniform(boxes, places, checker.blocks)
        if not uniform:
            checker.expand()
        else:
            places = places[boxes.block[places] == boxes.block[places[0]]]
        shadow = checker.shadow(ref.buffer, chunk)
        known: dict[int, Ints] = {}
        units: list[Ints] = []
        for start in boxes.start[places].tolist():
            if start not in known:
                address = chunks(start)
                checker.align(shadow, address, chunk)
                per = chunk // shadow.unit
                found = (address[:, None] // shadow.unit + np.arange(per)).reshape(-1)
                known[start] = found[(found >= 0) & (found < shadow.units)]
            units.append(known[start])
        each = [len(unit) for unit in units]
        if not sum(each):
            return None
        unit, who, where = np.concatenate(units), boxes.thread[places].repeat(each), boxes.block[places].repeat(each)
        at = Footprint(unit, checker.clocks.group[who], None if uniform else where, who, who, int(unit.min()),
                       int(unit.max()))
        return shadow, at, places.repeat(each)

    # --- questions of the shared checker -----------------------------------------------------------------------------

    def known(self, last: Ints, known: Ints, at: Footprint) -> Ints:
        """``known`` epochs, of writes by engines those that the entries' groups have heard of."""
        mine = (kind_of(last) == ENGINE) & (last != 0)
        if not mine.any():
            return known
        number = np.where(mine, thread_of(last), 0)
        return np.where(mine, self.checker.clocks.known_engine(at.group, number, at.block), known)

    def against_engines(self, shadow: Shadow, op: ops.Op, at: Footprint, stage: int = 0) -> None:
        """Writes over what engines may still read; of a tensor copy with the element of its barrier."""
        for engine, table in shadow.engines.items():
            last = take(table, at.unit, at.block)
            bad = epoch_of(last) > self._has_read(engine, at)
            if bad.any():
                entry, column = np.nonzero(bad)
                own = (self.all[engine].kind == "store") & (at.first[entry] == self.all[engine].major)
                actor = np.where(own, at.second[entry], at.first[entry])    # who stores may have waited
                clashes = self.checker.clashes(at, entry, column, last[entry, column], actor)
                put(table, at.unit, at.block, np.where(bad, 0, last))
                waited = self._has_waited(engine, last[entry, column], column)
                self.judge.over_engine(shadow, op, clashes, None if waited else self.bulk, stage)

    def _has_waited(self, engine: int, record: Ints, column: Ints) -> bool:
        """Whether the thread that stores has itself waited for what it has read, so that no other wait was meant."""
        entry, clocks = self.all[engine], self.checker.clocks
        return entry.kind == "store" and bool((epoch_of(record) <= clocks.waited[entry.major, column]).all())

    def _has_read(self, engine: int, at: Footprint) -> Ints:
        """Up to which epoch the threads of entries know that an engine of their block has read: (D, columns or 1)."""
        entry, clocks = self.all[engine], self.checker.clocks
        if entry.kind == "send":
            return clocks.known_engine_of(at.group, entry.minor, entry.major, at.block)
        known = clocks.known_engine(at.group, engine, at.block)
        if entry.kind != "store":
            return known
        own = ((at.first == entry.major) & (at.second == entry.major))[:, None]
        waited = clocks.waited[entry.major]
        return np.where(own, np.maximum(known, waited if at.block is None else waited[at.block][:, None]), known)

    def has_read_there(self, engine: int, group: Ints, rank: Ints, block: Ints) -> Ints:
        """The same of groups (D,) of ``block`` and an engine of the blocks of these ranks: (D,)."""
        entry, clocks = self.all[engine], self.checker.clocks
        if entry.kind == "send":
            return clocks.known_engine_of(group, entry.minor, entry.major, block)[:, 0]
        found: Ints = clocks.far_heard[group, rank, engine, block]
        return found


def _overwrites_atomics(op: ops.AnyAsync) -> bool:
    """Whether it may not meet atomics: red.async is one itself."""
    return not isinstance(op, ops.AsyncStore) or op.by is None


def _first(lanes: Bools) -> tuple[int, int]:
    """Thread and column of the first of these lanes."""
    block = int(np.argmax(lanes.any(axis=0)))
    return int(np.argmax(lanes[:, block])), block


def _uniform(boxes: Boxes, places: Ints, blocks: int) -> bool:
    """Whether all blocks of the batch do the same."""
    if blocks == 1:
        return True
    if len(places) % blocks:
        return False
    order = places[np.lexsort((boxes.thread[places], boxes.block[places]))]
    grid = order.reshape(blocks, -1)
    if (boxes.block[grid] != np.arange(blocks)[:, None]).any():
        return False
    return all(bool((x[grid] == x[grid[:1]]).all())
               for x in (boxes.thread, boxes.start, boxes.element, boxes.phase, boxes.group))
