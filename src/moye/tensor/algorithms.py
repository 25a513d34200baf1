"""What kernels do with whole tensors: copyto, gemm, tile, parallelize.

In: tensors and tiled objects.  Out: one tile op each (``Copy``, ``Gemm``), or a view.

    mo.copyto(copy_A, tAsA, tAgA[:, :, :, 0]); mo.gemm(mma_C, tCrA, tCrB, tCrC)

Source: CuTe cute/algorithm/copy.hpp, gemm.hpp; MoYe.jl's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from moye.atoms.atom import CopyOp, MmaOp
from moye.atoms.bulk import BulkOp
from moye.atoms.universal import AUTO_COPY, AutoCopy, UniversalFMA
from moye.dtypes import DType, Space
from moye.errors import DTypeError, LaunchError, TensorError
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Block, Value
from moye.layout import (
    Int,
    IntTuple,
    Layout,
    append,
    complement,
    crd2idx,
    divides,
    make_layout,
    product,
    rank,
    size,
    slice_and_offset,
    zipped_divide,
)
from moye.layout import recast as recast_layout
from moye.tensor import copying
from moye.tensor.bounds import check_coordinate
from moye.tensor.bulk_copy import copy_bulk
from moye.tensor.context import at_once, builder, locate
from moye.tensor.coords import CoordTensor
from moye.tensor.copy_agreement import after_copy, check_cover, check_partitions
from moye.tensor.expr import Expr, Scalar, is_scalar, operand_of
from moye.tensor.known import KnownBool, weak
from moye.tensor.matrix_copy import emit_matrices
from moye.tensor.overlaps import overlap, touch
from moye.tensor.partitions import kind, require_threads
from moye.tensor.slices import is_slice, normalise, wide
from moye.tensor.space import common_space
from moye.tensor.tensor import Tensor, copy_plain, make_fragment, make_fragment_like, recast_tensor
from moye.tensor.tile_extents import require_extent, require_inner_tiles, require_tile, require_tiles
from moye.tensor.tiled import CopyAtom, TiledCopy, TiledMMA, thread_coordinate
from moye.tensor.tma_copy import TmaTensor, copy_tma
from moye.tensor.value_order import Partition
from moye.tensor.view import Origin
from moye.tensor.wgmma_gemm import emit_wgmma

# --- copy ------------------------------------------------------------------------------------------------------------


Tile = Tensor | tuple[Any, ...]
"""What a TMA copy takes on its side of global memory: coordinates of a tile, or a slice of its coordinate tensor."""


@overload
def copyto(dst: Tensor, src: Tensor, /, *, pred: Tensor | Scalar | None = None, zero_fill: bool = False,
           other: Scalar | None = None, hint: str | None = None, prefetch: int | None = None) -> None: ...
@overload
def copyto(how: TiledCopy | CopyAtom | CopyOp, dst: Tensor, src: Tensor, /, *, pred: Tensor | Scalar | None = None,
           zero_fill: bool = False, other: Scalar | None = None) -> None: ...
@overload
def copyto(how: TmaTensor, dst: Tile, src: Tile, /, *, barrier: tuple[Tensor, Int] | None = None,
           multicast: Scalar | None = None, hint: str | None = None) -> None: ...
@overload
def copyto(how: BulkOp, dst: Tensor, src: Tensor, /, *, barrier: tuple[Tensor, Int] | None = None,
           multicast: Scalar | None = None, hint: str | None = None, size: Scalar | None = None) -> None: ...
@at_once
def copyto(*args: object, pred: Tensor | Scalar | None = None, zero_fill: bool = False,
           other: Scalar | None = None, barrier: tuple[Tensor, Int] | None = None, multicast: Scalar | None = None,
           hint: str | None = None, size: Scalar | None = None, prefetch: int | None = None) -> None:
    """Copy: ``copyto(dst, src)`` or ``copyto(tiled_copy, dst, src)`` is dst[i] = src[i].

    Without a tiled copy (or atom) the copy is synchronous, as wide as both layouts and alignments prove, and converts
    if the dtypes differ.  With one it uses the atom.  An asynchronous atom completes at cp_async_wait.  ``hint`` and
    ``prefetch`` tell caches about the end in global memory, as ``UniversalCopy`` says; an atom has its own.

    ``pred`` is a traced bool, or a bool register tensor over the modes of dst (a mode of size 1 is repeated).  Where it
    is false nothing is read, and dst keeps its value, or becomes zero with ``zero_fill=True``, or the number ``other``
    (of src's dtype).  Elements side by side whose predicates are true are moved up to 16 bytes at a time where their
    address is a multiple of that, which is tested at run time if nothing proves it; the others one by one.

    ``copyto(tma, dst, src)`` copies one tile by TMA; one thread calls it.  A load from the coordinates src to the
    shared tile dst completes on ``barrier=(bars, i)``, in every block of the mask ``multicast``.  A store goes from the
    shared tile src to the coordinates dst.  ``hint`` is "evict_first" or "evict_last".

    ``copyto(mo.BulkCopy(), dst, src)`` copies contiguous runs of static extents, one by one, or the first ``size``
    elements of one run; one thread calls it.  Addresses and sizes must be multiples of 16 bytes.  A copy from global
    to shared memory (of all blocks of ``multicast``) completes on ``barrier``.  A copy from shared memory to a
    ``mo.map_shared_rank`` completes on that block's barrier of the same place.  A copy to global memory, where
    ``mo.BulkReduceAdd()`` adds, is part of the thread's bulk group.
    """
    plain = len(args) == 2 and all(isinstance(a, Tensor) for a in args)
    if prefetch is not None and not plain:
        raise TensorError("copyto: prefetch= is for plain copies; an atom has its own", locs=(locate(),),
                          hint="mo.prefetch brings boxes and runs of bytes to L2")
    if args and isinstance(args[0], (TmaTensor, BulkOp)):
        _without_predicate(args[0], pred, zero_fill or other is not None)
        if isinstance(args[0], BulkOp):
            copy_bulk(args[0], args[1:], barrier, multicast, hint, size)
        elif size is not None:
            raise TensorError(f"copyto: {args[0].label} copies whole tiles, so size= is for mo.BulkCopy",
                              locs=(locate(),))
        else:
            copy_tma(args[0], args[1:], barrier, multicast, hint)
        return
    if any(option is not None for option in (barrier, multicast, size)):
        raise TensorError("copyto: barrier=, multicast= and size= are for copies with a mo.make_tma_copy or "
                          "mo.BulkCopy", locs=(locate(),))
    if hint is not None and not plain:
        raise TensorError("copyto: hint= is for plain copies and those with a mo.make_tma_copy or mo.BulkCopy",
                          locs=(locate(),), hint="give it to the atom: mo.UniversalCopy(dtype, hint=...)")
    if pred is not None and not isinstance(pred, (Tensor, bool, Expr, KnownBool)):
        raise TensorError(f"copyto: the predicate {kind(pred)} is no bool and no bool register tensor",
                          locs=(locate(),))
    _check_other(pred, zero_fill, other)
    zero_fill = zero_fill or other is not None
    if plain:
        to, of = args
        assert isinstance(to, Tensor) and isinstance(of, Tensor), "both are tensors"
        check_partitions(None, to, of)
        copy_plain(to, of, pred, zero_fill=zero_fill, other=other, op=_told(hint, prefetch))
        after_copy(None, to, of)
        return
    if len(args) != 3 or not (isinstance(args[1], Tensor) and isinstance(args[2], Tensor)):
        raise _no_copy(args)
    _copy_by_atom(args[0], args[1], args[2], pred, other, zero_fill=zero_fill)


def _no_copy(args: Sequence[object]) -> TensorError:
    given = ", ".join("the value of an element" if is_scalar(a) else kind(a) for a in args)
    hint = "mo.tile(x, (1,), (i,)) is a view of the element x[i]" if any(map(is_scalar, args)) else None
    return TensorError(f"copyto takes (dst, src) or (tiled_copy, dst, src), not ({given})", locs=(locate(),), hint=hint)


def _check_other(pred: object, zero_fill: bool, other: Scalar | None) -> None:
    """``other`` is a number that stands where a predicate is false."""
    if other is None:
        return
    if not is_scalar(other):
        raise TensorError(f"copyto: other={kind(other)} is no number", locs=(locate(),))
    if pred is None or zero_fill:
        raise TensorError(f"copyto: other={other} is what dst becomes where pred= is false, "
                          f"{'in place of zero_fill=True' if zero_fill else 'and there is no pred='}",
                          locs=(locate(),))


def _told(hint: str | None, prefetch: int | None) -> CopyOp:
    """The plain copy with these hints."""
    try:
        return AUTO_COPY if hint is None and prefetch is None else AutoCopy(hint=hint, prefetch=prefetch)
    except DTypeError as error:
        raise TensorError(f"copyto: {error.message}", locs=(locate(),)) from None


def _copy_by_atom(how: object, dst: Tensor, src: Tensor, pred: Tensor | Scalar | None, other: Scalar | None, *,
                  zero_fill: bool) -> None:
    """Copy by a tiled copy, an atom or an operation."""
    atom = how.atom if isinstance(how, TiledCopy) else how
    if isinstance(atom, CopyOp):
        atom = CopyAtom(atom, dst.dtype)
    if not isinstance(atom, CopyAtom):
        raise TensorError(f"copyto: {how!r} is no tiled copy or copy atom", locs=(locate(),))
    for tensor in (dst, src):
        if tensor.dtype.bits != atom.dtype.bits:
            raise DTypeError(f"{atom} moves {atom.dtype}, but {tensor.label} holds {tensor.dtype}", locs=(locate(),))
    if isinstance(how, TiledCopy):
        check_cover(how, dst)
    check_partitions(how, dst, src)
    after_copy(how, dst, src)
    if other is not None and atom.op.asynchronous:
        raise TensorError(f"{atom} fills with zeros alone, not with other={other}", hint="use zero_fill=True",
                          locs=(locate(),))
    if not atom.op.matrices:
        filling = None if other is None else operand_of(other, dst.dtype)
        if overlap(dst, src):               # all is read before anything is written
            read = make_fragment_like(src)
            copying.emit_copy(atom.op, read, src, pred, zero_fill=zero_fill, other=filling)
            src, pred, filling = read, None if zero_fill else pred, None
        copying.emit_copy(atom.op, dst, src, pred, zero_fill=zero_fill and pred is not None, other=filling)
        return
    if pred is not None:
        raise TensorError(f"{atom} is executed by whole warps and takes no predicate", locs=(locate(),))
    copying.check_pair(atom.op, dst, src)
    require_warps(atom.op)
    emit_matrices(atom.op, dst, src)


def _without_predicate(how: TmaTensor | BulkOp, pred: object, zero_fill: bool) -> None:
    if pred is None and not zero_fill:
        return
    if isinstance(how, BulkOp):
        raise TensorError(f"copyto: a copy with {how} takes no predicate", locs=(locate(),),
                          hint="if around it, or size= for a part of the run")
    raise TensorError(f"copyto: TMA checks bounds itself, so a copy with {how.label} takes no predicate",
                      locs=(locate(),))


def require_warps(op: CopyOp | MmaOp) -> None:
    """C6: what whole warps execute together needs a block of whole warps, unless only some of its threads come here."""
    func = builder().func
    together = 1 if op.threads == 1 else max(WARP, op.threads)
    if together == 128 and func.threads % together and not builder().conditions and not builder().jumped:
        raise LaunchError(f"{op} is executed by whole warpgroups of 128 threads, and a block of {func.block_dim} has "
                          f"{func.threads}", hint=f"launch {-(-func.threads // 128) * 128} threads a block",
                          locs=(locate(),), code="C6")
    if func.threads % together and not builder().conditions and not builder().jumped:
        last = func.threads // WARP
        raise LaunchError(f"{op} is executed by whole warps, but warp {last} of a block of {func.block_dim} has "
                          f"{func.threads % WARP} threads of {WARP}",
                          hint=f"launch {WARP * (last + 1)} threads a block", locs=(locate(),), code="C6")


# --- gemm ------------------------------------------------------------------------------------------------------------


@overload
def gemm(how: TiledMMA | MmaOp, A: Tensor, B: Tensor, C: Tensor, /, *, accumulate: Scalar = True) -> None: ...
@overload
def gemm(how: TiledMMA | MmaOp, D: Tensor, A: Tensor, B: Tensor, C: Tensor, /, *,
         accumulate: Scalar = True) -> None: ...
@overload
def gemm(A: Tensor, B: Tensor, C: Tensor, /) -> None: ...
@overload
def gemm(D: Tensor, A: Tensor, B: Tensor, C: Tensor, /) -> None: ...
@at_once
def gemm(*operands: TiledMMA | MmaOp | Tensor, accumulate: Scalar = True) -> None:
    """Multiply: ``gemm(mma, A, B, C)`` is C += A * B, and ``gemm(mma, D, A, B, C)`` is D = A * B + C.

    A is (V, M[, K]), B is (V, N[, K]), C and D are (V, M, N).  C and D are in registers.  A and B are in registers or
    in memory; from memory, each k is loaded into registers first (or all of it, if the other operand is in registers).

    For wgmma, A and B are what make_fragment_A and make_fragment_B gave, and D is C.  The product is complete at
    warpgroup_wait.  If ``accumulate`` (a bool, traced or not) is false, C starts from zero.

    Without ``mma``, this thread multiplies alone: A is (M, K), B is (N, K), C and D are (M, N), or A is (M) and B is
    (N).  All extents are static.  C and D may lie in memory, too: the thread loads C first, and stores D at the end.
    """
    if operands and isinstance(operands[0], Tensor):
        if accumulate is not True:
            raise TensorError(f"gemm without an atom takes no accumulate={accumulate}", locs=(locate(),),
                              hint="C.fill(0) starts from zero")
        gemm_alone(operands)
        return
    how: Any = operands[0] if operands else None
    tensors: tuple[Any, ...] = operands[1:]
    op = how.op if isinstance(how, TiledMMA) else how
    if not isinstance(op, MmaOp) or len(tensors) not in (3, 4) or not all(isinstance(t, Tensor) for t in tensors):
        raise TensorError("gemm takes (mma, A, B, C) or (mma, D, A, B, C), or no mma", locs=(locate(),))
    d, a, b, c = tensors if len(tensors) == 4 else (tensors[2], *tensors)
    for name, tensor in (("A", a), ("B", b)):
        if rank(tensor.layout) not in (2, 3):
            raise TensorError(f"gemm with {op}: {name} ({tensor!r}) must be (V, {'M' if name == 'A' else 'N'}[, K])",
                              locs=(locate(),))
    a, b = _with_k(a), _with_k(b)
    _check_gemm(op, d, a, b, c)
    once = all(size(tensor.layout.mode(i)) == 1 for tensor in (d, a) for i in (1, 2))   # one reads before it writes
    for name, tensor in (("A", a), ("B", b)):
        if not once and touch(d, tensor):
            raise TensorError(f"gemm with {op}: D ({d.label}) would overwrite operand {name} ({tensor.label}), which "
                              "is read again", hint="accumulate in a fragment of its own", locs=(locate(),))
    require_warps(op)
    if not op.shared and weak(accumulate) is not True:
        raise TensorError(f"gemm with {op}: accumulate={accumulate} is for wgmma", hint="C.fill(0) starts from zero",
                          locs=(locate(),))
    if d.order is not None:
        d.order.put(Partition(how, "C") if isinstance(how, TiledMMA) else None)
    if op.shared:
        if d is not c:
            raise TensorError(f"gemm with {op} accumulates in place: D is C, gemm(mma, A, B, C)", locs=(locate(),))
        emit_wgmma(op, d, a, b, accumulate)
    elif a.space is not Space.REGISTER and b.space is not Space.REGISTER:
        _gemm_staged(op, d, a, b, c)
    else:
        emit_gemm(op, d, _in_registers(a), _in_registers(b), c)


def gemm_alone(tensors: tuple[Any, ...]) -> None:
    """Multiply by the loops of one thread: D (M, N) = A (M, K) * B (N, K) + C (M, N)."""
    if len(tensors) not in (3, 4) or not all(isinstance(t, Tensor) for t in tensors):
        raise TensorError(f"gemm without an atom takes (A, B, C) or (D, A, B, C), not "
                          f"({', '.join(kind(t) for t in tensors)})", locs=(locate(),))
    d, a, b, c = tensors if len(tensors) == 4 else (tensors[2], *tensors)
    for name, tensor, ranks, shape in (("A", a, (1, 2), "(M) or (M, K)"), ("B", b, (1, 2), "(N) or (N, K)"),
                                       ("C", c, (2,), "(M, N)"), ("D", d, (2,), "(M, N)")):
        if rank(tensor.layout) not in ranks or not isinstance(size(tensor.layout), int):
            raise TensorError(f"gemm without an atom: {name} ({tensor!r}) must be {shape} and static", locs=(locate(),))
    if rank(a.layout) != rank(b.layout):
        raise TensorError(f"gemm without an atom: A {a.layout} and B {b.layout} must both have a mode K, or none",
                          locs=(locate(),))
    op = UniversalFMA(a.dtype, b.dtype, c.dtype)
    parts = [t.applied(lambda layout: make_layout(make_layout(1), *layout)) for t in (a, b)]
    start, end = (_in_registers(t) for t in (c, d)) if d is not c else (_in_registers(c),) * 2
    sums = [t.applied(lambda layout: make_layout(make_layout(1), *layout)) for t in (start, end)]
    gemm(op, sums[1], parts[0], parts[1], sums[0])
    if end is not d:
        copy_plain(d, end)


def _in_registers(tensor: Tensor) -> Tensor:
    if tensor.space is Space.REGISTER:
        return tensor
    loaded = make_fragment_like(tensor)
    copy_plain(loaded, tensor)
    return loaded


def _with_k(tensor: Tensor) -> Tensor:
    """A layout (V, M) as (V, M, 1)."""
    if rank(tensor.layout) == 3:
        return tensor
    return tensor.applied(append)


def _check_gemm(op: MmaOp, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    for name, tensor, dtype in (("A", a, op.a_dtype), ("B", b, op.b_dtype), ("C", c, op.c_dtype), ("D", d, op.d_dtype)):
        if tensor.dtype != dtype:
            raise DTypeError(f"gemm with {op}: operand {name} ({tensor.label}) holds {tensor.dtype}, not {dtype}",
                             locs=(locate(),))
    for name, tensor in (("C", c), ("D", d)):
        if tensor.space is not Space.REGISTER or rank(tensor.layout) != 3:
            raise TensorError(f"gemm with {op}: {name} ({tensor!r}) must be a register tensor (V, M, N)",
                              locs=(locate(),))
    for name, tensor, layout in (("A", a, op.a_layout), ("B", b, op.b_layout), ("C", c, op.c_layout),
                                 ("D", d, op.c_layout)):
        have, wanted = size(tensor.layout, 0), size(layout, 1)
        if have != wanted:
            raise TensorError(f"gemm with {op}: a thread holds {wanted} values of {name}, but {tensor.label} "
                              f"{tensor.layout} has {have} in mode 0", hint="make it with partition_* or "
                                                                            "make_fragment_*", locs=(locate(),))
    sizes = (("M of A and C", size(a.layout, 1), size(c.layout, 1)), ("N of B and C", size(b.layout, 1),
             size(c.layout, 2)), ("K of A and B", size(a.layout, 2), size(b.layout, 2)),
             ("M of C and D", size(c.layout, 1), size(d.layout, 1)), ("N of C and D", size(c.layout, 2),
             size(d.layout, 2)))
    for what, x, y in sizes:
        if isinstance(x, int) and isinstance(y, int) and x != y:
            raise TensorError(f"gemm with {op}: {what} differ: {x} and {y} (A {a.layout}, B {b.layout}, C {c.layout})",
                              locs=(locate(),))


def _gemm_staged(op: MmaOp, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """Loop over k (unrolled by the compiler), and load both operands of one k into registers."""
    depth = size(a.layout, 2)
    if not isinstance(depth, int):
        raise TensorError(f"gemm: the K extent {depth} of {a!r} must be static", locs=(locate(),))
    fragments = [make_fragment(make_layout((t.layout.mode(0).shape, t.layout.mode(1).shape)), t.dtype) for t in (a, b)]
    fragments[0].buffer.name, fragments[1].buffer.name = "frag_a", "frag_b"
    bld = builder()
    if c is not d:
        copy_plain(d, c)
    k = Value(bld.index, lower=0, upper=depth - 1, name="k")
    loop = ops.For(iv=k, start=operand_of(0, bld.index), stop=operand_of(depth, bld.index), step=1,
                   body=Block(), unroll=0)
    bld.emit(loop)
    with bld.inside(loop.body):
        for fragment, source in zip(fragments, (a, b), strict=True):
            copy_plain(fragment, source.derived(lambda layout: slice_and_offset((None, None, Expr(k)), layout)))
        emit_gemm(op, d, _with_k(fragments[0]), _with_k(fragments[1]), d)


def emit_gemm(op: MmaOp, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """Emit one Gemm op over register tensors A (V, M, K), B (V, N, K), C and D (V, M, N)."""
    m = common_space([t.layout.mode(1) for t in (a, c, d)])
    n = common_space([b.layout.mode(1), c.layout.mode(2), d.layout.mode(2)])
    k = common_space([a.layout.mode(2), b.layout.mode(2)])
    if k.extents and c is not d:                        # D starts as C and then takes one k after the other
        copy_plain(d, c)
        c = d
    zm, zn, zk = ((0,) * len(space.extents) for space in (m, n, k))
    extents = (*m.extents, *n.extents, *k.extents)
    builder().emit(ops.Gemm(
        mma=op, roles="m" * len(zm) + "n" * len(zn) + "k" * len(zk),
        a=a.tile_ref((*m.strides[0], *zn, *k.strides[0])), b=b.tile_ref((*zm, *n.strides[0], *k.strides[1])),
        c=c.tile_ref((*m.strides[1], *n.strides[1], *zk)), d=d.tile_ref((*m.strides[2], *n.strides[2], *zk)),
        extents=tuple(e for e in extents if isinstance(e, int)),
        a_values=_values(a), b_values=_values(b), c_values=_values(c), d_values=_values(d)))


def _values(tensor: Tensor) -> tuple[int, ...]:
    """Register offsets of the values of one atom."""
    mode = tensor.layout.mode(0)
    count = size(mode)
    if not isinstance(count, int):
        raise TensorError(f"gemm: {tensor!r} must be static", locs=(locate(),))
    offsets = tuple(crd2idx(i, mode) for i in range(count))
    return tuple(o for o in offsets if isinstance(o, int))


# --- views -----------------------------------------------------------------------------------------------------------


@at_once
def tile(tensor: Any, tiler: tuple[Any, ...], coordinate: tuple[object, ...],
         proj: tuple[int | None, ...] | None = None, *, ragged: bool = False) -> Any:
    """The tile of ``tensor`` at a tile coordinate: ``tile(A, (bM, bK), (bx, None))`` is (bM, bK, k).

    An integer or a layout tiles a mode, and a tuple of them can tile a nested mode.  ``None`` in the coordinate keeps
    all tiles of that mode as a trailing mode.  The tile must divide each extent; every launch checks that for dynamic
    extents.  With ``ragged=True`` the number of tiles is rounded up and accesses must be predicated.  For the
    coordinates of a TMA copy it is always rounded up, and no predicates are needed.

    ``proj`` picks modes of a tile that all operands of a product share: with (bM, bN, bK) and ``proj=(1, None, 1)``,
    A's tiles are (bM, bK).
    """
    if not isinstance(tensor, (Tensor, CoordTensor)):
        raise TensorError(f"tile takes a tensor of a kernel, not {kind(tensor)}", locs=(locate(),))
    if not isinstance(tiler, tuple) or not isinstance(coordinate, tuple):
        raise TensorError(f"tile({tensor.label}, {kind(tiler)}, {kind(coordinate)}): the tile and its coordinate are "
                          "tuples of one entry for each mode", hint="(64,) is a tile of one mode", locs=(locate(),))
    if proj is not None:
        tiler, coordinate = projected("tile", tiler, proj), projected("tile", coordinate, proj)
    if len(tiler) > rank(tensor.layout) or len(coordinate) != len(tiler):
        raise TensorError(f"tile({tensor.label}, {tiler}, {coordinate}): {tensor.layout} has rank "
                          f"{rank(tensor.layout)}, the tile {len(tiler)} and the coordinate {len(coordinate)} entries",
                          locs=(locate(),))
    ragged = ragged or (isinstance(tensor, CoordTensor) and tensor.ragged)
    for mode, extent in enumerate(tiler):
        require_extent(tensor.label, tensor.layout.mode(mode), mode, extent)
        if not ragged and isinstance(extent, int):
            require_tile(tensor.label, size(tensor.layout, mode), mode, extent, tiler)
        elif not ragged:
            require_tiles(tensor.label, tensor.layout.mode(mode), extent, "tile", mode)
        elif isinstance(extent, tuple):
            require_inner_tiles(tensor.label, tensor.layout.mode(mode), extent, mode)
    if isinstance(tensor, CoordTensor):                 # coordinates may be compared, not read through: no bounds
        return tensor.each(lambda layout: _tiled(layout, tiler, coordinate))
    outer = _rank_n(zipped_divide(tensor.layout, tiler).mode(1))
    tiles = Tensor(tensor.buffer, tensor.offset, outer, tensor.dtype, tensor.swizzle, tensor.name)
    pending = check_coordinate(tiles, _full(coordinate, outer))
    origin = tensor.origin
    if ragged and (loose := tuple(mode for mode, extent in enumerate(tiler) if _rounds_up(tensor, mode, extent))):
        origin = (origin or Origin.of(tensor)).beyond(tensor, loose)
    return tensor.derived(lambda layout: _tiled(layout, tiler, coordinate), pending, origin=origin)


def _rounds_up(tensor: Tensor, mode: int, extent: Any) -> bool:
    """Whether the last tile of a mode may reach beyond it."""
    return _reaches_past(tensor.layout.mode(mode), extent)


def _reaches_past(part: Layout, extent: Any) -> bool:
    if not isinstance(extent, tuple):
        return _leaves(size(part), extent)
    if not isinstance(part.shape, tuple):
        return _leaves(size(part), product(extent))
    return any(_reaches_past(part.mode(i), each) for i, each in enumerate(extent))


def _leaves(have: Int, tile: Any) -> bool:
    if isinstance(tile, Layout):
        tile = size(tile) * size(complement(tile))
    return not divides(tile, have)


def _full(coordinate: tuple[object, ...], outer: Layout) -> object:
    return normalise((*coordinate, *(None,) * (rank(outer) - len(coordinate))), rank(outer))


def _tiled(whole: Layout, tiler: tuple[Any, ...], coordinate: tuple[object, ...]) -> tuple[Layout, Any]:
    """The tile of a layout, and where it begins."""
    divided = zipped_divide(whole, tiler)
    outer = _rank_n(divided.mode(1))
    full: Any = wide(_full(coordinate, outer))
    if is_slice(full):
        rest, offset = slice_and_offset(full, outer)
        return make_layout(*_modes_of(divided.mode(0)), *_modes_of(rest)), offset
    return divided.mode(0), crd2idx(full, outer)


def _rank_n(layout: Layout) -> Layout:
    return layout if isinstance(layout.shape, tuple) else make_layout(layout)


def _modes_of(layout: Layout) -> list[Layout]:
    return [layout.mode(i) for i in range(rank(layout))] if isinstance(layout.shape, tuple) else [layout]


@at_once
def parallelize(tensor: Any, thr_layout: Layout | IntTuple, thread: Int,
                proj: tuple[int | None, ...] | None = None) -> Any:
    """The elements of a tile that one thread of ``thr_layout`` handles, as its rest modes (REST_M, REST_N, ...).

    For an identity tensor, these are their coordinates.  ``proj`` picks the modes of ``thr_layout`` that divide the
    tensor: with (1, None), threads that differ along the second mode have the same rows (cute/tensor_impl.hpp,
    local_partition).
    """
    if not isinstance(tensor, (Tensor, CoordTensor)):
        raise TensorError(f"parallelize takes a tensor of a kernel, not {kind(tensor)}", locs=(locate(),))
    thr_layout = thr_layout if isinstance(thr_layout, Layout) else make_layout(thr_layout)
    threads, kept = size(thr_layout), thr_layout
    if proj is not None:
        kept = make_layout(*projected("parallelize", tuple(thr_layout), proj))
    shape = tuple(size(kept, mode) for mode in range(rank(kept)))
    if not isinstance(threads, int) or len(shape) > rank(tensor.layout):
        raise TensorError(f"parallelize({tensor.label}, {thr_layout}): a static thread layout of at most "
                          f"{rank(tensor.layout)} modes is needed", locs=(locate(),))
    thread = require_threads(f"the thread layout {thr_layout}", threads, thread, "parallelize")
    for mode, extent in enumerate(shape):
        have = size(tensor.layout, mode)
        if isinstance(have, int) and isinstance(extent, int) and have % extent:
            raise TensorError(f"parallelize({tensor.label}, {thr_layout}): extent {have} of mode {mode} is no multiple "
                              f"of {extent}", locs=(locate(),), code="A4")
        if not isinstance(have, int) and isinstance(extent, int):
            have.require_divisible(extent, f"parallelize({tensor.label}, {thr_layout}): extent {{value}} of mode "
                                           f"{mode} is no multiple of {extent}", code="A4")

    def part(whole: Layout) -> tuple[Layout, Any]:
        divided = zipped_divide(whole, shape)
        coordinate: Any = thread_coordinate(thread, kept)
        return divided.mode(1), crd2idx(coordinate if len(coordinate) > 1 else coordinate[0], divided.mode(0))

    return tensor.each(part) if isinstance(tensor, CoordTensor) else tensor.derived(part)


def projected(what: str, modes: tuple[Any, ...], proj: object) -> tuple[Any, ...]:
    """The modes that a projection keeps: those where it has 1, and not those where it has None.

    Source: CuTe's Step<_1, X, _1>, cute/tensor_impl.hpp, local_tile.

    >>> projected("tile", (128, 64, 8), (1, None, 1))
    (128, 8)
    """
    if not isinstance(proj, tuple) or len(proj) != len(modes):
        raise TensorError(f"{what}: the projection {kind(proj)} must have one entry, 1 or None, for each of the "
                          f"{len(modes)} modes of ({', '.join(map(str, modes))})", locs=(locate(),))
    entries = tuple(None if entry == slice(None) else entry for entry in proj)
    if any(not (entry is None or (type(entry) is int and entry == 1)) for entry in entries) or not any(entries):
        raise TensorError(f"{what}: the projection {proj} must have 1 for each mode that it keeps, of which there is "
                          "one at least, and None for the others", locs=(locate(),))
    return tuple(mode for mode, entry in zip(modes, entries, strict=True) if entry is not None)


def fragment(shape: object, dtype: DType) -> Tensor:
    """A register tensor of this (static) shape, compact and column-major; its contents are undefined."""
    if isinstance(shape, DType):
        raise DTypeError(f"fragment({shape}, {dtype!r}): the shape comes first",
                         hint=f"mo.fragment({dtype!r}, mo.{shape})", locs=(locate(),))
    return make_fragment(shape if isinstance(shape, Layout) else make_layout(shape), dtype)  # type: ignore[call-overload]


@overload
def recast(x: Tensor, dtype: DType) -> Tensor: ...
@overload
def recast(x: Layout, dtype: int, old_bits: int) -> Layout: ...
def recast(x: Tensor | Layout, dtype: DType | int, old_bits: int | None = None) -> Tensor | Layout:
    """The same memory as elements of another dtype: ``recast(tensor, dtype)``; for layouts ``recast(l, new, old)``
    bits.
    """
    if isinstance(x, Tensor):
        if not isinstance(dtype, DType):
            raise DTypeError(f"recast({x.label}, {dtype!r}): a dtype is needed", locs=(locate(),))
        return recast_tensor(x, dtype)
    if not isinstance(dtype, int) or old_bits is None:
        raise DTypeError("recast of a layout takes the new and the old width in bits")
    return recast_layout(x, old_bits, dtype)
