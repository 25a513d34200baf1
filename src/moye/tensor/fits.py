"""Whether tiles fit a tensor: proven now, checked at launch, or refused.

In: a tensor's name and layout, a tiler or another layout.  Out: nothing; a TensorError for what cannot fit, a guard for
what launch can tell.

>>> require_tile("A", extent, 0, 128, (128, 8))          # launch checks extent % 128 == 0

Coordinates are checked in bounds.py.
"""

from __future__ import annotations

from typing import Any

from moye.errors import TensorError
from moye.layout import Int, Layout, complement, cosize, divides, known_less, make_layout, rank, size
from moye.tensor import expr
from moye.tensor.context import builder, locate, tracing
from moye.tensor.expr import Expr, operand_of


def require_tile(label: str, have: Int, mode: int, extent: int, tiler: tuple[int, ...]) -> None:
    """``mo.tile``: a tile must divide the extent of its mode; launch checks dynamic ones."""
    shape = "(" + ", ".join(str(t) for t in tiler) + ")"
    if isinstance(have, int):
        if have % extent:
            raise TensorError(f"the tile {shape} does not divide {label}: its extent {have} in mode {mode} is "
                              f"no multiple of {extent}", hint="pad the array, or use mo.tile(..., ragged=True) with "
                                                               "predicated copies", locs=(locate(),))
        return
    have.require_divisible(extent, f"the tile {shape} does not divide argument {label}: its extent {{value}} in "
                                   f"mode {mode} is no multiple of {extent}")


def require_extent(label: str, layout: Layout, mode: int, extent: Any) -> None:
    """``mo.tile``: what tiles a mode is a static integer or layout, or of a nested mode a tuple of them."""
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
    elif type(extent) is not int or extent < 1:
        raise TensorError(f"the tile of mode {mode} of {label} is {extent!r}, which is no positive static integer",
                          locs=(locate(),))


def require_tiles(label: str, layout: Layout, tiler: Any, asked: str, mode: int | None = None) -> None:
    """A division by a tiler must not round an extent up: launch checks dynamic ones."""
    if tiler is None:
        return
    if isinstance(tiler, tuple):
        for i, tile in enumerate(tiler[:rank(layout)]):
            require_tiles(label, layout.mode(i), tile, asked, i if mode is None else mode)
        return
    tile = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    covered, have = size(tile) * size(complement(tile)), size(layout)
    where = "" if mode is None else f" of mode {mode}"
    if not isinstance(covered, int):
        raise TensorError(f"{asked}({label}, {tiler}): the tile must be static", locs=(locate(),))
    message = f"{asked}({label}, {tiler}): extent {{value}}{where} is no multiple of {covered}, which the tile covers"
    if isinstance(have, int):
        if have % covered:
            raise TensorError(message.format(value=have), hint="use mo.tile(..., ragged=True) with predicated copies",
                              locs=(locate(),))
    elif not divides(covered, have):
        have.require_divisible(covered, message)


def require_inside(label: str, layout: Layout, other: Any, mode: int | None = None) -> None:
    """The right side of a composition must stay below the extent that it indexes: launch checks dynamic ones."""
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
                          f"{layout}", locs=(locate(),))
    if beyond is None and tracing() and isinstance(have, Expr):
        inside = expr.compare("ge", have, reach)
        if isinstance(inside, Expr) and expr.can_guard(inside.operand):
            message = f"composition({label}, {other}) reaches {{reach}} elements, past the extent {{extent}}{where}"
            builder().guard(inside.operand, message, {"reach": operand_of(reach), "extent": operand_of(have)}, None)  # type: ignore[arg-type]
