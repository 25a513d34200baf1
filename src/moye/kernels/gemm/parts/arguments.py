"""What the matrix products refuse, each in one sentence, before anything is traced.

In: the arguments of a host function and its name.  Out: what they describe, or ArgumentError.

    a, b, c = matrices("gemm_sm80", A, B, C, ranks=(2, 3))
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

import moye as mo
from moye.kernels.memory import apart, same_elements
from moye.kernels.options import integer, shown
from moye.kernels.views import info_of, writable


def matrices(name: str, A: Any, B: Any, C: Any, ranks: tuple[int, ...] = (2,)) -> tuple[Any, Any, Any]:
    """A, B and C as moye describes them, their ranks, strides and devices checked, and that C is memory of its own."""
    noun = "a matrix or a batch of them" if 3 in ranks else "a matrix"
    a, b, c = array(name, "A", A, ranks, noun), array(name, "B", B, ranks, noun), array(name, "C", C, ranks, noun)
    for letter, x in (("B", b), ("C", c)):              # here, where they still have the names that the user gave them
        if x.device != a.device:
            places = ["the host" if info.device is None else f"cuda:{info.device}" for info in (a, x)]
            raise mo.ArgumentError(f"{name}: A is on {places[0]} but {letter} is on {places[1]}",
                                   hint="move them to one device")
    writable(name, "C", c)
    apart(name, "A", a, c)
    apart(name, "B", b, c)
    return a, b, c


def array(name: str, letter: str, x: Any, ranks: tuple[int, ...], noun: str) -> Any:
    """An argument as moye describes it; ArgumentError for other ranks and negative strides."""
    info = info_of(name, letter, x)
    if info is None or len(info.shape) not in ranks:
        found = f"a {type(x).__name__}" if info is None else tuple(info.shape)
        raise mo.ArgumentError(f"{name}: {letter} must be {noun}, not {found}")
    if any(step < 0 for step in info.strides):
        raise mo.ArgumentError(f"{name}: {letter} has a negative stride {min(info.strides)}", hint="pass a copy")
    return info


def same_problem(name: str, a: Any, b: Any, c: Any) -> None:
    """A (M, K), B (N, K) and C (M, N), with the same batch mode or none."""
    batches = {x.shape[2:] for x in (a, b, c)}
    (M, K), (N, depth) = a.shape[:2], b.shape[:2]
    if depth == K and tuple(c.shape[:2]) == (M, N) and len(batches) == 1:
        return
    turned = N == K and tuple(c.shape[:2]) == (M, depth) and len(a.shape) == 2
    raise mo.ArgumentError(f"{name}: A {tuple(a.shape)}, B {tuple(b.shape)} and C {tuple(c.shape)} are not (M, K), "
                           "(N, K) and (M, N), each with the same batch mode or none",
                           hint="B is (K, N) here: pass B.T" if turned else None)


def contiguous_mode(info: Any, modes: tuple[int, ...], *, loads: bool = False) -> int | None:
    """The mode, one of these, along which TMA copies an array, or None: stride 1, the others multiples of 16 bytes.

    ``loads``: the batch mode may have stride 0, one matrix for all.
    """
    if info.ptr % 16:
        return None
    for mode in modes:
        apart = [(i, step * info.dtype.bytes) for i, (extent, step)
                 in enumerate(zip(info.shape, info.strides, strict=True)) if i != mode and extent > 1]
        if info.strides[mode] == 1 and all(step % 16 == 0 and (step > 0 or (loads and i == 2)) for i, step in apart):
            return mode
    return None


def addend(name: str, letter: str, x: Any, shape: tuple[int, ...], c: Any) -> None:
    """What an epilogue adds: None, or an array of this shape that the sums can take, C itself or apart from it."""
    if x is None:
        return
    info = array(name, letter, x, (len(shape),), f"an array of shape {shape}")
    if tuple(info.shape) != shape:
        raise mo.ArgumentError(f"{name}: {letter} must be an array of shape {shape}, not {tuple(info.shape)}")
    if c.dtype.is_integer and not info.dtype.is_integer:
        raise mo.ArgumentError(f"{name}: {letter} holds {info.dtype}, and the sums are {c.dtype}: it must hold "
                               "integers")
    if not same_elements(info, c):
        apart(name, letter, info, c)


def scalar(x: Any, dtype: Any, name: str) -> Any:
    """A factor as a kernel takes it; for float64 sums as bits, since Python floats arrive in float32."""
    try:
        if isinstance(x, (str, bytes)):
            raise TypeError
        value = float(x)
    except OverflowError:
        raise mo.ArgumentError(f"{name}: alpha and beta are numbers that a float can be") from None
    except (TypeError, ValueError):
        found = repr(x) if isinstance(x, (str, bytes, complex, type(None))) else f"a {type(x).__name__}"
        raise mo.ArgumentError(f"{name}: alpha and beta are real numbers, not {found}") from None
    if dtype.is_integer:
        if not value.is_integer() or not -(1 << 31) <= value < 1 << 31:
            bits = " of 32 bits" if value.is_integer() else ""
            raise mo.ArgumentError(f"{name}: {dtype} matrices are scaled by integers{bits}, not {shown(x)}")
        return int(x)
    return np.float64(value).view(np.int64) if dtype == mo.float64 else value


def part_count(name: str, splits: Any) -> int | None:
    """The number of parts that K is split into, or None."""
    return None if splits is None else integer(name, "splits", splits, "no positive integer and not None", 1)


def configured(name: str, config: Any, wanted: Any) -> None:
    """A configuration of this kernel: a record of positive integers."""
    if config is None:
        return
    if not isinstance(config, wanted):
        raise mo.ArgumentError(f"{name}: config={shown(config, 200)} is no mo.kernels.{wanted.__name__}")
    for field in fields(wanted):
        value = getattr(config, field.name)
        if field.type == "int" and (not isinstance(value, int) or value < 1):
            raise mo.ArgumentError(f"{name}: {field.name}={value!r} of {config} is no positive integer")


def activation_of(name: str, activation: Any, known: Mapping[str, Any]) -> Any:
    """The function of an activation, or None."""
    if isinstance(activation, str) and activation in known:
        return known[activation]
    if activation is None:
        return None
    try:
        if isinstance(activation, str) or not callable(activation):
            raise TypeError
        inspect.signature(activation).bind(None)
    except ValueError:                                  # one of C, which has no signature
        return activation
    except TypeError:
        found = getattr(activation, "__qualname__", shown(activation))
        raise mo.ArgumentError(f"{name}: activation={found} is none of {', '.join(map(repr, known))} and no "
                               f"function of one register tensor") from None
    return activation
