"""Tensor maps that merge modes or repeat them: in the simulator against NumPy, compiled, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import moye as mo
from moye.errors import LayoutError, TensorError
from tma_merged import BLOCK, CASES, REPEATED, merging, read_kernel, write_kernel


def described(case, op=None):
    return case.copy(op or mo.TmaLoad(), case.array(0)).describe()[1]


@pytest.mark.parametrize("name", [*CASES, *REPEATED])
def test_loads(name):
    case = (CASES | REPEATED)[name]
    source = case.array(1)
    out = np.full((math.prod(case.tile), case.grid), 7, source.dtype, order="F")
    report = mo.check(read_kernel)[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), out, case.counts)
    assert report.ok, str(report)
    assert np.array_equal(out, case.tiles(source))


@pytest.mark.parametrize("name", CASES)
def test_stores(name):
    case = CASES[name]
    source, target = case.array(2), case.array(3).copy("K")
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), target), case.tiles(source), case.counts)
    assert np.array_equal(target, source)


@pytest.mark.slow
def test_arrays_by_chance():
    """With tiles inside of the array and outside, both ways."""
    for seed, case in merging(20):
        source, target = case.array(seed), case.array(seed + 1).copy("K")
        out, tiles = np.full((math.prod(case.tile), case.grid), 7, source.dtype, order="F"), case.tiles(source)
        read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), out, case.counts)
        assert np.array_equal(out, tiles), f"drawn({seed})"
        write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), target), tiles, case.counts)
        assert np.array_equal(target, source), f"drawn({seed})"


@pytest.mark.parametrize("name", ["short-planes", "six", "eight-with-ones"])
def test_reductions(name):
    case = CASES[name]
    source, target = case.array(4), case.array(5).copy("K")
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaReduceAdd(), target), case.tiles(source), case.counts)
    assert np.array_equal(target, source + case.array(5))


@pytest.mark.parametrize(("name", "dimensions"), [
    ("short-rows", 1), ("short-rows-of-batches", 2), ("short-planes", 1), ("six", 5), ("six-row-major", 5),
    ("eight", 5), ("eight-with-ones", 5),
])
def test_no_more_modes_merge_than_must(name, dimensions):
    modes = described(CASES[name]).map.modes
    assert len(modes) == dimensions
    assert any(not isinstance(x, int) for x in modes)


@pytest.mark.parametrize("name", [*CASES, *REPEATED])
def test_boxes_hold_the_elements_of_the_tile(name):
    """Every element of every box lies in shared memory where the layout has it, and in the array where the tile has."""
    case = (CASES | REPEATED)[name]
    tiling, array = described(case), case.array(0)
    strides = tuple(step // array.itemsize for step in array.strides)
    along = tiling.map.dimensions(case.shape, strides)
    size, parts = array.itemsize, max(tiling.map.swizzle // 16, 1)
    found = {}
    for box in tiling.boxes:
        for n, at in enumerate(itertools.product(*(range(extent) for extent in tiling.map.box[::-1]))):
            place = sum((c + i) * stride for c, i, (_, stride) in zip(box.coordinates, at[::-1], along, strict=True))
            byte = (box.offset + n) * size
            found[byte ^ (byte // 128 % parts) * 16] = place
    wanted = {}
    for n, at in enumerate(itertools.product(*(range(extent) for extent in case.tile[::-1]))):
        wanted[case.layout(n) * size] = sum(i * stride for i, stride in zip(at[::-1], strides, strict=True))
    assert found == wanted
    assert len(tiling.map.box) <= 5 and tiling.map.box[0] * size % 16 == 0 and max(tiling.map.box) <= 256


@pytest.mark.slow
@pytest.mark.parametrize("name", ["short-rows", "six-outside", "eight-with-ones"])
def test_they_compile(name):
    case = CASES[name]
    array = case.array(0)
    out = mo.TensorLike(case.dtype, (math.prod(case.tile), case.grid))
    program = read_kernel.compile(case.copy(mo.TmaLoad(), array), out, case.counts, block=BLOCK, arch="sm_90a")
    assert f"UTMALDG.{len(described(case).map.modes)}D" in program.sass
    assert program.spills == 0


def dense(dtype, *shape):
    return mo.TensorLike(dtype, shape)


def make(array, layout, tile, op=None):
    return lambda: mo.make_tma_copy(op or mo.TmaLoad(), array, mo.make_layout(layout), tile)


@pytest.mark.parametrize(("copy", "told"), [
    (make(dense(mo.int8, 8, 100), (4, 8), (4, 8)), r"runs of 4 bytes along mode 0"),
    (make(mo.TensorLike(mo.int8, (8, 100), (1, 16)), (8, 8), (8, 8)), r"runs of 8 bytes along mode 0"),
    (make(dense(mo.float16, 8, 3, 3, 3, 3, 3, 3), (8, 2, 2, 2, 2, 2, 2), (8, 2, 2, 2, 2, 2, 2)),
     r"7 modes, and TMA takes 1 to 5"),
    (make(mo.TensorLike(mo.float16, (8,) * 6, (1, 16, 256, 4096, 65536, 1048576)), 8, (8, 1, 1, 1, 1, 1)),
     r"6 modes, and TMA takes 1 to 5"),
    (make(mo.TensorLike(mo.float16, (64, 8), (1, 0)), (64, 4), (64, 4), mo.TmaStore()), "mode 1 has stride 0"),
    (make(mo.TensorLike(mo.float16, (64, 8), (0, 1)), (64, 8), (64, 8)), "contiguous along mode 1 and the tile along"),
])
def test_what_does_not_merge(copy, told):
    with pytest.raises(LayoutError, match=told) as caught:
        copy()
    assert caught.value.code == "B5"


def test_a_tile_that_begins_anywhere_is_refused():
    """It could reach from one mode into the next."""
    case = CASES["short-rows"]

    @mo.kernel
    def shifted(source, by):
        smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
        part = mo.tile(source.tensor, source.tile, (0, 0)).moved(mo.make_identity_layout(source.tile)((by, 0)))
        mo.copyto(source, smem, part, barrier=(bars, 0))

    with pytest.raises(TensorError, match=r"merges modes \(0, 1\) of its array, so a tile must begin at a mult"):
        shifted.trace(case.copy(mo.TmaLoad(), case.array(0)), 4, block=32)


def test_extents_stay_dynamic():
    """The same modes merge, and nothing is traced anew."""
    layout = mo.make_layout((8, 8))
    arrays = [mo.TensorLike(mo.int8, (8, n)) for n in (64, 200)]
    traced = [read_kernel.trace(mo.make_tma_copy(mo.TmaLoad(), x, layout), mo.TensorLike(mo.int8, (64, 8)), (1, 8),
                                block=BLOCK) for x in arrays]
    assert traced[0] is traced[1]


def test_arrays_that_need_no_merging_have_the_maps_of_before():
    array = mo.TensorLike(mo.float16, (64, 32, 4))
    tiling = mo.make_tma_copy(mo.TmaLoad(), array, mo.make_layout((64, 8)), (64, 8, 1)).describe()[1]
    assert tiling.map.modes == (0, 1, 2)
