"""The verbs of the IR, one dataclass each; both back ends, the verifier and the printer dispatch on these classes.

Scalar ops are pure and define ``result``.  ``Copy``, ``Gemm`` and ``Map`` stay one op for a whole tile: an index space
(``extents``) and per operand a ``TileRef`` whose strides run over it.  Control flow is structured: ``If``, ``For``,
``Loop``, ``Scope`` hold blocks, ``Exit`` leaves one of them.

    Binary(result=Value(int32), kind="add", a=x, b=Literal(1, int32))

Every op keeps its source ``loc``.  Semantics that an atom defines live in ``moye.atoms``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from moye import dtypes as dt
from moye.atoms.atom import CopyOp, MmaOp
from moye.dtypes import DType
from moye.ir.effects import (
    Assert,
    Atomic,
    Bounds,
    CpAsyncCommit,
    CpAsyncWait,
    Fence,
    Inspect,
    Load,
    NamedBarrier,
    Order,
    Print,
    Scope_,
    Shuffle,
    Store,
    SyncThreads,
    SyncWarp,
    Vote,
    dynamic_extents,
    operands_of,
)
from moye.ir.hopper import (
    AnyBulk,
    BulkCommit,
    BulkCopy,
    BulkWait,
    ClusterArrive,
    ClusterWait,
    Elect,
    GridDependency,
    MapShared,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    ProxyFence,
    SetMaxRegisters,
    TmaCopy,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from moye.ir.nodes import Block, Buffer, Extent, Op, Operand, Ref, TileRef, Value, Var

__all__ = [
    "ARITHMETIC", "BINARY", "COMPARISONS", "LOGICAL", "MATH", "SPECIALS", "UNARY", "Alloc", "AnyBulk", "Assert",
    "Assign", "Atomic", "Binary", "Bounds", "BulkCommit", "BulkCopy", "BulkWait", "Cast", "ClusterArrive",
    "ClusterWait", "Copy", "CpAsyncCommit", "CpAsyncWait", "Declare", "Elect", "Exit", "Fence", "For", "Gemm",
    "GridDependency", "If", "Inspect", "Load", "Loop", "Map", "MapShared", "MbarrierArrive", "MbarrierInit",
    "MbarrierWait", "NamedBarrier", "Op", "Order", "Print", "ProxyFence", "Read", "Reduce", "Scope", "Scope_",
    "Select", "SetMaxRegisters", "Shuffle", "Special", "Store", "SyncThreads", "SyncWarp", "TmaCopy", "Unary", "Vote",
    "Wgmma", "WgmmaCommit", "WgmmaFence", "WgmmaWait", "dtype_of_math",
]

ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "shl", "shr", "and", "or", "xor", "pow")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL = ("land", "lor")
BINARY = ARITHMETIC + COMPARISONS + LOGICAL
MATH = ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil",
        "round", "trunc", "abs", "sigmoid")
UNARY = ("neg", "not", "invert", "popcount", "clz", "isnan", "isinf", *MATH)
SPECIALS = ("thread_x", "thread_y", "thread_z", "block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z",
            "cluster_rank", "cluster_block_x", "cluster_block_y", "cluster_block_z", "clock", "globaltimer")
_WORDS = (dt.int32, dt.uint32, dt.int64, dt.uint64)
_BITS = (*_WORDS, dt.float32, dt.float64)
ATOMICS: dict[str, tuple[DType, ...]] = {
    "add": (*_BITS, dt.float16, dt.bfloat16), **dict.fromkeys(("min", "max", "and", "or", "xor"), _WORDS),
    "exch": _BITS, "cas": _BITS,
}
"""The elements that PTX has each atomic operation for."""


# --- scalars ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Special(Op):
    """A hardware register: thread and block index, grid extent, clock (clock and globaltimer are not pure).

    ``cluster_rank`` is the block's linear index within its cluster (x fastest), ``cluster_block_x`` one coordinate.
    """

    pure = True
    result: Value
    kind: str


@dataclass(slots=True, kw_only=True)
class Binary(Op):
    """``floordiv`` and ``mod`` floor as in Python; ``div`` is floating point; comparisons and land / lor give bool.

    Both operands have one dtype (the result's, for arithmetic); ``shl`` / ``shr`` take an int32 count, ``pow`` floats.
    """

    pure = True
    result: Value
    kind: str
    a: Operand
    b: Operand

    def operands(self) -> Iterator[Operand]:
        yield from (self.a, self.b)


@dataclass(slots=True, kw_only=True)
class Unary(Op):
    """``not`` is logical, ``invert`` bitwise; ``fast`` takes the approximate hardware function."""

    pure = True
    result: Value
    kind: str
    a: Operand
    fast: bool = False

    def operands(self) -> Iterator[Operand]:
        yield self.a


@dataclass(slots=True, kw_only=True)
class Select(Op):
    """``a if cond else b``, both sides evaluated."""

    pure = True
    result: Value
    cond: Operand
    a: Operand
    b: Operand

    def operands(self) -> Iterator[Operand]:
        yield from (self.cond, self.a, self.b)


@dataclass(slots=True, kw_only=True)
class Cast(Op):
    """Value conversion, or with ``bits`` a bitcast.

    To floats one rounding to nearest even (tfloat32: ties away from zero); 8-bit floats saturate at their largest
    finite value, infinities too.  Floats to integers truncate and saturate; which integer NaN gives is not specified.
    """

    pure = True
    result: Value
    a: Operand
    bits: bool = False

    def operands(self) -> Iterator[Operand]:
        yield self.a


@dataclass(slots=True, kw_only=True)
class Declare(Op):
    """Brings a Var to life with a first value (None: poison)."""

    var: Var
    init: Operand | None

    def operands(self) -> Iterator[Operand]:
        if self.init is not None:
            yield self.init


@dataclass(slots=True, kw_only=True)
class Read(Op):
    """The value of a Var at this point; later assignments do not change it."""

    result: Value
    var: Var


@dataclass(slots=True, kw_only=True)
class Assign(Op):
    """Parallel assignment: every source was evaluated before any Var changes (sources are Values anyway)."""

    pairs: tuple[tuple[Var, Operand], ...]

    def operands(self) -> Iterator[Operand]:
        for _, source in self.pairs:
            yield source


# --- tiles -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Alloc(Op):
    """A buffer (register fragment or shared tensor) begins here; its contents are undefined."""

    buffer: Buffer


@dataclass(slots=True, kw_only=True)
class Copy(Op):
    """dst[i] = src[i] for every i in the index space, ``width`` contiguous elements at a time.

    ``extents`` count accesses: each access moves ``width`` elements of unit stride from both references (dtypes agree).
    ``atom`` says how (a plain load / store, cp.async...); an asynchronous one completes at the matching wait.
    ``pred`` is a bool operand, or a TileRef of a bool fragment over the same index space: an access whose predicate is
    false does nothing (or writes zeros, if ``zero_fill``).
    An atom of a whole warp moves rows of ``width`` elements of shared memory: each thread gives the address of a row,
    and holds values at ``registers`` (offsets from its register operand) as the atom's layouts say.
    """

    dst: TileRef
    src: TileRef
    extents: tuple[Extent, ...]
    width: int
    atom: CopyOp
    pred: TileRef | Operand | None = None
    zero_fill: bool = False
    registers: tuple[int, ...] = ()

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.dst, self.src)
        yield from dynamic_extents(self.extents)
        if isinstance(self.pred, TileRef):
            yield from operands_of(self.pred)
        elif self.pred is not None:
            yield self.pred

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.src, False
        if isinstance(self.pred, TileRef):
            yield self.pred, False
        yield self.dst, True


@dataclass(slots=True, kw_only=True)
class Gemm(Op):
    """d = a * b + c over an index space whose dimensions have the roles ``m``, ``n`` or ``k`` (``roles[i]``).

    At each point the atom reads its values at ``a.offset + sum + a_values[v]`` and so on; ``x_values`` has one register
    offset per value that a thread holds for that operand ((0,) for UniversalFMA).  All operands are register fragments.
    k runs outermost and in order; with a k dimension d is c.  ``order`` is how the printer walks m and n: "rows" or
    "serpentine".
    """

    mma: MmaOp
    d: TileRef
    a: TileRef
    b: TileRef
    c: TileRef
    extents: tuple[int, ...]
    roles: str
    a_values: tuple[int, ...] = (0,)
    b_values: tuple[int, ...] = (0,)
    c_values: tuple[int, ...] = (0,)
    d_values: tuple[int, ...] = (0,)
    order: OneOf["rows", "serpentine"] = "serpentine"

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.d, self.a, self.b, self.c)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        for ref in (self.a, self.b, self.c):
            yield ref, False
        yield self.d, True


@dataclass(slots=True, kw_only=True)
class Map(Op):
    """dst[i] = f(sources[0][i], sources[1][i], ...) over the index space: elementwise work on register tensors.

    ``inputs[j]`` is the Value that stands for the element of ``sources[j]``; ``body`` holds pure ops, ``value`` is what
    is stored.  With no sources it is a fill.
    """

    dst: TileRef
    sources: tuple[TileRef, ...]
    inputs: tuple[Value, ...]
    extents: tuple[int, ...]
    body: Block
    value: Operand

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.dst, *self.sources)
        yield self.value

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        for ref in self.sources:
            yield ref, False
        yield self.dst, True

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(slots=True, kw_only=True)
class Reduce(Op):
    """result = fold of src[i] over the index space with ``kind`` (add, mul, min, max, and, or, xor), in index order."""

    result: Value
    kind: str
    src: TileRef
    extents: tuple[int, ...]

    def operands(self) -> Iterator[Operand]:
        yield from operands_of(self.src)

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        yield self.src, False


# --- control flow ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class If(Op):
    """Two-armed branch; values leave it through Vars."""

    cond: Operand
    then: Block
    orelse: Block

    def operands(self) -> Iterator[Operand]:
        yield self.cond

    def blocks(self) -> Iterator[Block]:
        yield from (self.then, self.orelse)


@dataclass(slots=True, kw_only=True)
class For(Op):
    """for (iv = start; iv < stop (or > stop for step < 0); iv += step) body.

    ``step`` is a static non-zero int, or a value that is positive: the trace knew it.
    ``unroll``: None lets the compiler choose, 0 asks for full unrolling, 1 forbids, n > 1 asks for n.
    """

    iv: Value
    start: Operand
    stop: Operand
    step: int | Value
    body: Block
    unroll: int | None = None

    @property
    def up(self) -> bool:
        """Whether ``iv`` grows."""
        return isinstance(self.step, Value) or self.step > 0

    def operands(self) -> Iterator[Operand]:
        yield from (self.start, self.stop)
        if isinstance(self.step, Value):
            yield self.step

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(slots=True, kw_only=True)
class Loop(Op):
    """while (true) body: left by Exit only.  A source-level ``while c`` starts with If(not c) { Exit break }."""

    body: Block

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(slots=True, kw_only=True)
class Scope(Op):
    """A block that Exit("leave") may jump to the end of (early return of an inlined function)."""

    body: Block

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(slots=True, kw_only=True)
class Exit(Op):
    """Leaves ``target``: "break" or "continue" of a For / Loop, "leave" of a Scope, "return" from the kernel (None).

    Nothing follows it in its block.
    """

    kind: OneOf["break", "continue", "leave", "return"]
    target: For | Loop | Scope | None = field(default=None, repr=False)


def dtype_of_math(kind: str, dtype: DType) -> bool:
    """Whether the unary math function is defined on the dtype (floats; ``abs`` on integers too)."""
    return dtype.is_float or (kind == "abs" and dtype.is_integer)
