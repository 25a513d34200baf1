"""A new layout on the memory of a tensor, and what becomes of the tensor's start and of a swizzle.

In: a tensor, a plain or swizzled layout.  Out: the element offset, the plain layout and the swizzle of the view.

    smem.with_layout(mo.select(smem_layout, 1, 0)).swizzle == smem_layout.swizzle      # True

A plain layout keeps the tensor's swizzle.  A swizzled layout replaces it, so that nothing is swizzled twice.  Both must
have the same swizzle, or the tensor has none and starts where the swizzle does, because a swizzle acts on whole
offsets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from moye.dtypes import Space
from moye.errors import LayoutError, TensorError
from moye.layout import ComposedLayout, Int, Layout, ScaledBasis, Swizzle
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.context import locate
from moye.tensor.origin import Origin, Root, Track


class View(Protocol):
    """What this module needs of a tensor."""

    offset: Int
    swizzle: Swizzle | None

    @property
    def space(self) -> Space: ...
    @property
    def label(self) -> str: ...


def placed(tensor: View, layout: Layout | ComposedLayout) -> tuple[Int, Layout, Swizzle | None]:
    """The offset, the layout and the swizzle of ``tensor.with_layout(layout)``.

    Law: element c of the view lies at ``swizzle(offset + layout(c))`` of the buffer.
    """
    if isinstance(layout, Layout):
        return tensor.offset, layout, tensor.swizzle
    if not isinstance(layout, ComposedLayout):
        raise TensorError(f"{tensor.label}.with_layout takes a layout, not a {type(layout).__name__}",
                          locs=(locate(),), hint="mo.make_layout(shape) makes one of a shape")
    if tensor.space is Space.REGISTER:
        raise TensorError(f"{tensor.label} lives in registers, which have no banks and no addresses: it cannot take "
                          f"the swizzled layout {layout}", hint="take the layout without its swizzle",
                          locs=(locate(),))
    _require_one_swizzle(tensor, layout)
    begin: Any = tensor.offset
    return begin + layout.offset, layout.layout, layout.swizzle


def _require_one_swizzle(tensor: View, layout: ComposedLayout) -> None:
    """A6: the swizzle of the new layout must be the tensor's own, or the tensor must be unswizzled and at its start."""
    own = None if tensor.swizzle is None or not tensor.swizzle.bits else tensor.swizzle
    if own is not None and own != layout.swizzle:
        raise TensorError(f"{tensor.label} is swizzled by {own} and cannot take the layout {layout}: one swizzle after "
                          f"another would find no element where it was put", locs=(locate(),), code="A6",
                          hint=f"give it a layout without a swizzle, which keeps {own}")
    start: Any = tensor.offset
    begins = start if isinstance(start, int) else start.divisor
    if own is None and begins % layout.swizzle.period:
        raise TensorError(f"{tensor.label} starts at element {start}, which is not known to be a multiple of "
                          f"{layout.swizzle.period}, after which {layout.swizzle} repeats: it cannot take the layout "
                          f"{layout}", hint="put the swizzled layout on the whole allocation, and slice that",
                          locs=(locate(),), code="A6")


# --- coordinates of a view whose elements became wider or narrower ---------------------------------------------------


def recast_origin(origin: Origin | None, old: Layout, new: Layout, factor: int) -> Origin | None:
    """The origin after elements became ``factor`` times as wide, or narrower if it is negative."""
    if origin is None:
        return None
    before, after = zip_leaves(old.shape, old.stride), zip_leaves(new.shape, new.stride)
    counts = [_together(a, b, factor) for a, b in zip(before, after, strict=True)]

    def step(coordinates: Layout) -> tuple[Layout, Any]:
        leaves = zip_leaves(coordinates.shape, coordinates.stride)
        if len(leaves) != len(counts):
            raise LayoutError(f"{coordinates} and {old} have different modes")
        if factor < 0:
            parts = [((-factor, extent), (0, along)) if count > 1 else (extent, along)
                     for (extent, along), count in zip(leaves, counts, strict=True)]
        else:
            parts = [(extent, along * count if count > 1 else along)
                     for (_, along), (extent, _), count in zip(leaves, after, counts, strict=True)]
        return Layout(unflatten_tuple([s for s, _ in parts], coordinates.shape),
                      unflatten_tuple([d for _, d in parts], coordinates.shape)), 0

    whole = origin if factor < 0 else replace(origin, tracks=_shortened(origin.tracks, counts))
    return whole.then(step)


def _together(before: tuple[Int, Int], after: tuple[Int, Int], factor: int) -> int:
    """How many old elements along a leaf make a new one, or how many new ones an old one."""
    (extent, step), (now, _) = before, after
    if isinstance(extent, int) and isinstance(now, int):
        return max(extent, now) // max(min(extent, now), 1)
    if factor < 0:
        return -factor if isinstance(step, int) and step == 1 else 1
    inside = isinstance(step, int) and 0 < abs(step) < factor
    return factor // abs(step) if isinstance(step, int) and inside else 1


def _shortened(tracks: tuple[Track, ...], counts: list[int]) -> tuple[Track, ...]:
    """Shorten the extents of the root: the last of the elements that became one must be inside too."""
    found = list(tracks)
    for i, track in enumerate(tracks):
        place = track.place.now() if track.modes else None
        if place is None:
            continue
        leaves = zip_leaves(place[0].shape, place[0].stride)
        extents = list(track.root.extents)
        for (_, along), count in zip(leaves, counts, strict=False):
            if isinstance(along, ScaledBasis) and along.path[0] in track.modes:
                extents[along.path[0]] = extents[along.path[0]] - along.value * (count - 1)
        own = Track(Root(track.root.name, tuple(extents)), track.place, track.modes)
        found[i] = replace(track, modes=frozenset()) if i == 0 else own
        if i == 0:
            found.append(own)
    return tuple(found)
