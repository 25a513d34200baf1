"""Warps that run one after the other, and what only such an order shows."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.ir.nodes import Block, Func
from moye.sim.flow.apart import Apart, lanes_take_turns, several_turns
from moye.sim.flow.groups import Group


def func(threads: int, cluster: tuple[int, int, int] = (1, 1, 1)) -> Func:
    return Func("f", [], Block(), (threads, 1, 1), cluster_dim=cluster)


def lanes_of_turns(apart: Apart, mask: np.ndarray | None = None) -> list[list[int]]:
    return [sorted(set(np.argwhere(part.mask)[:, 0].tolist())) for part in apart.parts(Group(0, [], mask))]


def test_parts_are_warps():
    assert lanes_of_turns(Apart(func(40), 40, 1, "first")) == [list(range(32)), list(range(32, 40))]
    assert not several_turns(func(32)) and several_turns(func(33)) and several_turns(func(32, (2, 1, 1)))


def test_parts_are_blocks_of_a_cluster():
    """Those of one rank run together, whatever their cluster."""
    apart = Apart(func(32, (2, 1, 1)), 32, 4, "first")
    columns = [sorted(set(np.argwhere(part.mask)[:, 1].tolist())) for part in apart.parts(Group(0, [], None))]
    assert columns == [[0, 2], [1, 3]]


@pytest.mark.parametrize(("turn", "warp"), [("first", 0), ("last", 1)])
def test_whose_turn_it_is(turn, warp):
    apart = Apart(func(64), 64, 1, turn)
    parts = list(apart.parts(Group(0, [], None)))
    assert apart.first(parts) == [parts[warp]]


@mo.kernel
def tried(data, way: mo.Constexpr):
    lock = mo.shared_array(mo.int32, 1)
    if mo.thread_idx().x == 0:
        lock[0] = 0
    mo.sync_threads()
    if mo.lane_idx() != 0:
        return
    order = "relaxed" if way == "relaxed" else "release"
    if mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
        return
    data[0] = data[0] + 1
    mo.store(lock, 0, 0, order=order, scope="cta")
    if way == "afterwards":
        data[1] = mo.warp_idx()


@pytest.mark.parametrize(("way", "codes"), [("right", set()), ("relaxed", {"C1", "C2"}), ("afterwards", {"C1"})])
def test_warps_that_try_for_a_lock(way, codes):
    """Together they try, and one gets it: what it does not hand over is seen by nobody."""
    report = mo.check(tried, lints=False)[1, 96](np.zeros(2, np.int32), way)
    assert {finding.code for finding in report.findings} == codes, str(report)


def test_lanes_have_turns_in_a_block_of_one_warp():
    assert lanes_of_turns(Apart(func(40), 40, 1, "lanes")) == [[thread] for thread in range(40)]
    assert lanes_take_turns(func(32)) and not lanes_take_turns(func(33))
    assert not lanes_take_turns(func(32, (2, 1, 1)))


@mo.kernel
def tried_by_lanes(data, way: mo.Constexpr):
    lock, tid = mo.shared_array(mo.int32, 1), mo.thread_idx().x
    if tid == 0:
        lock[0] = 0
    mo.sync_warp()
    done = 0
    while done == 0:
        if mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") == 0:
            data[0] = data[0] + 1
            mo.store(lock, 0, 0, order="relaxed" if way == "relaxed" else "release", scope="cta")
            if way == "afterwards":
                data[1] = tid
            done = 1


@pytest.mark.parametrize(("way", "codes"), [("right", set()), ("relaxed", {"C3"}), ("afterwards", {"C3"})])
def test_lanes_that_try_for_a_lock(way, codes):
    data = np.zeros(2, np.int32)
    report = mo.check(tried_by_lanes, lints=False)[1, 8](data, way)
    assert {finding.code for finding in report.findings} == codes and data[0] == 8, str(report)
