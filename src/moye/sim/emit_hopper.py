"""The ops of sm_90 as Python source: a call of what runs them.

In: a Writer and an op.  Out: one line, such as ``B.mbarriers.arrive(OP3, v12, 4096, None, m0)``.

What they do is in mbarriers.py, tma.py, bulk.py and wgmma.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye.ir import ops
from moye.ir.nodes import Operand
from moye.sim.bulk import BulkSite
from moye.sim.tma import TmaSite
from moye.sim.wgmma import WgmmaSite
from moye.sim.writer import Writer


def _optional(w: Writer, operand: Operand | None) -> str:
    return "None" if operand is None else w.operand(operand)


def emit_init(w: Writer, op: ops.MbarrierInit) -> None:
    w.line(f"B.mbarriers.init({w.op(op)}, {w.operand(op.ref.offset)}, {w.operand(op.count)}, {w.mask})")


def emit_arrive(w: Writer, op: ops.MbarrierArrive) -> None:
    w.line(f"B.mbarriers.arrive({w.op(op)}, {w.operand(op.ref.offset)}, {_optional(w, op.bytes)}, "
           f"{_optional(w, op.rank)}, {w.mask})")


def emit_proxy_fence(w: Writer, op: ops.ProxyFence) -> None:
    if w.check:
        w.line(f"B.watch.proxy_fence({w.op(op)}, B.lanes({w.mask}))")


def emit_tma(w: Writer, op: ops.TmaCopy) -> None:
    offset = "None" if op.smem is None else w.operand(op.smem.offset)
    barrier = "None" if op.barrier is None else w.operand(op.barrier.offset)
    first = "".join(f"{w.operand(x)}, " for x in op.coordinates)
    w.line(f"P[{w.site(TmaSite(op))}]({offset}, ({first}), {barrier}, {_optional(w, op.multicast)}, {w.mask})")


def emit_bulk_copy(w: Writer, op: ops.BulkCopy) -> None:
    dst, barrier = ("None" if ref is None else w.operand(ref.offset) for ref in (op.dst, op.barrier))
    column = _optional(w, None if op.dst is None else op.dst.buffer.base)
    w.line(f"P[{w.site(BulkSite(op))}]({dst}, {w.operand(op.src.offset)}, {w.operand(op.bytes)}, {barrier}, {column}, "
           f"{_optional(w, op.multicast)}, {w.mask})")


def emit_bulk_commit(w: Writer, op: ops.BulkCommit) -> None:
    w.line(f"B.tensor_copies.commit({w.mask})")


def emit_bulk_wait(w: Writer, op: ops.BulkWait) -> None:
    w.line(f"B.tensor_copies.wait({w.op(op)}, {w.mask})")


def emit_wgmma(w: Writer, op: ops.Wgmma) -> None:
    w.line(f"P[{w.site(WgmmaSite(op))}]({w.operand(op.a.offset)}, {w.operand(op.b.offset)}, "
           f"{w.operand(op.accumulate)}, {w.mask})")


def emit_wgmma_fence(w: Writer, op: ops.WgmmaFence) -> None:
    if w.check:
        w.line(f"B.watch.wgmma.fence(B.lanes({w.mask}))")


def emit_wgmma_commit(w: Writer, op: ops.WgmmaCommit) -> None:
    w.line(f"B.products.commit({w.op(op)}, {w.mask})")


def emit_wgmma_wait(w: Writer, op: ops.WgmmaWait) -> None:
    w.line(f"B.products.wait({w.op(op)}, {w.mask})")


def emit_elect(w: Writer, op: ops.Elect) -> None:
    w.line(f"{w.name(op.result)} = elect(B, {w.mask})")


def emit_map_shared(w: Writer, op: ops.MapShared) -> None:
    """Which of the batch's blocks has the rank stands for the address there."""
    w.line(f"{w.name(op.result)} = B.cluster.mapped({w.op(op)}, {w.operand(op.rank)}, {w.mask})")


def emit_cluster_arrive(w: Writer, op: ops.ClusterArrive) -> None:
    w.line(f"B.cluster.arrive({w.op(op)}, {w.mask})")


def emit_registers(w: Writer, op: ops.SetMaxRegisters) -> None:
    if w.check:
        w.line(f"B.budgets.change({w.op(op)}, {w.mask})")


def emit_dependency(w: Writer, op: ops.GridDependency) -> None:
    """The order of launches changes no value of one launch."""
    if w.check and op.kind == "wait":
        w.line(f"B.watch.waited_for_launches(B.lanes({w.mask}))")


TABLE: dict[type, Callable[[Any, Any], None]] = {
    ops.MbarrierInit: emit_init, ops.MbarrierArrive: emit_arrive, ops.ProxyFence: emit_proxy_fence,
    ops.TmaCopy: emit_tma, ops.BulkCopy: emit_bulk_copy, ops.BulkCommit: emit_bulk_commit,
    ops.BulkWait: emit_bulk_wait, ops.Wgmma: emit_wgmma, ops.WgmmaFence: emit_wgmma_fence,
    ops.WgmmaCommit: emit_wgmma_commit, ops.WgmmaWait: emit_wgmma_wait, ops.Elect: emit_elect,
    ops.MapShared: emit_map_shared, ops.SetMaxRegisters: emit_registers, ops.GridDependency: emit_dependency,
    ops.ClusterArrive: emit_cluster_arrive,
}
