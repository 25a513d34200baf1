"""From a classified call to the driver: preconditions, the values of the parameters, the loaded kernel.

In: a ``Specialised`` or ``Program`` and a ``Call``.  Out: numbers, a ``LoadedKernel``, or ArgumentError.

    loaded = load(program, 0); [slot_value(slot, call) for slot in program.printed.slots]

It launches nothing; ``kernel.py`` and ``fast_launch.py`` do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from moye.dtypes import DType, bits_of
from moye.errors import ArgumentError, LaunchError
from moye.ir.nodes import Func, TensorParam
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, same_memory_overlap, span_bytes
from moye.runtime.autograd import require_untracked, written, written_tensors
from moye.runtime.compile import Dim3, Program

_load_lock = threading.Lock()


def dim3(extents: Any, what: str) -> Dim3:
    """Three extents from an integer or up to three of them."""
    if extents is None:
        raise LaunchError(f"a kernel needs {what}=, one to three integers", hint=f"pass {what}=, such as {what}=128")
    parts = tuple(extents) if isinstance(extents, (tuple, list)) or len(getattr(extents, "shape", ())) == 1 \
        else (extents,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(p, "__index__") for p in parts):
        rounded = any(isinstance(p, float) for p in parts)              # most often the quotient of n and the block
        raise LaunchError(f"{what} is one to three integers, not {extents!r}",
                          hint="mo.ceil_div(n, m) rounds a quotient up, and n // m down" if rounded else None)
    x, y, z = [p.__index__() for p in parts] + [1] * (3 - len(parts))
    least = 0 if what == "grid" else 1
    if min(x, y, z) < least:
        raise LaunchError(f"{what} {(x, y, z)} has an extent below {least}")
    return x, y, z


def more_smem(smem: Any) -> int:
    """How many bytes of dynamic shared memory a launch asks for; LaunchError if that is not such a number."""
    if smem is None:
        return 0
    if not hasattr(smem, "__index__") or smem.__index__() < 0:
        raise LaunchError(f"smem is a number of bytes, not {smem!r}")
    return int(smem.__index__())


def slots(call: Call) -> list[Any]:
    """The runtime numbers of the parameters: for each tensor its extents and then its strides; scalars as they are."""
    values: list[Any] = []
    for leaf in call.leaves:
        if isinstance(leaf, ArrayInfo):
            values.extend(leaf.shape)
            values.extend(leaf.strides)
        else:
            values.append(leaf)
    return values


def check_written(func: Func, call: Call, name: str) -> None:
    """Check that arrays that the kernel writes are writable, and that autograd does not record them."""
    for param, info, _ in written(func, call):
        if not info.writable:
            raise ArgumentError(f"{name} writes argument {param!r}, which is read-only")
    require_untracked(name, written_tensors(func, call))


def overlaps(func: Func, call: Call) -> bool:
    """Whether a written argument shares memory with another one; arrays without memory (specs) share none.

    By address, so that each is compared only with those that have not ended where it begins.
    """
    spans = sorted([(*span_bytes(leaf), p.buffer.written, i, leaf)
                    for i, (p, leaf) in enumerate(zip(func.params, call.leaves, strict=True))
                    if isinstance(p, TensorParam) and isinstance(leaf, ArrayInfo) and leaf.kind != "spec"])
    here: list[tuple[int, bool, ArrayInfo]] = []
    for first, end, dirty, _, info in spans:
        if first == end:
            continue
        here = [other for other in here if other[0] > first]
        if any((dirty or other) and same_memory_overlap(before, info) for _, other, before in here):
            return True
        here.append((end, dirty, info))
    return False


def as_bits(slot: Any) -> DType | None:
    """The dtype of a scalar whose numbers ``struct`` has no letter for: it is passed as its bits."""
    dtype: DType | None = slot.dtype
    return dtype if dtype is not None and dtype.is_float and slot.format in "HB" else None


def slot_value(slot: Any, call: Call) -> Any:
    """The value of one kernel parameter."""
    leaf = call.leaves[slot.param]
    if not isinstance(leaf, ArrayInfo):
        narrow = as_bits(slot)
        return leaf if narrow is None else bits_of(float(leaf), narrow)
    if slot.kind == "ptr":
        return leaf.ptr
    if slot.kind == "map":
        return encoded_map(slot, leaf)(leaf.ptr)
    return leaf.shape[slot.mode] if slot.kind == "shape" else leaf.strides[slot.mode]


def encoded_map(slot: Any, leaf: ArrayInfo) -> Callable[[int], bytes]:
    """A function of a pointer: the tensor map of an array like ``leaf`` that begins there."""
    from moye.cuda.device.tensor_maps import encode

    return partial(encode, slot.map, tuple(leaf.shape), tuple(leaf.strides), leaf.device or 0)


def load(program: Program, device: int) -> Any:
    """The kernel on a device; it is loaded on first use."""
    from moye.cuda.device import driver

    loaded = program.loaded.get(device)
    if loaded is None:
        with _load_lock:
            loaded = program.loaded.get(device)
            if loaded is None:
                formats = [slot.format for slot in program.printed.slots]
                loaded = driver.load(program.cubin, program.printed.name, device, formats,
                                     program.printed.cooperative)
                program.loaded[device] = loaded
    return loaded


def array_kind(call: Call) -> str:
    """The library that these arrays belong to: it decides whose current stream is meant."""
    return call.arrays[0][1].kind if call.arrays else ""


def stream_handle(stream: Any) -> int:
    """The CUstream of a handle, or of a stream object of any library."""
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise ArgumentError(f"{stream!r} is no CUDA stream")
