"""Products of few rows with an operand whose rows begin anywhere, which streams from memory through registers.

In: A (M, K) and B (N, K) of 16 bits, of which one has at most 64 rows.  Out: C (M, N), written in place.

    gemm_streamed(A, B, C)                                  # C = A @ B.T

Tensor maps do not describe rows that begin anywhere, and shifting all of them costs more than multiplying them.  But
rows 8 q + c, for one c, begin equally far behind a multiple of 16 bytes: a block takes rows of one such class as they
lie in memory, 16 bytes a thread, and shifts the few rows of the other operand instead, once for all of them.  What a
thread has of a row are eight neighbours along k, where mma.sync expects others: the sum does not care, as long as both
operands have the same order.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import matrices, same_problem
from moye.kernels.gemm.parts.epilogues import Epilogue, reduce_kernel
from moye.kernels.gemm.sm80.config import instruction
from moye.kernels.gemm.streamed.config import (
    CLASSES,
    MOST,
    MOST_TURNED,
    RESIDENT,
    ROWS,
    STEP,
    VECTOR,
    WARPS,
    Config,
    Size,
    StreamConfig,
    TurnedConfig,
    choose,
)
from moye.kernels.gemm.streamed.turned import TurnedPlan, gemm_turned_kernel
from moye.kernels.options import shown
from moye.kernels.pack import Memory, in_registers, load, position, reaches, shifted
from moye.kernels.pack import Plan as Shift
from moye.kernels.pack import make_plan as shift_of
from moye.kernels.workspace import MAKES_ARRAYS, empty, one_batch, swapped, words

_AT_ONCE = 4                            # steps of which a thread has its 16 bytes of two rows on their way
_WIDE = 1 << 31


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What a launch is specialised on.

    A block has ``along`` warps of 16 rows each, and ``deep`` of them share the k of a row.  ``few`` groups of 8 rows of
    the other operand, of which shared memory has ``steps`` steps of each such warp.  ``splits``: several blocks share
    K, and their sums are added up by another launch.  ``shift``: how the few rows are shifted, 16 bytes at a time; None
    for element by element.  ``wide``: memory that 32 bits do not count.
    """

    along: int
    deep: int
    few: int
    steps: int
    splits: bool
    shift: Shift | None
    wide: bool
    mma: mo.TiledMMA

    @property
    def chunk(self) -> int:
        """Elements along k between two barriers."""
        return STEP * self.steps * self.deep


@mo.kernel
def gemm_streamed_kernel(X, S, C, memory, memory_S, plan: mo.Constexpr):
    """C (R, F) = X (R, K) @ S.T, S (F, K); or the part of a split, then C is (R, F, splits).

    ``memory``: the whole 16 bytes of X, and how many bytes behind the first of them X begins; ``memory_S`` those of S.
    """
    mo.min_blocks(RESIDENT)
    if plan.splits:
        mo.griddepcontrol_launch_dependents()           # what adds the parts waits where blocks are free
    pitch = plan.chunk + STEP                          # 64 bytes more than a multiple of 128: no bank conflicts
    sS = mo.shared_array(S.dtype, mo.make_layout((8 * plan.few, plan.chunk, 2), (pitch, 1, 8 * plan.few * pitch)))
    K, split, splits, block = mo.size(X, 1), mo.block_idx().y, mo.grid_dim().y, mo.block_idx().x
    cls, deep, quad = block % CLASSES, mo.warp_idx() // plan.along, mo.lane_idx() % 4
    q = (block // CLASSES * plan.along + mo.warp_idx() % plan.along) * ROWS + mo.lane_idx() // 4
    rows = [line(plan, X, memory, (q + 8 * half) * CLASSES + cls) for half in range(2)]
    lead = mo.int32(begin_of(plan, X, memory, cls) % 16 // X.dtype.bytes)
    chunks = mo.ceil_div(lead + K, plan.chunk)
    first, last = split * chunks // splits, (split + 1) * chunks // splits
    sums = [mo.fragment((4,), mo.float32) for _ in range(plan.few)]
    for each in sums:
        each.fill(0)
    held = fetch(plan, memory, rows, step_of(first, deep, plan), lead, K, quad)
    clear(plan, sS, mo.size(S, 0))
    fill(plan, S, memory_S, sS[:, :, first % 2], first * plan.chunk - lead, K)
    for chunk in mo.range(first, last):
        mo.sync_threads()                               # the chunk is there, and all have multiplied the one before
        if chunk + 1 < last:
            fill(plan, S, memory_S, sS[:, :, (chunk + 1) % 2], (chunk + 1) * plan.chunk - lead, K)
        for turn in mo.static_range(0, plan.steps, _AT_ONCE):
            later = turn + _AT_ONCE < plan.steps
            step = step_of(chunk, deep, plan) + turn + _AT_ONCE if later else step_of(chunk + 1, deep, plan)
            following = fetch(plan, memory, rows, step, lead, K, quad)
            multiply(plan, held, sS[:, :, chunk % 2], deep * plan.steps + turn, sums, X.dtype)
            for old, new in zip(held, following, strict=True):
                old[...] = new
    if (split == 0) & (deep == 0):
        edges(plan, X, S, rows, lead, K, quad, sums)
    together(plan, sums, deep)
    if deep == 0:
        store(plan, C[:, :, split] if plan.splits else C, rows, quad, sums)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of X: its number, whether it is there, and the part of memory where it begins."""

    number: Any
    there: Any
    part: Any


@mo.jit
def begin_of(plan, X, memory, row):
    """Bytes between the first whole 16 of memory and those where a row begins."""
    row = mo.int64(row) if plan.wide else row
    return memory[1] + row * (mo.stride(X)[0] * X.dtype.bytes)


@mo.jit
def line(plan, X, memory, row):
    """A row of X."""
    return Line(row, row < mo.size(X, 0), begin_of(plan, X, memory, row) >> 4)


@mo.jit
def step_of(chunk, deep, plan):
    """The first step of a warp in a chunk."""
    return (chunk * plan.deep + deep) * plan.steps


@mo.jit
def fetch(plan, memory, rows, step, lead, K, quad):
    """The whole vectors of this thread in some steps of its two rows, and zeros for others: words of 32 bits."""
    parts, found = mo.tile(mo.recast(memory[0], mo.uint32), (4,), (None,)), []          # (4, parts)
    for u in mo.static_range(_AT_ONCE):
        vector = (step + u) * 4 + quad
        whole = (vector * VECTOR >= lead) & ((vector + 1) * VECTOR <= lead + K)
        for row in rows:
            words = mo.fragment((4,), mo.uint32)
            mo.copyto(words, parts[:, row.part + vector], pred=whole & row.there, zero_fill=True)
            found.append(words)
    return found


@mo.jit
def clear(plan, sS, few):
    """Zeros where there are fewer rows than a group has."""
    for at in mo.range(few * 2 * plan.chunk + mo.thread_idx().x, 8 * plan.few * 2 * plan.chunk, WARPS * 32):
        sS[at // (2 * plan.chunk), at % plan.chunk, at // plan.chunk % 2] = 0


@mo.jit
def fill(plan, S, memory, sS, first, K):
    """The few rows' elements of a chunk that begins at k = ``first``, where ``fetch`` has whole vectors; else zeros."""
    few = mo.size(S, 0)
    if plan.shift is None:
        for at in mo.range(mo.thread_idx().x, few * plan.chunk, WARPS * 32, unroll=_AT_ONCE):
            n, k, vector = at % few, first + at // few, first + at // few // VECTOR * VECTOR
            sS[n, at // few] = S[n, k] if (vector >= 0) & (vector + VECTOR <= K) else S.dtype(0)
        return
    each = plan.chunk // VECTOR
    parts = mo.tile(mo.recast(memory[0], mo.uint32), (4,), (None,))     # (4, parts)
    lines = Memory(parts, memory[1], mo.stride(S)[0] * S.dtype.bytes, 0)
    for at in mo.range(mo.thread_idx().x, few * each, WARPS * 32, unroll=2):
        n, k = at // each, first + at % each * VECTOR
        place(plan.shift, S, lines, mo.tile(sS, (1, VECTOR), (n, at % each))[0, None], n, k, K)


@mo.jit
def place(shift, S, lines, to, n, k, K):
    """Eight elements of a row from ``k`` on, or zeros if some are not there: zero times infinity is no number."""
    begin, by = position(shift, lines, n, 0)
    begin, by = begin + (by + k * S.dtype.bytes >> 4), by + k * S.dtype.bytes & 15
    there = (k >= 0) & (k + VECTOR <= K)
    low, high = load(shift, lines, begin, there)
    if ~there | reaches(shift, lines, begin):
        mo.copyto(mo.recast(to, mo.uint32), in_registers(shifted(shift, low, high, by)))
    else:                                               # the first or the last elements of all memory
        for e in mo.static_range(VECTOR):
            to[e] = S[n, k + e]


@mo.jit
def multiply(plan, held, sS, step, sums, dtype):
    """Add the products of some steps, whose elements of the few rows are in shared memory."""
    lane = mo.lane_idx()
    for u in mo.static_range(_AT_ONCE):
        for group in mo.static_range(plan.few):
            few = mo.fragment((VECTOR,), dtype)
            mo.copyto(few, mo.tile(sS, (1, VECTOR), (group * 8 + lane // 4, (step + u) * 4 + lane % 4))[0, None])
            products(plan, held[2 * u], held[2 * u + 1], mo.recast(few, mo.uint32), sums[group], dtype)


@mo.jit
def products(plan, upper, lower, few, total, dtype):
    """total += eight elements of two rows by eight of the few: two instructions, of 16 k each."""
    for s in mo.static_range(2):
        a, b = mo.fragment((4,), mo.uint32), mo.fragment((2,), mo.uint32)
        for h in mo.static_range(2):
            a[2 * h], a[2 * h + 1], b[h] = upper[2 * s + h], lower[2 * s + h], few[2 * s + h]
        mo.gemm(plan.mma, mo.recast(a, dtype).with_layout(mo.make_layout(((2, 2, 2), 1))),
                mo.recast(b, dtype).with_layout(mo.make_layout(((2, 2), 1))),
                total.with_layout(mo.make_layout(((2, 2), 1, 1))))


@mo.jit
def edges(plan, X, S, rows, lead, K, quad, sums):
    """What lies in front of a row's first whole vector and behind the last: of two threads of four, one by one."""
    last = (lead + K) // VECTOR * VECTOR
    first = mo.where(quad == 0, 0, last) - lead         # k of the thread's first element
    wanted = ((quad == 0) & (lead > 0)) | ((quad == 1) & ((last < lead + K) & ((last > 0) | (lead == 0))))
    held = [mo.fragment((VECTOR,), X.dtype) for _ in range(2)]
    for e in mo.static_range(VECTOR):
        k = first + e
        inside = wanted & (k >= 0) & (k < K)
        for row, values in zip(rows, held, strict=True):
            values[e] = X[row.number, k] if inside & row.there else X.dtype(0)
    for group in mo.static_range(plan.few):
        few, n = mo.fragment((VECTOR,), S.dtype), group * 8 + mo.lane_idx() // 4
        for e in mo.static_range(VECTOR):
            k = first + e
            few[e] = S[n, k] if wanted & (k >= 0) & (k < K) & (n < mo.size(S, 0)) else S.dtype(0)
        products(plan, *(mo.recast(x, mo.uint32) for x in (*held, few)), sums[group], X.dtype)


@mo.jit
def together(plan, sums, deep):
    """Add up the sums of the warps that share rows, in their order, for the first of them."""
    if plan.deep == 1:
        return
    room = mo.shared_array(mo.float32, (32, 4 * plan.few, plan.along, plan.deep - 1))
    lane, along = mo.lane_idx(), mo.warp_idx() % plan.along
    if deep > 0:
        for group in mo.static_range(plan.few):
            for i in mo.static_range(4):
                room[lane, 4 * group + i, along, deep - 1] = sums[group][i]
    mo.sync_threads()
    if deep == 0:
        for other in mo.static_range(plan.deep - 1):
            for group in mo.static_range(plan.few):
                for i in mo.static_range(4):
                    sums[group][i] += room[lane, 4 * group + i, along, other]


@mo.jit
def store(plan, C, rows, quad, sums):
    """The sums of a warp's 16 rows."""
    for group in mo.static_range(plan.few):
        for half in mo.static_range(2):
            for e in mo.static_range(2):
                n = group * 8 + 2 * quad + e
                if rows[half].there & (n < mo.size(C, 1)):
                    C[rows[half].number, n] = C.dtype(sums[group][2 * half + e])


# --- host ------------------------------------------------------------------------------------------------------------


def streams(a: Any, b: Any) -> str:
    """The operand that could stream, "A" or "B", whose lines are contiguous while the other has few rows; else "".

    Along K rather than along its rows, of which 8 or more are for a thread.
    """
    for mode, most in ((1, MOST), (0, MOST_TURNED)):
        for side, many, few in (("A", a, b), ("B", b, a)):
            if many.dtype.bits == 16 and len(many.shape) == 2 and few.shape[0] <= min(most, many.shape[0]) \
                    and many.strides[mode] == 1 and many.strides[1 - mode] >= VECTOR and many.shape[mode] >= STEP:
                return side
    return ""


def size_of(many: Any, few: Any) -> Size:
    """What the choice depends on."""
    return Size(many.shape[0], few.shape[0], many.shape[1], many.strides[1] != 1, few.strides[1] != 1)


def gemm_streamed(A: Any, B: Any, C: Any, *, config: Config | None = None) -> Any:
    """C = A @ B.T, in place; returns C.

    A is (M, K), B (N, K) and C (M, N), on one device (sm_80 and later).  A and B are both float16 or both bfloat16, C
    may be float32, too.  One of A and B has at most ``MOST`` rows, of any strides, and the other is contiguous along K;
    or at most ``MOST_TURNED``, and the other is contiguous along its rows.  Its lines begin anywhere.  ``config``
    overrides the choice.  ArgumentError for other arguments.
    """
    a, b, c = matrices("gemm_streamed", A, B, C)
    same_problem("gemm_streamed", a, b, c)
    side = streams(a, b)
    if not side or a.dtype != b.dtype or c.dtype not in (mo.float32, mo.float16, mo.bfloat16):
        raise mo.ArgumentError(f"gemm_streamed: A {tuple(a.shape)} of {a.dtype} and B {tuple(b.shape)} of {b.dtype}: "
                               f"one of them must have at most {MOST} rows, and the other be contiguous along K, of "
                               f"{STEP} elements or more (or at most {MOST_TURNED}, and along its rows)",
                               hint="mo.kernels.gemm takes others")
    if config is not None:
        _check(config)
    if 0 in c.shape:
        return C
    X, S, x, s = (A, B, a, b) if side == "A" else (B, A, b, a)
    size, out, memory = size_of(x, s), C if side == "A" else swapped(C), words(X, x)
    if memory is None:
        raise mo.ArgumentError(f"gemm_streamed: the memory of {side} begins at no multiple of 4 bytes, and is torch's")
    config = config or choose(size, mo.multiprocessors(c))
    if isinstance(config, TurnedConfig) != size.turned:
        raise mo.ArgumentError(f"gemm_streamed: {config} is not for an operand {side} of strides {tuple(x.strides)}")
    if config.splits > 1 and c.kind not in MAKES_ARRAYS:
        config = replace(config, splits=1)
    if config.splits == 1:
        _launch(config, size, (X, x, memory), (S, s), out)
        return C
    sums = empty(C, mo.float32, (size.few, size.rows, config.splits))
    _launch(config, size, (X, x, memory), (S, s), swapped(sums))
    reduce_kernel.launch(one_batch(out), sums, None, None, 1.0, 0.0, config.splits, Epilogue(),
                         grid=(-(-size.rows * size.few // 256), 1), block=256, dependent=True)
    return C


@functools.cache
def _mma(dtype: Any) -> Any:
    return mo.make_tiled_mma(instruction(dtype), mo.make_layout((1, 1)))


def _launch(config: Config, size: Size, many: tuple[Any, Any, Any], few: tuple[Any, Any], out: Any) -> None:
    """The kernel of a configuration."""
    (X, x, memory), (S, s) = many, few
    mma = _mma(x.dtype)
    wide = max(x.shape[0] * x.strides[0], x.shape[1] * x.strides[1]) * x.dtype.bytes >= _WIDE
    where: dict[str, Any] = {"grid": (config.blocks(size), config.splits), "block": WARPS * 32}
    if isinstance(config, TurnedConfig):
        plan = TurnedPlan(config.groups(size.few), config.splits > 1, wide, config.resident(size.few), mma)
        gemm_turned_kernel.launch(X, S, out, memory, plan, **where)
        return
    memory_S, pitch = None if size.single else words(S, s), s.strides[0] * s.dtype.bytes
    shift = None
    if memory_S is not None:                            # as far as rows of either begin behind 16 bytes
        grain = math.gcd(16, memory_S[1], pitch, memory[1], x.strides[0] * x.dtype.bytes)
        shift = shift_of(grain, False, size.few * pitch >= _WIDE)
    streamed = StreamPlan(config.along, config.deep, config.groups(size.few), config.steps(size.few), config.splits > 1,
                          shift, wide, mma)
    gemm_streamed_kernel.launch(X, S, out, memory, memory_S, streamed, **where)


def _check(config: Any) -> None:
    """ArgumentError for a configuration that the kernel cannot have."""
    if not isinstance(config, Config):
        raise mo.ArgumentError(f"gemm_streamed: config={shown(config)} is neither a StreamConfig nor a TurnedConfig")
    if config.splits < 1:
        raise mo.ArgumentError(f"gemm_streamed: splits={config.splits} of {config} is no positive integer")
    if isinstance(config, StreamConfig) and (config.along * config.deep != WARPS or config.along not in (1, 2, 4, 8)):
        raise mo.ArgumentError(f"gemm_streamed: {config} has not along * deep={config.deep} = {WARPS} warps")
