"""From a kernel function and its specs to a Func: the function runs once, on traced values.

In: a Python function, one spec per parameter, block and cluster shape.  Out: ``Traced`` (the Func, and the names that
the kernel and its device functions read from modules and closures).

>>> trace(matmul_kernel, specs, block=(256, 1, 1)).func

Rewriting is ``rewrite.py``, control flow ``control.py``; nothing is optimised here.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import update_wrapper
from typing import Any

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import Frame, Loc, MoyeError, TraceError
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Buffer, Extent, Func, Param, ScalarParam, TensorParam, Value
from moye.lang.control import CONTROL
from moye.lang.functions import KernelMarker
from moye.lang.rewrite import free_names, rewrite
from moye.lang.scopes import regions
from moye.lang.signature import ScalarSpec, Spec, StaticSpec, TensorSpec, map_leaves
from moye.layout import Layout
from moye.tensor.context import frame_of, locate, trace_into, tracing
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor

_callees: list[list[types.FunctionType]] = []


@dataclass(slots=True)
class Capture:
    """A name read from a module or closure: where it lives and what it was."""

    namespace: dict[str, Any] | types.CellType
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
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not tracing():
            return self.function(*args, **kwargs)
        if self._rewritten is None:
            self._rewritten = rewrite(self.function, CONTROL)
        if _callees:
            _callees[-1].append(self.function)
        return self._rewritten(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<mo.jit {self.function.__qualname__}>"


def jit(function: Callable[..., Any]) -> JitFunction:
    """Decorator of a device function: its control flow on traced values becomes control flow of the kernel."""
    if not isinstance(function, types.FunctionType):
        raise TraceError(f"@mo.jit decorates Python functions, not {function!r}")
    return JitFunction(function)


def trace(function: types.FunctionType, specs: dict[str, Spec], *, block: tuple[int, int, int],
          cluster: tuple[int, int, int] = (1, 1, 1), index_bits: int = 32) -> Traced:
    """Trace a kernel for one specialisation.  ``specs`` maps parameter names to specs, in order."""
    func = Func(function.__name__, [], Block(), block, cluster_dim=cluster, index_bits=index_bits,
                loc=_definition(function))
    rewritten = rewrite(function, CONTROL)
    builder = Builder(func, locate)
    arguments = bind(func, specs)
    callees: list[types.FunctionType] = [function]
    _callees.append(callees)
    try:
        with trace_into(builder):
            regions().append(KernelMarker(rewritten.__code__))
            _trace_entry(rewritten, arguments)
    finally:
        _callees.pop()
    _add_notes(func, specs)
    return Traced(func, captures_of(callees))


def _trace_entry(function: types.FunctionType, arguments: dict[str, Any]) -> None:
    try:
        result = function(**arguments)
    except MoyeError as error:
        raise error.at(_where(error)) from None
    if result is not None:
        raise TraceError(f"the kernel {function.__name__} returns {result!r}; a kernel returns nothing")


def _where(error: BaseException) -> Loc:
    """The user's frames of a traceback."""
    frames: list[Frame] = []
    step = error.__traceback__
    while step is not None:
        frame = frame_of(step.tb_frame.f_code, step.tb_lasti)
        if frame is not None:
            frames.append(frame)
        step = step.tb_next
    return Loc(tuple(frames))


def _definition(function: types.FunctionType) -> Loc:
    code = function.__code__
    return Loc((Frame(code.co_filename, code.co_firstlineno, 0, -1, function.__name__),))


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
        assert isinstance(spec, TensorSpec), "a leaf spec"
        tensors += 1
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


def _leaf(x: Extent) -> Any:
    return x if isinstance(x, int) else Expr(x)


def _add_notes(func: Func, specs: dict[str, Spec]) -> None:
    """Header lines of the printed source: tensors with their layouts, static arguments."""
    params: dict[str, Param] = {p.name: p for p in func.params}
    for name, spec in specs.items():
        param = params.get(name)
        if isinstance(param, TensorParam):
            func.notes.append(f"{name}: {param.buffer.dtype} {param.buffer.layout}, {param.buffer.align}-byte aligned")
        elif isinstance(spec, StaticSpec):
            text = str(spec.value)
            func.notes.append(f"{name} = {text if len(text) <= 100 else text[:97] + '...'}")
    for buffer in func.shared_buffers:
        func.notes.append(f"{buffer.name}: shared {buffer.dtype} {buffer.layout}")


# --- captures --------------------------------------------------------------------------------------------------------


def captures_of(functions: list[types.FunctionType]) -> list[Capture]:
    """What the functions read from modules and closures; mutable objects are an error."""
    captures: list[Capture] = []
    seen: set[tuple[int, str]] = set()
    for function in functions:
        globals_read, free = _names_read(function)
        for name in globals_read:
            if name in function.__globals__ and (id(function.__globals__), name) not in seen:
                seen.add((id(function.__globals__), name))
                captures.append(Capture(function.__globals__, name, function.__globals__[name]))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in free:
            if name in cells and (id(cells[name]), name) not in seen:
                seen.add((id(cells[name]), name))
                captures.append(Capture(cells[name], name, _held(cells[name], name)))
    for capture in captures:
        if is_mutable(capture.value):
            raise TraceError(
                f"the kernel reads {capture.name!r}, a {type(capture.value).__name__} that may change between launches",
                hint="pass it as a parameter annotated mo.Constexpr, or make it a tuple or a frozen dataclass")
    return captures


_read: dict[tuple[int, int], tuple[types.FunctionType, tuple[tuple[str, ...], tuple[str, ...]]]] = {}


def _names_read(function: types.FunctionType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``free_names``, once per code and namespace (by id: the entry's function holds them alive)."""
    key = (id(function.__code__), id(function.__globals__))
    found = _read.get(key)
    if found is None:
        found = _read[key] = (function, free_names(function))
    return found[1]


def is_mutable(value: object) -> bool:
    """Objects that a kernel must not read from its surroundings, since a change of them would go unnoticed."""
    if isinstance(value, tuple):
        return any(is_mutable(item) for item in value)
    if value is None or isinstance(value, (type, types.ModuleType, enum.Enum)) or callable(value):
        return False
    if type(value).__hash__ is None or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return not (type(value).__module__ == "numpy" and getattr(value, "shape", None) == ())
    if is_dataclass(value):
        parameters: Any = getattr(value, "__dataclass_params__", None)
        return not parameters.frozen or any(is_mutable(getattr(value, f.name)) for f in fields(value))
    return hasattr(value, "__dict__") and type(value).__setattr__ is object.__setattr__


def changed(captures: list[Capture]) -> bool:
    """Whether any captured name now holds something else."""
    for capture in captures:
        now = _held(capture.namespace, capture.name)
        if now is not capture.value and (type(now) is not type(capture.value) or now != capture.value):
            return True
    return False


_MISSING = object()


def _held(namespace: dict[str, Any] | types.CellType, name: str) -> object:
    """What a name stands for now."""
    if not isinstance(namespace, types.CellType):
        return namespace.get(name, _MISSING)
    try:
        return namespace.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING
