"""The verifier: what must hold of every Func, checked after tracing and after passes.

In: a Func.  Out: nothing; IRError names the op and the rule it breaks.

    verify(func)

Values are defined before use in an enclosing block, operand dtypes fit their op, register references are static, jumps
leave an enclosing region, nothing follows a jump.  What must hold of an op wherever it stands is in ``rules.py``.
It is moye's own check; one mistake of users only shows here, a TraceError: a value that escaped from a loop or branch
through a Python object.
"""

from __future__ import annotations

from moye.dtypes import Kind, Space
from moye.errors import IRError, TraceError
from moye.ir import ops
from moye.ir.nodes import Block, Func, Literal, Operand, Ref, ScalarParam, TensorParam, TileRef, Value, Var
from moye.ir.rules import broken
from moye.ir.traits import Trait


def verify(func: Func) -> Func:
    """Check a whole function; returns it."""
    _Verifier(func).run()
    return func


class _Verifier:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.values: set[int] = set()
        self.ended: set[int] = set()  # values of blocks that are over
        self.variables: set[int] = set()
        self.buffers: set[int] = set()
        self.regions: list[ops.Op] = []

    def run(self) -> None:
        for param in self.func.params:
            if isinstance(param, ScalarParam):
                self.values.add(param.value.id)
            elif isinstance(param, TensorParam):
                self.buffers.add(param.buffer.id)
                self.values.update(x.id for x in (*param.shape, *param.strides) if isinstance(x, Value))
        self.block(self.func.body)

    def fail(self, op: ops.Op, rule: str, hint: str | None = None) -> IRError:
        return IRError(f"{self.func.name}: {type(op).__name__}: {rule}", hint=hint, locs=(op.loc,))

    def block(self, block: Block) -> None:
        """Ops in order; what is defined here is forgotten at the end."""
        values, variables, buffers = set(self.values), set(self.variables), set(self.buffers)
        for position, op in enumerate(block.ops):
            self.op(op)
            if isinstance(op, ops.Exit) and position + 1 < len(block.ops):
                raise self.fail(op, "ops follow a jump in its block")
        self.ended |= self.values - values
        self.values, self.variables, self.buffers = values, variables, buffers

    def op(self, op: ops.Op) -> None:
        for operand in op.operands() if not isinstance(op, ops.Map) else ():    # (its value is made by its body)
            self.operand(op, operand)
        for ref, _ in op.refs():
            self.reference(op, ref)
        if rule := broken(op):
            raise self.fail(op, rule)
        self.define(op)
        if Trait.POINTWISE in op.traits:
            self.pointwise(op)
        else:
            self.enter(op)

    def operand(self, op: ops.Op, operand: Operand) -> None:
        if isinstance(operand, Literal):
            kind = operand.dtype.kind
            wanted = bool if kind is Kind.BOOL else float if kind is Kind.FLOAT else int
            if not isinstance(operand.value, wanted):
                raise self.fail(op, f"the literal {operand} holds a {type(operand.value).__name__}")
        elif operand.id not in self.values:
            if operand.id in self.ended or operand.op is None:  # (a loop variable: its loop may be eliminated)
                raise TraceError(f"this uses {operand.name or 'a value'} which was computed inside a loop or if of the "
                                 f"kernel that has ended", locs=(op.loc,),
                                 hint="assign it to a variable there: what a Python object holds is not carried")
            raise self.fail(op, f"{operand} is used but not defined in an enclosing block before it",
                            "if a cache or an object of Python's has kept it from another kernel, compute it anew here")

    def reference(self, op: ops.Op, ref: Ref | TileRef) -> None:
        if ref.buffer.space is not Space.GLOBAL and ref.buffer.root.id not in self.buffers:
            raise self.fail(op, f"{ref.buffer} is used but not allocated before it")
        if ref.buffer.space is Space.CLUSTER and Trait.REMOTE not in op.traits:
            raise self.fail(op, f"{ref.buffer} is in another block of the cluster")
        if not ref.offset.dtype.is_integer:
            raise self.fail(op, f"the offset {ref.offset} of {ref.buffer} is no integer")
        if ref.buffer.space is not Space.REGISTER:
            return
        if not isinstance(ref.offset, Literal):
            raise self.fail(op, f"the offset {ref.offset} of the register tensor {ref.buffer} is not static")
        if isinstance(ref, TileRef) and not all(isinstance(s, int) for s in ref.strides):
            raise self.fail(op, f"the strides of the register tensor {ref.buffer} are not static")

    def pointwise(self, op: ops.Op) -> None:
        """The body of a Map or of Bounds, and the operands that it computes."""
        before = set(self.values)
        self.values.update(value.id for value in op.given())
        for inner in (inner for block in op.blocks() for inner in block.ops):
            if Trait.PURE not in inner.traits:
                raise self.fail(op, f"its body holds a {type(inner).__name__}, which is not pure")
            self.op(inner)
        for operand in op.operands() if isinstance(op, ops.Map) else op.computed():
            self.operand(op, operand)
        self.values = before

    def define(self, op: ops.Op) -> None:
        if (result := op.defines()) is not None:
            if result.id in self.values:
                raise self.fail(op, f"{result} is defined twice")
            self.values.add(result.id)
        if isinstance(op, ops.Alloc):
            self.buffers.add(op.buffer.id)
        elif isinstance(op, ops.Declare):
            self.variables.add(op.var.id)
        elif isinstance(op, ops.Read):
            self.declared(op, op.var)
        elif isinstance(op, ops.Assign):
            for var, _ in op.pairs:
                self.declared(op, var)

    def declared(self, op: ops.Op, var: Var) -> None:
        if var.id not in self.variables:
            raise self.fail(op, f"{var} is not declared before it")

    def enter(self, op: ops.Op) -> None:
        if isinstance(op, ops.Exit) and op.kind != "return" and not any(region is op.target for region in self.regions):
            raise self.fail(op, f"{op.kind} leaves a region that does not enclose it")
        given = {value.id for value in op.given()}
        self.values |= given
        nested = list(op.blocks())
        if nested:
            self.regions.append(op)
            for block in nested:
                self.block(block)
            self.regions.pop()
        self.values -= given
        self.ended |= given
