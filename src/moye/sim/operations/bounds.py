"""B1 and B2 by coordinates: whether the indices of an access lie inside the modes that they count.

In: an ``ops.Bounds``; in each batch its run-time indices and the mask.  Out: where a check fails, and the finding,
which names the element in the modes of the tensor that was asked for.

    bad = plan(checks, points, pred, mask); plan.report(bad, place, shape, points)

The memory that an access reaches is judged in watch.py: both are asked, since a view may be wider than its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.dtypes import Space, int64
from moye.ir import ops
from moye.ir.nodes import Index, Literal, TileRef
from moye.layout import make_layout
from moye.sim.findings.wording import named
from moye.sim.operations.access import Operand
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.addressing import Addresser
from moye.sim.values.masks import Mask, both
from moye.sim.values.memory import Array


@dataclass(slots=True)
class Failed:
    """The first point (number, thread, block) at which a check fails, its index there, and how often it does."""

    check: Index
    index: int
    extent: int
    found: tuple[int, int, int]
    count: int


class BoundsSite:
    """The static part: one table of indices for each check."""

    def __init__(self, op: ops.Bounds) -> None:
        self.op = op
        order = _order(op) if isinstance(op.pred, TileRef) and op.points else None
        self.checks = [self._addresser(check, order) for check in op.checks]
        self.place = [self._addresser(index, order) for index in op.place]
        self.pred = Operand(op, op.pred, op.extents, 1, None) if isinstance(op.pred, TileRef) else None

    def _addresser(self, index: Index, order: Array | None) -> Addresser:
        op = self.op
        points, strides = (op.points, index.strides) if index.strides else ((), ())
        ref = TileRef(op.buffer, Literal(0, int64), op.buffer.dtype, strides)
        return Addresser(ref, points, 1, order if strides else None)

    def bind(self, batch: BatchState) -> BoundsPlan:
        return BoundsPlan(self, batch)


def _order(op: ops.Bounds) -> Array:
    """The number of the point, for each element of each access."""
    counts = [extent // op.width if d == op.along and op.width > 1 else extent for d, extent in enumerate(op.elements)]
    number, stride = np.arange(int(np.prod(counts, dtype=np.int64)))[:, None], 1
    total = np.zeros((len(number), op.width), np.int64)
    for d, count in enumerate(counts):
        part, number = number % count, number // count
        if d == op.along and op.width > 1:
            part = part * op.width + np.arange(op.width)
        total = total + part * stride
        stride *= op.elements[d]
    return total.reshape(-1)


class BoundsPlan:
    """Judges one access in one batch."""

    def __init__(self, site: BoundsSite, batch: BatchState) -> None:
        self.site, self.op, self.watch, self.launch = site, site.op, batch.watch, batch.launch
        self.pred = site.pred.bind(batch) if site.pred else None
        stale, buffer = batch.launch.stale, site.op.buffer
        self.beyond = stale.beyond if stale is not None and site.op.write and buffer.id in stale.buffers else None

    def __call__(self, checks: tuple[tuple[Any, tuple[Any, ...], Any], ...], points: tuple[Any, ...], pred: Any,
                 mask: Mask) -> Failed | None:
        if self.beyond is not None:
            self.beyond.pop((self.op.buffer.id, self.op.loc), None)
        for addresser, check, (index, strides, extent) in zip(self.site.checks, self.op.checks, checks, strict=True):
            if check.strides:
                reached = addresser(index, strides, points)
                if not reached.size or not ((reached < 0) | (reached >= extent)).any():
                    continue
            elif isinstance(index, np.ndarray):
                if int(index.min()) >= 0 and bool(np.all(index < extent)):
                    continue
                reached = index[None]
            elif not isinstance(extent, np.ndarray) and 0 <= index < extent:
                continue
            else:
                reached = np.full((1, 1, 1), index)
            failed = self._failed(check, np.asarray(reached), extent, pred, mask)
            if failed is not None:
                return failed
        return None

    def _failed(self, check: Index, reached: Array, extent: Any, pred: Any, mask: Mask) -> Failed | None:
        assert self.watch is not None, "only checked runs judge"
        bad = (reached < 0) | (reached >= extent)
        self._note(bad)
        lanes = self._lanes(pred, mask, each=bool(check.strides))
        if lanes is False:
            return None
        if isinstance(lanes, np.ndarray) and lanes.ndim == 3 and len(bad) == 1:
            lanes = np.asarray(lanes.any(axis=0))
        found, count = self.watch.first(bad, lanes)
        if not found:
            return None
        shape = (len(bad), self.watch.threads, len(self.watch.block_ids))
        whole = extent if not isinstance(extent, np.ndarray) else np.broadcast_to(extent, shape)[found]
        number, thread, block = found
        return Failed(check, int(np.broadcast_to(reached, shape)[found]), int(whole), (number, thread, block), count)

    def _note(self, bad: Array) -> None:
        """Which lanes name no element, whatever the predicate says: for those who ask what it has left (stale.py)."""
        if self.beyond is not None:
            lanes, key = np.asarray(bad.all(axis=0)), (self.op.buffer.id, self.op.loc)
            self.beyond[key] = lanes | self.beyond[key] if key in self.beyond else lanes

    def _lanes(self, pred: Any, mask: Mask, *, each: bool) -> Mask:
        """The lanes (and accesses, of a fragment) that the predicate lets through."""
        if self.pred is not None:
            lanes = self.pred.load(self.pred.locate(pred, (), ()), mask).astype(np.bool_)
            return both(mask, np.repeat(lanes, self.op.width, axis=0) if each and self.op.width > 1 else lanes)
        if pred is None or pred is True:
            return mask
        return both(mask, np.asarray(pred)) if isinstance(pred, np.ndarray) else False

    # --- the finding -------------------------------------------------------------------------------------------------

    def report(self, failed: Failed, place: tuple[tuple[Any, tuple[Any, ...]], ...], shape: tuple[Any, ...],
               points: tuple[Any, ...], there: Any = None) -> None:
        """Tell which element it is; ``there`` are the columns of the blocks whose memory it would be, if of others."""
        assert self.watch is not None, "only checked runs judge"
        coordinate = tuple(self._at(addresser, given, points, failed)
                           for addresser, given in zip(self.site.place, place, strict=True)) or None
        op, buffer = self.op, self.op.buffer
        name, view = op.name or buffer.name, failed.check.view
        extents = tuple(int(np.max(extent)) for extent in shape)
        outside = coordinate is not None and any(not 0 <= c < e for c, e in zip(coordinate, extents, strict=True))
        lane = (failed.found[1], failed.found[2])
        facts: dict[str, Any] = {"written": op.write, "element": "" if coordinate is None else named(name, coordinate)}
        if outside:
            columns = None if there is None else np.broadcast_to(there, (self.watch.threads, len(self.watch.block_ids)))
            facts |= {"base": "" if name == buffer.name else buffer.name, "view": name,
                      "there": None if columns is None else self.watch.block(int(columns[lane])),
                      "home": self._home(name, extents), **_stage(coordinate, extents, buffer.space)}
        else:
            facts |= {"index": failed.index, "view": view or name, "mode": failed.check.mode, "extent": failed.extent}
        self.watch.reporter.judged.add((buffer.name, op.loc))
        self.watch.tell("B1" if buffer.space is Space.GLOBAL else "B2", "view" if outside else "index", op, lane,
                        failed.count, tensor=buffer.name, coordinate=coordinate, **facts)

    def _at(self, addresser: Addresser, given: tuple[Any, tuple[Any, ...]], points: tuple[Any, ...],
            failed: Failed) -> int:
        index = np.asarray(addresser(given[0], given[1], points if addresser.strides else ()))
        number, thread, block = failed.found
        shape = (len(index), self.watch.threads, len(self.watch.block_ids))  # type: ignore[union-attr]
        return int(np.broadcast_to(index, shape)[number if len(index) > 1 else 0, thread, block])

    def _home(self, name: str, extents: tuple[int, ...]) -> str:
        buffer = self.op.buffer
        if buffer.space is not Space.GLOBAL and name == buffer.name:
            return f"layout {buffer.layout}"
        if name == buffer.name:
            arg = self.launch.memory(buffer, buffer.dtype).arg
            if arg.shape == extents:
                return f"layout {make_layout(arg.shape, arg.strides)}"
        return f"shape {extents[0] if len(extents) == 1 else extents}"


def _stage(coordinate: tuple[int, ...] | None, extents: tuple[int, ...], space: Space) -> dict[str, Any]:
    """Which mode it is that the index leaves, in shared memory: the last one is that of the stages."""
    if space is Space.GLOBAL or coordinate is None:
        return {"staged": False}
    mode = next(m for m, (c, e) in enumerate(zip(coordinate, extents, strict=True)) if not 0 <= c < e)
    last = len(extents) - 1
    beyond = last > 0 and not 0 <= coordinate[last] < extents[last]
    return {"staged": True, "stages": mode == last > 0, "index": coordinate[mode], "extent": extents[mode],
            "mode": mode, "depth": extents[last], "mend": "stage" if beyond else "index"}
