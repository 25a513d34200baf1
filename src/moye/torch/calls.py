"""The Python function that a call of an operator is: it chooses between the function itself and torch's dispatcher.

In: an operator.  Out: a function with the operator's parameters and defaults, made as text for its schema.

    def call(x, y, alpha=1.0):
        if x.__class__ in tensors and ... and alpha.__class__ is float and (included(), ...) in usual:
            return node(x, y, alpha) if grad_enabled() and (x.requires_grad or ...) else function(x, y, alpha)
        return overload(x, y, alpha)

Whatever the short way does not know goes the long one, where torch converts it, or refuses it.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from moye.errors import ArgumentError

TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_TYPES = {"Tensor": "{0}.__class__ in tensors and not {0}.is_meta", "int": "{0}.__class__ is int",
          "float": "{0}.__class__ is float", "bool": "{0}.__class__ is bool", "str": "{0}.__class__ is str",
          "ScalarType": "{0}.__class__ is dtype"}
"""When an argument of a type of the schema is one that needs no conversion."""


def eager(operator: Any, node: Callable[..., Any] | None) -> Callable[..., Any]:
    """The function that a call of ``operator`` is; ``node`` does the same for autograd, None if it has no backward."""
    arguments = operator.overload._schema.arguments
    values = {"function": operator.function, "overload": operator.overload, "node": node, "tensors": TENSORS,
              "dtype": torch.dtype, "compiling": torch.compiler.is_compiling, "grad_enabled": torch.is_grad_enabled,
              "refuse": _refusal(operator), "dual": forward_ad, **_watchers(),
              **{f"default_{a.name}": a.default_value for a in arguments if a.has_default_value()}}
    text = "\n".join(_lines(operator, arguments, values, node is not None))
    file = f"<moye operator {operator.name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["make"](**values)
    return made


def _lines(operator: Any, arguments: Any, values: dict[str, Any], differentiable: bool) -> Iterator[str]:
    """The text of a function that makes the call."""
    places = [a for a in arguments if not a.kwarg_only]
    named = [a for a in arguments if a.kwarg_only]
    parameters = [_parameter(a) for a in places] + (["*", *map(_parameter, named)] if named else [])
    given = ", ".join([a.name for a in places] + [f"{a.name}={a.name}" for a in named])
    yield f"def make({', '.join(values)}):"
    yield f"    def call({', '.join(parameters)}):"
    tracked = " or ".join(f"{name}.requires_grad" for name in operator.mutates)
    if tracked:
        yield f"        if grad_enabled() and ({tracked}): refuse({', '.join(operator.mutates)})"
    tests = [_test(a) for a in arguments]
    if "included" in values and None not in tests:
        usual = ("(included().raw_repr(), excluded().raw_repr()) in usual and not modes() and not profiled() "
                 "and dual._current_level < 0")
        yield f"        if not compiling() and {' and '.join([*(t for t in tests if t), usual])}:"
        if differentiable:
            tracked = " or ".join(_tracked(a) for a in arguments if str(a.type) in ("Tensor", "Optional[Tensor]"))
            yield f"            if grad_enabled() and ({tracked or False}): return node({given})"
        yield f"            return function({given})"
    yield f"        return overload({given})"
    yield "    return call"


def _parameter(argument: Any) -> str:
    return f"{argument.name}=default_{argument.name}" if argument.has_default_value() else str(argument.name)


def _tracked(argument: Any) -> str:
    name = argument.name
    optional = str(argument.type).startswith("Optional")
    return f"({name} is not None and {name}.requires_grad)" if optional else f"{name}.requires_grad"


def _test(argument: Any) -> str | None:
    """The expression that says that an argument needs no conversion; None if there is none."""
    kind, name = str(argument.real_type), argument.name
    if kind.startswith("Optional[") and kind[9:-1] in _TYPES:
        return f"({name} is None or {_TYPES[kind[9:-1]].format(name)})"
    return _TYPES[kind].format(name) if kind in _TYPES else None


def _refusal(operator: Any) -> Callable[..., None]:
    """Raise for a written tensor that requires grad: autograd would believe that it is unchanged."""
    def refuse(*written: Any) -> None:
        name = next(name for name, x in zip(operator.mutates, written, strict=True) if x.requires_grad)
        raise ArgumentError(f"{operator.name} writes argument {name!r}, which requires grad, and autograd would not "
                            "know of it", hint="call it under torch.no_grad()")
    return refuse


@functools.cache
def _watchers() -> dict[str, Any]:
    """What tells that somebody watches operators; nothing if this torch has no such functions, which are not public.

    The dispatcher's keys of this thread differ from those of a new one inside of modes, transforms, tracers, autocast
    and kernels of other operators.  In inference mode they differ, too, and the short way may be taken.
    """
    try:
        dispatch: Any = torch._C
        found = {"included": dispatch._dispatch_tls_local_include_set, "modes": dispatch._len_torch_function_stack,
                 "excluded": dispatch._dispatch_tls_local_exclude_set, "profiled": torch.autograd._profiler_enabled}

        def keys() -> tuple[int, int]:
            return found["included"]().raw_repr(), found["excluded"]().raw_repr()

        def seen() -> tuple[set[tuple[int, int]], list[tuple[int, int]]]:
            usual, apart = {keys()}, []
            with torch.inference_mode():
                usual.add(keys())
            below = dispatch._AutoDispatchBelowAutograd()
            for mode in (torch.autocast("cpu", torch.bfloat16), FakeTensorMode(), below):
                with mode:
                    apart.append(keys())
            return usual, apart
        with ThreadPoolExecutor(1) as fresh:            # this thread may be in a mode
            usual, apart = fresh.submit(seen).result()
        return {**found, "usual": frozenset(usual)} if usual.isdisjoint(apart) else {}
    except (AttributeError, TypeError):
        return {}
