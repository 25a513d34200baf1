"""Accesses of several elements at once: float4 loads and stores, spread over or gathered from register arrays.

In: two references and their offsets.  Out: lines that move ``width`` elements with one access per memory.

>>> move(kernel, dst, Text("4 * i"), src, Text("tid"), 4, None)   # const float4 v = ...; r[4 * i] = v.x; ...

Elements narrower than 32 bits travel in unsigned words and are shifted out of them: an array of registers is never
reinterpreted, which could send it to local memory.
"""

from __future__ import annotations

from moye.cuda.expressions import SELECT, Text, c_cast, call, from_bits, infix, total
from moye.cuda.kernel import Kernel
from moye.dtypes import DType, Space
from moye.ir.nodes import TileRef

_FIELDS = "xyzw"
_TYPES = {("float", 2): "float2", ("float", 4): "float4", ("double", 2): "double2", ("int", 2): "int2",
          ("int", 4): "int4", ("unsigned", 2): "uint2", ("unsigned", 4): "uint4", ("long long", 2): "longlong2",
          ("unsigned long long", 2): "ulonglong2"}
_WORDS = {16: "unsigned short", 32: "unsigned", 64: "uint2", 128: "uint4"}


def vector_type(dtype: DType, width: int) -> str | None:
    """The C type of one access of ``width`` elements, None where there is none."""
    if dtype.bits < 32:
        return _WORDS.get(dtype.bits * width)
    return _TYPES.get((dtype.cuda, width))


def access_width(dst: TileRef, src: TileRef, width: int) -> int:
    """The elements that one access really moves: at most 16 bytes, one between registers."""
    if dst.buffer.space is Space.REGISTER and src.buffer.space is Space.REGISTER:
        return 1
    while width > 1 and vector_type(dst.dtype, width) is None:
        width = width // 2 if width % 2 == 0 else 1
    return width


def move(kernel: Kernel, dst: TileRef, to: Text, src: TileRef, at: Text, width: int, zeros: Text | None) -> None:
    """``width`` elements from src to dst; zeros where the text ``zeros`` is false."""
    ctype = vector_type(src.dtype, width) or ""
    memory = kernel.memory
    if src.buffer.space is Space.REGISTER:
        value = _gathered(kernel, src, at, width, ctype)
    else:
        value = memory.vector(src, at, ctype)
    if zeros is not None:
        value = Text(f"{zeros.at(SELECT + 1)} ? {value.at(SELECT)} : {_zero(ctype)}", SELECT)
    if dst.buffer.space is not Space.REGISTER:
        kernel.writer.line(f"{memory.vector(dst, to, ctype).text} = {value.text};")
        return
    name = kernel.names.fresh("v")
    kernel.writer.line(f"const {ctype} {name} = {value.text};")
    for lane in range(width):
        place = memory.element(dst, total([to, Text(str(lane * dst.lane))]))
        kernel.writer.line(f"{place.text} = {_lane(kernel, name, ctype, dst.dtype, lane).text};")


def _zero(ctype: str) -> str:
    if ctype.startswith("unsigned"):
        return f"({ctype})0" if ctype == "unsigned short" else "0u"
    count = int(ctype[-1])
    return f"make_{ctype}({', '.join(['0'] * count)})"


def _lane(kernel: Kernel, name: str, ctype: str, dtype: DType, lane: int) -> Text:
    """Element ``lane`` of a loaded vector."""
    if dtype.bits >= 32:
        return Text(f"{name}.{_FIELDS[lane]}")
    per_word = max(32 // dtype.bits, 1)
    word = Text(name if ctype.startswith("unsigned") else f"{name}.{_FIELDS[lane // per_word]}")
    return part_of_word(kernel, word, dtype, lane % per_word)


def part_of_word(kernel: Kernel, word: Text, dtype: DType, part: int) -> Text:
    """Narrow element ``part`` of an unsigned word, the first lowest."""
    shift = part * dtype.bits
    return from_bits(dtype, infix(">>", word, Text(str(shift))) if shift else word, kernel.helpers)


def _gathered(kernel: Kernel, src: TileRef, at: Text, width: int, ctype: str) -> Text:
    """``width`` register elements as one vector."""
    elements = [kernel.memory.element(src, total([at, Text(str(lane * src.lane))])) for lane in range(width)]
    if src.dtype.bits >= 32:
        return Text(f"make_{ctype}({', '.join(element.text for element in elements)})")
    per_word = max(32 // src.dtype.bits, 1)
    words = [packed(kernel, src.dtype, elements[first:first + per_word]) for first in range(0, width, per_word)]
    if ctype.startswith("unsigned"):
        return c_cast(ctype, words[0]) if ctype == "unsigned short" else words[0]
    return Text(f"make_{ctype}({', '.join(word.text for word in words)})")


def packed(kernel: Kernel, dtype: DType, elements: list[Text]) -> Text:
    """Narrow elements as one unsigned word, the first lowest."""
    return call(kernel.helpers.pack(dtype, len(elements)), *elements)
