"""What public verbs do with arguments that are none: one sentence about the argument, never Python's arithmetic."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import moye.layout as ml
import moye.layout.analysis as analysis
from moye.errors import LayoutError

NUMBERS = {"Int", "int", "IntTuple", "IntTuple | None", "int | None", "tuple[int, ...]"}
FOREIGN = ("text", b"text", bytearray(b"ab"), 1.5, 1j, {4: 1}, {4}, range(4), np.array([4, 8]), np.float32(2), object(),
           ("a", 2), (4, ("b",)), [4, "c"])


def _parameters() -> Iterator[tuple[Any, int, int]]:
    """Functions, and where they take integers or tuples of them, and how many arguments they need."""
    for module in (ml, analysis):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                parameters = list(inspect.signature(function).parameters.values())
                fewest = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
                             for p in parameters)
                yield from ((function, i, max(i + 1, fewest)) for i, p in enumerate(parameters)
                            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and str(p.annotation) in NUMBERS)


@pytest.mark.parametrize(("function", "at", "count"), list(_parameters()), ids=lambda x: getattr(x, "__name__", None))
def test_what_is_no_integer_is_named(function: Any, at: int, count: int) -> None:
    name = list(inspect.signature(function).parameters)[at]
    for value in FOREIGN:
        layout = ml.make_layout((4, 8))
        arguments = [layout if "Layout" in str(p.annotation) or p.annotation in ("L", "R", "S") else 4
                     for p in list(inspect.signature(function).parameters.values())[:count]]
        arguments[at] = value
        with pytest.raises(LayoutError, match=f"^{function.__name__}: {name} must be .*, not .* of type "):
            function(*arguments)


def test_a_tuple_is_no_integer() -> None:
    with pytest.raises(LayoutError, match=r"^compact_col_major: start must be an integer, not \(4, 8\) of type tuple"):
        ml.compact_col_major(4, (4, 8))


def test_lists_are_tuples() -> None:
    assert ml.compact_col_major([4, [1, 2]], 3) == (3, (0, 12))
    assert ml.product([4, [2, 2]]) == 16 and ml.flatten([4, [2]]) == (4, 2)
    assert ml.logical_divide(ml.make_layout((4, 8)), [2, 4]) == ml.logical_divide(ml.make_layout((4, 8)), (2, 4))


def test_too_deep_a_shape() -> None:
    deep: Any = 4
    for _ in range(5000):
        deep = (deep,)
    with pytest.raises(LayoutError, match=r"^flatten: its arguments are nested too deeply$"):
        ml.flatten(deep)


def test_counts_are_bounded() -> None:
    for verb in (ml.append, ml.prepend):
        assert ml.rank(verb(ml.make_layout(4), rank=100)) == 100
        with pytest.raises(LayoutError, match="padded to rank 2147483648: layouts of more than 65536 modes"):
            verb(ml.make_layout(4), rank=2**31)
    assert ml.Swizzle(3, 30, 31)(1) == 1
    with pytest.raises(LayoutError, match="more than the 64 bits of an offset"):
        ml.Swizzle(2**31, 0, 2**40)
