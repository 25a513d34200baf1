"""Coordinates of a view whose elements became wider or narrower: a new element is several old ones or a part of one.

In: the origin of a view, its layout before and after ``recast``.  Out: the origin of the recast view.

    recast_origin(gA.origin, gA.layout, wide.layout, 4)      # float32 as uint128: element i is elements 4i to 4i + 3

Coordinates stay those of the elements that the tensor was made of, so that messages can name them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moye.errors import LayoutError
from moye.layout import Int, Layout, ScaledBasis
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.origin import Origin, Root, Track


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
