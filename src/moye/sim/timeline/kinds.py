"""The kind of event that an op is, and which groups of asynchronous work it has to do with.

In: an op.  Out: ``Kind`` and ``Family``, None where a timeline shows nothing, or where there is no group.

    kind_of(tma_load), family_of(tma_load)      # it completes on an mbarrier
    # ('tma', None)

Families are counted apart: cp.async.wait_group, cp.async.bulk.wait_group and wgmma.wait_group know nothing of each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Literal
from moye.ir.traits import Trait

Kind = OneOf["cp.async", "tma", "tma store", "tma send", "commit", "arrive", "wait", "barrier", "copy", "load", "read",
             "write", "mma", "store", "use"]
Family = OneOf["cp.async", "bulk", "wgmma"]
_KINDS: dict[type, Kind] = {
    ops.SyncThreads: "barrier", ops.GridSync: "barrier", ops.SyncWarp: "barrier", ops.NamedBarrier: "barrier",
    ops.ClusterArrive: "barrier", ops.ClusterWait: "barrier", ops.CpAsyncWait: "wait", ops.BulkWait: "wait",
    ops.WgmmaWait: "wait", ops.MbarrierWait: "wait", ops.CpAsyncCommit: "commit", ops.BulkCommit: "commit",
    ops.WgmmaCommit: "commit", ops.MbarrierArrive: "arrive", ops.Gemm: "mma", ops.Wgmma: "mma",
}
_FAMILIES: dict[type, Family] = {
    ops.CpAsyncWait: "cp.async", ops.CpAsyncCommit: "cp.async", ops.BulkWait: "bulk", ops.BulkCommit: "bulk",
    ops.WgmmaWait: "wgmma", ops.WgmmaCommit: "wgmma", ops.Wgmma: "wgmma",
}
_BULK: dict[str, Kind] = {"load": "tma", "send": "tma send", "store": "tma store", "reduce": "tma store"}


def kind_of(op: ops.Op) -> Kind | None:
    """The kind of the event that an op is; None where a timeline does not show it."""
    if isinstance(op, (ops.TmaCopy, ops.BulkCopy)):
        return _BULK.get(op.kind)
    if isinstance(op, ops.AsyncStore):
        return "tma send"
    if isinstance(op, ops.Copy) and op.atom.asynchronous is not None:
        return "cp.async"
    return _moved(op) if Trait.MOVES in op.traits else _KINDS.get(type(op))


def family_of(op: ops.Op) -> Family | None:
    """Which groups the op joins, commits or waits for."""
    kind = kind_of(op)
    if kind == "tma store":
        return "bulk"
    return "cp.async" if kind == "cp.async" else _FAMILIES.get(type(op))


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier of the block, or of a part of it: ``threads`` arrivals let those go on who wait.

    ``number`` is that of a named barrier; None for one that the kernel computes.
    """

    which: type
    threads: int
    number: object
    waits: bool


def barrier_of(op: ops.Op, threads: int) -> Barrier | None:
    """The barrier that an op of a block of so many threads comes to; None for another op, or one of a warp alone."""
    if isinstance(op, ops.NamedBarrier):
        number = op.barrier.value if isinstance(op.barrier, Literal) else None
        return Barrier(ops.NamedBarrier, op.threads, number, op.kind == "sync")
    if kind_of(op) != "barrier" or isinstance(op, ops.SyncWarp):
        return None
    return Barrier(type(op), threads, 0, not isinstance(op, ops.ClusterArrive))


def goes_on(op: ops.Op) -> bool:
    """Whether what the op begins ends at another statement."""
    return isinstance(op, ops.Wgmma) or kind_of(op) in ("cp.async", "load", "tma", "tma store", "tma send")


def is_noted_later(op: ops.Op) -> bool:
    """Whether it is noted where it takes effect: a wait for a phase when it passes, a bulk copy when it is issued."""
    return isinstance(op, ops.MbarrierWait) or kind_of(op) in ("tma", "tma store", "tma send")


def pending_of(op: ops.Op) -> int | None:
    """How many of the newest groups a wait leaves; None for one that leaves none, and commits what is open."""
    return op.pending if isinstance(op, (ops.CpAsyncWait, ops.BulkWait, ops.WgmmaWait)) else None


def _moved(op: ops.Op) -> Kind | None:
    """The kind, by where it reads and writes."""
    does = {(ref.buffer.root.space, written) for ref, written in op.refs()}
    if (Space.GLOBAL, True) in does:
        return "store"
    if (Space.GLOBAL, False) in does:
        return "copy" if (Space.SHARED, True) in does else "load"
    if (Space.SHARED, True) in does:
        return "write"
    return "read" if (Space.SHARED, False) in does else None
