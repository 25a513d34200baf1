"""Accesses of several elements at once: float4 loads and stores, spread over or gathered from register arrays.

In: two ends, each a reference and its offset.  Out: lines that move ``width`` elements with one access per memory.

    move(kernel, End(dst, Text("4 * i")), End(src, Text("tid")), 4, None)   # const float4 v = ...; r[4 * i] = v.x; ...

Elements narrower than 32 bits travel in unsigned words and are shifted out of them, or moved as words into registers
that are stored so: an array of registers is never reinterpreted, which could send it to local memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.expressions import SELECT, Text, bits_of, c_cast, call, from_bits, infix, total
from moye.dtypes import DType, Space
from moye.ir.nodes import TileRef

_FIELDS = "xyzw"
_TYPES = {("float", 2): "float2", ("float", 4): "float4", ("double", 2): "double2", ("int", 2): "int2",
          ("int", 4): "int4", ("unsigned", 2): "uint2", ("unsigned", 4): "uint4", ("long long", 2): "longlong2",
          ("unsigned long long", 2): "ulonglong2"}
_WORDS = {16: "unsigned short", 32: "unsigned", 64: "uint2", 128: "uint4"}


@dataclass(frozen=True, slots=True)
class End:
    """One side of an access: the first element's offset, and the index of its word where the elements fill words."""

    ref: TileRef
    at: Text
    word: Text | None = None


def vector_type(dtype: DType, width: int) -> str | None:
    """The C type of one access of ``width`` elements; None if there is none."""
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


def move(kernel: Kernel, dst: End, src: End, width: int, zeros: Text | None = None, other: Text | None = None) -> None:
    """``width`` elements from src to dst; zeros, or ``other`` in each, where the text ``zeros`` is false."""
    ctype = vector_type(src.ref.dtype, width) or ""
    memory, to = kernel.memory, dst.ref
    if src.ref.buffer.space is Space.REGISTER:
        value = _gathered(kernel, src, width, ctype)
    else:
        value = memory.vector(src.ref, src.at, ctype)
    if zeros is not None:
        fill = Text(_zero(ctype)) if other is None else _filled(kernel, to.dtype, other, width, ctype)
        value = Text(f"{zeros.at(SELECT + 1)} ? {value.at(SELECT)} : {fill.at(SELECT)}", SELECT)
    if to.buffer.space is not Space.REGISTER:
        kernel.writer.line(memory.set_vector(to, dst.at, ctype, value))
        return
    if dst.word is not None and ctype == "unsigned":
        kernel.writer.line(f"{memory.name(to.buffer)}[{dst.word.text}] = {value.text};")
        return
    name = kernel.names.fresh("v")
    kernel.writer.line(f"const {ctype} {name} = {value.text};")
    if dst.word is not None:
        for i in range(to.dtype.bits * width // 32):
            place = f"{memory.name(to.buffer)}[{total([dst.word, Text(str(i))]).text}]"
            kernel.writer.line(f"{place} = {_word(name, ctype, i, to.dtype)};")
        return
    for lane in range(width):
        at = total([dst.at, Text(str(lane * to.lane))])
        kernel.writer.line(memory.set(to, at, _lane(kernel, name, ctype, to.dtype, lane)))


def _word(name: str, ctype: str, i: int, dtype: DType) -> str:
    """Word ``i`` of a loaded vector."""
    if dtype.bits == 32:
        return bits_of(dtype, Text(f"{name}.{_FIELDS[i]}")).text
    return name if ctype.startswith("unsigned") else f"{name}.{_FIELDS[i]}"


def _zero(ctype: str) -> str:
    if ctype.startswith("unsigned"):
        return f"({ctype})0" if ctype == "unsigned short" else "0u"
    count = int(ctype[-1])
    return f"make_{ctype}({', '.join(['0'] * count)})"


def _filled(kernel: Kernel, dtype: DType, other: Text, width: int, ctype: str) -> Text:
    """A vector whose elements are all the same."""
    if dtype.bits >= 32:
        return _vector(ctype, [other] * width)
    each = max(32 // dtype.bits, 1)
    words = [packed(kernel, dtype, [other] * min(each, width)) for _ in range(0, width, each)]
    return _vector(ctype, words)


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


def _gathered(kernel: Kernel, src: End, width: int, ctype: str) -> Text:
    """``width`` register elements as one vector."""
    ref, memory = src.ref, kernel.memory
    if src.word is not None and ref.dtype.bits < 32:
        parts = [Text(f"{memory.name(ref.buffer)}[{total([src.word, Text(str(i))]).text}]")
                 for i in range(ref.dtype.bits * width // 32)]
        return _vector(ctype, parts)
    elements = [memory.element(ref, total([src.at, Text(str(lane * ref.lane))])) for lane in range(width)]
    if ref.dtype.bits >= 32:
        return _vector(ctype, elements)
    each = max(32 // ref.dtype.bits, 1)
    return _vector(ctype, [packed(kernel, ref.dtype, elements[first:first + each]) for first in range(0, width, each)])


def _vector(ctype: str, parts: list[Text]) -> Text:
    if ctype.startswith("unsigned"):
        return c_cast(ctype, parts[0]) if ctype == "unsigned short" else parts[0]
    return Text(f"make_{ctype}({', '.join(part.text for part in parts)})")


def packed(kernel: Kernel, dtype: DType, elements: list[Text]) -> Text:
    """Narrow elements as one unsigned word, the first lowest."""
    return call(kernel.helpers.pack(dtype, len(elements)), *elements)
