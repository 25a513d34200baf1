"""``mo.GroupedTileScheduler``: every tile of every group once, rows of one group alone; a product of stacked rows.

``UPDATE_GOLDEN=1 pytest tests/schedulers`` rewrites the golden files.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import moye as mo
import scheduler_kernels as kernels
from moye.errors import TraceError

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduled_groups.cu"
HEIGHTS = st.lists(st.one_of(st.just(0), st.integers(0, 40), st.integers(0, 400)), max_size=9)


def walked(sched, first, step):
    """What a block comes to."""
    work, found = sched.start(first), []
    while work.valid:
        found.append(work.coordinates())
        work = work.next(step)
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(HEIGHTS, st.sampled_from([1, 16, 48, 128]), st.integers(1, 9), st.integers(1, 9), st.sampled_from("mn"),
       st.integers(1, 40))
@example([0, 0, 0], 16, 3, 8, "m", 4)
@example([], 16, 3, 8, "m", 1)
def test_every_tile_once(heights, tile_m, tiles_n, group, along, blocks):
    """With empty groups, at both ends too; rows of a group come in order and none is left out."""
    offsets = [0, *itertools.accumulate(heights)]
    sched = mo.GroupedTileScheduler(offsets, tile_m, tiles_n, group, along)
    found = [tile for block in range(blocks) for tile in walked(sched, block, blocks)]
    assert sorted(found) == [
        (g, m, n, offsets[g] + m * tile_m, rows - m * tile_m)
        for g, rows in enumerate(heights) for m in range(-(-rows // tile_m)) for n in range(tiles_n)]


@settings(max_examples=100, deadline=None)
@given(HEIGHTS, st.integers(1, 9))
def test_in_the_order_of_the_groups(heights, blocks):
    """Each block goes on from group to group and looks at each offset once; two may begin in the middle."""
    sched = mo.GroupedTileScheduler([0, *itertools.accumulate(heights)], 16, 3)
    for block in range(blocks):
        groups = [tile[0] for tile in walked(sched, block, blocks)]
        assert groups == sorted(groups)
    assert walked(sched, blocks, 2 * blocks) == walked(sched, blocks, blocks)[::2]


@pytest.mark.slow
@pytest.mark.parametrize("heights", [(10, 0, 40, 65, 1), (0, 0, 33), (64, 64), (7,), (0,), (0, 100, 0)], ids=str)
@pytest.mark.parametrize("blocks", [1, 4, 30])
def test_products(heights, blocks):
    """Groups of less than a tile and of several, empty ones, fewer blocks than tiles and more."""
    offsets = np.array([0, *itertools.accumulate(heights)], np.int32)
    C, A, B = kernels.arguments(max(1, offsets[-1]), 70, 20, len(heights))
    report = kernels.grouped(mo.check(kernels.grouped_kernel), C, A, B, offsets, blocks)
    assert report.ok, str(report)
    exact = kernels.grouped_exactly(A, B, offsets)
    assert np.isnan(C[offsets[-1]:]).all()
    assert np.linalg.norm(C[:offsets[-1]] - exact) <= 1e-6 * np.linalg.norm(exact)


def test_offsets_that_decrease_are_found():
    C, A, B = kernels.arguments(40, 70, 20, 2)
    report = kernels.grouped(mo.check(kernels.grouped_kernel), C, A, B, np.array([0, 40, 10], np.int32), 2)
    assert "the offsets of the groups do not decrease" in str(report)
    assert not report.ok


@mo.kernel
def listed(out, offsets, N):
    sched = mo.GroupedTileScheduler(offsets, 128, mo.ceil_div(N, 128))
    work = sched.start()
    while work.valid:
        group, m, n, row, rows = work.coordinates()
        out[work.tile, 0], out[work.tile, 1], out[work.tile, 2] = group, m, n
        out[work.tile, 3], out[work.tile, 4] = row, rows
        work = work.next()


def test_golden():
    """Two divisions a tile, strip and width; one load for each group."""
    program = listed.compile(mo.TensorLike(mo.int32, (9, 5)), mo.TensorLike(mo.int32, (9,)), 999, block=32,
                             arch="sm_90a")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(program.source)
    assert program.source == GOLDEN.read_text(), f"{GOLDEN} differs; UPDATE_GOLDEN=1 rewrites it"
    assert program.source.count(" / ") == 2
    assert "floor" not in program.source


@pytest.mark.parametrize(("options", "message"), [
    ({"tile_m": 0}, "GroupedTileScheduler: tile_m=0 is no static number >= 1"),
    ({"group": 2.0}, "GroupedTileScheduler: group=2.0 is no static number >= 1"),
    ({"along": "k"}, "GroupedTileScheduler: along='k' is neither \"m\" nor \"n\"")])
def test_errors(options, message):
    with pytest.raises(TraceError) as caught:
        mo.GroupedTileScheduler([0, 4], **{"tile_m": 16, "tiles_n": 2, **options})
    assert caught.value.message == message


@pytest.mark.parametrize("offsets", [None, 3, 1.5, "floats"])
def test_offsets_that_are_none(offsets):
    @mo.kernel
    def offset(x):
        mo.GroupedTileScheduler(x if offsets == "floats" else offsets, 16, 2)

    with pytest.raises(TraceError, match=r"GroupedTileScheduler: the offsets are .*, no tensor of integers"):
        offset.trace(mo.TensorLike(mo.float32, (4,)), block=32)
