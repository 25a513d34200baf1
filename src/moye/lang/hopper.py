"""What sm_90 adds to the kernel language: mbarriers, clusters, register budgets, elections, dependent launches.

In: scalars and tensors of the kernel being traced.  Out: one op each.

    full = mo.mbarrier_array(4); mo.mbarrier_init(full, 0, 1); mo.mbarrier_wait(full, stage, phase)

Each docstring names the PTX instruction (PTX ISA) that the operation stands for.
"""

from __future__ import annotations

from math import prod
from typing import Any

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import DTypeError, TensorError, TraceError
from moye.hardware import WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Literal, Operand, Ref, TileRef, Value
from moye.ir.rules import is_register_budget
from moye.lang.builtins import Dim3, block_idx, linear_thread
from moye.layout import IntTuple, rank
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.known import known
from moye.tensor.slices import normalise
from moye.tensor.tensor import Tensor, shared_array

__all__ = [
    "block_in_cluster_idx", "cluster_arrive", "cluster_dim", "cluster_idx", "cluster_rank", "cluster_sync",
    "cluster_wait", "cp_async_mbarrier_arrive", "elect", "fence_mbarrier_init", "fence_proxy_async",
    "griddepcontrol_launch_dependents", "griddepcontrol_wait", "keep_addresses", "map_shared_rank", "mbarrier_arrive",
    "mbarrier_arrive_expect_tx", "mbarrier_array", "mbarrier_expect_tx", "mbarrier_init", "mbarrier_try_wait",
    "mbarrier_wait", "pin", "tma_store_arrive", "tma_store_wait", "warpgroup_arrive", "warpgroup_commit_batch",
    "warpgroup_idx", "warpgroup_reg_alloc", "warpgroup_reg_dealloc", "warpgroup_wait",
]

_MOST = (1 << 20) - 1  # arrivals, and bytes, that one phase of an mbarrier counts


# --- mbarriers -------------------------------------------------------------------------------------------------------


def mbarrier_array(shape: IntTuple) -> Tensor:
    """Shared memory for mbarriers: a uint64 for each, 8-byte aligned, not initialised."""
    return shared_array(dt.uint64, shape, align=8)


def mbarrier_init(bars: Tensor, i: object, count: Scalar) -> None:
    """mbarrier.init: begin phase 0; ``count`` arrivals complete each phase.  One thread initialises a barrier."""
    ref = _barrier("mbarrier_init", bars, i)
    builder().emit(ops.MbarrierInit(ref=ref, count=_number("mbarrier_init", "count", count, 1, _MOST)))


def mbarrier_arrive(bars: Tensor, i: object, *, cta: Scalar | None = None) -> None:
    """mbarrier.arrive (release): this thread arrives, at the barrier of block ``cta`` of the cluster if given.

    Between blocks it hands over only shared memory.  Data that they exchange in global memory needs ``mo.fence`` before
    the arrival and after the wait, or a barrier of the cluster.
    """
    ref = _barrier("mbarrier_arrive", bars, i)
    builder().emit(ops.MbarrierArrive(ref=ref, rank=_rank("mbarrier_arrive", cta)))


def mbarrier_arrive_expect_tx(bars: Tensor, i: object, bytes: Scalar, *, cta: Scalar | None = None) -> None:
    """mbarrier.arrive.expect_tx: let the phase also wait for ``bytes`` of asynchronous copies, and arrive once."""
    what = "mbarrier_arrive_expect_tx"
    ref = _barrier(what, bars, i)
    builder().emit(ops.MbarrierArrive(ref=ref, bytes=_number(what, "bytes", bytes, 0, _MOST), rank=_rank(what, cta)))


def mbarrier_expect_tx(bars: Tensor, i: object, bytes: Scalar) -> None:
    """mbarrier.expect_tx: let the phase also wait for ``bytes`` of asynchronous copies; nobody arrives."""
    ref = _barrier("mbarrier_expect_tx", bars, i)
    expected = _number("mbarrier_expect_tx", "bytes", bytes, 0, _MOST)
    builder().emit(ops.MbarrierArrive(ref=ref, bytes=expected, arrives=False))


def mbarrier_wait(bars: Tensor, i: object, parity: Scalar) -> None:
    """mbarrier.try_wait.parity in a loop: wait until the phase of this parity is complete (acquire).

    The phases of a barrier have the parities 0, 1, 0, ...  Waiting for parity 1 of a new barrier returns at once.
    """
    ref = _barrier("mbarrier_wait", bars, i)
    builder().emit(ops.MbarrierWait(ref=ref, parity=_number("mbarrier_wait", "parity", parity, 0, 1)))


def mbarrier_try_wait(bars: Tensor, i: object, parity: Scalar) -> Scalar:
    """mbarrier.try_wait.parity once: whether the phase of this parity is complete (acquire if it is).

    It may wait for a while, and may be false although the phase is complete: ``mbarrier_wait`` then.
    """
    what, result = "mbarrier_try_wait", Value(dt.bool_)
    ref = _barrier(what, bars, i)
    builder().emit(ops.MbarrierTest(result=result, ref=ref, parity=_number(what, "parity", parity, 0, 1)))
    return Expr(result)


def cp_async_mbarrier_arrive(bars: Tensor, i: object) -> None:
    """cp.async.mbarrier.arrive.noinc: this thread arrives once its copies by ``CpAsync`` so far are complete.

    It does not wait.  Who waits for the phase sees the copies, and nothing else that this thread has done; the thread
    itself sees them after such a wait, too.  The arrival is one of those that the barrier counts.
    """
    builder().emit(ops.MbarrierArrive(ref=_barrier("cp_async_mbarrier_arrive", bars, i), copies=True))


def fence_mbarrier_init() -> None:
    """fence.mbarrier_init.release.cluster: the cluster sees initialised barriers after its next barrier."""
    builder().emit(ops.ProxyFence(kind="mbarrier_init"))


def fence_proxy_async() -> None:
    """fence.proxy.async: what this thread wrote to shared memory is visible to TMA and wgmma after it.

    It covers global memory too, if threads of the kernel write there what its bulk copies read or write.
    """
    builder().emit(ops.ProxyFence(kind="async"))


def _barrier(what: str, bars: object, i: object) -> Ref:
    if not isinstance(bars, Tensor) or bars.space is not Space.SHARED or bars.dtype is not dt.uint64:
        mapped = isinstance(bars, Tensor) and bars.space is Space.CLUSTER
        raise TensorError(f"{what}: {bars!r} is no shared tensor of mbarriers", locs=(locate(),),
                          hint="cta= names the block whose barrier is meant, of the tensor that is not mapped"
                          if mapped else "mo.mbarrier_array(n) makes n of them")
    return bars.ref(normalise(i, rank(bars.layout)))


def _number(what: str, name: str, value: Scalar, lower: int, upper: int) -> Operand:
    """An int32 operand; a static one must lie between the bounds."""
    if isinstance(value, int) and not lower <= value <= upper:
        raise TraceError(f"{what}: {name} is {value}, which does not lie between {lower} and {upper}",
                         locs=(locate(),))
    if isinstance(value, float) or (isinstance(value, Expr) and value.dtype.is_float):
        raise DTypeError(f"{what}: {name} is {value}, which is no integer", locs=(locate(),))
    return operand_of(value, dt.int32)


def _rank(what: str, cta: Scalar | None) -> Operand | None:
    """The block of the cluster that is meant; None if there is only this one."""
    blocks = prod(builder().func.cluster_dim)
    if cta is None or (isinstance(cta, int) and cta == 0 and blocks == 1):
        return None
    _in_cluster(what, cta)
    return _number(what, "cta", cta, 0, blocks - 1)


def _in_cluster(what: str, rank: Scalar) -> None:
    """A static rank must be one of the cluster's."""
    cluster = builder().func.cluster_dim
    if isinstance(rank, int) and not 0 <= rank < prod(cluster):
        raise TraceError(f"{what}: there is no block {rank} in a cluster of {cluster}",
                         hint=None if prod(cluster) > 1 else "kernel.launch(..., cluster=) makes clusters",
                         locs=(locate(),))


# --- bulk groups -----------------------------------------------------------------------------------------------------


def tma_store_arrive() -> None:
    """cp.async.bulk.commit_group: make this thread's bulk stores so far its newest group."""
    builder().emit(ops.BulkCommit())


def tma_store_wait(pending: int, read: bool = True) -> None:
    """cp.async.bulk.wait_group[.read]: wait for all but the newest ``pending`` bulk groups of this thread.

    With ``read`` it waits until their shared memory has been read, so that it may be written again.  Without ``read``
    it waits until what they store is written.
    """
    if not isinstance(pending, int) or pending < 0:
        raise TraceError(f"tma_store_wait({pending}): the count is a static integer >= 0", locs=(locate(),))
    builder().emit(ops.BulkWait(pending=pending, read=read))


# --- warps and warp groups -------------------------------------------------------------------------------------------


def elect() -> Scalar:
    """elect.sync: true in one lane of the warp; all of its lanes must call."""
    result = Value(dt.bool_)
    builder().emit(ops.Elect(result=result))
    return Expr(result)


def warpgroup_idx() -> Scalar:
    """The warp group (four consecutive warps, the first a multiple of four) within the block."""
    return linear_thread() // WARPGROUP


def warpgroup_reg_alloc(count: int) -> None:
    """setmaxnreg.inc: let every thread of the warp group use ``count`` registers, once others have given them back."""
    _registers("inc", "warpgroup_reg_alloc", count)


def warpgroup_reg_dealloc(count: int) -> None:
    """setmaxnreg.dec: let every thread of the warp group keep ``count`` registers and give back the rest."""
    _registers("dec", "warpgroup_reg_dealloc", count)


def _registers(kind: Any, what: str, count: int) -> None:
    if not isinstance(count, int) or not is_register_budget(count):
        raise TraceError(f"{what}({count}): a budget is a static multiple of 8 from 24 to 256", locs=(locate(),),
                         code="F6")
    if builder().func.threads % WARPGROUP:
        raise TraceError(f"{what}({count}): a block of {builder().func.threads} threads is no whole number of warp "
                         f"groups of {WARPGROUP}", locs=(locate(),), code="F6")
    builder().emit(ops.SetMaxRegisters(kind=kind, count=count))


# --- clusters --------------------------------------------------------------------------------------------------------


def _special(kind: str, extent: int) -> Scalar:
    if extent == 1:
        return known(0, dt.int32)
    value = builder().special(kind, lower=0, upper=extent - 1)
    value.name = value.name or kind
    return Expr(value)


def cluster_dim() -> Dim3:
    """The blocks of a cluster along each axis: static, part of the specialisation (%cluster_nctaid)."""
    return Dim3(*builder().func.cluster_dim)


def cluster_rank() -> Scalar:
    """The block's linear index within its cluster, x fastest (%cluster_ctarank)."""
    return _special("cluster_rank", prod(builder().func.cluster_dim))


def block_in_cluster_idx() -> Dim3:
    """The block's index within its cluster (%cluster_ctaid)."""
    return Dim3(*(_special(f"cluster_block_{a}", n) for a, n in zip("xyz", builder().func.cluster_dim, strict=True)))


def cluster_idx() -> Dim3:
    """The cluster's index within the grid (%clusterid)."""
    return Dim3(*(b // c for b, c in zip(block_idx(), builder().func.cluster_dim, strict=True)))


def map_shared_rank(tensor: Tensor, rank: Scalar) -> Tensor:
    """mapa (space shared::cluster): the same tensor in the shared memory of block ``rank`` of this block's cluster.

    It has the same layout, dtype and swizzle.  It is read and written by element and by copies of single threads to and
    from registers (ld, st.shared::cluster); ``st_async``, ``red_async`` and atomics take it, and BulkCopy copies shared
    memory to it.  TMA, cp.async, matrix copies and wgmma do not take it.  What another block wrote is there after a
    cluster barrier.  A block may exit only when no other block needs its memory.
    """
    what = "map_shared_rank"
    if not isinstance(tensor, Tensor) or tensor.space is not Space.SHARED:
        mapped = isinstance(tensor, Tensor) and tensor.space is Space.CLUSTER
        why = "is in the shared memory of a block of the cluster already" if mapped else "is no shared tensor"
        raise TensorError(f"{what}: {tensor!r} {why}",
                          hint="map the tensor that mo.shared_array made, or a view of it", locs=(locate(),))
    blocks = prod(builder().func.cluster_dim)
    _in_cluster(what, rank)
    buffer = builder().map_shared(tensor.buffer, _number(what, "rank", rank, 0, blocks - 1))
    return Tensor(buffer, tensor.offset, tensor.layout, tensor.dtype, tensor.swizzle, origin=tensor.origin)


def cluster_arrive(relaxed: bool = False) -> None:
    """barrier.cluster.arrive: every thread of the cluster's blocks arrives here, and waits later.

    It releases what the thread wrote before it.  ``relaxed`` orders nothing, and costs no fence.
    """
    builder().emit(ops.ClusterArrive(relaxed=bool(relaxed)))


def cluster_wait() -> None:
    """barrier.cluster.wait: wait until every thread of the cluster's blocks has arrived (acquire)."""
    builder().emit(ops.ClusterWait())


def cluster_sync() -> None:
    """cluster_arrive and cluster_wait: all threads of the cluster meet, and their memory accesses are ordered."""
    cluster_arrive()
    cluster_wait()


# --- dependent launches ----------------------------------------------------------------------------------------------


def griddepcontrol_wait() -> None:
    """griddepcontrol.wait: wait until the launches that this one depends on are complete and their writes visible."""
    builder().emit(ops.GridDependency(kind="wait"))


def griddepcontrol_launch_dependents() -> None:
    """griddepcontrol.launch_dependents: allow launches that depend on this one to begin."""
    builder().emit(ops.GridDependency(kind="launch_dependents"))


# --- waiting for the tensor cores ------------------------------------------------------------------------------------

# Every thread of a warpgroup (128 threads that begin at a multiple of 128) executes these together.
_MOST_WAIT = 7
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
    if not isinstance(pending, int) or not 0 <= pending <= _MOST_WAIT:
        raise TraceError(f"warpgroup_wait({pending}): a static number of groups from 0 to {_MOST_WAIT}",
                         locs=(locate(),))
    if registers:
        pin(*registers)
    builder().emit(ops.WgmmaWait(pending=pending))


def keep_addresses() -> None:
    """The compiler may hold addresses of wgmma's operands in registers from one product to the next, in this kernel.

    Otherwise each product computes its own, in uniform registers: a loop over products that stands behind another one
    then needs fewer registers, up to 14 of a thread.
    """
    builder().func.keeps_addresses = True


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
            tiles.append(TileRef(tensor.buffer, Literal(0, dt.int32), tensor.dtype, (), name=tensor.name))
    builder().emit(ops.Pin(tiles=tuple(tiles)))
