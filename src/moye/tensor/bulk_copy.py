"""Bulk copies in a kernel: what ``copyto`` makes of ``BulkCopy`` and ``BulkReduce``, and prefetches.

In: two tensors, each a run of memory or several that lie apart, in the same order.  Out: an ``ops.BulkCopy`` a run.

    mo.copyto(mo.BulkCopy(), sX[:, stage], gX[:, k], barrier=(full, stage))

Nothing here waits.  What arrives in shared memory completes on its mbarrier, and what leaves for global memory at the
thread's bulk wait.  A bulk copy permutes nothing; swizzles are for TMA.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from moye.atoms.bulk import PART, REDUCED, BulkOp, BulkReduce
from moye.dtypes import Space, int32, uint16
from moye.errors import AlignmentError, DTypeError, LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Operand, Ref
from moye.layout import Int, is_bijective
from moye.layout.tuples import zip_leaves
from moye.tensor.accesses import judge_run
from moye.tensor.bounds import need_bytes
from moye.tensor.context import builder, locate
from moye.tensor.copying import misalignment, proven
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.space import common_space, merged
from moye.tensor.tensor import Tensor, index_operand
from moye.tensor.tma_boxes import is_static
from moye.tensor.tma_copy import TmaTensor, barrier_ref, check_hint, check_mask, prefetch_boxes

_MOST_RUNS = 256
_KINDS: dict[tuple[Space, Space], Any] = {
    (Space.SHARED, Space.GLOBAL): "load", (Space.CLUSTER, Space.SHARED): "send", (Space.GLOBAL, Space.SHARED): "store"}


def copy_bulk(op: BulkOp, places: tuple[object, ...], barrier: tuple[Tensor, Int] | None, multicast: Scalar | None,
              hint: Any, size: Scalar | None) -> None:
    """Copy run by run, or the first ``size`` elements of one run.  ``places`` are (dst, src)."""
    asked = f"copyto with {op}"
    if len(places) != 2 or not all(isinstance(place, Tensor) for place in places):
        raise TensorError(f"{asked} takes two tensors, dst and src, and not "
                          f"({', '.join(type(place).__name__ for place in places)})", locs=(locate(),))
    dst, src = places
    assert isinstance(dst, Tensor) and isinstance(src, Tensor), "both are tensors"
    kind = _kind(asked, op, dst, src)
    _check_dtypes(asked, op, dst, src)
    runs = _runs(asked, dst, src)
    elements = runs.elements
    _check_swizzles(asked, (dst, src), elements, size)
    for view in (dst, src):
        _require_aligned(asked, view)
    _check_runs(asked, runs, (dst, src), size)
    count = _bytes(asked, src, elements, size)
    _check_options(asked, kind, barrier, multicast, hint)
    for view in (src, dst):
        judge_run(view, size, write=view is dst)
    completes = None if barrier is None else barrier_there(f"a copy with {op}", dst, barrier)
    mask = None if multicast is None else operand_of(multicast, uint16)
    for to, of in runs.steps():
        builder().emit(ops.BulkCopy(
            kind=kind, by=_by(op), dst=_first(dst, to), src=_first(src, of), bytes=count,
            run=elements * src.dtype.bytes, barrier=completes, multicast=mask, hint=hint))


def prefetch(what: TmaTensor | Tensor, coordinates: object = None, *, hint: str | None = None,
             size: Scalar | None = None) -> None:
    """Fetch to the L2 cache what a later copy reads.  Nobody waits for it, and nothing else changes.

    ``prefetch(tma, coordinates)`` fetches one tile of a TMA copy (cp.async.bulk.prefetch.tensor).  ``prefetch(gX)``
    fetches one contiguous run of global memory, or its first ``size`` elements (cp.async.bulk.prefetch.L2), under the
    rules of bulk copies.  One thread calls it.
    """
    policy: Any = hint
    if isinstance(what, TmaTensor):
        if size is not None:
            raise TensorError(f"prefetch: {what.label} has tiles of one size: size= is for tensors", locs=(locate(),))
        prefetch_boxes(what, coordinates, policy)
        return
    if not isinstance(what, Tensor) or what.space is not Space.GLOBAL or coordinates is not None:
        shown = repr(what) if isinstance(what, Tensor) else f"a {type(what).__name__}"
        raise TensorError(f"prefetch takes a tensor in global memory, or a TMA copy and coordinates, not {shown}"
                          f"{'' if coordinates is None else ' and coordinates'}", locs=(locate(),))
    need_bytes(what)
    check_hint("prefetch", hint)
    judge_run(what, size, write=False)
    elements = _run("prefetch", what)
    _require_aligned("prefetch", what)
    builder().emit(ops.BulkCopy(kind="prefetch", dst=None, src=_first(what), hint=policy,
                                bytes=_bytes("prefetch", what, elements, size), run=elements * what.dtype.bytes))


def _first(view: Tensor, step: Int = 0) -> Ref:
    """The first element of a run that begins ``step`` elements further on."""
    return Ref(view.buffer, index_operand(view.offset + step), view.dtype)


def barrier_there(what: str, dst: Tensor, barrier: object) -> Ref:
    """The mbarrier, in the block that ``dst`` is in."""
    ref = barrier_ref(what, barrier)
    if dst.buffer.base is None:
        return ref
    mapped = dst.buffer.base.op
    assert isinstance(mapped, ops.MapShared), "memory of another block is mapped"
    return Ref(builder().map_shared(ref.buffer, mapped.rank), ref.offset, ref.dtype)


# --- what fits -------------------------------------------------------------------------------------------------------


def _kind(asked: str, op: BulkOp, dst: Tensor, src: Tensor) -> Any:
    found = _KINDS.get((dst.space, src.space))
    if isinstance(op, BulkReduce):
        found = "reduce" if found == "store" else None
    if found is None:
        ways = "from shared to global memory" if isinstance(op, BulkReduce) else \
            "between global and shared memory, and from shared memory to another block's"
        raise TensorError(f"{asked} goes {ways}: {src.label} lives in {src.space.value} and {dst.label} in "
                          f"{dst.space.value}", locs=(locate(),))
    return found


def _by(op: BulkOp) -> Any:
    return op.by if isinstance(op, BulkReduce) else "add"


def _check_dtypes(asked: str, op: BulkOp, dst: Tensor, src: Tensor) -> None:
    need_bytes(dst, src)
    if (dst.dtype.bits, dst.dtype.numpy) != (src.dtype.bits, src.dtype.numpy):
        raise DTypeError(f"{asked}: {dst.label} holds {dst.dtype} but {src.label} holds {src.dtype}", locs=(locate(),))
    if isinstance(op, BulkReduce) and dst.dtype not in REDUCED[op.by]:
        raise DTypeError(f"{asked}: {dst.label} holds {dst.dtype}, and what it {'adds' if op.by == 'add' else 'takes'} "
                         f"is {', '.join(dtype.name for dtype in REDUCED[op.by])}", locs=(locate(),))


def _run(asked: str, *views: Tensor) -> int:
    """The elements of the views, each one run of memory in the same order; TensorError (B5) if they are not."""
    for view in views:
        if not is_static(view.layout):
            extents = all(isinstance(extent, int) for extent, _ in zip_leaves(view.layout.shape, view.layout.stride))
            raise TensorError(f"{asked}: the layout {view.layout} of {view.label} is not static", locs=(locate(),),
                              hint="let a run be one mode of the array, as of x.reshape(count, run)" if extents else
                              f"mo.tile({view.label}, ...) cuts static tiles, and size= copies a part of one")
    try:
        space = merged(common_space([view.layout for view in views]))
    except LayoutError as error:
        raise TensorError(f"{asked}: {error.message}", locs=(locate(),)) from None
    reach = 1
    for extent, *strides in sorted(zip(space.extents, *space.strides, strict=True), key=lambda part: part[1]):
        if any(stride != reach for stride in strides):
            raise _no_run(asked, views)
        reach *= extent
    return reach


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of ``elements`` side by side in both tensors; the others lie ``strides`` of dst and src apart."""

    elements: int
    extents: tuple[int, ...]
    strides: tuple[tuple[Int, ...], tuple[Int, ...]]

    @property
    def count(self) -> int:
        return prod(self.extents)

    def steps(self) -> Iterator[tuple[Int, Int]]:
        """How far each run lies behind the first one, in dst and in src."""
        for point in itertools.product(*map(range, reversed(self.extents))):
            to, of = (_sum(i * stride for i, stride in zip(point[::-1], strides, strict=True))
                      for strides in self.strides)
            yield to, of


def _sum(terms: Iterable[Int]) -> Int:
    whole: Int = 0
    for term in terms:
        whole = whole + term
    return whole


def _runs(asked: str, dst: Tensor, src: Tensor) -> _Runs:
    """The runs of two tensors, each as long as it can be; TensorError where an extent is dynamic or there are none."""
    for view in (dst, src):
        if not all(isinstance(extent, int) for extent, _ in zip_leaves(view.layout.shape, view.layout.stride)):
            return _Runs(_run(asked, dst, src), (), ((), ()))           # says why not
    try:
        space = merged(common_space([dst.layout, src.layout]))
    except LayoutError as error:
        raise TensorError(f"{asked}: {error.message}", locs=(locate(),)) from None
    parts = list(zip(space.extents, *space.strides, strict=True))
    reach, left = 1, list(parts)
    while following := [part for part in left if all(isinstance(s, int) and s == reach for s in part[1:])]:
        left.remove(following[0])
        extent = following[0][0]
        assert isinstance(extent, int), "extents are static"
        reach *= extent
    if left and reach * dst.dtype.bytes % PART:
        return _Runs(_run(asked, dst, src), (), ((), ()))
    extents = tuple(part[0] for part in left if isinstance(part[0], int))
    return _Runs(reach, extents, (tuple(part[1] for part in left), tuple(part[2] for part in left)))


def _check_runs(asked: str, runs: _Runs, views: tuple[Tensor, Tensor], size: Scalar | None) -> None:
    """What several runs must be: few enough, aligned each, whole, without a swizzle."""
    if not runs.extents:
        return
    if runs.count > _MOST_RUNS:
        raise TensorError(f"{asked}: {views[1].label} with layout {views[1].layout} has {runs.count} runs, and at most "
                          f"{_MOST_RUNS} are issued for a copy", hint="mo.make_tma_copy copies boxes of many rows",
                          locs=(locate(),), code="B5")
    if size is not None:
        raise TensorError(f"{asked}: size= copies a part of one run, and {views[1].label} with layout "
                          f"{views[1].layout} has {runs.count}", locs=(locate(),), code="B5")
    for view, strides in zip(views, runs.strides, strict=True):
        if view.swizzle is not None and view.swizzle.bits:
            raise TensorError(f"{asked} copies what is swizzled as one run, and {view.label} with layout {view.layout} "
                              f"has {runs.count}", hint="mo.make_tma_copy copies swizzled tiles", locs=(locate(),),
                              code="B5")
        if proven(view, strides, -1) % PART:
            raise AlignmentError(f"{asked} needs runs at multiples of {PART} bytes, but those of {view.label} with "
                                 f"layout {view.layout} lie {', '.join(map(str, strides))} elements apart",
                                 hint=f"let them lie multiples of {PART // view.dtype.bytes} elements apart",
                                 locs=(locate(),), code="B5")


def _no_run(asked: str, views: tuple[Tensor, ...]) -> TensorError:
    for view in views:
        if not is_bijective(view.layout):
            return TensorError(f"{asked} moves one contiguous run, and {view.label} with layout {view.layout} is none",
                               hint="copy it run by run, or by TMA: mo.make_tma_copy", locs=(locate(),), code="B5")
    return TensorError(f"{asked} permutes nothing, but {' and '.join(f'{v.label} {v.layout}' for v in views)} run "
                       "through memory in different orders", hint="give both the strides of one",
                       locs=(locate(),), code="B5")


def _check_swizzles(asked: str, views: tuple[Tensor, Tensor], elements: int, size: Scalar | None) -> None:
    """Swizzled runs can be copied if both are permuted alike: one swizzle, and whole periods of it."""
    found = [None if v.swizzle is None or not v.swizzle.bits else v.swizzle for v in views]
    if found == [None, None]:
        return
    if found[0] is None or found[0] != found[1]:
        shown = " and ".join(f"{v.label} is {'not swizzled' if s is None else f'swizzled by {s}'}"
                             for v, s in zip(views, found, strict=True))
        raise TensorError(f"{asked} permutes nothing, but {shown}", hint="mo.make_tma_copy copies swizzled tiles",
                          locs=(locate(),), code="B5")
    parts: list[Int | Scalar] = [elements, *(view.offset for view in views), *([] if size is None else [size])]
    if any(_divisor(part) % found[0].period for part in parts):
        raise TensorError(f"{asked} copies what is swizzled by {found[0]} in whole periods of {found[0].period} "
                          f"elements, and the run of {views[1].label} begins or ends within one",
                          hint="copy whole tiles", locs=(locate(),), code="B5")


def _require_aligned(asked: str, view: Tensor) -> None:
    """Shared memory is aligned as needed; for other memory it must be proven."""
    if view.space is not Space.GLOBAL:
        for buffer in (view.buffer, view.buffer.root):
            buffer.align = max(buffer.align, PART)
    if view.alignment % PART == 0:
        return
    found = misalignment(view, PART)
    assert found is not None, "it is not known to be aligned"
    where, hint = found
    if not isinstance(view.offset, int) and hint.startswith("slice"):
        hint += f", and say so of a number: mo.assume(start % {PART // view.dtype.bytes} == 0)"
    raise AlignmentError(f"{asked} needs addresses that are multiples of {PART} bytes, but {view.label} is misaligned: "
                         f"{where}", hint=hint, locs=(locate(),), code="B5")


def _divisor(x: Any) -> int:
    return (abs(x) or 1 << 40) if isinstance(x, int) else int(x.divisor)


def _bytes(asked: str, view: Tensor, elements: int, size: Scalar | None) -> Operand:
    """How many bytes are copied, a multiple of 16."""
    count, unit = elements if size is None else size, PART // view.dtype.bytes
    if not isinstance(count, int) and not (isinstance(count, Expr) and count.dtype.is_integer):
        raise DTypeError(f"{asked}: size={count} is no integer", locs=(locate(),))
    low, high = (count, count) if isinstance(count, int) else (count.lower, count.upper)
    if (low is not None and low > elements) or (high is not None and high < 1):
        raise TensorError(f"{asked}: size={count} is not from 1 to the {elements} elements of {view.label} "
                          f"{view.layout}", locs=(locate(),), code="B2")
    if _divisor(count) * view.dtype.bytes % PART:
        why = f"size={count} is not known to be a multiple of {unit} elements of {view.dtype}"
        if isinstance(count, int):
            why = f"{count} elements of {view.dtype} are {count * view.dtype.bytes} bytes"
        raise AlignmentError(f"{asked} moves multiples of {PART} bytes, but {why}", locs=(locate(),), code="B5",
                             hint=None if isinstance(count, int) else f"mo.assume(size % {unit} == 0) says that it is")
    return operand_of(count * view.dtype.bytes, int32)


def _check_options(asked: str, kind: str, barrier: object, multicast: Scalar | None, hint: object) -> None:
    check_hint(asked, hint)
    arrives = kind in ("load", "send")
    if arrives != (barrier is not None):
        what = "into shared memory needs the mbarrier that it completes on" if arrives else \
            "into global memory completes with its bulk group, on no mbarrier"
        raise TensorError(f"{asked} {what}", locs=(locate(),), hint="barrier=(bars, i)" if arrives else
                          "leave out barrier=")
    if kind == "send" and prod(builder().func.cluster_dim) == 1:
        raise TensorError(f"{asked}: a cluster of one block has no other, and the GPU no such instruction there",
                          hint="launch(..., cluster=2), or copy it with threads", locs=(locate(),))
    if multicast is not None and kind != "load":
        raise TensorError(f"{asked}: only copies from global to shared memory are multicast", locs=(locate(),))
    check_mask(asked, multicast)
    if hint is not None and kind == "send":
        raise TensorError(f"{asked}: a copy to another block passes no L2 cache, so it takes no hint", locs=(locate(),))
