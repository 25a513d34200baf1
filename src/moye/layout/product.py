"""Products: repeat a layout (the block) in the arrangement of another (the tiler).

In: a block and a tiler (a layout, or an integer for a compact one).  Out: coordinates (inside the block, which block),
disjoint copies of the block.

>>> str(blocked_product(Layout.parse("(2,5):(5,1)"), Layout.parse("(3,4):(1,3)")))
'((2,3),(5,4)):((5,10),(1,30))'

The blocks are copies of one layout.  Blocks that overlap (strides smaller than the block) do not arise.
"""

from __future__ import annotations

from moye.errors import LayoutError
from moye.layout import ints, tuples
from moye.layout.algebra import Tiler, along, by_mode, coalesce, complement_modes, composition, directed, make_modes
from moye.layout.basis import has_basis
from moye.layout.divide import unpack, zip_by
from moye.layout.generators import make_ordered_layout
from moye.layout.ints import Int, is_const, is_static, mul
from moye.layout.layout import Layout, as_coordinate, cosize, from_modes, make_layout, size
from moye.layout.tuples import IntTuple, LayoutLeft, Major
from moye.layout.wrapped import multiplying, verb


def _copies(block: Layout, tiler: Layout, keep_pitch: bool = False) -> Layout:
    """The places of the blocks: the tiler, with its offsets counted in the gaps of the block.

    With ``keep_pitch`` a single place keeps the block's extent as its stride, as CuTe's blocked_product does.
    """
    if has_basis(block.stride) or has_basis(tiler.stride):
        return _copies_along(block, tiler, keep_pitch)
    # Every gap holds a copy of the block, and the tiler's largest offset says how many copies must fit.
    return composition(_places(block, mul(size(block), cosize(tiler)), keep_pitch), tiler)


def _places(block: Layout, target: IntTuple, keep_pitch: bool) -> Layout:
    gaps, reach = complement_modes(block, target)
    return Layout(1, reach) if keep_pitch and not gaps else from_modes(gaps)


def _copies_along(block: Layout, tiler: Layout, keep_pitch: bool) -> Layout:
    """The places of the copies where strides are coordinates: a product along each."""
    if all(is_const(step, 0) for step in tuples.flatten_tuple(tiler.stride)):
        return tiler
    inside, outside = along(block, "the block") if has_basis(block.stride) else {}, {}
    if has_basis(tiler.stride):
        if not has_basis(block.stride) and not all(is_const(step, 0) for step in tuples.flatten_tuple(block.stride)):
            raise LayoutError("the strides of the block are numbers, those of the tiler coordinates")
        outside = along(tiler, "the tiler")
        along(make_layout(block, tiler), "block and tiler")     # refuses a coordinate in one and its parts in the other
        target = as_coordinate(0, (block.stride, tiler.stride))
    elif len(inside) > 1:
        raise LayoutError(f"the strides of the tiler are numbers, and the block has {len(inside)} directions",
                          hint="give the tiler basis strides such as 1@0")
    else:
        # One direction: the numbers count along it.
        path = next(iter(inside))
        return directed(block, as_coordinate(0, block.stride), lambda part, _: _copies(part, tiler, keep_pitch),
                        "product").mode(*path)

    def fitted(zero: IntTuple, path: tuple[int, ...]) -> IntTuple:
        if isinstance(zero, tuple):
            return tuple([fitted(item, (*path, i)) for i, item in enumerate(zero)])
        part = from_modes([(s, d) for s, d, _ in outside.get(path, [])])
        return mul(tuples.product(tuple([s for s, _, _ in inside.get(path, [])])), cosize(part))

    places = directed(block, fitted(target, ()), lambda part, extent: _places(part, extent, keep_pitch), "product")
    return composition(places, tiler)


@multiplying
def logical_product(block: Layout, tiler: Tiler) -> Layout:
    """The block and the places of its copies; a tuple does so mode by mode (cute/layout.hpp).

    Law: ``logical_product(A, B) == make_layout(A, composition(complement(A, size(A) * cosize(B)), B))``, along each
    coordinate where both have basis strides.
    """
    return _product(block, tiler)


def _product(block: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return block
    if isinstance(tiler, tuple):
        return by_mode(block, tiler, _product, "logical_product")
    arrangement = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    return make_layout(block, _copies(block, arrangement))


@multiplying
def zipped_product(block: Layout, tiler: Tiler) -> Layout:
    """logical_product as ((block modes), (tiler modes)) (cute/layout.hpp).

    Law: mode 0 is the block, and ``zipped_product(A, B)(i) == logical_product(A, B)(i)`` for a layout B.
    """
    return zip_by(logical_product(block, tiler), tiler)


@multiplying
def tiled_product(block: Layout, tiler: Tiler) -> Layout:
    """zipped_product as ((block modes), tiler, tiler, ...) (cute/layout.hpp).

    Law: ``tiled_product(A, B)(i) == zipped_product(A, B)(i)`` for every index i.
    """
    return unpack(zipped_product(block, tiler), False, True)


@multiplying
def flat_product(block: Layout, tiler: Tiler) -> Layout:
    """zipped_product as (block, block, ..., tiler, tiler, ...) (cute/layout.hpp).

    Law: ``flat_product(A, B)(i) == zipped_product(A, B)(i)`` for every index i.
    """
    return unpack(zipped_product(block, tiler), True, True)


@multiplying
def blocked_product(block: Layout, tiler: Layout | Int, coalesce_result: bool = False) -> Layout:
    """Mode i is (block mode i, tiler mode i): whole blocks side by side (cute/layout.hpp).

    Law: ``blocked_product(A, B)((a0, b0), (a1, b1)) == logical_product(A, B)((a0, a1), (b0, b1))``; with
    ``coalesce_result`` each mode is the coalesced one.
    """
    arrangement = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    inside, places = list(block), list(_copies(block, arrangement, keep_pitch=True))
    both = [make_layout(a, b) for a, b in zip(inside, places, strict=False)]
    # Where one of them has fewer modes, the other's mode is not wrapped in a pair.
    modes = both + inside[len(places):] + places[len(inside):]
    return _joined(modes, block, arrangement, coalesce_result)


@multiplying
def raked_product(block: Layout, tiler: Layout | Int, coalesce_result: bool = False) -> Layout:
    """Mode i is (tiler mode i, block mode i): the elements of the blocks interleaved (cute/layout.hpp).

    Law: ``raked_product(A, B)((b0, a0), (b1, a1)) == logical_product(A, B)((a0, a1), (b0, b1))``; with
    ``coalesce_result`` each mode is the coalesced one.
    """
    arrangement = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    inside, places = list(block), list(_copies(block, arrangement))
    count = max(len(inside), len(places))
    inside += [Layout(1, 0)] * (count - len(inside))
    places += [Layout(1, 0)] * (count - len(places))
    modes = [make_layout(b, a) for a, b in zip(inside, places, strict=True)]
    return _joined(modes, block, arrangement, coalesce_result)


def _joined(modes: list[Layout], block: Layout, tiler: Layout, coalesced: bool) -> Layout:
    """The modes of a product of layouts with modes; integers have the one mode alone."""
    modes = [coalesce(mode) for mode in modes] if coalesced else modes
    scalar = not isinstance(block.shape, tuple) and not isinstance(tiler.shape, tuple)
    return modes[0] if scalar else make_modes(modes)


@verb
def tile_to_shape(block: Layout, target: IntTuple, order: IntTuple | Major | None = None) -> Layout:
    """The block repeated to fill ``target``; the modes are filled in ascending ``order`` (cute/layout.hpp).

    Law: mode i is (block mode i, count) of size ``target[i]``, and the offsets are disjoint copies of the block's.
    """
    extents = tuples.product_each(target)
    have = tuples.product_each(block.shape)
    if len(have) > len(extents):
        raise LayoutError(f"tile_to_shape of {block} to {tuples.text(target)}: the block has {len(have)} modes, "
                          f"the target {len(extents)}")
    have += (1,) * (len(extents) - len(have))
    counts: list[Int] = []
    for i, (extent, part) in enumerate(zip(extents, have, strict=True)):
        if is_static(extent) and is_static(part) and extent % part:
            raise LayoutError(f"tile_to_shape of {block} to {tuples.text(target)}: "
                              f"extent {part} of mode {i} does not divide {extent}")
        # A dynamic extent is rounded up, since the tile may reach past it; accesses are predicated then.
        counts.append(ints.ceil_div(extent, part))
    shape = tuple(counts)
    padded = make_modes([*block, *[Layout(1, 0)] * (len(extents) - len(block))])
    ordered = make_ordered_layout(shape, LayoutLeft if order is None else order)
    return blocked_product(padded, ordered)
