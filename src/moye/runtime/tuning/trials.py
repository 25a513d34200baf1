"""What became of configurations: ``Trial``s, and the disk that keeps them for each function, key and device.

In: a function, a key, a device's name.  Out: the trials of configurations that were tried before.

    TrialStore(matmul, "A: float32 (256, 256)...", "NVIDIA H200").load(configs)
    # {Config(BM=128, stages=3): Trial(config=..., ms=0.0713, why='')}

An entry is found by the configuration's text, so adding one to a list leaves the others as they are.  If the function
changes, or anything that it calls, trials begin anew.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from moye import env
from moye.errors import ArgumentError
from moye.runtime.cache import cache_key, opened
from moye.runtime.tuning.fingerprint import fingerprint, text_of

_NEAR, _MOST_NEAR = 1.3, 10
_Name = TypeVar("_Name")


class Config:
    """One choice of keyword arguments; equal and hashable by value."""

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        if values is not None and not (isinstance(values, Mapping) and all(isinstance(name, str) for name in values)):
            raise ArgumentError(f"Config takes values by the names of arguments, not {values!r}",
                                hint="mo.Config(stages=3), or mo.Config({'stages': 3})")
        self._items = tuple(sorted({**(values or {}), **more}.items()))
        for name, value in self._items:
            try:
                hash(value)
            except TypeError:
                raise ArgumentError(f"Config: {name} is a {type(value).__name__}, which has no hash",
                                    hint="make it a tuple or a frozen dataclass") from None

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
        return ", ".join(f"{name}={_shown(value)}" for name, value in self._items)

    def __repr__(self) -> str:
        return f"Config({self})"


def _shown(value: Any) -> str:
    """A value for people: dataclasses without fields that have their default."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return str(value)
    told = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return f"{type(value).__name__}({', '.join(f'{f.name}={x!r}' for f, x in told if not _is_default(f, x))})"


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    return field.default is not dataclasses.MISSING and bool(field.default == value)


class Trial(NamedTuple):
    """What became of one configuration: its median milliseconds, or why it has none."""

    config: Config
    ms: float | None
    why: str = ""


def near(times: Mapping[_Name, float]) -> list[_Name]:
    """The configurations that may yet be the fastest, at most ten, the fastest first."""
    ordered = sorted(times, key=lambda name: times[name])[:_MOST_NEAR]
    return [name for name in ordered if times[name] <= _NEAR * times[ordered[0]]]


def merged(known: Mapping[Config, Trial], tried: Sequence[Trial]) -> dict[Config, Trial]:
    """Trials of another day, together with new trials and the best old ones timed beside them.

    Times of two days do not compare, so what was not tried again stays behind the slowest of what was.
    """
    slowest = max((trial.ms for trial in tried if trial.ms and trial.config in known), default=0.0)
    older = {config: trial._replace(ms=max(trial.ms, slowest)) if trial.ms else trial
             for config, trial in known.items()}
    return older | {trial.config: trial for trial in tried}


class TrialStore:
    """The trials of one function, key and device; without a disk cache nothing is kept."""

    def __init__(self, function: Callable[..., Any], key: str, device: str) -> None:
        from moye.cuda.compiler import nvrtc

        self._cache = opened()
        flags = ("asserts",) if env.device_assert() else ()                 # which take time
        self._file = cache_key(f"{key}\n{fingerprint(function)}", flags, f"trials {device} {nvrtc.compiler_version()}")
        self._record = {"kernel": f"autotune {function.__name__}", "arch": device, "key": key}

    def load(self, configs: Iterable[Config]) -> dict[Config, Trial]:
        """The configurations of this list that have been tried."""
        stored = self._stored()
        return {config: Trial(config, *stored[text]) for config in configs if (text := _text(config)) in stored}

    def save(self, trials: Iterable[Trial]) -> None:
        """Keep these trials beside those that are there by now."""
        if self._cache is not None:
            with self._cache.locked():                  # others may have saved theirs meanwhile
                stored = self._stored() | {_text(trial.config): (trial.ms, trial.why) for trial in trials}
                self._cache.put(self._file, json.dumps(stored).encode(), self._record)

    def _stored(self) -> dict[str, tuple[float | None, str]]:
        blob = self._cache.get(self._file) if self._cache is not None else None
        try:
            found = {} if blob is None else json.loads(blob)
            return {str(text): _outcome(ms, why) for text, (ms, why) in found.items()}
        except (AttributeError, RecursionError, TypeError, ValueError):
            return {}                                   # a file of another kind


def _outcome(ms: Any, why: Any) -> tuple[float | None, str]:
    """What became of a configuration, as it was stored; ValueError for anything else."""
    if not isinstance(why, str) or not (ms is None or (isinstance(ms, (int, float)) and 0 <= ms < math.inf)):
        raise ValueError(f"{ms!r} milliseconds, {why!r}")
    return ms, why


def _text(config: Config) -> str:
    """A configuration as text that is the same in another process."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in config.kwargs.items())
