"""What each thread of a block knows of the others: vector clocks over groups of threads.

Threads with the same history of synchronisation form a group (at first the warps; a barrier that only part of a
group reaches splits it).  ``now[g]`` is the epoch of group g, ``seen[g, h]`` the latest epoch of h's threads that
every thread of g is ordered after; ``seen[g, g]`` is about the *other* threads of g.  So an access by u at epoch e is
ordered before thread t iff u is t, or e <= seen[group[t], group[u]].

Asynchronous units (a barrier's copies, a warpgroup's products) are ``engines``: they work on their own, and
``heard[g, e]`` is the latest epoch of engine e that every thread of g knows to be complete.

In: barriers with the threads that reach them.  Out: ``seen``, ``now``, ``group``.  All arrays end in a block
dimension, 1 until blocks differ.  Past ``limit`` groups a mask is rounded up to whole groups: that hides races only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Channel = tuple[str, int]
Known = tuple[Ints, Ints]
"""Epochs of groups (G, columns) and of engines (E, columns)."""


class Clocks:
    """The clocks of the threads of one batch of blocks."""

    def __init__(self, threads: int, warp: int) -> None:
        self.threads = threads
        self.warp = warp
        self.group: Ints = np.arange(threads, dtype=np.int64) // warp
        self.groups = -(-threads // warp)
        self.limit = 2 * self.groups + 8
        self.columns = 1
        self.seen: Ints = np.zeros((self.groups, self.groups, 1), np.int64)
        self.now: Ints = np.ones((self.groups, 1), np.int64)
        self.heard: Ints = np.zeros((self.groups, 0, 1), np.int64)
        self._channels: dict[Channel, Known] = {}
        self._members: Ints | None = None

    # --- shape -------------------------------------------------------------------------------------------------------

    def expand(self, columns: int) -> None:
        """One column a block from here on."""
        self.columns = columns
        self.seen = np.repeat(self.seen, columns, axis=2)
        self.now = np.repeat(self.now, columns, axis=1)
        self.heard = np.repeat(self.heard, columns, axis=2)
        self._channels = {key: (np.repeat(known, columns, axis=1), np.repeat(heard, columns, axis=1))
                          for key, (known, heard) in self._channels.items()}

    def split(self, active: Bools) -> list[int]:
        """Split groups until each is wholly inside or outside the mask (T, columns); the parent of each new group."""
        parents: list[int] = []
        while self.groups < self.limit:
            inside = self._inside(active)
            partial = (inside > 0) & (inside < self._sizes()[:, None])
            if not partial.any():
                break
            parent, column = (int(i) for i in np.argwhere(partial)[0])
            self.group[(self.group == parent) & ~active[:, column]] = self.groups
            self._append(parent)
            parents.append(parent)
        return parents

    def _append(self, parent: int) -> None:
        self.groups += 1
        self._members = None
        self.seen = np.concatenate([self.seen, self.seen[parent:parent + 1]], axis=0)
        self.seen = np.concatenate([self.seen, self.seen[:, parent:parent + 1]], axis=1)
        self.now = np.concatenate([self.now, self.now[parent:parent + 1]], axis=0)
        self.heard = np.concatenate([self.heard, self.heard[parent:parent + 1]], axis=0)
        self._channels = {key: (np.concatenate([known, known[parent:parent + 1]], axis=0), heard)
                          for key, (known, heard) in self._channels.items()}

    def _onehot(self) -> Ints:
        if self._members is None:
            self._members = (self.group == np.arange(self.groups)[:, None]).astype(np.int64)
        return self._members

    def _sizes(self) -> Ints:
        sizes: Ints = self._onehot().sum(axis=1)
        return sizes

    def _inside(self, active: Bools) -> Ints:
        inside: Ints = self._onehot() @ active.astype(np.int64)
        return inside

    def groups_of(self, active: Bools) -> Bools:
        """The groups (G, columns) with a thread in the mask."""
        return self._inside(active) > 0

    # --- order -------------------------------------------------------------------------------------------------------

    def release(self, who: Bools) -> Known:
        """What the groups ``who`` know together, themselves included; whatever they do next is not part of it."""
        known: Ints = np.where(who[:, None, :], self.seen, 0).max(axis=0)
        known = np.where(who, self.now, known)
        self.now += who
        return known, np.where(who[:, None, :], self.heard, 0).max(axis=0)

    def acquire(self, who: Bools, known: Known) -> None:
        """The groups ``who`` are from here on ordered after everything in ``known``."""
        seen, heard = known
        self.seen = np.where(who[:, None, :], np.maximum(self.seen, seen[None]), self.seen)
        if heard.any():                                 # engines that came later are not in it
            part = self.heard[:, :len(heard)]
            self.heard[:, :len(heard)] = np.where(who[:, None, :], np.maximum(part, heard[None]), part)

    def barrier(self, who: Bools | None) -> None:
        """A barrier among whole groups (None: all of them)."""
        if who is None:
            self.seen = np.repeat(self.now[None], self.groups, axis=0)
            self.now = self.now + 1
            self.heard = np.repeat(self.heard.max(axis=0, keepdims=True), self.groups, axis=0)
        else:
            self.acquire(who, self.release(who))

    def warp_barrier(self, who: Bools) -> None:
        """The groups ``who`` of each warp meet, warp by warp."""
        lane = np.array([int(np.argmax(self.group == g)) for g in range(self.groups)]) // self.warp
        shared = np.bincount(lane)
        for warp in np.flatnonzero(shared > 1):
            self.barrier(who & (lane == warp)[:, None])
        alone = who & (shared[lane] == 1)[:, None]
        diagonal = np.arange(self.groups)
        self.seen[diagonal, diagonal] = np.where(alone, self.now, self.seen[diagonal, diagonal])
        self.now = self.now + alone

    def send(self, channel: Channel, who: Bools) -> None:
        """The groups ``who`` leave what they know in the channel (a named barrier, a flag)."""
        known, heard = self.release(who)
        if (before := self._channels.get(channel)) is not None:
            known = np.maximum(before[0], known)
            heard[:len(before[1])] = np.maximum(before[1], heard[:len(before[1])])
        self._channels[channel] = known, heard

    def receive(self, channel: Channel, who: Bools) -> None:
        """The groups ``who`` take over what was left in the channel."""
        if (known := self._channels.get(channel)) is not None:
            self.acquire(who, known)

    def close(self, channel: Channel, where: Bools) -> None:
        """Empty the channel in the blocks ``where``."""
        known, heard = self._channels[channel]
        self._channels[channel] = np.where(where, 0, known), np.where(where, 0, heard)

    def publish(self, channel: Channel, to: Channel, where: Bools) -> None:
        """In the blocks ``where`` the channel ``to`` holds from here on what ``channel`` holds now."""
        if (source := self._channels.get(channel)) is None:
            return
        known, heard = source
        old, past = self._channels.get(to, (np.zeros_like(known), heard[:0]))
        before = np.zeros_like(heard)
        before[:len(past)] = past
        self._channels[to] = np.where(where, known, old), np.where(where, heard, before)

    # --- engines -----------------------------------------------------------------------------------------------------

    def engine(self) -> int:
        """A new engine."""
        self.heard = np.concatenate([self.heard, np.zeros((self.groups, 1, self.columns), np.int64)], axis=1)
        return int(self.heard.shape[1]) - 1

    def hear(self, engine: int, who: Bools, epoch: Ints | int) -> None:
        """The groups ``who`` know from here on what the engine did up to an epoch (one a column, or one for all)."""
        heard = self.heard[:, engine]
        self.heard[:, engine] = np.where(who, np.maximum(heard, epoch), heard)

    def known_engine(self, group: Ints, engine: Ints | int, block: Ints | None) -> Ints:
        """``heard[group, engine]`` for groups (D,) and engines (D, C) or one."""
        column = np.arange(self.columns) if block is None else block[:, None]
        found: Ints = self.heard[group[:, None], engine, column]
        return found

    # --- questions ---------------------------------------------------------------------------------------------------

    def epoch(self, group: Ints, block: Ints | None) -> Ints:
        """``now`` of each group: (D, columns), or (D, 1) where each entry has its own block."""
        if block is None:
            return self.now.take(group, axis=0)
        return self.now.reshape(-1).take(group * self.columns + block)[:, None]

    def known(self, group: Ints, other: Ints, block: Ints | None) -> Ints:
        """``seen[group, other]`` for groups (D,) and others (D, C)."""
        column = np.arange(self.columns) if block is None else block[:, None]
        return self.seen.reshape(-1).take((group[:, None] * self.groups + other) * self.columns + column)

    def known_all(self, group: Ints, block: Ints | None) -> Ints:
        """``seen[group]`` of groups (D,): (D, G, C)."""
        if block is None:
            return self.seen.take(group, axis=0)
        return self.seen[group, :, block][:, :, None]
