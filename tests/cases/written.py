"""Device functions of one expression, from its text: for tables of expressions, which as lambdas would be plain Python.

>>> written("x + 1", "x")(2)
3
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Mapping
from typing import Any

import moye as mo

_count = itertools.count()


def written(expression: str, parameters: str, names: Mapping[str, Any] | None = None, *, jit: bool = True) -> Any:
    """``def body(parameters): return expression`` with these global names, as a device function unless it is plain."""
    body = block(f"return {expression}", parameters, names)
    return mo.jit(body) if jit else body


def block(statements: str, parameters: str, names: Mapping[str, Any] | None = None) -> Any:
    """``def body(parameters): statements``, a plain function."""
    file = f"<written {next(_count)}>"
    text = f"def body({parameters}):\n" + "".join(f"    {line}\n" for line in statements.splitlines())
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"mo": mo, "__name__": __name__, **(names or {})}
    exec(compile(text, file, "exec"), namespace)
    return namespace["body"]
