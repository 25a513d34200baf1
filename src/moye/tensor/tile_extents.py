"""Whether tiles fit a tensor: proven now, checked at launch, or refused.

In: a tensor's name and layout, a tiler or another layout.  Out: nothing; a TensorError for what cannot fit, a guard for
what the launch can tell.

    require_tile("A", extent, 0, 128, (128, 8))          # launch checks extent % 128 == 0

Coordinates are checked in bounds.py.
"""

from __future__ import annotations

from typing import Any

from moye.dtypes import DType, Space
from moye.errors import TensorError
from moye.ir.nodes import TensorParam, Value
from moye.layout import (
    ComposedLayout,
    Int,
    Layout,
    Swizzle,
    complement,
    cosize,
    divides,
    known_less,
    make_layout,
    rank,
    size,
)
from moye.layout.basis import has_basis
from moye.layout.tuples import zip_leaves
from moye.tensor import expr
from moye.tensor.context import MAKE_STATIC, builder, locate, tracing
from moye.tensor.expr import Expr, operand_of
from moye.tensor.view import View

INDEX_LIMIT = (1 << 31) - 1
"""The largest offset of 32-bit indices."""


def require_tile(label: str, have: Int, mode: int, extent: int, tiler: tuple[int, ...]) -> None:
    """For ``mo.tile``: a tile must divide the extent of its mode; the launch checks dynamic extents."""
    shape = "(" + ", ".join(str(t) for t in tiler) + ")"
    if isinstance(have, int):
        if have % extent:
            raise TensorError(f"the tile {shape} does not divide {label}: its extent {have} in mode {mode} is "
                              f"no multiple of {extent}", hint="pad the array, or use mo.tile(..., ragged=True) with "
                                                               "predicated copies", locs=(locate(),), code="A4")
        return
    have.require_divisible(extent, f"the tile {shape} does not divide argument {label}: its extent {{value}} in "
                                   f"mode {mode} is no multiple of {extent}", code="A4")


def require_extent(label: str, layout: Layout, mode: int, extent: Any) -> None:
    """For ``mo.tile``: a static integer or layout tiles a mode, and a tuple of them can tile a nested mode."""
    if isinstance(extent, tuple):
        have = rank(layout) if isinstance(layout.shape, tuple) else 1
        if len(extent) > have:
            raise TensorError(f"the tile {extent} of mode {mode} of {label} has {len(extent)} modes, and that mode, "
                              f"{layout}, has {have}", hint=f"mo.make_layout({extent}) tiles a mode that is not nested",
                              locs=(locate(),))
        for i, part in enumerate(extent):
            require_extent(label, layout.mode(i), mode, part)
    elif isinstance(extent, Layout):
        if not isinstance(size(extent), int):
            raise TensorError(f"the tile {extent} of mode {mode} of {label} must be static", locs=(locate(),))
        _need_numbers(label, extent, "tile")
    elif type(extent) is not int or extent < 1:
        raise TensorError(f"the tile of mode {mode} of {label} is {extent!r}, which is no positive static integer",
                          hint=MAKE_STATIC if isinstance(extent, Expr) else None, locs=(locate(),))


def require_inner_tiles(label: str, layout: Layout, tiles: tuple[Any, ...], mode: int, last: bool = True) -> None:
    """Refuse ragged tiles that reach past a part of a nested mode other than the last.

    A coordinate counts along the whole mode, where an index behind the end of such a part is one of the next.
    """
    extents = [size(layout, i) for i in range(rank(layout))]
    for i, tile in enumerate(tiles):
        ends = last and all(isinstance(more, int) and more == 1 for more in extents[i + 1:])
        if isinstance(tile, tuple):
            require_inner_tiles(label, layout.mode(i), tile, mode, ends)
        elif not ends and not divides(size(tile) * size(complement(tile)) if isinstance(tile, Layout) else tile,
                                      extents[i]):
            raise TensorError(f"the ragged tile {tiles} of mode {mode} of {label} reaches past part {i} of that mode, "
                              f"{layout}, and coordinates, which count along the whole mode, do not tell",
                              hint="only the last part of a nested mode may be ragged", locs=(locate(),))


def _need_numbers(label: str, tile: Layout, asked: str) -> None:
    if has_basis(tile.stride):
        raise TensorError(f"{asked}({label}, {tile}): the strides of the tile are coordinates, and tiles of tensors "
                          "have numbers", hint="divide mode by mode, with a tuple of tiles", locs=(locate(),))


def require_tiles(label: str, layout: Layout, tiler: Any, asked: str, mode: int | None = None) -> None:
    """A division by a tiler must not round an extent up; the launch checks dynamic extents."""
    if tiler is None:
        return
    if isinstance(tiler, tuple):
        for i, tile in enumerate(tiler[:rank(layout)]):
            require_tiles(label, layout.mode(i), tile, asked, i if mode is None else mode)
        return
    tile = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    _need_numbers(label, tile, asked)
    covered, have = size(tile) * size(complement(tile)), size(layout)
    where = "" if mode is None else f" of mode {mode}"
    if not isinstance(covered, int):
        raise TensorError(f"{asked}({label}, {tiler}): the tile must be static", locs=(locate(),))
    message = f"{asked}({label}, {tiler}): extent {{value}}{where} is no multiple of {covered}, which the tile covers"
    if isinstance(have, int):
        if have % covered:
            raise TensorError(message.format(value=have), hint="use mo.tile(..., ragged=True) with predicated copies",
                              locs=(locate(),), code="A4")
    elif not divides(covered, have):
        have.require_divisible(covered, message, code="A4")


def require_inside(label: str, layout: Layout, other: Any, mode: int | None = None) -> None:
    """The right side of a composition must stay below the extent that it indexes; the launch checks dynamic extents."""
    if other is None or (isinstance(other, Layout) and not isinstance(cosize(other), int)):
        return
    if isinstance(other, tuple):
        for i, part in enumerate(other[:rank(layout)]):
            require_inside(label, layout.mode(i), part, i if mode is None else mode)
        return
    reach, have = cosize(other if isinstance(other, Layout) else make_layout(other)), size(layout)
    beyond = known_less(have, reach)
    where = "" if mode is None else f" of mode {mode}"
    if beyond:
        raise TensorError(f"composition({label}, {other}) reaches index {reach - 1}, past the extent {have}{where} of "
                          f"{layout}", hint=f"compose with a layout of cosize {have} at most", locs=(locate(),),
                          code="A3")
    if beyond is None and tracing() and isinstance(have, Expr):
        inside = expr.compare("ge", have, reach)
        if isinstance(inside, Expr) and expr.can_guard(inside.operand):
            message = f"composition({label}, {other}) reaches {{reach}} elements, past the extent {{extent}}{where}"
            fields = {"reach": operand_of(reach), "extent": operand_of(have)}  # type: ignore[arg-type]
            builder().guard(inside.operand, message, fields, code="A3")


def require_allocated(view: View, offset: Int, layout: Layout, swizzle: Swizzle | None) -> None:
    """A static layout that replaces a view's own must end inside the shared or register buffer."""
    buffer, reach = view.buffer, cosize(layout)
    start = offset if isinstance(offset, int) else offset.lower
    if buffer.elements is None or not isinstance(reach, int) or start is None or \
            any(not isinstance(step, int) or step < 0 for _, step in zip_leaves(layout.shape, layout.stride)):
        return
    held = buffer.elements * buffer.dtype.bits // view.dtype.bits
    end = start + reach if swizzle is None else cosize(ComposedLayout(swizzle, start, layout))
    if not isinstance(end, int) or end <= held:
        return
    begins = "" if start == 0 else f" from element {start}"
    where = "" if view.label == buffer.name else f", a view of {buffer.name}"
    hint = None if buffer.space is Space.REGISTER else "allocate it with the cosize of the largest of its layouts"
    raise TensorError(f"the layout {layout}{begins} of {view.label}{where} reaches element {end - 1}, and "
                      f"its allocation of layout {buffer.layout} has {held}", hint=hint, locs=(locate(),), code="A3")


def require_index(view: View, dtype: DType) -> None:
    """A11: 32-bit indices must reach the elements of an argument that is recast to narrower ones; checked at launch."""
    b, times = builder(), view.dtype.bits // dtype.bits
    param = next((p for p in b.func.params if isinstance(p, TensorParam) and p.buffer is view.buffer), None)
    if times < 2 or b.func.index_bits == 64 or param is None:
        return
    reach: Any = 1
    for extent, step in zip(param.shape, param.strides, strict=True):
        reach = reach + (_number(extent) - 1) * _number(step)
    inside = expr.compare("le", reach, INDEX_LIMIT // times)
    if isinstance(inside, Expr) and expr.can_guard(inside.operand):
        message = f"recast({view.label}, {dtype}): the {{reach}} elements of {param.name} are {times} times as many " \
                  f"of {dtype}, which 32-bit indices do not reach"
        b.guard(inside.operand, message, {"reach": operand_of(reach)}, "take a part of the array, or of its own dtype",
                code="A11")


def _number(x: int | Value) -> Any:
    return x if isinstance(x, int) else Expr(x)
