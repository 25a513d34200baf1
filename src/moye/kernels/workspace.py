"""Arrays that a kernel's host function needs beside its arguments, from the library of the arguments.

In: an array of the user's.  Out: an uninitialised array beside it, or a view with its modes exchanged.

    empty(C, float32, (M, N, splits))       # column-major, on C's device

Libraries are found through ``sys.modules``; none is imported here.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import moye as mo

MAKES_ARRAYS = ("torch", "numpy", "cupy", "spec")
"""The kinds of arrays beside which ``empty`` makes others."""


_WITHOUT = {"jax": "JAX, whose arrays no launch may write", "jaxlib": "JAX, whose arrays no launch may write",
            "moye": "memory that another program hands over, such as XLA in moye.jax.call"}
"""By the package of an array: for whom nothing can be made."""


@functools.partial(mo.scratch, raw=True)
def empty(like: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialised column-major array of this dtype and shape, of the library and on the device of ``like``."""
    if isinstance(like, mo.TensorLike):
        return mo.TensorLike(dtype, shape)
    package = library_of(type(like))
    module = sys.modules.get(package)
    if package == "torch" and module is not None:
        order = range(len(shape))[::-1]
        return module.empty(shape[::-1], dtype=getattr(module, dtype.name), device=like.device).permute(*order)
    if package in ("numpy", "cupy") and module is not None:
        known = dtype.numpy if hasattr(module, dtype.numpy) else getattr(_ml_dtypes(), dtype.numpy)
        return module.empty(shape, dtype=known, order="F")
    whose = _WITHOUT.get(package, f"{package} arrays")
    raise mo.ArgumentError(f"this call needs an array beside its arguments, which moye cannot make for {whose}",
                           hint="pass torch, CuPy or NumPy arrays")


def _ml_dtypes() -> Any:
    """The library of the dtypes that NumPy does not have."""
    return importlib.import_module("ml_dtypes")


def library_of(cls: type) -> str:
    """The package of a class of arrays, which may be the user's own of a library's."""
    packages = [base.__module__.partition(".")[0] for base in cls.__mro__]
    return next((package for package in packages if package in MAKES_ARRAYS), packages[0])


def swapped(x: Any) -> Any:
    """A view with the first two modes exchanged."""
    if isinstance(x, mo.TensorLike):
        (rows, columns, *shape), (down, along, *apart) = x.shape, x.info().strides
        return replace(x, shape=(columns, rows, *shape), strides=(along, down, *apart))
    if not hasattr(x, "swapaxes"):
        raise mo.ArgumentError(f"a {type(x).__name__} has no swapaxes",
                               hint="pass a torch, CuPy or NumPy array; often a row-major C does too")
    return x.swapaxes(0, 1)


def ordered(x: Any, order: tuple[int, ...]) -> Any:
    """A view with its modes in this order."""
    if isinstance(x, mo.TensorLike):
        strides = x.info().strides
        return replace(x, shape=tuple(x.shape[i] for i in order), strides=tuple(strides[i] for i in order))
    permute = getattr(x, "permute", None) or getattr(x, "transpose", None)
    if permute is None:
        raise mo.ArgumentError(f"a {type(x).__name__} has no transpose: pass a torch, CuPy, JAX or NumPy array")
    return permute(*order)


def end_to_end(like: Any, arrays: Sequence[Any]) -> Any:
    """The elements of all arrays, which are of one dtype, one array behind the other, beside ``like``."""
    if isinstance(like, mo.TensorLike):
        return mo.TensorLike(arrays[0].dtype, (sum(math.prod(x.shape) for x in arrays),))
    package = library_of(type(like))
    if package == "torch":
        return sys.modules[package].cat([x.detach().reshape(-1) for x in arrays])
    if package not in MAKES_ARRAYS:
        empty(like, mo.float32, (1,))                   # says what nothing can be made for
    return sys.modules[package].concatenate([x.reshape(-1) for x in arrays])


def indexed(x: Any, *index: Any) -> Any:
    """``x[index]``, a view; ArgumentError for what has no views, such as an array of DLPack's protocol alone."""
    if not hasattr(x, "__getitem__"):
        raise mo.ArgumentError(f"a {type(x).__name__} has no views of a part of it",
                               hint="pass a torch, CuPy or NumPy array, as by from_dlpack")
    return x[index]


def as_one(x: Any) -> Any:
    """A view with a first mode of one more."""
    if isinstance(x, mo.TensorLike):
        return replace(x, shape=(1, *x.shape), strides=(0, *x.info().strides))
    return indexed(x, None)


def one_row(x: Any, info: Any) -> Any:
    """Matrices, or, of a single row whose elements follow each other, a view whose stride between rows is natural.

    Any stride may be told of a single one, such as 1 of the transpose of a column, which would be no multiple of 16
    bytes.
    """
    if info.shape[0] != 1 or info.strides[1] != 1 or info.strides[0] == info.shape[1]:
        return x
    if isinstance(x, mo.TensorLike):
        return replace(x, strides=(info.shape[1], *info.strides[1:]))
    return as_one(x[0])


def one_batch(x: Any) -> Any:
    """A view of a matrix as a batch of one."""
    if isinstance(x, mo.TensorLike):
        (rows, columns), (down, along) = x.shape, x.info().strides
        return replace(x, shape=(rows, columns, 1), strides=(down, along, rows * down * columns * along))
    return indexed(x, slice(None), slice(None), None)


def columns(x: Any, count: int, *, batched: bool) -> Any:
    """A view of the first columns of a batch, or of its first matrix."""
    if isinstance(x, mo.TensorLike):
        kept = 3 if batched else 2
        return replace(x, shape=(x.shape[0], count, *x.shape[2:])[:kept], strides=x.info().strides[:kept])
    return x[:, :count] if batched else x[:, :count, 0]


def halves(x: Any) -> tuple[Any, Any]:
    """Views of the first and the second half of the rows, or of the elements."""
    if isinstance(x, mo.TensorLike):
        half = replace(x, shape=(x.shape[0] // 2, *x.shape[1:]), strides=x.info().strides)
        return half, half
    info = mo.describe(x)
    if info is None:
        raise mo.ArgumentError(f"a {type(x).__name__} has no rows to take: pass torch, CuPy or NumPy arrays")
    rows = info.shape[0] // 2
    return indexed(x, slice(rows)), indexed(x, slice(rows, None))


@mo.scratch
def zeros(like: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The same, of zeros."""
    x = empty(like, dtype, shape)
    if not isinstance(x, mo.TensorLike):
        x[...] = 0
    return x


@functools.partial(mo.scratch, restored=True)
def counters(like: Any, count: int) -> Any:
    """An int32 array of at least ``count`` zeros, which its kernel leaves behind as zeros; one for each stream.

    Kernels of one stream run one after the other, so they may share it.  A captured graph runs in whatever stream, and
    so has its own.
    """
    if isinstance(like, mo.TensorLike):
        return mo.TensorLike(mo.int32, (count,))
    package = library_of(type(like))
    module = sys.modules.get(package)
    if package == "torch" and module is not None and like.is_cuda:
        if module.cuda.is_current_stream_capturing():
            return module.zeros(count, dtype=module.int32, device=like.device)
        key = (like.device.index, module.cuda.current_stream(like.device).cuda_stream)
        kept = _counters.get(key)
        if kept is None or kept.numel() < count:
            kept = _counters[key] = module.zeros(max(1024, count), dtype=module.int32, device=like.device)
        return kept
    return zeros(like, mo.int32, (count,))


_counters: dict[tuple[int, int], Any] = {}


def words(x: Any, info: Any) -> tuple[Any, int] | None:
    """All whole 16 bytes of an array's memory as int32, and how many bytes behind their begin x does (-15 to 0).

    What is between the elements of x counts as its memory.  None where there are no such words: the memory is short, or
    belongs to torch and begins at no multiple of 4 bytes.
    """
    width, per = info.dtype.bytes, 4 // info.dtype.bytes
    span = sum((extent - 1) * step for extent, step in zip(info.shape, info.strides, strict=True)) + 1
    first = -info.ptr % 16 // width
    count = (span - first) * width // 16 * (16 // width)
    if count <= 0:
        return None
    if info.kind == "spec":
        return mo.TensorLike(mo.int32, (count // per,)), -first * width
    if info.kind == "torch":
        if (x.storage_offset() + first) % per:
            return None
        flat = x.detach().as_strided((span,), (1,))
        kind = sys.modules["torch"].int32
    else:
        tricks = importlib.import_module(f"{info.kind}.lib.stride_tricks")      # of a library that is loaded
        flat, kind = tricks.as_strided(x.view(f"u{width}"), (span,), (width,)), "int32"
    return flat[first:first + count].view(kind), -first * width
