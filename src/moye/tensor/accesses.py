"""What must hold for the coordinates of an access, if neither the trace nor the launch can prove it.

In: a view, how it is accessed, its predicate.  Out: one ``ops.Bounds`` in front of the access, or nothing.

    judge(tAgA, "reads", pred)          # of a view of a ragged tile: the row and the column of every element

Making a view is never judged: an index that leaves its mode is no fault until something is accessed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moye.dtypes import Space
from moye.errors import MoyeError
from moye.ir import ops
from moye.ir.nodes import Block, Extent, Index, Operand, TileRef, Value
from moye.layout import Int, Layout, coalesce, crd2idx
from moye.layout.tuples import zip_leaves
from moye.tensor.bounds import proven, require_index_at_launch
from moye.tensor.context import builder
from moye.tensor.expr import Expr, operand_of
from moye.tensor.slices import wide
from moye.tensor.space import common_space
from moye.tensor.view import Coordinates, Origin, Pending, Track, View, along, apart, judged_by_memory


def judge_element(tensor: View, coordinate: object, own: tuple[Pending, ...], write: bool) -> None:
    """Judge an access to the element at a full coordinate whose entries ``own`` are not proven."""
    origin = tensor.origin or (Origin.of(tensor) if own else None)
    if origin is None or tensor.space is Space.REGISTER:
        return

    def at(track: Track) -> tuple[Int, ...] | None:
        found = track.place.now()
        if found is None:
            return None
        try:
            return tuple(found[1] + crd2idx(wide(coordinate), found[0]))
        except (MoyeError, TypeError):
            return None

    checks = [*_scalars(tensor, (*origin.pending, *own))]
    for track in origin.tracks:
        if not track.modes:
            continue
        found = _shadow(lambda track=track: at(track))
        if found is None:
            judged_by_memory(tensor.label)
        else:
            checks += [_index(mode, found[mode], track.root.extents[mode], track.root.name)
                       for mode in sorted(track.modes) if not _inside(found[mode], track.root.extents[mode])]
    if checks:
        _emit(tensor, origin, write, checks, lambda: at(origin.tracks[0]))


def judge(tensor: View, write: bool, pred: Any = None, others: Sequence[Layout] = (), elements: tuple[int, ...] = (),
          width: int = 1, along_: int = 0) -> None:
    """Judge an access to all elements of a view.

    ``pred`` is an operand, or a reference to a fragment over the accesses.  Each access is ``width`` elements along one
    dimension of the space ``elements``; ``others`` are the layouts of all operands, which make that space.
    """
    origin = tensor.origin
    if origin is None or tensor.space is Space.REGISTER or not origin.loose:
        return
    checks = [*_scalars(tensor, origin.pending)]
    points: tuple[Extent, ...] = ()
    loose = [track for track in origin.tracks if track.modes]
    if loose:
        tracks = [found for track in loose if (found := track.place.now()) is not None]
        layouts = [along(layout, mode) for (layout, _), track in zip(tracks, loose, strict=False)
                   for mode in sorted(track.modes)]
        spread = _spread(tensor, layouts, others)
        if spread is not None and len(tracks) == len(loose):
            points, strides = spread
            checks += _per_element(loose, tracks, strides)
        else:
            judged_by_memory(tensor.label)
    if checks:
        used = points if any(check.strides for check in checks) else ()
        _emit(tensor, origin, write, checks, lambda: _first(origin), used, pred, elements, width, along_)


def judge_run(tensor: View, count: Any, *, write: bool) -> None:
    """Judge an access to the first ``count`` elements of a run (None: all of it)."""
    if count is None or tensor.origin is None or not tensor.origin.loose:
        judge(tensor, write)
        return
    origin, last = tensor.origin, count - 1
    checks = [*_scalars(tensor, origin.pending)]
    for track in origin.tracks:
        found = track.place.now() if track.modes else None
        if found is None:
            continue
        for mode in sorted(track.modes):
            run = coalesce(along(found[0], mode))
            steps = [step for _, step in zip_leaves(run.shape, run.stride)]
            if len(steps) == 1:                         # else rows of a matrix: the memory that it reaches is judged
                end = _shadow(lambda start=found[1][mode], step=steps[0]: start + wide(last) * step)
                checks.append(_index(mode, end, track.root.extents[mode], track.root.name))
    if checks:
        _emit(tensor, origin, write, checks, lambda: _first(origin))


def _first(origin: Origin) -> tuple[Int, ...] | None:
    found = origin.tracks[0].place.now()
    return None if found is None else tuple(found[1])


def _per_element(loose: list[Track], tracks: list[Coordinates], strides: list[tuple[Int, ...]]) -> list[Index]:
    supply = iter(strides)
    return [_index(mode, offset[mode], track.root.extents[mode], track.root.name, next(supply))
            for track, (_, offset) in zip(loose, tracks, strict=True) for mode in sorted(track.modes)]


def _spread(tensor: View, layouts: list[Layout], others: Sequence[Layout]) \
        -> tuple[tuple[Extent, ...], list[tuple[Int, ...]]] | None:
    """The points of an access, and how far each of the layouts goes between them."""
    if not others:
        leaves = [zip_leaves(layout.shape, layout.stride) for layout in layouts]
        return tuple(_extent(extent) for extent, _ in leaves[0]), [tuple(d for _, d in each) for each in leaves]
    guards = len(builder().func.guards)
    try:
        space = common_space([*others, *layouts])
    except MoyeError:
        return None
    finally:
        del builder().func.guards[guards:]
    return tuple(_extent(extent) for extent in space.extents), list(space.strides[len(others):])


def _scalars(tensor: View, pending: Sequence[Pending]) -> list[Index]:
    """The indices that the conditions around this access do not prove either; the launch checks what it can."""
    found = []
    for each in apart(pending):
        if proven(each.index, each.extent):
            continue
        require_index_at_launch(tensor, each)
        found.append(_index(each.mode, each.index, each.extent, each.label))
    return found


def _inside(index: Int, extent: Int) -> bool:
    return proven(index, extent)


def _shadow(make: Any) -> Any:
    """Record in the open block what ``make`` records, but hide it from expressions that the user's code finds again."""
    b = builder()
    with b.inside(Block()) as body:
        found = make()
    b.splice(body)
    return found


def _emit(tensor: View, origin: Origin, write: bool, checks: list[Index], place: Any,
          points: tuple[Extent, ...] = (), pred: Any = None, elements: tuple[int, ...] = (), width: int = 1,
          along_: int = 0) -> None:
    b, root = builder(), origin.tracks[0].root
    with b.inside(Block()) as body:
        found = place() or ()
        at = tuple(_index(mode, index, extent) for mode, (index, extent) in
                   enumerate(zip(found, root.extents, strict=False)))
    if points and at:
        by_mode = {check.mode: check for check in checks if check.strides and not check.view}
        at = tuple(by_mode.get(index.mode, index) for index in at)
    single = isinstance(pred, TileRef)
    b.emit(ops.Bounds(
        buffer=tensor.buffer, name=root.name, shape=tuple(_extent(extent) for extent in root.extents), write=write,
        checks=tuple(checks), place=at, body=body, points=points, pred=pred,
        extents=_accesses(elements, width, along_) if single else (), elements=elements if single else (),
        width=width if single else 1, along=along_ if single else 0))


def _accesses(elements: tuple[int, ...], width: int, at: int) -> tuple[int, ...]:
    counts = [extent // width if d == at and width > 1 else extent for d, extent in enumerate(elements)]
    return tuple(count for count in counts if count != 1) if width > 1 else tuple(counts)


def _index(mode: int, index: Int, extent: Int, view: str = "", strides: Sequence[Int] = ()) -> Index:
    return Index(mode, _operand(index), _extent(extent), tuple(_extent(stride) for stride in strides), view)


def _operand(x: Int) -> Operand:
    return x.operand if isinstance(x, Expr) else operand_of(x)  # type: ignore[arg-type]


def _extent(x: Int) -> Extent:
    if isinstance(x, int):
        return x
    operand = _operand(x)
    return operand if isinstance(operand, Value) else int(operand.value)
