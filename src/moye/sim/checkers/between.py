"""Which accesses of one block are ordered before those of another: releases and acquires in global memory.

In: ordered accesses, thread by thread: ``acquire`` and ``release`` of an address.  Out: ``known``: up to which epoch
each thread of another block is ordered before this one.

Each address has a log of releases; an acquire remembers how much of it there was.  A release carries what its thread
had acquired as links into other logs, so what a block knows is found by following them, and only when it is asked.
Every release of an address so far counts as read by an acquire: that can hide a race, but never invents one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from moye.sim.checkers.clocks import Bools, Clocks, Ints

Links = dict[int, int]
"""Address -> how many releases of it are known."""
MOST_STEPS = 3_000_000
"""Acquires, releases and links followed in one launch before it is given up."""


@dataclass(frozen=True, slots=True)
class _Release:
    block: int
    epochs: Ints
    """Per thread of the block the latest epoch that the release publishes."""
    links: Links


@dataclass(slots=True)
class _Channel:
    """The releases of one address."""

    log: list[_Release] = field(default_factory=list)
    by_block: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Acquire:
    thread: int
    epoch: int
    address: int
    upto: int


def mates(block: int, cluster: int) -> list[tuple[int, int]]:
    """(rank, block) of the other blocks of a block's cluster."""
    first = block - block % cluster
    return [(rank, first + rank) for rank in range(cluster) if first + rank != block]


class Between:
    """The order between the blocks of one launch."""

    def __init__(self) -> None:
        self.channels: dict[int, _Channel] = {}
        self.acquires: dict[int, list[_Acquire]] = {}
        self.steps = self.releases = 0
        self._reached: dict[tuple[tuple[int, int], ...], Links] = {}

    @property
    def exhausted(self) -> bool:
        """Whether there was too much synchronisation to follow: nothing is judged from here on."""
        return self.steps > MOST_STEPS

    def acquire(self, block: int, thread: int, epoch: int, address: int) -> None:
        """A thread reads the address, and with it what was released there."""
        self.steps += 1
        channel = self.channels.get(address)
        if channel is None:
            return
        here, upto = self.acquires.setdefault(block, []), len(channel.log)
        if not any(a.thread == thread and a.address == address and a.upto == upto for a in here[-64:]):
            here.append(_Acquire(thread, epoch, address, upto))

    def release(self, block: int, address: int, epochs: Ints, links: Links) -> None:
        """A thread publishes at the address what it knows of its block, and what it has acquired."""
        self.steps += 1
        self.releases += 1
        channel = self.channels.setdefault(address, _Channel())
        channel.by_block.setdefault(block, []).append(len(channel.log))
        channel.log.append(_Release(block, epochs, links))

    def visible(self, block: int, thread: int, clocks: Clocks, column: int) -> Links:
        """What the thread has acquired, itself or through the barriers of its block and of its cluster."""
        links: Links = {}
        group, seen = clocks.group, clocks.seen
        for a in self.acquires.get(block, ()):
            known = a.thread == thread or a.epoch <= seen[group[thread], group[a.thread], column]
            if known and a.upto > links.get(a.address, 0):
                links[a.address] = a.upto
        for rank, mate in mates(block, clocks.cluster):
            for a in self.acquires.get(mate, ()):
                if a.epoch <= clocks.far[group[thread], rank, group[a.thread], column] and \
                        a.upto > links.get(a.address, 0):
                    links[a.address] = a.upto
        return links

    def _reach(self, links: Links) -> Links:
        """The links and whatever they lead to."""
        key = tuple(sorted(links.items()))
        if key in self._reached:
            return self._reached[key]
        reached: Links = {}
        todo = list(links.items())
        while todo and not self.exhausted:
            address, upto = todo.pop()
            before = reached.get(address, 0)
            if upto <= before:
                continue
            reached[address] = upto
            for release in self.channels[address].log[before:upto]:
                self.steps += 1
                todo.extend((a, n) for a, n in release.links.items() if n > reached.get(a, 0))
        if len(self._reached) > 64:
            self._reached.clear()
        self._reached[key] = reached
        return reached

    def known(self, links: Links, rivals: Ints, threads: int) -> Ints:
        """(rivals, threads): the epoch of each thread of these blocks up to which everything is ordered before."""
        reached = self._reach(links)
        known = np.zeros((len(rivals), threads), np.int64)
        for row, rival in enumerate(rivals.tolist()):
            for address, upto in reached.items():
                channel = self.channels[address]
                for position in channel.by_block.get(rival, ()):
                    if position < upto:
                        np.maximum(known[row], channel.log[position].epochs, out=known[row])
        return known


class Fences:
    """What the fences of one batch of blocks cover: (T, blocks)."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.own: Ints = np.zeros((threads, blocks), np.int64)
        """The epoch up to which a thread's accesses lie before its last fence."""
        self.any = False
        self._snapshot: Ints = np.zeros((threads, blocks), np.int64)
        self._snapshots: list[Ints] = [np.zeros(threads, np.int64)]

    def fence(self, who: Bools, clocks: Clocks) -> None:
        """The threads ``who`` (T, columns) execute a fence."""
        self.any = True
        for column in range(who.shape[1]):
            where = slice(None) if who.shape[1] == 1 else column
            for group in np.unique(clocks.group[who[:, column]]).tolist():
                mine = who[:, column] & (clocks.group == group)
                self.own[mine, where] = clocks.now[group, column]
                self._snapshot[mine, where] = len(self._snapshots)
                self._snapshots.append(clocks.seen[group, clocks.group, column])

    def published(self, thread: int, block: int, clocks: Clocks, column: int) -> Ints:
        """What a relaxed write by the thread publishes: what lies before its fence, or before those of others."""
        seen = clocks.seen[clocks.group[thread], clocks.group, column]
        epochs: Ints = np.maximum(np.minimum(seen, self.own[:, block]), self._snapshots[self._snapshot[thread, block]])
        epochs[thread] = self.own[thread, block]
        return epochs
