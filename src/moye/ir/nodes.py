"""The nouns of the IR: values with facts, variables, buffers, blocks, parameters, guards, functions.

The IR is per thread, small, typed and structured.  Scalars are SSA ``Value``s (each made by one op) or ``Literal``s;
whatever changes along control flow lives in a ``Var``.  Memory is a ``Buffer`` (a global argument, a shared
allocation, a register fragment), accessed through ``Ref`` (one element) or ``TileRef`` (one operand of a tile op).

>>> Value(int32, lower=0, upper=255).upper
255

The verbs are in ``ops.py``.  Nothing here knows how it is printed or simulated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from moye.atoms.tma import TensorMap
from moye.dtypes import DType, Space
from moye.errors import UNKNOWN, Loc
from moye.ir.traits import Trait
from moye.layout import ComposedLayout, Layout, Swizzle

_ids = itertools.count()


class Value:
    """The result of one op, or a kernel parameter: a dtype, facts, and a name to print it under.

    Facts (integers only): ``lower <= v <= upper`` where known, and ``v % divisor == 0``.
    ``op`` is the op that defines it, None for parameters.  ``view`` is the user's view that begins at it, "" for none.
    ``role`` is what the library that computed it calls it, where the user's variables have no name for it.
    """

    __slots__ = ("divisor", "dtype", "id", "lower", "name", "op", "role", "upper", "view")

    def __init__(self, dtype: DType, *, lower: int | None = None, upper: int | None = None, divisor: int = 1,
                 name: str = "", op: Op | None = None) -> None:
        self.id = next(_ids)
        self.dtype = dtype
        self.lower = lower
        self.upper = upper
        self.divisor = divisor
        self.name = name
        self.op = op
        self.role = self.view = ""

    def __repr__(self) -> str:
        return f"%{self.id}" if not self.name else f"%{self.name}.{self.id}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant operand."""

    value: int | float | bool
    dtype: DType

    def __repr__(self) -> str:
        return f"{self.value}:{self.dtype.name}"


Operand = Value | Literal
Extent = int | Value
"""An extent or a stride: a static int, or an integer Value."""


class Var:
    """A mutable scalar of a thread: what a loop carries or an ``if`` merges.  ``ops.Read`` gets, ``Assign`` sets it.

    ``ref`` is the buffer that the variable's number is an offset into, where it stands for a carried tensor's pointer.
    ``judged``: only the simulator's checks read it; it is not printed.
    ``advances``: every ``Read`` is the offset of a reference into ``ref``, or first summand of what is assigned back.
    """

    __slots__ = ("advances", "dtype", "id", "judged", "name", "ref")

    def __init__(self, name: str, dtype: DType, ref: Buffer | None = None, *, advances: bool = False,
                 judged: bool = False) -> None:
        self.id = next(_ids)
        self.name = name
        self.dtype = dtype
        self.ref = ref
        self.advances = advances
        self.judged = judged

    def __repr__(self) -> str:
        return f"@{self.name}.{self.id}"


class Buffer:
    """A piece of memory: a global argument, a shared allocation or a register fragment.

    ``elements`` is its size in elements of ``dtype`` (None for global arguments, whose cosize is dynamic).
    ``layout`` is the layout it was made with: findings print logical coordinates through it.
    ``align`` is the alignment of element 0 in bytes that the kernel may rely on.
    ``index`` is the position among the tensor parameters for global buffers, -1 otherwise.
    In the space CLUSTER it is no allocation of its own but the shared tensor ``owner`` of another block of the cluster,
    at the address ``base`` (``ops.MapShared``).
    """

    __slots__ = ("align", "base", "dtype", "elements", "id", "index", "layout", "loc", "name", "owner", "space",
                 "written")

    def __init__(self, name: str, space: Space, dtype: DType, elements: int | None, layout: Layout | ComposedLayout,
                 *, align: int, index: int = -1, loc: Loc = UNKNOWN, owner: Buffer | None = None,
                 base: Value | None = None) -> None:
        self.id = next(_ids)
        self.name = name
        self.space = space
        self.dtype = dtype
        self.elements = elements
        self.layout = layout
        self.align = align
        self.index = index
        self.loc = loc
        self.owner = owner
        self.base = base
        self.written = False  # set by the builder when an op writes it (decides const and __restrict__)

    @property
    def bytes(self) -> int:
        """Size in bytes of a buffer with static size."""
        if self.elements is None:
            raise ValueError(f"buffer {self.name} has no static size")
        return self.elements * self.dtype.bits // 8

    @property
    def root(self) -> Buffer:
        """The allocation: the buffer itself, or the shared tensor that it is in another block."""
        return self if self.owner is None else self.owner

    def __repr__(self) -> str:
        return f"{self.space.value} {self.name}.{self.id}"


@dataclass(frozen=True, slots=True)
class Ref:
    """One element of memory: ``offset`` counts elements of ``dtype`` (which may be a recast of the buffer's)."""

    buffer: Buffer
    offset: Operand
    dtype: DType
    swizzle: Swizzle | None = None
    """Applied to the whole element offset, in elements of ``dtype``; the buffer is aligned to its span."""


@dataclass(frozen=True, slots=True)
class TileRef:
    """One operand of a tile op: element (i0, i1, ...) of the op's index space lies at offset + sum(i * stride).

    ``strides`` has one entry per dimension of the op's index space; with a ``swizzle`` the sum goes through it.
    For register buffers offset and strides are static (Literal and ints).
    """

    buffer: Buffer
    offset: Operand
    dtype: DType
    strides: tuple[Extent, ...]
    swizzle: Swizzle | None = None
    layout: Layout | ComposedLayout | None = None
    """The user's view, for headers, comments and findings; no semantics."""
    name: str = ""
    """The user's name of the view."""
    lane: int = 1
    """Elements between neighbours within one access of a Copy; other than 1 in registers alone."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index along mode ``mode`` at each point of a space, ``offset + sum(i * stride)``, meant for 0 to extent - 1.

    ``view`` is the name of the view whose mode it is; "" for the tensor that the view was made from.
    """

    mode: int
    offset: Operand
    extent: Extent
    strides: tuple[Extent, ...] = ()
    view: str = ""

    def operands(self) -> Iterator[Operand]:
        """Its scalars."""
        yield self.offset
        yield from (x for x in (self.extent, *self.strides) if isinstance(x, Value))


@dataclass(slots=True, kw_only=True)
class Op:
    """Base of every op (the ops are in ``ops.py``).  ``operation.py`` writes these methods from the roles of fields."""

    traits: ClassVar[frozenset[Trait]] = frozenset()

    loc: Loc = UNKNOWN
    trips: tuple[tuple[str, int], ...] = ()
    """(variable, value) of each unrolled loop around the op, outermost first; for the reader, no semantics."""

    def operands(self) -> Iterator[Operand]:
        """Every scalar operand, those inside references included."""
        yield from ()

    def refs(self) -> Iterator[tuple[Ref | TileRef, bool]]:
        """Every memory reference as (reference, is it written)."""
        yield from ()

    def blocks(self) -> Iterator[Block]:
        yield from ()

    def given(self) -> Iterator[Value]:
        """The Values that its blocks begin with."""
        yield from ()

    def computed(self) -> Iterator[Operand]:
        """The operands that its blocks compute, beside those that it has without them."""
        yield from ()

    def defines(self) -> Value | None:
        """The Value that it defines for what follows."""
        return None


@dataclass(slots=True)
class Block:
    """A straight list of ops; ops with regions hold further blocks."""

    ops: list[Op] = field(default_factory=list)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def walk(self) -> Iterator[Op]:
        """Every op of this block and of the blocks inside it, in program order."""
        inside = [iter(self.ops)]
        while inside:
            for op in inside[-1]:
                yield op
                if type(op).blocks is not Op.blocks:    # few ops have blocks, and a walk is taken for every pass
                    inside.append(itertools.chain.from_iterable(block.ops for block in op.blocks()))
                    break
            else:
                inside.pop()


@dataclass(slots=True)
class TensorParam:
    """A tensor argument: its buffer and the Values (or static ints) of its extents and strides, in elements.

    With a ``tensor_map`` it is only copied by TMA, and the kernel gets the encoded map in place of a pointer.
    """

    name: str
    buffer: Buffer
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    tensor_map: TensorMap | None = None


@dataclass(slots=True)
class ScalarParam:
    """A runtime scalar argument."""

    name: str
    value: Value


Param = TensorParam | ScalarParam


@dataclass(slots=True)
class Guard:
    """What the trace assumed about arguments: checked on every launch; nothing runs if ``cond`` is false.

    ``cond`` is a bool made of pure ops over parameter Values and ``Special`` grid extents.
    ``message`` may use ``{name}`` fields for the Values in ``fields``; ``code`` is its class in the checker's table.
    """

    cond: Operand
    message: str
    fields: dict[str, Operand]
    hint: str | None
    loc: Loc
    code: str | None = None


@dataclass(slots=True)
class Func:
    """One specialised kernel: what the front writes and both back ends read.

    ``block_dim`` is static (x, y, z); ``cluster_dim`` likewise.  ``buffers`` lists shared and register allocations in
    the order of their making.  ``notes`` are the header lines of the printed source (tensors, layouts, atoms).
    """

    name: str
    params: list[Param]
    body: Block
    block_dim: tuple[int, int, int]
    buffers: list[Buffer] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    index_bits: int = 32
    notes: list[str] = field(default_factory=list)
    loc: Loc = UNKNOWN
    min_blocks: int = 1
    """Blocks that a multiprocessor should hold at once: bounds the registers of a thread."""
    tells_blocks: bool = False
    """Whether the kernel itself says ``min_blocks``, were it 1."""
    keeps_addresses: bool = False
    """Whether the compiler may hold addresses of wgmma's operands from one product to the next."""
    not_judged: list[str] = field(default_factory=list)
    """Parts of the kernel that no check of the simulator sees; reports name them."""
    restrict: bool = True
    """No written argument overlaps another one (part of the specialisation)."""

    @property
    def threads(self) -> int:
        x, y, z = self.block_dim
        return x * y * z

    @property
    def shared_buffers(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers if buffer.space is Space.SHARED]
