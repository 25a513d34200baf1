"""Func -> Func whose tests of a range are one comparison: ``x >= 0 and x < n`` is ``x < n`` of unsigned numbers.

Contract: where facts prove that n is not negative, a negative x is larger than n once both are unsigned.  The same for
``<=``, and for ``x < 0 or x >= n``.  The compiler does so only where it sees the sign of n, and it does not see that of
an extent.  The two comparisons may stand anywhere among the conditions that ``and`` joins, and stay where others use
them; ``dce.py`` takes the rest.  In place.

    i >= 0 && i < rows && j >= 0 && j < columns     # becomes
    (unsigned)i < (unsigned)rows && (unsigned)j < (unsigned)columns
"""

from __future__ import annotations

from dataclasses import replace

from moye import dtypes as dt
from moye.dtypes import DType, Kind
from moye.ir import ops
from moye.ir.fold import facts_of
from moye.ir.nodes import Block, Func, Literal, Operand, Value

_LOWEST = {"land": "ge", "lor": "lt"}                   # the comparison with 0
_HIGHEST = {"land": ("lt", "le"), "lor": ("ge", "gt")}  # those with the other end
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_UNSIGNED = {32: dt.uint32, 64: dt.uint64}

Known = dict[tuple[object, ...], Value]


def unite(func: Func) -> Func:
    """Unite the two comparisons of every test of a range."""
    _block(func.body, {})
    return func


def _block(block: Block, known: Known) -> None:
    """``known`` are the comparisons and conversions that were made before, here or around."""
    found: list[ops.Op] = []
    for op in block.ops:
        for inner in op.blocks():
            _block(inner, dict(known))
        if isinstance(op, ops.Binary) and op.kind in _LOWEST:
            _united(op, found, known)
        found.append(op)
    block.ops = found


def _united(op: ops.Binary, before: list[ops.Op], known: Known) -> None:
    """Rewrite one conjunction or disjunction, if it holds a test of a range; what it needs goes to ``before``."""
    parts = _parts(op, op.kind)
    changed = False
    for low in parts:
        tested = _from_zero(low, op.kind)
        high = next((part for part in parts if tested is not None and _up_to(part, tested, op.kind)), None)
        if tested is None or high is None:
            continue
        whole = _unsigned_comparison(high, tested, op.kind, before, known)
        first = min(parts.index(low), parts.index(high))
        parts = [part for part in parts if part is not low and part is not high]
        parts.insert(first, whole)
        changed = True
    if not changed:
        return
    total = parts[0]
    for part in parts[1:-1]:
        joined = ops.Binary(result=Value(dt.bool_), kind=op.kind, a=total, b=part, loc=op.loc)
        before.append(joined)
        total = joined.result
    alone = _comparison(total) if len(parts) == 1 else None
    op.kind, op.a, op.b = (op.kind, total, parts[-1]) if alone is None else (alone.kind, alone.a, alone.b)


def _parts(operand: Operand | ops.Binary, kind: str) -> list[Operand]:
    """What a chain of ``and``, or of ``or``, joins."""
    op = operand if isinstance(operand, ops.Binary) else operand.op if isinstance(operand, Value) else None
    if isinstance(op, ops.Binary) and op.kind == kind:
        return [*_parts(op.a, kind), *_parts(op.b, kind)]
    assert not isinstance(operand, ops.Binary), "the chain itself joins"
    return [operand]


def _comparison(operand: Operand) -> ops.Binary | None:
    op = operand.op if isinstance(operand, Value) else None
    return op if isinstance(op, ops.Binary) and op.kind in _TURNED else None


def _from_zero(operand: Operand, joins: str) -> Value | None:
    """x of ``x >= 0`` (of ``x < 0`` in an ``or``), a signed integer of the kernel."""
    op = _comparison(operand)
    if op is None or op.kind != _LOWEST[joins] or not isinstance(op.b, Literal) or op.b.value != 0:
        return None
    wide = op.a.dtype.kind is Kind.INT and op.a.dtype.bits in _UNSIGNED
    return op.a if wide and isinstance(op.a, Value) else None


def _up_to(operand: Operand, tested: Value, joins: str) -> bool:
    """Whether this compares the same value with something that is not negative, from the other side."""
    op = _comparison(operand)
    if op is None or (op.a is tested) == (op.b is tested):
        return False
    kind, end = (op.kind, op.b) if op.a is tested else (_TURNED[op.kind], op.a)
    lower = facts_of(end)[0]
    return kind in _HIGHEST[joins] and lower is not None and lower >= 0


def _unsigned_comparison(operand: Operand, tested: Value, joins: str, before: list[ops.Op], known: Known) -> Value:
    """The comparison with the end of the range, of unsigned numbers."""
    op = _comparison(operand)
    assert op is not None, "it has compared two integers"
    dtype = _UNSIGNED[tested.dtype.bits]
    a, b = (_unsigned(side, dtype, op, before, known) for side in (op.a, op.b))
    key = (op.kind, *((side.id if isinstance(side, Value) else side) for side in (a, b)))
    if key not in known:
        known[key] = Value(dt.bool_)
        known[key].role = "_".join(filter(None, (tested.name, "inside" if joins == "land" else "outside")))
        before.append(replace(op, result=known[key], a=a, b=b))
    return known[key]


def _unsigned(operand: Operand, dtype: DType, near: ops.Op, before: list[ops.Op], known: Known) -> Operand:
    """The bits of an integer as an unsigned one."""
    if isinstance(operand, Literal):
        return Literal(int(operand.value), dtype)
    key = ("unsigned", operand.id)
    if key not in known:
        known[key] = Value(dtype)
        before.append(ops.Cast(result=known[key], a=operand, bits=True, loc=near.loc))
    return known[key]
