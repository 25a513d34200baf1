"""What the code being traced can reach: the mutable objects, cells and globals behind the variables of its frames.

In: the frames between the kernel's entry and here.  Out: ``Found``s: an object, how it is read, what to call it.

    [found.path for found in Reached().found]      # ['state', 'state.items', 'counter']

Variables of rewritten functions themselves are not among them: control flow carries those.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from moye.lang.mutable_parts import CELL, CLASS, PLAIN, Globals, Kind, is_users, is_users_class, kinds_of
from moye.tensor.context import is_internal

_CONTROL = "__moye__"
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


@dataclass(slots=True)
class Found:
    """An object and one way to read it."""

    held: Any
    kind: Kind
    path: str


class _Walk:
    """Breadth first, so that an object has its shortest name; innermost frames first."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.references: dict[int, int] = {}
        self.seen: dict[int, object] = {}
        self._todo: deque[tuple[str, Any]] = deque()
        self._names: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._own: list[dict[str, Any]] = []                # variables of rewritten frames that cells hold

    def run(self, frames: list[types.FrameType]) -> list[Found]:
        for frame in frames:
            code, variables = frame.f_code, frame.f_locals
            if _CONTROL in code.co_freevars or _CONTROL in code.co_cellvars:
                self._own.append({name: variables.get(name) for name in code.co_cellvars})
            self._add(sorted(variables.items(), key=lambda item: item[0].startswith("__")))  # the user's names first
            self._globals(code, frame.f_globals)
        while self._todo:
            self._look(*self._todo.popleft())
        for namespace, names in self._names.values():
            self.found.append(Found(namespace, Globals(sorted(names)), ""))
        return self.found

    def _add(self, items: Iterable[tuple[str, Any]], count: int = 1) -> None:
        for path, value in items:
            if type(value) in PLAIN:
                continue
            self.references[id(value)] = self.references.get(id(value), 0) + count
            if id(value) not in self.seen:
                self.seen[id(value)] = value
                self._todo.append((path, value))

    def _look(self, path: str, value: Any) -> None:
        cls = type(value)
        if issubclass(cls, (tuple, set, frozenset)):
            self._add((f"{path}[{i}]", item) for i, item in enumerate(value))
        for kind in kinds_of(cls):
            found = Found(value, kind, path)
            self.found.append(found)
            if kind.carried:
                keys, values = kind.read(value)
                self._add((kind.name(path, key), item) for key, item in zip(keys, values, strict=True))
        if isinstance(value, types.FunctionType):
            self._function(path, value)
        elif isinstance(value, types.MethodType):
            self._add([(path, value.__func__), (path, value.__self__)])
        elif isinstance(value, functools.partial):
            self._add([(path, value.func), (path, value.args), (path, value.keywords)])
        elif isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif cls.__module__ == "moye.lang.trace" and isinstance(getattr(value, "function", None), types.FunctionType):
            self._add([(path, value.function)])             # a device function
        elif is_users_class(cls):
            self._add([(cls.__name__, cls)])

    def _function(self, path: str, function: types.FunctionType) -> None:
        if not _is_users_code(function.__module__):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            keys, values = CELL.read(cell)
            if name == _CONTROL or id(cell) in self.seen or \
                    any(name in own and keys and own[name] is values[0] for own in self._own):
                self._add(((name, value) for value in values), 0)   # counted as a frame's variable, or before
                continue
            self.seen[id(cell)] = cell
            self.found.append(Found(cell, CELL, name))
            self._add((name, value) for value in values)
        self._add([(path, value) for value in (*(function.__defaults__ or ()),
                                               *(function.__kwdefaults__ or {}).values())])
        if function.__dict__:
            self.found.append(Found(function.__dict__, kinds_of(dict)[0], path))
            self._add((f"{path}.{name}", value) for name, value in function.__dict__.items())
        self._globals(function.__code__, function.__globals__)

    def _class(self, path: str, cls: type) -> None:
        if not is_users_class(cls):
            return
        self.found.append(Found(cls, CLASS, path))
        for value in list(vars(cls).values()):
            inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            self._add([(path, inner)] if isinstance(inner, types.FunctionType) else [])
        keys, values = CLASS.read(cls)
        self._add((CLASS.name(path, key), value) for key, value in zip(keys, values, strict=True))
        self._add((base.__name__, base) for base in cls.__bases__)

    def _module(self, module: types.ModuleType) -> None:
        if is_users(module.__name__):
            names = [name for name, value in vars(module).items()
                     if not name.startswith("__") and not isinstance(value, types.ModuleType)]
            self._note(vars(module), names)

    def _globals(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        if not _is_users_code(namespace.get("__name__")):
            return
        loaded, stored = global_names(code)
        self._note(namespace, stored)
        self._add((name, namespace[name]) for name in loaded if name in namespace)

    def _note(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        self._names.setdefault(id(namespace), (namespace, set()))[1].update(names)
        self._add((name, namespace[name]) for name in names if name in namespace)


def _is_users_code(module: str | None) -> bool:
    """Of a function or namespace; code that ``exec`` runs without a name says it is a builtin, and none is Python."""
    return module in (None, "builtins") or is_users(module)


@functools.lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Global names that a function and what is nested in it read, and those that they assign."""
    loaded: dict[str, None] = {}
    stored: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOADS:
            loaded[instruction.argval] = None
        elif instruction.opname in _STORES:
            stored[instruction.argval] = None
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            more = global_names(value)
            loaded.update(dict.fromkeys(more[0]))
            stored.update(dict.fromkeys(more[1]))
    return tuple(loaded), tuple(stored)


def _frames() -> Iterator[types.FrameType]:
    """The user's frames between here and the kernel's entry, innermost first."""
    current: types.FrameType | None = sys._getframe(1)
    while current is not None:
        internal = is_internal(current.f_code.co_filename)
        if internal and current.f_code.co_name == "_trace_entry":
            return
        if not internal:
            yield current
        current = current.f_back


class Reached:
    """Everything mutable that the code being traced can reach by its variables, closures and globals.

    ``references`` counts by ``id`` how often each object is referred to; ``callers`` leaves the innermost function out.
    """

    def __init__(self, *, callers: bool = False) -> None:
        walk = _Walk()
        self.found = walk.run(list(_frames())[1 if callers else 0:])
        self.references = walk.references
        self.things = list(walk.seen.values())
        """Every object that is no plain number or string."""
