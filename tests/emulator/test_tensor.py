"""Numbers and matrices of registers: the emulator's C++ against NumPy, with the figures of the PTX ISA.

Each table of places below is one of the ISA's figures: register element i of the lane with group g and thread t.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.tensor_library import Library

Array = np.ndarray[Any, np.dtype[Any]]
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
LANES = [(lane // 4, lane % 4) for lane in range(32)]


def _bits(x: Array) -> Array:
    return x.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[x.dtype.itemsize])


def _same(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def _floats(rng: np.random.Generator, count: int) -> Array:
    """Floats of all sizes that 16 bits and 8 bits reach and do not reach, ties among them."""
    sizes = np.exp2(rng.uniform(-30, 20, count))
    coarse = np.round(rng.uniform(-64, 64, count)) / 64 * np.exp2(rng.integers(-26, 18, count))
    values = np.where(rng.random(count) < 0.5, rng.standard_normal(count) * sizes, coarse)
    return np.concatenate([values, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e38, 65519.9, 65520, 448, 464, 57344,
                                    61440, 2**-25, 2**-24 * 1.5]]).astype(np.float32)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS)
def test_every_narrow_float_is_read(tensor: Library, name: str) -> None:
    dtype = np.dtype(FLOATS[name])
    patterns = np.arange(1 << 8 * dtype.itemsize, dtype=np.uint64)
    found = np.empty(len(patterns))
    tensor("to_double", name, patterns, found, len(patterns))
    with np.errstate(invalid="ignore"):
        expected = patterns.astype(f"u{dtype.itemsize}").view(dtype).astype(np.float64)
    numbers = ~np.isnan(expected)
    assert _same(found, expected) and np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def _cvt(tensor: Library, to: str, x: Array, rounding: str = "rn", satfinite: int = 0, relu: int = 0) -> Array:
    found = np.empty(len(x), np.uint32)
    tensor("cvt", to, "f32", rounding, satfinite, relu, _bits(x).astype(np.uint64), found, len(x))
    return found


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_a_float_rounds_to_nearest_or_to_zero(tensor: Library, name: str) -> None:
    x = _floats(np.random.default_rng(1), 20000)
    dtype = FLOATS[name]
    with np.errstate(over="ignore"):
        nearest = x.astype(dtype)
    found = _cvt(tensor, name, x).astype(np.uint16)
    numbers = ~np.isnan(x)
    assert np.array_equal(found[numbers], _bits(nearest)[numbers]) and np.all(found[~numbers] == 0x7FFF)
    down = _cvt(tensor, name, x, "rz").astype(np.uint16).view(dtype).astype(np.float64)
    finite = np.isfinite(x)
    magnitude, above = np.abs(down[finite]), np.abs(x[finite].astype(np.float64))
    with np.errstate(over="ignore"):
        following = (_bits(np.abs(down[finite]).astype(dtype)) + 1).astype(np.uint16).view(dtype).astype(np.float64)
    assert np.all(magnitude <= above) and np.all(np.isfinite(magnitude)) and np.all(~(following <= above))
    relu = _cvt(tensor, name, x, relu=1).astype(np.uint16)
    assert np.array_equal(relu[numbers], np.where(np.signbit(x), 0, found)[numbers])


@pytest.mark.parametrize(("name", "most"), [("e4m3", 448), ("e5m2", 57344), ("f16", 65504)])
def test_satfinite_stops_at_the_largest_number(tensor: Library, name: str, most: float) -> None:
    x = _floats(np.random.default_rng(2), 20000)
    expected = np.clip(x, -most, most).astype(FLOATS[name])
    found = _cvt(tensor, name, x, satfinite=1)
    numbers = ~np.isnan(x)
    assert np.array_equal(found[numbers], _bits(expected)[numbers])
    assert np.all(np.isnan(found[~numbers].astype(_bits(expected).dtype).view(FLOATS[name]).astype(np.float32)))


def test_tf32_rounds_ties_away_or_to_even(tensor: Library) -> None:
    x = _floats(np.random.default_rng(3), 20000)
    x = np.concatenate([x, _bits(x) & np.uint32(0xFFFFF000) | np.uint32(0x1000)]).view(np.float32)
    x = x[np.isfinite(x)]
    bits = _bits(x)
    assert np.array_equal(_cvt(tensor, "tf32", x, "rna"), bits + 0x1000 & 0xFFFFE000)
    assert np.array_equal(_cvt(tensor, "tf32", x, "rn"), bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000)
    assert np.array_equal(_cvt(tensor, "tf32", x, "rz"), bits & 0xFFFFE000)


def test_packed_conversions_have_the_first_operand_above(tensor: Library) -> None:
    found = np.empty(1, np.uint32)
    for name in FLOATS:
        high, low = (np.array([x], np.float32).astype(FLOATS[name]) for x in (1.5, -0.75))
        tensor("cvt_pair_f32", name, np.float32(1.5), np.float32(-0.75), 1, found)
        assert found[0] == int(_bits(high)[0]) << 8 * high.itemsize | int(_bits(low)[0])
    for name in ("e4m3", "e5m2"):
        pair = np.array([1.75, -3.5], np.float32)
        narrow, wide = pair.astype(FLOATS[name]), pair.astype(np.float16)
        tensor("cvt_pair", "f16", name, int(narrow.view(np.uint16)[0]), 0, found)
        assert found[0] == wide.view(np.uint32)[0]
        tensor("cvt_pair", name, "f16", int(wide.view(np.uint32)[0]), 1, found)
        assert found[0] == narrow.view(np.uint16)[0]
    tensor("cvt_pack", "s8", -300, 5, 0xABCD1234, found)
    assert found[0] == 0x12348005
    tensor("cvt_pack", "u8", -300, 300, 0, found)
    assert found[0] == 0x00FF


def _nearest(exact: Fraction, dtype: Any) -> int:
    """The bits of the nearest number, ties to even; the search begins near a rounding by way of double."""
    most = Fraction(float(np.finfo(np.float16).max if dtype is np.float16 else ml_dtypes.finfo(dtype).max))
    with np.errstate(over="ignore"):
        start = int(_bits(np.abs(np.array([float(exact)])).astype(dtype))[0])
    numbers = {bits: Fraction(float(np.array([bits], np.uint16).view(dtype)[0]))
               for bits in range(max(0, start - 2), start + 3)
               if np.isfinite(np.array([bits], np.uint16).view(dtype).astype(np.float64)[0])}
    last = max(numbers)
    if numbers[last] == most:
        numbers[last + 1] = 2 * most - numbers[last - 1]
    best = min(numbers, key=lambda bits: (abs(numbers[bits] - abs(exact)), bits % 2))
    return best | (0x8000 if exact < 0 else 0)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_arithmetic_of_16_bits_rounds_once(tensor: Library, name: str) -> None:
    rng, dtype, count = np.random.default_rng(4), FLOATS[name], 600
    exponents = (-12, 8) if name == "f16" else (-70, 60)
    words = [(rng.standard_normal(2 * count) * np.exp2(rng.integers(*exponents, 2 * count))).astype(dtype)
             for _ in range(3)]
    words[2][:200] = (-words[0][:200].astype(np.float64) * words[1][:200].astype(np.float64)).astype(dtype)
    words[2][200:400] = np.float32(2.0**-20)
    # Half-way between two numbers of bfloat16, and far less than a double has: 3 / 2 * 101 / 64 + 2^-70.
    words[0][:100], words[1][:100] = 1.5, np.arange(129, 329, 2) % 128 / 64 + 1
    words[2][:100] = np.where(np.arange(100) % 2, 1, -1) * np.exp2(-70.0)
    a, b, c = words
    exact = [[Fraction(float(x)) for x in word] for word in words]
    for what, function in enumerate((lambda x, y, z: x + y, lambda x, y, z: x - y, lambda x, y, z: x * y,
                                     lambda x, y, z: x * y + z)):
        found = np.empty(count, np.uint32)
        tensor("half2", what, name, *(word.view(np.uint32) for word in (a, b, c)), 0, 0, found, count)
        expected = [function(*numbers) for numbers in zip(*exact, strict=True)]
        for bits, number in zip(found.view(np.uint16), expected, strict=True):
            if number:
                assert bits == _nearest(number, dtype), (what, bits, float(number))
            else:
                assert bits & 0x7FFF == 0


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_least_and_most_of_16_bits(tensor: Library, name: str) -> None:
    dtype = np.dtype(FLOATS[name])
    one, two, nan, zero, minus = (int(_bits(np.array([x], np.float32).astype(dtype))[0])
                                  for x in (1.0, 2.0, np.nan, 0.0, -0.0))
    nan &= 0x7FFF
    for what, a, b, expected in (("min", one, two, one), ("max", one, two, two), ("min", nan, two, two),
                                 ("max", one, nan, one), ("max", nan, nan, 0x7FFF), ("min", zero, minus, minus),
                                 ("max", minus, zero, zero), ("min_nan", nan, two, 0x7FFF),
                                 ("max_nan", one, nan, 0x7FFF), ("max_nan", one, two, two)):
        found = np.empty(1, np.uint32)
        kind = ["add", "sub", "mul", "fma", "min", "max", "min_nan", "max_nan"].index(what)
        pair = [np.array([x << 16 | one], np.uint32) for x in (a, b)]
        tensor("half2", kind, name, *pair, pair[0], 0, 0, found, 1)
        assert found[0] >> 16 == expected and found[0] & 0xFFFF == one, what


# --- ldmatrix, stmatrix, movmatrix -----------------------------------------------------------------------------------


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [0, 1])
def test_matrices_go_to_registers_and_back(tensor: Library, num: int, trans: int) -> None:
    rng = np.random.default_rng(5)
    memory = rng.integers(0, 1 << 16, 64 * 8, dtype=np.uint16)
    rows = rng.permutation(64)[:32]
    registers = np.zeros((32, 4), np.uint32)
    tensor("ldmatrix", num, trans, memory, (rows * 16).astype(np.uint32), registers)
    for matrix in range(num):
        elements = memory.reshape(64, 8)[rows[8 * matrix:8 * matrix + 8]]
        elements = elements.T if trans else elements
        # Lane t: row t / 4, elements 2 (t % 4) and the next, the first one in the low half.
        assert np.array_equal(registers[:, matrix], np.ascontiguousarray(elements).view(np.uint32).reshape(32))
    back = np.zeros_like(memory)
    tensor("stmatrix", num, trans, back, (rows * 16).astype(np.uint32), registers)
    expected = np.zeros((64, 8), np.uint16)
    expected[rows[:8 * num]] = memory.reshape(64, 8)[rows[:8 * num]]
    assert np.array_equal(back.reshape(64, 8), expected)


def test_movmatrix_transposes(tensor: Library) -> None:
    matrix = np.random.default_rng(6).integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    found = np.empty(32, np.uint32)
    tensor("movmatrix", matrix.view(np.uint32).reshape(32), found)
    assert np.array_equal(found.view(np.uint16).reshape(8, 8), matrix.T)


# --- mma.sync --------------------------------------------------------------------------------------------------------

Place = Callable[[int, int, int], tuple[int, int]]

# (m, k, bits): row and column of A, by the figures "fragment layout for matrix A" of each shape.
A_PLACES: dict[tuple[int, int, int], Place] = {
    (16, 8, 16): lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    (16, 16, 16): lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, 2 * t + (i & 1) + (8 if i >= 4 else 0)),
    (16, 4, 32): lambda g, t, i: (g if i == 0 else g + 8, t),
    (16, 8, 32): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    (8, 16, 8): lambda g, t, i: (g, 4 * t + i),
    (16, 16, 8): lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    (16, 32, 8): lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + (16 if i >= 8 else 0)),
    (8, 32, 4): lambda g, t, i: (g, 8 * t + i),
    (16, 32, 4): lambda g, t, i: (g if i < 8 else g + 8, 8 * t + (i & 7)),
    (16, 64, 4): lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, 8 * t + (i & 7) + (32 if i >= 16 else 0)),
    (8, 128, 1): lambda g, t, i: (g, 32 * t + i),
    (16, 128, 1): lambda g, t, i: (g if i < 32 else g + 8, 32 * t + (i & 31)),
    (16, 256, 1): lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8, 32 * t + (i & 31) + (128 if i >= 64 else 0)),
    (8, 4, 64): lambda g, t, i: (g, t),
    (16, 4, 64): lambda g, t, i: (g if i == 0 else g + 8, t),
    (16, 8, 64): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    (16, 16, 64): lambda g, t, i: (g, 2 * i + t) if i % 2 == 0 else (g + 8, 2 * i - 2 + t),
}
# (k, bits): row and column of B.
B_PLACES: dict[tuple[int, int], Place] = {
    (8, 16): lambda g, t, i: (2 * t + i, g),
    (16, 16): lambda g, t, i: (2 * t + (i & 1) + (8 if i >= 2 else 0), g),
    (4, 32): lambda g, t, i: (t, g),
    (8, 32): lambda g, t, i: (t + 4 * i, g),
    (16, 8): lambda g, t, i: (4 * t + i, g),
    (32, 8): lambda g, t, i: (4 * t + (i & 3) + (16 if i >= 4 else 0), g),
    (32, 4): lambda g, t, i: (8 * t + i, g),
    (64, 4): lambda g, t, i: (8 * t + (i & 7) + (32 if i >= 8 else 0), g),
    (128, 1): lambda g, t, i: (32 * t + i, g),
    (256, 1): lambda g, t, i: (32 * t + (i & 31) + (128 if i >= 32 else 0), g),
    (4, 64): lambda g, t, i: (t, g),
    (8, 64): lambda g, t, i: (t if i == 0 else t + 4, g),
    (16, 64): lambda g, t, i: (t + 4 * i, g),
}
INTEGERS = ("s8", "u8"), ("s4", "u4")
OPCODES = [
    *(f"m16n8k{k}.row.col.{d}.f16.f16.{d}" for k in (8, 16) for d in ("f16", "f32")),
    *(f"m16n8k{k}.row.col.f32.bf16.bf16.f32" for k in (8, 16)),
    *(f"m16n8k{k}.row.col.f32.tf32.tf32.f32" for k in (4, 8)),
    *(f"m16n8k32.row.col.{d}.{a}.{b}.{d}" for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(f"{shape}.row.col.f64.f64.f64.f64" for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    *(f"{shape}.row.col{sat}.s32.{a}.{b}.s32" for words, shapes in zip(
        INTEGERS, (("m8n8k16", "m16n8k16", "m16n8k32"), ("m8n8k32", "m16n8k32", "m16n8k64")), strict=True)
      for shape in shapes for sat in ("", ".satfinite") for a in words for b in words),
    *(f"{shape}.row.col.s32.b1.b1.s32.{by}.popc" for shape in ("m8n8k128", "m16n8k128", "m16n8k256")
      for by in ("xor", "and")),
]
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4,
        "u4": 4, "b1": 1, "s32": 32}


def _drawn(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Numbers whose sums of products are exact in the accumulator, and their bits."""
    if name in ("s8", "u8", "s4", "u4", "b1"):
        bits, signed = BITS[name], name[0] == "s"
        values = rng.integers(-(1 << bits - 1) if signed else 0, 1 << (bits - 1 if signed else bits), shape)
        return values, (values & (1 << bits) - 1).astype(np.uint64)
    values = rng.integers(-7, 8, shape) / 4
    if name == "f64":
        return values, values.view(np.uint64)
    if name in ("tf32", "f32"):
        return values, values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return values, _bits(values.astype(FLOATS[name])).astype(np.uint64)


def _registers(matrix: Array, bits: int, count: int, place: Place) -> Array:
    """The words of all lanes, each with ``count`` elements."""
    words = np.zeros((32, max(1, count * bits // 32)), np.uint32)
    for lane, (g, t) in enumerate(LANES):
        for i in range(count):
            element = int(matrix[place(g, t, i)])
            if bits == 64:
                words[lane, 2 * i:2 * i + 2] = element & 0xFFFFFFFF, element >> 32
            else:
                words[lane, i * bits // 32] |= np.uint32(element << i * bits % 32)
    return words


def _matrix(words: Array, bits: int, count: int, place: Place, shape: tuple[int, int]) -> Array:
    """The elements of a matrix as bits."""
    found = np.zeros(shape, np.uint64)
    for lane, (g, t) in enumerate(LANES):
        for i in range(count):
            if bits == 64:
                found[place(g, t, i)] = int(words[lane, 2 * i]) | int(words[lane, 2 * i + 1]) << 32
            else:
                found[place(g, t, i)] = int(words[lane, i * bits // 32]) >> i * bits % 32 & (1 << bits) - 1
    return found


def _numbers(name: str, bits: Array) -> Array:
    if name == "s32":
        return bits.astype(np.uint32).view(np.int32)
    dtype = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[name]
    return bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)


def _near_the_ends(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Numbers of 32 bits to which little can be added, above or below."""
    values = rng.integers(0, 100, shape) + rng.choice([-1 << 31, (1 << 31) - 100, 0], shape)
    return values, (values & 0xFFFFFFFF).astype(np.uint64)


def _c_place(g: int, t: int, i: int) -> tuple[int, int]:
    return g if i < 2 else g + 8, 2 * t + (i & 1)


@pytest.mark.parametrize("opcode", OPCODES)
def test_mma_by_the_figures_of_fragments(tensor: Library, opcode: str) -> None:
    rng = np.random.default_rng(len(opcode))
    shape, *words = opcode.replace(".row.col", "").replace(".satfinite", "").split(".")
    m, k = int(shape[1:shape.index("n")]), int(shape[shape.index("k") + 1:])
    d, a, b = words[:3]
    (left, a_bits), (right, b_bits) = _drawn(rng, a, (m, k)), _drawn(rng, b, (k, 8))
    before, c_bits = _near_the_ends(rng, (m, 8)) if d == "s32" else _drawn(rng, d, (m, 8))
    counts = [m * k // 32, 8 * k // 32, m * 8 // 32]
    registers = [_registers(a_bits, BITS[a], counts[0], A_PLACES[m, k, BITS[a]]),
                 _registers(b_bits, BITS[b], counts[1], B_PLACES[k, BITS[b]]),
                 _registers(c_bits, BITS[d], counts[2], _c_place)]
    found = np.zeros_like(registers[2])
    tensor("mma", f"mma.sync.aligned.{opcode}", *registers, found)
    numbers = _numbers(d, _matrix(found, BITS[d], counts[2], _c_place, (m, 8)))
    if opcode.endswith("popc"):
        pairs = left[:, :, None] ^ right[None] if "xor" in opcode else left[:, :, None] & right[None]
        expected = before + pairs.sum(1)
    else:
        expected = before + left @ right
    if d == "s32":
        expected = np.clip(expected, -1 << 31, (1 << 31) - 1) if "satfinite" in opcode \
            else (expected & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    assert np.array_equal(numbers, expected)


def _pair_places(a_row: bool, b_row: bool, wide: bool) -> tuple[Place, Place, Place]:
    """The figures of mma.m8n8k4 with f16, of lanes (0 to 15 or 16 to 31, lane % 4), in place of g and t."""
    def a(high: int, t: int, i: int) -> tuple[int, int]:
        return (t + 4 * high, i) if a_row else (i + 4 * high, t)

    def b(high: int, t: int, i: int) -> tuple[int, int]:
        return (t, i + 4 * high) if b_row else (i, t + 4 * high)

    def c(high: int, t: int, i: int) -> tuple[int, int]:
        return ((t & 1) + (i & 2) + 4 * high, (i & 4) + (t & 2) + (i & 1)) if wide else (t + 4 * high, i)
    return a, b, c


@pytest.mark.parametrize("d", ["f16", "f32"])
@pytest.mark.parametrize("majors", ["row.col", "row.row", "col.row", "col.col"])
def test_mma_of_quad_pairs(tensor: Library, majors: str, d: str) -> None:
    rng = np.random.default_rng(7)
    places = _pair_places(majors[:3] == "row", majors[4:] == "row", d == "f32")
    matrices = [rng.integers(-7, 8, (4, *shape)) / 4 for shape in ((8, 4), (4, 8), (8, 8))]
    types = [np.float16, np.float16, np.float16 if d == "f16" else np.float32]
    elements = [np.zeros((32, count), dtype) for count, dtype in zip((4, 4, 8), types, strict=True)]
    lanes = [(lane, lane % 16 // 4, lane // 16, lane % 4) for lane in range(32)]
    for lane, pair, high, t in lanes:
        for registers, matrix, place in zip(elements, matrices, places, strict=True):
            for i in range(registers.shape[1]):
                registers[lane, i] = matrix[pair][place(high, t, i)]
    found = np.zeros_like(elements[2])
    tensor("mma", f"mma.sync.aligned.m8n8k4.{majors}.{d}.f16.f16.{d}", *elements, found)
    expected = matrices[0] @ matrices[1] + matrices[2]
    for lane, pair, high, t in lanes:
        assert [float(x) for x in found[lane]] == [expected[pair][places[2](high, t, i)] for i in range(8)]


def test_mma_rounds_sums_once(tensor: Library) -> None:
    a = np.zeros((32, 4), np.uint32)
    b, c = np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.float32)
    a[0, 0], b[0, 0] = 0x3C003C00, 0x00013C00           # row 0: 1 and 1; column 0: 1 and 2^-24
    c[0, 0] = 2.0**25
    d = np.zeros_like(c)
    tensor("mma", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c, d)
    assert d[0, 0] == 2.0**25
    c[0, 0] = -1
    tensor("mma", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c, d)
    assert d[0, 0] == 2.0**-24


@pytest.mark.parametrize("opcode", ["m16n8k32.row.col.f32.f16.f16.f32", "m16n8k8.col.col.f32.f16.f16.f32",
                                    "m16n8k8.row.col.f16.bf16.bf16.f16", "m16n8k8.row.col.satfinite.f32.f16.f16.f32",
                                    "m8n8k128.row.col.s32.b1.b1.s32", "m16n16k16.row.col.f32.f16.f16.f32"])
def test_an_instruction_that_does_not_exist_is_refused(tensor: Library, opcode: str) -> None:
    with pytest.raises(RuntimeError, match=r"no such instruction"):
        tensor("mma_words", f"mma.sync.aligned.{opcode}", ord("a"), np.zeros(1, np.int32))
