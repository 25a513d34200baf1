"""A device that is not there: torch's CPU tensors count as CUDA's, and launches are noted instead of made.

In: a ``with`` block.  Out: ``Launches``, the parameters of every launch as bytes, in their order.

    with fake_device() as launches: gemm(A, B, C)
    launches.taken()                                    # [(kernel, configuration, (bytes of each parameter, ...)), ...]

Kernels are printed and not compiled.  Tensor maps are 128 bytes made from all that counts.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from types import SimpleNamespace
from unittest import mock

from moye.cuda.device import driver, events, tensor_maps
from moye.runtime import arrays, compile, fast_launch, kernel, prepare, replay_launch
from moye.runtime.fast_launch import Plans

LIMITS = driver.DeviceLimits("a device that is not there", "sm_90a", 1024, 232448, 233472, 2048, 132)


class Launches:
    """Launches since the last ``taken()``; ``stream`` is the current stream."""

    def __init__(self):
        self.stream, self.capturing, self.fails = 7, False, 0
        self._noted, self._loaded = [], {}
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._short)

    def reader(self, kind):
        return lambda ordinal: self.stream

    def taken(self):
        noted, self._noted = self._noted, []
        return noted

    def load(self, cubin, name, ordinal, formats, cooperative=False):
        loaded = Loaded(self, name, ordinal, formats)
        loaded.cubin = hash(cubin)
        self._loaded[loaded._function] = loaded
        return loaded

    def note(self, kernel, config, values):
        self._noted.append((kernel.cubin, config, values))

    def _short(self, config, function, params, extra):
        if self.fails:
            self.fails -= 1
            return 700
        kernel = self._loaded[function]
        pointers = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        self.note(kernel, kernel.configs[config], tuple(ctypes.string_at(pointers[i], struct.calcsize(f"@{form}"))
                                                        for i, form in enumerate(kernel.formats)))
        return 0


class Loaded:
    """A kernel as it would be loaded."""

    def __init__(self, launches, name, ordinal, formats):
        self.launches, self.name, self.ordinal, self.formats = launches, name, ordinal, formats
        self.configs, self._kept = {}, []
        self._token = ctypes.create_string_buffer(8)
        self._function = ctypes.addressof(self._token)

    def _configure(self, grid, block, cluster, smem, stream, dependent):
        token = ctypes.create_string_buffer(8)
        self._kept.append(token)
        self.configs[ctypes.addressof(token)] = grid, block, cluster, smem, stream, dependent
        return SimpleNamespace(getPtr=lambda: ctypes.addressof(token))

    def launch(self, grid, block, cluster, smem, stream, params, dependent):
        values = tuple(struct.pack(f"@{form}", value) for form, value in zip(self.formats, params, strict=True))
        self.launches.note(self, (grid, block, cluster, smem, stream, dependent), values)


def encoded(tensor_map, shape, strides, ordinal, pointer):
    """128 bytes that depend on all that a tensor map depends on."""
    text = repr((tensor_map, tuple(map(int, shape)), tuple(map(int, strides)), ordinal, pointer)).encode()
    return hashlib.shake_128(text).digest(128)


def on_the_device(x):
    return arrays._torch(x)._replace(device=0)


class Programs:
    """Programs of this block alone: printed, but not compiled."""

    def __init__(self):
        self._made = {}

    def program(self, spec, arch, *, restrict=True):
        key = id(spec), arch, restrict
        if key not in self._made:
            with mock.patch.object(compile, "_compiled", self.compiled), mock.patch.object(spec, "programs", {}):
                self._made[key] = spec, compile.compile_program(spec, arch, restrict=restrict)
        return self._made[key][1]

    @staticmethod
    def compiled(printed, arch, flags):
        return SimpleNamespace(cubin=printed.source.encode(), log="", registers=65536 // 384)


@contextmanager
def forgotten():
    """Kernels that get short ways in the block, which lead to this device, have none after it."""
    use, met = kernel.Launcher._use, {}

    def noted(self, bound):
        met[id(self.kernel)] = self.kernel
        use(self, bound)

    try:
        with mock.patch.object(kernel.Launcher, "_use", noted):
            yield
    finally:
        for owner in met.values():
            owner._launchers.clear()
            owner._plans.clear()


@contextmanager
def fake_device(*functions, short=False):
    """torch's CPU tensors are on device 0 inside the block; these replayed functions forget what they knew.

    ``short``: launches that are like earlier ones go the short way.
    """
    import torch

    launches, programs = Launches(), Programs()
    readers = dict.fromkeys((torch.Tensor, torch.nn.Parameter), on_the_device)
    context = SimpleNamespace(cuCtxGetCurrent=lambda: (0, 1), CUresult=IntEnum("CUresult", {"REFUSED": 700}),
                              cuGetErrorString=lambda error: (0, b"refused"))
    of_driver = {"device_arch": lambda ordinal: "sm_90a", "available": lambda: True, "load": launches.load,
                 "device_limits": lambda ordinal: LIMITS, "_primary_context": lambda ordinal: 1,
                 "resident_clusters": lambda ordinal, size: 132 // size, "_driver": lambda: context,
                 "current_stream": lambda ordinal, kind="": launches.stream}
    with ExitStack() as stack:
        for name, value in of_driver.items():
            stack.enter_context(mock.patch.object(driver, name, value))
        stack.enter_context(forgotten() if short else mock.patch.object(Plans, "add", lambda *_: None))
        for place, name, value in ((events, "launch_function", lambda: launches.function),
                                   (tensor_maps, "encode", encoded), (kernel, "compile_program", programs.program),
                                   (prepare, "compile_program", programs.program),
                                   (replay_launch, "compile_program", programs.program),
                                   (replay_launch, "stream_reader", launches.reader),
                                   (fast_launch, "stream_reader", launches.reader),
                                   (torch.cuda, "is_current_stream_capturing", lambda: launches.capturing)):
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(mock.patch.dict(arrays._READERS, readers))
        for function in functions:
            stack.enter_context(mock.patch.multiple(function, _known={}, _ways={}))
        yield launches
