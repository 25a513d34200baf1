"""Writes a Func: where ops are inserted, scalar folding with facts, common subexpressions, assumptions.

In: operands.  Out: operands (a ``Value`` made by a new or an earlier equal op, or a ``Literal`` where it folds).

>>> b.binary("floordiv", b.binary("mul", x, Literal(8, int32)), Literal(8, int32))   # x itself

The folding rules are in ``fold.py``.  It knows nothing of Python control flow or tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moye import dtypes as dt
from moye.dtypes import DType
from moye.errors import Loc
from moye.ir import fold, ops
from moye.ir.nodes import Block, Buffer, Func, Guard, Literal, Operand, TileRef, Value, Var

Key = tuple[object, ...]


def key_of(operand: Operand) -> object:
    """What makes two operands the same: identity for values, dtype and number for literals."""
    if isinstance(operand, Literal):
        return (operand.dtype.name, type(operand.value), operand.value)
    return operand.id


class Builder:
    """Inserts ops at the end of the innermost open block of ``func``.

    ``locate`` gives the program point of the user's code being traced.
    """

    def __init__(self, func: Func, locate: Callable[[], Loc]) -> None:
        self.func = func
        self.locate = locate
        self.index = dt.int64 if func.index_bits == 64 else dt.int32
        self._blocks: list[Block] = [func.body]
        self._known: list[dict[Key, Value]] = [{}]
        self._dead = 0
        self.open_conditions: list[Operand] = []  # of the traced ifs that are open here (of an else: not cond)
        self.loop_stops: dict[int, Operand] = {}  # loop variable id -> the bound that it stays below

    # --- blocks ---

    @property
    def block(self) -> Block:
        return self._blocks[-1]

    @property
    def conditions(self) -> int:
        """How many traced conditions decide whether this point is reached."""
        return len(self.open_conditions)

    def emit(self, op: ops.Op) -> None:
        """Append an op, with its location; what follows an Exit in a block is dropped."""
        block = self._blocks[-1]
        if block.ops and isinstance(block.ops[-1], ops.Exit):
            return
        op.loc = self.locate()
        for ref, written in op.refs():
            if written:
                ref.buffer.written = True
        block.ops.append(op)

    def terminated(self) -> bool:
        """Whether the innermost block already ends in an Exit."""
        block = self._blocks[-1]
        return bool(block.ops) and isinstance(block.ops[-1], ops.Exit)

    def push(self, block: Block) -> None:
        self._blocks.append(block)
        self._known.append({})

    def pop(self) -> Block:
        self._known.pop()
        return self._blocks.pop()

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Insert into ``block`` for the duration of the with statement."""
        self.push(block)
        try:
            yield block
        finally:
            self.pop()

    def splice(self, block: Block) -> None:
        """Append the ops of a block that was recorded apart, as they are."""
        self._blocks[-1].ops.extend(block.ops)

    # --- loops ---

    def largest(self, variable: Value) -> Operand:
        """A bound that a loop variable stays below here: its loop's, or a tighter one of an open ``if i < bound``."""
        bound = self.loop_stops[variable.id]
        for cond in reversed(self.open_conditions):
            op = cond.op if isinstance(cond, Value) else None
            if isinstance(op, ops.Binary) and op.kind == "lt" and op.a is variable:
                return op.b
        return bound

    # --- scalars ---

    def _pure(self, key: Key, make: Callable[[], tuple[Value, ops.Op]]) -> Value:
        for table in reversed(self._known):
            found = table.get(key)
            if found is not None:
                return found
        value, op = make()
        value.op = op
        self.emit(op)
        self._known[-1][key] = value
        return value

    def special(self, kind: str, *, lower: int | None = None, upper: int | None = None,
                dtype: DType = dt.int32) -> Value:
        """A hardware register; clocks are read anew at each call."""
        def make() -> tuple[Value, ops.Op]:
            value = Value(dtype, lower=lower, upper=upper)
            return value, ops.Special(result=value, kind=kind)

        if kind in ("clock", "globaltimer"):
            value, op = make()
            value.op = op
            self.emit(op)
            return value
        key = ("special", kind)
        found = self._known[0].get(key)
        if found is None:
            found, op = make()
            found.op = op
            op.loc = self.locate()
            body = self.func.body.ops  # at the top: it dominates every use
            at = next((i for i, o in enumerate(body) if not isinstance(o, ops.Special)), len(body))
            body.insert(at, op)
            self._known[0][key] = found
        return found

    def binary(self, kind: str, a: Operand, b: Operand) -> Operand:
        """``a kind b``; both operands have one dtype already."""
        if kind in fold.COMMUTATIVE and isinstance(a, Literal) and not isinstance(b, Literal):
            a, b = b, a
        folded = fold.binary(kind, a, b, self.binary)
        if folded is not None:
            return folded

        def make() -> tuple[Value, ops.Op]:
            dtype = dt.bool_ if kind in ops.COMPARISONS or kind in ops.LOGICAL else a.dtype
            value = Value(dtype)
            if dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.facts(kind, a, b)
            return value, ops.Binary(result=value, kind=kind, a=a, b=b)

        return self._pure((kind, key_of(a), key_of(b)), make)

    def unary(self, kind: str, a: Operand, *, fast: bool = False) -> Operand:
        folded = fold.unary(kind, a)
        if folded is not None:
            return folded

        def make() -> tuple[Value, ops.Op]:
            dtype = dt.bool_ if kind in ("not", "isnan", "isinf") else a.dtype
            if kind in ("popcount", "clz"):
                dtype = dt.int32
            value = Value(dtype)
            if kind == "neg" and dtype.is_integer and isinstance(a, Value):
                value.lower = None if a.upper is None else -a.upper
                value.upper = None if a.lower is None else -a.lower
                value.divisor = a.divisor
            return value, ops.Unary(result=value, kind=kind, a=a, fast=fast)

        return self._pure((kind, fast, key_of(a)), make)

    def select(self, cond: Operand, a: Operand, b: Operand) -> Operand:
        if isinstance(cond, Literal):
            return a if cond.value else b
        if key_of(a) == key_of(b):
            return a

        def make() -> tuple[Value, ops.Op]:
            value = Value(a.dtype)
            if a.dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.meet(fold.facts_of(a), fold.facts_of(b))
            return value, ops.Select(result=value, cond=cond, a=a, b=b)

        return self._pure(("select", key_of(cond), key_of(a), key_of(b)), make)

    def cast(self, a: Operand, dtype: DType, *, bits: bool = False) -> Operand:
        """Value conversion, or a bitcast; the operand itself where nothing changes."""
        if a.dtype == dtype:
            return a
        if isinstance(a, Literal) and not bits:
            return fold.cast_literal(a, dtype)

        def make() -> tuple[Value, ops.Op]:
            value = Value(dtype)
            if not bits and dtype.is_integer and a.dtype.is_integer and dtype.bits >= a.dtype.bits:
                value.lower, value.upper, value.divisor = fold.facts_of(a)
            if isinstance(a, Value):
                value.name = a.name
            return value, ops.Cast(result=value, a=a, bits=bits)

        return self._pure(("cast", dtype.name, bits, key_of(a)), make)

    # --- variables ---

    def declare(self, var: Var, init: Operand | None) -> None:
        self.emit(ops.Declare(var=var, init=init))

    def read(self, var: Var, facts: fold.Facts = (None, None, 1)) -> Value:
        value = Value(var.dtype, name=var.name)
        if var.dtype.is_integer:
            value.lower, value.upper, value.divisor = facts
        op = ops.Read(result=value, var=var)
        value.op = op
        self.emit(op)
        return value

    # --- memory ---

    def allocate(self, buffer: Buffer) -> Buffer:
        self.func.buffers.append(buffer)
        self.emit(ops.Alloc(buffer=buffer))
        return buffer

    # --- assumptions ---

    def guard(self, cond: Operand, message: str, fields: dict[str, Operand] | None = None,
              hint: str | None = None) -> None:
        """Check ``cond`` at every launch; equal guards are kept once."""
        if any(key_of(g.cond) == key_of(cond) for g in self.func.guards):
            return
        self.func.guards.append(Guard(cond, message, fields or {}, hint, self.locate()))


def expressible(operand: Operand, params: frozenset[int]) -> bool:
    """Whether an operand is a pure function of parameter values and grid extents (``params`` holds value ids)."""
    if isinstance(operand, Literal) or operand.id in params:
        return True
    op = operand.op
    if isinstance(op, ops.Special):
        return op.kind in ("grid_x", "grid_y", "grid_z")
    if isinstance(op, (ops.Binary, ops.Unary, ops.Cast, ops.Select)):
        return all(expressible(o, params) for o in op.operands())
    return False


def tile_ref_values(ref: TileRef) -> Iterator[Operand]:
    """The scalar operands of a tile reference."""
    yield ref.offset
    for stride in ref.strides:
        if isinstance(stride, Value):
            yield stride
