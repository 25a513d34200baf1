"""Conversions of several elements at once: float32 to 8-bit elements by fours, to 16-bit floats by twos, and back.

In: a Map that only converts, or one that ends in a conversion to 16 bits.  Out: a loop over words of its elements.

    packed(kernel, op)      # const unsigned w = to_e4m3x4(r[4 * i], r[4 * i + 1], ...); h[4 * i] = ...

ptxas merges the second pair of a word for free, which it does not where each pair is taken apart on its own.  Of two
scalar conversions to 16 bits that end up in one word it makes one packed one too: there, words are for the reader.
Source: PTX ISA, data movement and conversion instructions: cvt, cvt.pack, prmt.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.cuda.printing import tiles, vectors
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import run
from moye.cuda.printing.expressions import Text, from_bits, infix
from moye.cuda.printing.intrinsics import Intrinsics
from moye.dtypes import DType
from moye.ir import ops
from moye.ir.nodes import Block, Extent, TileRef, Value
from moye.passes.convert import FLOAT8, neighbours, packed_conversion

_PAIRS = (dt.float16, dt.bfloat16)


def packed(kernel: Kernel, op: ops.Map) -> bool:
    """Print a Map that only converts several elements at a time; whether it is one."""
    cast = packed_conversion(op)
    if cast is None:
        return False
    src, narrows = op.sources[0], cast.result.dtype.bits == 8
    found = neighbours(op.dst if narrows else src, op.extents)
    if found is None or op.dst.buffer is src.buffer:
        return False
    d, count = found
    words = [extent // count if i == d else extent for i, extent in enumerate(op.extents)]
    strides = [_static(op.dst), _static(src)]
    space = tiles.merged(words, [[s * count if i == d else s for i, s in enumerate(own)] for own in strides])
    kernel.values.before(op)
    with kernel.nest(space.loops(kernel)):
        to, of = ([kernel.memory.offset(ref, space.steps(kernel, i), lane * strides[i][d]) for lane in range(count)]
                  for i, ref in enumerate((op.dst, src)))
        elements = [kernel.memory.element(src, offset) for offset in of]
        values = _narrowed(kernel, op.dst.dtype, elements) if narrows else _widened(kernel, src.dtype, elements)
        for offset, value in zip(to, values, strict=True):
            kernel.writer.line(kernel.memory.set(op.dst, offset, value))
    return True


def paired(kernel: Kernel, op: ops.Map) -> bool:
    """Print a Map that ends in a conversion of float32 to 16-bit floats in words, two at a time; whether it is one."""
    cast = op.value.op if isinstance(op.value, Value) else None
    if not isinstance(cast, ops.Cast) or not _makes_pairs(kernel, op, cast):
        return False
    space = tiles.merged(op.extents, [op.dst.strides, *(source.strides for source in op.sources)])
    d = next((d for d, extent in enumerate(space.extents) if space.strides[0][d] == 1
              and isinstance(extent, int) and extent % 2 == 0), None)
    if d is None or not all(isinstance(strides[d], int) for strides in space.strides):
        return False
    pairs = tiles.IndexSpace([_scaled(extent, 1, 2) if i == d else extent for i, extent in enumerate(space.extents)],
                             [[_scaled(s, 2, 1) if i == d else s for i, s in enumerate(own)] for own in space.strides])
    word = kernel.memory.word(op.dst, pairs.steps(kernel, 0), 0, 2)
    if word is None:
        return False
    kernel.values.before(op)
    body = Block([inner for inner in op.body.ops if inner is not cast])
    with kernel.nest(pairs.loops(kernel)):
        elements = []
        for lane in range(2):
            tiles.inputs(kernel, op, pairs, [_scaled(own[d], lane, 1) for own in space.strides[1:]])
            run(kernel, body)
            elements.append(kernel.values.operand(cast.a).text)
        name = pair(kernel.helpers, op.dst.dtype)
        kernel.writer.line(f"{kernel.memory.name(op.dst.buffer)}[{word.text}] = {name}({', '.join(elements)});")
    return True


def _makes_pairs(kernel: Kernel, op: ops.Map, cast: ops.Cast) -> bool:
    """Whether the value of a Map is converted as it is stored, and to words that it does not read."""
    return not cast.bits and cast.a.dtype is dt.float32 and op.dst.dtype in _PAIRS and cast in op.body.ops \
        and kernel.uses.count[cast.result.id] == 1 and kernel.memory.in_words(op.dst.buffer) \
        and all(source.buffer is not op.dst.buffer for source in op.sources)


def _scaled(extent: Extent, by: int, over: int) -> int:
    """A static extent or stride in other units."""
    assert isinstance(extent, int), "the dimension of pairs is static"
    return extent * by // over


def _static(ref: TileRef) -> list[int]:
    """The strides of a register tensor, which are static."""
    return [stride for stride in ref.strides if isinstance(stride, int)]


def _narrowed(kernel: Kernel, dtype: DType, elements: list[Text]) -> list[Text]:
    """Floats as 8-bit elements of a word that is named before."""
    name, word = narrowing(kernel.helpers, dtype, len(elements)), kernel.names.fresh("w")
    kernel.writer.line(f"const unsigned {word} = {name}({', '.join(x.text for x in elements)});")
    shifted = [infix(">>", Text(word), Text(str(8 * lane))) if lane else Text(word) for lane in range(len(elements))]
    return [from_bits(dtype, bits, kernel.helpers) for bits in shifted]


def _widened(kernel: Kernel, dtype: DType, elements: list[Text]) -> list[Text]:
    """8-bit floats as float16, the halves of words that are named before."""
    count = len(elements)
    name, word = widening(kernel.helpers, dtype, count), kernel.names.fresh("w")
    packed_elements = vectors.packed(kernel, dtype, elements).text
    kernel.writer.line(f"const {'uint2' if count == 4 else 'unsigned'} {word} = {name}({packed_elements});")
    words = [Text(f"{word}.{'xy'[lane // 2]}" if count == 4 else word) for lane in range(count)]
    return [from_bits(dt.float16, infix(">>", half, Text("16")) if lane % 2 else half, kernel.helpers)
            for lane, half in enumerate(words)]


# --- device functions ------------------------------------------------------------------------------------------------


def narrowing(helpers: Intrinsics, dtype: DType, count: int) -> str:
    """The function from ``count`` floats to one word of 8-bit elements, the first lowest."""
    if dtype in FLOAT8:
        return _to_float8(helpers, dtype, count)
    kind = {"int8": "s8", "uint8": "u8"}[dtype.name]
    pairs = [f"cvt.pack.sat.{kind}.s32.b32 {{}}, %{i + 2}, %{i + 1}, {{}};" for i in range(0, count, 2)]
    ptx = [pairs[0].format("%0", "0")] if count == 2 else \
        ["{.reg .b32 high;", pairs[1].format("high", "0"), pairs[0].format("%0", "high") + "}"]
    inputs = ", ".join(f'"r"(__float2int_rz(x{i}))' for i in range(count))
    return helpers.function(f"to_{kind}x{count}", f"unsigned ({_floats(count)})", "unsigned y;",
                            *_asm(ptx, '"=r"(y)', inputs), "return y;")


def pair(helpers: Intrinsics, dtype: DType) -> str:
    """The function from two floats to one word of 16-bit floats, the first lowest."""
    return helpers.function(f"to_{dtype.cuda}x2", "unsigned (float x0, float x1)", "unsigned y;",
                            f'asm("cvt.rn.{dtype.cuda}x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1));', "return y;")


def _to_float8(helpers: Intrinsics, dtype: DType, count: int) -> str:
    cvt = f"cvt.rn.satfinite.{dtype.cuda}x2.f32"
    if count == 2:
        declared, ptx, out = "unsigned short y;", [f"{cvt} %0, %2, %1;"], '"=h"(y)'
    else:
        declared, out = "unsigned y;", '"=r"(y)'
        ptx = ["{.reg .b16 low, high;", f"{cvt} low, %2, %1;", f"{cvt} high, %4, %3;", "mov.b32 %0, {low, high};}"]
    inputs = ", ".join(f'"f"(x{i})' for i in range(count))
    return helpers.function(f"to_{dtype.cuda}x{count}", f"unsigned ({_floats(count)})", declared,
                            *_asm(ptx, out, inputs), "return y;", arch=89, what=f"conversions to {dtype}")


def _asm(ptx: list[str], out: str, inputs: str) -> list[str]:
    """One asm statement, an instruction a line."""
    first, *rest = [f'"{line}"' for line in ptx]
    return [f"asm({first}", *(f"    {line}" for line in rest), f"    : {out}", f"    : {inputs});"]


def _floats(count: int) -> str:
    return ", ".join(f"float x{i}" for i in range(count))


def widening(helpers: Intrinsics, dtype: DType, count: int) -> str:
    """The function from one word of 8-bit floats to as many float16, two in each word."""
    name, result = f"from_{dtype.cuda}x{count}", "uint2" if count == 4 else "unsigned"
    signature = f"{result} (unsigned x)"
    if dtype is dt.float8_e5m2:     # the upper byte of a float16
        low, high = "__byte_perm(x, 0, 0x1404)", "__byte_perm(x, 0, 0x3424)"
        body: tuple[str, ...] = (f"return make_uint2({low}, {high});" if count == 4 else f"return {low};",)
        return helpers.function(name, signature, *body)
    cvt = "cvt.rn.f16x2.e4m3x2"
    if count == 2:
        body = ("unsigned y;", f'asm("{cvt} %0, %1;" : "=r"(y) : "h"((unsigned short)x));', "return y;")
    else:
        ptx = ["{.reg .b16 low, high;", "mov.b32 {low, high}, %2;", f"{cvt} %0, low;", f"{cvt} %1, high;}}"]
        body = ("uint2 y;", *_asm(ptx, '"=r"(y.x), "=r"(y.y)', '"r"(x)'), "return y;")
    return helpers.function(name, signature, *body, arch=89, what=f"conversions from {dtype}")
