"""The simulator: runs a Func over a grid, in batches of blocks.

In: a Func, its arguments (``TensorArg`` or numbers), the grid.  Out: changed memory, and an ``Outcome`` with findings.

    simulate(func, [TensorArg(a, 0, (8,), (1,), "A")], (1, 1, 1), check=True).findings      # []

A kernel's faults never raise: they are findings, and ``Hooks(stop_on_first=True)`` stops at the first.  Batches run one
after the other, unless blocks poll memory: then further blocks are admitted, as many as a device would hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Func
from moye.sim.checks.answers import EARLY, Case, chances
from moye.sim.checks.dependent_launches import Dependence, Prior
from moye.sim.checks.locks import RACES, Locks, by_luck
from moye.sim.checks.stale import Again, Stale
from moye.sim.costs.meter import Meter
from moye.sim.flow.apart import Turn, lanes_take_turns, several_turns
from moye.sim.flow.double_looks import twices
from moye.sim.generate.program import Program, program_of
from moye.sim.machine.batch import Batch
from moye.sim.machine.launch import Argument, Finding, Hooks, Launch, Outcome, Reporter, resident_blocks
from moye.sim.machine.schedules import CROSSED, DEAR, IN_TURN, LATE_AND_LAST, MOST_BLOCKS, MOST_BYTES, SEVERAL, Rewind
from moye.sim.machine.standstill import Standstill
from moye.sim.machine.stops import StopSimulation, crowded, stuck
from moye.sim.timeline.tape import Tape
from moye.sim.values.memory import TensorArg

__all__ = ["Finding", "Hooks", "Outcome", "TensorArg", "simulate"]

LANES = 16_384
"""Threads times blocks of a batch: a 32-bit register is 64 KB then."""
BATCH_BYTES = 256 << 20


def simulate(func: Func, arguments: Sequence[Argument], grid: tuple[int, int, int], *, check: bool,
             hooks: Hooks | None = None) -> Outcome:
    """Run every block of the grid, or those of ``hooks.sample``; ``arguments`` are parallel to ``func.params``."""
    hooks = hooks or Hooks()
    reporter = Reporter(func, hooks.stop_on_first, hooks.codes)
    reporter.strict = hooks.strict
    launch = Launch(func, arguments, grid, check, hooks, reporter)
    if check and hooks.lints:
        launch.meter = Meter(func)
    again = Again(func, arguments, lambda buffer: launch.memory(buffer, buffer.dtype)) if check else None
    if again is not None:
        launch.watch(again.stale, again.bytes)
        launch.dependence = Dependence(func, hooks.prior)
    program = program_of(func, check=check, record=bool(hooks.record))
    if program.statements is not None:
        launch.tape = Tape(program.statements, grid, hooks.record)
    others = _Others(launch, [argument for _, argument in again.outputs]) if again is not None else None
    prior: tuple[Prior, ...] = ()
    try:
        with np.errstate(all="ignore"):
            _run(program, launch)
            if check:
                launch.globals.conflicts.tell()         # of batches that never came to their end
            if launch.dependence is not None:
                prior = launch.dependence.left(launch.globals, arguments)
            if again is not None and launch.done == launch.total:
                again.judge(lambda stale: _repeat(program_of(func, check=True), launch, stale), reporter)
            if others is not None and launch.done == launch.total:
                others.run(program_of(func, check=True), again.bytes if again is not None else 0)
                others.without_locks(program_of(func, check=True), again.bytes if again is not None else 0)
                for case in others.chances:
                    others.by_chance(program_of(func, check=True), again.bytes if again is not None else 0, case)
    except StopSimulation:
        pass
    outcome = Outcome(sorted(reporter.findings, key=_of_lanes), launch.printed, launch.inspections, launch.done,
                      launch.steps, reporter, launch.tape, launch.unsupported, launch.meter, prior=prior)
    if again is not None:
        outcome.unsupported += [*launch.globals.unsupported, *again.unsupported]
        outcome.not_judged = [*launch.globals.plan.not_judged,
                              *(launch.dependence.not_judged if launch.dependence is not None else ())]
    if others is not None and others.signals:
        outcome.schedules = others.seen
    return outcome


class _Others:
    """The further schedules of a launch, one after the other until one shows a violation."""

    def __init__(self, launch: Launch, outputs: Sequence[TensorArg]) -> None:
        self.launch, self.seen = launch, 1
        counters = launch.globals.traffic.counters(launch.func)
        self.signals = (launch.globals.crossing and launch.total > 1) or counters or bool(launch.globals.traffic.polled)
        """Whether blocks, or threads that poll, may behave differently in another schedule."""
        usual = SEVERAL + bool(launch.globals.traffic.polled)
        if counters:
            usual = CROSSED + 1
        if self.signals and _in_turn(launch.func):
            usual = IN_TURN + 1
        if twices(launch.func):
            usual = max(usual, LATE_AND_LAST + 1)
        if launch.total > MOST_BLOCKS or sum(a.memory.nbytes for a in outputs) > MOST_BYTES:
            usual = 1
        self.wanted = (launch.hooks.schedules or usual) if self.signals else 1
        fits = sum(a.memory.nbytes for a in outputs) <= MOST_BYTES
        self.locks = launch.globals.locks
        if self.locks is not None and not fits:
            self.locks = None
            self._left_out()
        tries = launch.globals.traffic.tries(launch.func)
        self.apart: Turn | None = "first" if tries and several_turns(launch.func) else \
            "lanes" if tries and lanes_take_turns(launch.func) else None
        """Warps of one block, blocks of a cluster, or lanes try for something at once: one of them gets it then."""
        if self.apart is not None and usual > 1 and launch.hooks.schedules is None:
            self.signals, self.wanted = True, self.wanted + 1
        self.inside = several_turns(launch.func)
        """Whether warps, or blocks of a cluster, would always be in step."""
        self.chances = chances(launch.func, launch.globals.traffic)
        if self.chances and not fits:
            left = launch.globals.plan.not_judged
            if "older" in self.chances:
                left.append("what happens where loads miss stores: it is too much to run the kernel again")
            if self.chances != ("older",):
                left.append("what happens where mbarrier_try_wait is false, or elect() chooses another lane: it is too "
                            "much to run the kernel again")
            self.chances = ()
        self.rewind = Rewind(outputs) if self.wanted > 1 or self.locks is not None or self.chances else None

    def run(self, program: Program, spent: int) -> None:
        """Run them; the outputs stay those of the first."""
        dear = self.launch.hooks.schedules is None and self.launch.globals.between.steps > DEAR
        if self.rewind is None or dear or self.launch.reporter.findings or self.wanted < 2:
            return
        self.rewind.keep()
        try:
            while self.seen < self.wanted and not self.launch.reporter.findings:
                self.rewind.back()
                last = self.launch.hooks.schedules is None and self.seen == self.wanted - 1
                seed = self.launch.hooks.seed + self.seen
                turn: Turn | None = self.apart if last else None
                if turn is None and self.inside and seed % 2:
                    turn = "last" if seed % 4 == 1 else "first"
                self._one(program, seed, spent, apart=turn)
                self.seen += 1
        finally:
            self.rewind.restore()

    def _left_out(self) -> None:
        """It is too much to run without the order of locks and lucky looks."""
        self.launch.globals.plan.not_judged.append(
            "races hidden by who took a lock first, or by looks at flags that happened to find them: it is too much to "
            "run the kernel again")

    def without_locks(self, program: Program, spent: int) -> None:
        """Run once more, with locks that order nothing: what they do not guard is a race, whoever took them first."""
        first = self.launch
        if self.rewind is None or self.locks is None or first.reporter.findings:
            return
        if first.globals.between.steps > DEAR:
            self._left_out()
            return
        judged = RACES | {"F4"}
        reporter = Reporter(first.func, False, judged & (judged if first.hooks.codes is None else first.hooks.codes))
        reporter.strict = first.hooks.strict
        # Of threads that try for a lock at once one gets it: where blocks, and their warps, come one after the other,
        # all of them do.  And of the accesses of a thread to one place the last is remembered: what it did there
        # without the lock, and then again with it, is compared where it comes after the others.
        other: Turn = "lanes" if self.apart == "lanes" else "last"
        turns: list[Turn | None] = [None, other] if self.locks.free else [None]
        self.rewind.keep()
        try:
            for number, turn in enumerate(turns):
                self.rewind.back()
                self._one(program, first.hooks.seed + number, spent, reporter, self.locks, apart=turn)
        finally:
            self.rewind.restore()
        for finding in reporter.findings:
            first.reporter.add(by_luck(finding) if finding.code in RACES else finding)

    def by_chance(self, program: Program, spent: int, case: Case) -> None:
        """Run once more, with mbarrier_try_wait false where it may be: whoever does not heed it has not waited.  Or
        with it true: whoever takes that for an answer about another phase has not waited either.  Or with elect()
        choosing another lane: whoever takes it for the first waits for what others have issued.  Or with loads that
        find the oldest values: whoever counts on a store that nothing orders before may miss it."""
        first = self.launch
        if self.rewind is None or first.reporter.findings:
            return
        if case == "older" and (first.total > MOST_BLOCKS or first.globals.between.steps > DEAR):
            return
        reporter = Reporter(first.func, False, first.hooks.codes)
        reporter.strict = first.hooks.strict
        # Of fences by fence.sc the first one to run tells the others: once in each order.
        turns = 2 if case == "older" and _in_turn(first.func) else 1
        ways: tuple[Turn | None, ...] = ("first", "last") if case in EARLY and self.inside else (None,)
        self.rewind.keep()
        try:
            for seed, apart in product(range(first.hooks.seed, first.hooks.seed + turns), ways):
                self.rewind.back()
                self._one(program, seed, spent, reporter, case=case, apart=apart)
        except StopSimulation:                          # it is among the findings
            pass
        finally:
            self.rewind.restore()
        for finding in reporter.findings:
            first.reporter.add(finding.reworded(case, case))

    def _one(self, program: Program, seed: int, spent: int, reporter: Reporter | None = None,
             locks: Locks | None = None, *, case: Case | None = None, apart: Turn | None = None) -> None:
        first = self.launch
        first.globals.forget()
        hooks = replace(first.hooks, progress=None, printer=None, inspect=None, record=(), probe=None, seed=seed,
                        chance=case, apart=apart)
        if case in EARLY:
            hooks = replace(hooks, asynchronous="earliest")
        launch = Launch(first.func, first.arguments, first.grid, True, hooks, reporter or first.reporter)
        launch.watch(Stale(Func("", [], Block(), (1, 1, 1))), spent)
        if locks is not None:
            launch.globals.hold(locks)
        if case == "older":
            launch.globals.look_back()
        _run(program, launch)
        launch.globals.conflicts.tell()
        self._compare(launch, locks)
        first.unsupported += [text for text in (*launch.unsupported, *launch.globals.unsupported)
                              if text not in (*first.unsupported, *first.globals.unsupported)]

    def _compare(self, launch: Launch, locks: Locks | None) -> None:
        """Look at what a schedule has computed, if it broke no rule: locks that order nothing may spoil it."""
        hooks = launch.hooks
        if hooks.compare is None or locks is not None or launch.done < launch.total or launch.reporter.findings:
            return
        for finding in hooks.compare():
            launch.reporter.add(finding.reworded("order", "order") if hooks.chance is None else finding)


def _in_turn(func: Func) -> bool:
    """Whether there is a fence.sc."""
    return any(getattr(op, "order", None) == "seq_cst" for op in func.body.walk())


def _of_lanes(finding: Finding) -> bool:
    """The order of a report: what a barrier of the block mends stands before what only the lanes of a warp miss.

    Where both are missing, one sync_threads() mends both, and the hint to write sync_warp() would be the wrong one.
    """
    return finding.code == "C3"


def _repeat(program: Program, launch: Launch, stale: Stale) -> None:
    """The launch once more, unheard, with other values where ``stale`` says so."""
    launch.globals.forget()
    hooks = replace(launch.hooks, progress=None, stop_on_first=False, printer=None, inspect=None, record=())
    second = Launch(launch.func, launch.arguments, launch.grid, True, hooks, Reporter(launch.func, False, frozenset()))
    second.watch(stale, None)
    _run(program, second)


def blocks_per_batch(func: Func, total: int) -> int:
    """So many that registers stay in cache, evenly spread over the batches."""
    registers = sum(b.bytes for b in func.buffers if b.space is Space.REGISTER)
    shared = sum(b.bytes for b in func.shared_buffers)
    each = func.threads * registers + shared
    most = max(1, min(LANES // func.threads, 512, BATCH_BYTES // max(each, 1)))
    batches = -(-total // most)
    cluster = math.prod(func.cluster_dim)               # its blocks run together
    return -(-total // (batches * cluster)) * cluster


class _Queue:
    """Blocks that have not started, and batches whose memory can be used again."""

    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.total, cluster = launch.total, math.prod(program.func.cluster_dim)
        self.size = -(-(launch.hooks.blocks or 0) // cluster) * cluster or \
            launch.schedule.size(blocks_per_batch(program.func, max(self.total, 1)))
        self.limit = launch.hooks.resident or resident_blocks(program.func, launch.hooks.hardware)
        self.size = min(self.size, max(cluster, self.limit // cluster * cluster))
        if ops.is_cooperative(program.func):
            self.size = self.total                      # blocks that meet run together
        self.next = 0
        self.free: list[Batch] = []

    def admit(self) -> Batch:
        count = min(self.size, self.total - self.next)
        first, self.next = self.next, self.next + count
        for batch in self.free:
            if batch.blocks == count:
                self.free.remove(batch)
                batch.restart(first)
                return batch
        return Batch(self.program, self.launch, first, count)

    def finished(self, batch: Batch) -> None:
        self.free = [batch]
        if self.launch.hooks.progress is not None:
            self.launch.hooks.progress(self.launch.done, self.total)


def _run(program: Program, launch: Launch) -> None:
    queue = _Queue(program, launch)
    if ops.is_cooperative(program.func) and crowded(launch, queue.limit):
        return
    polling: list[Batch] = []
    idle, lonely, rounds = 0, 0, Standstill(launch)
    while queue.next < queue.total or polling:
        before, moves = (launch.writes, launch.done, queue.next), launch.moves
        resident = sum(batch.blocks for batch in polling)
        if queue.next < queue.total and (not polling or resident + queue.size <= queue.limit):
            polling.append(queue.admit())
            _turn(polling, queue, [polling[-1]], fresh=True)
        if polling:
            _turn(polling, queue, launch.schedule.turns(polling), fresh=False)
        lonely = 0 if before != (launch.writes, launch.done, queue.next) else lonely + 1
        idle = 0 if not lonely or launch.moves != moves else idle + 1
        if idle > launch.hooks.spins or lonely * len(polling) > launch.hooks.steps:
            stuck(polling, launch, queue.next, queue.total)
            return
        if polling and rounds.look(polling, launch.done, queue.next):
            stuck(polling, launch, queue.next, queue.total, 0 if rounds.idle else rounds.looks)
            return


def _turn(polling: list[Batch], queue: _Queue, batches: list[Batch], *, fresh: bool) -> None:
    for batch in batches:
        if (batch.run() if fresh else batch.resume()) == "done":
            polling.remove(batch)
            queue.finished(batch)
