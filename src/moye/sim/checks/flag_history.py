"""Synchronisation through memory: the writer of each value of a flag, and what a thread that read it knows.

In: strong writes and reads of a place, thread by thread, in the order in which memory changed.  Out: ``known``: up to
which epoch each thread of a block is ordered before somebody; ``view``: which values somebody must have seen.

A place has a ``Location``: its values, each with its writer and its chain.  A chain is a release sequence (PTX ISA,
memory consistency model): a write and the read-modify-writes that follow it.  A thread that reads a
value acquires what the chain has released up to it, no more.  What a thread knows is a ``Clock``: the newest known
release of each thread that releases; a later one holds all that an earlier one did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.fences import FenceTurns
from moye.sim.checks.global_regions import CLUSTER, GPU

Place = Hashable
"""A byte address in global memory, or (block, buffer, byte) in shared memory."""
Writer = tuple[int, int, int]
"""Block, thread, epoch."""
Source = tuple[int, int, int]
"""Block, thread, and how it releases: by a fence of one of the scopes, or (3) by its operations themselves."""
Clock = dict[Source, "Release"]
ITSELF = 3
NOTHING: Clock = {}
NEVER = np.iinfo(np.int64).max
FEW = 8
"""Of so many blocks with readers all are asked what they have seen, whether or not there is news of them."""
MOST_STEPS = 20_000_000
"""Entries of clocks that are joined in one launch before it is given up."""


@dataclass(frozen=True, eq=False, slots=True)
class Release:
    """What a write publishes of its block, per thread (T,) and per engine, and what its thread had acquired."""

    source: Source
    number: int
    epochs: Ints
    heard: Ints
    clock: Clock
    others: tuple[tuple[int, Ints], ...]
    """The same epochs of other blocks of the cluster, as its barriers have told them."""
    scope: int
    nearby: tuple[tuple[int, Ints], ...] = ()
    """Those that hold for shared memory alone, as arrivals at mbarriers have told them."""

    def of(self, block: int, *, shared: bool = False) -> Iterator[Ints]:
        """The epochs of a block; ``shared``: in shared memory."""
        if block == self.source[0]:
            yield self.epochs
        for other, epochs in (*self.others, *self.nearby) if shared else self.others:
            if other == block:
                yield epochs


@dataclass(eq=False, slots=True)
class Location:
    """The values of one place in their order; number 0 is what it held before the first strong write."""

    number: int
    """How many places were written before."""
    values: list[Any] = field(default_factory=list)
    """All but the newest, which is in memory."""
    chain: list[int | None] = field(default_factory=lambda: [None])
    upto: list[int] = field(default_factory=lambda: [0])
    """The number of releases that the chain of each value had when the value was written."""
    writer: list[Writer | None] = field(default_factory=lambda: [None])
    at: list[int] = field(default_factory=lambda: [0])
    """When each value was written, in strong writes of the launch."""
    readers: dict[int, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)
    """What each thread of each block has seen: (epoch, value), the newest last."""

    @property
    def latest(self) -> int:
        return len(self.chain) - 1

    def saw(self, block: int, thread: int, epoch: int, value: int) -> None:
        """A thread has read a value."""
        seen = self.readers.setdefault(block, {}).setdefault(thread, [])
        if not seen or seen[-1][0] != epoch:
            seen.append((epoch, value))
        else:
            seen[-1] = epoch, max(value, seen[-1][1])


@dataclass(slots=True)
class _Chain:
    log: list[Release] = field(default_factory=list)
    narrow: bool = False
    joined: dict[tuple[int, int] | None, tuple[int, Clock]] = field(default_factory=dict)
    """How many of its releases have been joined, and the joined clock.  The key None is for everybody, others are a
    scope and a block."""


@dataclass(frozen=True, slots=True)
class Eye:
    """The thread of a block whose knowledge is asked for: what it knows of the others there (T,), and of its
    cluster."""

    block: int
    thread: int
    row: Ints
    far: tuple[tuple[int, Ints], ...] = ()
    """(block, epochs (T,))."""
    own: int | None = None
    """The thread's own acquires count up to this epoch; None means all of them."""

    def limit(self, thread: int) -> int | None:
        """The epoch up to which the deeds of a thread of the block count; None means all of them."""
        if thread != self.thread:
            return int(self.row[thread])
        return None if self.own is None else max(self.own, int(self.row[thread]))


def join(into: Clock, more: Clock) -> None:
    """What is known of each source is the newer of the two."""
    for source, release in more.items():
        if (old := into.get(source)) is None or old.number < release.number:
            into[source] = release


def news(before: Clock, after: Clock) -> set[int]:
    """The blocks about which the later clock of a thread says more."""
    found: set[int] = set()
    for source, release in after.items():
        if before.get(source) is not release:
            found.add(source[0])
            found.update(block for block, _ in release.others)
    return found


def eye_of(block: int, thread: int, clocks: Clocks, column: int) -> Eye:
    """What a thread knows now."""
    group = clocks.group
    far = tuple((mate, clocks.wide[group[thread], rank, group, column])
                for rank, mate in mates(block, clocks.cluster))
    return Eye(block, thread, clocks.seen[group[thread], group, column], far)


def mates(block: int, cluster: int) -> list[tuple[int, int]]:
    """(rank, block) of the other blocks of a block's cluster."""
    first = block - block % cluster
    return [(rank, first + rank) for rank in range(cluster) if first + rank != block]


class Between:
    """The order through memory of one launch."""

    def __init__(self, cluster: int = 1) -> None:
        self.cluster = cluster
        self.locations: dict[Place, Location] = {}
        self.chains: list[_Chain] = []
        self.sources: dict[int, list[Source]] = {}
        """The sources that publish something of a block, by block."""
        self.learnt: dict[int, dict[int, tuple[list[int], list[Clock]]]] = {}
        """What each thread has acquired itself, and from which epoch on, by block and thread."""
        self._first: dict[int, Ints] = {}
        """From which epoch on each thread of a block (T,) has acquired anything."""
        self.versions: dict[int, int] = {}
        """The number of times that threads of a block have learnt something."""
        self.newest = False
        """Whether those that poll find the newest value, not one after the other."""
        self.prompt = False
        """Whether they find it in their first look already."""
        self.late: int | None = None
        """The flags that look old for longer than others that are set before them, as ``Traffic.key``."""
        self.awaited = False
        """Whether threads poll at all."""
        self.late_of_one: int | None = None
        """The same of flags that lie in one tensor: every other one of them does."""
        self.steps = self.events = self.lag = self.vain = self.missed = 0
        """Work done, strong writes, by how many values looks have found older ones than the newest, how many looks
        loops that give up have taken, and how many of these have missed something."""
        self.met: Ints | None = None
        """The last epoch of each thread (blocks, T) before all blocks met last, if they have."""
        self.met_heard: Ints = np.zeros((0, 0), np.int64)
        """The epoch of each engine of each block (E, blocks) that was known to be complete then."""
        self.turns = FenceTurns()
        self._numbers: dict[Source, int] = {}
        self._asked: Clock = {}
        """The clock that ``known`` was asked about last: lanes that learn the same have the same one."""
        self._answers: dict[tuple[int, bool], Ints] = {}

    @property
    def exhausted(self) -> bool:
        """Whether there was too much synchronisation to follow: nothing is judged from here on."""
        return self.steps > MOST_STEPS

    def meet(self, epochs: Ints, heard: Ints) -> None:
        """All threads of all blocks meet: whatever comes next is ordered after these epochs (blocks, T)."""
        self.met, self.met_heard = epochs, heard
        self.events += 1

    def before_meeting(self, block: Ints | int, thread: Ints | int, epoch: Ints | int) -> Bools:
        """Whether what threads did at these epochs lies before the last meeting of all blocks."""
        if self.met is None:
            return np.zeros(np.shape(epoch), np.bool_)
        ordered: Bools = np.less_equal(epoch, self.met[block, thread])
        return ordered

    # --- writing -----------------------------------------------------------------------------------------------------

    def release(self, source: Source, epochs: Ints, heard: Ints, clock: Clock, others: tuple[tuple[int, Ints], ...],
                scope: int, nearby: tuple[tuple[int, Ints], ...] = ()) -> Release:
        """The next release of a source."""
        number = self._numbers[source] = self._numbers.get(source, 0) + 1
        for block in (source[0], *(other for other, _ in (*others, *nearby))):
            known = self.sources.setdefault(block, [])
            if source not in known:
                known.append(source)
        return Release(source, number, epochs, heard, clock, others, scope, nearby)

    def write(self, place: Place, writer: Writer, before: Any, releases: Iterable[Release], *, rmw: bool) -> Location:
        """A strong write, of what was ``before``; one that is no read-modify-write begins a chain."""
        self.steps += 1
        self.events += 1
        location = self.locations.get(place)
        if location is None:
            location = self.locations[place] = Location(len(self.locations))
        # Observation order goes on through atomic read-modify-writes alone (PTX ISA): another write begins anew.
        number = location.chain[-1] if rmw else None
        if number is None:
            number = len(self.chains)
            self.chains.append(_Chain())
        chain = self.chains[number]
        for release in releases:
            chain.log.append(release)
            # As long as all releases reach the whole GPU, one joined clock serves the readers of every block.
            chain.narrow |= release.scope < GPU
        location.values.append(before)
        location.chain.append(number)
        location.upto.append(len(chain.log))
        location.writer.append(writer)
        location.at.append(self.events)
        return location

    def cut(self, places: Iterable[Place]) -> None:
        """Weak writes: a thread that reads them learns nothing."""
        # A weak write is no part of a release pattern, so that reading it synchronizes with nobody.
        for place in places:
            self.events += 1
            self.locations.pop(place, None)

    # --- reading -----------------------------------------------------------------------------------------------------

    def gather(self, location: Location, value: int, block: int, scope: int) -> Clock:
        """What a read of a value by a block may acquire; morally strong if both scopes reach the other block."""
        self.steps += 1
        number, upto = location.chain[value], location.upto[value]
        if number is None or not upto:
            return {}
        chain = self.chains[number]
        # A release and an acquire synchronize if they are morally strong: each scope includes the other's thread.
        key = None if scope == GPU and not chain.narrow else (scope, block)
        done, clock = chain.joined.get(key, (0, {}))
        if done > upto:                                 # an older value
            done, clock = 0, {}
        self._add(clock, [release for release in chain.log[done:upto]
                          if self._reaches(min(scope, release.scope), release.source[0], block)])
        chain.joined[key] = upto, clock
        return dict(clock)

    def _add(self, clock: Clock, releases: Iterable[Release]) -> None:
        for release in releases:
            self.steps += len(release.clock) + 1
            join(clock, release.clock)
            join(clock, {release.source: release})

    def _reaches(self, scope: int, a: int, b: int) -> bool:
        return scope == GPU or a == b or (scope == CLUSTER and a // self.cluster == b // self.cluster)

    def acquire(self, block: int, threads: Iterable[tuple[int, int]], clock: Clock) -> None:
        """Threads, each at its epoch, are ordered after what a clock says."""
        here, joined = self.learnt.setdefault(block, {}), dict[int, Clock | None]()
        first = self._begun(block, clock)
        for thread, epoch in threads:
            epochs, clocks = here.setdefault(thread, ([], []))
            before = clocks[-1] if clocks else NOTHING
            # Lanes that have learnt the same so far share one clock from here on.
            if id(before) not in joined:
                joined[id(before)] = self._merged(before, clock)
            if (merged := joined[id(before)]) is None:
                continue
            self.versions[block] = self.versions.get(block, 0) + 1
            if epochs and epochs[-1] == epoch:
                clocks[-1] = merged
            else:
                first[thread] = min(first[thread], epoch)
                epochs.append(epoch)
                clocks.append(merged)

    def _begun(self, block: int, clock: Clock) -> Ints:
        if block not in self._first:
            self._first[block] = np.full(len(next(iter(clock.values())).epochs), NEVER)
        return self._first[block]

    def _merged(self, before: Clock, clock: Clock) -> Clock | None:
        """Both; None if the clock is no news."""
        self.steps += len(clock)
        # Later releases of a source hold all of its earlier ones, so that numbers alone tell whether there is news.
        if not any(source not in before or before[source].number < release.number
                   for source, release in reversed(clock.items())):     # news tends to be last
            return None
        self.steps += len(before)
        merged = dict(before)
        join(merged, clock)
        return merged

    # --- what is known -----------------------------------------------------------------------------------------------

    def visible(self, eye: Eye) -> Clock:
        """What a thread has acquired, itself or through the barriers of its block and of its cluster; not to change."""
        here = self.learnt.get(eye.block, {})
        # Copied only where something is added: most threads know nothing but what they have acquired themselves.
        merged, own = _upto(*here[eye.thread], eye.limit(eye.thread))[1] if eye.thread in here else {}, True
        # Causality order is transitive: what another thread had acquired when the eye was ordered after it counts too.
        found: list[tuple[int, int, int, Clock]] = []
        for block, row in ((eye.block, eye.row), *eye.far):
            if not (learnt := self.learnt.get(block)):
                continue
            for thread in np.flatnonzero(self._first[block] <= row).tolist():
                if (block, thread) != (eye.block, eye.thread):
                    epochs, clocks = learnt[thread]
                    found.append((block, thread, *_upto(epochs, clocks, int(row[thread]))))
        for block, thread, epoch, clock in found:
            through = merged.get((block, thread, ITSELF))
            if not clock or (through is not None and through.epochs[thread] >= epoch):
                continue                                # what it released since then holds it
            merged, own = dict(merged) if own else merged, False
            self.steps += len(clock)
            join(merged, clock)
        return merged

    def known(self, clock: Clock, block: int, threads: int, *, shared: bool = False) -> Ints:
        """(threads,): the epoch of each thread of a block up to which everything is ordered before; ``shared``: up to
        which all that is done in shared memory is."""
        asked = (block, shared)
        if self._asked is not clock:
            self._asked, self._answers = clock, {}
        if asked not in self._answers:
            self._answers[asked] = self._known(clock, block, threads, shared=shared)
        return self._answers[asked].copy()

    def _known(self, clock: Clock, block: int, threads: int, *, shared: bool) -> Ints:
        known = np.zeros(threads, np.int64)
        for source in self.sources.get(block, ()):
            if (release := clock.get(source)) is None:
                continue
            if release.source[0] == block:
                np.maximum(known, release.epochs, out=known)
            if release.others or (shared and release.nearby):
                for epochs in release.of(block, shared=shared):
                    np.maximum(known, epochs, out=known)
        return known

    def heard(self, clock: Clock, block: int, engines: int) -> Ints:
        """(engines,): the epoch of each engine of a block up to which it is known to be complete."""
        heard = np.zeros(engines, np.int64)
        if self.met is not None:
            heard[:len(self.met_heard)] = self.met_heard[:engines, block]
        for source in self.sources.get(block, ()):
            if source[0] == block and (release := clock.get(source)) is not None:
                some = min(engines, len(release.heard))
                np.maximum(heard[:some], release.heard[:some], out=heard[:some])
        return heard

    def before(self, eye: Eye, clock: Clock, event: Writer) -> bool:
        """Whether what a thread did at an epoch is ordered before the eye, whose clock it is."""
        block, thread, epoch = event
        if self.before_meeting(block, thread, epoch):
            return True
        if block == eye.block and ((limit := eye.limit(thread)) is None or epoch <= limit):
            return True
        if any(mate == block and epoch <= far[thread] for mate, far in eye.far):
            return True
        return any(epoch <= epochs[thread] for source in self.sources.get(block, ())
                   if (release := clock.get(source)) is not None for epochs in release.of(block))

    def frontier(self, eye: Eye, clock: Clock, block: int) -> Ints:
        """The same of all threads of a block (T,): the last epoch of each that is ordered before the eye."""
        last = self.known(clock, block, len(eye.row))
        if self.met is not None:
            np.maximum(last, self.met[block], out=last)
        for mate, far in eye.far:
            if mate == block:
                np.maximum(last, far, out=last)
        if block == eye.block:
            np.maximum(last, eye.row, out=last)
            last[eye.thread] = NEVER if (limit := eye.limit(eye.thread)) is None else max(limit, last[eye.thread])
        return last

    def view(self, eye: Eye, clock: Clock, location: Location) -> int:
        """The newest value of a place that somebody has seen before the eye."""
        return _Order(self, eye, clock).seen(location, 0, None)

    def oldest(self, eye: Eye, clock: Clock, location: Location, least: int, before: Clock) -> int:
        """The oldest value of a place, from ``least`` on, that the eye may still read.

        It has found ``least`` with the clock ``before``: what others have seen is no news, but for blocks about which
        it has learnt since.
        """
        told = None
        if len(location.readers) > FEW:
            told = {*news(before, clock), eye.block, *(mate for mate, _ in eye.far)}
        # Coherence: nothing older than what a read ordered before has seen, nor than a write ordered before.
        order = _Order(self, eye, clock)
        low = order.seen(location, least, told)
        return next((value for value in range(location.latest, low, -1) if (writer := location.writer[value]) is None
                     or writer[2] <= order.upto(writer[0])[writer[1]]), low)


@dataclass(slots=True)
class _Order:
    """What is ordered before an eye, whose clock it is.

    It is found once for all threads of a block: where each lane releases, every question would ask all of them.
    """

    between: Between
    eye: Eye
    clock: Clock
    _upto: dict[int, list[int]] = field(default_factory=dict)

    def upto(self, block: int) -> list[int]:
        """By thread of a block the last epoch that is ordered before."""
        if block not in self._upto:
            self._upto[block] = self.between.frontier(self.eye, self.clock, block).tolist()
        return self._upto[block]

    def seen(self, location: Location, least: int, told: Iterable[int] | None) -> int:
        """The newest value, from ``least`` on, that somebody has seen before; in all blocks, or in those ``told``."""
        newest = least
        for block in location.readers if told is None else told:
            for thread, seen in location.readers.get(block, {}).items():
                if seen[-1][1] <= newest:
                    continue
                # Reads of one place that are ordered never go back, so the newest that is ordered before decides.
                upto = self.upto(block)[thread]
                newest = max(newest, next((value for epoch, value in reversed(seen) if epoch <= upto), newest))
        return newest


def _upto(epochs: list[int], clocks: list[Clock], limit: int | None) -> tuple[int, Clock]:
    """The epoch of the last acquire up to a limit, and what had been acquired by then; None is no limit."""
    at = len(epochs) if limit is None else bisect_right(epochs, limit)
    return (epochs[at - 1], clocks[at - 1]) if at else (0, {})
