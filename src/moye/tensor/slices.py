"""Coordinates of tensors as users write them: slices and ``...`` become None, and entries are checked.

In: what is between the brackets.  Out: a tuple of one entry per mode (None if it is open), or one integer.

>>> normalise((slice(None), 3, ...), 4)
(None, 3, None, None)

Whether an entry lies inside its extent is asked in bounds.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye.errors import MoyeError, TensorError
from moye.layout import Layout, rank
from moye.tensor import expr
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr
from moye.tensor.known import weak

Step = Callable[[Layout], tuple[Layout, Any]]


def cut(coordinate: object, layout: Layout, label: str) -> tuple[Step | None, object]:
    """Slices with bounds, ``x[2:6, ::2]``: a view of those parts of the modes, and the coordinate with ':' instead.

    Bounds are static, inside a static mode that is not nested, and count from 0; a step is positive.  No step is handed
    back where there are no such slices.

    Law: element j of the view's mode is element ``start + j * step`` of the tensor's.
    """
    modes = rank(layout)
    entries = list(coordinate) if isinstance(coordinate, tuple) else [coordinate]
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) == 1:
        entries[dots[0]:dots[0] + 1] = [slice(None)] * (modes - len(entries) + 1)
    if not any(isinstance(entry, slice) and entry != slice(None) for entry in entries):
        return None, coordinate
    if len(entries) != modes:
        raise TensorError(f"a coordinate of {len(entries)} entries for a tensor of rank {modes}: "
                          f"{label}[{_written(entries)}]", locs=(locate(),))
    parts = {mode: _part(entry, layout, mode, f"{label}[{_written(entries)}]") for mode, entry in enumerate(entries)
             if isinstance(entry, slice) and entry != slice(None)}

    def step(whole: Layout) -> tuple[Layout, Any]:
        offset: Any = 0
        kept = list(whole) if isinstance(whole.shape, tuple) else [whole]
        for mode, part in parts.items():
            along: Any = kept[mode].stride
            offset = offset + along * part.start
            kept[mode] = Layout(len(part), along * part.step)
        if not isinstance(whole.shape, tuple):
            return kept[0], offset
        return Layout(tuple(part.shape for part in kept), tuple(part.stride for part in kept)), offset

    return step, tuple(None if mode in parts else entry for mode, entry in enumerate(entries))


def _written(entries: list[Any]) -> str:
    def one(entry: Any) -> str:
        if not isinstance(entry, slice):
            return str(entry)
        ends = [("" if end is None else str(end)) for end in (entry.start, entry.stop)]
        return ":".join(ends if entry.step is None else [*ends, str(entry.step)])

    return ", ".join(map(one, entries))


def _window(layout: Layout, mode: int) -> str:
    """How a kernel takes what it would slice, had the slice static bounds: all modes begin anew, the others at 0."""
    modes = rank(layout)
    begin = ", ".join("begin" if i == mode else "0" for i in range(modes)) + ("," if modes == 1 else "")
    return f"mo.domain_offset(({begin}), x) is x from there on; mo.tile with ragged=True takes static extents of that"


def _part(entry: slice, layout: Layout, mode: int, asked: str) -> range:
    """The indices that a slice picks of a mode."""
    whole = layout.mode(mode) if isinstance(layout.shape, tuple) else layout
    have = whole.shape
    bounds = [weak(bound) for bound in (entry.start, entry.stop, entry.step)]
    if not all(bound is None or (hasattr(bound, "__index__") and not isinstance(bound, Expr)) for bound in bounds):
        raise TensorError(f"{asked}: the bounds of a slice are static integers", locs=(locate(),),
                          hint=_window(layout, mode))
    if not isinstance(have, int):
        what = "nested" if isinstance(have, tuple) else "dynamic"
        raise TensorError(f"{asked}: mode {mode} of {layout} is {what}, and only a static mode that is not nested is "
                          "sliced in parts", locs=(locate(),),
                          hint="mo.tile takes a part of it; a parameter annotated with mo.Static has static modes")
    start, stop, step = (default if bound is None else int(bound)
                         for bound, default in zip(bounds, (0, have, 1), strict=True))
    if not 0 <= start < stop <= have or step < 1:
        raise TensorError(f"{asked}: the slice {_written([entry])} is no part of mode {mode} of extent {have}",
                          hint="bounds count from 0, never from the end; a step is positive, and a part is not empty",
                          locs=(locate(),))
    return range(start, stop, step)


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
        hint = "take one of the three, such as mo.thread_idx().x" if hasattr(coordinate, "_fields") else None
        raise TensorError(f"a coordinate of {len(coordinate)} entries for a tensor of rank {modes}: "
                          f"[{shown(coordinate)}]", locs=(locate(),), hint=hint)
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
            named = "" if str(c) == "?" else f" {c}"
            raise TensorError(f"the index{named} is a {c.dtype}, not an integer", locs=(locate(),),
                              hint="// divides integers; int(...) converts")
        return expr.position(c)
    if c is None or isinstance(c, int):
        return weak(c)
    if hasattr(c, "__index__"):
        try:
            return c.__index__()
        except MoyeError:                               # a variable that has no value
            raise
        except TypeError:                               # an array of a library: only single integers have one
            raise TensorError(f"a {type(c).__name__} is no coordinate", locs=(locate(),)) from None
    hint = "t[i] is one element of a tensor, t[0] where it has no other" if hasattr(c, "layout") else \
        "an index is an integer: int(...) converts" if isinstance(c, float) else \
        "elements are read one by one, in a loop over the indices" if isinstance(c, list) else None
    raise TensorError(f"{c!r} is no coordinate", locs=(locate(),), hint=hint)


def wide(coordinate: object) -> Any:
    """A coordinate in the kernel's index width, so that its product with a stride does not overflow a narrower one."""
    if isinstance(coordinate, tuple):
        return tuple(wide(c) for c in coordinate)
    if not isinstance(coordinate, Expr):
        return coordinate
    if coordinate.dtype.is_float:                       # which a conversion would cut
        raise TensorError(f"the coordinate {coordinate} is a {coordinate.dtype}, not an integer", locs=(locate(),),
                          hint="x.to(mo.int32) converts")
    return coordinate.to(builder().index)


def is_slice(coordinate: object) -> bool:
    """Whether a normalised coordinate leaves a mode open."""
    if isinstance(coordinate, tuple):
        return any(is_slice(c) for c in coordinate)
    return coordinate is None
