"""Copies under predicates of single elements: one wide access where all are true and aligned, else element by element.

In: an ``ops.Copy`` whose dimension 0 is a group of neighbours.  Out: two passes, so that the wide accesses of the
usual case stand together without branches between them.

    const bool whole = p[0] && p[1] && p[2] && p[3];
    if (whole) { const float4 v = *(const float4*)&x[4 * i]; ... }
    if (!whole) { if (p[0]) { r[0] = x[4 * i]; } ... }

Groups of a dynamic number are not unrolled: each takes one way or the other in one pass.
"""

from __future__ import annotations

from dataclasses import replace

from moye.cuda.printing import vectors
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.expressions import EQ, SELECT, Text, call, infix
from moye.cuda.printing.tiles import IndexSpace, filling, merged
from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import TileRef

_IN_ONE_LINE = 4
_MOST_GROUPS = 16
"""Groups whose predicates are kept for a second pass."""


def copy(kernel: Kernel, op: ops.Copy) -> None:
    """dst[i] = src[i] where pred[i], ``op.group`` elements at a time where they may be."""
    assert isinstance(op.pred, TileRef), "a group has a predicate for each element"
    space = merged(op.extents[1:], [ref.strides[1:] for ref in (op.dst, op.src, op.pred)])
    for operand in op.operands():
        kernel.values.evaluated(operand)
    kernel.values.before(op)
    kernel.memory.cached = op.atom if op.atom.hint or op.atom.prefetch else None
    _printed(kernel, op, space)
    kernel.memory.cached = None


def _printed(kernel: Kernel, op: ops.Copy, space: IndexSpace) -> None:
    if space.points is not None and space.points <= _MOST_GROUPS:
        _in_two_passes(kernel, op, space)
        return
    registers = any(ref.buffer.space is Space.REGISTER for ref in (op.dst, op.src))
    with kernel.nest(space.loops(kernel), unroll=registers):
        whole = kernel.names.fresh("whole")
        _decide(kernel, op, space, f"bool {whole}", whole)
        kernel.writer.open(f"if ({whole}) {{")
        _wide(kernel, op, space)
        kernel.writer.close()
        kernel.writer.open(f"if (!{whole}) {{")
        _single(kernel, op, space)
        kernel.writer.close()


def _in_two_passes(kernel: Kernel, op: ops.Copy, space: IndexSpace) -> None:
    name, points = kernel.names.fresh("whole"), space.points or 1
    whole = name if points == 1 else f"{name}[{_number(kernel, space)}]"
    if points > 1:
        kernel.writer.line(f"bool {name}[{points}];")
    with kernel.nest(space.loops(kernel)):
        _decide(kernel, op, space, f"bool {whole}" if points == 1 else whole, whole)
        kernel.writer.open(f"if ({whole}) {{")
        _wide(kernel, op, space)
        kernel.writer.close()
    with kernel.nest(space.loops(kernel)):
        kernel.writer.open(f"if (!{whole}) {{")
        _single(kernel, op, space)
        kernel.writer.close()


def _number(kernel: Kernel, space: IndexSpace) -> str:
    """The number of a group in its space, dimension 0 fastest."""
    terms, below = [], 1
    for d, extent in enumerate(space.extents):
        terms.append(f"{below} * {kernel.indices[d]}" if below > 1 else kernel.indices[d])
        below *= extent if isinstance(extent, int) else 1
    return " + ".join(terms)


def _decide(kernel: Kernel, op: ops.Copy, space: IndexSpace, declared: str, whole: str) -> None:
    """Whether a group is one access.

    Its predicates come before the address: in a loop they are often the same each time, and leave it together.
    """
    assert isinstance(op.pred, TileRef), "a group has a predicate for each element"
    tests = [_aligned(kernel, op, i, space) for i, side in enumerate(("dst", "src")) if op.tested in (side, "both")]
    step, memory = op.pred.strides[0], kernel.memory
    if op.group <= _IN_ONE_LINE or step == 0:
        lanes = range(op.group if step else 1)
        inside = [memory.element(op.pred, memory.offset(op.pred, space.steps(kernel, 2), int(step) * lane)).text
                  for lane in lanes if isinstance(step, int)]
        kernel.writer.line(f"{declared} = {' && '.join(inside + tests)};")
        return
    kernel.writer.line(f"{declared} = true;")
    lane = kernel.k_index
    with kernel.nest([(op.group, lane)]):
        at = memory.offset(op.pred, [(Text(lane), step), *space.steps(kernel, 2)])
        kernel.writer.line(f"{whole} &= {memory.element(op.pred, at).text};")
    for test in tests:
        kernel.writer.line(f"{whole} &= {test};")


def _aligned(kernel: Kernel, op: ops.Copy, side: int, space: IndexSpace) -> str:
    """Whether the address of a group's first element is a multiple of its bytes."""
    ref, memory = (op.dst, op.src)[side], kernel.memory
    at = memory.offset(ref, space.steps(kernel, side))
    bytes_ = op.group * ref.dtype.bytes
    if ref.buffer.space is Space.GLOBAL:
        function = kernel.helpers.function(f"aligned_{bytes_}", "bool (const void* p)",
                                           f"return ((unsigned long long)p & {bytes_ - 1}) == 0;")
        return call(function, memory.address(ref, at)).text
    address = memory.shared_address(ref, at) if ref.buffer.space is Space.SHARED else memory.peer_address(ref, at)
    return infix("==", infix("%", address, Text(str(bytes_))), Text("0")).at(EQ)


def _wide(kernel: Kernel, op: ops.Copy, space: IndexSpace) -> None:
    """One access for the whole group, or as many as the widest that C++ has types for takes."""
    ends = []
    for side, ref in enumerate((op.dst, op.src)):
        step = ref.strides[0]
        whole = replace(ref, lane=step if isinstance(step, int) else 1)
        word = kernel.memory.word(ref, space.steps(kernel, side), 0, op.group) if step == 1 else None
        ends.append(vectors.End(whole, kernel.memory.offset(ref, space.steps(kernel, side)), word))
    vectors.move(kernel, ends[0], ends[1], op.group)


def _single(kernel: Kernel, op: ops.Copy, space: IndexSpace) -> None:
    """The elements of a group one by one, each under its own predicate."""
    assert isinstance(op.pred, TileRef), "a group has a predicate for each element"
    memory, lane = kernel.memory, Text(kernel.k_index)
    with kernel.nest([(op.group, kernel.k_index)]):
        dst, src, at = (memory.offset(ref, [(lane, ref.strides[0]), *space.steps(kernel, i)])
                        for i, ref in enumerate((op.dst, op.src, op.pred)))
        guard, value = memory.element(op.pred, at), memory.element(op.src, src)
        if op.zero_fill:
            value = Text(f"{guard.at(SELECT + 1)} ? {value.text} : {filling(kernel, op).at(SELECT)}", SELECT)
            kernel.writer.line(memory.set(op.dst, dst, value))
            return
        kernel.writer.open(f"if ({guard.text}) {{")
        kernel.writer.line(memory.set(op.dst, dst, value))
        kernel.writer.close()
