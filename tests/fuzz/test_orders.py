"""Random programs that synchronise in every way: the checker agrees with a model of threads that know of each other.

By hand, longer: ``python tests/fuzz/orders.py SEED COUNT``.
"""

from __future__ import annotations

import random

import pytest

from fuzz import orders
from fuzz.order_model import Plan, verdict


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_checker_agrees_with_the_model(seed):
    told = right = 0
    for part in range(5):
        plan, rng = orders.draw(100 * seed + part), random.Random(part)
        for one in [plan, *(orders.changed(plan, rng) for _ in range(3))]:
            assert not (said := orders.wrong(one)), f"{said}\n{orders.text(one)}"
            found, always = verdict(one)
            told, right = told + always, right + (not found)
    assert told >= 2 and right >= 6


def test_every_operation_is_drawn():
    used = {op[0] for seed in range(40) for body in orders.Draft(str(seed)).grown().programs for op in body}
    assert used >= {*orders.KINDS, "expect", "cluster arrive", "cluster wait"} - {"cluster", "turns"}


@pytest.mark.parametrize(("told", "found"), [
    (True, set()), (False, {"wait for ever", "a wait that may come too late"})])
def test_the_model_knows_a_wait_that_comes_too_late(told, found):
    # warp 1 completes two phases, and warp 0 waits for the first of them
    ends = [("named arrive", 1, 2)] if told else []
    begins = [("named", 1, 2)] if told else []
    plan = Plan(1, 2, 2, [1], [[("wait", 0, 0, "all"), *ends],
                               [("arrive", 0, 0, "lane 0"), *begins, ("arrive", 0, 0, "lane 0")]], [[], []])
    assert verdict(plan)[0] == found
    assert orders.report_of(plan).ok is told


@pytest.mark.parametrize(("way", "found"), [("named arrive", set()), (None, {"a wait that may come too late"})])
def test_lanes_of_a_warp_pass_an_arrival_together(way, found):
    # lane 0 of warp 0 waits for phase 1, and the others wait for phase 2: for phase 0 where they do not meet first
    meet = [(way, 3, 2)] if way else []
    plan = Plan(1, 2, 2, [1], [
        [("arrive", 0, 0, "lane 0"), ("wait", 0, 1, "lane 0"), *meet,
         ("arrive", 0, 0, "lane 0"), ("wait", 0, 0, "all")],
        [("wait", 0, 0, "all"), ("warp",), ("arrive", 0, 0, "lane 0"), *([("named", 3, 2)] if way else [])]], [[], []])
    wrong = verdict(plan)[0]
    assert found <= wrong and (found or not wrong)
    assert orders.report_of(plan).ok is (way is not None)


@pytest.mark.parametrize("meet", [None, "vote", "warp"])
def test_lanes_that_arrive_after_one_of_them_has_waited(meet):
    # copies complete phase 0, and lane 0 waits for it; all lanes arrive in phase 1, the others perhaps before
    between = [(meet,)] if meet else []
    plan = Plan(1, 1, 2, [32], [
        [("cp.async arrive", 0), ("wait", 0, 0, "lane 0"), *between, ("arrive", 0, 0, "all")]], [[]])
    assert bool(verdict(plan)[0]) is (meet is None)
    assert [finding.code for finding in orders.report_of(plan).findings] == ["D8"] * (meet is None)
