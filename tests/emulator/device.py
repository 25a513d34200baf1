"""The CUDA driver as far as moye calls it, over the emulator: what a launch on a device does, without one.

In: the calls that ``moye.cuda.device.driver`` makes of ``cuda.bindings.driver``.  Out: CUDA's answers; a launch runs at
once, and raises ``EmulatorError`` where the kernel does something wrong.

    device = Device(seed=0); device.cuLaunchKernelEx(config, function, params, 0)

Facts are those of an H200.  Source: CUDA driver API; PTX is compiled from the printed source, as NVRTC compiles it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import random
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from emulator import build, maps
from moye.cuda.compiler import cubin as cubins
from moye.cuda.compiler.nvrtc import compile_ptx

SHARED_PER_SM, MOST_SHARED, THREADS_PER_SM, BLOCKS_PER_SM, REGISTERS = 233472, 232448, 2048, 32, 65536
_MOST_SWITCHES = 2_000_000_000


class EmulatorError(Exception):
    """What a kernel did wrong, with the line of the PTX."""


class _Names:
    """Any name as itself: the driver's enumerations."""

    def __getattr__(self, name: str) -> str:
        return name


class _Range(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("writable", ctypes.c_uint64)]


class _Launch(ctypes.Structure):
    """``EmuLaunch`` of scheduler.cpp."""

    _fields_ = [("body", ctypes.c_void_p), *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "cluster")),
                *((name, ctypes.c_uint32) for name in ("dynamic_size", "static_size", "multiprocessors", "seed")),
                *((name, ctypes.c_uint64) for name in ("resident", "most", "workspace")),
                ("params", ctypes.c_void_p), ("ranges", ctypes.POINTER(_Range)), ("range_count", ctypes.c_uint64),
                ("executed", ctypes.c_uint64), ("switches", ctypes.c_uint64), ("error", ctypes.c_char_p),
                ("error_size", ctypes.c_uint64)]


@dataclass(slots=True)
class Function:
    """One loaded kernel."""

    name: str
    library: build.Library
    info: cubins.KernelInfo
    ptx: Path
    token: Any = field(default_factory=lambda: ctypes.create_string_buffer(8))

    def __int__(self) -> int:
        return ctypes.addressof(self.token)


class Config(SimpleNamespace):
    """CUlaunchConfig."""

    def __init__(self) -> None:
        super().__init__(attrs=[], numAttrs=0, token=ctypes.create_string_buffer(8))

    def getPtr(self) -> int:
        return ctypes.addressof(self.token)


@dataclass(slots=True)
class Launched:
    """What one launch was and took."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    instructions: int
    seconds: float


class Device:
    """One device; it has the attributes of ``cuda.bindings.driver`` that moye uses."""

    CUdevice_attribute = CUfunction_attribute = CUlaunchAttributeID = CUtensorMapDataType = _Names()
    CUtensorMapSwizzle = CUtensorMapInterleave = CUtensorMapL2promotion = CUtensorMapFloatOOBfill = _Names()
    CUresult = IntEnum("CUresult", {"CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_LAUNCH_FAILED": 719})
    CUlaunchConfig = Config
    cuuint64_t = cuuint32_t = CUstream = staticmethod(int)

    def __init__(self, *, seed: int, multiprocessors: int, arrays: Any) -> None:
        self.random, self.multiprocessors, self.arrays = random.Random(seed), multiprocessors, arrays
        self.sources: dict[bytes, tuple[str, str]] = {}
        self.launches: list[Launched] = []
        self._functions: dict[int, Function] = {}
        self._configs: dict[int, Config] = {}
        self._failure: Exception | None = None
        self.short_launches = 0
        self._workspace = ctypes.create_string_buffer(64)
        self.short = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._short)

    # --- devices and contexts ----------------------------------------------------------------------------------------

    def cuGetErrorString(self, error: int) -> tuple[int, bytes]:
        return 0, b"the emulator refuses this"

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, 1

    def cuCtxSynchronize(self) -> tuple[int]:
        return 0,

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        return 0,

    def cuMemcpyDtoH(self, host: int, pointer: int, size: int) -> tuple[int]:
        ctypes.memmove(host, pointer, size)
        return 0,

    def cuMemcpyHtoD(self, pointer: int, host: int, size: int) -> tuple[int]:
        ctypes.memmove(pointer, host, size)
        return 0,

    def CUlaunchAttribute(self) -> SimpleNamespace:
        return SimpleNamespace(id=None, value=None)

    def CUlaunchAttributeValue(self) -> SimpleNamespace:
        return SimpleNamespace(clusterDim=SimpleNamespace(x=1, y=1, z=1))

    # --- kernels -----------------------------------------------------------------------------------------------------

    def cuLibraryLoadData(self, cubin: bytes, *_: Any) -> tuple[int, bytes]:
        return 0, cubin

    def cuLibraryGetKernel(self, cubin: bytes, name: bytes) -> tuple[int, Function]:
        source, arch = self.sources[cubin]
        text, path = _ptx(source, name.decode(), arch)
        return 0, Function(name.decode(), build.build(text), cubins.parse(cubin)[name.decode()], path)

    def cuKernelGetFunction(self, function: Function) -> tuple[int, Function]:
        self._functions[int(function)] = function
        return 0, function

    def cuFuncGetAttribute(self, attribute: str, function: Function) -> tuple[int, int]:
        info = function.info
        found = {"NUM_REGS": info.registers, "SHARED_SIZE_BYTES": info.smem,
                 "MAX_THREADS_PER_BLOCK": info.max_threads or 1024}
        return 0, found[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def cuFuncSetAttribute(self, function: Function, attribute: str, value: int) -> tuple[int]:
        return 0,

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: Function, threads: int,
                                                    smem: int) -> tuple[int, int]:
        warps = -(-threads // 32)
        registers = -(-function.info.registers // 8) * 8 * 32 * warps
        return 0, min(BLOCKS_PER_SM, THREADS_PER_SM // (32 * warps), REGISTERS // max(1, registers),
                      SHARED_PER_SM // (smem + function.info.smem + 1024))

    # --- tensor maps -------------------------------------------------------------------------------------------------

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[int, Any]:
        return self._map(maps.tiled(*args))

    def cuTensorMapEncodeIm2col(self, *args: Any) -> tuple[int, Any]:
        return self._map(maps.im2col(*args))

    def _map(self, answer: tuple[int, Any]) -> tuple[int, Any]:
        return self.CUresult(answer[0]) if answer[0] else 0, answer[1]

    # --- launches ----------------------------------------------------------------------------------------------------

    def remember(self, config: Config) -> None:
        self._configs[config.getPtr()] = config

    def _short(self, config: int, function: int, params: int, extra: int) -> int:
        """``cuLaunchKernelEx`` as C calls it; an exception comes out of the next launch, which the caller makes."""
        self.short_launches += 1
        try:
            self.cuLaunchKernelEx(self._configs[config], self._functions[function], params, 0)
        except Exception as error:
            self._failure = error
            return 719
        return 0

    def cuLaunchKernelEx(self, config: Config, function: Function, params: int, extra: int) -> tuple[int]:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        attributes = {a.id.removeprefix("CU_LAUNCH_ATTRIBUTE_"): a.value for a in config.attrs}
        dim = getattr(attributes.get("CLUSTER_DIMENSION"), "clusterDim", None)
        cluster = (dim.x, dim.y, dim.z) if dim else (1, 1, 1)
        self._run(function, grid, block, cluster, config.sharedMemBytes, params, "COOPERATIVE" in attributes)
        return 0,

    def _run(self, function: Function, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], smem: int,
             params: int, cooperative: bool) -> None:
        facts = function.library.facts(function.name)
        held = _packed(facts, params)
        at = (ctypes.addressof(held) + 127) // 128 * 128
        workspace = (ctypes.addressof(self._workspace) + 15) // 16 * 16
        ranges = [*self.arrays.ranges(), (at, at + facts.param_size, False), (workspace, workspace + 16, True),
                  *((start, start + size, True) for start, size in function.library.variables())]
        ctypes.memset(self._workspace, 0, 64)
        each = self.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, math.prod(block), smem)[1]
        error = ctypes.create_string_buffer(4096)
        launch = _Launch(function.library.function(function.name), tuple(grid), tuple(block), tuple(cluster), smem,
                         facts.static_size, self.multiprocessors, self.random.getrandbits(31),
                         max(1, each * self.multiprocessors // math.prod(cluster)), _MOST_SWITCHES,
                         workspace if cooperative else 0, at, (_Range * len(ranges))(*ranges), len(ranges), 0, 0,
                         ctypes.cast(error, ctypes.c_char_p), len(error))
        if not each:
            raise EmulatorError(f"{function.name}: no multiprocessor has the registers and shared memory of one block")
        start = time.perf_counter()
        failed = build.machine().emu_launch(ctypes.byref(launch))
        self.launches.append(Launched(function.name, tuple(grid), tuple(block), launch.executed,
                                      time.perf_counter() - start))
        if failed:
            said = error.value.decode()
            raise EmulatorError(f"{function.name}: {said}\n  {_quoted(function.ptx, said)}")


def _packed(facts: Any, params: int) -> Any:
    """The parameters as a kernel finds them, from the driver's array of pointers; aligned to 128 bytes inside."""
    held = ctypes.create_string_buffer(facts.param_size + 256)
    at = (ctypes.addressof(held) + 127) // 128 * 128
    pointers = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
    for n, (variable, offset) in enumerate(zip(facts.params, facts.offsets, strict=True)):
        ctypes.memmove(at + offset, pointers[n], variable.size)
    return held


def _quoted(path: Path, message: str) -> str:
    """The line of the PTX that a message names, and where all of it is."""
    number = message.partition("PTX line ")[2].partition(",")[0].split(":")[0].split(" ")[0]
    lines = path.read_text().splitlines()
    text = lines[int(number) - 1].strip() if number.isdigit() and 0 < int(number) <= len(lines) else ""
    return f"{text}    ({path})"


@functools.lru_cache(4096)
def _ptx(source: str, name: str, arch: str) -> tuple[str, Path]:
    """The PTX of a source, kept beside the libraries."""
    key = hashlib.sha256(f"{arch}\n{source}".encode()).hexdigest()[:24]
    path = build.folder() / f"{key}.ptx"
    if not path.exists():
        made = path.with_suffix(".tmp")
        made.write_text(compile_ptx(source, name, arch))
        made.replace(path)
    return path.read_text(), path


def _itself(x: Any) -> Any:
    return x


class Arrays:
    """Arrays that moye has looked at and that are still alive: what kernels may touch."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, int, bool]] = {}

    def note(self, array: Any, low: int, high: int, writable: bool) -> None:
        try:
            ref: Callable[[], Any] = weakref.ref(array)
        except TypeError:                               # it stays
            ref = functools.partial(_itself, array)
        self._known[id(array)] = ref, low, high, writable

    def ranges(self) -> Iterator[tuple[int, int, bool]]:
        dead = [key for key, (ref, *_) in self._known.items() if ref() is None]
        for key in dead:
            del self._known[key]
        yield from sorted({(low, high, writable) for _, low, high, writable in self._known.values() if high > low})



