"""Folds and searches over the registers of a thread: Reduce and Find, as unrolled loops over one index.

In: one op with its index space.  Out: lines that declare the result and compute it.

    reduce_(kernel, op)     # float top = x[0], top_1 = x[1]; for (...) { top = fmaxf(top, x[i]); ... }

The order of a fold is that of the op: C++ keeps the order of float sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import ADD, Text, assignment, combine
from moye.cuda.printing.tiles import IndexSpace, flat_steps, merged
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef


@prints(ops.Reduce)
def reduce_(kernel: Kernel, op: ops.Reduce) -> None:
    """The chains of a fold side by side, then folded in pairs."""
    name = kernel.values.result(op.result)
    if name is None:
        return
    space = merged(op.extents, [op.src.strides])
    names = [name, *(kernel.names.fresh(name) for _ in range(1, op.chains))]
    first = ", ".join(f"{each} = {_element(kernel, op.src, space, c).text}" for c, each in enumerate(names))
    kernel.writer.line(f"{kernel.helpers.ctype(op.src.dtype)} {first};")
    points = space.points or 1
    whole = points - points % op.chains
    if whole > op.chains:
        _loop(kernel, op, space, names, whole)
    for point in range(whole, points):
        _fold(kernel, op, names[point % op.chains], _element(kernel, op.src, space, point))
    texts = [Text(each) for each in names]
    while len(texts) > 1:
        texts = [combine(op.kind, op.src.dtype, a, b, kernel.helpers)
                 for a, b in zip(texts[::2], texts[1::2], strict=True)]
    if op.chains > 1:
        kernel.writer.line(assignment(name, texts[0]))


def _loop(kernel: Kernel, op: ops.Reduce, space: IndexSpace, names: list[str], stop: int) -> None:
    index, step = kernel.indices[0], len(names)
    kernel.writer.line("#pragma unroll")
    further = f"++{index}" if step == 1 else f"{index} += {step}"
    kernel.writer.open(f"for (int {index} = {step}; {index} < {stop}; {further}) {{")
    for c, name in enumerate(names):
        _fold(kernel, op, name, _element(kernel, op.src, space, c, index))
    kernel.writer.close()


def _fold(kernel: Kernel, op: ops.Reduce, name: str, element: Text) -> None:
    kernel.writer.line(assignment(name, combine(op.kind, op.src.dtype, Text(name), element, kernel.helpers)))


@prints(ops.Find)
def find(kernel: Kernel, op: ops.Find) -> None:
    """From the last point to the first, so that the first one that is equal stays."""
    name = kernel.values.result(op.result)
    if name is None:
        return
    wanted = kernel.values.evaluated(op.value)
    space = merged(op.extents, [op.src.strides])
    points = space.points or 1
    kernel.writer.line(f"int {name} = 0;")
    if points == 1:
        return
    index = kernel.indices[0]
    kernel.writer.line("#pragma unroll")
    kernel.writer.open(f"for (int {index} = {points - 1}; {index} >= 0; --{index}) {{")
    element = _element(kernel, op.src, space, 0, index)
    equal = combine("eq", op.src.dtype, element, wanted, kernel.helpers)
    kernel.writer.line(f"if ({equal.text}) {name} = {index};")
    kernel.writer.close()


def _element(kernel: Kernel, ref: TileRef, space: IndexSpace, point: int, index: str = "") -> Text:
    """The element at a point, or ``point`` behind an index."""
    memory = kernel.memory
    extents = [extent for extent in space.extents if isinstance(extent, int)]
    if not index:
        return memory.element(ref, memory.offset(ref, extra=_offset(point, extents, space.strides[0])))
    if len(extents) == 1:
        return memory.element(ref, memory.offset(ref, [(Text(index), space.strides[0][0])],
                                                 _offset(point, extents, space.strides[0])))
    here = Text(index) if not point else Text(f"{index} + {point}", ADD)
    return memory.element(ref, memory.offset(ref, flat_steps(here, extents, space.strides[0])))


def _offset(point: int, extents: Sequence[int], strides: Sequence[Extent]) -> int:
    """The offset of a point, dimension 0 fastest; strides of registers are static."""
    found = 0
    for extent, stride in zip(extents, strides, strict=True):
        found += point % extent * (stride if isinstance(stride, int) else 0)
        point //= extent
    return found

