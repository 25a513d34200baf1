"""Views of arrays of any library: another mode last, repeated modes, some rows; which arrays may share memory.

In: an array and its role in an error.  Out: a view of the same memory; nothing is copied.

    repeated("softmax", "mask", mask, (4, 100, 8))      # a mask (100, 1) for every row: strides (0, s, 0)

Libraries are found through ``sys.modules``; none is imported here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.plan import RowPlan
from moye.kernels.views import info_of, outputs
from moye.kernels.workspace import indexed


def plan_of(given: Rows, held: int = 1, *, passed: bool = False, ahead: int = 0, several: bool = False) -> RowPlan:
    """The plan of a kernel that keeps nothing between rows: blocks have one turn, with one row at a time, or
    ``several`` where the rule brings short ones together."""
    plan = given.plan(held=held, passed=passed, alone=True, ahead=ahead)
    return plan if several and plan.warps == 1 else replace(plan, at_once=1)


def launched(given: Rows, plan: RowPlan) -> dict[str, Any]:
    """The launch of such a plan: as many blocks as there are rows, or groups of rows; a persistent grid of clusters,
    and of blocks to which rows come ahead.
    """
    alone = plan.cluster == 1 and not plan.stages
    grid = plan.blocks(given.rows, 1, most=-(-given.rows // (plan.rows * plan.at_once))) if alone else given.grid(plan)
    return {"grid": grid, "block": plan.threads, "cluster": plan.cluster}


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an array; ArgumentError for what is none."""
    return tuple(_described(x).shape)


def dtype_of(x: Any) -> Any:
    """What an array holds; ArgumentError for what is none."""
    return _described(x).dtype


def _described(x: Any) -> Any:
    info = mo.describe(x)
    if info is None:
        raise mo.ArgumentError(f"a {type(x).__name__} is no array", hint="pass a torch, CuPy, JAX or NumPy array")
    return info


def viewed(x: Any, shape: tuple[int, ...]) -> Any:
    """The same contiguous memory under another shape."""
    if isinstance(x, mo.TensorLike):
        strides = [1] * len(shape)
        for i in range(len(shape) - 1, 0, -1):
            strides[i - 1] = strides[i] * shape[i]
        return replace(x, shape=shape, strides=tuple(strides))
    return x.reshape(shape)


def some_rows(x: Any, first: int, end: int) -> Any:
    """The view of rows ``first`` to ``end``, the latter left out."""
    if isinstance(x, mo.TensorLike):
        return replace(x, shape=(end - first, *x.shape[1:]), strides=x.info().strides)
    return indexed(x, slice(first, end))


def last(x: Any, axis: int) -> Any:
    """A view whose last mode is this one; None stays None."""
    if x is None or axis in (-1, len(shape_of(x)) - 1):
        return x
    if isinstance(x, mo.TensorLike):
        shape, strides = list(x.shape), list(x.info().strides)
        for modes in (shape, strides):
            modes[axis], modes[-1] = modes[-1], modes[axis]
        return replace(x, shape=tuple(shape), strides=tuple(strides))
    if not hasattr(x, "swapaxes"):
        raise mo.ArgumentError(f"a {type(x).__name__} has no swapaxes", hint="pass a torch, CuPy or NumPy array")
    return x.swapaxes(axis, -1)


def repeated(what: str, name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """An array repeated along modes that it lacks or has once, as NumPy broadcasts it; None stays None."""
    info = None if x is None else info_of(what, name, x)
    if info is None or tuple(info.shape) == tuple(shape):
        return x
    added = len(shape) - len(info.shape)
    if added < 0 or any(n not in (1, m) for n, m in zip(info.shape, shape[added:], strict=True)):
        raise mo.ArgumentError(f"{what}: {name} has shape {tuple(info.shape)}, which is not repeated to {tuple(shape)}")
    if info.kind == "spec":
        steps = [0 if n == 1 else step for n, step in zip(info.shape, info.strides, strict=True)]
        return replace(x, shape=tuple(shape), strides=(*[0] * added, *steps))
    if info.kind == "torch":
        return x.expand(shape)
    if info.kind in ("numpy", "cupy"):
        return sys.modules[info.kind].broadcast_to(x, shape)
    raise mo.ArgumentError(f"{what}: {name} has shape {tuple(info.shape)}, and only torch, CuPy and NumPy arrays are "
                           f"repeated to {tuple(shape)}")


def separate(what: str, target: str, out: Any, name: str, x: Any) -> None:
    """ArgumentError for an output that shares memory with an input, unless each element lies where it is read."""
    outputs(what, {target: mo.describe(out)}, {name: mo.describe(x)}, in_place=(name,))
