"""The public form of the algebra: it decides what functions do with arguments of the wrong type.

In: a verb.  Out: the same verb, which takes NumPy's integers for Python's and lists for tuples, and whose misuse is
one LayoutError: Python would multiply a string, or an array, by an integer.

>>> mo.complement("abc")
Traceback (most recent call last):
    ...
moye.errors.LayoutError: complement: layout must be a layout, not 'abc' of type str

moye's own modules call the functions below directly, without this check.  A correct call costs a look at its types.
Errors of the algebra itself pass through as they are.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from moye.errors import LayoutError, MoyeError
from moye.layout.basis import ScaledBasis
from moye.layout.ints import DynInt
from moye.layout.layout import Layout
from moye.layout.swizzle import Swizzle
from moye.layout.tuples import Major
from moye.layout.wrapped import OffsetFunction, WrappedLayout

F = TypeVar("F", bound=Callable[..., Any])
Test = Callable[[object], bool]

# What falls out of an algorithm that is handed what it was not written for.
MISUSE = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RecursionError, MemoryError)
LONGEST = 60
_OWN = (int, bool, type(None), slice, Layout)
_AS_IT_IS = (*_OWN, str, float)


def plain(value: Any) -> Any:
    """An argument with NumPy's integers, also inside of tuples and lists, made Python's, and lists made tuples."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is tuple or kind is list:
        items = tuple([plain(item) for item in value])
        return items if kind is list or any(a is not b for a, b in zip(items, value, strict=True)) else value
    if hasattr(kind, "__index__") and not isinstance(value, int):
        try:
            return operator.index(value)
        except (TypeError, ValueError):                 # an array of several elements
            return value
    return value


def _foreign(value: object) -> bool:
    """Whether an argument is, or holds, what the algebra has not made: the types of parameters tell if it may be."""
    kind = type(value)
    if kind in _OWN:
        return False
    if isinstance(value, tuple):
        return any(map(_foreign, value))
    return not (isinstance(value, DynInt) or kind.__module__.startswith("moye."))


_ours: dict[type, bool] = dict.fromkeys(_OWN, True)
"""Types of which ``plain`` leaves each value as it is, and ``_foreign`` none is."""


def _all_ours(values: Iterable[object]) -> bool:
    """Whether arguments are the algebra's own: then nothing is to be looked at.  Most calls are moye's own."""
    for value in values:
        kind = type(value)
        if kind is tuple:
            if not _all_ours(value):  # type: ignore[arg-type]
                return False
        elif not (_ours[kind] if kind in _ours else _is_ours(kind)):
            return False
    return True


def _is_ours(kind: type) -> bool:
    """Classes of moye that are no tuples and do not become another integer; dynamic integers never do."""
    known = _ours[kind] = kind.__module__.startswith("moye.") and not issubclass(kind, (int, tuple, list)) and \
        (issubclass(kind, DynInt) or not hasattr(kind, "__index__"))
    return known


def _is_int(x: object) -> bool:
    return isinstance(x, (int, DynInt)) and not isinstance(x, bool)


def _is_static_int(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _is_int_tuple(x: object) -> bool:
    return all(map(_is_int_tuple, x)) if isinstance(x, (tuple, list)) else _is_int(x) or isinstance(x, ScaledBasis)


def _is_coordinate(x: object) -> bool:
    if isinstance(x, (tuple, list)):
        return all(map(_is_coordinate, x))
    return x is None or isinstance(x, slice) or _is_int(x)


def _is_layout(x: object) -> bool:
    return isinstance(x, (Layout, WrappedLayout)) or hasattr(x, "layout")


def _is_tiler(x: object) -> bool:
    if isinstance(x, (tuple, list)):
        return all(map(_is_tiler, x))
    return x is None or isinstance(x, (slice, Layout)) or _is_int(x)


# An alternative of a parameter's annotation -> whether a value is one, and what to call it.
KINDS: dict[str, tuple[Test, str]] = {
    "Int": (_is_int, "an integer"),
    "int": (_is_static_int, "an integer"),
    "IntTuple": (_is_int_tuple, "an integer or a tuple of such"),
    "tuple[int, ...]": (lambda x: isinstance(x, tuple) and all(map(_is_static_int, x)), "a tuple of integers"),
    "Coord": (_is_coordinate, "a coordinate: an integer, None, a slice or a tuple of such"),
    "Layout": (lambda x: isinstance(x, Layout), "a layout"),
    **dict.fromkeys(("WrappedLayout", "AnyLayout", "OffsetMap", "L", "S", "R"), (_is_layout, "a layout")),
    "OffsetFunction": (lambda x: isinstance(x, OffsetFunction), "a swizzle"),
    "Swizzle": (lambda x: isinstance(x, Swizzle), "a swizzle"),
    "Major": (lambda x: isinstance(x, Major), "LayoutLeft or LayoutRight"),
    "Tiler": (_is_tiler, "a tiler: an integer, a layout, None or a tuple of such"),
    "str": (lambda x: isinstance(x, str), "a string"),
    "None": (lambda x: x is None, "None"),
    "Sequence[Access]": (lambda x: isinstance(x, Iterable) and not isinstance(x, str), "a sequence of Access"),
    "Sequence[int]": (lambda x: isinstance(x, Iterable) and all(map(_is_static_int, x)), "a sequence of integers"),
    "Callable[..., Layout]": (callable, "a function"),
}


def short(value: object) -> str:
    """A value on one line, cut to at most ``LONGEST`` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST - 3]}..."


def _objection(parameter: inspect.Parameter, value: object) -> str | None:
    """What an argument must be, if its annotation says that it is not."""
    kinds = [KINDS.get(part) for part in str(parameter.annotation).split(" | ")]
    if any(kind is None or kind[0](value) for kind in kinds):
        return None
    words = list(dict.fromkeys(kind[1] for kind in kinds if kind is not None))
    listed = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    name = "each argument" if parameter.name == "args" else parameter.name
    return f"{name} must be {listed}, not {short(value)} of type {type(value).__name__}"


def _accused(function: Callable[..., Any], bound: inspect.BoundArguments) -> LayoutError | None:
    """One sentence about the first argument that is none of its parameter's types."""
    for parameter in bound.signature.parameters.values():
        given = bound.arguments.get(parameter.name, parameter.empty)
        if given is parameter.empty:
            continue
        values = given if parameter.kind is parameter.VAR_POSITIONAL else (given,)
        for value in values:
            if (objection := _objection(parameter, value)) is not None:
                return LayoutError(f"{function.__name__}: {objection}")
    return None


def _misused(function: Callable[..., Any], bound: inspect.BoundArguments, error: BaseException) -> LayoutError:
    """One sentence about a call: the argument that is at fault, or all of them."""
    if (accused := _accused(function, bound)) is not None:
        return accused
    given = ", ".join(f"{name} = {short(value)}" for name, value in bound.arguments.items())
    why = " ".join(str(error).split()) or type(error).__name__
    return LayoutError(f"{function.__name__} is not defined for {given} ({why})")


def face(function: F) -> F:
    """The public form of a function of the algebra."""
    signature = inspect.signature(function)
    numbers = [i for i, p in enumerate(signature.parameters.values()) if p.annotation in ("Int", "int")]

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        try:
            ours = not keywords and _all_ours(args)
            if not ours:
                args = tuple(map(plain, args))
                keywords = {name: plain(value) for name, value in keywords.items()}
        except RecursionError:
            raise LayoutError(f"{function.__name__}: its arguments are nested too deeply") from None
        try:
            odd = (not ours and any(map(_foreign, (*args, *keywords.values())))) or \
                (numbers and any(type(args[i]) is tuple for i in numbers if i < len(args)))
            if odd and (accused := _accused(function, signature.bind(*args, **keywords))) is not None:
                raise accused
            return function(*args, **keywords)
        except MoyeError:
            raise
        except MISUSE as error:
            bound = signature.bind(*args, **keywords)   # Python's own TypeError where they do not bind
            misused = _misused(function, bound, error)
        raise misused

    return called  # type: ignore[return-value]


def face_all(names: Iterable[str], namespace: dict[str, Any]) -> None:
    """Give every function of a module's public names its public form."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = face(namespace[name])
