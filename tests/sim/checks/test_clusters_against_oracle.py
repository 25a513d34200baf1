"""Random programs of clusters: the checker's verdict on every access against a brute-force happens-before oracle.

The oracle keeps a vector clock per thread over all threads of the cluster, and every access to every unit of every
block.  After the first violation on a unit both stop looking at it.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

T, WARP, UNITS = 4, 2, 4
OWN, THERE = ("read", "write", "copy", "atomic"), ("read_at", "write_at")


class Oracle:
    """One cluster; a thread is (block, thread), a place is (owner, unit)."""

    def __init__(self, size):
        self.size = size
        self.threads = [(b, t) for b in range(size) for t in range(T)]
        self.clock = {x: {y: int(x == y) for y in self.threads} for x in self.threads}
        self.accesses = {(b, u): [] for b in range(size) for u in range(UNITS)}  # [thread, clock or None, kind, group]
        self.written, self.dead, self.violations = set(), set(), set()
        self.committed = dict.fromkeys(self.threads, 0)
        self.meeting, self.arrived = {}, [self.nothing() for _ in range(size)]
        self.phases = [self.nothing() for _ in range(size)]

    def nothing(self):
        return dict.fromkeys(self.threads, 0)

    def ordered(self, access, thread):
        return access[1] is not None and (access[0] == thread or access[1] <= self.clock[thread][access[0]])

    def faults(self, kind, touched):
        """The places where an access would be a violation; ``touched``: thread -> place."""
        found = set()
        for thread, place in touched.items():
            if any(_conflict(before[2], kind) and not self.ordered(before, thread) for before in self.accesses[place]):
                found.add(place)
            if kind in ("read", "atomic") and place not in self.written:
                found.add(place)
            if kind in ("write", "copy") and any(p == place and t != thread for t, p in touched.items()):
                found.add(place)
        return found

    def access(self, step, kind, touched):
        self.violations |= {(step, place) for place in self.faults(kind, touched)}
        self.dead = {place for _, place in self.violations}
        for thread, place in touched.items():
            now = None if kind == "copy" else self.clock[thread][thread]
            self.accesses[place].append([thread, now, kind, self.committed[thread]])
            if kind in ("write", "copy"):
                self.written.add(place)

    def wait(self, threads):
        for t in threads:
            self.committed[t] += 1
        for access in (a for accesses in self.accesses.values() for a in accesses):
            if access[0] in threads and access[1] is None:
                access[1] = self.clock[access[0]][access[0]]

    def release(self, threads):
        joined = {y: max((self.clock[x][y] for x in threads), default=0) for y in self.threads}
        for x in threads:
            self.clock[x][x] += 1
        return joined

    def acquire(self, threads, joined):
        for x in threads:
            self.clock[x] = {y: max(mine, joined[y]) for y, mine in self.clock[x].items()}

    def sync(self, threads):
        for block in range(self.size):
            mine = [x for x in threads if x[0] == block]
            self.acquire(mine, self.release(mine))

    def arrive(self, targets):
        """``targets``: thread -> the block whose mbarrier it arrives at."""
        for block in range(self.size):
            joined = self.release([x for x, b in targets.items() if b == block])
            self.arrived[block] = {y: max(self.arrived[block][y], joined[y]) for y in self.threads}

    def phase(self, blocks):
        for block in blocks:
            self.phases[block] = dict(self.arrived[block])

    def passed(self, threads):
        for x in threads:
            self.acquire([x], self.phases[x[0]])

    def cluster_arrive(self, threads):
        self.meeting = self.release(threads)

    def cluster_wait(self, threads):
        self.acquire(threads, self.meeting)


def _conflict(a, b):
    return "write" in (a, b) or "copy" in (a, b) or (a != b and "atomic" in (a, b))


class Program:
    """Random statements of ``clusters`` clusters of ``size`` blocks, played to an oracle each and to a bench."""

    def __init__(self, bench, seed, clusters, size, whole_warps):
        self.rng, self.size, self.blocks, self.whole = random.Random(seed), size, clusters * size, whole_warps
        self.b = bench(T, self.blocks, UNITS, warp=WARP, cluster=size)
        self.oracles = [Oracle(size) for _ in range(clusters)]
        self.seen = self._record_all()
        self.met = True                                 # nobody is between an arrival and a wait of the cluster

    def _record_all(self):
        seen, judge = [], self.b.checker.judge
        tell = judge._report

        def record(shadow, op, clashes, *rest, **named):
            for unit, block in zip(clashes.unit.tolist(), clashes.block.tolist(), strict=True):
                every = clashes.by is None and self.b.checker.clocks.columns == 1
                seen.extend((op.loc.line, unit, at) for at in (range(self.blocks) if every else [block]))
            tell(shadow, op, clashes, *rest, **named)

        judge._report = record
        return seen

    # --- statements ---

    def subset(self, chance, whole):
        if whole:
            warps = [w for w in range(T // WARP) if self.rng.random() < chance]
            return [t for t in range(T) if t // WARP in warps]
        return [t for t in range(T) if self.rng.random() < chance]

    def of_block(self, kind):
        """What one block does in a statement: threads, and for accesses and arrivals a unit or a rank for each."""
        rng = self.rng
        if kind in OWN + THERE:
            own = rng.random() < 0.6
            return ({t: t if own else rng.randrange(UNITS) for t in self.subset(rng.choice([0.3, 0.6, 1]), False)},
                    rng.randrange(self.size) if kind in THERE else None)
        if kind == "arrive":
            threads = self.subset(0.7, self.whole)
            return threads, rng.choice([None, 0, self.size - 1, rng.randrange(self.size)])
        return self.subset(rng.choice([0.6, 1, 1]), self.whole and kind in ("sync", "passed")), None

    def statement(self):
        """(kind, what each block does)."""
        kinds = [*OWN, *THERE, "read", "read_at", "read_at", "write_at", "sync", "wait", "arrive", "arrive", "phase",
                 "passed", "passed", "cluster_arrive" if self.met else "cluster_wait"]
        kind = self.rng.choice([*kinds, kinds[-1], kinds[-1]])
        first = self.of_block(kind)
        alike = self.rng.random() < 0.6
        each = [first if alike else self.of_block(kind) for _ in range(self.blocks)]
        if kind == "arrive" and any((rank is None) != (first[1] is None) for _, rank in each):
            each = [first] * self.blocks
        if kind == "arrive" and first[1] is not None and self.rng.random() < 0.4:
            each = [(threads, None) for threads, _ in each]         # by thread: to the block of its number
        return kind, each

    def touched(self, kind, each, number):
        """Thread -> place in one cluster."""
        found = {}
        for block in range(self.size):
            units, rank = each[number * self.size + block]
            found.update({(block, t): (block if rank is None else rank, u) for t, u in units.items()})
        return found

    def members(self, each, number):
        return [(block, t) for block in range(self.size) for t in each[number * self.size + block][0]]

    def faults(self, kind, each):
        return [oracle.faults(kind.removesuffix("_at"), self.touched(kind, each, n)) - oracle.dead
                for n, oracle in enumerate(self.oracles)] if kind in OWN + THERE else []

    # --- playing ---

    def play(self, line, kind, each, spread):
        for n, oracle in enumerate(self.oracles):
            if kind in OWN + THERE:
                oracle.access(line, kind.removesuffix("_at"), self.touched(kind, each, n))
            elif kind == "arrive":
                targets = {}
                for block in range(self.size):
                    threads, rank = each[n * self.size + block]
                    targets.update({(block, t): t % self.size if spread else block if rank is None else rank
                                    for t in threads})
                oracle.arrive(targets)
            elif kind == "phase":
                oracle.phase([block for block in range(self.size) if each[n * self.size + block][0]])
            elif kind.startswith("cluster"):
                getattr(oracle, kind)(oracle.threads)
            else:
                getattr(oracle, kind)(self.members(each, n))
        self.tell(line, kind, each, spread)
        self.met ^= kind.startswith("cluster")

    def tell(self, line, kind, each, spread):
        b = self.b
        mask = np.array([[t in threads for threads, _ in each] for t in range(T)])
        if kind in OWN + THERE:
            elements = np.array([[[units.get(t, 0) for units, _ in each] for t in range(T)]])
            ranks = [rank or 0 for _, rank in each]
            getattr(b, kind)(line, elements, *([ranks] if kind in THERE else []), active=mask)
        elif kind == "arrive":
            ranks = np.array([[t % self.size if spread else rank or 0 for _, rank in each] for t in range(T)])
            b.arrive(line, mask, ranks if spread or each[0][1] is not None else None)
        elif kind == "phase":
            b.phase(np.array([bool(threads) for threads, _ in each]))
        elif kind == "wait":
            b.wait(line, None, mask)
        elif kind.startswith("cluster"):
            getattr(b, kind)()
        else:
            {"sync": b.sync, "passed": b.passed}[kind](line, active=mask)

    def run(self, length):
        """(violations of the oracle, violations of the checker): first ones per unit, as (line, unit, block)."""
        everybody = [({t: t for t in range(UNITS)}, None)] * self.blocks
        self.b.init(0)
        self.play(1, "write", everybody, False)
        for line in (2, 3):
            self.play(line, "cluster_arrive" if line == 2 else "cluster_wait", everybody, False)
        for line in range(4, length):
            kind, each = self.statement()
            while any(self.faults(kind, each)) and self.rng.random() < 0.97:
                kind, each = self.statement()
            self.play(line, kind, each, kind == "arrive" and each[0][1] is None and self.rng.random() < 0.5)
        truth = [(step, unit, n * self.size + owner) for n, oracle in enumerate(self.oracles)
                 for step, (owner, unit) in oracle.violations]
        return _firsts(truth), _firsts(self.seen)


def _firsts(violations):
    first = {}
    for step, unit, block in sorted(violations):
        first.setdefault((unit, block), step)
    return {(step, unit, block) for (unit, block), step in first.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size"), [(1, 2), (1, 3), (2, 2)])
def test_verdicts_agree_where_warps_synchronise_whole(bench, clusters, size):
    told = clean = 0
    for seed in range(120 // clusters):
        program = Program(bench, seed, clusters, size, True)
        truth, seen = program.run(70)
        assert seen == truth, f"seed {seed}: the oracle has {sorted(truth)}, the checker {sorted(seen)}"
        told += len(truth)
        clean += program.blocks * UNITS - len(truth)
    assert told > 100 and clean > 100


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 3])
def test_no_false_alarm_where_barriers_split_warps(bench, limit):
    missed = told = 0
    for seed in range(100):
        program = Program(bench, seed, 1, 2, False)
        program.b.checker.clocks.limit = limit or program.b.checker.clocks.limit
        truth, seen = program.run(70)
        early = {(unit, block): step for step, unit, block in truth}
        for step, unit, block in seen:
            assert step >= early.get((unit, block), step + 1), f"seed {seed}: false alarm {step, unit, block}"
        missed += len(truth - seen)
        told += len(truth)
    assert told > 100 and (limit or missed <= told // 20)
