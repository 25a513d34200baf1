"""The verbs of the IR, one declaration each (``operation.py``): what its fields are to it, and what kind of op it is.

Scalar ops are pure and define ``result``.  ``Copy``, ``Gemm`` and ``Map`` stay one op for a whole tile: an index space
(``extents``) and per operand a ``TileRef`` whose strides run over it.  Control flow is structured: ``If``, ``For``,
``Loop``, ``Scope`` hold blocks, ``Exit`` leaves one of them.

    Binary(result=Value(int32), kind="add", a=x, b=Literal(1, int32))

Every op keeps its source ``loc``.  Semantics that an atom defines live in ``moye.atoms``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal as OneOf

from moye import dtypes as dt
from moye.atoms.atom import CopyOp, MmaOp
from moye.dtypes import DType
from moye.errors import IRError
from moye.ir.effects import *  # noqa: F403
from moye.ir.hopper import *  # noqa: F403
from moye.ir.inline import Inline as Inline
from moye.ir.inline import InlineEffect as InlineEffect
from moye.ir.inline import InlinePart as InlinePart
from moye.ir.nodes import Block, Buffer, Extent, Operand, TileRef, Value, Var
from moye.ir.nodes import Op as Op
from moye.ir.operation import attribute, block, defined, given, operand, operation, read, written
from moye.ir.traits import Trait as Trait

ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "shl", "shr", "and", "or", "xor", "pow")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL = ("land", "lor")
MATH_PAIRS = ("atan2", "fmod", "remainder", "hypot", "copysign", "nextafter", "ldexp")
BINARY = ARITHMETIC + COMPARISONS + LOGICAL + MATH_PAIRS + ("mul_hi",)
MATH = ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil",
        "round", "trunc", "abs", "sigmoid", "rcp")
SLOW_MATH = ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log1p", "expm1", "erfc", "erfinv",
             "lgamma", "tgamma", "cbrt")
"""What no instruction approximates."""
NARROW_ARITHMETIC = ("add", "sub", "mul", "min", "max")
"""What is computed in 16-bit floats as such, with one rounding; all else goes through float32."""
NARROW_FAST = ("exp2", "tanh")
"""The functions that the hardware approximates in 16-bit floats, too."""
COUNTS = ("popcount", "clz", "ffs")
UNARY = ("neg", "not", "invert", *COUNTS, "brev", "isnan", "isinf", *MATH, *SLOW_MATH)
SPECIALS = ("thread_x", "thread_y", "thread_z", "block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z",
            "cluster_rank", "cluster_block_x", "cluster_block_y", "cluster_block_z", "clock", "globaltimer")
_WORDS = (dt.int32, dt.uint32, dt.int64, dt.uint64)
_SHORTS = (dt.int16, dt.uint16)
_NUMBERS = (*_WORDS, *_SHORTS, dt.float32, dt.float64, dt.float16, dt.bfloat16)
ATOMICS: dict[str, tuple[DType, ...]] = {
    **dict.fromkeys(("add", "min", "max", "exch", "cas"), _NUMBERS),
    **dict.fromkeys(("and", "or", "xor"), (*_WORDS, *_SHORTS)),
}
"""The elements that each atomic operation takes: PTX has an instruction for it, or a loop around atom.cas does it."""
VECTORS: dict[DType, tuple[int, ...]] = {dt.float32: (4, 2), dt.float16: (8, 4, 2), dt.bfloat16: (8, 4, 2)}
"""How many elements one red.global.add takes, the most first (PTX ISA, red: .vec_32_bit, .vec_16_bit)."""


# --- scalars ---------------------------------------------------------------------------------------------------------


@operation(Trait.PURE, Trait.SPECULATIVE)
class Special(Op):
    """A hardware register: thread and block index, grid extent, clock (clock and globaltimer are not pure).

    ``cluster_rank`` is the block's linear index within its cluster (x fastest), ``cluster_block_x`` one coordinate.
    """

    result: Value = defined()
    kind: str = attribute()


@operation(Trait.ARITHMETIC)
class Binary(Op):
    """``floordiv`` and ``mod`` floor as in Python; ``div`` is floating point; comparisons and land / lor give bool.

    Both operands have one dtype, which is the result's too but for comparisons.  The second one of ``shl``, ``shr`` and
    ``ldexp`` is int32.  ``pow`` and ``MATH_PAIRS`` are of floats; ``mul_hi`` is the upper half of a product of integers
    of 32 or 64 bits.
    """

    result: Value = defined()
    kind: str = attribute()
    a: Operand = operand()
    b: Operand = operand()


@operation(Trait.ARITHMETIC)
class Unary(Op):
    """``not`` is logical, ``invert`` bitwise; ``fast`` takes the approximate hardware function.

    The approximations of float32 take subnormal numbers for zero and give none, but for tanh.
    """

    result: Value = defined()
    kind: str = attribute()
    a: Operand = operand()
    fast: bool = attribute(default=False)


@operation(Trait.ARITHMETIC)
class Fma(Op):
    """a * b + c of floats of one dtype, rounded once."""

    result: Value = defined()
    a: Operand = operand()
    b: Operand = operand()
    c: Operand = operand()


@operation(Trait.ARITHMETIC)
class Select(Op):
    """``a if cond else b``, both sides evaluated."""

    result: Value = defined()
    cond: Operand = operand()
    a: Operand = operand()
    b: Operand = operand()


@operation(Trait.ARITHMETIC)
class Cast(Op):
    """Value conversion, or with ``bits`` a bitcast.

    To floats one rounding to nearest even (tfloat32: ties away from zero); 8-bit floats saturate at their largest
    finite value, infinities too.  Floats to integers truncate and saturate; which integer NaN gives is not specified.
    """

    result: Value = defined()
    a: Operand = operand()
    bits: bool = attribute(default=False)


@operation(Trait.VARIABLE, Trait.QUIET)
class Declare(Op):
    """Brings a Var to life with a first value (None: poison)."""

    var: Var = attribute()
    init: Operand | None = operand()


@operation(Trait.VARIABLE, Trait.SPECULATIVE)
class Read(Op):
    """The value of a Var at this point; later assignments do not change it."""

    result: Value = defined()
    var: Var = attribute()


@operation(Trait.VARIABLE, Trait.QUIET)
class Assign(Op):
    """Parallel assignment: every source was evaluated before any Var changes (sources are Values anyway)."""

    pairs: tuple[tuple[Var, Operand], ...] = operand()


# --- tiles -----------------------------------------------------------------------------------------------------------


@operation()
class Alloc(Op):
    """A buffer (register fragment or shared tensor) begins here; its contents are undefined."""

    buffer: Buffer = attribute()


@operation(Trait.WRITER, Trait.MOVES, Trait.REMOTE)
class Copy(Op):
    """dst[i] = src[i] for every i in the index space, ``width`` contiguous elements at a time.

    ``extents`` count accesses: each access moves ``width`` elements of unit stride from both references (dtypes agree).
    ``atom`` says how (a plain load / store, cp.async...); an asynchronous one completes at the matching wait.
    ``pred`` is a bool operand, or a TileRef of a bool fragment over the same index space: an access whose predicate is
    false does nothing (or writes ``other``, or zeros, if ``zero_fill``).
    ``group`` > 1: dimension 0 has that extent, and its elements are side by side in memory.  Where the predicate is
    true for all of them, and addresses on the ``tested`` sides are multiples of their bytes, they are one access.
    An atom of a whole warp moves rows of ``width`` elements of shared memory: each thread gives the address of a row,
    and holds values at ``registers`` (offsets from its register operand) as the atom's layouts say.
    """

    dst: TileRef = written()
    src: TileRef = read()
    extents: tuple[Extent, ...] = operand()
    width: int = attribute()
    atom: CopyOp = attribute()
    pred: TileRef | Operand | None = read(default=None)
    zero_fill: bool = attribute(default=False)
    other: Operand | None = operand(default=None)
    group: int = attribute(default=1)
    tested: OneOf["none", "dst", "src", "both"] = attribute(default="none")
    registers: tuple[int, ...] = attribute(default=())


@operation(Trait.MULTIPLIES, Trait.WRITER)
class Gemm(Op):
    """d = a * b + c over an index space whose dimensions have the roles ``m``, ``n`` or ``k`` (``roles[i]``).

    At each point the atom reads its values at ``a.offset + sum + a_values[v]`` and so on; ``x_values`` has one register
    offset per value that a thread holds for that operand ((0,) for UniversalFMA).  All operands are register fragments.
    k runs outermost and in order; with a k dimension d is c.  ``order`` is how the printer walks m and n: "rows" or
    "serpentine".
    """

    mma: MmaOp = attribute()
    d: TileRef = written()
    a: TileRef = read()
    b: TileRef = read()
    c: TileRef = read()
    extents: tuple[int, ...] = attribute()
    roles: str = attribute()
    a_values: tuple[int, ...] = attribute(default=(0,))
    b_values: tuple[int, ...] = attribute(default=(0,))
    c_values: tuple[int, ...] = attribute(default=(0,))
    d_values: tuple[int, ...] = attribute(default=(0,))
    order: OneOf["rows", "serpentine"] = attribute(default="serpentine")


@operation(Trait.WRITER, Trait.MOVES, Trait.POINTWISE)
class Map(Op):
    """dst[i] = f(sources[0][i], sources[1][i], ...) over the index space: elementwise work on register tensors.

    ``inputs[j]`` is the Value that stands for the element of ``sources[j]``; ``body`` holds pure ops, ``value`` is what
    is stored.  With no sources it is a fill.
    """

    dst: TileRef = written()
    sources: tuple[TileRef, ...] = read()
    inputs: tuple[Value, ...] = given()
    extents: tuple[int, ...] = attribute()
    body: Block = block()
    value: Operand = operand()


@operation(Trait.REMOVABLE, Trait.MOVES)
class Reduce(Op):
    """result = fold of src[i] over the index space with ``kind`` (add, mul, min, max, and, or, xor).

    The order is part of the meaning: chain c of ``chains`` (a power of two) folds the points c, c + chains, ... in
    index order; then chains 0 and 1, 2 and 3, ... are folded, and so on with what they gave, until one is left.
    """

    result: Value = defined()
    kind: str = attribute()
    src: TileRef = read()
    extents: tuple[int, ...] = attribute()
    chains: int = attribute(default=1)


@operation(Trait.REMOVABLE, Trait.MOVES)
class Find(Op):
    """result (int32) = the least i with src[i] == value over the index space, in index order; 0 if there is none."""

    result: Value = defined()
    value: Operand = operand()
    src: TileRef = read()
    extents: tuple[int, ...] = attribute()


# --- control flow ----------------------------------------------------------------------------------------------------


@operation(Trait.REGION)
class If(Op):
    """Two-armed branch; values leave it through Vars."""

    cond: Operand = operand()
    then: Block = block()
    orelse: Block = block()


@operation(Trait.LOOP)
class For(Op):
    """for (iv = start; iv < stop (or > stop for step < 0); iv += step) body.

    ``step`` is a static non-zero int, or a value that is positive: the trace knew it.
    ``unroll``: None lets the compiler choose, 0 asks for full unrolling, 1 forbids, n > 1 asks for n.
    """

    iv: Value = given()
    start: Operand = operand()
    stop: Operand = operand()
    step: int | Value = operand()
    body: Block = block()
    unroll: int | None = attribute(default=None)

    @property
    def up(self) -> bool:
        """Whether ``iv`` grows."""
        return isinstance(self.step, Value) or self.step > 0


@operation(Trait.LOOP)
class Loop(Op):
    """while (true) body: left by Exit only.  A source-level ``while c`` starts with If(not c) { Exit break }."""

    body: Block = block()


@operation(Trait.REGION)
class Scope(Op):
    """A block that Exit("leave") may jump to the end of (early return of an inlined function)."""

    body: Block = block()


@operation(Trait.QUIET)
class Exit(Op):
    """Leaves ``target``: "break" or "continue" of a For / Loop, "leave" of a Scope, "return" from the kernel (None).

    Nothing follows it in its block.
    """

    kind: OneOf["break", "continue", "leave", "return"] = attribute()
    target: For | Loop | Scope | None = attribute(default=None, repr=False)


def dtype_of_math(kind: str, dtype: DType) -> bool:
    """Whether the unary math function is defined on the dtype (floats; ``abs`` on integers too)."""
    return dtype.is_float or (kind == "abs" and dtype.is_integer)


ALL: tuple[type[Op], ...] = tuple(each for each in list(globals().values())
                                  if isinstance(each, type) and issubclass(each, Op) and each is not Op)
"""Every operation: the printer, the simulator and the verifier have a function for each."""


def need_all(who: str, known: Collection[type[Op]]) -> None:
    """Refuse a table that lacks an operation, when it is imported."""
    if missing := [each.__name__ for each in ALL if each not in known]:
        raise IRError(f"{who} has no function for {', '.join(missing)}")
