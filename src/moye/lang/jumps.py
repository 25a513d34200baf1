"""Where several ways of the kernel meet: jumps out of a turn of an unrolled loop, or out of the loop.

In: the variables when a block opens, at each traced ``continue`` or ``break`` that leaves it, and at its end.
Out: an ``ops.Scope`` that the jumps leave; a Var for each variable that the ways do not leave alike.

    m = Meeting(("x",), locals()); ...; m.leave(locals()); ...; m.close(locals())       # {"x": what x is behind it}

Without a jump the block is what it would be alone, and nothing is carried.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moye import dtypes as dt
from moye.ir import fold, ops
from moye.ir.nodes import Block, Operand, Var
from moye.lang import identity
from moye.lang.beside import NONE
from moye.lang.carry import Carried, Undefined, fit, rebuild, same_structure, take_apart, united, variable
from moye.lang.disagreement import BODY, changed_structure, check_dtype
from moye.lang.host_objects import Snapshot
from moye.lang.merging import equal, facts_of, first_of, is_constant, overwritten, reusable
from moye.lang.reachable import Reached
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of, together, typed
from moye.tensor.known import Known

Locals = dict[str, Any]


@dataclass(slots=True)
class _Way:
    """One way to the point: where in the IR it ends, and what the variables and parts of Python objects are there."""

    block: Block
    position: int
    values: Locals

    def store(self, pairs: Iterable[tuple[Var, Scalar]]) -> None:
        """Assign in front of the jump; what converts the values belongs there too."""
        with builder().inside(Block()) as made:
            found: list[tuple[Var, Operand]] = [(var, operand_of(leaf, var.dtype)) for var, leaf in pairs]
            if found:
                builder().emit(ops.Assign(pairs=tuple(found)))
        self.block.ops[self.position:self.position] = made.ops


class Meeting:
    """A block, from its first statement to the point where all ways out of it meet."""

    def __init__(self, names: tuple[str, ...], variables: Locals) -> None:
        self.names = names
        self.before = {name: variables[name] for name in names if name in variables}
        self.scope = ops.Scope(body=Block(), loc=locate())
        self.ways: list[_Way] = []
        self.left = False
        """Whether some jump has left the block, so that only some threads come to what follows in it."""
        self.shared: set[str] = set()
        """The variables that hold an object which something else refers to, on some way."""
        self.stored: dict[int, list[tuple[Var, Scalar]]] = {}
        self.declared: list[ops.Declare] = []
        self.host = Snapshot()
        builder().push(self.scope.body)

    def leave(self, variables: Locals) -> None:
        """A jump to the point."""
        if not builder().terminated():
            self._come(variables)
            builder().emit(ops.Exit(kind="leave", target=self.scope))
            self.left = True

    def _come(self, variables: Locals) -> None:
        identity.look()
        block = builder().block
        values: Locals = {name: variables.get(name, Undefined(name)) for name in self.names}
        held = [name for name, value in values.items() if identity.has_objects(value)]
        references = Reached().references if held else {}
        self.shared.update(name for name in held if identity.is_shared(values[name], references))
        self.ways.append(_Way(block, len(block.ops), {**values, **dict(self.host.changed().items())}))

    def close(self, variables: Locals) -> Locals:
        """The values at the point; the ways that come there are merged."""
        b = builder()
        if not self.left:
            b.join()
            return {name: variables[name] for name in self.names if name in variables}
        if not b.terminated():
            self._come(variables)
        b.pop()
        self.host.restore()
        places = dict.fromkeys(key for way in self.ways for key in way.values if key not in self.names)
        for place in places:
            self.before[place] = self.host.before(place)  # type: ignore[arg-type]
        made = {key: self._merged(key) for key in (*self.names, *places)}
        for i, way in enumerate(self.ways):
            way.store(self.stored.get(i, ()))
        for declare in self.declared:
            b.emit(declare, declare.loc)
        b.emit(self.scope, self.scope.loc)
        found = {key: make() for key, make in made.items()}
        self.host.put([(place, found[place]) for place in places])  # type: ignore[misc]
        for key, value in found.items():
            self._watch(key, value)
        return {name: found[name] for name in self.names}

    def _watch(self, key: str, value: object) -> None:
        """An object rebuilt of the parts of one of several stands for each of them: see ``identity``."""
        ways = [way.values[key] for way in self.ways if key in way.values]
        if not any(value is way for way in ways):
            originals = (each for way in ways for each in (way, *identity.behind(way)))
            identity.watch(key, value, originals if key in self.shared else (), key in self.shared)

    def _merged(self, key: str) -> Any:
        """What makes the value behind the point."""
        before = self.before.get(key, Undefined(key))
        ways = [way.values.get(key, before) for way in self.ways]
        missing = [value for value in ways if isinstance(value, Undefined)]
        if missing:
            known = [value for value in missing if value.known_where()]
            return lambda: (known or [Undefined(key, "on some way out of the loop before")])[0]
        if all(value is ways[0] for value in ways) and self.host.holds(ways[0]):
            return lambda: ways[0]
        parts = [self._apart(i, value) for i, value in enumerate(ways)]
        for other in parts[1:]:
            if not same_structure(parts[0].structure, other.structure):
                raise changed_structure(f"the variable {key!r}", parts[0].structure, other.structure, BODY)
        both = functools.reduce(united, (part.structure for part in parts))
        parts = [fit(part, both) for part in parts]
        old = None if isinstance(before, Undefined) else take_apart(before)
        old = None if old is None or not same_structure(old.structure, both) else fit(old, both)
        leaves = [self._leaf(key + name, [part.leaves[i] for part in parts], None if old is None else old.leaves[i])
                  for i, name in enumerate(parts[0].names)]
        return lambda: rebuild(both, iter([leaf() for leaf in leaves]))

    def _apart(self, way: int, value: object) -> Carried:
        """The parts of a value; what taking it apart computes belongs to its way."""
        with builder().inside(Block()) as made:
            parts = take_apart(value)
        at = self.ways[way]
        at.block.ops[at.position:at.position] = made.ops
        at.position += len(made.ops)
        return parts

    def _leaf(self, name: str, leaves: list[Scalar], old: Scalar | None) -> Any:
        first = leaves[0]
        if all(equal(first, x) for x in leaves) and (is_constant(first) or (old is not None and equal(first, old))):
            one = typed(first, _dtype(leaves)) if any(isinstance(x, Known) for x in leaves) else first
            return lambda: one
        dtype, var = _dtype(leaves), reusable(name, old)
        kept = [old is not None and equal(x, old) for x in leaves]
        if var is None or var.dtype != dtype:
            var, init = variable(name, "", dtype), first_of(old, dtype) if old is not None and any(kept) else None
            kept = [init is not None and same for same in kept]
            self.declared.append(ops.Declare(var=var, init=operand_of(NONE) if var.judged else init, loc=locate()))
        elif overwritten(var, self.scope.body):
            kept = [False] * len(leaves)
        for i, x in enumerate(leaves):
            check_dtype(f"the variable {name!r}", dtype, x, BODY)
            if not kept[i]:
                self.stored.setdefault(i, []).append((var, x))
        facts = functools.reduce(fold.meet, (facts_of(x, dtype) for x in leaves))
        chosen = var
        return lambda: Expr(builder().read(chosen, facts))


def _dtype(leaves: list[Scalar]) -> dt.DType:
    """The dtype that holds what comes on every way."""
    dtype = together(leaves[0], leaves[0])
    for x in leaves[1:]:
        dtype = together(typed(False, dtype), x)
    return dtype
