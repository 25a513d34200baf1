"""wgmma and mbarriers of the emulator: against NumPy, on tiles laid out part by part as the ISA's figures show them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emulator.tensor_library import Library

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
MODES = {0: 0, 128: 1, 64: 2, 32: 3}
BASE, SIZE = 1024, 160 * 1024


def _permuted(row: int, span: int) -> list[int]:
    """Where the parts of 16 bytes of a row of a swizzle's atom lie, by the figures of the swizzling modes."""
    number = {128: row % 8, 64: row // 2 % 4, 32: row // 4 % 2}[span]
    return [part ^ number for part in range(span // 16)]


def _placed(memory: Array, matrix: Array, start: int, leading: int, stride: int, span: int, k_major: bool) -> None:
    """Put a matrix (mn, k) into shared memory, atom by atom; of a swizzle, all of a span along the contiguous mode."""
    rows = matrix if k_major else matrix.T                       # what is contiguous last
    size = matrix.dtype.itemsize
    width = (span or 16) // size
    for outer in range(0, rows.shape[0], 8):
        for inner in range(0, rows.shape[1], width):
            if span or k_major:
                at = start + outer // 8 * stride + inner // width * leading
            else:
                at = start + outer // 8 * leading + inner // width * stride
            for row in range(8):
                data = np.ascontiguousarray(rows[outer + row, inner:inner + width]).view(np.uint8)
                for part, to in enumerate(_permuted(row, span) if span else [0]):
                    where = at + row * (span or 16) + 16 * to
                    memory[where - BASE:where - BASE + 16] = data[16 * part:16 * part + 16]


def _descriptor(start: int, leading: int, stride: int, span: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[span] << 62


def _drawn(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> Array:
    if DTYPES[name] in (np.int8, np.uint8):
        limits = np.iinfo(DTYPES[name])
        return rng.integers(limits.min, limits.max + 1, shape).astype(DTYPES[name])
    return (rng.integers(-7, 8, shape) / 4).astype(DTYPES[name])


def _accumulators(matrix: Array) -> Array:
    """The elements of D by thread: the figure of the accumulator's fragments of wgmma."""
    n = matrix.shape[1]
    found = np.empty((128, n // 2), matrix.dtype)
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(n // 2):
            found[thread, i] = matrix[16 * warp + g + (8 if i % 4 >= 2 else 0), 8 * (i // 4) + 2 * t + (i & 1)]
    return found


def _a_fragments(matrix: Array) -> Array:
    """The words of A by thread: row g or g + 8 of a warp's 16; 4 bytes at 4 t, then the same 16 bytes further."""
    words = np.ascontiguousarray(matrix).view(np.uint32).reshape(64, 8)
    found = np.empty((128, 4), np.uint32)
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        for j in range(4):
            found[thread, j] = words[16 * warp + g + (8 if j in (1, 3) else 0), t + (4 if j >= 2 else 0)]
    return found


def _opcode(n: int, d: str, a: str, b: str, saturates: bool = False) -> str:
    k = 32 // np.dtype(DTYPES[a]).itemsize
    return f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{'.satfinite' if saturates else ''}"


def _offsets(rng: np.random.Generator, span: int, k_major: bool, rows: int, columns: int) -> tuple[int, int]:
    """Leading and stride offset in bytes: atoms that do not overlap, with gaps."""
    atom = 8 * (span or 16)
    across = -(-rows // 8) if k_major else -(-columns // 8)
    gap = atom * int(rng.integers(1, 3))
    if span:
        return (16, gap) if k_major else (gap * across, gap)
    return (gap * across, gap) if k_major else (gap, gap * across)


CASES = [
    *((a, a, d, n, span, span, True, True) for a in ("f16",) for d in ("f16", "f32") for n, span in
      ((8, 128), (64, 64), (104, 32), (256, 0))),
    ("bf16", "bf16", "f32", 256, 128, 128, True, True), ("tf32", "tf32", "f32", 128, 128, 64, True, True),
    ("tf32", "tf32", "f32", 24, 0, 32, True, True),
    *(("bf16", "bf16", "f32", n, x, y, major, other) for n, x, y in ((128, 128, 128), (64, 64, 32), (80, 0, 0),
                                                                     (192, 32, 64), (256, 128, 64))
      for major, other in ((False, True), (True, False), (False, False))),
    *((a, b, d, 48, 128, 32, True, True) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f16", "f32")),
    *((a, b, "s32", 96, 64, 128, True, True) for a in ("s8", "u8") for b in ("s8", "u8")),
]


@pytest.mark.parametrize(("a", "b", "d", "n", "a_span", "b_span", "a_k", "b_k"), CASES)
def test_wgmma_of_tiles_in_shared_memory(tensor: Library, a: str, b: str, d: str, n: int, a_span: int, b_span: int,
                                         a_k: bool, b_k: bool) -> None:
    rng = np.random.default_rng(n + a_span)
    k = 32 // np.dtype(DTYPES[a]).itemsize
    memory = rng.integers(0, 256, SIZE, dtype=np.uint8)
    left, right, descriptors = _drawn(rng, a, (64, k)), _drawn(rng, b, (n, k)), []
    for matrix, start, span, k_major in ((left, 8192, a_span, a_k), (right, 65536, b_span, b_k)):
        # What the atoms of a swizzle hold beside the matrix is noise.
        wide = (span or 16) // matrix.dtype.itemsize
        shape = [-(-matrix.shape[0] // (8 if k_major else wide)) * (8 if k_major else wide),
                 -(-k // (wide if k_major else 8)) * (wide if k_major else 8)]
        whole = _drawn(rng, b if matrix is right else a, (shape[0], shape[1]))
        whole[:matrix.shape[0], :k] = matrix
        leading, stride = _offsets(rng, span, k_major, *whole.shape)
        _placed(memory, whole, start, leading, stride, span, k_major)
        descriptors.append(_descriptor(start, leading, stride, span))
    before = _drawn(rng, d, (64, n)) if d != "s32" else rng.integers(-1 << 31, 1 << 31, (64, n)).astype(np.int32)
    product = left.astype(np.float64) @ right.astype(np.float64).T
    for scale_d, signs in ((1, (1, 1)), (0, (1, 1)), (1, (-1, 1)), (1, (1, -1)), (0, (-1, -1))):
        registers = np.ascontiguousarray(_accumulators(before))
        tensor("wgmma", _opcode(n, d, a, b), memory, BASE, SIZE, registers, None, *descriptors, scale_d, *signs,
               int(not a_k), int(not b_k))
        expected = product * signs[0] * signs[1] + (before.astype(np.float64) if scale_d else 0)
        if d == "s32":
            expected = (expected.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        assert np.array_equal(registers, _accumulators(expected.astype(DTYPES[d])))


@pytest.mark.parametrize(("a", "b", "d"), [("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
                                           ("e4m3", "e5m2", "f32"), ("s8", "u8", "s32")])
def test_wgmma_with_a_in_registers_goes_along_k(tensor: Library, a: str, b: str, d: str) -> None:
    """Four instructions along the rows of 128 bytes: each begins 32 bytes further within the swizzle."""
    rng = np.random.default_rng(8)
    k = 128 // np.dtype(DTYPES[a]).itemsize
    memory = np.zeros(SIZE, np.uint8)
    left, right = _drawn(rng, a, (64, k)), _drawn(rng, b, (32, k))
    _placed(memory, right, 4096, 16, 1024, 128, True)
    registers = np.zeros((128, 16), DTYPES[d])
    for step in range(4):
        part = slice(step * k // 4, (step + 1) * k // 4)
        tensor("wgmma", _opcode(32, d, a, b), memory, BASE, SIZE, registers, _a_fragments(left[:, part]), 0,
               _descriptor(4096 + 32 * step, 16, 1024, 128), int(step > 0), 1, 1, 0, 0)
    expected = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.array_equal(registers, _accumulators(expected.astype(DTYPES[d])))


def test_wgmma_of_bytes_saturates(tensor: Library) -> None:
    memory = np.full(SIZE, 127, np.uint8)
    registers = np.full((128, 4), (1 << 31) - 5, np.int32)
    where = [_descriptor(start, 128, 256, 0) for start in (2048, 8192)]
    tensor("wgmma", _opcode(8, "s32", "s8", "s8", True), memory, BASE, SIZE, registers, None, *where, 1, 1, 1, 0, 0)
    assert np.all(registers == (1 << 31) - 1)


def test_what_wgmma_cannot_read_is_refused(tensor: Library) -> None:
    memory, registers = np.zeros(SIZE, np.uint8), np.zeros((128, 4), np.float32)

    def run(opcode: str, a: int, b: int, *rest: int) -> None:
        tensor("wgmma", opcode, memory, BASE, SIZE, registers, None, a, b, 1, *(rest or (1, 1, 0, 0)))

    good, halves = _descriptor(2048, 128, 256, 0), _opcode(8, "f32", "f16", "f16")
    run(halves, good, good)
    for words, opcode, a, rest in (
            ("are not within", halves, _descriptor(BASE + SIZE - 512, 128, 256, 0), ()),
            ("are not within", halves, _descriptor(0, 128, 256, 0), ()),
            ("reserved bits", halves, good | 1 << 14, ()),
            ("do not end within it", halves, _descriptor(2048 + 112, 16, 1024, 128), ()),
            ("imm-scale", halves, good, (2, 1, 0, 0)),
            ("only matrices of 16-bit", _opcode(8, "f32", "tf32", "tf32"), good, (1, 1, 0, 1)),
            ("no such instruction", _opcode(12, "f32", "f16", "f16"), good, ()),
            ("no such instruction", _opcode(40, "s32", "s8", "s8"), good, ()),
            ("no such instruction", _opcode(8, "f16", "bf16", "bf16"), good, ())):
        with pytest.raises(RuntimeError, match=words):
            run(opcode, a, good, *rest)


# --- mbarriers -------------------------------------------------------------------------------------------------------


class Barrier:
    """One mbarrier; each method is an instruction."""

    def __init__(self, tensor: Library, count: int | None = None) -> None:
        self._tensor, self.word = tensor, np.zeros(1, np.uint64)
        if count is not None:
            self("init", count)

    def __call__(self, what: str, number: int = 1, state: int = 0) -> int:
        result = np.zeros(1, np.uint64)
        self._tensor("mbarrier", what, self.word, number, state, result)
        return int(result[0])

    @property
    def parity(self) -> int:
        """That of the phase that is going on."""
        return self("test_parity", 0)


def test_a_phase_ends_with_its_last_arrival(tensor: Library) -> None:
    barrier = Barrier(tensor, 3)
    states = [barrier("arrive")]
    assert barrier.parity == 0 and not barrier("test", state=states[0])
    states.append(barrier("arrive", 2))
    assert barrier.parity == 1 and all(barrier("test", state=state) for state in states)
    assert barrier("test_parity", 0) == 1 and barrier("test_parity", 1) == 0
    assert [barrier("pending_count", state=state) for state in states] == [3, 2]
    barrier("arrive", 3)
    assert barrier.parity == 0 and barrier("test_parity", 1) == 1


def test_bytes_keep_a_phase_open(tensor: Library) -> None:
    barrier = Barrier(tensor, 2)
    barrier("arrive.expect_tx", 4096)
    barrier("complete_tx", 4096)
    assert barrier.parity == 0
    barrier("expect_tx", 64)
    barrier("arrive")
    assert barrier.parity == 0
    barrier("complete_tx", 16)
    assert barrier.parity == 0
    barrier("complete_tx", 48)
    assert barrier.parity == 1


def test_bytes_may_come_before_they_are_expected(tensor: Library) -> None:
    barrier = Barrier(tensor, 1)
    barrier("complete_tx", 128)
    assert barrier.parity == 0
    barrier("arrive.expect_tx", 128)
    assert barrier.parity == 1
    barrier("complete_tx", (1 << 20) - 1)
    barrier("arrive")
    assert barrier.parity == 1
    barrier("expect_tx", (1 << 20) - 1)
    assert barrier.parity == 0


def test_drops_and_copies_change_what_is_expected(tensor: Library) -> None:
    barrier = Barrier(tensor, 3)
    barrier("arrive_drop", 2)
    barrier("arrive")
    assert barrier.parity == 1
    barrier("cp_async_begin")
    barrier("arrive")
    assert barrier.parity == 1
    barrier("arrive")
    assert barrier.parity == 0


def test_many_barriers_agree_with_a_count_of_what_is_left(tensor: Library) -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        expected = int(rng.integers(1, 6))
        barrier, left, debt, phase = Barrier(tensor, expected), expected, 0, 0
        for _ in range(60):
            what = rng.choice(["arrive", "arrive.expect_tx", "expect_tx", "complete_tx"])
            number = int(rng.integers(1, max(left, 1) + 1)) if what == "arrive" else 16 * int(rng.integers(1, 4))
            if left == 0:
                what, number = ("complete_tx", debt) if debt > 0 else ("expect_tx", -debt)
            barrier(what, number)
            left -= number if what == "arrive" else what == "arrive.expect_tx"
            debt += {"arrive": 0, "complete_tx": -number}.get(what, number)
            if left == 0 and debt == 0:
                left, phase = expected, 1 - phase
            assert barrier.parity == phase


def test_wrong_use_of_a_barrier_is_refused(tensor: Library) -> None:
    cases: list[tuple[str, int | None, list[tuple[str, int]]]] = [
        ("no mbarrier", None, [("arrive", 1)]), ("no mbarrier", None, [("test_parity", 0)]),
        ("no mbarrier", None, [("complete_tx", 16)]), ("no mbarrier", 1, [("inval", 0), ("expect_tx", 16)]),
        ("not invalidated", 1, [("init", 1)]), ("count 0", None, [("init", 0)]), ("count", None, [("init", 1 << 20)]),
        ("3 arrivals where 2 are pending", 2, [("arrive", 3)]),
        ("1 arrivals where 0", 1, [("arrive.expect_tx", 16), ("arrive", 1)]),
        ("transaction count of 1048576", 1, [("expect_tx", 1 << 20)]),
        ("transaction count of -1048576", 1, [("complete_tx", 1), ("complete_tx", (1 << 20) - 1)]),
        ("the phase completes", 1, [("arrive.noComplete", 1)]), ("parity 2", 1, [("test_parity", 2)])]
    for words, count, steps in cases:
        barrier = Barrier(tensor, count)
        for what, number in steps[:-1]:
            barrier(what, number)
        with pytest.raises(RuntimeError, match=words):
            barrier(*steps[-1])
    barrier = Barrier(tensor)
    barrier.word[0] = (1 << 64) - 1
    with pytest.raises(RuntimeError, match="no mbarrier"):
        barrier("arrive")
    barrier("init", 1)
    barrier("inval")
    barrier("init", 2)
    barrier("arrive.noComplete")
    assert barrier.parity == 0
