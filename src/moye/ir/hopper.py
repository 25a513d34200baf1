"""Ops of sm_90: mbarriers, bulk and tensor copies (TMA), wgmma, clusters, register budgets.

In: operands and references.  Out: what ``ops.py`` re-exports beside scalars, tiles and effects.

    MbarrierWait(ref=Ref(full, stage, uint64), parity=phase)

Semantics are those of the PTX instructions that the docstrings name.  An mbarrier is one uint64 of shared memory.
"""

from __future__ import annotations

from typing import Literal as OneOf

from moye.atoms.atom import MmaOp
from moye.ir.nodes import Buffer, Op, Operand, Ref, TileRef, Value
from moye.ir.operation import attribute, defined, operand, operation, read, updated, written, written_if
from moye.ir.traits import Trait

Reduction = OneOf["add", "min", "max", "inc", "dec", "and", "or", "xor"]

# --- mbarriers -------------------------------------------------------------------------------------------------------


@operation(Trait.MBARRIER, Trait.HANDS_OVER, Trait.ORDERS_MEMORY)
class MbarrierInit(Op):
    """mbarrier.init: phase 0 of the barrier begins, ``count`` arrivals complete each phase."""

    ref: Ref = written()
    count: Operand = operand()


@operation(Trait.MBARRIER, Trait.SIGNALS, Trait.TELLS, Trait.ORDERS_MEMORY)
class MbarrierArrive(Op):
    """mbarrier.arrive, with ``bytes`` mbarrier.arrive.expect_tx; of block ``rank`` of the cluster if one is given.

    ``arrives`` False is mbarrier.expect_tx alone: bytes are expected, nobody arrives.  ``copies`` True is
    cp.async.mbarrier.arrive.noinc: it arrives when the thread's cp.async copies so far are complete.
    """

    ref: Ref = written()
    bytes: Operand | None = operand(default=None)
    rank: Operand | None = operand(default=None)
    arrives: bool = attribute(default=True)
    copies: bool = attribute(default=False)


@operation(Trait.MBARRIER, Trait.SIGNALS, Trait.HEARS, Trait.WAITS, Trait.ORDERS_MEMORY)
class MbarrierWait(Op):
    """mbarrier.try_wait.parity until the phase of parity ``parity`` is complete (acquire)."""

    ref: Ref = read()
    parity: Operand = operand()


@operation(Trait.MBARRIER, Trait.SIGNALS, Trait.HEARS, Trait.ORDERS_MEMORY, Trait.QUIET)
class MbarrierTest(Op):
    """mbarrier.try_wait.parity once: whether the phase of parity ``parity`` is complete (acquire where it is)."""

    result: Value = defined()
    ref: Ref = read()
    parity: Operand = operand()


AnyPhase = MbarrierWait | MbarrierTest
"""What a thread learns by that a phase is complete."""


@operation(Trait.ORDERS_MEMORY)
class ProxyFence(Op):
    """``async``: fence.proxy.async, of the memory that threads and asynchronous units of the kernel share;
    ``mbarrier_init``: fence.mbarrier_init.release.cluster."""

    kind: OneOf["async", "mbarrier_init"] = attribute()


# --- tensor copies ---------------------------------------------------------------------------------------------------


@operation(Trait.SIGNALS, Trait.BEYOND_BLOCK)
class TmaCopy(Op):
    """cp.async.bulk.tensor: one box of the tensor ``tensor`` (a parameter with a ``tensor_map``) and shared memory.

    ``smem`` is the box's first element: its shape, swizzle and order of modes are those of the tensor map.
    ``coordinates`` are the box's first element in the tensor, one per mode of the map (unit stride first).  In im2col
    mode they are the first channel, pixel and image of the filter's first place, one of those that the map counts, and
    ``offsets`` (uint16) say how far from that the place is, the fastest mode of pixels first.  ``gathered`` is
    tile::gather4 or tile::scatter4: the coordinates are those of the first element of a row and of four rows, which
    lie one after the other in shared memory.  ``map`` is where in global memory the tensor map lies (16 elements of 64
    bits); without it that is the parameter, whose box and dtype it has in any case.
    A load completes on ``barrier``; stores and reductions (by ``by``) belong to the thread's bulk group.  ``multicast``
    is the mask of the blocks of the cluster that receive a load.  ``hint`` is an L2 policy.  A "prefetch" fetches the
    tensor map itself (prefetch.tensormap), without ``smem`` and coordinates; a "prefetch_box" fetches a box to the L2
    cache.
    """

    kind: OneOf["load", "store", "reduce", "prefetch", "prefetch_box"] = attribute()
    by: Reduction = attribute(default="add")
    tensor: Buffer = attribute()
    smem: Ref | None = written_if(lambda op: op.kind == "load")
    barrier: Ref | None = written(default=None)
    coordinates: tuple[Operand, ...] = operand()
    offsets: tuple[Operand, ...] = operand(default=())
    gathered: bool = attribute(default=False)
    map: Ref | None = read(default=None)
    multicast: Operand | None = operand(default=None)
    hint: OneOf["evict_first", "evict_last"] | None = attribute(default=None)


@operation(Trait.SIGNALS, Trait.BEYOND_BLOCK, Trait.REMOTE)
class BulkCopy(Op):
    """cp.async.bulk, cp.reduce.async.bulk: the first ``bytes`` of a contiguous run of ``run`` bytes, without a map.

    A "load" goes from global to shared memory, a "send" from shared memory to that of a block of the cluster; they
    complete on ``barrier``, which lies where the data arrives.  A "store" and a "reduce" (elements of the dtype of
    ``dst``, each combined atomically as ``by`` says) go from shared to global memory, of the thread's bulk group.  A
    "prefetch" fetches global memory to the L2 cache (cp.async.bulk.prefetch.L2).  ``multicast`` is the mask of the
    blocks of the cluster that receive a load.  ``hint`` is an L2 policy.
    """

    kind: OneOf["load", "send", "store", "reduce", "prefetch"] = attribute()
    by: Reduction = attribute(default="add")
    dst: Ref | None = written()
    src: Ref = read()
    barrier: Ref | None = written(default=None)
    bytes: Operand = operand()
    run: int = attribute()
    multicast: Operand | None = operand(default=None)
    hint: OneOf["evict_first", "evict_last"] | None = attribute(default=None)

    @property
    def smem(self) -> Ref | None:
        """The end in shared memory; of a send the one that it goes to."""
        if self.kind == "prefetch":
            return None
        return self.dst if self.kind in ("load", "send") else self.src


AnyBulk = TmaCopy | BulkCopy
"""A copy by the asynchronous units, with a tensor map or without."""


@operation(Trait.SIGNALS, Trait.BEYOND_BLOCK, Trait.REMOTE)
class AsyncStore(Op):
    """st.async, or with ``by`` red.async: ``values`` go to the elements from ``dst`` on, in a block of the cluster.

    They fill 4, 8 or 16 bytes, of one element with ``by``.  The bytes complete on ``barrier``, an mbarrier of the same
    block; until then nobody knows what is there.
    """

    dst: Ref = written()
    barrier: Ref = written()
    values: tuple[Operand, ...] = operand()
    by: Reduction | None = attribute(default=None)

    @property
    def smem(self) -> Ref:
        """Where they go to."""
        return self.dst


AnyAsync = AnyBulk | AsyncStore
"""What completes on an mbarrier, or with a group: a copy by the asynchronous units, or a store of their kind."""


# --- tensor maps that the kernel changes -----------------------------------------------------------------------------

# A tensor map is 16 elements of 64 bits; references name the first.


@operation(Trait.HANDS_OVER)
class TensorMapCopy(Op):
    """The tensor map of the parameter ``tensor`` is stored to shared memory."""

    tensor: Buffer = attribute()
    map: Ref = written()


@operation(Trait.HANDS_OVER)
class TensorMapUpdate(Op):
    """tensormap.replace: the map in shared memory, one of the parameter ``tensor``, describes another array.

    Its address is ``address``, or that of the element ``source``; ``extents`` are by dimension of the map, and
    ``strides`` (uint64, in bytes) those of the dimensions but the first.  What is not given stays.
    """

    tensor: Buffer = attribute()
    map: Ref = updated()
    address: Operand | None = operand(default=None)
    source: Ref | None = read(default=None)
    extents: tuple[Operand, ...] = operand(default=())
    strides: tuple[Operand, ...] = operand(default=())


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.HANDS_OVER, Trait.ORDERS_MEMORY,
           Trait.BEYOND_BLOCK)
class TensorMapRelease(Op):
    """tensormap.cp_fenceproxy.release.gpu of a whole warp: the map ``src`` in shared memory is copied to ``dst``."""

    dst: Ref = written()
    src: Ref = read()


@operation(Trait.HANDS_OVER, Trait.ORDERS_MEMORY, Trait.BEYOND_BLOCK)
class TensorMapAcquire(Op):
    """fence.proxy.tensormap::generic.acquire.gpu: copies that follow go by what was released at ``map``."""

    map: Ref = read()


AnyMap = TensorMapCopy | TensorMapUpdate | TensorMapRelease | TensorMapAcquire
"""What a kernel does with tensor maps of its own."""


@operation(Trait.ORDERS_MEMORY)
class BulkCommit(Op):
    """cp.async.bulk.commit_group: the thread's uncommitted bulk stores become its newest group."""


@operation(Trait.ORDERS_MEMORY)
class BulkWait(Op):
    """cp.async.bulk.wait_group ``pending``; ``read`` waits until their sources have been read only."""

    pending: int = attribute()
    read: bool = attribute(default=False)


# --- wgmma -----------------------------------------------------------------------------------------------------------


@operation(Trait.MULTIPLIES, Trait.WRITER, Trait.HANDS_OVER, Trait.BEYOND_BLOCK)
class Wgmma(Op):
    """wgmma.mma_async: d += a * b over an index space as in ``Gemm``; b, and a unless it is in registers, are shared.

    ``a_descriptor`` and ``b_descriptor`` are (leading byte offset, stride byte offset, bytes of the swizzle) of the
    matrix descriptors.  ``accumulate`` false starts from zero at the first k of this op.  Complete at ``WgmmaWait``.
    """

    mma: MmaOp = attribute()
    d: TileRef = updated()
    a: TileRef = read()
    b: TileRef = read()
    extents: tuple[int, ...] = attribute()
    roles: str = attribute()
    accumulate: Operand = operand()
    b_descriptor: tuple[int, int, int] = attribute()
    a_descriptor: tuple[int, int, int] | None = attribute(default=None)
    a_values: tuple[int, ...] = attribute(default=(0,))
    d_values: tuple[int, ...] = attribute(default=(0,))


@operation(Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.ORDERS_MEMORY)
class WgmmaFence(Op):
    """wgmma.fence.sync.aligned: orders the warpgroup's register accesses before its next wgmma.

    ``registers`` are the buffers that these have as operands and that something else has written
    (``passes/wgmma_registers.py``).
    """

    registers: tuple[Buffer, ...] = attribute(default=())


@operation(Trait.ORDERS_MEMORY)
class WgmmaCommit(Op):
    """wgmma.commit_group.sync.aligned."""


@operation(Trait.ORDERS_MEMORY)
class WgmmaWait(Op):
    """wgmma.wait_group.sync.aligned ``pending``; ``results`` are the register buffers that are complete after it.

    They are found by ``passes/wgmma_registers.py``.
    """

    pending: int = attribute()
    results: tuple[Buffer, ...] = attribute(default=())


# --- warps, clusters, grids ------------------------------------------------------------------------------------------


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.QUIET)
class Elect(Op):
    """elect.sync: true in one lane of the warp."""

    result: Value = defined()


@operation(Trait.ORDERS_MEMORY)
class SetMaxRegisters(Op):
    """setmaxnreg.{inc,dec}.sync.aligned.u32 ``count``."""

    kind: OneOf["inc", "dec"] = attribute()
    count: int = attribute()


@operation(Trait.PURE, Trait.BEYOND_BLOCK)
class MapShared(Op):
    """mapa.shared::cluster: the address (uint32) that shared ``buffer`` has in block ``rank`` of the cluster.

    It is the ``base`` of the buffers through which that block's shared memory is accessed.
    """

    result: Value = defined()
    buffer: Buffer = attribute()
    rank: Operand = operand()


@operation(Trait.MEETS, Trait.HANDS_OVER, Trait.ORDERS_MEMORY, Trait.BEYOND_BLOCK)
class ClusterArrive(Op):
    """barrier.cluster.arrive, .release or with ``relaxed`` .relaxed."""

    relaxed: bool = attribute(default=False)


@operation(Trait.WAITS, Trait.HANDS_OVER, Trait.ORDERS_MEMORY, Trait.BEYOND_BLOCK)
class ClusterWait(Op):
    """barrier.cluster.wait.acquire."""


@operation(Trait.ORDERS_MEMORY)
class GridDependency(Op):
    """griddepcontrol.wait / griddepcontrol.launch_dependents."""

    kind: OneOf["wait", "launch_dependents"] = attribute()
