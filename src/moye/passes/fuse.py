"""Func -> Func with elementwise operations fused: ``a[...] = exp(a * 2)`` becomes one loop over the registers.

Contract: a Map whose result is read by one later Map of the same block, element for element, is folded into that Map's
body; nothing written in between may be one of its sources.  The first Map is left without readers, for ``dce.py``.
A result in 8-bit floats stays a tile of its own, which is converted several elements at a time.  Runs in place.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, TileRef, Value
from moye.ir.operation import Role
from moye.passes.convert import FLOAT8


def fuse(func: Func) -> Func:
    """Fuse elementwise operations in every block."""
    readers = _readers(func)
    _block(func.body, readers)
    for op in func.body.walk():
        for block in op.blocks():
            if not isinstance(op, ops.Map):
                _block(block, readers)
    return func


def _readers(func: Func) -> dict[int, list[ops.Op]]:
    """Ops that read or partly overwrite each register buffer, by buffer id (the Map that defines it included once)."""
    readers: dict[int, list[ops.Op]] = {}
    for op in func.body.walk():
        for ref, _ in op.refs():
            if ref.buffer.space is Space.REGISTER:
                users = readers.setdefault(ref.buffer.id, [])
                if not users or users[-1] is not op:
                    users.append(op)
    return readers


def _block(block: Block, readers: dict[int, list[ops.Op]]) -> None:
    for position, op in enumerate(block.ops):
        if not isinstance(op, ops.Map):
            continue
        # The nearest producer first: folding it brings in its own sources, which an earlier one may feed.
        for earlier in range(position - 1, -1, -1):
            producer = block.ops[earlier]
            if isinstance(producer, ops.Map) and _feeds(producer, op, readers) \
                    and _unchanged(block.ops[earlier + 1:position], producer):
                _fold(producer, op, readers)


def _feeds(producer: ops.Map, consumer: ops.Map, readers: dict[int, list[ops.Op]]) -> bool:
    """Whether all that the producer writes is read by this consumer alone, element for element."""
    target = producer.dst
    reads = [s for s in consumer.sources if s.buffer is target.buffer]
    if not reads or target.buffer is consumer.dst.buffer or producer.extents != consumer.extents \
            or target.dtype in FLOAT8:
        return False
    users = readers.get(target.buffer.id, [])
    if any(user is not producer and user is not consumer for user in users):
        return False
    if not all(_same_elements(read, target) for read in reads):
        return False
    # In one loop the consumer overwrites element i before the producer reads element i + 1, so these must not cross.
    changed = [s for s in producer.sources if s.buffer is consumer.dst.buffer]
    return not changed or (all(_same_elements(s, consumer.dst) for s in changed) and _distinct(consumer))


def _distinct(op: ops.Map) -> bool:
    """Whether what is written is one element each time, not a repeated one as in a view (4):(0)."""
    steps = [[step * i for i in range(extent)] if isinstance(extent, int) and isinstance(step, int) else None
             for extent, step in zip(op.extents, op.dst.strides, strict=True)]
    known = [several for several in steps if several is not None]
    return len(known) == len(steps) and len(set(map(sum, product(*known)))) == prod(map(len, known))


def _same_elements(a: TileRef, b: TileRef) -> bool:
    return a.offset == b.offset and a.strides == b.strides and a.dtype == b.dtype


def _unchanged(between: list[ops.Op], producer: ops.Map) -> bool:
    """Whether no op in between writes what the producer reads."""
    sources = {s.buffer.id for s in producer.sources}
    for op in between:
        nested = [op, *(inner for block in op.blocks() for inner in block.walk())]
        for each in nested:
            if any(written and ref.buffer.id in sources for ref, written in each.refs()):
                return False
    return True


def _fold(producer: ops.Map, consumer: ops.Map, readers: dict[int, list[ops.Op]]) -> None:
    """Compute the producer's element inside the consumer's body."""
    fresh: dict[int, Operand] = {}
    inputs = tuple(Value(v.dtype) for v in producer.inputs)
    fresh.update({old.id: new for old, new in zip(producer.inputs, inputs, strict=True)})
    body = [_copied(op, fresh) for op in producer.body.ops]
    value = _mapped(producer.value, fresh)
    kept = [(s, v) for s, v in zip(consumer.sources, consumer.inputs, strict=True)
            if s.buffer is not producer.dst.buffer]
    # What the consumer read from the tile between is the producer's value now.
    taken: dict[int, Operand] = {v.id: value for s, v in zip(consumer.sources, consumer.inputs, strict=True)
                                 if s.buffer is producer.dst.buffer}
    consumer.body = Block(body + [_copied(op, taken) for op in consumer.body.ops])
    consumer.value = _mapped(consumer.value, taken)
    consumer.sources = (*producer.sources, *(s for s, _ in kept))
    consumer.inputs = (*inputs, *(v for _, v in kept))
    for source in producer.sources:
        users = readers.setdefault(source.buffer.id, [])
        if not any(user is consumer for user in users):
            users.append(consumer)


def _mapped(operand: Operand, mapping: dict[int, Operand]) -> Operand:
    return mapping.get(operand.id, operand) if isinstance(operand, Value) else operand


def _all_mapped(held: Any, mapping: dict[int, Operand]) -> Any:
    """What a field holds, one operand or several."""
    return tuple(_mapped(each, mapping) for each in held) if isinstance(held, tuple) else _mapped(held, mapping)


def _copied(op: ops.Op, mapping: dict[int, Operand]) -> ops.Op:
    """A pure op with operands replaced and a new result, which joins the mapping."""
    old = op.defines()
    assert old is not None and ops.Trait.PURE in op.traits, "the body of a Map is pure"
    result = Value(old.dtype, lower=old.lower, upper=old.upper, divisor=old.divisor, name=old.name)
    changes: dict[str, Any] = {each.name: _all_mapped(getattr(op, each.name), mapping) for each in fields(op)
                               if each.metadata.get("role") is Role.OPERAND}
    new = replace(op, **changes, result=result)  # type: ignore[call-arg]
    mapping[old.id] = result
    return new
