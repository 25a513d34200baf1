"""Exchange within a warp: shuffles, votes, folds, matches and the election of one of the lanes that arrived together.

In: an op, its operands and the mask.  Out: the result of each lane (T, B).

Who has to be there before it happens is decided in barriers.py; a lane that reads an inactive one is finding C7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Value
from moye.sim.findings.wording import Clause
from moye.sim.flow.segments import name_of
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.doubts import Origin
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array, numpy_dtype
from moye.sim.values.overflow import signed
from moye.sim.values.scalars import reduction

_FULL = 0xFFFFFFFF


def sources(op: ops.Shuffle, lane: Any, threads: int) -> Array:
    """The thread that each thread reads, (T, 1 or B), as PTX defines shfl: its own where there is none.

    Lanes and distances count modulo 32.  Only the far end of the segment stops a source: xor reads earlier segments.
    """
    thread = np.arange(threads)[:, None]
    first, last = thread & -op.width, thread | (op.width - 1)
    lane = np.asarray(lane, np.int64) & (WARP - 1)
    if op.kind == "idx":
        return np.asarray(first + (lane & (op.width - 1)))
    if op.kind == "up":
        return np.where(thread - lane >= first, thread - lane, thread)
    target = thread + lane if op.kind == "down" else thread ^ lane
    return np.where(target <= last, target, thread)


def shuffle(batch: BatchState, op: ops.Shuffle, value: Any, lane: Any, mask: Mask) -> Array:
    """What each lane gets; B follows the operands."""
    threads = batch.threads
    source = sources(op, lane, threads)
    if batch.watch is not None:
        bad = _check(batch, op, source, mask)
        if bad is not None or batch.doubts.on:
            _doubt(batch, op, source, mask, bad)
    values = np.asarray(value, numpy_dtype(op.result.dtype))
    values = np.broadcast_to(values, (threads, values.shape[1] if values.ndim == 2 else 1))
    source = np.clip(source, 0, threads - 1)
    if source.shape[1] == 1:
        return values[source[:, 0]]
    return np.take_along_axis(np.broadcast_to(values, (threads, source.shape[1])), source, axis=0)


def _check(batch: BatchState, op: ops.Shuffle, source: Array, mask: Mask) -> Array | None:
    """Report C7 for lanes that their own mask does not name; the result is those (T, B) that read a lane which is not
    there."""
    watch, threads = batch.watch, batch.threads
    assert watch is not None, "checks are on"
    if mask is None and op.mask == 0xFFFFFFFF and source.max(initial=0) < threads:
        return None
    active = lanes_of(mask, threads, batch.blocks)
    named = (op.mask >> (np.arange(threads, dtype=np.int64) % WARP) & 1).astype(np.bool_)[:, None]
    there = active & named
    reads = np.broadcast_to(source, (threads, batch.blocks))
    good = np.take_along_axis(there, np.clip(reads, 0, threads - 1), axis=0) & (reads < threads)
    outside = np.argwhere(active & ~named)
    if len(outside):
        thread, block = (int(i) for i in outside[0])
        watch.tell("C7", "mask", op, (thread, block), len(outside), mask=op.mask)
    bad: Array = active & named & ~good
    return bad if bad.any() else None


def _doubt(batch: BatchState, op: ops.Shuffle, source: Array, mask: Mask, bad: Array | None) -> None:
    """What a lane gets of one that is not there, or that has a value in doubt, is in doubt."""
    doubts, shape = batch.doubts, (batch.threads, batch.blocks)
    reads = np.broadcast_to(source, shape)
    given = doubts.of.get(name_of(op.value)) if isinstance(op.value, Value) else None
    new = np.zeros(shape, np.int16) if given is None else \
        np.take_along_axis(given, np.clip(reads, 0, batch.threads - 1), axis=0)
    if bad is not None:
        named = (op.mask >> (np.arange(batch.threads, dtype=np.int64) % WARP) & 1).astype(np.bool_)[:, None]
        reads, gone = reads.copy(), batch.gone().copy()

        def told(lane: tuple[int, int]) -> dict[str, Any]:
            other = int(reads[lane])
            return {"lane": other % WARP, "why": _absent(other, named, gone[:, lane[1]])}

        new = np.where(bad, np.int16(doubts.begin(Origin("C7", op, {}, bad, told))), new)
    doubts.put(name_of(op.result), new, mask)


def _absent(thread: int, named: Array, gone: Array) -> Clause:
    """Why a thread does not take part."""
    if thread >= len(named):
        return Clause("absent")
    if not named[thread, 0]:
        return Clause("unnamed_lane")
    return Clause("exited" if gone[thread] else "not_there")


def vote(batch: BatchState, op: ops.Vote, pred: Any, mask: Mask) -> Array:
    """ballot, any or all of the active lanes of each warp."""
    threads, warps = batch.threads, -(-batch.threads // WARP)
    pred = np.asarray(pred, np.bool_).reshape((1, 1) if np.ndim(pred) == 0 else np.shape(pred))
    lanes = np.ones((threads, 1), np.bool_) if mask is None else np.asarray(mask)
    columns = max(pred.shape[1], lanes.shape[1])

    def warped(x: Array) -> Array:
        full = np.zeros((warps * WARP, columns), np.bool_)
        full[:threads] = np.broadcast_to(x, (threads, columns))
        return full.reshape(warps, WARP, columns)

    yes, active = warped(pred & lanes), warped(lanes)
    if op.kind == "ballot":
        bits = (yes * (np.uint64(1) << np.arange(WARP, dtype=np.uint64))[:, None]).sum(axis=1, dtype=np.uint64)
        result: Array = bits.astype(np.uint32)
    else:
        result = np.asarray(yes.any(axis=1) if op.kind == "any" else ~(active & ~yes).any(axis=1))
    return np.repeat(result, WARP, axis=0)[:threads]


def redux(batch: BatchState, op: ops.Redux, value: Any, mask: Mask) -> Array:
    """The fold over the active lanes of each warp, which all of them get."""
    dtype = numpy_dtype(op.result.dtype)
    value = np.asarray(value, dtype).reshape((1, 1) if np.ndim(value) == 0 else np.shape(value))
    lanes = np.ones((batch.threads, 1), np.bool_) if mask is None else np.asarray(mask)
    fold, first = reduction(op.kind, op.result.dtype), _NEUTRAL[op.kind](dtype)
    if op.kind != "add":
        return _by_warp(batch.threads, fold, np.where(lanes, value, first))
    exact = _by_warp(batch.threads, fold, np.where(lanes, value, 0).astype(np.int64))
    result: Array = exact.astype(dtype)
    if batch.watch is not None and signed(dtype) and (bad := exact != result).any():
        batch.watch.summed(op, exact, value, bad, mask)
    return result


_NEUTRAL: dict[str, Callable[[Any], int]] = {
    "add": lambda _: 0, "or": lambda _: 0, "xor": lambda _: 0, "and": lambda dtype: -1 if dtype.kind == "i" else _FULL,
    "max": lambda dtype: int(np.iinfo(dtype).min), "min": lambda dtype: int(np.iinfo(dtype).max),
}


def _by_warp(threads: int, fold: Any, values: Array) -> Array:
    """The fold of each warp's values, (T, B) or (1, B) where all threads have one, for each of its threads."""
    values = np.broadcast_to(values, (threads, values.shape[1]))
    return np.repeat(fold.reduceat(values, np.arange(0, threads, WARP), axis=0), WARP, axis=0)[:threads]


def match(batch: BatchState, op: ops.Match, value: Any, mask: Mask) -> Array:
    """The lanes of each warp that have the thread's value, or all of them if they have one."""
    value = np.asarray(value, numpy_dtype(op.value.dtype))
    values = np.broadcast_to(value.reshape((1, 1) if value.ndim == 0 else value.shape),
                             (batch.threads, value.shape[1] if value.ndim == 2 else 1))
    lanes = np.ones((batch.threads, 1), np.bool_) if mask is None else np.asarray(mask)
    shape = batch.threads, max(values.shape[1], lanes.shape[1])
    values, lanes = np.broadcast_to(values, shape), np.broadcast_to(lanes, shape)
    result = np.zeros(shape, np.uint32)
    for first in range(0, batch.threads, WARP):
        warp, active = values[first:first + WARP], lanes[first:first + WARP]
        equal = (warp[:, None] == warp[None]) & active[None]                    # (lane, other, B)
        bits = np.uint32(1) << np.arange(len(warp), dtype=np.uint32)
        found = (equal * bits[None, :, None]).sum(axis=1, dtype=np.uint64).astype(np.uint32)
        if op.kind == "all":
            every = (active * bits[:, None]).sum(axis=0, dtype=np.uint64).astype(np.uint32)
            found = np.where((found == every) | ~active, found, np.uint32(0))
        result[first:first + WARP] = found
    return result


def elect(batch: BatchState, mask: Mask) -> Array:
    """True in the lowest active lane of each warp, or in the highest one: the hardware may choose any."""
    last = batch.launch.hooks.chance == "elected"
    lanes = np.ones((batch.threads, 1), np.bool_) if mask is None else np.asarray(mask)
    lanes = np.broadcast_to(lanes, (batch.threads, lanes.shape[1]))
    result = np.zeros_like(lanes)
    for first in range(0, batch.threads, WARP):
        warp = lanes[first:first + WARP]
        lane = len(warp) - 1 - warp[::-1].argmax(axis=0) if last else warp.argmax(axis=0)
        result[first + lane, np.arange(lanes.shape[1])] = warp.any(axis=0)
    return result
