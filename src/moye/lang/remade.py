"""Containers and dataclasses taken apart, and made anew of other parts: as ``copy.copy`` does, without a constructor.

In: an object.  Out: its parts by key; another object of its class with other parts.

>>> remade(deque([1, 2], maxlen=2), [3, 4])
deque([3, 4], maxlen=2)

A constructor, ``__new__`` or ``__post_init__`` may check, convert or count, and has done so once.  What an object holds
beyond its fields or items, such as an attribute that ``__post_init__`` sets, is a part, too.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

_HEAP = 1 << 9                                              # Py_TPFLAGS_HEAPTYPE: made by a class statement


def is_plain_instance(value: object) -> bool:
    """Whether an object is equal to itself alone, and its attributes may be set: it may mean something else later."""
    cls = type(value)
    return bool(cls.__flags__ & _HEAP) and cls.__hash__ is object.__hash__ \
        and (hasattr(value, "__dict__") or has_slots(cls)) \
        and cls.__setattr__ is object.__setattr__ and not cls.__module__.startswith("moye.")


def has_own_equality(value: object) -> bool:
    """Whether an object of a user's class says itself what it is equal to: perhaps not by all that it holds."""
    cls: Any = type(value)
    return bool(cls.__flags__ & _HEAP) and cls.__hash__ not in (None, object.__hash__) \
        and not isinstance(value, (type, int, float, complex, str, bytes, tuple, frozenset, enum.Enum)) \
        and not is_dataclass(value) and (hasattr(value, "__dict__") or has_slots(cls)) \
        and cls.__module__.partition(".")[0] not in sys.stdlib_module_names \
        and not cls.__module__.startswith("moye.")


class Attribute(NamedTuple):
    """The key of what a container holds beside its items."""

    name: str


def is_record(value: object) -> bool:
    """Whether a value is of a dataclass, and no member of an enumeration, of which there is one."""
    return is_dataclass(value) and not isinstance(value, (type, enum.Enum))


def parts_of(value: Any) -> dict[Any, Any]:
    """The parts of a container or dataclass instance by their keys: indices, keys of the dict, names of fields."""
    if isinstance(value, (tuple, list, deque)):
        base: Any = next(each for each in (tuple, list, deque) if isinstance(value, each))
        return dict(enumerate(base.__iter__(value))) | _attributes_of(value)
    if isinstance(value, dict):
        return dict(dict.items(value)) | _attributes_of(value)
    return state_of(value)


def _attributes_of(value: Any) -> dict[Any, Any]:
    held = getattr(value, "__dict__", None)
    return {Attribute(name): item for name, item in held.items()} if held else {}


def state_of(value: Any) -> dict[str, Any]:
    """What a dataclass instance holds: its fields, and then other attributes; no property computed once for all."""
    cls: Any = type(value)
    found = {name: getattr(value, name) for name in _stored(cls) if hasattr(value, name)}
    if cls.__module__.startswith("moye."):
        return found
    found.update((name, item) for name, item in held_by(value).items()
                 if name not in found and not isinstance(getattr(cls, name, None), functools.cached_property))
    return found


def held_by(value: object) -> dict[str, Any]:
    """What an instance holds in its slots and in its ``__dict__``."""
    cls: Any = type(value)
    found = {name: getattr(value, name) for name in _slots(cls) if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})


def has_slots(cls: Any) -> bool:
    """Whether instances hold what a class of Python code names as slots."""
    return bool(_slots(cls))


@functools.lru_cache(1024)
def _stored(cls: Any) -> tuple[str, ...]:
    """The fields that instances hold under their names: no property, which is made of another attribute."""
    slots = _slots(cls)
    return tuple(f.name for f in fields(cls)
                 if f.name in slots or not hasattr(type(getattr(cls, f.name, None)), "__set__"))


@functools.lru_cache(1024)
def _slots(cls: Any) -> tuple[str, ...]:
    names = (name for base in reversed(cls.__mro__) if "__slots__" in vars(base) for name, member in vars(base).items()
             if isinstance(member, types.MemberDescriptorType))
    return tuple(dict.fromkeys(names))


@functools.lru_cache(1024)
def names_of(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass whose instances hold nothing else: no method of its own makes them; () of others."""
    method = getattr(getattr(cls, "__init__", None), "__code__", None)
    written = method is None or method.co_filename != "<string>"            # not by the decorator
    return () if written or hasattr(cls, "__post_init__") or len(_stored(cls)) < len(fields(cls)) else _stored(cls)


def remade(like: Any, items: Sequence[Any]) -> Any:
    """An object like another one, with other parts, in the order of ``parts_of``."""
    cls, parts = type(like), dict(zip(parts_of(like), items, strict=True))
    if cls is tuple or cls is list:
        return cls(items)
    made = of_class(cls, {key: item for key, item in parts.items() if not isinstance(key, Attribute)},
                    like.maxlen if isinstance(like, deque) else None)
    if isinstance(like, defaultdict):
        made.default_factory = like.default_factory
    for key, item in parts.items():
        if isinstance(key, Attribute):
            made.__dict__[key.name] = item
    return made


def with_items(like: Any, items: Sequence[Any]) -> Any:
    """A container like another one with other items, and what else that holds."""
    return remade(like, [*items, *_attributes_of(like).values()])


def of_class(cls: Any, parts: Mapping[Any, Any], maxlen: int | None = None) -> Any:
    """An instance of a class of containers or a dataclass, with these parts."""
    base = _base(cls)
    if issubclass(cls, tuple):
        # Python's own classes of tuples, such as time.struct_time, take nothing else.
        return base.__new__(cls, tuple(parts.values())) if base is tuple else cls(tuple(parts.values()))
    made = base.__new__(cls)
    if issubclass(cls, deque):
        deque.__init__(made, parts.values(), maxlen)
    elif issubclass(cls, list):
        list.extend(made, parts.values())
    elif issubclass(cls, dict):
        for key, item in parts.items():
            (OrderedDict if issubclass(cls, OrderedDict) else dict).__setitem__(made, key, item)
    else:
        _set(made, parts)
    return made


def _set(made: Any, parts: Mapping[str, Any]) -> None:
    """The attributes of a new object, whatever its class does where one is set."""
    cls: Any = type(made)
    slots = _slots(cls)
    for name, item in parts.items():
        if name in slots or not hasattr(made, "__dict__"):
            object.__setattr__(made, name, item)
        else:
            made.__dict__[name] = item


def _base(cls: type) -> Any:
    """The class of Python's own that a class is made from."""
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAP)
