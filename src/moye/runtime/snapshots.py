"""What ``mo.inspect`` and ``breakpoint()`` kept of a simulated launch: tensors of any thread, by logical coordinate.

In: the simulator's inspections and the Func that they came from.  Out: ``Snapshot``s.

    shot = mo.inspections()[0]; print(shot.show("tCrA", thread=5, block=(0, 0, 0)))
    # tCrA of thread 5 in block (0, 0, 0), layout (1,4,8):(0,1,4)
    # tCrA(0, 0, 0) = 0.31

One snapshot holds all threads of the blocks that passed the point together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from moye.errors import ArgumentError, Loc
from moye.ir import ops
from moye.ir.nodes import Func, TileRef
from moye.layout import ComposedLayout, Layout, idx2crd, size


class Snapshot:
    """The named tensors and scalars of a set of threads at one point of a kernel."""

    def __init__(self, inspection: Any, op: ops.Inspect) -> None:
        self.label: str = inspection.label
        self.loc: Loc = inspection.loc
        self._inspection = inspection
        self._refs: dict[str, TileRef] = {name: ref for name, ref, _ in op.tensors}

    @property
    def names(self) -> tuple[str, ...]:
        """What was kept: tensors, then scalars."""
        return (*self._inspection.tensors, *self._inspection.scalars)

    @property
    def blocks(self) -> list[tuple[int, int, int]]:
        """The blocks whose threads are in this snapshot."""
        return [(int(x), int(y), int(z)) for x, y, z in self._inspection.blocks]

    def value(self, name: str, thread: int = 0, block: tuple[int, int, int] | int = 0) -> Any:
        """A tensor as a NumPy array with one axis per mode, or a scalar, as one thread of one block sees it."""
        column = self._column(block)
        if name in self._inspection.scalars:
            return _pick(np.asarray(self._inspection.scalars[name]), thread, column)
        if name not in self._inspection.tensors:
            raise ArgumentError(f"the snapshot {self.label!r} holds {', '.join(self.names) or 'nothing'}, not {name!r}")
        values = _pick(np.asarray(self._inspection.tensors[name]), thread, column)
        shape = tuple(math.prod(_leaves(mode)) for mode in _modes(self._layout(name)))
        return values.reshape(-1, order="F").reshape(shape, order="F")

    def show(self, name: str, thread: int = 0, block: tuple[int, int, int] | int = 0) -> str:
        """The tensor's elements with their logical coordinates, one per line."""
        value = self.value(name, thread, block)
        where = self.blocks[self._column(block)]
        if name in self._inspection.scalars:
            return f"{name} of thread {thread} in block {where} = {value}"
        layout = self._layout(name)
        flat = value.reshape(-1, order="F")
        lines = [f"{name} of thread {thread} in block {where}, layout {layout}"]
        lines.extend(f"{name}{_coordinate(idx2crd(layout.shape, i))} = {flat[i]}" for i in range(flat.size))
        return "\n".join(lines)

    def _column(self, block: tuple[int, int, int] | int) -> int:
        if isinstance(block, int):
            return block
        if block not in self.blocks:
            raise ArgumentError(f"block {block} is not in this snapshot: it holds {self.blocks}")
        return self.blocks.index(block)

    def _layout(self, name: str) -> Layout:
        layout = self._refs[name].layout
        inner = layout.layout if isinstance(layout, ComposedLayout) else layout
        if inner is None or not isinstance(size(inner), int):
            values = self._inspection.tensors[name]
            return Layout(int(np.prod(values.shape[:-2])), 1)
        return inner

    def __repr__(self) -> str:
        return f"<Snapshot {self.label!r} at {self.loc}: {', '.join(self.names)}; blocks {self.blocks}>"


def _pick(values: Any, thread: int, column: int) -> Any:
    """One thread's part of values that broadcast to (..., T, B)."""
    if values.ndim < 2:
        return values[()]
    row = thread if values.shape[-2] > 1 else 0
    return values[..., row, column if values.shape[-1] > 1 else 0]


def _modes(layout: Layout) -> Iterator[Any]:
    yield from layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)


def _leaves(shape: Any) -> Iterator[int]:
    if isinstance(shape, tuple):
        for item in shape:
            yield from _leaves(item)
    else:
        yield int(shape)


def _coordinate(crd: Any) -> str:
    return str(crd) if isinstance(crd, tuple) else f"({crd})"


def snapshots(inspections: list[Any], func: Func) -> list[Snapshot]:
    """The inspections of a launch, with the views that they were taken of."""
    points = {(op.label, op.loc): op for op in func.body.walk() if isinstance(op, ops.Inspect)}
    return [Snapshot(i, points[i.label, i.loc]) for i in inspections]
