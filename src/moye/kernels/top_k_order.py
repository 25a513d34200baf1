"""The order of elements in ``top_k``: an unsigned number for each, and for its place behind it.

In: bits of an element.  Out: its key.  Greater keys come first; NaN is the largest, and zeros are equal.
A key and a place are a word, of which no two are equal, and of equal elements the first is greatest: one number, or of
elements of 64 bits two, its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo


@dataclass(frozen=True, slots=True)
class Order:
    """``key``: the dtype of keys; ``infinity``: the bits of an infinite element; ``largest``: else the least first."""

    key: Any
    infinity: int
    largest: bool


_INFINITY = {"bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def make_order(dtype: Any, largest: bool) -> Order:
    """The order of elements of a dtype."""
    return Order(mo.uint64 if dtype.bytes == 8 else mo.uint32, _INFINITY[dtype.name], largest)


def word_parts(dtype: Any, n: int) -> tuple[Any, ...]:
    """The dtypes of the parts of a word of rows of n elements."""
    if dtype.bytes == 8:
        return mo.uint64, mo.uint32
    return (mo.uint32 if dtype.bytes == 2 and n <= 1 << 16 else mo.uint64,)


@mo.jit
def key_of(order, bits, size):
    """The key of an element of ``size`` bits."""
    sign, full = 1 << (size - 1), (1 << size) - 1
    b = order.key(bits)
    magnitude = b & (sign - 1)
    key = mo.where((b & sign) != 0, full - b, b | sign)
    key = mo.where(magnitude == 0, order.key(sign), key)
    key = mo.where(magnitude > order.infinity, order.key(full), key)
    return key if order.largest else full - key


@mo.jit
def keys_of(order, width, bits, t):
    """(index, key, whether it is there) of each element of vector t of a row, ``width`` together."""
    held, n, found = mo.fragment((width,), bits.dtype), mo.size(bits, 0), []                # (width)
    inside = mo.elem_less(mo.tile(mo.identity_tensor((n,)), (width,), (t,), ragged=True), (n,))
    mo.copyto(held, mo.tile(bits, (width,), (t,), ragged=True), pred=inside, zero_fill=True)
    for j in mo.static_range(width):
        found.append((t * width + j, key_of(order, held[j], bits.dtype.bits), t * width + j < n))
    return found


@mo.jit
def word_of(parts, key, index):
    """The parts of an element's word."""
    if len(parts) == 2:
        return key, (1 << 32) - 1 - mo.uint32(index)
    half = 4 * parts[0].bytes
    return ((parts[0](key) << half) | ((1 << half) - 1 - parts[0](index)),)


@mo.jit
def place_of(word):
    """Where the element of a word is."""
    half = 32 if len(word) == 2 else 4 * word[0].dtype.bytes
    return mo.int32((1 << half) - 1 - (word[-1] & ((1 << half) - 1)))
