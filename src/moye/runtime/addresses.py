"""The addresses of arrays as an array, for kernels whose tensor maps lead to arrays that are no arguments.

In: arrays.  Out: an int64 array of their addresses, where they are.

    a = mo.addresses([A0, A1, A2])          # a[i] is the address of A_i

The simulator follows such addresses, and knows where each array ends.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from moye.errors import ArgumentError
from moye.runtime.arrays import ArrayInfo, describe, span_bytes
from moye.runtime.autograd import mark, require_untracked
from moye.runtime.boundary import boundary
from moye.sim.values.tensor_maps import Span, forget, remember

_numbers = itertools.count()
_held: dict[int, tuple[Any, ...]] = {}


@boundary
def addresses(arrays: Sequence[Any]) -> Any:
    """The address in bytes of the first element of each array, as an int64 array beside them; it keeps them alive.

    They are of NumPy, or of torch and all on one device; ``mo.update_tensormap(tma, slot, address=a[i], ...)`` takes
    what is in it.  A kernel that reaches an array by its address must not have it, or a part of it, as an argument
    that it reads or writes without its tensor map.  ArgumentError for other arrays.
    """
    _require_list("addresses", arrays)
    infos = [_info(i, x) for i, x in enumerate(arrays)]
    devices = {info.device for info in infos}
    if len(devices) > 1:
        where = sorted("the host" if device is None else f"cuda:{device}" for device in devices)
        raise ArgumentError(f"addresses: the arrays are on {' and '.join(where)}, and a kernel runs where all are")
    made = _made([info.ptr for info in infos], arrays)
    number = next(_numbers)
    remember(number, (Span(*span_bytes(info), info.writable, info.device) for info in infos))
    _held[number] = tuple(arrays)
    weakref.finalize(made, _let_go, number)
    return made


def write_by_address(name: str, arrays: Sequence[Any]) -> None:
    """Tell torch's autograd that the kernel ``name``, launched next, writes these arrays by their addresses.

    A launch does so for arrays that are its arguments, and cannot know of others.  ArgumentError for a tensor that
    requires grad, where gradients are recorded.
    """
    _require_list("write_by_address", arrays)
    tensors = tuple((f"number {i}", x) for i, x in enumerate(arrays) if hasattr(x, "requires_grad"))
    require_untracked(name, tensors)
    mark(tensors)


def _require_list(name: str, arrays: object) -> None:
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentError(f"{name}: a {type(arrays).__name__} is no list of arrays")


def _info(i: int, x: Any) -> ArrayInfo:
    info = describe(x)
    if info is None:
        raise ArgumentError(f"addresses: number {i} is a {type(x).__qualname__}, not an array")
    return info


def _made(pointers: list[int], arrays: Sequence[Any]) -> Any:
    """The numbers as an array of the library that the arrays belong to."""
    if all(isinstance(x, np.ndarray) for x in arrays):
        return np.array(pointers, np.int64)
    torch = sys.modules.get("torch")
    if torch is not None and all(isinstance(x, torch.Tensor) for x in arrays):
        return torch.tensor(pointers, dtype=torch.int64, device=arrays[0].device)
    kinds = sorted({type(x).__qualname__ for x in arrays})
    raise ArgumentError(f"addresses: the arrays are {', '.join(kinds)}, and all must be of NumPy or all of torch")


def _let_go(number: int) -> None:
    _held.pop(number, None)
    forget(number)
