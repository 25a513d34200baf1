"""Numbers of the host for a kernel, on the stream that it is launched on: a table of addresses and extents.

In: an array of the user's, and numbers.  Out: an array of them beside it.

    table = host_numbers(C, np.array([[x.ptr for x in infos]]))

Nothing waits for the device.  A captured graph cannot copy what is the host's: there the numbers are arguments of small
kernels, which the graph runs again.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import moye as mo
from moye.kernels.workspace import empty, library_of

AT_ONCE = 64
"""Numbers that one launch takes as arguments."""


@mo.kernel
def write_numbers_kernel(out, first, values):
    """out[first + i] = values[i]: a thread each, and a block."""
    for i in mo.static_range(len(values)):
        if mo.thread_idx().x == i:
            out[first + i] = values[i]


def host_numbers(like: Any, numbers: Any) -> Any:
    """An int64 NumPy array as an array of the library and on the device of ``like``, in C's order."""
    if isinstance(like, mo.TensorLike):
        return mo.TensorLike(mo.int64, numbers.shape)
    info, package = mo.describe(like), library_of(type(like))
    if info is None or info.device is None or package not in ("torch", "cupy"):
        return np.ascontiguousarray(numbers)
    module = sys.modules[package]
    if _captured(like, package, module):
        return written_numbers(like, numbers)
    if package == "torch":                              # not pinned: CUDA has a copy of so little before it returns
        return module.from_numpy(numbers).to(like.device, non_blocking=True)
    with like.device:
        return module.asarray(numbers)


def _captured(like: Any, package: str, module: Any) -> bool:
    """Whether this library's current stream is being captured into a graph."""
    if package == "torch":
        return bool(module.cuda.is_current_stream_capturing())
    with like.device:
        return bool(module.cuda.get_current_stream().is_capturing())


def written_numbers(like: Any, numbers: Any) -> Any:
    """The same by launches, which a graph can run again."""
    flat = numbers.ravel()
    out = empty(like, mo.int64, (len(flat) + AT_ONCE,))
    for first in range(0, len(flat), AT_ONCE):
        part = np.zeros(AT_ONCE, np.int64)
        part[:len(flat) - first] = flat[first:first + AT_ONCE]
        write_numbers_kernel.launch(out, first, tuple(part), grid=1, block=AT_ONCE)
    return out[:len(flat)].reshape(numbers.shape)


def tensor_maps(like: Any, count: int) -> Any:
    """Room for tensor maps (count, 16), int64, that begins at a multiple of 128 bytes."""
    words, line = 16, 128
    if isinstance(like, mo.TensorLike):
        return mo.TensorLike(mo.int64, (count, words), strides=(words, 1))
    raw = empty(like, mo.int64, ((count + 1) * words,))
    info = mo.describe(raw)
    assert info is not None, "an array was made"
    first = -info.ptr % line // 8
    return raw[first:first + count * words].reshape(count, words)
