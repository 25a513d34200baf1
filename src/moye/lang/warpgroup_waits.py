"""Waiting for the tensor cores of sm_90a: wgmma.fence, commit_group and wait_group.

In: nothing, or how many groups may stay in flight.  Out: one op each.

    mo.warpgroup_arrive(); mo.gemm(mma, tCrA, tCrB, acc); mo.warpgroup_commit_batch(); mo.warpgroup_wait(0)

Every thread of a warpgroup (128 threads that begin at a multiple of 128) executes them together.
"""

from __future__ import annotations

from moye.errors import TraceError
from moye.ir import ops
from moye.tensor.context import builder, locate

_MOST = 7
"""PTX ISA: wgmma.wait_group takes a constant of three bits."""


def warpgroup_arrive() -> None:
    """wgmma.fence: the products that follow see registers written before it.

    It must stand before the first product, and wherever anything else touched accumulators or A in registers.
    """
    builder().emit(ops.WgmmaFence())


def warpgroup_commit_batch() -> None:
    """wgmma.commit_group: make the products since the last group the newest group."""
    builder().emit(ops.WgmmaCommit())


def warpgroup_wait(pending: int = 0) -> None:
    """wgmma.wait_group: all groups but the ``pending`` newest are complete, and their accumulators may be read."""
    if not isinstance(pending, int) or not 0 <= pending <= _MOST:
        raise TraceError(f"warpgroup_wait({pending}): a static number of groups from 0 to {_MOST}", locs=(locate(),))
    builder().emit(ops.WgmmaWait(pending=pending))
