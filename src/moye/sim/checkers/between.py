"""What synchronises through memory: who wrote each value of a flag, and what a thread that read it knows.

In: strong writes and reads of a place, thread by thread, in the order in which memory changed.  Out: ``known``: up to
which epoch each thread of a block is ordered before somebody; ``view``: which values somebody must have seen.

A place has a ``Location``: its values, each with its writer and its chain.  A chain is a release sequence (PTX ISA,
memory consistency model): a write and the read-modify-writes that follow it.  Who reads a value acquires what the
chain has released up to it, no more.  A release carries what its thread had acquired as links into other chains, so
what a block knows is found by following them, and only when it is asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.sim.checkers.clocks import Clocks, Ints
from moye.sim.checkers.regions import CLUSTER, CTA, GPU

Place = Hashable
"""A byte address in global memory, or (block, buffer, byte) in shared memory."""
Links = dict[int, int]
"""Chain -> how many releases of it are known."""
Writer = tuple[int, int, int]
"""Block, thread, epoch."""
MOST_STEPS = 3_000_000
"""Reads, writes and links followed in one launch before it is given up."""


@dataclass(eq=False, slots=True)
class Location:
    """The values of one place in their order; number 0 is what it held before the first strong write."""

    values: list[Any] = field(default_factory=list)
    """All but the newest, which is in memory."""
    chain: list[int | None] = field(default_factory=lambda: [None])
    upto: list[int] = field(default_factory=lambda: [0])
    """How many releases the chain of each value had then."""
    writer: list[Writer | None] = field(default_factory=lambda: [None])

    @property
    def latest(self) -> int:
        return len(self.chain) - 1


Views = dict[Location, int]
"""The newest value that somebody has seen, or knows that somebody has."""


@dataclass(frozen=True, slots=True)
class Release:
    """What a write publishes of one block."""

    block: int
    epochs: Ints
    """Per thread of the block the latest epoch that is published, per engine of it the latest one heard of ..."""
    heard: Ints
    links: Links
    views: Views
    scope: int


@dataclass(slots=True)
class _Chain:
    log: list[Release] = field(default_factory=list)
    by_block: dict[int, list[int]] = field(default_factory=dict)
    narrow: bool = False

    def add(self, release: Release) -> None:
        self.by_block.setdefault(release.block, []).append(len(self.log))
        self.log.append(release)
        self.narrow |= release.scope < GPU


@dataclass(slots=True)
class Acquire:
    """A thread, and perhaps ``mates`` of it, that acquired at an epoch."""

    thread: int
    epoch: int
    chain: int
    upto: int
    mates: frozenset[int]


@dataclass(frozen=True, slots=True)
class Eye:
    """Whose knowledge is asked for: a thread of a block, what it knows of the others there (T,), and of its cluster."""

    block: int
    thread: int
    row: Ints
    far: tuple[tuple[int, Ints], ...] = ()
    """(block, epochs (T,))."""
    own: int | None = None
    """The epoch of the thread up to which its own acquires count, None for all."""


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
        self.acquires: dict[int, dict[tuple[int, int, int], Acquire]] = {}
        self.seen: dict[int, dict[tuple[int, int, Location], int]] = {}
        """Per block what its threads saw: (thread, epoch, location) -> value."""
        self.steps = self.events = 0
        self._reached: dict[tuple[tuple[int, int], ...], Links] = {}
        self._known: dict[tuple[tuple[tuple[int, int], ...], int], Ints] = {}
        self._filtered: dict[tuple[int, int, int, int], int] = {}

    @property
    def exhausted(self) -> bool:
        """Whether there was too much synchronisation to follow: nothing is judged from here on."""
        return self.steps > MOST_STEPS

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, place: Place, writer: Writer, before: Any, releases: Iterable[Release], *, rmw: bool) -> Location:
        """A strong write, of what was ``before``; one that is no read-modify-write begins a chain."""
        self.steps += 1
        self.events += 1
        location = self.locations.get(place)
        if location is None:
            location = self.locations[place] = Location()
        chain = location.chain[-1] if rmw else None
        if chain is None:
            chain = self._new()
        for release in releases:
            self.chains[chain].add(release)
        location.values.append(before)
        location.chain.append(chain)
        location.upto.append(len(self.chains[chain].log))
        location.writer.append(writer)
        return location

    def _new(self) -> int:
        self.chains.append(_Chain())
        return len(self.chains) - 1

    def cut(self, places: Iterable[Place]) -> None:
        """Weak writes: whoever reads them learns nothing."""
        for place in places:
            self.events += 1
            self.locations.pop(place, None)

    # --- reading -----------------------------------------------------------------------------------------------------

    def link(self, location: Location, value: int, block: int, scope: int) -> tuple[int, int] | None:
        """What a read of a value by a block may acquire; morally strong if both scopes reach the other block."""
        self.steps += 1
        chain, upto = location.chain[value], location.upto[value]
        if chain is None or not upto:
            return None
        if scope == GPU and not self.chains[chain].narrow:
            return chain, upto
        key = (chain, upto, block if scope == CTA or self.chains[chain].narrow else block // self.cluster, scope)
        if key not in self._filtered:
            self._filtered[key] = new = self._new()
            for release in self.chains[chain].log[:upto]:
                if self._reaches(min(scope, release.scope), release.block, block):
                    self.chains[new].add(release)
        found = self._filtered[key]
        return (found, len(self.chains[found].log)) if self.chains[found].log else None

    def _reaches(self, scope: int, a: int, b: int) -> bool:
        return scope == GPU or a == b or (scope == CLUSTER and a // self.cluster == b // self.cluster)

    def acquire(self, block: int, thread: int, epoch: int, link: tuple[int, int],
                mates: frozenset[int] = frozenset()) -> None:
        """A thread, and ``mates`` of it, are ordered after what the link leads to."""
        here, (chain, upto) = self.acquires.setdefault(block, {}), link
        before = here.get((thread, epoch, chain))
        if before is None:
            here[thread, epoch, chain] = Acquire(thread, epoch, chain, upto, mates)
        else:
            before.upto, before.mates = max(before.upto, upto), before.mates | mates

    def saw(self, block: int, thread: int, epoch: int, location: Location, value: int) -> None:
        """A thread has read a value."""
        here, key = self.seen.setdefault(block, {}), (thread, epoch, location)
        here[key] = max(here.get(key, 0), value)

    # --- what is known -----------------------------------------------------------------------------------------------

    def visible(self, eye: Eye) -> Links:
        """What a thread has acquired, itself or through the barriers of its block and of its cluster."""
        links: Links = {}
        for a in self.acquires.get(eye.block, {}).values():
            own = a.thread == eye.thread or eye.thread in a.mates
            if (own and (eye.own is None or a.epoch <= eye.own)) or a.epoch <= eye.row[a.thread]:
                links[a.chain] = max(a.upto, links.get(a.chain, 0))
        for mate, far in eye.far:
            for a in self.acquires.get(mate, {}).values():
                if a.epoch <= far[a.thread]:
                    links[a.chain] = max(a.upto, links.get(a.chain, 0))
        return links

    def views(self, eye: Eye) -> Views:
        """The values that a thread has seen, itself or through barriers."""
        found: Views = {}
        for (thread, epoch, location), value in self.seen.get(eye.block, {}).items():
            own = thread == eye.thread and (eye.own is None or epoch <= eye.own)
            if own or epoch <= eye.row[thread]:
                found[location] = max(value, found.get(location, 0))
        for mate, far in eye.far:
            for (thread, epoch, location), value in self.seen.get(mate, {}).items():
                if epoch <= far[thread]:
                    found[location] = max(value, found.get(location, 0))
        return found

    def view(self, eye: Eye, links: Links, location: Location) -> int:
        """The newest value of a place that a thread knows to have been seen."""
        newest = self.views(eye).get(location, 0)
        for chain, upto in self._reach(links).items():
            for release in self.chains[chain].log[:upto]:
                newest = max(newest, release.views.get(location, 0))
        return newest

    def _reach(self, links: Links) -> Links:
        """The links and whatever they lead to."""
        key = tuple(sorted(links.items()))
        if key in self._reached:
            return self._reached[key]
        reached: Links = {}
        todo = list(links.items())
        while todo and not self.exhausted:
            chain, upto = todo.pop()
            before = reached.get(chain, 0)
            if upto <= before:
                continue
            reached[chain] = upto
            for release in self.chains[chain].log[before:upto]:
                self.steps += 1
                todo.extend((c, n) for c, n in release.links.items() if n > reached.get(c, 0))
        if len(self._reached) > 64:
            self._reached.clear()
        self._reached[key] = reached
        return reached

    def known(self, links: Links, rival: int, threads: int) -> Ints:
        """(threads,): the epoch of each thread of a block up to which everything is ordered before."""
        key = (tuple(sorted(links.items())), rival)
        if (found := self._known.get(key)) is not None:
            return found
        known = np.zeros(threads, np.int64)
        for release in self._of(links, rival):
            np.maximum(known, release.epochs, out=known)
        if len(self._known) > 1024:
            self._known.clear()
        self._known[key] = known
        return known

    def heard(self, links: Links, block: int, engines: int) -> Ints:
        """(engines,): the epoch of each engine of a block up to which it is known to be complete."""
        heard = np.zeros(engines, np.int64)
        for release in self._of(links, block):
            np.maximum(heard[:len(release.heard)], release.heard, out=heard[:len(release.heard)])
        return heard

    def _of(self, links: Links, block: int) -> Iterable[Release]:
        for chain, upto in self._reach(links).items():
            for position in self.chains[chain].by_block.get(block, ()):
                if position >= upto:
                    break
                yield self.chains[chain].log[position]
