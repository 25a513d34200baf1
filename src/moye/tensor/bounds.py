"""Whether coordinates lie inside a tensor: proven now, checked at launch, or left to the simulator.

In: a view and a coordinate.  Out: what is not proven; a TensorError for what is certainly outside, and a guard for what
the launch can tell.

    check_coordinate(tAgA, (None, None, None, k + 1))      # k + 1 < extent of mode 3, as far as the loop goes

A guard compares constants, block indices and loop variables (plus constants) with dynamic extents, if the access
happens in every launch.  If a condition or a jump may skip the access, the test is the user's own, and the simulator
checks it: such an index is handed back as ``Pending`` (accesses.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moye.dtypes import Space
from moye.errors import DTypeError, TensorError
from moye.ir import ops
from moye.ir.builder import LoopBound, expressible
from moye.ir.nodes import Block, Literal, Operand, Value
from moye.layout import Int, IntTuple, product
from moye.tensor import expr
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of, wrap
from moye.tensor.view import Pending, View

_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def check_coordinate(tensor: View, coordinate: object) -> tuple[Pending, ...]:
    """Check every entry of a coordinate (but open modes) against its extent, and return those not proven inside.

    The launch checks constants and block indices now.  What depends on loops is checked once something is accessed
    there.
    """
    shape = tensor.layout.shape
    found: list[Pending] = []
    if not isinstance(coordinate, tuple):
        _check(tensor, 0, coordinate, shape, found)
        return tuple(found)
    shapes = shape if isinstance(shape, tuple) else (shape,)
    for mode, (entry, extent) in enumerate(zip(coordinate, shapes, strict=False)):
        _check(tensor, mode, entry, extent, found)
    return tuple(found)


def _check(tensor: View, mode: int, entry: object, shape: IntTuple, found: list[Pending]) -> None:
    """Append the entries of one mode that are not proven inside."""
    if isinstance(entry, tuple) and isinstance(shape, tuple):
        for part, extent in zip(entry, shape, strict=False):
            _check(tensor, mode, part, extent, found)
    elif isinstance(entry, (int, Expr)):
        size = product(shape)
        # Both static is the usual case, and nothing else need be asked then.
        if not (isinstance(entry, int) and isinstance(size, int) and 0 <= entry < size):
            found.extend(_check_entry(tensor, mode, entry, size))


def _check_entry(tensor: View, mode: int, entry: int | Expr, extent: Int) -> Iterator[Pending]:
    low, high = (entry, entry) if isinstance(entry, int) else (entry.lower, entry.upper)
    if _never():
        return
    if (high is not None and high < 0) or (low is not None and isinstance(extent, int) and low >= extent
                                           and not _may_be_skipped(tensor)):
        index = low if low == high else entry
        raise TensorError(f"{tensor.label}: index {index} is outside mode {mode} of extent {extent} ({tensor.layout})",
                          hint=f"indices count from 0 and never from the end: mo.size(x, {mode}) - 1 is the last one"
                          if high is not None and high < 0 else None,
                          locs=(locate(),), code=_code(tensor))
    if tensor.buffer.space is Space.REGISTER or proven(entry, extent):
        return
    pending = Pending(entry, extent, mode, tensor.label)
    depends = isinstance(entry, Expr) and _loop_part(entry.operand) is not None
    if depends or not require_index_at_launch(tensor, pending):
        yield pending


def _may_be_skipped(tensor: View) -> bool:
    """Whether some launches do not come here, and the simulator judges those that do."""
    # Registers are judged now or never.  An index below 0 is one that Python counts from the end, in any launch.
    return tensor.buffer.space is not Space.REGISTER and (builder().conditions > 0 or builder().jumped)


def _never() -> bool:
    """Whether this point is inside a loop that is known to have no iteration."""
    loops = (bound.loop.iv for bound in builder().loops.values())
    return any(iv.lower is not None and iv.upper is not None and iv.lower > iv.upper for iv in loops)


def proven(index: Int, extent: Int) -> bool:
    """Whether an index is known to lie inside its mode: by its facts, or by the conditions around this point."""
    if isinstance(index, int) and isinstance(extent, int):
        return 0 <= index < extent
    low = index if isinstance(index, int) else index.lower
    if low is None or low < 0:
        return False
    if not isinstance(index, int) and isinstance(extent, int) and index.upper is not None and index.upper < extent:
        return True
    with builder().inside(Block()):                     # only to see whether it folds
        inside = expr.compare("lt", index, extent)  # type: ignore[arg-type]
    return inside is True or (isinstance(index, Expr) and any(_says(cond, index, extent)
                                                              for cond in builder().open_conditions))


def _says(cond: Operand, index: Expr, extent: Int, negated: bool = False) -> bool:
    """Whether a condition is ``index < extent``, or implies it."""
    op = cond.op if isinstance(cond, Value) else None
    if isinstance(op, ops.Unary) and op.kind == "not":
        return _says(op.a, index, extent, not negated)
    if not isinstance(op, ops.Binary):
        return False
    # De Morgan: not (a or b) is not a and not b, so each side holds there as it does in a and b.
    if op.kind == ("lor" if negated else "land"):
        return _says(op.a, index, extent, negated) or _says(op.b, index, extent, negated)
    kind = _NEGATED.get(op.kind) if negated else op.kind
    sides = (op.a, op.b) if kind == "lt" else (op.b, op.a) if kind == "gt" else None
    return sides is not None and _same(sides[0], index.operand) and _same(sides[1], operand_of(extent))  # type: ignore[arg-type]


def _same(a: Operand, b: Operand) -> bool:
    """Whether two operands are one integer, whatever their widths."""
    a, b = _narrow(a), _narrow(b)
    return a.value == b.value if isinstance(a, Literal) and isinstance(b, Literal) else a is b


def _narrow(operand: Operand) -> Operand:
    op = operand.op if isinstance(operand, Value) else None
    widens = isinstance(op, ops.Cast) and op.a.dtype.is_integer and op.a.dtype.bits <= operand.dtype.bits
    return _narrow(op.a) if isinstance(op, ops.Cast) and widens else operand


def settle(tensor: View, pending: tuple[Pending, ...]) -> list[Pending]:
    """Have launch check what it can of a view that is about to be carried; the indices that it does not prove."""
    return [each for each in pending
            if not proven(each.index, each.extent) and not require_index_at_launch(tensor, each)]


def require_index_at_launch(tensor: View, pending: Pending) -> bool:
    """Let the launch check an index that every launch reaches; return whether that proves it for the whole kernel."""
    entry, extent = pending.index, pending.extent
    found = _largest(entry)  # type: ignore[arg-type]
    if found is None:
        return False
    bound, loop = found
    inside = _unless_empty(expr.compare("lt", bound, extent), entry, loop)
    if not isinstance(inside, Expr):
        return inside is True and loop is None
    if not expr.can_guard(inside.operand, conditional=True):
        return False
    before = len(builder().func.guards)
    view = "" if pending.label == tensor.buffer.name else f" (a view of {tensor.buffer.name})"
    message = f"index {{bound}} of {pending.label}{view}, mode {pending.mode}, is outside its extent {{extent}}"
    fields = {"bound": operand_of(bound), "extent": operand_of(extent)}  # type: ignore[arg-type]
    hint = _hint(entry, loop, tensor, extent)
    guard = builder().guard(inside.operand, message, fields, hint, _code(tensor) or "A12")
    # Should something jump out of the loop later, its variable need not reach the bound, and the guard is dropped.
    if loop is not None and len(builder().func.guards) > before:
        loop.guards.append(guard)
    return loop is None


def _code(tensor: View) -> str | None:
    """The class of an index out of bounds; registers have none."""
    return {Space.GLOBAL: "B1", Space.SHARED: "B2", Space.CLUSTER: "B2"}.get(tensor.buffer.space)


def _hint(entry: Int, loop: LoopBound | None, tensor: View, extent: Int) -> str | None:
    if isinstance(entry, int):
        return "if the access is guarded, take the view under an if, too"
    if loop is not None and isinstance(extent, int) and tensor.buffer.space is not Space.GLOBAL:
        return f"an index of stages is taken modulo their number, {extent}"
    return "launch as many blocks as there are tiles" if loop is None else \
        "the operands must have as many tiles along this mode as the loop has iterations"


def _largest(entry: int | Expr) -> tuple[Scalar, LoopBound | None] | None:
    """The largest value of an entry that every launch reaches, with the loop that it counts in; None if unknown."""
    b = builder()
    # A jump may have skipped this point, so no launch is sure to reach the index.
    if b.jumped:
        return None
    part = _loop_part(entry.operand) if isinstance(entry, Expr) else None
    if part is not None:
        return _largest_of_loop(*part)
    # Under another condition than the loop's an index may never be reached, and must not be refused at launch.
    if b.conditions:
        return None
    if isinstance(entry, int):
        return entry, None
    op = entry.operand.op if isinstance(entry.operand, Value) else None
    if isinstance(op, ops.Special) and op.kind.startswith("block_"):
        last = expr.arithmetic("sub", Expr(b.special("grid_" + op.kind[-1], lower=1)), 1)
        return last, None
    return None


def _loop_part(operand: Operand) -> tuple[LoopBound, int] | None:
    """A coordinate ``i + c`` as the loop of i, and c."""
    constant = 0
    op = operand.op if isinstance(operand, Value) else None
    if isinstance(op, ops.Cast):
        return _loop_part(op.a)
    if isinstance(op, ops.Binary) and op.kind == "add" and isinstance(op.b, Literal):
        operand, constant = op.a, int(op.b.value)
    loop = builder().loops.get(operand.id) if isinstance(operand, Value) else None
    return None if loop is None else (loop, constant)


def _largest_of_loop(loop: LoopBound, constant: int) -> tuple[Scalar, LoopBound] | None:
    if loop.depth:
        return None
    stop = loop.stop
    for cond in builder().open_conditions:
        limit = _limit(cond, loop)
        if limit is None:
            return None
        stop = builder().binary("min", stop, operand_of(limit, stop.dtype))
    return expr.arithmetic("add", _last(loop, expr.arithmetic("sub", wrap(stop), 1)), constant), loop


def _last(loop: LoopBound, most: Scalar) -> Scalar:
    """The largest value of the loop's variable that is at most ``most``; if threads start apart, that of any thread."""
    op, b = loop.loop, builder()
    # Every number from start on is met, so the bound itself is.
    if isinstance(op.step, int) and op.step == 1:
        return most
    if expressible(op.start, b.parameters) and (isinstance(op.step, int) or expressible(op.step, b.parameters)):
        step: Any = op.step if isinstance(op.step, int) else Expr(op.step)
        start: Any = wrap(op.start)
        return expr.arithmetic("add", start, (most - start) // step * step)
    # The start is not known at launch: the largest multiple of what divides it and each step is a bound all the same.
    return most if op.iv.divisor == 1 else most // op.iv.divisor * op.iv.divisor


def _unless_empty(inside: Scalar, entry: object, loop: LoopBound | None) -> Scalar:
    """``inside``, or that the loop has no iteration, if an index ahead of its variable would be outside otherwise."""
    part = _loop_part(entry.operand) if isinstance(entry, Expr) else None
    if loop is None or part is None or part[1] <= 0 or not isinstance(inside, Expr):
        return inside
    start = loop.loop.start
    first: Any = wrap(start) if expressible(start, builder().parameters) else Expr(start).lower \
        if isinstance(start, Value) else None
    if first is None:
        return inside
    # A loop without iterations reaches no index: i + 1 beyond the extent is right then (prefetching one tile ahead).
    empty = expr.compare("le", wrap(loop.stop), first)
    return wrap(builder().binary("lor", inside.operand, operand_of(empty)))


def _limit(cond: Operand, loop: LoopBound, negated: bool = False) -> Scalar | None:
    """What the loop's variable stays below if the condition holds (or, negated, fails); None if it does not say."""
    op = cond.op if isinstance(cond, Value) else None
    if isinstance(op, ops.Unary) and op.kind == "not":
        return _limit(op.a, loop, not negated)
    if not isinstance(op, ops.Binary):
        return None
    if op.kind == ("lor" if negated else "land"):
        limits = [limit for side in (op.a, op.b) if (limit := _limit(side, loop, negated)) is not None]
        return limits[0] if len(limits) < 2 and limits else expr.arithmetic("min", *limits) if limits else None
    if op.kind not in _NEGATED:
        return None
    for kind, x, y in ((op.kind, op.a, op.b), (_MIRRORED[op.kind], op.b, op.a)):
        part = _loop_part(x)
        if part is not None and part[0] is loop:
            return _limit_of(_NEGATED[kind] if negated else kind, expr.arithmetic("sub", wrap(y), part[1]), loop)
    return None


def _limit_of(kind: str, other: Scalar, loop: LoopBound) -> Scalar | None:
    """The limit that ``variable kind other`` sets."""
    if kind == "lt":
        return other
    if kind in ("le", "eq"):
        return expr.arithmetic("add", other, 1)
    last = expr.arithmetic("sub", wrap(loop.stop), 1)
    # i != n bounds i only if n is the last value: then the others stay below it.
    return other if kind == "ne" and expr.compare("eq", other, last) is True else None


def need_bytes(*tensors: View) -> None:
    """Refuse single elements that are not whole bytes."""
    for tensor in tensors:
        if tensor.dtype.bits < 8:
            raise DTypeError(f"{tensor.label} holds {tensor.dtype}: elements narrower than a byte are only operands of "
                             f"an MMA operation", hint="read and write them as words: mo.recast(x, mo.uint32)",
                             locs=(locate(),))
