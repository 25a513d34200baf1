"""Arrays of several libraries as views with other modes: described, compared, permuted, merged into the fewest modes.

In: arrays of the user's.  Out: what is wrong with them, in one sentence, or views of the same memory.

    modes = merged((3, 5, 8), (40, 8, 1), (80, 8, 1))       # [Mode(40, (1, 1)), Mode(3, (40, 80))], the fastest first
    view(x, modes, 0)                                       # x as a (40, 3) array
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import moye as mo
from moye.kernels.memory import apart, repeats, same_elements
from moye.kernels.options import shown

FLOATS = (mo.bfloat16, mo.float16, mo.float32, mo.float64)


class Mode(NamedTuple):
    """An extent, and how far apart its elements lie in each of several arrays."""

    extent: int
    strides: tuple[int, ...]


def info_of(who: str, name: str, x: Any) -> Any:
    """``mo.describe(x)``, None if x is no array; what that refuses is told with the argument's name."""
    try:
        return mo.describe(x)
    except mo.ArgumentError as error:
        raise mo.ArgumentError(f"{who}: {name}: {error.message}", hint=error.hint, code=error.code) from None


def described(who: str, name: str, x: Any, dtypes: Sequence[Any] | None = FLOATS) -> Any:
    """``mo.describe(x)``, or ArgumentError if it is no array, runs backwards, or has another dtype than these."""
    info = info_of(who, name, x)
    if info is None:
        raise mo.ArgumentError(f"{who}: {name} is a {type(x).__name__}, and no array")
    if dtypes is not None and info.dtype not in dtypes:
        allowed = ", ".join(dtype.name for dtype in dtypes)
        raise mo.ArgumentError(f"{who}: {name} holds {info.dtype}; it may hold {allowed}")
    if any(step < 0 for step in info.strides):
        raise mo.ArgumentError(f"{who}: {name} has a negative stride {min(info.strides)}", hint="pass a copy")
    return info


def together(who: str, **arrays: Any) -> None:
    """ArgumentError unless all described arrays lie on one device.  (Specs lie everywhere.)"""
    real = [(name, info) for name, info in arrays.items() if info is not None and info.kind != "spec"]
    for name, info in real[1:]:
        first, other = real[0]
        if info.device != other.device:
            raise mo.ArgumentError(f"{who}: {name} is on {_place(info)}, and {first} on {_place(other)}")


def axes_given(who: str, axis: Any) -> tuple[Any, ...]:
    """The axes that an argument names: one, or a list of them; ArgumentError for anything else."""
    if whole(axis) is not None:
        return (whole(axis),)
    try:
        if not isinstance(axis, Iterable) or isinstance(axis, (str, bytes, bytearray)):
            raise TypeError
        return tuple(i if whole(i) is None else whole(i) for i in axis)
    except TypeError:                                   # as arrays without modes give, which are said to be iterable
        raise mo.ArgumentError(f"{who}: axis={shown(axis)} is neither an axis nor a list of axes") from None


def whole(x: Any) -> int | None:
    """The integer that x is, of whatever library; None for bools and all that is none."""
    try:
        return None if isinstance(x, bool) else operator.index(x)
    except TypeError:
        return None


def _place(info: Any) -> str:
    return "the host" if info.device is None else f"device {info.device}"


def has_clusters(x: Any) -> bool:
    """Whether blocks of a kernel on this array may be clusters: on sm_90 and later, and in the simulator."""
    arch = mo.arch_of(x)
    return arch is None or int(arch.removeprefix("sm_").rstrip("af")) >= 90


def same(who: str, what: str, name: str, a: Any, other: str, b: Any) -> None:
    """ArgumentError unless two described arrays have one shape or one dtype."""
    x, y = getattr(a, what), getattr(b, what)
    if (tuple(x) if what == "shape" else x) != (tuple(y) if what == "shape" else y):
        raise mo.ArgumentError(f"{who}: {name} has {what} {_text(x)}, and {other} has {_text(y)}")


def _text(x: Any) -> str:
    return str(tuple(x)) if isinstance(x, Sequence) else str(x)


def writable(who: str, name: str, info: Any) -> None:
    """ArgumentError if a described array cannot be written, or has several coordinates for one element."""
    if not info.writable:
        raise mo.ArgumentError(f"{who}: {name} cannot be written: it is a read-only {info.kind} array")
    if repeats(info):
        raise mo.ArgumentError(f"{who}: {name} is written, and its strides {tuple(info.strides)} repeat elements",
                               hint="pass an array of its own")


def outputs(who: str, written: dict[str, Any], read: dict[str, Any], *,
            in_place: Collection[str] = ()) -> None:
    """ArgumentError if a described output cannot be written, or shares memory with another array of the call.

    ``in_place``: inputs that an output may be, element by element.  What is None is not there.
    """
    there = [(name, info) for name, info in written.items() if info is not None]
    for i, (name, info) in enumerate(there):
        writable(who, name, info)
        for other, x in (*read.items(), *there[:i]):
            if x is not None and not (other in in_place and same_elements(x, info)):
                apart(who, other, x, info, name)


def axis_of(who: str, axis: int, rank: int) -> int:
    """The axis counted from the front, or ArgumentError."""
    found = whole(axis)
    if found is None or not -rank <= found < rank:
        raise mo.ArgumentError(f"{who}: axis {shown(axis)} is none of the {rank} axes")
    return found % rank


def modes_of(shape: Sequence[int], *strides: Sequence[int]) -> list[Mode]:
    """Modes of extents above 1, in the order of the shape."""
    return [Mode(n, steps) for n, *rest in zip(shape, *strides, strict=True) if (steps := tuple(rest)) and n != 1]


def merged(modes: Sequence[Mode]) -> list[Mode]:
    """The fewest modes that reach the same elements of all arrays, those where the first array's lie nearest first."""
    result: list[Mode] = []
    for mode in sorted(modes, key=lambda m: m.strides):
        last = result[-1] if result else None
        if last and all(s == t * last.extent for s, t in zip(mode.strides, last.strides, strict=True)):
            result[-1] = Mode(last.extent * mode.extent, last.strides)
        else:
            result.append(mode)
    return result


def view(x: Any, modes: Sequence[Mode], which: int) -> Any:
    """x with these modes, as array number ``which`` of them has them; x itself if it has them already."""
    info: Any = mo.describe(x)
    shape, strides = tuple(m.extent for m in modes), tuple(m.strides[which] for m in modes)
    if tuple(info.shape) == shape and tuple(info.strides) == strides:
        return x
    return strided(x, shape, strides)


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
    """The memory of x, from ``offset`` elements behind its first one on, under another shape and other strides."""
    info: Any = mo.describe(x)
    if info.kind == "spec":
        align = math.gcd(x.align, offset * info.dtype.bytes) if offset else x.align
        return mo.TensorLike(info.dtype, shape, strides, align)
    if info.kind == "torch":
        return x.as_strided(shape, strides, x.storage_offset() + offset)
    if info.kind not in ("numpy", "cupy"):
        raise mo.ArgumentError(f"a {type(x).__name__} of shape {tuple(info.shape)} cannot be viewed as {shape}",
                               hint="pass a torch, CuPy or NumPy array")
    tricks = importlib.import_module(f"{info.kind}.lib.stride_tricks")          # of a library that is loaded
    memory = x.view("u1") if x.itemsize == 1 else x     # NumPy calls float8_e5m2 "<f1", and does not know the name
    if offset:
        flat = tricks.as_strided(memory, (offset + 1,), (x.itemsize,))
        memory = flat[offset:]
    return tricks.as_strided(memory, shape, tuple(s * x.itemsize for s in strides)).view(x.dtype)


def width_of(modes: Sequence[Mode], *infos: Any, limit: int = 16) -> int:
    """Elements of the widest vector along the first mode at whose multiples the lines of all arrays begin.

    It has at most ``limit`` bytes of the widest dtype.  It is 1 unless the first mode is contiguous in the first array;
    arrays in which it is not do not count.  ``infos`` are what ``mo.describe`` says of the arrays.
    """
    if not modes or modes[0].strides[0] != 1:
        return 1
    width: int = limit // max(info.dtype.bytes for info in infos)
    for which, info in enumerate(infos):
        if modes[0].strides[which] == 1:
            width = math.gcd(width, info.ptr // info.dtype.bytes, *(mode.strides[which] for mode in modes[1:]))
    return width & -width
