"""Matrices of any strides as K-contiguous copies that TMA can describe: rows begin at multiples of 16 bytes.

In: an array (rows, K) or (rows, K, L) of 1-, 2- or 4-byte elements.  Out: a copy of it, padded behind each row.

    tma_A = mo.make_tma_copy(mo.TmaLoad(), packed(A), sA_layout)       # K = 4097, or A contiguous along M

What is contiguous, along K or along the rows, is read 16 bytes at a time wherever its lines begin: the two parts of
memory that hold 16 misaligned bytes are loaded and shifted into place.  The padding holds anything.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.views import info_of
from moye.kernels.workspace import columns, empty, one_batch, swapped, words

THREADS = 256
PARTS = 4
"""Parts of 16 bytes that a thread copies where K is contiguous."""
_WIDE = (1 << 31) - (1 << 16)
"""Bytes that 32-bit offsets reach, the last block's threads beyond the end included."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on.  ``grain`` divides the distance of every line's start to a multiple of 16 bytes.

    ``wide``: offsets in bytes or counts of parts take 64 bits.  ``turned``: rows are contiguous, and a block's tile has
    ``tiles`` squares of 8 x 8 parts, along the rows and along K.
    """

    grain: int
    batched: bool
    wide: bool
    turned: bool = False
    tiles: tuple[int, int] = (1, 1)

    @property
    def threads(self) -> int:
        return 64 * self.tiles[0] * self.tiles[1] if self.turned else THREADS


@dataclass(frozen=True, slots=True)
class Memory:
    """Lines of contiguous elements: ``parts`` (4, n) are all whole 16 bytes of their memory, in words.

    Line i of batch l begins ``head + i * pitch + l * apart`` bytes behind the first of them.
    """

    parts: Any
    head: Any
    pitch: Any
    apart: Any


@mo.jit
def position(plan, memory, line, batch):
    """The place where a line begins: the part, and the bytes behind its start."""
    if plan.wide:
        line, batch = mo.int64(line), mo.int64(batch)
    place = memory.head + line * memory.pitch
    if plan.batched:
        place = place + batch * memory.apart
    return place >> 4, mo.int32(place & 15)


@mo.jit
def load(plan, memory, part, wanted):
    """16 bytes that begin in a part, as it and the next one, which only misaligned lines need."""
    count = mo.size(memory.parts, 1)
    low = mo.fragment((4,), mo.uint32)
    mo.copyto(low, memory.parts[:, part], pred=wanted & (part >= 0) & (part < count), zero_fill=True)
    if plan.grain == 16:
        return low, None
    high = mo.fragment((4,), mo.uint32)
    mo.copyto(high, memory.parts[:, part + 1], pred=wanted & (part >= -1) & (part + 1 < count), zero_fill=True)
    return low, high


@mo.jit
def reaches(plan, memory, part):
    """Whether whole parts of memory hold 16 bytes that begin in this one; else its elements are copied one by one."""
    return (part >= 0) & (part < mo.size(memory.parts, 1) - (plan.grain < 16))


def shifted(plan: Plan, low: Any, high: Any, shift: Any) -> list[Any]:
    """The four words that begin ``shift`` bytes behind the first of eight."""
    return four_of_eight(plan.grain, low, high, shift)


def four_of_eight(grain: int, low: Any, high: Any, shift: Any) -> list[Any]:
    """The same of a shift that ``grain`` bytes divide, 1 to 8; without ``high`` there is none."""
    if high is None:
        return [low[i] for i in range(4)]
    eight = [half[i] for half in (low, high) for i in range(4)]
    six = [mo.where((shift & 8) != 0, eight[i + 2], eight[i]) for i in range(6)]
    if grain == 8:
        return six[:4]
    five = [mo.where((shift & 4) != 0, six[i + 1], six[i]) for i in range(5)]
    if grain == 4:
        return five[:4]
    bits = (shift & 3) * 8
    return [mo.uint32(((mo.uint64(five[i + 1]) << 32) | mo.uint64(five[i])) >> bits) for i in range(4)]


def transposed(lines: list[list[Any]], width: int) -> list[list[Any]]:
    """The transpose of a square of elements ``width`` bytes wide: lines[i] are the four words of line i."""
    if width == 8:
        (a, b, c, d), (e, f, g, h) = lines
        return [[a, b, e, f], [c, d, g, h]]
    per = 4 // width
    result: list[list[Any]] = [[None] * 4 for _ in lines]
    for x in range(4):
        for y in range(4):
            block = _square([lines[per * x + i][y] for i in range(per)])
            for i in range(per):
                result[per * y + i][x] = block[i]
    return result


def _square(w: list[Any]) -> list[Any]:
    """The transpose of 1x1, 2x2 or 4x4 elements in as many words."""
    if len(w) == 1:
        return w
    if len(w) == 2:
        return [(w[0] & 0xFFFF) | (w[1] << 16), (w[0] >> 16) | (w[1] & 0xFFFF0000)]
    even, odd = 0x00FF00FF, 0xFF00FF00
    pairs = [[(a & even) | ((b << 8) & odd), ((a >> 8) & even) | (b & odd)] for a, b in (w[:2], w[2:])]
    halves = [_square([pairs[0][i], pairs[1][i]]) for i in range(2)]
    return [halves[0][0], halves[1][0], halves[0][1], halves[1][1]]


def in_registers(four: list[Any]) -> Any:
    """Four words as a register tensor."""
    part = mo.fragment((4,), mo.uint32)
    for i in range(4):
        part[i] = four[i]
    return part


def _bits(dtype: Any) -> Any:
    """Elements are copied as the bits that they are."""
    return {1: mo.uint8, 2: mo.uint16, 4: mo.uint32}[dtype.bytes]


@mo.jit
def whole_parts(array):
    """The parts of 16 bytes of a K-contiguous array (rows, K, L): (1, v, 1, row, part, l)."""
    return mo.tile(array, (1, 16 // array.dtype.bytes, 1), (None, None, None))


@mo.kernel
def copy_rows_kernel(X, memory_words, head, pitch, apart, out, K, plan: mo.Constexpr):
    """out (rows, padded K, L) = X (rows, K, L), K contiguous; PARTS parts a thread, neighbours beside each other."""
    mo.griddepcontrol_launch_dependents()
    copy_rows(plan, X, memory_of(memory_words, head, pitch, apart), out, K, mo.block_idx().x)


@mo.kernel
def transpose_kernel(X, memory_words, head, pitch, apart, out, K, plan: mo.Constexpr):
    """out (rows, padded K, L) = X (rows, K, L), rows contiguous; a tile a block, squares of v x v elements a thread."""
    mo.griddepcontrol_launch_dependents()
    transpose(plan, X, memory_of(memory_words, head, pitch, apart), out, K, mo.block_idx().x, room_of(plan, out))


@mo.kernel
def copy_both_kernel(A, words_A, head_A, pitch_A, apart_A, out_A, B, words_B, head_B, pitch_B, apart_B, out_B, K, first,
                     plans: mo.Constexpr):
    """Both operands of a product in one launch: A by the ``first`` blocks, B by those behind."""
    mo.griddepcontrol_launch_dependents()
    plan_A, plan_B = plans
    room = room_of(plan_A if plan_A.turned else plan_B, out_A) if plan_A.turned or plan_B.turned else None
    memory_A, memory_B = memory_of(words_A, head_A, pitch_A, apart_A), memory_of(words_B, head_B, pitch_B, apart_B)
    for out in (out_A, out_B):                          # nothing can be promised under the condition
        mo.assume(mo.size(out, 1) % (16 // out.dtype.bytes) == 0)
    block = mo.block_idx().x
    if block < first:
        copy(plan_A, A, memory_A, out_A, K, block, room)
    else:
        copy(plan_B, B, memory_B, out_B, K, block - first, room)


@mo.jit
def copy(plan, X, memory, out, K, block, room):
    """A block's part of a copy."""
    if plan.turned:
        transpose(plan, X, memory, out, K, block, room)
    else:
        copy_rows(plan, X, memory, out, K, block)


@mo.jit
def room_of(plan, out):
    """Shared memory for a tile of rows that are contiguous."""
    v = 16 // out.dtype.bytes
    return mo.shared_array(_bits(out.dtype), staged(v, 8 * plan.tiles[0], 8 * plan.tiles[1]))


@mo.jit
def memory_of(words, head, pitch, apart):
    """``Memory`` of what the host found."""
    return Memory(mo.tile(mo.recast(words, mo.uint32), (4,), (None,)), head, pitch, apart)


@mo.jit
def copy_rows(plan, X, memory, out, K, block):
    """PARTS parts a thread, neighbours beside each other."""
    bits, v = _bits(out.dtype), 16 // out.dtype.bytes
    gX, gO = mo.recast(X, bits), mo.recast(out, bits)
    gP = whole_parts(gO)                                                # (1, v, 1, rows, parts, L)
    rows, parts, used = mo.size(out, 0), mo.size(gP, 4), mo.ceil_div(K, v)
    lines = rows * mo.size(out, 2)
    if plan.wide:
        lines, block = mo.int64(rows) * mo.size(out, 2), mo.int64(block)
    t = block * (PARTS * THREADS) + mo.thread_idx().x
    line, part = t // parts, mo.int32(t % parts)
    low, high, places = [], [], []
    for u in mo.static_range(PARTS):
        if u > 0:                                       # one division is enough
            part += THREADS % parts
            line += THREADS // parts + mo.where(part >= parts, 1, 0)
            part = mo.where(part >= parts, part - parts, part)
        row, batch = line, 0
        if plan.batched:
            row, batch = line % rows, mo.int32(line // rows)
        row = mo.int32(row)
        first, shift = position(plan, memory, row, batch)
        wanted = (line < lines) & (part < used)
        halves = load(plan, memory, first + part, wanted)
        low.append(halves[0])
        high.append(halves[1])
        places.append((wanted, row, part, batch, first + part, shift))
    for u in mo.static_range(PARTS):
        wanted, row, part, batch, at, shift = places[u]
        if wanted:
            if reaches(plan, memory, at):
                mo.copyto(mo.recast(gP[0, :, 0, row, part, batch], mo.uint32),
                          in_registers(shifted(plan, low[u], high[u], shift)))
            else:
                for k in range(part * v, mo.min(part * v + v, K)):
                    gO[row, k, batch] = gX[row, k, batch]


@mo.jit
def transpose(plan, X, memory, out, K, pid, sX):
    """A tile a block, squares of v x v elements a thread."""
    bits, v = _bits(out.dtype), 16 // out.dtype.bytes
    across, along = 8 * plan.tiles[0], 8 * plan.tiles[1]                # parts of a tile, along the rows and along K
    gX, gO = mo.recast(X, bits), mo.recast(out, bits)
    gP = whole_parts(gO)                                                # (1, v, 1, rows, parts, L)
    rows, tid = mo.size(out, 0), mo.thread_idx().x
    m_tiles, k_tiles = mo.ceil_div(rows, across * v), mo.ceil_div(K, along * v)
    bx, by, batch = pid % m_tiles, pid // m_tiles % k_tiles, 0
    if plan.batched:
        batch = pid // m_tiles // k_tiles
    # sX (across * v, along * v)
    sP = mo.tile(mo.recast(sX, mo.uint32), (1, 4), (None, None))        # (1, 4, row, part)
    mine, k_part = tid % across, tid // across
    row, k0 = (bx * across + mine) * v, (by * along + k_part) * v
    low, high, shifts, fast = [], [], [], True
    for i in mo.static_range(v):
        first, shift = position(plan, memory, k0 + i, batch)
        part = first + (bx * across + mine)
        wanted = (k0 + i < K) & (row < rows)
        halves = load(plan, memory, part, wanted)
        low.append(halves[0])
        high.append(halves[1])
        shifts.append(shift)
        fast = fast & (~wanted | reaches(plan, memory, part))
    if fast:
        square = transposed([shifted(plan, low[i], high[i], shifts[i]) for i in range(v)], out.dtype.bytes)
        for i in mo.static_range(v):
            mo.copyto(sP[0, :, mine * v + i, k_part], in_registers(square[i]))
    else:
        for i in range(v):
            for r in range(v):
                if (k0 + i < K) & (row + r < rows):
                    sX[mine * v + r, k_part * v + i] = gX[row + r, k0 + i, batch]
                else:
                    sX[mine * v + r, k_part * v + i] = 0
    mo.sync_threads()
    part, used, step = tid % along, mo.ceil_div(K, v), plan.threads // along
    for i in mo.static_range(across * v // step):
        r = i * step + tid // along
        if (bx * across * v + r < rows) & (by * along + part < used):
            mo.copyto(mo.recast(gP[0, :, 0, bx * across * v + r, by * along + part, batch], mo.uint32),
                      sP[0, :, r, part])


@mo.kernel
def copy_elements_kernel(X, out, K, plan: mo.Constexpr):
    """out (rows, padded K, L) = X (rows, K, L), one element a thread, K fastest."""
    mo.griddepcontrol_launch_dependents()
    gX, gO = mo.recast(X, _bits(out.dtype)), mo.recast(out, _bits(out.dtype))
    rows, block = mo.size(out, 0), mo.block_idx().x
    total = rows * K * mo.size(out, 2)
    if plan.wide:
        block, total = mo.int64(block), mo.int64(rows) * K * mo.size(out, 2)
    t = block * THREADS + mo.thread_idx().x
    if t < total:
        line = t // K
        k, row, batch = mo.int32(t % K), mo.int32(line % rows), mo.int32(line // rows)
        gO[row, k, batch] = gX[row, k, batch]


# --- host ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy as it is launched: ``result`` is a view of ``room``.  ``place`` is None if elements go one by one, and
    ``blocks`` is 0 if there are none.
    """

    source: Any
    result: Any
    room: Any
    place: tuple[Any, ...] | None
    plan: Plan
    blocks: int


def packed(X: Any) -> Any:
    """A copy of X, (rows, K) or (rows, K, L) of any strides, that is contiguous along K; an array of X's library.

    Its other strides are multiples of 16 bytes, or of 128 if rows have 1024 bytes or more.  What lies between its rows
    is undefined.  ArgumentError unless X is a NumPy, torch or CuPy array of two or three modes with elements of 1, 2 or
    4 bytes and no negative strides.
    """
    return _launched(*_prepared(X))


def packed_whole(X: Any) -> Any:
    """The same with K rounded up to whole 16 bytes; what lies beyond K is undefined."""
    copy, K = _prepared(X)
    _launched(copy, K)
    per = 16 // mo.describe(copy.room).dtype.bytes      # type: ignore[union-attr]      # it is an array
    return columns(copy.room, -(-K // per) * per, batched=len(mo.describe(X).shape) == 3)   # type: ignore[union-attr]


def both_packed(A: Any, B: Any) -> tuple[Any, Any]:
    """``packed`` of both operands of a product, (M, K) and (N, K), by one launch where each has contiguous lines."""
    (a, K), (b, other) = _prepared(A), _prepared(B)
    if a.place is None or b.place is None or a.plan.threads != b.plan.threads:
        return _launched(a, K), _launched(b, other)
    copy_both_kernel[a.blocks + b.blocks, a.plan.threads](a.source, *a.place, a.room, b.source, *b.place, b.room, K,
                                                          a.blocks, (a.plan, b.plan))
    return a.result, b.result


def _launched(copy: _Copy, K: int) -> Any:
    """One copy by itself."""
    if copy.place is None:
        if copy.blocks:
            copy_elements_kernel[copy.blocks, THREADS](copy.source, copy.room, K, copy.plan)
    else:
        kernel = transpose_kernel if copy.plan.turned else copy_rows_kernel
        kernel[copy.blocks, copy.plan.threads](copy.source, *copy.place, copy.room, K, copy.plan)
    return copy.result


def _prepared(X: Any) -> tuple[_Copy, int]:
    """How X is copied, and its K."""
    info = _described(X)
    (rows, K), batches, width = info.shape[:2], math.prod(info.shape[2:]), info.dtype.bytes
    line = 128 if K * width >= 1024 else 16
    pitch = -(-K * width // line) * line // width
    room = swapped(empty(X, info.dtype, (pitch, rows, batches)))        # (rows, padded K, L)
    result = columns(room, K, batched=len(info.shape) == 3)
    if 0 in info.shape:
        return _Copy(X, result, room, None, make_plan(16, True, False), 0), K
    if len(info.shape) == 2:
        X, info = one_batch(X), info._replace(shape=(*info.shape, 1), strides=(*info.strides, 0))
    memory = words(X, info) if 1 in info.strides[:2] else None
    span = sum((n - 1) * step for n, step in zip(info.shape, info.strides, strict=True))
    wide = max(span, rows * pitch * batches) * width >= _WIDE
    if memory is None:
        return _Copy(X, result, room, None, make_plan(16, True, wide), -(-rows * K * batches // THREADS)), K
    parts, head = memory
    along_K = info.strides[1] == 1
    step, apart = (s * width if n > 1 else 0 for n, s in ((info.shape[1 - along_K], info.strides[1 - along_K]),
                                                           (batches, info.strides[2])))
    grain, place = math.gcd(16, head, step, apart), (parts, head, step, apart)
    if along_K:
        total = rows * batches * (pitch * width // 16)
        return _Copy(X, result, room, place, make_plan(grain, batches > 1, wide), -(-total // (THREADS * PARTS))), K
    plan = make_plan(grain, batches > 1, wide, True, (1, 2) if width == 1 else (2, 2))
    across, along = (128 // width * n for n in plan.tiles)
    return _Copy(X, result, room, place, plan, -(-rows // across) * -(-K // along) * batches), K


def _described(X: Any) -> Any:
    """X as moye describes it, or ArgumentError."""
    info = info_of("packed", "X", X)
    if info is None or info.kind not in ("numpy", "torch", "cupy", "spec"):
        raise mo.ArgumentError(f"packed: X is a {type(X).__name__}: it copies torch, CuPy and NumPy arrays")
    if len(info.shape) not in (2, 3):
        raise mo.ArgumentError(f"packed: X must be a matrix or a batch of them, not {tuple(info.shape)}")
    if info.dtype.bytes > 4:
        raise mo.ArgumentError(f"packed: X holds {info.dtype}, of {info.dtype.bytes} bytes; it may have 1, 2 or 4")
    if any(step < 0 for step in info.strides):
        raise mo.ArgumentError(f"packed: X has a negative stride {min(info.strides)}", hint="pass a copy")
    return info


@functools.lru_cache(maxsize=256)
def make_plan(grain: int, batched: bool, wide: bool, turned: bool = False, tiles: tuple[int, int] = (1, 1)) -> Plan:
    """The plan of one kind of copy; the same object for the same kind."""
    return Plan(grain, batched, wide, turned, tiles)


def staged(v: int, across: int, along: int) -> mo.ComposedLayout:
    """A tile of (across * v, along * v) elements: rows of ``along`` parts of 16 bytes, of which eight neighbours of a
    row, and those of eight rows v apart, lie in different banks."""
    bits = v.bit_length() - 1
    swizzle = mo.Swizzle(3, bits, along.bit_length() - 1 + bits)
    return mo.ComposedLayout(swizzle, 0, mo.make_layout((across * v, along * v), (along * v, 1)))
