"""Matrix descriptors and TMA boxes that moye derives from layouts, read by the emulator as the hardware reads them.

Layouts are drawn: atoms of every width and major, tiles, orders, stages.  What an instruction finds at the addresses of
its descriptor must be what the layout puts there, and so must what the boxes of a tile bring.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import numpy as np
import pytest

import moye as mo
from emulator.tensor_library import Library
from moye.atoms import tma as tma_atoms
from moye.cuda.device import tensor_maps
from moye.ir import ops
from moye.tensor.im2col import im2col_box, im2col_tiling
from moye.tensor.tma_boxes import tma_tiling

BASE = 2048
FAMILIES = [(mo.float16, mo.float16, mo.float32), (mo.bfloat16, mo.bfloat16, mo.float32),
            (mo.tfloat32, mo.tfloat32, mo.float32), (mo.float8_e4m3fn, mo.float8_e5m2, mo.float32),
            (mo.int8, mo.uint8, mo.int32)]


# --- wgmma -----------------------------------------------------------------------------------------------------------


@mo.kernel
def product(out: mo.Static, mma, sA_layout, sB_layout, stage: mo.Constexpr):
    """The products of one stage of A (bM, bK, stages) and B (bN, bK, stages), slice by slice along k."""
    sA, sB = mo.shared_array(mma.op.a_dtype, sA_layout), mo.shared_array(mma.op.b_dtype, sB_layout)
    thr = mma.get_slice(mo.thread_idx().x)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)     # (MMA, MMA_M or N, MMA_K, stages)
    acc = mma.partition_fragment_C((mo.size(sA_layout, 0), mo.size(sB_layout, 0)))
    mo.warpgroup_arrive()
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.gemm(mma, tCrA[:, :, k, stage], tCrB[:, :, k, stage], acc, accumulate=k > 0)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    out[mo.thread_idx().x] = acc[0]


def _drawn_layout(rng: np.random.Generator, dtype: Any, major: str, rows: int, extents: tuple[int, int, int]) -> Any:
    """A tile of stages (rows, K, stages) made of an atom that divides it, filled in a drawn order.

    Along the rows an atom also divides those of one instruction, which all lie in whole atoms.
    """
    whole = extents[1] if major == "k" else rows
    widths = [width for width in (128, 64, 32, 16) if whole % (width * 8 // dtype.bits) == 0]
    atom = mo.smem_layout_atom(dtype, major, int(rng.choice(widths)))
    return mo.tile_to_shape(atom, extents, [(0, 1, 2), (1, 0, 2)][int(rng.integers(2))])


def _places(layout: Any, dtype: Any, stage: int) -> Any:
    """The byte address of every element (row, k) of a stage, with shared memory at BASE."""
    plain = layout.layout if isinstance(layout, mo.ComposedLayout) else layout
    rows, depth = (np.array([plain.mode(mode)(i) for i in range(mo.size(plain, mode))]) for mode in (0, 1))
    found = rows[:, None] + depth + plain.mode(2)(stage)
    if plain is not layout:
        bits, base, shift = layout.swizzle.bits, layout.swizzle.base, layout.swizzle.shift
        found ^= found >> shift & ((1 << bits) - 1) << base
    return BASE + found * dtype.bits // 8


def _steps(op: ops.Wgmma, ref: Any, role: str) -> list[int]:
    """How far the tiles of one role lie apart, in elements, the first dimension fastest."""
    found = [0]
    for extent, stride, own in zip(op.extents, ref.strides, op.roles, strict=True):
        if own == role:
            found = [at + i * stride for i in range(extent) for at in found]
    return found


def _require_operand(tensor: Library, op: ops.Wgmma, ref: Any, numbers: Any, role: str, layout: Any, stage: int,
                     slice_: int) -> None:
    """Every tile of an operand of one op is where its descriptors say."""
    mma, first = op.mma, role == "m"
    rows, k = mma.shape_mnk[0 if first else 1], mma.shape_mnk[2]
    dtype, major = (mma.a_dtype, mma.a_major) if first else (mma.b_dtype, mma.b_major)
    leading, stride, span = numbers
    bits = leading >> 4 << 16 | stride >> 4 << 32 | {0: 0, 128: 1, 64: 2, 32: 3}[span] << 62
    places = _places(layout, dtype, stage)
    found = np.empty((rows, k), np.uint32)
    for i, along in enumerate(_steps(op, ref, role)):
        for kk, deep in enumerate(_steps(op, ref, "k")):
            start = BASE + (int(ref.offset.value) + along + deep) * dtype.bits // 8
            tensor("matrix_addresses", start >> 4 | bits, int(major == "k"), dtype.bits // 8, rows, k, found)
            expected = places[i * rows:(i + 1) * rows, (slice_ + kk) * k:(slice_ + kk + 1) * k]
            assert np.array_equal(found, expected), (str(layout), mma.name, i, kk)


@pytest.mark.parametrize("seed", range(24))
def test_descriptors_of_drawn_layouts(tensor: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = FAMILIES[seed % len(FAMILIES)]
    majors = [str(rng.choice(["k", "mn"])) if a.bits == 16 else "k" for _ in range(2)]
    n = int(rng.choice([8, 16, 24, 32, 64, 96, 128, 192, 256]))
    op = mo.mma.wgmma(a, b, c, n, a_major=majors[0], b_major=majors[1])
    k, stages = op.shape_mnk[2] * int(rng.choice([1, 2, 4])), int(rng.integers(1, 4))
    counts = [int(x) for x in rng.integers(1, 3, 2)]
    layouts = [_drawn_layout(rng, dtype, major, rows, (rows * count, k, stages)) for dtype, major, rows, count in (
        (a, majors[0], 64, counts[0]), (b, majors[1], n, 1 if n > 128 else counts[1]))]
    stage = int(rng.integers(stages))
    func = product.trace(mo.TensorLike(c, (128,)), mo.make_tiled_mma(op), *layouts, stage, block=128)
    products = [inner for inner in func.body.walk() if isinstance(inner, ops.Wgmma)]
    assert len(products) == k // op.shape_mnk[2]
    for slice_, inner in enumerate(products):
        assert inner.a_descriptor is not None
        _require_operand(tensor, inner, inner.a, inner.a_descriptor, "m", layouts[0], stage, slice_)
        _require_operand(tensor, inner, inner.b, inner.b_descriptor, "n", layouts[1], stage, slice_)


def test_printed_descriptors_have_the_fields_of_the_isa() -> None:
    """The constants of a printed kernel: offsets in units of 16 bytes, swizzles 128, 64, 32 as 1, 2, 3."""
    seen = set()
    for bytes_ in (128, 64, 32, 16):
        op = mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64, b_major="mn")
        A = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k", bytes_), (64, 64, 1))
        B = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "mn", bytes_), (64, 64, 1))
        source = product.compile(mo.TensorLike(mo.float32, (128,)), mo.make_tiled_mma(op), A, B, 0, block=128,
                                 arch="sm_90a").source
        for span, leading, stride, value in re.findall(r"wgmma_sw(\d+)_(\d+)_(\d+) = ([^;]+);", source):
            bits = eval(value.replace("ull", "").replace("/", "//"))
            assert bits == int(leading) // 16 << 16 | int(stride) // 16 << 32 | {128: 1, 64: 2, 32: 3, 0: 0}[
                int(span)] << 62
            seen.add(int(span))
        assert "= (smem & 0x3ffff) >> 4 | layout;" in source
    assert seen == {0, 32, 64, 128}


# --- TMA -------------------------------------------------------------------------------------------------------------


class _Driver:
    """The encoders of the CUDA driver, by the emulator: what ``tensor_maps.encode`` calls."""

    class _Enum:
        def __getattr__(self, name: str) -> int:
            return tensor_maps.NUMBERS.get(name.removeprefix("CU_TENSOR_MAP_"), 0)

    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = _Enum()
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = CUtensorMapDataType

    def __init__(self, tensor: Library) -> None:
        self._tensor = tensor

    @staticmethod
    def cuuint64_t(n: int) -> int:
        return n

    cuuint32_t = cuuint64_t

    def cuTensorMapEncodeTiled(self, kind: int, rank: int, pointer: int, dims: list[int], strides: list[int],
                               box: list[int], steps: list[int], *rest: int) -> Any:
        return self._encoded("encode_tiled", kind, rank, pointer, np.array(dims, np.uint64),
                             np.array(strides, np.uint64), np.array(box, np.uint32), np.array(steps, np.uint32), *rest)

    def cuTensorMapEncodeIm2col(self, kind: int, rank: int, pointer: int, dims: list[int], strides: list[int],
                                lower: list[int], upper: list[int], channels: int, pixels: int, steps: list[int],
                                *rest: int) -> Any:
        return self._encoded("encode_im2col", kind, rank, pointer, np.array(dims, np.uint64),
                             np.array(strides, np.uint64), np.array(lower, np.int32), np.array(upper, np.int32),
                             channels, pixels, np.array(steps, np.uint32), *rest)

    def _encoded(self, name: str, *arguments: Any) -> Any:
        found = aligned(128, 64)
        self._tensor(name, found, *arguments)
        return 0, type("Found", (), {"getPtr": lambda self: found.ctypes.data, "kept": found})()


def aligned(count: int, to: int) -> Any:
    """Bytes of zeros at a multiple of so many bytes."""
    whole = np.zeros(count + to, np.uint8)
    start = -whole.ctypes.data % to
    return whole[start:start + count]


@pytest.fixture
def encode(tensor: Library, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``tensor_maps.encode`` with the emulator as its driver: (map, shape, strides in elements, address) -> bytes."""
    fake = _Driver(tensor)
    monkeypatch.setattr(tensor_maps.driver, "_driver", lambda: fake)
    monkeypatch.setattr(tensor_maps.driver, "current_device", lambda ordinal: contextlib.nullcontext())
    monkeypatch.setattr(tensor_maps.driver, "_check", lambda result, what: result[1])

    def encoded(map_: Any, shape: tuple[int, ...], strides: tuple[int, ...], pointer: int) -> Any:
        found = aligned(128, 64)
        found[:] = np.frombuffer(tensor_maps.encode.__wrapped__(map_, shape, strides, 0, pointer), np.uint8)
        return found
    return encoded


TMA_DTYPES = {mo.uint8: np.uint8, mo.float16: np.uint16, mo.float32: np.uint32, mo.float64: np.uint64}


def _array(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...], unit: int) -> tuple[Any, tuple[int, ...], Any]:
    """An array contiguous along one mode, with gaps; its strides in elements; the memory."""
    size, strides, reached = dtype.bits // 8, [0] * len(shape), 1
    for mode in (unit, *(mode for mode in rng.permutation(len(shape)) if mode != unit)):
        strides[mode] = reached
        part = 16 // size
        reached = -(-reached * shape[mode] // part) * part + part * int(rng.integers(2))
    memory = aligned(reached * size, 16)
    memory[:] = rng.integers(0, 100, len(memory))
    whole = memory.view(TMA_DTYPES[dtype])
    view = np.lib.stride_tricks.as_strided(whole, shape, [s * size for s in strides])
    return view, tuple(strides), memory


def _loaded(tensor: Library, map_: Any, tiling: Any, at: list[tuple[tuple[int, ...], tuple[int, ...] | None]],
            shared: Any) -> None:
    """The boxes of a tile into shared memory, part after part of a multicast; ``at``: coordinates and offsets of each.
    """
    size, bytes_, count = tiling.map.dtype.bits // 8, np.zeros(1, np.uint32), 0
    dimension, apart, elements = tiling.part
    for part, (box, (coordinates, offsets)) in itertools.product(range(tiling.multicast),
                                                                 zip(tiling.boxes, at, strict=True)):
        first = np.array(coordinates, np.int32)
        first[dimension] += part * apart
        tensor("tma_load", map_, len(first), first, None if offsets is None else np.array(offsets, np.uint16), shared,
               BASE, len(shared), 1, BASE + (box.offset + part * elements) * size, bytes_)
        count += int(bytes_[0])
    assert count == tiling.bytes, "what the mbarrier waits for"


def _tiling(dtype: Any, known: tuple[int | None, ...], layout: Any, tile: tuple[int, ...]) -> Any:
    """Boxes in as many parts as they have, up to four."""
    for multicast in (4, 2):
        with contextlib.suppress(mo.LayoutError):
            return tma_tiling(mo.TmaLoad(), dtype, known, layout, tile, multicast)
    return tma_tiling(mo.TmaLoad(), dtype, known, layout, tile, 1)


@pytest.mark.parametrize("seed", range(40))
def test_boxes_of_drawn_tiles(tensor: Library, encode: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = list(TMA_DTYPES)[seed % len(TMA_DTYPES)]
    unit = int(rng.integers(2))
    rank = int(rng.integers(2, 5))
    rows = 8 * int(rng.integers(1, 5))
    width = int(rng.choice([16, 32, 64, 128]))
    columns = width * 8 // dtype.bits * int(rng.choice([1, 2, 3]))
    tile = (columns, rows) if unit == 0 else (rows, columns)
    layout = mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn" if unit == 0 else "k", width), tile,
                              [(0, 1), (1, 0)][int(rng.integers(2))])
    shape = (*(int(rng.integers(1, 3 * extent)) for extent in tile), *(int(n) for n in rng.integers(1, 4, rank - 2)))
    array, strides, _memory = _array(rng, dtype, shape, unit)
    known = tuple(1 if mode == unit else None for mode in range(rank))
    tiling = _tiling(dtype, known, layout, (*tile, *(1,) * (rank - 2)))
    map_ = encode(tiling.map, shape, strides, array.ctypes.data)
    extents = (*tile, *(1,) * (rank - 2))
    places = np.array([tiling.layout(i) for i in range(int(np.prod(extents)))])
    for _ in range(4):
        first = tuple(int(rng.integers(-1, -(-n // extent) + 1)) * extent
                      for n, extent in zip(shape, extents, strict=True))
        shared = aligned(-(-tiling.bytes // 1024) * 1024, 1024)
        at = [(tuple(first[mode] + step for mode, step in zip(tiling.map.modes, box.coordinates, strict=True)), None)
              for box in tiling.boxes]
        _loaded(tensor, map_, tiling, at, shared)
        expected = np.zeros(extents, array.dtype)
        inside = tuple(slice(max(0, -begin), max(0, min(extent, n - begin)))
                       for begin, extent, n in zip(first, extents, shape, strict=True))
        outer = tuple(slice(begin + part.start, max(begin + part.stop, begin + part.start))
                      for begin, part in zip(first, inside, strict=True))
        if all(part.stop > part.start for part in inside):
            expected[inside] = array[outer]
        found = shared.view(array.dtype)[places].reshape(extents, order="F")
        assert np.array_equal(found, expected), (str(layout), shape, first)


@pytest.mark.parametrize("seed", range(16))
def test_boxes_of_drawn_filters(tensor: Library, encode: Any, seed: int) -> None:
    """Rows of a tile are the outputs of a convolution, one after the other over rows of pixels and images."""
    rng, dtype = np.random.default_rng(seed), mo.float16
    pixels = int(rng.integers(1, 4))
    limits = {"filter": (1, 4), "padding": (0, 3), "stride": (1, 4), "dilation": (1, 3)}
    each = [{name: int(rng.integers(*limit)) for name, limit in limits.items()} for _ in range(pixels)]
    op = tma_atoms.TmaLoadIm2col(**{name: tuple(one[name] for one in each) for name in each[0]})
    shape = (int(rng.integers(1, 4)), *(int(n) for n in rng.integers(6, 12, pixels)), 64)
    array, strides, _memory = _array(rng, dtype, shape, len(shape) - 1)
    layout = mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", int(rng.choice([32, 64, 128]))), (32, 64))
    tiling = im2col_tiling(op, dtype, layout, (32, 64, 1), 1)
    map_ = encode(tiling.map, shape, strides, array.ctypes.data)
    outputs = op.outputs(shape[1:-1])
    places = np.array([layout(i) for i in range(32 * 64)])
    padded = np.pad(array, [(0, 0), *((one["padding"],) * 2 for one in each), (0, 0)])
    for place in range(int(np.prod(op.filter))):
        where = np.unravel_index(place, op.filter)
        matrix = padded[(slice(None), *(slice(f * one["dilation"], f * one["dilation"] + (n - 1) * one["stride"] + 1,
                                              one["stride"]) for f, one, n in zip(where, each, outputs, strict=True)))]
        matrix = np.concatenate([matrix.reshape(-1, 64), np.zeros((32, 64), array.dtype)])
        first = int(rng.integers(len(matrix) // 32)) * 32
        shared = aligned(4096, 1024)
        at = [_plain(im2col_box(tiling, shape, [{0: first, 1: 0, 2: place}[mode] + step
                                                for mode, step in zip(tiling.along, box.coordinates, strict=True)]))
              for box in tiling.boxes]
        _loaded(tensor, map_, tiling, at, shared)
        found = shared.view(array.dtype)[places].reshape((32, 64), order="F")
        assert np.array_equal(found, matrix[first:first + 32])


def _plain(box: tuple[tuple[Any, ...], tuple[Any, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(int(x) for x in box[0]), tuple(int(x) for x in box[1])
