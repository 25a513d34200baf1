"""Races in global memory, within a block and between blocks, by happens-before; values are never looked at.

In: the accesses of a batch of blocks to the arguments that the kernel writes.  Out: findings C1-C3 (within a block),
D19, G1-G3 and G5 (between blocks), B9, D1, D3 and D17 (stores by TMA) through the reporter.

Blocks have no order, whichever ran first here, unless releases and acquires give them one (flag_history.py); within a
block the clocks of the shared-memory checker say.  What is remembered is in global_regions.py, global_records.py and
async_global.py; the classes are in global_conflicts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Protocol

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.sim.checks.async_global import Loading, Overlaps, Stores
from moye.sim.checks.async_reads import Sources
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.equal_writes import differ
from moye.sim.checks.flag_history import Between, Eye
from moye.sim.checks.global_conflicts import Clash, Conflicts, Place
from moye.sim.checks.global_proxies import GlobalFences
from moye.sim.checks.global_records import Pattern, UnitTracks, held
from moye.sim.checks.global_regions import (
    ATOMIC,
    CLUSTER,
    CTA,
    GPU,
    READ,
    STRONG,
    WRITE,
    Plan,
    Region,
    is_lasting,
    kind_of,
    plan,
    scope_of,
)
from moye.sim.checks.late_stores import LateStores
from moye.sim.checks.locks import Held, Locks, Wish, locks
from moye.sim.checks.map_order import MapOrder, Maps
from moye.sim.checks.shared_races import SharedChecker
from moye.sim.checks.signal_memory import Traffic, strong, traffic
from moye.sim.checks.signals import Flags, Where
from moye.sim.checks.unwritten_global import Unwritten
from moye.sim.checks.versions import Versions
from moye.sim.findings.finding import Reporter
from moye.sim.flow.double_looks import twices
from moye.sim.values.memory import Array, Global

MOST_UNITS = 1 << 20
"""Units of an access whose pattern is kept."""


class Boxes(Loading, Protocol):
    """A bulk copy, with the bulk group of each thread that issues it."""

    group: Ints


class GlobalMemory:
    """What the batches of one launch share."""

    def __init__(self, func: Func, memory: Callable[[Buffer], Global], blocks: int, place: Place, reporter: Reporter,
                 spent: int | None = 0) -> None:
        walked = list(func.body.walk())
        self.func, self.place, self.reporter = func, place, reporter
        self.cluster = prod(func.cluster_dim)
        signals = traffic(func, {})
        remote = any(isinstance(op, ops.MbarrierArrive) and op.rank is not None for op in walked)
        ordered = any(strong(op) and _among_blocks(op) and signals.follows(op) for op in walked)
        self.crossing = ordered or (remote and signals.ordered)
        """Whether blocks may order each other."""
        self.plan = Plan([]) if spent is None else plan(func, memory, blocks, ordered=self.crossing, spent=spent)
        arrive = any(isinstance(op, ops.MbarrierArrive) and op.copies for op in walked)
        self.plan.not_judged += [f"whether {region.name} is written while copies that arrive at an mbarrier may still "
                                 "read it" for region in self.plan.regions.values() if arrive and region.lasts]
        self.traffic: Traffic = traffic(func, {buffer.id: region.buffers[0].id for region in self.plan.regions.values()
                                               for buffer in region.buffers})
        self.unwritten = Unwritten(memory, place, reporter)
        self.between = Between(self.cluster)
        self.late: LateStores | None = LateStores(func, self.between, reporter, place)
        self.held: Held | None = None
        """The locks and their holders, in a run in which locks order nothing."""
        self.coarse = False
        self.numbers = {id(op): number for number, op in enumerate(self.plan.ops, 1)}
        self.tracked: dict[int, UnitTracks] = {}
        self.stores = Stores()
        self.sources = Sources()
        self.proxies = GlobalFences(self.between, func.threads)
        self.maps = Maps(self.proxies, place, reporter)
        self.patterns: dict[int, Pattern] = {}
        self.lanes: dict[tuple[int, int], Ints] = {}
        """The record of each lane of the first blocks, by packing and number of blocks."""
        self.conflicts = Conflicts(func, self.plan.ops, place, reporter, memory, self.plan.sizes)

    @property
    def locks(self) -> Locks | None:
        """The locks of the kernel, if it has any."""
        return locks(self.func, self.traffic, lambda buffer: buffer.id in self.plan.regions)

    def hold(self, found: Locks) -> None:
        """Locks order nothing in this run: it is looked for what they guard."""
        self.held, self.late = Held(found, self.between, self.func.threads, self._crossed), None

    def _crossed(self, one: Wish, other: Wish) -> None:
        """Two threads wait for locks that others hold in turn."""
        places = [self.place(wish.event[0]) for wish in (one, other)]
        self.reporter.tell("F4", "locks", (other.op, one.op), block=places[0],
                           threads=(other.event[1], one.event[1]), rival=other.event[1], other=places[1],
                           waits=other.op)

    def look_back(self) -> None:
        """Loads that do not wait for a value find the oldest one that they may, in this run."""
        self.traffic = replace(self.traffic, older=True)

    def forget(self) -> None:
        """Give the memory back."""
        self.tracked.clear()

    @property
    def unsupported(self) -> list[str]:
        """What could not be judged."""
        more = [f"races of writes with all who have read {tracks.region.name}: so many are not remembered"
                for tracks in self.tracked.values() if tracks.crowd.full]
        if self.between.exhausted:
            more.append("races between threads that signal through memory: there is too much synchronisation to follow")
        if self.proxies.doubtful:
            more.append("whether a proxy fence lies between a write and a bulk copy in global memory: so many fences "
                        "are not remembered")
        if self.coarse:
            more.append("races within a block: its threads synchronise in more groups than can be told apart")
        return [*self.plan.unsupported, *more]

    def tracks(self, region: Region) -> UnitTracks:
        found = self.tracked.get(region.start)
        if found is None:
            found = self.tracked[region.start] = UnitTracks(region)
        return found


def _units(region: Region, memory: Global, index: Ints) -> Ints:
    """The unit of each element."""
    skew = memory.address - region.start
    if memory.itemsize == region.unit and skew % region.unit == 0:
        return index + skew // region.unit if skew else index
    units: Ints = (index * memory.itemsize + skew) // region.unit
    return units


def _among_blocks(op: ops.Op) -> bool:
    """Whether other blocks may use what is accessed."""
    return any(ref.buffer.space in (Space.GLOBAL, Space.CLUSTER) for ref, _ in op.refs())


class GlobalChecker:
    """The part of one batch: blocks ``first`` on of those that run, whose threads ``shared`` keeps the clocks of."""

    def __init__(self, memory: GlobalMemory, first: int, blocks: int, shared: SharedChecker) -> None:
        self.memory, self.shared, self.first, self.blocks = memory, shared, first, blocks
        self.threads = memory.func.threads
        self.flags = shared.flags = Flags(memory.between, memory.traffic, first, blocks, shared, memory.held)
        self.flags.late = memory.late
        if twices(memory.func) and memory.held is None and not memory.traffic.older:
            self.flags.versions = Versions(memory.func, memory.between, memory.reporter, first, memory.place)
        self.doubtful: list[Clash] = []
        """Writes of elements that others write, until ``settle`` knows their values."""
        self.overlaps = Overlaps(memory, shared, self.flags, first, blocks)
        self.maps = MapOrder(memory.maps, shared, self.flags.eye, self.overlaps, first)

    # --- accesses ----------------------------------------------------------------------------------------------------

    def access(self, op: ops.Op, ref: Ref | TileRef, memory: Global, index: Ints, size: int, mask: Bools | None,
               written: bool) -> None:
        """``size`` bytes at each element index (V, T or 1, B or 1) are read or written by the lanes of the mask."""
        kind = kind_of(op, written)
        self._settled()
        if self.memory.held is not None:
            self.memory.held.notice(self.first, self.blocks, self.shared.clocks)
        if self.memory.unwritten:
            self._unwritten(op, ref.buffer, memory, index, size, mask, written)
        if kind in (ATOMIC, STRONG):
            # Before the judgement: an acquire orders its own thread's access, too.
            self.flags.access(op, self._where(ref.buffer), memory.address + index[0] * memory.itemsize, mask)
        region = self.memory.plan.regions.get(ref.buffer.id)
        if region is not None and kind in region.kinds:
            self._judge(op, region, ref.buffer, kind, _units(region, memory, index), size, mask)
        if kind in (ATOMIC, STRONG):
            self.flags.done(op, None if mask is None else np.broadcast_to(mask, (self.threads, mask.shape[-1])))
        if kind == WRITE and self.memory.traffic.key(ref.buffer) in self.memory.traffic.mixed:
            self.flags.cut(self._where(ref.buffer), memory.address + index * memory.itemsize, mask, size)

    def _unwritten(self, op: ops.Op, buffer: Buffer, memory: Global, index: Ints, size: int, mask: Bools | None,
                   written: bool) -> None:
        shape = (len(index), self.threads, self.blocks)
        lanes = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        self.memory.unwritten.access(op, buffer, memory, np.broadcast_to(index, shape), size, lanes, self.first,
                                     reads=not written, writes=written or isinstance(op, ops.Atomic))

    def _where(self, buffer: Buffer) -> Where:
        return Where(lambda block, byte: byte, self.memory.traffic.watched(buffer))

    def boxes(self, op: ops.AnyBulk, tensor: Buffer, memory: Global, boxes: Boxes,
              elements: Callable[[], tuple[Ints, Bools]]) -> None:
        """A bulk copy is issued; ``elements``: per thread the index of each element (N, V), and if it is there."""
        region = self.memory.plan.regions.get(tensor.id)
        kind = kind_of(op, op.kind != "load")
        if self.memory.unwritten:
            self._unwritten_boxes(op, tensor, memory, boxes, *elements())
        if region is None or kind not in region.kinds:
            return
        tracks, (index, inside) = self.memory.tracks(region), elements()
        packing, column = tracks.packing, boxes.block
        record = self._records(op, tracks)[boxes.thread, column]
        if (kind != READ or region.lasts) and packing.detail:
            record = record | packing.last
        unit = _units(region, memory, index)
        parts = memory.itemsize // region.unit
        units = (unit[:, :, None] + np.arange(parts)).reshape(len(unit), -1)
        inside = np.repeat(inside, parts, axis=1) & (units >= 0) & (units < region.units)
        if kind != READ and packing.detail:
            for n in np.flatnonzero(inside.any(axis=1)).tolist():
                self.memory.stores.add((self.first + int(column[n]), int(boxes.thread[n])), op, tracks,
                                       units[n][inside[n]], int(record[n]), int(boxes.group[n]))
        elif packing.detail and region.lasts:
            self.overlaps.loading(op, tracks, boxes, units, inside, record)
        records = np.broadcast_to(record[:, None], units.shape)
        if region.mixed:
            self.overlaps.crossed(op, tracks, tensor, kind, units[inside], records[inside])
        self._compare(op, tracks, tensor, kind, units[inside], records[inside], whole=False)
        self.doubtful = []                              # one box by several threads is told of where it is issued

    def _unwritten_boxes(self, op: ops.AnyBulk, tensor: Buffer, memory: Global, boxes: Boxes, index: Ints,
                         inside: Bools) -> None:
        for n in range(len(index)):
            shape = (int(inside[n].sum()), self.threads, self.blocks)
            lanes = np.zeros(shape, np.bool_)
            lanes[:, boxes.thread[n], boxes.block[n]] = True
            self.memory.unwritten.access(op, tensor, memory,
                                         np.broadcast_to(index[n][inside[n]][:, None, None], shape), memory.itemsize,
                                         lanes, self.first, reads=op.kind in ("load", "reduce"),
                                         writes=op.kind != "load")

    def bulk_wait(self, op: ops.BulkWait, lanes: Bools, limit: Ints) -> None:
        """Threads have waited for their bulk groups below ``limit`` (T, B)."""
        clocks = self.shared.clocks
        self.maps.waited(lanes, limit)
        for block, thread in [lane for lane in self.memory.stores.lanes
                              if self.first <= lane[0] < self.first + self.blocks]:
            column = block - self.first
            if lanes[thread, column]:
                epoch = clocks.now[clocks.group[thread], column if clocks.columns > 1 else 0]
                self.memory.stores.wait(op, (block, thread), int(limit[thread, column]), int(epoch))

    def settle(self, memory: Global, index: Ints, before: Array, values: object, mask: Bools | None) -> None:
        """The statement has been executed: writes of one element differ, or they agree; what was there ``before``."""
        clashes, self.doubtful = self.doubtful, []
        shape = (len(index), self.threads, self.blocks)
        wanted = np.broadcast_to(np.asarray(values, memory.dtype), shape)
        for clash in clashes:
            content = memory.read(index) if clash.together else before
            differs = differ(np.broadcast_to(content, shape), wanted)
            if mask is not None:
                differs = differs & mask
            region = clash.tracks.region
            address = memory.address - region.start + np.broadcast_to(index, shape)[differs] * memory.itemsize
            parts = np.arange(max(1, memory.itemsize // region.unit))
            bad = np.isin(clash.unit, (address[:, None] // region.unit + parts).reshape(-1))
            for part, agree in ((np.flatnonzero(bad), False), (np.flatnonzero(~bad), True)):
                if part.size:
                    self._against(replace(clash.pick(part), agree=agree))

    def _settled(self) -> None:
        """Writes whose values have not been told count as different."""
        clashes, self.doubtful = self.doubtful, []
        for clash in clashes:
            self._against(clash)

    def meet(self) -> None:
        """All threads of all blocks meet: what was done before is ordered before what comes."""
        self._settled()
        clocks, shape = self.shared.clocks, (self.threads, self.blocks)
        self.memory.between.meet(np.broadcast_to(clocks.now[clocks.group], shape).T.copy(),
                                 np.broadcast_to(clocks.heard.max(axis=0), (clocks.heard.shape[1], self.blocks)).copy())
        for tracks in self.memory.tracked.values():
            if not tracks.packing.detail:               # records without epochs are about what is over now
                tracks.clear()

    def finish(self) -> None:
        """The blocks are through."""
        self._settled()
        self.memory.conflicts.tell()
        self.memory.coarse |= self.shared.clocks.coarse
        if not self.memory.crossing:
            self.memory.stores.forget(self.first, self.blocks)

    def _judge(self, op: ops.Op, region: Region, buffer: Buffer, kind: int, unit: Ints, size: int,
               mask: Bools | None) -> None:
        tracks = self.memory.tracks(region)
        unit, record, whole = self._flat(op, tracks, unit, size, mask)
        if region.lasts and kind == READ and tracks.packing.detail and is_lasting(op):
            record = self.overlaps.copied(tracks, unit, record)
        self._compare(op, tracks, buffer, kind, unit, record, whole=whole)

    def _compare(self, op: ops.Op, tracks: UnitTracks, buffer: Buffer, kind: int, unit: Ints, record: Ints, *,
                 whole: bool) -> None:
        """Against what is remembered of these units, then remember them."""
        if not unit.size:
            return
        span = slice(int(unit.min()), int(unit.max()) + 1)
        shift = tracks.packing.lane_shift
        for rival in tracks.region.against(kind):
            if rival not in tracks.tracks:
                continue
            for word in tracks.tracks[rival].words:
                old = held(word, unit, span)
                if old is None:
                    continue
                # Above ``shift`` a record names block and thread: program order covers a thread's own accesses.
                meets = (old != 0) & ((old ^ record) >> shift != 0)
                if (tracks.region.bulk or tracks.region.lasts) and tracks.packing.detail:
                    # Operations of the asynchronous proxy are in no program order with the thread that issues them.
                    meets |= tracks.packing.pending(old)        # a thread's own copies, too
                if (at := np.flatnonzero(meets)).size:
                    self._meet(Clash(tracks, buffer, op, kind, rival, unit[at], record[at], old[at]))
            if rival == READ:
                at, old = tracks.crowd.met(unit)
                if (apart := np.flatnonzero((old ^ record[at]) >> shift)).size:
                    self._meet(Clash(tracks, buffer, op, kind, rival, unit[at[apart]], record[at[apart]], old[apart]))
        if kind == WRITE:
            tracks.crowd.forget(unit)
        track = tracks.tracks.get(kind)
        if track is None:
            return
        lost = track.lost(unit, record, self._apart(op, unit) if whole else None, span)
        if (kind == WRITE or (kind in (ATOMIC, STRONG) and tracks.region.narrow)) and lost is not None:
            winner = track.newest.take(unit[lost])
            # Of several lanes at one unit a single record is kept: those that lost it meet the winner.
            differs = np.flatnonzero((winner ^ record[lost]) >> shift != 0)
            if differs.size:
                at = np.flatnonzero(lost)[differs]
                self._together(Clash(tracks, buffer, op, kind, kind, unit[at], record[at], winner[differs], True))

    def _apart(self, op: ops.Op, unit: Ints) -> Pattern:
        """What is known of the units relative to the first: whether an op's lanes never meet at one of them."""
        relative = unit - unit[0]
        pattern = self.memory.patterns.get(id(op))
        if pattern is None or not np.array_equal(pattern.relative, relative):
            pattern = Pattern(relative)
            if len(unit) <= MOST_UNITS:
                self.memory.patterns[id(op)] = pattern
        return pattern

    def _flat(self, op: ops.Op, tracks: UnitTracks, unit: Ints, size: int,
              mask: Bools | None) -> tuple[Ints, Ints, bool]:
        """(unit, record) of every lane and unit that the access touches, and whether that is all lanes."""
        region = tracks.region
        lanes = self._records(op, tracks)
        shape = (len(unit), *lanes.shape)
        inside: Bools | None = None if mask is None else np.asarray(mask)
        low, high = int(unit.min()), int(unit.max())
        if low < 0 or high > region.units - size // region.unit:
            fits = (unit >= 0) & (unit <= region.units - size // region.unit)
            inside = fits if inside is None else inside & fits
        if inside is None:
            flat, record = np.broadcast_to(unit, shape).reshape(-1), np.broadcast_to(lanes, shape).reshape(-1)
        else:
            inside = np.broadcast_to(inside, shape)
            flat, record = np.broadcast_to(unit, shape)[inside], np.broadcast_to(lanes, shape)[inside]
        if (parts := size // region.unit) > 1:
            flat, record = (flat[:, None] + np.arange(parts)).reshape(-1), np.repeat(record, parts)
        return flat, record, inside is None

    def _records(self, op: ops.Op, tracks: UnitTracks) -> Ints:
        """The record of each lane (T, B) if it does ``op`` now."""
        packing, clocks = tracks.packing, self.shared.clocks
        key = (packing.block_shift, self.blocks)
        base = self.memory.lanes.get(key)
        if base is None:
            block = np.arange(self.blocks, dtype=np.int64) << packing.block_shift
            thread = (np.arange(self.threads, dtype=np.int64) << packing.lane_shift if packing.detail
                      else np.zeros(self.threads, np.int64))
            base = self.memory.lanes[key] = thread[:, None] + block
        number: int | Ints = (self.first << packing.block_shift) + (self.memory.numbers[id(op)] << packing.epochs)
        if packing.detail:
            number = number + np.minimum(clocks.now, packing.last - 1).take(clocks.group, axis=0)
        records: Ints = (base + number).astype(packing.dtype, copy=False)
        return records

    def _meet(self, clash: Clash) -> None:
        """Whether two plain writes clash is known once their values are."""
        if clash.kinds == {WRITE} and not isinstance(clash.op, ops.AnyBulk) and not clash.tracks.region.bulk:
            self.doubtful.append(clash)
        else:
            self._against(clash)

    def _together(self, clash: Clash) -> None:
        """Accesses in one statement: of two blocks, or of two threads if they write."""
        blocks, rivals = clash.blocks()
        late = clash.kind == WRITE and not isinstance(clash.op, ops.AnyBulk)
        if late and clash.tracks.packing.detail:
            self.doubtful.append(clash)
        elif (at := np.flatnonzero(blocks != rivals)).size:
            self.doubtful.append(clash.pick(at)) if late else self._against(clash.pick(at))

    # --- order -------------------------------------------------------------------------------------------------------

    def _against(self, clash: Clash) -> None:
        """Report the entries that nothing orders."""
        packing = clash.tracks.packing
        if self.memory.between.met is not None and packing.detail:
            clash = clash.pick(np.flatnonzero(~self._before_meeting(clash)))
        if clash.tracks.region.bulk and packing.detail and self.memory.held is None:
            clash = self._unfinished(clash)
        if clash.tracks.region.lasts and packing.detail:
            clash = self.overlaps.reading(clash)
        if self.memory.held is not None and not self._guarded(clash):
            return
        inside = packing.block(clash.record) == packing.block(clash.rival)
        if packing.detail and (own := np.flatnonzero(inside)).size:
            part = clash.pick(own)
            # Atomics of one block are morally strong with each other at every scope, which is no data race, if they
            # overlap completely.
            part = part.pick(np.flatnonzero(self._uneven(part))) if clash.soft else part
            late = np.flatnonzero(~self._ordered_inside(part))
            if late.size and (late := late[~self._observed(part.pick(late))]).size:
                self._report(self.memory.conflicts.within, part.pick(late))
        if not (others := np.flatnonzero(~inside)).size:
            return
        part = clash.pick(others)
        # From the cheapest order to the dearest: barriers of the cluster, releases and acquires, then what was
        # observed.
        if self.memory.cluster > 1:
            part = part.pick(np.flatnonzero(~self._ordered_in_cluster(part)))
        if self.memory.crossing and part.unit.size:
            part = part.pick(np.flatnonzero(~self._ordered_between(part)))
            part = part.pick(np.flatnonzero(~self._observed(part)))
            if self.memory.between.exhausted:
                return
        # Two strong accesses race only if a scope leaves the other's thread out (not morally strong, PTX ISA).
        if clash.soft:
            part = part.pick(np.flatnonzero(self._narrow(part) | self._uneven(part)))
        if part.unit.size:
            self._report(self.memory.conflicts.add, part)

    def _guarded(self, clash: Clash) -> bool:
        """Whether locks may be meant to guard what is accessed."""
        held = self.memory.held
        return held is not None and clash.tracks.packing.detail and held.certain(clash.op) and \
            not held.is_lock(self.memory.traffic.key(clash.buffer))

    def _report(self, tell: Callable[[Clash], None], clash: Clash) -> None:
        """Tell of accesses that nothing orders; in a run without the order of locks, of those without one in common."""
        held, packing = self.memory.held, clash.tracks.packing
        if held is None:
            tell(clash)
            return
        left: Bools = np.zeros(clash.unit.shape, np.bool_)
        actors, rivals = (np.stack([packing.block(r), packing.thread(r), packing.epoch(r), packing.op(r)], axis=1)
                          for r in (clash.record, clash.rival))
        pairs, inverse = np.unique(np.concatenate([actors, rivals], axis=1), axis=0, return_inverse=True)
        for number, (a, b, c, op, d, e, f, rival) in enumerate(pairs.tolist()):
            one, other = self.memory.plan.ops[op - 1], self.memory.plan.ops[rival - 1]
            if held.certain(other):
                part = clash.pick(here := np.flatnonzero(inverse.reshape(-1) == number))
                left[here] = not held.apart((a, b, c, id(one)), (d, e, f, id(other)), partial(tell, part))
        if left.any():
            tell(clash.pick(np.flatnonzero(left)))

    def _unfinished(self, clash: Clash) -> Clash:
        """Tell of stores by TMA that are not complete; the entries that are left.

        Between blocks that is only what is missing if the access is ordered after the wait for the source.
        """
        packing, left = clash.tracks.packing, np.ones(clash.unit.shape, np.bool_)
        pending = packing.pending(clash.rival) & (clash.rival_kind != READ)
        for record in np.unique(clash.rival[pending]).tolist():
            at = np.flatnonzero(clash.rival == record)
            block, thread = record >> packing.block_shift, int(packing.thread(record))
            for stored, here in self.memory.stores.met((block, thread), record, clash.unit[at]):
                part = clash.pick(at[here])
                inside = packing.block(part.record) == block
                part.rival[:] = record - packing.last + min(stored.waited, packing.last - 1)
                if stored.wait is not None and self.memory.crossing and not inside.all():
                    inside |= self._ordered_between(part)
                inside |= (stored.wait is not None) & self._before_meeting(part)
                if (told := np.flatnonzero(inside)).size:
                    self.memory.conflicts.unfinished(part.pick(told), stored.op, stored.wait)
                    left[at[here][told]] = False
        return clash if left.all() else clash.pick(np.flatnonzero(left))

    def _before_meeting(self, clash: Clash) -> Bools:
        packing, rival = clash.tracks.packing, clash.rival
        return self.memory.between.before_meeting(packing.block(rival), packing.thread(rival), packing.epoch(rival))

    def _ordered_inside(self, clash: Clash) -> Bools:
        packing, clocks = clash.tracks.packing, self.shared.clocks
        column = packing.block(clash.record) - self.first if clocks.columns > 1 else 0
        group = clocks.group[packing.thread(clash.record)]
        # The test of vector clocks, entry by entry.
        ordered: Bools = packing.epoch(clash.rival) <= clocks.seen[group, clocks.group[packing.thread(clash.rival)],
                                                                   column]
        return ordered

    def _ordered_in_cluster(self, clash: Clash) -> Bools:
        """Entry by entry, whether both are of one cluster, and its barriers order them (or that cannot be told)."""
        packing, clocks, size = clash.tracks.packing, self.shared.clocks, self.memory.cluster
        mine, other = clash.blocks()
        inside: Bools = mine // size == other // size
        if not packing.detail:
            return inside
        column = (mine - self.first) * (clocks.columns > 1)
        group, rival = (clocks.group[packing.thread(record)] for record in (clash.record, clash.rival))
        known = clocks.wide[group, other % size, rival, np.where(inside, column, 0)]
        return inside & (packing.epoch(clash.rival) <= known)

    def _uneven(self, clash: Clash) -> Bools:
        """Whether two atomic accesses have different sizes: what overlaps in part alone is not morally strong (PTX)."""
        if not clash.tracks.region.uneven:
            return np.zeros(clash.unit.shape, np.bool_)
        sizes = np.array([0, *(self.memory.plan.sizes.get(id(op), 0) for op in self.memory.plan.ops)])
        differ: Bools = sizes[clash.tracks.packing.op(clash.rival)] != self.memory.plan.sizes[id(clash.op)]
        return differ

    def _narrow(self, clash: Clash) -> Bools:
        """Whether one of two atomic accesses has a scope that does not reach the other's block."""
        scopes = np.array([GPU, *(scope_of(op) for op in self.memory.plan.ops)])
        least = np.minimum(scopes[clash.tracks.packing.op(clash.rival)], scope_of(clash.op))
        mine, other = clash.blocks()
        apart = mine // self.memory.cluster != other // self.memory.cluster
        # The blocks differ here, so that CTA scope never reaches the other one.
        narrow: Bools = (least == CTA) | ((least == CLUSTER) & apart)
        return narrow

    def _ordered_between(self, clash: Clash) -> Bools:
        """Entry by entry, whether a chain of releases and acquires leads from the rival to the actor."""
        between, packing = self.memory.between, clash.tracks.packing
        ordered = np.zeros(clash.unit.shape, np.bool_)
        for eye, at in self._eyes(clash, alike=True):
            if not (clock := between.visible(eye)):
                continue
            block, thread, epoch = (part(clash.rival[at]) for part in (packing.block, packing.thread, packing.epoch))
            for rival in np.unique(block).tolist():
                here = block == rival
                known = between.known(clock, rival, self.threads)
                ordered[at[here]] = epoch[here] <= known[thread[here]]
        return ordered

    def _observed(self, clash: Clash) -> Bools:
        """Entry by entry, whether the rival is an atomic that the actor has seen: then it is before a plain access."""
        packing, seen = clash.tracks.packing, np.zeros(clash.unit.shape, np.bool_)
        # Of an atomic before a plain access: whoever has read its value, or a later one of its chain, comes after it.
        if clash.rival_kind != ATOMIC or clash.soft or not packing.detail:
            return seen
        region = clash.tracks.region
        for eye, at in self._eyes(clash, alike=False):
            clock = self.memory.between.visible(eye)
            for i in at.tolist():
                rival = tuple(int(part(clash.rival[i:i + 1])[0])
                              for part in (packing.block, packing.thread, packing.epoch))
                place = region.start + int(clash.unit[i]) * region.unit
                seen[i] = self.flags.observed(place, eye, clock, (rival[0], rival[1], rival[2]))
        return seen

    def _eyes(self, clash: Clash, *, alike: bool) -> Iterator[tuple[Eye, Ints]]:
        """The actors, and the entries of each; ``alike``: one for those of a group that have learnt nothing alone."""
        packing, first = clash.tracks.packing, dict[tuple[int, int], int]()
        lanes, inverse = np.unique(clash.record >> packing.lane_shift, return_inverse=True)
        actor = np.arange(len(lanes))
        for number, lane in enumerate(lanes.tolist()) if alike else ():
            thread, block = lane & ((1 << packing.threads) - 1), lane >> packing.threads
            # Threads of a group that have acquired nothing alone know the same: one question serves them all.
            if thread not in self.memory.between.learnt.get(block, {}):
                actor[number] = first.setdefault((block, int(self.shared.clocks.group[thread])), number)
        actor = actor[inverse]
        for number in np.unique(actor).tolist():
            lane = int(lanes[number])
            thread, block = lane & ((1 << packing.threads) - 1), lane >> packing.threads
            yield self.flags.eye(block - self.first, thread), np.flatnonzero(actor == number)
