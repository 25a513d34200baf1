"""The (thread, value) layouts of tiled copies: each side of an atom, copies that fit an MMA, reordered registers.

In: layouts (thread, value) -> tile.  Out: the same layouts for another side, or for another order of a thread's values.

    retiled("retile_D", copy.layout_tv, tiler=copy.tiler, values=8, threads=128, whole=tCrA.layout)

Source: CuTe cute/atom/copy_atom.hpp, TiledCopy::tile2thrfrg and TiledCopy::retile.
"""

from __future__ import annotations

from moye.errors import LayoutError, TensorError
from moye.layout import (
    Layout,
    composition,
    logical_divide,
    logical_product,
    make_layout,
    product_each,
    rank,
    right_inverse,
    size,
    with_shape,
    zipped_divide,
)
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.context import locate


def side_of(layout_tv: Layout, threads: int, values: int, side: Layout | None) -> tuple[Layout, Layout]:
    """The thread and value modes of a tiled copy, for one side of its atom.

    ``threads`` and ``values`` are those of one atom.  ``side`` maps (thread, value) of that side to those of the
    registers.  The value mode is (atom, rest).
    """
    if side is None:
        return layout_tv.mode(0), logical_divide(layout_tv.mode(1), values)
    by_atom = zipped_divide(layout_tv, (threads, values))               # ((thread, value), (rest, rest))
    atom = composition(by_atom.mode(0), side)
    return make_layout(atom.mode(0), by_atom.mode(1).mode(0)), make_layout(atom.mode(1), by_atom.mode(1).mode(1))


def retiled(what: str, layout_tv: Layout, *, tiler: tuple[int, ...], values: int, threads: int,
            whole: Layout) -> Layout:
    """A layout ((atom, rest), rest modes...) of values that another partition holds as (V, rest modes...)."""
    held = size(whole, 0)
    try:
        fragment = _counted(with_shape(right_inverse(layout_tv), tiler), threads * _static(held))     # (m, n) -> part
        order = zipped_divide(logical_product(make_layout(_static(held)), right_inverse(fragment)), values)
        tile = zipped_divide(whole, (_static(held), *product_each(fragment.shape)))
        part = composition(tile.mode(0), order)
    except LayoutError as error:
        raise TensorError(f"{what}: the values {whole} of a thread are not those of the tiled copy with (thread, "
                          f"value) layout {layout_tv}: {error.message}", locs=(locate(),)) from None
    rest = tile.mode(1)
    return make_layout(part, *(rest.mode(i) for i in range(1, rank(rest))))


def _counted(layout: Layout, unit: int) -> Layout:
    """A layout of offsets counted in whole units; modes that stay within one unit are gone."""
    def one(extent: int, step: int) -> tuple[int, int]:
        if step % unit == 0:
            return extent, step // unit
        if unit % step:
            raise LayoutError(f"the stride {step} of {layout} neither divides {unit} nor is divided by it")
        return -(-extent // (unit // step)), 1

    pairs = [one(_static(extent), _static(step)) for extent, step in zip_leaves(layout.shape, layout.stride)]
    return Layout(unflatten_tuple([s for s, _ in pairs], layout.shape),
                  unflatten_tuple([d for _, d in pairs], layout.shape))


def _static(x: object) -> int:
    if not isinstance(x, int):
        raise LayoutError(f"{x} must be static here")
    return x
