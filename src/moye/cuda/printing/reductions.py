"""Folds and searches over the registers of a thread: Reduce and Find, as unrolled loops over one index.

In: one op with its index space.  Out: lines that declare the result and compute it.

    reduce_(kernel, op)     # float top = x[0], top_1 = x[1]; for (...) { top = fmaxf(top, x[i]); ... }

The order of a fold is that of the op: C++ keeps the order of float sums.  Two chains of 16-bit floats are the halves of
one word, and one packed instruction folds both.
"""

from __future__ import annotations

from collections.abc import Sequence

from moye.cuda.printing import pairs, vectors
from moye.cuda.printing.context import UNROLLED, Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import ADD, MUL, Text, assignment, call, combine, infix
from moye.cuda.printing.tiles import IndexSpace, flat_steps, merged
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef
from moye.passes.halves import folds_in_pairs


@prints(ops.Reduce)
def reduce_(kernel: Kernel, op: ops.Reduce) -> None:
    """The chains of a fold side by side, then folded in pairs."""
    name = kernel.values.result(op.result)
    if name is None:
        return
    space = merged(op.extents, [op.src.strides])
    if folds_in_pairs(op):
        _in_pairs(kernel, op, space, name)
        return
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
    if stop <= UNROLLED:
        kernel.writer.line("#pragma unroll")
    further = f"++{index}" if step == 1 else f"{index} += {step}"
    kernel.writer.open(f"for (int {index} = {step}; {index} < {stop}; {further}) {{")
    for c, name in enumerate(names):
        _fold(kernel, op, name, _element(kernel, op.src, space, c, Text(index)))
    kernel.writer.close()


def _fold(kernel: Kernel, op: ops.Reduce, name: str, element: Text) -> None:
    kernel.writer.line(assignment(name, combine(op.kind, op.src.dtype, Text(name), element, kernel.helpers)))


# --- two chains in a word --------------------------------------------------------------------------------------------


def _in_pairs(kernel: Kernel, op: ops.Reduce, space: IndexSpace, name: str) -> None:
    """Chains 0 and 1 in a word, 2 and 3 in another; at the end the halves are folded with each other."""
    words = [kernel.names.fresh(f"{name}_x2") for _ in range(0, op.chains, 2)]
    fold = pairs.function(kernel.helpers, op.kind, op.src.dtype, fast=False)
    first = ", ".join(f"{word} = {_pair(kernel, op.src, space, 2 * i).text}" for i, word in enumerate(words))
    kernel.writer.line(f"unsigned {first};")
    points = space.points or 1
    turns = points // op.chains
    if turns > 2:
        index = kernel.indices[0]
        if turns <= UNROLLED:
            kernel.writer.line("#pragma unroll")
        kernel.writer.open(f"for (int {index} = 1; {index} < {turns}; ++{index}) {{")
        for i, word in enumerate(words):
            more = _pair(kernel, op.src, space, 2 * i, index, op.chains)
            kernel.writer.line(f"{word} = {call(fold, Text(word), more).text};")
        kernel.writer.close()
    for point in range(op.chains * (turns if turns > 2 else 1), points, 2):
        word = words[point % op.chains // 2]
        more = _pair(kernel, op.src, space, point, last=point + 1 == points)
        folded = call(fold, Text(word), more).text
        if point + 1 == points:                         # the other chain of the word has no more elements
            folded = f"__byte_perm({folded}, {word}, 0x7610)"
        kernel.writer.line(f"{word} = {folded};")
    kernel.writer.line(f"const {kernel.helpers.ctype(op.src.dtype)} {name} = {_folded(kernel, op, fold, words).text};")


def _folded(kernel: Kernel, op: ops.Reduce, fold: str, words: list[str]) -> Text:
    """Chain 0 with 1, 2 with 3, and so on with what they gave: the halves of two words make one."""
    while len(words) > 1:
        made = [kernel.names.fresh(words[0]) for _ in words[::2]]
        for name, a, b in zip(made, words[::2], words[1::2], strict=True):
            sides = (Text(f"__byte_perm({a}, {b}, {halves:#06x})") for halves in (0x5410, 0x7632))
            kernel.writer.line(f"const unsigned {name} = {call(fold, *sides).text};")
        words = made
    whole = call(fold, Text(words[0]), infix(">>", Text(words[0]), Text("16")))
    return vectors.part_of_word(kernel, whole, op.src.dtype, 0)


def _pair(kernel: Kernel, ref: TileRef, space: IndexSpace, point: int, index: str = "", step: int = 1,
          last: bool = False) -> Text:
    """Two elements from ``point`` on, or so many behind ``index`` steps, as a word; the last element stands twice."""
    extents = [extent for extent in space.extents if isinstance(extent, int)]
    strides, memory = space.strides[0], kernel.memory
    if len(extents) == 1 and strides[0] == 1 and not last:
        steps = [(Text(index), step)] if index else []
        if (word := memory.word(ref, steps, point, 2)) is not None:
            return Text(f"{memory.name(ref.buffer)}[{word.text}]")
    here = Text(f"{index} * {step}", MUL) if index else None
    halves = [_element(kernel, ref, space, point + (0 if last else lane), here) for lane in range(2)]
    return vectors.packed(kernel, ref.dtype, halves)


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
    if points <= UNROLLED:
        kernel.writer.line("#pragma unroll")
    kernel.writer.open(f"for (int {index} = {points - 1}; {index} >= 0; --{index}) {{")
    element = _element(kernel, op.src, space, 0, Text(index))
    equal = combine("eq", op.src.dtype, element, wanted, kernel.helpers)
    kernel.writer.line(f"if ({equal.text}) {name} = {index};")
    kernel.writer.close()


def _element(kernel: Kernel, ref: TileRef, space: IndexSpace, point: int, index: Text | None = None) -> Text:
    """The element at a point, or ``point`` behind an index."""
    memory = kernel.memory
    extents = [extent for extent in space.extents if isinstance(extent, int)]
    if index is None:
        return memory.element(ref, memory.offset(ref, extra=_offset(point, extents, space.strides[0])))
    if len(extents) == 1:
        return memory.element(ref, memory.offset(ref, [(index, space.strides[0][0])],
                                                 _offset(point, extents, space.strides[0])))
    here = index if not point else Text(f"{index.text} + {point}", ADD)
    return memory.element(ref, memory.offset(ref, flat_steps(here, extents, space.strides[0])))


def _offset(point: int, extents: Sequence[int], strides: Sequence[Extent]) -> int:
    """The offset of a point, dimension 0 fastest; strides of registers are static."""
    found = 0
    for extent, stride in zip(extents, strides, strict=True):
        found += point % extent * (stride if isinstance(stride, int) else 0)
        point //= extent
    return found

