"""Blocks of a cluster by hand: who has heard of whom, while blocks still do the same and when they do not."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

T = 64
TID = np.arange(T)


@pytest.fixture
def pair(bench):
    """Two blocks that have met, each with a row that it has written."""
    b = bench(T, 2, T, cluster=2)
    b.init(0).cluster_sync()
    return b.write(1, TID)


def owners(b):
    return [(f.code, f.block[0]) for f in b.findings]


def test_arrivals_at_one_block_tell_the_other_nothing(pair):
    """All threads of both blocks do the same, and yet the blocks differ from then on."""
    pair.arrive(2, to=0).phase().passed(3).read_at(4, TID, [1, 0])
    assert owners(pair) == [("C1", 0)]
    assert "the write by thread 0 of block (0, 0, 0)" in pair.findings[0].message
    assert "the read by thread 0 of block (1, 0, 0)" in pair.findings[0].message


@pytest.mark.parametrize(("to", "columns", "lost"), [(TID[:, None] % 2, 1, 0), (TID[:, None] // 32, 2, T)])
def test_arrivals_at_every_block(pair, to, columns, lost):
    """Every warp at both, lane by lane: blocks stay alike.  A warp at each: half of what is read is unordered."""
    pair.arrive(2, to=to)
    assert pair.checker.clocks.columns == columns
    pair.phase().passed(3).read_at(4, TID, [1, 0])
    assert sum(finding.count for finding in pair.findings) == lost


def test_an_arrival_of_one_thread_carries_its_block_after_a_barrier(pair):
    first = np.broadcast_to(TID[:, None] == 0, (T, 2))
    pair.sync(2).arrive(3, first, to=np.array([[1, 0]])).phase().passed(4).read_at(5, TID[::-1], [1, 0])
    assert pair.codes() == []


def test_without_the_barrier_it_carries_its_warp(pair):
    first = np.broadcast_to(TID[:, None] == 0, (T, 2))
    pair.arrive(3, first, to=np.array([[1, 0]])).phase().passed(4).read_at(5, TID, [1, 0])
    found, = pair.findings
    assert (found.code, found.count) == ("C1", 2 * (T - 1))


def test_a_relaxed_barrier_orders_nothing_but_the_start(bench):
    b = bench(T, 2, T, cluster=2)
    b.cluster_sync(relaxed=True).write_at(1, TID, [1, 0])
    assert b.codes() == []
    b.cluster_sync(relaxed=True).read(2, TID)
    assert b.codes() == ["C1(1, 2)"]


def test_before_the_first_barrier_there_may_be_no_block(bench):
    b = bench(T, 2, T, cluster=2)
    b.write_at(1, TID, [1, 0])
    assert owners(b) == [("D18", 1)] and "may start after the write" in b.findings[0].message


def test_what_is_released_between_arrival_and_wait_comes_with_the_next_barrier(pair):
    pair.cluster_arrive().write(2, TID).cluster_wait().read_at(3, TID, [1, 0])
    assert pair.codes() == ["C1(2, 3)"]


def test_an_arrival_of_the_next_turn_tells_nothing_now(pair):
    """One warp is a turn ahead: who passes the barrier before has not heard of what it did in between."""
    ahead, behind = np.broadcast_to(TID[:, None] < 32, (T, 2)), np.broadcast_to(TID[:, None] >= 32, (T, 2))
    pair.cluster_arrive().cluster_wait(ahead)
    pair.write(2, TID, active=ahead).cluster_arrive(ahead).cluster_wait(behind)
    pair.read_at(3, TID - 32, [1, 0], active=behind)
    assert [f.code for f in pair.findings] == ["C1"]


def test_the_end_of_a_block(pair):
    """Reads of its memory must be known to some thread of it; which one does not matter."""
    gone = np.zeros((T, 2), np.bool_)
    pair.cluster_sync().read_at(2, TID, [1, 0])
    gone[:, 1] = TID < 63
    assert pair.exit(gone).codes() == []
    gone[:, 1] = True
    assert pair.exit(gone).codes() == ["D18(2)"]
    assert "block (1, 0, 0) may end before the read by thread 0 of block (0, 0, 0)" in pair.findings[0].message


def test_the_end_after_one_thread_has_heard(pair):
    gone = np.ones((T, 2), np.bool_)
    pair.cluster_sync().read_at(2, TID, [1, 0]).sync(3)
    pair.arrive(4, np.broadcast_to(TID[:, None] == 5, (T, 2)), to=np.array([[1, 0]])).phase()
    pair.passed(5, np.broadcast_to(TID[:, None] == 40, (T, 2))).exit(gone)
    assert pair.codes() == []


def test_units_of_other_widths(bench):
    """A read of four elements meets writes of one; a peer's wide write meets them too."""
    b = bench(T, 2, T, cluster=2)
    b.cluster_sync().write(1, TID).cluster_sync()
    b.read_at(2, 4 * (TID % 16), [1, 0], width=16).cluster_sync()
    b.write_at(3, 4 * TID, [1, 0], active=range(16), width=16)
    assert b.codes() == []
    b.read(4, TID)
    assert b.codes() == ["C1(3, 4)"]


def test_groups_that_split_keep_what_they_have_heard(pair):
    """Half a warp learns of a third write; the other half has not."""
    half = np.broadcast_to((TID[:, None] < 16), (T, 2))
    pair.cluster_sync().write(2, TID).sync(3)
    pair.arrive(4, np.broadcast_to(TID[:, None] == 0, (T, 2)), to=np.array([[1, 0]])).phase().passed(5, half)
    pair.read_at(6, TID, [1, 0], active=half)
    assert pair.codes() == []
    pair.read_at(7, TID, [1, 0], active=np.broadcast_to((TID[:, None] >= 16) & (TID[:, None] < 32), (T, 2)))
    assert pair.codes() == ["D19(2, 7)"]


def test_cp_async_of_the_owner(pair):
    """A copy that nobody has waited for, and one that was waited for with a barrier of the cluster behind it."""
    pair.cluster_sync().copy(2, TID).cluster_sync().read_at(3, TID, [1, 0])
    assert pair.codes() == ["D1(2, 3)"]
    pair.wait(4).cluster_sync().read_at(5, TID, [1, 0])
    assert pair.codes() == ["D1(2, 3)"]


def test_atomics_of_the_owner(pair):
    pair.cluster_sync().atomic(2, TID).write_at(3, TID, [1, 0])
    assert [code.partition("(")[0] for code in pair.codes()] == ["C1"]


@mo.kernel
def passed_round(out, x, steps: mo.Constexpr, together: mo.Constexpr):
    """Each block of the cluster passes on what it has got, into the buffer that the next one may still be sending."""
    tid, rank, n = mo.thread_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    buf, full = mo.shared_array(mo.float32, (64, 2)), mo.mbarrier_array(2)
    if tid == 0:
        for b in mo.static_range(2):
            mo.mbarrier_init(full, b, 1)
        mo.fence_mbarrier_init()
    buf[tid, 0] = x[rank * 64 + tid]
    mo.fence_proxy_async()
    mo.cluster_sync()
    for k in mo.static_range(steps):
        b = k % 2
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 1 - b, 256)
            mo.copyto(mo.BulkCopy(), mo.map_shared_rank(buf, (rank + 1) % n)[:, 1 - b], buf[:, b],
                      barrier=(full, 1 - b))
        mo.mbarrier_wait(full, 1 - b, k // 2 % 2)
        if together:
            mo.cluster_sync()
    out[rank * 64 + tid] = buf[tid, steps % 2]
    mo.cluster_sync()


def test_a_buffer_that_its_block_may_still_be_sending():
    x = np.arange(256, dtype=np.float32)
    out = np.zeros_like(x)
    assert mo.check(passed_round).launch(out, x, 3, True, grid=4, block=64, cluster=4).ok
    assert np.array_equal(out, np.roll(x, 192))
    report = mo.check(passed_round).launch(out, x, 3, False, grid=4, block=64, cluster=4)
    found, = (finding for finding in report.findings if finding.code == "D15")
    assert "while the copy at line" in found.message
    assert "that completes on full(1) of the block of rank" in found.message
    assert "mbarrier_wait in the block that receives" in found.hint
