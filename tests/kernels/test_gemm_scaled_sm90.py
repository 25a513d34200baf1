"""Products of 8-bit floats whose blocks have factors, dense and grouped, in the simulator against float64."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import moye as mo
from moye.kernels import WarpgroupConfig, gemm, gemm_sm90, grouped_gemm_sm90
from moye.kernels.gemm.sm90.choice import choose
from moye.kernels.gemm.sm90.config import SCALED, Problem, candidates, deepest
from moye.runtime.prepare import compile_only
from scaled_products import BLOCK, E4M3, exact, factors, operands
from warpgroup_products import ACTIVATIONS, check_error, filled


def agree(M, N, K, *args, alpha=1.0, activation="none", product=gemm, config=None, **options):
    A, B, C, scale_a, scale_b = operands(M, N, K, *args, **options)
    assert product(A, B, C, scale_a=scale_a, scale_b=scale_b, alpha=alpha, activation=activation, config=config) is C
    sums, error = exact(A, B, scale_a, scale_b)
    check_error(C, ACTIVATIONS[activation](alpha * sums), 1.2 * abs(alpha) * error)
    return C


@pytest.mark.parametrize(("M", "N", "K"), [(1, 1, 16), (130, 200, 272), (128, 256, 128), (7, 300, 400), (257, 72, 33)])
def test_ragged(M, N, K):
    """The choice; K that is no multiple of 16 is copied first."""
    agree(M, N, K)


@pytest.mark.parametrize("out", ["f32", "f16", "bf16"])
def test_what_c_holds(out):
    agree(70, 136, 272, out=out)


@pytest.mark.parametrize("dtypes", [("e5m2", "e4m3"), ("e5m2", "e5m2")], ids=str)
def test_other_floats_of_8_bits(dtypes):
    agree(40, 136, 272, dtypes=dtypes)


@pytest.mark.parametrize(("orders", "scale_orders", "odd"), [
    ("CF", "CF", ""), ("FC", "CC", "ab"), ("CC", "FF", "ABab"), ("CC", "FC", "C")])
def test_any_strides(orders, scale_orders, odd):
    """What no tensor map describes is copied; factors are read as they lie."""
    agree(70, 140, 272, orders, scale_orders, odd=odd)


GROUPS = {64: 1, 128: 2, 192: 3, 256: 2}                 # warpgroups, by rows of a tile
TILES = {f"{bM}x{bN} {promotion}": WarpgroupConfig(bM, bN, 128, 3, groups=GROUPS[bM], promotion=promotion)
         for promotion, sizes in {
             "between": ((64, 32), (64, 96), (128, 128), (128, 160), (128, 176), (128, 192), (256, 96), (256, 128),
                         (192, 128)),
             "turns": ((128, 128), (128, 192), (256, 96), (256, 128)),
             "behind": ((128, 128), (128, 160), (128, 192), (256, 96)),
             "ahead": ((64, 96), (128, 112), (128, 128), (192, 64))}.items() for bM, bN in sizes}
SOME = ("128x176 between", "256x128 turns", "128x192 behind", "128x112 ahead")
"""Those of the quick run."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in SOME else pytest.mark.slow) for name in TILES])
def test_tiles(name):
    """Several k tiles, each place where a block of B begins within a tile; races, barriers, bounds: a clean report."""
    config = TILES[name]
    with mo.checking() as reports:
        agree(config.bM + 44, BLOCK // math.gcd(config.bN, BLOCK) * config.bN + 40, 400, config=config)
    assert [report for report in reports if not report.ok] == []


@pytest.mark.parametrize("K", [20, 200, 300])
@pytest.mark.parametrize("name", SOME)
def test_few_k_tiles(name, K):
    agree(130, 200, K, config=TILES[name])


@pytest.mark.parametrize("K", [4096, 4097, 4200, 4400, 8200, 8500])
@pytest.mark.parametrize("promotion", ["between", "behind", "ahead"])
def test_more_k_tiles_than_lanes(promotion, K):
    """A lane has the factor of B of one k tile in 32: of 32, one more and some more, and of twice as many."""
    agree(40, 140, K, config=WarpgroupConfig(64, 64, 128, 3, groups=1, promotion=promotion))


@pytest.mark.slow
@pytest.mark.parametrize("gather", ["cluster", "memory"])
def test_blocks_that_share_k_tiles(gather):
    agree(130, 200, 1000, config=WarpgroupConfig(128, 64, 128, 6, split_k=4, gather=gather))


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(2, 1), (1, 2), (2, 2)])
def test_blocks_that_share_tiles(a, b):
    with mo.checking() as reports:
        agree(300, 500, 300, config=WarpgroupConfig(128, 192, 128, 3, share_A=a, share_B=b))
    assert [report for report in reports if not report.ok] == []


def test_fused():
    """Factors of blocks come first, then what is fused."""
    agree(70, 136, 272, alpha=-0.5, activation="gelu", out="f32")


def test_batches():
    rng = np.random.default_rng(3)
    A, B = (filled(rng, (rows, 144, 3), E4M3).x for rows in (40, 136))
    scale_a, scale_b = factors(rng, (40, 2, 3)), factors(rng, (2, 2, 3))
    C = np.full((40, 136, 3), np.nan, np.float32)
    gemm_sm90(A, B, C, scale_a=scale_a, scale_b=scale_b)
    for i in range(3):
        check_error(C[..., i], *exact(A[..., i], B[..., i], scale_a[..., i], scale_b[..., i]))


@pytest.mark.parametrize(("promotion", "bM"), [("between", 256), ("turns", 256), ("behind", 256), ("ahead", 128)])
def test_promoted_sums_without_factors(promotion, bM):
    """The same loops, whose sums are added up as they are."""
    rng = np.random.default_rng(1)
    A, B, C = filled(rng, (300, 300), E4M3).x, filled(rng, (136, 300), E4M3).x, np.zeros((300, 136), np.float32)
    gemm_sm90(A, B, C, config=WarpgroupConfig(bM, 96, 128, 3, promotion=promotion))
    check_error(C, *exact(A, B, np.ones((300, 3)), np.ones((2, 3))))


def test_special_values_go_through():
    """NaN and infinity of operands and of factors, as IEEE has it for (sum of a block) * (factor * factor)."""
    A, B, C, scale_a, scale_b = operands(140, 260, 300, out="f32")
    A[3, 200], B[70, 7] = np.nan, np.nan
    scale_a[5, 1], scale_a[9, 2], scale_b[2, 0] = np.inf, np.nan, -np.inf
    gemm(A, B, C, scale_a=scale_a, scale_b=scale_b)
    expected = np.zeros((140, 260), np.float32)
    with np.errstate(invalid="ignore"):
        for k in range(3):
            at = slice(BLOCK * k, BLOCK * (k + 1))
            sums = A[:, at].astype(np.float32) @ B[:, at].astype(np.float32).T
            expected += sums * (scale_a[:, k, None] * np.repeat(scale_b[:, k], BLOCK)[:260])
    special = ~np.isfinite(expected)
    assert np.isnan(expected).any() and np.isinf(expected).any()
    assert np.array_equal(C[special], expected[special], equal_nan=True)
    assert np.allclose(C[~special], expected[~special], rtol=1e-4, atol=1e-3)


def test_nothing_to_sum():
    C = np.full((6, 8), 7, np.float32)
    gemm(np.zeros((6, 0), E4M3), np.zeros((8, 0), E4M3), C, scale_a=np.zeros((6, 0), np.float32),
         scale_b=np.zeros((1, 0), np.float32), activation=lambda x: x + 2.0)
    assert (C == 2).all()


# --- grouped ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heights", [(50, 0, 150), (1, 129, 128), (0, 0)], ids=str)
@pytest.mark.parametrize("config", [None, WarpgroupConfig(128, 192, 128, 3, promotion="behind")], ids=["chosen", "192"])
def test_groups(heights, config):
    """A tile begins at any row, and its factors of A with it."""
    rng, (N, K) = np.random.default_rng(len(heights)), (328, 272)
    offsets = 3 + np.cumsum([0, *heights], dtype=np.int32)
    M = int(offsets[-1]) + 5
    A, B = filled(rng, (M, K), E4M3).x, filled(rng, (N, K, len(heights)), E4M3).x
    scale_a, scale_b = factors(rng, (M, 3), "F"), factors(rng, (3, 3, len(heights)))
    C = np.full((M, N), 7, np.float32)
    assert grouped_gemm_sm90(A, B, C, offsets, scale_a=scale_a, scale_b=scale_b, config=config) is C
    for g, (first, last) in enumerate(itertools.pairwise(offsets)):
        rows = slice(first, last)
        check_error(C[rows], *exact(A[rows], B[..., g], scale_a[rows], scale_b[..., g]))
    assert (C[:3] == 7).all() and (C[-5:] == 7).all()


def test_grouped_refused():
    arguments = {"A": np.zeros((6, 16), E4M3), "B": np.zeros((8, 16, 2), E4M3), "C": np.zeros((6, 8), np.float32),
                 "offsets": np.array([0, 2, 6], np.int32), "scale_a": np.zeros((6, 1), np.float32)}
    message = "grouped_gemm_sm90: scale_b must be float32 (1, 1, 2), not (1, 1)"
    with pytest.raises(mo.ArgumentError, match=f"^{re.escape(message)}"):
        grouped_gemm_sm90(**arguments, scale_b=np.zeros((1, 1), np.float32))


# --- what is refused, what is chosen ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("changed", "message"), [
    ({"scale_b": None}, "scale_a is given without scale_b"),
    ({"scale_a": None}, "scale_b is given without scale_a"),
    ({"A": np.zeros((6, 200), np.float16), "B": np.zeros((140, 200), np.float16)},
     "scale_a and scale_b are of blocks of 8-bit floats, and A holds float16"),
    ({"scale_a": np.ones((6, 1), np.float32)},
     "scale_a must be float32 (6, 2), a factor for each a row and 128 of K of A (6, 200), not float32 (6, 1)"),
    ({"scale_a": np.ones((6, 2), np.float16)}, "scale_a must be float32 (6, 2), a factor for each a row and 128 of K "
                                               "of A (6, 200), not float16 (6, 2)"),
    ({"scale_b": np.ones((140, 2), np.float32)},
     "scale_b must be float32 (2, 2), a factor for each 128 x 128 of B (140, 200), not float32 (140, 2)"),
    ({"scale_b": 2.0}, "scale_b must be float32 (2, 2), not a float"),
    ({"scale_a": np.ones((6, 2), np.float32)[::-1]}, "scale_a has a negative stride -2"),
    ({"fast_accum": True}, "fast_accum=True does not go with scale_a and scale_b"),
    ({"config": WarpgroupConfig(128, 64, 128, 3, swap=True)}, "swap=True of"),
    ({"config": WarpgroupConfig(128, 64, 256, 2)}, "bK=256 of"),
    ({"config": WarpgroupConfig(128, 64, 128, 3, promotion="late")}, "promotion='late' of"),
    ({"config": WarpgroupConfig(64, 64, 128, 3, groups=1, promotion="turns")}, "promotion='turns' of"),
    ({"config": WarpgroupConfig(128, 48, 128, 3, promotion="behind")}, "promotion='behind' of"),
    ({"config": WarpgroupConfig(256, 64, 128, 3, promotion="ahead")}, "promotion='ahead' of")])
def test_refused(changed, message):
    arguments = {"A": np.zeros((6, 200), E4M3), "B": np.zeros((140, 200), E4M3), "C": np.zeros((6, 140), np.float32),
                 "scale_a": np.ones((6, 2), np.float32), "scale_b": np.ones((2, 2), np.float32)} | changed
    with pytest.raises(mo.ArgumentError, match=f"^gemm_sm90: {re.escape(message)}"):
        gemm(**arguments)


def test_gated_products_take_no_factors():
    with pytest.raises(mo.ArgumentError, match=r"^gemm_sm90: gated=True does not go with scale_a and scale_b"):
        gemm(np.zeros((6, 128), E4M3), np.zeros((256, 128), E4M3), np.zeros((6, 128), np.float32), gated=True,
             scale_a=np.ones((6, 1), np.float32), scale_b=np.ones((2, 1), np.float32))


@pytest.mark.parametrize(("M", "N", "K"), [(1, 4096, 7168), (64, 2112, 7168), (128, 7168, 2048), (4096, 2112, 7168),
                                           (8192, 8192, 8192)])
def test_what_is_chosen_can_be_had(M, N, K):
    """No candidate is turned."""
    problem = Problem(M, N, K, 1, mo.float8_e4m3fn, promote=True, scaled=True)
    found = candidates(problem)
    assert choose(problem, 132) in found
    assert all(config.bN in SCALED[config.bM, config.groups] for config in found)
    assert not any(config.swap or config.bK != BLOCK for config in found)


# --- compiled --------------------------------------------------------------------------------------------------------


def compiled(config, *, scaled=True, grouped=False):
    """The program of a large product, for sm_90a."""
    array, (M, N, K) = mo.TensorLike, (4096, 4224, 4096)
    of_A, of_B = array(mo.float32, (M, 32)), array(mo.float32, (33, 32), (32, 1))
    A, B = array(mo.float8_e4m3fn, (M, K), (K, 1)), array(mo.float8_e4m3fn, (N, K), (K, 1))
    C = array(mo.bfloat16, (M, N), (N, 1))
    with compile_only("sm_90a") as gathered:
        if grouped:
            B = array(mo.float8_e4m3fn, (N, K, 8), (K, 1, N * K))
            of_B = array(mo.float32, (33, 32, 8), (32, 1, 33 * 32))
            grouped_gemm_sm90(A, B, C, array(mo.int32, (9,)), scale_a=of_A, scale_b=of_B, config=config)
        else:
            gemm_sm90(A, B, C, config=config, **({"scale_a": of_A, "scale_b": of_B} if scaled else {}))
    return gathered.programs[-1]


DEEP = {name: replace(c, stages=deepest(c.bM, c.bN, c.groups, scaled=True)) for name, c in TILES.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scaled"), [*((name, True) for name in DEEP), *((name, False) for name in SOME)])
def test_compiled(name, scaled):
    """No spills, nothing serialised; one addition for each sum, which multiplies by the factor as well.

    The loop of promotion "ahead" has two k tiles, and what is left behind it one or two.
    """
    program, config = compiled(DEEP[name], scaled=scaled), DEEP[name]
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
    sums = config.rows * config.bN // BLOCK * (5 if config.promotion == "ahead" else 1)
    assert len(re.findall(r"\bFFMA", program.sass)) == (sums if scaled else 0)
    assert len(re.findall(r"\bFADD", program.sass)) == (0 if scaled else sums)


@pytest.mark.slow
@pytest.mark.parametrize("config", [None, DEEP["128x192 behind"], DEEP["256x128 between"]], ids=["-", "192", "256"])
def test_compiled_grouped(config):
    program = compiled(config, grouped=True)
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
