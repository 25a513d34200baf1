"""The algebra of layouts: simplify, compose, complement, invert.

In: layouts.  Out: layouts that obey the law in each docstring, in CuTe's form.

>>> str(composition(Layout.parse("(6,2):(8,2)"), Layout.parse("(4,3):(3,1)")))
'((2,2),3):((24,2),8)'

A swizzled left operand keeps its swizzle.  Dynamic integers are never compared, only asked for facts; where the answer
needs one that is missing, FactError names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias, overload

from moye.errors import FactError, LayoutError
from moye.layout import ints, tuples
from moye.layout.ints import Int, divides, exact_div, is_const, is_static, known_less, known_less_equal, mul, same
from moye.layout.layout import Layout, cosize, from_modes, make_layout, size
from moye.layout.tuples import IntTuple, Modes
from moye.layout.verb import L, OffsetFunction, WrappedLayout, verb

Tiler: TypeAlias = "Layout | Int | tuple[Tiler, ...] | None"


def flat_modes(layout: Layout) -> Modes:
    """The flat modes (extent, stride) of a layout."""
    return tuples.zip_leaves(layout.shape, layout.stride)


@verb
def coalesce(layout: Layout, target_profile: IntTuple | None = None) -> Layout:
    """``coalesce(l)(i) == l(i)`` for every index i, with fewest modes; by mode under a profile (cute/layout.hpp)."""
    if isinstance(target_profile, tuple):
        if len(target_profile) > len(layout):
            raise LayoutError(f"coalesce of {layout} under {tuples.text(target_profile)}: the profile has more modes")
        done = [coalesce(mode, like) for mode, like in zip(layout, target_profile, strict=False)]
        return make_modes(done + [layout.mode(i) for i in range(len(done), len(layout))])
    return from_modes(tuples.merge(flat_modes(layout)))


@verb
def filter_zeros(layout: Layout) -> Layout:
    """The layout with extent 1 where the stride is 0: same image, same profile (cute/layout.hpp)."""
    extents = [1 if is_const(d, 0) else s for s, d in flat_modes(layout)]
    return Layout(tuples.unflatten_tuple(extents, layout.shape), layout.stride)


@verb
def filter(layout: Layout) -> Layout:
    """The coalesced layout without modes of stride 0 or extent 1: same image (cute/layout.hpp)."""
    return coalesce(filter_zeros(layout))


def make_modes(modes: list[Layout]) -> Layout:
    """A layout with these modes, possibly none."""
    return Layout.of(tuple([m.shape for m in modes]), tuple([m.stride for m in modes]))


def by_mode(layout: Layout, tiler: tuple[Tiler, ...], f: Callable[[Layout, Tiler], Layout], name: str) -> Layout:
    """``f(mode, tile)`` for each tile of a tiler; further modes stay as they are."""
    if len(tiler) > len(layout):
        raise LayoutError(f"{name} of {layout} by {tiler_text(tiler)}: the tiler has {len(tiler)} modes, "
                          f"the layout {len(layout)}")
    modes = list(layout)
    for i, tile in enumerate(tiler):
        if tile is not None:
            modes[i] = f(modes[i], tile)
    return make_modes(modes)


def in_tuple(mode: Layout) -> Layout:
    """An integer mode as a one-tuple: composition may then set the stride of a single element to 0, as CuTe does."""
    return mode if isinstance(mode.shape, tuple) else Layout((mode.shape,), (mode.stride,))


def tiler_text(tiler: Tiler) -> str:
    """A tiler in notation: ``<4:2,(8),None>`` by mode."""
    return f"<{','.join(map(tiler_text, tiler))}>" if isinstance(tiler, tuple) else str(tiler)


@overload
def composition(lhs: OffsetFunction, rhs: Tiler) -> WrappedLayout: ...


@overload
def composition(lhs: L, rhs: Tiler) -> L: ...


def composition(lhs: L | OffsetFunction, rhs: Tiler) -> L | WrappedLayout:
    """``composition(A, B)(c) == A(B(c))``, congruent with B; by mode under a tuple, None keeps (cute/layout.hpp).

    A may be a swizzle, and B then a layout or the shape of a compact one.
    """
    if isinstance(lhs, OffsetFunction):
        if not isinstance(rhs, Layout | int | tuple):
            raise LayoutError(f"composition of {lhs} with {rhs!r}: a layout is needed")
        return lhs.after(rhs if isinstance(rhs, Layout) else make_layout(rhs))  # type: ignore[arg-type]
    if not isinstance(lhs, (Layout, WrappedLayout)):
        raise LayoutError(f"composition takes a layout, not {lhs!r}")
    return _composed(lhs, rhs)


@verb
def _composed(lhs: Layout, rhs: Tiler) -> Layout:
    if rhs is None:
        return lhs
    if isinstance(rhs, tuple):
        return by_mode(lhs, rhs, lambda mode, tile: composition(in_tuple(mode), tile), "composition")
    tile = rhs if isinstance(rhs, Layout) else make_layout(rhs)
    modes = flat_modes(lhs)
    if isinstance(lhs.shape, tuple):
        modes = tuples.merge(modes, keep_last=bool(modes) and is_const(modes[-1][0], 1) and _exceeds(tile, lhs))
    return _Composer(lhs, tile, modes).all(tile.shape, tile.stride)


def _exceeds(tile: Layout, lhs: Layout) -> bool:
    """Whether a right operand may leave the domain of the left one, so that its last mode is continued."""
    return known_less_equal(cosize(tile), size(lhs)) is not True


@dataclass(frozen=True, slots=True)
class _Composer:
    """One composition: its operands (for messages) and the merged modes of the left one.

    Unless ``assume``, divisibility must be provable: nothing is recorded as an assumption of a dynamic integer.
    """

    lhs: Layout
    rhs: Layout
    flat: Modes
    assume: bool = True
    reach: dict[int, int] = field(default_factory=dict)
    """The largest coordinate in each left mode but the last that the right modes so far add up to."""

    def all(self, shape: IntTuple, stride: IntTuple) -> Layout:
        """Composition distributes over the modes of the right operand."""
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            return make_modes([self.all(s, d) for s, d in zip(shape, stride, strict=True)])
        assert not isinstance(shape, tuple) and not isinstance(stride, tuple), "shape and stride are congruent"
        return self.one(shape, stride)

    def one(self, extent: Int, step: Int) -> Layout:
        """The left layout after the integer mode extent:step, from_modes of what each left mode contributes."""
        if is_const(step, 0):
            return Layout(extent, 0)
        last = self.flat[-1][1] if self.flat else 0
        if len(self.flat) < 2:
            return Layout(extent, mul(step, last))
        if is_const(extent, 1):
            return Layout(1, self._unit_stride(step))
        if is_static(step) and step < 0:
            raise self._fail(0, f"stride {step} of {extent}:{step} is negative")
        modes: Modes = []
        rest, start = extent, step
        for i, (bound, stride) in enumerate(self.flat[:-1]):
            count, start = self._take(i, bound, start, rest)
            if count is not None:
                self._check_carry(i, bound, *count)
                modes.append((count[0], mul(count[1], stride)))
                rest = self._exact(i, rest, count[0])
                if is_const(rest, 1):
                    return from_modes(modes)
        return from_modes([*modes, (rest, mul(start, last))])

    def _take(self, i: int, bound: Int, step: Int, extent: Int) -> tuple[tuple[Int, Int] | None, Int]:
        """What mode i (of extent ``bound``) contributes to extent:step, if anything, and the step for the next mode."""
        if divides(bound, step):
            return None, self._exact(i, step, bound)
        inside = True if divides(step, bound) else known_less(step, bound)
        if inside is False:
            raise self._fail(i, f"its extent {bound} and the stride of {extent}:{step} do not divide each other")
        if inside is None and not is_static(step):
            raise FactError(f"{self._asked(i)} needs a bound that tells whether {step} < {bound}")
        if is_static(bound) and is_static(step):
            room: Int = ints.ceil_div(bound, step)
        else:
            room = self._exact(i, bound, step)
        fits = True if divides(extent, room) else False if divides(room, extent) else known_less_equal(extent, room)
        if fits is None:
            raise FactError(f"{self._asked(i)} needs a bound that tells whether {extent} <= {room}")
        if fits:
            return (extent, step), 1
        if divides(room, extent) is False or divides(step, bound) is False:
            raise self._fail(i, f"its extent {bound} leaves {room} of the {extent} steps of {extent}:{step}, "
                                "which do not tile it")
        return (room, step), 1

    def _check_carry(self, i: int, bound: Int, count: Int, step: Int) -> None:
        """Right modes are composed one by one, which is right only where their sum stays inside each left mode."""
        if is_static(count) and is_static(step):
            self.reach[i] = self.reach.get(i, 0) + (count - 1) * step
            if known_less_equal(bound, self.reach[i]):
                raise self._fail(i, f"the modes of {self.rhs} together reach {self.reach[i]}, "
                                    f"past the end of its extent {bound}")

    def _unit_stride(self, step: Int) -> Int:
        """The stride that CuTe gives a mode of extent 1; 0 where it would need facts."""
        for bound, _ in self.flat[:-1]:
            if not is_const(step, 1):
                if not is_static(bound) or not is_static(step):
                    return 0
                step = ints.ceil_div(step, bound)
        return mul(step, self.flat[-1][1])

    def _exact(self, i: int, a: Int, b: Int) -> Int:
        if not self.assume and not divides(b, a):
            raise FactError(f"{self._asked(i)} needs to know that {a} is a multiple of {b}")
        return exact_div(a, b, self._asked(i))

    def _asked(self, i: int) -> str:
        mode = from_modes(self.flat[i:i + 1])
        return f"composition of {self.lhs} with {self.rhs} at mode {i} ({mode}) of the coalesced left layout"

    def _fail(self, i: int, reason: str) -> LayoutError:
        return LayoutError(f"{self._asked(i)}: {reason}")


def _ascending(strides: list[Int], what: str) -> list[int]:
    """The positions of strides in ascending order; FactError where facts do not order dynamic ones."""
    order: list[int] = []
    for i, step in enumerate(strides):
        at = len(order)
        while at:
            other = strides[order[at - 1]]
            less = known_less(step, other)
            if less is None:
                raise FactError(f"{what} needs a bound that tells whether stride {step} < {other}")
            if not less:
                break
            at -= 1
        order.insert(at, i)
    return order


def complement_modes(layout: Layout, cotarget: IntTuple | None) -> tuple[Modes, Int]:
    """The merged modes of the complement, and the first multiple of a stride past the layout."""
    asked = f"complement of {layout}"
    image = filter(layout)
    modes = [] if is_const(size(image), 1) else flat_modes(image)
    gaps: Modes = []
    reach: Int = 1
    for extent, step in [modes[i] for i in _ascending([d for _, d in modes], asked)]:
        if known_less(step, reach):
            raise LayoutError(f"{asked}: the mode {extent}:{step} overlaps modes that reach {reach}")
        both = is_static(step) and is_static(reach)
        gaps.append((ints.floor_div(step, reach) if both else exact_div(step, reach, asked), reach))
        reach = mul(step, extent)
    target = cosize(image) if cotarget is None else tuples.product(cotarget)
    gaps.append((ints.ceil_div(target, reach), reach))
    return tuples.merge(gaps), reach


def complement(layout: Layout, cotarget: IntTuple | None = None) -> Layout:
    """Ordered, disjoint from ``layout`` but in 0, and ``(layout, complement)`` reaches cotarget (cute/layout.hpp)."""
    return from_modes(complement_modes(layout, cotarget)[0])


def right_inverse(layout: Layout) -> Layout:
    """``layout(right_inverse(layout)(i)) == i`` for every i below its size, the largest such (cute/layout.hpp)."""
    modes = tuples.merge(flat_modes(layout))
    found: Modes = []
    reach: Int = 1
    while True:
        at: Int = 1
        for i, (extent, step) in enumerate(modes):
            if same(step, reach):
                found.append((extent, at))
                reach = mul(reach, extent)
                modes[i] = (extent, 0)  # used up, but it still counts in the indices of later modes
                break
            at = mul(at, extent)
        else:
            return from_modes(tuples.merge(found))


def left_inverse(layout: Layout) -> Layout:
    """``left_inverse(layout)(layout(i)) == i`` for every index i of an injective layout (cute/layout.hpp)."""
    asked = f"left_inverse of {layout}"
    at: Int = 1
    modes: list[tuple[Int, Int, Int]] = []  # (stride, extent, stride of the index)
    for extent, step in tuples.merge(flat_modes(layout)):
        if not is_const(step, 0):
            modes.append((step, extent, at))
        at = mul(at, extent)
    if not modes:
        return coalesce(layout)
    modes = [modes[i] for i in _ascending([step for step, _, _ in modes], asked)]
    inverse: Modes = [(modes[0][0], 0)]
    for i, (step, extent, index) in enumerate(modes):
        last = i == len(modes) - 1
        inverse.append((extent if last else exact_div(modes[i + 1][0], step, asked), index))
    return from_modes(tuples.merge(inverse))


def nullspace(layout: Layout) -> Layout:
    """``layout(nullspace(layout)(i)) == 0`` for every i, the largest such (cute/layout.hpp)."""
    at: Int = 1
    kernel: Modes = []
    for extent, step in flat_modes(layout):
        if is_const(step, 0):
            kernel.append((extent, at))
        at = mul(at, extent)
    return from_modes(tuples.merge(kernel))


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """A ``v`` with ``a(v(i)) == b(v(i)) == i``, the largest for layouts of one size (cute/layout.hpp)."""
    inverse = right_inverse(b)
    modes = flat_modes(inverse)
    for count in range(len(modes), 0, -1):
        shorter = from_modes(modes[:count])
        if known_less(size(a), cosize(shorter)):
            continue
        try:
            common = coalesce(_compose_proven(a, shorter))
        except LayoutError:
            continue
        extent, step = flat_modes(common)[0]
        if is_static(extent) and is_const(step, 1):
            return composition(shorter, Layout(extent, 1))
    return Layout(1, 0)


def _compose_proven(lhs: Layout, rhs: Layout) -> Layout:
    """Composition that may fail but never records an assumption."""
    return _Composer(lhs, rhs, tuples.merge(flat_modes(lhs), keep_last=True), assume=False).all(rhs.shape, rhs.stride)


def max_common_vector(a: Layout | WrappedLayout, b: Layout | WrappedLayout) -> int:
    """The most elements that are contiguous from 0 in both layouts, in the same order (cute/layout.hpp)."""
    inner = [x.layout if isinstance(x, WrappedLayout) else x for x in (a, b)]
    common = size(max_common_layout(*inner))
    assert is_static(common), "a common layout is static"
    for x in (a, b):
        if isinstance(x, WrappedLayout):
            common = gcd(common, x.contiguous_run())
    return common


def with_shape(layout: L, shape: IntTuple) -> L:
    """The layout with coordinates of another shape: ``composition(layout, make_layout(shape))`` (cute/layout.hpp)."""
    return composition(layout, make_layout(shape))


