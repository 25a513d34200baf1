"""What the threads of one batch of blocks tell each other through memory: strong loads, stores, atomics and fences.

In: those operations with their addresses and masks, lane by lane in the order in which memory changes.  Out: what
``between`` keeps of them; the clocks of the batch, where threads of one block learn of each other; ``give``: an older
value for a load that polls.

A load may read any value that is not older than what its thread knows to have been written or seen (coherence).  Loads
that poll get one value after the other, so that a wait ends at the first one that satisfies it.  In a run of its own
(``traffic.older``) others get the oldest one: a thread that stores, and then loads what another one stores, may miss
that, and be missed, unless both fence by fence.sc in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.fences import Fences
from moye.sim.checks.flag_history import (
    ITSELF,
    Between,
    Clock,
    Eye,
    Location,
    Place,
    Release,
    Writer,
    eye_of,
    mates,
)
from moye.sim.checks.global_regions import CLUSTER, scope_of
from moye.sim.checks.late_stores import LateStores, twins
from moye.sim.checks.locks import Held
from moye.sim.checks.patterns import Patterns
from moye.sim.checks.signal_memory import ACQUIRES, RELEASES, Traffic
from moye.sim.checks.versions import Versions
from moye.sim.values.masks import lanes_of

_TURNS: Place = ("fence.sc",)
"""Stands for the order of all fence.sc."""
PATIENCE = 32
"""So many values before the newest are given to loads that poll."""
HASTE, ALL_HASTE = 512, 1 << 12
"""So often a loop that gives up finds an old value, or all threads together: some loops count to a million."""
LAG = 16
"""So many looks more find a value of the flag that is late."""


class Threads(Protocol):
    """The shared checker of the batch."""

    threads: int
    clocks: Clocks

    def everyone(self, active: Bools | None) -> Bools: ...
    def groups(self, who: Bools) -> Bools: ...
    def expand(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Where:
    """The memory of an access: its places by block (of the launch) and byte, and whether it matters who saw what."""

    place: Callable[[int, int], Place]
    watched: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an atomic found (T, B), where it changed memory or counts as a write, and whether the last lane was first.
    """

    old: Any
    wrote: Bools
    backwards: bool = False
    leaves: Callable[[int, int, Any], bool] = lambda _, __, ___: True
    """Whether the atomic of a thread of a block would leave a value as it is: another one is the newest."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The last look of one operation of a thread at a place."""

    epoch: int
    value: int
    again: bool = False
    """Whether the look before found the same value in another epoch.  Then this is a loop that polls; it may
    synchronise, too."""
    lag: int = 0
    """So many looks more find this value, though there is a newer one."""


class Flags:
    """The signals of one batch; blocks count from ``first`` in the launch."""

    def __init__(self, between: Between, traffic: Traffic, first: int, blocks: int, shared: Threads,
                 held: Held | None = None) -> None:
        self.between, self.traffic, self.first, self.blocks, self.shared = between, traffic, first, blocks, shared
        self.held = held
        """The locks and their holders, in a run in which locks order nothing."""
        self.fences = [Fences(shared.threads, blocks) for _ in range(3)]
        self.outcome: Outcome | None = None
        """The outcome of the atomic that is being done."""
        self.replaced: Any = 0
        """What the store that is being done replaces, (T or 1, B or 1)."""
        self.stored: Any = 0
        """What it stores."""
        self.late: LateStores | None = None
        """The last writes of all places, unless locks order nothing in this run."""
        self._awaited: dict[int, dict[tuple[int, int, Location], tuple[int, int]]] = {}
        """The relaxed reads of the threads of a block at an epoch, by block: the value and the scope."""
        self._patterns = Patterns()
        self._turns: dict[tuple[int, int, Location], dict[int, _Turn]] = {}
        """By block, thread and place, then by operation: one pass of a loop may look twice, and both get on."""
        self._last: dict[tuple[int, int, Location], int] = {}
        """The value that each thread has found at a place, by whatever operation."""
        self._looks: dict[tuple[int, int, Location], int] = {}
        """How often each thread has looked at a place in loops that give up."""
        self._floors: dict[tuple[int, int, Location], tuple[tuple[int, int, int], int, Clock]] = {}
        self._must: dict[tuple[int, int, Location], int] = {}
        """The oldest values that threads can still find, where locks and chance order nothing."""
        self._idle: dict[int, tuple[int, Ints, Bools]] = {}
        self._given: list[tuple[int, list[int], Any]] = []
        self._several = False                           # whether lanes look at several places in one load
        self.versions: Versions | None = None
        """The threads that look twice at a number, if there are any."""

    # --- accesses ----------------------------------------------------------------------------------------------------

    def access(self, op: ops.Op, where: Where, address: Ints, mask: Bools | None, *, more: bool = False) -> None:
        """A strong access to the bytes ``address`` (T or 1, B or 1); ``more``: of further lanes of the same op."""
        if not more:
            self._given = []
        if self.between.exhausted or not self.traffic.follows(op):
            return
        shape = (self.shared.threads, self.blocks)
        address, lanes = np.broadcast_to(address, shape), lanes_of(mask, *shape)
        if getattr(op, "order", None) == "seq_cst":
            self._in_turn(op, scope_of(op), lanes)      # printed with a fence.sc before it
        if isinstance(op, ops.Load):
            self._load(op, where, address, lanes)
        elif isinstance(op, ops.Store):
            self._store(op, where, address, lanes, np.broadcast_to(self.replaced, shape))
        elif isinstance(op, ops.Atomic) and self.outcome is not None:
            self._atomic(op, where, address, lanes, self.outcome)

    def give(self, values: Any) -> tuple[Any, bool]:
        """The values of the last load or atomic, with older ones where threads poll; and whether there are any."""
        if not self._given:
            return values, False
        full = np.broadcast_to(values, (self.shared.threads, self.blocks)).copy()
        for block, threads, value in self._given:
            full[threads, block] = value
        self._given = []
        return full, True

    def found(self, op: ops.Load, values: Any, newest: Any) -> None:
        """What the last load has found, older values included."""
        if self.versions is not None:
            self.versions.loaded(op, values, newest)

    def _load(self, op: ops.Load, where: Where, address: Ints, lanes: Bools) -> None:
        before = self._idle.get(id(op))
        if before is not None and before[0] == self.between.events and np.array_equal(before[1], address) and \
                np.array_equal(before[2], lanes):
            return
        met = list(self._meet(where, address, lanes))
        self._several = len({place for _, place, _ in met}) > 1
        for block, place, threads in met:
            if self.held is not None and self.held.busy:
                self.held.awaits(op, place, self.first + block, threads)
            if (location := self.between.locations.get(place)) is not None:
                self._look(op, where, location, block, threads)
        if self._given:
            self._idle.pop(id(op), None)
        else:
            self._idle[id(op)] = self.between.events, address.copy(), lanes.copy()

    def _look(self, op: ops.Load | ops.Atomic, where: Where, location: Location, block: int, threads: list[int],
              fits: Callable[[Any], bool] | None = None) -> None:
        """Threads of a warp read one place; older values, if they ``fit``."""
        value = self._choose(op, location, block, threads, fits)
        if value < location.latest:
            self.between.lag += location.latest - value
            self._given.append((block, threads, location.values[value]))
        if self.versions is not None and id(op) in self.versions.roles:
            for thread in threads:
                self.versions.look(op, location, value, self._floor(location, block, thread, 0), block, thread)
        self._observe(op, where, location, value, block, threads)

    def _meet(self, where: Where, address: Ints, lanes: Bools) -> Iterator[tuple[int, Place, list[int]]]:
        """Block by block, and warp by warp, the lanes that reach one place: what one warp knows does not help others
        that look at the same time."""
        block, thread = np.nonzero(lanes.T)
        if not block.size:
            return
        byte = address[thread, block]
        order = np.lexsort((thread, byte, block))
        block, thread, byte = block[order], thread[order], byte[order]
        parts = (np.diff(part, prepend=-1) for part in (block, byte, thread // WARP))
        cuts = np.flatnonzero(np.bitwise_or.reduce(list(parts)))
        for start, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(block)], strict=True):
            yield (int(block[start]), where.place(self.first + int(block[start]), int(byte[start])),
                   thread[start:end].tolist())

    def _store(self, op: ops.Store, where: Where, address: Ints, lanes: Bools, before: Any) -> None:
        """The last lane that reaches a place has the last word."""
        reached: dict[Place, list[tuple[int, int]]] = {}
        for thread, block in np.argwhere(lanes).tolist():
            reached.setdefault(where.place(self.first + block, int(address[thread, block])), []).append((thread, block))
        values = np.broadcast_to(np.asarray(self.stored), lanes.shape)
        for place, those in reached.items():
            thread, block = those[-1]
            value = values[thread, block].item()
            same = [(self.first + b, t, self._epoch(b, t)) for t, b in those if values[t, b] == value]
            self._write(op, place, block, thread, before[thread, block], rmw=False, value=value, same=same)

    def _atomic(self, op: ops.Atomic, where: Where, address: Ints, lanes: Bools, outcome: Outcome) -> None:
        """Lane by lane: a read of the newest value, and a write that goes on with its chain."""
        looks = self.traffic.looks(op)
        # A loop that polls, and finds what it found before, changes nothing: most turns of a wait end here.
        if looks and not (outcome.wrote & lanes).any() and self._quiet(op, address, lanes):
            return
        reached: list[list[int]] = np.argwhere(lanes.T).tolist()
        for block, thread in reversed(reached) if outcome.backwards else reached:
            place = where.place(self.first + block, int(address[thread, block]))
            location = self.between.locations.get(place)
            if self.held is not None and self.held.busy:
                self.held.awaits(op, place, self.first + block, [thread])
            if looks and location is not None:
                # A read-modify-write reads the newest value in coherence order; one that fails to write may read an
                # older one.
                if outcome.wrote[thread, block]:
                    self._observe(op, where, location, location.latest, block, [thread])
                else:
                    self._look(op, where, location, block, [thread], partial(outcome.leaves, thread, block))
            if outcome.wrote[thread, block]:
                self._write(op, place, block, thread, outcome.old[thread, block], rmw=True)
        if not self._given:
            self._idle[id(op)] = self.between.events, address.copy(), lanes.copy()

    def _quiet(self, op: ops.Atomic, address: Ints, lanes: Bools) -> bool:
        """Whether these lanes found the same the last time, and nothing was released since."""
        before = self._idle.pop(id(op), None)
        if before is None or before[0] != self.between.events or not np.array_equal(before[1], address) or \
                not np.array_equal(before[2], lanes):
            return False
        self._idle[id(op)] = before
        return True

    def done(self, op: ops.Op, mask: Bools | None) -> None:
        """A strong access is over: what follows in these threads is not part of what they have released."""
        if (getattr(op, "order", None) in RELEASES and self.traffic.follows(op)) or (
                self.held is not None and id(op) in self.held.locks.lets_go):
            clocks = self.shared.clocks
            clocks.now = clocks.now + clocks.groups_of(self.shared.everyone(mask))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, op: ops.Store | ops.Atomic, place: Place, block: int, thread: int, before: Any, *, rmw: bool,
               value: Any = None, same: Sequence[Writer] = ()) -> None:
        writer: Writer = self.first + block, thread, self._epoch(block, thread)
        releases = self._patterns.writes(op, place, block, thread, self._releases(op, block, thread))
        if self.held is not None:
            releases = self._locked(self.held, op, place, writer, before, releases)
        location = self.between.write(place, writer, before, releases, rmw=rmw)
        if self.late is not None:
            self.late.written(op, location, writer, value, lambda: self._knows(block, thread), twins(same, writer))
            if self.traffic.key(op.ref.buffer) in self.traffic.reset:
                self.late.reset(op, location, writer, value, lambda: self._knows(block, thread))
        self._turns.pop((block, thread, location), None)
        self._last[block, thread, location] = location.latest
        if self.held is not None:
            self._must[block, thread, location] = location.latest

    def _knows(self, block: int, thread: int) -> tuple[Eye, Clock]:
        eye = self.eye(block, thread)
        return eye, self.between.visible(eye)

    def _locked(self, held: Held, op: ops.Op, place: Place, writer: Writer, before: Any,
                releases: list[Release]) -> list[Release]:
        """What the write of a lock publishes in every order."""
        if id(op) not in held.locks.lets_go and not held.busy:
            return releases
        if self.shared.clocks.columns == 1 and self.blocks > 1:
            self.shared.expand()
        eye = self.eye(writer[0] - self.first, writer[1])
        if id(op) not in held.locks.lets_go:
            held.counted(place, writer, eye)
            return releases
        assert isinstance(op, (ops.Store, ops.Atomic)), "an operation on a lock"
        free = before == held.locks.free[self.traffic.key(op.ref.buffer)]
        if held.locks.lets_go[id(op)]:
            return held.let_go(op, place, writer, eye, releases, idle=bool(free))
        if free:
            held.take(op, place, writer, eye)
        return []

    def _releases(self, op: ops.Op, block: int, thread: int) -> list[Release]:
        """The releases of a strong write: everything before it if it is a release itself, else what lies before a
        fence."""
        eye, scope = self.eye(block, thread), scope_of(op)
        if getattr(op, "order", None) in RELEASES:
            # A release is cumulative: it publishes what its thread knows of others, with all that it did itself.
            epochs = eye.row.copy()
            epochs[thread] = self._epoch(block, thread)
            return [self._published(eye, epochs, scope, ITSELF)]
        found: list[Release] = []
        # Release pattern: a fence, then a strong write.  A wider fence may be older, and so tell less to more readers:
        # each level that adds something is a release.
        for level in range(scope, -1, -1):
            if not self.fences[level].any:
                continue
            epochs = self.fences[level].published(thread, block, eye.row)
            if epochs.any() and not any((release.epochs >= epochs).all() for release in found):
                own = int(self.fences[level].own[thread, block])
                before = eye if not own else Eye(eye.block, thread, self.fences[level].covered(thread, block), eye.far,
                                                 own)
                found.append(self._published(before, epochs, level, level))
        return found

    def _published(self, eye: Eye, epochs: Ints, scope: int, how: int) -> Release:
        clocks, column = self.shared.clocks, self._column(eye.block - self.first)
        heard = clocks.heard[clocks.group[eye.thread], :, column].copy()
        if (stores := clocks.stores[eye.thread]) >= 0:
            heard[stores] = max(heard[stores], clocks.waited[eye.thread, column])
        others = tuple((mate, far) for mate, far in eye.far if far.any())
        return self.between.release((eye.block, eye.thread, how), epochs, heard, self.between.visible(eye), others,
                                    scope, tuple(self._nearby(eye, column)))

    def _nearby(self, eye: Eye, column: int) -> Iterator[tuple[int, Ints]]:
        """What a thread knows of the shared memory of other blocks, where that is more than it knows of the rest."""
        clocks = self.shared.clocks
        for (rank, mate), (_, wide) in zip(mates(eye.block, clocks.cluster), eye.far, strict=True):
            far = clocks.far[clocks.group[eye.thread], rank, clocks.group, column]
            if (far > wide).any():
                yield mate, far

    def cut(self, where: Where, address: Ints, mask: Bools | None, size: int) -> None:
        """Weak writes of ``size`` bytes at each address (V, T or 1, B or 1)."""
        if not self.between.locations:
            return
        shape = (len(address), self.shared.threads, self.blocks)
        inside = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        _, thread, block = np.nonzero(inside)
        byte = np.broadcast_to(address, shape)[inside]
        del thread
        places = {where.place(self.first + b, int(a)) for b, a in zip(block.tolist(), byte.tolist(), strict=True)}
        self.between.cut([place for place in self.between.locations if any(
            _moved(place, -step) in places for step in range(size))])

    # --- reading -----------------------------------------------------------------------------------------------------

    def _observe(self, op: ops.Op, where: Where, location: Location, value: int, block: int,
                 threads: list[int]) -> None:
        """Threads of a block have read a value."""
        if self.held is None:
            self._know(op, where, location, value, block, threads)
            return
        for thread in threads:                          # what a look must find, in whatever order
            known = self._must.get((block, thread, location), 0)
            sure = self._floor(location, block, thread, known) if id(op) in self.held.locks.chance else value
            self._must[block, thread, location] = max(sure, known)
            self._know(op, where, location, sure, block, [thread])

    def _know(self, op: ops.Op, where: Where, location: Location, value: int, block: int, threads: list[int]) -> None:
        """Threads of a block know that a value has been written, and from now on what was released up to it."""
        scope = scope_of(op)
        # Who finds a value and does nothing about it may as well have come before it was there.
        for t in threads if where.watched and not self.traffic.heedless(op) else ():
            location.saw(self.first + block, t, self._epoch(block, t), value)
        # An acquire orders at once; a relaxed read does so from the next fence of its thread on, or from its next
        # acquire of this place on (acquire patterns).
        if getattr(op, "order", None) in ACQUIRES:
            self._acquire(location, value, scope, block, threads)
            for t in threads:
                for old, reach in self._patterns.relaxed(location, value, block, t):
                    self._acquire(location, old, min(scope, reach), block, [t])
        elif self.traffic.ordered:
            here = self._awaited.setdefault(block, {})
            for t in threads:
                here[t, self._epoch(block, t), location] = value, scope
                self._patterns.finds(location, value, scope, block, t)

    def _acquire(self, location: Location, value: int, scope: int, block: int, members: list[int]) -> None:
        clock = self.between.gather(location, value, self.first + block, scope)
        if clock:
            threads = [(t, self._epoch(block, t)) for t in members]
            self.between.acquire(self.first + block, threads, clock)
            self.between.turns.told(self.first + block, (source[0] for source in clock))
            if self.held is not None:
                for thread, epoch in threads:
                    self.held.learnt(self.first + block, thread, epoch, clock)
            self._learn(block, members, clock)

    def fence(self, op: ops.Fence, mask: Bools | None) -> None:
        """The lanes of the mask execute a fence."""
        clocks, who, scope = self.shared.clocks, self.shared.everyone(mask), scope_of(op)
        # A fence is one of every narrower scope, too.
        for level in range(scope + 1):
            self.fences[level].fence(who, clocks)
        clocks.now = clocks.now + clocks.groups_of(who)
        lanes = np.broadcast_to(who, (self.shared.threads, self.blocks))
        for block in [block for block in self._awaited if lanes[:, block].any()]:
            for group in np.unique(clocks.group[lanes[:, block]]).tolist():
                self._after(scope, block, np.flatnonzero(lanes[:, block] & (clocks.group == group)).tolist())
        if self.versions is not None:
            self.versions.fence(lanes)
        if op.order == "seq_cst":
            self._in_turn(op, scope, lanes)

    def _in_turn(self, op: ops.Op, scope: int, lanes: Bools) -> None:
        """Fences by fence.sc have one order, and synchronize in it (PTX ISA, Fence-SC order).

        The order is that of this run: what lies before an earlier one is not missed after a later one.
        """
        if not self.traffic.older:
            self._bound(lanes)
            return
        for block, thread in np.argwhere(lanes.T).tolist():
            location = self.between.locations.get(_TURNS)
            if location is not None:
                self._acquire(location, location.latest, scope, block, [thread])
            eye = self.eye(block, thread)
            epochs = eye.row.copy()
            epochs[thread] = self._epoch(block, thread)
            release = self._published(eye, epochs, scope, ITSELF)
            self.between.write(_TURNS, (self.first + block, thread, self._epoch(block, thread)), 0, [release], rmw=True)
        self.shared.clocks.now = self.shared.clocks.now + self.shared.clocks.groups_of(self.shared.everyone(lanes))

    def _bound(self, lanes: Bools) -> None:
        """Threads that fence by fence.sc find nothing older than what was known at earlier ones."""
        if not self.traffic.polled:
            return
        for block in np.flatnonzero(lanes.any(axis=0)).tolist():
            members = np.flatnonzero(lanes[:, block])
            _, first = np.unique(self.shared.clocks.group[members], return_index=True)
            own = dict[Location, int]()
            for (b, t, location), value in self._last.items():
                if b == block and lanes[t, block]:
                    own[location] = max(own.get(location, 0), value)
            eyes = [(eye, self.between.visible(eye)) for eye in (self.eye(block, t) for t in members[first].tolist())]
            self.between.turns.fence(self.first + block, [
                (location, max(self.between.oldest(eye, clock, location, own.get(location, 0), {})
                               for eye, clock in eyes)) for location in self.between.locations.values()])

    def _after(self, scope: int, block: int, members: list[int]) -> None:
        """Threads of a group have fenced: what they, or others before a barrier, have read is acquired."""
        clocks, mine = self.shared.clocks, frozenset(members)
        row = clocks.seen[clocks.group[members[0]], clocks.group, self._column(block)].copy()
        for (thread, epoch, location), (value, reach) in list(self._awaited[block].items()):
            # A read that a barrier has ordered before the fence is acquired by it, too, for the whole group.
            if epoch <= row[thread]:
                self._acquire(location, value, min(scope, reach), block, members)
            elif thread in mine:
                self._acquire(location, value, min(scope, reach), block, [thread])

    # --- the clocks of the block -------------------------------------------------------------------------------------

    def _learn(self, block: int, members: list[int], clock: Clock) -> None:
        """Threads have acquired a clock: what they learn of their own block, and of the shared memory of their cluster,
        goes to its clocks."""
        between, clocks, threads = self.between, self.shared.clocks, self.shared.threads
        number, engines = self.first + block, clocks.heard.shape[1]
        self._of_own_block(block, members, between.known(clock, number, threads, shared=True),
                           between.heard(clock, number, engines))
        for rank, mate in mates(number, clocks.cluster):
            self._of_a_mate(block, members, rank, between.known(clock, mate, threads, shared=True),
                            between.heard(clock, mate, engines))

    def _of_own_block(self, block: int, members: list[int], known: Ints, heard: Ints) -> None:
        """Threads know their block's up to these epochs (T,), and its engines."""
        clocks, column = self.shared.clocks, self._column(block)
        mine, several = np.unique(clocks.group[members], return_counts=True)
        more: Bools = known > clocks.seen[mine[:, None], clocks.group, column]          # (mine, T)
        # A thread is always ordered after itself.
        alone = [t for t in members if several[np.searchsorted(mine, clocks.group[t])] == 1]
        more[np.searchsorted(mine, clocks.group[alone]), alone] = False
        new: Bools = np.logical_or.reduce(np.hstack((more, heard > clocks.heard[mine, :, column])), axis=1)
        if not new.any():
            return
        members = [t for t in members if new[np.searchsorted(mine, clocks.group[t])]]
        column = self._apart(block, members, known, np.logical_or.reduce(more))
        mine = np.unique(clocks.group[members])
        told = np.broadcast_to(self._told(known), (len(mine), clocks.groups)).copy()
        if len(members) == 1:                           # of others in its group, if that could not be split
            told[0, mine[0]] = self._told(known, np.arange(len(known)) != members[0])[mine[0]]
        clocks.seen[mine, :, column] = np.maximum(clocks.seen[mine, :, column], told)
        clocks.heard[mine, :, column] = np.maximum(clocks.heard[mine, :, column], heard)

    def _of_a_mate(self, block: int, members: list[int], rank: int, known: Ints, heard: Ints) -> None:
        """The same of the block of a rank of the cluster."""
        clocks, column = self.shared.clocks, self._column(block)
        mine = np.unique(clocks.group[members])
        more: Bools = known > clocks.far[mine[:, None], rank, clocks.group, column]     # (mine, T)
        new: Bools = np.logical_or.reduce(np.hstack((more, heard > clocks.far_heard[mine, rank, :, column])), axis=1)
        if not new.any():
            return
        members = [t for t in members if new[np.searchsorted(mine, clocks.group[t])]]
        column, told = self._apart(block, members, known, np.logical_or.reduce(more)), self._told(known)
        mine = np.unique(clocks.group[members])
        clocks.far[mine, rank, :, column] = np.maximum(clocks.far[mine, rank, :, column], told)
        clocks.far_heard[mine, rank, :, column] = np.maximum(clocks.far_heard[mine, rank, :, column], heard)

    def _apart(self, block: int, members: list[int], known: Ints, more: Bools) -> int:
        """Split groups so that each is wholly among these threads or not, and of one epoch where there is ``more``; the
        block's column."""
        if self.shared.clocks.columns == 1 and self.blocks > 1:
            self.shared.expand()
        column = self._column(block)
        self._split(column, np.isin(np.arange(self.shared.threads), members))
        for epoch in np.unique(known[more]).tolist():
            self._split(column, more & (known == epoch))
        return column

    def _told(self, known: Ints, others: Bools | None = None) -> Ints:
        """Up to which epoch all of a group's threads, as far as they are ``others``, are known: (G,)."""
        clocks, most = self.shared.clocks, np.iinfo(np.int64).max
        told = np.full(clocks.groups, 0 if clocks.coarse else most)     # groups that could not be split: too much
        (np.maximum if clocks.coarse else np.minimum).at(told, clocks.group if others is None else clocks.group[others],
                                                         known if others is None else known[others])
        told[told == most] = 0
        return told

    def _split(self, column: int, threads: Bools) -> None:
        if self.shared.clocks.groups == self.shared.threads:
            return                                      # each thread is a group
        mask = np.zeros((self.shared.threads, self.shared.clocks.columns), np.bool_)
        mask[threads, column] = True
        self.shared.groups(mask)

    def eye(self, block: int, thread: int) -> Eye:
        """What a thread of a block of the batch knows now."""
        return eye_of(self.first + block, thread, self.shared.clocks, self._column(block))

    def _column(self, block: int) -> int:
        return block if self.shared.clocks.columns > 1 else 0

    def _epoch(self, block: int, thread: int) -> int:
        clocks = self.shared.clocks
        return int(clocks.now[clocks.group[thread], self._column(block)])

    # --- older values ------------------------------------------------------------------------------------------------

    def _choose(self, op: ops.Load | ops.Atomic, location: Location, block: int, threads: list[int],
                fits: Callable[[Any], bool] | None) -> int:
        """The value that threads of a warp read: the next one that they may see if they poll, else the newest."""
        latest = location.latest
        polls = id(op) in self.traffic.polled
        # An atomic that an older value satisfied would have to write, and find the newest.
        prompt = self.between.prompt and not self.traffic.older
        late = self._looks_late(op, location)
        # The first look of a loop may stand before it; others are late where threads give way.
        old = polls or (isinstance(op, ops.Load) and ((late and self._several) or self.traffic.older))
        if self.held is not None or prompt or not old:
            value = latest
        elif self.traffic.older and id(op) in self.traffic.hasty:
            self.between.vain += len(threads)
            value = max(self._in_vain(location, block, thread) for thread in threads)
            self.between.missed += value < latest
        else:
            turn = self._first if not polls else self._late if self.between.newest else self._after_last
            value = 0
            for thread in threads:
                value = max(value, turn(op, location, block, thread))
                if value == latest:                     # no other lane may find a newer one
                    break
            while value < latest and fits is not None and not fits(location.values[value]):
                value += 1
        lag = LAG if late else 0
        for thread in threads:
            turns, epoch = self._turns.setdefault((block, thread, location), {}), self._epoch(block, thread)
            before = turns.get(id(op))
            if polls and self.late is not None and before is not None and before.value < value:
                self.late.awaited(op, location, value, self.first + block, thread)
            same = before is not None and before.value == value
            again = before is not None and same and before.epoch != epoch
            turns[id(op)] = _Turn(epoch, value, again, max(0, before.lag - 1) if before is not None and same else lag)
            self._last[block, thread, location] = value
        return value

    def _looks_late(self, op: ops.Load | ops.Atomic, location: Location) -> bool:
        """Whether a new value of a flag is found later than those of other flags."""
        key, between = self.traffic.key(op.ref.buffer), self.between
        return key == between.late or (key == between.late_of_one and location.number % 2 == 1)

    def _turn(self, op: ops.Op, location: Location, block: int, thread: int) -> _Turn | None:
        """The last look of a thread by this operation, since it wrote there itself."""
        return self._turns.get((block, thread, location), {}).get(id(op))

    def _first(self, op: ops.Op, location: Location, block: int, thread: int) -> int:
        """A first look finds the oldest value, and the same one again the newest: whoever looks again gets on."""
        if self._turn(op, location, block, thread) is not None:
            return location.latest
        return self._least(location, block, thread, self._last.get((block, thread, location), 0))

    def _in_vain(self, location: Location, block: int, thread: int) -> int:
        """A loop that gives up finds the oldest value for so long that it may do so."""
        key = block, thread, location
        self._looks[key] = self._looks.get(key, 0) + 1
        return self._least(location, block, thread, self._last.get(key, 0)) \
            if self._looks[key] <= HASTE or self.between.vain <= ALL_HASTE else location.latest

    def _late(self, op: ops.Op, location: Location, block: int, thread: int) -> int:
        """A first look is too early for anything new, and every other one finds the newest value."""
        last, latest = self._last.get((block, thread, location), 0), location.latest
        if last == latest or self._turn(op, location, block, thread) is not None:
            return latest
        return max(self._least(location, block, thread, last), latest - PATIENCE)

    def _after_last(self, op: ops.Op, location: Location, block: int, thread: int) -> int:
        last, latest = self._last.get((block, thread, location), 0), location.latest
        if last == latest:
            return latest
        floor = self._least(location, block, thread, last)
        turn = self._turn(op, location, block, thread)
        if turn is not None and turn.value >= floor and (
                turn.again or turn.epoch == self._epoch(block, thread)):
            if turn.lag:                                # other flags get on meanwhile, and this look learns nothing
                return turn.value
            return min(turn.value + 1, latest)
        return max(floor, latest - PATIENCE)

    def _least(self, location: Location, block: int, thread: int, seen: int) -> int:
        """The oldest value that a thread may still read in a run in which fences come in this order."""
        return max(self._floor(location, block, thread, seen),
                   self.between.turns.oldest(self.first + block, location))

    def _floor(self, location: Location, block: int, thread: int, seen: int) -> int:
        """The oldest value that a thread may still read."""
        between, key = self.between, (block, thread, location)
        eye = self.eye(block, thread)
        token = self._epoch(block, thread), between.versions.get(eye.block, 0), hash(eye.row.tobytes())
        last, floor, known = self._floors.get(key, (None, 0, {}))
        if last == token:
            return max(seen, floor)
        clock = between.visible(eye)
        floor = between.oldest(eye, clock, location, max(seen, floor, location.latest - PATIENCE), known)
        self._floors[key] = token, floor, clock
        return floor

    # --- questions ---------------------------------------------------------------------------------------------------

    def observed(self, place: Place, eye: Eye, clock: Clock, rival: Writer) -> bool:
        """Whether a thread has seen an atomic write itself, through those that came after it (observation order)."""
        location = self.between.locations.get(place)
        if location is None:
            return False
        value = self.between.view(eye, clock, location)
        chain = location.chain[value]
        # Back through the chain: each read-modify-write has observed the write before it.
        while value > 0 and chain is not None and location.chain[value] == chain:
            if location.writer[value] == rival:
                return True
            value -= 1
        return False

    # --- mbarriers of other blocks -----------------------------------------------------------------------------------

    def arrived(self, barrier: tuple[int, int], to: Ints) -> None:
        """Threads arrive at a barrier of the blocks of their cluster that have the ranks ``to`` (T, B), -1 for none.

        That is about shared memory: global memory needs a fence before it, and one after the wait.
        """
        if not self.fences[CLUSTER].any:
            return
        for thread, block in np.argwhere(to >= 0).tolist():
            writer: Writer = self.first + block, thread, self._epoch(block, thread)
            owner = writer[0] // self.between.cluster * self.between.cluster + int(to[thread, block])
            self.between.write((owner, *barrier), writer, 0, self._fenced(block, thread), rmw=True)

    def _fenced(self, block: int, thread: int) -> list[Release]:
        eye, fences = self.eye(block, thread), self.fences[CLUSTER]
        epochs = fences.published(thread, block, eye.row)
        return [self._published(eye, epochs, CLUSTER, CLUSTER)] if epochs.any() else []

    def waited(self, barrier: tuple[int, int], lanes: Bools) -> None:
        """Threads have waited for a barrier of their block."""
        for block in np.flatnonzero(lanes.any(axis=0)).tolist() if self.between.locations else ():
            location = self.between.locations.get((self.first + block, *barrier))
            if location is None:
                continue
            here = self._awaited.setdefault(block, {})
            for thread in np.flatnonzero(lanes[:, block]).tolist():
                here[thread, self._epoch(block, thread), location] = location.latest, CLUSTER


def _moved(place: Place, step: int) -> Place:
    """The place some bytes further on."""
    if isinstance(place, int):
        return place + step
    assert isinstance(place, tuple), "a place of shared memory"
    return (*place[:-1], place[-1] + step)
