"""Ops with effects on memory or on other threads: element accesses, atomics, barriers, warp operations, debugging.

In: operands and references.  Out: what ``ops.py`` re-exports beside scalars, tiles and control flow.

    Store(ref=Ref(buffer, offset, float32), value=x)

Semantics are those of the PTX instructions that the docstrings name.
"""

from __future__ import annotations

from typing import Literal as OneOf

from moye.ir.nodes import Block, Buffer, Extent, Func, Index, Op, Operand, Ref, TileRef, Value
from moye.ir.operation import attribute, block, computed, defined, operand, operation, read, updated, written
from moye.ir.traits import Trait

Scope_ = OneOf["thread", "cta", "cluster", "gpu", "sys"]
Order = OneOf["relaxed", "acquire", "release", "acq_rel", "seq_cst"]

# --- memory, one element ---------------------------------------------------------------------------------------------


@operation(Trait.REMOVABLE, Trait.MOVES, Trait.REMOTE, Trait.HEARS)
class Load(Op):
    """One element; with ``order`` a scoped load (ld.relaxed / ld.acquire)."""

    result: Value = defined()
    ref: Ref = read()
    order: Order | None = attribute(default=None)
    scope: Scope_ = attribute(default="gpu")


@operation(Trait.WRITER, Trait.MOVES, Trait.REMOTE, Trait.TELLS, Trait.QUIET)
class Store(Op):
    """One element; with ``order`` a scoped store (st.relaxed / st.release)."""

    value: Operand = operand()
    ref: Ref = written()
    order: Order | None = attribute(default=None)
    scope: Scope_ = attribute(default="gpu")


@operation(Trait.MOVES, Trait.REMOTE, Trait.TELLS, Trait.HEARS, Trait.HANDS_OVER, Trait.QUIET)
class Atomic(Op):
    """Read-modify-write of one element; ``result`` is the old value.

    Kinds: add, min, max, and, or, xor, exch, cas (``compare`` is the expected value).  min and max of floats take the
    number beside a NaN.  ``more`` are the values for the elements behind it in global memory: each is changed by
    itself, in one instruction, and nobody uses the result.  In another block's shared memory it is relaxed.
    """

    result: Value = defined()
    kind: str = attribute()
    value: Operand = operand()
    compare: Operand | None = operand(default=None)
    more: tuple[Operand, ...] = operand(default=())
    ref: Ref = written()
    order: Order = attribute(default="relaxed")
    scope: Scope_ = attribute(default="gpu")


def is_ordered(op: Op) -> bool:
    """Whether a load or store is no plain access."""
    return isinstance(op, (Load, Store)) and op.order is not None


@operation(Trait.ORDERS_MEMORY, Trait.HANDS_OVER, Trait.QUIET)
class Fence(Op):
    """A memory fence of the calling thread (PTX ISA: fence / membar)."""

    order: Order = attribute()
    scope: Scope_ = attribute()


@operation(Trait.QUIET)
class NanoSleep(Op):
    """nanosleep.u32: the thread stops for about ``duration`` nanoseconds."""

    duration: Operand = operand()


@operation(Trait.QUIET)
class Pin(Op):
    """The register tensors ``tiles``, as a whole, hold their values here: no arithmetic moves across."""

    tiles: tuple[TileRef, ...] = updated()


@operation(Trait.QUIET)
class Landed(Op):
    """What was loaded to the registers ``elements``, and as ``values``, is there: nothing behind it is done before."""

    elements: tuple[Ref, ...] = read(default=())
    values: tuple[Value, ...] = operand(default=())


# --- threads together ------------------------------------------------------------------------------------------------


@operation(Trait.WAITS, Trait.MEETS, Trait.TELLS, Trait.HEARS, Trait.ORDERS_MEMORY, Trait.QUIET)
class SyncThreads(Op):
    """bar.sync 0: every non-exited thread of the block.

    ``keeps`` are shared tensors that a later use may not come to before it, if it stands for nothing else.
    """

    keeps: tuple[Buffer, ...] = attribute(default=())


@operation(*SyncThreads.traits)
class GridSync(SyncThreads):
    """The barrier of the grid: what SyncThreads is to each block, and every thread of every other block comes, too."""


def is_cooperative(func: Func) -> bool:
    """Whether all blocks of a launch must be resident together, because they meet."""
    return any(isinstance(op, GridSync) for op in func.body.walk())


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.TELLS, Trait.HEARS, Trait.ORDERS_MEMORY, Trait.QUIET)
class SyncWarp(Op):
    """bar.warp.sync of the lanes in ``mask``."""

    mask: int = attribute(default=0xFFFFFFFF)


@operation(Trait.WAITS, Trait.MEETS, Trait.SIGNALS, Trait.TELLS, Trait.HEARS, Trait.ORDERS_MEMORY)
class NamedBarrier(Op):
    """bar.sync / bar.arrive on barrier ``barrier`` (0..15) for ``threads`` threads (a multiple of 32)."""

    kind: OneOf["sync", "arrive"] = attribute()
    barrier: Operand = operand()
    threads: int = attribute()


@operation(Trait.ORDERS_MEMORY)
class CpAsyncCommit(Op):
    """cp.async.commit_group: the thread's uncommitted asynchronous copies become its newest group."""


@operation(Trait.ORDERS_MEMORY)
class CpAsyncWait(Op):
    """cp.async.wait_group ``pending``, or with None cp.async.wait_all (uncommitted copies too)."""

    pending: int | None = attribute(default=None)


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.QUIET)
class Shuffle(Op):
    """shfl.sync of a 32- or 64-bit value: kinds idx, up, down, xor; ``width`` lanes per segment."""

    result: Value = defined()
    kind: OneOf["idx", "up", "down", "xor"] = attribute()
    value: Operand = operand()
    lane: Operand = operand()
    width: int = attribute(default=32)
    mask: int = attribute(default=0xFFFFFFFF)


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.QUIET)
class Vote(Op):
    """vote.sync: kinds ballot (uint32 result), any, all (bool result)."""

    result: Value = defined()
    kind: OneOf["ballot", "any", "all"] = attribute()
    pred: Operand = operand()
    mask: int = attribute(default=0xFFFFFFFF)


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.QUIET)
class Redux(Op):
    """redux.sync of an int32 or uint32: folds it over the lanes in ``mask`` that have not exited."""

    result: Value = defined()
    kind: OneOf["add", "min", "max", "and", "or", "xor"] = attribute()
    value: Operand = operand()
    mask: int = attribute(default=0xFFFFFFFF)


@operation(Trait.MEETS, Trait.MEETS_WARP, Trait.ACTS_WHEN_MET, Trait.QUIET)
class Match(Op):
    """match.sync of an integer of 32 or 64 bits; the result is a uint32 with a bit for each lane.

    ``any``: the lanes in ``mask`` that have this lane's value.  ``all``: ``mask`` if all have one value, else 0.
    """

    result: Value = defined()
    kind: OneOf["any", "all"] = attribute()
    value: Operand = operand()
    mask: int = attribute(default=0xFFFFFFFF)


# --- debugging -------------------------------------------------------------------------------------------------------


@operation(Trait.SHOWS)
class Print(Op):
    """print(...): ``parts`` are strings and operands, printed in order with the thread and block in front.

    ``formats``: per operand its printf format without a length, "" for the usual one; nothing where all are usual.
    """

    parts: tuple[str | Operand, ...] = operand()
    formats: tuple[str, ...] = attribute(default=())


@operation()
class Assert(Op):
    """assert cond, message.  ``assume`` marks mo.assume: a promise that the trace relied on.

    ``code`` is the class of the violation, A12 where it is empty.
    """

    cond: Operand = operand()
    message: str = attribute()
    assume: bool = attribute(default=False)
    code: str = attribute(default="")


@operation(Trait.POINTWISE, Trait.SIMULATED, Trait.QUIET)
class Bounds(Op):
    """The access behind it is meant to keep its indices inside their modes: judged by the simulator alone.

    ``checks`` are the indices that neither the trace nor the launch could prove, over the space ``points``; ``place``
    is the element in the modes of the tensor that is accessed, which ``body`` computes only where a check fails.
    Where ``pred`` is a fragment over the space ``extents``, ``points`` are its points times ``width`` elements
    along dimension ``along`` of ``elements``: element by element.
    """

    checks: tuple[Index, ...] = operand()
    points: tuple[Extent, ...] = operand(default=())
    shape: tuple[Extent, ...] = operand()
    buffer: Buffer = operand()
    pred: TileRef | Operand | None = read(default=None)
    place: tuple[Index, ...] = computed()
    body: Block = block()
    name: str = attribute()
    """The name of the tensor whose modes ``place`` counts; "" for the buffer itself."""
    write: bool = attribute()
    extents: tuple[int, ...] = attribute(default=())
    elements: tuple[int, ...] = attribute(default=())
    width: int = attribute(default=1)
    along: int = attribute(default=0)


@operation(Trait.SHOWS, Trait.SIMULATED, Trait.REMOTE)
class Inspect(Op):
    """mo.inspect(...): the simulator keeps a snapshot of each named tensor or scalar here; the GPU ignores it."""

    label: str = attribute()
    tensors: tuple[tuple[str, TileRef, tuple[Extent, ...]], ...] = read()
    scalars: tuple[tuple[str, Operand], ...] = operand()
