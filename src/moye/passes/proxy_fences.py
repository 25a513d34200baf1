"""Which memory a proxy fence of a kernel has to cover: shared memory alone, where that is enough, which is cheaper.

In: a Func.  Out: the suffix of ``fence.proxy.async``.

Global memory counts only where threads write what bulk copies of the same kernel read or write.
"""

from __future__ import annotations

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func

CTA, CLUSTER, EVERYTHING = ".shared::cta", ".shared::cluster", ""


def fenced_space(func: Func) -> str:
    """The space of all proxy fences of the kernel."""
    threads, units = set[Buffer](), set[Buffer]()
    for op in func.body.walk():
        if isinstance(op, ops.TmaCopy) and not op.kind.startswith("prefetch"):
            units.add(op.tensor)
        for ref, written in op.refs():
            if isinstance(op, (ops.AnyBulk, ops.Wgmma)):
                units.add(ref.buffer)
            elif written and ref.buffer.space in (Space.GLOBAL, Space.CLUSTER):
                threads.add(ref.buffer)
    wrote, used = ({buffer for buffer in found if buffer.space is Space.GLOBAL} for found in (threads, units))
    # Without __restrict__ two arguments may be one memory.
    if wrote & used or (wrote and used and not func.restrict):
        return EVERYTHING
    away = {buffer.root for buffer in threads if buffer.space is Space.CLUSTER}
    return CLUSTER if away & {buffer.root for buffer in units} else CTA
