"""Loops while tracing: unrolled (StaticFor), and loops of the kernel (DynamicFor, While).

In: the protocol of ``rewrite.py``: iterate, ``begin``, ``test``, ``break_``, ``continue_``, ``end``, ``after``.
Out: ``ops.For`` / ``ops.Loop`` whose carried variables are Vars.

>>> for i in loop: (x,) = loop.begin(locals()); ...; loop.end(locals())

A dynamic body is traced again where a carried value's facts at its end are weaker than at its start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.ir import constants, fold, ops
from moye.ir.builder import LoopBound
from moye.ir.nodes import Block, Operand, Value, Var
from moye.lang.carry import Undefined, carried_dtype, describe, rebuild, same_structure, take_apart
from moye.lang.scopes import above, regions
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, operand_of, plain, truth

Locals = dict[str, Any]
_NONE: fold.Facts = (None, None, 1)
_PASSES = 6


@dataclass(frozen=True, slots=True)
class DynamicRange:
    """``range(...)`` in a kernel: in a ``for`` statement a loop of the kernel; elsewhere (in comprehensions, ``zip``,
    ``list``) Python's own range, whose bounds must be static.
    """

    start: Scalar
    stop: Scalar
    step: Scalar
    unroll: int | None = None

    def static(self) -> range:
        """Python's range."""
        if any(isinstance(x, Expr) for x in (self.start, self.stop, self.step)):
            raise TraceError(f"range({self.start}, {self.stop}) is known only when the kernel runs; here it is "
                             "iterated over while tracing", hint="loop over it with a for statement", locs=(locate(),))
        return range(int(self.start), int(self.stop), int(self.step))

    def __iter__(self) -> Iterator[int]:
        return iter(self.static())

    def __reversed__(self) -> Iterator[int]:
        return reversed(self.static())

    def __len__(self) -> int:
        return len(self.static())

    def __getitem__(self, index: int) -> int:
        return self.static()[index]


def dynamic_range(*args: Scalar, unroll: int | bool | None = None) -> DynamicRange:
    """``range`` in a kernel: a loop of the kernel.  ``unroll``: True (fully), False (not at all), or a factor."""
    if not 1 <= len(args) <= 3:
        raise TraceError(f"range takes 1 to 3 arguments, not {len(args)}", locs=(locate(),))
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args[:2], args[2] if len(args) == 3 else 1)
    start, stop, step = plain(start), plain(stop), plain(step)
    if isinstance(step, Expr) and step.dtype.is_integer:
        if step.lower is None or step.lower < 1:
            raise TraceError(f"range: the step {step} is not known to be positive", locs=(locate(),),
                             hint="say mo.assume(step > 0) before")
        if step.dtype is dt.uint64:
            raise TraceError(f"range: the step {step} is a uint64, and loops count in int64 at most", locs=(locate(),),
                             hint="convert it with .to(mo.int64)")
    elif not isinstance(step, int) or step == 0:
        raise TraceError(f"range: the step {step} is no integer other than 0", locs=(locate(),))
    for bound in (start, stop):
        if not is_scalar(bound) or (bound.dtype.is_float if isinstance(bound, Expr) else isinstance(bound, float)):
            raise TraceError(f"range: {bound!r} is no integer", locs=(locate(),))
    return DynamicRange(start, stop, step, _factor(unroll))


def _factor(unroll: Any) -> int | None:
    """``ops.For.unroll`` of what the user asks for."""
    if unroll is None or isinstance(unroll, bool):
        return {True: 0, False: 1, None: None}[unroll]
    if not isinstance(unroll, int) or not 1 <= unroll < 2**31:
        raise TraceError(f"range: unroll={unroll!r} is no bool and no factor from 1 to {2**31 - 1}", locs=(locate(),))
    return unroll


class Loop(ABC):
    """The protocol; see the module's docstring."""

    dynamic = False

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    def end(self, variables: Locals) -> None: ...  # noqa: B027  most need nothing

    def after(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    def break_(self, variables: Locals) -> int:
        return self._leave("break")

    def continue_(self, variables: Locals) -> int:
        return self._leave("continue")

    def _leave(self, kind: str) -> int:
        """In an unrolled loop: Python's own jump, legal only where no traced condition decides it."""
        if above(self):
            raise TraceError(f"{kind} under a traced condition leaves a loop that is unrolled while tracing",
                             hint="make it a loop of the kernel: for i in range(...) or mo.range(...)",
                             locs=(locate(),))
        return 1 if kind == "break" else 2


class StaticFor(Loop):
    """Python's own iteration: the body is traced once per item."""

    def __init__(self, iterable: Iterable[object], names: tuple[str, ...], target: str) -> None:
        super().__init__(names)
        self.iterable = iterable
        self.target = target
        self.around = builder().trips

    def __iter__(self) -> Iterator[Any]:
        regions().append(self)
        b = builder()
        try:
            for trip, item in enumerate(self.iterable):
                if self.target:
                    b.trips = (*self.around, (self.target, item if type(item) is int else trip))
                yield item
        finally:
            _close(self)
            b.trips = self.around

    def after(self, variables: Locals) -> tuple[Any, ...]:
        _close(self)
        builder().trips = self.around
        return super().after(variables)


def _close(marker: object) -> None:
    stack = regions()
    if marker in stack:
        del stack[stack.index(marker):]


@dataclass(slots=True)
class _Slot:
    """One carried variable: its structure and, per leaf, the Var and the facts assumed in the body.

    ``late``: it has no value before the loop, so the body cannot read it before writing it.
    """

    structure: object
    variables: list[Var]
    facts: list[fold.Facts]
    late: bool = False


class _Dynamic(Loop):
    """What For and While of the kernel share: Vars, the body's block, repeated passes."""

    op: ops.For | ops.Loop

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.slots: dict[str, _Slot] = {}
        self.preamble: list[ops.Op] = []
        self.weaker = False
        self.dynamic = True
        self.skips = False
        """Whether the body may be left before its first statement."""
        self.gaps: set[str] = set()
        """Late variables that some way out of the body, or to its next iteration, leaves unset."""

    def _open_pass(self) -> None:
        b = builder()
        self.weaker = False
        self.gaps.clear()
        self.op.body = Block()
        self._buffers = len(b.func.buffers)
        b.push(self.op.body)
        regions().append(self)

    def _close_pass(self, last: bool) -> bool:
        """Close the body; True if it must be traced again."""
        b = builder()
        _close(self)
        b.pop()
        again = self.weaker and not last
        if again:
            del b.func.buffers[self._buffers:]
        if again and self.passes == _PASSES - 2:
            for slot in self.slots.values():  # enough: with no facts at all the next pass is the last
                slot.facts = [_NONE] * len(slot.facts)
        return again

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        if not self.dynamic:
            return super().begin(variables)
        if not self._started:
            self._started = True
            self._declare(variables)
        return tuple(self._read(n) for n in self.names)

    def _declare(self, variables: Locals) -> None:
        """Vars for all carried names, with their first values, in front of the loop."""
        for name in self.names:
            value = variables.get(name, Undefined(name))
            if isinstance(value, Undefined):
                continue
            with builder().inside(Block()) as before:
                parts = take_apart(value)
                slot = _Slot(parts.structure, [], [])
                declared: list[ops.Op] = []
                for leaf, part in zip(parts.leaves, parts.names, strict=True):
                    var = Var(name + part, carried_dtype(leaf))
                    operand = operand_of(leaf, var.dtype)
                    slot.variables.append(var)
                    slot.facts.append(fold.facts_of(operand) if var.dtype.is_integer else _NONE)
                    declared.append(ops.Declare(var=var, init=operand, loc=locate()))
            self.preamble += [*before.ops, *declared]
            self.slots[name] = slot

    def _read(self, name: str) -> Any:
        slot = self.slots.get(name)
        if slot is None or slot.late:
            return Undefined(name)
        b = builder()
        reads = [Expr(b.read(v, f)) for v, f in zip(slot.variables, slot.facts, strict=True)]
        return rebuild(slot.structure, iter(reads))

    def _assign(self, variables: Locals) -> None:
        """Write the carried variables at the end of the body or at a jump."""
        pairs: list[tuple[Var, Operand]] = []
        for name in self.names:
            value = variables.get(name, Undefined(name))
            if isinstance(value, Undefined):
                self.gaps.add(name)
                continue
            slot = self.slots.get(name) or self._late_slot(name, value)
            parts = take_apart(value)
            if not same_structure(parts.structure, slot.structure):
                raise changed_structure(f"the variable {name!r}", slot.structure, parts.structure)
            for i, leaf in enumerate(parts.leaves):
                pairs.extend(self._update(name, slot, i, leaf))
        if pairs:
            builder().emit(ops.Assign(pairs=tuple(pairs)))

    def _update(self, name: str, slot: _Slot, i: int, leaf: Scalar) -> list[tuple[Var, Operand]]:
        var = slot.variables[i]
        check_dtype(f"the variable {name!r}", var.dtype, leaf)
        operand = operand_of(leaf, var.dtype)
        if var.dtype.is_integer:
            facts = fold.facts_of(operand)
            if not fold.implied(facts, slot.facts[i]):
                slot.facts[i] = _widen(slot.facts[i], facts, 0 if slot.late else self.passes)
                self.weaker = self.weaker or not slot.late
        op = operand.op if isinstance(operand, Value) else None
        return [] if isinstance(op, ops.Read) and op.var is var and still_holds(op) else [(var, operand)]

    def _late_slot(self, name: str, value: object) -> _Slot:
        """A variable first set inside the loop: declared in front of it without a value."""
        parts = take_apart(value)
        slot = _Slot(parts.structure, [], [], late=True)
        for leaf, part in zip(parts.leaves, parts.names, strict=True):
            var = Var(name + part, carried_dtype(leaf))
            operand = operand_of(leaf, var.dtype)
            slot.variables.append(var)
            slot.facts.append(fold.facts_of(operand) if var.dtype.is_integer else _NONE)
            self.preamble.append(ops.Declare(var=var, init=None, loc=locate()))
        self.slots[name] = slot
        return slot

    passes = 0
    _started = False

    def end(self, variables: Locals) -> None:
        if self.dynamic and not builder().terminated():
            self._assign(variables)

    def after(self, variables: Locals) -> tuple[Any, ...]:
        if not self.dynamic:
            _close(self)
            return super().after(variables)
        result: list[Any] = []
        for name in self.names:
            slot = self.slots.get(name)
            if slot is None:
                result.append(variables.get(name, Undefined(name)))
                continue
            if slot.late and (self.skips or name in self.gaps):
                result.append(Undefined(name, "where the loop before runs no iteration" if self.skips else
                                        "on some way out of the loop before"))
                continue
            reads = [Expr(builder().read(v, f)) for v, f in zip(slot.variables, slot.facts, strict=True)]
            result.append(rebuild(slot.structure, iter(reads)))
        return tuple(result)

    def break_(self, variables: Locals) -> int:
        return self._jump("break", variables)

    def continue_(self, variables: Locals) -> int:
        return self._jump("continue", variables)

    def _jump(self, kind: Any, variables: Locals) -> int:
        inner = above(self)
        if not self.dynamic:
            return self._leave(kind)
        self._assign(variables)
        builder().emit(ops.Exit(kind=kind, target=self.op))
        return 0 if inner else 2

    def _place(self) -> None:
        """Put the declarations and the loop into the surrounding block."""
        b = builder()
        for op in (*self.preamble, self.op):
            b.emit(op, op.loc)


class DynamicFor(_Dynamic):
    """for i in range(...): one ``ops.For``."""

    op: ops.For

    def __init__(self, bounds: DynamicRange, names: tuple[str, ...], target: str) -> None:
        super().__init__(names)
        b = builder()
        wide = any(isinstance(x, Expr) and x.dtype.bits == 64 for x in (bounds.start, bounds.stop, bounds.step))
        wide |= isinstance(bounds.step, Expr) and bounds.step.dtype is dt.uint32  # as int32 it might be negative
        index = dt.int64 if wide else dt.int32
        start, stop, by = (operand_of(x, index) for x in (bounds.start, bounds.stop, bounds.step))
        iv = Value(index, name=target or "i")
        self.op = ops.For(iv=iv, start=start, stop=stop, step=by if isinstance(by, Value) else int(by.value),
                          body=Block(), unroll=bounds.unroll, loc=b.locate())
        iv.lower, iv.upper, iv.divisor = _iv_facts(self.op)
        self.bound = LoopBound(self.op, stop, b.conditions)
        if self.op.up:
            b.loops[iv.id] = self.bound
        first, last = (start, stop) if self.op.up else (stop, start)
        most, least = fold.facts_of(first)[1], fold.facts_of(last)[0]
        self.skips = most is None or least is None or most >= least

    def __iter__(self) -> Iterator[Any]:
        for self.passes in range(_PASSES):
            self._open_pass()
            yield Expr(self.op.iv)
            if not self._close_pass(self.passes == _PASSES - 1):
                break
        if self.bound.left:  # its variable need not reach the bound
            guards = builder().func.guards
            guards[:] = [g for g in guards if not any(g is void for void in self.bound.guards)]
        self._place()


class While(_Dynamic):
    """while c: ``ops.Loop`` whose body starts with ``if not c: break``; unrolled where c is static."""

    def __init__(self, names: tuple[str, ...], always: bool) -> None:
        super().__init__(names)
        self.op = ops.Loop(body=Block(), loc=builder().locate())
        self.always = always
        self.dynamic = always
        self.stopped = False

    def __iter__(self) -> Iterator[Any]:
        if self._decided():
            regions().append(self)
            while self._decided():
                yield None
            _close(self)
        for self.passes in range(_PASSES):
            self._open_pass()
            yield None
            if not self._close_pass(self.passes == _PASSES - 1):
                break
        self._place()

    def _decided(self) -> bool:
        """Whether every condition so far was static."""
        return not self.dynamic

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        if not self.dynamic:
            builder().push(Block())  # where the condition is computed; thrown away if it proves to be traced
        return super().begin(variables)

    def test(self, cond: object) -> int:
        b = builder()
        if not self.dynamic:
            probe = b.pop()
            if not isinstance(cond, Expr):
                b.splice(probe)
        if isinstance(cond, Expr):
            if not self.dynamic:
                if self.stopped:
                    raise TraceError("the condition of this while became a traced value after iterations in which it "
                                     "was static", hint="start with a traced value, such as mo.int32(0)",
                                     locs=(locate(),))
                self.dynamic = True
                return 2
            self.skips = True
            leave = ops.If(cond=b.unary("not", truth(cond).operand), then=Block(), orelse=Block())
            with b.inside(leave.then):
                b.emit(ops.Exit(kind="break", target=self.op))
            b.emit(leave)
            return 0
        if self.dynamic:
            if cond:
                return 0
            self.skips = True
            b.emit(ops.Exit(kind="break", target=self.op))
            return 2
        self.stopped = True
        return 0 if cond else 1


def still_holds(read: ops.Read) -> bool:
    """Whether the variable still has the value that ``read`` saw: in the open blocks no assignment lies between."""
    for block in reversed(builder().open_blocks):
        for op in reversed(block.ops):
            if op is read:
                return True
            if any(isinstance(inner, ops.Assign) and any(v is read.var for v, _ in inner.pairs)
                   for inner in (op, *(o for nested in op.blocks() for o in nested.walk()))):
                return False
    return False


def _iv_facts(op: ops.For) -> fold.Facts:
    low, high = (op.start, op.stop) if op.up else (op.stop, op.start)
    lower, upper = fold.facts_of(low)[0], fold.facts_of(high)[1]
    if op.up:
        upper = None if upper is None else upper - 1
    else:
        lower = None if lower is None else lower + 1
    step = op.step.divisor if isinstance(op.step, Value) else abs(op.step)
    return lower, upper, fold.common_divisor(fold.facts_of(op.start)[2], step)


def _widen(assumed: fold.Facts, seen: fold.Facts, passes: int) -> fold.Facts:
    """The meet; from the second pass on, bounds that still move are given up, and then all facts that do."""
    both = fold.meet(assumed, seen)
    if passes == 0:
        return both
    if passes > 2:
        return _NONE
    lower = both[0] if both[0] == assumed[0] else None
    upper = both[1] if both[1] == assumed[1] else None
    return lower, upper, both[2]


def check_dtype(name: str, dtype: dt.DType, leaf: Scalar) -> None:
    """A variable keeps its dtype: Python numbers that fit and narrower integers of its kind are converted."""
    have = carried_dtype(leaf)
    if have == dtype:
        return
    if isinstance(leaf, Expr):
        fine = have.kind == dtype.kind and have.is_integer and have.bits <= dtype.bits
    elif dtype.is_float:
        fine = True
    else:
        fine = dtype.is_integer and isinstance(leaf, int) and constants.fits(int(leaf), dtype)
    if fine:
        return
    raise TraceError(f"{name} is {dtype} before this loop or branch and {have} at its end",
                     hint=f"start with mo.{have}(...), or convert with .to(mo.{dtype})", locs=(locate(),))


def changed_structure(name: str, before: object, after: object) -> TraceError:
    """The error of a variable whose static structure differs between two ways to one point."""
    kinds = _kind(before), _kind(after)
    told = describe(before), describe(after)
    hint = "give it a value of one kind on every way to this point"
    if "fragment" in kinds:
        if kinds[0] == kinds[1]:
            told = told[0], "another " + told[1].removeprefix("the ")
        hint = "write into the same registers: " + (name.rpartition("'")[0].rpartition("'")[2] or "x") + "[...] = ..."
    elif kinds == ("tensor", "tensor"):
        hint = "keep one buffer with a stage mode and carry the stage index"
    return TraceError(f"{name} changes its structure in a loop or branch of the kernel: "
                      f"{told[0]} before, {told[1]} after", hint=hint, locs=(locate(),))


def _kind(structure: object) -> object:
    return structure[0] if isinstance(structure, tuple) and structure else structure
