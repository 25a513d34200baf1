"""What the objects that a kernel uses do: functions in them, and attributes that some code asks for.

In: code that may run while tracing, values that it reads.  Out: functions, and attributes of classes, modules and
functions, that count.

    found = Behaviour(is_users)
    found.reads(code); found.holds(config); found.functions(); found.attributes()

Methods, properties and operators run as plain Python, so that nothing but their classes tells of them.  Constructors
count where code may construct: where it names the class, or asks for the class of an object.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import sys
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
_ASKS_WHETHER = {"getattr", "hasattr"}
_SEES_GLOBALS = {"globals", "eval", "exec"}
_WORD = re.compile(r"[^\W\d]\w*")
_OF_JIT = {"function", "_rewritten", "_parts", "_inside", "__wrapped__"}

_OF_A_LAUNCH = {"block_dim", "cluster_dim", "thread_idx", "block_idx", "grid_dim", "linear_thread", "lane_idx",
                "warp_idx", "cluster_idx", "cluster_rank", "block_in_cluster_idx"}
"""What a function asks for that has another answer in another launch."""

MISSING = object()
"""In the place of the value of a name that is not there."""


class Behaviour:
    """``is_users`` tells by its module whether something may change at all."""

    def __init__(self, is_users: Callable[[str | None], bool]) -> None:
        self._is_users = is_users
        self._names: set[str] = set()
        self._asked: set[str] = set()                       # names that may be missing: getattr(x, "name", 0)
        self._functions: dict[int, types.FunctionType] = {}
        self._classes: dict[type, bool] = {}                # whether it may be constructed
        self._used: dict[type, None] = {}                   # classes of objects, not those that they are derived from
        self._spaces: dict[int, dict[str, Any]] = {}        # names of modules, attributes of functions
        self._cached: dict[int, Any] = {}                   # functions under functools.cache
        self._objects: list[Any] = []                       # that may keep what a functools.cached_property gave
        self._told: set[tuple[int, str]] = set()
        self._looked: tuple[int, ...] = ()

    def reads(self, code: types.CodeType, names: dict[str, Any] | None = None) -> None:
        """Code may run: attributes of the names in it count, also those that it has as text.

        ``names`` are its globals; modules that it imports are held.
        """
        names = names or {}
        self._names.update(code.co_names, ("cls",) if "cls" in code.co_varnames else ())
        texts = [value for value in code.co_consts if isinstance(value, str)]
        if _SEES_GLOBALS & {*code.co_names}:                # eval("N + 1")
            self._spaces[id(names)] = names
            self._names.update(word for text in texts for word in _WORD.findall(text))
        self._names.update(text for text in texts if text.isidentifier())
        if _ASKS_WHETHER & {*code.co_names}:
            self._asked.update(text for text in texts if text.isidentifier())
        package = names.get("__package__") or ""
        for name in (*code.co_names, *texts):
            for whole in (name, f"{package}.{name}") if package else (name,):
                if (module := sys.modules.get(whole)) is not None:
                    self.holds(module)
        for value in code.co_consts:
            if isinstance(value, types.CodeType):
                self.reads(value, names)

    def holds(self, value: object, named: bool = False) -> None:
        """Code may use a value; ``named`` says that it reads it under a name, and may construct what is a class."""
        self._look(value, [_MOST_PARTS], named)

    def functions(self) -> list[types.FunctionType]:
        """All functions that were found so far."""
        return list(self._functions.values())

    def forget(self) -> None:
        """Empty the caches of functions that ask for threads or blocks: another trace has other answers.

        By their names: who names a function that asks, asks as well.
        """
        if not (self._cached or self._objects):
            return
        asks, reads, known = {*_OF_A_LAUNCH}, {f.__name__: _asked_by(f) for f in self._functions.values()}, 0
        while known != (known := len(asks)):
            asks.update(name for name, names in reads.items() if names & asks)
        for cached in self._cached.values():
            if any(_asked_by(function) & asks for function in _functions_of(cached)):
                cached.cache_clear()
        for value in self._objects:
            items = [item for base in type(value).__mro__ for item in vars(base).items()]
            for name in {name for name, item in items if isinstance(item, functools.cached_property) and name in asks}:
                vars(value).pop(name, None)

    def attributes(self) -> Iterator[tuple[type | dict[str, Any], str, object]]:
        """The attributes that count and were not told before: where they are, their names, their values."""
        while self._looked != (now := (len(self._names), len(self._asked), len(self._spaces), len(self._used),
                                       sum(1 + may for may in self._classes.values()))):
            self._looked = now
            for cls, constructs in list(self._classes.items()):
                for name, item in list(vars(cls).items()):
                    if (id(cls), name) not in self._told and self._counts(cls, name, item, constructs):
                        self._told.add((id(cls), name))
                        self.holds(item)
                        yield cls, name, item
            for space in list(self._spaces.values()):
                for name in self._names & space.keys() - (_OF_JIT if "_rewritten" in space else set()):
                    if (id(space), name) not in self._told:
                        self._told.add((id(space), name))
                        self.holds(space[name], named=True)
                        yield space, name, space[name]
            yield from self._missing()

    def _missing(self) -> Iterator[tuple[type | dict[str, Any], str, object]]:
        """Names that are not there, and would count: in a class before the one that has them, and those asked for."""
        places: list[tuple[type | dict[str, Any], str]] = []
        for cls in self._used:
            for i, base in enumerate(cls.__mro__):
                places += [(before, name) for name in vars(base) if (id(base), name) in self._told
                           for before in cls.__mro__[:i] if before in self._classes and name not in vars(before)]
            nowhere = [name for name in self._asked if not any(name in vars(base) for base in cls.__mro__)]
            places += [(base, name) for base in cls.__mro__ if base in self._classes for name in nowhere]
        places += [(space, name) for space in self._spaces.values() if "__name__" in space      # a module's
                   for name in self._asked - space.keys()]
        for place, name in places:
            if (id(place), name) not in self._told:
                self._told.add((id(place), name))
                yield place, name, MISSING

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
        elif isinstance(value, types.ModuleType):
            if self._is_users(value.__name__):
                self._spaces[id(vars(value))] = vars(value)
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
            own = [f for f in functions if self._is_users(f.__module__)]
            if own and isinstance(value, functools._lru_cache_wrapper):
                self._cached[id(value)] = value
            self._functions.update((id(f), f) for f in own)
            for held in (vars(f) for f in (*own, *([value] if own and _is_jit(value) else ()))):
                if held:
                    self._spaces[id(held)] = held
        elif self._is_users(type(value).__module__):
            self._class(type(value), False)
            if hasattr(value, "__dict__"):
                self._objects.append(value)
            if holds_attributes(value):
                self._look(list(held_by(value).values()), left)

    def _class(self, cls: type, named: bool) -> None:
        meta: Any = type(cls)
        if self._is_users(cls.__module__) and not issubclass(cls, enum.Enum):
            self._used[cls] = None
        for base in (*cls.__mro__, *meta.__mro__):
            if self._is_users(base.__module__):
                if base not in self._classes:
                    for each in vars(base).get("__dataclass_fields__", {}).values():    # no code of the user's has them
                        self.holds((each.default, each.default_factory))
                self._classes[base] = self._classes.get(base, False) or named


def _functions_of(value: Any) -> Iterator[types.FunctionType]:
    """The functions that a function, method, property or wrapper of Python's or moye's calls."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _functions_of(value.__func__)
    elif isinstance(value, property):
        for accessor in (value.fget, value.fset, value.fdel):
            yield from _functions_of(accessor)
    elif isinstance(value, (functools.cached_property, functools.partialmethod)):
        yield from _functions_of(value.func)
    elif isinstance(value, functools._lru_cache_wrapper) or _is_jit(value):
        yield from _functions_of(value.__wrapped__)


def _asked_by(function: types.FunctionType) -> set[str]:
    """The names that a function reads, of variables and attributes."""
    names, codes = set[str](), [function.__code__]
    for code in codes:                                      # it grows
        names.update(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return names


def _is_jit(value: object) -> bool:
    cls = type(value)
    return (cls.__module__, cls.__name__) == ("moye.lang.trace", "JitFunction")
