"""Every layout verb: a hand table, and its law on random layouts with static and dynamic leaves."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import strategies as st

import layout_laws as laws
import moye.layout as ml
from layout_laws import law, table
from layout_symbols import Sym
from moye.errors import LayoutError
from moye.layout import ArithmeticTuple, ComposedLayout, E, Layout, Swizzle, make_layout, size
from moye.layout.tuples import flatten_tuple, unflatten_tuple

plain, parse = laws.layouts(), Layout.parse
injective = laws.layouts(injective=True)
swizzled = st.builds(lambda sw, lay: ComposedLayout(sw, 0, lay), laws.swizzles(), laws.powers())


def as_tuple(x: Any) -> Any:
    return x if isinstance(x, tuple) else (x,)


def indices(layout: Any) -> list[int]:
    return list(range(size(layout)))


# --- one layout ------------------------------------------------------------------------------------------------------


def test_coalesce() -> None:
    assert str(ml.coalesce(parse("(2,(1,6)):(1,(6,2))"))) == "12:1"
    law(ml.coalesce, plain, holds=lambda r, lay: table(r) == table(lay) and ml.depth(r) <= 1)
    law(ml.coalesce, laws.layouts(rank=2), st.just((1, 1)), hide=(0,),
        holds=lambda r, lay, p: [table(m) for m in r] == [table(m) for m in lay])


def test_filter_zeros() -> None:
    assert str(ml.filter_zeros(parse("(2,(4,3)):(1,(0,2))"))) == "(2,(1,3)):(1,(0,2))"
    law(ml.filter_zeros, plain, holds=lambda r, lay: set(table(r)) == set(table(lay)) and ml.congruent(r, lay))


def test_filter() -> None:
    assert str(ml.filter(parse("(2,(4,3)):(1,(0,2))"))) == "6:1"
    law(ml.filter, plain, holds=lambda r, lay: set(table(r)) == set(table(lay)))


def test_flatten() -> None:
    assert str(ml.flatten(parse("((2,3),4):((1,2),6)"))) == "(2,3,4):(1,2,6)"
    law(ml.flatten, plain, holds=lambda r, lay: table(r) == table(lay) and ml.depth(r) <= 1)


def test_unflatten() -> None:
    assert str(ml.unflatten(parse("(2,3,4):(1,2,6)"), ((0, 0), 0))) == "((2,3),4):((1,2),6)"
    law(lambda lay: ml.unflatten(ml.flatten(lay), lay.shape), laws.layouts(rank=2), holds=lambda r, lay: r == lay)
    assert (ml.unflatten((2, 3, (4, 5)), ((0, 0), 0)), ml.unflatten(3, (0,))) == (((2, 3), (4, 5)), (3,))
    law(lambda s, p: ml.unflatten(ml.flatten(s), p), laws.shapes(), laws.shapes(), hide=(0,), examples=200,
        holds=lambda r, s, p: as_tuple(ml.flatten(r)) == as_tuple(ml.flatten(s)) and ml.congruent(r, p))
    law(lambda s: ml.unflatten(ml.flatten(s), s), laws.shapes(), holds=lambda r, s: r == s)
    with pytest.raises(LayoutError, match=r"^unflatten of 3 modes: the profile \(0,0\) has only 2$"):
        ml.unflatten((2, 3, 4), (0, 0))


def test_size() -> None:
    assert (size(parse("((2,3),4):((1,2),6)")), size((2, (3, 4)), 1)) == (24, 12)
    law(ml.size, plain, holds=lambda r, lay: r == len(table(lay)))


def test_rank() -> None:
    assert (ml.rank(parse("((2,3),4)")), ml.rank(8), ml.rank(())) == (2, 1, 0)
    law(lambda a, b: ml.rank(make_layout(a, b)), plain, plain, holds=lambda r, a, b: r == 2)


def test_depth() -> None:
    assert (ml.depth(parse("((2,3),4)")), ml.depth(8)) == (2, 0)
    law(lambda a, b: ml.depth(make_layout(a, b)), plain, plain,
        holds=lambda r, a, b: r == 1 + max(ml.depth(a), ml.depth(b)))


def test_shape() -> None:
    assert (ml.shape(parse("((2,3),4)")), ml.shape(parse("((2,3),4)"), (0, 1))) == (((2, 3), 4), 3)
    law(lambda lay: ml.shape(lay, 1), laws.layouts(rank=2), holds=lambda r, lay: r == lay.mode(1).shape)


def test_stride() -> None:
    assert ml.stride(parse("((2,3),4):((1,2),6)"), (0, 1)) == 2
    law(lambda lay: ml.stride(lay, 1), laws.layouts(rank=2), holds=lambda r, lay: r == lay.mode(1).stride)
    with pytest.raises(LayoutError, match="has no stride"):
        ml.stride((2, 3))


def test_cosize() -> None:
    assert [ml.cosize(parse(s)) for s in ("(4,2):(1,10)", "(4,2):(1@0,3@1)", "0:1")] == [14, 16, 0]
    assert ml.cosize(parse("(4,2):(-1,10)")) == 14
    law(ml.cosize, plain, holds=lambda r, lay: r == max(table(lay)) + 1)
    law(ml.cosize, swizzled, dynamic=False, holds=lambda r, lay: r > max(table(lay)))


def test_coshape() -> None:
    assert (ml.coshape(parse("(4,2):(1,10)")), ml.coshape(parse("(4,(2,3)):(1@0,(1@1,2@1))"))) == (14, (4, 6))
    law(ml.coshape, plain, holds=lambda r, lay: ml.product(r) == ml.cosize(lay) and max(table(lay)) == r - 1)
    law(lambda s: ml.coshape(ml.make_identity_layout(s)), laws.shapes(),
        holds=lambda r, s: r == s and all(ml.elem_less(c, r) for c in table(ml.make_identity_layout(s))))


def test_coprofile() -> None:
    assert (ml.coprofile(parse("(4,2):(1,10)")), ml.coprofile(parse("(4,2):(1@0,1@1@1)"))) == (0, (0, (0, 0)))
    law(lambda s: ml.coprofile(ml.make_identity_layout(s)), laws.shapes(), holds=lambda r, s: ml.congruent(r, s))


def test_make_layout() -> None:
    assert str(make_layout((4, (1, 2)))) == "(4,(1,2)):(1,(0,4))"
    assert str(make_layout((4, (3, 2)), ml.LayoutRight)) == "(4,(3,2)):(6,(2,1))"
    law(make_layout, laws.shapes(), holds=lambda r, s: table(r) == indices(r))
    law(make_layout, laws.layouts(room=8), laws.layouts(room=8),
        holds=lambda r, a, b: table(r) == [x + y for y in table(b) for x in table(a)])


def test_make_ordered_layout() -> None:
    assert str(ml.make_ordered_layout((2, 3, 4), (2, 0, 1))) == "(2,3,4):(12,1,3)"
    law(lambda s, o: ml.make_ordered_layout(s, o), laws.layouts(rank=3).map(lambda lay: lay.shape),
        st.permutations(range(3)).map(tuple), hide=(0,), holds=lambda r, s, o: sorted(table(r)) == indices(r))


def test_make_layout_like() -> None:
    assert str(ml.make_layout_like(parse("(2,3,4):(40,0,5)"))) == "(2,3,4):(4,0,1)"
    law(ml.make_layout_like, plain, holds=lambda r, lay: ml.congruent(r, lay) and set(table(r)) == set(
        range(size(ml.filter_zeros(lay)))), partial=True)


def test_make_identity_layout() -> None:
    assert str(ml.make_identity_layout((4, (2, 3)))) == "(4,(2,3)):(1@0,(1@0@1,1@1@1))"
    law(ml.make_identity_layout, laws.shapes(), holds=lambda r, s: [ml.idx2crd(s, i) for i in indices(r)] == table(r))


def test_make_basis_like() -> None:
    assert ml.make_basis_like((4, (2, 3))) == (E(0), (E(1, 0), E(1, 1)))
    law(lambda s: Layout(s, ml.make_basis_like(s)), laws.shapes(),
        holds=lambda r, s: [ml.idx2crd(s, i) for i in indices(r)] == table(r))


def test_E() -> None:
    assert (str(E(0, 1)), str(3 * E(2)), E(1) + 2 * E(0, 0)) == ("1@1@0", "3@2", ((2,), 1))
    assert ml.as_arithmetic_tuple(E(1, 2)) == (0, (0, 0, 1))
    assert abs(-2 * E(1)) == 2 * E(1)
    for wrong in (lambda: E(), lambda: E(-1), lambda: E(0) + 1, lambda: E(0) % 2, lambda: E(0) + E(0, 1)):
        with pytest.raises(LayoutError):
            wrong()


def test_as_arithmetic_tuple() -> None:
    assert ml.as_arithmetic_tuple(5 * E(1)) == (0, 5)
    assert ArithmeticTuple((1, (2, 3))) * 2 + (0, (0, 1), 4) == (2, (4, 7), 4)
    for e in (E(0), 4 * E(2, 1)):
        assert ml.basis_get(e, ml.as_arithmetic_tuple(e)) == ml.basis_value(e)


def test_basis_value() -> None:
    assert (ml.basis_value(7 * E(0, 2)), ml.basis_value(7)) == (7, 7)


def test_basis_get() -> None:
    assert (ml.basis_get(3 * E(1, 0), (4, (2, 3))), ml.basis_get(1, (4, 5))) == (2, (4, 5))
    with pytest.raises(LayoutError, match=r"^basis_get of 1@2: \(4, 5\) has no position 2 at depth 0$"):
        ml.basis_get(E(2), (4, 5))


# --- modes -----------------------------------------------------------------------------------------------------------

three = laws.layouts(rank=3)
small = laws.layouts(room=8)


def test_group_modes() -> None:
    assert str(ml.group_modes(parse("(2,3,4):(1,2,6)"), 1, 3)) == "(2,(3,4)):(1,(2,6))"
    law(lambda lay: ml.group_modes(lay, 1, 3), three, holds=lambda r, lay: table(r) == table(lay)
        and r.mode(1) == ml.take(lay, 1, 3))


def test_select() -> None:
    assert str(ml.select(parse("(2,3,4):(1,2,6)"), 2, 0)) == "(4,2):(6,1)"
    law(lambda lay: ml.select(lay, 2, 0), three, holds=lambda r, lay: list(r) == [lay.mode(2), lay.mode(0)])
    with pytest.raises(LayoutError, match=r"^select of 4:1: mode 1 does not exist, it has 1$"):
        ml.select(parse("4:1"), 1)


def test_take() -> None:
    assert str(ml.take(parse("(2,3,4):(1,2,6)"), 1, 3)) == "(3,4):(2,6)"
    law(lambda lay: ml.take(lay, 1, 3), three, holds=lambda r, lay: r == ml.select(lay, 1, 2))


def test_append() -> None:
    assert str(ml.append(parse("4:1"), parse("3:8"))) == "(4,3):(1,8)"
    law(ml.append, three, small, examples=30,
        holds=lambda r, lay, m: table(r) == [x + y for y in table(m) for x in table(lay)])
    assert (ml.append((4, (2, 3)), (1, 2)), ml.append(4, 8, 3)) == ((4, (2, 3), (1, 2)), (4, 8, 8))
    law(ml.append, laws.shapes(), laws.shapes(), holds=lambda r, s, x: r == (*as_tuple(s), x))
    law(ml.append, laws.shapes(), laws.shapes(), st.integers(1, 4), hide=(0, 1), holds=lambda r, s, x, n:
        r == as_tuple(s) + (x,) * (n - len(as_tuple(s))) if n != len(as_tuple(s)) else r == s)
    with pytest.raises(LayoutError, match=r": a tuple needs the item to add\n"):
        ml.append((4, 8))
    with pytest.raises(LayoutError, match=r"the mode of a layout is a layout, not 8$"):
        ml.append(parse("4:1"), 8)
    with pytest.raises(LayoutError, match=r"the mode of a tuple is an integer or a tuple, not the layout 4:1$"):
        ml.append((4, 8), parse("4:1"))


def test_prepend() -> None:
    assert str(ml.prepend(parse("4:1"), parse("3:8"))) == "(3,4):(8,1)"
    law(ml.prepend, three, small, examples=30,
        holds=lambda r, lay, m: table(r) == [x + y for y in table(lay) for x in table(m)])
    assert (ml.prepend((4, (2, 3)), (1, 2)), ml.prepend(4, 8, 3)) == (((1, 2), 4, (2, 3)), (8, 8, 4))
    law(ml.prepend, laws.shapes(), laws.shapes(), holds=lambda r, s, x: r == (x, *as_tuple(s)))
    law(ml.prepend, laws.shapes(), laws.shapes(), st.integers(1, 4), hide=(0, 1), holds=lambda r, s, x, n:
        r == (x,) * (n - len(as_tuple(s))) + as_tuple(s) if n != len(as_tuple(s)) else r == s)
    with pytest.raises(LayoutError, match=r": a tuple needs the item to add\n"):
        ml.prepend((4, 8))
    with pytest.raises(LayoutError, match=r"the mode of a layout is a layout, not 8$"):
        ml.prepend(parse("4:1"), 8)
    with pytest.raises(LayoutError, match=r"the mode of a tuple is an integer or a tuple, not the layout 4:1$"):
        ml.prepend((4, 8), parse("4:1"))


def test_replace() -> None:
    assert str(ml.replace(parse("(2,3,4):(1,2,6)"), 1, parse("5:9"))) == "(2,5,4):(1,9,6)"
    law(lambda lay, m: ml.replace(lay, 1, m), three, plain,
        holds=lambda r, lay, m: list(r) == [lay.mode(0), m, lay.mode(2)])
    with pytest.raises(LayoutError, match=r"^replace in 4:1: mode 1 does not exist, it has 1$"):
        ml.replace(parse("4:1"), 1, parse("3:8"))
    assert (ml.replace((2, (3, 4)), 1, (5, 6)), ml.replace(2, 0, 3)) == ((2, (5, 6)), (3,))
    law(ml.replace, laws.shapes(), st.integers(0, 2), laws.shapes(), hide=(0, 2),
        holds=lambda r, s, i, x: r == (*as_tuple(s)[:i], x, *as_tuple(s)[i + 1:]))
    with pytest.raises(LayoutError, match=r"^replace in \(2,3\): mode 2 does not exist, it has 2$"):
        ml.replace((2, 3), 2, 1)


@pytest.mark.slow
def test_zip_modes() -> None:
    assert str(ml.zip_modes(parse("(4,2):(1,8)"), parse("(3,5):(0,7)"))) == "((4,3),(2,5)):((1,0),(8,7))"
    law(ml.zip_modes, three, three, examples=30, holds=lambda r, a, b: all(
        r.mode(i) == make_layout(a.mode(i), b.mode(i)) for i in range(3)))


def test_transform_layout() -> None:
    assert str(ml.transform_layout(parse("((2,2),4):((1,2),4)"), ml.coalesce)) == "(4,4):(1,4)"
    assert str(ml.transform_layout(parse("(4,8)"), ml.logical_divide, parse("2:1"))) == "((2,2),8):((1,2),4)"
    law(lambda lay: ml.transform_layout(lay, ml.coalesce), three,
        holds=lambda r, lay: [table(m) for m in r] == [table(m) for m in lay])


def test_with_shape() -> None:
    assert str(ml.with_shape(parse("(4,8):(8,1)"), (2, 16))) == "(2,(2,8)):(8,(16,1))"
    law(ml.with_shape, plain, laws.shapes(room=12), examples=100,
        holds=lambda r, lay, s: table(r) == [lay(i) for i in range(size(s))])


def test_congruent() -> None:
    assert ml.congruent(parse("((2,3),4)"), ((1, 1), 1)) and not ml.congruent((6, 4), ((2, 3), 4))
    law(ml.congruent, plain, plain, holds=lambda r, a, b: r == ml.congruent(b, a) and ml.congruent(a, a))


def test_weakly_congruent() -> None:
    assert ml.weakly_congruent((6, 4), ((2, 3), 4)) and not ml.weakly_congruent(((2, 3), 4), (6, 4))
    law(ml.weakly_congruent, plain, plain,
        holds=lambda r, a, b: not (r and ml.weakly_congruent(b, a)) or ml.congruent(a, b))


def test_compatible() -> None:
    assert ml.compatible((6, 4), ((2, 3), 4)) and not ml.compatible((5, 4), ((2, 3), 4))
    law(ml.compatible, laws.shapes(), laws.shapes(), partial=True,
        holds=lambda r, a, b: not r or (size(a) == size(b) and ml.weakly_congruent(a, b)))


# --- slices ----------------------------------------------------------------------------------------------------------

nested = parse("((2,3),4,5):((1,2),6,24)")


def test_slice_and_offset() -> None:
    sub, offset = ml.slice_and_offset(((None, 2), None, 3), nested)
    assert (str(sub), offset) == ("(2,4):(1,6)", 76)
    law(lambda lay, i: ml.slice_and_offset((None, i, None), lay), three, st.just(0), hide=(0,),
        holds=lambda r, lay, i: [
        r[0](a, b) + r[1] for a in range(size(r[0], 0)) for b in range(size(r[0], 1))] == [
        lay(a, i, b) for a in range(size(lay, 0)) for b in range(size(lay, 2))])


def test_slice_() -> None:
    assert str(ml.slice_(((None, 2), None, 3), nested)) == "(2,4):(1,6)"
    assert ml.slice_((None, (1, None)), (4, (2, 3))) == (4, 3)
    assert (ml.slice_(None, (4, 8)), ml.slice_(3, (4, 8)), str(ml.slice_((0, 0, 0), nested))) == ((4, 8), (), "():()")
    law(lambda lay: ml.slice_((None, 0, None), lay), three, holds=lambda r, lay: r == ml.select(lay, 0, 2))


def test_dice() -> None:
    assert str(ml.dice(((None, 2), None, 3), nested)) == "(3,5):(2,24)"
    assert ml.dice((None, (1, None)), (4, (2, 3))) == (2,)
    law(lambda lay: ml.dice((None, 0, None), lay), three, holds=lambda r, lay: r == ml.select(lay, 1))
    crd = ((None, 2), None, 3)
    for c in ((1, 3), (0, 2)):
        assert ml.dice(crd, nested)(ml.dice(crd, crd)) + ml.slice_(crd, nested)(c) == nested((c[0], 2), c[1], 3)
    swizzle = ComposedLayout(Swizzle(2, 0, 2), 0, nested)
    assert str(ml.dice(crd, swizzle)) == "Sw<2,0,2> o 0 o (3,5):(2,24)"


def test_has_none() -> None:
    assert ml.has_none((1, (2, None))) and not ml.has_none((1, (2, 3)))


def test_domain_offset() -> None:
    layout = parse("(4,8):(1,10)")
    assert ml.domain_offset((1, 2), layout) == (layout, 21)
    sw = ComposedLayout(Swizzle(2, 0, 2), 0, layout)
    moved, offset = ml.domain_offset((1, 2), sw)
    assert offset == 0 and [moved(0, j) for j in range(6)] == [sw(1, j + 2) for j in range(6)]
    law(lambda lay: ml.domain_offset((0, size(lay, 1) // 2, 0), lay), three, dynamic=False,
        holds=lambda r, lay: r[0](0) + r[1] == lay(0, size(lay, 1) // 2, 0))


# --- composition, complement, inverses -------------------------------------------------------------------------------


def after(r: Any, a: Any, b: Any) -> bool:
    return table(r) == [a(i) for i in table(b)]


@pytest.mark.slow
def test_composition_down() -> None:
    """Strides below 0, on either side: an index below 0 counts down in the last mode alone."""
    assert str(ml.composition(parse("(4,6):(1,8)"), parse("(3,2):(-4,1)"))) == "(3,2):(-8,1)"
    assert [parse("(4,6):(1,8)")(i) for i in (-4, -3, -8)] == [-8, -7, -16]
    law(ml.composition, downward(), downward(room=12), dynamic=False, examples=600, holds=after)
    law(ml.composition, downward(), downward(room=12), hide=(0,), examples=200, holds=after)
    law(ml.composition, laws.powers(), downward(room=12), dynamic=False, examples=300, holds=after)
    with pytest.raises(LayoutError, match=r"goes down in it, which only the last mode can$"):
        ml.composition(parse("(4,1):(1,9)"), parse("2:-1"))


@pytest.mark.slow
def test_composition() -> None:
    assert str(ml.composition(parse("(6,2):(8,2)"), parse("(4,3):(3,1)"))) == "((2,2),3):((24,2),8)"
    assert str(ml.composition(parse("((4,2),8):((1,32),4)"), parse("(2,4):(1@0,2@1)"))) == "(2,4):(1,8)"
    law(ml.composition, plain, laws.layouts(room=12), examples=300, holds=after)
    law(ml.composition, swizzled, laws.powers(), examples=100, hide=(1,), holds=after)
    law(ml.composition, laws.powers(), swizzled, dynamic=False, examples=150, holds=after)
    law(ml.composition, swizzled, swizzled, dynamic=False, examples=150, holds=after)
    law(ml.composition, laws.swizzles(), laws.swizzles(), dynamic=False,
        holds=lambda r, a, b: [r(i) for i in range(1500)] == [a(b(i)) for i in range(1500)])
    law(ml.composition, laws.swizzles(), plain, holds=after)
    law(ml.composition, laws.powers(), laws.swizzles(), dynamic=False,
        holds=lambda r, a, sw: table(r) == [a(sw(i)) for i in indices(a)])
    law(lambda lay: ml.composition(lay, ml.make_identity_layout(lay.shape)), three,
        holds=lambda r, lay: table(r) == table(lay))


directed = laws.directed(injective=True)


def as_leaves(coordinate: Any, parts: Any) -> tuple[int, ...]:
    return tuple(laws.at(coordinate, path) for path in parts)


def nested_like(parts: Any, leaves: Any) -> Any:
    """Numbers as a coordinate with one for each of the paths of ``laws.PATHS``."""
    return (leaves[0], leaves[1]) if len(parts) == 2 else (leaves[0], (leaves[1], leaves[2]))


def trimmed(lay: Layout, crd: Any) -> Any:
    """The coordinate without the positions that a layout does not have; they are 0."""
    return tuple(trimmed(m, c) if isinstance(c, tuple) else c for m, c in zip(lay, crd, strict=False))


@st.composite
def downward(draw: Any, **options: Any) -> Layout:
    """Layouts of which some modes go down."""
    lay = draw(laws.layouts(**options))
    signs = [draw(st.sampled_from((1, 1, -1))) for _ in flatten_tuple(lay.stride)]
    steps = [s * d for s, d in zip(signs, flatten_tuple(lay.stride), strict=True)]
    return Layout(lay.shape, unflatten_tuple(steps, lay.shape))


@pytest.mark.slow
def test_complement() -> None:
    assert str(ml.complement(parse("(2,2):(1,6)"), 24)) == "(3,2):(2,12)"

    def gaps(r: Layout, lay: Layout, n: int) -> bool:
        found = table(r)
        disjoint = set(found) & set(table(lay)) == {0}
        return found == sorted(set(found)) and disjoint and ml.cosize(make_layout(lay, r)) >= n

    law(ml.complement, plain, st.integers(1, 60), examples=150, holds=gaps)
    assert ml.complement(ComposedLayout(Swizzle(2, 0, 2), 0, parse("4:2")), 16) == ml.complement(parse("4:2"), 16)
    assert str(ml.complement(parse("(4,2):(2@1,1@0)"), (8, 16, 3))) == "(4,(2,2),3):(2@0,(1@1,8@1),1@2)"
    n = Sym("n", divisor=8)
    assert str(ml.complement(parse("(4,2):(2@1,1@0)"), (n, 8))) == "(n/2,2):(2@0,1@1)"

    def gaps_along(r: Layout, both: Any, sizes: Any) -> bool:
        """As the law has it by brute force; and along each coordinate what numbers give."""
        lay, parts = both
        whole = [as_leaves(c, parts) for c in table(make_layout(lay, r))]
        alone = {path: table(ml.complement(part, n)) for (path, part), n in zip(parts.items(), sizes, strict=False)}
        return (len(set(whole)) == len(whole)
                and all(max(c[i] for c in whole) >= n - 1 for i, n in zip(range(len(parts)), sizes, strict=False))
                and [as_leaves(c, parts) for c in table(r)]
                == [crd[::-1] for crd in itertools.product(*reversed(alone.values()))])

    law(lambda both, sizes: ml.complement(both[0], nested_like(both[1], sizes)), directed,
        st.tuples(*[st.integers(1, 9)] * 3), dynamic=False, holds=gaps_along)


@pytest.mark.slow
def test_right_inverse() -> None:
    assert str(ml.right_inverse(parse("(4,8):(8,1)"))) == "(8,4):(4,1)"
    assert str(ml.right_inverse(ml.parse("Sw<3,0,3> o 0 o (8,8):(8,1)"))) == "Sw<3,0,-3> o 0 o (8,8):(8,1)"

    def back(r: Any, lay: Any) -> bool:
        return [lay(i) for i in table(r)] == indices(r)

    law(ml.right_inverse, plain, examples=150, partial=True, holds=back)
    law(ml.right_inverse, swizzled, examples=200, dynamic=False, holds=back)
    assert str(ml.right_inverse(parse("(4,8):(1@1,1@0)"))) == "(8,4):(4,1)"

    def back_along(r: Any, both: Any) -> bool:
        """Every coordinate of the result's box comes back."""
        reach = [size(laws.at(r.shape, path)) or 1 for path in both[1]]
        points = itertools.product(*map(range, reach))
        return all(as_leaves(both[0](r(trimmed(r, nested_like(both[1], p)))), both[1]) == p for p in points)

    law(lambda both: ml.right_inverse(both[0]), directed, dynamic=False, examples=150, holds=back_along)
    law(lambda both: size(ml.right_inverse(both[0])), directed, dynamic=False, examples=100,
        holds=lambda r, both: r == math.prod(size(ml.right_inverse(part)) for part in both[1].values()))
    with pytest.raises(LayoutError, match=r"the strides 1@0 and 1@1@0 are steps of a coordinate and of a part of it$"):
        ml.right_inverse(parse("(4,2):(1@0,1@1@0)"))


@pytest.mark.slow
def test_left_inverse() -> None:
    assert str(ml.left_inverse(parse("4:2"))) == "(2,4):(0,1)"
    law(ml.left_inverse, injective, examples=150, holds=lambda r, lay: [r(o) for o in table(lay)] == indices(lay))
    law(ml.left_inverse, plain, examples=150, holds=lambda r, lay: all(lay(r(o)) == o for o in table(lay)))
    law(ml.left_inverse, swizzled, examples=200, dynamic=False,
        holds=lambda r, lay: [r(o) for o in table(lay)] == indices(lay))
    assert [str(ml.left_inverse(parse(x))) for x in ("4:-1", "(4,8):(1,-4)", "4:-2")] == [
        "4:-1", "(4,8):(1,-4)", "(2,4):(0,-1)"]
    law(ml.left_inverse, downward(injective=True), dynamic=False, examples=400,
        holds=lambda r, lay: [r(o) for o in table(lay)] == indices(lay))
    law(ml.left_inverse, downward(), dynamic=False, examples=400,
        holds=lambda r, lay: all(lay(r(o)) == o for o in table(lay)))
    with pytest.raises(LayoutError, match=r": its mode 4:-1 goes down, which only the mode of the largest stride can$"):
        ml.left_inverse(parse("(4,8):(-1,4)"))
    assert str(ml.left_inverse(parse("(4,8):(1@1,2@0)"))) == "((2,8),4):((0,4),1)"
    law(lambda both: ml.left_inverse(both[0]), directed, dynamic=False, examples=150,
        holds=lambda r, both: [r(c) for c in table(both[0])] == indices(both[0]))


def test_nullspace() -> None:
    assert str(ml.nullspace(parse("(2,3,4,5):(0,1,0,3)"))) == "(2,4):(1,6)"
    law(ml.nullspace, plain, holds=lambda r, lay: {lay(i) for i in table(r)} == {lay(0)}
        and size(r) * size(ml.filter_zeros(lay)) == size(lay))


def contiguous(r: Layout, *both: Any) -> bool:
    return all([x(i) - x(0) for i in table(r)] == indices(r) for x in both)


def test_max_common_layout() -> None:
    assert str(ml.max_common_layout(parse("(4,8):(8,1)"), parse("(4,8):(8,1)"))) == "(8,4):(4,1)"
    law(ml.max_common_layout, plain, plain, partial=True, holds=contiguous)
    law(ml.max_common_layout, swizzled, swizzled, dynamic=False, holds=contiguous)


def shared_run(count: int, *both: Any) -> bool:
    """Some index of both has each offset below ``count``; where sizes differ a dynamic answer may be the larger one."""
    places = [[{i for i in indices(x) if x(i) == offset} for offset in range(count)] for x in both]
    return all(set.intersection(*at) for at in zip(*places, strict=True))


@pytest.mark.slow
def test_max_common_vector() -> None:
    assert ml.max_common_vector(parse("(8,4):(1,8)"), parse("(8,4):(1,16)")) == 8
    law(ml.max_common_vector, plain, plain, dynamic=False, holds=lambda r, a, b: r == size(ml.max_common_layout(a, b)))
    law(ml.max_common_vector, plain, plain, partial=True, holds=shared_run)


@pytest.mark.slow
def test_max_alignment() -> None:
    assert [ml.max_alignment(parse(s)) for s in ("(8,4):(1,8)", "(8,4):(1,12)", "8:2", "(8,3):(4,40)")] == [32, 4, 1, 1]
    assert (ml.max_alignment(Swizzle(3, 4, 3)), ml.max_alignment(ml.parse("Sw<2,2,3> o 0 o (8,8)"))) == (16, 4)
    law(ml.max_alignment, plain, partial=True, holds=lambda n, lay: bool(ml.upcast(lay, n)) and all(
        o - o % n + k in table(lay) for o in table(lay) for k in range(n)))
