"""Tensor copies in im2col mode: the matrix that a filter makes of images, its tiles, and where they lie in the images.

In: a ``TmaLoadIm2col``, the extents of an array of images.  Out: the boxes of a tile; the matrix's extents; for the
coordinates of a box in the matrix those that the instruction takes.

    im2col_shape(op, (N, H, W, C))          # (N P Q, C, R S)

Only the order of pixels makes it special: the instruction itself goes from one row of outputs to the next.  Source: PTX
ISA, Tensors, im2col mode; CuTe cute/atom/copy_traits_sm90_im2col.hpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from moye.atoms.tma import TensorMap, TmaLoadIm2col
from moye.dtypes import DType
from moye.errors import LayoutError
from moye.tensor.expr import where
from moye.tensor.tma_boxes import AnyLayout, TmaTiling, tma_tiling

OUTPUTS, CHANNELS, PLACES = range(3)
"""The modes of the matrix."""


def im2col_tiling(op: TmaLoadIm2col, dtype: DType, layout: AnyLayout, tile: tuple[int, ...] | None,
                  multicast: int) -> TmaTiling:
    """The boxes of a tile (outputs, channels), with one place of the filter; LayoutError (B5) if TMA cannot copy it."""
    plain = tma_tiling(op, dtype, (None, 1, None), layout, tile, multicast)
    if plain.tile[PLACES] != 1:
        raise LayoutError(f"make_tma_copy({op}) of a {dtype} array and tiles {layout}: a tile of {plain.tile} has "
                          f"{plain.tile[PLACES]} places of the filter, and TMA brings one at a time", code="B5",
                          hint="a tile is (outputs, channels)")
    extents = dict(zip(plain.along, plain.map.box, strict=True))
    in_array = tuple(range(len(op.filter) + 1, -1, -1))
    return replace(plain, map=TensorMap(plain.map.dtype, in_array, (extents[CHANNELS], extents[OUTPUTS]),
                                        plain.map.swizzle, op.prefetch, op.outside, op.window))


def im2col_shape(op: TmaLoadIm2col, shape: Sequence[Any]) -> tuple[Any, Any, int]:
    """The matrix of images (images, pixels..., channels): outputs of all images, channels, places of the filter."""
    return shape[0] * prod(op.outputs(shape[1:-1])), shape[-1], prod(op.filter)


def im2col_box(tiling: TmaTiling, shape: Sequence[Any],
               first: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Coordinates and offsets of a box; ``first`` is its first element in the matrix, by the dimensions of the box.

    Where the filter has no such place the box lies behind the last channel, where all is zero.
    """
    op = tiling.op
    assert isinstance(op, TmaLoadIm2col), "a copy in im2col mode"
    at = dict(zip(tiling.along, first, strict=True))
    output, place, channel = at[OUTPUTS], at[PLACES], at[CHANNELS]
    pixels, offsets = [], []
    window, outputs = op.window, op.outputs(shape[1:-1])[::-1]
    for count, lower, stride in zip(outputs, window.lower, window.strides, strict=True):
        before = output // count
        pixels.append((output - before * count) * stride + lower)
        output = before
    there = (place >= 0) & (place < prod(op.filter))
    for count, reach in zip(op.filter[::-1], op.reach[::-1], strict=True):
        offsets.append(place % count * (reach // max(count - 1, 1)))
        place = place // count
    wide = tiling.map.box[0]                            # boxes begin at multiples of 16 bytes
    return (where(there, channel, (shape[-1] + (wide - 1)) // wide * wide), *pixels, output), tuple(offsets)
