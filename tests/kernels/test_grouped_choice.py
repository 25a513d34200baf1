"""Which tile several products in one launch get: what there is to choose from, what the trees know of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import moye as mo
from moye.kernels import WarpgroupConfig
from moye.kernels.gemm.grouped.choice import (
    FEATURES,
    FITTED,
    config_of_groups,
    expected,
    features,
    rounded,
    tiles_of_groups,
    timed,
)
from moye.kernels.gemm.parts.trees import fitted
from moye.kernels.gemm.sm90.config import COSTS, Problem, fits

LARGE = Problem(1024, 4096, 7168, 8, mo.bfloat16)
FEW = Problem(5, 2048, 2048, 60, mo.bfloat16)
EIGHTH = Problem(1024, 4096, 7168, 8, mo.float8_e4m3fn, promote=True)


def chosen(problem: Problem, separate: bool = False) -> WarpgroupConfig:
    return config_of_groups("f", problem, 132, None, separate)


@pytest.mark.parametrize("problem", [LARGE, FEW, EIGHTH, dataclasses.replace(EIGHTH, scaled=True),
                                     dataclasses.replace(LARGE, most=128), dataclasses.replace(LARGE, dtype=mo.float32),
                                     dataclasses.replace(LARGE, N=8, K=1), dataclasses.replace(LARGE, M=1, batches=1)],
                         ids=str)
def test_all_tiles_fit(problem):
    found = tiles_of_groups(problem, 132)
    assert found and all(tile.sharing == 1 and not tile.swap and tile.store == "warpgroup" for tile in found)
    assert all(fits(tile, problem.promote, problem.most) for tile in found)
    assert chosen(problem) in found and chosen(problem, separate=True) in found


def test_few_rows_have_low_tiles_and_many_have_high_ones():
    assert chosen(FEW).bM == 64 and chosen(LARGE).bM >= 128


def test_rows_are_of_the_last_tile_in_the_mean():
    tile = WarpgroupConfig(128, 128, 64, 5)
    times = [expected(tile, dataclasses.replace(LARGE, M=M), 132) for M in (1, 64, 65, 128, 640)]
    assert times[0] == times[1] < times[2] < times[3] < times[4]


def test_the_trees_are_of_these_features_and_costs():
    """``benchmarks/grouped_choice_fit.py`` has been run since either changed."""
    us, tile = timed(LARGE, 132)[0]
    assert len(features(tile, LARGE, us, True, 132)) == len(FEATURES) > fitted(FITTED).feature.max()
    with np.load(FITTED) as found:
        assert tuple(found["costs"]) == pytest.approx(dataclasses.astuple(COSTS))


def test_calls_of_about_as_many_rows_have_one_choice():
    assert [rounded(n) for n in (0, 1, 15, 16, 17, 1000, 1025)] == [1, 1, 15, 16, 18, 1024, 1152]
