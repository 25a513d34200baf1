"""Locks: which atomics are ones, who holds which, and which data they guard, whoever took them first.

In: a Func; in a run of its own the atomics that take locks and let them go, and accesses that nothing but a lock
orders.  Out: the accesses of which both have no lock in common (locksets: Savage et al., Eraser, 1997).

A tensor holds locks if all that is done to it in order is to take one (cas from its free value, or exch to another) and
to let it go (store or exch of that value).  Letting go what one holds says nothing to who takes it next: in another
order it would come first.  Letting go what one does not hold is a signal.  What lies between the two, by order, is
guarded: also what other threads do meanwhile for the holder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Literal
from moye.sim.checks.certain import Sure, certain
from moye.sim.checks.clocks import Clocks, Ints
from moye.sim.checks.flag_history import Between, Clock, Eye, Place, Release, Writer, mates
from moye.sim.checks.patience import Patience, patience
from moye.sim.checks.signal_memory import Traffic, strong
from moye.sim.findings.finding import Finding

NEVER = np.iinfo(np.int64).max
KEPT = 16
"""The most pairs of accesses that are remembered of one lock, as kept apart by it alone, in case it turns out to be
none."""
LONGEST = 4
"""The most threads that are looked for of which each waits for a lock of the next."""
RACES = frozenset(("C1", "C2", "C3", "G1", "G2", "G3", "G5"))


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of a kernel: by tensor (``Traffic.key``) the value of a free one; by op whether it lets one go."""

    free: Mapping[int, int | float | bool]
    lets_go: Mapping[int, bool]
    sure: Sure
    """The operations that happen in every order."""
    patience: Patience
    chance: frozenset[int]
    """The ids of the looks at flags that are not repeated until they find what they look for."""


def locks(func: Func, traffic: Traffic, shared: Callable[[Buffer], bool]) -> Locks | None:
    """None if there are none.  ``shared``: an argument that the launch writes, perhaps through another one."""
    walked = list(func.body.walk())
    by_tensor: dict[int, list[ops.Op]] = {}
    for op in walked:
        if isinstance(op, (ops.Load, ops.Store, ops.Atomic)) and strong(op):
            by_tensor.setdefault(traffic.key(op.ref.buffer), []).append(op)
    if not by_tensor:                                   # most kernels: nothing is a lock, and nobody looks at a flag
        return None
    free = {key: value for key, mine in by_tensor.items() if (value := _free_value(mine, traffic.used)) is not None}
    waits = patience(func)
    roles = {id(op): _lets_go(op, free[key]) for key in free for op in by_tensor[key] if not isinstance(op, ops.Load)}

    def looks(op: ops.Op) -> bool:
        return isinstance(op, (ops.Load, ops.Atomic)) and strong(op) and traffic.key(op.ref.buffer) in free

    def written(buffer: Buffer) -> bool:
        return buffer.written or shared(buffer)

    tries = {id(op): free[key] for key in free for op in by_tensor[key] if not roles.get(id(op), True)}
    found = Locks(free, roles, certain(func, looks, written, waits, tries), waits, frozenset(_chances(walked, waits)))
    return found if free or _matters(func, found, shared) else None


def _chances(walked: list[ops.Op], waits: Patience) -> Iterator[int]:
    return (id(op) for op in walked if strong(op) and not isinstance(op, ops.Store) and id(op) not in waits.waits)


def _matters(func: Func, found: Locks, shared: Callable[[Buffer], bool]) -> bool:
    """Whether anything that others write is used whatever a look has found, after it."""
    behind = False
    for op in func.body.walk():
        if id(op) in found.chance and isinstance(op, ops.Load):
            behind = True
        elif behind and id(op) in found.sure.always and not strong(op) and any(
                _of_others(ref.buffer, shared) for ref, _ in op.refs()):
            return True
    return False


def _of_others(buffer: Buffer, shared: Callable[[Buffer], bool]) -> bool:
    """Whether other threads may write there."""
    return buffer.space in (Space.SHARED, Space.CLUSTER) or (buffer.space is Space.GLOBAL and shared(buffer))


def _constant(operand: object) -> int | float | bool | None:
    return operand.value if isinstance(operand, Literal) else None


def _free_value(mine: list[ops.Op], used: frozenset[int]) -> int | float | bool | None:
    """The value of a free lock, if these are all the operations on locks of a tensor."""
    wanted = {value for op in mine if isinstance(op, (ops.Store, ops.Atomic))
              and (value := _constant(op.value)) is not None}
    fits = [value for value in wanted if all(_is_lock(op, value, used) for op in mine) and
            len({_lets_go(op, value) for op in mine if not isinstance(op, ops.Load)}) == 2]
    return fits[0] if len(fits) == 1 else None


def _is_lock(op: ops.Op, free: int | float | bool, used: frozenset[int]) -> bool:
    """Whether an operation takes a lock, lets one go or looks at one; who takes it looks at what was there."""
    if isinstance(op, ops.Load):
        return True
    if isinstance(op, ops.Store):
        return _constant(op.value) == free
    assert isinstance(op, ops.Atomic), "the operations on locks"
    if _lets_go(op, free):
        return op.kind in ("cas", "exch") and id(op) not in used and _constant(op.compare) != free
    # Whoever ignores what was there does not know whether the lock is its own.
    if op.kind == "cas":
        return _constant(op.compare) == free and id(op) in used
    return op.kind == "exch" and _constant(op.value) is not None and id(op) in used


def _lets_go(op: ops.Op, free: int | float | bool) -> bool:
    return isinstance(op, (ops.Store, ops.Atomic)) and _constant(op.value) == free


@dataclass(eq=False, slots=True)
class Section:
    """From taking a lock to letting it go."""

    place: Place
    taken: Writer
    known: dict[int, list[tuple[int, int]]]
    """The threads of each block that know that the lock is taken, each with the epoch from which on it knows."""
    first: dict[int, Ints]
    """The first epoch of each thread of a block (T,) that the lock guards; it follows from ``known``."""
    by: int
    """The id of the atomic that has taken it."""
    sure: bool
    """Whether its thread would have waited for the lock."""
    over: dict[int, Ints] | None = None
    """The last epoch of each thread of a block (T,) that is ordered before the end."""
    end: Writer | None = None
    awaited: set[Place] = field(default_factory=set)
    """The counts that its holder has waited for meanwhile."""
    lock: Place | None = None
    """Of who is counted at this place: the lock under which that was done."""


@dataclass(frozen=True, eq=False, slots=True)
class Wish:
    """A thread waits for a lock while it holds others."""

    op: ops.Op
    event: Writer
    held: frozenset[Place]
    place: Place


Access = tuple[int, int, int, int]
"""Block, thread, epoch, and the id of the operation."""


@dataclass(eq=False, slots=True)
class _Lock:
    """One place."""

    open: Section | None = None
    sections: list[Section] = field(default_factory=list)
    signals: list[Release] = field(default_factory=list)
    """What those published who let it go without having it."""
    strangers: list[Writer] = field(default_factory=list)
    """Those who let it go without having it in every order."""
    void: bool = False
    """Whether it keeps nobody out."""
    kept: list[Callable[[], None]] = field(default_factory=list)
    """What is to be told once the lock is void."""


class Held:
    """The locks of one run, and their holders."""

    def __init__(self, locks_: Locks, between: Between, threads: int,
                 crossed: Callable[[Wish, Wish], None]) -> None:
        self.locks, self.between, self.threads, self.crossed = locks_, between, threads, crossed
        self._wishes: dict[Place, list[Wish]] = {}
        """By the lock that is held already."""
        self._at: dict[Place, _Lock] = {}
        self._open: list[Section] = []
        self._of: dict[int, list[Section]] = {}
        """The sections that threads of a block know of, by block."""

    @property
    def busy(self) -> bool:
        """Whether any lock is held."""
        return bool(self._open)

    # --- taking ------------------------------------------------------------------------------------------------------

    def take(self, op: ops.Op, place: Place, event: Writer, eye: Eye) -> None:
        """A thread has taken a lock, at the end of its epoch."""
        lock = self._at.setdefault(place, _Lock())
        if lock.open is not None:                       # somebody else has let it go by a plain store
            self._close(lock, lock.open, event, eye, {})
        block, thread, epoch = event
        first = np.full(self.threads, NEVER)
        # The section begins behind the atomic that takes the lock.
        first[thread] = epoch + 1
        lock.open = Section(place, event, {block: [(thread, epoch)]}, {block: first}, id(op),
                            id(op) in self.locks.patience.waits)
        lock.sections.append(lock.open)
        self._open.append(lock.open)
        self._of.setdefault(block, []).append(lock.open)
        self._wish(op, place, event, eye)
        # Somebody who lets it go unasked, and in no order with this, would let others in beside its holder.
        clock = self.between.visible(eye)
        if any(not self.between.before(eye, clock, stranger) for stranger in lock.strangers):
            self._break(lock)

    def _wish(self, op: ops.Op, place: Place, event: Writer, eye: Eye) -> None:
        """A thread has waited for a lock, perhaps while it held others.

        Threads that do so in another order than it may each wait for what the next one holds.
        """
        mine = frozenset(section.place for section in self._open if section.lock is None and section.sure
                         and section.taken[:2] == event[:2] and section.place != place)
        if not mine or id(op) not in self.locks.patience.waits & self.locks.sure.always:
            return
        wish, clock = Wish(op, event, mine, place), self.between.visible(eye)
        for cycle in self._cycles([wish]):
            if not any(self.between.before(eye, clock, other.event) for other in cycle[1:]):
                self.crossed(wish, cycle[1])
        for held in mine:
            known = self._wishes.setdefault(held, [])
            alike = [each for each in known if each.place == place and each.held == mine]
            if len(alike) < KEPT and all(each.event[:2] != event[:2] for each in alike):
                known.append(wish)

    def _cycles(self, wishes: list[Wish]) -> Iterator[list[Wish]]:
        """Each holds what the one before waits for, and the first what the last waits for; no lock keeps two apart."""
        for wish in self._wishes.get(wishes[-1].place, ()):
            if all(wish.event[:2] != each.event[:2] and not wish.held & each.held for each in wishes):
                if wish.place in wishes[0].held:
                    yield [*wishes, wish]
                elif len(wishes) < LONGEST:
                    yield from self._cycles([*wishes, wish])

    # --- counts of those who go on without the lock ------------------------------------------------------------------

    def counted(self, place: Place, event: Writer, eye: Eye) -> None:
        """A thread writes a flag that is no lock.

        If it holds a lock it may count itself, as readers do, and go on without the lock: whoever takes that next waits
        for the count, until it writes there once more.
        """
        mine = [section for section in self._open if section.lock is not None and section.place == place
                and section.taken[0] == event[0]]
        clock = self.between.visible(eye)
        for section in mine:
            if section.taken[:2] == event[:2] or self._knows(section, eye, clock):
                self._end(section, event, eye, clock)
                return
        for section in [section for section in self._open if section.lock is None and section.taken[:2] == event[:2]]:
            block, thread, epoch = event
            first = np.full(self.threads, NEVER)
            first[thread] = epoch
            self._open.append(Section(place, event, {block: [(thread, epoch)]}, {block: first}, section.by,
                                      section.sure, lock=section.place))
            self._of.setdefault(block, []).append(self._open[-1])

    def awaits(self, op: ops.Op, place: Place, block: int, threads: Sequence[int]) -> None:
        """Threads look at a flag, and go on once it says what they wait for."""
        if id(op) in self.locks.patience.waits:
            for section in self._open:
                if section.lock is None and section.taken[0] == block and section.taken[1] in threads:
                    section.awaited.add(place)

    # --- letting go --------------------------------------------------------------------------------------------------

    def let_go(self, op: ops.Op, place: Place, event: Writer, eye: Eye, releases: list[Release], *,
               idle: bool) -> list[Release]:
        """A thread lets a lock go; the result is what that publishes in every order.

        ``idle`` means that nobody holds the lock.
        """
        lock = self._at.setdefault(place, _Lock())
        clock, section = self.between.visible(eye), lock.open
        mine = section is not None and (section.taken[:2] == event[:2] or self._knows(section, eye, clock))
        if section is not None:
            self._close(lock, section, event, eye, clock)
        always = id(op) in self.locks.sure.always
        if mine and section is not None and (section.sure or not always):
            return list(lock.signals)
        # Not its holder: this is a signal, which whoever takes the lock next does learn in every order.
        lock.signals += [] if idle or mine else releases
        # Who has tried for it, and lets it go whether or not it has won, lets go somebody else's in another order.
        if always:
            lock.strangers.append(event)
            ends = [section.taken if section.end is None or section.end == event else section.end
                    for section in lock.sections]
            if any(end[:2] != event[:2] and not self.between.before(eye, clock, end) for end in ends):
                self._break(lock)
        return list(lock.signals)

    def _knows(self, section: Section, eye: Eye, clock: Clock) -> bool:
        """Whether somebody knows that a lock is taken."""
        return any(self.between.before(eye, clock, (block, thread, epoch))
                   for block, known in section.known.items() for thread, epoch in known)

    def _close(self, lock: _Lock, section: Section, event: Writer, eye: Eye, clock: Clock) -> None:
        lock.open = None
        self._end(section, event, eye, clock)

    def _end(self, section: Section, event: Writer, eye: Eye, clock: Clock) -> None:
        block, thread, epoch = event
        section.over = {other: self.between.known(clock, other, self.threads) for other in section.known}
        for mate, far in eye.far:
            if mate in section.over:
                section.over[mate] = np.maximum(section.over[mate], far)
        own = eye.row.copy()
        own[thread] = epoch
        if block in section.over:
            section.over[block] = np.maximum(section.over[block], own)
        section.end = event
        self._open.remove(section)

    def _break(self, lock: _Lock) -> None:
        lock.void = True
        kept, lock.kept = lock.kept, []
        for tell in kept:
            tell()

    # --- who is guarded ----------------------------------------------------------------------------------------------

    def learnt(self, block: int, thread: int, epoch: int, clock: Clock) -> None:
        """A thread has acquired a clock: it may know from it that locks are taken."""
        for section in self._open:
            if section.taken[:2] != (block, thread) and any(
                    at <= self.between.known(clock, other, self.threads)[one]
                    for other, known in list(section.known.items()) for one, at in known):
                if block not in section.known:
                    section.first[block] = np.full(self.threads, NEVER)
                    self._of.setdefault(block, []).append(section)
                section.known.setdefault(block, []).append((thread, epoch))
                section.first[block][thread] = min(section.first[block][thread], epoch)

    def notice(self, first: int, blocks: int, clocks: Clocks) -> None:
        """What barriers have told the threads of these blocks of locks that are taken."""
        for section in self._open:
            for block, known in list(section.known.items()):
                if not first <= block < first + blocks:
                    continue
                column = block - first if clocks.columns > 1 else 0
                told = section.first[block]
                for thread, epoch in known:
                    new = (told == NEVER) & (clocks.seen[clocks.group, clocks.group[thread], column] >= epoch)
                    told[new] = clocks.now[clocks.group[new], column]
                for _, mate in mates(block, clocks.cluster):
                    self._told_mate(section, block, mate, first, clocks)

    def _told_mate(self, section: Section, block: int, mate: int, first: int, clocks: Clocks) -> None:
        """The same of another block of the cluster, which barriers of the cluster tell."""
        column, rank = mate - first if clocks.columns > 1 else 0, block % clocks.cluster
        told = section.first.get(mate, np.full(self.threads, NEVER))
        for thread, epoch in section.known[block]:
            new = (told == NEVER) & (clocks.wide[clocks.group, rank, clocks.group[thread], column] >= epoch)
            if new.any():
                told[new] = clocks.now[clocks.group[new], column]
                if mate not in section.known:
                    who = int(np.argmax(new))
                    section.known[mate] = [(who, int(told[who]))]
                    section.first[mate] = told
                    self._of.setdefault(mate, []).append(section)

    def held(self, access: Access) -> list[Section]:
        """The locks, and counts, that are held for an access."""
        block, thread, epoch, op = access
        return [section for section in self._of.get(block, ())
                if (section.sure or section.by in self.locks.sure.won.get(op, ()))
                and not self._lock(section).void and section.first[block][thread] <= epoch
                and (section.over is None or epoch <= section.over[block][thread])]

    def _lock(self, section: Section) -> _Lock:
        return self._at[section.place if section.lock is None else section.lock]

    def apart(self, one: Access, other: Access, tell: Callable[[], None]) -> bool:
        """Whether two accesses have a lock in common; ``tell``, if that turns out to be none."""
        # Eraser's rule: two accesses never meet if one lock is held at both.
        common = {id(lock): lock for a in self.held(one) for b in self.held(other) if _exclude(a, b)
                  for lock in [self._lock(a)]}
        for lock in common.values():
            if len(lock.kept) < KEPT:
                lock.kept.append(tell)
        return bool(common)

    def certain(self, op: ops.Op) -> bool:
        """Whether an access happens in every order, or to whoever wins a try for a lock.  Those of asynchronous units
        come when they come, and locks say nothing about that."""
        return not isinstance(op, ops.AnyBulk) and (id(op) in self.locks.sure.always or id(op) in self.locks.sure.won)

    def is_lock(self, key: int) -> bool:
        """Whether a tensor holds locks."""
        return key in self.locks.free


def _exclude(a: Section, b: Section) -> bool:
    """Whether who is in one section waits for whoever is in the other."""
    if a.lock is None and b.lock is None:
        return a.place == b.place
    return (a.lock is None and b.lock == a.place and b.place in a.awaited) or \
        (b.lock is None and a.lock == b.place and a.place in b.awaited)


def by_luck(finding: Finding) -> Finding:
    """The finding of a race that the order in which locks were taken hides."""
    return finding.reworded("lucky", "lucky")
