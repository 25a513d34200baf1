"""Tile operations as loop nests: Copy, Map (Gemm is in ``gemm.py``, Reduce in ``reductions.py``).

In: one op with its index space.  Out: ``#pragma unroll`` loops around one access, as few loops as the strides allow.

    copy(kernel, op)     # for (int i = 0; i < 4; ++i) { tCrA[i] = sA[tid + 32 * i]; }

Dimension 0 runs innermost.  Loops over register arrays are always unrolled, so that the arrays stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moye.cuda.printing import vectors
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import run
from moye.cuda.printing.expressions import DIV, SELECT, Text, assignment, literal, select
from moye.cuda.printing.narrow_elements import per_word
from moye.dtypes import Space
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef, Value

Steps = Sequence[tuple[Text, Extent]]
_MOST_UNROLLED = 64  # accesses between memories that are unrolled on request


@dataclass(slots=True)
class IndexSpace:
    """An index space with the strides of several operands."""

    extents: list[Extent]
    strides: list[list[Extent]]

    def steps(self, kernel: Kernel, operand: int) -> list[tuple[Text, Extent]]:
        """(loop index, stride) of each dimension that has a loop."""
        return [(Text(kernel.indices[d]), self.strides[operand][d])
                for d, extent in enumerate(self.extents) if extent != 1]

    def loops(self, kernel: Kernel) -> list[tuple[Text | int, str]]:
        """The loops, outermost (last dimension) first."""
        return [(extent if isinstance(extent, int) else kernel.memory.operand_offset(extent), kernel.indices[d])
                for d, extent in reversed(list(enumerate(self.extents)))]

    @property
    def points(self) -> int | None:
        """The number of points that it has; None if an extent is dynamic."""
        count = 1
        for extent in self.extents:
            if not isinstance(extent, int):
                return None
            count *= extent
        return count


def merged(extents: Sequence[Extent], operands: Sequence[Sequence[Extent]]) -> IndexSpace:
    """The index space without dimensions of one, neighbours merged where every operand's strides are a product."""
    kept: list[Extent] = []
    strides: list[list[Extent]] = [[] for _ in operands]
    for d, extent in enumerate(extents):
        if isinstance(extent, int) and extent == 1:
            continue
        inner = kept[-1] if kept else None
        if isinstance(inner, int) and isinstance(extent, int) and all(
                _continues(s[-1], inner, o[d]) for s, o in zip(strides, operands, strict=True)):
            kept[-1] = inner * extent
            continue
        kept.append(extent)
        for s, o in zip(strides, operands, strict=True):
            s.append(o[d])
    if len(kept) > 8:
        raise UnsupportedError(f"an index space of {len(kept)} dimensions; the CUDA printer nests at most 8")
    return IndexSpace(kept, strides)


def _continues(inner: Extent, extent: int, outer: Extent) -> bool:
    return isinstance(inner, int) and isinstance(outer, int) and inner * extent == outer


# --- copy ------------------------------------------------------------------------------------------------------------


def copy(kernel: Kernel, op: ops.Copy) -> None:
    """dst[i] = src[i], as wide as ``op.width`` says."""
    extents, width = op.extents, op.width
    refs = [op.dst, op.src] + ([op.pred] if isinstance(op.pred, TileRef) else [])
    lanes = [op.dst.lane, op.src.lane, 0]
    strides = [list(ref.strides) for ref in refs]
    part = width if op.atom.asynchronous else vectors.access_width(op.dst, op.src, width)
    if part != width:  # the index space counts smaller accesses
        extents = (width // part, *extents)
        strides = [[lane * part, *own] for lane, own in zip(lanes, strides, strict=False)]
    space = merged(extents, strides)
    guard = _settled_pred(kernel, op)
    for operand in op.operands():
        kernel.values.evaluated(operand)
    kernel.values.before(op)
    whole = guard if not op.zero_fill else None
    if whole is not None:
        kernel.writer.open(f"if ({whole.text}) {{")
    registers = any(ref.buffer.space is Space.REGISTER for ref in refs)
    points = space.points
    with kernel.nest(space.loops(kernel), unroll=registers or (points is not None and points <= _MOST_UNROLLED)):
        kernel.memory.cached = op.atom if op.atom.hint or op.atom.prefetch else None
        _access(kernel, op, space, part, guard)
        kernel.memory.cached = None
    if whole is not None:
        kernel.writer.close()


def _settled_pred(kernel: Kernel, op: ops.Copy) -> Text | None:
    """The predicate of the whole copy, evaluated once if it is more than a name."""
    if op.pred is None or isinstance(op.pred, TileRef):
        return None
    text = kernel.values.evaluated(op.pred)
    if op.zero_fill and not text.text.isidentifier():
        name = kernel.names.fresh("p")
        kernel.writer.line(f"const bool {name} = {text.text};")
        return Text(name)
    return text


def _access(kernel: Kernel, op: ops.Copy, space: IndexSpace, width: int, guard: Text | None) -> None:
    memory = kernel.memory
    dst = memory.offset(op.dst, space.steps(kernel, 0))
    src = memory.offset(op.src, space.steps(kernel, 1))
    if isinstance(op.pred, TileRef):
        guard = memory.element(op.pred, memory.offset(op.pred, space.steps(kernel, 2)))
        if not op.zero_fill:
            kernel.writer.open(f"if ({guard.text}) {{")
    zeros = guard if op.zero_fill else None
    if op.atom.asynchronous == "cp.async":
        _cp_async(kernel, op, dst, src, zeros)
    elif op.atom.asynchronous or op.atom.ptx:
        raise UnsupportedError(f"the CUDA printer does not know the copy {op.atom}")
    elif width > 1:
        to, of = (vectors.End(ref, at, memory.word(ref, space.steps(kernel, i), 0, width) if ref.lane == 1 else None)
                  for i, (ref, at) in enumerate(((op.dst, dst), (op.src, src))))
        vectors.move(kernel, to, of, width, zeros, None if op.other is None else kernel.values.operand(op.other))
    else:
        value = memory.element(op.src, src)
        if zeros is not None:
            value = Text(f"{zeros.at(SELECT + 1)} ? {value.text} : {filling(kernel, op).at(SELECT)}", SELECT)
        kernel.writer.line(memory.set(op.dst, dst, value))
    if isinstance(op.pred, TileRef) and not op.zero_fill:
        kernel.writer.close()


def filling(kernel: Kernel, op: ops.Copy) -> Text:
    """What an element becomes where the predicate is false."""
    if op.other is not None:
        return kernel.values.operand(op.other)
    return literal(0, op.src.dtype, kernel.helpers)


def _cp_async(kernel: Kernel, op: ops.Copy, dst: Text, src: Text, zeros: Text | None) -> None:
    bytes_ = op.width * op.dst.dtype.bytes
    if bytes_ != op.atom.bytes:
        raise UnsupportedError(f"{op.atom} copies {op.atom.bytes} bytes, but an access of this copy has {bytes_}")
    name = kernel.helpers.cp_async(op.atom, zeros is not None, bool(kernel.when))
    size = "" if zeros is None else f", {select(zeros, Text(str(bytes_)), Text('0')).text}"
    to, source = kernel.memory.shared_address(op.dst, dst), kernel.memory.address(op.src, src)
    when = f"{kernel.when}, " if kernel.when else ""
    kernel.writer.line(f"{name}({when}{to.text}, {source.text}{size});")


# --- elementwise -----------------------------------------------------------------------------------------------------


def map_(kernel: Kernel, op: ops.Map) -> None:
    """dst[i] = f(sources[i])."""
    space = merged(op.extents, [op.dst.strides, *(source.strides for source in op.sources)])
    values, memory = kernel.values, kernel.memory
    values.before(op)
    if (words := _whole_words(kernel, op, space)) is not None:
        _move_words(kernel, op, words)
        return
    overlap = any(_clashes(op.dst, source) for source in op.sources)
    target = _temporary(kernel, op, space) if overlap else None
    with kernel.nest(space.loops(kernel)):
        inputs(kernel, op, space)
        run(kernel, op.body)
        values.now = kernel.uses.end[id(op)]
        result = values.operand(op.value)
        to = memory.offset(op.dst, space.steps(kernel, 0))
        kernel.writer.line(assignment(target, result) if target else memory.set(op.dst, to, result))
    if target:
        with kernel.nest(space.loops(kernel)):
            to = memory.offset(op.dst, space.steps(kernel, 0))
            kernel.writer.line(memory.set(op.dst, to, Text(target)))


def _whole_words(kernel: Kernel, op: ops.Map, space: IndexSpace) -> IndexSpace | None:
    """The space in words, where an op moves elements from words to words in groups that fill them."""
    if len(op.sources) != 1 or op.value is not op.inputs[0] or op.dst.dtype.bits >= 32 or not space.extents \
            or op.sources[0].buffer is op.dst.buffer:
        return None
    each, refs = per_word(op.dst.dtype), (op.dst, op.sources[0])
    extents = [extent // each if d == 0 and isinstance(extent, int) else extent
               for d, extent in enumerate(space.extents)]
    strides = [[each if d == 0 else stride for d, stride in enumerate(own)] for own in space.strides]
    words = IndexSpace(extents, strides)
    whole = isinstance(space.extents[0], int) and space.extents[0] % each == 0
    side_by_side = all(own[0] == 1 for own in space.strides)
    if not whole or not side_by_side or any(kernel.memory.word(ref, words.steps(kernel, i), 0, each) is None
                                            for i, ref in enumerate(refs)):
        return None
    return words


def _move_words(kernel: Kernel, op: ops.Map, space: IndexSpace) -> None:
    memory = kernel.memory
    with kernel.nest(space.loops(kernel)):
        to, of = (memory.word(ref, space.steps(kernel, i), 0, per_word(ref.dtype))
                  for i, ref in enumerate((op.dst, op.sources[0])))
        if to is not None and of is not None:
            kernel.writer.line(f"{memory.name(op.dst.buffer)}[{to.text}] = "
                               f"{memory.name(op.sources[0].buffer)}[{of.text}];")


def inputs(kernel: Kernel, op: ops.Map, space: IndexSpace, beyond: Sequence[int] = ()) -> None:
    """The elements that the body works on; one that is used more than once is loaded into a const.

    ``beyond``: how many elements of each source lie between the index space's and those.
    """
    values, memory, count = kernel.values, kernel.memory, kernel.uses.count
    elements: dict[str, tuple[Text, TileRef, list[Value]]] = {}
    for i, (value, source) in enumerate(zip(op.inputs, op.sources, strict=True), 1):
        if count.get(value.id):
            kernel.uses.depth[value.id] = kernel.uses.use_depth[value.id]
            extra = beyond[i - 1] if beyond else 0
            element = memory.element(source, memory.offset(source, space.steps(kernel, i), extra))
            elements.setdefault(element.text, (element, source, []))[2].append(value)
    for element, source, shared in elements.values():
        if sum(count[value.id] for value in shared) == 1:
            values.define_value(shared[0], element)
            continue
        name = values.name(shared[0], element.text, f"{source.name or source.buffer.name}_i")
        for value in shared[1:]:
            values.bind(value, name)


def _clashes(dst: TileRef, source: TileRef) -> bool:
    """Whether an element may be written before another point of the index space reads it."""
    same = (dst.offset, dst.strides, dst.dtype) == (source.offset, source.strides, source.dtype)
    return dst.buffer is source.buffer and not same


def _temporary(kernel: Kernel, op: ops.Map, space: IndexSpace) -> str:
    """Declares an array for the whole result; returns its element at the nest's indices."""
    name = kernel.names.fresh(f"{kernel.memory.name(op.dst.buffer)}_new")
    kernel.writer.line(f"{kernel.helpers.ctype(op.dst.dtype)} {name}[{space.points}];")
    place, stride = [], 1
    for d, extent in enumerate(space.extents):
        place.append(f"{stride} * {kernel.indices[d]}" if stride > 1 else kernel.indices[d])
        stride *= extent if isinstance(extent, int) else 1
    return f"{name}[{' + '.join(place) or '0'}]"


def flat_steps(index: Text, extents: Sequence[int], strides: Sequence[Extent]) -> list[tuple[Text, Extent]]:
    """The steps of a space walked by one index, dimension 0 fastest."""
    if len(extents) == 1:
        return [(index, strides[0])]
    found: list[tuple[Text, Extent]] = []
    below = 1
    for d, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        here = index.at(DIV) if below == 1 else f"{index.at(DIV)} / {below}"
        if d < len(extents) - 1:
            here += f" % {extent}"
        found.append((Text(here, DIV), stride))
        below *= extent
    return found
