"""Tiled copies and tiled MMAs: an atom repeated over threads and values, and the part that each thread gets.

In: an atom, a thread layout, a value layout.  Out: per thread, views of a tile.

    copy_A = make_tiled_copy(CopyAtom(CpAsync(float64), float32), make_layout((32, 8)), make_layout((2, 1)))
    copy_A.get_slice(tid).partition_S(gA)            # ((CPY, REST), CPY_M, CPY_K, k)

Both objects are static: kernels are specialised on their value.  Source: CuTe cute/atom/copy_atom.hpp, mma_atom.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from moye.atoms.atom import CopyOp, MmaOp
from moye.atoms.matrix import check_width, memory_layout, register_layout
from moye.display import Drawable
from moye.dtypes import DType, require_dtype
from moye.errors import LayoutError, TensorError
from moye.hardware import WARP
from moye.layout import (
    E,
    Int,
    IntTuple,
    Layout,
    ScaledBasis,
    append,
    complement,
    composition,
    crd2idx,
    is_bijective,
    logical_divide,
    make_layout,
    raked_product,
    rank,
    right_inverse,
    size,
    with_shape,
    zipped_divide,
)
from moye.layout.ints import mul
from moye.layout.layout import need_numbers
from moye.layout.tuples import map_leaves
from moye.tensor.context import at_once, locate
from moye.tensor.coords import CoordTensor, apply_view
from moye.tensor.partitions import (
    Permutation,
    kind,
    permutations_of,
    require_copy,
    require_made,
    require_mma,
    require_threads,
    require_tiled,
)
from moye.tensor.retile import retiled, side_of
from moye.tensor.tensor import Tensor, make_fragment, make_fragment_like
from moye.tensor.value_order import Partition
from moye.tensor.wgmma_gemm import descriptor_view


@dataclass(frozen=True, slots=True)
class CopyAtom(Drawable):
    """A copy operation on elements of one dtype."""

    op: CopyOp
    dtype: DType

    def __post_init__(self) -> None:
        require_copy("CopyAtom", self.op)
        require_dtype("CopyAtom", self.dtype)
        bits = self.op.bits
        if self.op.matrices:
            check_width(self.op, self.dtype.bits)
        if bits is not None and (bits % self.dtype.bits or bits < self.dtype.bits):
            raise LayoutError(f"CopyAtom({self.op}, {self.dtype}): an access of {bits} bits holds no whole number of "
                              f"{self.dtype.bits}-bit elements")

    @property
    def values(self) -> int:
        """Elements per access."""
        return 1 if self.op.bits is None else self.op.bits // self.dtype.bits

    @property
    def source(self) -> Layout | None:
        """(thread, value) of the source -> (thread, value) of the registers; None if they are the same."""
        return None if self.op.stores else self._memory()

    @property
    def destination(self) -> Layout | None:
        """(thread, value) of the destination -> (thread, value) of the registers; None if they are the same."""
        return self._memory() if self.op.stores else None

    def _memory(self) -> Layout | None:
        if not self.op.matrices:
            return None
        bits = self.dtype.bits
        return composition(right_inverse(register_layout(self.op, bits)), memory_layout(self.op, bits))

    def __str__(self) -> str:
        return f"CopyAtom({self.op}, {self.dtype})"


@dataclass(frozen=True, slots=True)
class TiledCopy(Drawable):
    """``atom`` repeated by ``layout_tv``: (thread, value) -> column-major index into a tile of shape ``tiler``."""

    atom: CopyAtom
    layout_tv: Layout
    tiler: tuple[int, ...]

    @property
    def threads(self) -> int:
        return _int(size(self.layout_tv, 0))

    @property
    def layout(self) -> Layout:
        """The thread mode of the (thread, value) layout; ``mo.size(copy)`` counts its threads."""
        return self.layout_tv.mode(0)

    @property
    def register_side(self) -> str:
        """The side, "S" or "D", that has the (thread, value) layout as it is; for matrix copies the registers' side."""
        return "S" if self.atom.op.stores else "D"

    def get_slice(self, thread: Int) -> ThrCopy:
        """The part of one thread; ``thread`` is its index within the tiled copy."""
        return ThrCopy(self, require_threads(f"the tiled copy {self.atom}", self.threads, thread))

    def __str__(self) -> str:
        return f"TiledCopy({self.atom}, tv {self.layout_tv}, tile {_shape(self.tiler)})"


@dataclass(frozen=True, slots=True)
class ThrCopy:
    """One thread's slice of a tiled copy."""

    tiled: TiledCopy
    thread: Int

    @at_once
    def partition_S(self, tensor: Any) -> Any:
        """This thread's elements of a source tile: ((CPY, REST), rest modes...)."""
        return self._partition(tensor, "partition_S", self.tiled.atom.source)

    @at_once
    def partition_D(self, tensor: Any) -> Any:
        """This thread's elements of a destination tile: ((CPY, REST), rest modes...)."""
        return self._partition(tensor, "partition_D", self.tiled.atom.destination)

    def _partition(self, tensor: Tensor | CoordTensor, what: str, side: Layout | None) -> Any:
        tiler = self.tiled.tiler
        require_tiled(what, tensor, tiler, self.tiled)

        def part(whole: Layout) -> tuple[Layout, Int]:
            tile, others = leading_modes(whole, len(tiler))
            threads, values, rests = by_strides(copy_parts, (self.tiled, side), tile)
            return make_layout(values, *rests, *others), crd2idx(self.thread, threads)

        return apply_view(tensor, part, Partition(self.tiled, what[-1]))

    @at_once
    def retile_S(self, tensor: Any) -> Any:
        """Registers of another partition, (MMA, MMA_M, ...), as this copy reads them: (CPY, CPY_M, ...).

        The values of a thread are the same ones in another order.  LayoutError if they are not.
        """
        return self._retile(tensor, "retile_S")

    @at_once
    def retile_D(self, tensor: Any) -> Any:
        """Registers of another partition, (MMA, MMA_M, ...), as this copy writes them: (CPY, CPY_M, ...)."""
        return self._retile(tensor, "retile_D")

    def _retile(self, tensor: Any, what: str) -> Any:
        tiled = self.tiled
        require_made(what, tensor, Tensor, "mo.fragment or partition_fragment_*")

        def part(whole: Layout) -> tuple[Layout, Int]:
            return retiled(what, tiled.layout_tv, tiler=tiled.tiler, values=tiled.atom.values, threads=tiled.threads,
                           whole=whole), 0

        return apply_view(tensor, part, Partition(tiled, tiled.register_side), read_only=what == "retile_S")


def make_tiled_copy(atom: CopyAtom, thr_layout: Layout, val_layout: Layout | None = None) -> TiledCopy:
    """Repeat a copy atom over ``thr_layout`` threads of ``val_layout`` values each.

    Raises LayoutError if a thread has fewer values than the atom moves at a time.
    """
    require_made("make_tiled_copy", atom, CopyAtom, "mo.CopyAtom(operation, dtype)")
    thr_layout = _as_layout(thr_layout)
    val_layout = make_layout(1) if val_layout is None else _as_layout(val_layout)
    most = max(rank(thr_layout), rank(val_layout))
    thr_layout, val_layout = (append(x if isinstance(x.shape, tuple) else make_layout(x), rank=most)
                              for x in (thr_layout, val_layout))
    threads, values = _int(size(thr_layout)), _int(size(val_layout))
    if values % atom.values:
        raise LayoutError(
            f"make_tiled_copy: {atom} moves {atom.values} {atom.dtype} at a time, but the value layout {val_layout} "
            f"gives a thread {values}", hint=f"use a value layout with a multiple of {atom.values} contiguous elements")
    if threads % atom.op.threads:
        raise LayoutError(f"make_tiled_copy: {atom} is executed by {atom.op.threads} threads together, but the thread "
                          f"layout {thr_layout} has {threads}")
    for given in (thr_layout, val_layout):
        need_numbers(given, "make_tiled_copy")
    mn = raked_product(thr_layout, val_layout)
    tv = with_shape(right_inverse(mn), (threads, values))
    tiler = tuple(_int(size(mn, mode)) for mode in range(rank(mn)))
    return TiledCopy(atom, tv, tiler)


@dataclass(frozen=True, slots=True)
class TiledMMA(Drawable):
    """``op`` repeated over ``atom_layout`` (threads or groups of threads along M, N, K).

    ``permutations`` are tilers (Layout, int or None) of M, N and K that reorder the tile before it is distributed.
    """

    op: MmaOp
    atom_layout: Layout
    permutations: tuple[Permutation, ...] = (None, None, None)

    @property
    def layout(self) -> Layout:
        """The layout (V, M, N, K) -> thread index."""
        lanes = self.op.lanes
        atoms = _modes(self.atom_layout, rank(self.atom_layout))
        if self.op.thr_id is None:
            return make_layout(lanes, *(Layout(mode.shape, _scale(mode.stride, self.op.threads)) for mode in atoms))
        first = complement(lanes, self.threads)         # atom number -> its first thread
        return make_layout(lanes, *(composition(first, mode) for mode in atoms))

    @property
    def threads(self) -> int:
        return self.op.threads * _int(size(self.atom_layout))

    def tile_size(self, mode: int) -> int:
        """The extent along M (0), N (1) or K (2) that all threads cover in one instruction each."""
        perm = self.permutations[mode]
        if perm is not None:
            return perm if isinstance(perm, int) else _int(size(perm))
        return self.op.shape_mnk[mode] * _int(size(self.atom_layout, mode))

    def get_slice(self, thread: Int) -> ThrMMA:
        """The part of one thread; ``thread`` is its index within the tiled MMA."""
        return ThrMMA(self, require_threads(f"the tiled MMA {self}", self.threads, thread))

    def make_fragment_A(self, tensor: Tensor) -> Tensor:
        """Registers for a partition of A: (MMA, MMA_M, MMA_K); for wgmma a view for its descriptors."""
        if "a" in self.op.shared:
            return descriptor_view(self.op, "A", tensor)
        return make_fragment_like(tensor, self.op.a_dtype)

    def make_fragment_B(self, tensor: Tensor) -> Tensor:
        """Registers for a partition of B: (MMA, MMA_N, MMA_K); for wgmma a view for its descriptors."""
        if self.op.shared:
            return descriptor_view(self.op, "B", tensor)
        return make_fragment_like(tensor, self.op.b_dtype)

    def make_fragment_C(self, tensor: Tensor) -> Tensor:
        """Registers for a partition of C: (MMA, MMA_M, MMA_N)."""
        return make_fragment_like(tensor, self.op.c_dtype)

    def partition_fragment_C(self, shape: tuple[int, int]) -> Tensor:
        """Accumulators for a C tile of this shape: (MMA, MMA_M, MMA_N); the modes of MMA are CuTe's: (2,2,N/8)."""
        if not isinstance(shape, tuple) or len(shape) != 2 or not all(isinstance(extent, int) for extent in shape):
            raise TensorError(f"partition_fragment_C takes the shape (M, N) of a tile, two integers, not {kind(shape)}",
                              locs=(locate(),))
        parts = []
        for mode, extent in enumerate(shape):
            tile = self.tile_size(mode)
            if extent % tile:
                raise TensorError(f"partition_fragment_C{shape}: extent {extent} of mode {mode} is no multiple of "
                                  f"{tile}, which {self} covers", locs=(locate(),), code="A4")
            parts.append(extent // (self.op.shape_mnk[mode] * _int(size(self.atom_layout, mode))))
        return make_fragment(make_layout((self.op.c_layout.mode(1).shape, *parts)), self.op.c_dtype)

    def __str__(self) -> str:
        perms = "" if self.permutations == (None, None, None) else f", permutations {self.permutations}"
        return f"TiledMMA({self.op}, atoms {self.atom_layout}{perms})"


@dataclass(frozen=True, slots=True)
class ThrMMA:
    """One thread's slice of a tiled MMA."""

    tiled: TiledMMA
    thread: Int

    @at_once
    def partition_A(self, tensor: Any) -> Any:
        """This thread's part of an (M, K) tile: (MMA, MMA_M, MMA_K, ...)."""
        return self._partition(tensor, "partition_A")

    @at_once
    def partition_B(self, tensor: Any) -> Any:
        """This thread's part of an (N, K) tile: (MMA, MMA_N, MMA_K, ...)."""
        return self._partition(tensor, "partition_B")

    @at_once
    def partition_C(self, tensor: Any) -> Any:
        """This thread's part of an (M, N) tile: (MMA, MMA_M, MMA_N, ...)."""
        return self._partition(tensor, "partition_C")

    def make_fragment_A(self, tensor: Tensor) -> Tensor:
        return self.tiled.make_fragment_A(tensor)

    def make_fragment_B(self, tensor: Tensor) -> Tensor:
        return self.tiled.make_fragment_B(tensor)

    def make_fragment_C(self, tensor: Tensor) -> Tensor:
        return self.tiled.make_fragment_C(tensor)

    def partition_fragment_A(self, tensor: Tensor) -> Tensor:
        return self.make_fragment_A(self.partition_A(tensor))

    def partition_fragment_B(self, tensor: Tensor) -> Tensor:
        return self.make_fragment_B(self.partition_B(tensor))

    def _partition(self, tensor: Tensor | CoordTensor, what: str) -> Any:
        tiled = self.tiled
        dims, tv = operand_of_mma(tiled.op, what[-1])
        require_tiled(what, tensor, tuple(tiled.tile_size(d) for d in dims), tiled)
        coordinate = thread_coordinate(self.thread, tiled.layout)

        def part(whole: Layout) -> tuple[Layout, Int]:
            tile, others = leading_modes(whole, 2)
            threads, values, rests = by_strides(mma_parts, (tiled, dims, tv), tile)
            offset: Int = 0
            for d, mode in zip((0, *(1 + d for d in dims)), threads, strict=True):
                offset = offset + crd2idx(coordinate[d], mode)
            return make_layout(values, *rests, *others), offset

        return apply_view(tensor, part, Partition(tiled, what[-1]))


def make_tiled_mma(op: MmaOp, atom_layout: Layout | None = None,
                   permutations: tuple[Permutation, ...] = ()) -> TiledMMA:
    """Repeat an MMA operation over ``atom_layout`` (rank 1 to 3: along M, N, K).

    Raises LayoutError if the atoms do not divide a tile of ``permutations``, or if those of a quad-pair operation
    (sm_70) do not fill whole warps.
    """
    require_mma("make_tiled_mma", op)
    layout = make_layout((1, 1, 1)) if atom_layout is None else _as_layout(atom_layout)
    modes = _modes(layout, rank(layout))
    if len(modes) > 3:
        raise LayoutError(f"make_tiled_mma: the atom layout {layout} has rank {len(modes)}; M, N and K are 3")
    modes += [make_layout(1, 0)] * (3 - len(modes))
    if op.thr_id is not None and _int(op.threads * size(layout)) % WARP:
        raise LayoutError(f"make_tiled_mma: {op} takes {op.threads} threads spread over a warp, and the atom layout "
                          f"{layout} has {size(layout)} of them", hint=f"use a multiple of {WARP // op.threads} atoms, "
                          "which fill whole warps")
    atoms = make_layout(*modes)
    if not is_bijective(atoms):
        raise LayoutError(f"make_tiled_mma: the atom layout {layout} does not number its {size(layout)} atoms from 0 "
                          f"to {_int(size(layout)) - 1}")
    counts = tuple(_int(size(mode)) for mode in modes)
    return TiledMMA(op, atoms, permutations_of(op, counts, permutations))


def make_tiled_copy_A(atom: CopyAtom, mma: TiledMMA) -> TiledCopy:
    """The copy that gives each thread its part of an (M, K) tile as the MMA needs it (cute/atom/copy_atom.hpp)."""
    return _copy_for("A", atom, mma)


def make_tiled_copy_B(atom: CopyAtom, mma: TiledMMA) -> TiledCopy:
    """The copy that gives each thread its part of an (N, K) tile as the MMA needs it (cute/atom/copy_atom.hpp)."""
    return _copy_for("B", atom, mma)


def make_tiled_copy_C(atom: CopyAtom, mma: TiledMMA) -> TiledCopy:
    """The copy that moves each thread's part of an (M, N) tile as the MMA left it (cute/atom/copy_atom.hpp)."""
    return _copy_for("C", atom, mma)


def _copy_for(which: str, atom: CopyAtom, mma: TiledMMA) -> TiledCopy:
    what = f"make_tiled_copy_{which}"
    require_made(what, atom, CopyAtom, "mo.CopyAtom(operation, dtype)")
    require_made(what, mma, TiledMMA, "mo.make_tiled_mma(operation, atom_layout)")
    tile = tuple(mma.tile_size(d) for d in operand_of_mma(mma.op, which)[0])
    by_thread, values, rests = thread_values(mma, which, tile)
    by_value = make_layout(values, *rests)
    held = _int(size(by_value))
    if mma.threads % atom.op.threads:
        raise LayoutError(f"{atom} is executed by {atom.op.threads} threads together, but {mma} has "
                          f"{mma.threads}")
    if held % atom.values:
        raise LayoutError(f"{atom} moves {atom.values} {atom.dtype} per thread at a time, but {mma} gives a "
                          f"thread {held} of its {tile[0]}x{tile[1]} tile",
                          hint="an atom of fewer values, or a larger tile: permutations=(M, N, K) of make_tiled_mma")
    return TiledCopy(atom, make_layout(by_thread, by_value), tile)


# --- partitions ------------------------------------------------------------------------------------------------------

How = TypeVar("How", bound=Hashable)
Parts = tuple[Layout, Layout, list[Layout]]
"""What a partition makes of a tile: the modes over threads, the values of a thread, the rest modes."""


def operand_of_mma(op: MmaOp, operand: str) -> tuple[tuple[int, int], Layout]:
    """The modes of (M, N, K) that operand A, B or C has, and its (thread, value) layout."""
    return {"A": ((0, 2), op.a_layout), "B": ((1, 2), op.b_layout), "C": ((0, 1), op.c_layout)}[operand]


def by_strides(parts: Callable[[How, Layout], Parts], how: How, tile: Layout) -> Parts:
    """The result of ``parts(how, tile)``, found once for the tile's shape and then given the strides of each tensor.

    A composition or division of a tile whose modes are integers is linear in their strides, so the result for basis
    strides serves all.  Kernels that partition tensors of one shape again and again pay for it once.  Other tiles take
    the direct way.
    """
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


def copy_parts(how: tuple[TiledCopy, Layout | None], tile: Layout) -> Parts:
    """The parts of a tile for a tiled copy; threads and values are those of ``side`` of its atom."""
    tiled, side = how
    divided = zipped_divide(tile, tiled.tiler)
    threads, values = side_of(tiled.layout_tv, tiled.atom.op.threads, tiled.atom.values, side)
    return (composition(divided.mode(0), threads), composition(divided.mode(0), values),
            _modes(divided.mode(1), rank(tile)))


def mma_parts(how: tuple[TiledMMA, tuple[int, int], Layout], tile: Layout) -> Parts:
    """The parts of a tile for an operand of a tiled MMA."""
    tiled, dims, tv = how
    atoms, threads, rests = [], [], []
    for mode, d in zip(_modes(tile, rank(tile)), dims, strict=True):
        perm = tiled.permutations[d]
        by_atom = logical_divide(mode if perm is None else logical_divide(mode, perm), tiled.op.shape_mnk[d])
        by_thread = logical_divide(by_atom.mode(1), _int(size(tiled.atom_layout, d)))
        atoms.append(by_atom.mode(0))
        threads.append(by_thread.mode(0))
        rests.append(by_thread.mode(1))
    values = composition(make_layout(*atoms), tv)
    return make_layout(values.mode(0), *threads), values.mode(1), rests


def thread_values(mma: TiledMMA, which: str, tile: tuple[int, ...]) -> Parts:
    """Thread -> element, values of an atom -> element and rest modes, of a column-major tile of operand A, B or C."""
    dims, tv = operand_of_mma(mma.op, which)
    threads, values, rests = mma_parts((mma, dims, tv), make_layout(tile))
    along = dict(zip(dims, (threads.mode(1), threads.mode(2)), strict=True))
    modes = [along.get(d) or make_layout(_int(size(mma.atom_layout, d)), 0) for d in range(3)]
    return composition(make_layout(threads.mode(0), *modes), right_inverse(mma.layout)), values, rests


# --- pieces ----------------------------------------------------------------------------------------------------------


def thread_coordinate(thread: Int, layout: Layout) -> tuple[Int, ...]:
    """The linear coordinate of a thread along each mode of a compact (V, M, N, K) thread layout."""
    return tuple(_mode_coordinate(thread, mode) for mode in _modes(layout, rank(layout)))


def _mode_coordinate(thread: Int, mode: Layout) -> Int:
    result: Int = 0
    scale = 1
    shapes, strides = _leaf_list(mode.shape), _leaf_list(mode.stride)
    for extent, step in zip(shapes, strides, strict=True):
        if extent > 1 and step > 0:
            part = (thread // step) % extent
            result = result + part * scale
        scale *= extent
    return result


def _leaf_list(x: IntTuple) -> list[int]:
    return [leaf for item in x for leaf in _leaf_list(item)] if isinstance(x, tuple) else [_int(x)]


def _as_layout(x: Layout | IntTuple) -> Layout:
    return x if isinstance(x, Layout) else make_layout(x)


def _int(x: Int) -> int:
    if not isinstance(x, int):
        raise LayoutError(f"{x} must be static here")
    return x


def _modes(layout: Layout, count: int) -> list[Layout]:
    """The top-level modes of a layout; a layout of integer shape has one mode."""
    return [layout.mode(i) for i in range(count)] if isinstance(layout.shape, tuple) else [layout]


def _scale(x: IntTuple, factor: int) -> IntTuple:
    return tuple(_scale(s, factor) for s in x) if isinstance(x, tuple) else _int(x) * factor


def _shape(tiler: tuple[int, ...]) -> str:
    return "(" + ",".join(str(t) for t in tiler) + ")"
