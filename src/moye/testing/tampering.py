"""Has a source changed what judges it?  ``Snapshot`` of moye's, NumPy's and Python's functions, and who is running.

In: a process before it runs the source.  Out: a sentence, or None.

    untouched = Snapshot(); ...; untouched.changed()        # 'moye.runtime.simulate.run was replaced'

It sees functions, classes, methods and entries of tables that were replaced, and threads and processes that are left.
What Python calls back (signal handlers, importers, handlers of NumPy's errors) is set back by ``restore``.
It is no sandbox: what a program does to its own interpreter through ctypes, say, is not seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import linecache
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_OWN = ("moye", "numpy")
_OTHERS = ("builtins", "json", "json.encoder", "json.decoder", "socket", "struct", "os", "importlib.util", "inspect",
           "ctypes", "linecache", "contextlib", "dataclasses", "warnings", "codecs", "signal")
_CODE = (types.FunctionType, type)
Named = dict[str, object]


class Snapshot:
    """What modules and classes hold now."""

    def __init__(self) -> None:
        self.modules: dict[str, Named] = {name: _held(module) for name, module in sorted(sys.modules.items())
                                          if name.partition(".")[0] in _OWN or name in _OTHERS}
        self.codes = {id(f): (f, f.__code__, f.__defaults__)
                      for held in self.modules.values() for f in _functions(held)}
        self.tables = [(f"{name}.{attribute}", table, {key: f for key, f in table.items() if callable(f)})
                       for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "moye"
                       for attribute, table in vars(module).items() if isinstance(table, dict)
                       and not attribute.startswith("__")]
        self.callbacks = len(gc.callbacks)
        self.importers = list(sys.meta_path), list(sys.path_hooks)
        self.errors = np.geterr()

    def restore(self) -> None:
        """What Python would call while the judge works is as it was: the source's own functions would see the data."""
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        sys.meta_path[:], sys.path_hooks[:] = self.importers
        sys.path_importer_cache.clear()
        sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
        np.seterrcall(None)
        np.seterr(**self.errors)
        for name in [name for name, entry in linecache.cache.items() if len(entry) == 1]:
            del linecache.cache[name]                   # a function that is asked for the lines

    def changed(self) -> str | None:
        """What is not as it was, in a sentence."""
        for name, before in self.modules.items():
            module = sys.modules.get(name)
            if module is None:
                return f"{name} was removed"
            now = _held(module)
            for attribute, value in before.items():
                if now.get(attribute) is not value:
                    return f"{name}.{attribute} was replaced"
        for function, code, defaults in self.codes.values():
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return f"the code of {function.__module__}.{function.__qualname__} was replaced"
        for name, table, held in self.tables:
            if any(table.get(key) is not f for key, f in held.items()):
                return f"{name} was changed"
        return _running(self.callbacks)


def _running(callbacks: int) -> str | None:
    """Who else runs here, or may later."""
    if threading.active_count() > 1:
        return "a thread is left running"
    if len(gc.callbacks) != callbacks:
        return "a callback of the garbage collector was set"
    if _children():
        return "a process is left running"
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any(monitoring.get_tool(number) for number in range(6)):
        return "a tool of sys.monitoring was set"
    return None


def _held(module: types.ModuleType) -> Named:
    """The functions and classes of a module by name, and what its own classes hold."""
    found: Named = {}
    for name, value in list(vars(module).items()):
        if callable(value):
            found[name] = value
        if isinstance(value, type) and value.__module__ == module.__name__:
            found.update({f"{name}.{inner}": held for inner, held in list(vars(value).items())
                          if isinstance(held, (*_CODE, property, staticmethod, classmethod))})
    return found


def _functions(held: Named) -> Iterator[types.FunctionType]:
    for value in held.values():
        if isinstance(value, property):
            value = value.fget
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.FunctionType):
            yield value


_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of <sys/prctl.h>."""


def adopt() -> None:
    """Processes whose parents end become children of this one, instead of being lost to sight."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End what is left of processes that were adopted."""
    for _ in range(1000):                               # each may have children, which are adopted then
        try:
            numbers = _numbers()
        except OSError:
            return
        for number in numbers:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(number, 0)
        if not numbers:
            return


def _numbers() -> list[int]:
    """The children of this process, as Linux tells."""
    return [int(number) for number in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _children() -> bool:
    """Whether this process has children."""
    try:
        return bool(_numbers())
    except OSError:
        return False
