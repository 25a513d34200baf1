"""Is the result right?  Compare the arrays that a kernel wrote with a reference: ``mo.check(kernel, expect=f)``.

In: the reference, and a launch before it runs.  Out: ``Expectation``; after the launch, ``wrong`` gives findings V1.

    wanted = expectation(lambda A, B: A @ B.T, None, spec, call, values)

Integers must be equal.  Floats may have a relative error, in the Frobenius norm and element by element relative to the
norm, both in float64.  The coarsest dtype that the kernel computes in decides how much, or ``rtol``.  A NaN that is not
expected is wrong.  ``wrong_result.py`` finds who stored the wrong value.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.errors import ArgumentError
from moye.ir import ops
from moye.ir.nodes import Func, TensorParam
from moye.lang import remade
from moye.lang.signature import is_tree, parts_of
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, describe, host_view
from moye.runtime.compile import Specialised

RTOL = {"float64": 1e-10, "float32": 1e-4, "tfloat32": 5e-3, "float16": 1e-2, "bfloat16": 5e-2, "float8_e4m3fn": 0.25,
        "float8_e5m2": 0.5}
"""The allowed error of a result, by the coarsest dtype that the kernel computes in."""
_CHUNK = 1 << 20
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Wrong:
    """What is wrong with one array: its first wrong element, got and expected, how many, the bounding box."""

    name: str
    first: tuple[int, ...]
    got: Any
    expected: Any
    count: int
    size: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    where: Array

    def __str__(self) -> str:
        many = f"it is the only wrong one of {self.size} elements"
        if self.count > 1:
            many = f"{self.count} of {self.size} elements are wrong, all of them in [{self._box()}]"
        return f"{self.name}{_shown(self.first)} is {self.got:.9g} and {self.expected:.9g} is expected: {many}"

    def _box(self) -> str:
        return ", ".join(f"{low}:{high + 1}" for low, high in zip(self.low, self.high, strict=True))


def _shown(coordinate: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, coordinate))})"


@dataclass(slots=True)
class Operand:
    """A tensor argument: its position among the parameters, its memory, its elements by coordinate."""

    name: str
    index: int
    info: ArrayInfo
    flat: Array
    written: bool

    def elements(self, flat: Array | None = None) -> Array:
        """The elements by coordinate, as a view; ``flat`` is other memory of the same form."""
        memory = self.flat if flat is None else flat
        steps = tuple(stride * memory.itemsize for stride in self.info.strides)
        dtype = memory.dtype
        memory = memory.view("u1") if memory.itemsize == 1 else memory          # NumPy does not know float8_e5m2's name
        return np.lib.stride_tricks.as_strided(memory, self.info.shape, steps).view(dtype)

    def offset(self, coordinate: Sequence[int]) -> int:
        return sum(i * stride for i, stride in zip(coordinate, self.info.strides, strict=True))


class Reference:
    """The reference function with the arguments of one launch, as they were before it."""

    def __init__(self, function: Callable[..., Any], spec: Specialised, call: Call, values: Mapping[str, Any]) -> None:
        self.function, self.spec = function, spec
        self.operands = operands_of(spec.func, call)
        self.written = [operand for operand in self.operands if operand.written]
        if not self.written:
            raise ArgumentError(f"{spec.func.name} writes no argument, so that there is no result to expect")
        self.before = {o.name: o.flat.copy() for o in self.operands}
        self.values = dict(values)
        self.call = call
        self.arguments = _chosen(function, list(values), self._tensors(), spec.func.name)

    def _tensors(self) -> list[str]:
        """The parameters that are or hold arrays."""
        names = {operand.name for operand in self.operands}
        return [name for name in self.values if any(n == name or n.startswith(f"{name}_") for n in names)]

    def __call__(self, kept: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """The expected arrays by name; ``kept`` masks the memory of arguments, and elements outside it are zero."""
        copies = iter(self._copies(kept or {}))
        passed = {name: _with_arrays(value, copies) for name, value in self.values.items()}
        positional, named = self.arguments
        return self._by_name(self.function(*(passed[name] for name in positional),
                                           **{name: passed[name] for name in named}))

    def _copies(self, kept: Mapping[str, Array]) -> Iterator[Array]:
        for operand in self.operands:
            flat = self.before[operand.name].copy()
            if operand.name in kept:
                flat[~kept[operand.name]] = 0
            yield operand.elements(flat)

    def _by_name(self, result: Any) -> dict[str, Array]:
        known = {operand.name: operand for operand in self.written}
        kernel = self.spec.func.name
        if isinstance(result, Mapping):
            if unknown := [name for name in result if name not in known]:
                raise ArgumentError(f"expect returned {unknown[0]!r}, and {kernel} writes {', '.join(known)}")
            found = dict(result)
        elif isinstance(result, (tuple, list)) and len(known) > 1:
            if len(result) != len(known):
                raise ArgumentError(f"expect returned {len(result)} arrays, and {kernel} writes {len(known)}: "
                                    f"{', '.join(known)}")
            found = dict(zip(known, result, strict=True))
        elif len(known) == 1:
            found = {next(iter(known)): result}
        else:
            raise ArgumentError(f"expect returned one array, and {kernel} writes {len(known)}: {', '.join(known)}",
                                hint="return a tuple, or a dict by name")
        return {name: self._array(known[name], value) for name, value in found.items()}

    @staticmethod
    def _array(operand: Operand, value: Any) -> Array:
        value = value.detach() if hasattr(value, "detach") else value
        array = np.asarray(value)
        if array.dtype == object:
            raise ArgumentError(f"expect returned a {type(value).__name__} for {operand.name}, which is no array",
                                hint="return the expected array")
        if array.shape != tuple(operand.info.shape):
            raise ArgumentError(f"expect returned shape {array.shape} for {operand.name}, which has shape "
                                f"{tuple(operand.info.shape)}")
        return array


def operands_of(func: Func, call: Call) -> list[Operand]:
    """The tensor arguments of a call on host memory."""
    objects = {id(info): obj for _, info, obj in call.arrays}
    found = []
    for index, (param, leaf) in enumerate(zip(func.params, call.leaves, strict=True)):
        if isinstance(param, TensorParam) and isinstance(leaf, ArrayInfo):
            found.append(Operand(param.name, index, leaf, host_view(leaf, objects[id(leaf)]), param.buffer.written))
    return found


def _chosen(function: Callable[..., Any], names: list[str], tensors: list[str],
            kernel: str) -> tuple[list[str], list[str]]:
    """Which arguments the reference takes, by position and by name.  If its parameters have the kernel's names, it
    takes those; otherwise it takes all arguments, or all arrays, in order.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:                                  # built in, and says nothing
        return tensors, []
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return names, []
    asked = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    if not asked:
        return [], names if parameters else []
    if all(p.name in names or p.default is not p.empty for p in asked) and any(p.name in names for p in asked):
        taken = [p for p in asked if p.name in names]
        return ([p.name for p in taken if p.kind is p.POSITIONAL_ONLY],
                [p.name for p in taken if p.kind is not p.POSITIONAL_ONLY])
    needed = sum(p.default is p.empty for p in asked)
    for candidates in (names, tensors):
        if needed <= len(candidates) <= len(asked):
            return candidates, []
    raise ArgumentError(f"expect takes ({', '.join(p.name for p in asked)}), and {kernel} has the parameters "
                        f"({', '.join(names)})", hint="let expect take arguments by the kernel's names, such as "
                        f"lambda {', '.join(tensors)}: ...")


def _with_arrays(value: Any, copies: Iterator[Array]) -> Any:
    """The argument with its arrays replaced, in the order in which they are classified."""
    if is_array(value):
        return next(copies)
    if not is_tree(value):
        return value
    _, names, old = parts_of(value)
    new = [_with_arrays(item, copies) for item in old]
    if all(x is y for x, y in zip(old, new, strict=True)):
        return value
    if not remade.is_record(value):
        return remade.with_items(value, new)
    return remade.remade(value, list((remade.state_of(value) | dict(zip(names, new, strict=True))).values()))


def is_array(value: Any) -> bool:
    """Whether an argument becomes a tensor of the kernel."""
    return not isinstance(value, np.generic) and describe(value) is not None


# --- comparing -------------------------------------------------------------------------------------------------------


def tolerance(func: Func, out: Operand) -> float:
    """The relative error that the coarsest float dtype of the kernel explains."""
    names = {out.info.dtype.name} | {buffer.dtype.name for buffer in func.buffers}
    for op in func.body.walk():
        if isinstance(op, ops.Gemm):
            names |= {d.name for d in (op.mma.a_dtype, op.mma.b_dtype, op.mma.c_dtype, op.mma.d_dtype)}
        elif isinstance(op, ops.Cast):
            names.add(op.result.dtype.name)
    names |= {param.buffer.dtype.name for param in func.params if isinstance(param, TensorParam)}
    return max((RTOL[name] for name in names if name in RTOL), default=0.0)


def compare(name: str, got: Array, expected: Array, rtol: float, only: Array | None) -> Wrong | None:
    """What is wrong with an array; None if it is right.  Elements outside of ``only`` are not looked at."""
    typical, error = _norms(got, expected, only)
    wrong = _wrong(got, expected, rtol, typical, error, only)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    places = np.nonzero(wrong.T)                        # the first mode counts fastest
    first = tuple(int(axis[0]) for axis in reversed(places))
    low = tuple(int(axis.min()) for axis in reversed(places))
    high = tuple(int(axis.max()) for axis in reversed(places))
    size = wrong.size if only is None else int(np.count_nonzero(only))
    return Wrong(name, first, _number(got[first]), _number(expected[first]), count, size, low, high,
                 wrong)


def _number(x: Any) -> Any:
    return x.item() if x.dtype.kind in "biu" else float(x)


def _norms(got: Array, expected: Array, only: Array | None) -> tuple[float, float]:
    """The root mean squares of what is expected and of the error, over the finite elements."""
    square = norm = 0.0
    for part in _chunks(got.shape):
        g, e = _wide(got[part]), _wide(expected[part])
        use = np.isfinite(e) & np.isfinite(g) & (True if only is None else only[part])
        norm += float(np.sum(e[use] ** 2))
        square += float(np.sum((g[use] - e[use]) ** 2))
    size = max(1, got.size if only is None else int(np.count_nonzero(only)))
    return math.sqrt(norm / size), math.sqrt(square / size)


def _wrong(got: Array, expected: Array, rtol: float, typical: float, error: float, only: Array | None) -> Array:
    if got.dtype.kind in "biu":
        wrong: Array = np.not_equal(got, expected)
        return wrong if only is None else wrong & only
    bound = _beyond(got, expected, rtol, typical, only)
    if not bound.any() and error > rtol * typical:      # many small errors
        return _beyond(got, expected, 0.0, typical, only, rtol * typical)
    return bound


def _beyond(got: Array, expected: Array, rtol: float, typical: float, only: Array | None, least: float = 0.0) -> Array:
    """Where the error is over ``rtol`` times the expected and the typical element, or one alone is NaN or infinite."""
    wrong = np.zeros(got.shape, np.bool_)
    for part in _chunks(got.shape):
        g, e = _wide(got[part]), _wide(expected[part])
        with np.errstate(invalid="ignore"):
            off = ~(np.abs(g - e) <= rtol * (np.abs(e) + typical) + least) | np.isinf(e)
        same = (g == e) | (np.isnan(g) & np.isnan(e))
        wrong[part] = off & ~same
    return wrong if only is None else wrong & only


def _wide(x: Array) -> Array:
    return np.asarray(x).astype(np.float64)


def _chunks(shape: tuple[int, ...]) -> Iterator[Any]:
    """Slices of the first mode that hold about a million elements each."""
    if not shape:
        yield ()
        return
    rows = max(1, _CHUNK // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], rows):
        yield slice(start, start + rows)
