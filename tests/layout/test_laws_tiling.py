"""Divisions, products, widths and swizzles: a hand table, and each verb's law on random layouts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import strategies as st

import layout_laws as laws
import moye.layout as ml
from layout_laws import law, table
from moye.errors import LayoutError
from moye.layout import ComposedLayout, E, Layout, Swizzle, make_layout, size

plain, parse = laws.layouts(), Layout.parse
injective = laws.layouts(injective=True)
swizzled = st.builds(lambda sw, lay: ComposedLayout(sw, 0, lay), laws.swizzles(), laws.powers())


def as_layout(tiler: Any) -> Layout:
    return tiler if isinstance(tiler, Layout) else make_layout(tiler)


pairs = laws.layouts(injective=True, rank=2)
small = laws.layouts(injective=True, room=4)


# --- division and product --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_logical_divide() -> None:
    assert str(ml.logical_divide(parse("(16,8)"), (4, None))) == "((4,4),8):((1,4),16)"

    def tiled(r: Layout, lay: Layout, t: Any) -> bool:
        tile = as_layout(t)
        return table(r) == [lay(i) for i in table(make_layout(tile, ml.complement(tile, size(lay))))]

    law(ml.logical_divide, plain, laws.tiles(), examples=150, holds=tiled)
    by_coordinate = ml.logical_divide(parse("(8,16):(16,1)"), parse("(4,2):(2@1,1@0)"))
    assert str(by_coordinate) == "((4,2),(4,(2,2))):((2,16),(32,(1,8)))"

    def tiled_along(r: Layout, lay: Layout, both: Any) -> bool:
        """Brute force: element t of tile k is the layout at the sum of the two coordinates."""
        crds = table(make_layout(both[0], ml.complement(both[0], lay.shape)))
        return len(set(crds)) == len(crds) and table(r) == [lay(filled(c, lay.shape)) for c in crds]

    def filled(crd: Any, shape: Any) -> Any:
        """The coordinate with 0 in the positions that nothing moves along."""
        if not isinstance(crd, tuple):
            return crd
        return tuple(filled(c, s) for c, s in itertools.zip_longest(crd, shape, fillvalue=0))

    def of(lay: Layout, both: Any) -> Layout:
        return ml.logical_divide(lay, both[0])

    shape = st.one_of(pairs, st.builds(lambda a, b, c: make_layout(a, make_layout(b, c)), small, small, small))
    law(of, shape, laws.directed(injective=True), dynamic=False, holds=tiled_along)


@pytest.mark.slow
def test_zipped_divide() -> None:
    assert str(ml.zipped_divide(parse("(16,8)"), (4, 2))) == "((4,2),(4,4)):((1,16),(4,32))"
    law(ml.zipped_divide, laws.layouts(rank=2), st.tuples(laws.tiles(), laws.tiles()), examples=100,
        holds=lambda r, lay, t: table(r.mode(0)) == table(ml.composition(lay, t)))
    law(ml.zipped_divide, laws.layouts(rank=3), st.tuples(laws.tiles(), laws.tiles()), dynamic=False,
        holds=lambda r, lay, t: list(r.mode(1))[2:] == [lay.mode(2)])       # what has no tile comes last
    law(lambda lay, t: ml.zipped_divide(lay, t)[:, 0], plain, laws.tiles(),
        holds=lambda r, lay, t: table(r) == table(ml.composition(lay, as_layout(t))))


def same_as_zipped(verb: Any) -> None:
    law(verb, plain, laws.tiles(), holds=lambda r, lay, t: table(r) == table(ml.zipped_divide(lay, t)))
    law(verb, laws.layouts(rank=2), st.tuples(laws.tiles(), laws.tiles()), examples=100,
        holds=lambda r, lay, t: table(r) == table(ml.zipped_divide(lay, t)))


@pytest.mark.slow
def test_tiled_divide() -> None:
    assert str(ml.tiled_divide(parse("(16,8)"), (4, 2))) == "((4,2),4,4):((1,16),4,32)"
    same_as_zipped(ml.tiled_divide)


@pytest.mark.slow
def test_flat_divide() -> None:
    assert str(ml.flat_divide(parse("(16,8)"), (4, 2))) == "(4,2,4,4):(1,16,4,32)"
    same_as_zipped(ml.flat_divide)


def test_tile_unzip() -> None:
    assert str(ml.tile_unzip(parse("((4,4),(2,4)):((1,4),(16,32))"), (4, 2))) == "((4,2),(4,4)):((1,16),(4,32))"
    law(lambda lay, t: ml.tile_unzip(ml.logical_divide(lay, t), t), laws.layouts(rank=2),
        st.tuples(laws.tiles(), laws.tiles()), holds=lambda r, lay, t: table(r) == table(ml.zipped_divide(lay, t)))


def test_domain_distribute() -> None:
    assert str(ml.domain_distribute((15, 14), 6)) == "(3,2):(1,15)"
    law(ml.domain_distribute, laws.shapes(), st.integers(1, 24), dynamic=False, holds=lambda r, s, n: n % size(r) == 0
        and table(r) == sorted(set(table(r))) and table(ml.composition(make_layout(s), r)) == table(r))


@pytest.mark.slow
def test_logical_product() -> None:
    assert str(ml.logical_product(parse("(2,2):(4,1)"), parse("6:1"))) == "((2,2),(2,3)):((4,1),(2,8))"

    def copies(r: Layout, a: Layout, t: Any) -> bool:
        b = as_layout(t)
        places = ml.composition(ml.complement(a, size(a) * ml.cosize(b)), b)
        return table(r.mode(0)) == table(a) and table(r.mode(1)) == table(places)

    law(ml.logical_product, injective, laws.tiles(), examples=150, holds=copies)
    by_coordinate = ml.logical_product(parse("(4,2):(1@0,1@1)"), parse("(3,5):(1@0,1@1)"))
    assert str(by_coordinate) == "((4,2),(3,5)):((1@0,1@1),(4@0,2@1))"
    assert str(ml.logical_product(parse("4:1@1"), parse("3:1"))) == "(4,3):(1@1,4@1)"

    def copies_along(r: Layout, a: Any, b: Any) -> bool:
        """Along each coordinate a product of numbers; by brute force, the copies do not meet."""
        paths = [path for path in a[1] if path in b[1]]
        whole = [tuple(laws.at(c, path) for path in paths) for c in table(r)]
        return len(set(whole)) == len(whole) == size(a[0]) * size(b[0]) and table(r.mode(0)) == table(a[0]) and all(
            {laws.at(c, path) for c in table(r.mode(1))}
            == set(table(ml.logical_product(a[1][path], b[1][path]).mode(1))) for path in paths)

    alike = st.sampled_from(laws.PATHS).flatmap(lambda paths: st.tuples(*[laws.directed(
        paths=(paths,), injective=True, room=4)] * 2))
    law(lambda both: ml.logical_product(both[0][0], both[1][0]), alike, dynamic=False,
        holds=lambda r, both: copies_along(r, *both))


def same_as_logical(verb: Any) -> None:
    law(verb, injective, laws.tiles(), holds=lambda r, a, t: table(r) == table(ml.logical_product(a, t)))


def test_zipped_product() -> None:
    assert str(ml.zipped_product(parse("(2,5):(5,1)"), parse("(3,4):(1,3)"))) == "((2,5),(3,4)):((5,1),(10,30))"
    assert str(ml.zipped_product(parse("(2,4)"), (3, 2))) == "((2,4),(3,2)):((1,2),(2,1))"
    same_as_logical(ml.zipped_product)


def test_tiled_product() -> None:
    assert str(ml.tiled_product(parse("(2,5):(5,1)"), parse("(3,4):(1,3)"))) == "((2,5),3,4):((5,1),10,30)"
    same_as_logical(ml.tiled_product)


def test_flat_product() -> None:
    assert str(ml.flat_product(parse("(2,5):(5,1)"), parse("(3,4):(1,3)"))) == "(2,5,3,4):(5,1,10,30)"
    same_as_logical(ml.flat_product)



def coalesced_by_mode(verb: Any) -> None:
    """With the flag each mode has the same map as without it, and merges no further."""
    def merged(r: Layout, a: Layout, b: Layout) -> bool:
        modes = list(verb(a, b))
        return [table(m) for m in r] == [table(m) for m in modes] and list(r) == [ml.coalesce(m) for m in modes]

    law(lambda a, b: verb(a, b, coalesce_result=True), pairs, pairs, examples=30, holds=merged)
    assert str(verb(parse("4:1"), parse("3:1"), coalesce_result=True)) in ("12:1", "(3,4):(4,1)")


@pytest.mark.slow
def test_blocked_product() -> None:
    assert str(ml.blocked_product(parse("(2,5):(5,1)"), parse("(3,4):(1,3)"))) == "((2,3),(5,4)):((5,10),(1,30))"
    law(ml.blocked_product, pairs, pairs, holds=lambda r, a, b: [
        r((i, k), (j, lay)) for lay in range(size(b, 1)) for k in range(size(b, 0)) for j in range(size(a, 1))
        for i in range(size(a, 0))] == table(ml.logical_product(a, b)))
    assert str(ml.blocked_product(parse("(2,4):(1,2)"), parse("(3,2):(2,1)"), True)) == "((2,3),8):((1,16),2)"
    coalesced_by_mode(ml.blocked_product)
    along = ml.blocked_product(parse("(4,2):(1@0,1@1)"), parse("(3,5):(1@0,1@1)"))
    assert str(along) == "((4,3),(2,5)):((1@0,4@0),(1@1,2@1))" and len(set(table(along))) == 120


@pytest.mark.slow
def test_raked_product() -> None:
    assert str(ml.raked_product(parse("(2,5):(5,1)"), parse("(3,4):(1,3)"))) == "((3,2),(4,5)):((10,5),(30,1))"
    law(ml.raked_product, pairs, pairs, holds=lambda r, a, b: [
        r((k, i), (lay, j)) for lay in range(size(b, 1)) for k in range(size(b, 0)) for j in range(size(a, 1))
        for i in range(size(a, 0))] == table(ml.logical_product(a, b)))
    assert str(ml.raked_product(parse("(2,1):(3,0)"), parse("(3,2):(1,3)"), True)) == "(6,2):(1,6)"
    coalesced_by_mode(ml.raked_product)
    along = ml.raked_product(parse("(4,2):(1@0,1@1)"), parse("(3,5):(1@0,1@1)"))
    assert str(along) == "((3,4),(5,2)):((4@0,1@0),(2@1,1@1))" and len(set(table(along))) == 120


def test_tile_to_shape() -> None:
    atom = ml.parse("Sw<3,0,3> o 0 o (8,8):(8,1)")
    assert str(ml.tile_to_shape(atom, (16, 32), (1, 0))) == "Sw<3,0,3> o 0 o ((8,2),(8,4)):((8,256),(1,64))"
    order = st.sampled_from((None, (0, 1), (1, 0), ml.LayoutRight))
    counts = st.tuples(st.integers(1, 3), st.integers(1, 3))
    law(lambda lay, c, o: ml.tile_to_shape(lay, (size(lay, 0) * c[0], size(lay, 1) * c[1]), o), pairs, counts, order,
        hide=(0,), partial=True, holds=lambda r, lay, c, o: len(set(table(r))) == size(lay) * c[0] * c[1]
        and table(r[(None, 0), (None, 0)]) == table(lay))


# --- widths and swizzles ---------------------------------------------------------------------------------------------

factors = st.sampled_from((1, 2, 3, 4))


@pytest.mark.slow
def test_downcast() -> None:
    assert str(ml.downcast(parse("(8,4):(1,8)"), 2)) == "(16,4):(1,16)"
    assert (str(ml.downcast(parse("1:0"), 4)), str(ml.downcast(Swizzle(3, 0, 3), 8))) == ("4:1", "Sw<3,3,3>")
    law(ml.downcast, plain, factors, hide=(0,), holds=lambda r, lay, n: table(ml.upcast(r, n)) == table(lay)
        and sorted(table(r)) == sorted(o * n + j for o in table(lay) for j in range(n)))
    law(ml.downcast, swizzled, st.sampled_from((1, 2, 4)), hide=(),
        holds=lambda r, lay, n: sorted(table(r)) == sorted(o * n + j for o in table(lay) for j in range(n)))


@pytest.mark.slow
def test_upcast() -> None:
    assert str(ml.upcast(parse("(8,4):(1,8)"), 8)) == "(1,4):(1,1)"
    law(ml.upcast, plain, factors, hide=(0,), examples=150, holds=lambda r, lay, n: set(table(r)) == {
        o // n for o in table(lay)})
    law(ml.upcast, swizzled, st.sampled_from((1, 2, 4)), hide=(), holds=lambda r, lay, n: set(table(r)) == {
        o // n for o in table(lay)})


def test_recast() -> None:
    assert str(ml.recast(parse("(8,64):(64,1)"), 16, 128)) == "(8,8):(8,1)"
    law(ml.recast, plain, st.sampled_from((8, 16)), st.sampled_from((8, 16, 32)), hide=(0,), holds=lambda r, lay, a, b:
        {o * a // max(a, b) for o in table(lay)} == {o * b // max(a, b) for o in table(r)})


def test_make_swizzle() -> None:
    assert (ml.make_swizzle(0b111000, 0b111), ml.make_swizzle(0b11, 0b1100)) == (Swizzle(3, 0, 3), Swizzle(2, 0, -2))
    for sw in (Swizzle(2, 1, 3), Swizzle(3, 2, -4)):
        assert ml.make_swizzle(sw.source_mask, sw.target_mask) == sw
        assert sw(sw.source_mask) == sw.source_mask ^ sw.target_mask
    with pytest.raises(LayoutError, match="are not one run of bits each"):
        ml.make_swizzle(0b101000, 0b101)
    with pytest.raises(LayoutError, match="must have bits"):
        ml.make_swizzle(0b101000, 0)


def test_swizzle() -> None:
    assert ml.swizzle(2, 0, 2, [0, 4, 5, 15]) == (0, 5, 4, 12)
    law(lambda sw, i: ml.swizzle(sw.bits, sw.base, sw.shift, [i]), laws.swizzles(), st.integers(0, 4000),
        holds=lambda r, sw, i: sw(r[0]) == i)

    def moved(r: int, sw: Swizzle, i: int) -> bool:
        bits = i & sw.source_mask
        return r == i ^ (bits >> sw.shift if sw.shift >= 0 else bits << -sw.shift)

    law(lambda sw, i: sw(i), laws.swizzles(), st.integers(0, 4000), hide=(1,), holds=moved)
    law(lambda sw, i, k: sw(i + k * sw.period), laws.swizzles(), st.integers(0, 4000), st.integers(0, 8), dynamic=False,
        holds=lambda r, sw, i, k: r == sw(i) + k * sw.period)


def test_parse() -> None:
    assert ml.parse("Sw<2,3,3> o 8 o (8,8)") == ComposedLayout(Swizzle(2, 3, 3), 8, make_layout((8, 8)))
    assert ml.parse(" (4, _8) : (2@0, 1@1@0) ") == Layout((4, 8), (2 * E(0), E(0, 1)))
    assert Swizzle.parse("Sw<3,4,-3>") == Swizzle(3, 4, -3)
    law(lambda lay: ml.parse(str(lay)), plain, dynamic=False, holds=lambda r, lay: r == lay)
    law(lambda lay: ml.parse(str(lay)), swizzled, dynamic=False, holds=lambda r, lay: r == lay)
    law(lambda s: ml.parse(str(ml.make_identity_layout(s))), laws.shapes(), dynamic=False,
        holds=lambda r, s: r == ml.make_identity_layout(s))


@pytest.mark.slow
def test_law_reports_a_verb_that_breaks_it() -> None:
    with pytest.raises(AssertionError, match="breaks the law"):
        law(lambda lay: Layout(lay.shape, ml.compact_col_major(lay.shape)), plain,
        holds=lambda r, lay: table(r) == table(lay))
