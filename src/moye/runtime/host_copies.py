"""CUDA arrays in the simulator: it works on host copies of their memory, and copies back what was written.

In: a classified call.  Out: the same call on host memory, inside the ``with`` block.

    with on_host(call, spec.func) as host: simulate.run(spec, host, grid, check=True)

Arrays that share memory share it in the copy too, and addresses are the same modulo 256.  Host arrays stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from moye import env
from moye.cuda.device import driver
from moye.ir.nodes import Func, TensorParam
from moye.runtime import simulate
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.autograd import mark, written_tensors
from moye.runtime.compile import Dim3, Specialised

_ALIGN = 256


class _Copy(NamedTuple):
    """Device bytes from ``first`` on, and their place on the host."""

    first: int
    end: int
    device: int
    host: int
    memory: Any


def simulated(spec: Specialised, call: Call, grid: Dim3) -> None:
    """A launch in the simulator, checked or unchecked as MOYE_CHECK says, wherever the arrays are."""
    with on_host(call, spec.func) as host:
        simulate.run(spec, host, grid, check=bool(env.check()))


@contextmanager
def on_host(call: Call, func: Func) -> Iterator[Call]:
    """The call on host memory; arrays that ``func`` writes are copied back unless the block raises."""
    if all(info.device is None for _, info, _ in call.arrays):
        try:
            yield call
        finally:                                        # a violation comes when something may be written already
            mark(written_tensors(func, call))
        return
    devices = {info.device for _, info, _ in call.arrays if info.device is not None}
    for device in devices:
        driver.synchronize(device)
    copies = _copied(call)
    host, pairs = _moved(call, copies)
    yield host
    for param, leaf in zip(func.params, call.leaves, strict=True):
        if isinstance(param, TensorParam) and param.buffer.written and isinstance(leaf, ArrayInfo) \
                and leaf.device is not None:
            first, end = span_bytes(leaf)
            if first < end:
                driver.copy_to_device(first, span_bytes(pairs[id(leaf)])[0], end - first, leaf.device)
    mark(written_tensors(func, call))


def _copied(call: Call) -> list[_Copy]:
    """Copies of all device memory that the arrays span; spans that overlap are copied as one."""
    spans = sorted({(info.device, *span_bytes(info)) for _, info, _ in call.arrays if info.device is not None})
    merged: list[list[int]] = []
    for device, first, end in spans:
        if merged and merged[-1][0] == device and first < merged[-1][2]:
            merged[-1][2] = max(end, merged[-1][2])
        elif first < end:
            merged.append([device, first, end])
    copies = []
    for device, first, end in merged:
        memory = np.zeros(end - first + 2 * _ALIGN, np.uint8)
        address: int = memory.ctypes.data
        host = address + (first - address) % _ALIGN
        driver.copy_to_host(host, first, end - first, device)
        copies.append(_Copy(first, end, device, host, memory))
    return copies


def _moved(call: Call, copies: list[_Copy]) -> tuple[Call, dict[int, ArrayInfo]]:
    """The call with addresses of the copies, and the host's array for each device's (by id)."""
    pairs: dict[int, ArrayInfo] = {}
    arrays = []
    for name, info, obj in call.arrays:
        if info.device is not None:
            copy = next((c for c in copies if c.device == info.device and c.first <= info.ptr < c.end), None)
            moved = info._replace(device=None, kind="host copy", ptr=_ALIGN if copy is None else
                                  copy.host + info.ptr - copy.first)
            pairs[id(info)] = moved
            info, obj = moved, obj if copy is None else copy.memory
        arrays.append((name, info, obj))
    leaves = [pairs.get(id(leaf), leaf) if isinstance(leaf, ArrayInfo) else leaf for leaf in call.leaves]
    return Call(call.specs, arrays, leaves, call.index_bits), pairs
