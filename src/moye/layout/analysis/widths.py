"""The widest vector with which one layout can be copied to another, and why it is not wider.

In: two static layouts of one size, the width of an element, the alignment of both bases.  Out: a ``VectorWidth``.

>>> print(vector_width(make_layout((8, 4), (1, 10)), make_layout((8, 4)), 32).why)
stride 10 of mode 1 of dst (8,4):(1,10) is no multiple of 4

The answer is for the whole copy: every vector is aligned and contiguous in both layouts, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from moye.errors import LayoutError
from moye.layout.inverse import max_common_layout, right_inverse
from moye.layout.layout import Layout, size
from moye.layout.swizzle import ComposedLayout
from moye.layout.tables import LIMIT, AnyLayout, element_count, offsets, plain, static_modes, static_offset

WIDEST = 128
"""Bits of the widest access of one thread."""
LISTED = 1 << 14
"""Two swizzled layouts of up to so many elements are compared element by element; larger ones each by their own
swizzle.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many elements, for a reason."""

    elements: int
    reason: str


@dataclass(frozen=True, slots=True)
class VectorWidth:
    """The widest vector: ``elements`` of ``element_bits`` bits, and what limits it, tightest limit first."""

    elements: int
    element_bits: int
    limits: tuple[Limit, ...]

    @property
    def bits(self) -> int:
        return self.elements * self.element_bits

    @property
    def why(self) -> str:
        """One sentence: why twice as many elements are too many."""
        return self.limits[0].reason

    def __str__(self) -> str:
        shown = [limit for limit in self.limits if limit.elements < WIDEST // self.element_bits] or self.limits[:1]
        wide = max(len(str(limit.elements)) for limit in shown)
        head = f"{self.elements} x {self.element_bits} bits = {self.bits} bits"
        return "\n".join([head, *(f"  at most {limit.elements:>{wide}}: {limit.reason}" for limit in shown)])


def vector_width(dst: AnyLayout, src: AnyLayout, element_bits: int, *, dst_alignment: int = 16,
                 src_alignment: int = 16, max_bits: int = WIDEST) -> VectorWidth:
    """The widest vector that copies ``dst(i) = src(i)`` for all i with aligned accesses on both sides.

    ``element_bits`` is a power of two, and ``*_alignment`` is what is known of the base addresses, in bytes.  Law: the
    elements fall into groups of ``elements``, each a run from a multiple of ``elements`` in both layouts, in one order.
    LayoutError if the sizes differ, FactError for dynamic leaves.  Source: CuTe, cute/algorithm/copy.hpp.
    """
    if element_bits <= 0 or element_bits & (element_bits - 1) or max_bits < element_bits:
        raise LayoutError(f"vector_width takes elements of 2^n bits up to {max_bits}, not of {element_bits}")
    sides = [_Side("dst", dst, dst_alignment), _Side("src", src, src_alignment)]
    counts = [element_count(static_modes(side.layout, f"vector_width of {side}")) for side in sides]
    if counts[0] != counts[1]:
        raise LayoutError(f"vector_width of {sides[0]} and {sides[1]}: their sizes {counts[0]} and {counts[1]} differ")
    if counts[0] == 0:
        raise LayoutError(f"vector_width of {sides[0]} and {sides[1]}: they have no elements")
    common = max_common_layout(plain(dst), plain(src))
    limits = [Limit(_power(max_bits // element_bits), f"an access has at most {max_bits} bits")]
    limits.append(_run(sides, common, counts[0]))
    for side in sides:
        limits += _limits_of(side, common, element_bits)
    swizzled = [limit for side in sides for limit in _swizzle_limit(side)]
    if len(swizzled) == 2 and counts[0] <= LISTED:      # two swizzles may move a vector's elements alike
        widest = min(limit.elements for limit in limits)
        together = _together(sides, widest)
        swizzled = [] if together == widest else [replace(limit, elements=together) for limit in swizzled]
    limits += swizzled
    limits.sort(key=lambda limit: limit.elements)
    return VectorWidth(limits[0].elements, element_bits, tuple(limits))


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    layout: AnyLayout
    alignment: int

    def __str__(self) -> str:
        return f"{self.name} {self.layout}"


def _power(n: int) -> int:
    """The largest power of two that divides n > 0."""
    return n & -n


def _elements(n: int) -> str:
    return f"{n} element{'s' * (n != 1)}"


def _run(sides: list[_Side], common: Layout, count: int) -> Limit:
    """The elements that are contiguous in both layouts."""
    run = _static_size(common)
    limit = _power(run)
    if run == count:
        return Limit(limit, f"there {'is' if count == 1 else 'are'} {_elements(count)}")
    if run != limit:
        return Limit(limit, f"runs of {run} contiguous elements do not split into vectors of {2 * limit}")
    for side in sides:
        if _static_size(right_inverse(plain(side.layout))) == run:
            modes = static_modes(side.layout, "vector_width")
            used = _index_runs(modes, common)
            ends = f"runs end with mode {used[-1]}, and no mode has stride {run}" if used else "no mode has stride 1"
            return Limit(limit, f"{side} is contiguous for {_elements(run)}: {ends}")
    return Limit(limit, f"{sides[0]} and {sides[1]} go through memory in different orders after {_elements(run)}")


def _static_size(layout: Layout) -> int:
    count = size(layout)
    assert isinstance(count, int), "inverses of static layouts are static"
    return count


def _index_runs(modes: list[tuple[int, int]], common: Layout) -> list[int]:
    """The flat modes that the common layout runs through, in the order of their strides."""
    run, at, used = _static_size(common), 1, []
    for i, (extent, step) in enumerate(modes):
        if extent > 1 and 0 < step < run and common(step) == at:
            used.append((step, i))
        at *= extent
    return [i for _, i in sorted(used)]


def _limits_of(side: _Side, common: Layout, element_bits: int) -> Iterator[Limit]:
    """What the base, the swizzle and the strides outside the common run allow on one side."""
    if side.alignment <= 0 or side.alignment & (side.alignment - 1):
        raise LayoutError(f"the alignment of {side.name} is a power of two of bytes, not {side.alignment}")
    yield Limit(max(1, side.alignment * 8 // element_bits), f"the base of {side.name} is aligned to {side.alignment} "
                                                           f"byte{'s' * (side.alignment > 1)}")
    modes = static_modes(side.layout, "vector_width")
    offset = static_offset(side.layout)
    if offset:
        yield Limit(_power(offset), f"the offset {offset} of {side} is no multiple of {2 * _power(offset)}")
    used = _index_runs(modes, common)
    for i, (extent, step) in enumerate(modes):
        if i not in used and extent > 1 and step:
            yield Limit(_power(step), f"stride {step} of mode {i} of {side} is no multiple of {2 * _power(step)}")


def _swizzle_limit(side: _Side) -> Iterator[Limit]:
    """The runs that a side's swizzle keeps together by itself."""
    modes = static_modes(side.layout, "vector_width")
    if isinstance(side.layout, ComposedLayout) and (moved := _moved_bits(side.layout, modes)):
        # Of the pairs (source, target) that are ever set, the lowest bit of all ends the runs that stay whole.
        kept = _power(moved) >> max(side.layout.swizzle.shift, 0)
        yield Limit(kept, f"{side.layout.swizzle} of {side.name} keeps only runs of {kept} together")


def _together(sides: list[_Side], widest: int) -> int:
    """The widest vectors up to ``widest`` that obey the law of ``vector_width``, found by looking at every element."""
    # In the order of one side, so that the elements of a vector stand side by side.
    pairs = sorted(zip(*(offsets(side.layout) for side in sides), strict=True))
    width = widest
    while width > 1 and not all(_is_vector(pairs[i:i + width]) for i in range(0, len(pairs), width)):
        width //= 2
    return width


def _is_vector(pairs: list[tuple[int, int]]) -> bool:
    """Whether both offsets start at a multiple of the count and go up one by one."""
    (a, b), width = pairs[0], len(pairs)
    return a % width == b % width == 0 and pairs == [(a + j, b + j) for j in range(width)]


def _moved_bits(layout: ComposedLayout, modes: list[tuple[int, int]]) -> int:
    """The source bits of the swizzle that are set in some offset."""
    sw = layout.swizzle
    low = sw.base + max(sw.shift, 0)
    # Offsets count modulo the end of the source bits: what lies above is not read.
    mask, period = ((1 << sw.bits) - 1) << low, 1 << (low + sw.bits)
    seen = {static_offset(layout) % period}
    for extent, step in modes:
        steps = {k * step % period for k in range(min(extent, period))}
        seen = {(offset + shift) % period for offset in seen for shift in steps}
        if len(seen) > LIMIT:
            return mask
    return reduce(or_, seen) & mask
