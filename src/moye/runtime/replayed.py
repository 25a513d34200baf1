"""Host functions whose calls are remembered: a call like an earlier one makes its launches without deciding anew.

In: a function of arrays and options that launches kernels.  Out: ``Replayed``, called as before; ``.plan`` prepares.

    @mo.replayed
    def gemm(A, B, C, *, alpha=1): ...

    gemm(A, B, C); again = gemm.plan(A, B, C); again(); again(X, B, Y)

A call is like another if all that the function may have asked for is equal: class, dtype, shape, strides, device and
alignment of each array, which arrays share memory and how, all other arguments, and the environment's settings.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import update_wrapper
from sys import modules
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from moye import env
from moye.dtypes import DType
from moye.errors import ArgumentError, MoyeError, TraceError
from moye.lang.likeness import told_apart
from moye.lang.pickling import reduced
from moye.lang.trace import JitFunction
from moye.layout import ComposedLayout, Layout
from moye.runtime import fast_launch, prepare
from moye.runtime.arguments import is_record, parts_of_record, static_key, unstable
from moye.runtime.arrays import ArrayInfo, describe
from moye.runtime.boundary import boundary
from moye.runtime.fast_launch import missing
from moye.runtime.recording import Recording, first_of_its_kind, recorded
from moye.runtime.replay_launch import Replay, relations

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LIMIT = 1024
_PART = 16
_ALIKE = 4                                              # replays of arrays of the same shapes that are tried in turn
_PLAIN = (type(None), bool, int, str, bytes)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, JitFunction, type)


class _Never:
    """In the place of a replay: calls of this kind cannot be repeated."""


_NEVER = _Never()


class _Arguments(NamedTuple):
    """The arguments of a call: ``key`` is all that it may depend on, ``where`` the places of the arrays among them."""

    key: tuple[Any, ...]
    where: tuple[int, ...]
    arrays: tuple[Any, ...]
    infos: tuple[ArrayInfo, ...]


class Replayed(Generic[_P, _R]):
    """A host function that repeats what it did for arguments like these."""

    def __init__(self, function: Callable[_P, _R]) -> None:
        self.function, self._name = function, getattr(function, "__name__", "it")
        self.traced: Callable[_P, _R] | None = None
        """What torch traces in its place, inside of ``torch.compile``."""
        self._known: dict[Any, Replay | _Never | None] = {}
        self._ways: dict[Any, _Way] = {}
        update_wrapper(self, function)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, replayed, self.function)

    def __copy__(self) -> Replayed[_P, _R]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Replayed[_P, _R]:
        return self

    def __repr__(self) -> str:
        return f"<mo.replayed {self._name}>"

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if (torch := modules.get("torch")) is not None and torch.compiler.is_compiling() and self.traced is not None:
            return self.traced(*args, **kwargs)
        way = self._ways.get((*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else
                             tuple(map(type, args)))
        if way is not None:
            done = way.call(*args, *kwargs.values())
            if done is not missing:
                return done                             # type: ignore[no-any-return]
        return self._slowly(args, kwargs)

    @boundary
    def _slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _R:
        """Look at everything; repeat the call, or make it and remember it."""
        if prepare.skipping() and self.traced is not None:
            return self.traced(*args, **kwargs)
        found = None if fast_launch.held else _arguments((*args, *kwargs.values()), tuple(kwargs))
        if found is None:
            return self.function(*args, **kwargs)
        if found.key not in self._known:                # what is called once is not worth a recording
            self._keep(found.key, None)
            with first_of_its_kind():
                return self.function(*args, **kwargs)
        replay = self._known[found.key]
        if isinstance(replay, _Never):                  # to record it again would send its launches the long way
            return self.function(*args, **kwargs)
        if replay is None:
            return self._record(found, args, kwargs)
        done = replay.run(found.arrays, found.infos)
        if done is missing:
            if not replay.holds():
                self._keep(found.key, None)
            return self.function(*args, **kwargs)
        self._shorten(found, replay, args, kwargs)
        return done                                     # type: ignore[no-any-return]

    def _record(self, found: _Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _R:
        """Call the function, and remember what it did if that can be repeated."""
        with recorded(found.infos) as told:
            result = self.function(*args, **kwargs)
        which = _result(result, found, told)
        self._keep(found.key, _NEVER if which is missing else Replay(told, found.arrays, which))
        return result

    def _keep(self, key: Any, replay: Replay | _Never | None) -> None:
        if len(self._known) >= _LIMIT:
            self._known.clear()
            self._ways.clear()
        self._known[key] = replay

    def _shorten(self, found: _Arguments, replay: Replay, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let calls of these classes find the replay by shapes, where arrays can be compared in one call."""
        fast = replay.fast(found.arrays)
        if fast is None:
            return
        classes = (*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else tuple(map(type, args))
        way = self._ways.get(classes)
        if way is None:
            way = self._ways[classes] = _Way((*args, *kwargs.values()), found.where)
        way.add((*args, *kwargs.values()), fast)

    @boundary
    def plan(self, *args: _P.args, **kwargs: _P.kwargs) -> Planned[_R]:
        """The call prepared and not made: calling the result makes its launches with the same arguments or others.

        Everything is compiled and loaded.  The plan keeps the arrays alive, and scratch arrays of its own, one set for
        each stream.  ArgumentError for calls that cannot be repeated.
        """
        found = _arguments((*args, *kwargs.values()), tuple(kwargs))
        if found is None:
            raise ArgumentError(f"{self._name}.plan: an argument is neither an array of one mode or more, nor a plain "
                                "value, nor a function")
        with recorded(found.infos, dry=True) as told:
            result = self.function(*args, **kwargs)
        which = _result(result, found, told)
        if which is missing:
            why = told.why or ("it takes arrays that no kernel takes" if told.steps else "it launches nothing")
            raise ArgumentError(f"{self._name}.plan: this call cannot be repeated, as {why}",
                                hint="call the function itself")
        return Planned(self, found, Replay(told, found.arrays, which, keep=True), args, kwargs)


def replayed(function: Callable[_P, _R]) -> Replayed[_P, _R]:
    """A decorator of host functions that launch kernels: calls like earlier ones repeat their launches.

    The function may depend on its arguments, on the environment's settings, and on nothing else that changes; of an
    array on its class, dtype, shape, strides, device, address modulo 16 and on what memory it shares with the others,
    not on its elements.  It launches kernels on the current stream, takes further memory from ``mo.scratch`` functions,
    and returns None, one of the arrays or a tuple of these.  A call that does anything else is made anew each time, if
    moye can see it.
    The first call with arguments of a kind is made as it is, the second is recorded, and later ones are repeated.
    Inside ``mo.check``, ``mo.checking`` and ``mo.compile_only`` the function itself is called.
    """
    if not isinstance(function, types.FunctionType):
        raise TraceError(f"@mo.replayed decorates Python functions, not {function!r}")
    return Replayed(function)


def _result(result: Any, found: _Arguments, told: Recording) -> Any:
    """The number of the array that was returned, None for None; ``missing`` if the call cannot be repeated."""
    if told.why or not told.steps or not told.uses_all():
        return missing
    return _numbers(result, found.arrays)


def _numbers(result: Any, arrays: Sequence[Any]) -> Any:
    """What was returned by the numbers of arrays, as ``Replay`` takes it; ``missing`` for anything else."""
    if type(result) is tuple:
        parts = tuple(_numbers(part, arrays) for part in result)
        return missing if missing in parts else parts
    return None if result is None else next((i for i, x in enumerate(arrays) if x is result), missing)


# --- what a call may depend on ---------------------------------------------------------------------------------------


def _arguments(values: Sequence[Any], names: tuple[str, ...]) -> _Arguments | None:
    """The arguments by array and key; None if one is of a kind that may change unseen."""
    key: list[Any] = [names, len(values), env.settings()]
    where, arrays, infos = [], [], []
    try:
        for i, x in enumerate(values):
            info = None if isinstance(x, _PLAIN) else describe(x)
            if info is None:
                if not _stays(x):
                    return None
                key.append(_static_key(x))
                continue
            if info.kind == "spec" or (not info.shape and info.device is None):     # a number may be read from these
                return None
            key.append((type(x), info._replace(ptr=info.ptr % _PART, shape=tuple(info.shape),
                                               strides=tuple(info.strides)), getattr(x, "requires_grad", False)))
            where.append(i)
            arrays.append(x)
            infos.append(info)
        key.append(relations(infos))
        hash(found := tuple(key))
    except (MoyeError, TypeError):                      # the function says what is wrong with its arguments
        return None
    return _Arguments(found, tuple(where), tuple(arrays), tuple(infos)) if infos else None


def _stays(x: Any) -> bool:
    """Whether an argument that is no array is a value, or a function: its key tells whether it means another thing."""
    if isinstance(x, (*_PLAIN, float, np.number, np.bool_, DType, Layout, ComposedLayout, *_FUNCTIONS)):
        return True
    if type(x) is tuple:                                # of functions the key would say too little
        return all(isinstance(part, (*_PLAIN, float, DType, tuple)) and _stays(part) for part in x)
    return is_record(x) and all(map(_stays, parts_of_record(x)))


def _static_key(x: Any) -> Any:
    if type(x) in _PLAIN:
        return type(x), x
    return (type(x), repr(x)) if isinstance(x, float) else static_key("it", x)


class _Way:
    """The short way to replays for arguments of these classes: torch's tensors, and other values."""

    def __init__(self, values: Sequence[Any], where: Sequence[int]) -> None:
        self.known: dict[Any, Callable[..., Any]] = {}
        arrays = [f"a{i}" for i in where]
        names = "".join(f"a{i}, " for i in range(len(values)))
        parts = [f"{a}.shape" for a in arrays[:2]] + [f"{arrays[0]}.dtype"] + [     # the check looks at the rest
            _short_key(f"a{i}", x) for i, x in enumerate(values) if i not in where and x is not None]
        short = f"({''.join(f'{part}, ' for part in parts)})"
        lines = [f"    def short({names}): return {short}", f"    def call({names}):",
                 f"        try: found = known[{short}]",
                 "        except (KeyError, TypeError, RuntimeError): return missing",
                 f"        return found({', '.join(arrays)})", "    return short, call"]
        namespace: dict[str, Any] = {}
        exec(fast_launch.code("\n".join(["def make(known, missing, static_key, told_apart):", *lines])), namespace)
        self._alike: dict[Any, tuple[Callable[..., Any], ...]] = {}
        self._short, self.call = namespace["make"](self.known, missing, static_key, told_apart)

    def add(self, values: Sequence[Any], fast: Callable[..., Any]) -> None:
        """Let values find a replay; others of these shapes, whose arrays share memory otherwise, come after it."""
        key = self._short(*values)
        self._alike[key] = alike = (fast, *self._alike.get(key, ()))[:_ALIKE]
        self.known[key] = fast if len(alike) == 1 else _first_of(alike)


def _first_of(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """What the first of these does that holds."""
    def found(*arrays: Any) -> Any:
        for function in functions:
            if (done := function(*arrays)) is not missing:
                return done
        return missing
    return found


def _short_key(name: str, x: Any) -> str:
    """The expression of a value that is no array, by which it is found: equal ones mean the same."""
    if isinstance(x, float):
        return f"repr({name})"
    if type(x) in _PLAIN:
        return name
    if type(x) is tuple:                                # half the time of its static key, which tells as much of it
        return f"({name}, told_apart({name}))"
    return f"static_key('it', {name})" if unstable(x) else f"({name}, told_apart({name}))"


# --- plans -----------------------------------------------------------------------------------------------------------


class Planned(Generic[_R]):
    """A prepared call: ``plan()`` makes it again, ``plan(A, B, C)`` with other arrays of the same description.

    Arrays are given in their order in the call that was planned, or by the names that they had there; those that are
    left out are the plan's own.  A plan is a snapshot, as ``kernel.prepare`` makes it: it does not look at captured
    names again.  ArgumentError for arrays of another dtype, shape, strides, device or alignment, or that share memory
    otherwise.
    """

    __slots__ = ("_args", "_arrays", "_fast", "_found", "_kwargs", "_places", "_replay", "_replayed")

    def __init__(self, owner: Replayed[Any, _R], found: _Arguments, replay: Replay, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> None:
        self._replayed, self._found, self._replay, self._args, self._kwargs = owner, found, replay, args, kwargs
        self._arrays = found.arrays
        self._fast = replay.fast(found.arrays) or _nothing
        first = len(args)
        self._places = {name: n for n, i in enumerate(found.where) if i >= first
                        for name in (list(kwargs)[i - first],)}

    def __reduce__(self) -> tuple[Any, ...]:
        raise ArgumentError("a plan belongs to its process and its arrays, and is neither copied nor pickled",
                            hint="pass the arrays, and plan it there")

    def __repr__(self) -> str:
        return f"<a plan of {self._replayed!r}>"

    def __call__(self, *arrays: Any, **named: Any) -> _R:
        if not arrays and not named:
            arrays = self._arrays
        elif named or len(arrays) != len(self._arrays):
            arrays = self._whole(arrays, named)
        done = self._fast(*arrays)
        return self._slowly(arrays) if done is missing else done

    def _whole(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arrays, those that are not given the plan's own."""
        if len(arrays) > len(self._arrays):
            raise ArgumentError(f"this plan takes {len(self._arrays)} arrays, not {len(arrays)}")
        whole = [*arrays, *self._arrays[len(arrays):]]
        for name, x in named.items():
            if name not in self._places:
                raise ArgumentError(f"this plan has no array {name!r}; by name it takes "
                                    f"{', '.join(self._places) or 'none'}")
            whole[self._places[name]] = x
        return tuple(whole)

    @boundary
    def _slowly(self, arrays: tuple[Any, ...]) -> _R:
        """With arrays that the short way does not know: checked one by one, or refused."""
        values = [*self._args, *self._kwargs.values()]
        for i, x in zip(self._found.where, arrays, strict=True):
            values[i] = x
        args, kwargs = values[:len(self._args)], dict(zip(self._kwargs, values[len(self._args):], strict=True))
        if fast_launch.held:
            return self._replayed.function(*args, **kwargs)
        self._require_same(arrays)
        found = _arguments(values, tuple(kwargs))
        done: Any = missing
        if found is not None and found.key == self._found.key:
            done = self._replay.run(found.arrays, found.infos)
        result: _R = self._replayed.function(*args, **kwargs) if done is missing else done
        return result

    def _require_same(self, arrays: Sequence[Any]) -> None:
        """ArgumentError for an array that is not as the planned one."""
        infos = []
        for n, (x, old) in enumerate(zip(arrays, self._found.infos, strict=True)):
            name, info = self._name(n), describe(x)
            if info is None:
                raise ArgumentError(f"{name} is a {type(x).__qualname__}, and the plan is for an array")
            for what, new, known in (("dtype", info.dtype, old.dtype), ("shape", tuple(info.shape), tuple(old.shape)),
                                     ("strides", tuple(info.strides), tuple(old.strides)),
                                     ("device", info.device, old.device),
                                     ("address modulo 16", info.ptr % _PART, old.ptr % _PART)):
                if new != known:
                    raise ArgumentError(f"{name} has {what} {new}, and the plan is for {known}", hint="plan another",
                                        code="A12")
            infos.append(info)
        if relations(infos) != relations(self._found.infos):
            raise ArgumentError("these arrays share memory otherwise than those of the plan", hint="plan another",
                                code="A12")

    def _name(self, n: int) -> str:
        named = {index: name for name, index in self._places.items()}
        return f"argument {named[n]!r}" if n in named else f"array {n + 1}"


def _nothing(*arrays: Any) -> Any:
    return missing
