"""What each thread of a block knows of the others: vector clocks over groups of threads.

Threads with one history of synchronisation form a group (at first the warps; a barrier that part of it reaches splits
it).  ``now[g]`` is the epoch of group g, ``seen[g, h]`` the latest epoch of h's threads that every thread of g is
ordered after; ``seen[g, g]`` is about the *other* threads of g: u at epoch e is before t if u is t or
e <= seen, else not.
``engines`` (a barrier's copies, a warpgroup's products) work on their own; ``heard[g, e]`` is the epoch of engine e
that g knows to be complete, ``waited[t]`` what thread t alone knows of its own bulk groups, until it releases.
In a cluster ``far[g, r]`` and ``far_heard[g, r]`` say the same of the block of rank r (of its own: nothing); epoch 1
there is that it has started.  ``wide`` is the part of ``far`` that holds for global memory, too.  All arrays end in a
block dimension, 1 until blocks differ.  Past ``limit`` groups a mask is rounded up to whole ones, and ``coarse`` says
so.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Channel = tuple[str, int]
Known = tuple[Ints, ...]
"""Epochs of groups (G, columns) and of engines (E, columns); then by rank those of a cluster (R, G or E, columns), and
those of groups once more, as far as they hold for global memory."""
MOST = 1 << 22
"""Epochs of groups that are kept of groups."""


class Clocks:
    """The clocks of the threads of one batch of blocks."""

    def __init__(self, threads: int, warp: int, cluster: int = 1) -> None:
        self.threads = threads
        self.warp = warp
        self.cluster = cluster
        self.group: Ints = np.arange(threads, dtype=np.int64) // warp
        self.groups = -(-threads // warp)
        self.least = 2 * self.groups + 8
        self.limit = max(self.least, threads)
        self.coarse = False
        """Whether more groups were needed than there may be."""
        self.columns = 1
        self.seen: Ints = np.zeros((self.groups, self.groups, 1), np.int64)
        # In a cluster epoch 1 is the start of a block, which its mates may know of before anything else.
        self.now: Ints = np.full((self.groups, 1), 1 if cluster == 1 else 2, np.int64)
        self.heard: Ints = np.zeros((self.groups, 0, 1), np.int64)
        self.waited: Ints = np.zeros((threads, 1), np.int64)
        self.stores: Ints = np.full(threads, -1)
        """The engine of each thread that stores by bulk copies; -1 for others."""
        ranks = 0 if cluster == 1 else cluster
        self.far: Ints = np.zeros((self.groups, ranks, self.groups, 1), np.int64)
        self.wide: Ints = self.far.copy()
        self.far_heard: Ints = np.zeros((self.groups, ranks, 0, 1), np.int64)
        self._channels: dict[Channel, Known] = {}
        self._members: Ints | None = None

    # --- shape -------------------------------------------------------------------------------------------------------

    def expand(self, columns: int) -> None:
        """One column a block from here on."""
        self.columns = columns
        self.seen = np.repeat(self.seen, columns, axis=2)
        self.now = np.repeat(self.now, columns, axis=1)
        self.heard = np.repeat(self.heard, columns, axis=2)
        self.waited = np.repeat(self.waited, columns, axis=1)
        self.far, self.far_heard = np.repeat(self.far, columns, axis=3), np.repeat(self.far_heard, columns, axis=3)
        self.wide = np.repeat(self.wide, columns, axis=3)
        self._channels = {key: tuple(np.repeat(part, columns, axis=-1) for part in known)
                          for key, known in self._channels.items()}

    def split(self, active: Bools, most: int = MOST) -> list[int]:
        """Split groups until each is wholly inside or outside the mask (T, columns); the parent of each new group.

        There are at most ``most`` groups, unless the least number that every batch may have is larger.
        """
        inside = self._inside(active)
        partial: Bools = np.logical_or.reduce((inside > 0) & (inside < self._sizes()[:, None]), axis=1)
        if not partial.any():
            return []
        parents: list[int] = []
        most = min(self.limit, max(self.least, min(most, math.isqrt(MOST // self.columns))))
        for parent in np.flatnonzero(partial).tolist():
            members = np.flatnonzero(self.group == parent)
            # Members that are active in the same blocks stay together; kind 0 keeps the parent's number.
            kinds, kind = np.unique(active[members], axis=0, return_inverse=True)
            for number in range(1, len(kinds)):
                # Clocks need memory for the square of the groups, so past this a mask is rounded up, and ``coarse``
                # says so.
                if self.groups + len(parents) >= most:
                    self.coarse = True
                    break
                self.group[members[kind.reshape(-1) == number]] = self.groups + len(parents)
                parents.append(parent)
        if parents:
            self._append(parents)
        return parents

    def _append(self, parents: list[int]) -> None:
        """New last groups, each split off from its parent."""
        rows = [*range(self.groups), *parents]
        self.groups = len(rows)
        self._members = None
        self.seen = self.seen[rows][:, rows]
        self.now, self.heard = self.now[rows], self.heard[rows]
        if self.cluster > 1:
            self.far, self.wide = self.far[rows][:, :, rows], self.wide[rows][:, :, rows]
            self.far_heard = self.far_heard[rows]
        # Parts 1 and 3 are epochs of engines, which do not split.
        self._channels = {key: tuple(part if i in (1, 3) else _longer(part, rows) for i, part in enumerate(known))
                          for key, known in self._channels.items()}

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
        """What the groups ``who`` know together, themselves included; what they do next is not part of it."""
        known: Ints = np.where(who[:, None, :], self.seen, 0).max(axis=0)
        # Of itself a group knows all that it has done; ``seen`` of itself is about the other threads in it.
        known = np.where(who, self.now, known)
        # What follows gets a new epoch, so that nobody who acquires this takes it for ordered.
        self.now += who
        heard = np.where(who[:, None, :], self.heard, 0).max(axis=0)
        if (stores := np.flatnonzero(self.stores >= 0)).size:
            told = np.where(who[self.group[stores]], self.waited[stores], 0)
            heard[self.stores[stores]] = np.maximum(heard[self.stores[stores]], told)
        if self.cluster == 1:
            return known, heard
        inside = who[:, None, None, :]
        far, far_heard, wide = (np.where(inside, part, 0).max(axis=0)
                                for part in (self.far, self.far_heard, self.wide))
        return known, heard, far, far_heard, wide

    def acquire(self, who: Bools, known: Known) -> None:
        """The groups ``who`` are from here on ordered after everything in ``known``."""
        seen, heard = known[:2]
        # The join of vector clocks: causality order is transitive (PTX ISA, memory consistency model).
        self.seen = np.where(who[:, None, :], np.maximum(self.seen, seen[None]), self.seen)
        if heard.any():                                 # engines that came later are not in it
            part = self.heard[:, :len(heard)]
            self.heard[:, :len(heard)] = np.where(who[:, None, :], np.maximum(part, heard[None]), part)
        if self.cluster > 1:
            # An mbarrier orders shared memory of the cluster; ``wide`` is only what holds for global memory as well.
            far, far_heard, wide = known[2:]
            inside = who[:, None, None, :]
            self.far = np.where(inside, np.maximum(self.far, far[None]), self.far)
            self.wide = np.where(inside, np.maximum(self.wide, wide[None]), self.wide)
            part = self.far_heard[:, :, :far_heard.shape[1]]
            self.far_heard[:, :, :far_heard.shape[1]] = np.where(inside, np.maximum(part, far_heard[None]), part)

    def barrier(self, who: Bools | None) -> None:
        """A barrier among whole groups; None means all groups."""
        if who is None:
            # barrier.sync by all: each arrival synchronizes with each departure, so all know what all have done.
            self.seen = np.repeat(self.now[None], self.groups, axis=0)
            self.now = self.now + 1
            stores = np.flatnonzero(self.stores >= 0)
            self.heard = np.repeat(self.heard.max(axis=0, keepdims=True), self.groups, axis=0)
            told = self.heard[:, self.stores[stores]]
            self.heard[:, self.stores[stores]] = np.maximum(told, self.waited[stores][None])
            if self.cluster > 1:
                self.far, self.far_heard, self.wide = (np.repeat(far.max(axis=0, keepdims=True), self.groups, axis=0)
                                                       for far in (self.far, self.far_heard, self.wide))
        else:
            self.acquire(who, self.release(who))

    def warp_barrier(self, who: Bools) -> None:
        """The groups ``who`` of each warp meet, warp by warp."""
        # bar.warp.sync orders memory among the lanes that take part, and groups never span warps.
        lane = np.array([int(np.argmax(self.group == g)) for g in range(self.groups)]) // self.warp
        shared = np.bincount(lane)
        for warp in np.flatnonzero(shared > 1):
            self.barrier(who & (lane == warp)[:, None])
        # A group that is a whole warp has nobody to join: only its threads learn of each other.
        alone = who & (shared[lane] == 1)[:, None]
        diagonal = np.arange(self.groups)
        self.seen[diagonal, diagonal] = np.where(alone, self.now, self.seen[diagonal, diagonal])
        self.now = self.now + alone
        for thread in np.flatnonzero(self.stores >= 0).tolist():
            group, engine = self.group[thread], self.stores[thread]
            told = np.maximum(self.heard[group, engine], self.waited[thread])
            self.heard[group, engine] = np.where(alone[group], told, self.heard[group, engine])

    def send(self, channel: Channel, who: Bools) -> None:
        """The groups ``who`` leave what they know in the channel (a named barrier, a flag)."""
        self._leave(channel, self.release(who))

    def _leave(self, channel: Channel, known: Known) -> None:
        """Something becomes known to whoever receives from the channel."""
        before = self._channels.get(channel)
        self._channels[channel] = known if before is None else \
            tuple(np.maximum(_padded(old, new), new) for old, new in zip(before, known, strict=True))

    def receive(self, channel: Channel, who: Bools) -> None:
        """The groups ``who`` take over what was left in the channel."""
        if (known := self._channels.get(channel)) is not None:
            self.acquire(who, known)

    def close(self, channel: Channel, where: Bools) -> None:
        """Empty the channel in the blocks ``where``."""
        if channel in self._channels:
            self._channels[channel] = tuple(np.where(where, 0, part) for part in self._channels[channel])

    def publish(self, channel: Channel, to: Channel, where: Bools) -> None:
        """In the blocks ``where``, the channel ``to`` holds from here on what ``channel`` holds now."""
        if (source := self._channels.get(channel)) is None:
            return
        before = self._channels.get(to)
        self._channels[to] = tuple(np.where(where, new, 0 if before is None else _padded(before[i], new))
                                   for i, new in enumerate(source))

    # --- clusters ----------------------------------------------------------------------------------------------------

    def meet(self, channel: Channel, who: Bools) -> None:
        """The groups ``who`` leave what they know in a channel of their cluster."""
        known = self.release(who)
        if self.cluster == 1:
            self._leave(channel, known)
            return
        seen, heard, far, far_heard, wide = known
        wide = self._by_rank(seen, wide)
        self._leave(channel, (*self._everywhere(self._by_rank(seen, far), self._by_rank(heard, far_heard)), wide))

    def arrive(self, channel: Channel, who: Bools, rank: int | None) -> None:
        """The groups ``who`` leave what they know of shared memory, and that alone, in the channel of block ``rank``.

        None means the channel of every block.
        """
        seen, heard, far, far_heard, wide = self.release(who)
        known: Known = (*self._everywhere(self._by_rank(seen, far), self._by_rank(heard, far_heard)),
                        np.zeros_like(wide))
        if rank is not None:
            here = np.arange(self.columns) % self.cluster == rank
            known = tuple(np.where(here, part, 0) for part in known)
        self._leave(channel, known)

    def start(self, who: Bools) -> None:
        """The groups ``who`` know that all blocks of their cluster have started."""
        if self.cluster > 1:
            self.far = np.where(who[:, None, None, :], np.maximum(self.far, 1), self.far)

    def _by_rank(self, own: Ints, far: Ints) -> Ints:
        """What is known of each block of the cluster, the own one included, joined over its blocks."""
        if self.columns == 1:                           # every block has left the same
            return np.maximum(far, own[None])
        column, whole = np.arange(self.columns), far.copy()
        # A channel of the cluster is one for all of its blocks: each puts in what it knows of itself, at its rank.
        whole[column % self.cluster, :, column] = own.T
        joined = whole.reshape(*whole.shape[:2], self.columns // self.cluster, self.cluster).max(axis=3)
        return np.repeat(joined, self.cluster, axis=2)

    def _everywhere(self, far: Ints, far_heard: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The same as each block of the cluster receives it."""
        if self.columns == 1:
            return far[0], far_heard[0], far, far_heard
        column = np.arange(self.columns)
        own, own_heard = (part[column % self.cluster, :, column].T for part in (far, far_heard))
        return own, own_heard, far, far_heard

    # --- engines -----------------------------------------------------------------------------------------------------

    def engine(self) -> int:
        """A new engine."""
        self.heard = np.concatenate([self.heard, np.zeros((self.groups, 1, self.columns), np.int64)], axis=1)
        if self.cluster > 1:
            new = np.zeros((self.groups, self.cluster, 1, self.columns), np.int64)
            self.far_heard = np.concatenate([self.far_heard, new], axis=2)
        return int(self.heard.shape[1]) - 1

    def wait_for_own(self, who: Bools, epoch: Ints) -> None:
        """The threads ``who`` (T, columns) know their own bulk groups up to these epochs (T, columns)."""
        # Apart from ``heard``, so that lanes which store need no groups of their own.
        self.waited = np.where(who, np.maximum(self.waited, epoch), self.waited)

    def hear(self, engine: int, who: Bools, epoch: Ints | int) -> None:
        """The groups ``who`` know from here on what the engine did up to an epoch (one a column, or one for all)."""
        heard = self.heard[:, engine]
        self.heard[:, engine] = np.where(who, np.maximum(heard, epoch), heard)

    def known_engine(self, group: Ints, engine: Ints | int, block: Ints | None) -> Ints:
        """``heard[group, engine]`` for groups (D,) and engines (D, C) or one."""
        column = np.arange(self.columns) if block is None else block[:, None]
        found: Ints = self.heard[group[:, None], engine, column]
        return found

    def known_engine_of(self, group: Ints, rank: int, engine: int, block: Ints | None) -> Ints:
        """The same of an engine of the block of this rank of the cluster, the own one perhaps."""
        column = np.arange(self.columns) if block is None else block[:, None]
        far: Ints = self.far_heard[group[:, None], rank, engine, column]
        return np.where(column % self.cluster == rank, self.known_engine(group, engine, block), far)

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

    def known_far(self, group: Ints, rank: Ints, other: Ints, block: Ints) -> Ints:
        """Up to which epoch groups (D,) of ``block`` know the groups ``other`` (D,) of the blocks of these ranks."""
        far = self.far[group, rank, other, block]
        return np.where(rank == block % self.cluster, self.seen[group, other, block], far)

    def known_far_all(self, group: Ints, rank: Ints, block: Ints) -> Ints:
        """The same of all groups of those blocks: (D, G)."""
        own = (rank == block % self.cluster)[:, None]
        return np.where(own, self.seen[group, :, block], self.far[group, rank, :, block])


def _longer(part: Ints, rows: list[int]) -> Ints:
    """Epochs of groups, taken over by new last ones from those that they were split off from."""
    return part.take(rows, axis=-2)


def _padded(old: Ints, new: Ints) -> Ints:
    """Epochs with as many rows as those that came later."""
    missing = new.shape[-2] - old.shape[-2]
    return old if not missing else np.concatenate(
        [old, np.zeros((*old.shape[:-2], missing, old.shape[-1]), np.int64)], axis=-2)
