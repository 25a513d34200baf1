"""Arms that facts rule out: traced and forgotten, for the dtypes that both arms have together.

In: ``a if c else b`` and ``if c:`` where facts decided c.  Out: the values of the arm that is taken, each in the dtype
that a traced c gives it.

    decided_value(a, lambda: b, lambda: (f,))       # b calls f

What tracing itself decides, Python's numbers and ``mo.Constexpr``, takes an arm as it is: see ``branches.StaticIf``.
"""

from __future__ import annotations

import builtins
import types
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from typing import Any

from moye.ir.builder import Mark
from moye.ir.nodes import Block
from moye.lang import identity, remade
from moye.lang.branches import Branch, Locals
from moye.lang.disagreement import agrees
from moye.lang.host_objects import Snapshot
from moye.lang.mutable_parts import same
from moye.lang.scopes import regions
from moye.tensor.context import builder
from moye.tensor.expr import Expr, is_scalar, together, typed

_HARMLESS = (abs, bool, divmod, float, int, len, max, min, pow, range, round, sum)
_TRIALS = 4


class Trial:
    """What is traced between its beginning and ``forget`` leaves nothing behind, but what ``host`` cannot put back."""

    def __init__(self) -> None:
        b = builder()
        self.mark: Mark = b.mark()
        self.depth, self.trips, self.standins = len(regions()), b.trips, identity.opened()
        self.host, self.others = Snapshot(), b.trials
        b.trials += 1
        b.push(Block())

    def forget(self) -> None:
        b = builder()
        b.trials = self.others                              # trials inside of it that an error left, too
        self.host.restore()
        identity.forget(self.standins)
        b.rollback(self.mark)
        b.trips = self.trips
        del regions()[self.depth:]


def decided_value(value: object, other: Callable[[], object],
                  called: Callable[[], tuple[object, ...]] | None) -> object:
    """``a if cond else b`` where facts decided: the one value, in the dtype that both have together.

    The other one is computed and forgotten, unless it calls what changes something that cannot be put back.
    """
    if not _has_scalars(value) or called is None or builder().trials >= _TRIALS:
        return value
    trial, found = Trial(), None
    try:
        if all(map(_may_be_tried, called())):
            found = other()
    except Exception:                                       # it does not exist where facts rule it out
        found = None
    finally:
        trial.forget()
    trial.host.changed()                                    # refuses what cannot be put back
    return _as_with(value, found)


class DecidedIf(Branch):
    """An if statement that facts decided."""

    def __init__(self, cond: bool, names: tuple[str, ...], dead: tuple[str, ...], called: tuple[str, ...],
                 around: MutableMapping[str, Any]) -> None:
        super().__init__(names)
        self.cond, self.dead, self.called, self.around = cond, dead, called, around
        self.before: tuple[Any, ...] = ()
        self.kept: tuple[Any, ...] | None = None
        """The values that the arm leaves that is taken."""
        self.other: tuple[Any, ...] | None = None
        self.trial: Trial | None = None

    def then(self, variables: Locals) -> bool:
        self.before = self._values(variables)
        self.around = ChainMap(variables, self.around)
        return self.cond or self._tries()

    def end_then(self, variables: Locals) -> None:
        self._leave(variables)

    def orelse(self) -> bool:
        return not self.cond or (any(map(_has_scalars, self.kept or ())) and self._tries())

    def restore(self) -> tuple[Any, ...]:
        return self.before

    def end_else(self, variables: Locals) -> None:
        self._leave(variables)

    def merge(self, variables: Locals) -> tuple[Any, ...]:
        kept = self._values(variables) if self.kept is None else self.kept
        if self.other is None:
            return kept
        return tuple(value if name in self.dead or same(value, other) else _joined(value, other)
                     for name, value, other in zip(self.names, kept, self.other, strict=True))

    def __exit__(self, kind: type[BaseException] | None, error: object, where: object) -> bool:
        """What goes wrong in the arm that is not taken does not exist."""
        if self.trial is None:
            return False
        trial, self.trial = self.trial, None
        trial.forget()
        trial.host.changed()                                # refuses what cannot be put back
        return kind is None or issubclass(kind, Exception)

    def _tries(self) -> bool:
        """Begin to trace the arm that is not taken, if that can be forgotten."""
        if builder().trials >= _TRIALS or builder().terminated():
            return False
        if not all(map(_may_be_tried, (self._function(name) for name in self.called))):
            return False
        self.trial = Trial()
        return True

    def _function(self, name: str) -> object:
        """What the source calls; None if it is made in an arm."""
        first, *parts = name.split(".")
        found: Any = self.around.get(first, getattr(builtins, first, None))
        for part in parts:
            found = getattr(found, part, None)
        return found

    def _leave(self, variables: Locals) -> None:
        if self.trial is None:
            self.kept = self._values(variables)
        else:
            self.other = self._values(variables)


def _joined(value: Any, other: Any) -> Any:
    """The value, in the dtype of both if a variable could have it: as where a traced condition decides."""
    if isinstance(value, tuple):
        if type(value) is not type(other) or len(value) != len(other):
            return value
        items = [_joined(x, y) for x, y in zip(value, other, strict=True)]
        return remade.with_items(value, items)
    if not (is_scalar(value) and is_scalar(other)) or same(value, other):
        return value
    dtype = together(value, other)
    if isinstance(value, Expr) and value.dtype == dtype:
        return value
    return typed(value, dtype) if agrees(dtype, value) and agrees(dtype, other) else value


def _has_scalars(value: object) -> bool:
    return any(map(_has_scalars, value)) if isinstance(value, tuple) else is_scalar(value)


def _as_with(value: Any, other: Any) -> Any:
    """A scalar, and those in a tuple, in the dtype that it and the other one have together."""
    if isinstance(value, tuple):
        if type(value) is not type(other) or len(value) != len(other):
            return value
        items = [_as_with(x, y) for x, y in zip(value, other, strict=True)]
        return remade.with_items(value, items)
    return typed(value, together(value, other)) if is_scalar(value) and is_scalar(other) else value


def _may_be_tried(function: object) -> bool:
    """Whether what a function changes can be put back: moye's own, Python's harmless ones, those written in Python."""
    own = any(function is one for one in _HARMLESS) or type_module(function).split(".")[0] in ("moye", "math")
    return own or isinstance(function, (types.FunctionType, types.MethodType, type))


def type_module(function: object) -> str:
    """The module that a function, dtype or bound method is from."""
    return str(getattr(function, "__module__", None) or type(function).__module__)
