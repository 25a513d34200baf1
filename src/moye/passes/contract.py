"""Func -> Func with products of 16-bit floats fused with the sums that take them: ``r * s + r`` rounds once.

Contract: in the body of a Map, a product of float16 or bfloat16 that one sum or difference alone uses becomes an Fma.
What is contracted is decided here, and not by ptxas, so that the simulator computes bit by bit what a GPU does.  A
conversion that the user wrote stands between them, and stays.  In place.
"""

from __future__ import annotations

from moye.dtypes import bfloat16, float16
from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value

HALF = (float16, bfloat16)


def contract(func: Func) -> Func:
    """Fuse products and sums of 16-bit floats in every elementwise operation."""
    for op in func.body.walk():
        if isinstance(op, ops.Map):
            _contract(op)
    return func


def _contract(op: ops.Map) -> None:
    uses: dict[int, int] = {}
    for operand in (*(x for inner in op.body.ops for x in inner.operands()), op.value):
        if isinstance(operand, Value):
            uses[operand.id] = uses.get(operand.id, 0) + 1
    products = {inner.result.id: inner for inner in op.body.ops
                if isinstance(inner, ops.Binary) and inner.kind == "mul" and inner.result.dtype in HALF}
    body: list[ops.Op] = []
    gone: set[int] = set()
    for inner in op.body.ops:
        product = _product(inner, products, uses)
        if product is None or not isinstance(inner, ops.Binary):
            body.append(inner)
            continue
        gone.add(id(product))
        body += _fused(inner, product)
    op.body = Block([inner for inner in body if id(inner) not in gone])


def _product(op: ops.Op, products: dict[int, ops.Binary], uses: dict[int, int]) -> ops.Binary | None:
    """The product that a sum or difference takes, and nobody else."""
    if not isinstance(op, ops.Binary) or op.kind not in ("add", "sub") or op.result.dtype not in HALF:
        return None
    for operand in (op.a, op.b):
        if isinstance(operand, Value) and operand.id in products and uses[operand.id] == 1:
            return products[operand.id]
    return None


def _fused(op: ops.Binary, product: ops.Binary) -> list[ops.Op]:
    """The sum as one operation; of a difference, what is subtracted is negated first, which is exact."""
    first = op.a is product.result
    a: Operand = product.a
    c = op.b if first else op.a
    before: list[ops.Op] = []
    if op.kind == "sub":
        negated = Value(op.result.dtype)
        before = [ops.Unary(result=negated, kind="neg", a=c if first else a, loc=op.loc)]
        a, c = (a, negated) if first else (negated, c)
    return [*before, ops.Fma(result=op.result, a=a, b=product.b, c=c, loc=op.loc, trips=op.trips)]
