"""Configurations of a host function while they are tried: traced, compiled all at once, timed against each other.

In: ``Candidate``s and the ``Problem`` that they are for.  Out: milliseconds of each, or why it dropped out.

    compile_all(candidates, problem, progress); timed(candidates, problem, restore=True)
    # {Config(BM=128, stages=3): 0.0713}

Other processes compile while this one still traces.  Nothing here chooses or remembers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from moye.dtypes import Space
from moye.errors import (
    ArgumentError,
    CompileError,
    DTypeError,
    LaunchError,
    LayoutError,
    MoyeError,
    PreconditionError,
    TensorError,
    UnsupportedError,
)
from moye.hardware import MOST_REGISTERS, REGISTER_UNIT, REGISTERS, WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, TensorParam
from moye.ir.traits import Trait
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.compile import Specialised, default_arch
from moye.runtime.prepare import Job, compile_only
from moye.runtime.tuning.key import Described
from moye.runtime.tuning.precompile import Compiling, Progress
from moye.runtime.tuning.trials import Config, near

ILLEGAL = (ArgumentError, LayoutError, LaunchError, TensorError, DTypeError, PreconditionError, UnsupportedError)
_ROUGH, _FINE = 3, 20                                   # rounds of timing: all configurations, then the best ones


def on_a_device(arrays: Iterable[ArrayInfo]) -> ArrayInfo | None:
    """The first array that is on a device: it decides where a call runs."""
    return next((info for info in arrays if info.device is not None), None)


class Problem:
    """A call that needs a configuration; its arrays decide the device."""

    def __init__(self, call: Callable[..., Any], arguments: dict[str, Any], found: Mapping[str, Described]) -> None:
        self.call = call
        self.arguments = arguments
        self.arrays = [info for argument in found.values() for info in argument.arrays()]
        on_device = on_a_device(self.arrays)
        self.device = None if on_device is None else on_device.device
        self.kind = "" if on_device is None else on_device.kind

    @property
    def ordinal(self) -> int:
        """The device that it runs on."""
        assert self.device is not None, "host arrays are not timed"
        return self.device

    def capturing(self) -> bool:
        """Whether its stream is being captured into a graph."""
        from moye.cuda.device import driver, events

        return events.capturing(driver.current_stream(self.ordinal, self.kind), self.ordinal)


@dataclass(slots=True)
class Candidate:
    """A configuration: what it launches, or why it dropped out."""

    config: Config
    jobs: list[Job] = field(default_factory=list)
    why: str = ""
    error: MoyeError | None = None

    def drop(self, error: MoyeError) -> None:
        self.why, self.error = f"{type(error).__name__}: {error.message.splitlines()[0]}", error

    def trace(self, problem: Problem, arch: str | None) -> None:
        """Gather what it launches, or find it illegal."""
        try:
            with compile_only(arch, trace_only=True) as gathered:
                problem.call(**self.config.kwargs)
        except ILLEGAL as error:
            self.drop(error)
        self.jobs = gathered.jobs


def compile_all(candidates: Sequence[Candidate], problem: Problem, progress: Progress) -> None:
    """Trace every candidate; those that are legal and fit the device are compiled at the same time."""
    from moye.cuda.device import driver

    arch, shared = default_arch(problem.ordinal), driver.device_limits(problem.ordinal).max_smem
    with Compiling() as compiling:
        for count, candidate in enumerate(candidates, 1):
            candidate.trace(problem, arch)
            for job in candidate.jobs:
                candidate.why = candidate.why or excess(job.spec, shared)
            if not candidate.why:
                compiling.add(*candidate.jobs)
            progress.show("tracing", count)
        errors = compiling.finish(partial(progress.show, "compiling"))
    for candidate in candidates:
        failed = [errors[id(job)] for job in candidate.jobs if id(job) in errors]
        if failed and not candidate.why:
            candidate.drop(failed[0])


# --- timing ----------------------------------------------------------------------------------------------------------


def timed(candidates: Sequence[Candidate], problem: Problem, *, restore: bool) -> dict[Config, float]:
    """The median milliseconds of each; a configuration that the device refuses drops out with the reason.

    With ``restore``, arguments have their old contents afterwards.
    """
    from moye.cuda.device import events

    works: dict[str, Callable[[], object]] = {}
    by_name = {str(i): c for i, c in enumerate(candidates)}
    saved = _save(candidates, problem) if restore else []
    try:
        with events.Stopwatch(problem.ordinal, kind=problem.kind) as watch:
            for name, c in by_name.items():
                work = partial(problem.call, **c.config.kwargs)
                try:
                    work()
                    watch.synchronize()
                except (*ILLEGAL, CompileError) as error:
                    c.drop(error)
                else:
                    works[name] = work
            rough = _medians(events.interleave(works, _ROUGH, watch, warmup=1))
            best = {name: works[name] for name in near(rough)}
            fine = _medians(events.interleave(best, _FINE, watch, warmup=1))
    finally:
        for memory, pointer, stream in saved:
            memory.restore(pointer, stream)
            memory.free()
    slowest = max(fine.values(), default=0.0)           # a rough time must not beat the fine ones
    return {c.config: fine.get(name, max(rough[name], slowest)) for name, c in by_name.items() if name in rough}


def _medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(measured) for name, measured in times.items()}


def _save(candidates: Sequence[Candidate], problem: Problem) -> list[tuple[Any, int, int]]:
    """Copies of the array arguments that some configuration writes: (memory, where it belongs, stream)."""
    from moye.cuda.device import driver, events

    own = [span_bytes(info) for info in problem.arrays if info.device == problem.ordinal]
    written = {span for c in candidates for job in c.jobs for span in _written(job)}
    stream = driver.current_stream(problem.ordinal, problem.kind)
    saved = []
    for first, end in own:
        if any(first < last and start < end for start, last in written):
            memory = events.Memory(end - first, problem.ordinal)
            memory.save(first, stream)
            saved.append((memory, first, stream))
    return saved


def _written(job: Job) -> list[tuple[int, int]]:
    return [span_bytes(leaf) for param, leaf in zip(job.spec.func.params, job.call.leaves, strict=True)
            if isinstance(param, TensorParam) and param.buffer.written and isinstance(leaf, ArrayInfo)]


# --- what a kernel asks of a multiprocessor --------------------------------------------------------------------------


def excess(spec: Specialised, shared_limit: int) -> str:
    """Why no block can run, or none without spilling accumulators; empty if neither is certain.

    It counts what is certain before compiling, so it never refuses a kernel that fits; it does not predict spills.

        excess(spec, MOST_SHARED)     # 'accumulators take 512 registers of a thread, which has 255 in a block of ...'
    """
    func = spec.func
    if spec.shared_bytes > shared_limit:
        return f"shared memory takes {spec.shared_bytes} bytes of a block, and the device has {shared_limit}"
    needed, cap = accumulators(func), register_cap(func)
    if needed <= cap:
        return ""
    return f"accumulators take {needed} registers of a thread, which has {cap} {_where(func)}"


def accumulators(func: Func) -> int:
    """The most registers that accumulators take at once: those of MMAs, each from its first use to its last.

    Uses are taken in program order, without the way back in loops, so it is a lower bound.
    """
    spans: dict[Buffer, tuple[int, int]] = {}
    places: dict[int, Buffer] = {}
    for place, op in enumerate(func.body.walk()):
        for ref, written in op.refs():
            first, _ = spans.get(ref.buffer, (place, place))
            spans[ref.buffer] = (first, place)
            if written and Trait.MULTIPLIES in op.traits and ref.buffer.space is Space.REGISTER:
                places[place] = ref.buffer
    results = set(places.values())
    live = (sum(buffer.bytes for buffer in results if spans[buffer][0] <= place <= spans[buffer][1])
            for place in places)
    return -(-max(live, default=0) // 4)


def register_cap(func: Func) -> int:
    """The registers that a thread can have: those of its warp group if setmaxnreg sets them, else by block size."""
    if budget := _budget(func):
        return min(MOST_REGISTERS, budget)
    warps = -(-func.threads // WARP) * func.min_blocks
    return min(MOST_REGISTERS, REGISTERS // (warps * WARP) // REGISTER_UNIT * REGISTER_UNIT)


def _budget(func: Func) -> int:
    """The most that setmaxnreg.inc asks for; 0 without it."""
    return max((op.count for op in func.body.walk() if isinstance(op, ops.SetMaxRegisters) and op.kind == "inc"),
               default=0)


def _where(func: Func) -> str:
    if _budget(func):
        return "by setmaxnreg"
    return f"in {f'{func.min_blocks} blocks' if func.min_blocks > 1 else 'a block'} of {func.threads} threads"
