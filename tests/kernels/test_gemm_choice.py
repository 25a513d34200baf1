"""The trees that correct the models of ``gemm_sm90`` and ``gemm_sm80``: of today's costs, and read as they were fitted.

What they are worth is measured by ``benchmarks/gemm_choice_fit.py``.
"""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest

import moye as mo
from moye.kernels.gemm.parts.trees import Trees, fitted
from moye.kernels.gemm.sm80 import choice as sm80_choice
from moye.kernels.gemm.sm80 import config as sm80
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


# --- gemm_sm80 -------------------------------------------------------------------------------------------------------


def test_the_trees_of_sm80_correct_the_costs_that_there_are():
    """Fitted costs ask for fitted trees: gemm_sm80_choice_fit.py."""
    with np.load(sm80_choice.FITTED) as found:
        assert found["costs"].tolist() == list(dataclasses.astuple(sm80.COSTS))


def drawn(rng):
    """Extents, a dtype, how operands are copied and C is stored."""
    extents = [round(math.exp(rng.uniform(0, math.log(6000)))) for _ in range(3)]
    ways = rng.choice((("k", "k"), ("k", "mn"), ("shift", "shift"), ("shift", "mn"), ("element", "shift_mn")))
    return extents, rng.choice((mo.float16, mo.float32)), {"ways": ways, "store": rng.choice(("vector", "rows"))}


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_of_sm80_is_near_the_best_of_the_model(seed):
    """And the least of what is corrected; of other architectures and of batches it is the model's."""
    (M, N, K), dtype, how = drawn(random.Random(seed))
    product = sm80_choice.Product(M, N, K, 1, dtype.bytes, **how)
    found = sorted(((product.modelled(option, H200), option) for option in
                    sm80.options(K, dtype, 90, shifted=sm80.shifts(how["ways"]))), key=lambda one: one[0])
    short = sm80_choice.shortlist(found)
    assert len(sm80_choice.features(short[0][1], product, short[0][0], H200)) == len(sm80_choice.FEATURES)
    best = min(zip(sm80_choice.corrected(short, product, H200), short, strict=True), key=lambda one: one[0])[1]
    assert sm80_choice.choose(M, N, K, 1, dtype, H200, 90, **how) == best[1] and best[0] <= 1.6 * found[0][0]
    many = product._replace(batches=3)
    least = min(found, key=lambda one: many.modelled(one[1], H200))
    assert sm80_choice.choose(M, N, K, 3, dtype, H200, 90, **how) == least[1]


def test_older_architectures_follow_the_model():
    """Trees know of Hopper alone."""
    found = {arch: sum(sm80_choice.choose(*extents, 1, dtype, H200, arch, **how) != min(
        sm80.options(extents[2], dtype, arch, shifted=sm80.shifts(how["ways"])),
        key=lambda option: sm80_choice.Product(*extents, 1, dtype.bytes, **how).modelled(option, H200))
        for extents, dtype, how in map(drawn, map(random.Random, range(30)))) for arch in (80, 90)}
    assert found[80] == 0 < found[90]
