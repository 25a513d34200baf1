"""The Python function that a call of an operator is: it chooses between the function itself and torch's dispatcher.

In: an operator.  Out: a function with the operator's parameters and defaults, made as text for its schema.

    def call(x, y, alpha=1.0):
        if x.__class__ in _tensors and ... and alpha.__class__ is float and (_included(), _excluded()) in _usual:
            if _grad_enabled() and (x.requires_grad or y.requires_grad): return _node(x, y, alpha)
            return _function(x, y, alpha)
        return _overload(x, y, alpha)

Whatever the short way does not know goes the long one, where torch converts it, or refuses it.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from moye.errors import ArgumentError, UnsupportedError

TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_TYPES = {"Tensor": "{0}.__class__ in _tensors and not {0}.is_meta", "int": "{0}.__class__ is int",
          "float": "{0}.__class__ is float", "bool": "{0}.__class__ is bool", "str": "{0}.__class__ is str",
          "ScalarType": "{0}.__class__ is _dtype"}
"""When an argument of a type of the schema is one that needs no conversion."""


def eager(operator: Any, node: Callable[..., Any] | None) -> Callable[..., Any]:
    """The function that a call of ``operator`` is; ``node`` does the same for autograd, None if it has no backward."""
    arguments = operator.overload._schema.arguments
    values = {"_function": operator.function, "_overload": operator.overload, "_node": node, "_tensors": TENSORS,
              "_dtype": torch.dtype, "_compiling": torch.compiler.is_compiling, "_refuse": _refusal(operator),
              "_grad_enabled": torch.is_grad_enabled, "_untransformed": operator.untransformed, "_dual": forward_ad,
              "_no_tangents": _no_tangents(operator.name), **_watchers(),
              **{f"_default_{a.name}": a.default_value for a in arguments if a.has_default_value()}}
    text = "\n".join(_lines(arguments, values, operator.mutates, node is not None))
    file = f"<moye operator {operator.name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["make"](**values)
    return made


def _lines(arguments: Any, values: dict[str, Any], mutates: Sequence[str], differentiable: bool) -> Iterator[str]:
    """The text of a function that makes the call."""
    places = [a for a in arguments if not a.kwarg_only]
    named = [a for a in arguments if a.kwarg_only]
    parameters = [_parameter(a) for a in places] + (["*", *map(_parameter, named)] if named else [])
    given = ", ".join([a.name for a in places] + [f"{a.name}={a.name}" for a in named])
    yield f"def make({', '.join(values)}):"
    yield f"    def call({', '.join(parameters)}):"
    if mutates:
        yield f"        if _grad_enabled() and ({_tracked(arguments, mutates)}): _refuse({', '.join(mutates)})"
    yield "        if not _compiling():"
    tests = [_test(a) for a in arguments]
    if "_included" in values and None not in tests:
        usual = ("not _modes() and (_included().raw_repr(), _excluded().raw_repr()) in _usual and not _profiled()",
                 "_dual._current_level < 0")            # the modes first: they see what is asked of a tensor
        yield f"            if {' and '.join([*usual, *(t for t in tests if t)])}:"
        if differentiable:
            yield f"                if _grad_enabled() and ({_tracked(arguments)}): return _node({given})"
        yield f"                return _function({given})"
    if "_transformed" in values:
        yield "            if _transformed() is not None: _untransformed()"
    yield f"            if _dual._current_level >= 0: _no_tangents({', '.join(a.name for a in arguments)})"
    yield f"        return _overload({given})"
    yield "    return call"


def _parameter(argument: Any) -> str:
    return f"{argument.name}=_default_{argument.name}" if argument.has_default_value() else str(argument.name)


def _tracked(arguments: Any, names: Sequence[str] | None = None) -> str:
    """The expression that says whether one of the tensors requires grad."""
    forms = {"Tensor": "{0}.requires_grad", "Optional[Tensor]": "({0} is not None and {0}.requires_grad)",
             "List[Tensor]": "any(x.requires_grad for x in {0})"}
    found = [forms[str(a.type)].format(a.name) for a in arguments
             if str(a.type) in forms and (names is None or a.name in names)]
    return " or ".join(found) or "False"


def _test(argument: Any) -> str | None:
    """The expression that says that an argument needs no conversion; None if there is none."""
    kind, name = str(argument.real_type), argument.name
    if kind.startswith("Optional[") and kind[9:-1] in _TYPES:
        return f"({name} is None or {_TYPES[kind[9:-1]].format(name)})"
    return _TYPES[kind].format(name) if kind in _TYPES else None


def _refusal(operator: Any) -> Callable[..., None]:
    """Raise for a written tensor that requires grad: autograd would believe that it is unchanged."""
    def refuse(*written: Any) -> None:
        name = next(name for name, x in zip(operator.mutates, written, strict=True)
                    if any(y.requires_grad for y in tree_leaves(x) if y is not None))
        raise ArgumentError(f"{operator.name} writes argument {name!r}, which requires grad, and autograd would not "
                            "know of it", hint="call it under torch.no_grad()")
    why = f"{operator.name} writes an argument that requires grad, and autograd would not know of it"
    made: Callable[..., None] = torch.compiler.disable(refuse, reason=why)
    return made


def _no_tangents(name: str) -> Callable[..., None]:
    """Raise for an argument with a tangent of forward-mode differentiation, which torch would drop in silence."""
    def no_tangents(*args: Any) -> None:
        tensors = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
            raise UnsupportedError(f"{name} has no rule for forward-mode differentiation",
                                   hint="differentiate it by torch.autograd.grad")
    return no_tangents


@functools.cache
def _watchers() -> dict[str, Any]:
    """What tells that somebody watches operators; nothing if this torch has no such functions, which are not public.

    The dispatcher's keys of this thread differ from those of a new one inside of modes, transforms, tracers, autocast
    and kernels of other operators.  In inference mode they differ, too, and the short way may be taken.
    """
    try:
        dispatch: Any = torch._C
        found = {"_included": dispatch._dispatch_tls_local_include_set, "_modes": dispatch._len_torch_function_stack,
                 "_excluded": dispatch._dispatch_tls_local_exclude_set, "_profiled": torch.autograd._profiler_enabled,
                 "_transformed": dispatch._functorch.peek_interpreter_stack}

        def keys() -> tuple[int, int]:
            return found["_included"]().raw_repr(), found["_excluded"]().raw_repr()

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
        return {**found, "_usual": frozenset(usual)} if usual.isdisjoint(apart) else {}
    except (AttributeError, TypeError):
        return {}
