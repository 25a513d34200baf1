"""Arrays wherever kernels run: on the GPU if there is one, else in NumPy; and progress of simulated launches.

In: NumPy arrays.  Out: arrays that a kernel takes, and what they hold afterwards.

    A = array(rng.standard_normal((M, K)), mo.float16)           # on the GPU if there is one; host(A) brings it back
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from moye.cuda.device import driver, events
from moye.dtypes import DType
from moye.errors import ArgumentError
from moye.runtime import arrays, simulate


def device(arch: str = "") -> str:
    """The name of the GPU to which ``array`` brings arrays, or "" where kernels run in the simulator.

    ``arch`` asks for at least this architecture, "sm_90", or for it alone, "sm_90a".
    """
    if not isinstance(arch, str) or (arch and not re.fullmatch(r"sm_\d+a?", arch)):
        raise ArgumentError(f"arch is {arch!r}, and must be a name such as 'sm_90' or 'sm_90a'")
    if not driver.available():
        return ""
    limits = driver.device_limits(events.current_ordinal())
    found, asked = (int(name.removeprefix("sm_").rstrip("a") or 0) for name in (limits.arch, arch))
    return limits.name if found == asked or (found > asked and not arch.endswith("a")) else ""


def array(x: Any, dtype: DType | None = None, *, order: Literal["C", "F", "K"] = "K", arch: str = "") -> Any:
    """A copy of a NumPy array for kernels: on the GPU if there is one (of ``arch``, as in ``device``), else in NumPy.

    ``order``: the first mode is contiguous ("F"), the last one ("C"), or modes lie as they do in ``x`` ("K").  On the
    GPU it is a torch tensor, or without torch a ``DeviceArray``.
    """
    if dtype is not None and not isinstance(dtype, DType):
        raise ArgumentError(f"dtype is {dtype!r}, and must be a dtype of moye, such as mo.float16")
    if order not in ("C", "F", "K"):
        raise ArgumentError(f"order is {order!r}, and must be 'C', 'F' or 'K'")
    try:
        copied = np.array(x, None if dtype is None else arrays.numpy_type(dtype), order=order)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"a {type(x).__name__} makes no NumPy array of {dtype or 'numbers'}: {error}") from None
    if copied.dtype.kind == "O":
        raise ArgumentError(f"a {type(x).__name__} holds no numbers for a kernel")
    if not device(arch):
        return copied
    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if torch is None or not torch.cuda.is_available():
        return DeviceArray(copied)
    if is_numpys(copied.dtype):
        return torch.from_numpy(copied).cuda()
    bits = torch.from_numpy(copied.view(f"i{copied.itemsize}")).cuda()          # torch knows no types of ml_dtypes
    return bits.view(getattr(torch, copied.dtype.name))


def is_numpys(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is NumPy's own; those of ml_dtypes are of kind "V", but float8_e5m2 is of kind "f"."""
    return dtype.isbuiltin != 2                         # 2: registered by another library


def host(x: Any) -> Any:
    """What an array of ``array`` holds, in NumPy; after the work on the GPU that was queued before."""
    if isinstance(x, DeviceArray):
        return x.numpy()
    if not hasattr(x, "cpu"):
        return x
    try:
        return x.cpu().numpy()
    except TypeError:                                   # bfloat16 and 8-bit floats
        torch, dtypes = sys.modules["torch"], importlib.import_module("ml_dtypes")
        name = str(x.dtype).removeprefix("torch.")
        return x.view(getattr(torch, f"int{8 * x.element_size()}")).cpu().numpy().view(getattr(dtypes, name))


class DeviceArray:
    """A copy of a NumPy array on the GPU.  Whatever has this interface is an array to moye: torch's and CuPy's, too."""

    __cuda_array_interface__: Any = None

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        if not isinstance(x, np.ndarray):
            raise ArgumentError(f"DeviceArray takes a NumPy array, not a {type(x).__name__}")
        if not is_numpys(x.dtype):
            raise ArgumentError(f"{x.dtype} has no name in __cuda_array_interface__", hint="install torch")
        self.ordinal, self.like, self.shape = events.current_ordinal(), np.empty_like(x), x.shape
        self.memory = events.Memory(x.nbytes, self.ordinal)
        driver.copy_to_device(self.memory.pointer, x.ctypes.data, x.nbytes, self.ordinal)
        self.__cuda_array_interface__ = {"shape": x.shape, "strides": x.strides, "typestr": x.dtype.str,
                                         "data": (self.memory.pointer, False), "version": 3}

    def numpy(self) -> np.ndarray[Any, Any]:
        """What it holds now."""
        driver.copy_to_host(self.like.ctypes.data, self.memory.pointer, self.like.nbytes, self.ordinal)
        return self.like.copy("K")

    def __del__(self) -> None:
        if hasattr(self, "memory") and not sys.is_finalizing():
            self.memory.free()


@contextmanager
def progress(shown: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``shown(blocks done, blocks)`` while launches in the ``with`` block are simulated."""
    if not callable(shown):
        raise ArgumentError(f"progress takes a function of the blocks done and all blocks, not {shown!r}")
    simulate.set_progress(shown)
    try:
        yield
    finally:
        simulate.set_progress(None)
