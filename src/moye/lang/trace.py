"""From a kernel function and its specs to a Func: the function runs once, on traced values.

In: a Python function, one spec per parameter, block and cluster shape.  Out: ``Traced`` (the Func, and the names that
the kernel and its device functions read from modules and closures).

    trace(matmul_kernel, specs, block=(256, 1, 1)).func

Rewriting is ``rewrite.py``, control flow ``control.py``; nothing is optimised here.
"""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from textwrap import wrap
from typing import Any

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import Frame, Loc, MoyeError, TraceError
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Buffer, Extent, Func, Param, ScalarParam, TensorParam, Value
from moye.lang import identity
from moye.lang.annotations import asked
from moye.lang.behaviour import MISSING, Behaviour
from moye.lang.contents import Contents, contents_of, holds_attributes
from moye.lang.control import CONTROL, of_dtype
from moye.lang.failures import where_of
from moye.lang.fleeting import fleeting_reads, has_hidden_state
from moye.lang.foreign_errors import told
from moye.lang.functions import KernelMarker
from moye.lang.likeness import same_value
from moye.lang.pickling import reduced
from moye.lang.remade import is_plain_instance
from moye.lang.rewrite import CONTROL as CONTROL_NAME
from moye.lang.rewrite import attribute_reads, free_names, rewrite
from moye.lang.scopes import regions
from moye.lang.signature import (
    Keys,
    ScalarSpec,
    Spec,
    StaticSpec,
    TensorSpec,
    TmaSpec,
    TreeSpec,
    map_leaves,
)
from moye.lang.source import definition
from moye.layout import Layout
from moye.tensor.context import locate, trace_into, tracing
from moye.tensor.expr import Expr
from moye.tensor.joined import Joins
from moye.tensor.tensor import Tensor
from moye.tensor.tma_boxes import TmaTiling
from moye.tensor.tma_copy import TmaTensor

_NOTE_WIDTH, _LONGEST_NOTE = 112, 1000
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_MOST_INSIDE = 128
"""Calls of one function within each other: each is traced in its place."""
_callees: list[list[types.FunctionType]] = []


Namespace = dict[str, Any] | types.CellType | type | types.FunctionType


@dataclass(slots=True)
class Capture:
    """A name read from a module, a closure or a class, or a part of a function: where it lives and what it was.

    Of a mutable object ``value`` is what was in it.
    """

    namespace: Namespace
    name: str
    value: object


@dataclass(slots=True)
class Traced:
    """The result of a trace."""

    func: Func
    captures: list[Capture] = field(default_factory=list)


class JitFunction:
    """A device function: traced inline where a kernel calls it; outside of a kernel it is the plain function."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self._rewritten: types.FunctionType | None = None
        self._parts: tuple[object, ...] = ()
        self._inside = 0
        """The number of its calls that are being traced."""
        update_wrapper(self, function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not tracing():
            return self.function(*args, **kwargs)
        parts = _parts_of(self.function)
        if self._rewritten is None or any(map(operator.is_not, parts, self._parts)):
            self._rewritten, self._parts = rewrite(self.function, CONTROL), parts
        if _callees:
            _callees[-1].append(self.function)
        if self._inside >= _MOST_INSIDE:
            raise TraceError(f"{self.function.__name__} calls itself more than {_MOST_INSIDE} times over: what ends it "
                             "is known only when the kernel runs, if anything does", hint="loop with while or for",
                             locs=(locate(),))
        self._inside += 1
        try:
            return self._rewritten(*args, **kwargs) if not self._dtypes else self._of_dtypes(args, kwargs)
        finally:
            self._inside -= 1

    @cached_property
    def _dtypes(self) -> dict[str, dt.DType]:
        """Parameters that are annotated with a dtype: a number becomes one of it, as an argument of a kernel does."""
        found = {name: asked(annotation, self.function) for name, annotation in self.function.__annotations__.items()}
        return {name: one.dtype for name, one in found.items() if one is not None and name != "return"}

    def _of_dtypes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._rewritten is not None, "a call is rewritten before its arguments are looked at"
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError:                       # the call says so, too
            return self._rewritten(*args, **kwargs)
        bound.apply_defaults()
        for name in self._dtypes.keys() & bound.arguments.keys():
            bound.arguments[name] = of_dtype(self._dtypes[name], bound.arguments[name])
        return self._rewritten(*bound.args, **bound.kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, jit, self.function)

    def __copy__(self) -> JitFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JitFunction:
        return self

    def __repr__(self) -> str:
        return f"<mo.jit {self.function.__qualname__}>"


def jit(function: Callable[..., Any]) -> JitFunction:
    """Decorator of a device function: its control flow on traced values becomes control flow of the kernel."""
    if not isinstance(function, types.FunctionType):
        raise TraceError(f"@mo.jit decorates Python functions, not {function!r}", hint=outermost(function))
    return JitFunction(function)


def outermost(function: object) -> str | None:
    """The hint where a method's decorator stands below moye's."""
    kind = type(function).__name__
    return f"@{kind} stands above it" if isinstance(function, (staticmethod, classmethod)) else None


def trace(function: types.FunctionType, specs: dict[str, Spec], *, block: tuple[int, int, int],
          cluster: tuple[int, int, int] = (1, 1, 1), index_bits: int = 32) -> Traced:
    """Trace a kernel for one specialisation.  ``specs`` maps parameter names to specs, in order.

    Where a variable means one shared array on one way and another on another, both become one, and the trace is made
    anew.
    """
    joins = Joins()
    while True:
        try:
            return _trace(function, specs, block, cluster, index_bits, joins)
        except TraceError:
            if not joins.again():
                raise


def _trace(function: types.FunctionType, specs: dict[str, Spec], block: tuple[int, int, int],
           cluster: tuple[int, int, int], index_bits: int, joins: Joins) -> Traced:
    func = Func(function.__name__, [], Block(), block, cluster_dim=cluster, index_bits=index_bits,
                loc=_definition(function))
    rewritten = rewrite(function, CONTROL)
    builder = Builder(func, locate)
    arguments = bind(func, specs)
    callees: list[types.FunctionType] = [function]
    _callees.append(callees)
    try:
        with trace_into(builder, joins):
            regions().append(KernelMarker(rewritten.__code__))
            _trace_entry(rewritten, arguments)
            identity.look()
    finally:
        _callees.pop()
    _add_notes(func, specs)
    given = [value for spec in specs.values() for value in _given(spec)]
    return Traced(func, captures_of(callees, given))


def _trace_entry(function: types.FunctionType, arguments: dict[str, Any]) -> None:
    try:
        # A wrapper may take no names, and some parameters have none for who calls.
        many = function.__code__.co_flags & inspect.CO_VARARGS
        count = len(arguments) if many else function.__code__.co_posonlyargcount
        result = function(*[*arguments.values()][:count], **dict([*arguments.items()][count:]))
    except MoyeError as error:
        raise error.at(where_of(error)) from None
    except Exception as error:
        if (shown := told(error, where_of(error))) is error:
            raise
        raise shown from None
    if result is not None:
        raise TraceError(f"the kernel {function.__name__} returns {result!r}; a kernel returns nothing",
                         hint="write results into an argument", locs=(_definition(function),))


def _definition(function: types.FunctionType) -> Loc:
    return definition(function.__code__)


# --- arguments -------------------------------------------------------------------------------------------------------


def bind(func: Func, specs: dict[str, Spec]) -> dict[str, Any]:
    """Parameters for every tensor and scalar leaf; what the traced function is called with."""
    tensors = 0

    def leaf(spec: Spec, name: str) -> Any:
        nonlocal tensors
        if isinstance(spec, StaticSpec):
            return spec.value
        if isinstance(spec, ScalarSpec):
            value = Value(spec.dtype, name=name)
            func.params.append(ScalarParam(name, value))
            return Expr(value)
        assert isinstance(spec, (TensorSpec, TmaSpec)), "a leaf spec"
        tensors += 1
        if isinstance(spec, TmaSpec):
            return _bind_tma(func, spec, name, tensors - 1)
        return _bind_tensor(func, spec, name, tensors - 1)

    return {name: map_leaves(spec, leaf, name) for name, spec in specs.items()}


def _bind_tensor(func: Func, spec: TensorSpec, name: str, index: int) -> Tensor:
    width = dt.int64 if func.index_bits == 64 else dt.int32
    shape: list[Extent] = []
    strides: list[Extent] = []
    for mode, extent in enumerate(spec.shape):
        shape.append(extent if extent is not None else Value(width, lower=0, name=f"{name}_{mode}"))
        stride = spec.strides[mode]
        strides.append(stride if stride is not None else
                       Value(width, lower=0, divisor=spec.divisors[mode], name=f"{name}_s{mode}"))
    layout = Layout(tuple(_leaf(x) for x in shape), tuple(_leaf(x) for x in strides)) if shape else Layout(1, 0)
    buffer = Buffer(name, Space.GLOBAL, spec.dtype, None, layout, align=spec.align, index=index)
    func.params.append(TensorParam(name, buffer, tuple(shape), tuple(strides)))
    return Tensor(buffer, 0, layout, spec.dtype, None, name)


def _bind_tma(func: Func, spec: TmaSpec, name: str, index: int) -> TmaTensor:
    array = _bind_tensor(func, spec.tensor, name, index)
    param = func.params[-1]
    assert isinstance(param, TensorParam), "just made"
    param.tensor_map = spec.tiling.map
    shape: Any = array.layout.shape
    return TmaTensor(spec.tiling, array.buffer, shape, name)


def _leaf(x: Extent) -> Any:
    return x if isinstance(x, int) else Expr(x)


def _add_notes(func: Func, specs: dict[str, Spec]) -> None:
    """Header lines of the printed source: arrays with their layouts, static arguments.

    What is None says nothing of the code below, and shared tensors have their layouts where they are declared.
    """
    params: dict[str, Param] = {p.name: p for p in func.params}
    for name, spec in specs.items():
        param = params.get(name)
        if isinstance(param, TensorParam):
            func.notes.append(f"{name}: {param.buffer.dtype} {param.buffer.layout}, {param.buffer.align}-byte aligned")
            if isinstance(spec, TmaSpec):
                func.notes.append(f"{name}: {spec.tiling}, {_boxes(spec.tiling)}")
        elif isinstance(spec, StaticSpec) and spec.value is not None:
            text = _ADDRESS.sub("", str(spec.value))        # the text is the key of the cache on disk
            whole = f"{name} = {text if len(text) <= _LONGEST_NOTE else text[:_LONGEST_NOTE] + '...'}"
            func.notes.append("\n".join(wrap(whole, _NOTE_WIDTH, subsequent_indent="    ", break_long_words=False,
                                             break_on_hyphens=False)))


def _boxes(tiling: TmaTiling) -> str:
    box, swizzle = " x ".join(str(extent) for extent in tiling.map.box), tiling.map.swizzle
    swizzled = f" with {swizzle}-byte swizzle" if swizzle else ""
    merged = "".join(f", modes {modes} as one" for modes in tiling.map.modes if not isinstance(modes, int))
    return f"{len(tiling.boxes)} box{'es' if len(tiling.boxes) > 1 else ''} of {box}{swizzled}{merged}"


# --- captures --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Names:
    """What one function may read: names of its globals, of its closure, and chains of attributes."""

    function: types.FunctionType
    globals: tuple[str, ...]
    free: tuple[str, ...]
    chains: tuple[tuple[str, ...], ...]


def captures_of(functions: Sequence[types.FunctionType], given: Sequence[object] = ()) -> list[Capture]:
    """What the functions read from modules and closures, and so on for plain functions that they name or are given.

    Methods and properties of the classes that they use, and of ``given`` values, are such functions, too.  Mutable
    objects are an error, but where a plain function reads them: it may be host code.
    """
    captures = [capture for function in dict.fromkeys(functions) if _may_change(function.__module__, function)
                for capture in _parts(function)]
    seen: set[tuple[int, str]] = set()
    todo, known = list(functions), set(map(id, functions))
    readers = {(function.__module__ or "").partition(".")[0]: function for function in functions}.values()
    behaviour = Behaviour(functools.cache(lambda module: any(_may_change(module, reader) for reader in readers)))
    for value in given:
        behaviour.holds(value)
    for position, function in enumerate(todo):          # it grows
        behaviour.reads(function.__code__, function.__globals__)
        behaviour.holds(_parts_of(function)[1:])
        if position < len(functions):
            _require_lasting(function)
        for namespace, name, shown in _reads(function, functions):
            if (id(namespace), name) in seen:
                continue
            seen.add((id(namespace), name))
            value = _held(namespace, name)
            behaviour.holds(value, named=True)
            if is_mutable(value) and position < len(functions) and not _is_called_object(value):
                raise _mutable(value, shown, function)
            captures.append(_captured(namespace, name, value))
        for namespace, name, value in behaviour.attributes():
            if (id(namespace), name) not in seen:
                seen.add((id(namespace), name))
                captures.append(_captured(namespace, name, value))
        more = [found for found in behaviour.functions() if id(found) not in known]
        known.update(map(id, more))
        todo += more
        captures += [part for found in more for part in _parts(found)]
    behaviour.forget()
    return captures


def _captured(namespace: Namespace, name: str, value: object) -> Capture:
    return Capture(namespace, name, contents_of(value) if is_mutable(value) or _is_called_object(value) else value)


def _mutable(value: object, shown: str, function: types.FunctionType) -> TraceError:
    array = hasattr(value, "__array_interface__")
    kind = "an array" if array else f"a {type(value).__name__}"
    return TraceError(f"the kernel reads {shown!r}, {kind} that may change between launches",
                      hint="pass it as an argument" if array else
                      "make a tuple of what it gives" if hasattr(value, "__next__") else
                      "pass it as a parameter annotated mo.Constexpr, or make it a tuple or a frozen dataclass",
                      locs=(_read_of(shown.rpartition(".")[2], function),))


def _require_lasting(function: types.FunctionType) -> None:
    """TraceError for a clock and for random numbers of the host: a kernel would keep the first one."""
    names = _names_read(function)
    for shown in fleeting_reads(function, names.globals, names.chains):
        raise TraceError(f"the kernel asks {shown!r} while it is traced, and every thread of every launch would have "
                         "that one answer",
                         hint="pass the answer as an argument, or ask the device: mo.rand(seed, ...), mo.clock()",
                         locs=(_read_of(shown.rpartition(".")[2], function),))


def _parts(function: types.FunctionType) -> Iterator[Capture]:
    """Code and defaults of a function; of mutable ones what is in them."""
    for name, value in zip(_PARTS, _parts_of(function), strict=True):
        yield Capture(function, name, contents_of(value) if is_mutable(value) else value)


def _parts_of(function: types.FunctionType) -> tuple[object, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _is_called_object(value: object) -> bool:
    """Whether it is no function, but an object that can be called and holds what the call reads."""
    return isinstance(value, functools.partial) or (callable(value) and holds_attributes(value))


def _given(spec: Spec) -> list[object]:
    """Static arguments, and the classes of what is taken apart."""
    if isinstance(spec, TreeSpec):
        kind = (spec.kind.cls, spec.kind.keys) if isinstance(spec.kind, Keys) else spec.kind
        return [kind, *(value for item in spec.items for value in _given(item))]
    return [spec.value] if isinstance(spec, StaticSpec) else []


def _is_variable(name: str, function: types.FunctionType, traced: Sequence[types.FunctionType]) -> bool:
    """Whether a free name of a function defined inside a traced one is a variable of that, made anew by each trace."""
    code = function.__code__
    return any(code.co_filename == outer.__code__.co_filename and name not in outer.__code__.co_freevars
               and code.co_qualname.startswith(f"{outer.__code__.co_qualname}.<locals>.") for outer in traced)


def _reads(function: types.FunctionType, traced: Sequence[types.FunctionType]) -> Iterator[tuple[Namespace, str, str]]:
    """Where each thing that a function may read lives, under which name, and as what the source shows it."""
    names = _names_read(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name in names.globals:
        if name in function.__globals__:
            yield function.__globals__, name, name
    for name in names.free:
        if name == CONTROL_NAME or _is_variable(name, function, traced):
            continue
        yield cells[name], name, name
    for first, *rest in names.chains:
        if first in cells and _is_variable(first, function, traced):
            continue
        value = _held(cells[first], first) if first in cells else function.__globals__.get(first)
        shown = first
        for attribute in rest:
            held = _attributes(value, attribute, function)
            if held is None:
                break
            shown += f".{attribute}"
            yield held, attribute, shown
            value = _held(held, attribute)


def _attributes(value: object, name: str, reader: types.FunctionType) -> dict[str, Any] | type | None:
    """What holds an attribute of a module, class or function of the user's; None for other objects, and without it."""
    if isinstance(value, types.ModuleType):
        return vars(value) if _may_change(value.__name__, reader) and name in vars(value) else None
    if isinstance(value, type) and not issubclass(value, enum.Enum):
        return next((base for base in value.__mro__
                     if name in vars(base) and _may_change(base.__module__, reader)), None)
    own = type(value).__module__.startswith("moye.")        # a kernel, or a function with @mo.jit
    function = getattr(value, "__wrapped__", None) if own else value
    if isinstance(function, types.FunctionType):
        return vars(value) if name in vars(value) and _may_change(function.__module__, reader) else None
    return None


def _may_change(module: str | None, reader: types.FunctionType) -> bool:
    """Whether a module is the user's: not moye's, the standard library's, or another installed package's."""
    top = (module or "").partition(".")[0]
    if top in ("moye", "builtins") or top in sys.stdlib_module_names - {"__main__"}:
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    own = (reader.__module__ or "").partition(".")[0] == top
    return own or not {"site-packages", "dist-packages"} & set(Path(file).parts)


_read: dict[tuple[int, int], _Names] = {}


def _names_read(function: types.FunctionType) -> _Names:
    """``free_names`` and attributes, once per code and namespace (by id: the entry's function holds them alive)."""
    key = (id(function.__code__), id(function.__globals__))
    found = _read.get(key)
    if found is None:
        chains = tuple(dict.fromkeys(attribute_reads(function.__code__)))
        found = _read[key] = _Names(function, *free_names(function), chains)
    return found


def _read_of(name: str, function: types.FunctionType) -> Loc:
    """The place where a function first reads a name; its definition if only something nested in it does."""
    for instruction in dis.get_instructions(function.__code__):
        at = instruction.positions
        if instruction.opname.startswith("LOAD_") and instruction.argval == name and at is not None and at.lineno:
            frame = Frame(function.__code__.co_filename, at.lineno, at.col_offset or 0, at.end_col_offset or -1,
                          function.__name__)
            return Loc((frame,))
    return _definition(function)


def is_mutable(value: object) -> bool:
    """Objects that a kernel must not read from its surroundings, since a change of them would go unnoticed."""
    if isinstance(value, tuple):
        return any(is_mutable(item) for item in value)
    if isinstance(value, types.MethodType):
        return is_plain_instance(value.__self__)
    if has_hidden_state(value):
        return True
    if value is None or isinstance(value, (type, types.ModuleType, enum.Enum, classmethod)) or callable(value):
        return False
    if hasattr(type(value), "__next__"):
        return True
    if type(value).__hash__ is None or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return not (type(value).__module__ == "numpy" and getattr(value, "shape", None) == ())
    if is_dataclass(value):
        parameters: Any = getattr(value, "__dataclass_params__", None)
        return not parameters.frozen or any(is_mutable(getattr(value, f.name)) for f in fields(value))
    return is_plain_instance(value) or \
        (hasattr(value, "__dict__") and type(value).__setattr__ is object.__setattr__)


def changed(captures: list[Capture]) -> bool:
    """Whether any captured name now holds something else."""
    return not all(map(holds_now, captures))


def holds_now(capture: Capture) -> bool:
    """Whether a name still holds what was captured."""
    return holds(capture, _held(capture.namespace, capture.name))


def holds(capture: Capture, now: object) -> bool:
    """Whether a value is what was captured."""
    if isinstance(capture.value, Contents):
        return contents_of(now) == capture.value
    return same_value(now, capture.value)


_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
"""What a notebook's autoreload replaces in a function that stays the same object."""


def _held(namespace: Namespace, name: str) -> object:
    """The value that a name stands for now."""
    if isinstance(namespace, types.FunctionType):
        return getattr(namespace, name)
    if isinstance(namespace, type):
        return vars(namespace).get(name, MISSING)
    if not isinstance(namespace, types.CellType):
        return namespace.get(name, MISSING)
    try:
        return namespace.cell_contents
    except ValueError:  # not assigned yet
        return MISSING
