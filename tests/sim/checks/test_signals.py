"""Every kernel of signal_kernels.py is clean, and each fault of it is found, whatever the batches of blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import moye as mo
import signal_kernels as kernels
from moye.sim.checks import clocks


def ints(n):
    return np.zeros(n, np.int32)


def floats(n):
    return np.zeros(n, np.float32)


Case = tuple[object, Callable[[], tuple], int, int, dict[str, set[str]]]
"""The kernel, its arguments, blocks, threads, and the classes that each fault may have."""
G3 = {"G3"}
CASES: dict[str, Case] = {
    "grid counter": (kernels.grid_counter, lambda: (ints(192), ints(192), ints(1), 6), 6, 32,
                     {"one less": {"G3"}, "relaxed": G3, "no barrier": G3}),
    "grid counter, atomics": (kernels.grid_counter_polled_by_atomics,
                              lambda: (ints(192), ints(192), ints(1), 6), 6, 32, {"one less": G3, "no fence": G3}),
    "grid twice": (kernels.grid_twice, lambda: (ints(192), ints(192), ints(192), ints(1), 6), 6, 32, {"reused": G3}),
    "grid generation": (kernels.grid_generation, lambda: (ints(384), ints(192), ints(1), ints(1), 6, 4), 6, 32,
                        {"relaxed": G3, "plain turn": G3}),
    "grid sense": (kernels.grid_sense, lambda: (ints(384), ints(192), ints(1), ints(1), 6, 4), 6, 32,
                   {"no fence before": G3, "no fence after": G3}),
    "last block": (kernels.last_block, lambda: (floats(6), floats(1), ints(1), 6), 6, 32,
                   {"no writer's fence": G3, "no reader's fence": G3, "one early": G3}),
    "last block, acq_rel": (kernels.last_block_acq_rel, lambda: (floats(192), floats(32), ints(1), 6), 6, 32,
                            {"release": G3, "acquire": G3, "no barrier": G3}),
    "two flags": (kernels.two_flags, lambda: (ints(64), ints(32), ints(2)), 3, 32, {"wrong flag": G3}),
    "two flags in a block": (kernels.two_flags_in_a_block, lambda: (ints(64),), 2, 96, {"wrong flag": {"C1"}}),
    "unrelated fence": (kernels.unrelated_fence, lambda: (ints(64), ints(64), ints(64), ints(1)), 2, 64, {"x": G3}),
    "queue": (kernels.queue, lambda: (ints(160), ints(1), ints(160), 5), 2, 32, {"one too far": G3}),
    "ring": (kernels.ring, lambda: (ints(64), ints(1), ints(1), ints(192), 6), 2, 32,
             {"filled too early": G3, "freed before read": G3}),
    "lookback": (kernels.lookback, lambda: (np.ones(192, np.float32), floats(6), floats(6), ints(6), floats(192)), 6,
                 32, {"sum not released": G3, "not acquired": G3, "prefix of a sum": G3}),
    "spin lock": (kernels.spin_lock, lambda: (ints(1), ints(2), 3), 4, 32,
                  {"relaxed": {"G2", "G3"}, "read before": {"G2", "G3"}, "written after": {"G2", "G3"},
                   "relaxed unlock": {"G2", "G3"}}),
    "exchange lock": (kernels.exchange_lock, lambda: (ints(1), ints(2), 3), 4, 32,
                      {"no fence after": {"G2", "G3"}, "no fence before": {"G2", "G3"}}),
    "ticket lock": (kernels.ticket_lock, lambda: (ints(1), ints(1), ints(2), 3), 4, 32,
                    {"one early": {"G2", "G3"}, "plain": {"G1", "G2", "G3"}}),
    "locked once": (kernels.locked_once, lambda: (ints(1), ints(1), ints(1), ints(128)), 4, 32,
                    {"relaxed check": G3, "relaxed ready": G3}),
    "semaphore": (kernels.semaphore, lambda: (floats(32), ints(1), 4), 4, 32,
                  {"no wait": {"G2", "G3"}, "no barrier": {"G2", "G3"}, "relaxed": {"G2", "G3"}}),
    "lane flags": (kernels.lane_flags, lambda: (ints(128),), 2, 64, {"own flag": {"C3"}}),
    "shared ticket": (kernels.shared_ticket, lambda: (ints(1),), 1, 64, {"relaxed": {"C1", "C3"},
                                                                         "one early": {"C1", "C3"}}),
}


def check(name, fault, **how):
    kernel, arguments, blocks, threads, _ = CASES[name]
    return mo.check(kernel, lints=False, **how)[blocks, threads](*arguments(), fault)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    report = check(name, "")
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, case in CASES.items() for fault in case[4]])
def test_faulty(name, fault):
    report = check(name, fault)
    assert report.findings, f"{name}, {fault} is clean"
    assert {finding.code for finding in report.findings} <= CASES[name][4][fault], str(report)


@pytest.mark.parametrize(("before", "after", "scope", "found"), [
    (True, True, "gpu", False), (True, True, "sys", False), (False, True, "gpu", True), (True, False, "gpu", True),
    (True, True, "cta", True), (True, True, "cluster", True)])
def test_messages(before, after, scope, found):
    report = mo.check(kernels.message, lints=False)[2, 64](ints(64), ints(64), ints(1), before, after, scope)
    assert [f.code for f in report.findings] == (["G3"] if found else []), str(report)


@pytest.mark.parametrize(("fault", "found"), [("", []), ("no fence before", ["G3"]), ("no fence after", ["G3"]),
                                              ("narrow", ["G3"])])
def test_an_arrival_at_another_block_hands_over_shared_memory_alone(fault, found):
    report = mo.check(kernels.remote_arrival, lints=False).launch(ints(64), ints(64), fault, grid=4, block=32,
                                                                 cluster=2)
    assert [f.code for f in report.findings] == found, str(report)


@pytest.mark.parametrize(("fault", "found"), [("", set()), ("block", {"G3", "D19"}), ("other cluster", {"G3", "D19"})])
def test_flags_of_a_cluster(fault, found):
    report = mo.check(kernels.cluster_scope, lints=False).launch(ints(32), ints(32), ints(1), fault, grid=4, block=32,
                                                                cluster=2)
    assert {f.code for f in report.findings} == found, str(report)


@pytest.mark.parametrize("fault", ["", "one element"])
def test_atomics_of_block_scope_by_several_blocks_in_one_statement(fault):
    report = mo.check(kernels.narrow_count, lints=False)[4, 32](ints(4), fault)
    assert [f.code for f in report.findings] == (["D19"] if fault else []), str(report)


@pytest.mark.parametrize(("fault", "n", "found"), [("", 60, []), ("read first", 60, ["B6"]),
                                                   ("one missing", 60, ["B6"]), ("added to", 64, []),
                                                   ("added to", 63, ["B6"])])
def test_a_workspace_that_nobody_wrote(fault, n, found):
    arguments = floats(64), floats(64), floats(64), n, fault
    assert mo.check(kernels.workspace, lints=False)[2, 32](*arguments).ok
    report = mo.check(kernels.workspace, lints=False, poison="work")[2, 32](*arguments)
    assert [f.code for f in report.findings] == found, str(report)
    if found:
        assert report.findings[0].tensor == "work" and report.findings[0].coordinate == ({60: 59, 63: 63}[n] if
                                                                                        fault != "read first" else 60,)


@pytest.mark.parametrize(("where", "code"), [("shared", "C1"), ("shared twice", "C1"), ("global", "C1"),
                                             ("blocks", "G1")])
def test_writes_of_one_value(where, code):
    """Advice, unless the check is strict; a violation where the values differ."""
    def run(fault, **how):
        return mo.check(kernels.same_value, **how)[3, 64](ints(3), ints(192), where, fault)

    report = run(False)
    assert report.ok and code in {lint.code for lint in report.lints}, str(report)
    assert {f.code for f in run(False, strict=True, lints=False).findings} & {code, "C3"}
    assert {f.code for f in run(True, lints=False).findings} & {code, "C3"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["grid counter, atomics", "grid sense", "last block", "ring", "lookback", "spin lock",
                                  "exchange lock", "ticket lock", "locked once", "semaphore"])
def test_right_in_every_schedule(name, seed):
    report = check(name, "", seed=seed, schedules=1)
    assert report.ok and report.schedules == 1, str(report)


def test_a_report_says_how_many_schedules_it_saw():
    report = check("spin lock", "", schedules=5)
    assert report.schedules == 5 and "5 schedules" in str(report)
    assert check("spin lock", "").schedules == 4, "lanes may try one after the other"
    assert check("lane flags", "").schedules == 4, "threads of a block poll"
    assert check("shared ticket", "").schedules == 5, "who sets it up need not be the first to draw"
    with pytest.raises(mo.ArgumentError, match="schedules is 0, and must be a positive integer, or None"):
        check("spin lock", "", schedules=0)
    with pytest.raises(mo.ArgumentError, match="poison names 'w', which is no array of workspace: it has x, work, y"):
        mo.check(kernels.workspace, poison="w")[1, 32](floats(32), floats(32), floats(32), 32, "")


@pytest.mark.parametrize("fault", [False, True])
def test_an_unrelated_atomic_does_not_hide_that_two_groups_share_a_barrier(fault):
    report = mo.check(kernels.named_twice, lints=False)[1, 128](ints(128), ints(1), fault)
    assert [f.code for f in report.findings] == (["C5"] if fault else []), str(report)


def test_more_groups_than_can_be_told_apart_are_said(monkeypatch):
    """Each lane learns something of its own."""
    report = check("lane flags", "")
    assert report.ok and not report.unsupported
    monkeypatch.setattr(clocks, "MOST", 1)
    report = check("lane flags", "")
    assert not report.findings and "more groups than can be told apart" in report.unsupported[0]


@pytest.mark.parametrize("differs", [False, True])
def test_pairs_of_elements_by_several_blocks(differs):
    report = mo.check(kernels.same_pairs)[3, 32](floats(64), differs)
    assert [f.code for f in report.findings] == (["G1"] if differs else []), str(report)
    assert [lint.code for lint in report.lints if lint.code == "G1"] == ([] if differs else ["G1"])


@mo.kernel
def every_lane_polls_all(y, flags):
    i, n = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x, mo.block_dim().x * mo.grid_dim().x
    y[i] = i
    mo.store(flags, i, 1, order="release")
    total = mo.int32(0)
    for j in range(n):
        while mo.load(flags, j, order="acquire") == 0:
            pass
        total += y[j]
    y[n + i] = total


def test_the_cost_of_lanes_that_poll_is_that_of_their_looks():
    """Each lane has a flag, and looks at all.  Asking at each look everybody who has looked, and for each of these
    everybody who releases, made it the cube of the lanes and more: 12 s for 64."""
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and "/sim/checks/" in frame.f_code.co_filename

    lanes, y = 32, ints(64)
    sys.setprofile(count)
    try:
        report = mo.check(every_lane_polls_all, lints=False, schedules=1)[2, lanes // 2](y, ints(lanes))
    finally:
        sys.setprofile(None)
    assert report.ok and (y[lanes:] == lanes * (lanes - 1) // 2).all()
    assert calls < 200 * lanes * lanes
