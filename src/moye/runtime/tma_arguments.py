"""TMA copies as arguments of kernels: an array, and the tiles in which it is copied.

In: an operation, an array, the layout of one tile in shared memory.  Out: ``TmaCopy``.

    tma_A = make_tma_copy(TmaLoad(), A, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (128, 64)))

Its static part belongs to the specialisation.  The array is a runtime argument like any other, and its tensor map is
encoded at launch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

from moye.atoms.tma import GATHERED, TensorMap, TmaLoadIm2col, TmaOp
from moye.dtypes import DType
from moye.errors import ArgumentError, LayoutError
from moye.layout import ComposedLayout, Layout, make_layout
from moye.runtime import arrays
from moye.runtime.arrays import ArrayInfo
from moye.runtime.boundary import boundary
from moye.tensor.gathered_rows import rows_tiling
from moye.tensor.im2col import im2col_tiling
from moye.tensor.tma_boxes import Group, TmaTiling, tile_extents, tma_tiling

_PART, _MOST = 16, 1 << 31


class TmaCopy:
    """A TMA copy of one array; in the kernel it has ``.tensor``, the coordinates, and ``.bytes`` of one tile."""

    __slots__ = ("array", "multicast", "op", "smem_layout", "tile")

    def __init__(self, op: TmaOp, array: Any, smem_layout: Layout | ComposedLayout, tile: tuple[int, ...] | None,
                 multicast: int) -> None:
        self.op = op
        self.array = array
        self.smem_layout = smem_layout
        self.tile = tile
        self.multicast = multicast

    @property
    def key(self) -> tuple[object, ...]:
        """Everything except the array."""
        return self.op, self.smem_layout, self.tile, self.multicast

    def describe(self) -> tuple[ArrayInfo, TmaTiling]:
        """The array as it is now, and its boxes; LayoutError (B5) if TMA cannot copy it."""
        info = arrays.describe(self.array)
        if info is None:
            raise ArgumentError(f"make_tma_copy({self.op}) takes an array, not a {type(self.array).__qualname__}")
        if 0 in info.strides or info.strides.count(1) > 1:
            info = info._replace(strides=arrays.natural_strides(info.shape, info.strides))
        return info, _tiling(self.op, info.dtype, info.shape, info.strides, info.ptr % _PART, self.smem_layout,
                             self.tile, self.multicast)

    def __repr__(self) -> str:
        return f"TmaCopy({self.op}, tiles {self.smem_layout})"


@boundary
def make_tma_copy(atom: TmaOp, array: Any, smem_layout: Layout | ComposedLayout | Any,
                  tile: tuple[int, ...] | None = None, multicast: int = 1) -> TmaCopy:
    """A TMA copy of an array, for a kernel to take; ``smem_layout`` says how a tile lies in shared memory.

    Mode i of the tile runs along mode i of the array, unless ``tile`` says otherwise.  ``tile`` is the extent of a tile
    along each mode of the array, and the layout takes the tile's elements in the order of their coordinates.  The
    layout is plain, or has a swizzle as ``mo.smem_layout_atom`` makes it.  It must be contiguous along the mode that
    the array is contiguous along.  Along a mode of stride 0 a tile repeats what it has, and can only be loaded; with
    one element there, it is the same for every coordinate.  Modes without a gap between them merge where the map has
    to have fewer than the array.  With ``multicast`` n, each of n blocks of a cluster loads an n-th of a tile for all
    of them.  With ``TmaLoadIm2col`` the array is images, and a tile (outputs, channels) of the matrix that a filter
    makes of them.
    """
    if not isinstance(atom, TmaOp):
        raise ArgumentError(f"make_tma_copy: {atom!r} is no TMA operation",
                            hint="mo.TmaLoad(), mo.TmaStore() or mo.TmaReduceAdd()")
    if not isinstance(smem_layout, (Layout, ComposedLayout)):
        smem_layout = make_layout(smem_layout)
    if tile is not None and not (isinstance(tile, tuple) and all(isinstance(x, int) and x > 0 for x in tile)):
        raise ArgumentError(f"make_tma_copy: the tile {tile!r} is no tuple of positive integers")
    if not isinstance(multicast, int) or not 1 <= multicast <= 16:
        raise ArgumentError(f"make_tma_copy: multicast to 1 to 16 blocks, not {multicast!r}")
    if multicast > 1 and atom.kind != "load":
        raise ArgumentError(f"make_tma_copy: only loads are multicast, not {atom}")
    copy = TmaCopy(atom, array, smem_layout, tile, multicast)
    copy.describe()
    return copy


@functools.lru_cache(4096)
def _tiling(op: TmaOp, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], above: int,
            layout: Layout | ComposedLayout, tile: tuple[int, ...] | None, multicast: int) -> TmaTiling:
    """The boxes of an array that begins ``above`` bytes after a multiple of 16; made once for each."""
    if isinstance(op, TmaLoadIm2col):
        return _of_images(op, dtype, shape, strides, above, layout, tile, multicast)
    if isinstance(op, GATHERED) and multicast != 1:
        raise ArgumentError(f"make_tma_copy({op}): rows at any indices go to one block, not to {multicast}")
    classes = tuple(s if s == 1 or (s == 0 and n > 1) else None for n, s in zip(shape, strides, strict=True))
    asked = f"make_tma_copy({op}) of a {dtype} array ({','.join(map(str, shape))}):({','.join(map(str, strides))})"

    def made(groups: tuple[Group, ...] | None, classes: tuple[int | None, ...]) -> TmaTiling:
        if isinstance(op, GATHERED):
            found = rows_tiling(op, dtype, classes, layout, tile)
        else:
            found = tma_tiling(op, dtype, classes, layout, tile, multicast, groups)
        _require_reachable(asked, shape, strides, found.map)
        return found

    try:
        tiling = made(None, classes)
    except LayoutError:
        merged = None if isinstance(op, GATHERED) else _with_fewest(made, shape, strides, classes, layout, tile)
        if merged is None:
            raise
        tiling = merged
    if op.kind != "load" and 0 in classes:
        raise LayoutError(f"{asked}: mode {classes.index(0)} has stride 0, and several tiles would be written to one "
                          "place", code="B5", hint="write into an array of its own, and add up")
    row = tiling.map.dimensions(shape, strides)[0][0] * dtype.bits // 8
    if op.kind != "load" and row % _PART:
        raise LayoutError(f"{asked}: its rows have {row} bytes, and TMA writes whole parts of {_PART} bytes: what lies "
                          f"behind each row would be overwritten", code="B5",
                          hint=f"store a multiple of {_PART * 8 // dtype.bits} elements, the padding included")
    _require_aligned(asked, above)
    return tiling


def _of_images(op: TmaLoadIm2col, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], above: int,
               layout: Layout | ComposedLayout, tile: tuple[int, ...] | None, multicast: int) -> TmaTiling:
    """The boxes of images (images, pixels..., channels) in im2col mode."""
    asked = f"make_tma_copy({op}) of a {dtype} array ({','.join(map(str, shape))}):({','.join(map(str, strides))})"
    if len(shape) != len(op.filter) + 2:
        raise LayoutError(f"{asked}: the array has {len(shape)} modes, and with a filter {op.filter} it has "
                          f"{len(op.filter) + 2}: images, pixels and channels", code="B5")
    if strides[-1] != 1:
        raise LayoutError(f"{asked}: channels lie {strides[-1]} apart, and TMA takes images with the channels of a "
                          "pixel side by side", code="B5", hint="channels are the last mode and contiguous (NHWC)")
    tiling = im2col_tiling(op, dtype, layout, tile, multicast)
    _require_reachable(asked, shape, strides, tiling.map)
    if min(op.outputs(shape[1:-1])) < 1:
        raise LayoutError(f"{asked}: a filter that reaches {op.reach} fits in no place of padded images", code="B5")
    _require_aligned(asked, above)
    return tiling


def _require_aligned(asked: str, above: int) -> None:
    if above:
        raise LayoutError(f"{asked}: its first element lies {above} bytes behind a multiple of {_PART}, and TMA needs "
                          "it at one", code="B5", hint="pass a copy, or a slice that begins at such a place")


def _require_reachable(asked: str, shape: tuple[int, ...], strides: tuple[int, ...], tensor_map: TensorMap) -> None:
    """B5: what a tensor map requires of extents and strides."""
    for mode, extent in enumerate(shape):
        if not 1 <= extent < _MOST:
            raise LayoutError(f"{asked}: extent {extent} of mode {mode}, and TMA takes 1 to {_MOST - 1}", code="B5")
    itemsize = tensor_map.dtype.bits // 8
    for d, (modes, (extent, stride)) in enumerate(zip(tensor_map.modes, tensor_map.dimensions(shape, strides),
                                                      strict=True)):
        apart = stride * itemsize
        if extent >= _MOST:
            raise LayoutError(f"{asked}: modes {modes} have {extent} elements, and TMA takes {_MOST - 1}", code="B5")
        if d and extent > 1 and (apart % _PART or not 0 <= apart < 1 << 40):
            pad = f"pad its rows to a multiple of {_PART // itemsize} elements"
            raise LayoutError(f"{asked}: stride {stride} of mode {modes} is {apart} bytes, and TMA takes multiples of "
                              f"{_PART} below 2^40", code="B5", hint="pass a copy" if stride < 0 else pad)


# --- modes that merge ------------------------------------------------------------------------------------------------


def _with_fewest(made: Callable[[tuple[Group, ...], tuple[int | None, ...]], TmaTiling], shape: tuple[int, ...],
                 strides: tuple[int, ...], classes: tuple[int | None, ...], layout: Layout | ComposedLayout,
                 tile: tuple[int, ...] | None) -> TmaTiling | None:
    """The boxes with the fewest modes merged, of these the fewest boxes; None if none can be made.

    Source: CuTe, cute/atom/copy_traits_sm90_tma.hpp, construct_tma_gbasis, which merges as many as it can.
    """
    extents = tile_extents(layout, tile, len(shape))
    if len(extents) > len(shape):
        return None
    single = [mode for mode, extent in enumerate(shape) if extent == 1 == extents[mode]]
    there = [mode for mode in range(len(shape)) if mode not in single and (classes[mode] != 0 or extents[mode] > 1)]
    rest = sorted(there, key=lambda mode: (strides[mode], mode))
    links = _links(rest, shape, strides, extents)
    own = tuple(None if mode in single else stride for mode, stride in enumerate(classes))
    for count in range(1, len(links) + len(single) + 1):
        found = []
        for chosen in itertools.combinations([*links.items(), *((mode, None) for mode in single)], count):
            with contextlib.suppress(LayoutError):
                found.append(made(_groups(rest, single, dict(chosen)), own))
        if found:
            return min(found, key=lambda tiling: len(tiling.boxes))
    return None


def _links(modes: list[int], shape: tuple[int, ...], strides: tuple[int, ...],
           extents: tuple[int, ...]) -> dict[int, int]:
    """For each mode the one that may follow it in one dimension, so that a tile is still a run of that.

    A tile has all of the inner mode, or one element of the outer one.  It has a divisor of the inner mode, so that it
    lies inside of it or outside as a whole.
    """
    found: dict[int, int] = {}
    for inner, outer in itertools.permutations(modes, 2):
        follows = strides[outer] == strides[inner] * shape[inner] and strides[inner] > 0
        whole = extents[outer] == 1 or extents[inner] == shape[inner]
        if follows and whole and shape[inner] % extents[inner] == 0 and inner not in found \
                and outer not in found.values():
            found[inner] = outer
    return found


def _groups(modes: list[int], single: list[int], chosen: dict[int, int | None]) -> tuple[Group, ...]:
    """The dimensions of a map: chains of the chosen links.  Modes of one element join the last as its innermost."""
    joined = [mode for mode in single if mode in chosen]
    groups, followers = [], {mode for mode in chosen.values() if mode is not None}
    for mode in modes:
        if mode in followers:
            continue
        chain = [mode]
        while (outer := chosen.get(chain[-1])) is not None:
            chain.append(outer)
        groups.append(tuple(chain))
    groups += [(mode,) for mode in single if mode not in chosen]
    if joined:
        last = groups.pop() if groups else ()
        groups.append((*joined, *last))
    return tuple(groups)
