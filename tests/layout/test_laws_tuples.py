"""Every verb of integers, integer tuples and coordinates: a hand table and its law."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layout_laws as laws
import moye.layout as ml
from layout_laws import law, table
from layout_symbols import Sym
from moye.errors import FactError, LayoutError
from moye.layout import E, Layout, make_layout, size
from moye.layout.tuples import flatten_tuple

shapes = laws.shapes()
numbers = st.integers(1, 60)
small = st.integers(1, 12)
pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4)


def inside(shape: Any) -> Any:
    return st.tuples(st.just(shape), laws.coordinates(shape))


crds = shapes.flatmap(inside)


def split(xs: Any) -> tuple[Any, Any]:
    return tuple(x for x, _ in xs), tuple(y for _, y in xs)


# --- integers --------------------------------------------------------------------------------------------------------


def test_is_static() -> None:
    n = Sym("n")
    assert ml.is_static(3) and not ml.is_static(n) and not ml.is_static("3")
    assert ml.is_static((3, (4, ()))) and not ml.is_static((3, (4, n))) and not ml.is_static((3, "4"))
    assert ml.is_static(2 * E(1)) and not ml.is_static(n * E(1)) and not ml.is_static(make_layout((4, n)))
    sw = ml.Swizzle(2, 0, 2)
    assert ml.is_static(sw) and not ml.is_static(ml.ComposedLayout(sw, n, Layout(4, 1)))
    swizzled = laws.layouts().map(lambda lay: ml.ComposedLayout(sw, 0, lay))

    @settings(max_examples=100, derandomize=True, database=None, deadline=None)
    @given(st.one_of(laws.layouts(), shapes, swizzled), st.data())
    def agrees(x: Any, data: Any) -> None:
        hider = laws.Hider(data, 0)
        hidden = hider.hide(x)
        assert ml.is_static(x) and ml.is_static(hidden) == (not hider.env), f"{hidden} at {hider.env}"

    agrees()


def test_same() -> None:
    assert ml.same(3, 3) and not ml.same(3, 4) and ml.same(Sym("n", lower=3, upper=3), 3) and not ml.same(Sym("n"), 3)
    law(ml.same, small, small, partial=True, holds=lambda r, a, b: not r or a == b)


def test_known_less() -> None:
    assert (ml.known_less(3, 4), ml.known_less(4, 4), ml.known_less(Sym("n"), 4)) == (True, False, None)
    law(ml.known_less, small, small, partial=True, holds=lambda r, a, b: r is None or r == (a < b))


def test_divides() -> None:
    assert (ml.divides(4, 12), ml.divides(5, 12), ml.divides(4, Sym("n", divisor=8))) == (True, False, True)
    law(ml.divides, small, numbers, partial=True, holds=lambda r, d, n: r is None or r == (n % d == 0))


# --- tuples ----------------------------------------------------------------------------------------------------------


def test_product() -> None:
    assert (ml.product(((2, 3), 4)), ml.product(())) == (24, 1)
    law(lambda a, b: ml.product((a, b)), shapes, shapes, holds=lambda r, a, b: r == ml.product(a) * ml.product(b))


def test_product_each() -> None:
    assert ml.product_each(((2, 3), 4)) == (6, 4)
    law(lambda a, b: ml.product_each((a, b)), shapes, shapes, holds=lambda r, a, b: r == (ml.product(a), ml.product(b)))


def test_product_like() -> None:
    assert ml.product_like(((2, 3), (4, (5, 6))), (0, (0, 0))) == (6, (4, 30))
    law(lambda a, b: ml.product_like((a, b), (0, 0)), shapes, shapes, holds=lambda r, a, b: r == (size(a), size(b)))
    with pytest.raises(LayoutError, match="the guide has 2 modes, the tuple 1"):
        ml.product_like(4, (0, 0))


def test_prefix_product() -> None:
    assert ml.prefix_product(((2, 3), 4), 5) == ((5, 10), 30)
    law(ml.prefix_product, shapes, holds=lambda r, s: table(Layout(s, r)) == list(range(size(s))))


def test_compact_col_major() -> None:
    assert ml.compact_col_major((4, (1, 2)), 3) == (3, (0, 12))
    law(ml.compact_col_major, shapes, holds=lambda r, s: table(Layout(s, r)) == list(range(size(s))))


def test_compact_row_major() -> None:
    assert ml.compact_row_major((4, (1, 2))) == (2, (0, 1))
    law(ml.compact_row_major, shapes, holds=lambda r, s:
        flatten_tuple(r)[::-1] == flatten_tuple(ml.compact_col_major(flatten_tuple(s)[::-1])))


def test_compact_order() -> None:
    assert ml.compact_order((2, 3, 4, 5), (1, 4, 3, 5)) == (1, 8, 2, 24)
    assert ml.compact_order((2, (3, 4)), ml.LayoutRight) == (12, (4, 1))
    law(ml.compact_order, st.tuples(shapes, shapes), st.permutations((0, 1)).map(tuple), hide=(0,),
        holds=lambda r, s, o: sorted(table(Layout(s, r))) == list(range(size(s))))


def test_ceil_div() -> None:
    assert (ml.ceil_div((10, 9), (4, 3)), ml.ceil_div((6, 20), 30)) == ((3, 3), (1, 4))
    law(ml.ceil_div, numbers, small, holds=lambda r, a, b: (r - 1) * b < a <= r * b)
    with pytest.raises(LayoutError, match=r"^ceil_div of 4 by 0: the divisor is not positive$"):
        ml.ceil_div(4, 0)


def test_round_up() -> None:
    assert ml.round_up((10, 9, 5), (4, 3)) == (12, 9, 5)
    law(ml.round_up, numbers, small, holds=lambda r, a, b: r % b == 0 and a <= r < a + b)
    with pytest.raises(LayoutError, match="their structures differ"):
        ml.round_up(4, (2, 2))


def test_shape_div() -> None:
    assert (ml.shape_div((12, 3), 4), ml.shape_div((2, 6), 4), ml.shape_div((4, 6), (2, 3))) == ((3, 3), (1, 3), (2, 2))
    law(ml.shape_div, numbers, small, examples=120, holds=lambda r, a, b: r == (a // b if a % b == 0 else 1))


@pytest.mark.slow
def test_evenly_divides() -> None:
    assert ml.evenly_divides((8, 6), (4, 3)) and not ml.evenly_divides((8, 6), (4, 4))
    law(ml.evenly_divides, numbers, small, partial=True, holds=lambda r, a, b: not r or a == ml.ceil_div(a, b) * b)
    assert ml.evenly_divides((8, 6), (Layout(2, 4), None)) and not ml.evenly_divides((8, 6), (Layout(2, 3), None))
    assert not ml.evenly_divides(80, Layout((2, 2), (1, 5))) and not ml.evenly_divides(8, Layout(4, 0))
    assert not ml.evenly_divides(8, Layout(4, -1)) and not ml.evenly_divides(8, (2, 2))
    assert not ml.evenly_divides(24, Layout(2, Sym("n", divisor=2))), "n may be 0"

    def once(a: Any, b: Layout) -> bool:
        """Every index of a is reached once; what has no rest does not divide."""
        try:
            return sorted(table(make_layout(b, ml.complement(b, size(a))))) == list(range(size(a)))
        except LayoutError:
            return False

    tiles = st.one_of(laws.layouts(room=12), laws.layouts(room=12, injective=True))
    law(ml.evenly_divides, shapes, tiles, dynamic=False, examples=400, holds=lambda r, a, b: r == once(a, b))
    law(ml.evenly_divides, shapes, tiles, examples=200, partial=True, holds=lambda r, a, b: not r or once(a, b))
    law(lambda n, b: ml.evenly_divides(size(b) * size(ml.complement(b)) * n, b), small,
        laws.powers(), dynamic=False, holds=lambda r, n, b: r)
    with pytest.raises(LayoutError, match="needs offsets that are numbers"):
        ml.evenly_divides(8, Layout(4, E(0)))


def test_inner_product() -> None:
    assert ml.inner_product((1, (2, 3)), (4, (5, 6))) == 32
    law(lambda c, lay: ml.inner_product(ml.idx2crd(lay.shape, c), lay.stride), st.just(1), laws.layouts(room=24),
        holds=lambda r, c, lay: r == lay(c) or size(lay) == 1)
    with pytest.raises(LayoutError, match=r"^inner_product of \(1,2\) and 3: one of them is an integer"):
        ml.inner_product((1, 2), 3)


def test_elem_scale() -> None:
    assert ml.elem_scale((2, 3), ((2, 2), 5)) == (8, 15)
    law(ml.elem_scale, st.tuples(small, small), st.tuples(shapes, shapes),
        holds=lambda r, a, b: ml.product(r) == ml.product(a) * ml.product(b))


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "of"), [
    ("elem_less", lambda a, b: all(x < y for x, y in zip(a, b, strict=True))),
    ("elem_leq", lambda a, b: all(x <= y for x, y in zip(a, b, strict=True))),
    ("elem_gtr", lambda a, b: all(x > y for x, y in zip(a, b, strict=True))),
    ("elem_geq", lambda a, b: all(x >= y for x, y in zip(a, b, strict=True))),
    ("lex_less", lambda a, b: a < b), ("lex_leq", lambda a, b: a <= b),
    ("colex_less", lambda a, b: a[::-1] < b[::-1]), ("colex_leq", lambda a, b: a[::-1] <= b[::-1]),
])
def test_order(verb: str, of: Any) -> None:
    law(lambda both: getattr(ml, verb)(*split(both)), pairs.map(tuple), holds=lambda r, both: r == of(*split(both)))


def test_elem_less() -> None:
    assert ml.elem_less((1, (2, 3)), (4, (3, 4))) and not ml.elem_less((1, 8), (4, 8))
    assert ml.elem_less((1,), (4, 8)) and not ml.elem_less((1, 2), (4,)) and ml.elem_less(5, (2, 3))
    with pytest.raises(FactError, match=r"^elem_less of n and 4 needs a bound that tells whether n < 4$"):
        ml.elem_less((Sym("n"), 1), (4, 4))


def test_elem_leq() -> None:
    assert ml.elem_leq((4, 2), (4, 3)) and not ml.elem_leq((5, 0), (4, 9))


def test_elem_gtr() -> None:
    assert ml.elem_gtr((5, 4), (4, 3)) and not ml.elem_gtr((5, 3), (4, 3))


def test_elem_geq() -> None:
    assert ml.elem_geq((5, 3), (4, 3)) and not ml.elem_geq((5, 2), (4, 3))


def test_lex_less() -> None:
    assert ml.lex_less((1, 9), (2, 0)) and not ml.lex_less((1, 9), (1, 9))


def test_lex_leq() -> None:
    assert ml.lex_leq((1, 9), (1, 9)) and not ml.lex_leq((2, 0), (1, 9))


def test_colex_less() -> None:
    assert ml.colex_less((9, 1), (0, 2)) and not ml.colex_less((1, 9), (1, 9))


def test_colex_leq() -> None:
    assert ml.colex_leq((1, 9), (1, 9)) and not ml.colex_leq((0, 2), (9, 1))


# --- coordinates -----------------------------------------------------------------------------------------------------


def test_crd2idx() -> None:
    assert (ml.crd2idx((1, 2), (3, 4), (4, 1)), ml.crd2idx((3, 1), ((2, 2), 4))) == (6, 7)
    law(lambda both: ml.crd2idx(both[1], both[0]), crds, holds=lambda r, both: ml.idx2crd(both[0], r) == both[1])


def test_idx2crd() -> None:
    assert (ml.idx2crd((4, (2, 3)), 13), ml.idx2crd((4, 8), 11, (8, 1))) == ((1, (1, 1)), (1, 3))
    law(ml.idx2crd, shapes, st.just(1), hide=(0,), holds=lambda r, s, i: size(s) < 2 or ml.crd2idx(r, s) == i)
    layout = Layout.parse("(4,(2,3)):(6,(3,1))")
    assert all(ml.crd2idx(ml.idx2crd(layout.shape, o, layout.stride), layout) == o for o in table(layout))
    with pytest.raises(LayoutError, match="have different structures"):
        ml.idx2crd((4, 8), 3, 1)


def test_crd2crd() -> None:
    assert (ml.crd2crd((1, 2), (2, 6), (3, 4)), ml.crd2crd((5, 3), ((2, 4), 8))) == ((1, 3), ((1, 2), 3))
    law(lambda both: ml.crd2crd(both[1], (size(both[0]),), both[0]), crds,
        holds=lambda r, both: r == (ml.crd2idx(both[1], both[0]),))


def test_increment() -> None:
    assert (ml.increment((2, 1), (3, 4)), ml.increment((2, 3), (3, 4))) == ((0, 2), (0, 0))
    law(lambda both: ml.increment(both[1], both[0]), crds, examples=100, holds=lambda r, both:
        ml.crd2idx(r, both[0]) == (ml.crd2idx(both[1], both[0]) + 1) % size(both[0]))
    with pytest.raises(FactError, match=r"^increment of 2 in shape n needs a bound that tells whether 3 < n$"):
        ml.increment(2, Sym("n"))


def test_make_coord_iterator() -> None:
    assert list(ml.make_coord_iterator((2, 2))) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    law(lambda s: list(ml.make_coord_iterator(s)), shapes, dynamic=False,

        holds=lambda r, s: r == table(ml.make_identity_layout(s)))
    assert [make_layout((2, 3))(c) for c in ml.make_coord_iterator((2, 3))] == list(range(6))
    with pytest.raises(FactError, match="needs the static size"):
        ml.make_coord_iterator((2, Sym("n")))
