"""Elementwise arithmetic of 16-bit floats two at a time: words of registers, one packed instruction for each operation.

In: a Map of float16 or bfloat16 whose body has packed instructions.  Out: a loop over words.

    r[i] = fma_f16x2(x[i], pack(s, s), x[i]);

Each half rounds as the scalar instruction does.  bfloat16 has packed sums and products from sm_90 on only, and a packed
fma before: sums are a * 1 + b, products a * b - 0, which round the same.  Source: PTX ISA, half precision instructions.
"""

from __future__ import annotations

from moye.cuda.printing import tiles, vectors
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.expressions import Text, call, literal
from moye.cuda.printing.intrinsics import NARROW_APPROXIMATIONS, Intrinsics
from moye.dtypes import DType
from moye.ir import ops
from moye.ir.nodes import Extent, Literal, Operand, TileRef, Value
from moye.passes.halves import pairable

_TWICE = {("bf16", "add"): "fma.rn.bf16x2 %0, %1, %3, %2;", ("bf16", "sub"): "fma.rn.bf16x2 %0, %2, %3, %1;",
          ("bf16", "mul"): "fma.rn.bf16x2 %0, %1, %2, %3;"}
_THIRD = {"add": 0x3F803F80, "sub": 0xBF80BF80, "mul": 0x80008000}     # 1, -1 and -0, twice


def map_(kernel: Kernel, op: ops.Map) -> bool:
    """Print a Map two elements at a time; whether it can be."""
    d = pairable(op)
    if d is None or any(_crosses(op.dst, source) for source in op.sources):
        return False
    refs = [op.dst, *op.sources]
    extents = [extent // 2 if i == d else extent for i, extent in enumerate(op.extents)]
    strides: list[list[Extent]] = [[_static(s) * 2 if i == d else s for i, s in enumerate(ref.strides)] for ref in refs]
    space = tiles.merged(extents, strides)
    to = kernel.memory.word(op.dst, space.steps(kernel, 0), 0, 2)
    if to is None:
        return False
    kernel.values.before(op)
    known: dict[int, Text] = {}
    for operand in _outside(op):
        known[operand.id] = _twice(kernel, operand)
    with kernel.nest(space.loops(kernel)):
        for i, (value, source) in enumerate(zip(op.inputs, op.sources, strict=True), 1):
            if kernel.uses.count.get(value.id):
                known[value.id] = _source(kernel, source, space, i, _static(source.strides[d]),
                                          often=kernel.uses.count[value.id] > 1)
        for inner in op.body.ops:
            if id(inner) in kernel.uses.live:
                _operation(kernel, inner, known)
        value_ = _word(kernel, op.value, known)
        kernel.writer.line(f"{kernel.memory.name(op.dst.buffer)}[{to.text}] = {value_.text};")
    return True


def _crosses(dst: TileRef, source: TileRef) -> bool:
    """Whether an element may be written before another point of the index space reads it."""
    same = (dst.offset, dst.strides, dst.dtype) == (source.offset, source.strides, source.dtype)
    return dst.buffer is source.buffer and not same


def _static(stride: Extent) -> int:
    assert isinstance(stride, int), "the strides of registers are static"
    return stride


def _outside(op: ops.Map) -> list[Value]:
    """The values from around the Map that its body uses."""
    own = {value.id for value in op.inputs} | {inner.defines().id for inner in op.body.ops}  # type: ignore[union-attr]
    used = [x for inner in op.body.ops for x in inner.operands()] + [op.value]
    found = {x.id: x for x in used if isinstance(x, Value) and x.id not in own}
    return list(found.values())


def _twice(kernel: Kernel, operand: Value) -> Text:
    """A scalar in both halves of a word."""
    one = kernel.values.evaluated(operand)
    name = kernel.names.fresh(f"{operand.name or 's'}_x2")
    kernel.writer.line(f"const unsigned {name} = {vectors.packed(kernel, operand.dtype, [one, one]).text};")
    return Text(name)


def _source(kernel: Kernel, ref: TileRef, space: tiles.IndexSpace, i: int, step: int, *, often: bool) -> Text:
    """Two elements of a source as a word."""
    steps = space.steps(kernel, i)
    word = kernel.memory.word(ref, steps, 0, 2) if step == 1 else None
    if word is not None:
        found = Text(f"{kernel.memory.name(ref.buffer)}[{word.text}]")
    else:
        halves = [kernel.memory.element(ref, kernel.memory.offset(ref, steps, lane * step)) for lane in range(2)]
        found = vectors.packed(kernel, ref.dtype, halves)
    if not often:
        return found
    name = kernel.names.fresh(f"{ref.name or ref.buffer.name}_i")
    kernel.writer.line(f"const unsigned {name} = {found.text};")
    return Text(name)


def _word(kernel: Kernel, operand: Operand, known: dict[int, Text]) -> Text:
    if isinstance(operand, Value):
        return known[operand.id]
    one = int(literal_bits(operand), 16)
    return Text(f"{one << 16 | one:#010x}u")


def literal_bits(operand: Literal) -> str:
    """The bits of a 16-bit float, in hexadecimal digits."""
    text = literal(operand.value, operand.dtype, Intrinsics()).text
    return text[text.index("{") + 1:-1]


def _operation(kernel: Kernel, op: ops.Op, known: dict[int, Text]) -> None:
    """One packed operation; a result that is used more than once has a name."""
    result = op.defines()
    assert result is not None, "the body of a Map is pure"
    kind = "fma" if isinstance(op, ops.Fma) else op.kind  # type: ignore[attr-defined]
    fast = isinstance(op, ops.Unary) and op.fast
    found = call(function(kernel.helpers, kind, result.dtype, fast), *(_word(kernel, x, known) for x in op.operands()))
    if kernel.uses.count.get(result.id, 0) > 1:
        name = kernel.names.fresh(result.name or "pair")
        kernel.writer.line(f"const unsigned {name} = {found.text};")
        found = Text(name)
    known[result.id] = found


def function(helpers: Intrinsics, kind: str, dtype: DType, fast: bool) -> str:
    """The function of one packed operation on words."""
    ctype = dtype.cuda
    count = 3 if kind == "fma" else 2 if kind in ops.NARROW_ARITHMETIC else 1
    names = "abc"[:count]
    inputs = ", ".join(f'"r"({name})' for name in names)
    signature = f"unsigned ({', '.join(f'unsigned {name}' for name in names)})"
    if (ctype, kind) in _TWICE:
        ptx, inputs = _TWICE[ctype, kind], f'{inputs}, "r"({_THIRD[kind]:#010x}u)'
    else:
        places = ", ".join(f"%{i + 1}" for i in range(count))
        ptx = f"{_instruction(kind, ctype, fast)}x2 %0, {places};"
    body = f'asm("{ptx}" : "=r"(y) : {inputs});'
    if fast and ctype == "bf16":
        one, word = helpers.approx_16(kind, dtype), helpers.pack(dtype, 2)
        halves = f"{word}({one}(bf16{{(unsigned short)a}}), {one}(bf16{{(unsigned short)(a >> 16)}}))"
        body = f"\n#if __CUDA_ARCH__ >= 900\n    {body}\n#else\n    y = {halves};\n#endif"
    return helpers.function(f"{kind}_{ctype}x2", signature, "unsigned y;", body, "return y;")


def _instruction(kind: str, ctype: str, fast: bool) -> str:
    if fast:
        return NARROW_APPROXIMATIONS[kind, ctype]
    return f"{kind}.{'rn.' if kind in ('add', 'sub', 'mul', 'fma') else ''}{ctype}"
