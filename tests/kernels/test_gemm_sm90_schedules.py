"""Every schedule of ``gemm_sm90`` in the simulator: results against float64, and reports without a finding.

A ring of few stages goes round several times within a tile and from tile to tile; edges are ragged.
"""

from __future__ import annotations

import numpy as np
import pytest

from moye.kernels import WarpgroupConfig, gemm_sm90
from warpgroup_products import agree, check_error, clean, expected_of, filled, place, tile

SCHEDULES = {
    "cooperative_64": tile("bf16", 64, 64),
    "cooperative_64_by_256": tile("bf16", 64, 256, 2),
    "cooperative_128_of_one_group": tile("bf16", 128, 64),
    "cooperative_128": tile("bf16", 128, 128, groups=2),
    "cooperative_256": tile("bf16", 256, 64, groups=2),
    "pingpong_64_by_256": tile("bf16", 64, 256, 2, "pingpong", 2),
    "pingpong_128": tile("bf16", 128, 128, 3, "pingpong", 2),
    "pingpong_128_by_192": tile("bf16", 128, 192, 2, "pingpong", 2),
    "deep_k": WarpgroupConfig(64, 64, 128, 2, groups=1),
    "stores_of_warps": tile("bf16", 64, 128, 3, "pingpong", 2, store="warp"),
    "cooperative_stores_of_warps": tile("bf16", 128, 64, groups=2, store="warp"),
    "constant_extents": tile("bf16", 64, 64, static=True),
    "constant_extents_in_turns": tile("bf16", 64, 128, 3, "pingpong", 2, static=True),
    "streamed_A": tile("bf16", 64, 64, stream="A"),
    "streamed_B": tile("bf16", 64, 64, stream="B"),
    "multicast_A": tile("bf16", 64, 64, share_A=2),
    "multicast_B": tile("bf16", 128, 64, groups=2, share_B=2),
    "clusters_2x2": tile("bf16", 64, 64, share_A=2, share_B=2),
    "clusters_2x4_in_turns": tile("bf16", 64, 32, 3, "pingpong", 2, share_A=2, share_B=4),
    "multicast_A_in_turns": tile("bf16", 64, 64, 3, "pingpong", 2, share_A=2),
    "multicast_B_in_turns": tile("bf16", 64, 128, 2, "pingpong", 2, share_B=2),
    "multicast_A_turned": tile("bf16", 64, 32, 3, share_A=2, swap=True),
    "three_groups": tile("bf16", 192, 96, 2, groups=3),
    "three_groups_share_B": tile("bf16", 192, 48, 3, groups=3, share_B=2),
    "pieces_of_32_columns": tile("bf16", 128, 160, 2, "pingpong", 2),
    "pieces_of_16_columns": tile("bf16", 64, 112, 3),
    "turned": tile("bf16", 64, 64, swap=True),
    "turned_in_turns": tile("bf16", 64, 128, 3, "pingpong", 2, swap=True),
}
SPLITS = {
    "in_memory_share_A": tile("bf16", 64, 64, 3, split_k=3, gather="memory", share_A=2),
    "in_memory_2x2": tile("bf16", 64, 32, 3, split_k=2, gather="memory", share_A=2, share_B=2),
    "split_2": tile("bf16", 64, 64, 4, split_k=2),
    "split_4": tile("bf16", 64, 64, 4, split_k=4),
    "split_8": tile("bf16", 64, 64, 4, split_k=8),
    "split_2_of_two_groups": tile("bf16", 128, 128, 4, groups=2, split_k=2),
    "split_4_turned": tile("bf16", 64, 16, 4, split_k=4, swap=True),
    "split_8_of_rows": tile("bf16", 128, 8, 8, groups=2, split_k=8),
    "split_3_in_memory": tile("bf16", 64, 64, 4, split_k=3, gather="memory"),
    "split_5_in_memory_of_two_groups": tile("bf16", 128, 96, 3, groups=2, split_k=5, gather="memory"),
    "split_11_in_memory_turned": tile("bf16", 64, 16, 6, split_k=11, gather="memory", swap=True),
}
STREAM_K = {
    "cooperative": tile("bf16", 64, 64, stream_k=True),
    "of_two_groups": tile("bf16", 128, 64, 4, groups=2, stream_k=True),
    "in_turns": tile("bf16", 64, 64, 4, "pingpong", 2, stream_k=True),
    "turned": tile("bf16", 64, 32, 4, swap=True, stream_k=True),
    "share_A": tile("bf16", 64, 64, 4, share_A=2, stream_k=True),
    "clusters_2x2": tile("bf16", 64, 64, 4, share_A=2, share_B=2, stream_k=True),
}


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    """Whole tiles, one a block; then ragged ones under every check, several a block, so that stages and buffers go on
    from one to the next."""
    config = SCHEDULES[name]
    agree("bf16", config.bM, 2 * config.bN, 192, config=config)
    clean("bf16", 2 * config.bM + 8, config.bN + 8, 264, config=config, blocks=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITS)
def test_splits(name):
    """Whole tiles, and as many k tiles as parts; then ragged ones under every check, k tiles shared unevenly.  Blocks
    that meet in memory have several tiles: a buffer of C goes on from one to the next.
    """
    config = SPLITS[name]
    agree("bf16", config.bM, 2 * config.bN, 64 * config.split_k, config=config)
    held = config.sharing + (12 if config.cluster > 2 else 0)           # larger clusters leave multiprocessors out
    blocks = {"blocks": held} if config.gather == "memory" else {}
    clean("bf16", config.bM + 8, config.bN + 8, 64 * (2 * config.split_k + 1) - 7, config=config, **blocks)


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAM_K)
def test_stream_k(name):
    """Shares of tiles: of more tiles than blocks, of fewer, whose k tiles go to three and more blocks, and of ragged
    ones under every check.
    """
    config = STREAM_K[name]
    held = {1: 5, 2: 10, 4: 24}[config.cluster]                         # 5, 5 and 3 clusters of blocks
    agree("bf16", 4 * config.bM, 2 * config.bN, 192, config=config, blocks=held)
    agree("bf16", config.bM, 2 * config.bN, 64 * 21, config=config, blocks=held)
    clean("bf16", 3 * config.bM + 8, 2 * config.bN + 8, 64 * 9 + 8, config=config, blocks=held)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tf32", "e4m3"])
def test_stream_k_of_other_dtypes(kind):
    """Sums that are promoted, and results of 4 bytes."""
    config = tile(kind, 64, 64, groups=1, stream_k=True)
    clean(kind, 72, 72, 5 * config.bK + 16, config=config, blocks=3)


@pytest.mark.parametrize("options", [{"split_k": 3, "gather": "memory"}, {"split_k": 2}, {"stream_k": True}, {}],
                         ids=str)
def test_sums_of_integers_stay_exact(options):
    """Beyond 2^24, where float32 leaves out every other integer, also while they are handed over."""
    rng = np.random.default_rng(7)
    A, B = (rng.integers(90, 127, (64, 16384)).astype(np.int8) for _ in "AB")
    C = np.full((64, 64), -1, np.int32)
    gemm_sm90(A, B, C, config=WarpgroupConfig(64, 64, 128, 4, groups=1, **options))
    assert np.array_equal(C, A.astype(np.int64) @ B.astype(np.int64).T)


@pytest.mark.slow
@pytest.mark.parametrize(("bN", "split_k"), [(32, 3), (64, 5), (16, 2), (96, 4), (48, 7)])
def test_few_pieces_of_several_tiles(bN, split_k):
    """A block that meets others in memory stores one piece of a tile, or an odd number, and goes on with the next."""
    config = tile("f16", 64, bN, 4, split_k=split_k, gather="memory")
    clean("f16", 3 * 64, 2 * bN, 64 * split_k, config=config, blocks=split_k)


@pytest.mark.slow
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("name", ["cooperative_128", "pingpong_128_by_192", "stores_of_warps", "three_groups", "turned",
                                  "pieces_of_16_columns", "turned_in_turns", "clusters_2x2", "split_2_of_two_groups",
                                  "split_8", "split_8_of_rows", "split_5_in_memory_of_two_groups", "split_4_turned",
                                  "split_11_in_memory_turned"])
def test_results_of_32_bits(name, order):
    """They leave by TMA, in boxes of 32 columns or of 32 rows; whole ones, and ragged ones under every check."""
    config = {**SCHEDULES, **SPLITS}[name]
    k_tiles = 2 * config.split_k + 1
    held = {"blocks": config.split_k} if config.gather == "memory" else {}
    agree("bf16", config.bM, 2 * config.bN, 64 * k_tiles, "CC" + order, config=config, out="f32")
    clean("bf16", config.bM + 4, config.bN + 12, 64 * k_tiles - 8, "CC" + order, config=config, out="f32", **held)


@pytest.mark.slow
@pytest.mark.parametrize("config", [SCHEDULES["pingpong_64_by_256"], SCHEDULES["cooperative_256"], SPLITS["split_4"]],
                         ids=["pingpong", "cooperative", "split"])
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_other_dtypes(kind, config):
    """Elements of C of 4 bytes; sums of float8 are promoted."""
    config = tile(kind, config.bM, config.bN, config.stages, config.schedule, config.groups, split_k=config.split_k)
    agree(kind, config.bM + 8, config.bN + 8, 5 * config.bK, config=config, blocks=2)


@pytest.mark.slow
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("bN", [8, 16, 32, 64, 128])
def test_few_rows(bN, swap):
    """Few rows of A, turned, or few of B; whole and one less; C row- and column-major."""
    config = tile("f16", 64, bN, 4, swap=swap)
    for rows, order in ((bN, "C"), (bN - 1, "F")):
        M, N = (rows, 136) if swap else (136, rows)
        agree("f16", M, N, 200, "CC" + order, config=config, blocks=2)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("schedule", ["cooperative", "pingpong"])
def test_fewer_and_more_k_tiles_than_stages(schedule, stages):
    config = tile("f16", 64, 64, stages, schedule, 1 if schedule == "cooperative" else 2)
    for k_tiles in (1, 2, 4, 7):
        agree("f16", 64, 128, 64 * k_tiles, config=config, blocks=1)
        agree("f16", 72, 64, 64 * k_tiles - 5, config=config, blocks=1)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["cooperative_64", "pingpong_64_by_256", "pingpong_128"])
def test_several_tiles_a_block(name, blocks):
    """Odd and even counts for each of the two warpgroups, none for one of them; one buffer of C or two a tile."""
    config = SCHEDULES[name]
    agree("bf16", 3 * config.bM - 8, 2 * config.bN - 8, 136, config=config, blocks=blocks)
    agree("bf16", config.bM, config.bN, 136, config=config, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 4, 7])
@pytest.mark.parametrize("name", ["multicast_A", "multicast_B_in_turns"])
def test_blocks_that_share_an_operand(name, blocks):
    """Odd and even counts of tiles along either mode, one of a pair beyond the edge; K of more tiles than stages."""
    config = SCHEDULES[name]
    for M, N in ((1, 1), (1, 2), (2, 1), (3, 3)):
        agree("bf16", M * config.bM - 8, N * config.bN - 8, 64 * 5 - 8, config=config, blocks=blocks)
    agree("bf16", 3 * config.bM, config.bN, 136, "CFF", batches=3, config=config, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("raster", [1, 3, 8])
def test_tiles_in_groups(raster):
    """More rows of tiles than the groups that blocks walk through, the last group smaller; with batches, too."""
    config = tile("bf16", 64, 64, raster=raster)
    agree("bf16", 10 * 64, 2 * 64 + 8, 40, config=config, blocks=5)
    agree("bf16", 4 * 64, 3 * 64, 40, batches=3, config=config, blocks=7)


@pytest.mark.slow
def test_a_batch_in_turns_and_split():
    for config in (SCHEDULES["pingpong_128"], SPLITS["split_2"], SPLITS["split_4_turned"]):
        agree("bf16", 136, 72, 264, "CCF", batches=3, config=config, blocks=3)


# --- what the checker says -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CCC", "CFF", "FCF", "FFC"])
def test_majors_are_clean(orders):
    clean("f16", 200, 264, 200, orders, config=tile("f16", 128, 128, groups=2), blocks=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "mixed", "u8"])
def test_dtypes_are_clean(kind):
    config = tile(kind, 64, 64)
    clean(kind, 136, 72, 5 * config.bK, config=config, blocks=2)
    clean(kind, 71, 65, 5 * config.bK - 7, odd="ABC", config=config, blocks=2, launches=2)


@pytest.mark.slow
def test_gated_and_fused_products_are_clean():
    fused = {"bias": "f32", "row_scale": "f32", "col_scale": "bf16", "alpha": 0.5, "activation": "gelu", "blocks": 2}
    clean("bf16", 136, 72, 264, gated=True, config=tile("bf16", 64, 64), **fused)
    clean("bf16", 136, 72, 264, residual="bf16", beta=0.5, config=tile("bf16", 64, 64, 3, "pingpong", 2), **fused)
    clean("bf16", 136, 72, 264, residual="f32", odd="CR", config=tile("bf16", 64, 64, 4, split_k=2), **fused)


def test_a_residual_that_is_C():
    """A tile is read before it is stored."""
    rng = np.random.default_rng(8)
    A, B, C = (filled(rng, shape, np.float16).x for shape in ((136, 72), (72, 72), (136, 72)))
    before = C.astype(np.float64)
    gemm_sm90(A, B, C, residual=C, config=tile("f16", 64, 64))
    exact, error = expected_of(A, B)
    check_error(C, exact + before, error)


def test_a_square_of_one_array():
    """A and B may be the same memory."""
    A, C = filled(np.random.default_rng(9), (100, 72), np.float16).x, place((100, 100), np.float16).x
    gemm_sm90(A, A, C)
    check_error(C, *expected_of(A, A))


def test_columns_of_one_array():
    """C and the operands may lie side by side in the same rows."""
    whole = place((64, 200), np.float16).x
    whole[...] = filled(np.random.default_rng(10), (64, 200), np.float16).x
    A, B, C = whole[:, :64].copy(), whole[:, 128:192].copy(), whole[:, 64:128]
    gemm_sm90(whole[:, :64], whole[:, 128:192], C)
    check_error(C, *expected_of(A, B))
    assert np.array_equal(whole[:, :64], A)
    assert np.array_equal(whole[:, 128:192], B)
