"""Arrays that a kernel's host function needs beside its arguments, from the library of the arguments.

In: an array of the user's.  Out: an uninitialised array beside it, or a view with its modes exchanged.

>>> empty(C, float32, (M, N, splits))       # column-major, on C's device

Libraries are found through ``sys.modules``; none is imported here.
"""

from __future__ import annotations

import sys
from typing import Any

import moye as mo


def empty(like: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialised column-major array of this dtype and shape, of the library and on the device of ``like``."""
    package = type(like).__module__.partition(".")[0]
    module = sys.modules.get(package)
    if package == "torch" and module is not None:
        order = range(len(shape))[::-1]
        return module.empty(shape[::-1], dtype=getattr(module, dtype.name), device=like.device).permute(*order)
    if package in ("numpy", "cupy") and module is not None:
        return module.empty(shape, dtype=dtype.numpy, order="F")
    raise mo.ArgumentError(f"{package} arrays cannot be made here: pass torch, CuPy or NumPy arrays, or splits=1")


def swapped(x: Any) -> Any:
    """A view with the first two modes exchanged."""
    if not hasattr(x, "swapaxes"):
        raise mo.ArgumentError(f"a {type(x).__name__} has no swapaxes: pass a row-major C")
    return x.swapaxes(0, 1)
