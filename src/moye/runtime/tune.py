"""``@mo.autotune``: try configurations of a host function and keep the fastest for each key.

In: a function that launches kernels, ``Config``s of its keyword arguments.  Out: the same function without them.

>>> @mo.autotune([mo.Config(BM=128, stages=3), mo.Config(BM=64, stages=4)], key=["A", "B"])
... def matmul(A, B, C, *, BM, stages): ...
>>> matmul(A, B, C); print(matmul.report())

Illegal configurations are dropped while tracing, the others compiled in parallel (``precompile.py``), timed interleaved
with L2 flushed, and the result is kept on disk.  Host arrays are simulated: there the first legal one is taken.
"""

from __future__ import annotations

import inspect
import json
import statistics
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any, NamedTuple

from moye import env
from moye.errors import (
    ArgumentError,
    CompileError,
    DTypeError,
    LaunchError,
    LayoutError,
    PreconditionError,
    TensorError,
)
from moye.ir.nodes import TensorParam
from moye.runtime.arguments import tensor_spec
from moye.runtime.arrays import ArrayInfo, describe, span_bytes
from moye.runtime.cache import DiskCache, cache_key
from moye.runtime.compile import default_arch
from moye.runtime.fingerprint import fingerprint, text_of
from moye.runtime.precompile import Progress, precompile
from moye.runtime.prepare import Job, compilation, compile_only

ILLEGAL = (LayoutError, LaunchError, TensorError, DTypeError, PreconditionError)
_ROUGH, _FINE = 3, 20                                   # rounds of timing: all configurations, then the best ones
_NEAR, _MOST_NEAR = 1.3, 10
Prune = Callable[..., bool | str]


class Config:
    """One choice of keyword arguments; equal and hashable by value."""

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._items = tuple(sorted({**(values or {}), **more}.items()))

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __getitem__(self, name: str) -> Any:
        return self.kwargs[name]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._items)

    def __repr__(self) -> str:
        return f"Config({self})"


class Trial(NamedTuple):
    """What became of one configuration: its median milliseconds, or why it has none."""

    config: Config
    ms: float | None
    why: str = ""


@dataclass(slots=True)
class Tuning:
    """All trials for one key."""

    key: str
    device: str
    trials: list[Trial]
    from_disk: bool = False

    @property
    def best(self) -> Config:
        return min((t for t in self.trials if t.ms is not None), key=lambda t: t.ms or 0.0).config

    def __str__(self) -> str:
        rows = sorted(self.trials, key=lambda t: (t.ms is None, t.ms))
        fastest = rows[0].ms or 1.0
        width = max(len(str(t.config)) for t in rows)
        head = f"{self.key} on {self.device}{' (from the disk cache)' if self.from_disk else ''}"
        lines = [f"  {t.config!s:{width}}  " + (f"{t.ms:10.4f} ms  {t.ms / fastest:5.2f}x" if t.ms else f"- {t.why}")
                 for t in rows]
        return "\n".join([head, *lines])


def autotune(configs: Sequence[Config], key: Sequence[str] | None = None, *, prune: Prune | None = None,
             restore: bool = True, progress: bool = True) -> Callable[[Callable[..., Any]], Autotuned]:
    """Decorator of a host function that launches kernels: its configuration is the fastest for the key.

    ``key`` names arguments: arrays count by dtype, shape, kinds of strides and alignment, others by value (by default
    all arrays).  ``prune(config, **arguments)`` drops a configuration by answering True or the reason.  With
    ``restore``, array arguments have the contents of before once tuning is over.
    """
    if not configs:
        raise ArgumentError("autotune needs at least one configuration")
    names = {tuple(config.kwargs) for config in configs}
    if len(names) != 1:
        raise ArgumentError(f"the configurations name different arguments: {' and '.join(map(str, sorted(names)))}")
    options = _Options(list(dict.fromkeys(configs)), None if key is None else list(key), prune, restore, progress)
    return lambda function: Autotuned(function, options)


class _Options(NamedTuple):
    configs: list[Config]
    key: list[str] | None
    prune: Prune | None
    restore: bool
    progress: bool


@dataclass(slots=True)
class _Candidate:
    """A configuration on its way: what it launches, and why it dropped out."""

    config: Config
    jobs: list[Job] = field(default_factory=list)
    why: str = ""


class Autotuned:
    """A tuned host function; call it without the configuration's arguments (or with all of them, untuned)."""

    def __init__(self, function: Callable[..., Any], options: _Options) -> None:
        self.function = function
        self.options = options
        self._names = frozenset(options.configs[0].kwargs)
        self.signature = inspect.signature(function)
        unknown = ({*self._names, *(options.key or ())}) - set(self.signature.parameters)
        if unknown:
            raise ArgumentError(f"{function.__name__}{self.signature} has no argument {', '.join(sorted(unknown))}")
        self._chosen: dict[Any, Config] = {}
        self._tunings: dict[Any, Tuning] = {}
        self._said = False
        self._lock = threading.RLock()
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._names & kwargs.keys():
            return self.function(*args, **kwargs)
        return self.function(*args, **kwargs, **self.best(*args, **kwargs).kwargs)

    def best(self, *args: Any, **kwargs: Any) -> Config:
        """The configuration for these arguments, tuned if it is not known yet."""
        arguments = self._bind(args, kwargs)
        infos = {name: describe(value) for name, value in arguments.items()}
        exact = tuple(_exact(value, infos[name]) for name, value in arguments.items()
                      if self._in_key(name, infos[name]))
        found = self._chosen.get(exact)
        if found is None:
            with self._lock:
                found = self._chosen[exact] = self._choose(args, kwargs, arguments, infos)
        return found

    def report(self) -> str:
        """A table for each key: configurations with their times, or why they were dropped."""
        return "\n\n".join([self.function.__name__, *map(str, self._tunings.values())])

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.function.__name__}{self.signature}: {error}") from None
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if name not in self._names}

    def _in_key(self, name: str, info: ArrayInfo | None) -> bool:
        return name in self.options.key if self.options.key is not None else info is not None

    def _choose(self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: dict[str, Any],
                infos: dict[str, ArrayInfo | None]) -> Config:
        devices = {info.device for info in infos.values() if info is not None}
        device = next((d for d in devices if d is not None), None)
        call = partial(self.function, *args, **kwargs)
        if device is None or compilation() is not None:
            return self._first_legal(call, arguments)
        key = ", ".join(f"{name}: {_class(arguments[name], info)}" for name, info in infos.items()
                        if self._in_key(name, info))
        tuning = self._tunings.get((device, key)) or self._tuned(call, arguments, infos, device, key)
        self._tunings[device, key] = tuning
        return tuning.best

    def _first_legal(self, call: Callable[..., Any], arguments: dict[str, Any]) -> Config:
        """For the simulator, whose times mean nothing."""
        reasons = []
        for config in self.options.configs:
            candidate = self._traced(config, call, arguments, None)
            if not candidate.why:
                if not self._said and compilation() is None:
                    self._said = True
                    print(f"moye: {self.function.__name__} has host arrays, so its first legal configuration is taken "
                          f"({config})", file=sys.stderr)
                return config
            reasons.append(f"{config}: {candidate.why}")
        raise _none_legal(self.function.__name__, reasons)

    def _traced(self, config: Config, call: Callable[..., Any], arguments: dict[str, Any],
                arch: str | None) -> _Candidate:
        """What a configuration launches, or why it is illegal."""
        candidate = _Candidate(config)
        dropped = self.options.prune(config, **arguments) if self.options.prune is not None else False
        if dropped:
            candidate.why = dropped if isinstance(dropped, str) else "pruned"
            return candidate
        try:
            with compile_only(arch, trace_only=True) as gathered:
                call(**config.kwargs)
        except ILLEGAL as error:
            candidate.why = f"{type(error).__name__}: {error.message}"
        candidate.jobs = gathered.jobs
        return candidate

    def _tuned(self, call: Callable[..., Any], arguments: dict[str, Any], infos: dict[str, ArrayInfo | None],
               device: int, key: str) -> Tuning:
        """From the disk, or by trying."""
        from moye.cuda import driver, nvrtc

        name = driver.device_limits(device).name
        stored = cache_key(f"{key}\n{fingerprint(self.function)}", [str(c) for c in self.options.configs],
                           f"autotune {name} {nvrtc.compiler_version()}")
        cache = DiskCache(env.cache_dir()) if env.disk_cache() else None
        if cache is not None and (blob := cache.get(stored)) is not None:
            trials = [Trial(config, ms, why) for config, (ms, why) in zip(self.options.configs, json.loads(blob),
                                                                          strict=True)]
            return Tuning(key, name, trials, from_disk=True)
        trials = self._try(call, arguments, infos, device)
        if cache is not None:
            cache.put(stored, json.dumps([[t.ms, t.why] for t in trials]).encode(),
                      {"kernel": f"autotune {self.function.__name__}", "arch": name, "key": key})
        return Tuning(key, name, trials)

    def _try(self, call: Callable[..., Any], arguments: dict[str, Any], infos: dict[str, ArrayInfo | None],
             device: int) -> list[Trial]:
        """Trace, compile and time every configuration."""
        from moye.cuda import driver, events

        kind = next((info.kind for info in infos.values() if info is not None and info.device is not None), "")
        if events.capturing(driver.current_stream(device, kind), device):
            raise LaunchError(f"{self.function.__name__} cannot be tuned while its stream is captured into a graph",
                              hint="call it once before the capture")
        arch, shown = default_arch(device), self.options.progress
        with Progress(self.function.__name__, len(self.options.configs), shown) as progress:
            candidates = []
            for config in self.options.configs:
                candidates.append(self._traced(config, call, arguments, arch))
                progress.show("tracing", len(candidates))
            legal = [c for c in candidates if not c.why]
            errors = precompile([job for c in legal for job in c.jobs], partial(progress.show, "compiling"))
            for c in legal:
                if failed := [errors[id(job)] for job in c.jobs if id(job) in errors]:
                    c.why = f"{type(failed[0]).__name__}: {failed[0].message.splitlines()[0]}"
            progress.show("timing", 0)
            times = _timed([c for c in legal if not c.why], call, infos if self.options.restore else {}, device, kind)
        if not times:
            raise _none_legal(self.function.__name__, [f"{c.config}: {c.why}" for c in candidates])
        return [Trial(c.config, times.get(c.config), c.why) for c in candidates]


def _none_legal(name: str, reasons: Sequence[str]) -> LaunchError:
    return LaunchError(f"none of the {len(reasons)} configurations of {name} is legal:\n  " + "\n  ".join(reasons))


# --- timing ----------------------------------------------------------------------------------------------------------


def _timed(candidates: Sequence[_Candidate], call: Callable[..., Any], infos: Mapping[str, ArrayInfo | None],
           device: int, kind: str) -> dict[Config, float]:
    """Median milliseconds; a configuration that the device refuses drops out and says why."""
    from moye.cuda import events

    works: dict[str, Callable[[], object]] = {}
    by_name = {str(i): c for i, c in enumerate(candidates)}
    saved = _save(candidates, infos, device, kind)
    try:
        with events.Stopwatch(device, kind=kind) as watch:
            for name, c in by_name.items():
                work = partial(call, **c.config.kwargs)
                try:
                    work()
                    watch.synchronize()
                except (*ILLEGAL, CompileError) as error:
                    c.why = f"{type(error).__name__}: {error.message.splitlines()[0]}"
                else:
                    works[name] = work
            rough = _medians(events.interleave(works, _ROUGH, watch, warmup=1))
            near = sorted(rough, key=lambda name: rough[name])[:_MOST_NEAR]
            near = [name for name in near if rough[name] <= _NEAR * rough[near[0]]]
            fine = _medians(events.interleave({name: works[name] for name in near}, _FINE, watch, warmup=1))
    finally:
        for memory, pointer, stream in saved:
            memory.restore(pointer, stream)
            memory.free()
    slowest = max(fine.values(), default=0.0)           # a rough time must not beat the fine ones
    return {c.config: fine.get(name, max(rough[name], slowest)) for name, c in by_name.items() if name in rough}


def _medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(measured) for name, measured in times.items()}


def _save(candidates: Sequence[_Candidate], infos: Mapping[str, ArrayInfo | None], device: int,
          kind: str) -> list[tuple[Any, int, int]]:
    """Copies of the array arguments that some configuration writes: (memory, where it belongs, stream)."""
    from moye.cuda import driver, events

    own = [span_bytes(info) for info in infos.values() if info is not None and info.device == device]
    written = {span for c in candidates for job in c.jobs for span in _written(job)}
    stream = driver.current_stream(device, kind)
    saved = []
    for first, end in own:
        if any(first < last and start < end for start, last in written):
            memory = events.Memory(end - first, device)
            memory.save(first, stream)
            saved.append((memory, first, stream))
    return saved


def _written(job: Job) -> list[tuple[int, int]]:
    return [span_bytes(leaf) for param, leaf in zip(job.spec.func.params, job.call.leaves, strict=True)
            if isinstance(param, TensorParam) and param.buffer.written and isinstance(leaf, ArrayInfo)]


# --- keys ------------------------------------------------------------------------------------------------------------


def _exact(value: Any, info: ArrayInfo | None) -> Any:
    """What finds a choice again at once."""
    if info is not None:
        return (info.dtype, tuple(info.shape), tuple(info.strides), info.device, info.ptr & 15)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value), value)


def _class(value: Any, info: ArrayInfo | None) -> str:
    """An argument as text: what a choice is kept under."""
    if info is None:
        return text_of(value)
    spec = tensor_spec(info)
    strides = ", ".join(str(s) if s is not None else f"{divisor}n" for s, divisor in zip(spec.strides, spec.divisors,
                                                                                       strict=True))
    return f"{info.dtype} ({', '.join(map(str, info.shape))}):({strides}) align {spec.align}"


__all__ = ["Autotuned", "Config", "Trial", "Tuning", "autotune"]
