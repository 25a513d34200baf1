"""The trees that correct the model of ``gemm_sm90``: of the costs that there are, and read as they were fitted.

What they are worth is measured by ``benchmarks/gemm_choice_fit.py``.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

import moye as mo
from moye.kernels.gemm.parts.trees import Trees, fitted
from moye.kernels.gemm.sm90 import choice
from moye.kernels.gemm.sm90.choice import choose, corrected, shortlist, timed
from moye.kernels.gemm.sm90.config import COSTS, Problem, candidates

H200 = 132
KNOWN = Problem(4096, 352, 3008, 1, mo.bfloat16)


def test_the_trees_correct_the_costs_that_there_are():
    """Fitted costs ask for fitted trees: gemm_choice_fit.py."""
    with np.load(choice.FITTED) as found:
        assert found["costs"].tolist() == list(dataclasses.astuple(COSTS))


def walked(trees, row):
    """The sum of all trees, one node after the other."""
    total = 0.0
    for at in trees.roots:
        while trees.low[at] != at or trees.high[at] != at:
            at = trees.low[at] if row[trees.feature[at]] <= trees.limit[at] else trees.high[at]
        total += float(trees.value[at])
    return total


def test_all_rows_at_a_time_are_what_each_is_alone():
    short = shortlist(timed(KNOWN, H200))
    rows = np.array([choice.features(config, KNOWN, us, H200) for us, config in short], np.float32)
    assert rows.shape[1] == len(choice.FEATURES)
    trees = fitted(choice.FITTED)
    np.testing.assert_allclose(trees.of(rows), [walked(trees, row) for row in rows], atol=1e-5)


def test_a_node_sends_equal_numbers_down():
    """Two trees, of which one is a leaf; what equals the limit is not above it."""
    trees = Trees(np.array([0, 3]), np.array([1, 0, 0, 0]), np.array([2.0, 0, 0, 0]), np.array([1, 1, 2, 3]),
                         np.array([2, 1, 2, 3]), np.array([0.0, 10, 20, 1]), depth=1)
    assert trees.of(np.array([[9.0, 2.0], [9.0, 2.5]])).tolist() == [11.0, 21.0]


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_a_candidate_near_the_best_of_the_model(seed):
    rng = random.Random(seed)
    M, N, K = (8 * rng.randint(1, 1 << rng.randint(1, 10)) for _ in range(3))
    problem = Problem(M, N, K, 1, mo.float16, rows_A=rng.random() < 0.5)
    found, config = timed(problem, H200), choose(problem, H200)
    assert config in candidates(problem, H200)
    assert {one: us for us, one in found}[config] <= choice.NEAR * found[0][0]
    best = min(zip(corrected(shortlist(found), problem, H200), shortlist(found), strict=True), key=lambda one: one[0])
    assert config == best[1][1]


@pytest.mark.parametrize("other", [{"dtype": mo.float32}, {"gated": True}, {"plain": True}, {"batches": 3}, {"out": 4},
                                   {"copies": (4096 * 3008,)}])
def test_products_of_other_kinds_follow_the_model(other):
    """Trees know nothing of what they were not fitted to."""
    problem = dataclasses.replace(KNOWN, **other)
    assert not choice.measured(problem)
    assert choose(problem, H200) == timed(problem, H200)[0][1]


def test_the_trees_decide_something():
    """They are no corrections of nothing: some drawn choices are others than the model's."""
    rng, others = random.Random("trees"), 0
    for _ in range(20):
        problem = Problem(*(8 * rng.randint(16, 1024) for _ in range(3)), 1, mo.bfloat16)
        others += choose(problem, H200) != timed(problem, H200)[0][1]
    assert 2 < others < 20


@pytest.mark.parametrize("most", [6, 30])
def test_what_is_measured_begins_with_the_choice(most):
    """gemm_measure.py: and has configurations that the model finds best, and others."""
    pytest.importorskip("torch")
    import gemm_measure
    from gemm_rows import Row

    row = Row("", "bf16", KNOWN.M, KNOWN.N, KNOWN.K, "KK")
    problem = gemm_measure.problem_of(row)
    found, times = gemm_measure.candidates(row, 1.3, most, H200), timed(problem, H200)
    assert found[0] == choose(problem, H200) and len(found) == len(set(found)) == most
    assert times[0][1] in found and {config for _, config in times} >= set(found)
