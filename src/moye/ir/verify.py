"""The verifier: what must hold of every Func, checked after tracing and after passes.

In: a Func.  Out: nothing; IRError names the op and the rule it breaks.

    verify(func)

Values are defined before use in an enclosing block, operand dtypes fit their op, register references are static, jumps
leave an enclosing region, nothing follows a jump.  It is moye's own check; one mistake of users only shows here, a
TraceError: a value that escaped from a loop or branch through a Python object.
"""

from __future__ import annotations

from collections.abc import Callable

from moye.atoms.hardware import MOST_THREADS, WARP
from moye.dtypes import DType, Kind, Space
from moye.errors import IRError, TraceError
from moye.ir import ops, verify_hopper
from moye.ir.nodes import Block, Func, Literal, Operand, Ref, ScalarParam, TensorParam, TileRef, Value, Var


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

    def fail(self, op: ops.Op, rule: str) -> IRError:
        return IRError(f"{self.func.name}: {type(op).__name__}: {rule}", locs=(op.loc,))

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
        if isinstance(op, ops.Map):
            self.map(op)
            return
        if isinstance(op, ops.Bounds):
            self.bounds(op)
            return
        for operand in op.operands():
            self.operand(op, operand)
        for ref, _ in op.refs():
            self.reference(op, ref)
        rule = _RULES.get(type(op))
        if rule is not None:
            broken = rule(op)
            if broken:
                raise self.fail(op, broken)
        self.define(op)
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
            raise self.fail(op, f"{operand} is used but not defined in an enclosing block before it")

    def reference(self, op: ops.Op, ref: Ref | TileRef) -> None:
        if ref.buffer.space is not Space.GLOBAL and ref.buffer.root.id not in self.buffers:
            raise self.fail(op, f"{ref.buffer} is used but not allocated before it")
        if ref.buffer.space is Space.CLUSTER and type(op) not in _MAPPED:
            raise self.fail(op, f"{ref.buffer} is in another block of the cluster")
        if not ref.offset.dtype.is_integer:
            raise self.fail(op, f"the offset {ref.offset} of {ref.buffer} is no integer")
        if ref.buffer.space is not Space.REGISTER:
            return
        if not isinstance(ref.offset, Literal):
            raise self.fail(op, f"the offset {ref.offset} of the register tensor {ref.buffer} is not static")
        if isinstance(ref, TileRef) and not all(isinstance(s, int) for s in ref.strides):
            raise self.fail(op, f"the strides of the register tensor {ref.buffer} are not static")

    def map(self, op: ops.Map) -> None:
        if len(op.sources) != len(op.inputs):
            raise self.fail(op, f"{len(op.sources)} sources but {len(op.inputs)} inputs")
        for ref in (*op.sources, op.dst):
            self.reference(op, ref)
            if len(ref.strides) != len(op.extents):
                raise self.fail(op, f"{len(ref.strides)} strides over {len(op.extents)} extents")
        before = set(self.values)
        self.values.update(v.id for v in op.inputs)
        for inner in op.body.ops:
            if not inner.pure:
                raise self.fail(op, f"its body holds a {type(inner).__name__}, which is not pure")
            self.op(inner)
        self.operand(op, op.value)
        if op.value.dtype != op.dst.dtype:
            raise self.fail(op, f"stores {op.value.dtype} into {op.dst.dtype}")
        self.values = before

    def bounds(self, op: ops.Bounds) -> None:
        for operand in op.operands():
            self.operand(op, operand)
        for ref, _ in op.refs():
            self.reference(op, ref)
        for check in (*op.checks, *op.place):
            if check.strides and len(check.strides) != len(op.points):
                raise self.fail(op, f"{len(check.strides)} strides over {len(op.points)} points")
        before = set(self.values)
        for inner in op.body.ops:
            if not inner.pure:
                raise self.fail(op, f"its body holds a {type(inner).__name__}, which is not pure")
            self.op(inner)
        for operand in op.places():
            self.operand(op, operand)
        self.values = before

    def define(self, op: ops.Op) -> None:
        result = getattr(op, "result", None)
        if isinstance(result, Value):
            if result.id in self.values:
                raise self.fail(op, f"{result} is defined twice")
            self.values.add(result.id)
        if isinstance(op, ops.Alloc):
            self.buffers.add(op.buffer.id)
        elif isinstance(op, ops.Declare):
            self.variables.add(op.var.id)
            self.variable(op, op.var, op.init)
        elif isinstance(op, ops.Read):
            self.variable(op, op.var, op.result)
        elif isinstance(op, ops.Assign):
            for var, source in op.pairs:
                self.variable(op, var, source)

    def variable(self, op: ops.Op, var: Var, operand: Operand | None) -> None:
        if var.id not in self.variables:
            raise self.fail(op, f"{var} is not declared before it")
        if operand is not None and operand.dtype != var.dtype:
            raise self.fail(op, f"{var} is {var.dtype}, not {operand.dtype}")

    def enter(self, op: ops.Op) -> None:
        if isinstance(op, ops.Exit):
            self.jump(op)
        if isinstance(op, ops.For):
            self.values.add(op.iv.id)
        nested = list(op.blocks())
        if nested:
            self.regions.append(op)
            for block in nested:
                self.block(block)
            self.regions.pop()
        if isinstance(op, ops.For):
            self.values.discard(op.iv.id)
            self.ended.add(op.iv.id)

    def jump(self, op: ops.Exit) -> None:
        if op.kind == "return":
            return
        if not any(region is op.target for region in self.regions):
            raise self.fail(op, f"{op.kind} leaves a region that does not enclose it")
        if isinstance(op.target, ops.Scope) != (op.kind == "leave"):
            raise self.fail(op, f"{op.kind} of a {type(op.target).__name__}")


# --- rules of single ops: a sentence if broken ------------------------------------------------------------------------


def _binary(op: ops.Binary) -> str | None:
    if op.kind not in ops.BINARY:
        return f"unknown kind {op.kind!r}"
    shift = op.kind in ("shl", "shr")
    if not shift and op.a.dtype != op.b.dtype:
        return f"{op.kind} of {op.a.dtype} and {op.b.dtype}"
    wanted: DType = op.result.dtype
    if op.kind in ops.ARITHMETIC and wanted != op.a.dtype:
        return f"{op.kind} of {op.a.dtype} gives {wanted}"
    if op.kind not in ops.ARITHMETIC and wanted.kind is not Kind.BOOL:
        return f"{op.kind} gives {wanted}, not bool"
    if op.kind in ("div", "pow") and not op.a.dtype.is_float:
        return f"{op.kind} of {op.a.dtype}"
    return None


def _unary(op: ops.Unary) -> str | None:
    if op.kind not in ops.UNARY:
        return f"unknown kind {op.kind!r}"
    if op.kind in ops.MATH and not ops.dtype_of_math(op.kind, op.a.dtype):
        return f"{op.kind} of {op.a.dtype}"
    return None


def _cond(op: ops.If | ops.Select | ops.Assert) -> str | None:
    return None if op.cond.dtype.kind is Kind.BOOL else f"its condition is {op.cond.dtype}, not bool"


def _for(op: ops.For) -> str | None:
    if isinstance(op.step, Value):
        if op.step.dtype != op.iv.dtype:                # that it is positive was known where the loop was traced
            return f"its step is {op.step.dtype}, and its variable {op.iv.dtype}"
    elif op.step == 0:
        return "its step is 0"
    if not op.start.dtype == op.stop.dtype == op.iv.dtype:
        return f"bounds {op.start.dtype}, {op.stop.dtype} and variable {op.iv.dtype} differ"
    return None


def _copy(op: ops.Copy) -> str | None:
    if op.dst.dtype.bits != op.src.dtype.bits:
        return f"copies {op.src.dtype} to {op.dst.dtype}"
    if not len(op.dst.strides) == len(op.src.strides) == len(op.extents):
        return "strides and extents differ in number"
    if op.atom.matrices:
        return _matrices(op)
    if op.atom.bits is not None and op.atom.bits != op.width * op.dst.dtype.bits:
        return f"moves {op.width} {op.dst.dtype} with {op.atom}"
    if op.width * op.dst.dtype.bits > 128:
        return f"an access of {op.width} {op.dst.dtype} is wider than 16 bytes"
    if any(ref.lane != 1 and ref.buffer.space is not Space.REGISTER for ref in (op.dst, op.src)):
        return "an access to memory is not contiguous"
    if op.atom.asynchronous and (op.dst.buffer.space, op.src.buffer.space) != (Space.SHARED, Space.GLOBAL):
        return f"{op.atom} from {op.src.buffer.space.value} to {op.dst.buffer.space.value}"
    return None


def _matrices(op: ops.Copy) -> str | None:
    spaces = {op.dst.buffer.space, op.src.buffer.space}
    if spaces != {Space.SHARED, Space.REGISTER}:
        return f"{op.atom} from {op.src.buffer.space.value} to {op.dst.buffer.space.value}"
    if op.width * op.dst.dtype.bits != 128 or len(op.registers) * op.dst.dtype.bits != op.atom.bits:
        return f"{op.atom} of rows of {op.width} and {len(op.registers)} values of {op.dst.dtype}"
    return "is predicated" if op.pred is not None else None


def _gemm(op: ops.Gemm) -> str | None:
    if len(op.roles) != len(op.extents) or set(op.roles) - set("mnk"):
        return f"roles {op.roles!r} for {len(op.extents)} extents"
    for name in "abcd":
        ref: TileRef = getattr(op, name)
        if ref.buffer.space is not Space.REGISTER:
            return f"operand {name} is not in registers"
        if ref.dtype != getattr(op.mma, f"{name}_dtype"):
            return f"operand {name} is {ref.dtype}, not {getattr(op.mma, name + '_dtype')}"
        for stride, role in zip(ref.strides, op.roles, strict=True):
            if stride and role not in {"a": "mk", "b": "nk", "c": "mn", "d": "mn"}[name]:
                return f"operand {name} moves along {role}"
    if "k" in op.roles and (op.c.buffer, op.c.offset, op.c.strides) != (op.d.buffer, op.d.offset, op.d.strides):
        return "a sum over k must accumulate in place: d is not c"
    return None


def _wgmma(op: ops.Wgmma) -> str | None:
    if len(op.roles) != len(op.extents) or set(op.roles) - set("mnk"):
        return f"roles {op.roles!r} for {len(op.extents)} extents"
    if op.accumulate.dtype.kind is not Kind.BOOL:
        return f"accumulate is {op.accumulate.dtype}, not bool"
    if (op.a_descriptor is not None) != ("a" in op.mma.shared):
        return f"{op.mma} and the descriptor {op.a_descriptor} of a"
    for name in "abd":
        ref: TileRef = getattr(op, name)
        if (ref.buffer.space is Space.SHARED) != (name in op.mma.shared):
            return f"operand {name} is in {ref.buffer.space.value}"
        if ref.dtype != getattr(op.mma, f"{name}_dtype"):
            return f"operand {name} is {ref.dtype}, not {getattr(op.mma, name + '_dtype')}"
        if len(ref.strides) != len(op.roles) or any(
                stride and role not in {"a": "mk", "b": "nk", "d": "mn"}[name]
                for stride, role in zip(ref.strides, op.roles, strict=True)):
            return f"operand {name} moves by {ref.strides} along {op.roles!r}"
    return None


def _store(op: ops.Store) -> str | None:
    if op.order is not None and op.ref.buffer.space is Space.CLUSTER:
        return f"an ordered store into {op.ref.buffer}"
    return None if op.value.dtype == op.ref.dtype else f"stores {op.value.dtype} into {op.ref.dtype}"


def _load(op: ops.Load) -> str | None:
    if op.order is not None and op.ref.buffer.space is Space.CLUSTER:
        return f"an ordered load from {op.ref.buffer}"
    return None if op.result.dtype == op.ref.dtype else f"loads {op.ref.dtype} as {op.result.dtype}"


def _barrier(op: ops.NamedBarrier) -> str | None:
    return None if op.threads % WARP == 0 and 0 < op.threads <= MOST_THREADS else f"{op.threads} threads"


def _cast(op: ops.Cast) -> str | None:
    return f"bitcast of {op.a.dtype} to {op.result.dtype}" if op.bits and op.a.dtype.bits != op.result.dtype.bits \
        else None


def _special(op: ops.Special) -> str | None:
    return None if op.kind in ops.SPECIALS else f"unknown kind {op.kind!r}"


_MAPPED = (ops.Load, ops.Store, ops.Copy, ops.BulkCopy, ops.Inspect)  # what reads and writes memory of other blocks

_RULES: dict[type[ops.Op], Callable[..., str | None]] = {
    ops.Binary: _binary, ops.Unary: _unary, ops.If: _cond, ops.Select: _cond, ops.Assert: _cond, ops.For: _for,
    ops.Copy: _copy, ops.Gemm: _gemm, ops.Store: _store, ops.Load: _load, ops.NamedBarrier: _barrier, ops.Cast: _cast,
    ops.Special: _special, ops.Wgmma: _wgmma, **verify_hopper.RULES,
}
