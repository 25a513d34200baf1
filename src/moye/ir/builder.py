"""Writes a Func: where ops are inserted, scalar folding with facts, common subexpressions, assumptions.

In: operands.  Out: operands (a ``Value`` made by a new or an earlier equal op, or a ``Literal`` where it folds).

    b.binary("floordiv", b.binary("mul", x, Literal(8, int32)), Literal(8, int32))   # x itself

The folding rules are in ``fold.py``.  It knows nothing of Python control flow or tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from moye import dtypes as dt
from moye.dtypes import DType, Kind, Space
from moye.errors import Loc, TraceError
from moye.ir import constants, fold, ops
from moye.ir.inline import Snippet
from moye.ir.nodes import Block, Buffer, Func, Guard, Literal, Operand, ScalarParam, Value, Var

Key = tuple[object, ...]
MOST_OPS = 100_000
"""Operations that one kernel may be traced to; a compiler takes minutes for fewer."""
_MOST_BLOCKS = (1 << 31) - 1  # along an axis of the grid


@dataclass(slots=True)
class LoopBound:
    """A loop of the kernel with a variable that stays below ``stop``.

    ``depth``: how many conditions were open around it.  ``left``: whether something jumps out of it.  ``guards``: what
    was assumed about launches because its variable reaches ``stop``; void where it is left early.
    """

    loop: ops.For
    stop: Operand
    depth: int
    left: bool = False
    guards: list[Guard] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of recording: open blocks, the last op, what was known and learned, and what had been asked for."""

    depth: int
    last: ops.Op | None
    known: dict[Key, Value]
    learned: int
    conditions: int
    buffers: int
    guards: int
    left: bool


def key_of(operand: Operand) -> object:
    """What makes two operands the same: identity for values, dtype and number for literals."""
    if isinstance(operand, Literal):
        sign = math.copysign(1.0, operand.value) if isinstance(operand.value, float) else 0.0   # 0.0 is not -0.0
        return (operand.dtype.name, type(operand.value), operand.value, sign)
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
        self._learned: list[list[tuple[Value, fold.Facts]]] = [[]]  # per open block: facts to put back at its end
        self.open_conditions: list[Operand] = []  # of the traced ifs that are open here (of an else: not cond)
        self.loops: dict[int, LoopBound] = {}  # by the id of the loop variable
        self.trials = 0  # arms of conditional values that are being traced for their dtype alone
        self.failures = 0  # passes over the bodies of loops that failed, and were followed by others
        self.trips: tuple[tuple[str, int], ...] = ()  # of the unrolled loops that are open here
        self._left: list[bool] = [False]  # per open block: whether a jump may have skipped the rest of it
        self._endless: dict[int, tuple[int, ops.Op | None]] = {}  # by block: what no thread comes out of, and where
        self._emitted = 0
        self._parameters: frozenset[int] | None = None
        self._mapped: dict[int, Buffer] = {}  # by the id of their base

    # --- blocks ---

    @property
    def block(self) -> Block:
        return self._blocks[-1]

    @property
    def conditions(self) -> int:
        """The number of traced conditions that decide whether this point is reached."""
        return len(self.open_conditions)

    @property
    def parameters(self) -> frozenset[int]:
        """Ids of the Values that are known at launch: scalar arguments, extents and strides."""
        if self._parameters is None:
            entries = (x for p in self.func.params
                       for x in ((p.value,) if isinstance(p, ScalarParam) else (*p.shape, *p.strides)))
            self._parameters = frozenset(x.id for x in entries if isinstance(x, Value))
        return self._parameters

    @property
    def open_blocks(self) -> list[Block]:
        """The blocks that are open, outermost first."""
        return self._blocks

    @property
    def jumped(self) -> bool:
        """Whether an earlier jump under a traced condition may have skipped this point."""
        return any(self._left)

    def conditional_since(self, mark: Mark) -> bool:
        """Whether a traced condition that was met since ``mark`` decides if this point is reached."""
        return len(self.open_conditions) > mark.conditions or any(self._left[mark.depth:])

    def emit(self, op: ops.Op, loc: Loc | None = None) -> None:
        """Append an op, with its location; what follows an Exit in a block is dropped."""
        block = self._blocks[-1]
        # Nothing behind a jump is ever executed; Python code after ``continue`` is traced all the same.
        if block.ops and isinstance(block.ops[-1], ops.Exit):
            return
        self._emitted += 1
        if self._emitted > MOST_OPS:
            raise TraceError(f"{self.func.name} has more than {MOST_OPS} operations", locs=(self.locate(),),
                             hint="unroll less: mo.range(n) is a loop of the kernel, mo.static_range one while tracing")
        op.loc = self.locate() if loc is None else loc
        op.trips = self.trips
        for ref, written in op.refs():
            if written:
                ref.buffer.written = True
        block.ops.append(op)
        if isinstance(op, ops.Exit):
            self._jump(op)

    def _jump(self, op: ops.Exit) -> None:
        """The rest of every block that the jump leaves is reached only sometimes; so is the end of every loop."""
        body = None if op.target is None else op.target.body
        target = next((i for i, block in enumerate(self._blocks) if block is body), -1)
        for i in range(max(target, 0), len(self._blocks)):
            self._left[i] = True
        for bound in self.loops.values():
            at = next((i for i, block in enumerate(self._blocks) if block is bound.loop.body), -1)
            if at > target or (at == target >= 0 and op.kind == "break"):
                bound.left = True

    def terminated(self) -> bool:
        """Whether no thread comes to the end of the innermost block: of an Exit, or of a loop that nothing ends."""
        block = self._blocks[-1]
        if not block.ops or isinstance(block.ops[-1], ops.Exit):
            return bool(block.ops)
        at, op = self._endless.get(id(block), (0, None))
        return at < len(block.ops) and block.ops[at] is op

    def endless(self, op: ops.Op) -> None:
        """Only a return leaves what was just placed: a loop without a break, or an if both of whose arms end in one."""
        block = self._blocks[-1]
        if block.ops and block.ops[-1] is op:
            self._endless[id(block)] = len(block.ops) - 1, op

    def push(self, block: Block) -> None:
        """Open a block: ops go there until it is popped."""
        self._blocks.append(block)
        self._known.append({})
        self._learned.append([])
        self._left.append(False)

    def pop(self) -> Block:
        """Close the innermost block; what was learned in it is forgotten."""
        self._known.pop()
        self._left.pop()
        for value, before in reversed(self._learned.pop()):
            value.lower, value.upper, value.divisor = before
        return self._blocks.pop()

    def join(self) -> None:
        """Close the innermost block, whose ops all run, as the end of the one around it: what was learned stays, and
        what was computed need not be computed again."""
        learned, left, known = self._learned[-1], self._left[-1], self._known[-1]
        self._learned[-1] = []
        block = self.pop()
        self._learned[-1] += learned
        self._known[-1].update(known)
        self._left[-1] |= left
        self.splice(block)

    def learn(self, value: Value, lower: int | None = None, upper: int | None = None, divisor: int = 1) -> None:
        """Refine the facts of a value until the innermost open block ends."""
        self._learned[-1].append((value, (value.lower, value.upper, value.divisor)))
        if lower is not None:
            value.lower = lower if value.lower is None else max(value.lower, lower)
        if upper is not None:
            value.upper = upper if value.upper is None else min(value.upper, upper)
        value.divisor = math.lcm(value.divisor, divisor)

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Insert into ``block`` for the duration of the with statement."""
        self.push(block)
        try:
            yield block
        finally:
            self.pop()

    def mark(self) -> Mark:
        """The place where recording stands; ``rollback`` returns there."""
        ops_ = self._blocks[-1].ops
        return Mark(len(self._blocks), ops_[-1] if ops_ else None, dict(self._known[-1]), len(self._learned[-1]),
                    len(self.open_conditions), len(self.func.buffers), len(self.func.guards), self._left[-1])

    def rollback(self, mark: Mark) -> None:
        """Forget everything recorded since ``mark``, and close the blocks opened since; hardware registers stay."""
        while len(self._blocks) > mark.depth:
            self.pop()
        ops_ = self._blocks[-1].ops
        if mark.last is not None:
            keep = next(i for i, op in enumerate(ops_) if op is mark.last) + 1
        else:
            keep = next((i for i, op in enumerate(ops_) if not isinstance(op, ops.Special)), len(ops_))
        gone = {id(op.result) for op in ops_[keep:] if isinstance(op, ops.Special)}
        del ops_[keep:]
        # Registers are read at the top of the kernel, so they outlive what is rolled back below.
        kept = {key: value for key, value in self._known[-1].items()
                if key in mark.known or (key[0] == "special" and id(value) not in gone)}
        self._known[-1] = kept
        for value, before in reversed(self._learned[-1][mark.learned:]):
            value.lower, value.upper, value.divisor = before
        del self._learned[-1][mark.learned:]
        del self.open_conditions[mark.conditions:]
        del self.func.buffers[mark.buffers:]
        del self.func.guards[mark.guards:]
        self._left[-1] = mark.left

    def splice(self, block: Block) -> None:
        """Append the ops of a block that was recorded apart, as they are."""
        if not self.terminated():
            self._blocks[-1].ops.extend(block.ops)

    # --- scalars ---

    def _pure(self, key: Key, make: Callable[[], ops.Op]) -> Value:
        # Tables of open blocks alone: a value of a closed one may not have been computed on the way to here.
        for table in reversed(self._known):
            found = table.get(key)
            if found is not None:
                return found
        op = make()
        value = op.defines()
        assert value is not None, "a pure op gives a value"
        self.emit(op)
        self._known[-1][key] = value
        return value

    def special(self, kind: str, *, lower: int | None = None, upper: int | None = None,
                dtype: DType = dt.int32) -> Value:
        """A hardware register; clocks are read anew at each call.

        Indices and extents of the grid are as wide as the other indices: what a block's position is multiplied with
        must not leave 32 bits where arrays have more elements.
        """
        if kind.startswith(("block_", "grid_")) and self.index is dt.int64:
            dtype, upper = dt.int64, _MOST_BLOCKS if upper is None else upper

        if kind in ("clock", "globaltimer"):
            op = ops.Special(result=Value(dtype, lower=lower, upper=upper), kind=kind)
            self.emit(op)
            return op.result
        key = ("special", kind)
        found = self._known[0].get(key)
        if found is None:
            found = Value(dtype, lower=lower, upper=upper)
            op = ops.Special(result=found, kind=kind, loc=self.locate())
            body = self.func.body.ops  # at the top: it dominates every use
            at = next((i for i, o in enumerate(body) if not isinstance(o, ops.Special)), len(body))
            body.insert(at, op)
            self._known[0][key] = found
        return found

    def binary(self, kind: str, a: Operand, b: Operand) -> Operand:
        """``a kind b``; both operands have one dtype already."""
        # Constants to the right: the rules of folding look for them there, and equal sums get equal keys.
        if kind in fold.COMMUTATIVE and isinstance(a, Literal) and not isinstance(b, Literal):
            a, b = b, a
        folded = fold.binary(kind, a, b, self.binary)
        if folded is not None:
            return folded

        def make() -> ops.Op:
            dtype = dt.bool_ if kind in ops.COMPARISONS or kind in ops.LOGICAL else a.dtype
            value = Value(dtype)
            if dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.facts(kind, a, b)
            return ops.Binary(result=value, kind=kind, a=a, b=b)

        return self._pure((kind, key_of(a), key_of(b)), make)

    def unary(self, kind: str, a: Operand, *, fast: bool = False) -> Operand:
        folded = fold.unary(kind, a)
        if folded is not None:
            return folded

        def make() -> ops.Op:
            dtype = dt.bool_ if kind in ("not", "isnan", "isinf") else a.dtype
            if kind in ops.COUNTS:
                dtype = dt.int32
            value = Value(dtype)
            if dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.unary_facts(kind, a)
            return ops.Unary(result=value, kind=kind, a=a, fast=fast)

        return self._pure((kind, fast, key_of(a)), make)

    def fma(self, a: Operand, b: Operand, c: Operand) -> Operand:
        """a * b + c, rounded once."""
        return self._pure(("fma", key_of(a), key_of(b), key_of(c)),
                          lambda: ops.Fma(result=Value(c.dtype), a=a, b=b, c=c))

    def inline(self, snippet: Snippet, arguments: tuple[Operand, ...], *, effect: bool) -> list[Value]:
        """The results of a snippet, their parts recorded right behind it."""
        if effect:
            first = Value(snippet.gives[0]) if snippet.gives else None
            self.emit(ops.InlineEffect(result=first, snippet=snippet, arguments=arguments))
        else:
            first = self._pure(("inline", snippet, *map(key_of, arguments)), lambda: ops.Inline(
                result=Value(snippet.gives[0]), snippet=snippet, arguments=arguments))
        if first is None:
            return []
        return [first, *(self._part(first, index, dtype) for index, dtype in enumerate(snippet.gives[1:], 1))]

    def _part(self, first: Value, index: int, dtype: DType) -> Value:
        return self._pure(("part", first.id, index),
                          lambda: ops.InlinePart(result=Value(dtype), first=first, index=index))

    def select(self, cond: Operand, a: Operand, b: Operand) -> Operand:
        if isinstance(cond, Literal):
            return a if cond.value else b
        if key_of(a) == key_of(b):
            return a

        def make() -> ops.Op:
            value = Value(a.dtype)
            if a.dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.meet(fold.facts_of(a), fold.facts_of(b))
            return ops.Select(result=value, cond=cond, a=a, b=b)

        return self._pure(("select", key_of(cond), key_of(a), key_of(b)), make)

    def cast(self, a: Operand, dtype: DType, *, bits: bool = False) -> Operand:
        """Value conversion, or a bitcast; the operand itself where nothing changes."""
        if a.dtype is dtype:
            return a
        if isinstance(a, Literal) and not bits and not self._lost(a, dtype):
            return constants.cast_literal(a, dtype)

        def make() -> ops.Op:
            value = Value(dtype)
            if not bits and dtype.is_integer:
                value.lower, value.upper, value.divisor = fold.cast_facts(a, dtype)
            if isinstance(a, Value):
                value.name = a.name
            return ops.Cast(result=value, a=a, bits=bits)

        return self._pure(("cast", dtype.name, bits, key_of(a)), make)

    @staticmethod
    def _lost(a: Literal, dtype: DType) -> bool:
        """Whether the simulator is to see a conversion of a constant: it does not fit, and is taken for a mistake."""
        return constants.loses(a.dtype, dtype) and not constants.fits(int(a.value), dtype)

    def map_shared(self, buffer: Buffer, rank: Operand) -> Buffer:
        """What a shared buffer is in block ``rank`` of the cluster: one buffer, with one address, for each rank."""
        base = self._pure(("map_shared", buffer.id, key_of(rank)),
                          lambda: ops.MapShared(result=Value(dt.uint32), buffer=buffer, rank=rank))
        found = self._mapped.get(base.id)
        if found is None:
            found = self._mapped[base.id] = Buffer(
                buffer.name, Space.CLUSTER, buffer.dtype, buffer.elements, buffer.layout, align=buffer.align,
                loc=buffer.loc, owner=buffer, base=base)
        return found

    # --- variables ---

    def declare(self, var: Var, init: Operand | None) -> None:
        self.emit(ops.Declare(var=var, init=init))

    def read(self, var: Var, facts: fold.Facts = (None, None, 1)) -> Value:
        value = Value(var.dtype, name=var.name)
        if var.dtype.is_integer:
            value.lower, value.upper, value.divisor = facts
        self.emit(ops.Read(result=value, var=var))
        return value

    # --- memory ---

    def allocate(self, buffer: Buffer) -> Buffer:
        self.func.buffers.append(buffer)
        self.emit(ops.Alloc(buffer=buffer))
        return buffer

    # --- assumptions ---

    def guard(self, cond: Operand, message: str, fields: dict[str, Operand] | None = None,
              hint: str | None = None, code: str = "A12") -> Guard:
        """Check ``cond`` at every launch; equal guards are kept once."""
        for known in self.func.guards:
            if key_of(known.cond) == key_of(cond):
                return known
        new = Guard(cond, message, fields or {}, hint, self.locate(), code)
        self.func.guards.append(new)
        return new


GUARD_DEPTH = 60
"""The depth to which a condition that a launch evaluates may nest: Python's parser takes 200 parentheses."""
GUARD_PARTS = 2000
"""The parts that it may have, written out: sums of sums of sums double with each."""


def expressible(operand: Operand, params: frozenset[int]) -> bool:
    """Whether launch can evaluate an operand: exact arithmetic on parameters (by id) and grid extents."""
    whole, todo, deepest = operand, [(operand, 0)], dict[int, int]()
    while todo:
        operand, depth = todo.pop()
        if operand.dtype.is_float or depth > GUARD_DEPTH:
            return False
        if isinstance(operand, Literal) or operand.id in params or deepest.get(operand.id, -1) >= depth:
            continue
        deepest[operand.id] = depth
        op = operand.op
        if isinstance(op, ops.Special) and op.kind in ("grid_x", "grid_y", "grid_z"):
            continue
        if op is None or ops.Trait.ARITHMETIC not in op.traits or not _exact(operand.dtype, op):
            return False
        todo += [(part, depth + 1) for part in op.operands()]
    return _parts(whole, params, {}) <= GUARD_PARTS


def _parts(operand: Operand, params: frozenset[int], known: dict[int, int]) -> int:
    """Of how many parts an operand is made when it is written out: what is used twice counts twice."""
    if isinstance(operand, Literal) or operand.id in params or operand.op is None:
        return 1
    if operand.id not in known:
        known[operand.id] = 1 + sum(_parts(part, params, known) for part in operand.op.operands())
    return known[operand.id]


def _exact(dtype: DType, op: ops.Op) -> bool:
    """Whether Python's arithmetic gives what the kernel's does."""
    exact = dtype.kind is Kind.BOOL or not constants.wraps(dtype)
    if isinstance(op, (ops.Inline, ops.InlinePart)) or (isinstance(op, ops.Binary) and op.kind == "mul_hi"):
        return False
    narrows = isinstance(op, ops.Cast) and (op.bits or op.a.dtype.bits > dtype.bits)
    return exact and not narrows and (not isinstance(op, ops.Unary) or op.kind in ("neg", "not", "abs"))
