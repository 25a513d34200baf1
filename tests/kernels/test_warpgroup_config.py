"""Which configuration ``gemm_sm90`` picks: one that it can have, the same for the same problem, and some known ones.

The model is of an H200; what it says of time is tested no further than that it is a time.
"""

from __future__ import annotations

import math
import random

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels.gemm.sm90.choice import choose
from moye.kernels.gemm.sm90.config import (
    COSTS,
    Problem,
    WarpgroupConfig,
    candidates,
    configs,
    deepest,
    estimate,
    fits,
    require,
)
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import _load
from moye.kernels.gemm.sm90.plan import make_plan

H200 = 132                              # multiprocessors

DTYPES = {"bf16": mo.bfloat16, "f16": mo.float16, "f32": mo.float32, "e4m3": mo.float8_e4m3fn, "e5m2": mo.float8_e5m2,
          "s8": mo.int8, "u8": mo.uint8}
SHARED = 232448                         # bytes that a block may have on sm_90
SKINNY = (8, 16, 32, 64, 128)


def multiplied(dtype):
    return mo.tfloat32 if dtype == mo.float32 else dtype


def shared_bytes(config, dtype, *, gated):
    """Of a block, with C staged in 16 bits; the mbarriers and the gaps between buffers have 1024 bytes."""
    operands = (multiplied(dtype), multiplied(dtype))
    plan = make_plan(config, operands, mo.bfloat16, "k", "k", "k", Fusion(gated=gated))
    stages = (mo.cosize(plan.A.stages) + mo.cosize(plan.B.stages)) * dtype.bytes
    return 1024 + stages + (0 if plan.gathers else 2 * mo.cosize(plan.C.staged))


def problems(seed, count=100):
    """Extents from one to 2^14, most of them no round numbers."""
    rng = random.Random(seed)
    for _ in range(count):
        M, N, K = (rng.choice((2 ** rng.randrange(15), rng.randint(1, 300), round(2 ** rng.uniform(0, 14))))
                   for _ in range(3))
        gated = rng.random() < 0.25
        yield M, N, K, rng.choice((1, 1, 2, 7, 64)), gated


@pytest.mark.parametrize("name", DTYPES)
def test_every_choice_is_legal(name):
    """Of one hundred problems for each dtype, with promoted sums and without."""
    dtype = DTYPES[name]
    for M, N, K, batches, gated in problems(name):
        for promote in {False, dtype.bits == 8 and dtype.is_float}:
            config = choose(Problem(M, N, K, batches, dtype, promote, gated), H200)
            require(config, dtype, gated=gated)
            assert fits(config, promote)
            assert config.split_k <= max(1, -(-K // config.bK)), "some block would have nothing to add up"
            assert shared_bytes(config, dtype, gated=gated) <= SHARED


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_every_configuration_is_legal(name):
    dtype = DTYPES[name]
    for gated in (False, True):
        found = [config for skinny in (0, *SKINNY) for config in configs(dtype, skinny=skinny, gated=gated)]
        assert {config.schedule for config in found} == {"cooperative", "pingpong"}
        for config in found:
            require(config, dtype, gated=gated)
            assert shared_bytes(config, dtype, gated=gated) <= SHARED


@pytest.mark.slow
def test_every_candidate_is_legal():
    """Whatever the model may choose can be had, and fits into a block's memory and registers."""
    for name, dtype in DTYPES.items():
        found = {(config, gated) for M, N, K, batches, gated in problems(f"candidates {name}", 8)
                 for lines in ((16, 128), (128, 128))
                 for config in candidates(Problem(M, N, K, batches, dtype, gated=gated, lines=lines), H200)}
        for config, gated in found:
            require(config, dtype, gated=gated)
            assert shared_bytes(config, dtype, gated=gated) <= SHARED, config


def test_sums_meet_in_memory_only_where_there_can_be_some():
    """Arrays of a library that moye cannot ask for others are multiplied without a workspace."""
    deep = (64, 64, 65536, 1, mo.bfloat16)
    assert any(config.gather == "memory" for config in candidates(Problem(*deep), H200))
    assert choose(Problem(*deep), H200).gather == "memory"
    assert all(config.gather == "cluster" for config in candidates(Problem(*deep, workspace=False), H200))


def test_few_rows_of_promoted_sums_have_tiles_of_one_warpgroup():
    found = candidates(Problem(16, 4096, 4096, 1, mo.float8_e4m3fn, promote=True), H200)
    assert {config.groups for config in found} >= {1, 2}


def test_the_same_problem_has_the_same_configuration():
    asked = [(M, N, K, batches, mo.bfloat16, False, gated) for M, N, K, batches, gated in problems("again", 50)]
    first = [choose(Problem(*problem), H200) for problem in asked]
    choose.cache_clear()
    assert [choose(Problem(*problem), H200) for problem in reversed(asked)] == first[::-1]


def test_as_deep_as_memory_holds():
    """Every configuration of a deepest ring fits, and with one stage more it does not, or it has twelve."""
    for skinny in SKINNY:
        for config in configs(mo.bfloat16, skinny=skinny):
            bytes_of_a_stage = 128 * (config.bM + config.bN)
            assert config.stages == deepest(config.bM, config.bN, config.groups, gathers=config.split_k > 1)
            used = config.stages * bytes_of_a_stage + (0 if config.split_k > 1 else
                                                       256 * config.groups * min(config.bN, 64))
            assert used <= SHARED - 2048
            assert config.stages == 12 or used + bytes_of_a_stage > SHARED - 2048


@pytest.mark.parametrize(("problem", "expected"), [
    ((8192, 8192, 8192), {"bM": 128, "bN": 192, "schedule": "pingpong", "share_A": 1, "share_B": 1}),
    ((4096, 4096, 4096), {"bM": 128, "bN": 256, "schedule": "cooperative", "share_A": 1, "share_B": 1}),
    ((2048, 2048, 2048), {"bM": 128, "bN": 256, "schedule": "cooperative"}),
    ((384, 4096, 4096), {"bM": 128, "bN": 96}),                     # 129 tiles for 132 multiprocessors
    ((2000, 2112, 7168), {"bM": 192, "bN": 176, "groups": 3}),      # 132 tiles
    ((512, 512, 65536), {"gather": "memory"}),
    ((16, 4096, 4096), {"bN": 16, "swap": True, "stream": "A"}),
    ((4096, 16, 4096), {"bN": 16, "swap": False, "stream": "A"}),
    ((1, 8192, 8192), {"bN": 8, "swap": True}),
    ((9, 8192, 8192), {"bN": 16, "swap": True}),
    ((256, 256, 4096), {"split_k": 4, "gather": "cluster"}),
    ((129, 8192, 8192), {"stream": ""}),
    ((14, 11776, 39296), {"stream_k": True, "swap": True}),         # 92 tiles for 132 multiprocessors
], ids=str)
def test_anchored(problem, expected):
    config = choose(Problem(*problem, 1, mo.bfloat16, lines=(math.gcd(128, 2 * problem[2]),) * 2), H200)
    assert {name: getattr(config, name) for name in expected} == expected


def test_tiles_whose_addresses_spill_are_no_choice():
    """In turns, turned, of 128 sums a thread, where C is stored by threads: 254 bytes of spills were measured."""
    odd = candidates(Problem(3000, 2999, 8192, 1, mo.bfloat16, plain=True, most=128, rows="N"))
    assert any(config.swap and config.schedule == "pingpong" for config in odd)
    assert not any(config.swap and config.schedule == "pingpong" and (config.bM, config.bN) == (128, 128)
                   for config in odd)


@pytest.mark.parametrize("problem", [(4096, 4096, 4097), (8192, 8192, 8200), (928, 1672, 5600)], ids=str)
def test_rows_that_begin_anywhere_are_shared(problem):
    """Each takes two lines of 128 bytes for one, and blocks of a cluster ask for half or a quarter of them."""
    assert choose(Problem(*problem, 1, mo.bfloat16, lines=(16, 16)), H200).cluster > 1
    assert choose(Problem(*problem, 1, mo.bfloat16), H200).cluster == 1


@pytest.mark.parametrize(("shape", "lines", "first"), [
    ((8, 20000, 9992), (16, 16), False), ((8, 20000, 9984), (128, 128), True), ((16, 8192, 8200), (16, 16), True),
    ((8, 20480, 16384), (128, 128), False), ((1, 8192, 8192), (128, 128), True),
    ((16392, 32, 8192), (16, 128), False), ((16392, 32, 8192), (128, 16), True)], ids=str)
def test_what_leaves_L2_first(shape, lines, first):
    """Not long operands, and less long ones whose own lines begin anywhere: what shares a sector is asked for later."""
    found = candidates(Problem(*shape, 1, mo.bfloat16, lines=lines, rows_A=shape[0] > shape[1]), H200)
    assert {config.stream for config in found} == {"A" if first else ""}


def test_shares_of_what_stays_in_L2():
    config = choose(Problem(14, 11776, 39304, 1, mo.bfloat16, lines=(16, 16)), H200)
    assert config.stream_k and not config.stream


@pytest.mark.parametrize(("rows", "once", "prefetch"), [(20008, True, 64), (20032, True, 128), (20008, False, 128)])
def test_lines_that_are_prefetched(rows, once, prefetch):
    """Half ones where rows of a tile begin anywhere and nobody else reads the rest."""
    x = np.empty((64, rows), ml_dtypes.bfloat16).T
    assert _load(mo.describe(x), 0, once).prefetch == prefetch
    assert _load(mo.describe(x), 1, once).prefetch == 128


def test_anchored_by_dtype():
    """A k tile has 128 bytes; promoted sums need registers, so no warpgroups in turns; gated tiles are never turned."""
    for dtype in DTYPES.values():
        assert choose(Problem(4096, 4096, 4096, 1, dtype), H200).bK * dtype.bytes == 128
    promoted = choose(Problem(8192, 8192, 8192, 1, mo.float8_e4m3fn, True), H200)
    assert (promoted.bN, promoted.schedule) == (192, "cooperative")
    assert choose(Problem(8192, 8192, 8192, 1, mo.float8_e4m3fn), H200).schedule == "pingpong"
    gated = choose(Problem(16, 8192, 8192, 1, mo.bfloat16, False, True), H200)
    assert (gated.swap, gated.split_k) == (False, 1)


def test_parts_of_K_only_where_there_are_enough():
    """Blocks that share a tile, for few tiles with a long K; never more of them than k tiles."""
    assert choose(Problem(64, 64, 64, 1, mo.bfloat16), H200).split_k == 1
    assert choose(Problem(64, 64, 127, 1, mo.bfloat16), H200).split_k == 1
    assert choose(Problem(128, 128, 16384, 1, mo.bfloat16), H200).split_k > 1
    assert choose(Problem(128, 128, 16384, 512, mo.bfloat16), H200).split_k == 1


def test_fewer_parts_meet_in_memory_where_K_is_short():
    """132 blocks would have less than two of 24 k tiles each, but 11 have them; with enough, 66 are tried too."""
    def parts(K):
        return {config.split_k for config in candidates(Problem(16, 16, K, 1, mo.bfloat16), H200)
                if config.gather == "memory"}
    assert max(parts(24 * 64)) == 11
    assert parts(264 * 64) >= {66, 132}
    assert all(2 * n <= 24 for n in parts(24 * 64))


@pytest.mark.parametrize("config", configs(mo.bfloat16), ids=str)
def test_an_estimate_is_a_time(config):
    """Microseconds: never less than a launch, and no less for twice the batches or twice the k tiles."""
    for M, N, K in ((1, 1, 16), (4096, 4096, 4096), (100, 5000, 333)):
        once = estimate(config, Problem(M, N, K, 1, mo.bfloat16), H200)
        assert math.isfinite(once)
        assert COSTS.launch < once < estimate(config, Problem(M, N, K, 100, mo.bfloat16), H200)
        deep, shallow = (estimate(config, Problem(M, N, k * K, 1, mo.bfloat16), H200) for k in (128, 64))
        assert deep >= shallow


def test_twice_the_products_of_8192_take_their_time():
    """At least what the tensor cores need at their peak, 989 TFLOPS, and no more than twice that."""
    least = 2 * 8192 ** 3 / 989e6
    config = choose(Problem(8192, 8192, 8192, 1, mo.bfloat16), H200)
    assert least < estimate(config, Problem(8192, 8192, 8192, 1, mo.bfloat16), H200) < 2 * least


@pytest.mark.parametrize(("config", "threads", "cluster", "rows"), [
    (WarpgroupConfig(128, 256, 64, 4), 384, 1, 64), (WarpgroupConfig(64, 64, 64, 4, groups=1), 256, 1, 64),
    (WarpgroupConfig(128, 128, 64, 4, "pingpong"), 384, 1, 128), (WarpgroupConfig(256, 64, 64, 4), 384, 1, 128),
    (WarpgroupConfig(128, 64, 64, 4, split_k=8), 384, 8, 64),
    (WarpgroupConfig(128, 64, 64, 4, share_A=2), 384, 2, 64),
], ids=str)
def test_what_a_block_is(config, threads, cluster, rows):
    assert (config.threads, config.cluster, config.rows) == (threads, cluster, rows)


@pytest.mark.parametrize("dtype", [mo.int8, mo.float16, mo.float32])
def test_halves_of_gated_tiles_lie_in_one_swizzled_row(dtype):
    """Those of wider tiles are not where TMA writes them."""
    wide = WarpgroupConfig(64, 64, 256 // dtype.bytes, 3, groups=1)
    require(wide, dtype)
    with pytest.raises(mo.ArgumentError, match=rf"bK={wide.bK} of .* is not {wide.bK // 2}, the one swizzled row"):
        require(wide, dtype, gated=True)
