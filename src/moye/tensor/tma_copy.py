"""Copies by TMA in a kernel: the object that a TMA copy argument becomes, and what ``copyto`` makes from it.

In: a ``TmaTensor``, a tile of shared memory, a tile of its coordinates.  Out: one ``ops.TmaCopy`` for each box.

    gA = mo.tile(tma_A.tensor, (bM, bK), (bx, None))            # (bM, bK, k): coordinates
    mo.copyto(tma_A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))

Nothing here waits: loads complete on their mbarrier, stores at the thread's bulk wait.
"""

from __future__ import annotations

import typing
from math import prod
from typing import Any
from typing import Literal as OneOf

from moye.atoms.tma import GATHERED, ROWS, TmaLoadIm2col, TmaOp, TmaReduce
from moye.dtypes import DType, Space, int32, int64, uint16, uint32, uint64
from moye.errors import AlignmentError, DTypeError, TensorError
from moye.ir import ops
from moye.ir.nodes import Buffer, Operand, Ref
from moye.layout import ComposedLayout, Int, Layout, ScaledBasis, coalesce, make_layout, rank
from moye.layout.tuples import zip_leaves
from moye.tensor.accesses import judge
from moye.tensor.context import builder, locate
from moye.tensor.coords import CoordTensor, identity_tensor
from moye.tensor.expr import Expr, Scalar, can_guard, operand_of, where
from moye.tensor.gathered_rows import Rows, rows_of
from moye.tensor.im2col import im2col_box, im2col_shape
from moye.tensor.slices import normalise
from moye.tensor.tensor import Tensor, index_operand
from moye.tensor.tma_boxes import TmaBox, TmaTiling

Hint = OneOf["evict_first", "evict_last"]
_PART = 16
_KINDS = {"load": "load", "store": "store", "reduce": "reduction"}


class TmaTensor:
    """A TMA copy in a kernel: ``tensor`` has the coordinates of its array, and ``bytes`` is the size of one tile.

    ``tile`` has the extents of a tile; ``dtype`` and ``smem_layout`` describe a tile in shared memory.  ``shape`` is
    that of the array.
    """

    __slots__ = ("buffer", "map", "name", "shape", "tiling")

    def __init__(self, tiling: TmaTiling, buffer: Buffer, shape: tuple[Any, ...], name: str,
                 map: Ref | None = None) -> None:
        self.tiling = tiling
        self.buffer = buffer
        self.shape = shape
        self.name = name
        self.map = map
        """Where its tensor map is, if it is not the one of the launch."""

    @property
    def tensor(self) -> CoordTensor:
        """The coordinates: of the array, or in im2col mode of the matrix (outputs, channels, places of the filter)."""
        op = self.tiling.op
        shape = im2col_shape(op, self.shape) if isinstance(op, TmaLoadIm2col) else self.shape
        whole = identity_tensor(shape)
        return CoordTensor(whole.layout, whole.offset, self.name, ragged=True)

    def rows(self, indices: Any, start: Scalar = 0) -> Rows:
        """The rows of these indices, from their element ``start`` on, for ``TmaGather4`` and ``TmaScatter4``.

        ``indices`` are a tensor or a tuple of integers, one for each row of a tile.  A row that the array does not have
        reads as zero; one behind the last is not written.  A store takes no row twice, and none below zero (B5).
        """
        if not isinstance(self.tiling.op, GATHERED):
            raise TensorError(f"{self.name}.rows: {self.tiling.op} copies tiles of rows that follow each other",
                              hint="mo.TmaGather4() and mo.TmaScatter4() copy rows at any indices", locs=(locate(),))
        return rows_of(self.name, self.tiling, indices, start)

    def at(self, slot: Tensor, shape: tuple[Scalar, ...] | None = None) -> TmaTensor:
        """The copy by the tensor map at ``slot`` in global memory, of an array of this shape; see ``update_tensormap``.

        ``slot`` is 16 elements of int64 or uint64, 128 bytes that begin at a multiple of 128.  Without ``shape`` the
        array has that of this copy's.
        """
        require_plain(f"{self.name}.at", self)
        shape = self.shape if shape is None else shape
        if not isinstance(shape, tuple) or len(shape) != len(self.shape):
            raise TensorError(f"{self.name}.at: the shape {shape!r} is none of an array of {len(self.shape)} modes",
                              locs=(locate(),))
        return TmaTensor(self.tiling, self.buffer, shape, self.name,
                         slot_of(f"{self.name}.at", slot, Space.GLOBAL))

    @property
    def label(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        return self.tiling.bytes

    @property
    def tile(self) -> tuple[int, ...]:
        return self.tiling.tile

    @property
    def dtype(self) -> DType:
        return self.tiling.map.dtype

    @property
    def smem_layout(self) -> Layout | ComposedLayout:
        return self.tiling.layout

    def __repr__(self) -> str:
        return f"{self.name}: {self.tiling}" + ("" if self.map is None else f", by a map in {self.map.buffer.name}")


def prefetch_tensormap(tma: TmaTensor) -> None:
    """Fetch the tensor map of a TMA copy, so that the first copy need not wait for it; one thread calls it."""
    if not isinstance(tma, TmaTensor):
        raise TensorError(f"prefetch_tensormap takes a TMA copy, not a {type(tma).__name__}", locs=(locate(),))
    builder().emit(ops.TmaCopy(kind="prefetch", tensor=tma.buffer, smem=None, coordinates=(), map=tma.map))


def copy_tma(tma: TmaTensor, places: tuple[object, ...], barrier: tuple[Tensor, Int] | None,
             multicast: Scalar | None, hint: Any) -> None:
    """Copy one tile, box by box.  ``places`` are (dst, src): for a load the shared tile and the coordinates."""
    load = tma.tiling.op.kind == "load"
    if len(places) != 2:
        raise TensorError(f"copyto takes (tma, dst, src), not {len(places) + 1} arguments", locs=(locate(),))
    tile, coordinates = places if load else places[::-1]
    smem, first = _tile(tma, tile, load), _first(tma, coordinates)
    _check_options(tma, load, barrier, multicast, hint)
    if not load:
        tma.buffer.written = True
    judge(smem, write=load)
    offset: Any = 0
    if tma.tiling.multicast > 1:
        assert multicast is not None, "checked with the options"
        part, (d, apart, elements) = _part(multicast), tma.tiling.part
        first[d] = first[d] + part * apart
        offset = part * elements
    for box in tma.tiling.boxes:
        at, offsets = _box(tma, _at_box(first, box, coordinates), "copyto")
        builder().emit(ops.TmaCopy(
            kind=tma.tiling.op.kind, by=_by(tma.tiling.op), tensor=tma.buffer, coordinates=at, offsets=offsets,
            gathered=isinstance(coordinates, Rows), map=tma.map,
            smem=Ref(smem.buffer, index_operand(smem.offset + offset + box.offset), smem.dtype),
            barrier=None if barrier is None else barrier_ref(f"a load with {tma.label}", barrier),
            multicast=None if multicast is None else operand_of(multicast, uint16),
            hint=hint))


def _by(op: TmaOp) -> Any:
    return op.by if isinstance(op, TmaReduce) else "add"


def prefetch_boxes(tma: TmaTensor, coordinates: object, hint: Any) -> None:
    """Fetch one tile to the L2 cache, box by box, including the parts of other blocks."""
    first, (dimension, apart, _) = _first(tma, coordinates, "prefetch"), tma.tiling.part
    check_hint("prefetch", hint)
    for box in tma.tiling.boxes:
        for part in range(tma.tiling.multicast):
            at = _at_box(first, box, coordinates)
            at[dimension] = at[dimension] + part * apart
            place, offsets = _box(tma, at, "prefetch")
            builder().emit(ops.TmaCopy(kind="prefetch_box", tensor=tma.buffer, smem=None, hint=hint, coordinates=place,
                                       offsets=offsets, gathered=isinstance(coordinates, Rows), map=tma.map))


def _at_box(first: list[Any], box: TmaBox, coordinates: object) -> list[Any]:
    """The coordinates of a box's first element; where rows are named, those of its four rows in place of their mode."""
    if isinstance(coordinates, Rows):
        column, row = box.coordinates
        return [first[0] + column, *coordinates.indices[row:row + ROWS]]
    return [start + step for start, step in zip(first, box.coordinates, strict=True)]


def _box(tma: TmaTensor, first: list[Any], asked: str) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The coordinates of a box as the instruction takes them, and in im2col mode its offsets."""
    coordinates: tuple[Any, ...] = tuple(first)
    offsets: tuple[Any, ...] = ()
    if isinstance(tma.tiling.op, TmaLoadIm2col):
        coordinates, offsets = im2col_box(tma.tiling, tma.shape, first)
    _require_begin(tma, coordinates, asked)
    return (tuple(_coordinate(x) for x in coordinates),
            tuple(builder().cast(_coordinate(x), uint16) for x in offsets))


def _require_begin(tma: TmaTensor, first: tuple[Any, ...], asked: str) -> None:
    """B5: what TMA requires of a box's first coordinates, as far as they are known; the simulator sees the others."""
    known = [x if isinstance(x, int) else None for x in first]
    if known[0] is not None and (start := known[0] * tma.dtype.bits // 8) % _PART:
        raise TensorError(f"{asked}: a box of {tma.label} begins {start} bytes from the beginning of a row, and TMA "
                          f"takes multiples of {_PART}", locs=(locate(),), code="B5")
    if tma.tiling.op.kind != "load" and any(x is not None and x < 0 for x in known):
        raise TensorError(f"{asked}: a box that {tma.label} writes begins at coordinate "
                          f"({', '.join('?' if x is None else str(x) for x in known)}), and it must not begin before "
                          "the tensor", locs=(locate(),), code="B5")


def _coordinate(x: Any) -> Operand:
    """A coordinate of 32 bits, as TMA takes it."""
    return builder().cast(operand_of(x, int32), int32) if isinstance(x, int) else builder().cast(x.operand, int32)


def _part(mask: Scalar) -> Expr:
    """The part of a box that belongs to this block: its place among the blocks of the mask."""
    b = builder()
    rank_here = b.cast(b.special("cluster_rank", lower=0, upper=15), uint32)
    one = operand_of(1, uint32)
    below = b.binary("sub", b.binary("shl", one, b.cast(rank_here, int32)), one)
    wide = b.cast(operand_of(mask, uint16), uint32)
    place = b.unary("popcount", b.binary("and", wide, below))
    return Expr(b.cast(place, b.index))


# --- tensor maps that the kernel changes -----------------------------------------------------------------------------


_WORDS, _MAP = 16, 128


def slot_of(asked: str, slot: object, space: Space) -> Ref:
    """The place of a tensor map in global or shared memory."""
    if not isinstance(slot, Tensor) or slot.space is not space or slot.dtype not in (uint64, int64):
        shown = repr(slot) if isinstance(slot, Tensor) else f"a {type(slot).__name__}"
        raise TensorError(f"{asked}: a tensor map in {space.value} is {_WORDS} elements of int64 or uint64 there, not "
                          f"{shown}", locs=(locate(),), hint="mo.tensormap_array(n)[:, i]" if space is Space.SHARED
                          else "workspace[i, :] of an array (n, 16) of int64")
    run = coalesce(slot.layout)
    if slot.swizzle is None and rank(run) == 1 and run.stride == 1 and isinstance(run.shape, Expr):
        _require_words(asked, slot, run.shape)
    elif slot.swizzle is not None or run != make_layout(_WORDS):
        raise TensorError(f"{asked}: a tensor map is {_WORDS} elements one after the other, and {slot.label} has "
                          f"layout {slot.layout}", locs=(locate(),), hint="slice one map")
    if space is Space.SHARED:
        slot.buffer.align = max(slot.buffer.align, _MAP)
        if slot.alignment % _MAP:
            raise AlignmentError(f"{asked}: a tensor map begins at a multiple of {_MAP} bytes, and {slot.label} is "
                                 f"known to begin at one of {slot.alignment} only", locs=(locate(),), code="B5",
                                 hint="mo.tensormap_array(n)[:, i]")
    return Ref(slot.buffer, index_operand(slot.offset), slot.dtype)


def _require_words(asked: str, slot: Tensor, extent: Expr) -> None:
    """The launch checks that there are whole maps, wherever in the kernel this is asked."""
    text = f"{asked}: a tensor map is {_WORDS} elements one after the other, and {slot.label} has {{extent}}"
    whole = extent % _WORDS == 0
    if isinstance(whole, Expr) and can_guard(whole.operand, conditional=True):
        builder().guard(whole.operand, text, {"extent": extent.operand})
    else:
        extent.require_divisible(_WORDS, text.replace("{extent}", "{value}"))


def require_plain(asked: str, tma: TmaTensor) -> None:
    """Check that the map has a dimension for each mode of the array, and is in tile mode."""
    modes = tma.tiling.map.modes
    if tma.tiling.map.window is not None or {*modes} != {*range(len(tma.shape))}:
        raise TensorError(f"{asked}: {tma.tiling.op} goes by a tensor map whose dimensions are modes {modes} of the "
                          "array, and only a map with a dimension for each mode is changed", locs=(locate(),))


# --- what fits -------------------------------------------------------------------------------------------------------


def _tile(tma: TmaTensor, tile: object, load: bool) -> Tensor:
    """The tile of shared memory, if the tensor map describes it and it is aligned as TMA needs."""
    if not isinstance(tile, Tensor) or tile.space is not Space.SHARED:
        shown = repr(tile) if isinstance(tile, (Tensor, CoordTensor)) else f"a {type(tile).__name__}"
        raise TensorError(f"copyto: {tma.label} {'loads into' if load else 'stores from'} a tensor in shared memory, "
                          f"not {shown}", locs=(locate(),))
    if tile.dtype.bits != tma.dtype.bits:
        raise DTypeError(f"copyto: {tma.label} copies {tma.dtype}, but {tile.label} holds {tile.dtype}",
                         locs=(locate(),))
    have, wanted = _whole(tile.layout, tile.swizzle), _whole(tma.smem_layout)
    if have != wanted:
        whole = tile.layout if tile.swizzle is None else ComposedLayout(tile.swizzle, 0, tile.layout)
        raise TensorError(f"copyto: {tma.label} copies tiles of layout {tma.smem_layout}, but {tile.label} has layout "
                          f"{whole}", hint="slice one stage of the shared tensor, and give make_tma_copy its layout",
                          locs=(locate(),))
    align = tma.tiling.align
    tile.buffer.align = max(tile.buffer.align, align)
    if tile.alignment % align:
        raise AlignmentError(f"copyto: TMA needs {tile.label} at a multiple of {align} bytes, but its first element is "
                             f"known to be at a multiple of {tile.alignment} bytes only",
                             hint=f"let the stages lie multiples of {align} bytes apart", locs=(locate(),), code="B5")
    return tile


def _whole(layout: Layout | ComposedLayout, swizzle: Any = None) -> tuple[object, str]:
    """A layout as a function of the linear index, so that equal functions compare equal."""
    if isinstance(layout, ComposedLayout):
        return _whole(layout.layout, layout.swizzle)
    return coalesce(layout), str(swizzle) if swizzle is not None and swizzle.bits else ""


def _first(tma: TmaTensor, coordinates: object, asked: str = "copyto") -> list[Any]:
    """The coordinates of a tile's first element, one for each dimension of the map; of rows that of the first alone."""
    if isinstance(tma.tiling.op, GATHERED):
        if not isinstance(coordinates, Rows):
            raise TensorError(f"{asked}: {tma.label} copies rows at any indices, and these are named by a "
                              f"{type(coordinates).__name__}", hint=f"{tma.label}.rows(indices)", locs=(locate(),))
        return [coordinates.start]
    if not isinstance(coordinates, CoordTensor):
        shown = repr(coordinates) if isinstance(coordinates, Tensor) else f"a {type(coordinates).__name__}"
        raise TensorError(f"{asked}: {tma.label} takes coordinates of its array, not {shown}",
                          hint=f"tile {tma.label}.tensor", locs=(locate(),))
    found: list[list[Any]] = []                         # [extent, basis], neighbours of one mode merged
    for extent, basis in zip_leaves(coordinates.layout.shape, coordinates.layout.stride):
        if found and isinstance(basis, ScaledBasis) and basis == found[-1][1] * found[-1][0]:
            found[-1][0] *= extent
        elif not (isinstance(extent, int) and extent == 1):
            found.append([extent, basis])
    wanted = [[extent, ScaledBasis(1, (mode,))] for mode, extent in enumerate(tma.tiling.tile) if extent != 1]
    if found != wanted or len(coordinates.offset) != len(tma.tiling.tile):
        raise TensorError(f"{asked}: {tma.label} copies tiles of {tma.tiling.tile}, but the coordinates are "
                          f"{coordinates.layout}", hint=f"mo.tile({tma.label}.tensor, {tma.tiling.tile}, ...)",
                          locs=(locate(),))
    return [coordinates.offset[modes] if isinstance(modes, int) else _merged(tma, coordinates.offset, modes, asked)
            for modes in tma.tiling.along]


def _merged(tma: TmaTensor, first: Any, modes: tuple[int, ...], asked: str) -> Any:
    """The coordinate of a tile along modes that the map has as one; outside if it is outside of an inner one.

    There it would be a tile of the next mode otherwise.  A tile is inside or outside as a whole, because it has a
    divisor of the inner modes' extents, and begins at a multiple of it.  A load that is outside begins before the
    array, at a multiple of 16 bytes as any tile.  A store must not begin there, and its rows are multiples of 16 bytes.
    """
    total, inside = first[modes[-1]], None
    for mode in reversed(modes[:-1]):
        at, extent = first[mode], tma.tiling.tile[mode]
        rest = at % extent
        if isinstance(rest, Expr) or rest != 0:
            raise TensorError(f"{asked}: {tma.label} merges modes {modes} of its array, so a tile must begin at a "
                              f"multiple of {extent} along mode {mode}, and {at} is not known to be one",
                              hint=f"mo.tile({tma.label}.tensor, {tma.tiling.tile}, ...)", locs=(locate(),))
        total = total * tma.shape[mode] + at
        here = (at >= 0) & (at < tma.shape[mode])
        inside = here if inside is None else inside & here
    load = tma.tiling.op.kind == "load"
    outside: Any = -prod(tma.tiling.tile[mode] for mode in modes) if load else prod(tma.shape[mode] for mode in modes)
    return total if inside is None else where(inside, total, outside)


def check_hint(asked: str, hint: object) -> None:
    """An L2 policy by name, or none."""
    if hint is not None and hint not in typing.get_args(Hint):
        raise TensorError(f'{asked}: the hint is "evict_first" or "evict_last", not {hint!r}', locs=(locate(),))


def check_mask(asked: str, multicast: object) -> None:
    """Check that a mask of blocks is an integer, and that a static one has only blocks of the cluster."""
    whole = not multicast.dtype.is_float if isinstance(multicast, Expr) else hasattr(multicast, "__index__")
    if multicast is not None and not whole:
        raise DTypeError(f"{asked}: multicast={multicast} is no integer", locs=(locate(),), hint="multicast=0b11")
    cluster = builder().func.cluster_dim
    blocks = prod(cluster)
    if isinstance(multicast, int) and not 0 < multicast < 1 << blocks:
        named = f"block {multicast.bit_length() - 1} of a cluster of {cluster}" if multicast > 0 else "no block"
        raise TensorError(f"{asked}: the mask {int(multicast):#b} names {named}", code="D20", locs=(locate(),),
                          hint="kernel.launch(..., cluster=) makes clusters" if blocks == 1 else None)


def _check_options(tma: TmaTensor, load: bool, barrier: object, multicast: Scalar | None, hint: str | None) -> None:
    check_hint("copyto", hint)
    if load != (barrier is not None):
        what = "needs the mbarrier that it completes on" if load else "completes with its bulk group, on no mbarrier"
        raise TensorError(f"copyto: a {_KINDS[tma.tiling.op.kind]} with {tma.label} {what}", locs=(locate(),),
                          hint="barrier=(bars, i)" if load else "leave out barrier=")
    if multicast is not None and isinstance(tma.tiling.op, GATHERED):
        raise TensorError(f"copyto: {tma.label} copies rows at any indices, which go to one block", locs=(locate(),))
    if multicast is not None and not load:
        raise TensorError(f"copyto: only loads are multicast, and {tma.label} is a {tma.tiling.op}", locs=(locate(),))
    if tma.tiling.multicast > 1 and multicast is None:
        raise TensorError(f"copyto: {tma.label} is made for {tma.tiling.multicast} blocks that each load a part of a "
                          "tile for all of them, so the copy needs their mask", hint="multicast=0b11", locs=(locate(),))
    blocks = tma.tiling.multicast
    if isinstance(multicast, int) and blocks > 1 and multicast.bit_count() != blocks:
        raise TensorError(f"copyto: {tma.label} is made for {blocks} blocks, but the mask {multicast:#b} has "
                          f"{multicast.bit_count()}", locs=(locate(),), code="D20")
    check_mask("copyto", multicast)


def barrier_ref(what: str, barrier: object) -> Ref:
    """The mbarrier (bars, i) on which a copy completes."""
    if not isinstance(barrier, (tuple, list)) or len(barrier) != 2:
        kind = type(barrier).__name__
        shown = f"a {kind} of {len(barrier)}" if isinstance(barrier, (tuple, list)) else f"a {kind}"
        raise TensorError(f"copyto: the mbarrier of {what} is (bars, i), not {shown}", locs=(locate(),),
                          hint="barrier=(bars, i)")
    bars, index = barrier
    if not isinstance(bars, Tensor) or bars.space is not Space.SHARED or bars.dtype != uint64:
        shown = repr(bars) if isinstance(bars, Tensor) else f"a {type(bars).__name__}"
        raise TensorError(f"copyto: the mbarriers of {what} are a shared tensor of uint64, not {shown}",
                          hint="mo.mbarrier_array(n) makes one", locs=(locate(),))
    return bars.ref(normalise(index, rank(bars.layout)))
