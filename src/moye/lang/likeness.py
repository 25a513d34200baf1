"""What tells static values apart that Python takes for equal: 1 and True, 0.0 and -0.0, a text and a member of an enum.

In: a static value.  Out: ``told_apart``, a key beside the value: two that are equal and told alike mean the same.

>>> told_apart((1, 2)) == told_apart((1, 2.0))
False

It looks at classes, at signs of zeros, at parts that an equality leaves out.  What changes unseen is for ``Contents``.
"""

from __future__ import annotations

import functools
import sys
import types
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from moye.lang.contents import contents_of
from moye.lang.remade import has_own_equality, held_by

_BY_EQUALITY = frozenset({str, bytes, type(None), type, types.FunctionType, types.BuiltinFunctionType,
                          types.ModuleType})


def told_apart(value: object, inside: tuple[object, ...] = ()) -> object:
    """What tells a static value from others that Python takes for equal to it; empty for moye's own, and for text.

    NaNs are alike.  ``inside`` holds the objects that are being looked at.
    """
    cls: Any = type(value)
    if cls in _BY_EQUALITY or cls.__module__.startswith("moye."):
        return ()
    if isinstance(value, (float, complex)) or cls.__module__ == "numpy":
        return cls, repr(value)
    if isinstance(value, (int, str, bytes, Enum)):
        return cls
    if isinstance(value, (tuple, list)):
        more = _attributes(value, inside) if hasattr(value, "__dict__") else ()
        return (cls, *[told_apart(item, inside) for item in value], *more)
    if isinstance(value, frozenset):                        # with the items: of whose classes the order says nothing
        return cls, frozenset([(item, told_apart(item, inside)) for item in value])
    if is_dataclass(value) and not isinstance(value, type):
        told = [told_apart(getattr(value, name), inside) for name in compared(cls)]
        return (cls, *told, *[_part(getattr(value, name, None), inside) for name in left_out(cls)])
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        return cls, repr(value)                             # Decimal("1.0") == Decimal("1.00")
    if not has_own_equality(value) or any(value is each for each in inside):
        return cls
    return cls, _attributes(value, (*inside, value))


@functools.lru_cache(1024)
def compared(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that its equality looks at."""
    return tuple(field.name for field in fields(cls) if field.compare)


@functools.lru_cache(1024)
def left_out(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that its equality leaves out: a kernel may read them as well."""
    return tuple(field.name for field in fields(cls) if not field.compare)


def _attributes(value: Any, inside: tuple[object, ...]) -> tuple[object, ...]:
    """What an object holds; nothing that it computed once for all."""
    cls = type(value)
    return tuple([(name, _part(item, inside)) for name, item in held_by(value).items()
                  if not isinstance(getattr(cls, name, None), functools.cached_property)])


def _part(item: object, inside: tuple[object, ...]) -> object:
    """A part that no equality has looked at: by value if it has a hash, else by what is in it."""
    if isinstance(item, float):
        return type(item), repr(item)                       # a NaN is not equal to itself
    try:
        hash(item)
    except TypeError:
        return contents_of(item).parts
    return item, told_apart(item, inside)


def same_value(a: object, b: object) -> bool:
    """Whether two static values mean the same to a kernel."""
    return a is b or (type(a) is type(b) and told_apart(a) == told_apart(b)
                      and (isinstance(a, (float, complex)) or bool(a == b)))
