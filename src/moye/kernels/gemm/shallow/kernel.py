"""Products of few k on tensor cores, whose lines begin anywhere: a block has all k of its tile at once.

In: A (M, K) and B (N, K) of 16 bits, K up to 128.  Out: C (M, N), written in place.

    gemm_shallow(A, B, C)                                   # C = A @ B.T

There is little to multiply: such a product takes what its operands take to arrive and C to leave.  So there is one copy
of the whole 16 bytes of memory that hold a tile's lines, as they lie, one barrier, and the products.  Lines at
multiples of 16 bytes are read by ldmatrix, others element by element: nothing is shifted into place first.  A tile of C
waits in shared memory as far behind 16 bytes as it lies in C, and leaves 16 bytes at a time: of whole rows as one
piece.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import matrices, same_problem
from moye.kernels.gemm.shallow.config import (
    EACH,
    MOST,
    REACH,
    STEP,
    ShallowConfig,
    Size,
    choose,
    depth_of,
    flat,
    least_k,
)
from moye.kernels.gemm.sm80.config import instruction
from moye.kernels.gemm.sm80.plan import stored
from moye.kernels.options import shown
from moye.kernels.pack import Memory
from moye.kernels.workspace import MAKES_ARRAYS, swapped, words

_FAR = 1 << 30                          # elements that 32 bits count, and their bytes


@dataclass(frozen=True, slots=True)
class Way:
    """How an operand lies: contiguous along its rows (``turned``) or along K; ``grain`` divides the bytes from a
    multiple of 16 to the begin of each line.
    """

    turned: bool
    grain: int


@dataclass(frozen=True, slots=True)
class ShallowPlan:
    """What a launch is specialised on.

    ``depth``: k of a tile, of which all from ``whole`` on may lie beyond K.  ``flat``: a tile has whole rows of C, which
    lie side by side; else rows that begin ``C`` elements, or multiples of them, behind a multiple of 16 bytes.
    """

    config: ShallowConfig
    depth: int
    whole: int
    ways: tuple[Way, Way]
    flat: bool
    C: int
    mma: mo.TiledMMA
    read: tuple[Any, Any]               # shared memory to registers by ldmatrix


@dataclass(frozen=True, slots=True)
class Side:
    """An operand as a block sees it: lines in shared memory, as they lie in memory.

    ``raw`` (4, parts, lines) are words.  The tile has ``rows`` from ``first`` on.
    """

    source: Any
    memory: Memory
    raw: Any
    first: Any
    rows: int


@mo.kernel
def gemm_shallow_kernel(A, B, C, memory_A, memory_B, plan: mo.Constexpr):
    """A tile of C (M, N) = A (M, K) @ B (N, K).T a block.

    ``memory_A`` and ``memory_B``: the whole 16 bytes of A and B, and how many bytes behind the first they begin.
    """
    mo.min_blocks(plan.config.resident)
    config, n, m = plan.config, mo.block_idx().x * plan.config.bN, mo.block_idx().y * plan.config.bM
    a = side_of(plan, plan.ways[0], A, memory_A, config.bM, m)
    b = side_of(plan, plan.ways[1], B, memory_B, config.bN, n)
    fetch(plan, plan.ways[0], a)
    fetch(plan, plan.ways[1], b)
    mo.cp_async_commit()
    mo.cp_async_wait()
    mo.sync_threads()
    inside = mo.min(config.bM, mo.size(A, 0) - m), mo.min(config.bN, mo.size(B, 0) - n)
    sC = mo.shared_array(C.dtype, (config.staged(C.dtype.bytes),), align=16)
    place = mo.warp_idx() % config.wM * config.rows, mo.warp_idx() // config.wM * config.columns
    if (place[0] < inside[0]) & (place[1] < inside[1]):
        stage(plan, C, sC, place, inside, products(plan, (a, b), place))
    mo.sync_threads()
    if plan.flat:
        leave_together(plan, C, sC, m, inside[0])
    else:
        leave_by_rows(plan, C, sC, (m, n), inside)


@mo.jit
def side_of(plan, way, X, memory, rows, first):
    """An operand's lines in shared memory, which are not there yet."""
    lines, along = (plan.depth, rows) if way.turned else (rows, plan.depth)
    raw = mo.shared_array(mo.uint32, mo.make_layout((4, along // EACH + 1, lines)), align=16)
    pitch = mo.stride(X)[1 if way.turned else 0]
    parts = mo.tile(mo.recast(memory[0], mo.uint32), (4,), (None,))     # (4, parts of memory)
    return Side(X, Memory(parts, memory[1] // X.dtype.bytes, pitch, 0), raw, first, rows)


@mo.jit
def begin_of(side, line):
    """Elements between the first whole 16 bytes of memory and the begin of a line."""
    return side.memory.head + line * side.memory.pitch


@mo.jit
def fetch(plan, way, side):
    """The whole 16 bytes that hold a tile's lines; zeros where they have none of the operand's elements."""
    threads, parts, lines = plan.config.threads, mo.size(side.raw, 1) - 1, mo.size(side.raw, 2)
    across = 1 << (parts - 1).bit_length()              # threads side by side
    line, q, step = mo.thread_idx().x // across, mo.thread_idx().x % across, threads // across
    for i in mo.static_range(-(-lines // step)):
        if (parts == across or q < parts) & (lines % step == 0 or line + i * step < lines):
            fetch_part(way, side, line + i * step, q)
    if way.grain < 16:                                  # shifted lines have one part more
        for i in mo.static_range(-(-lines // threads)):
            last = mo.thread_idx().x + i * threads
            if lines % threads == 0 or last < lines:
                fetch_part(way, side, last, parts)
        first, past = (0, mo.size(side.source, 1)) if way.turned else \
            (side.first, mo.min(side.first + side.rows, mo.size(side.source, 0)))
        beyond = begin_of(side, past - 1) + along_of(way, side) > mo.size(side.memory.parts, 1) * EACH
        if (begin_of(side, first) < 0) | beyond:
            fetch_ends(plan, way, side)


@mo.jit
def along_of(way, side):
    """Elements of a line."""
    return mo.size(side.source, 0 if way.turned else 1)


@mo.jit
def place_of(way, side, line, q):
    """Of a part of a line of the tile: the line's number, whether there is one that has elements in the part, where the
    part lies in memory, and the coordinate along the line at which it begins."""
    number, along = (line, side.first) if way.turned else (side.first + line, 0)
    begin = begin_of(side, number)
    before = along + q * EACH - begin % EACH
    exists = number < mo.size(side.source, 1 if way.turned else 0)
    return number, exists & (before < along_of(way, side)), (begin + along) // EACH + q, before


@mo.jit
def fetch_part(way, side, line, q):
    """A part of a line, if memory has all of its 16 bytes."""
    _, wanted, part, _ = place_of(way, side, line, q)
    if way.grain == 16 or ~wanted | ((part >= 0) & (part < mo.size(side.memory.parts, 1))):
        mo.copyto(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.uint32), side.raw[:, q, line],
                  side.memory.parts[:, part], pred=wanted, zero_fill=True)


@mo.jit
def fetch_ends(plan, way, side):
    """The first and the last elements of all memory, which no whole 16 bytes hold: one by one."""
    parts = mo.size(side.raw, 1)
    for t in mo.range(mo.thread_idx().x, parts * mo.size(side.raw, 2), plan.config.threads, unroll=1):
        line, q = t // parts, t % parts
        number, wanted, part, before = place_of(way, side, line, q)
        if wanted & ((part < 0) | (part >= mo.size(side.memory.parts, 1))):
            elements = mo.fragment((EACH,), side.source.dtype)          # all on their way at once
            for e in mo.static_range(EACH):
                at = before + e
                there = (at >= 0) & (at < along_of(way, side))
                elements[e] = side.source[(at, number) if way.turned else (number, at)] if there else 0
            mo.copyto(side.raw[:, q, line], mo.recast(elements, mo.uint32))


@mo.jit
def products(plan, sides, place):
    """The sums of a warp's part of the tile: (MMA, MMA_M, MMA_N)."""
    acc = plan.mma.partition_fragment_C((plan.config.rows, plan.config.columns))
    acc.fill(0)
    whole = plan.whole // STEP
    for block in mo.range(whole, unroll=1):             # code is there once: it is cold
        multiply(plan, sides, place, block, acc, False)
    for block in mo.static_range(whole, plan.depth // STEP):
        multiply(plan, sides, place, block, acc, True)
    return acc


@mo.jit
def multiply(plan, sides, place, block, acc, cut):
    """acc += 16 k of a warp's rows of A and of B; ``cut``: some may lie beyond K."""
    A, B = (operand(plan, sides, which, place[which], block, cut) for which in range(2))
    mo.gemm(plan.mma, A, B, acc)


@mo.jit
def operand(plan, sides, which, row, block, cut):
    """16 k of a warp's rows of an operand, in registers: (MMA, MMA_M)."""
    way, side, rows = plan.ways[which], sides[which], (plan.config.rows, plan.config.columns)[which]
    thr_mma = plan.mma.get_slice(mo.lane_idx())
    tile = mo.tile(in_place(way, side), (rows, STEP), (row // rows, block))
    found = thr_mma.partition_fragment_B(tile) if which else thr_mma.partition_fragment_A(tile)     # (MMA, MMA_M, 1)
    if way.grain == 16:
        thr_read = plan.read[which].get_slice(mo.lane_idx())
        mo.copyto(plan.read[which], thr_read.retile_D(found), thr_read.partition_S(tile))
    else:
        places = mo.identity_tensor((rows, STEP))
        places = thr_mma.partition_B(places) if which else thr_mma.partition_A(places)
        gather(way, side, found[:, :, 0], places[:, :, 0], row, block * STEP, cut)
    return found[:, :, 0]


@mo.jit
def in_place(way, side):
    """Lines as the operand's tile (rows, depth), if they are not shifted."""
    parts, lines = mo.size(side.raw, 1), mo.size(side.raw, 2)
    along = (parts - 1) * EACH
    layout = mo.make_layout((along, lines) if way.turned else (lines, along),
                            (1, parts * EACH) if way.turned else (parts * EACH, 1))
    return mo.recast(side.raw, side.source.dtype).with_layout(layout)


@mo.jit
def gather(way, side, found, places, row, k, cut):
    """Elements of lines that begin anywhere, one by one, or by pairs along K; zeros for what is beyond K.

    A thread's lines are multiples of eight apart, or one beside them: they begin equally far behind 16 bytes.
    """
    pitch, K = mo.size(side.raw, 1) * EACH, mo.size(side.source, 1)
    words = side.raw.with_layout(mo.make_layout(mo.size(side.raw)))
    elements = mo.recast(words, side.source.dtype)
    cut, pairs = cut and not way.turned, not way.turned and way.grain > 2
    for v in mo.static_range(0, mo.size(found, 0), 2 if pairs else 1):
        at = k + places[v, 0][1]
        lead = begin_of(side, places[v % 2, 0][1] if way.turned else mo.lane_idx() // 4) % EACH
        for i in mo.static_range(mo.size(found, 1)):
            line, along = (at, row + places[v, i][0]) if way.turned else (row + places[v, i][0], at)
            if pairs:
                pair = words[line * (pitch // 2) + along // 2 + lead // 2]
                mo.recast(found, mo.uint32)[v // 2, i] = pair & kept(at, K) if cut else pair
            else:
                x = elements[line * pitch + along + lead]
                found[v, i] = mo.where(at < K, x, side.source.dtype(0)) if cut else x


@mo.jit
def kept(k, K):
    """The bits that stay of two elements from ``k`` on."""
    return mo.where(k + 1 < K, mo.uint32(0xFFFFFFFF), mo.where(k < K, mo.uint32(0xFFFF), mo.uint32(0)))


@mo.jit
def stage(plan, C, sC, place, inside, acc):
    """A warp's sums, rounded, to shared memory, as far behind 16 bytes as they lie in C.

    Tiles begin at multiples of 16 rows and columns, and so the rows of a thread all lie equally far behind.
    """
    shape, pairs = (plan.config.rows, plan.config.columns), C.dtype.bytes == 2 and plan.C % 2 == 0
    rounded = mo.make_fragment_like(acc, C.dtype)
    mo.copyto(rounded, acc)
    places = plan.mma.get_slice(mo.lane_idx()).partition_C(mo.identity_tensor(shape))               # as acc
    pitch, lead = pitch_of(plan, C), 0 if plan.flat else lead_of(plan, C, mo.lane_idx() // 4)
    for i in mo.static_range(mo.size(acc, 1)):
        for j in mo.static_range(mo.size(acc, 2)):
            for v in mo.static_range(0, mo.size(acc, 0), 2 if pairs else 1):
                row, column = place[0] + places[v, i, j][0], place[1] + places[v, i, j][1]
                if not plan.flat or (row < inside[0]) & (column < inside[1]):
                    if pairs:
                        at = row * (pitch // 2) + column // 2 + lead // 2
                        mo.recast(sC, mo.uint32)[at] = mo.recast(rounded, mo.uint32)[v // 2, i, j]
                    else:
                        sC[row * pitch + column + lead] = rounded[v, i, j]


@mo.jit
def lead_of(plan, C, row):
    """Elements from a multiple of 16 bytes to what a tile has of one of its rows."""
    width = 16 // C.dtype.bytes
    return 0 if plan.C == width else row * mo.stride(C)[0] % width


@mo.jit
def pitch_of(plan, C):
    """Elements from row to row of a tile in shared memory."""
    return mo.stride(C)[0] if plan.flat else plan.config.bN + 16 // C.dtype.bytes


@mo.jit
def memory_of(C):
    """C as parts of 16 bytes: (elements, parts)."""
    width = 16 // C.dtype.bytes
    return C.with_layout(mo.make_layout((width, REACH), (1, width)))


@mo.jit
def leave_together(plan, C, sC, m, rows):
    """A tile of whole rows to C, as one piece."""
    width, N, tid = 16 // C.dtype.bytes, mo.size(C, 1), mo.thread_idx().x
    length, begin, memory = rows * N, m * N // width, memory_of(C)
    for t in mo.range(tid, length // width, plan.config.threads, unroll=4):
        mo.copyto(memory[None, begin + t], mo.tile(sC, (width,), (t,)))
    if tid < length % width:
        memory[tid, begin + length // width] = sC[length // width * width + tid]


@mo.jit
def leave_by_rows(plan, C, sC, begin, inside):
    """A tile to C: the whole 16 bytes of each row, and single elements where it begins and ends."""
    width, tid, memory, pitch = 16 // C.dtype.bytes, mo.thread_idx().x, memory_of(C), pitch_of(plan, C)
    parts = plan.config.bN // width
    row, q, step = tid // parts, tid % parts, plan.config.threads // parts              # a multiple of ``width``
    lead = lead_of(plan, C, row)
    front = (width - lead) % width                      # elements before the first whole part
    part, further = ((begin[0] + row) * mo.stride(C)[0] + begin[1] + front) // width + q, step * mo.stride(C)[0] // width
    if front + q * width + width <= inside[1]:
        for i in mo.static_range(-(-plan.config.bM // step)):
            if (plan.config.bM % step == 0 or row + i * step < plan.config.bM) & (row + i * step < inside[0]):
                staged = mo.tile(sC, (width,), ((row + i * step) * (pitch // width) + (lead + width - 1) // width + q,))
                mo.copyto(memory[None, part + i * further], staged)
    if plan.C < width or inside[1] % width != 0:
        leave_ends(plan, C, sC, begin, inside)


@mo.jit
def leave_ends(plan, C, sC, begin, inside):
    """The elements of each row in front of its whole 16 bytes and behind them, one a thread."""
    width, pitch = 16 // C.dtype.bytes, pitch_of(plan, C)
    row, e, step = mo.thread_idx().x // (2 * width), mo.thread_idx().x % (2 * width), plan.config.threads // (2 * width)
    lead = lead_of(plan, C, row)
    front = mo.min((width - lead) % width, inside[1])
    at = mo.where(e < width, e, front + (inside[1] - front) // width * width + e - width)
    if at < mo.where(e < width, front, inside[1]):
        for i in mo.static_range(-(-plan.config.bM // step)):
            if row + i * step < inside[0]:
                C[begin[0] + row + i * step, begin[1] + at] = sC[(row + i * step) * pitch + lead + at]


# --- host ------------------------------------------------------------------------------------------------------------


def suits(a: Any, b: Any, c: Any) -> bool:
    """Whether ``gemm_shallow`` can multiply these: matrices of 16 bits with few k, contiguous along K or along rows."""
    if len(c.shape) != 2 or a.dtype != b.dtype or a.dtype not in (mo.float16, mo.bfloat16) or 0 in c.shape \
            or not 0 < a.shape[1] <= MOST or c.dtype not in (mo.float32, mo.float16, mo.bfloat16):
        return False
    if 1 not in c.strides or stored(c if c.strides[1] == 1 else c._replace(shape=c.shape[::-1],
                                                                           strides=c.strides[::-1])) == "element":
        return False
    return all(1 in x.strides and min(x.strides) >= 0 and x.kind in MAKES_ARRAYS and _span(x) * 2 < _FAR
               for x in (a, b)) and _span(c) < _FAR


def _span(x: Any) -> int:
    """Elements from the first to the last."""
    return int(sum((extent - 1) * step for extent, step in zip(x.shape, x.strides, strict=True))) + 1


def size_of(a: Any, b: Any, c: Any) -> Size:
    """What the choice depends on."""
    ways = (way_of(a, a.ptr % 16), way_of(b, b.ptr % 16))
    return Size(a.shape[0], b.shape[0], a.shape[1], *((way.turned, way.grain) for way in ways), c.strides[0],
                c.dtype.bytes)


def way_of(x: Any, head: int) -> Way:
    """How an operand lies that begins ``head`` bytes behind a multiple of 16.

    Lines that end inside of 16 bytes count as shifted, too: what is behind them is not theirs.
    """
    turned = x.strides[1] != 1
    pitch = x.strides[1 if turned else 0] if x.shape[1 if turned else 0] > 1 else 0
    grain = math.gcd(16, head, pitch * x.dtype.bytes)
    return Way(turned, min(grain, 8) if x.shape[0 if turned else 1] % EACH else grain)


def gemm_shallow(A: Any, B: Any, C: Any, *, config: ShallowConfig | None = None) -> Any:
    """C = A @ B.T, in place; returns C.

    A is (M, K), B (N, K) and C (M, N), on one device (sm_80 and later), with K at most 128.  A and B are both float16
    or both bfloat16, each contiguous along K or along its rows, and C of these or float32, contiguous along a mode from
    a multiple of 16 bytes on.  Lines begin anywhere.  ``config`` overrides the choice.  ArgumentError for other
    arguments.
    """
    a, b, c = matrices("gemm_shallow", A, B, C)
    same_problem("gemm_shallow", a, b, c)
    if 0 in c.shape:
        return C
    if not suits(a, b, c):
        raise mo.ArgumentError("")
    out = C
    if c.strides[1] != 1:
        A, B, a, b, out = B, A, b, a, swapped(C)
        c = mo.describe(out)
    memory = words(A, a), words(B, b)
    if None in memory:
        raise mo.ArgumentError("")
    size = size_of(a, b, c)
    config = config or choose(size, mo.multiprocessors(c))
    grid = -(-size.N // config.bN), -(-size.M // config.bM)
    gemm_shallow_kernel.launch(A, B, out, *memory, plan_of(config, size, a.dtype), grid=grid, block=config.threads)
    return C


@functools.lru_cache(maxsize=1024)
def plan_of(config: ShallowConfig, size: Size, dtype: Any) -> ShallowPlan:
    """The plan of a kind of product; the same object for the same kind."""
    return _plan(config, depth_of(size.K), (Way(*size.A), Way(*size.B)), flat(config, size),
                 math.gcd(16 // size.out, size.pitch), dtype)


@functools.lru_cache(maxsize=1024)
def _plan(config: ShallowConfig, depth: int, ways: tuple[Way, Way], flat: bool, C: int, dtype: Any) -> ShallowPlan:
    mma = mo.make_tiled_mma(instruction(dtype), mo.make_layout((1, 1, 1)), (16, 16, 16))
    readers = [mo.CopyAtom(mo.LdMatrix(4, transpose=way.turned), dtype) for way in ways]
    read = mo.make_tiled_copy_A(readers[0], mma), mo.make_tiled_copy_B(readers[1], mma)
    return ShallowPlan(config, depth, least_k(depth), ways, flat, C, mma, read)
