"""Which order a seed stands for."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.sim.machine.schedules import Schedule


def test_seed_1_takes_the_blocks_backwards():
    assert Schedule(0, 6, 1).positions(0, 6).tolist() == [0, 1, 2, 3, 4, 5]
    assert Schedule(1, 6, 1).positions(0, 6).tolist() == [5, 4, 3, 2, 1, 0]
    assert Schedule(1, 6, 2).positions(0, 6).tolist() == [4, 5, 2, 3, 0, 1], "blocks of a cluster stay neighbours"
    assert Schedule(1, 6, 1, resident=False).positions(0, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_who_polls_late_looks_last():
    assert [Schedule(seed, 6, 1).late for seed in range(4)] == [False, True, False, True]
    assert Schedule(0, 3, 1).turns("abc") == ["a", "b", "c"] and Schedule(1, 3, 1).turns("abc") == ["c", "b", "a"]
    assert not any(Schedule(3, 3, 1).wakes() for _ in range(20)) and Schedule(0, 3, 1).wakes()


@mo.kernel
def everybody_waits(out, count):
    """A barrier of all blocks, each of which fills a multiprocessor."""
    big = mo.shared_array(mo.float32, 50000)
    block, blocks = mo.block_idx().x, mo.grid_dim().x
    if mo.thread_idx().x == 0:
        big[0] = 1
        mo.atomic_add(count, 0, 1, order="release")
        while mo.load(count, 0) < blocks:
            pass
        out[block] = big[0]


def test_one_batch_holds_no_more_blocks_than_are_resident():
    def codes(blocks):
        report = mo.check(everybody_waits, schedules=1, lints=False)[blocks, 32](np.zeros(blocks, np.float32),
                                                                               np.zeros(1, np.int32))
        return [finding.code for finding in report.findings]

    assert codes(140) == ["G4"] and codes(20) == []


def test_much_synchronisation_runs_in_one_schedule(monkeypatch):
    report = mo.check(everybody_waits, lints=False)[5, 32](np.zeros(5, np.float32), np.zeros(1, np.int32))
    assert report.schedules == 4
    monkeypatch.setattr("moye.sim.machine.machine.DEAR", 10)
    report = mo.check(everybody_waits, lints=False)[5, 32](np.zeros(5, np.float32), np.zeros(1, np.int32))
    assert report.ok and report.schedules == 1


@mo.kernel
def locked(c, lock):
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0)


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES", 1), ("DEAR", 0)])
def test_what_is_too_much_to_run_without_locks_is_told(monkeypatch, limit, value):
    def run():
        return mo.check(locked, lints=False, schedules=1)[3, 32](np.zeros(1, np.int32), np.zeros(1, np.int32))

    assert run().ok and "not judged" not in str(run())
    monkeypatch.setattr(f"moye.sim.machine.machine.{limit}", value)
    assert run().ok and "races hidden by who took a lock first" in str(run())


@mo.kernel
def numbered(out, ticket, number, order: mo.Constexpr):
    """Blocks draw a number, then a ticket; who has the last ticket sets both back."""
    bx = mo.block_idx().x
    out[bx] = mo.atomic_add(number, 0, 1)
    if mo.atomic_add(ticket, 0, 1, order=order) == mo.grid_dim().x - 1:
        number[0] = 0
        ticket[0] = 0


@mo.kernel
def numbered_warps(out, order: mo.Constexpr):
    """The same of the warps of a block, in shared memory."""
    tid, number, ticket = mo.thread_idx().x, mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        number[0] = ticket[0] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        out[tid // 32] = mo.atomic_add(number, 0, 1)
        if mo.atomic_add(ticket, 0, 1, order=order, scope="cta") == 3:
            number[0] = 0


@pytest.mark.parametrize(("order", "found"), [("acq_rel", []), ("relaxed", ["C1"])])
def test_neither_need_a_warp_be(order, found):
    report = mo.check(numbered_warps, lints=False)[1, 128](np.zeros(4, np.int32), order)
    assert [finding.code for finding in report.findings] == found, str(report)


@pytest.mark.parametrize("grid", [2, 3, 8])
@pytest.mark.parametrize(("order", "found"), [("acq_rel", []), ("relaxed", ["G3"])])
def test_who_is_last_at_one_counter_need_not_be_at_another(grid, order, found):
    arrays = [np.zeros(n, np.int32) for n in (grid, 1, 1)]
    report = mo.check(numbered, lints=False)[grid, 1](*arrays, order)
    assert [finding.code for finding in report.findings] == found, str(report)
