"""Divisions: split a layout into tiles and the places of the tiles.

In: a layout and a tiler (a Layout or an integer for the whole layout, or a tuple with one for each mode, where None is
a whole mode).  Out: the same offsets with coordinates (inside the tile, which tile).  Dynamic extents round up.

>>> str(zipped_divide(Layout.parse("(256,64):(1,256)"), (128, 8)))
'((128,8),(2,8)):((1,256),(128,2048))'

Nothing here asks whether tiles divide dynamic extents.  The code that hands out tiles asks.
"""

from __future__ import annotations

from math import gcd

from moye.errors import FactError, LayoutError
from moye.layout import tuples
from moye.layout.algebra import Tiler, by_mode, coalesce, complement, composition, in_tuple, make_modes, tiler_text
from moye.layout.basis import has_basis
from moye.layout.ints import is_static
from moye.layout.layout import Layout, from_modes, make_layout, size
from moye.layout.layout import shape as shape_of
from moye.layout.tuples import IntTuple, Modes
from moye.layout.wrapped import dividing, verb


@dividing
def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Split each mode into (inside the tile, which tile); a tuple does so mode by mode (cute/layout.hpp).

    Law: ``logical_divide(A, B) == composition(A, make_layout(B, complement(B, size(A))))``; where B has basis strides,
    ``complement(B, shape(A))``: one mode for each mode of A.
    """
    return _divide(layout, _whole(layout, tiler))


def _whole(layout: Layout, tiler: Tiler) -> Tiler:
    """Let a tiler of one tile, for a layout of one mode, tile the whole layout: the result has no one-tuples."""
    one = isinstance(tiler, tuple) and len(tiler) == len(layout) == 1 and not isinstance(tiler[0], tuple)
    return tiler[0] if one and isinstance(tiler, tuple) else tiler


def _divide(layout: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, lambda mode, tile: _divide(in_tuple(mode), tile), "")
    tile = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    # The tile and its complement reach every index once (rounded up to whole tiles): only coordinates change.
    if has_basis(tile.stride):
        shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
        return composition(layout, make_layout(tile, complement(tile, shape)))
    return composition(layout, make_layout(tile, complement(tile, size(coalesce(layout)))))


@dividing
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """The modes of logical_divide as ((tiles), (rests)) (cute/layout.hpp).

    Law: mode 0 is ``composition(A, B)``, and ``zipped_divide(A, B)[:, k]`` is tile k.
    """
    tiler = _whole(layout, tiler)
    return zip_by(_divide(layout, tiler), tiler)


def zip_by(divided: Layout, tiler: Tiler) -> Layout:
    """((a, x), (b, y), z) as ((a, b), (x, y, z)), following the structure of the tiler."""
    if tiler is None:
        # A whole mode is its own only tile, so there is one rest.
        return make_layout(divided, Layout(1, 0))
    if not isinstance(tiler, tuple):
        if len(divided) != 2:
            raise LayoutError(f"{divided} divided by {tiler_text(tiler)} has no tile and rest")
        return divided
    # All tiles before all rests: one coordinate then runs inside a tile, and the other one chooses it.
    pairs = [zip_by(divided.mode(i), tile) for i, tile in enumerate(tiler)]
    others = [divided.mode(i) for i in range(len(tiler), len(divided))]
    rests = [pair.mode(1) for pair in pairs] + others
    return make_layout(make_modes([pair.mode(0) for pair in pairs]), make_modes(rests))


@verb
def tile_unzip(layout: Layout, tiler: Tiler) -> Layout:
    """Turn a logical divide or product, with pairs where the tiler is, into ((firsts), (seconds)) (cute/layout.hpp).

    Law: ``tile_unzip(logical_divide(A, B), B) == zipped_divide(A, B)``.
    """
    return zip_by(layout, _whole(layout, tiler))


def domain_distribute(shape: object, count: IntTuple) -> Layout:
    """Spread ``count`` elements over a shape, as many as divide it from the left (cute/layout.hpp).

    Law: strictly increasing, its size divides ``count``, and ``composition(make_layout(shape), result)`` exists.
    """
    extents, rest = tuples.flatten_tuple(shape_of(shape)), tuples.product(count)
    if not is_static(rest) or not all(map(is_static, extents)):
        raise FactError(f"domain_distribute of {tuples.text(count)} over {tuples.text(shape_of(shape))} needs static "
                        "integers")
    modes: Modes = []
    at = 1
    for extent in extents:
        assert is_static(extent), "checked above"
        part = gcd(extent, rest)
        modes.append((part, at if part > 1 else 0))
        at, rest = at * extent, rest // part
    return from_modes(tuples.merge(modes))


def unpack(layout: Layout, *unpacked: bool) -> Layout:
    """The layout with the marked modes replaced by their own modes."""
    modes: list[Layout] = []
    for mode, open_up in zip(layout, unpacked, strict=True):
        modes += list(mode) if open_up else [mode]
    return make_modes(modes)


@dividing
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """zipped_divide as ((tiles), rest, rest, ...) (cute/layout.hpp).

    Law: ``tiled_divide(A, B)(i) == zipped_divide(A, B)(i)`` for every index i.
    """
    return unpack(zipped_divide(layout, tiler), False, True)


@dividing
def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """zipped_divide as (tile, tile, ..., rest, rest, ...) (cute/layout.hpp).

    Law: ``flat_divide(A, B)(i) == zipped_divide(A, B)(i)`` for every index i.
    """
    return unpack(zipped_divide(layout, tiler), True, True)
