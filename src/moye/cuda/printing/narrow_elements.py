"""Narrow elements in 32-bit words: where an element is, how it is taken out of its word and put into it.

In: the index of an element, its dtype, the name of a word array.  Out: ``Text`` and statements.

    element("tCrA", Text("i"), float16, helpers)      # 'f16{(unsigned short)(tCrA[i / 2] >> i % 2 * 16)}'

The operands of tensor cores are such words: fragments that are stored so are never packed or unpacked on their way.
Which buffers these are is in ``uses.py``.
"""

from __future__ import annotations

from moye.cuda.printing.expressions import MUL, PRIMARY, Text, bits_of, c_cast, from_bits, infix, number
from moye.cuda.printing.intrinsics import Intrinsics
from moye.dtypes import DType, Kind


def per_word(dtype: DType) -> int:
    """Elements in 32 bits."""
    return max(1, 32 // dtype.bits)


def split(index: Text, dtype: DType) -> tuple[Text, Text]:
    """(word, bits to shift by) of an element."""
    count = per_word(dtype)
    at = number(index)
    if count == 1:
        return index, Text("0")
    if at is not None:
        return Text(str(at // count)), Text(str(at % count * dtype.bits))
    lane = infix("%", index, Text(str(count)))
    return infix("/", index, Text(str(count))), Text(f"{lane.text} * {dtype.bits}", MUL, index.deps)


def element(name: str, index: Text, dtype: DType, helpers: Intrinsics) -> Text:
    """The value of an element."""
    at, shift = split(index, dtype)
    word = Text(f"{name}[{at.text}]", PRIMARY, index.deps)
    if dtype.bits == 32 and dtype.kind is Kind.UINT:
        return word
    if dtype.bits >= 8:
        return from_bits(dtype, word if shift.text == "0" else infix(">>", word, shift), helpers)
    if dtype.kind is Kind.UINT:
        whole = word if shift.text == "0" else infix(">>", word, shift)
        return c_cast(dtype.cuda, infix("&", whole, Text(f"{(1 << dtype.bits) - 1}u")))
    up = infix("-", Text(str(32 - dtype.bits)), shift)
    high = c_cast("int", infix("<<", word, up))
    return c_cast(dtype.cuda, infix(">>", high, Text(str(32 - dtype.bits))))


def put(name: str, index: Text, dtype: DType, value: Text, helpers: Intrinsics) -> str:
    """The statement that sets an element."""
    at, shift = split(index, dtype)
    bits = bits_of(dtype, value)
    if dtype.bits == 32:
        return f"{name}[{at.text}] = {bits.text};"
    mask = f"{(1 << dtype.bits) - 1:#x}u"
    function = helpers.function(f"put_{dtype.bits}", "void (unsigned& word, int shift, unsigned x)",
                                f"word = word & ~({mask} << shift) | (x & {mask}) << shift;")
    return f"{function}({name}[{at.text}], {shift.text}, {bits.text});"
