"""Questions about static layouts: are offsets distinct, do they fill a range, do a warp's accesses share banks?

In: a static Layout or ComposedLayout.  Out: booleans and counts.

>>> is_compact(Layout.parse("(4,8):(8,1)")), bank_conflict_degree(Layout.parse("32:32"), 32)
(True, 32)

Small layouts are enumerated; dynamic layouts raise FactError.
"""

from __future__ import annotations

from collections import defaultdict

from moye.errors import FactError, LayoutError
from moye.layout.layout import Layout, size
from moye.layout.swizzle import ComposedLayout

BANKS = 32
BANK_BITS = 32
WARP = 32


def offsets(layout: Layout | ComposedLayout) -> list[int]:
    """The table index -> offset."""
    count = size(layout)
    if not isinstance(count, int):
        raise FactError(f"the offsets of {layout} can be listed only where its size {count} is static")
    table = [layout(i) for i in range(count)]
    static = [offset for offset in table if isinstance(offset, int)]
    if len(static) != count:
        raise FactError(f"the offsets of {layout} can be listed only where its strides are static")
    return static


def is_injective(layout: Layout | ComposedLayout) -> bool:
    """Whether different coordinates have different offsets."""
    table = offsets(layout)
    return len(set(table)) == len(table)


def is_surjective(layout: Layout | ComposedLayout, codomain: int | None = None) -> bool:
    """Whether every offset below ``codomain`` (the largest offset plus one unless given) occurs."""
    image = set(offsets(layout))
    return image.issuperset(range(max(image, default=-1) + 1 if codomain is None else codomain))


def is_bijective(layout: Layout | ComposedLayout) -> bool:
    """Whether the offsets are a permutation of 0, 1, ..., size - 1."""
    table = offsets(layout)
    return set(table) == set(range(len(table)))


def is_compact(layout: Layout | ComposedLayout) -> bool:
    """Whether the layout leaves no holes and repeats nothing but by stride 0: its image is 0, 1, ..., n - 1."""
    return is_surjective(layout)


def bank_conflict_degree(layout: Layout | ComposedLayout, element_bits: int, vector: int = 1) -> int:
    """How often a warp's shared access is replayed: 1 is free of conflicts.

    ``layout`` maps a thread to the offset of its first element; each thread accesses ``vector`` elements.  Accesses of
    8 and 16 bytes go in halves and quarters of a warp; threads that read the same 32-bit word do not conflict.
    """
    bits = element_bits * vector
    if bits <= 0 or bits > 128:
        raise LayoutError(f"an access of {vector} elements of {element_bits} bits is {bits} bits wide, not 1 to 128")
    together = WARP // max(1, bits // BANK_BITS)
    threads = offsets(layout)[:WARP]
    worst = 1
    for first in range(0, len(threads), together):
        words: dict[int, set[int]] = defaultdict(set)
        for offset in threads[first:first + together]:
            begin = offset * element_bits
            for word in range(begin // BANK_BITS, (begin + bits - 1) // BANK_BITS + 1):
                words[word % BANKS].add(word)
        worst = max([worst, *map(len, words.values())])
    return worst
