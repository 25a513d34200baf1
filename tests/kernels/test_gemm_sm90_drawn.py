"""``gemm_sm90`` with drawn configurations on drawn products in the simulator, under every check, against float64.

What a configuration may be is drawn: tiles, schedules, splits and where their sums meet, operands that are shared, the
order of tiles, who stores; so are extents, orders, batches, what is fused, and how many blocks the device holds, for
blocks to have one tile each, or several.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import moye as mo
from moye.kernels.gemm.sm90.config import MOST, deepest, fits, require
from warpgroup_products import DTYPES, KINDS, agree, tile

DRAWN = 60
FUSED = ({}, {}, {}, {"bias": "f32"}, {"alpha": 0.5, "beta": 2.0}, {"activation": "gelu"}, {"row_scale": "f32"})


def configuration(rng, kind):
    """One that a kernel may have, with two to four stages."""
    while True:
        schedule = rng.choice(("cooperative", "cooperative", "pingpong"))
        groups = 2 if schedule == "pingpong" else rng.choice((1, 1, 2, 3))
        bM = rng.choice((64, 128)) if schedule == "pingpong" else 64 * groups
        gather = rng.choice(("cluster", "memory"))
        config = tile(kind, bM, rng.choice((8, 16, 32, 48, 64, 96, 128)), rng.choice((2, 3, 4)), schedule, groups,
                      split_k=rng.choice((1, 1, 2, 3, 4)), gather=gather, swap=rng.random() < 0.3,
                      share_A=rng.choice((1, 1, 2, 4)), share_B=rng.choice((1, 1, 2, 4)), raster=rng.choice((1, 2, 8)),
                      stream=rng.choice(("", "A")), store=rng.choice(("warpgroup", "warpgroup", "warp", "element")),
                      stream_k=rng.random() < 0.15, static=rng.random() < 0.2)
        room = deepest(bM, config.bN, groups, gathers=config.split_k > 1 and gather == "cluster",
                       meets=config.split_k > 1 and gather == "memory")
        config = replace(config, stages=min(config.stages, room))
        try:
            require(config, mo.dtypes.as_dtype("", DTYPES[KINDS[kind][0]]))
        except mo.ArgumentError:
            continue
        if fits(config, kind == "e4m3", MOST) and config.cluster <= 4:
            return config


def problem(rng, config):
    """(M, N, K), orders, batches: up to three tiles a side, and some k tiles for each part."""
    M, N = (rng.choice((1, 2, 3)) * extent - rng.choice((0, 0, 8, 13)) for extent in (config.bM, config.bN))
    M, N = max(1, M), max(1, N)
    K = config.bK * config.split_k * rng.choice((1, 2, 3)) - rng.choice((0, 0, 8))    # a k tile for each part
    orders = "".join(rng.choice("CCF") for _ in range(3))
    return (N, M, K) if config.swap else (M, N, K), orders, rng.choice((None, None, None, 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_configurations(seed):
    rng = random.Random(seed)
    kind = rng.choice(("bf16", "bf16", "f16", "tf32", "e4m3", "s8"))
    config = configuration(rng, kind)
    extents, orders, batches = problem(rng, config)
    fused = {} if kind == "s8" else rng.choice(FUSED)
    held = config.sharing + (12 if config.cluster > 2 else 0)           # larger clusters leave multiprocessors out
    blocks = rng.choice((held, 132))
    with mo.checking() as reports:                      # none is refused
        agree(kind, *extents, orders, batches=batches, config=config, blocks=blocks, **fused)
    assert reports and all(report.ok for report in reports), "\n".join(map(str, reports))
