"""Func -> Func whose loops advance pointers into global memory instead of multiplying the loop variable by a stride.

Contract: where a For accesses global memory at ``a + (iv + c) * s``, with ``a`` and the stride ``s`` fixed during the
loop, the offset becomes a variable: ``a + (start + c) * s`` before the loop, and ``step * s`` more at the end of
its body.  Static strides stay (one multiplication by a constant is as cheap), so do single addresses under
a condition (a pointer would hold two registers all along to save one multiplication), loops with static bounds (they
unroll), loops that always leave, and loops with a ``continue``.  Old offsets are left to ``dce.py``.  In place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from moye.dtypes import Space
from moye.errors import Loc
from moye.ir import ops
from moye.ir.nodes import Block, Func, Literal, Operand, Ref, TileRef, Value, Var

_HOISTED = ("add", "sub", "mul")
_MOST = 4  # pointers per loop: each takes two registers


def advance(func: Func) -> Func:
    """Advance pointers in every loop, innermost first."""
    _block(func.body)
    return func


def _block(block: Block) -> None:
    found: list[ops.Op] = []
    for op in block.ops:
        for inner in op.blocks():
            _block(inner)
        if isinstance(op, ops.For):
            found += _Advance(op).before()
        found.append(op)
    block.ops = found


@dataclass(slots=True)
class _Pointer:
    """An offset that moves with the loop: ``fixed + (iv + lead) * stride``."""

    fixed: tuple[Operand, ...]
    lead: int
    stride: Value
    var: Var
    old: Value
    loc: Loc


@dataclass(slots=True)
class _Advance:
    """One loop and the pointers found in it."""

    loop: ops.For
    pointers: dict[tuple[object, ...], _Pointer] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)

    def before(self) -> list[ops.Op]:
        """Rewrite the loop; what comes before it."""
        if not isinstance(self.loop.step, int):         # a pointer would advance by a product
            return []
        static = isinstance(self.loop.start, Literal) and isinstance(self.loop.stop, Literal)
        once = bool(self.loop.body.ops) and isinstance(self.loop.body.ops[-1], ops.Exit)
        if static or once or any(isinstance(op, ops.Exit) and op.target is self.loop and op.kind == "continue"
                                 for op in self.loop.body.walk()):
            return []
        self.inside = {self.loop.iv.id, *_defined(self.loop.body)}
        own = {id(op) for op in self.loop.body.ops}
        for op in self.loop.body.walk():
            for _, ref in _global_refs(op):
                # A pointer costs an addition in every pass.  For what a condition may skip, or an inner loop holds, it
                # pays only where a tile takes many addresses.
                if id(op) in own or _many(ref):
                    self.note(op, ref)
        if not 0 < len(self.pointers) <= _MOST:
            return []
        self.rewrite(self.loop.body)
        before = [made for pointer in self.pointers.values() for made in self.start(pointer)]
        self.loop.body.ops += [made for pointer in self.pointers.values() for made in self.step(pointer)]
        return before

    # --- finding ---

    def note(self, op: ops.Op, ref: Ref | TileRef) -> None:
        """Remember the pointer of a reference, if it has one."""
        found = self.split(ref)
        if found is None:
            return
        fixed, lead, stride = found
        key = _key(ref, found)
        if key not in self.pointers:
            assert isinstance(ref.offset, Value), "a literal offset does not move"
            name = f"{ref.buffer.name}_{self.loop.iv.name or 'i'}"
            var = Var(name, ref.offset.dtype, ref.buffer, advances=True)
            self.pointers[key] = _Pointer(fixed, lead, stride, var, ref.offset, op.loc)

    def split(self, ref: Ref | TileRef) -> tuple[tuple[Operand, ...], int, Value] | None:
        """(fixed terms, lead, stride) of an offset ``fixed + (iv + lead) * stride``."""
        fixed: list[Operand] = []
        moving: tuple[int, Value] | None = None
        for term in self.terms(ref.offset):
            if not self.moves(term):
                fixed.append(term)
                continue
            product = self.product(term)
            if product is None or moving is not None:
                return None
            moving = product
        return None if moving is None else (tuple(fixed), *moving)

    def moves(self, operand: Operand) -> bool:
        """Whether a value may differ from one iteration to the next."""
        if not isinstance(operand, Value) or operand.id not in self.inside:
            return False
        op = operand.op
        return not isinstance(op, ops.Binary) or op.kind not in _HOISTED or self.moves(op.a) or self.moves(op.b)

    def terms(self, operand: Operand) -> Iterator[Operand]:
        """The summands of an offset that the loop itself adds."""
        op = operand.op if isinstance(operand, Value) and self.moves(operand) else None
        if isinstance(op, ops.Binary) and op.kind == "add":
            yield from self.terms(op.a)
            yield from self.terms(op.b)
        else:
            yield operand

    def product(self, term: Operand) -> tuple[int, Value] | None:
        """(lead, stride) of ``(iv + lead) * stride``."""
        op = term.op if isinstance(term, Value) else None
        if not isinstance(op, ops.Binary) or op.kind != "mul":
            return None
        for count, stride in ((op.a, op.b), (op.b, op.a)):
            lead = self.lead(count)
            if lead is not None and isinstance(stride, Value) and not self.moves(stride):
                return lead, stride
        return None

    def lead(self, operand: Operand) -> int | None:
        """c of ``iv + c``."""
        if operand is self.loop.iv:
            return 0
        op = operand.op if isinstance(operand, Value) else None
        if isinstance(op, ops.Binary) and op.kind == "add" and op.a is self.loop.iv and isinstance(op.b, Literal):
            return int(op.b.value)
        return None

    # --- rewriting ---

    def rewrite(self, block: Block) -> None:
        """Put reads of the variables before their uses."""
        found: list[ops.Op] = []
        for op in block.ops:
            for inner in op.blocks():
                self.rewrite(inner)
            for name, ref in _global_refs(op):
                split = self.split(ref)
                pointer = None if split is None else self.pointers.get(_key(ref, split))
                if pointer is not None:
                    found.append(_read(pointer, op.loc))
                    setattr(op, name, replace(ref, offset=found[-1].result))  # type: ignore[attr-defined]
            found.append(op)
        block.ops = found

    def step(self, pointer: _Pointer) -> Iterator[ops.Op]:
        """var += step * stride."""
        read = _read(pointer, pointer.loc)
        yield read
        by: Operand = pointer.stride
        count = self.loop.step
        assert isinstance(count, int), "pointers advance in loops of a static step alone"
        if count != 1:
            scaled = _binary("mul", by, Literal(count, by.dtype), pointer.loc)
            yield scaled
            by = scaled.result
        total = _binary("add", read.result, by, pointer.loc)
        yield total
        yield ops.Assign(pairs=((pointer.var, total.result),), loc=pointer.loc)

    def before_loop(self, operand: Operand, made: list[ops.Op]) -> Operand:
        """An operand that does not move as one that is known before the loop."""
        if not isinstance(operand, Value) or operand.id not in self.inside:
            return operand
        op = operand.op
        assert isinstance(op, ops.Binary), "what does not move is arithmetic on what is known before the loop"
        copy = _binary(op.kind, self.before_loop(op.a, made), self.before_loop(op.b, made), op.loc)
        made.append(copy)
        return copy.result

    def start(self, pointer: _Pointer) -> Iterator[ops.Op]:
        """The variable with its first value."""
        made: list[ops.Op] = []
        terms = [self.before_loop(term, made) for term in pointer.fixed]
        stride = self.before_loop(pointer.stride, made)
        assert isinstance(stride, Value), "a stride that is a Value stays one"
        pointer.stride = stride
        yield from made
        count = self.loop.start
        if pointer.lead and isinstance(count, Literal):
            count = Literal(int(count.value) + pointer.lead, count.dtype)
        elif pointer.lead:
            ahead = _binary("add", count, Literal(pointer.lead, count.dtype), pointer.loc)
            yield ahead
            count = ahead.result
        if not (isinstance(count, Literal) and count.value == 0):
            product = _binary("mul", count, stride, pointer.loc)
            yield product
            terms.append(product.result)
        total: Operand = terms[0] if terms else Literal(0, pointer.var.dtype)
        for term in terms[1:]:
            whole = _binary("add", total, term, pointer.loc)
            yield whole
            total = whole.result
        yield ops.Declare(var=pointer.var, init=total, loc=pointer.loc)


def _key(ref: Ref | TileRef, split: tuple[tuple[Operand, ...], int, Value]) -> tuple[object, ...]:
    fixed, lead, stride = split
    terms = sorted(("value", term.id) if isinstance(term, Value) else ("literal", int(term.value)) for term in fixed)
    return ref.buffer.id, tuple(terms), lead, stride.id


def _many(ref: Ref | TileRef) -> bool:
    """Whether a reference makes several addresses that each take a multiplication."""
    return isinstance(ref, TileRef) and any(isinstance(stride, Value) for stride in ref.strides)


def _global_refs(op: ops.Op) -> list[tuple[str, Ref | TileRef]]:
    """(field, reference) of an op's references into global memory, as elements of the argument's own dtype."""
    return [(each.name, ref) for each in fields(op) if isinstance(ref := getattr(op, each.name), (Ref, TileRef))
            and ref.buffer.space is Space.GLOBAL and ref.swizzle is None and ref.dtype == ref.buffer.dtype]


def _defined(block: Block) -> Iterator[int]:
    """Ids of the Values that a block defines."""
    for op in block.walk():
        if (result := op.defines()) is not None:
            yield result.id
        yield from (value.id for value in op.given())


def _binary(kind: str, a: Operand, b: Operand, loc: Loc) -> ops.Binary:
    return ops.Binary(result=Value(a.dtype), kind=kind, a=a, b=b, loc=loc)


def _read(pointer: _Pointer, loc: Loc) -> ops.Read:
    """The variable's value, with the facts that the old offset had."""
    old = pointer.old
    return ops.Read(result=Value(old.dtype, divisor=old.divisor), var=pointer.var, loc=loc)
