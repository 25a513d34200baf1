"""Masks, widths, warps, blocks that differ, atomics."""

from __future__ import annotations

import numpy as np
import pytest

T = 64
TID = np.arange(T)


def test_reads_by_everybody_do_not_race(bench):
    b = bench(T)
    b.write(1, TID).sync()
    for line in range(2, 6):
        b.read(line, TID // 8)
    assert b.codes() == []


def test_program_order_of_one_thread_needs_no_barrier(bench):
    b = bench(T)
    b.write(1, TID).read(2, TID).write(3, TID).copy(4, TID).wait(5).read(6, TID).write(7, TID)
    assert b.codes() == []


def test_inactive_threads_touch_nothing(bench):
    b = bench(T)
    b.write(1, TID, active=range(0)).write(2, np.zeros(T, int), active=[5]).sync()
    b.read(3, np.where(TID < 8, 0, 10**6), active=range(8))
    assert b.codes() == []


def test_barrier_without_exited_threads_orders_the_others(bench):
    b = bench(T)
    alive = range(40)
    b.write(1, TID, active=alive).sync(active=alive).read(2, (TID + 1) % 40, active=alive)
    assert b.codes() == []


def test_barrier_does_not_order_who_is_not_there(bench):
    b = bench(T)
    b.write(1, TID).sync(active=range(40)).read(2, (TID + 1) % 40, active=range(40))
    assert b.codes() == []
    b.read(3, TID - 1, active=range(41, 64))
    assert b.codes() == ["C3(1, 3)"]


def test_sync_warp_of_half_a_warp(bench):
    b = bench(T)
    low, high = 0xFFFF, 0xFFFF0000
    b.write(1, TID).warp_sync(lanes=low).warp_sync(lanes=high)
    b.read(2, TID ^ 1)
    assert b.codes() == []
    b.read(3, TID ^ 16)
    assert b.codes() == ["C3(1, 3)"]


def test_sync_warp_does_not_order_warps(bench):
    b = bench(T)
    b.write(1, TID).warp_sync().read(2, TID ^ 32)
    assert b.codes() == ["C1(1, 2)"]


def test_order_is_transitive(bench):
    b = bench(96)
    tid = np.arange(96)
    b.write(1, tid, active=range(32)).sync(active=range(64)).sync(active=range(32, 96))
    b.read(2, tid - 64, active=range(64, 96))
    assert b.codes() == []


@pytest.mark.parametrize("synced", [True, False])
def test_wide_writes_and_narrow_reads(bench, synced):
    b = bench(T)
    b.write(1, 4 * TID, width=16)
    if synced:
        b.sync()
    b.read(2, np.stack([(4 * TID + 7 * v) % 256 for v in range(4)]))
    b.read(3, 2 * TID, width=8)
    assert b.codes() == ([] if synced else ["C1(1, 2)", "C1(1, 3)"])


def test_mixed_widths_down_to_bytes_keep_what_is_known(bench):
    b = bench(T)
    b.copy(1, 2 * TID, width=8).wait(2).read(3, 2 * TID, width=8)
    b.write_bytes(4, TID * 8 + 1, 1)
    assert b.codes() == []
    b.read(5, 2 * ((TID + 32) % T))
    assert b.codes() == ["D3(1, 5)", "C1(4, 5)"]
    assert b.findings[0].coordinate == b.findings[1].coordinate == (0,)


def test_an_access_that_straddles_the_units_so_far(bench):
    b = bench(T)
    b.write_bytes(1, TID * 4, 4).sync().write_bytes(1, TID * 4 + 2, 4).sync().write_bytes(1, TID * 4, 4)
    assert b.codes() == []
    b.write_bytes(1, TID * 4 + 2, 4)
    assert b.codes() == ["C1(1, 1)"]


def test_readers_of_one_warp_are_told_apart(bench):
    b = bench(T)
    b.write(1, TID).sync().read(2, TID * 0, active=[0]).read(3, TID * 0, active=[1]).write(4, TID * 0, active=[1])
    assert b.codes() == ["C3(4, 2)"]


def test_records_follow_their_threads_when_groups_are_split_twice_at_once(bench):
    b = bench(T, 2)
    b.write(1, TID).sync().read(2, TID * 0, active=[31])
    b.sync(active=np.stack([TID < 16, (TID >= 8) & (TID < 24)], axis=1))
    b.sync(active=range(24, T)).write(3, TID * 0, active=[40])
    assert b.codes() == []
    b.write(4, TID * 0, active=[3])                     # after neither that write nor lane 31's read
    assert b.codes() == ["C1(3, 4)", "C3(4, 2)"]


def test_a_unit_that_only_neighbours_touch_is_not_shared(bench):
    b = bench(T)
    b.write(1, 2 * TID).read(2, 2 * TID).write(3, 2 * TID + 1)
    assert b.codes() == []


def test_stages_share_a_footprint(bench):
    b = bench(T, 1, 4 * T)
    for stage in (0, 1, 2, 3, 1, 0):
        b.write(1, TID + stage * T).sync().read(2, (TID + 5) % T + stage * T).sync()
    assert b.codes() == []
    assert {len(v) for v in b.checker.shadows[b.sA.id].cache._variants.values()} == {1}
    b.write(1, TID + 2 * T).read(2, (TID + 32) % T + 2 * T)
    assert b.codes() == ["C1(1, 2)"] and b.findings[0].coordinate == (2 * T,)


def test_only_the_block_at_fault_is_named(bench):
    b = bench(T, 4)
    mask = np.ones((T, 1), bool) & np.array([True, True, False, True])
    b.write(1, TID).sync(active=mask).read(2, TID ^ 32)
    (finding,) = b.findings
    assert (finding.code, finding.block) == ("C1", (2, 0, 0))


def test_addresses_that_differ_between_blocks(bench):
    b = bench(T, 3)
    shift = np.array([1, 2, 0])
    elements = (TID[None, :, None] + shift) % T
    b.write(1, TID).read(2, elements, active=np.ones((T, 1), bool) & np.array([False, False, True]))
    assert b.codes() == []
    b.read(3, elements)
    assert {f.block for f in b.findings} <= {(0, 0, 0), (1, 0, 0)} and b.codes() == ["C1(1, 3)"]


def test_blocks_that_agree_are_checked_once(bench):
    b = bench(T, 3)
    b.write(1, np.repeat(TID[None, :, None], 3, axis=2), active=np.ones((T, 3), bool)).sync().read(2, TID ^ 32)
    assert b.codes() == [] and b.checker.clocks.columns == 1


def test_wait_of_one_block_is_not_a_wait_of_another(bench):
    b = bench(T, 2)
    b.copy(1, TID).wait(2, active=np.ones((T, 1), bool) & np.array([True, False])).sync().read(3, TID ^ 32)
    (finding,) = b.findings
    assert (finding.code, finding.block) == ("D1", (1, 0, 0))


def test_atomics_do_not_race_with_one_another_but_with_plain_accesses(bench):
    b = bench(T)
    b.write(1, TID).sync().atomic(2, TID // 16).atomic(3, TID % 4)
    assert b.codes() == []
    b.sync().read(4, TID // 16).sync().atomic(5, TID % 4)
    assert b.codes() == []
    b.read(6, TID // 16)
    assert b.codes() == ["C1(5, 6)"]


def test_atomic_on_memory_that_nothing_wrote(bench):
    b = bench(T)
    b.atomic(1, TID % 4)
    assert b.codes() == ["B6(1)"]


def test_accesses_outside_the_buffer_are_somebody_elses_finding(bench):
    b = bench(T, 1, 32)
    b.write(1, TID).sync().read(2, TID - 32)
    assert b.codes() == []


def test_finish_forgets(bench):
    b = bench(T)
    b.write(1, TID)
    b.checker.finish()
    b.read(2, TID)
    assert b.codes() == ["B6(2)"]


def test_one_missing_barrier_is_one_finding(bench):
    """Where lanes of a warp clash as well as threads of two warps, sync_warp would not do: C1 or C2, not C3 too."""
    b = bench(T)
    b.write(1, TID).read(2, (TID + 1) % T)
    (finding,) = b.findings
    assert finding.code == "C1" and {t // 32 for t in finding.threads} == {0, 1}
    b = bench(T)
    b.write(1, TID).sync().read(2, (TID + 1) % T).write(3, TID)
    assert b.codes() == ["C2(3, 2)"]


@pytest.mark.parametrize("blocks", [1, 2])
def test_memory_that_was_allocated_again(bench, blocks):
    b = bench(T, blocks)
    b.allocate(1).write(2, TID).read(3, TID)
    assert b.codes() == []
    b.allocate(1).write(4, TID, active=range(32)).read(5, TID, active=range(32))
    assert b.codes() == []
    b.read(6, TID)
    (finding,) = b.findings
    assert finding.code == "B11" and finding.threads == (32, 32) and b.codes() == ["B11(2, 6)"]
    assert "was allocated again at line 1 and nothing has written it since the write by thread 32 at line 2" \
        in finding.message


def test_memory_that_part_of_the_block_allocates_again_is_not_judged(bench):
    b = bench(T)
    b.allocate(1).write(2, TID).allocate(1, active=range(32)).read(3, TID)
    assert b.codes() == []


def test_reads_are_still_ordered_before_what_follows_an_allocation(bench):
    b = bench(T)
    b.allocate(1).write(2, TID).sync().read(3, TID ^ 32).allocate(1).write(4, TID)
    assert b.codes() == ["C2(4, 3)"]
