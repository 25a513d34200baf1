"""The elements of a tensor as text and as HTML, as CuTe prints a tensor.

In: a NumPy array with one axis for each mode.  Out: lines, or a table.

    rows_of(np.eye(2))                                  # ['  1  0', '  0  1']

A vector is one column of numbers.  Tensors of more modes are printed as matrices of their first two.
Source: CuTe cute/tensor_impl.hpp, print_tensor.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

import numpy as np

MOST = 4096
"""Tensors of more elements are told of, and not printed."""

Values = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def rows_of(values: Values) -> list[str]:
    """The lines of a table of the elements, with a ruler between the matrices of a tensor of more than two modes."""
    if values.size > MOST:
        return [f"  ({values.size} elements)"]
    if not values.size:
        return ["  (no elements)"]
    width = max(len(_text(x)) for x in values.flat)
    lines: list[str] = []
    for where, matrix in _matrices(values):
        if where:
            lines.append(f"[..., {where}]")
        lines += ["".join(f"  {_text(x):>{width}}" for x in row) for row in matrix]
    return lines


def table_of(title: str, values: Values) -> str:
    """The same as an HTML table for notebooks."""
    if values.size > MOST or not values.size:
        return f"<pre>{html.escape(title)}\n{rows_of(values)[0]}</pre>"
    parts = [f"<p><code>{html.escape(title)}</code></p>"]
    for where, matrix in _matrices(values):
        caption = f"<caption>[..., {where}]</caption>" if where else ""
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(_text(x))}</td>" for x in row) + "</tr>" for row in matrix)
        parts.append(f"<table>{caption}{rows}</table>")
    return "".join(parts)


def _matrices(values: Values) -> Iterator[tuple[str, Values]]:
    """The matrices of the first two modes, the third mode fastest, with the coordinate of the other modes."""
    if values.ndim < 3:
        yield "", values.reshape(values.shape[0] if values.ndim else 1, -1)
        return
    rest = values.shape[2:]
    for reverse in np.ndindex(*rest[::-1]):
        at = reverse[::-1]
        yield ", ".join(map(str, at)), values[(slice(None), slice(None), *at)]


def _text(x: object) -> str:
    if isinstance(x, np.generic) and isinstance(x.item(), (bool, int)):
        return str(x.item())
    return f"{float(x):.6g}"  # type: ignore[arg-type]
