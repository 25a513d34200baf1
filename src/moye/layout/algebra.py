"""The algebra of layouts: simplify, compose, complement.

In: layouts.  Out: layouts that obey the law in each docstring, in CuTe's form.

>>> str(composition(Layout.parse("(6,2):(8,2)"), Layout.parse("(4,3):(3,1)")))
'((2,2),3):((24,2),8)'

A swizzled left operand keeps its swizzle.  Dynamic integers are never compared, only asked for facts.  If the answer
needs a fact that is missing, FactError names it.  Inverses are in inverse.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

from moye.errors import FactError, LayoutError
from moye.layout import ints, tuples
from moye.layout.basis import ScaledBasis, has_basis
from moye.layout.ints import (
    DynInt,
    Int,
    divides,
    exact_div,
    is_const,
    is_static,
    known_less,
    known_less_equal,
    mul,
)
from moye.layout.layout import Layout, coshape, cosize, from_modes, make_layout, need_numbers, size
from moye.layout.tuples import IntTuple, Modes
from moye.layout.wrapped import L, OffsetFunction, WrappedLayout, verb

Tiler: TypeAlias = "Layout | Int | tuple[Tiler, ...] | None"


def flat_modes(layout: Layout) -> Modes:
    """The flat modes (extent, stride) of a layout."""
    return tuples.zip_leaves(layout.shape, layout.stride)


@verb
def coalesce(layout: Layout, target_profile: IntTuple | None = None) -> Layout:
    """The fewest modes; with a profile, mode by mode, where an integer stands for one mode (cute/layout.hpp).

    Law: ``coalesce(l)(i) == l(i)`` for every index i, and no two modes of the result merge further.
    """
    if isinstance(target_profile, tuple):
        if len(target_profile) > len(layout):
            raise LayoutError(f"coalesce of {layout} under {tuples.text(target_profile)}: the profile has "
                              f"{len(target_profile)} modes, the layout {len(layout)}")
        done = [coalesce(mode, like) for mode, like in zip(layout, target_profile, strict=False)]
        return make_modes(done + [layout.mode(i) for i in range(len(done), len(layout))])
    return from_modes(tuples.merge(flat_modes(layout)))


@verb
def filter_zeros(layout: Layout) -> Layout:
    """The layout with extent 1 where the stride is 0 (cute/layout.hpp).

    Law: same image, congruent, and no mode of stride 0 has more than one element.
    """
    extents = [1 if is_const(d, 0) else s for s, d in flat_modes(layout)]
    return Layout.of(tuples.unflatten_tuple(extents, layout.shape), layout.stride)


@verb
def filter(layout: Layout) -> Layout:
    """The coalesced layout without modes of stride 0 or extent 1 (cute/layout.hpp).

    Law: same image, with the fewest modes and elements of any that leaves out coordinates.
    """
    return coalesce(filter_zeros(layout))


def make_modes(modes: list[Layout]) -> Layout:
    """A layout with these modes, possibly with none."""
    return Layout.of(tuple([m.shape for m in modes]), tuple([m.stride for m in modes]))


def by_mode(layout: Layout, tiler: tuple[Tiler, ...], f: Callable[[Layout, Tiler], Layout], name: str) -> Layout:
    """Apply ``f(mode, tile)`` for each tile of a tiler; further modes stay as they are."""
    if len(tiler) > len(layout):
        asked = f"{name} of {layout} by {tiler_text(tiler)}: " if name else ""
        raise LayoutError(f"{asked}the tiler has {len(tiler)} modes, the layout {len(layout)}")
    modes = list(layout)
    for i, tile in enumerate(tiler):
        if tile is not None:
            modes[i] = f(modes[i], tile)
    return make_modes(modes)


def in_tuple(mode: Layout) -> Layout:
    """An integer mode as a one-tuple.  Composition may then set the stride of a single element to 0, as CuTe does."""
    return mode if isinstance(mode.shape, tuple) else Layout.of((mode.shape,), (mode.stride,))


def tiler_text(tiler: object) -> str:
    """A tiler in notation: ``<4:2,(8),None>`` by mode."""
    return f"<{','.join(map(tiler_text, tiler))}>" if isinstance(tiler, tuple) else str(tiler)


@overload
def composition(lhs: OffsetFunction, rhs: OffsetFunction) -> OffsetFunction: ...


@overload
def composition(lhs: OffsetFunction, rhs: Tiler | WrappedLayout) -> WrappedLayout: ...


@overload
def composition(lhs: Layout, rhs: WrappedLayout | OffsetFunction) -> WrappedLayout: ...


@overload
def composition(lhs: L, rhs: Tiler) -> L: ...


@overload
def composition(lhs: WrappedLayout, rhs: WrappedLayout) -> WrappedLayout: ...


def composition(lhs: Layout | WrappedLayout | OffsetFunction, rhs: Tiler | WrappedLayout | OffsetFunction) -> Any:
    """A after B.  A tuple B works mode by mode, where None keeps a mode; both may be swizzled (cute/layout.hpp).

    Law: ``composition(A, B)(c) == A(B(c))`` for every coordinate c of B, congruent with B.
    """
    if isinstance(rhs, Layout) and isinstance(lhs, Layout):
        return _composed(lhs, rhs)
    if isinstance(lhs, Layout) and (rhs is None or isinstance(rhs, (int, tuple))):
        return _composed(lhs, rhs)
    asked = f"composition of {lhs} with {tiler_text(rhs)}"
    if isinstance(lhs, OffsetFunction):
        if isinstance(rhs, WrappedLayout | OffsetFunction | Layout):
            return lhs.after(rhs)
        if rhs is None or not isinstance(rhs, int | DynInt | tuple):
            raise LayoutError(f"{asked}: a layout is needed")
        return lhs.after(make_layout(rhs))  # type: ignore[arg-type]
    if not isinstance(lhs, (Layout, WrappedLayout)):
        raise LayoutError(f"composition takes a layout, not {lhs!r}")
    if isinstance(rhs, OffsetFunction):
        if isinstance(lhs, WrappedLayout):
            return lhs.around(rhs.through(lhs.layout, asked).after(lhs.layout), asked)
        return rhs.through(lhs, asked).after(lhs)
    if isinstance(rhs, WrappedLayout):
        inner = rhs.behind(lhs.layout if isinstance(lhs, WrappedLayout) else lhs, asked)
        return lhs.around(inner, asked) if isinstance(lhs, WrappedLayout) else inner
    if isinstance(lhs, WrappedLayout):
        lhs.require_inside(rhs, asked)
        return lhs.applied(lambda layout: _composed(layout, rhs))
    return _composed(lhs, rhs)


def _composed(lhs: Layout, rhs: Tiler) -> Layout:
    if rhs is None:
        return lhs
    if isinstance(rhs, tuple):
        return by_mode(lhs, rhs, lambda mode, tile: _composed(in_tuple(mode), tile), "composition")
    tile = rhs if isinstance(rhs, Layout) else make_layout(rhs)
    if has_basis(tile.stride):
        return _by_coordinate(lhs, tile)
    modes = flat_modes(lhs)
    # CuTe coalesces A first: fewer modes ask for fewer divisibilities.  A last mode of extent 1 stays only if B may
    # leave the domain, because its stride is the one that goes on.
    if isinstance(lhs.shape, tuple):
        modes = tuples.merge(modes, keep_last=bool(modes) and is_const(modes[-1][0], 1) and _exceeds(tile, lhs))
    return _Composer(lhs, tile, modes).all(tile.shape, tile.stride)


def _by_coordinate(lhs: Layout, rhs: Layout) -> Layout:
    """Compose with a layout of coordinates: each basis stride goes along its own mode of the left layout."""
    composers: dict[tuple[int, ...], _Composer] = {}

    def build(shape: IntTuple, stride: IntTuple) -> Layout:
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            return make_modes([build(s, d) for s, d in zip(shape, stride, strict=True)])
        assert not isinstance(shape, tuple) and not isinstance(stride, tuple), "shape and stride are congruent"
        if is_const(stride, 0):
            return Layout(shape, 0)
        if not isinstance(stride, ScaledBasis):
            raise LayoutError(f"composition of {lhs} with {rhs}: the stride {stride} is a number, the others are "
                              "coordinates")
        if stride.path not in composers:
            if not tuples.has_mode(lhs.shape, stride.path):
                raise LayoutError(f"composition of {lhs} with {rhs}: the stride {stride} names a mode that the "
                                  "left layout does not have")
            mode = lhs.mode(*stride.path)
            composers[stride.path] = _Composer(lhs, rhs, tuples.merge(flat_modes(mode), keep_last=True))
        return composers[stride.path].one(shape, stride.value)

    return build(rhs.shape, rhs.stride)


def _exceeds(tile: Layout, lhs: Layout) -> bool:
    """Whether a right operand may leave the domain of the left one.  Then the left one's last mode is continued."""
    if any(is_static(step) and step < 0 for step in tuples.flatten_tuple(tile.stride)):
        return True
    return known_less_equal(cosize(tile), size(lhs)) is not True


@dataclass(frozen=True, slots=True)
class _Composer:
    """One composition: its operands (for messages) and the merged modes of the left one.

    Unless ``assume`` is set, divisibility must be provable: nothing is recorded as an assumption of a dynamic integer.
    """

    lhs: Layout
    rhs: Layout
    flat: Modes
    assume: bool = True
    reach: dict[int, int] = field(default_factory=dict)
    """The largest coordinate that the right modes so far add up to, in each left mode but the last."""

    def all(self, shape: IntTuple, stride: IntTuple) -> Layout:
        """Compose mode by mode: composition distributes over the modes of the right operand."""
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            return make_modes([self.all(s, d) for s, d in zip(shape, stride, strict=True)])
        assert not isinstance(shape, tuple) and not isinstance(stride, tuple), "shape and stride are congruent"
        return self.one(shape, stride)

    def one(self, extent: Int, step: Int) -> Layout:
        """Compose the left layout with the integer mode extent:step: collect what each left mode contributes."""
        # Stride 0 visits index 0 alone, so the law needs no fact about A.
        if is_const(step, 0):
            return Layout.of(extent, 0)
        last = self.flat[-1][1] if self.flat else 0
        # One mode is linear on all integers, past its end too (CuTe lets the last mode continue).
        if len(self.flat) < 2:
            return Layout.of(extent, mul(step, last))
        if is_const(extent, 1):
            return Layout.of(1, self._unit_stride(step))
        if is_static(step) and step < 0:
            return Layout.of(extent, mul(self._whole_steps(extent, step), last))
        modes: Modes = []
        rest, start = extent, step
        # Invariant: the modes taken so far times ``rest`` are ``extent``; ``start`` is the step in units of mode i.
        # An index is a number whose digits are the coordinates in the left modes.  Steps of ``step`` first divide out
        # the extents that they skip whole, then count in each mode as far as it goes (CuTe, Layout Algebra,
        # composition).
        for i, (bound, stride) in enumerate(self.flat[:-1]):
            count, start = self._take(i, bound, start, rest)
            if count is not None:
                self._check_carry(i, bound, *count)
                modes.append((count[0], mul(count[1], stride)))
                rest = self._exact(i, rest, count[0])
                if is_const(rest, 1):
                    return from_modes(modes)
        # The last mode takes all that is left, whatever its extent is.
        return from_modes([*modes, (rest, mul(start, last))])

    def _whole_steps(self, extent: Int, step: int) -> Int:
        """A step down in units of the last mode.  In any other mode it would borrow, which no fixed strides say."""
        rest: Int = step
        for i, (bound, _) in enumerate(self.flat[:-1]):
            if is_static(bound) and not divides(bound, rest):
                raise self._fail(i, f"the stride {step} of {extent}:{step} goes down in it, which only the last mode "
                                    "can")
            rest = self._exact(i, rest, bound)
        return rest

    def _take(self, i: int, bound: Int, step: Int, extent: Int) -> tuple[tuple[Int, Int] | None, Int]:
        """What mode i (of extent ``bound``) contributes to extent:step, if anything, and the step for the next mode."""
        # i * step is a multiple of bound for every i: the coordinate in this mode stays 0.
        if divides(bound, step):
            return None, self._exact(i, step, bound)
        inside = True if divides(step, bound) else known_less(step, bound)
        # step >= bound here, so the composition exists only if bound divides step: prove or assume it.
        if inside is False and not (is_static(bound) and is_static(step)):
            return None, self._exact(i, step, bound)
        if inside is False:
            raise self._fail(i, f"its extent {bound} and the stride of {extent}:{step} do not divide each other")
        if inside is None and not is_static(step):
            raise FactError(f"{self._asked(i)} needs a bound that tells whether {step} < {bound}")
        # Rounded up: if step does not divide bound, the last partial step still fits, as long as it stays the last one.
        if is_static(bound) and is_static(step):
            room: Int = ints.ceil_div(bound, step)
        else:
            room = self._exact(i, bound, step)
        fits = True if divides(extent, room) else known_less_equal(extent, room)
        if fits is None and divides(room, extent):
            fits = False
        if fits is None:
            raise FactError(f"{self._asked(i)} needs a bound that tells whether {extent} <= {room}")
        # The mode ends inside mode i: the rest is 1, and nothing goes to later modes.
        if fits:
            return (extent, step), 1
        # The mode goes on in mode i + 1.  That is one step more only if ``room`` steps end exactly where mode i does.
        if divides(room, extent) is False or divides(step, bound) is False:
            if known_less(room, extent) is None:
                raise FactError(f"{self._asked(i)} needs a bound that tells whether {extent} <= {room}")
            raise self._fail(i, f"its extent {bound} leaves {room} of the {extent} steps of {extent}:{step}, "
                                "which do not tile it")
        return (room, step), 1

    def _check_carry(self, i: int, bound: Int, count: Int, step: Int) -> None:
        """Refuse right modes whose sum leaves a left mode: they are composed one by one, which is wrong then."""
        if is_static(count) and is_static(step):
            more = i in self.reach
            self.reach[i] = self.reach.get(i, 0) + (count - 1) * step
            beyond = known_less_equal(bound, self.reach[i])
            if beyond is None and more:
                raise FactError(f"{self._asked(i)} needs a bound that tells whether {self.reach[i]} < {bound}")
            if beyond:
                raise self._fail(i, f"the modes of {self.rhs} together reach {self.reach[i]}, "
                                    f"past the end of its extent {bound}")

    def _unit_stride(self, step: Int) -> Int:
        """The stride that CuTe gives a mode of extent 1, or 0 if that stride would need facts."""
        for bound, _ in self.flat[:-1]:
            if not is_const(step, 1):
                if not is_static(bound) or not is_static(step):
                    return 0
                step = ints.ceil_div(step, bound)
        return mul(step, self.flat[-1][1])

    def _exact(self, i: int, a: Int, b: Int) -> Int:
        if not self.assume and not divides(b, a):
            raise FactError(f"{self._asked(i)} needs to know that {a} is a multiple of {b}")
        return exact_div(a, b, lambda: self._asked(i))

    def _asked(self, i: int) -> str:
        mode = from_modes(self.flat[i:i + 1])
        return f"composition of {self.lhs} with {self.rhs} at mode {i} ({mode}) of the coalesced left layout"

    def _fail(self, i: int, reason: str) -> LayoutError:
        # Had two neighbours been known to be contiguous, they would be one mode, and there would be nothing to refuse.
        for at in range(max(i - 1, 0), min(i + 1, len(self.flat) - 1)):
            whole, step = mul(*self.flat[at]), self.flat[at + 1][1]
            if not (is_static(whole) and is_static(step)):
                return FactError(f"{self._asked(i)} needs to know whether mode {at + 1} goes on where mode {at} ends, "
                                 f"{step} == {whole}: without that {reason}")
        return LayoutError(f"{self._asked(i)}: {reason}")


def ascending(strides: list[Int], what: Callable[[], str]) -> list[int]:
    """The positions of strides in ascending order; FactError if facts do not order dynamic strides."""
    order: list[int] = []
    for i, step in enumerate(strides):
        # Facts may not order all strides; insertion asks pair by pair, and so can name the pair that lacks one.
        at = len(order)
        while at:
            other = strides[order[at - 1]]
            less = known_less(step, other)
            if less is None:
                raise FactError(f"{what()} needs a bound that tells whether stride {step} < {other}")
            if not less:
                break
            at -= 1
        order.insert(at, i)
    return order


def complement_modes(layout: Layout, cotarget: IntTuple | None) -> tuple[Modes, Int]:
    """The merged modes of the complement, and the first multiple of a stride past the layout."""
    def asked() -> str:
        return f"complement of {layout}"

    need_numbers(layout, "complement")
    # Modes of stride 0 and of extent 1 add no offset, so they leave nothing out either.
    image = filter(layout)
    modes = [] if is_const(size(image), 1) else flat_modes(image)
    gaps: Modes = []
    reach: Int = 1
    # In order of stride: what a mode leaves out lies between the reach of those before it and its stride, and that is a
    # mode of step ``reach`` (CuTe, Layout Algebra, complement).
    for extent, step in [modes[i] for i in ascending([d for _, d in modes], asked)]:
        if known_less(step, 0):
            raise LayoutError(f"{asked()}: the stride of its mode {extent}:{step} is negative")
        if known_less(step, reach):
            raise LayoutError(f"{asked()}: the mode {extent}:{step} overlaps modes that reach {reach}")
        # Invariant: the modes and gaps so far reach each offset below ``reach`` once.  A static gap that does not
        # divide rounds down, as in CuTe: it leaves a hole rather than an overlap.
        both = is_static(step) and is_static(reach)
        gaps.append((ints.floor_div(step, reach) if both else exact_div(step, reach, asked), reach))
        reach = mul(step, extent)
    target = cosize(image) if cotarget is None else tuples.product(cotarget)
    if is_static(target) and target < 0:
        raise LayoutError(f"{asked()} up to {target}: the cotarget is negative")
    # The last gap is rounded up: the layout and its complement together reach the target.
    gaps.append((ints.ceil_div(target, reach), reach))
    return tuples.merge(gaps), reach


def complement(layout: Layout | WrappedLayout, cotarget: IntTuple | None = None) -> Layout:
    """The offsets up to ``cotarget`` (its own coshape unless given) that a layout leaves out (cute/layout.hpp).

    Law: strictly increasing, disjoint from the layout but in 0, and ``make_layout(l, complement(l, n))`` reaches n.  So
    it is along each coordinate under basis strides, with one mode for each.  For a swizzled layout, offsets are
    counted before the swizzle.
    """
    plain = layout.layout if isinstance(layout, WrappedLayout) else layout
    if not isinstance(plain, Layout):
        raise LayoutError(f"complement takes a layout, not {layout!r}")
    if not has_basis(plain.stride):
        return from_modes(complement_modes(plain, cotarget)[0])
    target = coshape(plain) if cotarget is None else cotarget
    return directed(plain, target, lambda part, extent: from_modes(complement_modes(part, extent)[0]), "complement")


def directed(layout: Layout, target: IntTuple, f: Callable[[Layout, IntTuple], Layout], what: str) -> Layout:
    """Apply ``f(part, extent)`` along each coordinate of a target, where the result's strides go along it, too."""
    def build(extent: IntTuple, path: tuple[int, ...]) -> Layout:
        if isinstance(extent, tuple) and (not path or path not in parts):
            return make_modes([build(item, (*path, i)) for i, item in enumerate(extent)])
        try:
            done = f(from_modes([(s, d) for s, d, _ in parts.get(path, [])]), extent)
        except LayoutError as error:
            raise type(error)(f"{what} of {layout} along {ScaledBasis(1, path)}: {error.message}",
                              hint=error.hint) from None
        return Layout.of(done.shape, tuples.map_leaves(lambda d: 0 if is_const(d, 0) else mul(d, ScaledBasis(1, path)),
                                                       done.stride))

    parts = along(layout, f"{what} of {layout}")
    for path in parts:
        if not isinstance(target, tuple) or not tuples.has_mode(target, path) or not _is_place(target, path):
            raise LayoutError(f"{what} of {layout} up to {tuples.text(target)}: the target has no coordinate "
                              f"{ScaledBasis(1, path)}")
    return build(target, ())


def _is_place(x: IntTuple, path: tuple[int, ...]) -> bool:
    """Whether a path ends at a leaf or a mode, rather than going on in an integer."""
    for i in path:
        if not isinstance(x, tuple):
            return False
        x = x[i]
    return True


def along(layout: Layout, asked: str) -> dict[tuple[int, ...], list[tuple[Int, Int, Int]]]:
    """The modes (extent, number of steps, stride of the index) along each coordinate of a layout of basis strides."""
    # A mode of one element does not move, but says which coordinates there are.
    found: dict[tuple[int, ...], list[tuple[Int, Int, Int]]] = {
        step.path: [] for step in tuples.flatten_tuple(layout.stride) if isinstance(step, ScaledBasis)}
    at: Int = 1
    for extent, step in tuples.merge(flat_modes(layout)):
        if isinstance(step, ScaledBasis):
            found[step.path].append((extent, step.value, at))
        elif not is_const(step, 0):
            raise LayoutError(f"{asked}: the stride {step} is a number, the others are coordinates")
        at = mul(at, extent)
    for path in found:
        inner = next((p for p in found if p != path and p[:len(path)] == path), None)
        if inner is not None:
            raise LayoutError(f"{asked}: the strides {ScaledBasis(1, path)} and {ScaledBasis(1, inner)} are steps of a "
                              "coordinate and of a part of it")
    return found


def with_shape(layout: L, shape: IntTuple) -> L:
    """The layout with coordinates of another shape (cute/layout.hpp).

    Law: ``with_shape(l, s)(i) == l(i)`` for every index i, and the result has the modes of s.
    """
    return composition(layout, make_layout(shape))


def compose_proven(lhs: Layout, rhs: Layout) -> Layout:
    """Composition that may fail, but never records an assumption."""
    return _Composer(lhs, rhs, tuples.merge(flat_modes(lhs), keep_last=True), assume=False).all(rhs.shape, rhs.stride)
