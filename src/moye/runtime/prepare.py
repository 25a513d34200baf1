"""Launches that are ready to be repeated, compiling without launching, and launching nothing.

In: a specialised kernel with classified arguments.  Out: ``Prepared``, to be called; under ``compile_only``, Jobs.

    again = kernel.prepare(A, B, C, grid=64, block=256); again(); again.update(C=D); again()
    with compile_only("sm_90a"): matmul(A, B, C)          # whatever it launches is compiled, nothing runs

A prepared launch is a snapshot.  It keeps its arrays alive, and does not look at them or at captured names again, so
arrays must not be resized in place.  It launches on the stream that is current when it is called.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moye import env
from moye.dtypes import DType, float32
from moye.errors import ArgumentError
from moye.ir.nodes import ScalarParam
from moye.runtime import fast_launch, recording, sessions
from moye.runtime.arguments import Call, require_float32
from moye.runtime.arrays import ArrayInfo, TensorLike, describe
from moye.runtime.autograd import mark, require_untracked, written_tensors
from moye.runtime.compile import (
    Dim3,
    Program,
    Specialised,
    check_atoms,
    compile_program,
    default_arch,
    require_shared,
)
from moye.runtime.host_copies import simulated
from moye.runtime.launch import array_kind, check_written, load, overlaps, slots, stream_handle
from moye.runtime.tma_arguments import TmaCopy

# --- compiling only --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Job:
    """A launch that was asked for under ``compile_only``; ``compile`` prints and compiles it (disk cache included)."""

    spec: Specialised
    arch: str
    restrict: bool
    call: Call

    def compile(self) -> Program:
        return compile_program(self.spec, self.arch, restrict=self.restrict)


@dataclass(slots=True)
class Compilation:
    """What one ``compile_only`` block collects: a job for each launch and, unless it only traces, its program."""

    arch: str | None
    trace_only: bool
    jobs: list[Job] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)

    def take(self, spec: Specialised, call: Call, device: int | None) -> None:
        """Called instead of a launch; LaunchError if no launch could work."""
        job = Job(spec, self.arch or default_arch(device), not overlaps(spec.func, call), call)
        check_atoms(spec.func, job.arch)
        require_shared(spec, job.arch)
        self.jobs.append(job)
        if not self.trace_only:
            self.programs.append(job.compile())


_compilation: contextvars.ContextVar[Compilation | None] = contextvars.ContextVar("compilation", default=None)


@contextmanager
def compile_only(arch: str | None = None, *, trace_only: bool = False) -> Iterator[Compilation]:
    """Trace, check and compile every launch of this thread in the block, and run nothing.

    Arrays may be ``mo.TensorLike``.  ``arch`` is by default MOYE_ARCH, the device's or sm_90a.  With ``trace_only``
    nothing is compiled either: ``jobs`` can be compiled later, in any thread.
    """
    gathered = Compilation(arch, trace_only)
    token = _compilation.set(gathered)
    fast_launch.held.append(gathered)
    try:
        yield gathered
    finally:
        fast_launch.held.remove(gathered)
        _compilation.reset(token)


def compilation() -> Compilation | None:
    """The ``compile_only`` block that this thread is in."""
    return _compilation.get() if fast_launch.held else None


_skipping: contextvars.ContextVar[bool] = contextvars.ContextVar("skipping", default=False)


@contextmanager
def launch_nothing() -> Iterator[None]:
    """In the block this thread's launches do nothing, and their arguments are not looked at.

    An operator of torch's runs its function so on tensors without memory, for the shapes of what it returns.
    """
    token, marker = _skipping.set(True), object()
    fast_launch.held.append(marker)
    try:
        yield
    finally:
        fast_launch.held.remove(marker)
        _skipping.reset(token)


def skipping() -> bool:
    """Whether this thread is in a ``launch_nothing`` block."""
    return bool(fast_launch.held) and _skipping.get()


# --- prepared launches -----------------------------------------------------------------------------------------------


class Prepared:
    """One launch with its arguments; call it to launch.  ``kernel.prepare`` makes it."""

    __slots__ = ("_call", "_configs", "_dependent", "_dirty", "_function", "_grid", "_kind", "_launch", "_ordinal",
                 "_params", "_ready", "_restrict", "_spec", "_stream")

    def __init__(self, spec: Specialised, program: Program, call: Call, device: int, grid: Dim3, stream: Any,
                 smem: int, dependent: bool) -> None:
        self._spec, self._call, self._grid, self._ordinal, self._dependent = spec, call, grid, device, dependent
        self._restrict = not overlaps(spec.func, call)
        load(program, device)
        ready = self._ready = fast_launch.Ready(program, call, device, grid, spec.func, smem, dependent)
        self._configs, self._function, self._launch = ready.configs, ready.function, ready.call
        if stream is not None:
            handle = stream_handle(stream)
            self._stream: Callable[[int], int] = lambda ordinal: handle
        else:
            self._stream = fast_launch.stream_reader(array_kind(call))
        ready.configure(self._stream(device))
        self._params, self._dirty = self._packed(call), written_tensors(spec.func, call)

    def __reduce__(self) -> tuple[Any, ...]:
        raise ArgumentError("a prepared launch belongs to its process and its arrays, and is neither copied nor "
                            "pickled", hint="pass the kernel, and prepare it there")

    def __call__(self) -> None:
        """Launch again with the same arguments."""
        if self._dirty:
            require_untracked(self._spec.func.name, self._dirty)
        stream = self._stream(self._ordinal)
        config = self._configs.get(stream) or self._ready.configure(stream)
        if fast_launch.held or self._launch(config, self._function, self._params, None):
            self._the_long_way(config)
        elif self._dirty:
            mark(self._dirty)

    def update(self, arguments: Mapping[str | int, Any] | None = None, /, **named: Any) -> None:
        """Replace arrays (same dtype, shape, strides, device, alignment) or numbers by others.

        Name an argument by the kernel's parameter (parts of containers as in ``pair_0``) or, in a mapping, by its
        position.
        """
        changes: dict[str | int, Any] = dict(arguments or {})
        changes.update(named)
        call = replaced(self._spec, self._call, changes)
        check_written(self._spec.func, call, self._spec.func.name)
        if self._restrict and overlaps(self._spec.func, call):
            raise ArgumentError(f"{self._spec.func.name}: an updated argument overlaps another, and one of them is "
                                f"written", hint="prepare a launch for these arguments")
        self._spec.check(slots(call), self._grid)
        self._params, self._call, self._dirty = self._packed(call), call, written_tensors(self._spec.func, call)

    def _packed(self, call: Call) -> Any:
        """New parameter memory, because a launch in another thread may be reading the old."""
        return self._ready.buffer(self._ready.moving(call))[2]

    def _the_long_way(self, config: Any) -> None:
        recording.cannot_repeat(f"{self._spec.func.name} is launched as it was prepared")
        if (held := compilation()) is not None:
            held.take(self._spec, self._call, self._ordinal)
        elif (session := sessions.session()) is not None:
            self._check(session)
        elif error := self._ready.retry(config, self._params):
            raise self._ready.failure(error)
        else:
            mark(self._dirty)

    def _check(self, session: sessions.Session) -> None:
        session.launch(self._spec.func.name, self._grid, self._spec.func.block_dim, lambda: (self._call, self._spec),
                       dependent=self._dependent)


class PreparedOnHost(Prepared):
    """The same for launches that are simulated (host arrays, or any if MOYE_CHECK names checks), and empty grids."""

    __slots__ = ()

    def __init__(self, spec: Specialised, call: Call, grid: Dim3, dependent: bool) -> None:
        self._spec, self._call, self._grid, self._dependent, self._restrict = spec, call, grid, dependent, False
        self._dirty = written_tensors(spec.func, call)

    def __call__(self) -> None:
        require_untracked(self._spec.func.name, self._dirty)
        recording.cannot_repeat(f"{self._spec.func.name} is launched as it was prepared")
        if (held := compilation()) is not None:
            held.take(self._spec, self._call, None)
        elif (session := sessions.session()) is not None:
            self._check(session)
        elif 0 not in self._grid:
            simulated(self._spec, self._call, self._grid)

    def _packed(self, call: Call) -> Any:
        return None


def replaced(spec: Specialised, call: Call, arguments: Mapping[str | int, Any]) -> Call:
    """The call with other leaves; ArgumentError if one does not fit what the launch was prepared for."""
    names, parameters = [param.name for param in spec.func.params], list(call.specs)
    leaves, arrays = list(call.leaves), list(call.arrays)
    for which, value in arguments.items():
        name = parameters[which] if isinstance(which, int) and 0 <= which < len(parameters) else which
        if name not in names:
            raise ArgumentError(f"{spec.func.name} has no runtime argument {which!r}: it has {', '.join(names)}")
        index = names.index(str(name))
        old = leaves[index]
        if isinstance(old, ArrayInfo):
            position = next(i for i, (_, known, _) in enumerate(arrays) if known is old)
            value = value.array if isinstance(value, TmaCopy) else value
            leaves[index] = info = _array(names[index], old, value)
            arrays[position] = (names[index], info, value)
        else:
            leaves[index] = _number(spec, index, value)
    return Call(call.specs, arrays, leaves, call.index_bits)


def _array(name: str, old: ArrayInfo, value: Any) -> ArrayInfo:
    info = None if isinstance(value, TensorLike) else describe(value)
    if info is None:
        raise ArgumentError(f"argument {name!r} is a {type(value).__qualname__}, and the launch was prepared with an "
                            f"array")
    for what, new, known in (("dtype", info.dtype, old.dtype), ("shape", tuple(info.shape), tuple(old.shape)),
                             ("strides", tuple(info.strides), tuple(old.strides)),
                             ("device", info.device, old.device)):
        if new != known:
            raise ArgumentError(f"argument {name!r} has {what} {new}, and the launch was prepared with {known}",
                                hint="prepare another launch", code="A12")
    aligned, wanted = (math.gcd(ptr, 16) for ptr in (info.ptr, old.ptr))
    if aligned < wanted:
        raise ArgumentError(f"argument {name!r} is aligned to {aligned} bytes, and the launch was prepared for "
                            f"{wanted}", hint="prepare another launch", code="A12")
    return info


def _number(spec: Specialised, index: int, value: Any) -> int | float | bool:
    param = spec.func.params[index]
    assert isinstance(param, ScalarParam), "a number belongs to a scalar parameter"
    dtype: DType = param.value.dtype
    value = value.item() if hasattr(value, "item") else value
    wanted = bool if dtype.name == "bool" else float if dtype.is_float else int
    if type(value) is int and wanted is float:
        value = float(value)
    if type(value) is float and dtype is float32:
        require_float32(param.name, value)
    if type(value) is not wanted:
        raise ArgumentError(f"argument {param.name!r} is {value!r}, and the launch was prepared with a {dtype}")
    if wanted is int and not -(1 << (dtype.bits - 1)) <= value < 1 << dtype.bits:
        raise ArgumentError(f"argument {param.name!r} is {value}, which does not fit {dtype}")
    number: int | float | bool = value
    return number


def prepare(spec: Specialised, call: Call, device: int | None, grid: Dim3, stream: Any, smem: int,
            dependent: bool) -> Prepared:
    """A prepared launch of checked arguments."""
    if device is None or 0 in grid or isinstance(env.check(), frozenset):
        return PreparedOnHost(spec, call, grid, dependent)
    program = compile_program(spec, default_arch(device), restrict=not overlaps(spec.func, call))
    program.warn()
    return Prepared(spec, program, call, device, grid, stream, smem, dependent)
