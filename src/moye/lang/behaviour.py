"""What the objects that a kernel uses do: functions in them, and attributes of their classes that some code asks for.

In: code that may run while tracing, values that it reads.  Out: functions, and attributes of classes, that count.

    found = Behaviour(is_users)
    found.reads(code); found.holds(config); found.functions(); found.attributes()

Methods, properties and operators run as plain Python, so that nothing but their classes tells of them.  Constructors
count where code may construct: where it names the class, or asks for the class of an object.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from moye.lang.contents import holds_attributes
from moye.lang.remade import held_by

_MOST_PARTS = 32
"""Objects in one value that are looked at, as ``contents.py`` compares so many."""
_CONTAINERS = (tuple, list, set, frozenset, collections.deque)
_CONSTRUCTORS = {"__new__", "__init__", "__post_init__"}
_ASKS_FOR_CLASSES = {"type", "cls", "__class__", "replace"}
_FIXED = (types.MemberDescriptorType, types.GetSetDescriptorType)


class Behaviour:
    """``is_users`` tells by its module whether something may change at all."""

    def __init__(self, is_users: Callable[[str | None], bool]) -> None:
        self._is_users = is_users
        self._names: set[str] = set()
        self._functions: dict[int, types.FunctionType] = {}
        self._classes: dict[type, bool] = {}                # whether it may be constructed
        self._told: set[tuple[type, str]] = set()
        self._looked = 0, 0

    def reads(self, code: types.CodeType) -> None:
        """Code may run: attributes of the names in it count, also those that it has as text."""
        self._names.update(code.co_names, ("cls",) if "cls" in code.co_varnames else ())
        for value in code.co_consts:
            if isinstance(value, types.CodeType):
                self.reads(value)
            elif isinstance(value, str) and value.isidentifier():
                self._names.add(value)

    def holds(self, value: object, named: bool = False) -> None:
        """Code may use a value; ``named`` says that it reads it under a name, and may construct what is a class."""
        self._look(value, [_MOST_PARTS], named)

    def functions(self) -> list[types.FunctionType]:
        """All functions that were found so far."""
        return list(self._functions.values())

    def attributes(self) -> Iterator[tuple[type, str, object]]:
        """The attributes of classes that count and were not told before."""
        while self._looked != (now := (len(self._names), sum(1 + may for may in self._classes.values()))):
            self._looked = now
            for cls, constructs in list(self._classes.items()):
                for name, item in list(vars(cls).items()):
                    if (cls, name) not in self._told and self._counts(cls, name, item, constructs):
                        self._told.add((cls, name))
                        self.holds(item)
                        yield cls, name, item

    def _counts(self, cls: type, name: str, item: object, constructs: bool) -> bool:
        function = next(_functions_of(item), None)
        if name.startswith("__") and name.endswith("__"):
            if name in _CONSTRUCTORS and not constructs and not self._names & _ASKS_FOR_CLASSES:
                return False
            # What a decorator such as dataclass writes reads nothing of the user's.
            return function is not None and function.__code__.co_filename != "<string>"
        if isinstance(item, _FIXED) or (issubclass(cls, enum.Enum) and function is None):
            return False
        return name in self._names

    def _look(self, value: Any, left: list[int], named: bool = False) -> None:
        left[0] -= 1
        if left[0] < 0:
            return
        if isinstance(value, type):
            self._class(value, named)
        elif isinstance(value, _CONTAINERS):
            for item in value:
                self._look(item, left)
        elif isinstance(value, dict):
            for item in value.values():
                self._look(item, left)
        elif isinstance(value, functools.partial):
            self._look((value.func, value.args, value.keywords), left)
        elif isinstance(value, types.MethodType):
            self._look((value.__func__, value.__self__), left)
        elif functions := list(_functions_of(value)):
            self._functions.update((id(f), f) for f in functions if self._is_users(f.__module__))
        elif self._is_users(type(value).__module__):
            self._class(type(value), False)
            if holds_attributes(value):
                self._look(list(held_by(value).values()), left)

    def _class(self, cls: type, named: bool) -> None:
        meta: Any = type(cls)
        for base in (*cls.__mro__, *meta.__mro__):
            if self._is_users(base.__module__):
                self._classes[base] = self._classes.get(base, False) or named


def _functions_of(value: Any) -> Iterator[types.FunctionType]:
    """The functions that a function, method, property or wrapper of Python's or moye's calls."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _functions_of(value.__func__)
    elif isinstance(value, property):
        yield from _functions_of(value.fget)
    elif isinstance(value, (functools.cached_property, functools.partialmethod)):
        yield from _functions_of(value.func)
    elif isinstance(value, functools._lru_cache_wrapper) or _is_jit(value):
        yield from _functions_of(value.__wrapped__)


def _is_jit(value: object) -> bool:
    cls = type(value)
    return (cls.__module__, cls.__name__) == ("moye.lang.trace", "JitFunction")
