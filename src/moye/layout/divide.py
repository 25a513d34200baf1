"""Divisions: split a layout into tiles and the places of the tiles.

In: a layout and a tiler (a Layout or an integer for the whole layout; a tuple of them by mode, None for a whole mode).
Out: the same offsets with coordinates (inside the tile, which tile); dynamic extents round up.

>>> str(zipped_divide(Layout.parse("(256,64):(1,256)"), (128, 8)))
'((128,8),(2,8)):((1,256),(128,2048))'

Divisibility of dynamic extents is not asked for here: whoever hands out tiles does.
"""

from __future__ import annotations

from moye.errors import LayoutError
from moye.layout.algebra import Tiler, by_mode, coalesce, complement, composition, in_tuple, make_modes, tiler_text
from moye.layout.layout import Layout, make_layout, size
from moye.layout.verb import verb


@verb
def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``composition(A, make_layout(B, complement(B, size(A))))``, by mode under a tuple (cute/layout.hpp)."""
    return _divide(layout, _whole(layout, tiler))


def _whole(layout: Layout, tiler: Tiler) -> Tiler:
    """A tiler of one tile, for a layout of one mode, tiles the whole layout: the result has no one-tuples."""
    one = isinstance(tiler, tuple) and len(tiler) == len(layout) == 1 and not isinstance(tiler[0], tuple)
    return tiler[0] if one and isinstance(tiler, tuple) else tiler


def _divide(layout: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, lambda mode, tile: _divide(in_tuple(mode), tile), "a division")
    tile = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    return composition(layout, make_layout(tile, complement(tile, size(coalesce(layout)))))


@verb
def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_divide(A, B)[:, k]`` is tile k: the modes of logical_divide as ((tiles), (rests)) (cute/layout.hpp)."""
    tiler = _whole(layout, tiler)
    return _zip(_divide(layout, tiler), tiler)


def _zip(divided: Layout, tiler: Tiler) -> Layout:
    """((a, x), (b, y), z) as ((a, b), (x, y, z)), following the structure of the tiler."""
    if tiler is None:
        return make_layout(divided, Layout(1, 0))
    if not isinstance(tiler, tuple):
        if len(divided) != 2:
            raise LayoutError(f"{divided} divided by {tiler_text(tiler)} has no tile and rest")
        return divided
    pairs = [_zip(divided.mode(i), tile) for i, tile in enumerate(tiler)]
    others = [divided.mode(i) for i in range(len(tiler), len(divided))]
    rests = [pair.mode(1) for pair in pairs] + others
    return make_layout(make_modes([pair.mode(0) for pair in pairs]), make_modes(rests))


def unpack(layout: Layout, *unpacked: bool) -> Layout:
    """The layout with the marked modes replaced by their own modes."""
    modes: list[Layout] = []
    for mode, open_up in zip(layout, unpacked, strict=True):
        modes += list(mode) if open_up else [mode]
    return make_modes(modes)


@verb
def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """zipped_divide as ((tiles), rest, rest, ...) (cute/layout.hpp)."""
    return unpack(zipped_divide(layout, tiler), False, True)


@verb
def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """zipped_divide as (tile, tile, ..., rest, rest, ...) (cute/layout.hpp)."""
    return unpack(zipped_divide(layout, tiler), True, True)
