"""Schemas of operators, in torch's words, of the annotations of functions; and what torch would refuse late.

In: a function, its operator's name, the arguments that it writes.  Out: "(Tensor x, float alpha=1.0) -> Tensor".

    schema = of_annotations(scaled_add, "mine::scaled_add", ()); mutates = written(schema, name, scaled_add)

torch's own parser takes a default as it is written, whatever the type; so defaults are looked at here.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import torch

from moye.errors import ArgumentError

_FITS: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,), str: (str,),
                                      torch.dtype: (torch.dtype,), torch.Tensor: ()}
"""The types that a default may have, of an annotation."""


def of_annotations(function: Callable[..., Any], name: str, mutates: Sequence[str]) -> str:
    """torch's text of the annotations; ArgumentError in one sentence where torch has several."""
    parameters = inspect.signature(function).parameters
    unknown = [word for word in mutates if word not in parameters]
    if unknown:
        raise ArgumentError(f"{name}: mutates names {', '.join(unknown)}, and the parameters are "
                            f"{', '.join(parameters)}")
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, SyntaxError):             # torch says what it does not know
        hints = {}
    for parameter in parameters.values():
        if parameter.name in hints and parameter.default is not parameter.empty:
            _require_default(name, parameter, hints[parameter.name])
    try:
        found: str = torch.library.infer_schema(function, mutates_args=tuple(mutates))
    except (ValueError, TypeError, NameError) as error:
        told = str(error).replace("infer_schema(func): ", "").replace("We do not support", "torch's schemas have no")
        told = told.partition(". ")[0].partition("Got func")[0].strip(" .")
        raise ArgumentError(f"{name}: {told}") from None
    return found


def _require_default(name: str, parameter: inspect.Parameter, annotation: Any) -> None:
    """ArgumentError for a default of another type than its annotation's, or one that a schema cannot hold."""
    own, x = parameter.name, parameter.default
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = typing.get_args(annotation) if union else (annotation,)
    allowed = {kind for each in kinds for kind in _FITS.get(each, (type(x),))}
    if x is None and type(None) not in kinds:
        raise ArgumentError(f"{name}: {own} is None by default, and is annotated without it",
                            hint=f"{own}: {getattr(annotation, '__name__', annotation)} | None = None")
    if x is not None and type(x) not in allowed:
        raise ArgumentError(f"{name}: {own} is {x!r} by default, and its annotation is "
                            f"{getattr(annotation, '__name__', annotation)}")
    if isinstance(x, float) and not math.isfinite(x):
        raise ArgumentError(f"{name}: {own} is {x} by default, and a schema of torch's holds finite numbers alone",
                            hint=f"{own}: float | None = None, and what None stands for in the function")
    if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63:
        raise ArgumentError(f"{name}: {own} is {x} by default, and torch's integers have 64 bits")
    if isinstance(x, str) and ('"' in x or "\\" in x or not x.isprintable()):
        raise ArgumentError(f"{name}: {own} is {x!r} by default, and a schema of torch's holds text without quotes, "
                            "backslashes and line ends alone")


def require_free(name: str) -> None:
    """ArgumentError for a name that means something else in ``torch.ops``."""
    space, _, word = name.partition("::")
    library = getattr(torch.ops, space)
    if not isinstance(library, type(torch.ops.aten)):
        raise ArgumentError(f"{name}: torch.ops.{space} is no library of operators", hint="give it another name")
    if word in vars(type(torch.ops.aten)("moye")):
        raise ArgumentError(f"{name}: each library of torch.ops has a {word} of its own", hint="give it another name")


def defaults(function: Callable[..., Any], arguments: Any) -> dict[str, Any]:
    """The defaults of arguments; the schema has numbers where the function has dtypes."""
    own = {word: x.default for word, x in inspect.signature(function).parameters.items()}
    return {a.name: own[a.name] if isinstance(own.get(a.name), torch.dtype) else a.default_value
            for a in arguments if a.has_default_value()}


def written(schema: str, name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments that a schema says are written; ArgumentError for what is no schema, or not the function's."""
    try:
        parsed = torch._C.parse_schema(f"{name}{schema}")
    except (RuntimeError, IndexError) as error:
        raise ArgumentError(f"{name}: torch does not read the schema {schema!r}: "
                            f"{str(error).strip().partition(chr(10))[0]}") from None
    private = [a.name for a in parsed.arguments if a.name.startswith("_")]
    if private:
        raise ArgumentError(f"{name}: the parameter {private[0]} begins with an underscore")
    only = [a.name for a in parsed.arguments if a.kwarg_only]
    found = tuple(a.name for a in parsed.arguments if a.alias_info is not None and a.alias_info.is_write)
    if only and not found:
        raise ArgumentError(f"{name}: {', '.join(only)} can be passed by name alone, which torch's autograd does not "
                            "take", hint="leave out the * of the signature")
    if not parsed.returns and not found:
        raise ArgumentError(f"{name} returns nothing and writes nothing, so that a graph would leave it out",
                            hint=f"name what it writes: @mo.torch_op({name!r}, mutates=(...,))")
    places = [a for a in parsed.arguments if not a.kwarg_only]
    try:
        inspect.signature(function).bind(*places, **dict.fromkeys(only))
    except TypeError as error:
        raise ArgumentError(f"{name}: the schema {schema} is not that of {function.__name__}: {error}") from None
    return found
