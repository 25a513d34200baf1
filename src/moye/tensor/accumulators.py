"""The accumulators of a tiled MMA as rows and columns, and as operand A of the next product.

In: accumulators (MMA, MMA_M, MMA_N) of a thread, and the tiled MMA whose partition they are.  Out: views of the same
registers.

    rows = mo.mn_view(acc, mma)                         # ((2,MMA_M),(2,MMA_N)) for mma.sync: a row is rows[i, :]
    P = mo.accumulators_as_A(acc.to(mo.bfloat16), mma, second)

All follows from the atom's (thread, value) layouts; there is no table of fragments here.  Source: CuTe
cute/atom/mma_traits_*.hpp for the layouts; the exchange between threads is in ``moye.lang.collectives``.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from moye.dtypes import Space
from moye.errors import LayoutError, TensorError
from moye.hardware import WARP
from moye.layout import Int, IntTuple, Layout, coalesce, composition, crd2idx, make_layout, rank, right_inverse, size
from moye.layout.tuples import zip_leaves
from moye.tensor.context import locate
from moye.tensor.coords import CoordTensor
from moye.tensor.partitions import require_made
from moye.tensor.tensor import Tensor
from moye.tensor.tiled import TiledMMA, mma_parts, operand_of_mma, thread_coordinate, thread_values

# --- rows and columns ------------------------------------------------------------------------------------------------

Accumulators = TypeVar("Accumulators", Tensor, CoordTensor)


def mn_view(acc: Accumulators, mma: TiledMMA) -> Accumulators:
    """The registers of accumulators (MMA, MMA_M, MMA_N) as (rows, columns) that this thread holds.

    Mode 0 is (row within the atom, MMA_M) and mode 1 (columns within the atom, MMA_N): ((2,MMA_M),(2,MMA_N)) for
    mma.sync, ((2,MMA_M),(2,N/8,MMA_N)) for wgmma.  A row is the slice ``view[i, :]``, and ``view.reduce("max", 1)``
    folds each.  Of coordinates, ``thr.partition_C(mo.identity_tensor(tile))``, those of the same registers, and of
    memory, ``thr.partition_C(sC)``, the elements that belong to them.
    TensorError if ``acc`` is not what the MMA accumulates in.
    """
    if isinstance(acc, CoordTensor) or (isinstance(acc, Tensor) and acc.space is not Space.REGISTER):
        _require_partition("mn_view", acc, mma)
    else:
        _require_accumulators("mn_view", acc, mma)
    along_m, along_n = _value_modes(mma)

    def step(whole: Layout) -> Layout:
        values = whole.mode(0)
        rows, columns = ([composition(values, leaf) for leaf in leaves] for leaves in (along_m, along_n))
        return make_layout(make_layout(*rows, whole.mode(1)), make_layout(*columns, whole.mode(2)))

    return acc.applied(step)


def _require_accumulators(what: str, acc: object, mma: object) -> None:
    require_made(what, mma, TiledMMA, "mo.make_tiled_mma(operation, atom_layout)")
    require_made(what, acc, Tensor, "partition_fragment_C or make_fragment_C")
    assert isinstance(acc, Tensor) and isinstance(mma, TiledMMA), "both were asked for"
    if acc.space is not Space.REGISTER or not _has_accumulator_modes(acc, mma):
        raise TensorError(f"{what}: {acc!r} is no accumulator of {mma}, a register tensor (MMA, MMA_M, MMA_N) whose "
                          f"mode 0 has {size(mma.op.c_layout, 1)} values", locs=(locate(),))


def _require_partition(what: str, part: CoordTensor | Tensor, mma: object) -> None:
    require_made(what, mma, TiledMMA, "mo.make_tiled_mma(operation, atom_layout)")
    assert isinstance(mma, TiledMMA), "it was asked for"
    if not _has_accumulator_modes(part, mma):
        kind, whole = ("elements", "tile") if isinstance(part, Tensor) else ("coordinates", "mo.identity_tensor(tile)")
        raise TensorError(f"{what}: {part!r} is no partition of {mma}, {kind} (MMA, MMA_M, MMA_N) whose "
                          f"mode 0 has {size(mma.op.c_layout, 1)} values", locs=(locate(),),
                          hint=f"thr_mma.partition_C({whole}) makes one")


def _has_accumulator_modes(x: Tensor | CoordTensor, mma: TiledMMA) -> bool:
    return rank(x.layout) == 3 and size(x.layout, 0) == size(mma.op.c_layout, 1)


@cache
def _value_modes(mma: TiledMMA) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """The positions of an atom's values that go along M, and those along N: a layout for each leaf."""
    rows = mma.op.shape_mnk[0]
    values = mma.op.c_layout.mode(1)
    along_m, along_n = [], []
    position = 1
    for extent, step in zip_leaves(values.shape, values.stride):
        n, d = _int(extent), _int(step)
        inside = min(n, -(-rows // d)) if 0 < d < rows else 1           # the part of the leaf that stays in a column
        if inside > 1:
            along_m.append(make_layout(inside, position))
        if n > inside or d >= rows:
            along_n.append(make_layout(n // inside, position * inside))
        position *= n
    return tuple(along_m), tuple(along_n)


@cache
def row_lanes(mma: TiledMMA) -> tuple[int, ...]:
    """The lanes with which a thread shares its rows: they are those reached by xor with these numbers.

    TensorError if other warps hold a part of the rows, or other threads a part of the sums along K.
    """
    if _int(size(mma.atom_layout, 2)) > 1:
        raise TensorError(f"row_reduce: {mma} has {size(mma.atom_layout, 2)} atoms along K, each with a part of every "
                          "sum", hint="add their accumulators through shared memory first", locs=(locate(),))
    row_of, held = _first_rows(mma)
    groups: dict[int, set[int]] = {}
    for thread, row in enumerate(row_of):
        groups.setdefault(row, set()).add(thread)
    members = groups[row_of[0]]
    steps = _basis(members)
    if any({t ^ other for other in members} != groups[row] for t, row in enumerate(row_of)) \
            or len(members) != 1 << len(steps) or len(groups) * held != mma.tile_size(0):
        raise TensorError(f"row_reduce: the threads of {mma} that share a row are not neighbours in bits of their "
                          "numbers", locs=(locate(),))
    if max(members) >= WARP:
        warps = sorted({t // WARP for t in members})
        raise TensorError(f"row_reduce: with {mma} the warps {', '.join(map(str, warps))} hold parts of the same rows, "
                          "and warps exchange values through shared memory alone",
                          hint="use an atom layout with one atom along N", locs=(locate(),))
    return steps


def _first_rows(mma: TiledMMA) -> tuple[list[int], int]:
    """The row of each thread's first value within the tile of all threads, and how many rows a thread holds."""
    dims, tv = operand_of_mma(mma.op, "C")
    tile = mma.tile_size(0), mma.tile_size(1)
    threads, values, rests = mma_parts((mma, dims, tv), make_layout(tile))
    offsets = [sum(_int(crd2idx(part, mode)) for part, mode in zip(
        thread_coordinate(thread, mma.layout)[:3], _modes(threads), strict=True)) for thread in range(mma.threads)]
    held = {(_int(crd2idx(v, values)) + _int(crd2idx(r, rests[0]))) % tile[0]
            for v in range(_int(size(values))) for r in range(_int(size(rests[0])))}
    return [offset % tile[0] for offset in offsets], len(held)


def _basis(members: set[int]) -> tuple[int, ...]:
    """Numbers whose xors give all members, if these are closed under xor; the smallest ones."""
    found: list[int] = []
    reached = {0}
    for member in sorted(members):
        if member not in reached:
            found.append(member)
            reached |= {member ^ other for other in reached}
    return tuple(found)


# --- the next product ------------------------------------------------------------------------------------------------


def accumulators_as_A(acc: Tensor, mma: TiledMMA, into: TiledMMA) -> Tensor:
    """The registers of accumulators of ``mma`` as operand A, (MMA, MMA_M, MMA_K), of the product ``into``.

    ``acc`` has the layout of accumulators and the dtype of A: convert it first, ``acc.to(mo.bfloat16)``.  The columns
    of the first product are K of the next.  No value moves between threads; TensorError if one would have to.
    """
    what = "accumulators_as_A"
    _require_accumulators(what, acc, mma)
    require_made(what, into, TiledMMA, "mo.make_tiled_mma(operation, atom_layout)")
    if "a" in into.op.shared:
        raise TensorError(f"{what}: {into.op} takes A from shared memory", locs=(locate(),),
                          hint='mo.mma.wgmma(..., a_source="registers") takes it from registers')
    if acc.dtype != into.op.a_dtype:
        raise TensorError(f"{what}: {acc.label} holds {acc.dtype}, and A of {into.op} is {into.op.a_dtype}",
                          hint=f"convert it: {acc.label}.to(mo.{into.op.a_dtype})", locs=(locate(),))
    tile = tuple(_int(size(acc.layout, 1 + d)) * mma.op.shape_mnk[d] * _int(size(mma.atom_layout, d)) for d in (0, 1))
    order = _order(mma, into, (tile[0], tile[1]))
    if isinstance(order, str):
        raise TensorError(f"{what}: accumulators of {mma} are not in place as A of {into}: {order}", locs=(locate(),))
    return acc.applied(lambda whole: composition(whole, order))


@cache
def _order(mma: TiledMMA, into: TiledMMA, tile: tuple[int, int]) -> Layout | str:
    """Which of a thread's accumulators of a tile (M, N) each of its values of A is; or why there is no such order."""
    if into.threads != mma.threads:
        return f"the one has {mma.threads} threads and the other {into.threads}"
    for extent, name, mode in ((tile[0], "M", 0), (tile[1], "K", 2)):
        if extent % into.tile_size(mode):
            return f"{extent} accumulators along {name} are no multiple of {into.tile_size(mode)}"
    threads, values, rests = thread_values(mma, "C", tile)
    a_threads, a_values, a_rests = thread_values(into, "A", tile)
    try:
        place = right_inverse(make_layout(threads, make_layout(values, *rests)))        # (m, n) -> (thread, value)
        if size(place) != tile[0] * tile[1]:
            return "several threads hold the same one"
        owner = composition(place, a_threads)
        if coalesce(owner) != make_layout(mma.threads):
            return "a thread needs values that other threads hold"
        return _counted(composition(place, make_layout(a_values, *a_rests)), mma.threads)
    except LayoutError as error:
        return error.message


def _counted(layout: Layout, unit: int) -> Layout:
    """A layout of (thread, value) indices as one of values; LayoutError if it leaves the thread."""
    if any(_int(step) % unit for extent, step in zip_leaves(layout.shape, layout.stride) if extent != 1):
        raise LayoutError("a thread needs values that other threads hold")
    return Layout(layout.shape, _divided(layout.stride, unit))


def _divided(stride: IntTuple, unit: int) -> IntTuple:
    return tuple(_divided(each, unit) for each in stride) if isinstance(stride, tuple) else _int(stride) // unit


# --- pieces ----------------------------------------------------------------------------------------------------------


def _modes(layout: Layout) -> list[Layout]:
    return [layout.mode(i) for i in range(rank(layout))]


def _int(x: Int | object) -> int:
    if not isinstance(x, int):
        raise LayoutError(f"{x} must be static here")
    return x
