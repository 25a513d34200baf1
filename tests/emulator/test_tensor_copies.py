"""Tensor maps, TMA and bulk copies of the emulator, against NumPy's indexing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.tensor_library import Library

Array = np.ndarray[Any, np.dtype[Any]]
TYPES: dict[str, tuple[int, Any]] = {       # the driver's number, and what an element is here
    "u8": (0, np.uint8), "u16": (1, np.uint16), "u32": (2, np.uint32), "s32": (3, np.int32), "u64": (4, np.uint64),
    "s64": (5, np.int64), "f16": (6, np.float16), "f32": (7, np.float32), "f64": (8, np.float64),
    "bf16": (9, ml_dtypes.bfloat16), "f32.ftz": (10, np.float32), "tf32": (11, np.float32)}
SPANS = (0, 32, 64, 128)
BASE, SIZE = 1024, 64 * 1024


@dataclass
class Tensor:
    """An array of (size of dimension n - 1, ..., size of dimension 0) in memory with gaps, and its map."""

    type: str
    sizes: tuple[int, ...]
    gap: int = 16
    memory: Array = field(init=False)
    array: Array = field(init=False)
    strides: list[int] = field(init=False)

    def __post_init__(self) -> None:
        dtype = np.dtype(TYPES[self.type][1])
        self.strides, reached = [], self.sizes[0] * dtype.itemsize
        for extent in self.sizes[1:]:
            self.strides.append(-(-reached // 16) * 16 + self.gap)
            reached = self.strides[-1] * extent
        whole = np.random.default_rng(len(self.sizes)).integers(0, 256, reached + 16, dtype=np.uint8)
        start = -whole.ctypes.data % 16
        self.memory = whole[start:start + reached]
        places = [dtype.itemsize, *self.strides]
        self.array = np.lib.stride_tricks.as_strided(self.memory[:len(self.memory) // dtype.itemsize * dtype.itemsize]
                                                     .view(dtype), self.sizes[::-1], places[::-1])
        numbers = np.random.default_rng(1).integers(-99, 100, self.array.shape)
        self.array[...] = numbers.astype(dtype) if dtype.kind != "u" else (numbers & 0x7F).astype(dtype)

    def _head(self) -> list[Any]:
        return [TYPES[self.type][0], len(self.sizes), self.memory.ctypes.data, np.array(self.sizes, np.uint64),
                np.array([*self.strides, 0], np.uint64)]

    def tiled(self, tensor: Library, box: tuple[int, ...], steps: tuple[int, ...] | None = None, swizzle: int = 0,
              fill: int = 0, interleave: int = 0) -> Array:
        found = _aligned(128)
        tensor("encode_tiled", found, *self._head(), np.array(box, np.uint32),
               np.array(steps or (1,) * len(box), np.uint32), interleave, swizzle, 0, fill)
        return found

    def im2col(self, tensor: Library, lower: tuple[int, ...], upper: tuple[int, ...], channels: int, pixels: int,
               steps: tuple[int, ...], swizzle: int = 0, fill: int = 0) -> Array:
        found = _aligned(128)
        tensor("encode_im2col", found, *self._head(), np.array(lower, np.int32), np.array(upper, np.int32), channels,
               pixels, np.array(steps, np.uint32), 0, swizzle, 0, fill)
        return found

    def at(self, index: tuple[int, ...], filled: Any) -> Any:
        """An element by its coordinates, the fastest first, or what fills."""
        inside = all(0 <= i < size for i, size in zip(index, self.sizes, strict=True))
        return self.array[index[::-1]] if inside else filled


def _aligned(count: int) -> Array:
    whole = np.zeros(count + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start:start + count]


def _row_places(address: int, span: int, count: int) -> list[int]:
    """Where the parts of 16 bytes of a row at this address lie: by the figures of the swizzling modes."""
    number = {0: 0, 32: address // 128 % 2, 64: address // 128 % 4, 128: address // 128 % 8}[span]
    return [(part ^ number) * 16 for part in range(count // 16)]


def _unswizzled(shared: Array, address: int, rows: int, bytes_: int, span: int) -> Array:
    """The rows of a box as they were before the swizzle."""
    found = np.empty((rows, bytes_), np.uint8)
    for row in range(rows):
        at = address - BASE + row * bytes_
        row_begins = at if not span else at // span * span
        for part, place in enumerate(_row_places(address + row * bytes_, span, bytes_)):
            found[row, 16 * part:16 * part + 16] = shared[row_begins + place:row_begins + place + 16]
    return found


def _load(tensor: Library, map_: Array, coordinates: tuple[int, ...], shared: Array, address: int,
          offsets: tuple[int, ...] | None = None, blocks: int = 1) -> int:
    bytes_ = np.zeros(1, np.uint32)
    tensor("tma_load", map_, len(coordinates), np.array(coordinates, np.int32),
           None if offsets is None else np.array(offsets, np.uint16), shared, BASE, SIZE, blocks, address, bytes_)
    return int(bytes_[0])


def _expected(of: Tensor, coordinates: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...] | None,
              filled: Any) -> Array:
    """A box, one element after the other, with dimension 0 fastest."""
    steps = (1, *(steps or (1,) * len(box))[1:])
    counts = [range(0, extent, step) for extent, step in zip(box, steps, strict=True)]
    indices = itertools.product(*(list(each) for each in counts[::-1]))
    values = [of.at(tuple(c + i for c, i in zip(coordinates, index[::-1], strict=True)), filled) for index in indices]
    return np.array(values, of.array.dtype).reshape(-1, box[0])


BOXES: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, int, tuple[int, ...]]] = [
    ("u8", (100,), (48,), None, 0, (70,)), ("f32", (20, 9), (8, 4), None, 0, (-3, 7)),
    ("f16", (100, 20), (64, 16), None, 3, (40, -2)), ("bf16", (100, 20), (32, 16), None, 2, (80, 10)),
    ("f32", (30, 20), (8, 16), None, 1, (-4, 3)), ("f64", (10, 6, 5), (4, 3, 3), None, 0, (8, -1, 3)),
    ("s32", (12, 5, 4, 3), (4, 2, 3, 2), None, 0, (4, 4, 2, -1)),
    ("u16", (24, 5, 4, 3, 3), (8, 2, 2, 2, 2), None, 0, (16, 3, 3, 2, -1)),
    ("f16", (40, 30, 6), (16, 7, 3), (5, 3, 2), 1, (8, -2, 3)), ("u64", (8, 9), (2, 5), None, 0, (0, 20)),
    ("s64", (8, 9), (2, 256), None, 0, (-2, -100))]


@pytest.mark.parametrize(("type_", "sizes", "box", "steps", "swizzle", "at"), BOXES)
def test_a_box_is_loaded(tensor: Library, type_: str, sizes: tuple[int, ...], box: tuple[int, ...],
                         steps: tuple[int, ...] | None, swizzle: int, at: tuple[int, ...]) -> None:
    of = Tensor(type_, sizes)
    filled = np.zeros(1, of.array.dtype)[0]
    expected = _expected(of, at, box, steps, filled)
    map_, row = of.tiled(tensor, box, steps, swizzle), box[0] * of.array.dtype.itemsize
    for address in (2048, 2048 + 128 * 5):
        shared = np.full(3 * SIZE, 0xAA, np.uint8)
        assert _load(tensor, map_, at, shared, address, blocks=2) == expected.nbytes
        for block in range(2):
            found = _unswizzled(shared[block * SIZE:], address, len(expected), row, SPANS[swizzle])
            assert np.array_equal(found, expected.view(np.uint8).reshape(found.shape))
        assert np.count_nonzero(shared == 0xAA) >= 3 * SIZE - 2 * expected.nbytes and np.all(shared[2 * SIZE:] == 0xAA)


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64", "tf32"])
def test_what_is_outside_is_nan(tensor: Library, type_: str) -> None:
    of, shared = Tensor(type_, (16, 4)), np.zeros(SIZE, np.uint8)
    _load(tensor, of.tiled(tensor, (16, 4), fill=1), (8, 2), shared, 2048)
    found = shared[1024:1024 + 64 * of.array.dtype.itemsize].view(of.array.dtype).reshape(4, 16).astype(np.float64)
    assert np.all(np.isnan(found[2:])) and np.all(np.isnan(found[:, 8:]))
    assert np.array_equal(found[:2, :8], of.array[2:, 8:].astype(np.float64))


def test_floats_round_on_their_way(tensor: Library) -> None:
    shared, of = np.zeros(SIZE, np.uint8), Tensor("tf32", (256,), gap=0)
    of.array[...] = np.random.default_rng(2).standard_normal(256)
    of.array[:4] = [1 + 2**-11, 1 + 3 * 2**-11, np.inf, -(1 + 2**-11 + 2**-20)]
    _load(tensor, of.tiled(tensor, (256,)), (0,), shared, 2048)
    bits = of.array.view(np.uint32)
    expected = np.where(np.isfinite(of.array), bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000, bits)
    assert np.array_equal(shared[1024:2048].view(np.uint32), expected)
    flushed = Tensor("f32.ftz", (4,), gap=0)
    flushed.array[...] = [1e-40, -1e-40, 1.5, 2.0**-126]
    _load(tensor, flushed.tiled(tensor, (4,)), (0,), shared, 2048)
    assert shared[1024:1040].view(np.float32).tolist() == [0.0, 0.0, 1.5, 2.0**-126]


@pytest.mark.parametrize(("type_", "sizes", "box", "steps", "swizzle", "at"), BOXES)
def test_a_box_is_stored(tensor: Library, type_: str, sizes: tuple[int, ...], box: tuple[int, ...],
                         steps: tuple[int, ...] | None, swizzle: int, at: tuple[int, ...]) -> None:
    of, at = Tensor(type_, sizes), tuple(max(0, c) for c in at)
    map_, row = of.tiled(tensor, box, steps, swizzle), box[0] * of.array.dtype.itemsize
    numbers = np.random.default_rng(3).integers(0, 256, SIZE, dtype=np.uint8)
    shared, address = numbers.copy(), 4096 + 128 * 3
    bare = _expected(of, at, box, steps, np.zeros(1, of.array.dtype)[0])
    data = _unswizzled(shared, address, len(bare), row, SPANS[swizzle]).view(of.array.dtype).reshape(-1)
    before, expected = of.memory.copy(), of.array.copy()
    apart = (1, *(steps or (1,) * len(box))[1:])
    counts = [range(0, extent, step) for extent, step in zip(box, apart, strict=True)]
    for value, index in zip(data, itertools.product(*counts[::-1]), strict=True):
        place = tuple(c + i for c, i in zip(at, index[::-1], strict=True))
        if all(0 <= i < size for i, size in zip(place, sizes, strict=True)):
            expected[place[::-1]] = value
    tensor("tma_store", "", map_, len(at), np.array(at, np.int32), shared, BASE, SIZE, address)
    assert of.array.tobytes() == expected.tobytes() and np.array_equal(shared, numbers)
    of.array[...] = np.zeros(1, of.array.dtype)[0]
    rest = of.memory != 0
    assert np.array_equal(of.memory[rest], before[rest])


IMAGES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    # sizes (C, W, H, D, N), lower, upper, element strides, offsets
    ((24, 9, 7, 3), (-1, -1), (-1, -1), (1, 1, 1, 1), (0, 2)), ((24, 9, 7, 3), (0, 0), (0, 0), (1, 1, 1, 1), (0, 0)),
    ((24, 9, 7, 3), (-2, -1), (0, -2), (1, 2, 3, 1), (3, 1)), ((24, 30, 4), (-3,), (-2,), (1, 2, 1), (4,)),
    ((24, 5, 4, 3, 2), (-1, 0, -1), (-1, -1, 0), (1, 1, 2, 1, 1), (1, 0, 2))]


@pytest.mark.parametrize(("sizes", "lower", "upper", "steps", "offsets"), IMAGES)
def test_pixels_under_a_filter_are_loaded(tensor: Library, sizes: tuple[int, ...], lower: tuple[int, ...],
                                          upper: tuple[int, ...], steps: tuple[int, ...],
                                          offsets: tuple[int, ...]) -> None:
    of, pixels = Tensor("f16", sizes), 40
    map_ = of.im2col(tensor, lower, upper, 16, pixels, steps, swizzle=1)
    ranges = [range(low, size + high, step)
              for low, high, size, step in zip(lower, upper, sizes[1:-1], steps[1:-1], strict=True)]
    places = [(*pixel[::-1], n) for n in range(-1, sizes[-1] + 3) for pixel in itertools.product(*ranges[::-1])]
    for first in (places.index((*lower, 0)), places.index((*lower, 0)) + 5, places.index((*lower, 1)) - 3):
        for channel in (0, 16, -8):
            shared = np.zeros(SIZE, np.uint8)
            assert _load(tensor, map_, (channel, *places[first]), shared, 2048, offsets) == pixels * 32
            expected = [[of.at((channel + c, *(x + o for x, o in zip(place[:-1], offsets, strict=True)), place[-1]),
                               np.float16(0)) for c in range(16)] for place in places[first:first + pixels]]
            found = _unswizzled(shared, 2048, pixels, 32, 32).view(np.float16)
            assert np.array_equal(found, np.array(expected))


REDUCED = {"u32": ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
           "s32": ("add", "min", "max", "and", "or", "xor"), "u64": ("add", "min", "max", "and", "or", "xor"),
           "s64": ("add", "min", "max", "xor"), "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"),
           "f32": ("add",), "f64": ("add",)}
FUNCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
             "xor": np.bitwise_xor, "inc": lambda old, x: np.where(old >= x, 0, old + 1),
             "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - 1)}


@pytest.mark.parametrize(("type_", "by"), [(type_, by) for type_, each in REDUCED.items() for by in each])
def test_reductions_of_runs_and_boxes(tensor: Library, type_: str, by: str) -> None:
    dtype = np.dtype(TYPES[type_][1])
    rng, of = np.random.default_rng(4), Tensor(type_, (64, 6))
    if dtype.kind in "iu":
        draw = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, 6, 64), dtype=dtype, endpoint=True)
        draw[:, 0] = draw[:, 0] % 3
        draw[0, 1, 8:16], draw[0, 1, 16:24] = draw[1, 1, 8:16], draw[1, 0, 16:24]       # the same number twice
        draw[0, 1, :4] = 0
    else:
        draw = rng.standard_normal((2, 6, 64)).astype(dtype)
    of.array[...] = draw[0]
    shared = np.zeros(SIZE, np.uint8)
    shared[1024:1024 + draw[1].nbytes] = np.ascontiguousarray(draw[1]).view(np.uint8).reshape(-1)
    with np.errstate(over="ignore"):
        expected = FUNCTIONS[by](draw[0], draw[1]).astype(dtype)
    row = of.memory[of.strides[0]:of.strides[0] + 64 * dtype.itemsize]
    tensor("bulk", by, type_, row, shared, BASE, SIZE, 2048 + 64 * dtype.itemsize, 64 * dtype.itemsize, 1)
    assert np.array_equal(of.array[1], expected[1]) and np.array_equal(of.array[0], draw[0][0])
    of.array[...] = draw[0]
    if by == "add" and type_ in ("f64", "s64"):
        with pytest.raises(RuntimeError, match="no sums"):
            tensor("tma_store", by, of.tiled(tensor, (64, 6)), 2, np.array([0, 0], np.int32), shared, BASE, SIZE, 2048)
        return
    tensor("tma_store", by, of.tiled(tensor, (64, 6)), 2, np.array([0, 1], np.int32), shared, BASE, SIZE, 2048)
    with np.errstate(over="ignore"):
        moved = FUNCTIONS[by](draw[0][1:], draw[1][:5]).astype(dtype)
    assert np.array_equal(of.array[1:], moved) and np.array_equal(of.array[0], draw[0][0])


def test_runs_of_bytes(tensor: Library) -> None:
    of, shared = Tensor("u8", (256,), gap=0), np.zeros(2 * SIZE, np.uint8)
    tensor("bulk", "load", "u8", of.memory, shared, BASE, SIZE, 2048, 160, 2)
    for block in range(2):
        whole = shared[block * SIZE:][:SIZE]
        assert np.array_equal(whole[1024:1184], of.memory[:160]) and np.count_nonzero(whole) <= 160
    shared[1024:1184] += 1
    tensor("bulk", "send", "u8", of.memory, shared, BASE, SIZE, 2048, 80, 2)
    assert np.array_equal(shared[SIZE + 1104:SIZE + 1184], shared[1024:1104])
    before = of.memory.copy()
    tensor("bulk", "store", "u8", of.memory[32:], shared, BASE, SIZE, 2048, 96, 1)
    assert np.array_equal(of.memory[32:128], shared[1024:1120])
    assert np.array_equal(of.memory[128:], before[128:]) and np.array_equal(of.memory[:32], before[:32])
    for address, bytes_, words in ((2056, 16, "multiples of 16"), (2048, 24, "multiples of 16"),
                                   (BASE + SIZE - 16, 32, "are not within"), (512, 16, "are not within")):
        with pytest.raises(RuntimeError, match=words):
            tensor("bulk", "store", "u8", of.memory, shared, BASE, SIZE, address, bytes_, 1)
    with pytest.raises(RuntimeError, match="multiples of 16"):
        tensor("bulk", "load", "u8", of.memory[8:], shared, BASE, SIZE, 2048, 16, 1)


def test_fields_of_a_map_are_replaced(tensor: Library) -> None:
    of, other, shared = Tensor("f32", (16, 8)), Tensor("bf16", (80, 6, 3), gap=32), np.zeros(SIZE, np.uint8)
    map_ = of.tiled(tensor, (16, 8))
    for name, ord_, value in (
            ("global_address", 0, other.memory.ctypes.data), ("rank", 0, 2), ("elemtype", 0, 10), ("fill_mode", 0, 1),
            ("swizzle_mode", 0, 3), ("interleave_layout", 0, 0), *(("box_dim", d, n) for d, n in enumerate((64, 4, 2))),
            *(("global_dim", d, n) for d, n in enumerate(other.sizes)), *(("element_stride", d, 1) for d in range(3)),
            *(("global_stride", d, n) for d, n in enumerate(other.strides))):
        tensor("tensormap_replace", map_, name, ord_, value)
    _load(tensor, map_, (64, 4, 1), shared, 2048)
    expected = _expected(other, (64, 4, 1), (64, 4, 2), None, np.float32(np.nan)).astype(np.float32)
    found = _unswizzled(shared, 2048, 8, 128, 128).view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(found, expected, equal_nan=True) and np.isnan(found).any() and not np.isnan(found).all()
    tensor("tensormap_replace", map_, "global_address", 0, other.memory.ctypes.data + 8)
    with pytest.raises(RuntimeError, match="no multiple of 16"):
        _load(tensor, map_, (0, 0, 0), shared, 2048)
    with pytest.raises(RuntimeError, match="no field"):
        tensor("tensormap_replace", map_, "nothing", 0, 0)
    with pytest.raises(RuntimeError, match="an extent of 0"):
        tensor("tensormap_replace", map_, "global_dim", 0, 0)


def test_maps_that_the_driver_refuses_are_refused(tensor: Library) -> None:
    wide = Tensor("f16", (128, 8))
    odd = Tensor("f16", (128, 8), gap=8)
    for words, make in (
            ("no multiple of 16", lambda: wide.tiled(tensor, (4, 4))),
            ("a box of 257", lambda: wide.tiled(tensor, (8, 257))),
            ("a box of 0", lambda: wide.tiled(tensor, (8, 0))),
            ("do not fit", lambda: wide.tiled(tensor, (128, 4), swizzle=3)),
            ("shorter than", lambda: wide.tiled(tensor, (32, 4), swizzle=3)),
            ("interleaved", lambda: wide.tiled(tensor, (8, 4), interleave=1)),
            ("stride", lambda: odd.tiled(tensor, (8, 4))),
            ("element stride of 9", lambda: wide.tiled(tensor, (8, 4), (1, 9))),
            ("floats alone", lambda: Tensor("u32", (8, 8)).tiled(tensor, (8, 8), fill=1)),
            ("3 to 5 dimensions", lambda: wide.im2col(tensor, (), (), 8, 8, (1, 1))),
            ("corners", lambda: Tensor("f16", (8, 8, 8, 2)).im2col(tensor, (-129, 0), (0, 0), 8, 8, (1,) * 4)),
            ("1024 pixels", lambda: Tensor("f16", (8, 8, 2)).im2col(tensor, (0,), (0,), 8, 1025, (1,) * 3))):
        with pytest.raises(RuntimeError, match=words):
            make()


def test_copies_that_are_wrong_are_refused(tensor: Library) -> None:
    of, shared = Tensor("f16", (128, 8)), np.zeros(SIZE, np.uint8)
    images = Tensor("f16", (8, 8, 8, 2))
    map_, window = of.tiled(tensor, (64, 8)), images.im2col(tensor, (0, 0), (0, 0), 8, 8, (1,) * 4)
    moved = _aligned(192)[16:144]
    moved[:] = map_
    _load(tensor, map_, (0, 0), shared, 2048)
    _load(tensor, window, (0, 0, 0, 0), shared, 2048, (0, 0))
    for words, arguments in (
            ("multiple of 128", (map_, (0, 0), shared, 2048 + 64)), ("are not within", (map_, (0, 0), shared, 0)),
            ("are not within", (map_, (0, 0), shared, BASE + SIZE - 512)),
            ("1 coordinates", (map_, (0,), shared, 2048)), ("multiple of 64", (moved, (0, 0), shared, 2048)),
            ("none at this address", (_aligned(128), (0, 0), shared, 2048)),
            (".tile and .im2col", (window, (0, 0, 0, 0), shared, 2048)),
            (".tile and .im2col", (map_, (0, 0), shared, 2048, ())),
            ("offset of 256", (window, (0, 0, 0, 0), shared, 2048, (0, 256)))):
        with pytest.raises(RuntimeError, match=words):
            _load(tensor, *arguments)
    for by, first in (("", (0, -1)), ("add", (-8, 0))):
        with pytest.raises(RuntimeError, match="begins at coordinate -"):
            tensor("tma_store", by, map_, 2, np.array(first, np.int32), shared, BASE, SIZE, 2048)
    with pytest.raises(RuntimeError, match="no such reduction"):
        tensor("tma_store", "and", map_, 2, np.array([0, 0], np.int32), shared, BASE, SIZE, 2048)
    with pytest.raises(RuntimeError, match="no reduction of bytes"):
        tensor("tma_store", "add", Tensor("u8", (32,)).tiled(tensor, (32,)), 1, np.array([0], np.int32), shared, BASE,
               SIZE, 2048)
