"""Launches of moye on an emulated device: the same path as on a GPU, down to the parameters as C packs them.

In: a ``with`` block.  Out: the ``Device``, whose ``launches`` say what ran.

    with emulated(seed=1) as device: rms_norm(y, x, w)

NumPy arrays and torch's CPU tensors count as CUDA's inside.  Kernels are printed, compiled to PTX by NVRTC, translated
and run; what they do wrong is an ``EmulatorError``.  Kernels may touch arrays that moye has looked at inside; a launch
that repeats an earlier one does not look, so ``mo.describe`` its arrays before.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from emulator.device import MOST_SHARED, SHARED_PER_SM, THREADS_PER_SM, Arrays, Device, EmulatorError
from moye import testing
from moye.cuda.device import driver, events, tensor_maps
from moye.runtime import arrays, kernel, launch, prepare, replay_launch
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.check import checking
from moye.testing import host_arrays

__all__ = ["Device", "EmulatorError", "emulated"]
_ARCH = "sm_90a"


@contextmanager
def emulated(seed: int = 0, multiprocessors: int = 132) -> Iterator[Device]:
    """Launches in the block run in the emulator; the seed decides the order of threads and blocks."""
    seen = Arrays()
    device = Device(seed=seed, multiprocessors=multiprocessors, arrays=seen)
    limits = driver.DeviceLimits("an emulated H200", _ARCH, 1024, MOST_SHARED, SHARED_PER_SM, THREADS_PER_SM,
                                 multiprocessors)
    of_driver = {"device_arch": lambda ordinal: _ARCH, "available": lambda: True, "_driver": lambda: device,
                 "device_limits": lambda ordinal: limits, "_primary_context": lambda ordinal: 1,
                 "resident_clusters": lambda ordinal, size: max(1, multiprocessors // size),
                 "synchronize": lambda ordinal: None, "device_count": lambda: 1,
                 "current_stream": lambda ordinal, kind="": 0}
    with ExitStack() as stack:
        for name, value in of_driver.items():
            stack.enter_context(mock.patch.object(driver, name, value))
        load = _loader(device)
        for module in (launch, kernel, prepare, replay_launch):
            stack.enter_context(mock.patch.object(module, "load", load))
        stack.enter_context(mock.patch.object(events, "launch_function", lambda: device.short))
        stack.enter_context(mock.patch.object(replay_launch, "stream_reader", lambda kind: lambda ordinal: 0))
        configure = driver.LoadedKernel._configure
        stack.enter_context(mock.patch.object(driver.LoadedKernel, "_configure", _remembering(device, configure)))
        stack.enter_context(mock.patch.dict(arrays._READERS, _readers(seen)))
        for module in (testing, host_arrays):           # arrays of NumPy are the device's
            stack.enter_context(mock.patch.object(module, "device", lambda arch="": ""))
        judge = _Judge(checking._run, checking.on_host)
        stack.enter_context(mock.patch.object(checking, "_run", judge.run))
        stack.enter_context(mock.patch.object(checking, "on_host", judge.on_host))
        tensor_maps.encode.cache_clear()
        try:
            yield device
        finally:
            tensor_maps.encode.cache_clear()


def _readers(seen: Arrays) -> dict[type, Callable[[Any], ArrayInfo]]:
    """How arrays are read inside: as those of device 0, and noted."""
    def reader(read: Callable[[Any], Any]) -> Callable[[Any], ArrayInfo]:
        def on_the_device(x: Any) -> ArrayInfo:
            info = read(x)
            low, high = span_bytes(info)
            seen.note(x, low, high, info.writable)
            return info._replace(device=0)  # type: ignore[no-any-return]
        return on_the_device

    found: dict[type, Callable[[Any], ArrayInfo]] = {np.ndarray: reader(arrays._numpy),
                                                     arrays.Memory: reader(arrays.Memory.info)}
    torch = sys.modules.get("torch")
    if torch is not None:
        found |= dict.fromkeys((torch.Tensor, torch.nn.Parameter), reader(arrays._torch))
    return found


def _loader(device: Device) -> Callable[[Any, int], Any]:
    """``launch.load`` for programs that know their source; loaded kernels are this device's alone."""
    kept: dict[int, tuple[Any, Any]] = {}

    def load(program: Any, ordinal: int) -> Any:
        found = kept.get(id(program))
        if found is None:
            device.sources[program.cubin] = program.printed.source, program.arch
            formats = [slot.format for slot in program.printed.slots]
            loaded = driver.load(program.cubin, program.printed.name, ordinal, formats, program.printed.cooperative)
            kept[id(program)] = found = program, loaded
        program.loaded[ordinal] = found[1]
        return found[1]
    return load


def _remembering(device: Device, configure: Callable[..., Any]) -> Callable[..., Any]:
    def remembered(self: Any, *args: Any) -> Any:
        made = configure(self, *args)
        device.remember(made)
        return made
    return remembered


class _Judge:
    """Checked launches: the simulator judges them on copies, and what it finds right runs in the emulator."""

    def __init__(self, run: Callable[..., Any], on_host: Callable[..., Any]) -> None:
        self._run, self._on_host = run, on_host
        self._clean: list[tuple[Any, Any]] = []

    def run(self, name: str, grid: Any, block: Any, spec: Any, call: Any, how: Any, *rest: Any) -> Any:
        report = self._run(name, grid, block, spec, call, how, *rest)
        if report.ok and how.blocks is None and 0 not in grid:
            self._clean.append((spec, grid))
        return report

    @contextmanager
    def on_host(self, call: Any, func: Any) -> Iterator[Any]:
        spans = {span_bytes(info) for _, info, _ in call.arrays if info.device is not None}
        before = [(first, ctypes.string_at(first, end - first)) for first, end in spans if end > first]
        self._clean.clear()
        with self._on_host(call, func) as host:
            yield host
        if self._clean and host is not call:
            spec, grid = self._clean.pop()
            for first, data in before:
                ctypes.memmove(first, data, len(data))
            kernel._launch_device(spec, call, 0, grid, None, 0, False)
