"""Mutable Python objects around a traced region: found when it opens, compared and put back when it closes.

In: what the region's code can reach (``reachable.py``).  Out: the places (``s.v``, ``c[0]``) that the region changed,
which control flow carries as it carries local names.

    host = Snapshot(); ...; host.changed()      # {Place('s.v'): 1.0}

What cannot be a variable of the kernel (a list that grows, a set, an iterator) is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from moye.errors import TraceError
from moye.lang.carry import Undefined
from moye.lang.mutable_parts import Kind, State, same
from moye.lang.reachable import Reached
from moye.tensor.context import locate
from moye.tensor.expr import Expr

_HINT = "make it inside the loop or branch, or keep such values in local names or a register tensor"
_ALL_PARTS = {"list": "give it all its items before the loop or branch, such as [0] * 4; mo.static_range unrolls "
                      "a loop that appends",
              "dict": "give it all its keys before the loop or branch"}


class Place(str):
    """A part of a mutable object, by the name that the user's code has for it; equal to itself alone."""

    __slots__ = ("key", "record")

    key: object
    record: _Record

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__


@dataclass(slots=True, eq=False)
class _Record:
    """One object as it was when the region opened."""

    held: Any
    kind: Kind
    path: str
    before: State
    places: dict[object, Place]

    def place(self, key: object) -> Place:
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = Place(self.kind.name(self.path, key))
            found.key, found.record = key, self
        return found


Changes = dict[Place, Any]
"""The values that are now in the places that changed; Undefined if nothing is there any more."""
Left = dict[int, State] | None
"""The objects, by number, that an arm leaves changed; None where it leaves the region."""


class Snapshot:
    """The state of everything that the code being traced can reach."""

    def __init__(self) -> None:
        reached = Reached()
        self._records = [_Record(found.held, found.kind, found.path, found.kind.read(found.held), {})
                         for found in reached.found]
        self.references = reached.references

    def holds(self, value: object) -> bool:
        """Whether an object is one of those whose state is kept."""
        return any(record.held is value for record in self._records)

    def before(self, place: Place) -> Any:
        """The value that was in a place; Undefined if nothing was."""
        keys, values = place.record.before
        return dict(zip(keys, values, strict=True)).get(place.key, Undefined(place))

    def now(self, place: Place) -> Any:
        """The value that is in a place now."""
        keys, values = place.record.kind.read(place.record.held)
        return dict(zip(keys, values, strict=True)).get(place.key, Undefined(place))

    def changed(self) -> Changes:
        """The places that hold something else now."""
        found: Changes = {}
        for record in self._records:
            keys, values = record.before
            keys_now, values_now = record.kind.read(record.held)
            if len(keys_now) == len(keys) and all(map(_is, values, values_now)) and _agree(keys, keys_now):
                continue
            if not record.kind.carried:
                if not same(values[0], values_now[0]):
                    raise _refused(record)
                continue
            if not record.kind.grows and not _agree(keys, keys_now):
                raise _refused(record)
            was, now = dict(zip(keys, values, strict=True)), dict(zip(keys_now, values_now, strict=True))
            for key in (*was, *(key for key in now if key not in was)):
                place = record.place(key)
                if key not in now:
                    found[place] = Undefined(place)
                elif key not in was or not same(was[key], now[key]):
                    found[place] = now[key]
        return found

    def states(self) -> dict[int, State]:
        """All objects that hold something else now, by their number: what an arm of an if leaves behind."""
        found: dict[int, State] = {}
        for i, record in enumerate(self._records):
            state = record.kind.read(record.held)
            if not equal(record.before, state):
                if not record.kind.carried:
                    raise _refused(record)
                found[i] = state
        return found

    def restore(self) -> None:
        """Put everything back as it was when the snapshot was taken."""
        for record in self._records:
            if record.kind.carried and not equal(record.before, record.kind.read(record.held), exact=True):
                record.kind.write(record.held, record.before)

    def put(self, values: Iterable[tuple[Place, Any]]) -> None:
        """Fill places, which may be new attributes."""
        for place, value in values:
            record = place.record
            keys, old = record.kind.read(record.held)
            state = dict(zip(keys, old, strict=True))
            state[place.key] = value
            record.kind.write(record.held, (tuple(state), list(state.values())))

    def apply(self, arm: Left) -> None:
        """Let all objects hold what an arm has left in them; they are as they were before."""
        for i, state in (arm or {}).items():
            self._records[i].kind.write(self._records[i].held, state)

    def settle(self, arms: tuple[Left, Left]) -> None:
        """Objects take the parts of the arm that goes on; where both do, the parts must agree, but for attributes."""
        for i in sorted({i for arm in arms if arm is not None for i in arm}):
            record = self._records[i]
            kept = [arm.get(i, record.before) for arm in arms if arm is not None]
            if len(kept) == 2 and not record.kind.grows and not _agree(kept[0][0], kept[1][0]):
                raise _refused(record)
            record.kind.write(record.held, kept[0])

    def differences(self, arms: tuple[Left, Left]) -> list[tuple[Place, Any, Any, Any]]:
        """(place, before, after one arm, after the other) of what differs; an arm that left the region is None."""
        found: list[tuple[Place, Any, Any, Any]] = []
        for i in sorted({i for arm in arms if arm is not None for i in arm}):
            record = self._records[i]
            states = [None if arm is None else arm.get(i, record.before) for arm in arms]
            one, other = states
            kept = [state for state in states if state is not None]
            was = dict(zip(*record.before, strict=True))
            held = [{} if state is None else dict(zip(*state, strict=True)) for state in states]
            for key in dict.fromkeys(key for state in kept for key in state[0]):
                place = record.place(key)
                missing = Undefined(place)
                before, values = was.get(key, missing), [parts.get(key, missing) for parts in held]
                first, second = (values[0], before) if other is None else (values[1], before) if one is None else values
                if not same(first, second):
                    found.append((place, before, values[0], values[1]))
        return found


def _is(a: object, b: object) -> bool:
    return a is b


def _agree(a: Sequence[object], b: Sequence[object]) -> bool:
    """Whether two objects have the same parts in the same order."""
    return len(a) == len(b) and ((isinstance(a, range) and isinstance(b, range))
                                 or all(_same_key(x, y) for x, y in zip(a, b, strict=True)))


def _same_key(a: object, b: object) -> bool:
    return a is b or (not isinstance(a, Expr) and type(a) is type(b) and bool(a == b))


def equal(a: State, b: State, *, exact: bool = False) -> bool:
    """Whether two states have the same parts."""
    return len(a[1]) == len(b[1]) and all(map(_is if exact else same, a[1], b[1])) and _agree(a[0], b[0])


def _refused(record: _Record) -> TraceError:
    kind = type(record.held).__name__
    what = "moves on" if hasattr(record.held, "__next__") else "changes its parts"
    return TraceError(f"the {kind} {record.path} {what} in a loop or branch of the kernel, which is traced once: "
                      "the kernel cannot do that as often as Python would", hint=_ALL_PARTS.get(kind, _HINT),
                      locs=(locate(),))
