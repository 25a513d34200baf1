"""Elementwise arithmetic of float32 two at a time, on architectures whose ordinary cores have it so (sm_100, sm_103).

In: a Map of float32 in registers whose body is sums, products and signs.  Out: a loop over pairs.

    fma_f32x2(r[2 * i], r[2 * i + 1], x[2 * i], x[2 * i + 1], s, s, y[2 * i], y[2 * i + 1]);    // one FFMA2

Both numbers round as by the instruction for one.  A product that one sum alone takes is fused with it, as the compiler
fuses the scalar form.  Source: PTX ISA, add, mul and fma of .f32x2.
"""

from __future__ import annotations

from moye.cuda.printing import tiles
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.expressions import Text, literal, prefix
from moye.cuda.printing.intrinsics import Intrinsics
from moye.dtypes import Space, float32
from moye.ir import ops
from moye.ir.nodes import Extent, Literal, Operand, TileRef, Value

ARCHITECTURES = range(100, 110)
"""Those with FFMA2; later ones take the instruction, and compute one number after the other."""
_PTX = {"add": "add.rn.f32x2", "mul": "mul.rn.f32x2", "fma": "fma.rn.f32x2"}
Pair = tuple[Text, Text]


def map_(kernel: Kernel, op: ops.Map) -> bool:
    """Print a Map two elements at a time; whether it can be."""
    d = _dimension(op) if kernel.capability in ARCHITECTURES else None
    if d is None or _is_added_up(kernel, op):
        return False
    refs = [op.dst, *op.sources]
    extents = [extent // 2 if i == d else extent for i, extent in enumerate(op.extents)]
    strides: list[list[Extent]] = [[_static(s) * 2 if i == d else s for i, s in enumerate(ref.strides)] for ref in refs]
    space = tiles.merged(extents, strides)
    kernel.values.before(op)
    known = {operand.id: _twice(kernel, operand) for operand in _outside(op)}
    with kernel.nest(space.loops(kernel)):
        for i, (value, source) in enumerate(zip(op.inputs, op.sources, strict=True), 1):
            if kernel.uses.count.get(value.id):
                known[value.id] = _elements(kernel, source, space, i, _static(source.strides[d]))
        _body(kernel, op, _elements(kernel, op.dst, space, 0, 1), known)
    return True


def _dimension(op: ops.Map) -> int | None:
    """The dimension along which neighbours lie in pairs of registers, if the body has packed instructions alone."""
    if op.dst.dtype is not float32 or not op.body.ops or op.body.ops[-1].defines() is not op.value or not all(
            _is_packed(inner) for inner in op.body.ops):
        return None
    refs = (op.dst, *op.sources)
    if any(ref.dtype is not float32 or ref.buffer.space is not Space.REGISTER or ref.swizzle is not None
           or (ref.buffer is op.dst.buffer and not _same(ref, op.dst)) for ref in refs):
        return None
    for d, extent in enumerate(op.extents):
        if extent % 2 == 0 and op.dst.strides[d] == 1 and all(_lies_in_pairs(ref, d) for ref in refs):
            return d
    return None


def _is_packed(op: ops.Op) -> bool:
    if isinstance(op, ops.Fma):
        return op.result.dtype is float32
    if isinstance(op, ops.Binary):
        return op.kind in ("add", "sub", "mul") and op.result.dtype is float32
    return isinstance(op, ops.Unary) and op.kind == "neg" and op.result.dtype is float32


def _same(a: TileRef, b: TileRef) -> bool:
    """Whether each point reads what it writes, so that no other point's element is overwritten."""
    return (a.offset, a.strides) == (b.offset, b.strides)


def _lies_in_pairs(ref: TileRef, d: int) -> bool:
    """Whether two neighbours are an even register and the next one, or one register twice."""
    if not isinstance(ref.offset, Literal) or not all(isinstance(stride, int) for stride in ref.strides):
        return False
    if ref.strides[d] == 0:
        return True
    rest = [stride for i, stride in enumerate(ref.strides) if i != d]
    return ref.strides[d] == 1 and int(ref.offset.value) % 2 == 0 and all(_static(s) % 2 == 0 for s in rest)


def _is_added_up(kernel: Kernel, op: ops.Map) -> bool:
    """Whether products go to a sum, which the compiler fuses with them one by one."""
    last = op.body.ops[-1]
    return isinstance(last, ops.Binary) and last.kind == "mul" and any(
        isinstance(user, ops.Reduce) and user.kind == "add" and user.src.buffer is op.dst.buffer
        for user in kernel.uses.ops)


def _static(stride: Extent) -> int:
    assert isinstance(stride, int), "the strides of registers are static"
    return stride


def _outside(op: ops.Map) -> list[Value]:
    """The scalars from around the Map that its body uses."""
    own = {value.id for value in op.inputs} | {inner.defines().id for inner in op.body.ops}  # type: ignore[union-attr]
    used = {x.id: x for inner in op.body.ops for x in inner.operands() if isinstance(x, Value)}
    return [x for x in used.values() if x.id not in own]


def _twice(kernel: Kernel, operand: Value) -> Pair:
    one = kernel.values.evaluated(operand)
    if not one.text.isidentifier():
        name = kernel.names.fresh(operand.name or "s")
        kernel.writer.line(f"const float {name} = {one.text};")
        one = Text(name)
    return one, one


def _elements(kernel: Kernel, ref: TileRef, space: tiles.IndexSpace, i: int, step: int) -> Pair:
    """Two neighbours, as they are read or set."""
    steps, memory = space.steps(kernel, i), kernel.memory
    first, second = (memory.element(ref, memory.offset(ref, steps, lane * step)) for lane in range(2))
    return first, second


# --- the body --------------------------------------------------------------------------------------------------------


def _body(kernel: Kernel, op: ops.Map, target: Pair, known: dict[int, Pair]) -> None:
    """The operations, the last one into ``target``; products that one sum takes are not written by themselves."""
    fused = _fused(kernel, op)
    for inner in op.body.ops:
        result = inner.defines()
        assert result is not None, "the body of a Map is pure"
        if id(inner) in fused.values() or id(inner) not in kernel.uses.live:
            continue
        if isinstance(inner, ops.Unary):
            known[result.id] = _negative(_pair(kernel, inner.a, known))
            if inner is op.body.ops[-1]:
                for place, value in zip(target, known[result.id], strict=True):
                    kernel.writer.line(f"{place.text} = {value.text};")
            continue
        kind, operands = _form(kernel, inner, fused, known)
        into = target
        if inner is not op.body.ops[-1]:
            names = [kernel.names.fresh(f"{result.name or 'pair'}_{lane}") for lane in range(2)]
            kernel.writer.line(f"float {', '.join(names)};")
            into = known[result.id] = Text(names[0]), Text(names[1])
        texts = [text.text for pair in (into, *operands) for text in pair]
        kernel.writer.line(f"{_function(kernel.helpers, kind)}({', '.join(texts)});")


def _fused(kernel: Kernel, op: ops.Map) -> dict[int, int]:
    """The product of each sum that takes one alone: id(sum) -> id(product)."""
    found: dict[int, int] = {}
    products = {inner.result.id: inner for inner in op.body.ops
                if isinstance(inner, ops.Binary) and inner.kind == "mul"}
    for inner in op.body.ops:
        if isinstance(inner, ops.Binary) and inner.kind in ("add", "sub"):
            for operand in (inner.a, inner.b):
                made = products.get(operand.id) if isinstance(operand, Value) else None
                if made is not None and kernel.uses.count.get(made.result.id) == 1:
                    found[id(inner)] = id(made)
                    break
    return found


def _form(kernel: Kernel, op: ops.Op, fused: dict[int, int], known: dict[int, Pair]) -> tuple[str, list[Pair]]:
    """The packed instruction of an operation, and its operands."""
    if isinstance(op, ops.Fma):
        return "fma", [_pair(kernel, x, known) for x in op.operands()]
    assert isinstance(op, ops.Binary), "a sum, a difference or a product"
    if (product := fused.get(id(op))) is None:
        a, b = (_pair(kernel, x, known) for x in (op.a, op.b))
        return ("add", [a, _negative(b)]) if op.kind == "sub" else (op.kind, [a, b])
    first = isinstance(op.a, Value) and id(op.a.op) == product
    made, other = (op.a, op.b) if first else (op.b, op.a)
    assert isinstance(made, Value) and isinstance(made.op, ops.Binary), "a product"
    a, b = (_pair(kernel, x, known) for x in (made.op.a, made.op.b))
    c = _pair(kernel, other, known)
    if op.kind == "sub":
        a, c = (a, _negative(c)) if first else (_negative(a), c)
    return "fma", [a, b, c]


def _pair(kernel: Kernel, operand: Operand, known: dict[int, Pair]) -> Pair:
    if isinstance(operand, Value):
        return known[operand.id]
    return (literal(operand.value, operand.dtype, kernel.helpers),) * 2


def _negative(pair: Pair) -> Pair:
    return prefix("-", pair[0]), prefix("-", pair[1])


def _function(helpers: Intrinsics, kind: str) -> str:
    """The inline function of a packed instruction on pairs of registers."""
    names = "abc"[:3 if kind == "fma" else 2]
    lanes = [f"{name}{lane}" for name in names for lane in range(2)]
    moves = " ".join(f"mov.b64 {name}, {{%{2 + 2 * i}, %{3 + 2 * i}}};" for i, name in enumerate(names))
    inputs = ", ".join(f'"f"({lane})' for lane in lanes)
    return helpers.function(
        f"{kind}_f32x2", f"void (float& y0, float& y1, {', '.join(f'float {lane}' for lane in lanes)})",
        f'asm("{{.reg .b64 {", ".join(names)}, y; {moves}"', f'    " {_PTX[kind]} y, {", ".join(names)};'
        f' mov.b64 {{%0, %1}}, y;}}" : "=f"(y0), "=f"(y1) : {inputs});')
