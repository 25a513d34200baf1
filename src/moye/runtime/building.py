"""What ``moye build`` is asked for: a module, and what of it becomes C.

In: ``module:name``, arguments in a short notation.  Out: ``Export``s.

    exports_of("kernels.py:saxpy", ["float32[1024]", "float32[1024]", "2.0"], block="256", arch=["sm_90a"])

A name stands for an ``mo.Export``, for several in a tuple or list, or for a kernel, for which the arguments are the
specialisation.  Without a name it is every ``mo.Export`` of the module.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from moye import dtypes
from moye.errors import ArgumentError, MoyeError
from moye.runtime.arrays import TensorLike
from moye.runtime.exporting import Export, Specialisation
from moye.runtime.kernel import Kernel

_ARRAY = re.compile(r"(\w+)\[([\d,\s]*)(?::([\d,\s]*))?\](?:@(\d+))?")


def exports_of(target: str, arguments: Sequence[str] = (), *, block: str = "", cluster: str = "", name: str = "",
               arch: Sequence[str] = ()) -> list[Export]:
    """What a command line asks for; ArgumentError if it does not say enough."""
    place, _, attribute = target.replace("::", ":").partition(":")
    found = _resolved(loaded(place), place, attribute)
    if isinstance(found, Kernel):
        return [_of_kernel(found, arguments, block, cluster, name, arch)]
    exports = [found] if isinstance(found, Export) else list(found)
    if arguments or block or cluster or (name and len(exports) != 1):
        raise ArgumentError(f"{target} is exported as it says itself: arguments, --block, --cluster and --name are for "
                            "a kernel")
    if name:
        exports = [replace(exports[0], name=name)]
    return [replace(each, arch=tuple(arch)) for each in exports] if arch else exports


def listed(place: str) -> Iterator[str]:
    """One line for each kernel and each export of a module."""
    module = loaded(place.partition(":")[0])
    for name, value in vars(module).items():
        for each in _exports(value):
            grid = "the caller's grid" if each.grid is None else "its own grid"
            count = len(each.specialisations)
            yield f"{name}: {each.function}, {count} specialisation{'' if count == 1 else 's'}, {grid}"
        if isinstance(value, Kernel) and value.function.__module__ == module.__name__:
            parameters = str(value.signature.signature).replace("moye.lang.signature.", "mo.")
            yield f"{name}: kernel {value.__name__}{parameters}"


def loaded(place: str) -> ModuleType:
    """A module by its dotted name or its file; MoyeError if there is none, or if it cannot be imported."""
    path = Path(place)
    if path.suffix != ".py":
        if not all(part.isidentifier() for part in place.split(".")):
            raise MoyeError(f"{place!r} is no name of a module")
        with _here():
            try:
                return importlib.import_module(place)
            except ModuleNotFoundError as error:
                if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
                    raise MoyeError(f"there is no module {place!r}", hint="a file is named as kernels.py") from None
                raise
    if not path.is_file():
        raise MoyeError(f"there is no file {place}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    with _here(path.resolve().parent):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _here(folder: Path | None = None) -> Iterator[None]:
    """Modules beside the file, or of the working folder, are found."""
    sys.path.insert(0, str(folder or Path.cwd()))
    try:
        yield
    finally:
        sys.path.pop(0)


def _resolved(module: ModuleType, place: str, attribute: str) -> Any:
    if not attribute:
        found = [each for value in vars(module).values() for each in _exports(value)]
        if not found:
            raise ArgumentError(f"{place} has no mo.Export", hint=f"{place}:NAME names a kernel of it")
        return [each for i, each in enumerate(found) if not any(each is other for other in found[:i])]
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise ArgumentError(f"{place} has no {attribute!r}", hint=f"moye build --list {place} shows what it has")
        value = getattr(value, part)
    if isinstance(value, Kernel) or list(_exports(value)):
        return value
    raise ArgumentError(f"{place}:{attribute} is a {type(value).__name__}, and moye build takes kernels and mo.Export")


def _exports(value: object) -> Iterator[Export]:
    if isinstance(value, Export):
        yield value
    elif isinstance(value, (tuple, list)) and value and all(isinstance(each, Export) for each in value):
        yield from value


# --- the arguments of a kernel ---------------------------------------------------------------------------------------


def _of_kernel(kernel: Kernel, arguments: Sequence[str], block: str, cluster: str, name: str,
               arch: Sequence[str]) -> Export:
    if not block:
        raise ArgumentError(f"the kernel {kernel.__name__} needs --block, its threads",
                            hint="--block 256, or --block 32,8")
    positional, named = [], {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if equals and key.isidentifier():
            named[key] = argument(value)
        else:
            positional.append(argument(text))
    one = Specialisation(*positional, block=_extents(block, "--block"),
                         cluster=_extents(cluster or "1", "--cluster"), **named)
    return Export(kernel, [one], name or None, None, tuple(arch) or None)


def argument(text: str) -> Any:
    """An argument as it is written on a command line.

    ``float32[1024,512:512,1]@16`` is an array by dtype, extents, strides in elements (column-major if they are left
    out) and alignment in bytes; anything else is a Python literal: 2.0, 128, True, (2, 4), 'text'.
    """
    match = _ARRAY.fullmatch(text.strip())
    if match is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise ArgumentError(f"{text!r} is neither an array such as float32[1024,512] nor a Python literal",
                                hint="float32[1024,512:512,1]@16 has strides and alignment, too") from None
    dtype, shape, strides, align = match.groups()
    extents = _extents(shape, text) if shape.strip() else ()
    steps = None if strides is None else _extents(strides, text)
    if steps is not None and len(steps) != len(extents):
        raise ArgumentError(f"{text} has {len(extents)} extents and {len(steps)} strides")
    return TensorLike(dtypes.from_name(dtype), extents, steps, int(align or 16))


def _extents(text: str, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"{what}: {text!r} is no list of integers, such as 32,8") from None
