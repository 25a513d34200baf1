"""What ``gemm_sm90`` fuses, in the simulator against float64: each alone and all together, of every way to store C.

C by TMA along N and along M, and by plain stores of one and of two elements; turned, split, gated; edges ragged.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_sm80, gemm_sm90
from moye.kernels.gemm.sm90.kernel import gemm_sm90_kernel
from warpgroup_products import agree, check_error, expected_of, filled, place, tile

PLACES = {
    "whole": (tile("bf16", 64, 64), (64, 64, 128), {}),
    "ragged": (tile("bf16", 64, 64), (72, 136, 72), {}),
    "along_M": (tile("bf16", 64, 64), (136, 71, 72), {"orders": "CCF"}),
    "plain_pairs": (tile("bf16", 64, 64), (71, 66, 72), {"out": "f32"}),
    "plain": (tile("bf16", 64, 64), (71, 67, 72), {"odd": "CRV"}),
    "in_turns": (tile("bf16", 64, 128, 3, "pingpong", 2), (136, 136, 72), {"blocks": 1}),
    "turned": (tile("bf16", 64, 16, 4, swap=True), (11, 136, 72), {"orders": "CCC"}),
    "turned_along_M": (tile("bf16", 64, 16, 4, swap=True), (8, 71, 72), {"orders": "CCF"}),
    "of_8_columns": (tile("bf16", 64, 8), (72, 23, 72), {}),
    "turned_of_8_columns": (tile("bf16", 64, 8, swap=True), (5, 72, 72), {}),
    "multicast": (tile("bf16", 64, 64, 2, "pingpong", 2, share_A=2), (72, 136, 200), {"blocks": 2}),
    "split": (tile("bf16", 64, 64, 4, split_k=2), (72, 71, 200), {}),
    "split_and_turned": (tile("bf16", 64, 16, 4, split_k=4, swap=True), (11, 72, 264), {}),
    "batches": (tile("bf16", 64, 64), (72, 71, 72), {"batches": 3, "orders": "CFF"}),
}
ONE = {"bias": {"bias": "bf16"}, "residual": {"residual": "bf16"}, "row_scale": {"row_scale": "f32"},
       "col_scale": {"col_scale": "f16"}, "alpha": {"alpha": -0.5}, "beta": {"beta": 0.75},
       "relu": {"activation": "relu"}, "gelu": {"activation": "gelu"}, "silu": {"activation": "silu"}}
TOGETHER = {"alpha": 0.5, "beta": -0.75, "bias": "f32", "residual": "f16", "row_scale": "f32", "col_scale": "bf16",
            "activation": "gelu"}


def fused(where, **what):
    config, size, more = PLACES[where]
    agree("bf16", *size, config=config, **more, **what)


WAYS = ("ragged", "plain", "turned", "split")          # to store C: by TMA, by element, turned, after a sum of parts


@pytest.mark.slow
@pytest.mark.parametrize(("where", "what"), [(WAYS[(i + more) % 4], what) for i, what in enumerate(ONE)
                                             for more in (0, 1)])
def test_one_thing(where, what):
    """At two of the four ways each, in turn; all things together come below at every place."""
    fused(where, **ONE[what])


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_all_together(where):
    fused(where, **TOGETHER)


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_all_but_beta(where):
    """C is not read, so TMA stores it."""
    fused(where, **(TOGETHER | {"beta": 0, "activation": "silu"}))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "s32"])
def test_dtypes_of_what_is_added(dtype):
    fused("ragged", bias=dtype, residual=dtype, row_scale=dtype, col_scale=dtype)


def test_factors():
    """Zero removes the product, or takes C as it is; the others are runtime values of one program."""
    for alpha, beta in ((0, 1), (2.5, 0), (1, 1), (-1, 3)):
        fused("ragged", alpha=alpha, beta=beta)


def test_an_activation_of_ones_own():
    for where in ("ragged", "turned"):
        fused(where, activation=lambda x: mo.maximum(x, -1.0) * 2.0, reference=lambda x: np.maximum(x, -1) * 2)


def test_no_activation_is_none():
    fused("ragged", activation=None, reference=lambda x: x)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "mixed"])
def test_other_dtypes(kind):
    agree(kind, 72, 71, 200, config=tile(kind, 64, 64), **TOGETHER)
    agree(kind, 11, 72, 600, config=tile(kind, 64, 16, 4, split_k=4, swap=True), **TOGETHER)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "what"), list(zip(itertools.cycle(["s8", "u8"]), [
    {"alpha": 3}, {"beta": -2}, {"bias": "s32"}, {"residual": "s8"}, {"row_scale": "s8"}, {"col_scale": "u8"},
    {"activation": "relu"}])), ids=str)
def test_integers_are_exact(kind, what):
    agree(kind, 72, 71, 200, config=tile(kind, 64, 64), **what)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_integers_all_together(kind):
    together = {"alpha": 2, "beta": -3, "bias": "s32", "residual": "s32", "row_scale": "s8", "activation": "relu"}
    agree(kind, 72, 71, 200, config=tile(kind, 64, 64), **together)
    agree(kind, 11, 72, 600, config=tile(kind, 64, 16, 4, split_k=4, swap=True), **together)


# --- gated -----------------------------------------------------------------------------------------------------------

GATED = {"alone": {}, "silu": {"activation": "silu"}, "bias": {"bias": "f32", "activation": "gelu"},
         "scaled": {"row_scale": "f32", "col_scale": "f32", "alpha": 0.5, "activation": "relu"},
         "together": {"bias": "bf16", "row_scale": "f32", "col_scale": "f16", "alpha": -2.0, "activation": "silu"}}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "order"), [*zip(GATED, "CFCFC", strict=True), ("together", "F")])
def test_gated(what, order):
    agree("bf16", 72, 72, 136, "CC" + order, gated=True, config=tile("bf16", 64, 64), **GATED[what])
    agree("bf16", 71, 41, 136, "CC" + order, gated=True, odd="CV", config=tile("bf16", 64, 64), **GATED[what])


GATED_TILES = {"64x16": tile("bf16", 64, 16), "64x256": tile("bf16", 64, 256, 2, share_B=2),
               "128x192": tile("bf16", 128, 192, 2, "pingpong", 2), "128x128": tile("bf16", 128, 128, groups=2)}


@pytest.mark.slow
@pytest.mark.parametrize("name", GATED_TILES)
@pytest.mark.parametrize("order", "CF")
def test_gated_tiles(name, order):
    """The halves of a tile are those of B, contiguous along K or along N; the last tile is ragged."""
    config = GATED_TILES[name]
    agree("bf16", 136, config.bN // 2 + 8, 136, f"C{order}C", gated=True, activation="silu", config=config)


@pytest.mark.parametrize("N", [3, 8, 41])
def test_gated_halves_that_begin_anywhere(N):
    """B is contiguous along its 2 N rows: the second half begins at no multiple of 16 bytes, unless N is one of 8."""
    agree("f16", 40, N, 72, "CFC", gated=True, activation="silu", config=tile("f16", 64, 64))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_gated_dtypes(kind):
    agree(kind, 72, 41, 136, gated=True, activation="relu", config=tile(kind, 64, 64))
    agree(kind, 40, 24, 72, gated=True, activation="relu", batches=3)


# --- where it is read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swap", [False, True])
def test_vectors_and_residuals_of_any_strides(swap):
    """Every second element, a column of a matrix, one number for all; a residual of another order than C."""
    rng = np.random.default_rng(11)
    M, N, K = 40, 24, 72
    A, B, C = (filled(rng, shape, np.float16).x for shape in ((M, K), (N, K), (M, N)))
    C[...] = np.nan
    bias, rows = filled(rng, (1, 2 * N), np.float32).x[0, ::2], filled(rng, (M, 3), np.float32).x[:, 1]
    columns, residual = np.broadcast_to(np.float32(0.5), N), filled(rng, (M, N), np.float16, "F", odd=True).x
    gemm_sm90(A, B, C, bias=bias, row_scale=rows, col_scale=columns, residual=residual,
              config=tile("f16", 64, 32, 4, swap=swap))
    exact, error = expected_of(A, B)
    check_error(C, 0.5 * rows[:, None] * exact + residual.astype(np.float64) + bias, error + 1e-6)


def test_a_residual_for_all_batches():
    rng = np.random.default_rng(12)
    A, B = (filled(rng, (rows, 72, 3), np.float16).x for rows in (40, 24))
    residual, C = filled(rng, (40, 24), np.float16).x, place((40, 24, 3), np.float16).x
    gemm_sm90(A, B, C, residual=np.broadcast_to(residual[:, :, None], C.shape))
    exact, error = expected_of(A, B)
    check_error(C, exact + residual.astype(np.float64)[:, :, None], error)


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "where"), list(itertools.product((0, 0.5), ("ragged", "plain", "turned", "split"))))
def test_beta_of_zero_reads_nothing(beta, where):
    """A NaN in C stays one exactly where beta times it is added."""
    config, (M, N, K), more = PLACES[where]
    rng = np.random.default_rng(13)
    A, B = (filled(rng, (rows, K), np.float16).x for rows in (M, N))
    C = filled(rng, (M, N), np.float16, odd="C" in more.get("odd", "")).x
    C[M // 2, N // 3] = np.nan
    gemm_sm90(A, B, C, beta=beta, config=config)
    wrong = np.argwhere(np.isnan(C)).tolist()
    assert wrong == ([[M // 2, N // 3]] if beta else [])


@pytest.mark.slow
@pytest.mark.parametrize("product", [gemm_sm80, gemm_sm90])
def test_an_activation_is_what_it_reads_now(product):
    """Not the function that it was when its kernel was traced."""
    A, factor = np.ones((8, 16), np.float16), 2.0

    def scaled(x):
        return x * factor

    assert (product(A, A, np.zeros((8, 8), np.float32), activation=scaled) == 32).all()
    factor = 3.0
    assert (product(A, A, np.zeros((8, 8), np.float32), activation=scaled) == 48).all()


def test_a_fresh_activation_of_the_same_code_is_not_traced_again():
    A, traced = np.ones((8, 16), np.float16), []
    for factor in (7.0, 7.0, 9.0):
        gemm_sm90(A, A, np.zeros((8, 8), np.float32), activation=lambda x, factor=factor: x * factor)
        traced.append(len(gemm_sm90_kernel.why_recompiled()))
    assert traced[0] == traced[1] < traced[2]
