"""Transposes and permutations in the checking simulator, bit by bit: any rank, strides, dtypes; tiles and vectors."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from drawn_arrays import clean, laid_out, shape_of
from moye.kernels import permute, transpose
from moye.kernels.moves import TilePlan, make_plan, tile_kernel

module = sys.modules["moye.kernels.moves"]

DTYPES = [np.uint8, ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.float8_e4m3fn, np.int32, np.int16, np.int64]
BY_SIZE = {1: mo.uint8, 2: mo.bfloat16, 4: mo.float32, 8: mo.float64}


def random_bits(rng, shape, dtype):
    return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def check(out, x, axes=None):
    with clean() as reports:
        permute(out, x, axes)
    assert np.array_equal(bits(out), bits(np.transpose(x, axes)))
    return reports


@pytest.fixture
def tiles(monkeypatch):
    """Small arrays go through tiles, too."""
    monkeypatch.setattr(module, "_FEW", 0)
    monkeypatch.setattr(module, "_FEW_ODD", dict.fromkeys((1, 2, 4), 0))
    monkeypatch.setattr(module, "_FEW_SHORT", (0, 0))


@pytest.mark.parametrize(("shape", "dtype", "kernel"), [
    ((228, 264), np.int16, "map_kernel"), ((512, 512), np.int16, "tile_kernel"), ((512, 511), np.int16, "map_kernel"),
    ((600, 511), np.float32, "tile_kernel"), ((511, 511), np.float32, "map_kernel"),
    ((60, 65), np.float32, "map_kernel"), ((33, 1901), np.uint8, "map_kernel")])
def test_few_elements_go_without_tiles(shape, dtype, kernel):
    report, = check(np.zeros(shape[::-1], dtype), random_bits(np.random.default_rng(0), shape, dtype))
    assert report.kernel == kernel


@pytest.mark.parametrize("seed", range(16))
def test_drawn(seed):
    """Any rank up to five, any order and strides of both arrays."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    rank = int(rng.integers(1, 6))
    x = laid_out(rng, random_bits(rng, shape_of(rng, rank, most=4000), dtype))
    axes = tuple(int(i) for i in rng.permutation(rank))
    out = laid_out(rng, random_bits(rng, tuple(x.shape[i] for i in axes), dtype))
    check(out, x, axes)


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("shape", [(256, 256), (130, 71), (261, 264), (264, 261), (75, 391)])
def test_matrices(dtype, shape, tiles):
    """Whole tiles and ragged ones."""
    rng = np.random.default_rng(0)
    x = random_bits(rng, shape, dtype)
    report, = check(np.zeros(shape[::-1], dtype), x)
    assert report.kernel == "tile_kernel"


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("rows", [264, 263])
@pytest.mark.parametrize("vectors", [(1, 0), (1, 1), (2, 3), (8, 0)])
def test_short_lines(dtype, rows, vectors, tiles):
    """x's, from one vector on, and out's, if they have more bytes than are gathered."""
    v = 16 // np.dtype(dtype).itemsize
    short = max(4, vectors[0] * v + vectors[1])
    for shape in ((rows, short), (short, rows)):
        report, = check(np.zeros(shape[::-1], dtype), random_bits(np.random.default_rng(1), shape, dtype))
        lines = module._GATHERED[rows * np.dtype(dtype).itemsize % 8 != 0] if shape[0] == short else 0
        assert report.kernel == ("tile_kernel" if short * np.dtype(dtype).itemsize > lines else "map_kernel")


def test_which_tiles_of_short_lines():
    """A tile has as many squares as lines have elements; up to how many elements threads gather depends on both."""
    wide = make_plan(2, (4096, 4096), (8, 8)), make_plan(2, (24, 4096), (8, 8)), make_plan(2, (4096, 40), (8, 8))
    assert [plan.tiles for plan in wide] == [(2, 2), (1, 2), (2, 1)]
    assert make_plan(2, (4096, 24), (8, 8)) is make_plan(2, (7, 4096), (1, 8)) is make_plan(8, (3, 99), (1, 1)) is None
    assert make_plan(2, (4097, 31), (1, 1)) is None and make_plan(2, (4096, 31), (8, 1)) is not None
    aligned, odd = make_plan(2, (15, 4096), (1, 8)), make_plan(2, (15, 4097), (1, 1))
    whole = make_plan(2, (8, 4096), (8, 8))
    assert whole.few(8) < aligned.few(15) < odd.few(17) < odd.few(15) and odd.few(200) < odd.few(17)


def test_tiles_meet_no_bank_conflict(tiles):
    for dtype in DTYPES[:4]:
        x = random_bits(np.random.default_rng(0), (256, 256), dtype)
        with clean() as reports:
            transpose(np.zeros((256, 256), dtype), x)
        assert not reports[0].lints, str(reports[0])


@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize(("shape", "which"), [((255, 256), "st"), ((256, 255), "ld")])
def test_odd_lines_go_in_vectors(tiles, shape, which, dtype):
    """Lines of 255 elements begin anywhere: most of each is read, or written, 16 bytes at a time."""
    report, = check(np.zeros(shape[::-1], dtype), random_bits(np.random.default_rng(6), shape, dtype))
    lines = [line for line in report.counters()["lines"] if line["instruction"].startswith(f"{which}.global")]
    widest = [line for line in lines if line["instruction"] == f"{which}.global.v4"]
    moved = [sum(line["bytes"] * line["requests"] for line in some) for some in (widest, lines)]
    assert moved[0] >= 0.75 * moved[1]


@pytest.mark.parametrize("seed", range(16))
def test_drawn_tiles(tiles, seed):
    test_drawn(seed)


def test_vectors_count_from_aligned_arrays_alone():
    """Others go element by element, as their vectors would."""
    for aligned in ((True, True), (True, False), (False, True), (False, False)):
        plan = make_plan(2, (4097, 4095), (1, 1), aligned)
        assert plan.shifted == aligned and plan.unit == (8 if aligned[1] else 1)


def test_the_attention_order():
    """(batch, seq, heads, dim) to (batch, heads, seq, dim): rows of dim elements stay whole, so vectors are copied."""
    x = random_bits(np.random.default_rng(1), (2, 33, 4, 64), ml_dtypes.bfloat16)
    report, = check(np.zeros((2, 4, 33, 64), x.dtype), x, (0, 2, 1, 3))
    assert report.kernel == "map_kernel"


def test_channels_last_and_back(tiles):
    """Three channels are too few for tiles; 32 are not."""
    for channels, kernel in ((3, "map_kernel"), (32, "tile_kernel")):
        x = random_bits(np.random.default_rng(2), (2, channels, 8, 9), np.float32)
        report, = check(np.zeros((2, 8, 9, channels), x.dtype), x, (0, 2, 3, 1))
        assert report.kernel == kernel
        check(np.zeros_like(x), random_bits(np.random.default_rng(3), (2, 8, 9, channels), np.float32), (0, 3, 1, 2))


def test_repeated_elements():
    x = random_bits(np.random.default_rng(4), (5, 40), np.float32)
    check(np.zeros((40, 5, 3), np.float32), np.broadcast_to(x, (3, 5, 40)))


def test_nothing_and_single_elements():
    for shape in ((), (1,), (1, 1), (0, 3), (3, 0)):
        x = random_bits(np.random.default_rng(5), shape, np.float32)
        out = np.zeros(shape[::-1], np.float32)
        permute(out, x)
        assert np.array_equal(bits(out), bits(x.T))


def test_what_is_refused():
    x = np.zeros((4, 6), np.float32)
    for out, axes, text in [(x.copy(), None, r"out has shape \(4, 6\), and x in the order \(1, 0\)"),
                            (np.zeros((6, 4), np.float64), None, "out holds float64, and x holds float32"),
                            (x, (0, 0), r"axes \(0, 0\) are no order of the 2 axes"),
                            (x[::-1].T, None, "out has a negative stride"),
                            (x, (0, 2), "axis 2 is none of the 2 axes"),
                            (np.broadcast_to(x[0, 0], (6, 4)), None, "out")]:
        with pytest.raises(mo.ArgumentError, match=text):
            permute(out, x, axes)
    with pytest.raises(mo.ArgumentError, match="x is a list"):
        transpose(x, [1, 2])


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_every_access_is_16_bytes(size):
    """Global and shared memory, in whole tiles; no local memory, and registers for 1024 threads (1-byte: 768)."""
    plan = make_plan(size, (8192, 16384), (16 // size, 16 // size))
    assert plan == TilePlan(size, (1, 2) if size == 1 else (2, 2), 16 // size, (True, True))
    x, out = (mo.TensorLike(BY_SIZE[size], (8192, 16384), strides) for strides in ((1, 8192), (16384, 1)))
    program = tile_kernel.compile(out, x, plan, block=plan.threads, arch="sm_90a")
    moves = [line for line in program.sass.splitlines() if any(op in line for op in (" LDG", " STG", " LDS", " STS"))]
    assert len(moves) == 4 * 16 // size and all(".128" in line for line in moves)
    assert program.spills == 0 and program.registers <= (84 if size == 1 else 64)


def test_8_bit_floats_whose_name_numpy_does_not_know():
    x = np.arange(48).reshape(6, 8).astype(ml_dtypes.float8_e5m2)
    y, z = np.zeros((8, 6), x.dtype), np.zeros((4, 6, 2), x.dtype)
    transpose(y, x)
    permute(z, x.reshape(6, 2, 4), (2, 0, 1))
    assert (y == x.T).all() and (z == x.reshape(6, 2, 4).transpose(2, 0, 1)).all()
