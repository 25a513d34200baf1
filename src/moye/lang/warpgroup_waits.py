"""Waiting for the tensor cores of sm_90a: wgmma.fence, commit_group and wait_group; order that the compiler keeps.

In: nothing, or how many groups may stay in flight; register tensors.  Out: one op each.

    mo.warpgroup_arrive(); mo.gemm(mma, tCrA, tCrB, acc); mo.warpgroup_commit_batch(); mo.warpgroup_wait(0)

Every thread of a warpgroup (128 threads that begin at a multiple of 128) executes them together.
"""

from __future__ import annotations

from moye.dtypes import Space, int32
from moye.errors import TensorError, TraceError
from moye.ir import ops
from moye.ir.nodes import Literal, TileRef
from moye.tensor.context import builder, locate
from moye.tensor.tensor import Tensor

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


def warpgroup_wait(pending: int = 0, *registers: Tensor) -> None:
    """wgmma.wait_group: all groups but the ``pending`` newest are complete, and their accumulators may be read.

    ``registers`` are ``mo.pin``-ned before it: the arithmetic on them, which the compiler would otherwise do after the
    wait, overlaps the products in flight.  Accumulators that it waits for are none of them.
    """
    if not isinstance(pending, int) or not 0 <= pending <= _MOST:
        raise TraceError(f"warpgroup_wait({pending}): a static number of groups from 0 to {_MOST}", locs=(locate(),))
    if registers:
        pin(*registers)
    builder().emit(ops.WgmmaWait(pending=pending))


def pin(*registers: Tensor) -> None:
    """The order of the source, kept: arithmetic on these register tensors that stands before it is done before it.

    Without tensors it is about whatever goes into instructions that the compiler does not move (products, copies).
    It costs one instruction, which never acts; registers of products in flight are E2.  TensorError for other memory.
    """
    tiles: list[TileRef] = []
    for tensor in registers:
        if not isinstance(tensor, Tensor) or tensor.space is not Space.REGISTER:
            what = f"{tensor.label} in {tensor.space.value}" if isinstance(tensor, Tensor) else repr(tensor)
            raise TensorError(f"pin takes register tensors, not {what}", locs=(locate(),))
        if all(tensor.buffer is not tile.buffer for tile in tiles):
            tiles.append(TileRef(tensor.buffer, Literal(0, int32), tensor.buffer.dtype, (), name=tensor.name))
    builder().emit(ops.Pin(tiles=tuple(tiles)))
