"""A digest of what a function does: its bytecode and that of the functions and kernels it reaches.

In: a function, kernel or device function.  Out: a hexadecimal digest that is the same in another process.

    fingerprint(matmul)      # '5f1d...'

It follows names of modules and closures (also ``module.name``), defaults, what containers, partial and cached functions
hold, and classes of the function's own package.  It stops at the standard library and at moye's own algebra, which
moye's version represents.  Constants count by ``repr``.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from moye.layout import ComposedLayout, Layout

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(function: Any) -> str:
    """The digest."""
    digest = hashlib.sha256(sys.modules["moye"].__version__.encode())
    seen: dict[int, types.FunctionType] = {}            # closures of one code may hold different things
    queue, package = [function], _package(_function(function))
    while queue:
        found = _function(queue.pop())
        if found is None or id(found) in seen:
            continue
        seen[id(found)] = found
        for part in _code(found.__code__):
            digest.update(part)
        digest.update(_text(found.__defaults__) + _text(found.__kwdefaults__))
        queue += [*_held(found.__defaults__, package), *_held(found.__kwdefaults__, package)]
        for name, value in _reads(found):
            queue += _held(value, package)
            if _function(value) is None:
                digest.update(f"{name}=".encode() + _text(value))
    return digest.hexdigest()


def text_of(value: Any) -> str:
    """A value as text that is the same in another process; a function counts by what it does."""
    return fingerprint(value) if _function(value) is not None else _text(value).decode()


def _function(value: Any) -> types.FunctionType | None:
    """The Python function in a function, kernel, device function, tuned or cached one; None for moye's own algebra."""
    inner = value if isinstance(value, types.FunctionType) else getattr(value, "function", None)
    if isinstance(value, functools._lru_cache_wrapper):
        inner = inspect.unwrap(value)
    if not isinstance(inner, types.FunctionType) or _package(inner) in sys.stdlib_module_names:
        return None
    module = inner.__module__ or ""
    return None if module.startswith("moye.") and not module.startswith("moye.kernels") else inner


def _package(function: types.FunctionType | None) -> str:
    return ((function and function.__module__) or "").partition(".")[0]


def _held(value: Any, package: str) -> Iterator[Any]:
    """The functions in a value; for a class, its methods and properties if it belongs to the package."""
    if isinstance(value, functools.partial):
        value = (value.func, value.args, value.keywords)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _held(item, package)
    elif isinstance(value, type):
        if value.__module__.partition(".")[0] == package or value.__module__.startswith("moye.kernels"):
            for member in vars(value).values():
                yield getattr(member, "__func__", getattr(member, "fget", member))
    else:
        yield value


def _code(code: types.CodeType) -> Iterator[bytes]:
    """Bytecode, names and constants, also of nested functions; neither line numbers nor file names."""
    yield code.co_code
    yield " ".join((*code.co_names, *code.co_varnames, *code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield _text(constant)


def _reads(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Names that a function reads, with what they hold."""
    names = sorted({name for code in _nested(function.__code__) for name in code.co_names})
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType):         # sys.modules, say, is another in every process
            if value.__name__.partition(".")[0] not in ("moye", *sys.stdlib_module_names):
                yield from _attributes(name, value, names)
        elif name in function.__globals__:
            yield name, value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _attributes(name: str, module: types.ModuleType, inner: list[str]) -> Iterator[tuple[str, Any]]:
    """What the names may mean in a module; a name that is not an attribute of it may be deprecated there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(f"{name}.{each}", getattr(module, each)) for each in inner if hasattr(module, each)]
    yield from found


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _text(value: Any) -> bytes:
    """A value as text that does not depend on the process."""
    if inspect.ismodule(value) or inspect.isclass(value) or inspect.isbuiltin(value):
        return str(getattr(value, "__qualname__", value.__name__)).encode()
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value))).encode()
    text = str(value) if isinstance(value, (Layout, ComposedLayout)) else repr(value)
    return _ADDRESS.sub("", text).encode()
