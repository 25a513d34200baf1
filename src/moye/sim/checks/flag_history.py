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
from moye.sim.checks.global_regions import CLUSTER, GPU

Place = Hashable
"""A byte address in global memory, or (block, buffer, byte) in shared memory."""
Writer = tuple[int, int, int]
"""Block, thread, epoch."""
Source = tuple[int, int, int]
"""Block, thread, and how it releases: by a fence of one of the scopes, or (3) by its operations themselves."""
Clock = dict[Source, "Release"]
ITSELF = 3
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
        self.versions: dict[int, int] = {}
        """The number of times that threads of a block have learnt something."""
        self.newest = False
        """Whether those that poll find the newest value, not one after the other."""
        self.late: int | None = None
        """The flags that look old for longer than others that are set before them, as ``Traffic.key``."""
        self.steps = self.events = self.lag = 0
        """Work done, strong writes, and by how many values looks have found older ones than the newest."""
        self.met: Ints | None = None
        """The last epoch of each thread (blocks, T) before all blocks met last, if they have."""
        self.met_heard: Ints = np.zeros((0, 0), np.int64)
        """The epoch of each engine of each block (E, blocks) that was known to be complete then."""
        self._numbers: dict[Source, int] = {}

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
            location = self.locations[place] = Location()
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

    def acquire(self, block: int, thread: int, epoch: int, clock: Clock) -> None:
        """A thread is ordered after what a clock says."""
        epochs, clocks = self.learnt.setdefault(block, {}).setdefault(thread, ([], []))
        before = clocks[-1] if clocks else {}
        # Later releases of a source hold all of its earlier ones, so that numbers alone tell whether there is news.
        if not any(source not in before or before[source].number < release.number
                   for source, release in reversed(clock.items())):     # news tends to be last
            self.steps += len(clock)
            return
        self.versions[block] = self.versions.get(block, 0) + 1
        self.steps += len(clock) + len(before)
        merged = dict(before)
        join(merged, clock)
        if epochs and epochs[-1] == epoch:
            clocks[-1] = merged
        else:
            epochs.append(epoch)
            clocks.append(merged)

    # --- what is known -----------------------------------------------------------------------------------------------

    def visible(self, eye: Eye) -> Clock:
        """What a thread has acquired, itself or through the barriers of its block and of its cluster; not to change."""
        here = self.learnt.get(eye.block, {})
        # Copied only where something is added: most threads know nothing but what they have acquired themselves.
        merged, own = _upto(*here[eye.thread], eye.limit(eye.thread))[1] if eye.thread in here else {}, True
        # Causality order is transitive: what another thread had acquired when the eye was ordered after it counts too.
        found = [(eye.block, thread, *_upto(*learnt, int(eye.row[thread]))) for thread, learnt in here.items()
                 if thread != eye.thread]
        for mate, far in eye.far:
            found += [(mate, thread, *_upto(*learnt, int(far[thread])))
                      for thread, learnt in self.learnt.get(mate, {}).items()]
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
        known = np.zeros(threads, np.int64)
        for source in self.sources.get(block, ()):
            if (release := clock.get(source)) is not None:
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
                np.maximum(heard[:len(release.heard)], release.heard, out=heard[:len(release.heard)])
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

    def view(self, eye: Eye, clock: Clock, location: Location, least: int = 0,
             told: Iterable[int] | None = None) -> int:
        """The newest value of a place, from ``least`` on, that somebody has seen before the eye.

        ``told`` are the blocks that matter: those about which the eye has learnt since it found ``least``.  None means
        all.
        """
        newest = least
        for block in location.readers if told is None else told:
            for thread, seen in location.readers.get(block, {}).items():
                # Coherence: reads of one place that are ordered never go back, so the newest that is ordered before
                # decides.
                for epoch, value in reversed(seen):
                    if value <= newest:
                        break
                    if self.before(eye, clock, (block, thread, epoch)):
                        newest = value
                        break
        return newest


def _upto(epochs: list[int], clocks: list[Clock], limit: int | None) -> tuple[int, Clock]:
    """The epoch of the last acquire up to a limit, and what had been acquired by then; None is no limit."""
    at = len(epochs) if limit is None else bisect_right(epochs, limit)
    return (epochs[at - 1], clocks[at - 1]) if at else (0, {})
