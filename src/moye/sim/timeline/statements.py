"""What of a Func a timeline tells about: one ``Statement`` per op that moves data, synchronises or multiplies.

In: a Func.  Out: ``Statements``, numbered, and the line of generated code that tells the tape that one runs.

    Statements(func).of(copy).kind      # "cp.async"

A register that is loaded from global memory is followed to its first use: as the key ("r", buffer, 32-bit word) in a
fragment, ("v", id) as a scalar, ("x", id) in a variable.  Whether a wait completes a copy is decided in order.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moye.dtypes import Space
from moye.errors import Loc
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Extent, Func, Ref, TileRef, Value
from moye.ir.traits import Trait
from moye.sim.operations.gemm import GemmSite
from moye.sim.operations.wgmma import WgmmaSite
from moye.sim.timeline.effort import Effort, efforts_of
from moye.sim.timeline.kinds import (
    Barrier,
    Family,
    Kind,
    barrier_of,
    family_of,
    goes_on,
    is_noted_later,
    kind_of,
    pending_of,
)
from moye.sim.values.addressing import Addresser, register_rows
from moye.sim.values.memory import Array

Key = tuple[str, int, int]
Keys = frozenset[Key]
NONE: Keys = frozenset()


@dataclass(frozen=True, slots=True)
class Sum:
    """An op that computes on tiles of registers alone: where it stands, and what it asks of which unit."""

    number: int
    loc: Loc
    efforts: tuple[Effort, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One op: its kind ("use" if it only reads registers), names (written first), and what it does to followed keys.

    ``place`` is the shared operand that tells the stage, ``pred`` the predicate fragment of a copy.  ``goes_on``: what
    it begins ends elsewhere, at a wait that leaves ``pending`` groups of its ``family``, for a phase, or at a use.
    """

    number: int
    kind: Kind
    loc: Loc
    trips: tuple[tuple[str, int], ...]
    loops: tuple[str, ...]
    tensors: tuple[str, ...]
    place: Ref | TileRef | None = None
    address: Addresser | None = None
    pred: TileRef | None = None
    pred_rows: Array | None = None
    family: Family | None = None
    pending: int | None = None
    goes_on: bool = False
    later: bool = False
    """It is noted where it takes effect."""
    efforts: tuple[Effort, ...] = ()
    """What it asks of the units of a multiprocessor."""
    barrier: Barrier | None = None
    """The barrier that it comes to."""
    reads: Keys = NONE
    writes: Keys = NONE
    loads: Keys = NONE
    """Written, from global memory."""
    moves: tuple[tuple[Key, Key], ...] = ()
    """(to, from) of scalars that change their name."""


class Statements:
    """The statements of a Func; ``loops`` are the variables of the loops around each op, by the op's id."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.loops: dict[int, tuple[Value, ...]] = {}
        self.list: list[Statement] = []
        self.sums: list[Sum] = []
        self._known: dict[int, Statement] = {}
        self._computed: dict[int, Sum] = {}
        self._followed = _followed_buffers(func)
        self._tainted = _tainted(func)
        self.mbarriers = {ref.buffer.id for op in func.body.walk() if Trait.MBARRIER in op.traits
                          for ref, _ in op.refs()}
        """Shared tensors whose elements are mbarriers: each is a stage of its own."""
        self._block(func.body, ())

    def of(self, op: ops.Op) -> Statement | None:
        """What is recorded when ``op`` runs; None for nothing."""
        return self._known.get(id(op))

    def sum_of(self, op: ops.Op) -> Sum | None:
        """What is recorded of an op that computes on tiles of registers; None for another."""
        return self._computed.get(id(op))

    def _block(self, block: Block, loops: tuple[Value, ...]) -> None:
        for op in block:
            if isinstance(op, (ops.Map, ops.Reduce)) and (efforts := efforts_of(op, self.func)):
                self.sums.append(Sum(len(self.sums), op.loc, efforts))
                self._computed[id(op)] = self.sums[-1]
            statement = self._statement(op, loops)
            if statement is not None:
                self.list.append(statement)
                self._known[id(op)] = statement
                self.loops[id(op)] = loops
            inside = (*loops, op.iv) if isinstance(op, ops.For) else loops
            for inner in op.blocks():
                self._block(inner, inside)

    def _statement(self, op: ops.Op, loops: tuple[Value, ...]) -> Statement | None:
        kind = kind_of(op)
        reads, writes, loads = self._registers(op)
        moves = tuple(self._moves(op))
        if kind is None and not (reads or writes or moves):
            return None
        place = next((ref for ref, _ in op.refs() if ref.buffer.space is Space.SHARED), None) if kind else None
        pred = op.pred if isinstance(op, ops.Copy) and isinstance(op.pred, TileRef) and not op.zero_fill else None
        extents, width = space_of(op)
        return Statement(
            len(self.list), kind or "use", op.loc, op.trips, tuple(v.name for v in loops), _names(op), place,
            Addresser(place, extents, width, None) if place is not None else None, pred,
            register_rows(pred, extents, 1) if pred is not None else None,
            family_of(op), pending_of(op), goes_on(op), is_noted_later(op), efforts_of(op, self.func) if kind else (),
            barrier_of(op, self.func.threads), reads, writes, loads, moves)

    # --- registers that are followed ---------------------------------------------------------------------------------

    def _registers(self, op: ops.Op) -> tuple[Keys, Keys, Keys]:
        """What the op reads, writes, and loads from global memory, of what is followed."""
        reads: set[Key] = set()
        writes: set[Key] = set()
        for ref, written, rows in _rows(op):
            if ref.buffer.id in self._followed:
                (writes if written else reads).update(_words(ref, rows))
        if not isinstance(op, (ops.Assign, ops.Declare)):
            reads |= {("v", o.id, 0) for o in op.operands() if isinstance(o, Value) and ("v", o.id, 0) in self._tainted}
        if isinstance(op, ops.Load) and (key := ("v", op.result.id, 0)) in self._tainted:
            writes.add(key)
        fetched = _from_global(op)
        return frozenset(reads), frozenset(writes), frozenset(writes) if fetched else NONE

    def _moves(self, op: ops.Op) -> Iterator[tuple[Key, Key]]:
        if isinstance(op, ops.Declare) and isinstance(op.init, Value):
            pairs = [(("x", op.var.id, 0), ("v", op.init.id, 0))]
        elif isinstance(op, ops.Assign):
            pairs = [(("x", var.id, 0), ("v", source.id, 0)) for var, source in op.pairs if isinstance(source, Value)]
        elif isinstance(op, ops.Read):
            pairs = [(("v", op.result.id, 0), ("x", op.var.id, 0))]
        else:
            return
        yield from (pair for pair in pairs if pair[0] in self._tainted)


def _from_global(op: ops.Op) -> bool:
    """Whether the op loads registers from global memory."""
    return kind_of(op) == "load" and not isinstance(op, (ops.Reduce, ops.Find))


def _followed_buffers(func: Func) -> set[int]:
    """The fragments that are loaded from global memory."""
    return {ref.buffer.id for op in func.body.walk() if _from_global(op)
            for ref, written in op.refs() if written and ref.buffer.space is Space.REGISTER}


def _tainted(func: Func) -> set[Key]:
    """Scalars that may hold what was loaded from global memory and not used yet."""
    found: set[Key] = {("v", op.result.id, 0) for op in func.body.walk()
                       if isinstance(op, ops.Load) and _from_global(op)}
    size = -1
    while size != len(found):
        size = len(found)
        for op in func.body.walk():
            if isinstance(op, ops.Declare) and isinstance(op.init, Value) and ("v", op.init.id, 0) in found:
                found.add(("x", op.var.id, 0))
            elif isinstance(op, ops.Assign):
                found |= {("x", var.id, 0) for var, source in op.pairs
                          if isinstance(source, Value) and ("v", source.id, 0) in found}
            elif isinstance(op, ops.Read) and ("x", op.var.id, 0) in found:
                found.add(("v", op.result.id, 0))
    return found


def space_of(op: ops.Op) -> tuple[tuple[Extent, ...], int]:
    """The index space of an op and the elements of an access."""
    return getattr(op, "extents", ()), op.width if isinstance(op, ops.Copy) else 1


def _rows(op: ops.Op) -> Iterator[tuple[Ref | TileRef, bool, Array]]:
    """Every reference to registers, whether it is written, and its elements."""
    if isinstance(op, ops.Gemm):
        site = GemmSite(op)
        yield from ((op.a, False, site.a), (op.b, False, site.b), (op.c, False, site.c), (op.d, True, site.d))
    elif isinstance(op, ops.Wgmma):
        products = WgmmaSite(op)
        if not products.shared_a:
            yield op.a, False, products.a_rows
        yield from ((op.d, False, products.d), (op.d, True, products.d))
    elif Trait.MOVES in op.traits:
        extents, width = space_of(op)
        for ref, written in op.refs():
            if ref.buffer.space is Space.REGISTER and isinstance(op, ops.Copy) and op.registers:
                yield ref, written, register_rows(ref, extents, 1)[:, None] + np.array(op.registers)
            elif ref.buffer.space is Space.REGISTER:
                each = width if not (isinstance(op, ops.Copy) and ref is op.pred) else 1
                yield ref, written, register_rows(ref, extents, each)


def _words(ref: Ref | TileRef, rows: Array) -> set[Key]:
    """The 32-bit words of a fragment that hold these elements."""
    first = np.unique(rows) * ref.dtype.bits // 32
    more = max(1, ref.dtype.bits // 32)
    return {("r", ref.buffer.id, int(word) + i) for word in first for i in range(more)}


def _names(op: ops.Op) -> tuple[str, ...]:
    """The user's names of the tensors, what is written first."""
    if isinstance(op, ops.TmaCopy):
        near = () if op.smem is None else (op.smem.buffer.name,)
        return (*near, op.tensor.name) if op.kind == "load" else (op.tensor.name, *near)
    if isinstance(op, ops.BulkCopy):
        return tuple(ref.buffer.name for ref in (op.dst, op.src) if ref is not None)
    refs = sorted(op.refs(), key=lambda pair: not pair[1])
    return tuple(dict.fromkeys(ref.name if isinstance(ref, TileRef) and ref.name else ref.buffer.name
                               for ref, _ in refs))


def stages(buffer: Buffer) -> int:
    """How many stages a shared tensor has: its last mode, where there are three or more; else 1."""
    from moye.layout import rank, size

    last = size(buffer.layout, rank(buffer.layout) - 1) if rank(buffer.layout) > 2 else 1
    return last if isinstance(last, int) else 1


# --- generated code --------------------------------------------------------------------------------------------------
