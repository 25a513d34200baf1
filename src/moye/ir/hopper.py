"""Ops of sm_90: mbarriers, bulk and tensor copies (TMA), wgmma, clusters, register budgets.

In: operands and references.  Out: what ``ops.py`` re-exports beside scalars, tiles and effects.

    MbarrierWait(ref=Ref(full, stage, uint64), parity=phase)

Semantics are those of the PTX instructions that the docstrings name.  An mbarrier is one uint64 of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from moye.atoms.atom import MmaOp
from moye.ir.effects import operands_of
from moye.ir.nodes import Buffer, Op, Operand, Ref, TileRef, Value

# --- mbarriers -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class MbarrierInit(Op):
    """mbarrier.init: phase 0 of the barrier begins, ``count`` arrivals complete each phase."""

    ref: Ref
    count: Operand

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.ref)
        yield self.count

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, True


@dataclass(slots=True, kw_only=True)
class MbarrierArrive(Op):
    """mbarrier.arrive, with ``bytes`` mbarrier.arrive.expect_tx; of block ``rank`` of the cluster if one is given.

    ``arrives`` False is mbarrier.expect_tx alone: bytes are expected, nobody arrives.
    """

    ref: Ref
    bytes: Operand | None = None
    rank: Operand | None = None
    arrives: bool = True

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.ref)
        yield from (x for x in (self.bytes, self.rank) if x is not None)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, True


@dataclass(slots=True, kw_only=True)
class MbarrierWait(Op):
    """mbarrier.try_wait.parity until the phase of parity ``parity`` is complete (acquire)."""

    blocking = True
    ref: Ref
    parity: Operand

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.ref)
        yield self.parity

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, False


@dataclass(slots=True, kw_only=True)
class ProxyFence(Op):
    """``async``: fence.proxy.async, of the memory that threads and asynchronous units of the kernel share;
    ``mbarrier_init``: fence.mbarrier_init.release.cluster."""

    kind: OneOf["async", "mbarrier_init"]


# --- tensor copies ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class TmaCopy(Op):
    """cp.async.bulk.tensor: one box of the tensor ``tensor`` (a parameter with a ``tensor_map``) and shared memory.

    ``smem`` is the box's first element: its shape, swizzle and order of modes are those of the tensor map.
    ``coordinates`` are the box's first element in the tensor, one per mode of the map (unit stride first).
    A load completes on ``barrier``; stores and reductions belong to the thread's bulk group.  ``multicast`` is the mask
    of the blocks of the cluster that receive a load.  ``hint`` is an L2 policy.  A "prefetch" fetches the tensor map
    itself (prefetch.tensormap), without ``smem`` and coordinates; a "prefetch_box" fetches a box to the L2 cache.
    """

    kind: OneOf["load", "store", "reduce_add", "prefetch", "prefetch_box"]
    tensor: Buffer
    smem: Ref | None
    coordinates: tuple[Operand, ...]
    barrier: Ref | None = None
    multicast: Operand | None = None
    hint: OneOf["evict_first", "evict_last"] | None = None

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.smem, self.barrier)
        yield from self.coordinates
        if self.multicast is not None:
            yield self.multicast

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        if self.smem is not None:
            yield self.smem, self.kind == "load"
        if self.barrier is not None:
            yield self.barrier, True


@dataclass(slots=True, kw_only=True)
class BulkCopy(Op):
    """cp.async.bulk, cp.reduce.async.bulk: the first ``bytes`` of a contiguous run of ``run`` bytes, without a map.

    A "load" goes from global to shared memory, a "send" from shared memory to that of a block of the cluster; they
    complete on ``barrier``, which lies where the data arrives.  A "store" and a "reduce_add" (elements of the dtype of
    ``dst``, each added atomically) go from shared to global memory, of the thread's bulk group.  A "prefetch" fetches
    global memory to the L2 cache (cp.async.bulk.prefetch.L2).  ``multicast`` is the mask of the blocks of the cluster
    that receive a load.  ``hint`` is an L2 policy.
    """

    kind: OneOf["load", "send", "store", "reduce_add", "prefetch"]
    dst: Ref | None
    src: Ref
    bytes: Operand
    run: int
    barrier: Ref | None = None
    multicast: Operand | None = None
    hint: OneOf["evict_first", "evict_last"] | None = None

    @property
    def smem(self) -> Ref | None:
        """The end in shared memory; of a send the one that it goes to."""
        if self.kind == "prefetch":
            return None
        return self.dst if self.kind in ("load", "send") else self.src

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.dst, self.src, self.barrier)
        yield self.bytes
        if self.multicast is not None:
            yield self.multicast

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.src, False
        if self.dst is not None:
            yield self.dst, True
        if self.barrier is not None:
            yield self.barrier, True


AnyBulk = TmaCopy | BulkCopy
"""A copy by the asynchronous units, with a tensor map or without."""


@dataclass(slots=True, kw_only=True)
class BulkCommit(Op):
    """cp.async.bulk.commit_group: the thread's uncommitted bulk stores become its newest group."""


@dataclass(slots=True, kw_only=True)
class BulkWait(Op):
    """cp.async.bulk.wait_group ``pending``; ``read`` waits until their sources have been read only."""

    pending: int
    read: bool = False


# --- wgmma -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Wgmma(Op):
    """wgmma.mma_async: d += a * b over an index space as in ``Gemm``; b, and a unless it is in registers, are shared.

    ``a_descriptor`` and ``b_descriptor`` are (leading byte offset, stride byte offset, bytes of the swizzle) of the
    matrix descriptors.  ``accumulate`` false starts from zero at the first k of this op.  Complete at ``WgmmaWait``.
    """

    mma: MmaOp
    d: TileRef
    a: TileRef
    b: TileRef
    extents: tuple[int, ...]
    roles: str
    accumulate: Operand
    b_descriptor: tuple[int, int, int]
    a_descriptor: tuple[int, int, int] | None = None
    a_values: tuple[int, ...] = (0,)
    d_values: tuple[int, ...] = (0,)

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.d, self.a, self.b)
        yield self.accumulate

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield from ((self.a, False), (self.b, False), (self.d, False), (self.d, True))


@dataclass(slots=True, kw_only=True)
class WgmmaFence(Op):
    """wgmma.fence.sync.aligned: orders the warpgroup's register accesses before its next wgmma.

    ``registers`` are the buffers that these have as operands and that something else has written
    (``passes/wgmma_registers.py``).
    """

    blocking = True
    registers: tuple[Buffer, ...] = field(default=())


@dataclass(slots=True, kw_only=True)
class WgmmaCommit(Op):
    """wgmma.commit_group.sync.aligned."""

    blocking = True


@dataclass(slots=True, kw_only=True)
class WgmmaWait(Op):
    """wgmma.wait_group.sync.aligned ``pending``; ``results`` are the register buffers that are complete after it.

    They are found by ``passes/wgmma_registers.py``.
    """

    blocking = True
    pending: int
    results: tuple[Buffer, ...] = field(default=())


# --- warps, clusters, grids ------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Elect(Op):
    """elect.sync: true in one lane of the warp."""

    blocking = True
    result: Value


@dataclass(slots=True, kw_only=True)
class SetMaxRegisters(Op):
    """setmaxnreg.{inc,dec}.sync.aligned.u32 ``count``."""

    blocking = True
    kind: OneOf["inc", "dec"]
    count: int


@dataclass(slots=True, kw_only=True)
class MapShared(Op):
    """mapa.shared::cluster: the address (uint32) that shared ``buffer`` has in block ``rank`` of the cluster.

    It is the ``base`` of the buffers through which that block's shared memory is accessed.
    """

    pure = True
    result: Value
    buffer: Buffer
    rank: Operand

    def operands(self) -> Iterator[Operand]:
        yield self.rank


@dataclass(slots=True, kw_only=True)
class ClusterArrive(Op):
    """barrier.cluster.arrive, .release or with ``relaxed`` .relaxed."""

    relaxed: bool = False


@dataclass(slots=True, kw_only=True)
class ClusterWait(Op):
    """barrier.cluster.wait.acquire."""

    blocking = True


@dataclass(slots=True, kw_only=True)
class GridDependency(Op):
    """griddepcontrol.wait / griddepcontrol.launch_dependents."""

    kind: OneOf["wait", "launch_dependents"]
