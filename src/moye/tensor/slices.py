"""Coordinates of tensors as users write them: slices and ``...`` become None, and entries are checked.

In: what is between the brackets.  Out: a tuple of one entry per mode (None if it is open), or one integer.

>>> normalise((slice(None), 3, ...), 4)
(None, 3, None, None)

Whether an entry lies inside its extent is asked in bounds.py.
"""

from __future__ import annotations

from typing import Any

from moye.errors import TensorError
from moye.tensor import expr
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr
from moye.tensor.known import weak


def shown(coordinate: object) -> str:
    """A normalised coordinate as the user writes it."""
    if isinstance(coordinate, tuple):
        return ", ".join(f"({shown(c)})" if isinstance(c, tuple) else shown(c) for c in coordinate)
    return ":" if coordinate is None or isinstance(coordinate, slice) else str(coordinate)


def normalise(coordinate: object, modes: int) -> object:
    """A coordinate with ``...`` and slices replaced by None, as a tuple of one entry per mode (or one integer)."""
    if coordinate is Ellipsis:
        return (None,) * modes
    if not isinstance(coordinate, tuple):
        entry = _entry(coordinate)
        return (None,) * modes if entry is None else entry
    if any(c is Ellipsis for c in coordinate):
        at = next(i for i, c in enumerate(coordinate) if c is Ellipsis)
        missing = modes - (len(coordinate) - 1)
        coordinate = (*coordinate[:at], *(None,) * missing, *coordinate[at + 1:])
    if len(coordinate) != modes:
        raise TensorError(f"a coordinate of {len(coordinate)} entries for a tensor of rank {modes}: "
                          f"[{shown(coordinate)}]", locs=(locate(),))
    return tuple(_entry(c) for c in coordinate)


def _entry(c: object) -> object:
    if isinstance(c, tuple):
        return tuple(_entry(x) for x in c)
    if isinstance(c, slice):
        if (c.start, c.stop, c.step) != (None, None, None):
            raise TensorError("only whole modes are sliced, with ':'; use mo.tile for a part", locs=(locate(),))
        return None
    if isinstance(c, Expr):
        if c.dtype.is_float:
            raise TensorError(f"the index {c} is a {c.dtype}, not an integer", hint="convert it with int(...)",
                              locs=(locate(),))
        return expr.position(c)
    if c is None or isinstance(c, int):
        return weak(c)
    if hasattr(c, "__index__"):
        return c.__index__()
    raise TensorError(f"{c!r} is no coordinate", locs=(locate(),))


def wide(coordinate: object) -> Any:
    """A coordinate in the kernel's index width, so that its product with a stride does not overflow a narrower one."""
    if isinstance(coordinate, tuple):
        return tuple(wide(c) for c in coordinate)
    return coordinate.to(builder().index) if isinstance(coordinate, Expr) else coordinate


def is_slice(coordinate: object) -> bool:
    """Whether a normalised coordinate leaves a mode open."""
    if isinstance(coordinate, tuple):
        return any(is_slice(c) for c in coordinate)
    return coordinate is None
