"""Which object a variable holds: control flow carries what is in a list or dataclass, but not which one it is.

In: values that a loop, an if or an early return takes apart, and the objects rebuilt of them.  Out: an error where such
an object, or one that it may stand for, is changed in place while something else refers to it.

    if c: a = b          # from here on ``a`` is a new list with the items of one of two
    a[0] = 7             # refused: b[0] might be meant

Without a second reference nobody can tell the two apart, and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from moye.errors import Loc, TraceError
from moye.ir.builder import Builder
from moye.lang import remade
from moye.lang.carry import is_taken_apart
from moye.lang.host_objects import equal
from moye.lang.mutable_parts import Kind, State, kinds_of
from moye.tensor.context import builder, locate


@dataclass(slots=True, eq=False)
class Standin:
    """An object rebuilt of the parts of one of several, with what is in it and in them."""

    name: str
    copies: list[object]
    states: list[tuple[Any, Kind, State]]
    originals: list[object]
    """What it may stand for."""
    loc: Loc
    shared: bool
    """Whether something else refers to one of the objects."""
    changed: bool = False

    def look(self) -> None:
        """Note whether a part of it was changed in place; an error where that shows."""
        self.changed = self.changed or any(not equal(state, kind.read(held)) for held, kind, state in self.states)
        if self.changed and self.shared:
            raise self._refused()

    def _refused(self) -> TraceError:
        kind = type(self.states[0][0]).__name__
        return TraceError(f"a loop, branch or early return of the kernel decides which {kind} {self.name} is, and one "
                          "of them is changed in place while another variable or object refers to it: "
                          "the kernel cannot tell which one changes",
                          hint="give each variable its own copy, such as list(x) or copy.deepcopy(x), before",
                          locs=(self.loc,))


_all: WeakKeyDictionary[Builder, list[Standin]] = WeakKeyDictionary()


def _standins() -> list[Standin]:
    return _all.setdefault(builder(), [])


def opened() -> int:
    """The number of stand-ins when a region opens; ``closed`` takes it."""
    return len(_standins())


def closed(mark: int) -> None:
    """A region closes, and what it changed is about to be put back: look, and forget its stand-ins."""
    look()
    forget(mark)


def forget(mark: int) -> None:
    """What was traced since ``mark`` is traced again, or lies behind."""
    del _standins()[mark:]


def look() -> None:
    """An error if a stand-in, or what it stands for, was changed in place while something else refers to it."""
    for standin in _standins():
        standin.look()


def watch(name: str, rebuilt: object, originals: Iterable[object], shared: bool) -> None:
    """From here on ``rebuilt`` stands for one of ``originals``."""
    copies, originals = list(_nodes(rebuilt)), list(originals)
    if not copies:
        return
    watched = [*copies, *(node for original in originals for node in _nodes(original))]
    states = [(node, kind, kind.read(node)) for node in watched for kind in kinds_of(type(node)) if kind.carried]
    if states:
        _standins().append(Standin(str(name), copies, states, originals, locate(), shared))


def behind(value: object) -> list[object]:
    """What the parts of a value stand for that something else refers to: a value made of this one may be those, too.

    Asked before the region closes in which they were made.
    """
    nodes = {id(node) for node in _nodes(value)}
    return [original for standin in _standins() if standin.shared and any(id(c) in nodes for c in standin.copies)
            for original in standin.originals]


def may_be(a: object, b: object) -> bool:
    """Whether the kernel decides if two objects are one: both stand for one object, or the one stands for the other."""
    return a is not b and not _meant(a).isdisjoint(_meant(b))


def _meant(value: object) -> set[int]:
    """The objects that a value may be, by their ids."""
    return {id(value), *(id(node) for standin in _standins() if any(copy is value for copy in standin.copies)
                         for original in standin.originals for node in _nodes(original))}


def has_objects(value: object) -> bool:
    """Whether some part of a value can be changed in place."""
    return next(_nodes(value), None) is not None


def is_shared(value: object, references: Mapping[int, int], own: int = 1) -> bool:
    """Whether a part of a value can be reached by more than its ``own`` references, or stands for one that can."""
    nodes = list(_nodes(value))
    if any(references.get(id(node), 0) > own for node in nodes):
        return True
    # A stand-in has references of its own: whether its original is shared must be remembered.  It is one to them, too.
    known = {id(each) for standin in _standins() if standin.shared
             for each in (*standin.copies, *(node for original in standin.originals for node in _nodes(original)))}
    return any(id(node) in known for node in nodes)


def _nodes(value: object) -> Iterator[object]:
    """The objects that rebuilding a value makes anew, if some of them can be changed in place."""
    found: list[object] = []
    if _collect(value, found):
        yield from found


def _collect(value: Any, found: list[object]) -> bool:
    """Whether a part can be changed in place; parts that are made anew are added."""
    if not is_taken_apart(value) or (remade.is_record(value) and not kinds_of(type(value))):
        return False
    parts = remade.parts_of(value).values()
    own = not value.__dataclass_params__.frozen if remade.is_record(value) else not isinstance(value, tuple)
    inner: list[object] = []
    changes = [_collect(part, inner) for part in parts]
    if own or any(changes):
        found.append(value)
        found += inner
        return True
    return False
