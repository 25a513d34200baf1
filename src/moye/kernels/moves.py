"""Transposes and permutations of arrays of any rank and strides: bits are moved, none is changed.

In: an array.  Out: another one of its dtype, with its axes in another order.

    transpose(out, x)                           # out[j, i] = x[i, j]
    permute(out, x, (0, 2, 1, 3))               # out[b, h, s, d] = x[b, s, h, d]

Axes that memory runs through alike are one (``views.merged``).  If one mode is then contiguous on both sides, it goes
in vectors.  If each side has its own, tiles go through swizzled shared memory, 16 bytes at a time and without a bank
conflict: a thread reads a square of v x v elements as v vectors and transposes it in registers.  Lines that begin
anywhere go 16 bytes at a time, too: vectors count from the multiple of 16 bytes in front of a line, and two of them
make one that lies as the other side has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import as_bits, coordinate, launch
from moye.kernels.options import shown
from moye.kernels.pack import four_of_eight, in_registers, staged, transposed

_FEW, _FEW_ODD = 1 << 16, {1: 1 << 20, 2: 1 << 20, 4: 1 << 18}
"""Elements up to which vectors along out gather those of x sooner than tiles are through; of lines that begin anywhere,
by the bytes of an element."""
_FEW_SHORT = 1 << 20, 1 << 25
"""The same where x's lines are shorter than two vectors; and bytes, where out's lines begin anywhere, too."""
_APART = 8
"""Bytes at whose multiples lines begin that are read and written without a shift."""
_GATHERED = 48, 68
"""Bytes of out's lines, up to which threads gather them element by element; and where x's lines begin anywhere."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """``size``: bytes of an element.  ``tiles``: squares of 8 x 8 vectors of a block's tile along x's contiguous mode
    and along out's.  ``unit``: elements that a thread stores at once.

    ``whole``: whether vectors of 16 bytes divide x's contiguous mode, and units out's; else their elements are judged
    one by one.  ``shifted``: whether x's lines begin anywhere, and out's.
    """

    size: int
    tiles: tuple[int, int]
    unit: int
    whole: tuple[bool, bool]
    shifted: tuple[bool, bool] = (False, False)

    def few(self, across: int) -> int:
        """Elements of an array, ``across`` of them in x's contiguous mode, up to which no tiles are worth it.

        Where that mode is short, most of a tile is empty; but those who gather read each line of x for each line of
        out, from L1 or L2 as long as these have it.
        """
        v, odd = 16 // self.size, self.shifted[1] or self.unit == 1
        if across < 2 * v and (odd or across % v):
            return _FEW_SHORT[1] // self.size if odd else _FEW_SHORT[0]
        if across < 4 * v and odd:
            return 2 * _FEW_SHORT[0]
        return _FEW_ODD.get(self.size, _FEW) if odd or self.shifted[0] else _FEW

    @property
    def threads(self) -> int:
        return 64 * self.tiles[0] * self.tiles[1]


def make_plan(size: int, extents: tuple[int, int], widths: tuple[int, int],
              aligned: tuple[bool, bool] = (True, True)) -> TilePlan | None:
    """The rule: tiles of 16 x 16 vectors (8-byte elements: 16 x 16 of 2, 1-byte elements: 8 x 16 of 16).

    A block of 256 threads then has 128 bytes of 16-bit elements on their way in each, and a multiprocessor has room for
    two or more blocks: 64 KB.  It has half of that along a mode that is no longer.  None where x's lines are shorter
    than a vector, or out's are ``_GATHERED``: most of a tile would be empty, and the vectors along out gather x's
    elements one by one from lines that stay in L1.

    ``widths`` elements divide the start of every line of x, and of out.  If these are 4 bytes or less, the lines are
    read or written in vectors that are shifted; of out's that begin at 8 bytes, neighbouring threads store as many
    each: a store writes whole sectors only where its threads lie side by side.  So do those of arrays that are not
    ``aligned``: whose first element lies at no multiple of 16 bytes, from which vectors could count.
    """
    v = 16 // size
    if extents[0] < max(v, 4):
        return None
    shifted = (aligned[0] and widths[0] * size < _APART and size < _APART,
               aligned[1] and widths[1] * size < _APART and size < _APART)
    if extents[1] * size <= _GATHERED[shifted[0]]:
        return None
    unit = v if shifted[1] else widths[1]
    tiles = 1 if size == 1 or extents[0] <= 8 * v else 2, 1 if extents[1] <= 8 * v else 2
    return TilePlan(size, tiles, unit,
                    (extents[0] % v == 0 and not shifted[0], extents[1] % unit == 0 and not shifted[1]), shifted)


@mo.jit
def masked(whole, columns, vector, at, first, extent):
    """Whether a vector, or each of its elements, lies inside; ``first`` is its first coordinate in the mode."""
    if whole:
        return first < extent
    return mo.elem_less(mo.tile(columns, vector, at, ragged=True), mo.shape(columns))


@mo.jit
def read_lines(plan, gX, places, batch):
    """The vectors of a thread's square, v lines of x, as words; ``places`` are those of the vector and of the lines."""
    A, B, *rest = mo.shape(gX)
    v, ones, columns = 16 // gX.dtype.bytes, (1,) * len(rest), mo.identity_tensor(mo.shape(gX))
    a, below = places
    held = []
    for i in mo.static_range(v):
        b = below * v + i
        inside = masked(plan.whole[0], columns, (v, 1, *ones), (a, b, *batch), a * v, A) & (b < B)
        line = mo.fragment((v, 1, *ones), gX.dtype)                     # (v, 1, ...)
        mo.copyto(line, mo.tile(gX, (v, 1, *ones), (a, b, *batch), ragged=True), pred=inside, zero_fill=True)
        held.append(mo.recast(line, mo.uint32))                         # (4, 1, ...)
    return [[line[j] for j in range(4)] for line in held]


@mo.jit
def line_of(tensor, mode, number, batch):
    """Elements of memory before a line, of which ``mode`` counts."""
    first = mo.int64(number) * mo.stride(tensor, mode)
    for k in mo.static_range(len(batch)):
        first += mo.int64(batch[k]) * mo.stride(tensor, 2 + k)
    return first


@mo.jit
def memory_of(tensor):
    """All memory from a tensor's first element to its last, whose vectors begin at multiples of 16 bytes."""
    return tensor.with_layout(mo.make_layout(mo.cosize(tensor.layout)))


@mo.jit
def read_shifted(plan, gX, places, batch):
    """(the same of lines that begin anywhere, each vector of two of memory; whether all lie in x's memory).

    What they have of other lines, nobody stores.
    """
    v, (a, below), held, there, flat = 16 // gX.dtype.bytes, places, [], True, memory_of(gX)
    for i in mo.static_range(v):
        wanted = (a * v < mo.size(gX, 0)) & (below * v + i < mo.size(gX, 1))
        first, words = line_of(gX, 1, below * v + i, batch), []
        vector = first // v + a
        reached = (vector + 2) * v <= mo.size(flat)
        for k in mo.static_range(2):
            part = mo.fragment((v,), gX.dtype)
            mo.copyto(part, mo.tile(flat, (v,), (vector + k,), ragged=True), pred=wanted & reached, zero_fill=True)
            words.append(mo.recast(part, mo.uint32))
        held.append((*words, mo.int32(first % v) * gX.dtype.bytes))
        there = there & (reached | ~wanted)
    mo.pin(*[part for *parts, _ in held for part in parts])             # all are on their way together
    return [four_of_eight(gX.dtype.bytes, *each) for each in held], there


@mo.jit
def stage(plan, gX, sX, places, batch):
    """A thread's square to the tile (across * v, along * v)."""
    v, (mine, other), there = 16 // gX.dtype.bytes, places[2:], True
    if plan.shifted[0]:
        lines, there = read_shifted(plan, gX, places[:2], batch)
    else:
        lines = read_lines(plan, gX, places[:2], batch)
    if there:
        sV = mo.tile(mo.recast(sX, mo.uint32), (1, 4), (None, None))    # (1, 4, a, vector along B)
        square = transposed(lines, gX.dtype.bytes)
        for i in mo.static_range(v):
            mo.copyto(sV[0, :, mine * v + i, other], in_registers(square[i]))
    else:
        for k in mo.range(v * v, unroll=1):                             # the last lines of x
            a, b, element = places[0] * v + k % v, places[1] * v + k // v, gX.dtype(0)
            if (a < mo.size(gX, 0)) & (b < mo.size(gX, 1)):
                element = gX[a, b, *batch]
            sX[mine * v + k % v, other * v + k // v] = element


@mo.jit
def write_units(plan, gO, sX, corner, batch):
    """The tile to lines of out, ``plan.unit`` elements a thread, neighbours beside each other."""
    A, B, *rest = mo.shape(gO)
    u, ones, columns, tid = plan.unit, (1,) * len(rest), mo.identity_tensor(mo.shape(gO)), mo.thread_idx().x
    units = mo.size(sX, 1) // u                                         # of a row of the tile
    rounds = mo.size(sX, 0) * units // plan.threads
    for i in mo.range(rounds, unroll=mo.min(16, rounds)):
        row, unit = (i * plan.threads + tid) // units, (i * plan.threads + tid) % units
        a, b = corner[0] + row, corner[1] // u + unit
        inside = masked(plan.whole[1], columns, (1, u, *ones), (a, b, *batch), b * u, B) & (a < A)
        held = mo.fragment((1, u, *ones), gO.dtype)                     # (1, u, ...)
        mo.copyto(held[(0, None, *[0] * len(rest))], mo.tile(sX, (1, u), (row, unit))[0, :])
        mo.copyto(mo.tile(gO, (1, u, *ones), (a, b, *batch), ragged=True), held, pred=inside)


@mo.jit
def write_shifted(plan, gO, sX, corner, batch):
    """The same to lines that begin anywhere: what lies there between multiples of 16 bytes goes as one vector, of two
    of the tile; the elements in front of the first of these, and behind the last, which share a vector with those of
    other tiles, one by one.
    """
    A, flat = mo.size(gO, 0), memory_of(gO)
    v, tid, columns = 16 // gO.dtype.bytes, mo.thread_idx().x, mo.min(mo.size(gO, 1) - corner[1], mo.size(sX, 1))
    units, sV = mo.size(sX, 1) // v, mo.tile(mo.recast(sX, mo.uint32), (1, 4), (None, None))        # (1, 4, row, unit)
    rounds = mo.size(sX, 0) * units // plan.threads
    for i in mo.range(rounds, unroll=mo.min(8, rounds)):
        row, unit = (i * plan.threads + tid) // units, (i * plan.threads + tid) % units
        line = line_of(gO, 0, corner[0] + row, batch)
        lead = mo.int32(line % v)
        low, high = mo.fragment((4,), mo.uint32), mo.fragment((4,), mo.uint32)
        mo.copyto(low, sV[0, :, row, mo.max(unit - mo.where(lead > 0, 1, 0), 0)])
        mo.copyto(high, sV[0, :, row, unit])
        words = in_registers(four_of_eight(gO.dtype.bytes, low, high, (v - lead) % v * gO.dtype.bytes))
        first = unit * v - lead
        mo.copyto(mo.tile(flat, (v,), (line // v + corner[1] // v + unit,), ragged=True), mo.recast(words, gO.dtype),
                  pred=(corner[0] + row < A) & (first >= 0) & (first + v <= columns))
    each = mo.where(columns == mo.size(sX, 1), v, 2 * v)                # places of a row
    for i in mo.range(tid, mo.size(sX, 0) * each, plan.threads, unroll=1):
        row, place = i // each, i % each
        lead = mo.int32(line_of(gO, 0, corner[0] + row, batch) % v)
        head = mo.min((v - lead) % v, columns)
        column = mo.where(place < head, place, columns - (columns - head) % v + place - head)
        if (column < columns) & (corner[0] + row < A):
            gO[corner[0] + row, corner[1] + column, *batch] = sX[row, column]


@mo.kernel
def tile_kernel(out, x, plan: mo.Constexpr):
    """out = x, both (A, B, ...) with x contiguous along A and out along B; a tile a block, a square a thread."""
    gX, gO, v = as_bits(x), as_bits(out), 16 // x.dtype.bytes
    across, along = 8 * plan.tiles[0], 8 * plan.tiles[1]                # vectors of a tile along A and along B
    A, B, *rest = mo.shape(x)
    tiles = mo.ceil_div(A, across * v), mo.ceil_div(B, along * v)
    if plan.shifted[1]:                                 # neighbours write what is left of each other's lines
        bB, bA, *batch = coordinate(mo.block_idx().x, (*tiles[::-1], *rest))
    else:
        bA, bB, *batch = coordinate(mo.block_idx().x, (*tiles, *rest))
    sX = mo.shared_array(gX.dtype, staged(v, across, along))            # (across * v, along * v)
    mine, other = mo.thread_idx().x % across, mo.thread_idx().x // across
    stage(plan, gX, sX, (bA * across + mine, bB * along + other, mine, other), batch)
    mo.sync_threads()
    put = write_shifted if plan.shifted[1] else write_units
    put(plan, gO, sX, (bA * across * v, bB * along * v), batch)


# --- host ------------------------------------------------------------------------------------------------------------


def permute(out: Any, x: Any, axes: Sequence[int] | None = None) -> None:
    """out = x with its axes in the order ``axes`` (reversed without it): axis i of out is axis axes[i] of x.

    Elements of 1, 2, 4 or 8 bytes, of any dtype, any strides; x may repeat elements (stride 0).  ``out`` must not share
    memory with x.  ArgumentError if dtypes, shapes or devices do not match.
    """
    if isinstance(axes, int):
        raise mo.ArgumentError(f"permute: axes={shown(axes)} is no list of axes")
    _permute("permute", out, x, axes is None, *(() if axes is None else views.axes_given("permute", axes)))


def transpose(out: Any, x: Any, first: int = -2, second: int = -1) -> None:
    """out = x with two axes exchanged, the last two of them if none is named; else as ``permute``."""
    rank = len(views.described("transpose", "x", x, None).shape)
    axes = list(range(rank))
    i, j = (views.axis_of("transpose", axis, rank) for axis in (first, second))
    axes[i], axes[j] = axes[j], axes[i]
    _permute("transpose", out, x, False, *axes)


@mo.replayed
def _permute(who: str, out: Any, x: Any, reverse: bool, *axes: int) -> None:
    a, b = views.described(who, "x", x, None), views.described(who, "out", out, None)
    rank = len(a.shape)
    order = [views.axis_of(who, axis, rank) for axis in (reversed(range(rank)) if reverse else axes)]
    if sorted(order) != list(range(rank)):
        raise mo.ArgumentError(f"{who}: axes {tuple(order)} are no order of the {rank} axes of x")
    shape = tuple(a.shape[axis] for axis in order)
    if tuple(b.shape) != shape:
        raise mo.ArgumentError(f"{who}: out has shape {tuple(b.shape)}, and x in the order {tuple(order)} has {shape}")
    if a.dtype != b.dtype:
        raise mo.ArgumentError(f"{who}: out holds {b.dtype}, and x holds {a.dtype}")
    if a.dtype.bits not in (8, 16, 32, 64):
        raise mo.ArgumentError(f"{who}: x holds {a.dtype}, of {a.dtype.bits} bits; it may have 8, 16, 32 or 64")
    views.outputs(who, {"out": b}, {"x": a})
    views.together(who, out=b, x=a)
    if 0 not in shape:
        move(out, x, views.modes_of(shape, b.strides, [a.strides[axis] for axis in order]))


def _copy(x: Any) -> tuple[Any]:
    return (x,)


def _width(modes: Sequence[views.Mode], first: views.Mode, which: int, info: Any) -> int:
    """Elements that divide the start of every line of an array along a mode."""
    return views.width_of([views.Mode(m.extent, m.strides[which:which + 1])
                           for m in (first, *(m for m in modes if m is not first))], info)


def move(out: Any, x: Any, modes: Sequence[views.Mode]) -> None:
    """out = x over these modes, whose strides are those of (out, x): bits are moved, and nothing is converted."""
    info: Any = mo.describe(x)
    target: Any = mo.describe(out)
    assert target.dtype == info.dtype, "the bits of one dtype are other numbers of another"
    modes = views.merged(modes)
    along = next((m for m in modes if m.strides[0] == 1), None)
    across = next((m for m in modes if m.strides[1] == 1), None)
    plan = None
    if across and along and across is not along:
        widths = _width(modes, across, 1, info), _width(modes, along, 0, target)
        plan = make_plan(info.dtype.bytes, (across.extent, along.extent), widths,
                         (info.ptr % 16 == 0, target.ptr % 16 == 0))
    if plan is None or across is None or along is None or math.prod(m.extent for m in modes) <= plan.few(across.extent):
        launch((out,), (x,), modes, _copy, exact=True)
        return
    modes = [across, along, *(m for m in modes if m is not across and m is not along)]
    v = 16 // info.dtype.bytes
    tiles = -(-across.extent // (8 * v * plan.tiles[0])) * -(-along.extent // (8 * v * plan.tiles[1]))
    grid = tiles * math.prod(m.extent for m in modes[2:])
    tile_kernel[grid, plan.threads](views.view(out, modes, 0), views.view(x, modes, 1), plan)
