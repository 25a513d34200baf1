"""What has another answer each time that it is asked, and objects that keep a state nobody can compare.

In: a value that a kernel reads from its surroundings.  Out: whether a kernel would keep its first answer in silence.

    is_fleeting(random.random), is_fleeting(time.time)      # True, True
    has_hidden_state(np.random.default_rng(0))              # True: the kernel reads something that may change

Third-party classes are known by the names of their modules; none is imported.
"""

from __future__ import annotations

import collections
import contextvars
import threading
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_FLEETING = {"time": {*_CLOCKS, *(f"{name}_ns" for name in _CLOCKS)}, "posix": {"urandom"}, "nt": {"urandom"},
             "uuid": {"uuid1", "uuid4"}, "secrets": {"randbelow", "token_bytes", "token_hex"},
             "datetime": {"datetime.now", "datetime.utcnow", "date.today"}}
_GENERATORS = {"random.Random", "torch._C.Generator"}       # and those of numpy.random, which are many
_HIDDEN: tuple[type, ...] = (contextvars.ContextVar, threading.local, type(threading.Lock()), memoryview, weakref.ref,
                             *weakref.ProxyTypes)

_CONTAINERS = (list, dict, set, bytearray, collections.deque)
_ASK = {"get", "pop", "popleft", "popitem", "index", "count", "copy", "keys", "values", "items", "__getitem__",
        "__contains__", "__len__", "setdefault"}              # append and its like are for notes of the trace


def is_fleeting(value: object) -> bool:
    """Whether it is a clock, or draws numbers: a function, or a method of a generator of random numbers."""
    owner = getattr(value, "__self__", None)
    if not isinstance(value, (types.BuiltinFunctionType, types.FunctionType, types.MethodType)):
        return _draws(owner)
    module = getattr(owner, "__module__", None) if isinstance(owner, type) else value.__module__
    return value.__qualname__ in _FLEETING.get(module or "", ()) or _draws(owner)


def has_hidden_state(value: object) -> bool:
    """Whether an object answers by a state that is not among its attributes, or is a method that does."""
    if isinstance(value, types.BuiltinMethodType):
        return isinstance(value.__self__, _CONTAINERS) and value.__name__ in _ASK
    return isinstance(value, _HIDDEN) or _draws(value)


def _draws(value: object) -> bool:
    """Whether it is a generator of random numbers."""
    return any(f"{cls.__module__}.{cls.__qualname__}" in _GENERATORS or cls.__module__.startswith("numpy.random.")
               for cls in type(value).__mro__)


def fleeting_reads(function: types.FunctionType, names: Sequence[str],
                   chains: Sequence[Sequence[str]]) -> Iterator[str]:
    """The global names, and chains of attributes of modules and classes, under which a function reads such a value."""
    for first, *rest in (*((name,) for name in names), *chains):
        value: Any = function.__globals__.get(first)
        shown = first
        for attribute in rest:
            if not isinstance(value, (types.ModuleType, type)):
                break
            value, shown = getattr(value, attribute, None), f"{shown}.{attribute}"
        if is_fleeting(value):
            yield shown
