"""Predicates and vector widths of static layouts, against their definitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moye.layout as ml
from moye.errors import FactError, LayoutError
from moye.layout import ComposedLayout, Layout, Swizzle, make_layout
from moye.layout import analysis as an
from moye.layout.tuples import flatten_tuple, unflatten_tuple

P, C = Layout.parse, ComposedLayout.parse


@pytest.mark.parametrize(("source", "injective", "surjective", "bijective", "compact"), [
    ("(4,8):(8,1)", True, True, True, True), ("(4,8):(9,1)", True, False, False, False),
    ("(4,2):(0,1)", False, True, False, True), ("(2,2):(1,1)", False, True, False, True),
    ("4:2", True, False, False, False), ("1:0", True, True, True, True), ("(3,2):(2,3)", True, False, False, False),
    ("4:-1", True, True, False, False), ("0:1", True, True, True, True), ("(0,4):(1,0)", True, True, True, True),
])
def test_predicates(source: str, injective: bool, surjective: bool, bijective: bool, compact: bool) -> None:
    layout = P(source)
    assert ml.is_injective(layout) is injective
    assert ml.is_surjective(layout) is surjective
    assert ml.is_bijective(layout) is bijective
    assert ml.is_compact(layout) is compact
    assert not ml.is_surjective(layout, 1000)


STRIDES = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60, -1, -2, -4])
SWIZZLES = st.builds(lambda bits, base, more, sign: Swizzle(bits, base, sign * (bits + more)),
                     st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.sampled_from([1, -1]))


@st.composite
def any_layouts(draw: Any) -> Layout | ComposedLayout:
    modes = draw(st.lists(st.tuples(st.integers(1, 5), STRIDES), min_size=1, max_size=4))
    layout = Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))
    if draw(st.booleans()):
        return layout
    return ComposedLayout(draw(SWIZZLES), draw(st.sampled_from([0, 0, 1, 4, 8, 9])), layout)


@given(any_layouts(), st.integers(0, 40))
def test_predicates_are_their_definitions(layout: Any, codomain: int) -> None:
    table = [layout(i) for i in range(ml.size(layout))]
    image = set(table)
    assert ml.offsets(layout) == table
    assert ml.is_injective(layout) == (len(image) == len(table))
    assert ml.is_surjective(layout) == image.issuperset(range(max(table) + 1))
    assert ml.is_surjective(layout, codomain) == image.issuperset(range(codomain))
    assert ml.is_bijective(layout) == (image == set(range(len(table))))
    assert ml.is_compact(layout) == (image == set(range(max(table) + 1)))


@given(any_layouts(), st.none() | st.integers(0, 40))
def test_witnesses(layout: Any, codomain: int | None) -> None:
    collision = an.find_collision(layout)
    if collision is not None:
        assert collision.first != collision.second
        assert layout(collision.first) == layout(collision.second) == collision.offset
        assert an.find_collision(collision.layout) == collision
    image = set(ml.offsets(layout))
    hole = an.find_hole(layout, codomain)
    if hole is not None:
        assert hole not in image and 0 <= hole < (max(image) + 1 if codomain is None else codomain)


def test_witnesses_in_words() -> None:
    assert str(an.find_collision(P("((2,2),4):((0,2),9)"))) == \
        "((1,0),0) and ((0,0),0) of ((2,2),4):((0,2),9) share offset 0"
    assert str(an.find_collision(P("(4,4):(2,3)"))) == "(0,2) and (3,0) of (4,4):(2,3) share offset 6"
    assert str(an.find_collision(C("Sw<1,0,1> o 0 o (2,2):(2,2)"))) == \
        "(1,0) and (0,1) of Sw<1,0,1> o 0 o (2,2):(2,2) share offset 3"
    assert an.find_hole(P("(4,8):(9,1)")) == 8


BIG = 1 << 15


@pytest.mark.parametrize(("layout", "injective", "hole"), [
    (Layout((BIG, BIG), (BIG, 1)), True, None),
    (Layout((BIG, BIG), (BIG, 2)), False, 1),
    (Layout((BIG, BIG), (BIG + 1, 1)), True, BIG),
    (Layout((BIG, BIG), (1, 1)), False, None),
    (Layout((BIG, BIG), (-BIG, 1)), True, None),
    (Layout((1 << 30, 3), (3, 1)), True, None),
    (ComposedLayout(Swizzle(3, 3, 3), 0, Layout((BIG, BIG), (1, BIG))), True, None),
    (ComposedLayout(Swizzle(3, 3, 3), 0, Layout((BIG, BIG), (BIG + 8, 1))), True, None),
])
def test_a_billion_elements_at_once(layout: Any, injective: bool, hole: int | None) -> None:
    """Sorted strides decide: none of these could be listed."""
    assert ml.is_injective(layout) is injective
    if isinstance(layout, ComposedLayout) and layout.stride == (BIG + 8, 1):
        missed = an.find_hole(layout)
        assert missed is not None and layout.swizzle(missed) in range(BIG, BIG + 8)      # the gap after a row
    else:
        assert an.find_hole(layout) == hole


@pytest.mark.slow
def test_limits_are_stated() -> None:
    with pytest.raises(LayoutError, match=r"^offsets of 5000000:1 would list 5000000 offsets, and .* is 4194304$"):
        ml.offsets(P("5000000:1"))
    with pytest.raises(LayoutError, match=r"^find_hole of .* would list 10000000 offsets"):
        an.find_hole(P("(5000000,2):(2,-20000001)"), 3)
    subsets = Layout((2,) * 30, tuple(pow(3, i, 10**12 + 39) for i in range(20, 50)))
    with pytest.raises(LayoutError, match=r"^whether .* is injective was not decided in 1048576 steps$"):
        ml.is_injective(subsets)


@pytest.mark.parametrize("ask", [ml.is_injective, ml.is_surjective, ml.is_bijective, ml.is_compact, ml.offsets,
                                 lambda x: an.bank_map(x, 32), lambda x: an.bank_conflicts(x, 32),
                                 lambda x: an.sectors_per_request(x, 32), lambda x: an.vector_width(x, x, 32)])
def test_dynamic_leaves_are_named(ask: Any, sym: Any) -> None:
    with pytest.raises(FactError, match=r"needs static integers, but the extent M of mode 0 of M:1 is not static$"):
        ask(Layout(sym("M"), 1))
    with pytest.raises(FactError, match=r"the stride M of mode \(0,1\) of \(\(2,4\),8\):\(\(1,M\),0\) is not static$"):
        ask(Layout(((2, 4), 8), ((1, sym("M")), 0)))
    with pytest.raises(FactError, match=r"but the offset M of Sw<1,0,1> o M o 4:1 is not static$"):
        ask(ComposedLayout(Swizzle(1, 0, 1), sym("M"), P("4:1")))


# --- vectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dst", "src", "bits", "options", "elements", "why"), [
    ("(8,4):(1,8)", "(8,4):(1,8)", 32, {}, 4, "an access has at most 128 bits"),
    ("(8,4):(1,8)", "(8,4):(1,8)", 32, {"src_alignment": 8}, 2, "the base of src is aligned to 8 bytes"),
    ("(8,4):(1,8)", "(8,4):(1,8)", 16, {"dst_alignment": 1}, 1, "the base of dst is aligned to 1 byte"),
    ("(8,4):(1,10)", "(8,4):(1,8)", 32, {}, 2, "stride 10 of mode 1 of dst (8,4):(1,10) is no multiple of 4"),
    ("(8,4):(1,8)", "(8,4):(4,1)", 32, {}, 1,
     "dst (8,4):(1,8) and src (8,4):(4,1) go through memory in different orders after 1 element"),
    ("(2,16):(1,4)", "(2,16):(1,2)", 32, {}, 2,
     "dst (2,16):(1,4) is contiguous for 2 elements: runs end with mode 0, and no mode has stride 2"),
    ("(6,4):(1,8)", "(6,4):(1,8)", 8, {}, 2, "runs of 6 contiguous elements do not split into vectors of 4"),
    ("4:2", "4:1", 32, {}, 1, "dst 4:2 is contiguous for 1 element: no mode has stride 1"),
    ("2:1", "2:1", 32, {}, 2, "there are 2 elements"), ("1:0", "1:0", 32, {}, 1, "there is 1 element"),
    ("8:1", "8:0", 32, {}, 1, "src 8:0 is contiguous for 1 element: no mode has stride 1"),
    ("8:1", "8:-1", 32, {}, 1, "src 8:-1 is contiguous for 1 element: no mode has stride 1"),
    ("(8,4):(1,8)", "(8,4):(1,-8)", 32, {"max_bits": 64}, 2, "an access has at most 64 bits"),
    ("Sw<2,2,3> o 0 o (8,8):(1,8)", "64:1", 8, {}, 4, "Sw<2,2,3> of dst keeps only runs of 4 together"),
    ("Sw<1,0,1> o 0 o 16:1", "Sw<1,0,1> o 0 o 16:1", 8, {}, 16, "an access has at most 128 bits"),
    ("Sw<1,0,1> o 0 o 8:1", "Sw<1,0,2> o 0 o 8:1", 8, {}, 1, "Sw<1,0,1> of dst keeps only runs of 1 together"),
    ("64:1", "Sw<1,4,3> o 4 o 64:1", 16, {}, 4, "the offset 4 of src Sw<1,4,3> o 4 o 64:1 is no multiple of 8"),
])
def test_vector_width(dst: str, src: str, bits: int, options: Any, elements: int, why: str) -> None:
    a, b = (C(s) if s.startswith("Sw") else P(s) for s in (dst, src))
    width = an.vector_width(a, b, bits, **options)
    assert (width.elements, width.bits, width.why) == (elements, elements * bits, why)
    assert str(width).splitlines()[0] == f"{elements} x {bits} bits = {elements * bits} bits"
    assert str(width).splitlines()[1].endswith(f"at most {elements}: {why}".removeprefix("at most "))


def brute_width(dst: Any, src: Any, bits: int, dst_alignment: int, src_alignment: int) -> int:
    """The largest power of two that the law of vector_width allows."""
    pairs = sorted(zip(ml.offsets(dst), ml.offsets(src), strict=True))
    best, v = 1, 2
    while v * bits <= min(128, 8 * dst_alignment, 8 * src_alignment):
        groups = [pairs[i:i + v] for i in range(0, len(pairs), v)]
        if len(pairs) % v == 0 and all(g[0][0] % v == g[0][1] % v == 0 and g == [
                (g[0][0] + j, g[0][1] + j) for j in range(v)] for g in groups):
            best = v
        v *= 2
    return best


@st.composite
def pairs(draw: Any) -> tuple[Any, Any]:
    """Two injective layouts of one shape, modes often in the same order, strides with gaps, perhaps swizzled."""
    shape = draw(st.sampled_from([(8,), (4, 8), (2, 2, 8), ((2, 4), 4), (16, 3), (6, 4), (2, (2, 2, 2)), (1, 8)]))
    leaves = flatten_tuple(shape)
    order = draw(st.permutations(range(len(leaves))))

    def one(order: list[int]) -> Any:
        steps, step = [0] * len(leaves), 1
        for i in order:
            steps[i] = step
            step = step * leaves[i] * draw(st.sampled_from([1, 1, 1, 2, 3])) + draw(st.sampled_from([0, 0, 0, 2, 8]))
        layout = Layout(shape, unflatten_tuple(steps, shape))
        if draw(st.integers(0, 2)):
            return layout
        return ComposedLayout(draw(SWIZZLES), draw(st.sampled_from([0, 0, 2, 4, 8])), layout)
    return one(order), one(order if draw(st.integers(0, 3)) else draw(st.permutations(order)))


@given(pairs(), st.sampled_from([8, 16, 32, 64]), st.sampled_from([4, 8, 16]), st.sampled_from([8, 16]))
def test_vector_width_is_the_widest_that_the_law_allows(both: Any, bits: int, dst: int, src: int) -> None:
    width = an.vector_width(*both, bits, dst_alignment=dst, src_alignment=src)
    assert width.elements == max(1, brute_width(*both, bits, dst, src))
    assert all(limit.elements >= width.elements and limit.reason for limit in width.limits)


def test_vector_width_errors() -> None:
    with pytest.raises(LayoutError, match=r"^vector_width of dst 8:1 and src 4:1: their sizes 8 and 4 differ$"):
        an.vector_width(P("8:1"), P("4:1"), 32)
    with pytest.raises(LayoutError, match=r"^vector_width of dst 0:1 and src 0:1: they have no elements$"):
        an.vector_width(P("0:1"), P("0:1"), 32)
    with pytest.raises(LayoutError, match=r"^vector_width takes elements of 2\^n bits up to 128, not of 24$"):
        an.vector_width(P("8:1"), P("8:1"), 24)
    with pytest.raises(LayoutError, match=r"^the alignment of src is a power of two of bytes, not 12$"):
        an.vector_width(P("8:1"), P("8:1"), 32, src_alignment=12)
    assert an.vector_width(make_layout((1 << 20, 1 << 10)), make_layout((1 << 20, 1 << 10)), 16).elements == 8
