"""Returns while tracing: of a kernel (the thread ends) and of an inlined device function (its scope ends).

In: the protocol of ``rewrite.py``: ``return_``, ``value``, ``finish``.  Out: ``ops.Exit`` and, for traced early returns
with values, Vars that hold the result.

    f = Returns(code); s = f.return_(x)    # 1: return now; 2: continue the enclosing loop; 0: go on tracing
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from moye.dtypes import DType
from moye.errors import TraceError
from moye.ir import fold, ops
from moye.ir.nodes import Block, Operand, Var
from moye.lang import identity
from moye.lang.beside import NONE
from moye.lang.branches import DynamicIf
from moye.lang.carry import carried_dtype, fit, rebuild, same_structure, take_apart, united, variable, widen
from moye.lang.disagreement import RETURNS, changed_structure, check_dtype
from moye.lang.host_objects import Place, Snapshot
from moye.lang.loops import Loop
from moye.lang.reachable import Reached
from moye.lang.scopes import above, regions, require_end
from moye.lang.unrolled import StaticFor
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.known import Known


class KernelMarker:
    """On the stack of regions at the entry of the kernel itself, whose code it knows: returns there end the thread."""

    def __init__(self, code: CodeType) -> None:
        self.code = code


@dataclass(slots=True)
class _Part:
    """A part of a Python object, and the variables that hold it."""

    structure: Any
    variables: list[Var]
    facts: list[fold.Facts]
    objects: list[object] = field(default_factory=list)
    """What may be in it, if that can be changed in place."""
    shared: bool = False


class Returns:
    """One call of a function that returns from inside compound statements."""

    def __init__(self, code: CodeType) -> None:
        stack = regions()
        self.kernel = bool(stack) and isinstance(stack[-1], KernelMarker) and stack[-1].code is code
        self.name = code.co_name
        self.value: Any = None
        self.structure: Any = None
        self.variables: list[Var] = []
        self.facts: list[fold.Facts] = []
        self.left = False
        self.objects: list[object] = []
        self.behind: list[object] = []
        """What these may stand for."""
        self.shared = False
        self.host = None if self.kernel else Snapshot()
        self.parts: dict[Place, _Part] = {}
        """Parts of Python objects that some way out of the function changed, and the Vars that hold them."""
        self.scope = ops.Scope(body=Block(), loc=locate())
        stack.append(self)
        if not self.kernel:
            builder().push(self.scope.body)

    def return_(self, value: Any, through: bool = False) -> int:
        """A return; ``through``: it leaves a with statement."""
        unrolled = [r for r in above(self) if isinstance(r, StaticFor)]
        inner = [r for r in above(self) if isinstance(r, DynamicIf) or (isinstance(r, Loop) and r.dynamic)
                 or (r in unrolled and r.left)]
        if not inner:
            for loop in reversed(unrolled):
                loop.abandon()
        if not inner and not self.left:
            self.value = value
            self._close()
            return 1
        require_end("return", through)
        self._store(value)
        builder().emit(ops.Exit(kind="return") if self.kernel else ops.Exit(kind="leave", target=self.scope))
        self.left = True
        if not inner:
            self.value = self.finish()
            return 1
        return 2 if isinstance(inner[-1], Loop) and inner[-1].dynamic else 0

    def _store(self, value: Any) -> None:
        if self.kernel:
            if value is not None:
                raise TraceError(f"a kernel returns nothing, not {value!r}", locs=(locate(),))
            return
        if builder().terminated():
            return
        self._store_parts()
        identity.look()
        parts = take_apart(value)
        self._note_object(value)
        if not self.left:
            self.structure = parts.structure
            self.variables = [variable("result", part, carried_dtype(leaf))
                              for leaf, part in zip(parts.leaves, parts.names, strict=True)]
            self.facts = [fold.facts_of(operand_of(leaf, v.dtype)) if v.dtype.is_integer else (None, None, 1)
                          for leaf, v in zip(parts.leaves, self.variables, strict=True)]
        elif not same_structure(parts.structure, self.structure):
            raise changed_structure(f"the value of {self.name}", self.structure, parts.structure, RETURNS)
        widen(self, parts.structure, "result")
        parts = fit(parts, self.structure)
        pairs: list[tuple[Var, Operand]] = []
        for i, leaf in enumerate(parts.leaves):
            _check_result(self.name, self.variables[i].dtype, leaf)
            operand = operand_of(leaf, self.variables[i].dtype)
            if self.variables[i].dtype.is_integer:
                self.facts[i] = fold.meet(self.facts[i], fold.facts_of(operand))
            pairs.append((self.variables[i], operand))
        if pairs:
            builder().emit(ops.Assign(pairs=tuple(pairs)))

    def _note_object(self, value: Any) -> None:
        """The mutable objects that the function returns, and whether its callers have them too."""
        if identity.has_objects(value):
            self.shared = self.shared or identity.is_shared(value, Reached(callers=True).references, 0)
        self.objects.append(value)
        self.behind += identity.behind(value)

    def _result(self) -> Any:
        """The value behind the function: of an object that is the same one on every way, itself."""
        first, *others = self.objects
        if identity.has_objects(first) and all(x is first for x in others) and self.host is not None \
                and self.host.holds(first):
            return first
        reads = [Expr(builder().read(v, f)) for v, f in zip(self.variables, self.facts, strict=True)]
        return rebuild(self.structure, iter(reads))

    def _store_parts(self) -> None:
        """Keep what the function changed so far in Python objects: their old values are the Vars' first ones."""
        assert self.host is not None, "of a device function"
        for place, value in self.host.changed().items():
            now = take_apart(value)
            if place not in self.parts:
                was = take_apart(self.host.before(place))
                if not same_structure(was.structure, now.structure):
                    raise changed_structure(f"the variable {place!r}", was.structure, now.structure, RETURNS)
                both = united(was.structure, now.structure)
                was, now = fit(was, both), fit(now, both)
                held = []
                for old, new, part in zip(was.leaves, now.leaves, was.names, strict=True):
                    dtype = carried_dtype(new if isinstance(new, (Expr, Known)) else old)
                    held.append(variable(place, part, dtype))
                self.parts[place] = _Part(both, held, [(None, None, 1)] * len(held))
        pairs = []
        for place, part_ in self.parts.items():
            now = take_apart(self.host.now(place))
            if not same_structure(part_.structure, now.structure):
                raise changed_structure(f"the variable {place!r}", part_.structure, now.structure, RETURNS)
            widen(part_, now.structure, place)
            self._note_part(part_, place)
            for var, leaf in zip(part_.variables, fit(now, part_.structure).leaves, strict=True):
                check_dtype(f"the variable {place!r}", var.dtype, leaf, RETURNS)
                pairs.append((var, operand_of(leaf, var.dtype)))
        if pairs:
            builder().emit(ops.Assign(pairs=tuple(pairs)))

    def _note_part(self, part: _Part, place: Place) -> None:
        """The objects that may be in a place behind the function."""
        assert self.host is not None, "of a device function"
        now = self.host.now(place)
        if identity.has_objects(now):
            was = self.host.before(place)
            part.shared |= identity.is_shared(now, Reached(callers=True).references) or \
                identity.is_shared(was, self.host.references)
            part.objects += [was, now, *identity.behind(now)]

    def finish(self) -> Any:
        """The end of the function: merge what early returns left."""
        if self not in regions():
            return self.value
        if self.left and not self.kernel and self.variables and not builder().terminated():
            raise TraceError(f"{self.name} returns a value under a traced condition, but not on every path",
                             hint="end it with a return of such a value", locs=(locate(),))
        if self.left and not self.kernel and not builder().terminated():
            self._store_parts()
        self._close()
        return self.value

    def _close(self) -> None:
        b = builder()
        stack = regions()
        del stack[stack.index(self):]
        if self.kernel:
            return
        if not self.left:
            b.join()
            return
        b.pop()
        for var in self.variables:
            b.declare(var, operand_of(NONE) if var.judged else None)
        if self.host is not None:
            self.host.restore()
        self._declare_parts()
        b.emit(self.scope)
        self.value = self._result() if self.structure is not None else None
        if self.host is not None:
            parts = {place: rebuild(part.structure, iter([Expr(b.read(var)) for var in part.variables]))
                     for place, part in self.parts.items()}
            self.host.put(parts.items())
            for place, value in parts.items():
                part = self.parts[place]
                identity.watch(place, value, part.objects if part.shared else (), part.shared)
        if not any(self.value is value for value in self.objects):
            identity.watch(f"the result of {self.name}", self.value,
                           (*self.objects, *self.behind) if self.shared else (), self.shared)

    def _declare_parts(self) -> None:
        for place, part in self.parts.items():
            assert self.host is not None, "of a device function"
            before = fit(take_apart(self.host.before(place)), part.structure)
            for var, leaf in zip(part.variables, before.leaves, strict=True):
                check_dtype(f"the variable {place!r}", var.dtype, leaf, RETURNS)
                builder().declare(var, operand_of(leaf, var.dtype))


def _check_result(name: str, dtype: DType, leaf: Scalar) -> None:
    try:
        check_dtype(name, dtype, leaf, RETURNS)
    except TraceError:
        raise TraceError(f"{name} returns {dtype} on one path and {carried_dtype(leaf)} on another",
                         hint=f"convert one of them, with mo.{dtype}(...) or mo.{carried_dtype(leaf)}(...)",
                         locs=(locate(),)) from None
