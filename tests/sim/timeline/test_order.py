"""Events: which wait or use ends which copy, per warp and per lane; stages, loops, sampled blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moye as mo
from moye.sim.timeline import tape
from timeline_pipelines import (
    COPY,
    LOAD,
    MMA,
    THREE,
    TWO,
    T,
    carried_scalar,
    multistage,
    operands,
    sequence,
    specialised,
    through_registers,
)

STEPS = st.lists(st.sampled_from(["copy", "commit", "wait", "mma", 0, 1, 2]), max_size=12)


def model(program):
    """(copy -> step of the wait that ends it, MMAs with a copy in flight): the rules of PTX, one thread."""
    groups, ends, hidden = [], {}, []                   # the groups in flight, the open one last
    groups.append([])
    for at, step in enumerate(program):
        if step == "copy":
            groups[-1].append(at)
        elif step == "commit":
            groups.append([])
        elif step == "wait" or isinstance(step, int):
            if step == "wait":
                groups.append([])
            keep = 0 if step == "wait" else step
            while len(groups) - 1 > keep:
                ends.update(dict.fromkeys(groups.pop(0), at))
    for at, step in enumerate(program):
        if step == "mma":
            hidden.append(any(copy < at < end for copy, end in ends.items()))
    return ends, hidden


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_waits_end_the_groups_that_ptx_says(program):
    report = mo.check(sequence, timeline=True)[1, T](np.ones((64, 64), np.float32), np.zeros((16, 4), np.float32),
                                                    tuple(program), MMA)
    events = [e for e in report.timeline().events if e.kind != "store"]
    ends, hidden = model(program)
    for warp in (0, 1):
        mine = [e for e in events if e.warp == warp]
        assert len(mine) == len(program)
        first = mine[0].index if mine else 0
        assert {e.order: e.done - first for e in mine if e.done is not None} == ends
        assert [e.in_flight > 0 for e in mine if e.kind == "mma"] == hidden
        for event in mine:
            assert [copy - first for copy in event.completes] == [c for c, at in ends.items() if at == event.order]
    assert report.timeline().overlap().overlapped == 2 * sum(hidden)


def test_a_copy_of_half_a_warp_ends_with_its_last_lanes(steps):
    events = steps("half", "mma", "half wait", "mma", "wait").events
    copy, _, half, second, wait = events[:5]
    assert (copy.lanes, half.lanes, wait.lanes) == (16, 16, 32)
    assert half.completes == (copy.index,)
    assert second.in_flight == 0
    assert wait.completes == ()


def test_a_whole_copy_goes_on_after_half_a_warp_has_waited(steps):
    copy, half, mma, wait = steps("copy", "half wait", "mma", "wait").events[:4]
    assert half.completes == ()
    assert mma.in_flight == 1
    assert wait.completes == (copy.index,) and copy.done == wait.index


def test_a_copy_that_nothing_waits_for_is_not_in_flight(steps):
    timeline = steps("copy", "mma")
    assert timeline.events[0].done is None
    assert (timeline.overlap().overlapped, timeline.overlap().total) == (0, 2)
    assert "never ends" in timeline.text()


@pytest.mark.parametrize("program", [(), ("copy", "wait")])
def test_no_mma_is_no_share(steps, program):
    overlap = steps(*program).overlap()
    assert (overlap.overlapped, overlap.total, overlap.share) == (0, 0, 0)


def test_no_copies(steps):
    assert steps("mma", "mma").overlap().share == 0


# --- registers -------------------------------------------------------------------------------------------------------


def test_a_load_is_in_flight_until_its_registers_are_stored(record):
    timeline = record(through_registers, *operands(4), mo.make_layout((16, 4)), LOAD, MMA)
    loads = [e for e in timeline.events if e.kind == "load" and e.warp == 0]
    assert [timeline.events[e.done].kind for e in loads] == ["write"] * 8
    assert [timeline.events[e.done].tensors[0] for e in loads[:2]] == ["tAsA", "tBsB"]
    assert timeline.overlap().share == Fraction(3, 4)


def test_a_scalar_is_followed_through_carried_variables(record):
    n = 4
    x, y = np.arange(32 * n, dtype=np.float32), np.zeros(32 * n, np.float32)
    timeline = record(carried_scalar, x, y, n, block=32)
    assert np.array_equal(y, 2 * x)
    events = timeline.events
    loads, uses = ([e for e in events if e.kind == kind] for kind in ("load", "use"))
    assert len(loads) == len(uses) == n
    for load, use, k in zip(loads, uses, range(n), strict=True):
        assert load.done == use.index and use.completes == (load.index,)
        assert use.trips == (("k", k),)
        assert "here * 2" in use.text


@mo.kernel
def overwritten(x, y):
    tid = mo.thread_idx().x
    part = mo.fragment(1, mo.float32)
    mo.copyto(part, mo.tile(x, (1,), (tid,)))
    part.fill(0)
    mo.copyto(mo.tile(y, (1,), (tid,)), part)


def test_what_is_overwritten_was_never_used(record):
    load = record(overwritten, np.ones(32, np.float32), np.ones(32, np.float32), block=32).events[0]
    assert load.kind == "load" and load.done is None


@mo.kernel
def loads_its_operand(x, y, mma):
    tid = mo.thread_idx().x
    thr = mma.get_slice(tid)
    gC = thr.partition_C(mo.tile(y, (16, 4), (0, 0)))
    tC = thr.make_fragment_C(gC)
    tA, tB = mo.make_fragment_like(tC), mo.make_fragment_like(tC)
    tC.fill(0)
    tB.fill(1)
    mo.copyto(tA, thr.partition_C(mo.tile(x, (16, 4), (0, 0))))
    mo.gemm(mma, tA, tB, tC)
    mo.copyto(gC, tC)


def test_an_mma_does_not_hide_the_load_of_its_own_operand(record):
    x = np.ones((16, 4), np.float32)
    timeline = record(loads_its_operand, x, np.zeros_like(x), MMA)
    load = timeline.events[0]
    assert timeline.events[load.done].kind == "mma"
    assert timeline.overlap().share == 0


# --- predicates, divergence, warps -----------------------------------------------------------------------------------


@mo.kernel
def predicated(x, n):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    mo.copyto(atom, mo.tile(staged, (1,), (tid,)), mo.tile(x, (1,), (tid,)), pred=tid < n)
    mo.cp_async_wait()


@pytest.mark.parametrize("n", [0, 20, 32, 40, 64])
def test_only_lanes_whose_predicate_holds_copy(record, n):
    events = record(predicated, np.ones(64, np.float32), n).events
    assert [e.lanes for e in events if e.kind == "cp.async"] == [lanes for lanes in (min(n, 32), n - 32) if lanes > 0]


@mo.kernel
def predicated_fragment(x, y, limits, zero_fill: mo.Constexpr):
    """Two elements per thread, each with a predicate of its own."""
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, mo.make_layout((2, 64)))
    pred = mo.fragment(2, mo.bool)
    for i in mo.static_range(2):
        pred[i] = tid < limits[i]
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    mo.copyto(atom, staged[:, tid], mo.tile(x, (2,), (tid,)), pred=pred, zero_fill=zero_fill)
    mo.cp_async_wait()
    mo.sync_threads()


@pytest.mark.parametrize(("limits", "zero_fill", "lanes"), [
    ((0, 0), False, []), ((3, 5), False, [5]), ((40, 0), False, [32, 8]), ((0, 0), True, [32, 32])])
def test_a_predicate_of_any_element_is_enough(record, limits, zero_fill, lanes):
    x, numbers = np.ones(128, np.float32), np.array(limits, np.int32)
    events = record(predicated_fragment, x, x.copy(), numbers, zero_fill).events
    assert [e.lanes for e in events if e.kind == "cp.async"] == lanes


def test_roles_of_warps_are_told_apart(record):
    timeline = record(specialised, np.ones(32, np.float32), np.zeros((16, 4), np.float32), 3, MMA, block=96)
    kinds = {warp: [e.kind for e in timeline.events if e.warp == warp] for warp in range(3)}
    assert kinds == {0: ["cp.async", "wait"] * 3, 1: ["mma"] * 3 + ["store"], 2: ["mma"] * 3 + ["store"]}
    assert [e.stage for e in timeline.events if e.kind == "cp.async"] == [0, 1, 0]
    assert timeline.overlap().share == 0, "copies of other warps do not count"
    assert "block (0, 0, 0), warp 0\n" in timeline.text() and "warps 1-2" in timeline.text()


@mo.kernel
def trips_differ(x, mma):
    """Each thread loops as often as its warp's number plus one."""
    tid = mo.thread_idx().x
    gC = mma.get_slice(tid).partition_C(mo.tile(x, (16, 4), (0, 0)))
    tC = mma.get_slice(tid).make_fragment_C(gC)
    tC.fill(1)
    for _k in range(tid // 32 + 1):
        mo.gemm(mma, tC, tC, tC)
    mo.copyto(gC, tC)


def test_loops_whose_length_differs_between_warps(record):
    timeline = record(trips_differ, np.zeros((16, 4), np.float32), MMA)
    trips = {warp: [e.trips for e in timeline.events if e.warp == warp and e.kind == "mma"] for warp in (0, 1)}
    assert trips == {0: [(("_k", 0),)], 1: [(("_k", 0),), (("_k", 1),)]}


# --- places ----------------------------------------------------------------------------------------------------------


def test_stages_come_from_addresses(record):
    timeline = record(multistage, *operands(6), THREE, COPY, MMA)
    mine = [e for e in timeline.events if e.warp == 0]
    copies = [e.stage for e in mine if e.kind == "cp.async" and e.buffer == "sA"]
    reads = [e.stage for e in mine if e.kind == "read" and e.buffer == "sB"]
    assert copies == reads == [k % 3 for k in range(6)]


@mo.kernel
def both_stages(x, layout):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, layout)
    staged[tid % 16, tid // 16 % 2, tid // 32] = x[tid]             # each warp one stage
    staged[tid % 16, tid // 16 % 2, tid % 2] = x[tid]               # each warp both
    mo.sync_threads()


def test_a_stage_is_named_where_all_lanes_agree(record):
    for layout in (mo.make_layout((16, 2, 2)), mo.make_layout((16, 2, 2), (4, 2, 1)),
                   mo.make_layout((16, 2, 2), (2, 1, 40))):
        events = record(both_stages, np.ones(64, np.float32), layout, clean=False).events
        found = [[e.stage for e in events if e.warp == warp and e.kind == "write"] for warp in (0, 1)]
        assert found == [[0, None], [1, None]]


def test_loops_of_the_kernel_and_unrolled_ones(record):
    @mo.kernel
    def nested(x):
        tid = mo.thread_idx().x
        for i in range(2):
            for j in mo.static_range(3, 5):
                for word in ("a", "b"):
                    x[tid + 32 * i] = j + len(word)

    events = record(nested, np.zeros(64, np.float32), block=32).events
    assert [e.trips for e in events] == [(("i", i), ("j", j), ("word", w)) for i in (0, 1) for j in (3, 4)
                                         for w in (0, 1)]


def test_blocks_are_sampled(record):
    @mo.kernel
    def writes(x):
        x[mo.block_idx().x, mo.block_idx().y] = 1

    x = np.zeros((3, 4), np.float32)
    timeline = record(writes, x, block=1, grid=(3, 4), timeline=[7, 0, 7])
    assert [e.block for e in timeline.events] == [(1, 2, 0), (0, 0, 0)]
    assert x.all()
    with pytest.raises(mo.ArgumentError, match=r"block 12 was asked for, and the grid \(3, 4, 1\) has the blocks 0 to"):
        record(writes, x, block=1, grid=(3, 4), timeline=[12])


def test_events_point_to_the_user(record):
    timeline = record(multistage, *operands(2), TWO, COPY, MMA)
    mma = next(e for e in timeline.events if e.kind == "mma")
    assert mma.text == "mo.gemm(mma, tCrA, tCrB, tCrC)"
    assert mma.where.endswith(f"pipelines.py:{mma.frame.line}")
    assert mma.frame.text().strip() == mma.text
    assert mma.tensors == ("tCrC", "tCrA", "tCrB")


# --- cost and limits -------------------------------------------------------------------------------------------------


def test_what_is_not_asked_for_is_not_recorded():
    from moye.sim.generate.program import program_of

    func = multistage.trace(*operands(2), TWO, COPY, MMA, block=T)
    assert "tape" not in program_of(func, check=True).source
    assert "tape" in program_of(func, check=True, record=True).source
    report = mo.check(multistage)[1, T](*operands(2), TWO, COPY, MMA)
    with pytest.raises(mo.ArgumentError, match="recorded no timeline"):
        report.timeline()


def test_a_recorded_run_computes_and_finds_the_same(steps):
    @mo.kernel
    def races(x):
        tid = mo.thread_idx().x
        staged = mo.shared_array(mo.float32, 64)
        staged[tid] = x[tid]
        x[tid] = staged[63 - tid]

    plain, recorded = (mo.check(races, timeline=timeline)[1, 64](np.arange(64, dtype=np.float32))
                       for timeline in (False, True))
    assert list(map(str, plain.findings)) == list(map(str, recorded.findings)) and plain.findings
    A, B, C = operands(5)
    mo.check(multistage, timeline=True)[1, T](A, B, C, THREE, COPY, MMA)
    D = C.copy()
    multistage[1, T](A, B, D, THREE, COPY, MMA)
    assert np.array_equal(C, D)


def test_a_tape_that_is_full_says_so(steps, monkeypatch):
    monkeypatch.setattr(tape, "MOST", 3)
    timeline = steps("copy", "wait", "mma", "mma", "mma")
    assert timeline.dropped == 3 and len(timeline.events) == 6
    assert "3 statements were not recorded" in str(timeline)
    with pytest.raises(mo.ArgumentError, match="lacks 3 statements"):
        timeline.overlap()
    assert timeline.svg().startswith("<svg")
