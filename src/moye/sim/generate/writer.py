"""Python source under construction: lines, constants, names, and the mask in force.

In: operands and levels.  Out: ``Writer``: what emit_*.py write with.

    w.operand(value), w.mask        # "v12", "m0"

Generated functions are ``s3(B, E, M)``: batch, values of the group, mask; they use the names in ``GLOBALS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from moye.dtypes import DType, Kind
from moye.ir import ops
from moye.ir.constants import limits
from moye.ir.nodes import Func, Literal, Operand, Value, Var
from moye.sim.flow.segments import Loops, name_of
from moye.sim.flow.uniformity import SCALAR, Levels
from moye.sim.operations.debug import say
from moye.sim.operations.warp import elect, match, redux, shuffle, vote
from moye.sim.values import masks, scalars
from moye.sim.values.memory import numpy_dtype

GLOBALS: dict[str, Any] = {
    "np": np, "both": masks.both, "minus": masks.minus, "inside": masks.inside, "wide": masks.wide,
    "choose": masks.choose,
    "cast": scalars.cast, "bitcast": scalars.bitcast, "wrap": scalars.wrap, "to_scalar": scalars.to_scalar,
    "shuffle": shuffle, "vote": vote, "redux": redux, "match": match, "elect": elect, "say": say,
}


O = TypeVar("O", bound=ops.Op)  # noqa: E741
EMITTERS: dict[type[ops.Op], Callable[[Any, Any], None]] = {}
"""What writes the source of an op."""
AWAITED: dict[type[ops.Op], Callable[[Any, Any], str]] = {}
"""Of an op that lanes wait at, and that does nothing itself: the expression of what they wait for."""


def emits(kind: type[O]) -> Callable[[Callable[[Any, O], None]], Callable[[Any, O], None]]:
    """The function that writes ops of this class, from a Writer and the op."""
    def note(function: Callable[[Any, O], None]) -> Callable[[Any, O], None]:
        EMITTERS[kind] = function
        return function
    return note


def awaits(kind: type[O], *more: type[ops.Op]) -> Callable[[Callable[[Any, O], str]], Callable[[Any, O], str]]:
    """The function that writes what lanes at ops of these classes wait for, from a Writer and the op."""
    def note(function: Callable[[Any, O], str]) -> Callable[[Any, O], str]:
        AWAITED.update(dict.fromkeys((kind, *more), function))
        return function
    return note


class Writer:
    """Writes the functions of one program."""

    def __init__(self, func: Func, levels: Levels, check: bool, loops: Loops | None = None) -> None:
        self.func, self.levels, self.check = func, levels, check
        self.loops: Loops = loops or {}
        """The variables of the loops around each wait for copies, which findings tell."""
        self.lines: list[str] = []
        self.depth = 0
        self.scope: dict[str, Any] = dict(GLOBALS)
        self.sites: list[Any] = []
        self.mask = "M"
        self.masks: list[tuple[object, str]] = []
        """(op or None, name) of every mask in force, outermost first: an exit takes lanes from those it leaves."""
        self._constants: dict[object, str] = {}
        self._fresh = 0

    # --- text --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, thing: Any, prefix: str) -> str:
        """A global name for an object: np_add for NumPy's add."""
        if isinstance(thing, np.ufunc):
            self.scope[f"np_{thing.__name__}"] = thing
            return f"np_{thing.__name__}"
        name = self._constants.get(id(thing))
        if name is None:
            name = self._constants[id(thing)] = self.fresh(prefix)
            self.scope[name] = thing
        return name

    def dtype(self, dtype: DType) -> str:
        """A global name for the NumPy dtype."""
        name = f"D_{dtype.name}"
        self.scope.setdefault(name, numpy_dtype(dtype))
        return name

    def moye_dtype(self, dtype: DType) -> str:
        name = f"T_{dtype.name}"
        self.scope.setdefault(name, dtype)
        return name

    def site(self, site: Any) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    # --- operands ----------------------------------------------------------------------------------------------------

    def operand(self, operand: Operand) -> str:
        """The expression of an operand, a Python or NumPy scalar if it is uniform, else an array."""
        if not isinstance(operand, Literal):
            return name_of(operand)
        dtype = operand.dtype
        if dtype.is_float:
            key = (dtype.name, repr(operand.value))
            name = self._constants.get(key)
            if name is None:
                name = self._constants[key] = self.fresh("C")
                self.scope[name] = scalars.constant(operand.value, dtype)
            return name
        if dtype.kind is Kind.BOOL:
            return repr(bool(operand.value))
        low, _ = limits(dtype)
        number = scalars.wrap(int(operand.value), dtype.bits, low < 0)
        return f"({number})" if number < 0 else str(number)

    def as_level(self, operand: Operand, level: int) -> str:
        """The operand as a Var or Value of this level holds it: an array unless it is uniform."""
        text = self.operand(operand)
        if level == SCALAR or self.levels.of(operand) != SCALAR:
            return text
        return f"wide({text}, {self.dtype(operand.dtype)})"

    def level(self, *operands: Operand) -> int:
        return self.levels.join(operands)

    def name(self, item: Value | Var) -> str:
        return name_of(item)

    def op(self, op: ops.Op) -> str:
        """A global name for the op, for messages."""
        return self.constant(op, "OP")
