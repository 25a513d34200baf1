"""Swizzles and swizzled layouts: XOR some bits of an offset into lower ones, to spread a column over banks.

In: ``Swizzle(bits, base, shift)``, and a layout whose offsets it permutes.  Out: functions to offsets.

>>> layout = ComposedLayout(Swizzle(2, 3, 3), 0, make_layout((8, 8), (8, 1)))
>>> str(layout), layout(1, 0), Swizzle(2, 0, 2)(0b0111)
('Sw<2,3,3> o 0 o (8,8):(8,1)', 8, 6)

Layout verbs act on the inner layout and keep the swizzle; swizzled layouts have no inverses here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

from moye.display import Drawable
from moye.errors import LayoutError
from moye.layout import ints, tuples
from moye.layout.ints import DynInt, Int, add, is_const
from moye.layout.layout import Layout, cosize
from moye.layout.tuples import Coord, IntTuple
from moye.layout.verb import OffsetFunction, WrappedLayout


@dataclass(frozen=True, slots=True)
class Swizzle(OffsetFunction, Drawable):
    """offset -> offset ^ (its ``bits`` bits at ``base + shift``, moved down by ``shift``) (cute/swizzle.hpp).

    A negative shift moves the bits at ``base`` up.  A swizzle is its own inverse.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self} has a negative number of bits or a negative base")
        if abs(self.shift) < self.bits:
            raise LayoutError(f"{self} moves {self.bits} bits by {self.shift}: source and target overlap")

    def __call__(self, offset: Int) -> Int:
        mask = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        if mask == 0 or is_const(offset, 0):
            return offset
        low, high = ints.lower_bound(offset), ints.upper_bound(offset)
        if low is not None and low >= 0 and high is not None and high < 1 << (self.base + max(self.shift, 0)):
            return offset
        source = offset & mask
        moved = source >> self.shift if self.shift >= 0 else source << -self.shift
        if isinstance(offset, DynInt):
            return offset ^ moved
        return moved ^ offset

    def after(self, layout: Layout) -> ComposedLayout:
        """``crd -> self(layout(crd))``, as ``composition(self, layout)``."""
        return ComposedLayout(self, 0, layout)

    @property
    def period(self) -> int:
        """Adding a multiple of this to an offset adds it to the result."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    __repr__ = __str__


def swizzle(bits: int, base: int, shift: int, offsets: Sequence[int]) -> tuple[Int, ...]:
    """``Swizzle(bits, base, shift)`` of each offset."""
    sw = Swizzle(bits, base, shift)
    return tuple(sw(offset) for offset in offsets)


class ComposedLayout(WrappedLayout, Drawable):
    """``crd -> swizzle(offset + layout(crd))`` (cute/layout_composed.hpp)."""

    __slots__ = ("layout", "offset", "swizzle")

    swizzle: Swizzle
    offset: Int
    layout: Layout

    def __init__(self, swizzle: Swizzle, offset: Int, layout: Layout) -> None:
        if not isinstance(swizzle, Swizzle) or not isinstance(layout, Layout):
            raise LayoutError(f"a composed layout is a Swizzle, an offset and a Layout, not {swizzle!r}, {layout!r}")
        object.__setattr__(self, "swizzle", swizzle)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "layout", layout)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"layouts are immutable: cannot set {name!r} of {self}")

    def __reduce__(self) -> tuple[type[ComposedLayout], tuple[Swizzle, Int, Layout]]:
        return ComposedLayout, (self.swizzle, self.offset, self.layout)

    @staticmethod
    def parse(source: str) -> ComposedLayout:
        """The swizzled layout that a text denotes: ``ComposedLayout.parse(str(layout)) == layout``."""
        found = re.fullmatch(r"\s*Sw<(\d+),(\d+),(-?\d+)>\s*o\s*(?:_?(-?\d+)\s*o\s*)?(.*)", source)
        if not found:
            raise LayoutError(f"{source!r} is not in the notation of swizzled layouts",
                              hint="it is Sw<bits,base,shift> o offset o shape:stride")
        bits, base, shift, offset, inner = found.groups()
        return ComposedLayout(Swizzle(int(bits), int(base), int(shift)), int(offset or 0), Layout.parse(inner))

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def stride(self) -> IntTuple:
        """The stride of the inner layout."""
        return self.layout.stride

    def __call__(self, *crd: Coord) -> Int:
        """The offset of a coordinate, swizzled."""
        return self.swizzle(add(self.offset, self.layout(*crd)))

    def __getitem__(self, crd: Coord) -> ComposedLayout:
        """The swizzled sublayout of the open modes; unlike a Layout's, it keeps the offset of the others."""
        return self.slice_and_offset(crd)[0]

    def slice_and_offset(self, crd: Coord) -> tuple[ComposedLayout, Int]:
        """The sublayout, the offset of the closed modes inside its swizzle, and therefore 0."""
        inner, offset = self.layout.slice_and_offset(crd)
        return ComposedLayout(self.swizzle, add(self.offset, offset), inner), 0

    def mode(self, *path: int) -> ComposedLayout:
        """The swizzled layout of one mode."""
        return self.with_layout(self.layout.mode(*path))

    def with_layout(self, layout: Layout) -> ComposedLayout:
        """The same swizzle and offset around another layout."""
        return ComposedLayout(self.swizzle, self.offset, layout)

    def contiguous_run(self) -> int:
        """The swizzle permutes runs of 2^base offsets; an offset off their grid leaves shorter ones."""
        offset = self.offset if isinstance(self.offset, int) else self.offset.divisor
        return gcd(1 << self.swizzle.base, offset) if self.swizzle.bits else 0

    def cosize_bound(self) -> Int:
        """``cosize`` of the inner layout, rounded up to whole blocks of bits that the swizzle writes."""
        end, sw = add(self.offset, cosize(self.layout)), self.swizzle
        if sw.bits == 0 or ints.known_less_equal(end, 1 << (sw.base + max(sw.shift, 0))):
            return end
        block = 1 << (sw.base + max(-sw.shift, 0) + sw.bits)
        return ints.mul(ints.ceil_div(end, block), block)

    def __len__(self) -> int:
        return len(self.layout)

    def __iter__(self) -> Iterator[ComposedLayout]:
        return (self.mode(i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComposedLayout):
            return NotImplemented
        return (self.swizzle == other.swizzle and ints.same(self.offset, other.offset)
                and self.layout == other.layout)

    def __hash__(self) -> int:
        return hash((self.swizzle, self.offset, self.layout))

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"

    __repr__ = __str__


R = TypeVar("R", Layout, ComposedLayout)


def recast(layout: R, old_bits: int, new_bits: int) -> R:
    """The layout of the same memory in elements of another width (cute/layout.hpp, recast_layout)."""
    if old_bits <= 0 or new_bits <= 0:
        raise LayoutError(f"recast of {layout} from {old_bits} to {new_bits} bits: widths are positive")
    common = gcd(old_bits, new_bits)
    down, up = old_bits // common, new_bits // common
    if isinstance(layout, ComposedLayout):
        asked = f"recast of {layout} from {old_bits} to {new_bits} bits"
        offset = ints.exact_div(ints.mul(layout.offset, down), up, asked)
        return ComposedLayout(_recast_swizzle(layout.swizzle, down, up, asked), offset,
                              recast(layout.layout, old_bits, new_bits))
    return upcast(downcast(layout, down), up)


def _recast_swizzle(sw: Swizzle, down: int, up: int, asked: str) -> Swizzle:
    if down & (down - 1) or up & (up - 1):
        raise LayoutError(f"{asked}: a swizzle changes only by powers of two")
    base = sw.base + down.bit_length() - up.bit_length()
    return Swizzle(sw.bits, base, sw.shift) if base >= 0 else Swizzle(max(sw.bits + base, 0), 0, sw.shift)


def downcast(layout: Layout, factor: int) -> Layout:
    """Each element becomes ``factor`` narrower ones: contiguous modes grow, other strides scale (cute/layout.hpp)."""
    def one(extent: Int, step: Int) -> tuple[Int, Int]:
        return (ints.mul(extent, factor), step) if is_const(step, 1) else (extent, ints.mul(step, factor))

    return _map_modes(layout, one) if factor != 1 else layout


def upcast(layout: Layout, factor: int) -> Layout:
    """``factor`` neighbouring elements become one: contiguous modes shrink, other strides divide (cute/layout.hpp)."""
    asked = f"upcast of {layout} by {factor}"

    def one(extent: Int, step: Int) -> tuple[Int, Int]:
        if is_const(step, 0):
            return extent, step
        if isinstance(step, DynInt):
            return extent, ints.exact_div(step, factor, asked)
        if is_const(extent, 1):
            return extent, ints.ceil_div(abs(step), factor) * (1 if step > 0 else -1)
        if factor % abs(step) == 0:
            per = factor // abs(step)
            return ints.exact_div(extent, per, asked), 1 if step > 0 else -1
        return extent, ints.exact_div(step, factor, asked)

    return _map_modes(layout, one) if factor != 1 else layout


def _map_modes(layout: Layout, f: Callable[[Int, Int], tuple[Int, Int]]) -> Layout:
    pairs = [f(extent, step) for extent, step in tuples.zip_leaves(layout.shape, layout.stride)]
    return Layout(tuples.unflatten_tuple([s for s, _ in pairs], layout.shape),
                  tuples.unflatten_tuple([d for _, d in pairs], layout.shape))
