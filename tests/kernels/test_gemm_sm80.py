"""``gemm_sm80`` against float64 NumPy in the simulator, checks on: dtypes, edges, batches, epilogues, splits.

A kind is a line of ``KINDS``.  The error may be 5% above that of rounding the exact result once, and what the
accumulation in float32 costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels.gemm.sm80.choice import choose
from moye.kernels.gemm.sm80.config import TensorConfig, configs
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from pairs import pairs


@dataclass(frozen=True)
class Kind:
    """NumPy dtypes of the operands and of C; ``tf32``: the MMA sees a float32 rounded to 19 bits, ties away."""

    operand: type
    out: type
    tf32: bool = False

    @property
    def exact(self):
        """Whether sums are: of integers."""
        return np.dtype(self.out).kind == "i"

    def accumulation(self, K):
        """Relative error of a sum over K in the accumulators."""
        return (1e-15 if self.operand == np.float64 else 2e-7) * math.sqrt(K + 16)


KINDS = {
    "f16": Kind(np.float16, np.float16),
    "bf16": Kind(ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    "f16_f32": Kind(np.float16, np.float32),
    "bf16_f32": Kind(ml_dtypes.bfloat16, np.float32),
    "tf32": Kind(np.float32, np.float32, tf32=True),
    "tf32_bf16": Kind(np.float32, ml_dtypes.bfloat16, tf32=True),
    "f64": Kind(np.float64, np.float64),
    "s8": Kind(np.int8, np.int32),
    "u8": Kind(np.uint8, np.int32),
    "e4m3": Kind(ml_dtypes.float8_e4m3fn, np.float16),
    "e5m2": Kind(ml_dtypes.float8_e5m2, np.float32),
}
HALVES = ("f16", "bf16")
REAL = [name for name, kind in KINDS.items() if not kind.exact]
ORDERS = [a + b + c for a in "CF" for b in "CF" for c in "CF"]
SIZES = [(1, 1, 1), (33, 17, 19), (100, 72, 40), (65, 66, 67), (129, 130, 136)]


def array(rng, shape, dtype, order):
    """(rows, columns) or (rows, columns, L), the batches farthest apart; "C": columns are contiguous, "F": rows."""
    stored = shape[2:] + (shape[:2] if order == "C" else shape[1::-1])
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(np.int8 if dtype == np.int32 else dtype)
        x = rng.integers(info.min, info.max, stored, endpoint=True).astype(dtype)
    else:
        x = rng.standard_normal(stored).astype(dtype)
    x = x if len(shape) == 2 else np.moveaxis(x, 0, -1)
    return x if order == "C" else x.swapaxes(0, 1)


def poison(C):
    C[...] = -77 if C.dtype.kind == "i" else np.nan


def seen(x, kind):
    """An operand in float64 as the MMA sees it."""
    if kind.tf32:
        x = ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(np.float64)


def erf(x):
    return np.vectorize(math.erf)(x)


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def check_error(C, exact, kind, K):
    """No further from the exact result than its rounding, but for 5% and the accumulation."""
    assert np.isfinite(C.astype(np.float64)).all()
    norm = np.linalg.norm(exact)
    rounding = np.linalg.norm(exact.astype(kind.out).astype(np.float64) - exact) / norm
    error = np.linalg.norm(C.astype(np.float64) - exact) / norm
    bound = 0 if kind.exact else 1.05 * rounding + kind.accumulation(K)
    assert error <= bound, f"relative error {error:.2e}, allowed {bound:.2e}, of rounding alone {rounding:.2e}"


def agree(name, M, N, K, orders="CCC", batches=(), *, alpha=1, beta=0, bias=None, residual=False, activation="none",
          reference=None, **options):
    """One launch on random-normal data against float64; ``bias`` is its dtype, ``reference`` of another activation."""
    kind, rng = KINDS[name], np.random.default_rng([M, N, K])
    A, B = array(rng, (M, K, *batches), kind.operand, orders[0]), array(rng, (N, K, *batches), kind.operand, orders[1])
    C = array(rng, (M, N, *batches), kind.out, orders[2])
    exact = alpha * np.einsum("mk...,nk...->mn...", seen(A, kind), seen(B, kind))
    if beta:
        exact = exact + beta * C.astype(np.float64)
    else:
        poison(C)
    if residual:
        options["residual"] = array(rng, C.shape, kind.out, orders[2])
        exact = exact + options["residual"].astype(np.float64)
    if bias is not None:
        options["bias"] = array(rng, (N, 1), bias, "F")[:, 0]
        exact = exact + options["bias"].astype(np.float64).reshape(1, N, *(1 for _ in batches))
    exact = (reference or ACTIVATIONS[activation])(exact)
    options["activation"] = activation
    assert gemm_sm80(A, B, C, alpha=alpha, beta=beta, **options) is C
    check_error(C, exact, kind, K)


# --- shapes, strides, dtypes -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "orders", "size"), [
    *pairs(HALVES, ORDERS, SIZES[1:]), ("f16", "CCC", SIZES[0]), ("bf16", "FFF", SIZES[0])], ids=str)
def test_halves(name, orders, size):
    """All transposes, C row- and column-major, at ragged sizes: each pair of these with one of the two dtypes.

    Of single elements all transposes are one kernel, because modes of extent 1 have no strides of their own.
    """
    agree(name, *size, orders)


OTHERS = [name for name in KINDS if name not in HALVES]
SHAPES = list(zip(SIZES, [*ORDERS[::2], "CCF"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), [(name, SHAPES[(i + j) % 5]) for i, name in enumerate(OTHERS)
                                             for j in range(0, 5, 2)], ids=str)
def test_other_dtypes(name, shape):
    """Three of the five shapes each, in turn."""
    size, orders = shape
    agree(name, *size, orders)


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CFC", "FCF"])
@pytest.mark.parametrize("name", KINDS)
def test_whole_tiles_of_several_k(name, orders):
    """No edge is ragged: nothing is predicated, every copy and store is of 16 bytes."""
    agree(name, 128, 64, 512, orders)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "which", "edge"), pairs(["f16", "tf32", "f64", "s8"], range(3), [0, 1]))
def test_every_configuration_full_and_ragged(name, which, edge):
    found = configs(getattr(mo, np.dtype(KINDS[name].operand).name), 90 if name == "f64" else 80)
    config = found[min(which, len(found) - 1)]
    agree(name, config.bM + edge, config.bN - edge, 5 * config.bK + 3 * edge, config=config)


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CCC", "FFC"])
@pytest.mark.parametrize("mma", ["SM80_8x8x4_F64F64F64F64_TN", *(f"SM90_16x8x{k}_F64F64F64F64_TN" for k in (4, 8, 16))])
def test_every_instruction_of_float64(mma, orders):
    config = TensorConfig(64, 64, 32, 2, 2, 2, 1, mma=mma)
    agree("f64", 65, 63, 101, orders, config=config)
    agree("f64", 64, 64, 128, orders, config=config)


def test_what_the_instruction_of_a_configuration_may_be():
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(mo.ArgumentError, match=r"SM90_16x8x4_F64F64F64F64_TN of TensorConfig\(.*\) multiplies float64 "
                       r"and float64, and the operands are float16"):
        gemm_sm80(a, a, a.copy(), config=TensorConfig(64, 64, 32, 2, 2, 2, 1, mma="SM90_16x8x4_F64F64F64F64_TN"))
    x = np.zeros((64, 64))
    with pytest.raises(mo.ArgumentError, match=r"bK=16 of TensorConfig\(.*\) is no multiple of 32, which 2x2 warps of "
                       "SM90_16x8x16_F64F64F64F64_TN, two fragments of k by turns, cover"):
        gemm_sm80(x, x, x.copy(), config=TensorConfig(64, 64, 16, 2, 2, 2, 1, mma="SM90_16x8x16_F64F64F64F64_TN"))


def test_float64_on_sm_90_has_its_own_instructions():
    assert {config.mma[:4] for config in configs(mo.float64, 90)} == {"SM90"}
    assert {config.mma for config in configs(mo.float64, 80)} == {""}
    assert choose(4096, 4096, 4096, 1, mo.float64, 132, 90)[0] in configs(mo.float64, 90)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("k_tiles", [1, 2, 4, 7])
def test_fewer_and_more_k_tiles_than_stages(stages, k_tiles):
    config = TensorConfig(64, 64, 32, stages, 2, 2, 1)
    agree("f16", 64, 64, 32 * k_tiles, config=config)
    agree("f16", 63, 61, 32 * k_tiles - 5, "FCC", config=config)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_k_of_zero_and_nothing_to_write(name):
    kind = KINDS[name]
    A, B, C = np.zeros((5, 0), kind.operand), np.zeros((7, 0), kind.operand), np.zeros((5, 7), kind.out)
    poison(C)
    gemm_sm80(A, B, C)
    assert (C == 0).all()
    nothing = np.zeros((0, 7), kind.out)
    assert gemm_sm80(np.zeros((0, 4), kind.operand), np.zeros((7, 4), kind.operand), nothing) is nothing


@pytest.mark.slow
@pytest.mark.parametrize("name", HALVES)
def test_strided_views_of_larger_arrays(name):
    """No stride is one, no pointer aligned; what lies around C is left alone."""
    kind, rng = KINDS[name], np.random.default_rng(5)
    whole = array(rng, (200, 300), kind.operand, "C")
    A, B = whole[1:98:2, 3:80:2], whole[5:70, 100:139]
    around = array(rng, (60, 160), kind.out, "C")
    before, C = around.copy(), around[3:52, 1:131:2]
    poison(C)
    gemm_sm80(A, B, C)
    check_error(C, seen(A, kind) @ seen(B, kind).T, kind, 39)
    around[3:52, 1:131:2] = before[3:52, 1:131:2]
    assert np.array_equal(around, before)


# --- batches and splits ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "orders"), [
    *(("f16", orders) for orders in ("CCC", "FCC", "CFF", "FFF")), ("bf16", "CFF"), ("bf16", "CCC"), ("tf32", "FCC"),
    ("tf32", "CFF"), ("f64", "FFF"), ("f64", "CCC"), ("s8", "FFF"), ("s8", "FCC")])
def test_batches(name, orders):
    agree(name, 64, 64, 64, orders, (3,))
    agree(name, 65, 34, 50, orders, (2,))


def test_a_batch_of_one():
    agree("f16", 17, 9, 33, "CCC", (1,))
    agree("tf32", 17, 9, 33, "FFF", (1,))


def test_one_operand_for_all_batches():
    rng = np.random.default_rng(2)
    A, B = array(rng, (40, 24, 3), np.float16, "C"), array(rng, (32, 24), np.float16, "C")
    C = np.full((3, 40, 32), np.nan, np.float16).transpose(1, 2, 0)
    gemm_sm80(A, np.broadcast_to(B[:, :, None], (32, 24, 3)), C)
    check_error(C, np.einsum("mkl,nk->mnl", A.astype("f8"), B.astype("f8")), KINDS["f16"], 24)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "splits"), [("f16", 1), ("f16", 3), ("f16", 8), ("bf16", 3), ("tf32", 8), ("f64", 3),
                                              ("s8", 8)])
def test_splits(name, splits):
    agree(name, 64, 64, 512, splits=splits)
    agree(name, 33, 65, 391, "FCF", splits=splits)


@pytest.mark.slow
def test_splits_with_an_epilogue():
    agree("bf16", 48, 40, 300, "CCC", (2,), splits=3, alpha=0.5, beta=-2.0, bias=np.float32, residual=True,
          activation="relu")
    agree("f16", 48, 40, 300, "CCF", splits=2, alpha=0.5, beta=-2.0, residual=True, activation="silu")


# --- epilogues -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", [(2.0, 0), (1, 1.0), (0.5, -2.0), (0, 1.5)], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_alpha_and_beta(name, scale):
    alpha, beta = scale
    agree(name, 65, 66, 40, alpha=alpha, beta=beta)
    agree(name, 64, 64, 40, "FCF", alpha=alpha, beta=beta)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL if name not in HALVES])
def test_other_dtypes_are_scaled(name):
    agree(name, 65, 66, 40, alpha=0.5, beta=-2.0)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [(2, 0), (1, 1), (-3, 2)], ids=str)
@pytest.mark.parametrize("name", ["s8", "u8"])
def test_integers_are_scaled_exactly(name, scale):
    alpha, beta = scale
    agree(name, 65, 66, 40, alpha=alpha, beta=beta)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "orders", "size"),
                         pairs(HALVES, ("CCC", "CCF"), [(64, 64, 64), (65, 66, 67), (1, 1, 1)]), ids=str)
def test_bias_along_n(name, orders, size):
    agree(name, *size, orders, bias=KINDS[name].out)
    agree(name, *size, orders, bias=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "orders", "activation"),
                         pairs([*HALVES, "tf32"], ("CCC", "CCF"), ("relu", "gelu", "silu")))
def test_activations(name, orders, activation):
    agree(name, 65, 66, 40, orders, activation=activation)


@pytest.mark.slow
@pytest.mark.parametrize("name", HALVES)
def test_everything_at_once(name):
    agree(name, 100, 72, 40, alpha=0.5, beta=0.25, bias=KINDS[name].out, residual=True, activation="gelu")
    agree(name, 65, 34, 50, "FCC", (2,), alpha=0.5, beta=0.25, bias=np.float32, residual=True, activation="relu")
    agree(name, 65, 34, 50, "CFF", (2,), beta=1, residual=True, activation="silu")


def test_an_activation_of_ones_own():
    agree("f16", 65, 66, 40, activation=lambda x: mo.maximum(x, -1.0) * 2.0, reference=lambda x: np.maximum(x, -1) * 2)


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "options", "message"), [
    (lambda A, B, C: (A[:, :7], B, C), {}, "are not .M, K., .N, K. and .M, N."),
    (lambda A, B, C: (A, B, C[:9]), {}, "are not .M, K., .N, K. and .M, N."),
    (lambda A, B, C: (A[:, :, None], B, C), {}, "the same batch mode or none"),
    (lambda A, B, C: (A.astype(np.float32), B, C), {}, "A holds float32 and B float16; they must be the same"),
    (lambda A, B, C: (A.astype(np.int16), B.astype(np.int16), C), {}, "no MMA operation for int16; there are some for"),
    (lambda A, B, C: (A[0], B, C), {}, "A must be a matrix or a batch of them, not .8,."),
    (lambda A, B, C: ("A", B, C), {}, "A must be a matrix or a batch of them, not a str"),
    (lambda A, B, C: (A, B, C), {"activation": "tanh"}, "activation='tanh' is none of"),
    (lambda A, B, C: (A, B, C.astype(np.int32)), {}, "C holds int32; for operands of float16 it may hold float32"),
])
def test_wrong_arguments(change, options, message):
    A, B, C = np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float16), np.full((16, 16), 3, np.float16)
    with pytest.raises(mo.ArgumentError, match=message):
        gemm_sm80(*change(A, B, C), **options)
    assert (C == 3).all()


def test_integers_take_no_fractions():
    A, B, C = np.zeros((16, 8), np.int8), np.zeros((16, 8), np.int8), np.full((16, 16), 3, np.int32)
    with pytest.raises(mo.ArgumentError, match=r"matrices are scaled by integers, not 0\.5"):
        gemm_sm80(A, B, C, alpha=0.5)
    assert (C == 3).all()


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (1, 0), (0, 0)], ids=str)
def test_k_of_zero_with_any_strides(strides):
    """Libraries disagree about the strides of empty arrays."""
    empty = np.lib.stride_tricks.as_strided(np.zeros((8, 8), np.float16), (128, 0), [2 * step for step in strides])
    C = np.full((128, 128), np.nan, np.float16)
    gemm_sm80(empty, empty, C)
    assert not C.any()
