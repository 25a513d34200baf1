"""Is a static layout injective, surjective, compact?  If it is not, there is a witness.

In: a static Layout or ComposedLayout.  Out: a boolean; or two coordinates that collide, an offset that is missed.

>>> str(find_collision(Layout.parse("(4,4):(2,3)"))), find_hole(Layout.parse("(4,8):(9,1)"))
('(0,2) and (3,0) of (4,4):(2,3) share offset 6', 8)

Sorted strides decide almost every layout, of any size; the others are searched or listed within a stated limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from moye.errors import LayoutError
from moye.layout.basis import ScaledBasis
from moye.layout.layout import Layout
from moye.layout.swizzle import ComposedLayout, Swizzle
from moye.layout.tables import AnyLayout, coordinate, element_count, offsets, static_modes, static_offset
from moye.layout.tuples import IntTuple, text
from moye.layout.wrapped import WrappedLayout

SEARCH_LIMIT = 1 << 20
"""Steps of the search for a collision."""


@dataclass(frozen=True, slots=True)
class Collision:
    """Two coordinates of a layout that have one offset."""

    layout: AnyLayout
    first: IntTuple
    second: IntTuple
    offset: int

    def __str__(self) -> str:
        return f"{text(self.first)} and {text(self.second)} of {self.layout} share offset {self.offset}"


def is_static(x: object) -> bool:
    """Whether x is an integer, a tuple, a layout or a swizzle without anything dynamic (cute/int_tuple.hpp).

    Law: ``is_static(l)`` means that every leaf of ``l.shape`` and ``l.stride`` is an int, or a basis stride of one.
    """
    if isinstance(x, tuple):
        return all(map(is_static, x))
    if isinstance(x, ComposedLayout):
        return is_static(x.offset) and is_static(x.layout)
    if isinstance(x, WrappedLayout):
        return is_static(x.layout)
    if isinstance(x, Layout):
        return is_static(x.shape) and is_static(x.stride)
    return isinstance(x, (int, Swizzle)) or (isinstance(x, ScaledBasis) and is_static(x.value))


def is_injective(layout: AnyLayout) -> bool:
    """Whether different coordinates have different offsets: ``layout(a) == layout(b)`` only for a == b."""
    return find_collision(layout) is None


def is_surjective(layout: AnyLayout, codomain: int | None = None) -> bool:
    """Whether every offset below ``codomain`` (the largest offset plus one unless given) occurs."""
    return find_hole(layout, codomain) is None


def is_bijective(layout: AnyLayout) -> bool:
    """Whether the offsets are a permutation of 0, 1, ..., size - 1."""
    return find_hole(layout, element_count(static_modes(layout, "is_bijective"))) is None


def is_compact(layout: AnyLayout) -> bool:
    """Whether the image is 0, 1, ..., n - 1 for some n: no holes; offsets may repeat, as under stride 0."""
    return find_hole(layout) is None and _smallest(layout) in (0, None)


def find_collision(layout: AnyLayout) -> Collision | None:
    """Two coordinates with the same offset, or None if the layout is injective.

    A swizzle permutes offsets, so only the inner layout counts.  Offsets are equal if a nonzero difference of
    coordinates has inner product 0 with the strides.  Such a difference is searched from the largest stride down.
    LayoutError if the search needs more than ``SEARCH_LIMIT`` steps.
    """
    modes = static_modes(layout, "find_collision")
    if element_count(modes) < 2:
        return None
    order = sorted((i for i, (extent, _) in enumerate(modes) if extent > 1), key=lambda i: -abs(modes[i][1]))
    found = _Differences([(modes[i][0], abs(modes[i][1])) for i in order], str(layout)).find()
    if found is None:
        return None
    first, second = [0] * len(modes), [0] * len(modes)
    for i, difference in zip(order, found, strict=True):
        difference = -difference if modes[i][1] < 0 else difference
        first[i], second[i] = max(difference, 0), max(-difference, 0)
    a, b = coordinate(layout, first), coordinate(layout, second)
    offset = layout(a)
    assert isinstance(offset, int), "a static layout has static offsets"
    return Collision(layout, a, b, offset)


class _Differences:
    """Depth-first search for a nonzero difference of coordinates; modes by descending stride, none negative."""

    def __init__(self, modes: list[tuple[int, int]], name: str) -> None:
        self.modes, self.name, self.steps = modes, name, 0
        self.dead: set[tuple[int, int, bool]] = set()
        self.reach, self.common = [0], [0]      # of the modes from i on: largest sum, greatest common divisor
        for extent, step in reversed(modes):
            self.reach.insert(0, self.reach[0] + (extent - 1) * step)
            self.common.insert(0, gcd(self.common[0], step))

    def find(self) -> list[int] | None:
        return self._from(0, 0, False)

    def _from(self, i: int, total: int, nonzero: bool) -> list[int] | None:
        """The differences of the modes from i on that bring ``total`` to 0."""
        if i == len(self.modes):
            return [] if total == 0 and nonzero else None
        if (i, total, nonzero) in self.dead:
            return None
        for difference in self._choices(i, total, nonzero):
            rest = self._from(i + 1, total + difference * self.modes[i][1], nonzero or difference != 0)
            if rest is not None:
                return [difference, *rest]
        self.dead.add((i, total, nonzero))
        return None

    def _choices(self, i: int, total: int, nonzero: bool) -> Iterator[int]:
        """Differences of mode i that the later modes can bring to 0; the first that is not 0 is positive."""
        extent, step = self.modes[i]
        if step == 0:
            yield from (0, 1) if total == 0 and not nonzero else (0,)
            return
        room, common = self.reach[i + 1], self.common[i + 1]
        low = max(-((room + total) // step), 1 - extent if nonzero else 0)
        for difference in range(low, min((room - total) // step, extent - 1) + 1):
            self.steps += 1
            if self.steps > SEARCH_LIMIT:
                raise LayoutError(f"whether {self.name} is injective was not decided in {SEARCH_LIMIT} steps")
            rest = total + difference * step
            if rest == 0 or (common and rest % common == 0):
                yield difference


def find_hole(layout: AnyLayout, codomain: int | None = None) -> int | None:
    """An offset in 0 .. codomain - 1 that no coordinate has, or None; the codomain ends at the largest offset.

    For plain layouts with strides >= 0 it is the smallest one.
    """
    asked = "find_hole"
    modes = [mode for mode in static_modes(layout, asked) if mode[0] != 1 and mode[1] != 0]
    if any(extent == 0 for extent, _ in static_modes(layout, asked)):
        return 0 if codomain else None
    image = _Image.of(modes, static_offset(layout))
    if isinstance(layout, ComposedLayout) and layout.swizzle.bits:
        if image.is_interval and image.low == 0:
            return _hole_after_swizzle(layout.swizzle, image.high, codomain)
        hole = _swizzled_hole(layout.swizzle, image, codomain)
    else:
        hole, decided = image.hole(image.high + 1 if codomain is None else codomain)
        if decided:
            return hole
    return hole if hole is not None else _listed_hole(layout, codomain)


@dataclass(frozen=True, slots=True)
class _Image:
    """The offsets low .. high.  From each end, the first ``run`` are there and the next is not, unless it is past."""

    low: int
    high: int
    run: int

    @staticmethod
    def of(modes: list[tuple[int, int]], start: int) -> _Image:
        """Take strides in ascending order: the sums fill 0 .. r, and a stride above r + 1 leaves r + 1 as a hole.

        A negative stride runs through the same sums from the other end, so signs only shift the image.
        """
        reach, filled = 0, None
        for step, extent in sorted((abs(step), extent) for extent, step in modes):
            if filled is None and step > reach + 1:
                filled = reach
            reach += (extent - 1) * step
        low = start + sum((extent - 1) * step for extent, step in modes if step < 0)
        return _Image(low, low + reach, (reach if filled is None else filled) + 1)

    @property
    def is_interval(self) -> bool:
        return self.run > self.high - self.low

    def holes(self) -> tuple[int, ...]:
        """The missed offsets next to the runs at both ends, because the image is symmetric."""
        return () if self.is_interval else (self.low + self.run, self.high - self.run)

    def hole(self, codomain: int) -> tuple[int | None, bool]:
        """A missed offset in 0 .. codomain - 1, and whether the answer None is certain."""
        if codomain <= 0:
            return None, True
        if self.low > 0 or self.high < 0:
            return 0, True
        for hole in self.holes():
            if 0 <= hole < codomain:
                return hole, True
        if codomain > self.high + 1:
            return self.high + 1, True
        return None, self.is_interval or codomain <= self.low + self.run


def _block(sw: Swizzle) -> int:
    """The number of offsets in an aligned block that a swizzle permutes."""
    return 1 << (sw.base + max(-sw.shift, 0) + sw.bits)


def _hole_after_swizzle(sw: Swizzle, high: int, codomain: int | None) -> int | None:
    """A hole in the swizzled interval 0 .. high: whole blocks stay whole, so only the last one is listed."""
    whole = (high + 1) // _block(sw) * _block(sw)
    tail = {_apply(sw, offset) for offset in range(whole, high + 1)}
    end = max(tail, default=whole - 1) + 1 if codomain is None else codomain
    return next((offset for offset in range(whole, min(end, whole + len(tail) + 1)) if offset not in tail), None)


def _swizzled_hole(sw: Swizzle, image: _Image, codomain: int | None) -> int | None:
    """The swizzle of an offset that the inner layout misses: below the largest offset if in a lower block."""
    end = image.high // _block(sw) * _block(sw) if codomain is None else codomain
    missed = [_apply(sw, hole) for hole in (*image.holes(), image.high + 1, image.low - 1)]
    return next((hole for hole in missed if 0 <= hole < end), None)


def _apply(sw: Swizzle, offset: int) -> int:
    moved = sw(offset)
    assert isinstance(moved, int), "the swizzle of a static offset is static"
    return moved


def _listed_hole(layout: AnyLayout, codomain: int | None) -> int | None:
    image = set(offsets(layout, "find_hole"))
    end = max(image) + 1 if codomain is None else codomain
    return next((offset for offset in range(end) if offset not in image), None)


def _smallest(layout: AnyLayout) -> int | None:
    """The least offset if it is known to be 0 or negative; None if there are no offsets."""
    modes = static_modes(layout, "is_compact")
    if element_count(modes) == 0:
        return None
    low = static_offset(layout) + sum((extent - 1) * step for extent, step in modes if step < 0)
    return min(low, 0)
