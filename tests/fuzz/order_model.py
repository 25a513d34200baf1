"""What threads know of each other where they synchronise in every way: vector clocks and interleavings by brute force.

In: a ``Plan``: what each warp does, operation by operation.  Out: ``verdict(plan)``: what goes wrong in some drawn
interleavings of its threads.

It shares no code with moye.  Of each warp there are four lanes; the last one counts for 29.  Asynchronous copies have
numbers; who knows the number of a copy is ordered after it.  Proxy fences are for the writes of their own thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

LANES, WEIGHTS = 4, (1, 1, 1, 29)
TOGETHER = {"warp", "vote", "named", "named arrive", "cluster arrive", "cluster wait"}
"""What whole warps do."""
ONE = {"load", "expect", "send", "store", "bulk commit", "bulk wait"}
"""What lane 0 does alone."""

Op = tuple[Any, ...]


class Violation(Exception):
    """What the program does wrong, in this interleaving."""


@dataclass
class Plan:
    """What the warps of all blocks do, and what they do at the end."""

    blocks: int
    warps: int
    cells: int
    counts: list[int]
    programs: list[list[Op]] = field(default_factory=list)
    tails: list[list[Op]] = field(default_factory=list)

    @property
    def everybody(self) -> range:
        return range(self.blocks * self.warps)


class Clock:
    """Up to which epoch of each thread, and which copies; ``steps``: how far each thread has come at least, and
    ``past``: the phases that are over."""

    def __init__(self, threads: int) -> None:
        self.at, self.known, self.steps, self.past = [0] * threads, set[int](), [0] * threads, set[Any]()

    def copy(self) -> Clock:
        made = Clock(0)
        made.at, made.known, made.steps, made.past = list(self.at), set(self.known), list(self.steps), set(self.past)
        return made

    def join(self, other: Clock) -> None:
        self.at = [max(pair) for pair in zip(self.at, other.at, strict=True)]
        self.known |= other.known
        self.follow(other)

    def follow(self, other: Clock) -> None:
        """It comes later, though it knows nothing of what memory holds."""
        self.steps = [max(pair) for pair in zip(self.steps, other.steps, strict=True)]
        self.past |= other.past


@dataclass
class Access:
    """Of one thread, or of its copy; ``fence``: the thread's epoch at its proxy fence since."""

    thread: int
    epoch: int
    kind: str                   # read, write, cp.async, async read, async write
    copy: int | None
    fence: int | None = None


class Barrier:
    """An mbarrier."""

    def __init__(self, key: tuple[int, int], count: int, threads: int) -> None:
        self.key, self.count, self.pending, self.bytes, self.phase = key, count, count, 0, 0
        self.gathered, self.done = Clock(threads), Clock(threads)
        self.came: list[tuple[int, int]] = []
        self.before: list[tuple[int, int]] = []
        self.copies = self.copied = False       # whether copies complete in this phase, in the one before
        self.waits: list[tuple[int, int]] = []  # for the phase before this one: the thread and its step

    def ordered(self, thread: int, clock: Clock) -> None:
        """An arrival comes after the end of the phase before."""
        if self.phase and (self.key, self.phase - 1) not in clock.past and (
                self.copied or any(u != thread and clock.at[u] < epoch for u, epoch in self.before)):
            raise Violation("mixed phases")

    def arrive(self, count: int, together: bool) -> None:
        if together and count > self.pending:
            raise Violation("more arrivals than a phase counts")
        for _ in range(count):
            self.pending -= 1
            self.check()

    def check(self) -> None:
        if self.pending < 0:
            raise Violation("arrivals while bytes are missing")
        if self.pending == 0 and self.bytes == 0:
            # Who waits for a phase after the end of the next takes it for one that is still to come.
            if any(self.gathered.steps[thread] < step for thread, step in self.waits):
                raise Violation("a wait that may come too late")
            self.waits = []
            self.gathered.past.add((self.key, self.phase))
            self.done, self.phase, self.pending = self.gathered.copy(), self.phase + 1, self.count
            self.before, self.came, self.copied, self.copies = self.came, [], self.copies, False


@dataclass
class Meeting:
    """A named barrier that some have come to."""

    count: int
    gathered: Clock
    arrived: int = 0
    waiting: list[int] = field(default_factory=list)
    who: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Event:
    """A copy that is still to complete."""

    barrier: tuple[int, int]
    copies: list[int]
    clocks: dict[int, Clock]
    """What its threads knew then."""
    bytes: int = 0
    arrivals: int = 0


class State:
    """The machine, as far as an interleaving has come."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.threads = plan, len(plan.everybody) * LANES
        self.clock = [Clock(self.threads) for _ in range(self.threads)]
        for thread in range(self.threads):
            self.clock[thread].at[thread] = 1
        self.seen: dict[tuple[int, int, int], list[Access]] = {}
        self.barriers = {(block, i): Barrier((block, i), count, self.threads)
                         for block in range(plan.blocks) for i, count in enumerate(plan.counts)}
        self.named: dict[tuple[int, int], Meeting] = {}
        self.last: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.waiting: set[int] = set()
        self.events: list[Event] = []
        self.copies, self.to_complete = 0, set[int]()
        self.open: list[list[int]] = [[] for _ in range(self.threads)]
        self.groups: list[list[list[int]]] = [[] for _ in range(self.threads)]
        self.bulk_open: list[list[int]] = [[] for _ in range(self.threads)]
        self.bulk_groups: list[list[list[int]]] = [[] for _ in range(self.threads)]
        self.met = [0] * len(plan.everybody)
        self.meeting, self.at_meeting = Clock(self.threads), 0
        self.meetings = [Clock(self.threads)]

    # --- accesses ----------------------------------------------------------------------------------------------------

    def number(self) -> int:
        self.copies += 1
        return self.copies

    def ordered(self, access: Access, thread: int) -> bool:
        if access.copy is not None:
            return access.copy in self.clock[thread].known
        return access.thread == thread or self.clock[thread].at[access.thread] >= access.epoch

    def judge(self, thread: int, unit: tuple[int, int, int], kind: str) -> None:
        before = self.seen.get(unit, [])
        reads, writes = ("read", "async read"), ("write", "cp.async")
        if kind in reads and all(x.kind in reads for x in before):
            raise Violation("read before a write")
        for x in before:
            if x.kind in reads and kind in reads:
                continue
            if not self.ordered(x, thread):
                raise Violation(f"{x.kind}, then {kind}")
            if kind.startswith("async") and x.kind in writes and (x.fence is None or (
                    x.thread != thread and self.clock[thread].at[x.thread] < x.fence)):
                raise Violation(f"{x.kind}, then {kind} without a fence")

    def access(self, kind: str, touched: Iterable[tuple[int, tuple[int, int, int], int | None]]) -> None:
        """Threads touch units, each by a copy perhaps, at once."""
        all_ = list(touched)
        for thread, unit, _ in all_:
            self.judge(thread, unit, kind)
        for thread, unit, copy in all_:
            if "read" not in kind:                      # what comes before it is not asked for again
                self.seen[unit] = []
            self.seen.setdefault(unit, []).append(Access(thread, self.clock[thread].at[thread], kind, copy))

    # --- steps -------------------------------------------------------------------------------------------------------

    def enabled(self, warp: int, op: Op) -> bool:
        if warp in self.waiting:
            return False
        if op[0] == "wait":
            return (self.barriers[warp // self.plan.warps, op[1]].phase & 1) != op[2]
        return op[0] != "cluster wait" or self.met[warp] < len(self.meetings)

    def complete(self, i: int) -> None:
        """A copy is complete."""
        event = self.events.pop(i)
        barrier = self.barriers[event.barrier]
        barrier.gathered.known |= set(event.copies)
        for thread, clock in event.clocks.items():
            if event.arrivals:
                barrier.ordered(thread, clock)
            barrier.gathered.follow(clock)
        barrier.copies, barrier.bytes = True, barrier.bytes - event.bytes
        barrier.arrive(event.arrivals, event.arrivals == sum(WEIGHTS))
        barrier.check()

    def step(self, warp: int, op: Op, lane: int | None = None) -> None:
        """A warp, or one lane of it, does an operation."""
        lanes = range(LANES) if lane is None else [lane]
        if op[0] in ONE or op[-1] == "lane 0":
            lanes = [x for x in lanes if x == 0]
        if lanes:
            threads = [warp * LANES + x for x in lanes]
            for thread in threads:
                self.clock[thread].steps[thread] += 1
            STEPS[op[0]](self, threads, warp // self.plan.warps, op)

    def release(self, threads: list[int]) -> Clock:
        told = Clock(self.threads)
        for thread in threads:
            told.join(self.clock[thread])
            self.clock[thread].at[thread] += 1
        return told

    def touch(self, threads: list[int], block: int, op: Op) -> None:
        kind, owner, cell, flip, _ = op
        self.access(kind, [(t, (block ^ owner, cell, t % LANES ^ flip), None) for t in threads])

    def warp(self, threads: list[int], _block: int, _op: Op) -> None:
        told = self.release(threads)
        for thread in threads:
            self.clock[thread].join(told)

    def vote(self, threads: list[int], _block: int, _op: Op) -> None:
        for thread in threads:
            for other in threads:
                self.clock[thread].follow(self.clock[other])

    def name(self, threads: list[int], block: int, op: Op) -> None:
        key, warp = (block, op[1]), threads[0] // LANES
        here = self.named.setdefault(key, Meeting(op[2], Clock(self.threads)))
        if here.count != op[2]:
            raise Violation("two counts of a named barrier")
        for thread, epoch in self.last.get(key, ()):
            if any(u // LANES != thread // LANES and self.clock[u].at[thread] < epoch for u in threads):
                raise Violation("uses of a named barrier in no order")
        here.who += [(t, self.clock[t].at[t]) for t in threads]
        here.gathered.join(self.release(threads))
        here.arrived += 1
        if op[0] == "named":
            self.waiting.add(warp)
            here.waiting.append(warp)
        if here.arrived == here.count:
            for one in here.waiting:
                for lane in range(LANES):
                    self.clock[one * LANES + lane].join(here.gathered)
            self.waiting -= set(here.waiting)
            self.last[key] = here.who
            del self.named[key]

    def gather(self, barrier: Barrier, threads: list[int]) -> None:
        for thread in threads:
            barrier.ordered(thread, self.clock[thread])
        barrier.came += [(t, self.clock[t].at[t]) for t in threads]
        barrier.gathered.join(self.release(threads))

    def arrive(self, threads: list[int], block: int, op: Op) -> None:
        barrier = self.barriers[block ^ op[2], op[1]]
        self.gather(barrier, threads)
        count = 1 if op[-1] == "lane 0" else sum(WEIGHTS[t % LANES] for t in threads)
        barrier.arrive(count, count == sum(WEIGHTS))

    def wait(self, threads: list[int], block: int, op: Op) -> None:
        barrier = self.barriers[block, op[1]]
        for thread in threads:
            self.clock[thread].join(barrier.done)
            barrier.waits.append((thread, self.clock[thread].steps[thread]))

    def copy(self, threads: list[int], block: int, op: Op) -> None:
        for thread in threads:
            self.open[thread].append(self.number())
        self.access("cp.async", [(t, (block, op[1], t % LANES ^ op[2]), self.open[t][-1]) for t in threads])

    def commit(self, threads: list[int], _block: int, _op: Op) -> None:
        for thread in threads:
            self.groups[thread].append(self.open[thread])
            self.open[thread] = []

    def copy_wait(self, threads: list[int], block: int, op: Op) -> None:
        if op[1] is None:
            self.commit(threads, block, op)
        for thread in threads:
            groups = self.groups[thread]
            self.clock[thread].known.update(x for group in groups[:len(groups) - (op[1] or 0)] for x in group)

    def copy_arrive(self, threads: list[int], block: int, op: Op) -> None:
        copies = [x for t in threads for group in [*self.groups[t], self.open[t]] for x in group]
        clocks = {t: self.clock[t].copy() for t in threads}
        self.events.append(Event((block, op[1]), copies, clocks, arrivals=sum(WEIGHTS[t % LANES] for t in threads)))

    def expect(self, threads: list[int], block: int, op: Op) -> None:
        barrier = self.barriers[block, op[1]]
        self.gather(barrier, threads)
        barrier.copies, barrier.bytes = True, barrier.bytes + op[2]
        barrier.arrive(1, False)

    def load(self, threads: list[int], block: int, op: Op) -> None:
        _, i, cell, count = op
        self.expect(threads, block, ("expect", i, count))
        self.bring(threads[0], block, i, cell)

    def bring(self, thread: int, block: int, i: int, cell: int) -> None:
        number = self.number()
        self.access("async write", [(thread, (block, cell, lane), number) for lane in range(LANES)])
        self.to_complete.add(number)
        self.events.append(Event((block, i), [number], {thread: self.clock[thread].copy()}, bytes=128))

    def send(self, threads: list[int], block: int, op: Op) -> None:
        _, i, cell, there = op
        number = self.copies + 1
        self.access("async read", [(threads[0], (block, cell, lane), number) for lane in range(LANES)])
        self.bring(threads[0], block ^ 1, i, there)

    def fence(self, threads: list[int], _block: int, _op: Op) -> None:
        for access in (x for seen in self.seen.values() for x in seen):
            if access.thread in threads and access.kind in ("write", "cp.async") and access.fence is None \
                    and self.ordered(access, access.thread):
                access.fence = self.clock[access.thread].at[access.thread]

    def store(self, threads: list[int], block: int, op: Op) -> None:
        number = self.number()
        self.access("async read", [(threads[0], (block, op[1], lane), number) for lane in range(LANES)])
        self.bulk_open[threads[0]].append(number)

    def bulk_commit(self, threads: list[int], _block: int, _op: Op) -> None:
        self.bulk_groups[threads[0]].append(self.bulk_open[threads[0]])
        self.bulk_open[threads[0]] = []

    def bulk_wait(self, threads: list[int], _block: int, op: Op) -> None:
        groups = self.bulk_groups[threads[0]]
        self.clock[threads[0]].known.update(x for group in groups[:max(len(groups) - op[1], 0)] for x in group)

    def cluster_arrive(self, threads: list[int], _block: int, _op: Op) -> None:
        self.meeting.join(self.release(threads))
        self.at_meeting += 1
        self.met[threads[0] // LANES] += 1
        if self.at_meeting == len(self.plan.everybody):
            self.meetings.append(self.meeting.copy())
            self.at_meeting = 0

    def cluster_wait(self, threads: list[int], _block: int, _op: Op) -> None:
        for thread in threads:
            self.clock[thread].join(self.meetings[self.met[threads[0] // LANES]])


STEPS: dict[str, Callable[[State, list[int], int, Op], None]] = {
    "read": State.touch, "write": State.touch, "warp": State.warp, "vote": State.vote,
    "named": State.name, "named arrive": State.name,
    "arrive": State.arrive, "wait": State.wait, "cp.async": State.copy, "commit": State.commit,
    "cp.async wait": State.copy_wait, "cp.async arrive": State.copy_arrive, "expect": State.expect, "load": State.load,
    "send": State.send, "fence": State.fence, "store": State.store, "bulk commit": State.bulk_commit,
    "bulk wait": State.bulk_wait, "cluster arrive": State.cluster_arrive, "cluster wait": State.cluster_wait}


# --- interleavings ---------------------------------------------------------------------------------------------------


class Play:
    """One interleaving: lanes run apart, or whole warps in every third one."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.seed, self.rng, self.state = plan, seed, random.Random(seed), State(plan)
        self.programs = [[*body, *tail] for body, tail in zip(plan.programs, plan.tails, strict=True)]
        self.at = [0] * self.state.threads

    def following(self, thread: int) -> Op | None:
        program = self.programs[thread // LANES]
        return program[self.at[thread]] if self.at[thread] < len(program) else None

    def ready(self, thread: int) -> bool:
        op, warp = self.following(thread), thread // LANES
        if op is None or warp in self.state.waiting or (self.seed % 3 == 0 and thread % LANES):
            return False
        if op[0] in TOGETHER and (thread % LANES or not self.together(thread)):
            return False
        if op[0] == "wait" and op[-1] == "lane 0" and thread % LANES:
            return True
        return self.state.enabled(warp, op)

    def together(self, thread: int) -> bool:
        return len({self.at[thread + lane] for lane in range(LANES)}) == 1

    def outcome(self) -> str:
        """What goes wrong, or nothing."""
        lazy, steady = self.rng.random(), self.rng.random()
        try:
            while True:
                ready = [t for t in range(self.state.threads) if self.ready(t)]
                if self.state.events and (not ready or self.rng.random() < lazy / 2):
                    self.state.complete(self.rng.randrange(len(self.state.events)))
                elif ready:
                    self.move(ready[-(self.seed % 2)] if self.rng.random() < steady else self.rng.choice(ready))
                else:
                    break
            if self.state.waiting or any(self.following(t) for t in range(self.state.threads)):
                return "wait for ever"
            if self.state.to_complete - set().union(*(clock.known for clock in self.state.clock)):
                return "a load that nobody waits for"
        except Violation as found:
            return str(found)
        return ""

    def move(self, thread: int) -> None:
        op = self.following(thread)
        assert op is not None
        whole = op[0] in TOGETHER or self.seed % 3 == 0
        self.state.step(thread // LANES, op, None if whole else thread % LANES)
        for lane in range(LANES if whole else 1):
            self.at[thread + lane] += 1


def verdict(plan: Plan, interleavings: int = 24) -> tuple[set[str], bool]:
    """What goes wrong, and whether something does in all of them."""
    found = [Play(plan, seed).outcome() for seed in range(interleavings)]
    return {text for text in found if text}, all(found)
