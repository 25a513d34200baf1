"""The Python function that a call of an operator is: it chooses between the function itself and torch's dispatcher.

In: an operator.  Out: a function with the operator's parameters and defaults, made as text for its schema.

    def call(_self, x, y, alpha=1.0):
        if x.__class__ in _tensors and ... and alpha.__class__ is float and (_included(), _excluded()) in _usual:
            if _grad_enabled() and (x.requires_grad or ...): return _node(x, y, alpha)
            if _untried: return _carry_out(x, y, alpha)
            return _function(x, y, alpha)               # if it returned what the schema says
        return _overload(x, y, alpha)

Whatever the short way does not know goes the long one, where torch converts it, or refuses it.
"""

from __future__ import annotations

import functools
import itertools
import linecache
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from moye.errors import ArgumentError, UnsupportedError
from moye.runtime.autograd import mark

Keys = tuple[int, int]
TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_TYPES = {"Tensor": "{0}.__class__ in _tensors and not {0}.is_meta", "int": "{0}.__class__ is _int",
          "float": "{0}.__class__ is _float", "bool": "{0}.__class__ is _bool", "str": "{0}.__class__ is _str",
          "ScalarType": "{0}.__class__ is _dtype",
          "List[int]": "{0}.__class__ is _list and _all(i.__class__ is _int for i in {0})",
          "List[Tensor]": "{0}.__class__ is _list and _all(x.__class__ in _tensors and not x.is_meta for x in {0})"}
"""When an argument of a type of the schema is one that needs no conversion."""


def eager(operator: Any, node: Callable[..., Any] | None) -> Callable[..., Any]:
    """The function that a call of ``operator`` is; ``node`` does the same for autograd, None if it has no backward."""
    arguments = operator.overload._schema.arguments
    advanced = _advanced(arguments)                     # in the text, as a function around it costs a microsecond
    function = operator.executed if advanced is None else operator.function
    values = {"_function": function, "_overload": operator.overload, "_node": node, "_tensors": TENSORS, "_mark": mark,
              "_dtype": torch.dtype, "_compiling": torch.compiler.is_compiling, "_refuse": _refusal(operator),
              "_grad_enabled": torch.is_grad_enabled, "_untransformed": operator.untransformed, "_dual": forward_ad,
              "_no_tangents": _no_tangents(operator.name), "_missing": _missing(operator),
              "_confused": _confused(operator), "_results": operator.require_results,
              "_untried": operator.untried, "_carry_out": operator.carry_out,
              # A parameter may be called like one of these.
              **{f"_{x.__name__}": x for x in (all, any, bool, float, int, len, list, str, tuple)},
              **_watchers(operator.autocast is not None),
              **{f"_default_{name}": x for name, x in operator.defaults.items()}}
    lists = [a for a in (*arguments, *operator.overload._schema.returns) if str(a.type) == "List[Tensor]"]
    watched = None if node is None else "_overload" if lists else "_node"       # a node sees no tensors in lists
    refused = _refused(operator)
    text = "\n".join(_lines(arguments, operator.overload._schema.returns, values, refused, watched, advanced or []))
    file = f"<moye operator {operator.name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["make"](**values)
    made.__qualname__ = operator.name                   # Python's own TypeErrors say it
    return made


def _lines(arguments: Any, returns: Any, values: dict[str, Any], refused: Sequence[str],
           watched: str | None, advanced: Sequence[str]) -> Iterator[str]:
    """The text of a function that makes the call, by ``watched`` where a gradient is wanted."""
    places = [a for a in arguments if not a.kwarg_only]
    named = [a for a in arguments if a.kwarg_only]
    parameters = [_parameter(a) for a in places] + (["*", *map(_parameter, named)] if named else [])
    given = ", ".join([a.name for a in places] + [f"{a.name}={a.name}" for a in named])
    yield f"def make({', '.join(values)}):"
    yield f"    def call({', '.join(['_self', *parameters])}):"
    if refused:
        yield f"        if _grad_enabled() and ({_tracked(arguments, refused)}): _refuse(({', '.join(refused)},))"
    yield "        if not _compiling():"
    tests = [_test(a) for a in arguments]
    if "_included" in values and None not in tests:
        usual = ("not _modes() and (_included().raw_repr(), _excluded().raw_repr()) in _usual and not _profiled()",
                 "_dual._current_level < 0")            # the modes first: they see what is asked of a tensor
        yield f"            if {' and '.join([*usual, *(t for t in tests if t)])}:"
        if watched:
            yield f"                if _grad_enabled() and ({_tracked(arguments)}): return {watched}({given})"
        yield f"                if _untried: return _carry_out({given})"
        yield from (f"                _was_{x} = -1 if {x}.is_inference() else {x}._version" for x in advanced)
        yield f"                _found = _function({given})"
        yield from (f"                if _was_{x} >= 0 and {x}._version == _was_{x}: _mark((('{x}', {x}),))"
                    for x in advanced)
        yield f"                return _found if {_as_told(returns)} else _results(_found)"
    if "_transformed" in values:
        yield "            if _transformed() is not None: _untransformed()"
    yield f"            if _dual._current_level >= 0: _no_tangents({', '.join(a.name for a in arguments)})"
    if required := [a.name for a in arguments if str(a.type) == "Tensor"]:
        yield f"        if {' or '.join(f'{name} is None' for name in required)}: _missing({', '.join(required)})"
    if checks := [check for a in arguments if (check := _confusion(a)) is not None]:
        yield f"        if {' or '.join(checks)}: _confused({', '.join(a.name for a in arguments)})"
    yield f"        return _overload({given})"
    yield "    return call"


def _parameter(argument: Any) -> str:
    return f"{argument.name}=_default_{argument.name}" if argument.has_default_value() else str(argument.name)


def _advanced(arguments: Any) -> list[str] | None:
    """The written tensors whose counters the text looks at; None if one may be None, or a list."""
    written = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return [a.name for a in written] if all(str(a.type) == "Tensor" for a in written) else None


def _as_told(returns: Any) -> str:
    """The expression that says that a result is of the kind that the schema tells, without a look at its parts."""
    if len(returns) > 1:
        return f"_found.__class__ is _tuple and _len(_found) == {len(returns)}"
    kinds = {"Tensor": "_found.__class__ in _tensors", "List[Tensor]": "_found.__class__ is _list"}
    return kinds.get(str(returns[0].type), "False") if returns else "_found is None"


def _tracked(arguments: Any, names: Sequence[str] | None = None) -> str:
    """The expression that says whether one of the tensors requires grad."""
    forms = {"Tensor": "{0}.requires_grad", "Optional[Tensor]": "({0} is not None and {0}.requires_grad)",
             "List[Tensor]": "_any(x.requires_grad for x in {0})"}
    other = "_any(x is not None and x.requires_grad for x in {0} or ())"       # lists of which some may be None
    found = [forms.get(str(a.type), other).format(a.name) for a in arguments
             if "Tensor" in str(a.type) and (names is None or a.name in names)]
    return " or ".join(found) or "False"


def _test(argument: Any) -> str | None:
    """The expression that says that an argument needs no conversion; None if there is none."""
    kind, name = str(argument.real_type), argument.name
    if kind.startswith("Optional[") and kind[9:-1] in _TYPES:
        return f"({name} is None or {_TYPES[kind[9:-1]].format(name)})"
    return _TYPES[kind].format(name) if kind in _TYPES else None


def _refused(operator: Any) -> tuple[str, ...]:
    """The tensors that may not require grad while grad mode is on: written ones; all, where results are returned, too.

    Torch would take such results for constants, in silence.
    """
    schema = operator.overload._schema
    everything = operator.mutates and schema.returns
    return tuple(a.name for a in schema.arguments if "Tensor" in str(a.type)) if everything else operator.mutates


def _refusal(operator: Any) -> Callable[..., None]:
    """Raise for a tensor that requires grad, of an operator that writes."""
    names = _refused(operator)

    def refuse(tensors: tuple[Any, ...]) -> None:
        name = next(name for name, x in zip(names, tensors, strict=True)
                    if any(y.requires_grad for y in tree_leaves(x) if y is not None))
        if name in operator.mutates:
            raise ArgumentError(f"{operator.name} writes argument {name!r}, which requires grad, and autograd would "
                                "not know of it", hint="call it under torch.no_grad()")
        raise ArgumentError(f"{operator.name} writes its arguments, so that it has no backward, and argument {name!r} "
                            "requires grad", hint="call it under torch.no_grad()")
    why = f"{operator.name} writes its arguments, so that autograd does not know of it, and one requires grad"
    made: Callable[..., None] = torch.compiler.disable(refuse, reason=why)
    return made


def _missing(operator: Any) -> Callable[..., None]:
    """Raise for a None in the place of a tensor, which torch takes for one without memory."""
    names = [a.name for a in operator.overload._schema.arguments if str(a.type) == "Tensor"]

    def missing(*tensors: Any) -> None:
        name = next(name for name, x in zip(names, tensors, strict=True) if x is None)
        raise ArgumentError(f"{operator.name}: {name} is None, and no tensor")
    return missing


def _confusion(argument: Any) -> str | None:
    """The expression that says that a truth value is given for an integer, or the other way round; None for others."""
    kind = str(argument.real_type)
    kind = kind[9:-1] if kind.startswith("Optional[") else kind
    forms = {"int": "{0}.__class__ is _bool", "bool": "{0}.__class__ is _int",
             "List[int]": "({0}.__class__ in (_list, _tuple) and _any(i.__class__ is _bool for i in {0}))"}
    return forms[kind].format(argument.name) if kind in forms else None


def _confused(operator: Any) -> Callable[..., None]:
    """Raise for a truth value in the place of an integer, which torch takes for 0 or 1; or an integer in its place."""
    arguments = operator.overload._schema.arguments

    def confused(*given: Any) -> None:
        for argument, x in zip(arguments, given, strict=True):
            kind, parts = str(argument.real_type), x if isinstance(x, (list, tuple)) else (x,)
            for word, name, other in (("int", "integer", bool), ("bool", "truth value", int)):
                if word in kind and any(type(part) is other for part in parts):
                    raise ArgumentError(f"{operator.name}: {argument.name}={x!r} is no {name}",
                                        hint=f"torch would convert it in silence; give the {name} that is meant")
    return confused


def _no_tangents(name: str) -> Callable[..., None]:
    """Raise for an argument with a tangent of forward-mode differentiation, which torch would drop in silence."""
    def no_tangents(*args: Any) -> None:
        tensors = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
            raise UnsupportedError(f"{name} has no rule for forward-mode differentiation",
                                   hint="differentiate it by torch.autograd.grad")
    return no_tangents


def _watchers(casts: bool) -> dict[str, Any]:
    """What tells that somebody watches an operator, which ``casts`` inside of autocast or not; nothing if torch has no
    such functions, which are not public.
    """
    if not (found := _functions()):
        return {}
    outside, inside, watched = _keys()
    if not outside.isdisjoint(inside) or not watched.isdisjoint(outside | inside):
        return {}
    return {**found, "_usual": frozenset(outside if casts else outside | inside)}


@functools.cache
def _keys() -> tuple[set[Keys], set[Keys], set[Keys]]:
    with ThreadPoolExecutor(1) as fresh:                # this thread may be in a mode
        return fresh.submit(_keys_seen, _functions()).result()


def _functions() -> dict[str, Any]:
    """torch's functions that say what this thread is in."""
    try:
        dispatch: Any = torch._C
        return {"_included": dispatch._dispatch_tls_local_include_set, "_modes": dispatch._len_torch_function_stack,
                "_excluded": dispatch._dispatch_tls_local_exclude_set, "_profiled": torch.autograd._profiler_enabled,
                "_transformed": dispatch._functorch.peek_interpreter_stack,
                "_below": dispatch._AutoDispatchBelowAutograd}
    except AttributeError:
        return {}


def _keys_seen(found: dict[str, Any]) -> tuple[set[Keys], set[Keys], set[Keys]]:
    """The dispatcher's keys of a new thread outside and inside of autocast, and some of those where somebody watches.

    In inference mode they are others, and the short way may be taken as well.
    """
    def keys() -> Keys:
        return found["_included"]().raw_repr(), found["_excluded"]().raw_repr()
    seen: tuple[set[Keys], set[Keys], set[Keys]] = (set(), set(), set())
    for states in itertools.product((False, True), repeat=2):
        for device, on in zip(("cpu", "cuda"), states, strict=True):
            torch.set_autocast_enabled(device, on)
        for inference in (False, True):
            with torch.inference_mode(inference):
                seen[any(states)].add(keys())
    for mode in (FakeTensorMode(), found["_below"]()):
        with mode:
            seen[2].add(keys())
    return seen
