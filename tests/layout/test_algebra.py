"""The laws of coalesce, composition, complement, the inverses and the nullspace."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import Layout, make_layout, offsets, size

Layouts = Callable[..., list[Layout]]


def parse(source: str) -> Layout:
    return Layout.parse(source)


def test_coalesce(layouts: Layouts) -> None:
    assert str(ml.coalesce(parse("(2,(1,6)):(1,(6,2))"))) == "12:1"
    assert str(ml.coalesce(parse("(2,(1,6)):(1,(6,2))"), (1, 1))) == "(2,6):(1,2)"
    assert str(ml.coalesce(parse("((2,2),(2,2),3):((1,2),(4,8),16)"), (1, 1))) == "(4,4,3):(1,4,16)"
    for layout in layouts(80):
        assert offsets(ml.coalesce(layout)) == offsets(layout)
        assert ml.depth(ml.coalesce(layout)) <= 1
    with pytest.raises(LayoutError, match=r"^coalesce of 4:1 under \(1,1\): the profile has 2 modes, the layout 1$"):
        ml.coalesce(parse("4:1"), (1, 1))


def test_filter_zeros(layouts: Layouts) -> None:
    assert str(ml.filter_zeros(parse("(2,(4,3)):(1,(0,2))"))) == "(2,(1,3)):(1,(0,2))"
    for layout in layouts(40):
        assert ml.congruent(ml.filter_zeros(layout), layout)
        assert set(offsets(ml.filter_zeros(layout))) == set(offsets(layout))


def test_filter(layouts: Layouts) -> None:
    assert str(ml.filter(parse("(2,(4,3)):(1,(0,2))"))) == "6:1"
    for layout in layouts(40):
        assert set(offsets(ml.filter(layout))) == set(offsets(layout))


def test_composition(layouts: Layouts) -> None:
    rng = random.Random(1)
    done = 0
    for lhs in layouts(200, seed=1):
        room = size(lhs)
        extent = rng.choice([d for d in range(1, room + 1) if room % d == 0])
        for rhs in (Layout(extent, 1), Layout(extent, room // extent), make_layout((extent, room // extent)),
                    make_layout((room // extent, extent), (extent, 1))):
            try:
                result = ml.composition(lhs, rhs)
            except LayoutError:
                continue
            done += 1
            assert ml.compatible(rhs, result)
            assert [result(i) for i in range(size(rhs))] == [lhs(rhs(i)) for i in range(size(rhs))]
    assert done > 600


def test_composition_is_right_or_raises(layouts: Layouts) -> None:
    """Any pair of layouts, also those that CuTe composes wrongly because the right modes carry into each other."""
    done = 0
    for lhs, rhs in zip(layouts(600, seed=2, room=64), layouts(600, seed=3, room=16), strict=True):
        if ml.cosize(rhs) > size(lhs):
            continue
        with contextlib.suppress(LayoutError):
            result = ml.composition(lhs, rhs)
            assert offsets(result) == [lhs(i) for i in offsets(rhs)]
            done += 1
    assert done > 200


def test_composition_by_mode() -> None:
    layout = parse("(12,(4,8)):(59,(13,1))")
    assert str(ml.composition(layout, (parse("3:4"), parse("8:2")))) == "(3,(2,4)):(236,(26,1))"
    assert str(ml.composition(layout, (3, 8))) == "(3,(4,2)):(59,(13,1))"
    assert str(ml.composition(layout, (None, 8))) == "(12,(4,2)):(59,(13,1))"
    assert str(ml.composition(layout, (3,))) == "(3,(4,8)):(59,(13,1))"
    assert str(ml.composition(layout, (None, (2, None)))) == "(12,(2,8)):(59,(13,1))"
    assert ml.composition(layout, None) is layout


@pytest.mark.parametrize(("lhs", "rhs", "message"), [
    ("(4,6):(1,8)", "3:6", "composition of (4,6):(1,8) with 3:6 at mode 0 (4:1) of the coalesced left layout: "
                           "its extent 4 and the stride of 3:6 do not divide each other"),
    ("(4,6):(1,8)", "6:1", "composition of (4,6):(1,8) with 6:1 at mode 0 (4:1) of the coalesced left layout: "
                           "its extent 4 leaves 4 of the 6 steps of 6:1, which do not tile it"),
    ("(8,8):(1,9)", "6:3", "composition of (8,8):(1,9) with 6:3 at mode 0 (8:1) of the coalesced left layout: "
                           "its extent 8 leaves 3 of the 6 steps of 6:3, which do not tile it"),
    ("(4,6):(1,8)", "(3,2):(1,3)", "composition of (4,6):(1,8) with (3,2):(1,3) at mode 0 (4:1) of the coalesced left "
                                   "layout: the modes of (3,2):(1,3) together reach 5, past the end of its extent 4"),
    ("(4,6):(1,8)", "4:-1", "composition of (4,6):(1,8) with 4:-1 at mode 0 (4:1) of the coalesced left layout: "
                            "the stride -1 of 4:-1 goes down in it, which only the last mode can"),
])
def test_composition_errors(lhs: str, rhs: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        ml.composition(parse(lhs), parse(rhs))
    assert caught.value.message == message


def test_composition_rank_error() -> None:
    with pytest.raises(LayoutError) as caught:
        ml.composition(parse("(4,6):(1,8)"), (2, 2, None))
    assert caught.value.message == "composition of (4,6):(1,8) by <2,2,None>: the tiler has 3 modes, the layout 2"


def test_complement(layouts: Layouts) -> None:
    done = 0
    for layout in layouts(120, injective=True):
        for factor in (1, 2, 5):
            target = ml.cosize(layout) * factor
            try:
                rest = ml.complement(layout, target)
            except LayoutError:
                continue
            done += 1
            ordered = offsets(rest)
            assert ordered == sorted(set(ordered))                                      # ordered, injective
            assert set(ordered) & set(offsets(layout)) == {0}                           # disjoint
            assert size(rest) * size(layout) >= target                                  # large enough
            assert ml.cosize(make_layout(layout, rest)) >= target
    assert done > 300


def test_complement_errors() -> None:
    with pytest.raises(LayoutError, match=r"^complement of \(2,2\):\(1,1\): the mode 2:1 overlaps modes that reach 2$"):
        ml.complement(parse("(2,2):(1,1)"))


def test_right_inverse(layouts: Layouts) -> None:
    for layout in layouts(120):
        inverse = ml.right_inverse(layout)
        assert [layout(inverse(i)) for i in range(size(inverse))] == list(range(size(inverse)))
    for layout in layouts(60, injective=True):
        if ml.is_bijective(layout):
            assert size(ml.right_inverse(layout)) == size(layout)


def test_left_inverse(layouts: Layouts) -> None:
    done = 0
    for layout in layouts(150, injective=True):
        try:
            inverse = ml.left_inverse(layout)
        except LayoutError:
            continue
        done += 1
        assert [inverse(layout(i)) for i in range(size(layout))] == list(range(size(layout)))
    assert done > 140
    with pytest.raises(LayoutError, match=r"mode 2:3 must be a multiple of that of 2:2: 3 is not a multiple of 2$"):
        ml.left_inverse(parse("(2,2):(2,3)"))


def test_nullspace(layouts: Layouts) -> None:
    assert str(ml.nullspace(parse("(2,3,4,5):(0,1,0,3)"))) == "(2,4):(1,6)"
    for layout in layouts(80):
        kernel = ml.nullspace(layout)
        assert {layout(kernel(i)) for i in range(size(kernel))} == {0}
        assert size(kernel) * size(ml.filter(layout)) == size(layout)


@pytest.mark.parametrize(("a", "b", "vector"), [
    ("(8,4):(1,8)", "(8,4):(1,8)", 32), ("(8,4):(1,8)", "(8,4):(1,16)", 8), ("(8,4):(4,1)", "(8,4):(4,1)", 32),
    ("(8,4):(4,1)", "(8,4):(1,8)", 1), ("(2,4):(1,8)", "(2,4):(1,2)", 2), ("8:2", "8:2", 1),
    ("(6,2):(1,10)", "12:1", 6),
    ("4:1", "8:1", 1), ("(4,1):(1,4)", "4:1", 4), ("1:0", "1:0", 1),
])
def test_max_common_vector(a: str, b: str, vector: int) -> None:
    left, right = parse(a), parse(b)
    assert ml.max_common_vector(left, right) == vector
    common = ml.max_common_layout(left, right)
    for i in range(size(common)):
        assert left(common(i)) == right(common(i)) == i


def test_a_vector_never_leaves_a_dynamic_layout(sym: type) -> None:
    assert ml.max_common_vector(Layout(sym("M"), 1), parse("3:1")) == 1
    assert ml.max_common_vector(Layout(sym("M", lower=3), 1), parse("3:1")) == 3


def test_a_swizzle_whose_pairs_are_crossed_has_no_left_inverse() -> None:
    with pytest.raises(LayoutError, match="moves the bits that Sw<2,0,-2> pairs by different distances"):
        ml.left_inverse(ml.parse("Sw<2,0,-2> o (1,(2,2,2)):(1,(2,1,4))"))


def test_with_shape() -> None:
    assert str(ml.with_shape(parse("(4,8):(8,1)"), (2, 16))) == "(2,(2,8)):(8,(16,1))"


def test_verbs_take_layouts_only() -> None:
    with pytest.raises(LayoutError, match=r"^coalesce takes a layout, not \(4, 8\)$"):
        ml.coalesce((4, 8))  # type: ignore[type-var]
