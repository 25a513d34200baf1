"""``@mo.autotune``: try configurations of a host function and keep the fastest for each key.

In: a function that launches kernels, ``Config``s of its keyword arguments.  Out: the same function without them.

    @mo.autotune([mo.Config(BM=128, stages=3), mo.Config(BM=64, stages=4)], key=["A", "B"])
    def matmul(A, B, C, *, BM, stages): ...
    matmul(A, B, C); print(matmul.report())

Tracing drops illegal configurations and those that need more than a multiprocessor has.  The others are compiled in
parallel meanwhile and timed interleaved, with L2 flushed (``candidates.py``).  Times are kept on disk, and only new
configurations are tried (``trials.py``).  Host arrays are simulated: there the first legal configuration is taken.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any, NamedTuple

from moye.errors import ArgumentError, LaunchError, MoyeError
from moye.lang.pickling import reduced
from moye.runtime.kernel import Kernel
from moye.runtime.prepare import compilation
from moye.runtime.recording import cannot_repeat
from moye.runtime.tuning.candidates import Candidate, Problem, compile_all, on_a_device, timed
from moye.runtime.tuning.key import Described, described
from moye.runtime.tuning.precompile import Progress
from moye.runtime.tuning.trials import Config, Trial, TrialStore, merged, near

Prune = Callable[..., bool | str]


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
        ranked = sorted((trial for trial in self.trials if trial.ms), key=lambda trial: trial.ms or 0.0)
        dropped = _by_reason((trial.config, trial.why) for trial in self.trials if not trial.ms)
        names = [str(trial.config) for trial in ranked] + [_counted(configs) for configs in dropped.values()]
        width, fastest = max(map(len, names)), ranked[0].ms or 1.0
        told = [f"{t.ms:10.4f} ms  {t.ms / fastest:5.2f}x" for t in ranked if t.ms] + [f"- {why}" for why in dropped]
        head = f"{self.key} on {self.device}{' (from the disk cache)' if self.from_disk else ''}"
        return "\n".join([head, *(f"  {name:{width}}  {text}" for name, text in zip(names, told, strict=True))])


def _by_reason(dropped: Iterable[tuple[Config, str]]) -> dict[str, list[Config]]:
    """Configurations that dropped out, grouped by the reason."""
    found: dict[str, list[Config]] = {}
    for config, why in dropped:
        found.setdefault(why, []).append(config)
    return found


def _counted(configs: Sequence[Config]) -> str:
    return str(configs[0]) if len(configs) == 1 else f"{len(configs)} configurations"


def autotune(configs: Sequence[Config], key: Sequence[str | Callable[..., Any]] | None = None, *,
             prune: Prune | None = None, restore: bool = True,
             progress: bool = True) -> Callable[[Callable[..., Any]], Autotuned]:
    """Give a host function that launches kernels the fastest configuration for its key; a decorator.

    ``key`` names arguments.  Arrays count by dtype, shape, kinds of strides and alignment, TMA copies also by their
    tiles, and others by value.  By default it names all that hold arrays.  A function in ``key`` is called with the
    arguments by name, and its result counts.  ``prune(config, **arguments)`` drops a configuration if it returns True
    or a reason.  With ``restore``, array arguments have their old contents again when tuning is over.
    """
    if not isinstance(configs, Sequence | Iterator) or not (configs := list(configs)) or \
            not all(isinstance(config, Config) for config in configs):
        raise ArgumentError(f"autotune needs a list of at least one configuration, each a mo.Config, not {configs!r}")
    if isinstance(key, str):
        raise ArgumentError(f"autotune: key={key!r} is no list of the names of arguments", hint=f"key=[{key!r}]")
    names = {tuple(config.kwargs) for config in configs}
    if len(names) != 1:
        raise ArgumentError(f"the configurations name different arguments: {' and '.join(map(str, sorted(names)))}")
    options = _Options(list(dict.fromkeys(configs)), None if key is None else list(key), prune, restore, progress)
    return lambda function: Autotuned(function, options)


class _Options(NamedTuple):
    configs: list[Config]
    key: list[str | Callable[..., Any]] | None
    prune: Prune | None
    restore: bool
    progress: bool


class Autotuned:
    """A tuned host function; call it without the configuration's arguments (or with all of them, untuned)."""

    def __init__(self, function: Callable[..., Any], options: _Options) -> None:
        self.function = function
        self.options = options
        self._names = frozenset(options.configs[0].kwargs)
        if not callable(function):
            raise ArgumentError(f"autotune decorates functions, not {function!r}")
        if isinstance(function, Kernel):
            raise ArgumentError(f"autotune decorates a function of the host, and {function!r} is a kernel",
                                hint="decorate def f(x, B): kernel[x.shape[0] // B, B](x, B)")
        self.signature = inspect.signature(function)
        self._asked = [part for part in options.key or () if not isinstance(part, str)]
        named = {part for part in options.key or () if isinstance(part, str)}
        unknown = (self._names | named) - set(self.signature.parameters)
        if unknown:
            raise ArgumentError(f"{function.__name__}{self.signature} has no argument {', '.join(sorted(unknown))}")
        self._before = min((place for place, parameter in enumerate(self.signature.parameters.values())
                            if parameter.name in self._names and parameter.kind is parameter.POSITIONAL_OR_KEYWORD),
                           default=sys.maxsize)         # arguments, with more of which a configuration is given
        self._chosen: dict[Any, Config] = {}
        self._tunings: dict[Any, Tuning] = {}
        self._said = False
        self._lock = threading.RLock()
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._names & kwargs.keys() or len(args) > self._before:
            return self.function(*args, **kwargs)
        return self.function(*args, **kwargs, **self.best(*args, **kwargs).kwargs)

    def best(self, *args: Any, **kwargs: Any) -> Config:
        """The configuration for these arguments; it is tuned if it is not known yet."""
        arguments = self._bind(args, kwargs)
        found = {name: described(value) for name, value in arguments.items()}
        in_key = {name: argument for name, argument in found.items() if self._in_key(name, argument)}
        in_key |= {part.__name__: described(part(**arguments)) for part in self._asked}
        where = on_a_device(info for argument in found.values() for info in argument.arrays())
        exact = (where and where.device, *(argument.key() for argument in in_key.values()))
        chosen = self._chosen.get(exact)
        if chosen is None:
            cannot_repeat(f"{self.function.__name__} is tuned")
            with self._lock:
                problem = Problem(partial(self.function, *args, **kwargs), arguments, found)
                if compilation() is not None:           # nothing is timed there, so it is not to be remembered
                    return self._first_legal(problem)
                chosen = self._first_legal(problem) if problem.device is None else self._fastest(problem, in_key)
                self._chosen[exact] = chosen
        return chosen

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, Autotuned, self.function, self.options)

    def __copy__(self) -> Autotuned:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Autotuned:
        return self

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

    def _in_key(self, name: str, argument: Described) -> bool:
        return name in self.options.key if self.options.key is not None else any(True for _ in argument.arrays())

    def _fastest(self, problem: Problem, in_key: Mapping[str, Described]) -> Config:
        key = ", ".join(f"{name}: {argument.text()}" for name, argument in in_key.items())
        tuning = self._tunings.get((problem.device, key)) or self._tuned(problem, key)
        self._tunings[problem.device, key] = tuning
        return tuning.best

    def _first_legal(self, problem: Problem) -> Config:
        """The first legal configuration, for the simulator, whose times mean nothing, and where nothing runs."""
        candidates = []
        for candidate in self._candidates(problem):
            if not candidate.why:
                candidate.trace(problem, None)
            if not candidate.why:
                if not self._said and compilation() is None:
                    self._said = True
                    print(f"moye: {self.function.__name__} has host arrays, so its first legal configuration is taken "
                          f"({candidate.config})", file=sys.stderr)
                return candidate.config
            candidates.append(candidate)
        raise self._none_legal(candidates)

    def _candidates(self, problem: Problem) -> Iterator[Candidate]:
        """Every configuration; those that the user's function drops have the reason."""
        for config in self.options.configs:
            dropped = self.options.prune(config, **problem.arguments) if self.options.prune is not None else False
            yield Candidate(config, why=dropped if isinstance(dropped, str) else "pruned" if dropped else "")

    def _tuned(self, problem: Problem, key: str) -> Tuning:
        """The result from the disk, if it knows the configurations, and from trying the others."""
        from moye.cuda.device import driver

        assert problem.device is not None, "there is a device to time on"
        device = driver.device_limits(problem.device).name
        store, candidates = TrialStore(self.function, key, device), list(self._candidates(problem))
        trials = store.load(c.config for c in candidates if not c.why)
        rivals = near({config: trial.ms for config, trial in trials.items() if trial.ms})
        new = [c for c in candidates if not c.why and c.config not in trials]
        if new:
            tried = [c for c in candidates if c in new or c.config in rivals]
            trials = merged(trials, self._try(tried, problem))
        if not any(trial.ms for trial in trials.values()):
            raise self._none_legal(candidates)
        if new:
            store.save(trials.values())
        return Tuning(key, device, [trials.get(c.config, Trial(c.config, None, c.why)) for c in candidates],
                      from_disk=not new)

    def _try(self, candidates: Sequence[Candidate], problem: Problem) -> list[Trial]:
        """Trace, compile and time these."""
        name = self.function.__name__
        if problem.capturing():
            raise LaunchError(f"{name} cannot be tuned while its stream is captured into a graph",
                              hint="call it once before the capture")
        with Progress(name, len(candidates), self.options.progress) as progress:
            compile_all(candidates, problem, progress)
            progress.show("timing", 0)
            times = timed([c for c in candidates if not c.why], problem, restore=self.options.restore)
        return [Trial(c.config, times.get(c.config), c.why) for c in candidates]

    def _none_legal(self, candidates: Sequence[Candidate]) -> MoyeError:
        """What all the traced configurations say, if several say the same: then the arguments are at fault."""
        errors = [c.error for c in candidates if c.error is not None]
        dropped = _by_reason((c.config, c.why) for c in candidates)
        if len(errors) > 1 and len({c.why for c in candidates if c.error is not None}) == 1:
            return errors[0]
        reasons = "\n  ".join(f"{_counted(configs)}: {why}" for why, configs in dropped.items())
        return LaunchError(f"none of the {len(candidates)} configurations of {self.function.__name__} is legal:\n  "
                           f"{reasons}")



__all__ = ["Autotuned", "Config", "Trial", "Tuning", "autotune"]
