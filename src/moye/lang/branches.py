"""Branches while tracing: decided now (StaticIf) or an ``if`` of the kernel (DynamicIf), and conditional values.

In: the protocol of ``rewrite.py``: ``then``, ``end_then``, ``orelse``, ``restore``, ``end_else``, ``merge``.
Out: ``ops.If`` and, for each variable that differs between the arms, a Var assigned in them.

>>> c = DynamicIf(cond, ("x",)); c.then(locals()); ...; (x,) = c.merge(locals())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye import dtypes as dt
from moye.ir import fold, ops
from moye.ir.builder import key_of
from moye.ir.nodes import Block, Operand, Value, Var
from moye.lang.carry import Carried, Undefined, carried_dtype, rebuild, same_structure, take_apart
from moye.lang.loops import _changed, _check_dtype, _leaf_dtype
from moye.lang.scopes import regions
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of, where, wrap
from moye.tensor.tensor import Tensor

Locals = dict[str, Any]


class Branch:
    """The protocol; see the module's docstring."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def _values(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    def then(self, variables: Locals) -> bool: raise NotImplementedError
    def end_then(self, variables: Locals) -> None: ...
    def orelse(self) -> bool: raise NotImplementedError
    def restore(self) -> tuple[Any, ...]: raise NotImplementedError
    def end_else(self, variables: Locals) -> None: ...
    def merge(self, variables: Locals) -> tuple[Any, ...]: raise NotImplementedError


class StaticIf(Branch):
    """A condition known while tracing: one arm is traced."""

    def __init__(self, cond: bool, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.cond = cond
        self.before: tuple[Any, ...] = ()

    def then(self, variables: Locals) -> bool:
        self.before = self._values(variables)
        return self.cond

    def orelse(self) -> bool:
        return not self.cond

    def restore(self) -> tuple[Any, ...]:
        return self.before

    def merge(self, variables: Locals) -> tuple[Any, ...]:
        return self._values(variables)


class DynamicIf(Branch):
    """A traced condition: both arms are traced; what they leave behind is merged."""

    def __init__(self, cond: Expr, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.op = ops.If(cond=cond.operand, then=Block(), orelse=Block(), loc=locate())
        self.before: tuple[Any, ...] = ()
        self.arms: list[tuple[Any, ...] | None] = []

    def then(self, variables: Locals) -> bool:
        self.before = self._values(variables)
        self._open(self.op.then)
        return True

    def end_then(self, variables: Locals) -> None:
        self._finish(variables)

    def orelse(self) -> bool:
        self._open(self.op.orelse)
        return True

    def restore(self) -> tuple[Any, ...]:
        return self.before

    def end_else(self, variables: Locals) -> None:
        self._finish(variables)

    def _open(self, block: Block) -> None:
        b = builder()
        negated = block is self.op.orelse
        b.open_conditions.append(b.unary("not", self.op.cond) if negated else self.op.cond)
        b.push(block)
        regions().append(self)

    def _finish(self, variables: Locals) -> None:
        b = builder()
        self.arms.append(None if b.terminated() else self._values(variables))
        b.open_conditions.pop()
        b.pop()
        stack = regions()
        del stack[stack.index(self):]

    def merge(self, variables: Locals) -> tuple[Any, ...]:
        """Variables that differ between the arms become Vars, declared in front of the if."""
        merger = Merger(self.op)
        then, orelse = self.arms
        result = [merger.variable(name, before, None if then is None else then[i],
                                  None if orelse is None else orelse[i], then is None, orelse is None)
                  for i, (name, before) in enumerate(zip(self.names, self.before, strict=True))]
        merger.place()
        if then is None and orelse is None:
            builder().emit(ops.Exit(kind="return"))  # both arms left: nothing follows
        return tuple(make() for make in result)


class Merger:
    """Merges the values that the two arms of an ``ops.If`` leave in the variables."""

    def __init__(self, op: ops.If) -> None:
        self.op = op
        self.declared: list[ops.Op] = []
        self.assigned: dict[str, list[tuple[Var, Operand]]] = {"then": [], "orelse": []}

    def place(self) -> None:
        b = builder()
        for arm, block in (("then", self.op.then), ("orelse", self.op.orelse)):
            if self.assigned[arm]:
                block.ops.append(ops.Assign(pairs=tuple(self.assigned[arm]), loc=self.op.loc))
        b.block.ops.extend(self.declared)
        loc = self.op.loc
        b.emit(self.op)
        self.op.loc = loc

    def variable(self, name: str, before: Any, then: Any, orelse: Any, no_then: bool,
                 no_else: bool) -> Callable[[], Any]:
        """Merge one variable; returns what reads its value after the if."""
        if no_then and no_else:
            return lambda: before
        if no_then or no_else:
            kept = orelse if no_then else then
            return self._merge(name, before, kept, kept, "orelse" if no_then else "then")
        if isinstance(then, Undefined) or isinstance(orelse, Undefined):
            if isinstance(then, Undefined) and isinstance(orelse, Undefined):
                return lambda: then
            defined, arm = (orelse, "orelse") if isinstance(then, Undefined) else (then, "then")
            return self._merge(name, before, defined, defined, arm)
        return self._merge(name, before, then, orelse, "both")

    def _merge(self, name: str, before: Any, then: Any, orelse: Any, arms: str) -> Callable[[], Any]:
        if isinstance(then, Undefined):
            return lambda: then
        a, b = take_apart(then), take_apart(orelse)
        if not same_structure(a.structure, b.structure):
            raise _changed(name, a.structure, b.structure)
        old = None if isinstance(before, Undefined) else take_apart(before)
        if old is not None and not same_structure(old.structure, a.structure):
            old = None
        leaves = [self._leaf(name, a, b, i, None if old is None else old.leaves[i], arms)
                  for i in range(len(a.leaves))]
        return lambda: rebuild(a.structure, iter([leaf() for leaf in leaves]))

    def _leaf(self, name: str, a: Carried, b: Carried, i: int, old: Scalar | None, arms: str) -> Callable[[], Scalar]:
        x, y = a.leaves[i], b.leaves[i]
        if _equal(x, y) and (not isinstance(x, Expr) or (old is not None and _equal(x, old))):
            return lambda: x
        var = _reusable(name, old)
        dtype = _merged_dtype(a.structure, x, y)
        if var is None or var.dtype != dtype:
            init = None if old is None or (carried_dtype(old) != dtype and isinstance(old, Expr)) \
                else operand_of(old, dtype)
            var = Var(name, dtype)
            self.declared.append(ops.Declare(var=var, init=init, loc=self.op.loc))
        for leaf, arm in ((x, "then"), (y, "orelse")):
            _check_dtype(name, var, leaf)
            if arms in ("both", arm) and not (old is not None and _equal(leaf, old) and arm_has_init(self, var, old)):
                self.assigned[arm].append((var, operand_of(leaf, dtype)))
        facts = fold.meet(_facts(x), _facts(y))
        chosen = var
        return lambda: Expr(builder().read(chosen, facts if dtype.is_integer else (None, None, 1)))


def arm_has_init(merger: Merger, var: Var, old: Scalar) -> bool:
    """Whether the variable already holds ``old`` when the if is entered."""
    for op in merger.declared:
        if isinstance(op, ops.Declare) and op.var is var:
            return op.init is not None
    return True


def _facts(x: Scalar) -> fold.Facts:
    if isinstance(x, Expr):
        return fold.facts_of(x.operand)
    return (int(x), int(x), abs(int(x)) or 1 << 62)


def _equal(x: Scalar, y: Scalar) -> bool:
    if isinstance(x, Expr) and isinstance(y, Expr):
        return key_of(x.operand) == key_of(y.operand)
    return not isinstance(x, Expr) and not isinstance(y, Expr) and type(x) is type(y) and x == y


def _reusable(name: str, old: Scalar | None) -> Var | None:
    """The variable that ``old`` was just read from, if it belongs to the same name and still holds that value."""
    operand = old.operand if isinstance(old, Expr) else None
    op = operand.op if isinstance(operand, Value) else None
    if not isinstance(op, ops.Read) or op.var.name != name:
        return None
    for open_block in reversed(builder()._blocks):
        for earlier in reversed(open_block.ops):
            if earlier is op:
                return op.var
            if any(isinstance(o, ops.Assign) and any(v is op.var for v, _ in o.pairs)
                   for o in _with_nested(earlier)):
                return None
    return None


def _with_nested(op: ops.Op) -> list[ops.Op]:
    return [op, *(inner for block in op.blocks() for inner in block.walk())]


def _merged_dtype(structure: object, x: Scalar, y: Scalar) -> dt.DType:
    if isinstance(x, Expr) and isinstance(y, Expr):
        return x.dtype if x.dtype == y.dtype else dt.promote(x.dtype, y.dtype)
    strong = x if isinstance(x, Expr) else y
    if isinstance(strong, Expr):
        weak = y if strong is x else x
        return dt.float32 if isinstance(weak, float) and not strong.dtype.is_float else strong.dtype
    return dt.promote(_leaf_dtype(structure, x), _leaf_dtype(structure, y))


# --- conditional values ----------------------------------------------------------------------------------------------


def guarded_value(first: Expr, block: Block, right: Operand, kind: str) -> Scalar:
    """``first and/or right`` where computing ``right`` is not pure: an if of the kernel."""
    b = builder()
    var = Var("cond", dt.bool_)
    b.declare(var, first.operand)
    block.ops.append(ops.Assign(pairs=((var, right),), loc=locate()))
    then, orelse = (block, Block()) if kind == "land" else (Block(), block)
    b.emit(ops.If(cond=first.operand, then=then, orelse=orelse))
    return wrap(b.read(var))


def conditional_value(cond: Expr, then: Callable[[], object], orelse: Callable[[], object]) -> object:
    """``a if cond else b``: a select where both are pure scalars, else an if of the kernel."""
    branch = DynamicIf(cond, ("value",))
    branch.then({})
    a = then()
    branch.end_then({"value": a})
    branch.orelse()
    b = orelse()
    branch.end_else({"value": b})
    scalars = all(isinstance(x, (Expr, int, float)) for x in (a, b))
    if scalars and all(op.pure for block in (branch.op.then, branch.op.orelse) for op in block.walk()):
        for block in (branch.op.then, branch.op.orelse):
            builder().splice(block)
        return where(cond, a, b)  # type: ignore[arg-type]
    if isinstance(a, Tensor) and a is b:
        return a
    return branch.merge({"value": a})[0]
