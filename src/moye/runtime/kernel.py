"""The kernel object: specialise, cache, check preconditions, launch on the GPU or in the simulator.

In: a decorated Python function; then ``kernel[grid, block](*args)``.  Out: effects on the arrays.

>>> matmul_kernel[(16, 16), 256](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C)

Where it runs follows from where the arrays are: host memory is simulated, CUDA memory runs on its device.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from moye import env
from moye.errors import ArgumentError, LaunchError, TraceError
from moye.ir.nodes import Func, TensorParam
from moye.lang.trace import changed
from moye.runtime import simulate
from moye.runtime.arguments import Call, Signature, TensorLike, classify, same_device
from moye.runtime.arrays import ArrayInfo, same_memory_overlap
from moye.runtime.compile import Dim3, Program, Specialised, compile_program, specialise
from moye.runtime.fast import Plans

Extents = int | Sequence[int]


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator that makes a Python function a kernel."""
    if not isinstance(function, types.FunctionType):
        raise TraceError(f"@mo.kernel decorates Python functions, not {function!r}")
    return Kernel(function)


class Kernel:
    """A kernel and its specialisations.  ``kernel[grid, block](*args)`` launches it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.signature = Signature(function)
        self._specialised: dict[tuple[Any, ...], Specialised] = {}
        self.plans = Plans(tuple(self.signature.roles.values()))
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<mo.kernel {self.function.__qualname__}{self.signature.signature}>"

    def __getitem__(self, config: Any) -> Launcher:
        if not isinstance(config, tuple) or len(config) != 2:
            raise LaunchError(f"{self.__name__}[...] takes [grid, block], not {config!r}")
        return Launcher(self, dim3(config[0], "grid"), dim3(config[1], "block"))

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise LaunchError(f"the kernel {self.__name__} needs a launch configuration",
                          hint=f"{self.__name__}[grid, block](...)")

    def launch(self, *args: Any, grid: Extents, block: Extents, cluster: Extents = (1, 1, 1), stream: Any = None,
               smem: int | None = None, **kwargs: Any) -> None:
        """Launch with every option: ``grid`` and ``block`` extents, ``cluster`` shape, a CUDA ``stream`` (handle or
        object; default: torch's current stream, else the legacy one), ``smem`` extra dynamic shared bytes."""
        call = classify(self.signature, args, kwargs)
        shape = dim3(grid, "grid")
        device = same_device(call, self.__name__)
        spec = self.specialised(call, dim3(block, "block"), dim3(cluster, "cluster"))
        check_written(spec.func, call, self.__name__)
        spec.check(slots(call), shape)
        if 0 in shape:
            return
        if device is None:
            checks = env.check()
            simulate.run(spec, call, shape, check=bool(checks))
        else:
            program = _launch_device(spec, call, device, shape, stream, smem or 0)
            if stream is None and not smem and not kwargs and not overlaps(spec.func, call):
                self.plans.add(spec, program, call, device, shape, args)

    def specialised(self, call: Call, block: Dim3, cluster: Dim3 = (1, 1, 1)) -> Specialised:
        """The specialisation for a call, traced on first use and whenever a name that it read has changed."""
        key = (call.key, block, cluster)
        found = self._specialised.get(key)
        if found is None or (found.captures and changed(found.captures)):
            found = specialise(self.function, call, block, cluster)
            self._specialised[key] = found
        return found

    def compile(self, *args: Any, block: Extents, cluster: Extents = (1, 1, 1), arch: str | None = None,
                **kwargs: Any) -> Program:
        """Compile for arguments (or ``mo.TensorLike`` specs) without launching; needs no GPU.

        The result has .source .ptx .cubin .sass .registers .spills .smem.  ``arch`` defaults to MOYE_ARCH, the current
        device's, or sm_90a.
        """
        call = classify(self.signature, args, kwargs)
        spec = self.specialised(call, dim3(block, "block"), dim3(cluster, "cluster"))
        return compile_program(spec, arch or env.arch() or _default_arch())

    def trace(self, *args: Any, block: Extents, cluster: Extents = (1, 1, 1), **kwargs: Any) -> Func:
        """The IR for arguments or specs."""
        call = classify(self.signature, args, kwargs)
        return self.specialised(call, dim3(block, "block"), dim3(cluster, "cluster")).func


class Launcher:
    """A kernel with its grid and block: call it with the arguments."""

    __slots__ = ("block", "grid", "kernel")

    def __init__(self, kernel: Kernel, grid: Dim3, block: Dim3) -> None:
        self.kernel = kernel
        self.grid = grid
        self.block = block

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if not kwargs:
            plan, dynamic = self.kernel.plans.find(args, self.grid, self.block)
            if plan is not None and plan.launch(dynamic):
                return
        self.kernel.launch(*args, grid=self.grid, block=self.block, **kwargs)


def dim3(extents: Any, what: str) -> Dim3:
    """Three extents from an integer or up to three of them."""
    parts = tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(p, "__index__") for p in parts):
        raise LaunchError(f"{what} is one to three integers, not {extents!r}")
    x, y, z = (*(p.__index__() for p in parts), *(1,) * (3 - len(parts)))
    least = 0 if what == "grid" else 1
    if min(x, y, z) < least:
        raise LaunchError(f"{what} {(x, y, z)} has an extent below {least}")
    return x, y, z


def slots(call: Call) -> list[Any]:
    """The runtime numbers of the parameters: extents then strides of each tensor, scalars as they are."""
    values: list[Any] = []
    for leaf in call.leaves:
        if isinstance(leaf, ArrayInfo):
            values.extend(leaf.shape)
            values.extend(leaf.strides)
        else:
            values.append(leaf)
    return values


def check_written(func: Func, call: Call, name: str) -> None:
    """Arrays that the kernel writes must be writable."""
    for param, leaf in zip(func.params, call.leaves, strict=True):
        written = isinstance(param, TensorParam) and param.buffer.written
        if written and isinstance(leaf, ArrayInfo) and not leaf.writable:
            raise ArgumentError(f"{name} writes argument {param.name!r}, which is read-only")


def overlaps(func: Func, call: Call) -> bool:
    """Whether a written argument shares memory with another one."""
    tensors = [(p.buffer.written, leaf) for p, leaf in zip(func.params, call.leaves, strict=True)
               if isinstance(p, TensorParam) and isinstance(leaf, ArrayInfo)]
    return any((wa or wb) and same_memory_overlap(a, b)
               for i, (wa, a) in enumerate(tensors) for wb, b in tensors[i + 1:])


def _launch_device(spec: Specialised, call: Call, device: int, grid: Dim3, stream: Any, smem: int) -> Program:
    from moye.cuda import driver

    program = compile_program(spec, env.arch() or driver.device_arch(device), restrict=not overlaps(spec.func, call))
    loaded = program.loaded.get(device)
    if loaded is None:
        loaded = driver.load(program.cubin, program.printed.name, device, [s.format for s in program.printed.slots])
        program.loaded[device] = loaded
    handle = _stream_handle(stream) if stream is not None else \
        driver.current_stream(device, call.arrays[0][1].kind if call.arrays else "")
    params = [_slot_value(slot, call) for slot in program.printed.slots]
    cluster = spec.func.cluster_dim
    loaded.launch(grid, spec.func.block_dim, None if cluster == (1, 1, 1) else cluster,
                  program.printed.dynamic_smem + smem, handle, params)
    return program


def _slot_value(slot: Any, call: Call) -> Any:
    leaf = call.leaves[slot.param]
    if not isinstance(leaf, ArrayInfo):
        return leaf
    if slot.kind == "ptr":
        return leaf.ptr
    return leaf.shape[slot.mode] if slot.kind == "shape" else leaf.strides[slot.mode]


def _stream_handle(stream: Any) -> int:
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise ArgumentError(f"{stream!r} is no CUDA stream")


def _default_arch() -> str:
    from moye.cuda import driver

    return driver.device_arch(0) if driver.available() else "sm_90a"


__all__ = ["Kernel", "Launcher", "TensorLike", "kernel"]
