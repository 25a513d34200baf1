"""``moye/__init__.pyi``: the public names with their types, for editors and checkers: ``python docs/make_stub.py``.

``moye/__init__.py`` loads names on first use, which a type checker cannot follow: to it every name would be there, and
``Any``.  The stub says where each name is; types and docstrings are those of the sources.  One thing it says otherwise:
what is an integer or a nested tuple of them, depending on the argument, would have to be narrowed at every use.  Such a
result is ``int | Any`` or ``Any`` for users, as typeshed has it for results that depend on values.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path

import moye

assert moye.__file__, "a package of files"
STUB = Path(moye.__file__).with_suffix(".pyi")
ANNOTATIONS = {                                         # what a parameter with such an annotation is in the kernel
    "Constexpr": "Any",
    "Static": "Tensor",
}


LOOSE = {"Int": "int | Any", "IntTuple": "Any", "Coord": "Any"}


def loose(function: object) -> str | None:
    """The signature with a result that users need not narrow; None where the result is of one type."""
    told = getattr(function, "__annotations__", {}).get("return")
    if told not in LOOSE or not inspect.isfunction(function):
        return None
    signature = inspect.signature(inspect.unwrap(function))
    parameters = ", ".join(_parameter(p) for p in signature.parameters.values())
    return f"({parameters}) -> {LOOSE[told]}: ..."


def _home(word: str) -> str:
    """The module that defines a class or an alias of types that signatures of the algebra name."""
    layouts = [module for name, module in sorted(sys.modules.items()) if name.startswith("moye.layout.")]
    return next(module.__name__ for module in layouts if word in vars(module).get("__annotations__", {})
                or getattr(vars(module).get(word), "__module__", "") == module.__name__)


def _parameter(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else " = ..."
    return f"{star}{parameter.name}: {parameter.annotation}{default}"


def stub() -> str:
    """The text of the stub."""
    homes: dict[str, list[str]] = defaultdict(list)
    defined: dict[str, str] = {}
    for name, (module, attribute) in moye._HOME.items():
        value = getattr(importlib.import_module(module), attribute)
        if signature := loose(value):
            defined[name] = signature
        elif name not in ANNOTATIONS:
            homes[module].append(f"{attribute} as {name}")
    words = {word for signature in defined.values() for word in re.findall(r"[A-Z]\w+", signature)}
    for word in words - {"Any", "None"}:
        if word not in moye._HOME:
            homes[_home(word)].append(f"{word} as {word}")
    lines = ['"""The public names, typed.  docs/make_stub.py writes this file."""', "",
             "from typing import Any, TypeAlias", "",
             "from moye import " + ", ".join(f"{name} as {name}" for name in moye._MODULES)]
    for module in sorted(homes):
        lines += [f"from {module} import (", *(f"    {entry}," for entry in sorted(homes[module])), ")"]
    lines += ["", *(f"def {name}{signature}" for name, signature in sorted(defined.items())),
              "", *(f"{name}: TypeAlias = {means}" for name, means in ANNOTATIONS.items()), "", "__version__: str", "",
              "__all__ = [", *(f'    "{name}",' for name in moye.__all__), "]", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    STUB.write_text(stub())
