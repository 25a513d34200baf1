"""Everything that touches libcuda: devices, contexts, streams, loading a cubin, launching a kernel.

In: a cubin, a kernel name, a device ordinal; per launch the grid and parameter values.  Out: a launch, or DriverError.

    kernel = load(cubin, "axpy", 0, formats=("P", "P", "f"))
    kernel.launch((64, 1, 1), (256, 1, 1), None, 0, current_stream(0), (x_ptr, y_ptr, 2.0))

Nothing here runs at import.  ``available()`` probes through ctypes, so a machine without a driver answers at once.
It does not look into arrays and does not choose the architecture to compile for.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from moye.cuda.compiler import cubin as cubins
from moye.errors import ArgumentError, DriverError, LaunchError, MoyeError
from moye.hardware import MOST_THREADS, STATIC_SHARED
from moye.origin import pip_install

Dim3 = tuple[int, int, int]

# Errors of the kernel itself: asynchronous, reported by a later call, and the context is lost.
_STICKY = frozenset({700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720})
_NO_BINARY = 209
_PORTABLE_CLUSTER, _MAX_CLUSTER = 8, 16
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK_Z = 64
_MAX_CONFIGS = 256

# --- devices ---------------------------------------------------------------------------------------------------------


@functools.cache
def _probe() -> tuple[int, str]:
    """(number of devices, why there are none)."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "the NVIDIA driver library libcuda.so.1 cannot be loaded"
    if error := library.cuInit(0):
        return 0, f"the NVIDIA driver cannot be initialised (error {error})"
    count = ctypes.c_int()
    if error := library.cuDeviceGetCount(ctypes.byref(count)):
        return 0, f"the NVIDIA driver cannot count its devices (error {error})"
    return count.value, "" if count.value else "the NVIDIA driver sees no device"


def available() -> bool:
    """Is there a driver with a device?  Probed once; never raises."""
    return device_count() > 0


def device_count() -> int:
    """The number of devices, 0 without a driver."""
    return _probe()[0]


@functools.cache
def _driver() -> ModuleType:
    """cuda.bindings.driver; DriverError without a device or without the package."""
    count, reason = _probe()
    if not count:
        raise DriverError(f"no GPU can be used: {reason}",
                          hint="NumPy arrays and CPU tensors run in the simulator")
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DriverError(f"launching needs cuda-bindings, which is not installed ({error})",
                          hint=pip_install("cuda")) from error
    return driver  # type: ignore[no-any-return]


def _check(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a driver call; DriverError with CUDA's name for the error."""
    if result[0]:
        raise _failure(result[0], doing)
    return result[1] if len(result) > 1 else None


def _failure(error: Any, doing: str) -> DriverError:
    told, text = _driver().cuGetErrorString(error)
    sentence = text.decode() if not told and text else "unknown error"
    hint = None
    if int(error) in _STICKY:
        hint = ("a kernel launched earlier may have caused this, as launches are asynchronous: run it under mo.check, "
                "or set CUDA_LAUNCH_BLOCKING=1")
    return DriverError(f"{doing}: {error.name} ({sentence})", hint=hint)


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a device allows; ``max_smem`` is static plus dynamic bytes per block, after opting in."""

    name: str
    arch: str
    max_threads: int
    max_smem: int
    smem_per_sm: int
    threads_per_sm: int
    sm_count: int


@functools.cache
def device_limits(ordinal: int) -> DeviceLimits:
    """The limits of one device."""
    drv = _driver()
    device = _device(ordinal)
    major, minor, threads, smem, per_sm, threads_per_sm, sms = (
        _check(drv.cuDeviceGetAttribute(getattr(drv.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device), name)
        for name in ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MAX_THREADS_PER_BLOCK",
                     "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
                     "MAX_THREADS_PER_MULTIPROCESSOR", "MULTIPROCESSOR_COUNT"))
    name = _check(drv.cuDeviceGetName(256, device), "cuDeviceGetName").split(b"\0")[0].decode()
    return DeviceLimits(name, _arch_name(major, minor), threads, smem, per_sm, threads_per_sm, sms)


@functools.cache
def resident_clusters(ordinal: int, size: int) -> int:
    """Clusters of ``size`` blocks that a device holds at once, where each block has a multiprocessor to itself.

    Fewer than multiprocessors / size: a cluster lies within one group of multiprocessors, and these differ from chip to
    chip.  Source: CUDA driver API, cuOccupancyMaxActiveClusters.
    """
    drv, limits = _driver(), device_limits(ordinal)
    with current_device(ordinal):
        library = _check(drv.cuLibraryLoadData(_EMPTY_KERNEL, [], [], 0, [], [], 0), "an empty kernel")
        function = _check(drv.cuKernelGetFunction(_check(drv.cuLibraryGetKernel(library, b"empty"), "it")), "it")
        _check(drv.cuFuncSetAttribute(function, _attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES"), limits.max_smem), "it")
        config = drv.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
        config.sharedMemBytes = limits.max_smem
        config.attrs = _launch_attributes(drv, limits, (size, 1, 1), False)
        config.numAttrs = len(config.attrs)
        found = int(_check(drv.cuOccupancyMaxActiveClusters(function, config), f"clusters of {size} blocks"))
        _check(drv.cuLibraryUnload(library), "it")
    return found


def device_arch(ordinal: int) -> str:
    """The architecture to compile for, as in ``"sm_90a"``: with the ``a`` from 9.0 up."""
    return device_limits(ordinal).arch


def _arch_name(major: int, minor: int) -> str:
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _device(ordinal: int) -> Any:
    if not 0 <= ordinal < device_count():
        _driver()
        raise DriverError(f"there is no device {ordinal}: this machine has {device_count()}")
    return _check(_driver().cuDeviceGet(ordinal), f"device {ordinal}")


_EMPTY_KERNEL = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\0"


# --- contexts and streams --------------------------------------------------------------------------------------------

_context_lock = threading.Lock()
_contexts: dict[int, Any] = {}


def _primary_context(ordinal: int) -> Any:
    """The device's primary context, which torch, CuPy and JAX use too; retained once, never released."""
    context = _contexts.get(ordinal)
    if context is None:
        device = _device(ordinal)
        with _context_lock:
            if ordinal not in _contexts:
                _contexts[ordinal] = _check(_driver().cuDevicePrimaryCtxRetain(device), f"device {ordinal}")
        context = _contexts[ordinal]
    return context


@contextmanager
def current_device(ordinal: int) -> Iterator[None]:
    """Make a device current for the ``with`` block, and afterwards what was current before."""
    drv = _driver()
    context = _primary_context(ordinal)
    if int(_check(drv.cuCtxGetCurrent(), "cuCtxGetCurrent")) == int(context):
        yield
        return
    _check(drv.cuCtxPushCurrent(context), f"device {ordinal}")
    try:
        yield
    finally:
        drv.cuCtxPopCurrent()


_handed = threading.local()


@contextmanager
def on_stream(handle: int) -> Iterator[None]:
    """Launches of this thread on arrays of kind ``"memory"`` go to this stream within the ``with`` block."""
    before = getattr(_handed, "stream", 0)
    _handed.stream = handle
    try:
        yield
    finally:
        _handed.stream = before


def current_stream(ordinal: int, kind: str = "") -> int:
    """The stream to launch on: CuPy's for arrays of kind ``"cupy"``, else torch's if it is imported, else 0.

    For arrays of kind ``"memory"`` it is that of ``on_stream``.
    """
    if kind == "memory":
        return getattr(_handed, "stream", 0)
    if kind == "cupy" and (cupy := sys.modules.get("cupy")) is not None:
        return int(cupy.cuda.get_current_stream(ordinal).ptr)
    torch = sys.modules.get("torch")
    if torch is not None:
        try:
            return torch._C._cuda_getCurrentRawStream(ordinal)  # type: ignore[no-any-return]
        except AttributeError:                          # a torch without CUDA
            pass
    return 0


def synchronize(ordinal: int) -> None:
    """Wait for all work on a device; this is where the errors of its kernels come out."""
    with current_device(ordinal):
        _check(_driver().cuCtxSynchronize(), f"work on device {ordinal}")


def synchronize_stream(stream: int, ordinal: int) -> None:
    """Wait for all work on one stream of a device."""
    with current_device(ordinal):
        _check(_driver().cuStreamSynchronize(_driver().CUstream(stream)), f"work on a stream of device {ordinal}")


def copy_to_host(host: int, pointer: int, size: int, ordinal: int) -> None:
    """Copy bytes of a device to a host address, and wait until they are there."""
    with current_device(ordinal):
        _check(_driver().cuMemcpyDtoH(host, pointer, size), f"copying {size} bytes from device {ordinal}")


def copy_to_device(pointer: int, host: int, size: int, ordinal: int) -> None:
    """Copy bytes at a host address to a device, and wait until they are there."""
    with current_device(ordinal):
        _check(_driver().cuMemcpyHtoD(pointer, host, size), f"copying {size} bytes to device {ordinal}")
        _check(_driver().cuCtxSynchronize(), f"copying {size} bytes to device {ordinal}")


def pointer_device(pointer: int) -> int:
    """The ordinal of the device that a pointer belongs to.

    Asked of the context that allocated it: the ordinal attribute was seen to read 0 for memory of another device.  It
    is all there is for memory without a context (stream-ordered pools).
    """
    drv = _driver()
    attributes = drv.CUpointer_attribute
    error, context = drv.cuPointerGetAttribute(attributes.CU_POINTER_ATTRIBUTE_CONTEXT, pointer)
    if error or not int(context):
        attribute = attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(_check(drv.cuPointerGetAttribute(attribute, pointer), f"pointer {pointer:#x}"))
    _check(drv.cuCtxPushCurrent(context), "cuCtxPushCurrent")
    try:
        return int(_check(drv.cuCtxGetDevice(), "cuCtxGetDevice"))
    finally:
        _check(drv.cuCtxPopCurrent(), "cuCtxPopCurrent")


# --- kernels ---------------------------------------------------------------------------------------------------------


class ParamBlock:
    """Kernel parameters as one ``struct`` and the ``void**`` that points into it; one of each per thread.

    ``formats`` are ``struct`` formats of one parameter each: ``P i I q Q f d ? e H`` or ``128s`` for a tensor map.
    """

    __slots__ = ("_buffers", "formats", "sizes")

    def __init__(self, formats: Sequence[str]) -> None:
        self.formats = tuple(formats)
        try:
            self.sizes = tuple(struct.calcsize(f"@{form}") for form in self.formats)
        except struct.error as error:
            raise ArgumentError(f"{list(formats)} are not struct formats of kernel parameters ({error})") from error
        self._buffers = _Buffers(self.formats, self.sizes)

    def pack(self, values: Sequence[Any]) -> int:
        """Write the values; the address of the ``void**``, good until this thread packs again."""
        buffers = self._buffers
        try:
            buffers.write(*values)
        except (struct.error, OverflowError) as error:
            raise self._misfit(values, error) from error
        return buffers.address

    def _misfit(self, values: Sequence[Any], error: struct.error | OverflowError) -> MoyeError:
        if len(values) != len(self.formats):
            return ArgumentError(f"the kernel takes {len(self.formats)} parameters and got {len(values)}")
        for i, (form, value) in enumerate(zip(self.formats, values, strict=True)):
            try:
                struct.pack(form, value)
            except (struct.error, OverflowError) as own:
                return ArgumentError(f"parameter {i} is {value!r}, which is no {form!r} ({own})")
        return ArgumentError(f"the parameters do not fit {self.formats} ({error})")


class _Buffers(threading.local):
    """The memory of a ParamBlock; a thread's first use runs ``__init__`` again for that thread."""

    def __init__(self, formats: Sequence[str], sizes: Sequence[int]) -> None:
        layout = struct.Struct("@" + "".join(formats))
        ends = [struct.calcsize("@" + "".join(formats[: i + 1])) for i in range(len(formats))]
        self.memory = ctypes.create_string_buffer(max(1, layout.size))
        start = ctypes.addressof(self.memory)
        pointers = [start + end - size for end, size in zip(ends, sizes, strict=True)]
        self.pointers = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self.address = ctypes.addressof(self.pointers)
        self.write = functools.partial(layout.pack_into, self.memory, 0)


class LoadedKernel:
    """One kernel on one device, ready to launch; ``load`` makes it.  It stays loaded for the life of the process.

    ``cooperative``: all blocks of a launch must be resident together, because they meet.
    """

    __slots__ = ("_configs", "_context", "_function", "_get_current", "_launch", "_limits", "_lock", "_params",
                 "_smem_allowed", "cooperative", "name", "ordinal", "registers", "smem_static", "threads")

    def __init__(self, name: str, ordinal: int, function: Any, formats: Sequence[str],
                 cooperative: bool = False) -> None:
        drv = _driver()
        self.name, self.cooperative = name, cooperative
        self.ordinal = ordinal
        self._function = function
        self._params = ParamBlock(formats)
        self._limits = device_limits(ordinal)
        self.registers, self.smem_static, self.threads = (
            int(_check(drv.cuFuncGetAttribute(_attribute(key), function), name))
            for key in ("NUM_REGS", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK"))
        self._context = int(_primary_context(ordinal))
        self._get_current = drv.cuCtxGetCurrent
        self._launch = drv.cuLaunchKernelEx
        self._configs: dict[tuple[Dim3, Dim3, Dim3 | None, int, int, bool], Any] = {}
        self._smem_allowed = STATIC_SHARED - self.smem_static
        self._lock = threading.Lock()

    def launch(self, grid: Dim3, block: Dim3, cluster: Dim3 | None, smem: int, stream: int,
               params: Sequence[Any], dependent: bool = False) -> None:
        """Queue the kernel: ``grid`` in blocks, with a cluster too; ``smem`` dynamic bytes; ``stream`` a CUstream.

        ``dependent``: it may begin before what the stream holds is complete.
        """
        config = self._configs.get((grid, block, cluster, smem, stream, dependent))
        if config is None:
            config = self._configure(grid, block, cluster, smem, stream, dependent)
        address = self._params.pack(params)
        if int(self._get_current()[1]) == self._context:
            error, = self._launch(config, self._function, address, 0)
        else:
            with current_device(self.ordinal):
                error, = self._launch(config, self._function, address, 0)
        if error:
            raise _failure(error, f"launching {self.name} with grid {grid}, block {block}")

    def _configure(self, grid: Dim3, block: Dim3, cluster: Dim3 | None, smem: int, stream: int,
                   dependent: bool = False) -> Any:
        """Check a launch configuration against the device and build it; built ones are kept and never changed."""
        check_launch(self.name, self._limits, grid, block, cluster, smem + self.smem_static, self.threads)
        drv = _driver()
        with self._lock, current_device(self.ordinal):
            if smem > self._smem_allowed:
                self._allow("MAX_DYNAMIC_SHARED_SIZE_BYTES", smem)
                self._smem_allowed = smem
            config = drv.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = grid
            config.blockDimX, config.blockDimY, config.blockDimZ = block
            config.sharedMemBytes, config.hStream = smem, drv.CUstream(stream)
            if cluster is not None and cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER:
                self._allow("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
            if self.cooperative:
                self._resident(grid, block, smem, dependent)
            if attributes := _launch_attributes(drv, self._limits, cluster, dependent, self.cooperative):
                config.attrs, config.numAttrs = attributes, len(attributes)
            if len(self._configs) >= _MAX_CONFIGS:
                self._configs.clear()
            self._configs[grid, block, cluster, smem, stream, dependent] = config
        return config

    def _resident(self, grid: Dim3, block: Dim3, smem: int, dependent: bool) -> None:
        """LaunchError unless the device holds all blocks of the grid at once."""
        if dependent:
            raise LaunchError(f"{self.name}: a launch whose blocks meet (grid_sync) cannot be a dependent one",
                              hint="leave out dependent=True")
        each = int(_check(_driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(self._function, math.prod(block), smem),
                          f"the occupancy of {self.name}"))
        check_resident(self.name, grid, each, self._limits.sm_count)

    def _allow(self, key: str, value: int) -> None:
        _check(_driver().cuFuncSetAttribute(self._function, _attribute(key), value), f"{key}={value} for {self.name}")


def _attribute(key: str) -> Any:
    return getattr(_driver().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{key}")


def _launch_attributes(drv: ModuleType, limits: DeviceLimits, cluster: Dim3 | None, dependent: bool,
                       cooperative: bool = False) -> list[Any]:
    """What a launch asks for beyond its extents; on older devices a dependent one begins behind those before it."""
    wanted = []
    if cluster is not None and cluster != (1, 1, 1):
        value = drv.CUlaunchAttributeValue()
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
        wanted.append(("CLUSTER_DIMENSION", value))
    if dependent and not _older(limits):
        value = drv.CUlaunchAttributeValue()
        value.programmaticStreamSerializationAllowed = 1
        wanted.append(("PROGRAMMATIC_STREAM_SERIALIZATION", value))
    if cooperative:
        value = drv.CUlaunchAttributeValue()
        value.cooperative = 1
        wanted.append(("COOPERATIVE", value))
    attributes = []
    for name, value in wanted:
        attribute = drv.CUlaunchAttribute()
        attribute.id = getattr(drv.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        attribute.value = value
        attributes.append(attribute)
    return attributes


def check_cluster(name: str, grid: Dim3, cluster: Dim3) -> None:
    """Raise LaunchError for clusters that no device has, or that do not divide the grid."""
    if min(cluster) < 1 or math.prod(cluster) > _MAX_CLUSTER:
        raise LaunchError(f"{name}: a cluster has 1 to {_MAX_CLUSTER} blocks, not {cluster}")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(f"{name}: cluster {cluster} does not divide grid {grid}")


def check_block(name: str, block: Dim3, cluster: Dim3 = (1, 1, 1)) -> None:
    """LaunchError for blocks and clusters that no device has."""
    size = math.prod(block)
    if size > MOST_THREADS:
        raise LaunchError(f"{name}: block {block} has {size} threads, and at most {MOST_THREADS} are possible")
    if block[2] > _MAX_BLOCK_Z:
        raise LaunchError(f"{name}: block {block} has extent {block[2]} along z, and at most {_MAX_BLOCK_Z} are "
                          f"possible", hint="put threads along x and y")
    if math.prod(cluster) > _MAX_CLUSTER:
        raise LaunchError(f"{name}: a cluster has 1 to {_MAX_CLUSTER} blocks, not {cluster}")


def check_grid(name: str, grid: Dim3) -> None:
    """LaunchError for grids that no device has; one without blocks is launched as nothing."""
    if min(grid) < 0 or any(g > most for g, most in zip(grid, _MAX_GRID, strict=True)):
        raise LaunchError(f"{name}: grid {grid} lies outside (1, 1, 1) .. {_MAX_GRID}")


def check_resident(name: str, grid: Dim3, each: int, multiprocessors: int) -> None:
    """LaunchError unless as many blocks as the grid has are resident at once: ``each`` on every multiprocessor."""
    if math.prod(grid) > each * multiprocessors:
        raise LaunchError(f"{name}: the blocks of its grid meet (grid_sync), and {math.prod(grid)} of them are more "
                          f"than {each} on each of {multiprocessors} multiprocessors, {each * multiprocessors} at once",
                          hint="launch fewer blocks, and let each do the work of several in a loop")


def _older(limits: DeviceLimits) -> bool:
    """Whether the device has neither clusters nor launches that overlap."""
    return int(limits.arch.strip("sm_af")) < 90


def check_launch(name: str, limits: DeviceLimits, grid: Dim3, block: Dim3, cluster: Dim3 | None, smem: int,
                 threads: int | None = None) -> None:
    """LaunchError unless the device and the kernel (at most ``threads`` a block) allow this configuration."""
    if min(grid) < 1 or any(g > most for g, most in zip(grid, _MAX_GRID, strict=True)):
        raise LaunchError(f"{name}: grid {grid} lies outside (1, 1, 1) .. {_MAX_GRID}")
    most = min(limits.max_threads, threads or limits.max_threads)
    size = block[0] * block[1] * block[2]
    if min(block) < 1 or block[2] > _MAX_BLOCK_Z or size > most:
        why = f"the kernel's registers or launch bound allow {most}" if most < limits.max_threads else f"at most {most}"
        raise LaunchError(f"{name}: block {block} has {size} threads, and {why}")
    if smem > limits.max_smem:
        raise LaunchError(f"{name} needs {smem} bytes of shared memory per block, and {limits.name} has "
                          f"{limits.max_smem}")
    if cluster is None or cluster == (1, 1, 1):
        return
    check_cluster(name, grid, cluster)
    if _older(limits):
        raise LaunchError(f"{name}: clusters of {math.prod(cluster)} blocks need sm_90, and {limits.name} is "
                          f"{limits.arch}")


def load(cubin: bytes, kernel_name: str, ordinal: int, formats: Sequence[str] = (),
         cooperative: bool = False) -> LoadedKernel:
    """Load one kernel of a cubin onto one device; ``formats`` describes its parameters (see ParamBlock).

    ``cooperative``: its blocks meet, so that each launch has all of them resident together.
    """
    check_params(cubin, kernel_name, formats)
    drv = _driver()

    def check(result: tuple[Any, ...]) -> Any:          # which step notices a foreign cubin depends on lazy loading
        if int(result[0]) == _NO_BINARY:
            raise DriverError(f"{kernel_name} is compiled for sm_{cubins.arch(cubin)}, and device {ordinal} is "
                              f"{device_arch(ordinal)}", hint="is MOYE_ARCH set?")
        return _check(result, f"loading {kernel_name}")

    with current_device(ordinal):
        library = check(drv.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
        kernel = check(drv.cuLibraryGetKernel(library, kernel_name.encode()))
        function = check(drv.cuKernelGetFunction(kernel))           # now, and not lazily within a graph capture
        return LoadedKernel(kernel_name, ordinal, function, formats, cooperative)


def check_params(cubin: bytes, kernel_name: str, formats: Sequence[str]) -> None:
    """DriverError unless the cubin's kernel takes parameters of just these sizes: the last guard of a launch."""
    kernel = cubins.parse(cubin).get(kernel_name)
    if kernel is None:
        raise DriverError(f"the cubin has no kernel {kernel_name!r}: it has {', '.join(cubins.parse(cubin)) or 'none'}")
    sizes, given = [param.size for param in kernel.params], list(ParamBlock(formats).sizes)
    if sizes != given:
        raise DriverError(f"{kernel_name} takes parameters of {sizes} bytes, and its formats {list(formats)} are of "
                          f"{given}")
