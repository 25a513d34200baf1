"""Partitions of a tile by its shape alone: found once for basis strides, and then given the strides of each tensor.

In: a function from tiles to layouts, and a tile.  Out: what the function makes of the tile.

    by_strides(parts, tiled, Layout((128, 8), (1, stride)))      # parts(tiled, (128,8):(1@0,1@1)), strides put in

A composition or division of a tile whose modes are integers is linear in their strides, so both ways give the same.
Kernels that partition tensors of one shape again and again pay for it once.  Other tiles take the direct way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeVar

from moye.layout import E, Int, Layout, ScaledBasis, make_layout, rank
from moye.layout.ints import mul
from moye.layout.tuples import IntTuple, map_leaves

How = TypeVar("How", bound=Hashable)
Parts = tuple[Layout, Layout, list[Layout]]


def by_strides(parts: Callable[[How, Layout], Parts], how: How, tile: Layout) -> Parts:
    """The result of ``parts(how, tile)``."""
    shape, stride = tile.shape, tile.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple) or not all(type(s) is int for s in shape):
        return parts(how, tile)
    threads, values, rests = _skeleton(parts, how, shape)
    return _with(threads, stride), _with(values, stride), [_with(rest, stride) for rest in rests]


@lru_cache(maxsize=1024)
def _skeleton(parts: Callable[[Any, Layout], Parts], how: Hashable, shape: tuple[int, ...]) -> Parts:
    return parts(how, Layout(shape, tuple([E(i) for i in range(len(shape))])))


def _with(layout: Layout, strides: tuple[IntTuple, ...]) -> Layout:
    def leaf(step: Int) -> Int:
        return mul(step.value, strides[step.path[0]]) if isinstance(step, ScaledBasis) else step  # type: ignore[arg-type]

    return Layout.of(layout.shape, map_leaves(leaf, layout.stride))


def leading_modes(layout: Layout, count: int) -> tuple[Layout, list[Layout]]:
    """The first modes as a layout, and the other modes."""
    if not isinstance(layout.shape, tuple):
        return make_layout(layout), []
    modes = [layout.mode(i) for i in range(rank(layout))]
    return make_layout(*modes[:count]), modes[count:]
