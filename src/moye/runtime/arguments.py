"""Classify the arguments of a launch: specs (the specialisation key) and runtime leaves.

In: a kernel's signature and the arguments of one call.  Out: ``Call``: specs by parameter, arrays and scalars in order.

    classify(signature, (A, sA_layout, 3.0), {}).specs
    # {'A': TensorSpec(...), 'sA_layout': StaticSpec(...), 'x': ScalarSpec(float32)}

Arrays become tensors, Python numbers become runtime scalars, and everything else is static.  ``mo.Constexpr`` and
``mo.Static`` annotations make more of it static.
"""

from __future__ import annotations

import contextlib
import difflib
import enum
import functools
import inspect
import math
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye import dtypes as dt
from moye.atoms.atom import CopyOp, MmaOp
from moye.atoms.bulk import BulkOp
from moye.dtypes import DType
from moye.errors import ArgumentError, DTypeError, TraceError
from moye.lang.annotations import asked
from moye.lang.contents import contents_of
from moye.lang.likeness import compared, left_out, told_apart
from moye.lang.remade import has_own_equality, held_by, is_plain_instance
from moye.lang.signature import (
    Constexpr,
    ScalarSpec,
    Spec,
    Static,
    StaticSpec,
    TensorSpec,
    TmaSpec,
    TreeSpec,
    is_tree,
    parts_of,
)
from moye.lang.trace import JitFunction
from moye.layout import ComposedLayout, Layout, Swizzle
from moye.pipelines.multistage import Pipeline
from moye.runtime.arrays import ArrayInfo, describe, natural_strides
from moye.runtime.tma_arguments import TmaCopy
from moye.tensor.context import locate, tracing
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor
from moye.tensor.tiled import CopyAtom, TiledCopy, TiledMMA

STATIC_TYPES = (Layout, ComposedLayout, Swizzle, DType, CopyOp, BulkOp, MmaOp, CopyAtom, TiledCopy, TiledMMA, Pipeline,
                 str, bytes, type(None), enum.Enum)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, JitFunction, type)
_PLAIN = (int, float, complex, str, bytes, type(None), DType)
_VECTOR_BYTES = 16
OPTIONS = ("grid", "block", "cluster", "stream", "smem", "dependent", "arch")
"""The keywords of launches and compilations that are not arguments."""


@dataclass(slots=True)
class Call:
    """One classified call: ``arrays`` and ``numbers`` are the runtime leaves in the order of the parameters."""

    specs: dict[str, Spec] = field(default_factory=dict)
    arrays: list[tuple[str, ArrayInfo, Any]] = field(default_factory=list)
    leaves: list[ArrayInfo | int | float | bool] = field(default_factory=list)
    index_bits: int = 32
    many: bool = False
    """Whether an array has more elements than 32 bits count, in fewer places: some are the same."""

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.specs.values(), self.index_bits)


@dataclass(frozen=True, slots=True)
class Perhaps:
    """What ``Optional[mo.float64]`` asks for: numbers are of this dtype, and all else is as without an annotation."""

    dtype: DType


Role = str | DType | Perhaps
"""What an annotation asks for: "constexpr", "static", nothing, or the dtype of a scalar."""


class Signature:
    """A kernel's parameters with what their annotations say."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        self.roles: dict[str, Role] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ArgumentError(f"the kernel {function.__name__} has a parameter {parameter}; name each one")
            self.roles[name] = _role(parameter.annotation, function)
        parameters = self.signature.parameters
        self.plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values())
        """Whether every parameter is given by its place or by its name."""
        self._defaults = {name: parameter.default for name, parameter in parameters.items()
                          if parameter.default is not parameter.empty}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.plain and (found := self._bound(args, kwargs)) is not None:
            return found
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = "a kernel is no method: call it by its class, with self: mo.Constexpr, or write it outside" \
                if next(iter(self.roles), "") == "self" else None
            raise self._unbound(kwargs) or ArgumentError(f"{self.function.__name__}{self.signature}: "
                                                         f"{error}", hint=hint) from None
        bound.apply_defaults()
        return bound.arguments

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same in a fifth of the time where every argument is right; else None."""
        found = dict(zip(self.roles, args, strict=False))
        if len(args) == len(self.roles) and not kwargs:
            return found
        if len(args) > len(self.roles) or any(name in found or name not in self.roles for name in kwargs):
            return None
        given = self._defaults | found | kwargs         # type: ignore[operator]
        return {name: given[name] for name in self.roles} if len(given) == len(self.roles) else None

    def _unbound(self, kwargs: Mapping[str, Any]) -> ArgumentError | None:
        """What to say of a keyword that is not a parameter: it may be misspelt, or an option."""
        unknown = [name for name in kwargs if name not in self.signature.parameters]
        if not unknown:
            return None
        name, kernel = unknown[0], self.function.__name__
        near = difflib.get_close_matches(name, [*self.signature.parameters, *OPTIONS], 1, 0.7)
        hint = f"did you mean {near[0]}=?" if near else None
        if name in OPTIONS:
            hint = f"{kernel}.launch(..., grid=, block=, cluster=, stream=, smem=, dependent=) takes options, and " \
                   "compile takes block=, cluster= and arch="
        return ArgumentError(f"{kernel}{self.signature} has no parameter {name!r}", hint=hint)


def _role(annotation: object, function: types.FunctionType) -> Role:
    """What an annotation asks for; it may be quoted."""
    name = annotation.strip("'\" ").partition("[")[0].rpartition(".")[2] if isinstance(annotation, str) else ""
    if (found := asked(annotation, function)) is not None:
        return found.dtype if found.only else Perhaps(found.dtype)
    if annotation is Constexpr or name == "Constexpr":
        return "constexpr"
    return "static" if annotation is Static or name == "Static" else ""


def classify(signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The specs and leaves of one call; ArgumentError for what a kernel cannot take."""
    return classified(signature, signature.bind(args, kwargs))


def classified(signature: Signature, bound: Mapping[str, Any]) -> Call:
    """The same of arguments by name."""
    call = Call()
    for name, value in bound.items():
        call.specs[name] = _classify(call, name, value, signature.roles[name])
    return call


def _classify(call: Call, name: str, value: Any, role: Role) -> Spec:
    if isinstance(role, Perhaps):
        role = role.dtype if isinstance(value, (bool, int, float)) or _is_scalar(value) else ""
    if isinstance(role, DType):
        call.leaves.append(annotated(name, value, role))
        return ScalarSpec(role)
    if role == "constexpr" or isinstance(value, STATIC_TYPES):
        value = _python_number(value)
        return StaticSpec(static_key(name, value), value)
    if isinstance(value, (bool, int, float)):
        call.leaves.append(value)
        return ScalarSpec(_scalar_dtype(name, value))
    if isinstance(value, TmaCopy):
        return _tma(call, name, value, role)
    info = _describe(name, value)
    if info is not None:
        return _tensor(call, name, info, value, role)
    if is_tree(value):
        kind, names, items = parts_of(value)
        return TreeSpec(kind, names, tuple(_classify(call, f"{name}_{part}", item, role)
                                           for part, item in zip(names, items, strict=True)))
    if (dtype := dt.stands_for(value)) is not None:
        return StaticSpec(static_key(name, dtype), dtype)
    if hasattr(value, "dtype") and hasattr(value, "item") and not isinstance(value, type):
        call.leaves.append(value.item())
        return ScalarSpec(_numpy_scalar(name, value))
    if isinstance(value, _FUNCTIONS):
        return StaticSpec(static_key(name, value), value)
    if tracing() and isinstance(value, (Expr, Tensor)):
        raise in_a_kernel(f"argument {name!r} is of the kernel that is being traced")
    hint = "pass arrays, numbers, layouts and atoms; annotate static values mo.Constexpr"
    raise ArgumentError(f"argument {name!r} is a {type(value).__module__}.{type(value).__qualname__}, which a kernel "
                        f"cannot take", hint=f"pass its array, {name}.array" if hasattr(value, "array") else hint)


def _python_number(value: Any) -> Any:
    """A number of NumPy as Python's, whose arithmetic does not wrap while tracing; anything else as it is."""
    number = value.item() if isinstance(value, np.generic) else value
    return number if isinstance(number, (bool, int, float)) else value


def in_a_kernel(what: str) -> TraceError:
    """The error of a kernel that another kernel launches."""
    return TraceError(f"{what}, and a kernel launches no kernels", locs=(locate(),),
                      hint="put what both do into a function with @mo.jit, which both call")


def _numpy_scalar(name: str, value: Any) -> DType:
    try:
        return dt.from_name(str(value.dtype))
    except DTypeError as error:
        raise ArgumentError(f"argument {name!r}: {error.message}") from None


def _describe(name: str, value: Any) -> ArrayInfo | None:
    try:
        return describe(value)
    except ArgumentError as error:
        raise ArgumentError(f"argument {name!r}: {error.message}", hint=error.hint) from None


def _scalar_dtype(name: str, value: bool | int | float) -> DType:
    if isinstance(value, bool):
        return dt.bool_
    if isinstance(value, float):
        require_float32(name, value)
        return dt.float32
    if -(1 << 31) <= value < 1 << 31:
        return dt.int32
    if -(1 << 63) <= value < 1 << 63:
        return dt.int64
    raise ArgumentError(f"argument {name!r} is {value}, which does not fit 64 bits")


def require_float32(name: str, value: float) -> None:
    """Check that a Python float fits a float32 of the kernel: ArgumentError if a finite one would become infinite."""
    if math.isinf(dt.rounded(value, dt.float32)) and not math.isinf(value):
        raise ArgumentError(f"argument {name!r} is {value}, which does not fit float32, what a Python float becomes",
                            hint="pass it in an array of float64")


def _tensor(call: Call, name: str, info: ArrayInfo, value: Any, role: Role) -> TensorSpec:
    if 0 in info.strides or 0 in info.shape or info.strides.count(1) > 1:
        info = info._replace(strides=natural_strides(info.shape, info.strides))
    call.arrays.append((name, info, value))
    call.leaves.append(info)
    reach = 1
    for extent, stride in zip(info.shape, info.strides, strict=True):
        if stride < 0 and extent > 1:
            raise ArgumentError(f"argument {name!r} has a negative stride {stride}", hint="pass a copy")
        reach += (extent - 1) * stride
    if max(reach, *info.shape, 0) >= 1 << 31:
        call.index_bits = 64
    elif math.prod(info.shape) >= 1 << 31:                  # of fewer places: strides of 0, windows
        call.many = True
    return tensor_spec(info, static_shape=role == "static")


def _tma(call: Call, name: str, value: TmaCopy, role: str) -> TmaSpec:
    """The array of a TMA copy, as it is now; its coordinates have 32 bits, whatever its strides are."""
    info, tiling = value.describe()
    call.arrays.append((name, info, value.array))
    call.leaves.append(info)
    return TmaSpec(tensor_spec(info, static_shape=role == "static"), tiling)


def tensor_spec(info: ArrayInfo, *, static_shape: bool = False) -> TensorSpec:
    """The part of an array that a kernel is specialised on."""
    ptr, shape, strides, dtype = info[:4]
    most = max(1, _VECTOR_BYTES * 8 // dtype.bits)
    classes = tuple(s if s in (0, 1) else None for s in strides)
    divisors = tuple(math.gcd(s, most) for s in strides)
    return TensorSpec(dtype, tuple(shape) if static_shape else (None,) * len(shape), classes, divisors,
                      math.gcd(ptr, _VECTOR_BYTES) or _VECTOR_BYTES)


def static_key(name: str, value: object, inside: tuple[object, ...] = ()) -> object:
    """What represents a static value in the specialisation key; a function counts by its code, not by identity.

    ``inside`` holds the functions whose closures or defaults are being looked at; a recursive one counts as its
    position there.
    """
    if isinstance(value, JitFunction):
        return (JitFunction, static_key(name, value.function, inside))
    if isinstance(value, types.MethodType):
        return (types.MethodType, static_key(name, value.__func__, inside), static_key(name, value.__self__, inside))
    if isinstance(value, types.FunctionType):
        return _function_key(name, value, inside)
    if isinstance(value, functools.partial):
        parts = value.func, value.args, value.keywords
        return (functools.partial, *(static_key(name, part, inside) for part in parts))
    if isinstance(value, (tuple, list)):
        more = (_state_key(name, value, inside),) if hasattr(value, "__dict__") else ()
        return (type(value), *(static_key(name, item, inside) for item in value), *more)
    if isinstance(value, dict):
        return (type(value), *((key, told_apart(key), static_key(name, item, inside)) for key, item in value.items()))
    if is_record(value) and not _settled(value):
        return (type(value), *(_key_or_contents(name, item, inside) for item in parts_of_record(value)))
    if is_plain_instance(value) and not any(value is each for each in inside):
        return (type(value), value, _state_key(name, value, (*inside, value)))
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(f"argument {name!r} is static, but a {type(value).__name__} cannot be hashed",
                            hint="make it a tuple or a frozen dataclass") from None
    # 0.0 == -0.0 and 1 == True, in dataclasses too, but kernels of them differ.
    told = told_apart(value)
    return (type(value), told) if isinstance(value, float) else (type(value), value, told)


def _state_key(name: str, value: object, inside: tuple[object, ...]) -> object:
    """What an object of the user's holds now: an attribute that has no key counts by what is in it."""
    return tuple((attribute, _key_or_contents(name, item, inside)) for attribute, item in held_by(value).items())


def _key_or_contents(name: str, item: object, inside: tuple[object, ...]) -> object:
    try:
        return static_key(name, item, inside)
    except ArgumentError:
        return contents_of(item).parts


def unstable(value: object) -> bool:
    """Whether a static value may change its meaning while it stays the same object, as functions may.

    Functions in a frozen dataclass may do so if they have variables around them, or defaults that are not plain values.
    """
    if not is_record(value):
        return isinstance(value, (types.FunctionType, types.MethodType, JitFunction, tuple, list, dict,
                                  functools.partial)) or _may_change(value)
    if _settled(value):
        return False
    if _holds_instances(value):
        return True
    return any(f.__closure__ or not all(isinstance(x, _PLAIN) for x in (*(f.__defaults__ or ()),
                                                                         *(f.__kwdefaults__ or {}).values()))
               for f in _functions(value))


def _settled(value: Any) -> bool:
    """Whether a frozen dataclass holds neither functions nor objects of the user's.

    Equal ones of moye's are looked at once; others may have an equality of their own.
    """
    if type(value).__module__.startswith("moye."):
        with contextlib.suppress(TypeError):            # it may have no hash
            return _holds_neither(value)
    return _holds_neither.__wrapped__(value)


@functools.lru_cache(512)
def _holds_neither(value: object) -> bool:
    return not _holds_instances(value) and not any(True for _ in _functions(value))


def _functions(value: object) -> Iterator[types.FunctionType]:
    """The functions in a frozen dataclass, also those in dataclasses and tuples inside it."""
    if is_record(value):
        for item in parts_of_record(value):
            yield from _functions(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _functions(item)
    elif isinstance(value, JitFunction):
        yield value.function
    elif isinstance(value, types.MethodType):
        yield from _functions(value.__func__)
    elif isinstance(value, types.FunctionType):
        yield value


def _holds_instances(value: object) -> bool:
    """Whether an object of the user's, which may change, is in a frozen dataclass, also in what is inside that."""
    if isinstance(value, tuple) or is_record(value):
        return any(map(_holds_instances, value if isinstance(value, tuple) else parts_of_record(value)))
    return isinstance(value, (list, dict, set)) or _may_change(value)


def _may_change(value: object) -> bool:
    """Whether a value is an object of the user's whose attributes may be set."""
    return is_plain_instance(value) or has_own_equality(value)


def is_record(value: object) -> bool:
    """Whether a static value is a frozen dataclass, which may hold functions."""
    params = getattr(type(value), "__dataclass_params__", None)
    return params is not None and bool(params.frozen) and not isinstance(value, STATIC_TYPES)


def parts_of_record(value: Any) -> list[Any]:
    """The parts of a dataclass that tell it from another, to a kernel: also those that its equality leaves out."""
    cls: Any = type(value)
    return [*[getattr(value, name) for name in compared(cls)], *[getattr(value, name, None) for name in left_out(cls)]]


def _function_key(name: str, function: types.FunctionType, inside: tuple[object, ...]) -> object:
    if any(function is f for f in inside):
        return (types.FunctionType, next(i for i, f in enumerate(inside) if f is function))
    inside = (*inside, function)
    cells = tuple(static_key(name, _contents(c), inside) for c in function.__closure__ or ())
    defaults = static_key(name, function.__defaults__ or (), inside)
    keywords = static_key(name, function.__kwdefaults__ or {}, inside)
    # Equal code may read other globals; the function, which the specification holds, keeps the namespace's id its own.
    return (function.__code__, id(function.__globals__), defaults, keywords, cells)


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def same_device(call: Call, kernel: str) -> int | None:
    """The CUDA device that all arrays are on, None for host memory; ArgumentError if they are on different ones."""
    first: tuple[str, ArrayInfo] | None = None
    for name, info, _ in call.arrays:
        if first is None:
            first = (name, info)
        elif info.device != first[1].device:
            raise ArgumentError(f"{kernel}: {first[0]!r} is on {_place(first[1])} but {name!r} is on {_place(info)}",
                                hint="move them to one device")
    return None if first is None else first[1].device


def _place(info: ArrayInfo) -> str:
    return "the host" if info.device is None else f"cuda:{info.device}"


# --- a scalar argument whose parameter is annotated with a dtype -----------------------------------------------------


LARGEST = {dt.float16: 65504.0, dt.bfloat16: 3.3895313892515355e38, dt.tfloat32: 3.4028234663852886e38,
            dt.float32: 3.4028234663852886e38, dt.float8_e4m3fn: 448.0, dt.float8_e5m2: 57344.0,
            dt.float4_e2m1fn: 6.0, dt.float6_e2m3fn: 7.5, dt.float6_e3m2fn: 28.0}


def annotated(name: str, value: Any, dtype: DType) -> int | float | bool:
    """The value as a number of this dtype; ArgumentError if it does not fit."""
    number: Any = value.item() if not isinstance(value, (int, float)) and _is_scalar(value) else value
    if not isinstance(number, (bool, int, float)) or not (dtype.is_float or dtype.bits <= 64):
        raise ArgumentError(f"argument {name!r} is annotated mo.{dtype}, and {'an' if type(value) is int else 'a'} "
                            f"{type(value).__name__} is no such number",
                            hint="annotate scalars alone; an array brings its dtype")
    if dtype is dt.bool_:
        fits = isinstance(number, bool) or number in (0, 1)
        number = bool(number)
    elif dtype.is_float:
        fits = _holds(number, dtype)
        number = float(number) if fits else number
    else:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        fits = not isinstance(number, float) and low <= number < low + (1 << dtype.bits)
        number = int(number) if fits else number
    if not fits:
        told = value if not isinstance(value, int) or value.bit_length() <= 128 else f"of {value.bit_length()} bits"
        raise ArgumentError(f"argument {name!r} is {told!r}, which mo.{dtype}, its annotation, cannot hold")
    fitting: int | float | bool = number
    return fitting


def _holds(number: float, dtype: DType) -> bool:
    """Whether a dtype of floating point has a number near this one; those whose names end in fn have no infinities."""
    if number != number or number in (math.inf, -math.inf):
        return not dtype.name.endswith("fn") or (number != number and dtype is dt.float8_e4m3fn)
    return abs(number) <= LARGEST.get(dtype, sys.float_info.max)


def _is_scalar(value: Any) -> bool:
    return hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "shape", None) == ()
