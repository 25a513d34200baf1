"""Inverses of layouts, what a layout forgets, and what two layouts have in common.

In: layouts.  Out: layouts that obey the law in each docstring, in CuTe's form.

>>> a, b = Layout.parse("(4,8):(8,1)"), Layout.parse("(8,4):(1,9)")
>>> str(right_inverse(a)), max_common_vector(make_layout((8, 4)), b)
('(8,4):(4,1)', 8)

A swizzled layout has a swizzled inverse if one exists (swizzle.py).  Source: cute/layout.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import gcd
from typing import TypeAlias, overload

from moye.errors import FactError, LayoutError
from moye.layout import tuples
from moye.layout.algebra import along, ascending, coalesce, compose_proven, composition, flat_modes, make_modes
from moye.layout.basis import has_basis
from moye.layout.ints import Int, exact_div, is_const, is_static, known_less, mul, same
from moye.layout.layout import Layout, coprofile, cosize, from_modes, need_numbers, size
from moye.layout.tuples import IntTuple, Modes
from moye.layout.wrapped import WrappedLayout

IndexedMode: TypeAlias = tuple[Int, Int, Int]


@overload
def right_inverse(layout: Layout) -> Layout: ...


@overload
def right_inverse(layout: WrappedLayout) -> WrappedLayout: ...


def right_inverse(layout: Layout | WrappedLayout) -> Layout | WrappedLayout:
    """The indices at which the offsets 0, 1, 2, ... lie, as far as they are contiguous (cute/layout.hpp).

    Law: ``layout(right_inverse(layout)(i)) == i`` for every i below its size, the largest that is provable.  Under
    basis strides i is a coordinate, and each mode of the result is the inverse along one.
    """
    plain = _invertible(layout, "right_inverse")
    if isinstance(layout, WrappedLayout):
        return layout.inverse(right_inverse, f"right_inverse of {layout}")
    if has_basis(plain.stride):
        return _along_each(plain, _right, f"right_inverse of {plain}")
    return _right(_indexed(plain))


def _right(modes: list[IndexedMode]) -> Layout:
    rest = list(modes)
    found: Modes = []
    reach: Int = 1
    # Invariant: ``found`` maps the offsets 0 .. reach - 1 to their indices.  Only a mode of stride ``reach`` goes on.
    while True:
        for i, (extent, step, index) in enumerate(rest):
            if same(step, reach):
                found.append((extent, index))
                reach = mul(reach, extent)
                del rest[i]
                break
        else:
            return from_modes(tuples.merge(found))


def _indexed(layout: Layout) -> list[IndexedMode]:
    """The merged modes of a layout: extent, stride, and stride of the index."""
    modes: list[IndexedMode] = []
    at: Int = 1
    for extent, step in tuples.merge(flat_modes(layout)):
        modes.append((extent, step, at))
        at = mul(at, extent)
    return modes


def _along_each(layout: Layout, invert: Callable[[list[IndexedMode]], Layout], asked: str) -> Layout:
    """The inverse of a layout of coordinates: coordinates go back to indices one by one, and the indices add."""
    parts = along(layout, asked)

    def build(zero: IntTuple, path: tuple[int, ...]) -> Layout:
        if isinstance(zero, tuple):
            return make_modes([build(item, (*path, i)) for i, item in enumerate(zero)])
        return invert(parts.get(path, []))

    return build(coprofile(layout), ())


@overload
def left_inverse(layout: Layout) -> Layout: ...


@overload
def left_inverse(layout: WrappedLayout) -> WrappedLayout: ...


def left_inverse(layout: Layout | WrappedLayout) -> Layout | WrappedLayout:
    """The layout from an offset back to its index; modes of stride 0 are left out (cute/layout.hpp).

    Law: ``left_inverse(layout)(layout(i)) == i`` for every index i of an injective layout; for other layouts it is an
    index with that offset, or an error.  Under basis strides it takes the coordinate ``layout(i)``.
    """
    plain = _invertible(layout, "left_inverse")
    if isinstance(layout, WrappedLayout):
        return layout.inverse(left_inverse, f"left_inverse of {layout}")
    asked = f"left_inverse of {layout}"
    if has_basis(plain.stride):
        return _along_each(plain, lambda modes: _left(modes, asked), asked)
    if all(is_const(step, 0) for _, step in flat_modes(plain)):
        return coalesce(plain)
    return _left(_indexed(plain), asked, flat_modes(plain)[-1][1])


def _left(parts: list[IndexedMode], asked: str, last: Int | None = None) -> Layout:
    """The left inverse of indexed modes; ``last`` is the stride in which they go on past the end, if they do."""
    modes = [(step, extent, at) for extent, step, at in parts if not is_const(step, 0)]
    if not modes:
        return Layout(1, 0)
    at = mul(parts[-1][0], parts[-1][2])
    # In order of stride an offset is a number whose digits are the coordinates, from the least stride up.  The last one
    # may count down: quotients round down, so that digits below it stay what they are.
    sizes = [_distance(step, asked) for step, _, _ in modes]
    order = ascending(sizes, lambda: asked)
    down = [is_static(modes[i][0]) and known_less(modes[i][0], 0) is True for i in order]
    modes = [(sizes[i], *modes[i][1:]) for i in order]
    if any(down[:-1]):
        step, extent, _ = modes[down.index(True)]
        raise LayoutError(f"{asked}: its mode {extent}:-{step} goes down, which only the mode of the largest stride "
                          "can")
    # Offsets below the least stride are between elements: they all go to index 0.
    inverse: Modes = [(modes[0][0], 0)]
    below = 0  # the largest offset that the modes so far add up to, once they overlap
    for (step, extent, index), (above, width, _) in pairwise(modes):
        why = f"{asked}: the stride of its mode {width}:{above} must be a multiple of that of {extent}:{step}"
        # offset // step is this mode's coordinate until the next stride; a gap before that makes the mode longer here.
        inverse.append((exact_div(above, step, why), index))
        below = _check_apart(asked, (extent, step), (width, above), below)
    if below and down[-1]:
        raise LayoutError(f"{asked}: its mode {modes[-1][1]}:-{modes[-1][0]} goes down, so no other may reach "
                          f"{modes[-1][0]}")
    step, extent, index = modes[-1]
    # Past the last mode, offsets go on in its steps.
    ends = last is not None and same(mul(index, extent), at) and same(step, last)
    if below and not ends and is_static(extent) and is_static(step) \
            and below + (extent - 1) * step >= extent * step:
        raise LayoutError(f"{asked}: it is not injective, its mode {extent}:{step} ends before what the others reach")
    inverse.append((extent, mul(index, -1) if down[-1] else index))
    return from_modes(tuples.merge(inverse))


def _distance(step: Int, asked: str) -> Int:
    if is_static(step):
        return abs(step)
    if known_less(step, 0):
        raise LayoutError(f"{asked}: the stride {step} is negative and dynamic")
    return step


def _check_apart(asked: str, mode: tuple[Int, Int], above: tuple[Int, Int], below: int) -> int:
    """Check that an offset still determines the coordinate of the lower of two modes, in order of stride.

    If modes overlap, CuTe's inverse gives one of the indices.  It does so as long as a mode with a gap above it ends
    past everything below.  ``below`` is the largest offset of the modes so far (0 while none overlap).
    """
    extent, step = mode
    overlaps = known_less(above[1], mul(extent, step))
    if overlaps is None:
        raise FactError(f"{asked} needs a bound that tells whether {above[1]} < {mul(extent, step)}")
    if not overlaps and not below:
        return 0
    if not (is_static(extent) and is_static(step) and is_static(above[0]) and is_static(above[1])):
        raise FactError(f"{asked}: its modes {extent}:{step} and {above[0]}:{above[1]} overlap, so they must be static")
    largest = (below or step - 1) + (extent - 1) * step
    if step == above[1] or largest >= extent * step < above[1]:
        raise LayoutError(f"{asked}: it is not injective, its modes {extent}:{step} and {above[0]}:{above[1]} leave no "
                          "room to tell offsets apart")
    return largest


def _invertible(layout: Layout | WrappedLayout, what: str) -> Layout:
    plain = layout.layout if isinstance(layout, WrappedLayout) else layout
    if not isinstance(plain, Layout):
        raise LayoutError(f"{what} takes a layout, not {layout!r}")
    return plain


def nullspace(layout: Layout | WrappedLayout) -> Layout:
    """The indices that do not change the offset: those of the modes of stride 0 (cute/layout.hpp).

    Law: ``layout(nullspace(layout)(i)) == layout(0)`` for every i, the largest such.
    """
    plain = layout.layout if isinstance(layout, WrappedLayout) else layout
    if not isinstance(plain, Layout):
        raise LayoutError(f"nullspace takes a layout, not {layout!r}")
    at: Int = 1
    kernel: Modes = []
    for extent, step in flat_modes(plain):
        if is_const(step, 0):
            kernel.append((extent, at))
        at = mul(at, extent)
    return from_modes(tuples.merge(kernel))


def max_common_layout(a: Layout | WrappedLayout, b: Layout | WrappedLayout) -> Layout:
    """The indices at which two layouts are contiguous, in the same order (cute/layout.hpp, cute/swizzle_layout.hpp).

    Law: for ``v = max_common_layout(a, b)``, ``a(v(i)) - a(0) == b(v(i)) - b(0) == i``; it is the largest such layout
    for plain layouts of one size.
    """
    plain = [_invertible(x, "max_common_layout") for x in (a, b)]
    for x in plain:
        need_numbers(x, "max_common_layout")
    common = _common(*plain)
    count = size(common)
    assert is_static(count), "a common layout is static"
    run = _run(count, a, b)
    return common if run == count else composition(common, Layout(run, 1))


def _common(a: Layout, b: Layout) -> Layout:
    modes = flat_modes(right_inverse(b))
    # CuTe takes the first mode of a o right_inverse(b) if its stride is 1.  A prefix may compose where the whole does
    # not, so prefixes are tried, the longest first.
    for count in range(len(modes), 0, -1):
        shorter = from_modes(modes[:count])
        beyond = known_less(size(a), cosize(shorter))
        # Past the end of a, the composition would tell of elements that a does not have.
        if beyond:
            continue
        try:
            common = coalesce(compose_proven(a, shorter))
        except LayoutError:
            continue
        extent, step = flat_modes(common)[0]
        if is_static(extent) and is_const(step, 1) and (beyond is False or _inside(a, extent)):
            return composition(shorter, Layout(extent, 1))
    return Layout(1, 0)


def _inside(layout: Layout, count: int) -> bool:
    """Whether a single static mode of stride 1 has so many elements."""
    return any(is_const(step, 1) and is_static(extent) and extent >= count
               for extent, step in flat_modes(coalesce(layout)))


def _run(count: int, *layouts: Layout | WrappedLayout) -> int:
    for layout in layouts:
        if isinstance(layout, WrappedLayout):
            count = gcd(count, layout.contiguous_run())
    return count


def max_common_vector(a: Layout | WrappedLayout, b: Layout | WrappedLayout) -> int:
    """The most elements that are contiguous from 0 in both layouts, in the same order (cute/layout.hpp).

    Law: ``max_common_vector(a, b) == size(max_common_layout(a, b))``.
    """
    count = size(max_common_layout(a, b))
    assert is_static(count), "a common layout is static"
    return count
