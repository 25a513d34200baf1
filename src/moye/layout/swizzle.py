"""Swizzles and swizzled layouts: XOR some bits of an offset into lower bits, to spread a column over banks.

In: ``Swizzle(bits, base, shift)``, and a layout whose offsets it permutes.  Out: functions to offsets.

>>> layout = ComposedLayout(Swizzle(2, 3, 3), 0, make_layout((8, 8), (8, 1)))
>>> str(layout), layout(1, 0), Swizzle(2, 0, 2)(0b0111)
('Sw<2,3,3> o 0 o (8,8):(8,1)', 8, 6)

Functions of layouts act on the inner layout and keep the swizzle.  Inverses, and layouts in front of a swizzle, exist
if the layout moves bits as a whole: extents and strides are powers of two as far as the swizzle reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import overload

from moye.display import Drawable
from moye.errors import FactError, LayoutError
from moye.layout import ints, tuples
from moye.layout.algebra import composition, flat_modes
from moye.layout.ints import DynInt, Int, add, divides, is_const, is_static, known_less_equal
from moye.layout.inverse import right_inverse
from moye.layout.layout import Layout, cosize, make_layout, need_numbers, size
from moye.layout.notation import is_swizzled, read_swizzle, read_swizzled
from moye.layout.tuples import Coord, IntTuple, as_int_tuple
from moye.layout.wrapped import OffsetFunction, WrappedLayout

MOST_BITS = 64


@dataclass(frozen=True, slots=True)
class Swizzle(OffsetFunction, Drawable):
    """offset -> offset ^ (its ``bits`` bits at ``base + shift``, moved down by ``shift``) (cute/swizzle.hpp).

    A negative shift moves the bits at ``base`` up.  A swizzle is its own inverse.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            number = as_int_tuple(getattr(self, name), f"the swizzle's {name}")
            if not isinstance(number, int):
                raise LayoutError(f"a swizzle's {name} is a number known while tracing, not {number}")
            object.__setattr__(self, name, number)
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self} has a negative number of bits or a negative base")
        if self.bits + self.base + abs(self.shift) > MOST_BITS:
            raise LayoutError(f"{self} is about more than the {MOST_BITS} bits of an offset")
        # Apart, the source is unchanged by the XOR, so that the swizzle undoes itself.
        if abs(self.shift) < self.bits:
            raise LayoutError(f"{self} moves {self.bits} bits by {self.shift}: source and target overlap")

    @staticmethod
    def parse(source: str) -> Swizzle:
        """Read a swizzle: ``Swizzle.parse(str(sw)) == sw``."""
        return Swizzle(*read_swizzle(source))

    @property
    def source_mask(self) -> int:
        """The bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))

    @property
    def target_mask(self) -> int:
        """The bits that are written."""
        return ((1 << self.bits) - 1) << (self.base + max(-self.shift, 0))

    @property
    def span(self) -> int:
        """The number of offsets after which it repeats; memory under it must begin at a multiple of this number."""
        return 1 << (self.base + self.bits + abs(self.shift))

    def __call__(self, offset: Int) -> Int:
        mask = self.source_mask
        if mask == 0 or is_const(offset, 0):
            return offset
        low, high = ints.lower_bound(offset), ints.upper_bound(offset)
        # No source bit can be set: the XOR is with 0, and no instruction is needed.
        if low is not None and low >= 0 and high is not None and high < 1 << (self.base + max(self.shift, 0)):
            return offset
        source = offset & mask
        moved = source >> self.shift if self.shift >= 0 else source << -self.shift
        if isinstance(offset, DynInt):
            return offset ^ moved
        return moved ^ offset

    @overload
    def after(self, layout: Layout | WrappedLayout) -> ComposedLayout: ...

    @overload
    def after(self, layout: OffsetFunction) -> Swizzle: ...

    def after(self, layout: Layout | WrappedLayout | OffsetFunction) -> ComposedLayout | Swizzle:
        """The map ``crd -> self(layout(crd))``; after another swizzle of the same shift, one swizzle that does both."""
        asked = f"composition of {self} with {layout}"
        if isinstance(layout, Swizzle):
            return self._merged(layout, asked)
        if isinstance(layout, ComposedLayout):
            # XORs join, but an addition between them carries across bits.
            if not (is_const(layout.offset, 0) or layout.swizzle.bits == 0):
                raise LayoutError(f"{asked}: the offset {layout.offset} stands between the two swizzles")
            return ComposedLayout(self._merged(layout.swizzle, asked), layout.offset, layout.layout)
        if not isinstance(layout, Layout):
            raise LayoutError(f"{asked}: a layout or a swizzle is needed")
        return ComposedLayout(self, 0, layout)

    def _merged(self, other: Swizzle, asked: str) -> Swizzle:
        if not self.bits or not other.bits:
            return self if self.bits else other
        # An involution undoes itself.
        if self == other:
            return Swizzle(0, self.base, self.shift)
        if self.shift != other.shift or other.target_mask & self.source_mask:
            raise LayoutError(f"{asked}: only swizzles of one shift, the second of which reads nothing that the first "
                              "writes, are one swizzle together")
        # XOR is linear in the bits: as nothing is read that the other writes, both maps add up, and common bits cancel.
        return make_swizzle(self.source_mask ^ other.source_mask, self.target_mask ^ other.target_mask)

    def through(self, layout: Layout, asked: str, *, holes: bool = False, below: Int | None = None) -> Swizzle:
        """The swizzle S with ``layout(self(i)) == S(layout(i))`` for i < ``below`` (the layout's size unless given).

        With ``holes``, bits that the layout drops are never set, as in a left inverse.
        """
        need_numbers(layout, "composition")
        if not self.bits:
            return self
        below = size(layout) if below is None else below
        moved = _Bits(layout, asked)
        moved.cover(below)
        pairs: list[tuple[int, int]] = []
        first = self.base + max(self.shift, 0)
        for source in range(first, first + self.bits):
            # No index below the bound has this bit.
            if known_less_equal(below, 1 << source):
                continue
            to, target = moved.of(source), moved.of(source - self.shift)
            # Where the target is dropped, so is whatever was XORed into it.
            if not target or (to == 0 and holes):
                continue
            if to == 0:
                raise LayoutError(f"{asked}: {layout} drops bit {source}, which {self} reads")
            pairs.append((to, target))
        moved.check(max([0, *(max(pair) for pair in pairs)]))
        # A swizzle has one shift for all of its bits.
        if len({to / target for to, target in pairs}) > 1:
            raise LayoutError(f"{asked}: {layout} moves the bits that {self} pairs by different distances")
        return make_swizzle(sum(to for to, _ in pairs), sum(target for _, target in pairs), asked)

    @property
    def period(self) -> int:
        """A number such that adding a multiple of it to an offset adds the same to the result."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    __repr__ = __str__


class _Bits:
    """Where the bits of an index go, in a layout that moves bits as a whole; errors name a mode that does not."""

    def __init__(self, layout: Layout, asked: str) -> None:
        self.layout, self.asked = layout, asked
        self.modes = tuples.merge(flat_modes(layout), keep_last=True)

    def cover(self, below: Int) -> None:
        """Take in all indices below a number: past the end the last mode continues."""
        start = ints.prod([extent for extent, _ in self.modes[:-1]])
        if self.modes and is_static(below) and is_static(start) and is_static(self.modes[-1][0]):
            extent, step = self.modes[-1]
            count = -(-below // max(start, 1))
            self.modes[-1] = (count if ints.known_less(extent, count) else extent, step)

    def of(self, position: int) -> int:
        """The offset of the index 1 << position, a power of two or 0; past the end the last mode continues."""
        start = 1
        for extent, step in self.modes[:-1]:
            # The modes before hold log2(start) bits.  If this bit's range divides the extent, the bit lies wholly in
            # this mode.
            width = (2 << position) // start
            if divides(width, extent):
                return self._step(position, width // 2, extent, step)
            if not is_static(extent):
                raise FactError(f"{self.asked} needs to know that {extent} is a multiple of {width}")
            if extent & (extent - 1):
                raise self._fail(extent, step, f"no bit as a whole: {extent} is no power of two")
            start *= extent
        extent, step = self.modes[-1] if self.modes else (1, 0)
        count = (1 << position) // start
        if is_static(extent):
            self.modes[-1:] = [(max(extent, 2 * count), step)]
        return self._step(position, count, extent, step)

    def _step(self, position: int, count: int, extent: Int, step: Int) -> int:
        if not is_static(step):
            raise FactError(f"{self.asked} needs the static stride of the mode {extent}:{step} of {self.layout}")
        found = step * count
        if found < 0 or found & (found - 1):
            raise self._fail(extent, step, f"bit {position} to offset {found}, which is no power of two")
        return found

    def check(self, top: int) -> None:
        """Check that modes do not carry into each other up to the bit ``top``."""
        if not top:
            return
        reach, what = 1, f"its offsets across bit {top.bit_length() - 1}"
        live = [(extent, step) for extent, step in self.modes if not is_const(step, 0)]
        below = [(extent, step) for extent, step in live if not divides(2 * top, step)]
        # In ascending order each mode begins where those below end at the earliest: so no sum carries.
        for extent, step in sorted(below, key=lambda mode: mode[1] if is_static(mode[1]) else 2 * top):
            if not is_static(step) or step < reach or step & (step - 1):
                raise self._fail(extent, step, what)
            if not is_static(extent):
                raise FactError(f"{self.asked} needs the static extent of the mode {extent}:{step} of {self.layout}")
            reach = step * extent
        if reach > 2 * top and len(below) < len(live):
            raise self._fail(*below[-1], what)

    def _fail(self, extent: Int, step: Int, what: str) -> LayoutError:
        return LayoutError(f"{self.asked}: the mode {extent}:{step} of {self.layout} moves {what}",
                           hint="a swizzle goes through layouts whose extents and strides are powers of two")


def make_swizzle(source_mask: int, target_mask: int, asked: str = "make_swizzle") -> Swizzle:
    """The swizzle that reads and writes the bits of two masks (cute/swizzle.hpp).

    Law: ``make_swizzle(y, z)(i) == i ^ z`` for i = y, and the masks of the result are y and z.
    """
    bits = source_mask.bit_count()
    if not bits and not target_mask:
        return Swizzle(0, 0, 0)
    if source_mask <= 0 or target_mask <= 0:
        raise LayoutError(f"{asked}: the masks {source_mask:#x} and {target_mask:#x} must have bits")
    low, down = ((mask & -mask).bit_length() - 1 for mask in (source_mask, target_mask))
    if source_mask >> low != target_mask >> down or source_mask >> low != (1 << bits) - 1:
        raise LayoutError(f"{asked}: bits {source_mask:#x} moved to {target_mask:#x} are not one run of bits each, so "
                          "they are no swizzle")
    return Swizzle(bits, min(low, down), low - down)


def swizzle(bits: int, base: int, shift: int, offsets: Sequence[int]) -> tuple[Int, ...]:
    """The map that applies ``Swizzle(bits, base, shift)`` to each offset.

    Law: an involution, ``swizzle(b, m, s, swizzle(b, m, s, x)) == x``.
    """
    sw = Swizzle(bits, base, shift)
    return tuple(sw(offset) for offset in offsets)


class ComposedLayout(WrappedLayout, Drawable):
    """The map ``crd -> swizzle(offset + layout(crd))`` (cute/layout_composed.hpp)."""

    __slots__ = ("layout", "offset", "swizzle")

    swizzle: Swizzle
    offset: Int
    layout: Layout

    def __init__(self, swizzle: Swizzle, offset: Int, layout: Layout) -> None:
        if not isinstance(swizzle, Swizzle) or not isinstance(layout, Layout):
            raise LayoutError(f"a composed layout is a Swizzle, an offset and a Layout, not {swizzle!r}, {layout!r}")
        need_numbers(layout, f"{swizzle}")
        object.__setattr__(self, "swizzle", swizzle)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "layout", layout)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"layouts are immutable: cannot set {name!r} of {self}")

    def __reduce__(self) -> tuple[type[ComposedLayout], tuple[Swizzle, Int, Layout]]:
        return ComposedLayout, (self.swizzle, self.offset, self.layout)

    @staticmethod
    def parse(source: str) -> ComposedLayout:
        """Read a swizzled layout: ``ComposedLayout.parse(str(layout)) == layout``."""
        parts = read_swizzled(source)
        return ComposedLayout(Swizzle(*parts.bits_base_shift), parts.offset, make_layout(parts.shape, parts.stride))

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
        """The swizzled sublayout of the open modes; it keeps the offset of the others, unlike a Layout's."""
        return self.slice_and_offset(crd)[0]

    def slice_and_offset(self, crd: Coord) -> tuple[ComposedLayout, Int]:
        """The sublayout and 0, because the offset of the closed modes stays inside its swizzle."""
        inner, offset = self.layout.slice_and_offset(crd)
        return ComposedLayout(self.swizzle, add(self.offset, offset), inner), 0

    def mode(self, *path: int) -> ComposedLayout:
        """The swizzled layout of one mode."""
        return self.with_layout(self.layout.mode(*path))

    def with_layout(self, layout: Layout) -> ComposedLayout:
        """The same swizzle and offset around another layout."""
        return ComposedLayout(self.swizzle, self.offset, layout)

    def moved(self, offset: Int) -> tuple[ComposedLayout, Int]:
        """The swizzled layout from another origin, and 0, because the origin stays inside the swizzle."""
        return ComposedLayout(self.swizzle, add(self.offset, offset), self.layout), 0

    def around(self, inner: WrappedLayout, asked: str) -> ComposedLayout:
        """A swizzle put after a swizzled layout: one swizzle, if both merge."""
        assert isinstance(inner, ComposedLayout), "swizzled layouts are the wrappers that layouts go behind"
        if inner.swizzle.bits == 0:
            return ComposedLayout(self.swizzle, add(self.offset, inner.offset), inner.layout)
        if self.swizzle.bits and not is_const(self.offset, 0):
            raise LayoutError(f"{asked}: the offset {self.offset} stands between the two swizzles")
        if self.swizzle.bits == 0 and not is_const(self.offset, 0):
            raise LayoutError(f"{asked}: the offset {self.offset} follows the swizzle of the right side")
        return self.swizzle.after(inner)

    def behind(self, lhs: Layout, asked: str) -> ComposedLayout:
        """The map ``crd -> lhs(self(crd))``: the swizzle moves through the layout."""
        if not is_const(self.offset, 0):
            raise LayoutError(f"{asked}: the offset {self.offset} of the right side must be 0")
        swizzle = self.swizzle.through(lhs, asked, below=cosize(self.layout))
        return ComposedLayout(swizzle, 0, composition(lhs, self.layout))

    def inverse(self, side: Callable[[Layout], Layout], asked: str) -> ComposedLayout:
        """The inverse of ``S(offset + L(i))``: a swizzle through the inverse of L, for offset 0."""
        if not is_const(self.offset, 0):
            raise LayoutError(f"{asked}: with the offset {self.offset} it has no inverse of this form",
                              hint="invert the layout with offset 0 and subtract the offset from the index")
        # (S o L)^-1 = L^-1 o S, as S is its own inverse; ``through`` then finds S' with L^-1 o S = S' o L^-1.
        plain = side(self.layout)
        right = side is right_inverse
        if right:
            plain = self._closed(plain, asked)
        return ComposedLayout(self.swizzle.through(plain, asked, holes=not right), 0, plain)

    def _closed(self, inverse: Layout, asked: str) -> Layout:
        """The part of a right inverse that the swizzle maps onto itself."""
        count, sw = size(inverse), self.swizzle
        block = 1 << (sw.base + max(-sw.shift, 0) + sw.bits)
        if sw.bits == 0 or divides(block, count):
            return inverse
        if not is_static(count):
            raise FactError(f"{asked} needs to know that {count} is a multiple of {block}, which {sw} permutes")
        # Whole blocks are permuted within themselves; below the first source bit the swizzle is the identity.
        whole = count // block * block or min(count, 1 << (sw.base + max(sw.shift, 0)))
        return inverse if whole == count else composition(inverse, Layout(whole, 1))

    def contiguous_run(self) -> int:
        """The swizzle permutes runs of 2^base offsets; an offset off their grid leaves shorter runs."""
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


def parse(source: str) -> Layout | ComposedLayout:
    """Read a layout: plain, with basis strides, or swizzled.

    Law: ``parse(str(l)) == l`` for every static layout; bad notation gets a caret under the offending character.
    """
    return ComposedLayout.parse(source) if is_swizzled(source) else Layout.parse(source)
