"""The kernel object: specialise, cache, check preconditions, launch on the GPU or in the simulator.

In: a decorated Python function; then ``kernel[grid, block](*args)``.  Out: effects on the arrays.

    matmul_kernel[(16, 16), 256](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C)

The arrays decide where it runs: host memory is simulated, and CUDA memory runs on its device.
"""

from __future__ import annotations

import math
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from itertools import islice
from pathlib import Path
from typing import Any

from moye import env
from moye.cuda.device import driver
from moye.errors import ArgumentError, LaunchError, TraceError
from moye.ir.nodes import Func
from moye.lang.pickling import reduced
from moye.lang.trace import outermost
from moye.runtime import prepare, recording, respecialised, sessions
from moye.runtime.arguments import Call, Signature, classified, classify, in_a_kernel, same_device
from moye.runtime.arrays import TensorLike
from moye.runtime.autograd import mark, written_tensors
from moye.runtime.boundary import boundary
from moye.runtime.compile import (
    Dim3,
    Program,
    Specialised,
    compile_program,
    default_arch,
    require_room,
    specialise,
)
from moye.runtime.exporting import Export, Exported, Grid, Specialisation, export
from moye.runtime.fast_launch import Bound, Plan, Plans, missing
from moye.runtime.host_copies import simulated
from moye.runtime.launch import (
    array_kind,
    check_written,
    dim3,
    load,
    more_smem,
    overlaps,
    slot_value,
    slots,
    stream_handle,
)
from moye.runtime.prepare import Prepared
from moye.runtime.respecialised import Shape
from moye.runtime.shown import kernel_html
from moye.tensor.context import tracing

Extents = int | Sequence[int]
_MOST_LAUNCHERS = 1024
_IN_KEYS = (int, bool, type(None))
_MOST_BOUND = 256                                       # plans that one launcher has made ready for its grid
_MOST_COMPARED = 32                                     # of the specialisations, with a new one: the latest
_tracing = threading.RLock()                            # a trace uses the process's one stack of regions


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a Python function a kernel; a decorator."""
    if not isinstance(function, types.FunctionType):
        raise TraceError(f"@mo.kernel decorates Python functions, not {function!r}", hint=outermost(function))
    return Kernel(function)


@dataclass(slots=True)
class Launched:
    """What a launch on a device used: enough to launch again by the short way."""

    spec: Specialised
    program: Program
    call: Call
    device: int
    widened: bool
    """Whether the grid made indices 64 bits wide."""


class Kernel:
    """A kernel and its specialisations.  ``kernel[grid, block](*args)`` launches it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.signature = Signature(function)
        self._specialised: dict[tuple[Any, ...], Specialised] = {}
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._reasons: list[str] = []
        self._launchers: dict[Any, Callable[..., None]] = {}
        self._plans: dict[tuple[Any, ...], Plans] = {}
        update_wrapper(self, function)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, kernel, self.function)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __repr__(self) -> str:
        return f"<mo.kernel {self.function.__qualname__}{self.signature.signature}>"

    def _repr_html_(self) -> str:
        return kernel_html(self.function, self.signature.signature, len(self._specialised))

    def __getitem__(self, config: Any) -> Callable[..., None]:
        try:
            return self._launchers[config]
        except (KeyError, TypeError):                   # a new one, or one of lists, which have no hash
            return self._launcher(config)

    def _launcher(self, config: Any) -> Callable[..., None]:
        """What ``kernel[config]`` is: a Launcher, or its plan once it has launched."""
        if prepare.skipping():                          # the grid may be of symbols
            return _nothing
        if not isinstance(config, tuple) or len(config) != 2:
            raise LaunchError(f"{self.__name__}[...] takes [grid, block], not {config!r}")
        return self._keep(config, (dim3(config[0], "grid"), dim3(config[1], "block")))

    def _keep(self, config: tuple[Any, ...], same: tuple[Any, ...]) -> Callable[..., None]:
        """Keep the launcher of a configuration, so that it is found by what was asked for and by what is the same."""
        if len(self._launchers) >= _MOST_LAUNCHERS:
            self._launchers.clear()
        launcher = self._launchers.get(same) or Launcher(self, *same)
        if isinstance(launcher, Launcher):
            launcher.configs.add(same)
            self._launchers[same] = launcher
            if all(type(n) in _IN_KEYS for part in config for n in (part if isinstance(part, tuple) else (part,))):
                launcher.configs.add(config)
                self._launchers[config] = launcher
        return launcher

    def plans(self, block: Dim3, cluster: Dim3, smem: int, dependent: bool) -> Plans:
        """The plans for launches with these options and any grid."""
        found = self._plans.get(key := (block, cluster, smem, dependent))
        if found is None:
            annotated = [not isinstance(role, str) for role in self.signature.roles.values()]
            found = self._plans[key] = Plans(smem, dependent, annotated)
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        if tracing():
            raise in_a_kernel(f"the kernel {self.__name__} is called in another kernel")
        raise LaunchError(f"the kernel {self.__name__} needs a launch configuration",
                          hint=f"{self.__name__}[grid, block](...)")

    @boundary
    def launch(self, /, *args: Any, grid: Extents | None = None,
               block: Extents | None = None, cluster: Extents = (1, 1, 1), stream: Any = None,
               smem: int | None = None, dependent: bool = False, **kwargs: Any) -> None:
        """Launch with every option: ``grid`` and ``block`` extents, ``cluster`` shape, a CUDA ``stream`` (a handle or
        an object; by default torch's current stream, else the legacy one), ``smem`` extra dynamic shared bytes.

        ``dependent``: the launch may begin while those before it on the stream still run (from sm_90 on).  What they
        wrote is there after ``mo.griddepcontrol_wait()``; before it the kernel may not touch their arrays.
        """
        handle = None if stream is None or prepare.skipping() else stream_handle(stream)
        config = grid, block, cluster, smem or 0, dependent, handle
        try:
            launcher = self._launchers[config]
        except (KeyError, TypeError):
            if prepare.skipping():                      # the grid may be of symbols
                return
            launcher = self._keep(config, (dim3(grid, "grid"), dim3(block, "block"), dim3(cluster, "cluster"),
                                           more_smem(smem), bool(dependent), handle))
        launcher(*args, **kwargs)

    def _run(self, call: Call, grid: Dim3, block: Dim3, cluster: Dim3 = (1, 1, 1), stream: Any = None,
             smem: int = 0, dependent: bool = False) -> Launched | None:
        """Check and launch; return what was used, if it ran on a device."""
        if (session := sessions.session()) is not None and prepare.compilation() is None:
            session.launch(self.__name__, grid, block,
                           lambda: (call, self._checked(call, grid, block, cluster, smem)[1]), dependent=dependent)
            return None
        bits = call.index_bits
        device, spec = self._checked(call, grid, block, cluster, smem)
        if (told := recording.recording()) is not None and 0 not in grid \
                and not told.launch(spec, call, device, grid, stream, smem, dependent):
            return None
        if (held := prepare.compilation()) is not None:
            held.take(spec, call, device)
        elif 0 in grid:
            pass
        elif device is None or isinstance(env.check(), frozenset):      # named checks ask for the simulator
            simulated(spec, call, grid)
        else:
            program = _launch_device(spec, call, device, grid, stream, smem, dependent)
            return Launched(spec, program, call, device, call.index_bits != bits)
        return None

    def _checked(self, call: Call, grid: Dim3, block: Dim3, cluster: Dim3,
                 smem: int = 0) -> tuple[int | None, Specialised]:
        """The device and the specialisation of a launch whose preconditions hold."""
        driver.check_grid(self.__name__, grid)
        if cluster != (1, 1, 1):
            driver.check_cluster(self.__name__, grid, cluster)
        device = same_device(call, self.__name__)
        if device is None and any(info.kind == "spec" for _, info, _ in call.arrays) and not prepare.compilation():
            raise ArgumentError(f"{self.__name__}: a mo.TensorLike has no memory to run on",
                                hint="kernel.compile(...) compiles without launching")
        if math.prod(grid) * math.prod(block) > 1 << 31:        # the number of a thread leaves 32 bits
            call.index_bits = 64
        spec = self.specialised(call, block, cluster)
        if spec.wraps(grid):
            call.index_bits = 64
            spec = self.specialised(call, block, cluster)
        if smem:
            require_room(spec, smem)
        check_written(spec.func, call, self.__name__)
        spec.check(slots(call), grid)
        return device, spec

    def specialised(self, call: Call, block: Dim3, cluster: Dim3 = (1, 1, 1)) -> Specialised:
        """The specialisation for a call; it is traced on first use, and again if a name that it read has changed."""
        key = (call.key, block, cluster)
        found = self._specialised.get(key)
        if found is None or found.stale():
            found = self._traced(key, call, block, cluster)
        if call.many and found.counts_elements():
            call.index_bits = 64
            return self.specialised(call, block, cluster)
        return found

    def _traced(self, key: tuple[Any, ...], call: Call, block: Dim3, cluster: Dim3) -> Specialised:
        """The specialisation, traced unless another thread has just done so."""
        with _tracing:
            found = self._specialised.get(key)
            if found is None or found.stale():
                driver.check_block(self.__name__, block, cluster)
                shape = Shape(call.specs, call.index_bits, block, cluster)
                earlier = islice(reversed(self._shapes.values()), _MOST_COMPARED)
                why = respecialised.changes(found.captures) if found else respecialised.nearest(shape, earlier)
                found = specialise(self.function, call, block, cluster)
                self._reasons += ["; ".join(why)] if why else []
                self._specialised[key], self._shapes[key] = found, shape
            return found

    def why_recompiled(self) -> list[str]:
        """One sentence for each specialisation after the first: what differed from the nearest earlier one."""
        return list(self._reasons)

    @boundary
    def compile(self, /, *args: Any, block: Extents | None = None, cluster: Extents = (1, 1, 1),
                arch: str | None = None, **kwargs: Any) -> Compiled:
        """Compile for arguments (or ``mo.TensorLike`` specs, which overlap nothing) without launching; needs no GPU.

        The result has .source .ptx .cubin .sass .registers .spills .smem, and .prepare(*args, grid=).  ``arch``
        defaults to MOYE_ARCH, the current device's, or sm_90a.
        """
        call = classify(self.signature, args, kwargs)
        shape = Shape(call.specs, call.index_bits, dim3(block, "block"), dim3(cluster, "cluster"))
        spec = self.specialised(call, shape.block, shape.cluster)
        program = compile_program(spec, arch or default_arch(), restrict=not overlaps(spec.func, call))
        return Compiled(program.printed, program.arch, program.compiled, program.loaded, program.func, kernel=self,
                        shape=shape)

    @boundary
    def prepare(self, /, *args: Any, grid: Extents | None = None,
               block: Extents | None = None, cluster: Extents = (1, 1, 1), stream: Any = None,
                smem: int | None = None, dependent: bool = False, **kwargs: Any) -> Prepared:
        """Check and compile a launch and keep it; calling the result launches it again with the same arguments.

        ``.update(A=other)`` replaces an array.  Without ``stream`` it follows the current one.
        """
        call, shape = classify(self.signature, args, kwargs), dim3(grid, "grid")
        more = more_smem(smem)
        device, spec = self._checked(call, shape, dim3(block, "block"), dim3(cluster, "cluster"), more)
        return prepare.prepare(spec, call, device, shape, stream, more, dependent)

    @boundary
    def export(self, path: str | Path, *specialisations: Specialisation, grid: Grid | None = None,
               arch: str | Sequence[str] | None = None, name: str | None = None) -> Exported:
        """Write a C header and source with the compiled code inside, for programs without Python; needs no GPU.

        ``path`` is a folder or a .c file.  Each ``mo.Specialisation`` is a call to compile for; ``mo.Export`` says what
        ``grid``, ``arch`` and ``name`` are, and ``mo.export`` writes several kernels into one file.
        """
        return export(path, Export(self, specialisations, name, grid, arch))

    @boundary
    def trace(self, /, *args: Any, block: Extents | None = None, cluster: Extents = (1, 1, 1), **kwargs: Any) -> Func:
        """The IR for arguments or specs."""
        call = classify(self.signature, args, kwargs)
        return self.specialised(call, dim3(block, "block"), dim3(cluster, "cluster")).func


@dataclass(slots=True, repr=False)
class Compiled(Program):
    """A Program that knows its kernel, so that its launches can be prepared."""

    kernel: Any = None
    shape: Shape | None = None

    @boundary
    def prepare(self, /, *args: Any, grid: Extents | None = None, stream: Any = None, smem: int | None = None,
                dependent: bool = False, **kwargs: Any) -> Prepared:
        """A prepared launch of exactly this specialisation; ArgumentError if the arguments need another."""
        assert self.shape is not None, "made by Kernel.compile"
        call = classify(self.kernel.signature, args, kwargs)
        asked = Shape(call.specs, call.index_bits, self.shape.block, self.shape.cluster)
        if different := respecialised.differences(self.shape, asked):
            code = "A11" if asked._replace(index_bits=self.shape.index_bits) == self.shape else "A12"
            raise ArgumentError(f"{self.kernel.__name__} was compiled for other arguments: {'; '.join(different)}",
                                hint="kernel.prepare(...) compiles what it needs", code=code)
        prepared: Prepared = self.kernel.prepare(*args, grid=grid, block=self.shape.block, cluster=self.shape.cluster,
                                                 stream=stream, smem=smem, dependent=dependent, **kwargs)
        return prepared


class Launcher:
    """A kernel with its grid, block and other options of a launch; call it with the arguments."""

    __slots__ = ("_bound", "block", "cluster", "configs", "grid", "kernel", "launch", "plans", "stream")

    def __init__(self, kernel: Kernel, grid: Dim3, block: Dim3, cluster: Dim3 = (1, 1, 1), smem: int = 0,
                 dependent: bool = False, stream: int | None = None) -> None:
        self.kernel, self.grid, self.block, self.cluster, self.stream = kernel, grid, block, cluster, stream
        self.configs: set[Any] = set()
        self.plans = kernel.plans(block, cluster, smem, dependent)
        self.launch: Callable[..., None] = self._first
        self._bound: dict[Plan, Bound] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Launcher, (self.kernel, self.grid, self.block, self.cluster, self.plans.smem, self.plans.dependent,
                          self.stream)

    @boundary
    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        self.launch(*args, **kwargs)

    def _first(self, /, *args: Any, **kwargs: Any) -> None:
        self._long_way(args, (), kwargs)

    @boundary
    def _long_way(self, args: tuple[Any, ...], rest: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launch if the plan used last does not hold."""
        if prepare.skipping():
            return
        signature = self.kernel.signature
        bound = signature.bind((*(a for a in args if a is not missing), *rest), named)
        args = tuple(bound.values())
        if signature.plain and self._again(args):
            return
        used = self.kernel._run(classified(signature, bound), self.grid, self.block, self.cluster, self.stream,
                                self.plans.smem, self.plans.dependent)
        if used is not None and signature.plain and self._lasts(args):
            plan = self.plans.add(used.spec, used.program, used.call, used.device, args, self.grid,
                                  self.grid if used.widened else None)
            if plan is not None:
                self._use(self._at(plan))

    def _lasts(self, args: tuple[Any, ...]) -> bool:
        """Whether a plan may be used: calls that are recorded are repeated without, and most that are new once."""
        return recording.recording() is None and (not recording.first() or self.plans.seen(args))

    def _again(self, args: tuple[Any, ...]) -> bool:
        """Launch by a plan, if one holds: of this grid, or of another one for which it holds as well."""
        plans, leaves = self.plans.find(args)
        for plan in plans:
            if (plan in self._bound or plan.fits(self.grid)) and (bound := self._at(plan)).again(*leaves):
                self._use(bound)
                return True
        return False

    def _at(self, plan: Plan) -> Bound:
        """A plan with this grid."""
        found = self._bound.get(plan)
        if found is None:
            if len(self._bound) >= _MOST_BOUND:
                self._bound.clear()
            handle = self.stream
            found = self._bound[plan] = plan.at(self.grid, self._long_way,
                                                None if handle is None else lambda ordinal: handle)
        return found

    def _use(self, bound: Bound) -> None:
        """Make the plan's own function what ``kernel[grid, block]`` is."""
        if self.launch is not bound.launch:
            self.launch = bound.launch
            for config in tuple(self.configs):
                self.kernel._launchers[config] = bound.launch


def _nothing(*args: Any, **kwargs: Any) -> None:
    """What a launch is under ``launch_nothing``."""


def _launch_device(spec: Specialised, call: Call, device: int, grid: Dim3, stream: Any, smem: int,
                   dependent: bool) -> Program:
    program = compile_program(spec, default_arch(device), restrict=not overlaps(spec.func, call))
    program.warn()
    loaded = load(program, device)
    handle = driver.current_stream(device, array_kind(call)) if stream is None else stream_handle(stream)
    cluster = spec.func.cluster_dim
    loaded.launch(grid, spec.func.block_dim, None if cluster == (1, 1, 1) else cluster,
                  program.printed.dynamic_smem + smem, handle,
                  [slot_value(slot, call) for slot in program.printed.slots], dependent)
    mark(written_tensors(spec.func, call))
    return program


__all__ = ["Compiled", "Kernel", "Launcher", "Prepared", "TensorLike", "check_written", "dim3", "kernel", "slots"]
