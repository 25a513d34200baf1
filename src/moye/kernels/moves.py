"""Transposes and permutations of arrays of any rank and strides: bits are moved, none is changed.

In: an array.  Out: another one of its dtype, with its axes in another order.

    transpose(out, x)                           # out[j, i] = x[i, j]
    permute(out, x, (0, 2, 1, 3))               # out[b, h, s, d] = x[b, s, h, d]

Axes that memory runs through alike are one (``views.merged``).  If one mode is then contiguous on both sides, it goes
in vectors.  If each side has its own, tiles go through swizzled shared memory, 16 bytes at a time and without a bank
conflict: a thread reads a square of v x v elements as v vectors and transposes it in registers.
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
from moye.kernels.pack import in_registers, staged, transposed

_FEW, _FEW_ODD = 1 << 16, 1 << 20
"""Elements up to which vectors along out gather those of x sooner than tiles are through; of lines that begin anywhere,
of 16 bits (8 bits follow, unmeasured)."""


@dataclass(frozen=True, slots=True)
class TilePlan:
    """``tiles``: squares of 8 x 8 vectors of a block's tile along x's contiguous mode and along out's.

    ``unit``: elements that a thread stores at once.  ``whole``: whether vectors of 16 bytes divide x's contiguous mode,
    and units out's; else their elements are judged one by one.
    """

    tiles: tuple[int, int]
    unit: int
    whole: tuple[bool, bool]

    @property
    def odd(self) -> bool:
        """Whether a thread moves its square element by element, to or from memory."""
        return not self.whole[0] or self.unit == 1

    @property
    def threads(self) -> int:
        return 64 * self.tiles[0] * self.tiles[1]


def make_plan(size: int, extents: tuple[int, int], width: int) -> TilePlan | None:
    """The rule: tiles of 16 x 16 vectors (8-byte elements: 16 x 16 of 2, 1-byte elements: 8 x 16 of 16).

    A block of 256 threads then has 128 bytes of 16-bit elements on their way in each, and a multiprocessor has room for
    two or more blocks: 64 KB.  None where a mode is shorter than two vectors: most of a tile would be empty, and the
    vectors along out gather x's elements one by one from lines that stay in L1.

    ``width`` elements divide the start of every line of out.  If these are less than 16 bytes, neighbouring threads
    store as many each: a store writes whole sectors only where its threads lie side by side.
    """
    v = 16 // size
    if min(extents) < 2 * v:
        return None
    return TilePlan((1, 2) if size == 1 else (2, 2), width, (extents[0] % v == 0, extents[1] % width == 0))


@mo.jit
def masked(whole, columns, vector, at, first, extent):
    """Whether a vector, or each of its elements, lies inside; ``first`` is its first coordinate in the mode."""
    if whole:
        return first < extent
    return mo.elem_less(mo.tile(columns, vector, at, ragged=True), mo.shape(columns))


@mo.kernel
def tile_kernel(out, x, plan: mo.Constexpr):
    """out = x, both (A, B, ...) with x contiguous along A and out along B; a tile a block, a square a thread."""
    gX, gO, v = as_bits(x), as_bits(out), 16 // x.dtype.bytes
    across, along = 8 * plan.tiles[0], 8 * plan.tiles[1]                # vectors of a tile along A and along B
    A, B, *rest = mo.shape(x)
    ones, columns, tid = (1,) * len(rest), mo.identity_tensor(mo.shape(x)), mo.thread_idx().x
    extents = (mo.ceil_div(A, across * v), mo.ceil_div(B, along * v), *rest)
    bA, bB, *batch = coordinate(mo.block_idx().x, extents)
    sX = mo.shared_array(gX.dtype, staged(v, across, along))            # (across * v, along * v)
    sV = mo.tile(mo.recast(sX, mo.uint32), (1, 4), (None, None))        # (1, 4, a, vector along B)
    mine, other, lines = tid % across, tid // across, []
    for i in mo.static_range(v):
        a, b = bA * across + mine, (bB * along + other) * v + i
        inside = masked(plan.whole[0], columns, (v, 1, *ones), (a, b, *batch), a * v, A) & (b < B)
        line = mo.fragment((v, 1, *ones), gX.dtype)                     # (v, 1, ...)
        mo.copyto(line, mo.tile(gX, (v, 1, *ones), (a, b, *batch), ragged=True), pred=inside, zero_fill=True)
        lines.append(mo.recast(line, mo.uint32))                        # (4, 1, ...)
    square = transposed([[line[j] for j in range(4)] for line in lines], x.dtype.bytes)
    for i in mo.static_range(v):
        mo.copyto(sV[0, :, mine * v + i, other], in_registers(square[i]))
    mo.sync_threads()
    u = plan.unit
    units = along * v // u                                              # of a row of the tile
    rounds = across * v * units // plan.threads
    for i in mo.range(rounds, unroll=mo.min(16, rounds)):
        row, unit = (i * plan.threads + tid) // units, (i * plan.threads + tid) % units
        a, b = bA * across * v + row, bB * units + unit
        inside = masked(plan.whole[1], columns, (1, u, *ones), (a, b, *batch), b * u, B) & (a < A)
        held = mo.fragment((1, u, *ones), gX.dtype)                     # (1, u, ...)
        mo.copyto(held[(0, None, *[0] * len(rest))], mo.tile(sX, (1, u), (row, unit))[0, :])
        mo.copyto(mo.tile(gO, (1, u, *ones), (a, b, *batch), ragged=True), held, pred=inside)


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
        lines = [along, *(m for m in modes if m is not along)]
        width = views.width_of([views.Mode(m.extent, m.strides[:1]) for m in lines], target)
        plan = make_plan(info.dtype.bytes, (across.extent, along.extent), width)
    if plan is None or across is None or along is None or \
            math.prod(m.extent for m in modes) <= (_FEW_ODD if plan.odd and info.dtype.bytes <= 2 else _FEW):
        launch((out,), (x,), modes, _copy, exact=True)
        return
    modes = [across, along, *(m for m in modes if m is not across and m is not along)]
    v = 16 // info.dtype.bytes
    tiles = -(-across.extent // (8 * v * plan.tiles[0])) * -(-along.extent // (8 * v * plan.tiles[1]))
    grid = tiles * math.prod(m.extent for m in modes[2:])
    tile_kernel[grid, plan.threads](views.view(out, modes, 0), views.view(x, modes, 1), plan)
