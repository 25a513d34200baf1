"""Func -> Func whose conversions to and from 8-bit elements stand alone, so that four elements convert at a time.

Contract: a Map that stores ``cast(x)`` into 8-bit elements becomes a Map of x into float32 registers and one of the
cast alone; a Map that reads 8-bit floats and only converts them reads float16 registers, which a Map of its own fills
(float16 holds every 8-bit float exactly).  Values are bit for bit the same.  Maps whose 8-bit elements are no
neighbours in even number stay, and so do conversions from 32-bit integers and float64, which no instruction packs.
What is left without users is for ``dce.py``.  In place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from moye import dtypes as dt
from moye.dtypes import DType, Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Extent, Func, Literal, Operand, TileRef, Value
from moye.layout import make_layout

FLOAT8 = (dt.float8_e4m3fn, dt.float8_e5m2)
_TO = (*FLOAT8, dt.int8, dt.uint8)
_FROM = (dt.float32, dt.tfloat32, dt.float16, dt.bfloat16)


def isolate(func: Func) -> Func:
    """Give the conversions to and from 8-bit elements Maps of their own."""
    _block(func, func.body)
    return func


def packed_conversion(op: ops.Map) -> ops.Cast | None:
    """The conversion of a Map that does nothing else, where the hardware converts several elements at a time."""
    cast = op.value.op if isinstance(op.value, Value) else None
    if not isinstance(cast, ops.Cast) or cast.bits or len(op.sources) != 1 or cast.a is not op.inputs[0]:
        return None
    pair = cast.a.dtype, cast.result.dtype
    narrows = pair[0] is dt.float32 and pair[1] in _TO
    return cast if narrows or (pair[0] in FLOAT8 and pair[1] is dt.float16) else None


def neighbours(ref: TileRef, extents: Sequence[Extent]) -> tuple[int, int] | None:
    """The dimension along which 4 or 2 elements of a register tensor follow each other, and the count; None if there is
    none."""
    if ref.buffer.space is not Space.REGISTER or ref.swizzle is not None:
        return None
    # Four 8-bit elements fill a register; the conversion instructions take two.
    for count in (4, 2):
        for d, (extent, stride) in enumerate(zip(extents, ref.strides, strict=True)):
            if stride == 1 and isinstance(extent, int) and extent % count == 0:
                return d, count
    return None


def _block(func: Func, block: Block) -> None:
    found: list[ops.Op] = []
    for op in block.ops:
        if isinstance(op, ops.Map):
            found += _isolated(func, op)
            continue
        for inner in op.blocks():
            _block(func, inner)
        found.append(op)
    block.ops = found


def _isolated(func: Func, op: ops.Map) -> Iterable[ops.Op]:
    """The Map, with conversions before and after it."""
    if packed_conversion(op) is not None:
        return [op]
    before: list[ops.Op] = []
    for i, source in enumerate(op.sources):
        if source.dtype in FLOAT8 and neighbours(source, op.extents) and _only_converted(op, op.inputs[i]):
            before += _widened(func, op, i)
    after = _narrowed(func, op) if neighbours(op.dst, op.extents) else []
    return [*before, *(after or [op])]


# --- reading 8-bit floats --------------------------------------------------------------------------------------------


def _only_converted(op: ops.Map, value: Value) -> bool:
    """Whether the body uses the value, and in conversions to other floats alone."""
    users = [inner for inner in op.body.ops if any(o is value for o in inner.operands())]
    return bool(users) and op.value is not value and all(
        isinstance(user, ops.Cast) and not user.bits and user.result.dtype.is_float for user in users)


def _widened(func: Func, op: ops.Map, i: int) -> list[ops.Op]:
    """Source ``i`` as float16, and the ops that make it so."""
    source, old = op.sources[i], op.inputs[i]
    alloc, wide = _temporary(func, op, source, dt.float16)
    element, result = Value(source.dtype), Value(dt.float16)
    cast = ops.Cast(result=result, a=element, loc=op.loc)
    conversion = replace(op, dst=wide, sources=(source,), inputs=(element,), body=Block([cast]), value=result)
    # The casts of this input read float16 now, which holds each of its values exactly.
    new = Value(dt.float16)
    for inner in op.body.ops:
        if isinstance(inner, ops.Cast) and inner.a is old:
            inner.a = new
    op.sources = (*op.sources[:i], wide, *op.sources[i + 1:])
    op.inputs = (*op.inputs[:i], new, *op.inputs[i + 1:])
    return [alloc, conversion]


# --- writing 8-bit elements ------------------------------------------------------------------------------------------


def _narrowed(func: Func, op: ops.Map) -> list[ops.Op]:
    """The Map as one that stores float32, and its conversion; nothing where its value is no such conversion."""
    cast = op.value.op if isinstance(op.value, Value) else None
    if not isinstance(cast, ops.Cast) or cast.bits or cast.result.dtype not in _TO or cast.a.dtype not in _FROM \
            or not any(inner is cast for inner in op.body.ops):
        return []
    alloc, wide = _temporary(func, op, op.dst, dt.float32)
    body, value = _as_float32(op, cast.a)
    element, result = Value(dt.float32), Value(op.dst.dtype)
    narrow = ops.Cast(result=result, a=element, loc=op.loc)
    return [alloc, replace(op, dst=wide, body=body, value=value),
            replace(op, sources=(wide,), inputs=(element,), body=Block([narrow]), value=result)]


def _as_float32(op: ops.Map, value: Operand) -> tuple[Block, Operand]:
    """The body, and its value as float32, which holds it exactly."""
    if value.dtype is dt.float32:
        return op.body, value
    result = Value(dt.float32)
    cast = ops.Cast(result=result, a=value, loc=op.loc)
    return Block([*op.body.ops, cast]), result


def _temporary(func: Func, op: ops.Map, like: TileRef, dtype: DType) -> tuple[ops.Alloc, TileRef]:
    """Registers for one element per point of the Map, dimension 0 fastest."""
    strides, points = [], 1
    for extent in op.extents:
        strides.append(points)
        points *= extent
    name = f"{like.name or like.buffer.name}_f{dtype.bits}"
    layout = make_layout(points)
    buffer = Buffer(name, Space.REGISTER, dtype, points, layout, align=16, loc=op.loc)
    func.buffers.append(buffer)
    offset = Literal(0, dt.int64 if func.index_bits == 64 else dt.int32)
    wide = TileRef(buffer, offset, dtype, tuple(strides), layout=layout, name=name)
    return ops.Alloc(buffer=buffer, loc=op.loc), wide
