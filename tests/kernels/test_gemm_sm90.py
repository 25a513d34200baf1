"""``gemm_sm90`` against float64 NumPy in the simulator, checks on: dtypes, edges, strides, batches.

Schedules and epilogues have files of their own.  Operands lie in NaNs; so does C, and its surroundings stay so.
"""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

from moye.kernels import gemm_sm90
from pairs import pairs
from warpgroup_products import BYTES, DTYPES, KINDS, agree, check_error, expected_of, filled, place, tile, to_tf32

OUTPUTS = [(kind, out) for kind in KINDS for out in (("s32",) if KINDS[kind][2] == "s32" else ("bf16", "f16", "f32"))]
ORDERS = ["".join(letters) for letters in itertools.product("CF", repeat=3)]
RAGGED = [(1, 8, 1), (33, 24, 19), (127, 264, 63), (129, 136, 136), (200, 7, 200)]


def small(kind):
    return tile(kind, 64, 64)


# --- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "out"), OUTPUTS)
def test_dtypes(kind, out):
    """Whole tiles, then every edge ragged, of the same program."""
    bK = 128 // BYTES[kind]
    agree(kind, 128, 64, 2 * bK, out=out, config=small(kind))
    agree(kind, 120, 72, 2 * bK + 16, out=out, config=small(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "mixed", "mixed_turned"])
def test_sums_in_the_tensor_core(kind):
    agree(kind, 100, 72, 300, config=small(kind), fast_accum=True)


def test_float32_operands_are_rounded_to_nearest():
    """1 + 2^-11 is a tie, which goes to the even 1; a little less goes down, a little more up."""
    A, C = np.zeros((4, 64), np.float32), place((4, 8), np.float32).x
    A[:, 5] = 1 + 2.0 ** -11, 1 + 2.0 ** -11 - 2.0 ** -23, 1 + 2.0 ** -11 + 2.0 ** -23, -1 - 2.0 ** -11
    gemm_sm90(A, np.ones((8, 64), np.float32), C)
    assert np.array_equal(C, np.repeat(to_tf32(A[:, 5:6]), 8, 1))
    assert C[:, 0].tolist() == [1, 1, 1 + 2 ** -10, -1]


def test_results_are_rounded_once():
    """1 + 2^-11 and then 2^-20: sums in float16 would lose both."""
    A, C = np.zeros((8, 64), np.float16), place((8, 8), np.float16).x
    A[:, 0], A[:, 17], A[:, 63] = 1, 2 ** -11, 2 ** -20
    gemm_sm90(A, np.ones((8, 64), np.float16), C)
    assert (C == 1 + 2 ** -10).all()


# --- shapes and strides ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "orders"), list(zip(itertools.cycle(["bf16", "f16", "f16", "bf16"]), ORDERS)))
def test_transposes(kind, orders):
    """Each of one dtype of 16 bits, and each letter of both."""
    agree(kind, 128, 128, 128, orders, config=small(kind))
    agree(kind, 136, 72, 200, orders, config=small(kind))


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CFC", "FCF", "FFC"])
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_transposes_that_are_copied_first(kind, orders):
    agree(kind, 72, 80, 200, orders, config=small(kind))


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CFC", "FCF", "FFC"])
@pytest.mark.parametrize("bN", [8, 16, 32, 192])
def test_narrow_tiles_that_are_contiguous_along_their_rows(bN, orders):
    agree("f16", 72, 2 * bN - 3 if bN < 64 else 200, 100, orders, config=tile("f16", 64, bN))


@pytest.mark.slow
@pytest.mark.parametrize("size", RAGGED, ids=str)
@pytest.mark.parametrize("orders", ["CCC", "CFC", "FCF", "FFF"])
def test_ragged(orders, size):
    """Of the configuration that is chosen."""
    agree("bf16", *size, orders)


@pytest.mark.slow
@pytest.mark.parametrize("edge", list(itertools.product((0, 1), repeat=3)), ids=str)
def test_each_edge(edge):
    M, N, K = (extent + 8 * more for extent, more in zip((128, 128, 128), edge, strict=True))
    agree("f16", M, N, K, "CFC", config=tile("f16", 128, 128, groups=2))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "odd"), [*(("bf16", odd) for odd in ("A", "B", "C", "ABC")), ("tf32", "A"),
                                           ("tf32", "C"), ("e5m2", "B"), ("e5m2", "ABC"), ("u8", "ABC"), ("u8", "C")])
def test_odd_bases_and_odd_rows(kind, odd):
    """Operands are copied for TMA; C is stored from registers, one element at a time."""
    agree(kind, 65, 71, 67, odd=odd, config=small(kind))
    agree(kind, 65, 71, 67, "FFF", odd=odd, config=small(kind))


@pytest.mark.slow
@pytest.mark.parametrize("K", [0, 1, 2, 7, 15, 17, 63, 65])
@pytest.mark.parametrize("kind", ["bf16", "tf32", "mixed", "s8"])
def test_odd_K(kind, K):
    agree(kind, 40, 72, K, config=small(kind))


@pytest.mark.slow
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("N", [1, 8, 23, 66])
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_columns_of_C(out, N, order):
    """Whole parts of 16 bytes, pairs of elements, and neither; along N and along M."""
    agree("bf16", 66, N, 64, "CC" + order, out=out, config=small("bf16"))
    agree("bf16", 71, N, 64, "CC" + order, out=out, config=small("bf16"))


@pytest.mark.parametrize("kind", ["bf16", "tf32", "s8"])
def test_strides_of_two(kind):
    """No mode is contiguous, of any array."""
    rng = np.random.default_rng(3)
    A, B = (filled(rng, (2 * rows, 130), DTYPES[KINDS[kind][0]]).x[::2, ::2] for rows in (40, 50))
    memory = place((80, 100), DTYPES[KINDS[kind][2]])
    before, C = memory.x.copy(), memory.x[::2, 1::2]
    gemm_sm90(A, B, C, config=small(kind))
    check_error(C, *expected_of(A, B))
    before[::2, 1::2] = C
    assert np.array_equal(memory.x, before, equal_nan=kind != "s8")


@pytest.mark.parametrize("shape", [(0, 7, 8), (7, 0, 8), (0, 0, 0)], ids=str)
def test_nothing_to_write(shape):
    M, N, K = shape
    nothing = np.zeros((M, N), np.float16)
    assert gemm_sm90(np.zeros((M, K), np.float16), np.zeros((N, K), np.float16), nothing) is nothing


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (1, 0), (0, 0)], ids=str)
def test_k_of_zero_with_any_strides(strides):
    """Libraries disagree about the strides of empty arrays."""
    empty = np.lib.stride_tricks.as_strided(np.zeros((8, 8), np.float16), (128, 0), [2 * step for step in strides])
    C = place((128, 128), np.float16).x
    gemm_sm90(empty, empty, C)
    assert not C.any()


def test_one_row_for_all():
    """Along M the stride is zero: TMA repeats nothing in a tile, and the row is copied."""
    rng = np.random.default_rng(4)
    A, B, C = (filled(rng, shape, np.float16).x for shape in ((1, 72), (48, 72), (40, 48)))
    gemm_sm90(np.broadcast_to(A, (40, 72)), B, C)
    check_error(C, *expected_of(np.repeat(A, 40, 0), B))


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "batches", "orders"),
                         pairs(["bf16", "tf32", "e4m3", "u8"], [1, 3], ["CCC", "FFF"]))
def test_batches(kind, batches, orders):
    agree(kind, 72, 80, 136, orders, batches=batches, config=small(kind))
    if batches > 1:
        agree(kind, 65, 34, 50, orders, batches=batches, odd="ABC", config=small(kind))


def test_batches_between_the_rows():
    """(rows, L, columns) seen as (rows, columns, L)."""
    rng = np.random.default_rng(6)
    A, B, C = (filled(rng, (rows, 3 * columns), np.float16).x.reshape(rows, 3, columns).transpose(0, 2, 1)
               for rows, columns in ((40, 72), (56, 72), (40, 56)))
    gemm_sm90(A, B, C)
    check_error(C, *expected_of(A, B))


@pytest.mark.parametrize("order", "CF")
def test_one_operand_for_all_batches(order, monkeypatch):
    """A batch mode of stride zero is TMA's: nothing is copied."""
    rng = np.random.default_rng(2)
    A, B, C = (filled(rng, shape, np.float16, order).x for shape in ((40, 72, 3), (32, 72), (40, 32, 3)))
    monkeypatch.setattr(importlib.import_module("moye.kernels.gemm.sm90.host"), "packed", None)
    gemm_sm90(A, np.broadcast_to(B[:, :, None], (32, 72, 3)), C)
    check_error(C, *expected_of(A, np.repeat(B[:, :, None], 3, 2)))


def test_no_batches():
    nothing = np.zeros((8, 8, 0), np.float16)
    assert gemm_sm90(np.zeros((8, 16, 0), np.float16), np.zeros((8, 16, 0), np.float16), nothing) is nothing
