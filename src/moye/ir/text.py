"""The IR as text, for golden files, ``MOYE_SHOW=ir`` and reading.

In: a Func.  Out: one line per op, regions indented.

    print(to_text(func))

Values are numbered in order of definition, so that equal traces print equally.
"""

from __future__ import annotations

from dataclasses import fields

from moye.ir import ops
from moye.ir.nodes import (
    Block,
    Buffer,
    Func,
    Index,
    Literal,
    Operand,
    Ref,
    ScalarParam,
    TensorParam,
    TileRef,
    Value,
    Var,
)

_HIDDEN = {"loc", "trips", "result", "body", "then", "orelse", "target", "iv", "inputs"}
_UNUSUAL = ("group", "tested")  # said where they are not the default


class _Names:
    def __init__(self) -> None:
        self.ids: dict[int, int] = {}

    def value(self, value: Value) -> str:
        number = self.ids.setdefault(value.id, len(self.ids))
        return f"%{number}" + (f".{value.name}" if value.name else "")

    def place(self, buffer: Buffer) -> str:
        """What a reference points into, with its address where that is in another block."""
        return buffer.name if buffer.base is None else f"{buffer.name}@{self.value(buffer.base)}"

    def show(self, x: object) -> str:
        if isinstance(x, Value):
            return self.value(x)
        if isinstance(x, Literal):
            return f"{x.value}" if x.dtype.name in ("int32", "bool") else f"{x.value}:{x.dtype}"
        if isinstance(x, Var):
            return f"@{x.name}"
        if isinstance(x, Buffer):
            return f"{x.space.value} {x.name}: {x.dtype} {x.layout}"
        if isinstance(x, Ref):
            return f"{self.place(x.buffer)}[{self.show(x.offset)}]"
        if isinstance(x, TileRef):
            return f"{self.place(x.buffer)}[{self.show(x.offset)} + {self.show(x.strides)}]"
        if isinstance(x, Index):
            steps = f" + {self.show(x.strides)}" if x.strides else ""
            return f"{x.view}.{x.mode}: {self.show(x.offset)}{steps} < {self.show(x.extent)}"
        if isinstance(x, tuple):
            return "(" + ", ".join(self.show(item) for item in x) + ")"
        return str(x)


def to_text(func: Func) -> str:
    """The whole function."""
    names = _Names()
    cluster = "" if func.cluster_dim == (1, 1, 1) else f", cluster {func.cluster_dim}"
    lines = [f"kernel {func.name}, block {func.block_dim}{cluster}, index int{func.index_bits}"]
    for param in func.params:
        if isinstance(param, TensorParam):
            lines.append(f"  param {param.name}: {param.buffer.dtype} {names.show(param.shape)}:"
                         f"{names.show(param.strides)} align {param.buffer.align}")
        elif isinstance(param, ScalarParam):
            lines.append(f"  param {names.value(param.value)}: {param.value.dtype}")
    for guard in func.guards:
        lines.append(f"  guard {_formula(guard.cond, names)}: {guard.message}")
    _block(func.body, names, lines, 1)
    return "\n".join(lines) + "\n"


def _formula(operand: Operand, names: _Names) -> str:
    """A guard's condition written out: launch evaluates it, so that its ops need not be in the body."""
    op = operand.op if isinstance(operand, Value) else None
    if isinstance(op, ops.Special):
        return op.kind
    if op is not None and ops.Trait.ARITHMETIC in op.traits:
        kind = getattr(op, "kind", type(op).__name__.lower())
        return f"{kind}({', '.join(_formula(o, names) for o in op.operands())})"
    return names.show(operand)


def _block(block: Block, names: _Names, lines: list[str], depth: int) -> None:
    for op in block.ops:
        lines.append("  " * depth + _line(op, names))
        regions = list(op.blocks())
        for i, region in enumerate(regions):
            if i and region.ops:
                lines.append("  " * depth + "else")
            _block(region, names, lines, depth + 1)


def _line(op: ops.Op, names: _Names) -> str:
    if isinstance(op, ops.For):
        return f"for {names.value(op.iv)} in {names.show(op.start)} .. {names.show(op.stop)} " \
               f"step {names.show(op.step)} unroll {op.unroll}"
    result = op.defines()
    head = "" if result is None else f"{names.value(result)}: {result.dtype} = "
    parts = [f"{f.name}={names.show(getattr(op, f.name))}" for f in fields(op)
             if f.name not in _HIDDEN and getattr(op, f.name) not in (None, ())
             and not (f.name in _UNUSUAL and getattr(op, f.name) == f.default)]
    if isinstance(op, ops.Bounds):                      # its places are of values that its body defines, below
        parts = [f"{op.buffer.name} checks={names.show(op.checks)}"]
    if isinstance(op, ops.Map):
        parts.insert(0, "inputs=" + names.show(op.inputs))
    return f"{head}{type(op).__name__} {' '.join(parts)}".rstrip()
