"""Ops with effects on memory or on other threads: element accesses, atomics, barriers, warp operations, debugging.

In: operands and references.  Out: what ``ops.py`` re-exports beside scalars, tiles and control flow.

    Store(ref=Ref(buffer, offset, float32), value=x)

Semantics are those of the PTX instructions that the docstrings name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from moye.ir.nodes import Block, Buffer, Extent, Index, Op, Operand, Ref, TileRef, Value

Scope_ = OneOf["thread", "cta", "cluster", "gpu", "sys"]
Order = OneOf["relaxed", "acquire", "release", "acq_rel", "seq_cst"]

def operands_of(*refs: Ref | TileRef | None) -> Iterator[Operand]:
    for ref in refs:
        if ref is None:
            continue
        yield ref.offset
        if ref.buffer.base is not None:
            yield ref.buffer.base
        if isinstance(ref, TileRef):
            for stride in ref.strides:
                if isinstance(stride, Value):
                    yield stride


def dynamic_extents(extents: tuple[Extent, ...]) -> Iterator[Operand]:
    for extent in extents:
        if isinstance(extent, Value):
            yield extent


# --- memory, one element ---------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Load(Op):
    """One element; with ``order`` a scoped load (ld.relaxed / ld.acquire)."""

    result: Value
    ref: Ref
    order: Order | None = None
    scope: Scope_ = "gpu"

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.ref)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, False


@dataclass(slots=True, kw_only=True)
class Store(Op):
    """One element; with ``order`` a scoped store (st.relaxed / st.release)."""

    ref: Ref
    value: Operand
    order: Order | None = None
    scope: Scope_ = "gpu"

    def operands(self) -> Iterator[Operand]:
        yield self.value
        yield from operands_of(self.ref)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, True


@dataclass(slots=True, kw_only=True)
class Atomic(Op):
    """Read-modify-write of one element; ``result`` is the old value.

    Kinds: add, min, max, and, or, xor, exch, cas (``compare`` is the expected value).
    """

    result: Value
    kind: str
    ref: Ref
    value: Operand
    compare: Operand | None = None
    order: Order = "relaxed"
    scope: Scope_ = "gpu"

    def operands(self) -> Iterator[Operand]:
        yield self.value
        if self.compare is not None:
            yield self.compare
        yield from operands_of(self.ref)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.ref, True


@dataclass(slots=True, kw_only=True)
class Fence(Op):
    """A memory fence of the calling thread (PTX ISA: fence / membar)."""

    order: Order
    scope: Scope_


# --- threads together ------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class SyncThreads(Op):
    """bar.sync 0: every non-exited thread of the block."""

    blocking = True


@dataclass(slots=True, kw_only=True)
class SyncWarp(Op):
    """bar.warp.sync of the lanes in ``mask``."""

    blocking = True
    mask: int = 0xFFFFFFFF


@dataclass(slots=True, kw_only=True)
class NamedBarrier(Op):
    """bar.sync / bar.arrive on barrier ``barrier`` (0..15) for ``threads`` threads (a multiple of 32)."""

    blocking = True
    kind: OneOf["sync", "arrive"]
    barrier: Operand
    threads: int

    def operands(self) -> Iterator[Operand]:
        yield self.barrier


@dataclass(slots=True, kw_only=True)
class CpAsyncCommit(Op):
    """cp.async.commit_group: the thread's uncommitted asynchronous copies become its newest group."""


@dataclass(slots=True, kw_only=True)
class CpAsyncWait(Op):
    """cp.async.wait_group ``pending``, or with None cp.async.wait_all (uncommitted copies too)."""

    pending: int | None = None


@dataclass(slots=True, kw_only=True)
class Shuffle(Op):
    """shfl.sync of a 32- or 64-bit value: kinds idx, up, down, xor; ``width`` lanes per segment."""

    blocking = True
    result: Value
    kind: OneOf["idx", "up", "down", "xor"]
    value: Operand
    lane: Operand
    width: int = 32
    mask: int = 0xFFFFFFFF

    def operands(self) -> Iterator[Operand]:
        yield from (self.value, self.lane)


@dataclass(slots=True, kw_only=True)
class Vote(Op):
    """vote.sync: kinds ballot (uint32 result), any, all (bool result)."""

    blocking = True
    result: Value
    kind: OneOf["ballot", "any", "all"]
    pred: Operand
    mask: int = 0xFFFFFFFF

    def operands(self) -> Iterator[Operand]:
        yield self.pred


# --- debugging -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Print(Op):
    """print(...): ``parts`` are strings and operands, printed in order with the thread and block in front.

    ``formats``: per operand its printf format without a length, "" for the usual one; nothing where all are usual.
    """

    parts: tuple[str | Operand, ...]
    formats: tuple[str, ...] = ()

    def operands(self) -> Iterator[Operand]:
        for part in self.parts:
            if not isinstance(part, str):
                yield part


@dataclass(slots=True, kw_only=True)
class Assert(Op):
    """assert cond, message.  ``assume`` marks mo.assume: a promise that the trace relied on.

    ``code`` is the class of the violation, A12 where it is empty.
    """

    cond: Operand
    message: str
    assume: bool = False
    code: str = ""

    def operands(self) -> Iterator[Operand]:
        yield self.cond


@dataclass(slots=True, kw_only=True)
class Bounds(Op):
    """The access behind it is meant to keep its indices inside their modes: judged by the simulator alone.

    ``checks`` are the indices that neither the trace nor the launch could prove, over the space ``points``; ``place``
    is the element in the modes of the tensor that is accessed, which ``body`` computes only where a check fails.
    Where ``pred`` is a fragment over the space ``extents``, ``points`` are its points times ``width`` elements
    along dimension ``along`` of ``elements``: element by element.
    """

    buffer: Buffer
    name: str
    """The name of the tensor whose modes ``place`` counts; "" for the buffer itself."""
    shape: tuple[Extent, ...]
    write: bool
    checks: tuple[Index, ...]
    place: tuple[Index, ...]
    body: Block
    points: tuple[Extent, ...] = ()
    pred: TileRef | Operand | None = None
    extents: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    width: int = 1
    along: int = 0

    def operands(self) -> Iterator[Operand]:
        """All but those of ``place``, which the body defines."""
        for check in self.checks:
            yield from check.operands()
        yield from dynamic_extents((*self.points, *self.shape))
        if self.buffer.base is not None:
            yield self.buffer.base
        if isinstance(self.pred, TileRef):
            yield from operands_of(self.pred)
        elif self.pred is not None:
            yield self.pred

    def places(self) -> Iterator[Operand]:
        """The operands of ``place``."""
        for index in self.place:
            yield from index.operands()

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        if isinstance(self.pred, TileRef):
            yield self.pred, False

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(slots=True, kw_only=True)
class Inspect(Op):
    """mo.inspect(...): the simulator keeps a snapshot of each named tensor or scalar here; the GPU ignores it."""

    label: str
    tensors: tuple[tuple[str, TileRef, tuple[Extent, ...]], ...]
    scalars: tuple[tuple[str, Operand], ...]

    def operands(self) -> Iterator[Operand]:
        for _, ref, extents in self.tensors:
            yield from operands_of(ref)
            yield from dynamic_extents(extents)
        for _, scalar in self.scalars:
            yield scalar

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        for _, ref, _ in self.tensors:
            yield ref, False
