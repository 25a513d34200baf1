"""The same memory in elements of another width.

In: a layout, swizzled or not, or a swizzle.  Out: the layout whose elements are wider or narrower.

>>> str(recast(Layout.parse("(8,64):(64,1)"), 16, 128)), str(downcast(Layout.parse("(8,8):(8,1)"), 8))
('(8,8):(8,1)', '(8,64):(64,1)')

Source: cute/layout.hpp, upcast, downcast, recast_layout.
"""

from __future__ import annotations

from math import gcd
from typing import TypeVar

from moye.errors import FactError, LayoutError
from moye.layout import ints, tuples
from moye.layout.algebra import coalesce, flat_modes
from moye.layout.ints import DynInt, Int, is_const, is_static
from moye.layout.inverse import right_inverse
from moye.layout.layout import Layout, need_numbers
from moye.layout.swizzle import ComposedLayout, Swizzle
from moye.layout.tuples import Modes
from moye.layout.wrapped import WrappedLayout

R = TypeVar("R", Layout, ComposedLayout, Swizzle)


def recast(layout: R, old_bits: int, new_bits: int) -> R:
    """The layout of the same memory in elements of another width (cute/layout.hpp, recast_layout).

    Law: ``l(i) * old_bits == w(j) * new_bits + rest`` with 0 <= rest < new_bits (or the reverse), and
    ``recast(recast(l, a, b), b, a)(i) == l(i)`` if both exist.
    """
    asked = f"recast of {layout} from {old_bits} to {new_bits} bits"
    if old_bits <= 0 or new_bits <= 0:
        raise LayoutError(f"{asked}: widths are positive")
    # 16 to 24 bits is down by 2 and up by 3: only the parts without a common factor can fail to divide.
    common = gcd(old_bits, new_bits)
    return _widened(_narrowed(layout, old_bits // common, asked), new_bits // common, asked)


def downcast(layout: R, factor: int) -> R:
    """Split each element into ``factor`` narrower ones: contiguous modes grow, other strides scale (cute/layout.hpp).

    Law: ``upcast(downcast(l, n), n)(i) == l(i)``, and the offsets of ``downcast(l, n)`` are ``l(i) * n + j`` for j < n.
    """
    return _narrowed(layout, factor, f"downcast of {layout} by {factor}")


def upcast(layout: R, factor: int) -> R:
    """Join ``factor`` neighbouring elements into one: contiguous modes shrink, other strides divide (cute/layout.hpp).

    Law: the offsets of ``upcast(l, n)`` are ``l(i) // n``, each once for every vector of l.
    """
    return _widened(layout, factor, f"upcast of {layout} by {factor}")


def _narrowed(layout: R, factor: int, asked: str) -> R:
    if factor <= 0:
        raise LayoutError(f"{asked}: the factor is not positive")
    if factor == 1:
        return layout
    if isinstance(layout, Swizzle):
        return Swizzle(layout.bits, layout.base + _log2(factor, asked), layout.shift)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(_narrowed(layout.swizzle, factor, asked), ints.mul(layout.offset, factor),
                              _narrowed(layout.layout, factor, asked))
    need_numbers(layout, "downcast")
    modes = flat_modes(layout)
    # The parts of an element are neighbours, so the mode of stride 1 takes them; one of extent 1 may take any stride.
    grown = [i for i, (extent, step) in enumerate(modes) if is_const(step, 1) and not is_const(extent, 1)]
    grown += [i for i, (extent, _) in enumerate(modes) if is_const(extent, 1)]
    if not grown:
        raise LayoutError(f"{asked}: no mode has stride 1, in which its elements could become {factor} each")
    wide = [(extent, ints.mul(step, factor)) for extent, step in modes]
    wide[grown[0]] = (ints.mul(modes[grown[0]][0], factor), 1)
    return _of_modes(layout, wide)


def _widened(layout: R, factor: int, asked: str) -> R:
    if factor <= 0:
        raise LayoutError(f"{asked}: the factor is not positive")
    if factor == 1:
        return layout
    if isinstance(layout, Swizzle):
        base = layout.base - _log2(factor, asked)
        return Swizzle(layout.bits, base, layout.shift) if base >= 0 else _shortened(layout, -base, asked)
    if isinstance(layout, ComposedLayout):
        offset = ints.exact_div(layout.offset, factor, f"{asked}: its offset must be a multiple of {factor}")
        return ComposedLayout(_widened(layout.swizzle, factor, asked), offset, _widened(layout.layout, factor, asked))
    need_numbers(layout, "upcast")
    return _Widener(layout, factor, asked).result()


def _shortened(sw: Swizzle, lost: int, asked: str) -> Swizzle:
    """A swizzle without its lowest bits: these lie inside a vector and permute its elements."""
    if sw.bits and sw.shift < 0:
        raise LayoutError(f"{asked}: {sw} moves bits from inside a vector past its end")
    return Swizzle(max(sw.bits - lost, 0), 0, sw.shift)


def _log2(factor: int, asked: str) -> int:
    if factor & (factor - 1):
        raise LayoutError(f"{asked}: a swizzle changes only by powers of two")
    return factor.bit_length() - 1


class _Widener:
    """One upcast: the modes that lie inside a vector must fill it together."""

    def __init__(self, layout: Layout, factor: int, asked: str) -> None:
        self.layout, self.factor, self.asked = layout, factor, asked
        self.inside = 1
        self.reach = 0
        self.short = False

    def result(self) -> Layout:
        made = _of_modes(self.layout, [self.one(extent, step) for extent, step in flat_modes(self.layout)])
        # The modes inside a vector fill it exactly once if their counts multiply to the factor and their offsets stay
        # below it.
        inside = self.reach >= self.factor or (self.short and self.inside != self.factor)
        if inside and not all(is_static(leaf) for mode in flat_modes(self.layout) for leaf in mode):
            raise FactError(f"{self.asked} needs static leaves: they must tell which modes fill a vector")
        if self.reach >= self.factor:
            raise LayoutError(f"{self.asked}: its modes overlap inside a vector of {self.factor}")
        if self.short and self.inside != self.factor:
            raise LayoutError(f"{self.asked}: its modes hold {self.inside} of the {self.factor} elements of a vector")
        return made

    def one(self, extent: Int, step: Int) -> tuple[Int, Int]:
        if is_const(step, 0):
            return extent, step
        if isinstance(step, DynInt):
            if is_const(extent, 1):                     # nothing moves along it
                return extent, ints.ceil_div(step, self.factor)
            return extent, ints.exact_div(step, self.factor, f"{self.asked}: mode {extent}:{step}")
        sign = 1 if step > 0 else -1
        if is_const(extent, 1):
            return extent, ints.ceil_div(abs(step), self.factor) * sign
        if self.factor % abs(step):
            return extent, ints.exact_div(step, self.factor, f"{self.asked}: mode {extent}:{step}")
        per = self.factor // abs(step)
        if is_static(extent) and extent % per and per % extent == 0:
            self.inside, self.short = self.inside * extent, True
            self.reach += (extent - 1) * abs(step)
            return 1, sign
        self.inside *= per
        self.reach += (per - 1) * abs(step)
        return ints.exact_div(extent, per, f"{self.asked}: mode {extent}:{step}"), sign


def _of_modes(layout: Layout, pairs: Modes) -> Layout:
    """These flat modes in the structure of a layout."""
    return Layout(tuples.unflatten_tuple([s for s, _ in pairs], layout.shape),
                  tuples.unflatten_tuple([d for _, d in pairs], layout.shape))


def max_alignment(layout: Layout | WrappedLayout | Swizzle) -> int:
    """The widest vector that tiles a layout; a dynamic leaf counts with its divisor (cute/layout.hpp).

    Law: ``upcast(layout, n)`` exists for n = max_alignment(layout), and every aligned run of n offsets is in the layout
    as a whole or not at all.
    """
    if isinstance(layout, Swizzle):
        return 1 << layout.base
    plain = layout.layout if isinstance(layout, WrappedLayout) else layout
    if not isinstance(plain, Layout):
        raise LayoutError(f"max_alignment takes a layout, not {layout!r}")
    need_numbers(plain, "max_alignment")
    most = _aligned(plain)
    if isinstance(layout, WrappedLayout):
        most = gcd(most, layout.contiguous_run())
    return next(n for n in range(most, 0, -1) if most % n == 0 and _tiles(plain, n))


def _aligned(plain: Layout) -> int:
    """What divides both the contiguous part of a layout and the strides of the rest."""
    # The strides of the right inverse are the indices at which the contiguous modes begin.
    covered = [step for _, step in flat_modes(right_inverse(plain))]
    run, rest = 1, 0
    index: Int = 1
    for extent, step in flat_modes(coalesce(plain)):
        if any(ints.same(index, start) for start in covered):
            run *= _divisor(extent)
        elif not is_const(step, 0):
            rest = gcd(rest, _divisor(step))
        index = ints.mul(index, extent)
    return gcd(rest, run)


def _divisor(x: Int) -> int:
    return x if isinstance(x, int) else x.divisor


def _tiles(plain: Layout, factor: int) -> bool:
    try:
        upcast(plain, factor)
    except LayoutError:
        return False
    return True
