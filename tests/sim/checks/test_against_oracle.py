"""Random programs: the checker's verdict on every access against a brute-force happens-before oracle.

The oracle keeps a full vector clock per thread and every access to every unit; the checker keeps groups of threads
and two records.  After the first violation on a unit both stop looking at it.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

T, WARP, UNITS = 6, 2, 5
ACCESSES = ("read", "write", "copy", "atomic")


class Oracle:
    """One block."""

    def __init__(self):
        self.clock = [[int(t == u) for u in range(T)] for t in range(T)]
        self.accesses = {u: [] for u in range(UNITS)}   # [thread, clock or None while in flight, kind, group]
        self.written, self.dead, self.named = set(), set(), {}
        self.committed, self.violations = [0] * T, set()

    def ordered(self, access, thread):
        return access[1] is not None and (access[0] == thread or access[1] <= self.clock[thread][access[0]])

    def faults(self, kind, units):
        """The units where an access would be a violation; ``units``: thread -> unit."""
        found = set()
        for thread, unit in units.items():
            if any(_conflict(before[2], kind) and not self.ordered(before, thread) for before in self.accesses[unit]):
                found.add(unit)
            if kind in ("read", "atomic") and unit not in self.written:
                found.add(unit)
            if kind in ("write", "copy") and any(u == unit and t != thread for t, u in units.items()):
                found.add(unit)
        return found

    def access(self, step, kind, units):
        self.violations |= {(step, unit) for unit in self.faults(kind, units)}
        self.dead = {unit for _, unit in self.violations}
        for thread, unit in units.items():
            now = None if kind == "copy" else self.clock[thread][thread]
            self.accesses[unit].append([thread, now, kind, self.committed[thread]])
            if kind in ("write", "copy"):
                self.written.add(unit)

    def commit(self, threads):
        for t in threads:
            self.committed[t] += 1

    def wait(self, threads, pending):
        if pending is None:
            self.commit(threads)
        for access in (a for accesses in self.accesses.values() for a in accesses):
            t = access[0]
            if t in threads and access[1] is None and access[3] < self.committed[t] - (pending or 0):
                access[1] = self.clock[t][t]

    def release(self, threads):
        joined = [max((self.clock[t][u] for t in threads), default=0) for u in range(T)]
        for t in threads:
            self.clock[t][t] += 1
        return joined

    def acquire(self, threads, joined):
        for t in threads:
            self.clock[t] = [max(mine, theirs) for mine, theirs in zip(self.clock[t], joined, strict=True)]

    def sync(self, threads):
        self.acquire(threads, self.release(threads))

    def named_barrier(self, key, arrived, released):
        joined = [max(pair) for pair in zip(self.release(arrived), self.named.get(key, [0] * T), strict=True)]
        self.acquire(released, joined)
        self.named[key] = [0] * T if released else joined


def _conflict(a, b):
    return "write" in (a, b) or "copy" in (a, b) or (a != b and "atomic" in (a, b))


def _subset(rng, whole_warps, chance=0.6):
    if whole_warps:
        warps = [w for w in range(T // WARP) if rng.random() < chance]
        return [t for t in range(T) if t // WARP in warps]
    return [t for t in range(T) if rng.random() < chance]


def _step(rng, whole_warps):
    """One random statement of one block: (kind, arguments)."""
    kind = rng.choice(["read", "read", "read", "write", "write", "copy", "atomic", "sync", "sync", "warp", "named",
                       "commit", "wait", "wait"])
    if kind in ACCESSES:
        threads = _subset(rng, False, rng.choice([0.2, 0.5, 1]))
        own = rng.random() < 0.5
        return kind, {t: t % UNITS if own else rng.randrange(UNITS) for t in threads}
    if kind == "sync":
        return kind, _subset(rng, whole_warps, rng.choice([0.5, 1, 1]))
    if kind == "named":
        arrived = _subset(rng, whole_warps)
        return kind, (rng.randrange(2), arrived, [t for t in arrived if t // WARP != rng.randrange(3)]
                      if not whole_warps else [t for t in arrived if t // WARP])
    if kind == "wait":
        return kind, (_subset(rng, False, 0.8), rng.choice([None, 0, 1, 2]))
    return kind, _subset(rng, kind == "warp" and whole_warps, 0.8)


def _play_oracle(oracle, number, step):
    kind, what = step
    if kind in ACCESSES:
        oracle.access(number, kind, what)
    elif kind == "warp":
        for warp in range(T // WARP):
            oracle.sync([t for t in what if t // WARP == warp])
    elif kind == "named":
        oracle.named_barrier(*what)
    elif kind == "wait":
        oracle.wait(*what)
    else:
        getattr(oracle, kind)(what)


def _mask(sets):
    return np.array([[t in threads for threads in sets] for t in range(T)])


def _play_checker(b, number, steps):
    """``steps``: one of each block, all of one kind."""
    kind, whats = steps[0][0], [what for _, what in steps]
    if kind in ACCESSES:
        elements = np.array([[[what.get(t, 0) for what in whats] for t in range(T)]])
        getattr(b, kind)(number, elements, active=_mask(whats))
    elif kind == "named":
        b.named(number, whats[0][0], _mask([w[1] for w in whats]), _mask([w[2] for w in whats]))
    elif kind == "wait":
        b.wait(number, whats[0][1], _mask([w[0] for w in whats]))
    else:
        {"warp": b.warp_sync, "sync": b.sync, "commit": b.commit}[kind](number, active=_mask(whats))


def _variants(rng, blocks, whole_warps):
    """One statement of every block; blocks agree on its kind and on what a launch has in common."""
    variants = [_step(rng, whole_warps)]
    alike = rng.random() < 0.5
    while len(variants) < blocks:
        other = variants[0] if alike else _step(rng, whole_warps)
        if other[0] == variants[0][0]:
            if other[0] == "wait":
                other = "wait", (other[1][0], variants[0][1][1])
            if other[0] == "named":
                other = "named", (variants[0][1][0], *other[1][1:])
            variants.append(other)
    return variants


def _harmless(oracles, variants):
    return variants[0][0] not in ACCESSES or all(oracle.faults(*step) <= oracle.dead
                                                 for oracle, step in zip(oracles, variants, strict=True))


def _program(rng, oracles, whole_warps, length):
    """(line, variants), and the oracles follow: seldom a step that is a violation, or programs would end early."""
    blocks = len(oracles)
    start = [("write", {t: t for t in range(UNITS)}), ("sync", list(range(T)))]
    for line in range(1, length + 1):
        variants = [start[line - 1]] * blocks if line <= 2 else _variants(rng, blocks, whole_warps)
        while not _harmless(oracles, variants) and rng.random() < 0.97:
            variants = _variants(rng, blocks, whole_warps)
        for oracle, step in zip(oracles, variants, strict=True):
            _play_oracle(oracle, line, step)
        yield line, variants


def _record_all(b, blocks):
    """The list that every clash of the bench goes into, as (line, unit, block)."""
    seen = []
    report = b.checker.judge._report

    def record(shadow, op, clashes, *rest):
        for unit, block in zip(clashes.unit.tolist(), clashes.block.tolist(), strict=True):
            uniform = b.checker.clocks.columns == 1
            seen.extend((op.loc.line, unit, at) for at in (range(blocks) if uniform else [block]))
        report(shadow, op, clashes, *rest)

    b.checker.judge._report = record
    return seen


def _compare(bench, seed, blocks, whole_warps, limit=None, length=80):
    """(violations of the oracle, violations of the checker): first ones per unit, as (line, unit, block)."""
    b = bench(T, blocks, UNITS, warp=WARP)
    b.checker.clocks.limit = limit or b.checker.clocks.limit
    seen = _record_all(b, blocks)
    oracles = [Oracle() for _ in range(blocks)]
    for line, variants in _program(random.Random(seed), oracles, whole_warps, length):
        _play_checker(b, line, variants)
    truth = [(step, unit, block) for block, oracle in enumerate(oracles) for step, unit in oracle.violations]
    return _firsts(truth), _firsts(seen)


def _firsts(violations):
    first = {}
    for step, unit, block in sorted(violations):
        first.setdefault((unit, block), step)
    return {(step, unit, block) for (unit, block), step in first.items()}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_verdicts_agree_where_warps_synchronise_whole(bench, blocks):
    told = clean = 0
    for seed in range(150 // blocks):
        truth, seen = _compare(bench, seed, blocks, True)
        assert seen == truth, f"seed {seed}: the oracle has {sorted(truth)}, the checker {sorted(seen)}"
        told += len(truth)
        clean += blocks * UNITS - len(truth)
    assert told > 100 and clean > 100


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "limit"), [(1, None), (3, None), (1, 4), (3, 5)])
def test_no_false_alarm_where_barriers_split_warps(bench, blocks, limit):
    missed = told = 0
    for seed in range(150 // blocks):
        truth, seen = _compare(bench, seed, blocks, False, limit)
        early = {(unit, block): step for step, unit, block in truth}
        for step, unit, block in seen:
            assert step >= early.get((unit, block), step + 1), f"seed {seed}: false alarm {step, unit, block}"
        missed += len(truth - seen)
        told += len(truth)
    assert told > 100 and (limit or missed <= told // 50)

