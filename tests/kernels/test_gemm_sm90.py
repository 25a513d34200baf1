"""``gemm_sm90`` against float64 NumPy in the simulator, checks on: dtypes, edges, transposes, configurations, blocks.

The error may be 5% above that of rounding the exact result once, and what the accumulation in float32 costs.
"""

from __future__ import annotations

import itertools
import math
import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import WarpgroupConfig, gemm_sm90
from moye.runtime.prepare import compile_only

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
ORDERS = ["CC", "CF", "FC", "FF"]
WIDE, NARROW = WarpgroupConfig(128, 256, 64, 4), WarpgroupConfig(128, 128, 64, 5)
SMALL = WarpgroupConfig(128, 64, 64, 3)
RAGGED = [(1, 8, 1), (33, 24, 19), (127, 264, 63), (129, 136, 136), (200, 264, 200)]


def padded(rows, columns, dtype):
    """A row-major NaN array whose rows are multiples of 16 bytes apart, with NaNs between them."""
    return np.full((rows, -(-columns // 8) * 8 + 8), np.nan, dtype)[:, :columns]


def array(rng, rows, columns, dtype, order):
    """Random-normal; "C": columns are contiguous, "F": rows."""
    x = padded(rows, columns, dtype) if order == "C" else padded(columns, rows, dtype).T
    x[...] = rng.standard_normal((rows, columns))
    return x


def check_error(C, exact, K):
    """No further from the exact result than its rounding, but for 5% and the accumulation."""
    assert np.isfinite(C.astype(np.float64)).all()
    norm = np.linalg.norm(exact)
    rounding = np.linalg.norm(exact.astype(C.dtype).astype(np.float64) - exact) / norm
    error = np.linalg.norm(C.astype(np.float64) - exact) / norm
    bound = 1.05 * rounding + 2e-7 * math.sqrt(K + 16)
    assert error <= bound, f"relative error {error:.2e}, allowed {bound:.2e}, of rounding alone {rounding:.2e}"


def agree(name, M, N, K, orders="CC", out=None, **options):
    """One launch on a poisoned C; what pads the rows of C stays as it was."""
    rng, dtype = np.random.default_rng([M, N, K]), DTYPES[name]
    A, B = array(rng, M, K, dtype, orders[0]), array(rng, N, K, dtype, orders[1])
    C = padded(M, N, DTYPES[out or name])
    assert gemm_sm90(A, B, C, **options) is C
    assert np.isnan(C.base[:, N:].astype(np.float32)).all()
    check_error(C, A.astype(np.float64) @ B.astype(np.float64).T, K)


@pytest.fixture
def blocks(monkeypatch):
    """``blocks(n)``: the persistent grid has at most n of them."""
    return lambda count: monkeypatch.setitem(gemm_sm90.__globals__, "SMS", count)


# --- shapes, strides, dtypes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("name", DTYPES)
def test_whole_tiles(name, orders, config):
    agree(name, 128, 256, 128, orders, config=config)


@pytest.mark.parametrize("size", RAGGED, ids=str)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("name", DTYPES)
def test_ragged(name, orders, size):
    agree(name, *size, orders)


@pytest.mark.parametrize("config", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("edge", list(itertools.product((0, 1), repeat=3)), ids=str)
def test_each_edge_of_each_configuration(config, edge):
    M, N, K = (extent + 8 * more for extent, more in zip((128, config.bN, 128), edge, strict=True))
    agree("f16", M, N, K, "CF", config=config)


@pytest.mark.parametrize("config", [SMALL, WarpgroupConfig(128, 192, 64, 3), WarpgroupConfig(128, 64, 128, 2)], ids=str)
def test_configurations_that_are_not_chosen(config):
    agree("bf16", 140, 200, 330, "FC", config=config)


def test_the_wide_tile_is_chosen_where_there_are_many(blocks):
    blocks(3)
    agree("bf16", 8 * 128, 8 * 256 - 8, 16)


@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("name", DTYPES)
def test_sums_are_rounded_to_either_dtype(name, out):
    agree(name, 100, 72, 64, out=out)


def test_results_are_rounded_once():
    """1 + 2^-11 and then 2^-20: sums in float16 would lose both."""
    A, C = np.zeros((8, 64), np.float16), padded(8, 8, np.float16)
    A[:, 0], A[:, 17], A[:, 63] = 1, 2 ** -11, 2 ** -20
    gemm_sm90(A, np.ones((8, 64), np.float16), C)
    assert (C == 1 + 2 ** -10).all()


@pytest.mark.parametrize("name", DTYPES)
def test_views_of_larger_arrays(name):
    """Neither what lies around A and B is read nor what lies around C is written."""
    rng, dtype = np.random.default_rng(5), DTYPES[name]
    whole = np.full((300, 304), np.nan, dtype)
    A, B = whole[3:103, 8:80], whole[130:290:2, 88:160]
    A[...], B[...] = rng.standard_normal(A.shape), rng.standard_normal(B.shape)
    around = rng.standard_normal((120, 160)).astype(dtype)
    before, C = around.copy(), around[7:107, 16:96]
    C[...] = np.nan
    gemm_sm90(A, B, C)
    check_error(C, A.astype(np.float64) @ B.astype(np.float64).T, 72)
    around[7:107, 16:96] = before[7:107, 16:96]
    assert np.array_equal(around, before)


@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("name", DTYPES)
def test_k_of_zero_and_nothing_to_write(name, out):
    A, B, C = np.zeros((5, 0), DTYPES[name]), np.zeros((7, 0), DTYPES[name]), padded(5, 7, DTYPES[out])
    assert gemm_sm90(A, B, C) is C
    assert (C == 0).all()
    nothing = np.zeros((0, 7), DTYPES[out])
    assert gemm_sm90(np.zeros((0, 8), DTYPES[name]), np.zeros((7, 8), DTYPES[name]), nothing) is nothing


# --- stages and blocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("k_tiles", [1, 2, 4, 7])
def test_fewer_and_more_k_tiles_than_stages(stages, k_tiles):
    config = WarpgroupConfig(128, 128, 64, stages)
    agree("f16", 128, 128, 64 * k_tiles, config=config)
    agree("bf16", 127, 120, 64 * k_tiles - 5, "FC", config=config)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("config", [WIDE, NARROW, SMALL], ids=["wide", "narrow", "small"])
def test_several_tiles_per_block(config, count, blocks):
    """Stages and their parities go on from tile to tile; so do the buffers of C, of which the small tile needs one."""
    blocks(count)
    agree("f16", 3 * 128 - 8, 3 * config.bN - 8, 3 * 64 - 8, config=config)


def test_tiles_in_groups(blocks):
    """More rows of tiles than the groups that the blocks walk through, the last group smaller."""
    blocks(5)
    agree("bf16", 10 * 128, 2 * 64 + 8, 40, config=SMALL)


@pytest.mark.parametrize("orders", ORDERS)
def test_several_tiles_are_clean(orders, blocks):
    """A report without findings, with a ring that goes round several times."""
    blocks(2)
    with mo.checking() as reports:
        agree("f16", 200, 264, 200, orders, config=NARROW)
    assert len(reports) == 1
    assert reports[0].ok, str(reports[0])


# --- compiled --------------------------------------------------------------------------------------------------------


@cache
def compiled(name, orders, config, out=None):
    """The program of a launch, for sm_90a."""
    A, B, C = (np.zeros((256, 256), DTYPES[dtype], order=order)
               for dtype, order in ((name, orders[0]), (name, orders[1]), (out or name, "C")))
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, config=config)
    program, = gathered.programs
    return program


@pytest.mark.parametrize("config", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize(("name", "orders"), [("bf16", "CC"), ("f16", "CC"), ("bf16", "CF"), ("f16", "FC"),
                                              ("bf16", "FF")])
def test_not_serialised(name, orders, config):
    """No spills, none of ptxas's notes of lost performance (C7510 and its like), one instruction per 16 of k."""
    program = compiled(name, orders, config)
    assert program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
    assert program.registers == 168                     # 65536 of 384 threads; setmaxnreg shares them out anew
    found = re.findall(r"\b(HGMMA\.[\w.]*|UTMALDG\S*|UTMASTG\S*|STSM\S*|STG\S*|STS\b\S*|LDG\S*)", program.sass)
    shape = f"HGMMA.64x{config.bN}x16.F32" + (".BF16" if name == "bf16" else "")
    products = [x for x in found if x.startswith("HGMMA")]
    assert products == [shape] * (config.bK // 16)
    others = {x.split(".")[0] for x in found} - {"HGMMA"}
    assert others == {"UTMALDG", "UTMASTG", "STSM"}


def test_one_kernel_for_all_sizes():
    """Extents and strides are runtime values."""
    with compile_only("sm_90a") as gathered:
        for M, N, K in ((256, 256, 256), (120, 72, 1000)):
            gemm_sm90(*(np.zeros(shape, np.float16) for shape in ((M, K), (N, K), (M, N))), config=NARROW)
    first, second = gathered.programs
    assert first is second
