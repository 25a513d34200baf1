"""Events of sm_90: which wait, of whatever warp or block, ends which bulk copy and which wgmma; what is in flight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moye as mo
from hopper_kernels import run_gemm, run_loads, run_registers
from hopper_pipelines import RUN, by_lanes, ends, operands, products, run_ring, sends, stores, to_others
from moye.sim.generate.program import program_of
from moye.sim.timeline import tape

STORES = st.lists(st.sampled_from(["store", "commit", "read", 0, 1, 2]), max_size=10)
PRODUCTS = st.lists(st.sampled_from(["mma", "commit", 0, 1, 2]), max_size=10)


def events_of(timeline, *kinds, warp=None):
    return [e for e in timeline.events if e.kind in kinds and warp in (None, e.warp)]


def trace(*steps):
    """The timeline of ``products``; what is wrong with the products is not asked."""
    return mo.check(products, lints=False, timeline=True)[1, 128](*operands(), steps).timeline()


# --- loads on mbarriers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize(("n", "stages"), [(32, 1), (32, 2), (96, 2), (160, 1), (100, 2), (4, 3), (260, 3)])
def test_a_load_ends_at_a_wait_of_another_warp(n, stages, earliest):
    """Several phases of each barrier, more stages than runs, a ragged last run."""
    report, right = run_ring(n, stages, earliest=earliest)
    assert report.ok and right, str(report)
    timeline, trips = report.timeline(), -(-n // RUN)
    loads = events_of(timeline, "tma")
    assert [e.warp for e in loads] == [0] * trips and [e.lanes for e in loads] == [1] * trips
    for k, load in enumerate(loads):
        wait = timeline.events[load.done]
        assert (wait.kind, wait.warp, wait.trips, wait.completes) == ("wait", 1, (("k", k),), (load.index,))
        assert load.until == wait.step > load.step
        assert (load.buffer, load.stage) == ("smem", None if stages == 1 else k % stages)
        assert (wait.buffer, wait.stage) == ("full", None if stages == 1 else k % stages)
        assert load.tensors == ("smem", "x")
    others = [e for e in timeline.events if e.kind == "wait" and e.warp != 1]
    assert len(others) == 2 * trips and not any(e.completes for e in others)


@pytest.mark.parametrize("late", [1, 2])
def test_the_first_wait_counts(late):
    """Whichever warp it is of."""
    report, right = run_ring(100, 2, late)
    assert report.ok and right, str(report)
    timeline = report.timeline()
    assert {timeline.events[e.done].warp for e in events_of(timeline, "tma")} == {3 - late}
    assert len(events_of(timeline, "barrier", warp=late)) > 4 == len(events_of(timeline, "arrive", warp=late))


def test_a_wait_is_noted_when_it_passes():
    """The order of the run respects every wait: loads of a stage stand behind the arrivals that freed it."""
    timeline = run_ring(96, 1)[0].timeline()
    steps = [[e.step for e in events_of(timeline, kind, warp=warp)] for kind, warp in
             (("tma", 0), ("wait", 1), ("arrive", 1), ("wait", 0))]
    for k in range(1, 3):
        load, passed, arrived, freed = (found[i] for found, i in zip(steps, (k, k - 1, k - 1, k), strict=True))
        assert passed < arrived < freed < load


def test_two_phases_of_one_barrier():
    timeline = trace(("load", 0), ("wait", 0, 0), ("load", 0), ("wait", 0, 1))
    first, second = events_of(timeline, "tma")
    waits = events_of(timeline, "wait", warp=0)
    assert [first.done, second.done] == [wait.index for wait in waits]


def test_a_wait_that_passes_before_any_phase_ends_nothing():
    timeline = trace(("load", 0), ("wait", 0, 1), "mma", ("wait", 0, 0))
    load, = events_of(timeline, "tma")
    early, last = events_of(timeline, "wait", warp=0)
    assert load.done == last.index and early.completes == ()


def test_barriers_are_told_apart():
    timeline = trace(("load", 0), ("load", 1), ("wait", 1, 0), "mma", ("wait", 0, 0))
    first, second = events_of(timeline, "tma")
    waits = events_of(timeline, "wait", warp=0)
    assert (second.done, first.done) == tuple(wait.index for wait in waits)
    assert [e.in_flight for e in events_of(timeline, "mma")] == [1] * 4


@pytest.mark.parametrize(("program", "flying"), [
    (("mma", ("load", 0), ("wait", 0, 0)), 0), ((("load", 0), "mma", ("wait", 0, 0)), 1),
    ((("load", 0), ("wait", 0, 0), "mma"), 0), ((("load", 0), "mma"), 0),
    ((("load", 0), ("load", 1), "mma", ("wait", 0, 0), ("wait", 1, 0)), 2),
    ((("load", 0), ("load", 1), "mma", ("wait", 1, 0)), 1)])
def test_an_mma_counts_the_loads_of_its_block(program, flying):
    """A thread of warp 0 loads, and each warp has them in flight; what nobody waits for is not."""
    timeline = trace(*program)
    assert [(e.warp, e.in_flight) for e in events_of(timeline, "mma")] == [(warp, flying) for warp in range(4)]
    assert (timeline.overlap().overlapped, timeline.overlap().total) == (4 * (flying > 0), 4)
    assert [e.done is None for e in events_of(timeline, "tma")] == \
        [("wait", step[1], 0) not in program for step in program if step[0] == "load"]


def test_what_nobody_waits_for_is_not_in_flight():
    report, _, _ = run_gemm((128, 128, 256), fault="no-full-wait", timeline=True)
    timeline = report.timeline()
    assert events_of(timeline, "tma") and all(e.done is None for e in events_of(timeline, "tma"))
    assert timeline.overlap().total and timeline.overlap().overlapped == 0
    assert "never ends" in timeline.text()


@pytest.mark.slow
def test_tensor_copies_with_a_ragged_end():
    """k = 200 in tiles of 64, a block that is not the first, stages go round."""
    report, C, expected = run_gemm((256, 256, 200), stages=2, timeline=[3])
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-3)
    timeline = report.timeline()
    loads = events_of(timeline, "tma")
    assert [(e.tensors, e.stage) for e in loads] == [((f"s{x}", x), k % 2) for k in range(4) for x in "AB"]
    assert [timeline.events[e.done].trips for e in loads] == [(("k", k),) for k in range(4) for _ in "AB"]
    assert {e.block for e in timeline.events} == {(1, 1, 0)}
    assert str(timeline.overlap()) == "96 of 128 MMAs (3/4)", "each k-tile but the last: 4 products by 8 warps"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_copy_of_several_lanes_ends_with_the_last(order):
    x, out = np.arange(64, dtype=np.float32), np.full((32, 2), np.nan, np.float32)
    report = mo.check(by_lanes, lints=False, timeline=True)[1, 32](out, x, order)
    assert report.ok and np.array_equal(out.T.reshape(-1), x), str(report)
    load, first, last = events_of(report.timeline(), "tma", "wait")
    assert (load.lanes, load.stage, load.done) == (2, None, last.index)
    assert (first.stage, first.completes, last.stage, last.completes) == (order[0], (), order[1], (load.index,))


def test_one_warp_may_load_and_wait():
    """Two tiles through one buffer; every warp waits, and the first of them ends the load that its thread issued."""
    timeline = run_loads(timeline=True)[0].timeline()
    loads = events_of(timeline, "tma")
    assert [timeline.events[e.done].warp for e in loads] == [0, 0]
    assert [timeline.events[e.done].order for e in loads] == [e.order + 1 for e in loads]
    assert [e.trips for e in loads] == [(("turn", 0),), (("turn", 1),)]


def test_a_wgmma_ends_the_load_of_its_registers():
    report, C, expected = run_registers(timeline=True)
    assert report.ok and np.allclose(C, expected, atol=1e-3)
    timeline = report.timeline()
    for warp in range(4):
        load, mma = events_of(timeline, "load", "mma", warp=warp)
        assert (load.done, mma.completes, mma.in_flight) == (mma.index, (load.index,), 0)
        assert timeline.events[mma.done].text == "mo.warpgroup_wait(0)"
    assert "ends 2; until 5" in timeline.text()


# --- clusters --------------------------------------------------------------------------------------------------------


def clustered(kernel, *arguments, blocks=(0, 1)):
    out = np.full((32, 2), np.nan, np.float32)
    report = mo.check(kernel, lints=False, timeline=list(blocks)).launch(out, *arguments, grid=2, block=32, cluster=2)
    assert report.ok, str(report)
    return report.timeline(), out


def waits_of(timeline, block):
    return [e for e in timeline.events if e.kind == "wait" and e.block == (block, 0, 0)]


@pytest.mark.parametrize(("mask", "ends_in"), [(0b01, 0), (0b10, 1), (0b11, 0)])
def test_a_multicast_ends_in_its_own_block_if_that_receives(mask, ends_in):
    """In the other block there is no event for it, and the wait there, though later, ends nothing."""
    x = np.arange(32, dtype=np.float32)
    timeline, out = clustered(to_others, x, mask)
    assert all(np.array_equal(out[:, b], x) == bool(mask >> b & 1) for b in range(2))
    load, = events_of(timeline, "tma")
    wait, = waits_of(timeline, ends_in)
    assert load.block == (0, 0, 0) and load.done == wait.index and wait.completes == (load.index,)
    assert not any(e.completes for e in waits_of(timeline, 1 - ends_in))
    told = timeline.text()
    assert (f"of warp 0, block {wait.block}" in told) == (ends_in == 1)


def test_an_arrow_goes_to_the_other_block():
    timeline, _ = clustered(to_others, np.ones(32, np.float32), 0b10)
    flows = {e["ph"]: (e["pid"], e["ts"]) for e in timeline.chrome()["traceEvents"] if e["ph"] in "sf"}
    load, = events_of(timeline, "tma")
    assert flows == {"s": (0, load.step), "f": (1, load.until)}
    assert ">warp 0, block (1, 0, 0)</text>" in timeline.svg()


@pytest.mark.parametrize(("mask", "block", "loads"), [(0b10, 0, [False]), (0b11, 0, [True]), (0b11, 1, [])])
def test_a_multicast_that_ends_in_a_block_that_is_not_recorded(mask, block, loads):
    timeline, _ = clustered(to_others, np.ones(32, np.float32), mask, blocks=[block])
    assert [e.done is not None for e in events_of(timeline, "tma")] == loads


def test_sends_end_in_the_other_block_and_are_not_in_flight():
    timeline, out = clustered(sends)
    assert (out == [1, 0]).all()
    for block in range(2):
        send, = (e for e in events_of(timeline, "tma send") if e.block == (block, 0, 0))
        wait, = waits_of(timeline, 1 - block)
        assert send.done == wait.index and send.tensors[1] == "mine"
    assert not any(e.in_flight for e in timeline.events)


def test_barriers_of_clusters():
    timeline, _ = clustered(sends)
    texts = [e.text for e in events_of(timeline, "barrier") if e.block == (0, 0, 0)]
    assert texts == ["mo.cluster_sync()"] * 4, "an arrival and a wait each"


# --- groups ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(STORES)
def test_stores_end_at_the_wait_that_covers_their_group(program):
    report = mo.check(stores, lints=False, timeline=True)[1, 32](np.zeros(32 * max(len(program), 1), np.float32),
                                                                tuple(program))
    mine = events_of(report.timeline(), "tma store", "commit", "wait")
    assert len(mine) == len(program)
    places = {e.index: at for at, e in enumerate(mine)}
    assert {at: places[e.done] for at, e in enumerate(mine) if e.done is not None} == ends(program, "store")
    assert not any(e.in_flight for e in mine), "they bring nothing"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(PRODUCTS)
def test_wgmmas_end_at_the_wait_that_covers_their_group(program):
    timeline = trace(*program)
    for warp in range(4):
        mine = events_of(timeline, "mma", "commit", "wait", warp=warp)
        assert len(mine) == len(program)
        places = {e.index: at for at, e in enumerate(mine)}
        assert {at: places[e.done] for at, e in enumerate(mine) if e.done is not None} == ends(program, "mma")
        for at, event in enumerate(mine):
            assert [places[i] for i in event.completes] == [b for b, end in ends(program, "mma").items() if end == at]
    assert (timeline.overlap().overlapped, timeline.overlap().total) == (0, 4 * program.count("mma"))


def test_families_of_groups_are_apart():
    """A wait for stores ends no wgmma, and a wait for wgmmas no cp.async."""
    @mo.kernel
    def mixed(x: mo.Static, out: mo.Static):
        tid = mo.thread_idx().x
        smem, back = mo.shared_array(mo.float32, 128), mo.shared_array(mo.float32, 32)
        atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
        mo.copyto(atom, mo.tile(smem, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
        mo.cp_async_commit()
        if tid < 32:
            back[tid] = 1.0
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(mo.BulkCopy(), out, back)
            mo.tma_store_arrive()
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.cp_async_wait(0)
        if tid == 0:
            mo.tma_store_wait(0, read=False)

    report = mo.check(mixed, lints=False, timeline=True)[1, 128](np.ones(128, np.float32), np.zeros(32, np.float32))
    assert report.ok, str(report)
    timeline = report.timeline()
    texts = {e.kind: timeline.events[e.done].text for e in timeline.events if e.done is not None}
    assert texts == {"cp.async": "mo.cp_async_wait(0)", "tma store": "mo.tma_store_wait(0, read=False)"}


# --- cost ------------------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_where_nothing_was_asked_for():
    func = products.trace(*operands(), (("load", 0), "mma", 0, ("wait", 0, 0)), block=128)
    assert "tape" not in program_of(func, check=True).source
    assert program_of(func, check=True, record=True).source.count("B.tape.note") > 4


def test_what_takes_effect_later_is_counted_when_the_tape_is_full(monkeypatch):
    steps = ("mma", ("load", 0), ("wait", 0, 0))
    whole = trace(*steps)
    monkeypatch.setattr(tape, "MOST", len(whole.events) // 4)
    short = trace(*steps)
    assert short.dropped >= 2 and not events_of(short, "wait")
    with pytest.raises(mo.ArgumentError, match=f"lacks {short.dropped} statements"):
        short.overlap()


@pytest.mark.slow
def test_a_recorded_run_finds_the_same():
    for fault in ("", "no-full-wait", "early-release", "count"):
        plain, recorded = (run_gemm((128, 128, 320), stages=2, fault=fault, timeline=timeline)[0]
                           for timeline in (False, True))
        assert list(map(str, plain.findings)) == list(map(str, recorded.findings))
        assert plain.ok == (fault == "")
