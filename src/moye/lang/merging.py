"""Leaves of variables where ways of the kernel meet: which are the same, and which Var may hold them.

In: scalars that a variable has on the ways.  Out: whether they agree, facts, first values, a Var to assign in place.

    equal(x, old) and is_constant(x)        # a static number stays static
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.ir import constants, fold, ops
from moye.ir.builder import key_of
from moye.ir.nodes import Block, Literal, Operand, Value, Var
from moye.lang.carry import carried_dtype
from moye.lang.mutable_parts import same
from moye.tensor.context import builder
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.known import weak


def first_of(old: Scalar, dtype: dt.DType) -> Operand | None:
    """The first value of a merged variable, where an arm leaves it; another one may be of a body traced before."""
    same = carried_dtype(old) == dtype if isinstance(old, Expr) else _fits(old, dtype)
    return operand_of(old, dtype) if same else None


def _fits(number: int | float | bool, dtype: dt.DType) -> bool:
    if dtype.is_float:
        return True
    if dtype.kind is dt.Kind.BOOL or isinstance(number, float):
        return isinstance(weak(number), bool)
    return constants.fits(int(number), dtype)


def facts_of(x: Scalar, dtype: dt.DType) -> fold.Facts:
    """What is known of a leaf as a variable of a dtype."""
    return fold.facts_of(operand_of(x, dtype)) if dtype.is_integer else (None, None, 1)


def is_constant(x: Scalar) -> bool:
    """Whether tracing knows the number."""
    return not isinstance(x, Expr) or isinstance(x.operand, Literal)


def equal(x: Scalar, y: Scalar) -> bool:
    """Whether two leaves are one value of the kernel, or one number."""
    if isinstance(x, Expr) and isinstance(y, Expr):
        return key_of(x.operand) == key_of(y.operand)
    x, y = weak(x), weak(y)
    return not isinstance(x, Expr) and not isinstance(y, Expr) and same(x, y)


def reusable(name: str, old: Scalar | None) -> Var | None:
    """The variable that ``old`` was just read from, if it belongs to the same name and still holds that value."""
    operand = old.operand if isinstance(old, Expr) else None
    op = operand.op if isinstance(operand, Value) else None
    return op.var if isinstance(op, ops.Read) and op.var.name == name and still_holds(op) else None


def still_holds(read: ops.Read) -> bool:
    """Whether the variable still has the value that ``read`` saw: in the open blocks no assignment lies between."""
    for block in reversed(builder().open_blocks):
        for op in reversed(block.ops):
            if op is read:
                return True
            if overwritten(read.var, Block([op])):
                return False
    return False


def overwritten(var: Var, block: Block) -> bool:
    """Whether something in a block assigns the variable."""
    return any(isinstance(op, ops.Assign) and any(v is var for v, _ in op.pairs) for op in block.walk())
