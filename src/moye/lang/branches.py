"""Branches while tracing: decided now (StaticIf) or an ``if`` of the kernel (DynamicIf), and conditional values.

In: the protocol of ``rewrite.py``: ``then``, ``end_then``, ``orelse``, ``restore``, ``end_else``, ``merge``.
Out: ``ops.If`` and, for each variable that differs between the arms, a Var assigned in them.

    c = DynamicIf(cond, ("x",)); c.then(locals()); ...; (x,) = c.merge(locals())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from moye.ir import fold, ops
from moye.ir.nodes import Block, Literal, Operand, Var
from moye.lang import identity
from moye.lang.carry import (
    Carried,
    Undefined,
    fit,
    rebuild,
    same_structure,
    take_apart,
    united,
    variable,
)
from moye.lang.disagreement import ARMS, changed_structure, check_arms
from moye.lang.host_objects import Left, Place, Snapshot
from moye.lang.merging import equal, facts_of, first_of, is_constant, overwritten, reusable
from moye.lang.mutable_parts import State
from moye.lang.reachable import Reached
from moye.lang.scopes import regions
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, operand_of, together, truth, typed, where, wrap
from moye.tensor.known import Known

Locals = dict[str, Any]
CONDITIONAL = "value"  # the name of what ``a if c else b`` merges


class Branch(ABC):
    """The protocol; see the module's docstring."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def _values(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    @abstractmethod
    def then(self, variables: Locals) -> bool: ...
    def end_then(self, variables: Locals) -> None: ...  # noqa: B027  most need nothing
    @abstractmethod
    def orelse(self) -> bool: ...
    @abstractmethod
    def restore(self) -> tuple[Any, ...]: ...
    def end_else(self, variables: Locals) -> None: ...  # noqa: B027
    @abstractmethod
    def merge(self, variables: Locals) -> tuple[Any, ...]: ...

    def __enter__(self) -> Branch:
        """Around each arm, if one may be traced for its dtypes alone."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: object) -> bool | None:
        return None


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
    """A traced condition: both arms are traced; what they leave behind is merged.

    ``dead`` names need their old value in the second arm, but nobody reads them behind the if.
    """

    def __init__(self, cond: Expr, names: tuple[str, ...], dead: tuple[str, ...] = ()) -> None:
        super().__init__(names)
        self.dead = dead
        self.op = ops.If(cond=cond.operand, then=Block(), orelse=Block(), loc=locate())
        self.before: tuple[Any, ...] = ()
        self.arms: list[tuple[Any, ...] | None] = []
        self.host = Snapshot()
        self.hosts: list[dict[int, State] | None] = []
        self.references: list[Mapping[int, int]] = []
        """How often each object is referred to at the end of an arm."""
        self.shared: dict[int, list[object]] = {}
        """The objects, by id, that an arm has put somewhere and that something else refers to, too; and what they may
        stand for."""
        self.mark = 0
        self.expression = False
        """Whether it is ``a if c else b``, whose arms are converted to the dtype that they have together."""

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
        # An arm's condition may prove an index; and what holds only under it cannot be asked of every launch.
        b.open_conditions.append(b.unary("not", self.op.cond) if negated else self.op.cond)
        b.push(block)
        regions().append(self)
        self.mark = identity.opened()

    def _finish(self, variables: Locals) -> None:
        b = builder()
        self.arms.append(None if b.terminated() else self._left(variables))
        states = None if b.terminated() else self.host.states()
        self.hosts.append(states)
        put = [value for _, values in (states or {}).values() for value in values if identity.has_objects(value)]
        self.references.append(Reached().references if put else self.host.references)
        self.shared.update((id(value), identity.behind(value)) for value in put
                           if identity.is_shared(value, self.references[-1]))
        identity.closed(self.mark)
        # The other arm must find Python objects as they were before the if; ``merge`` puts in what both have left.
        self.host.restore()
        b.open_conditions.pop()
        b.pop()
        stack = regions()
        del stack[stack.index(self):]

    def _left(self, variables: Locals) -> tuple[Any, ...]:
        """The values at the end of an arm; of objects what is in them there, since they are put back."""
        values = self._values(variables)
        if not any(map(identity.has_objects, values)):
            return values
        references, own = Reached().references, 0 if self.names == (CONDITIONAL,) else 1
        return tuple(_Left(value, take_apart(value), identity.is_shared(value, references, own), identity.behind(value))
                     if identity.has_objects(value) else value for value in values)

    def _end(self) -> None:
        """Both arms end: the block around them must know that it ends, too, so a jump is repeated."""
        jumps = [arm.ops[-1] for arm in (self.op.then, self.op.orelse) if isinstance(arm.ops[-1], ops.Exit)]
        if jumps:
            builder().emit(ops.Exit(kind=jumps[0].kind, target=jumps[0].target))
        else:
            builder().endless(self.op)

    def merge(self, variables: Locals) -> tuple[Any, ...]:
        """Variables that differ between the arms become Vars, declared in front of the if."""
        merger = Merger(self.op, self.expression)
        then, orelse = self.arms
        result = [(lambda name=name: Undefined(name)) if name in self.dead else
                  self._merged(merger, name, before, *(None if arm is None else arm[i] for arm in self.arms))
                  for i, (name, before) in enumerate(zip(self.names, self.before, strict=True))]
        hosts = self.hosts[0], self.hosts[1]
        found = self._parts(hosts)
        places = [(place, merger.variable(place, ways[0], ways[1], ways[2], then is None, orelse is None), ways)
                  for place, ways in found]
        self.host.settle(hosts)
        merger.place()
        if then is None and orelse is None:  # both arms left: nothing follows
            self._end()
        parts = [(place, make(), ways) for place, make, ways in places]
        self.host.put([(place, value) for place, value, _ in parts])
        for place, value, ways in parts:
            # In place of one of two objects there is a new one now.
            originals = [way for way in ways[1:] if isinstance(way, _Left)]
            shared = any(way.shared for way in originals)
            identity.watch(place, value, _originals(originals) if shared else (), shared)
        return tuple(make() for make in result)

    def _parts(self, hosts: tuple[Left, Left]) -> list[tuple[Place, list[Any]]]:
        """The places that differ between the arms, with what is there before and behind each.

        What is in an object is what it holds then: an arm may have changed one that it has put elsewhere.
        """
        found = [(place, list(ways)) for place, *ways in self.host.differences(hosts)]
        for k, (arm, block) in enumerate(((None, None), (hosts[0], self.op.then), (hosts[1], self.op.orelse))):
            self.host.apply(arm)
            references = self.references[k - 1] if k else {}
            with builder().inside(block) if block is not None else nullcontext():
                for _, ways in found:
                    if identity.has_objects(ways[k]):
                        shared = id(ways[k]) in self.shared or identity.is_shared(ways[k], references)
                        others = self.shared.get(id(ways[k]), [])
                        ways[k] = _Left(ways[k], take_apart(ways[k]), shared, others or identity.behind(ways[k]))
            self.host.restore()
        return found

    def _merged(self, merger: Merger, name: str, before: Any, then: Any, orelse: Any) -> Callable[[], Any]:
        """What makes the value of a name behind the if; an object that is the same one on every way stays itself."""
        gone = [arm is None for arm in self.arms]
        ways = [value for value, left in zip((then, orelse), gone, strict=True) if not left]
        held = [way.value for way in ways if isinstance(way, _Left)]
        if held and len(held) == len(ways) and all(v is held[0] for v in held) and self.host.holds(held[0]):
            return lambda: held[0]
        make = merger.variable(name, before, then, orelse, *gone)
        if not held:
            return make
        told = "the value of a conditional expression" if name == CONDITIONAL else name
        shared = any(way.shared for way in ways if isinstance(way, _Left))
        originals = _originals(way for way in ways if isinstance(way, _Left)) if shared else ()

        def watched() -> Any:
            value = make()
            identity.watch(told, value, originals, shared)
            return value
        return watched

    @property
    def changes_objects(self) -> bool:
        """Whether an arm changed an object that was there before."""
        return any(self.hosts)


@dataclass(slots=True, eq=False)
class _Left:
    """What an arm leaves in a variable that holds a mutable object."""

    value: Any
    parts: Carried
    shared: bool
    behind: list[object]
    """What it may stand for itself."""


def _originals(ways: Iterable[_Left]) -> list[object]:
    """What a value that is one of these may stand for."""
    return [original for way in ways for original in (way.value, *way.behind)]


class Merger:
    """Merges the values that the two arms of an ``ops.If`` leave in the variables."""

    def __init__(self, op: ops.If, converts: bool = False) -> None:
        self.op = op
        self.converts = converts
        self.declared: list[ops.Op] = []
        self.assigned: dict[str, list[tuple[Var, Operand]]] = {"then": [], "orelse": []}

    def place(self) -> None:
        b = builder()
        for arm, block in (("then", self.op.then), ("orelse", self.op.orelse)):
            if self.assigned[arm]:
                block.ops.append(ops.Assign(pairs=tuple(self.assigned[arm]), loc=self.op.loc))
        for op in (*self.declared, self.op):
            b.emit(op, op.loc)

    def variable(self, name: str, before: Any, then: Any, orelse: Any, no_then: bool,
                 no_else: bool) -> Callable[[], Any]:
        """Merge one variable; returns what reads its value after the if."""
        if no_then and no_else:
            return lambda: before
        if no_then or no_else:
            kept = orelse if no_then else then
            return self._merge(name, before, kept, kept, "orelse" if no_then else "then")
        if isinstance(then, Undefined):
            return lambda: then if isinstance(orelse, Undefined) else self._missing(name, then, "true")
        if isinstance(orelse, Undefined):
            return lambda: self._missing(name, orelse, "false")
        return self._merge(name, before, then, orelse, "both")

    def _missing(self, name: str, value: Undefined, outcome: str) -> Undefined:
        """What a variable is after the if when only one arm gave it a value."""
        if value.known_where() or value.known_as() not in (name, CONDITIONAL):
            return value                                # it comes from a variable that has none
        return Undefined(name, f"where the condition {_condition_text(self.op)}is {outcome}")

    def _merge(self, name: str, before: Any, then: Any, orelse: Any, arms: str) -> Callable[[], Any]:
        if isinstance(then, Undefined):
            return lambda: then
        # Taking a value apart may compute, which belongs into the arm that has the value.
        with builder().inside(self.op.orelse if arms == "orelse" else self.op.then):
            a = then.parts if isinstance(then, _Left) else take_apart(then)
        with builder().inside(self.op.then if arms == "then" else self.op.orelse):
            b = orelse.parts if isinstance(orelse, _Left) else take_apart(orelse)
        if not same_structure(a.structure, b.structure):
            raise changed_structure(_called(name), a.structure, b.structure, ARMS)
        both = united(a.structure, b.structure)
        a, b = fit(a, both), fit(b, both)
        old = None if isinstance(before, Undefined) else before.parts if isinstance(before, _Left) else \
            take_apart(before)
        old = None if old is None or not same_structure(old.structure, a.structure) else fit(old, both)
        leaves = [self._leaf(name, a, b, i, None if old is None else old.leaves[i], arms)
                  for i in range(len(a.leaves))]
        return lambda: rebuild(a.structure, iter([leaf() for leaf in leaves]))

    def _leaf(self, name: str, a: Carried, b: Carried, i: int, old: Scalar | None, arms: str) -> Callable[[], Scalar]:
        x, y = a.leaves[i], b.leaves[i]
        # What both arms leave alike stays what it is: a static number stays static, and needs no variable.
        if equal(x, y) and (is_constant(x) or (old is not None and equal(x, old))):
            one = typed(x, together(x, y)) if isinstance(x, Known) or isinstance(y, Known) else x
            return lambda: one
        # The variable of a surrounding loop or if is assigned in place, rather than copied into a new one and back.
        var = reusable(name + a.names[i], old)
        dtype = together(x, y)
        if var is None or var.dtype != dtype:
            init = first_of(old, dtype) if old is not None and (equal(x, old) or equal(y, old)) else None
            var = variable(name, a.names[i], dtype)
            self.declared.append(ops.Declare(var=var, init=init, loc=self.op.loc))
        if not self.converts:
            check_arms(_called(name), dtype, x, y)
        for leaf, arm in ((x, "then"), (y, "orelse")):
            block = self.op.then if arm == "then" else self.op.orelse
            if arms in ("both", arm) and not (old is not None and equal(leaf, old) and self._holds(var, block)):
                with builder().inside(block):
                    self.assigned[arm].append((var, operand_of(leaf, dtype)))
        # Only what holds on both ways holds behind the if.
        facts = fold.meet(facts_of(x, dtype), facts_of(y, dtype))
        chosen = var
        return lambda: Expr(builder().read(chosen, facts))

    def _holds(self, var: Var, block: Block) -> bool:
        """Whether the variable has at the end of an arm what it had in front of the if."""
        # What is nested in the arm may have assigned it in place: ``s = x``, ``if c: x = 1``, and then ``x = s``.
        begins = all(op.init is not None for op in self.declared if isinstance(op, ops.Declare) and op.var is var)
        return begins and not overwritten(var, block)


def _condition_text(op: ops.If) -> str:
    """The source of the condition with a space behind it, where it stands on one line; else nothing."""
    frame = op.loc.innermost
    text = frame.text()[frame.column:frame.end] if frame is not None and frame.end > 0 else ""
    return f"{text.strip()} " if text and "\n" not in text else ""


def _called(name: str) -> str:
    return f"the variable {name!r}" if name != CONDITIONAL else "the value of a conditional expression"


# --- conditional values ----------------------------------------------------------------------------------------------


def guarded_value(first: Expr, block: Block, right: Operand, kind: str) -> Scalar:
    """``first and/or right`` where computing ``right`` is not pure: an if of the kernel."""
    b, cond = builder(), truth(first)
    var = Var("cond", right.dtype)
    b.declare(var, operand_of(first, right.dtype))
    block.ops.append(ops.Assign(pairs=((var, right),), loc=locate()))
    then, orelse = (block, Block()) if kind == "land" else (Block(), block)
    b.emit(ops.If(cond=cond.operand, then=then, orelse=orelse))
    return wrap(b.read(var))


def conditional_value(cond: Expr, then: Callable[[], object], orelse: Callable[[], object]) -> object:
    """``a if cond else b``: a select where both are pure scalars, else an if of the kernel."""
    branch = DynamicIf(cond, (CONDITIONAL,))
    branch.expression = True
    branch.then({})
    a = then()
    branch.end_then({CONDITIONAL: a})
    branch.orelse()
    b = orelse()
    branch.end_else({CONDITIONAL: b})
    blocks = (branch.op.then, branch.op.orelse)
    if not branch.changes_objects and is_scalar(a) and is_scalar(b) and all(may_speculate(block) for block in blocks):
        for block in blocks:
            builder().splice(block)
        return where(cond, a, b)  # type: ignore[arg-type]
    return branch.merge({CONDITIONAL: a})[0]


def may_speculate(block: Block) -> bool:
    """Whether the ops may run although nobody asked for their results: pure, and no division by what may be zero."""
    return all(ops.Trait.PURE in op.traits and not (isinstance(op, ops.Binary) and op.kind in ("floordiv", "mod")
                                                    and not isinstance(op.b, Literal)) for op in block.walk())


_HARMLESS = {ops.Trait.REMOVABLE, ops.Trait.VARIABLE, ops.Trait.REGION, ops.Trait.MEETS_WARP, ops.Trait.SIMULATED}


def acts(block: Block) -> bool:
    """Whether something in a block may be seen behind it.

    Loads are spared, which are sooner side by side, and exchanges of lanes, which all would have to come to.
    """
    return any(ops.is_ordered(op) or not (op.traits & _HARMLESS or isinstance(op, ops.Alloc)) for op in block.walk())
