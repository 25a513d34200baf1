"""What a host function does: the launches that it makes, and the scratch arrays that it asks for.

In: a function with its arguments.  Out: ``Recording``, from which ``replay_launch`` repeats it.

    with recorded(arrays) as told: gemm(A, B, C)
    told.steps                                          # each with kernel, grid and where its arguments come from

A pointer is known by the argument or the scratch array that it lies in, and how far behind its begin.
"""

from __future__ import annotations

import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from moye.errors import ArgumentError
from moye.runtime import fast_launch
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, describe, span_bytes
from moye.runtime.compile import Dim3, Specialised

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Place(NamedTuple):
    """Where a pointer points: so many bytes behind an array, of the arguments or, if ``own``, of the scratch arrays."""

    own: bool
    which: int
    offset: int


@dataclass(slots=True)
class Step:
    """One launch: ``places`` has one place for each array of ``call``, which itself keeps none alive."""

    spec: Specialised
    call: Call
    device: int | None
    grid: Dim3
    smem: int
    dependent: bool
    places: tuple[Place, ...]


@dataclass(slots=True)
class Scratch:
    """A scratch array: ``make(like, *options)`` makes it, and ``like`` is the number of an argument.

    Of a ``raw`` one only the memory counts; a ``restored`` one is after the call as it was before.
    """

    make: Callable[..., Any]
    like: int
    options: tuple[Any, ...]
    info: ArrayInfo
    raw: bool
    restored: bool


@dataclass(slots=True)
class Recording:
    """What one call did; ``why`` says what of it cannot be repeated."""

    arrays: tuple[ArrayInfo, ...]
    dry: bool = False
    steps: list[Step] = field(default_factory=list)
    scratch: list[Scratch] = field(default_factory=list)
    why: str = ""
    _kept: list[Any] = field(default_factory=list)

    def launch(self, spec: Specialised, call: Call, device: int | None, grid: Dim3, stream: Any, smem: int,
               dependent: bool) -> bool:
        """Note a launch that is about to be made; whether to make it."""
        self._kept.append(call)                         # so that no pointer of the recording is used again meanwhile
        places = tuple(self._place(info) for _, info, _ in call.arrays)
        if stream is not None:
            self.why = self.why or f"{spec.func.name} is launched on a stream of its own"
        elif None in places:
            self.why = self.why or f"{spec.func.name} takes an array that is none of the arguments"
        else:
            empty = Call(call.specs, [(name, info, None) for name, info, _ in call.arrays], call.leaves,
                         call.index_bits)
            self.steps.append(Step(spec, empty, device, grid, smem, dependent,
                                   tuple(place for place in places if place is not None)))
        return not self.dry

    def _place(self, info: ArrayInfo) -> Place | None:
        """Where an array lies; the first argument counts if several do, as their distances are part of the key."""
        for own, arrays in ((False, self.arrays), (True, tuple(scratch.info for scratch in self.scratch))):
            for index, known in enumerate(arrays):
                first, end = span_bytes(known)
                if first <= info.ptr < end and known.device == info.device:
                    return Place(own, index, info.ptr - known.ptr)
        return None

    def uses_all(self) -> bool:
        """Whether kernels took every array, or one that shares memory with it: else the host may have read it.

        One element, of which a number is read most often, they have to take itself.
        """
        spans = [span_bytes(info) for info in self.arrays]
        taken = {place.which for step in self.steps for place in step.places if not place.own}
        used = [spans[which] for which in taken]
        return all(which in taken or (math.prod(info.shape) != 1 and any(first < to and begin < end
                                                                         for begin, to in used))
                   for which, (info, (first, end)) in enumerate(zip(self.arrays, spans, strict=True)))

    def make(self, function: Callable[..., Any], like: Any, options: tuple[Any, ...], *, raw: bool,
             restored: bool) -> Any:
        """Make a scratch array, and note it."""
        made = function(like, *options)
        info, about = describe(made), describe(like)
        self._kept.append(made)
        place = None if about is None else self._place(about)
        if info is None or place is None or place.own or any(isinstance(x, (list, dict, set)) for x in options):
            self.why = self.why or f"{function.__name__} makes an array like none of the arguments"
        elif 0 not in info.shape:
            self.scratch.append(Scratch(function, place.which, options, info, raw, restored))
        return made


_current: contextvars.ContextVar[Recording | None] = contextvars.ContextVar("recording", default=None)
_making: contextvars.ContextVar[bool] = contextvars.ContextVar("making", default=False)


_passing: contextvars.ContextVar[bool] = contextvars.ContextVar("passing", default=False)


@contextmanager
def first_of_its_kind() -> Iterator[None]:
    """In the block launches are of a call that is made as it is for once, and is recorded if it is made again."""
    token = _passing.set(True)
    try:
        yield
    finally:
        _passing.reset(token)


def first() -> bool:
    """Whether this thread is in such a block."""
    return _passing.get()


def recording() -> Recording | None:
    """The recording that this thread or task is in."""
    return _current.get() if fast_launch.held else None


@contextmanager
def recorded(arrays: Sequence[ArrayInfo], *, dry: bool = False) -> Iterator[Recording]:
    """Record the launches of the block; ``dry`` ones are not made."""
    here = Recording(tuple(arrays), dry)
    token = _current.set(here)
    fast_launch.held.append(here)
    try:
        yield here
    finally:
        fast_launch.held.remove(here)
        _current.reset(token)
        here._kept.clear()


def cannot_repeat(why: str) -> None:
    """Say that the call of this thread that is being recorded, if one is, does what no repetition would do."""
    if (here := recording()) is not None:
        here.why = here.why or why


def scratch(function: Callable[_P, _R], *, raw: bool = False, restored: bool = False) -> Callable[_P, _R]:
    """A decorator of functions that make scratch arrays, ``make(like, *options)``, for ``mo.replayed`` functions.

    A repeated call makes the array anew, like the argument that ``like`` is or is a view of, with the same options.
    What else the function does, such as filling it with zeros, is done again too.  It is called for nothing if only
    the memory of its arrays counts, ``raw``: then as many bytes of ``like``'s library and device do.  Calls of a thread
    on one stream may have these in common, and ``restored`` arrays, which all kernels leave as they found them.
    """
    @functools.wraps(function)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        here = recording()
        if here is None or _making.get():
            return function(*args, **kwargs)
        if kwargs:
            raise ArgumentError(f"{function.__name__}: options of a scratch array are passed by position")
        token = _making.set(True)
        try:
            made: _R = here.make(function, args[0], tuple(args[1:]), raw=raw, restored=restored)
        finally:
            _making.reset(token)
        return made
    return make
