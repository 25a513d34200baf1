"""``grouped_gemm_sm90`` in the simulator against float64: groups of any heights, dtypes, strides; what it refuses."""

from __future__ import annotations

import itertools
import re
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import WarpgroupConfig, grouped_gemm_sm90
from moye.runtime.prepare import compile_only
from warpgroup_products import ACTIVATIONS, filled, seen

SMALL = WarpgroupConfig(128, 64, 64, 3)
TILES = (WarpgroupConfig(64, 64, 64, 3, "pingpong"), WarpgroupConfig(128, 64, 64, 3, "pingpong"),
         WarpgroupConfig(64, 64, 64, 3, groups=1), WarpgroupConfig(192, 64, 64, 3, groups=3),
         WarpgroupConfig(256, 64, 64, 3))


def agree(heights, N, K, *, dtype=np.float16, out=np.float32, orders="CCC", begin=0, behind=0, odd=False, alpha=1.0,
          activation="none", scale=1.0, **options):
    """Launch and compare; rows of no group stay as they are."""
    rng = np.random.default_rng(len(heights) + N + K)
    offsets = begin + np.cumsum([0, *heights], dtype=np.int32)
    M = int(offsets[-1]) + behind
    A = filled(rng, (M, K), dtype, orders[0], odd=odd).x
    B = filled(rng, (N, K, len(heights)), dtype, orders[1], odd=odd).x
    C = filled(rng, (M, N), out, orders[2], odd=odd, small=True).x
    expected = C.astype(np.float64)
    for g, (first, last) in enumerate(itertools.pairwise(offsets)):
        sums = alpha * seen(A[first:last]) @ seen(B[:, :, g]).T
        expected[first:last] = ACTIVATIONS[activation](sums)
    assert grouped_gemm_sm90(A, B, C, offsets, alpha=alpha, activation=activation, **options) is C
    rounding = {4: 2.0 ** -20, 2: 2.0 ** (-7 if out == ml_dtypes.bfloat16 else -10)}[np.dtype(out).itemsize]
    error = np.abs(C.astype(np.float64) - expected)
    assert (error <= scale * (rounding * np.abs(expected) + 3e-6 * max(K, 1))).all(), error.max()


@pytest.mark.slow
@pytest.mark.parametrize("heights", [(50, 0, 150), (0, 0), (1, 1, 1), (128, 128), (0, 300, 0), (129, 127, 5)], ids=str)
@pytest.mark.parametrize(("N", "out", "orders"), [(72, np.float16, "CCC"), (71, np.float32, "CCC"),
                                                  (72, ml_dtypes.bfloat16, "FFF")])
def test_groups(heights, N, out, orders):
    """C by TMA where tiles are whole, by plain stores at the end of a group; and by plain stores alone."""
    agree(heights, N, 100, out=out, orders=orders, config=SMALL)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.float8_e4m3fn])
def test_more_groups_than_rows(dtype):
    """As of few tokens and many experts; the configuration is chosen."""
    agree((0, 1, 0, 0, 1, 0), 200, 64, dtype=dtype)


@pytest.mark.slow
def test_more_tiles_than_blocks():
    agree((300,) * 20, 256, 40, out=np.float16, config=SMALL)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: f"{tile.bM} rows {tile.schedule} {tile.groups}")
def test_tiles(tile):
    """Blocks have several tiles, of warpgroups together and in turns, and the last of a group is ragged."""
    with mock.patch.object(mo, "multiprocessors", lambda array: 3), mo.checking() as reports:
        agree((130, 0, 9, 270, 64), 136, 200, out=np.float16, config=tile)
    assert all(report.ok for report in reports)


def test_rows_of_no_group_stay_as_they_are():
    agree((40, 60), 72, 64, out=np.float16, begin=7, behind=30, config=SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e4m3fn, np.int8])
@pytest.mark.parametrize("odd", [False, True])
def test_dtypes_and_strides(dtype, odd):
    out = np.int32 if dtype == np.int8 else np.float32
    agree((50, 9, 141), 70, 150, dtype=dtype, out=out, odd=odd)


def test_one_matrix_for_all_groups():
    rng = np.random.default_rng(0)
    A, B = filled(rng, (20, 64), np.float16).x, filled(rng, (24, 64), np.float16).x
    C = np.zeros((20, 24), np.float32)
    grouped_gemm_sm90(A, np.broadcast_to(B[:, :, None], (24, 64, 2)), C, np.array([0, 3, 20], np.int32))
    assert np.allclose(C, seen(A) @ seen(B).T, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_scaled_and_activated(activation):
    agree((50, 9), 72, 64, out=np.float16, alpha=-0.5, activation=activation, scale=2.0, config=SMALL)


@pytest.mark.slow
def test_nothing_to_sum():
    """K = 0: the activation of zeros, where there are rows of a group."""
    C = np.full((6, 8), 7, np.float32)
    grouped_gemm_sm90(np.zeros((6, 0), np.float16), np.zeros((8, 0, 2), np.float16), C, np.array([0, 1, 4], np.int32),
                      activation=lambda x: x + 2.0)
    assert (C[:4] == 2).all() and (C[4:] == 7).all()


@pytest.mark.parametrize(("M", "N", "G"), [(0, 8, 2), (8, 0, 2), (8, 8, 0)])
def test_nothing_to_do(M, N, G):
    C = np.full((M, N), 7, np.float32)
    grouped_gemm_sm90(np.zeros((M, 16), np.float16), np.zeros((N, 16, G), np.float16), C, np.zeros(G + 1, np.int32))
    assert (C == 7).all()


@pytest.mark.parametrize(("changed", "message"), [
    ({"B": np.zeros((8, 16), np.float16)}, "B must be (N, K, G), not (8, 16)"),
    ({"B": [1]}, "B must be (N, K, G), not a list"),
    ({"B": np.zeros((8, 16, 2), np.float16)[::-1]}, "B has a negative stride -32"),
    ({"B": np.zeros((8, 15, 2), np.float16)}, "A (6, 16), B (8, 15, 2) and C (6, 8) are not (M, K), (N, K, G) and"),
    ({"B": np.zeros((8, 16, 2), np.float32)}, "A holds float16 and B float32"),
    ({"offsets": [0, 1, 2]}, "offsets must be int32 (3,) for 2 groups, not what is no array"),
    ({"offsets": np.zeros(3, np.int64)}, "offsets must be int32 (3,) for 2 groups, not int64 (3,)"),
    ({"alpha": "x"}, "alpha and beta are real numbers, not 'x'"),
    ({"alpha": np.ones(2)}, "alpha and beta are real numbers, not a ndarray"),
    ({"activation": "tanh"}, "activation='tanh' is none of"),
    *(({"config": WarpgroupConfig(128, 64, 64, 4, **other)}, "blocks share work, or tiles are turned or stored")
      for other in ({"split_k": 2}, {"swap": True}, {"share_A": 2}, {"stream_k": True}, {"store": "warp"}))])
def test_refused(changed, message):
    arguments = {"A": np.zeros((6, 16), np.float16), "B": np.zeros((8, 16, 2), np.float16),
                 "C": np.zeros((6, 8), np.float16), "offsets": np.array([0, 2, 6], np.int32)} | changed
    with pytest.raises(mo.ArgumentError, match=f"^grouped_gemm_sm90: .*{re.escape(message)}"):
        grouped_gemm_sm90(**arguments)


@pytest.mark.parametrize(("offsets", "code"), [([0, 5, 3], "A12"), ([0, 5, 40], "B1")])
def test_offsets_that_are_none(offsets, code):
    with pytest.raises(mo.SimulationError, match=f"^{code}"):
        grouped_gemm_sm90(np.zeros((6, 16), np.float16), np.zeros((8, 16, 2), np.float16),
                          np.zeros((6, 8), np.float32), np.array(offsets, np.int32))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "N", "activation"), [
    (mo.bfloat16, 1024, "silu"), (mo.float8_e4m3fn, 1024, "silu"), (mo.bfloat16, 2048, "none"),
    (mo.bfloat16, 2049, "none")])
def test_compiled(dtype, N, activation):
    """No spills, and the instructions of Hopper; also where each thread stores its elements one by one."""
    array = mo.TensorLike
    with compile_only("sm_90a") as compiled:
        grouped_gemm_sm90(array(dtype, (8192, 2048), (2048, 1)), array(dtype, (N, 2048, 8), (2048, 1, 2048 * N)),
                          array(mo.bfloat16, (8192, N), (N, 1)), array(mo.int32, (9,)), activation=activation)
    program, = compiled.programs
    assert program.spills == 0 and "wgmma" in program.ptx and "cp.async.bulk.tensor" in program.ptx
