"""The boxes in which TMA copies a tile of shared memory, derived from the tile's layout.

In: an operation, a dtype, which modes of the array have unit stride, the layout of one tile.  Out: ``TmaTiling``.

>>> tma_tiling(TmaLoad(), float16, (None, 1), ComposedLayout.parse("Sw<3,3,3> o 0 o (128,64):(64,1)"), None, 1).map
TensorMap(dtype=float16, modes=(1, 0), box=(64, 128), swizzle=128, promotion=128)

TMA writes a box with its dimensions one after the other, the array's unit stride first.  Then it swaps 16-byte parts of
the box: address bits 4 to 6 are XORed with bits 7 to 9 (two of them for 64 bytes, one for 32).  Source: CUDA C++
Programming Guide, Tensor Memory Access; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moye.atoms.tma import TensorMap, TmaLoad, TmaOp
from moye.dtypes import DType
from moye.errors import DTypeError, LayoutError
from moye.layout import ComposedLayout, Layout, coalesce, composition, is_injective, make_layout, rank, size
from moye.layout.tuples import zip_leaves

AnyLayout = Layout | ComposedLayout
Leaves = list[tuple[int, int]]
"""The (extent, stride) of a mode's parts; each begins where the coordinates of those before it end."""
Group = tuple[int, ...]
"""Modes of an array that are one dimension of its map, the innermost first; mostly one."""

MAX_BOX, MAX_RANK = 256, 5
_ALIGN, _PART, _MOST_BOXES = 128, 16, 256
_MERGING = ("two modes of an array without a gap between them merge if tiles have all of the inner one, or one element "
            "of the outer one and a divisor of the inner one")


@dataclass(frozen=True, slots=True)
class TmaBox:
    """One box of a tile: its first element along each dimension of the map, and its offset in shared memory."""

    coordinates: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class TmaTiling:
    """The static part of a TMA copy: element i of a tile, in the order of its coordinates, lies at ``layout(i)``.

    ``tile`` has the tile's extent along each mode of the array.  A tile in shared memory is aligned to ``align`` bytes.
    With ``multicast`` n, a block copies only the n-th part of each box.  Parts lie ``part`` apart: (dimension of the
    box, coordinates, elements of shared memory).  ``along`` are the modes of the copy's coordinates that each dimension
    of a box runs along: those of the array, except in im2col mode.
    """

    op: TmaOp
    map: TensorMap
    layout: AnyLayout
    tile: tuple[int, ...]
    boxes: tuple[TmaBox, ...]
    align: int
    multicast: int = 1
    part: tuple[int, int, int] = (0, 0, 0)
    along: tuple[int | Group, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of one tile, for which an mbarrier of its loads waits."""
        return math.prod(self.tile) * self.map.dtype.bits // 8

    def __str__(self) -> str:
        return f"{self.op} of {self.map.dtype} tiles {self.layout}"


@functools.lru_cache(1024)
def tma_tiling(op: TmaOp, dtype: DType, strides: tuple[int | None, ...], layout: AnyLayout,
               tile: tuple[int, ...] | None, multicast: int, groups: tuple[Group, ...] | None = None) -> TmaTiling:
    """The boxes of a tile; LayoutError (B5) if TMA cannot copy it.

    ``strides`` holds 1 for unit strides, and 0 for modes along which the array repeats itself; the map leaves these
    out where a tile has one element along them.  ``groups`` are modes that are merged.
    """
    asked = f"make_tma_copy({op}) of a {dtype} array and tiles {layout}"
    if not op.takes(dtype):
        raise DTypeError(f"{asked}: there is no {str(op).removesuffix('()')} of {dtype}")
    span = _span(asked, dtype, layout)
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    modes, extents = _modes(asked, inner, len(strides), tile)
    groups = groups or tuple((mode,) for mode, stride in enumerate(strides) if stride != 0 or extents[mode] > 1)
    if not 1 <= len(groups) <= MAX_RANK:
        raise _broken(asked, f"the array has {len(groups)} modes, and TMA takes 1 to {MAX_RANK}", _MERGING)
    leaves = {group: _joined([leaf for mode in group for leaf in modes[mode]]) for group in groups}
    dims = _dimensions(asked, dtype, leaves, _unit(asked, strides, leaves), span)
    boxes, align = _boxes(leaves, dims), max(_ALIGN, 8 * span)
    _require_places(asked, dtype, boxes, align)
    part = (0, 0, 0)
    if multicast != 1:
        dims, part = _parts(asked, dtype, dims, multicast, align)
    along = tuple(group[0] if len(group) == 1 else group for group, _ in dims)
    box = TensorMap(op.in_shared(dtype), along, tuple(extent for _, extent in dims), span,
                    *((op.prefetch, op.outside) if isinstance(op, TmaLoad) else ()))
    return TmaTiling(op, box, layout, extents, boxes, align, multicast, part, along)


def tile_extents(layout: AnyLayout, tile: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """The extents of a tile along ``count`` modes of an array, of which a layout or a tile names the first."""
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    own = tile or tuple(_number(size(inner, mode)) for mode in range(rank(inner)))
    return own + (1,) * (count - len(own))


def _broken(asked: str, why: str, hint: str | None = None) -> LayoutError:
    return LayoutError(f"{asked}: {why}", hint=hint, code="B5")


def _span(asked: str, dtype: DType, layout: AnyLayout) -> int:
    """The bytes of a row whose parts the layout's swizzle permutes: 128, 64, 32, or 0 without a swizzle."""
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return 0
    swizzle, together = layout.swizzle, _PART * 8 // dtype.bits
    if layout.offset != 0:
        raise _broken(asked, f"the tile begins at offset {layout.offset} of its swizzle, and TMA needs 0")
    # CU_TENSOR_MAP_SWIZZLE_32B, 64B, 128B: TMA permutes chunks of 16 bytes, by 1, 2 or 3 bits that lie 3 above the
    # chunk's.
    if (1 << swizzle.base) != together or swizzle.shift != 3 or swizzle.bits > 3:
        base = together.bit_length() - 1
        raise _broken(asked, f"TMA has no swizzle {swizzle} of {dtype}", hint="it has " + ", ".join(
            f"Sw<{bits},{base},3>" for bits in (1, 2, 3)) + ", as mo.smem_layout_atom makes them")
    return _PART << swizzle.bits


def _modes(asked: str, inner: Layout, count: int, tile: tuple[int, ...] | None) -> tuple[list[Leaves], tuple[int, ...]]:
    """The parts of the tile along each mode of the array, and its extents."""
    if not is_static(inner):
        raise _broken(asked, "the layout of the tile must be static")
    tile = tile_extents(inner, tile, count)
    if len(tile) > count or math.prod(tile) != size(inner):
        raise _broken(asked, f"a tile {tile} of an array of {count} modes is not the {size(inner)} elements of {inner}")
    if not is_injective(inner):
        raise _broken(asked, "several elements of the tile lie at one place of shared memory")
    try:
        whole = composition(inner, make_layout(tile))
    except LayoutError as error:
        raise _broken(asked, f"it has no modes of {tile} elements ({error.message})") from None
    return [[(_number(e), _number(s)) for e, s in zip_leaves(part.shape, part.stride) if e != 1]
            for part in (coalesce(whole.mode(mode)) for mode in range(count))], tile


def is_static(layout: Layout) -> bool:
    """Whether all extents and strides are known."""
    return all(isinstance(e, int) and isinstance(s, int) for e, s in zip_leaves(layout.shape, layout.stride))


def _number(x: Any) -> int:
    assert isinstance(x, int), "a static layout has integers"
    return x


def _joined(leaves: Leaves) -> Leaves:
    """Neighbours that follow each other without a gap are one."""
    found: Leaves = []
    for extent, stride in leaves:
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = (found[-1][0] * extent, found[-1][1])
        else:
            found.append((extent, stride))
    return found


def _unit(asked: str, strides: Sequence[int | None], leaves: dict[Group, Leaves]) -> Group:
    """The dimension along which the array and the tile are contiguous."""
    found = [group for group in leaves if any(strides[mode] == 1 for mode in group)]
    if not found:
        raise _broken(asked, "no mode of the array has stride 1", hint="pass a contiguous copy")
    both = [group for group in found if leaves[group] and leaves[group][0][1] == 1]
    if both:
        return both[0]
    own = next((group[0] for group, parts in leaves.items() if parts and parts[0][1] == 1), None)
    tiles = "along no mode" if own is None else f"along mode {own}"
    mode = found[0][0]
    raise _broken(asked, f"the array is contiguous along mode {mode} and the tile {tiles}, but TMA does not "
                         "transpose", hint=f"make the tile's layout contiguous along mode {mode}")


def _dimensions(asked: str, dtype: DType, leaves: dict[Group, Leaves], unit: Group,
                span: int) -> list[tuple[Group, int]]:
    """The (modes, extent) of each dimension of a box: as many as follow each other without a gap in the tile."""
    run = leaves[unit][0][0]
    row = span * 8 // dtype.bits
    if span and run % row:
        raise _broken(asked, f"rows of {run * dtype.bits // 8} bytes are no multiple of the {span} bytes that the "
                             "swizzle works on", hint=f"mo.smem_layout_atom(..., bytes={span}) has such rows")
    together = _PART if run <= MAX_BOX else _ALIGN      # boxes side by side begin at whole lines
    inner = row or _fitting(run, math.gcd(run, together * 8 // dtype.bits))
    if inner * dtype.bits // 8 % _PART:
        raise _broken(asked, f"the tile has runs of {inner * dtype.bits // 8} bytes along mode {unit[0]}, and TMA "
                             f"copies multiples of {_PART}", _MERGING)
    dims, reached = [(unit, inner)], inner
    # TMA packs a box without gaps, so a mode joins it only if its stride is what the box holds so far.
    rest = [group for group in leaves if group != unit]
    while following := [group for group in rest if leaves[group] and leaves[group][0][1] == reached]:
        group = following[0]
        extent = _fitting(leaves[group][0][0])
        dims.append((group, extent))
        rest.remove(group)
        reached *= extent
    return [*dims, *((group, 1) for group in rest)]


def _fitting(extent: int, of: int = 1) -> int:
    """The largest multiple of ``of`` that divides an extent and that a box can have."""
    return next(part for part in range(min(extent, MAX_BOX), 0, -1) if extent % part == 0 and part % of == 0)


def _boxes(leaves: dict[Group, Leaves], dims: list[tuple[Group, int]]) -> tuple[TmaBox, ...]:
    """Every box of the tile, in the order of their places."""
    steps: list[tuple[int, int, int, int]] = []         # (count, dimension, coordinates apart, elements apart)
    for d, (group, extent) in enumerate(dims):
        step = 1
        for n, (count, stride) in enumerate(leaves[group]):
            inside = extent if n == 0 else 1
            steps.append((count // inside, d, step * inside, stride * inside))
            step *= count
    boxes = []
    for at in itertools.product(*(range(count) for count, *_ in steps)):
        coordinates = [0] * len(dims)
        offset = 0
        for i, (_, d, coordinate, stride) in zip(at, steps, strict=True):
            coordinates[d] += i * coordinate
            offset += i * stride
        boxes.append(TmaBox(tuple(coordinates), offset))
    return tuple(sorted(boxes, key=lambda box: box.offset))


def _require_places(asked: str, dtype: DType, boxes: tuple[TmaBox, ...], align: int) -> None:
    for box in boxes:
        if (at := box.offset * dtype.bits // 8) % align:
            raise _broken(asked, f"its boxes begin at multiples of {align} bytes, but one would at byte {at}",
                          hint="give the tile a compact or a swizzled layout: TMA leaves no gaps")
    if len(boxes) > _MOST_BOXES:
        raise _broken(asked, f"it takes {len(boxes)} boxes, and at most {_MOST_BOXES} are issued for a tile",
                      hint=f"a box takes rows that follow each other without a gap, of at most {MAX_BOX} elements")


def _parts(asked: str, dtype: DType, dims: list[tuple[Group, int]], count: int,
           align: int) -> tuple[list[tuple[Group, int]], tuple[int, int, int]]:
    """The dimensions of one part of a box, and how far the parts lie apart."""
    # Split along the slowest dimension: each part is one run of shared memory then.
    last = max(d for d, (_, extent) in enumerate(dims) if extent > 1)
    group, extent = dims[last]
    apart = math.prod(e for _, e in dims) // max(count, 1)
    if count < 1 or not last or extent % count or apart * dtype.bits // 8 % align:
        raise _broken(asked, f"boxes of {' x '.join(str(e) for _, e in dims)} elements have no {count} parts that each "
                             f"begin at a multiple of {align} bytes")
    return [*dims[:last], (group, extent // count), *dims[last + 1:]], (last, extent // count, apart)
