"""The dtype that an annotation asks for, wherever it stands in it.

In: ``mo.float64``, ``"mo.float64"``, ``Optional[mo.float64]``, ``Annotated[float, mo.float64]``, ``Accumulator``, which
is one of them by another name.  Out: the dtype, and whether something else may come in its place.

    asked("mo.float64 | None", function)        # Asked(float64, only=False)

Annotations of variables are not evaluated by Python; of them names alone are looked up, which does nothing else.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from moye.dtypes import BY_NAME, DType, stands_for

_OR, _WITH = {"Optional", "Union"}, {"Annotated", "Final"}
_PYTHON: tuple[list[str], ...] = ([], ["int"], ["float"], ["bool"], ["str"], ["object"], ["tuple"], ["list"], ["dict"])


class Asked(NamedTuple):
    """``only``: whether nothing else may come, as None may by ``Optional``."""

    dtype: DType
    only: bool


def asked(annotation: object, function: types.FunctionType | None = None) -> Asked | None:
    """What an annotation asks for; None for one without a dtype, or with several.  Text has the names of ``function``.
    """
    if isinstance(annotation, str):
        node = _parsed(annotation)
        found = [(_looked_up(name, function), only) for name, only in names_in(node)]
    else:
        found = [(dtype_of(part), only) for part, only in _parts(annotation, True)]
    dtypes = {dtype: only for dtype, only in found if dtype is not None}
    return Asked(*next(iter(dtypes.items()))) if len(dtypes) == 1 else None


def names_in(node: ast.expr | None, only: bool = True) -> Iterator[tuple[ast.expr, bool]]:
    """The names, and attributes of names, in an annotation that may be dtypes, and whether nothing else may come."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from names_in(_parsed(node.value, at=node), only)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from names_in(node.left, False)
        yield from names_in(node.right, False)
    elif isinstance(node, ast.Subscript) and _last(node.value) in _OR | _WITH:
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            yield from names_in(part, only and _last(node.value) in _WITH)
    elif isinstance(node, (ast.Name, ast.Attribute)) and _path(node) not in _PYTHON:
        yield node, only


def dtype_of(value: object) -> DType | None:
    """The dtype that a value is or stands for."""
    return value if isinstance(value, DType) else stands_for(value)


def _parts(annotation: Any, only: bool) -> Iterator[tuple[object, bool]]:
    """The same of an annotation that Python has evaluated."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _parts(part, False)
    elif origin in (typing.Annotated, typing.Final):
        for part in typing.get_args(annotation):
            yield from _parts(part, only)
    elif isinstance(annotation, (str, typing.ForwardRef)):      # quoted, inside of what is not
        named = asked(getattr(annotation, "__forward_arg__", annotation))
        yield (None if named is None else named.dtype), only
    else:
        yield annotation, only


def _parsed(text: str, at: ast.expr | None = None) -> ast.expr | None:
    """The expression that a text is, at the place of another one; None for a text that is none."""
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if at is not None:
        for node in ast.walk(found):
            ast.copy_location(node, at)
    return found


def _path(node: ast.expr) -> list[str]:
    """``["mo", "float64"]`` of ``mo.float64``; nothing of what is no chain of names."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (front := _path(node.value)):
        return [*front, node.attr]
    return []


def _last(node: ast.expr) -> str:
    return (_path(node) or [""])[-1]


def _looked_up(node: ast.expr, function: types.FunctionType | None) -> DType | None:
    """The dtype of a name: one of moye's own, or what the function would find under it."""
    first, *rest = path = _path(node)
    if path[-1] in BY_NAME and (rest or first != "bool"):
        return BY_NAME[path[-1]]
    if function is None:
        return None
    try:
        value = inspect.getclosurevars(function).nonlocals.get(first)
    except ValueError:                                  # a cell that is empty as yet
        value = None
    value = function.__globals__.get(first, getattr(builtins, first, None)) if value is None else value
    for name in rest:
        value = getattr(value, name, None)
    return dtype_of(value)
