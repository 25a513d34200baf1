"""The headers of this folder as functions of Python: compiled once a process, called through ctypes.

    library = Library(folder)                       # g++ makes a shared library there
    library("mma", "mma.sync.aligned. ...", a, b, c, d)         # ptx_mma; arrays go as pointers, text as char*

A function that fails raises RuntimeError with the words of the C++ exception.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def compiler() -> str | None:
    return shutil.which("g++")


class Library:
    """A shared library of tensor_interface.cpp."""

    def __init__(self, folder: Path) -> None:
        made = folder / "tensor.so"
        subprocess.run([compiler() or "g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                        str(HERE / "tensor_interface.cpp"), "-o", str(made)], check=True)
        self._library = ctypes.CDLL(str(made))
        self._library.ptx_failure.restype = ctypes.c_char_p

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call ptx_<name>; RuntimeError if it fails."""
        if getattr(self._library, f"ptx_{name}")(*(_passed(x) for x in arguments)):
            raise RuntimeError(self._library.ptx_failure().decode())


def _passed(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        assert x.flags.c_contiguous, "a pointer says nothing of strides"
        return ctypes.c_void_p(x.ctypes.data)
    if isinstance(x, str):
        return ctypes.c_char_p(x.encode())
    if isinstance(x, np.generic):
        return np.ctypeslib.as_ctypes_type(x.dtype)(x.item())
    return ctypes.c_uint64(x & (1 << 64) - 1) if isinstance(x, int) else x
