"""Arithmetic of integer tuples: quotients of shapes, products by element, and comparisons of coordinates.

In: integer tuples.  Out: integer tuples, numbers and truths.

>>> ceil_div((10, 9), (4, 3)), shape_div((2, 6), 4), elem_less((1, 2), (4, 3)), inner_product((1, 2), (8, 1))
((3, 3), (1, 3), True, 10)

If facts do not decide a comparison of dynamic integers, it is a traced bool in a kernel and a FactError elsewhere.

Source: cute/int_tuple.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, overload

from moye.errors import FactError, LayoutError
from moye.layout import ints
from moye.layout.algebra import Tiler, ascending, flat_modes
from moye.layout.basis import has_basis
from moye.layout.ints import DynInt, Int, add, known_less, known_less_equal, mul
from moye.layout.layout import Layout
from moye.layout.tuples import IntTuple, product, text, tuple_rank


@overload
def ceil_div(a: Int, b: Int) -> Int: ...


@overload
def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple: ...


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Quotients rounded up, mode by mode; an integer b divides a tuple from the left (cute/int_tuple.hpp).

    Law: ``ceil_div(a, b)`` is the least n with ``n * b >= a``.
    """
    if isinstance(b, tuple):
        if not isinstance(a, tuple) or len(a) < len(b):
            raise LayoutError(f"ceil_div of {text(a)} by {text(b)}: the divisor has {len(b)} modes, "
                              f"the dividend {tuple_rank(a)}")
        return tuple(map(ceil_div, a, b)) + a[len(b):]
    if isinstance(a, tuple):
        result: list[IntTuple] = []
        for item in a:
            result.append(ceil_div(item, b))
            b = ints.ceil_div(b, product(item))
        return tuple(result)
    if ints.is_static(b) and b <= 0:
        raise LayoutError(f"ceil_div of {a} by {b}: the divisor is not positive")
    return ints.ceil_div(a, b)


def round_up(a: IntTuple, b: IntTuple) -> IntTuple:
    """The least multiples of b that are not below a, mode by mode (cute/int_tuple.hpp).

    Law: ``round_up(a, b) == ceil_div(a, b) * b`` leaf by leaf.
    """
    if isinstance(b, tuple) and isinstance(a, tuple) and len(a) >= len(b):
        return tuple(map(round_up, a, b)) + a[len(b):]
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise LayoutError(f"round_up of {text(a)} to {text(b)}: their structures differ")
    return a if ints.divides(b, a) else mul(ceil_div(a, b), b)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """What is left of shape a after b elements are taken from it (cute/int_tuple.hpp).

    Law: ``shape_div(a, b)`` is a / b, or 1 where a divides b; a tuple is divided from the left.
    """
    if isinstance(b, tuple):
        if not isinstance(a, tuple):
            return shape_div(a, product(b))
        if len(a) != len(b):
            raise LayoutError(f"shape_div of {text(a)} by {text(b)}: ranks {len(a)} and {len(b)} differ")
        return tuple(map(shape_div, a, b))
    if isinstance(a, tuple):
        result: list[IntTuple] = []
        for item in a:
            result.append(shape_div(item, b))
            rest = shape_div(b, product(item))
            assert not isinstance(rest, tuple), "the quotient of integers is an integer"
            b = rest
        return tuple(result)
    if ints.divides(b, a) is not True and ints.divides(a, b):
        return 1
    return ints.exact_div(a, b, f"shape_div of {a} by {b}")


def evenly_divides(a: IntTuple, b: Tiler) -> bool:
    """Whether tiles b cover a shape mode by mode and reach past nothing; b may have layouts (cute/int_tuple.hpp).

    Law: ``evenly_divides(a, b)`` means that the tile and its rest, ``make_layout(b, complement(b, size(a)))``, reach
    every index of a once.  Dynamic integers must prove it.
    """
    if isinstance(b, tuple):
        modes = a if isinstance(a, tuple) else (a,)
        return len(modes) >= len(b) and all(map(evenly_divides, modes, b))
    if b is None:
        return True
    period = _period(b) if isinstance(b, Layout) else b
    return period is not None and ints.divides(period, product(a)) is True


def _period(tile: Layout) -> Int | None:
    """So many indices a tile and its copies in its gaps cover without a hole; None if they provably do not."""
    if has_basis(tile.stride):
        raise LayoutError(f"evenly_divides by {tile} needs offsets that are numbers, but its strides are coordinates")
    modes = [mode for mode in flat_modes(tile) if not ints.is_const(mode[0], 1)]
    try:
        order = ascending([step for _, step in modes], lambda: "evenly_divides")
    except FactError:
        return None
    reach: Int = 1
    # Numbers below n are written once each only by digits whose weights divide one another.
    for extent, step in [modes[i] for i in order]:
        low = ints.lower_bound(step)
        if low is None or low < 1 or ints.divides(reach, step) is not True:
            return None
        reach = mul(step, extent)
    return reach


def inner_product(a: IntTuple, b: IntTuple) -> Int:
    """The sum of the products of leaves (cute/int_tuple.hpp).

    Law: ``inner_product(crd, stride) == Layout(shape, stride)(crd)`` for natural coordinates.
    """
    total: Int = 0
    for x, y in _pairs(a, b, "inner_product"):
        total = add(total, mul(x, y))
    return total


def elem_scale(a: IntTuple, b: IntTuple) -> IntTuple:
    """Each leaf of a times the size of the mode of b at its place (cute/int_tuple.hpp).

    Law: ``product(elem_scale(a, b)) == product(a) * product(b)``.
    """
    if not isinstance(a, tuple):
        return mul(a, product(b))
    if not isinstance(b, tuple) or len(a) != len(b):
        raise LayoutError(f"elem_scale of {text(a)} by {text(b)}: ranks {tuple_rank(a)} and {tuple_rank(b)} differ")
    return tuple(map(elem_scale, a, b))


def product_like(a: IntTuple, guide: IntTuple) -> IntTuple:
    """The products of those modes of a that stand where the guide has leaves (cute/int_tuple.hpp).

    Law: congruent with the guide, and ``product(product_like(a, guide)) == product(a)``.
    """
    if not isinstance(guide, tuple):
        return product(a)
    if not isinstance(a, tuple) or len(a) != len(guide):
        raise LayoutError(f"product_like of {text(a)} by {text(guide)}: the guide has {len(guide)} modes, "
                          f"the tuple {tuple_rank(a)}")
    return tuple(map(product_like, a, guide))


def prefix_product(a: IntTuple, start: Int = 1) -> IntTuple:
    """For each leaf, the product of all leaves to its left (pycute/int_tuple).

    Law: congruent with a; the leaf after x is x's own prefix product times x.
    """
    def build(x: IntTuple) -> IntTuple:
        nonlocal start
        if isinstance(x, tuple):
            return tuple([build(item) for item in x])
        here, start = start, mul(start, x)
        return here

    return build(a)


def _pairs(a: IntTuple, b: IntTuple, what: str) -> Iterator[tuple[Int, Int]]:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise LayoutError(f"{what} of {text(a)} and {text(b)}: ranks {len(a)} and {len(b)} differ")
        for x, y in zip(a, b, strict=True):
            yield from _pairs(x, y, what)
    elif isinstance(a, tuple) or isinstance(b, tuple):
        raise LayoutError(f"{what} of {text(a)} and {text(b)}: one of them is an integer, the other a tuple")
    else:
        yield a, b


# --- order -----------------------------------------------------------------------------------------------------------


def _less(a: Int, b: Int, what: str) -> bool:
    less = known_less(a, b)
    if less is None:
        raise FactError(f"{what} needs a bound that tells whether {a} < {b}")
    return less


def _compared(kind: Literal["lt", "le"], a: Int, b: Int, what: str) -> Any:
    """``a < b`` or ``a <= b``: a bool, or a traced bool if the facts do not tell."""
    known = known_less(a, b) if kind == "lt" else known_less_equal(a, b)
    if known is not None:
        return known
    traced = a.comparison(kind, b) if isinstance(a, DynInt) else \
        b.comparison({"lt": "gt", "le": "ge"}[kind], a) if isinstance(b, DynInt) else None
    return _less(*((a, b) if kind == "lt" else (b, a)), what) if traced is None else traced


def _every(parts: Iterable[Any]) -> Any:
    """Whether all hold; the answer is traced if one of them is traced and none is known to fail."""
    found: Any = True
    for part in parts:
        if part is False:
            return False
        found = part if found is True else found if part is True else found & part
    return found


def elem_less(a: IntTuple, b: IntTuple) -> bool:
    """Whether every leaf of a is less than that of b: whether coordinate a lies inside shape b (cute/int_tuple.hpp).

    Law: ``elem_less(a, b)`` means ``x < y`` for all pairs of leaves; an integer a is an index of shape b.  In a
    kernel the answer is a traced bool if facts do not tell.
    """
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) > len(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _truth(_every(elem_less(x, y) for x, y in zip(a, b, strict=False)))
    if not isinstance(a, tuple):
        return _truth(_compared("lt", a, product(b), f"elem_less of {a} and {text(b)}"))
    raise LayoutError(f"elem_less of {text(a)} and {text(b)}: the second is an integer, the first a tuple",
                      hint="mo.shape(x) has an entry for each mode, mo.size(x) is one number")


def elem_leq(a: IntTuple, b: IntTuple) -> bool:
    """Whether every leaf of a is at most that of b.

    Law: ``elem_leq(a, b)`` means ``x <= y`` for all pairs of leaves; cute/int_tuple.hpp has ``not elem_less(b, a)``.
    """
    what = f"elem_leq of {text(a)} and {text(b)}"
    return _truth(_every(_compared("le", x, y, what) for x, y in _pairs(a, b, "elem_leq")))


def elem_gtr(a: IntTuple, b: IntTuple) -> bool:
    """Whether every leaf of a is greater than that of b (cute/int_tuple.hpp).

    Law: ``elem_gtr(a, b) == elem_less(b, a)``.
    """
    what = f"elem_gtr of {text(a)} and {text(b)}"
    return _truth(_every(_compared("lt", y, x, what) for x, y in _pairs(a, b, "elem_gtr")))


def elem_geq(a: IntTuple, b: IntTuple) -> bool:
    """Whether every leaf of a is at least that of b.

    Law: ``elem_geq(a, b) == elem_leq(b, a)``; cute/int_tuple.hpp has ``not elem_less(a, b)``.
    """
    return elem_leq(b, a)


def _truth(truth: Any) -> bool:
    """A truth, possibly traced, with the type that the annotations of this module have."""
    return truth  # type: ignore[no-any-return]


def _first_difference(a: IntTuple, b: IntTuple, what: str, rightmost: bool) -> int:
    """How a and b compare in the first leaf, from either end, in which they differ: -1, 0 or 1."""
    pairs = list(_pairs(a, b, what))
    asked = f"{what} of {text(a)} and {text(b)}"
    for x, y in reversed(pairs) if rightmost else pairs:
        if not ints.same(x, y):
            if _less(x, y, asked):
                return -1
            if _less(y, x, asked):
                return 1
    return 0


def lex_less(a: IntTuple, b: IntTuple) -> bool:
    """Whether a comes before b if the leftmost leaf decides first (cute/int_tuple.hpp).

    Law: the order of row-major indices.
    """
    return _first_difference(a, b, "lex_less", False) < 0


def lex_leq(a: IntTuple, b: IntTuple) -> bool:
    """Whether a does not come after b if the leftmost leaf decides first (cute/int_tuple.hpp).

    Law: ``lex_leq(a, b) == (not lex_less(b, a))``.
    """
    return _first_difference(a, b, "lex_leq", False) <= 0


def colex_less(a: IntTuple, b: IntTuple) -> bool:
    """Whether a comes before b if the rightmost leaf decides first (cute/int_tuple.hpp).

    Law: the order of column-major indices.
    """
    return _first_difference(a, b, "colex_less", True) < 0


def colex_leq(a: IntTuple, b: IntTuple) -> bool:
    """Whether a does not come after b if the rightmost leaf decides first (cute/int_tuple.hpp).

    Law: ``colex_leq(a, b) == (not colex_less(b, a))``.
    """
    return _first_difference(a, b, "colex_leq", True) <= 0
