"""Swizzles: involutions that spread columns over banks; verbs act inside them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import ComposedLayout, Layout, Swizzle, make_layout, offsets


def composed(source: str) -> ComposedLayout:
    return ComposedLayout.parse(source)


@pytest.mark.parametrize("sw", [Swizzle(3, 3, 3), Swizzle(2, 0, 2), Swizzle(1, 2, -3), Swizzle(0, 4, 3)])
def test_swizzle_is_an_involution(sw: Swizzle) -> None:
    values = [sw(i) for i in range(1024)]
    assert sorted(v for v in values if isinstance(v, int)) == list(range(1024))
    assert [sw(v) for v in values] == list(range(1024))
    assert all(sw(i + sw.period) == v + sw.period for i, v in enumerate(values))
    assert ml.swizzle(sw.bits, sw.base, sw.shift, [5, 70]) == (sw(5), sw(70))


@pytest.mark.parametrize(("args", "message"), [
    ((3, 0, 2), "Sw<3,0,2> moves 3 bits by 2: source and target overlap"),
    ((-1, 0, 2), "Sw<-1,0,2> has a negative number of bits or a negative base"),
])
def test_swizzle_errors(args: tuple[int, int, int], message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        Swizzle(*args)
    assert caught.value.message == message


def test_composition_with_a_swizzle() -> None:
    layout = make_layout((8, 32), (32, 1))
    made = ml.composition(Swizzle(3, 2, 3), layout)
    assert made == ComposedLayout(Swizzle(3, 2, 3), 0, layout)
    assert [made(i) for i in range(256)] == [Swizzle(3, 2, 3)(layout(i)) for i in range(256)]
    assert ml.composition(Swizzle(3, 2, 3), (8, 8)) == ComposedLayout(Swizzle(3, 2, 3), 0, make_layout((8, 8)))
    assert ml.composition(made, make_layout(8)) == ComposedLayout(Swizzle(3, 2, 3), 0, make_layout(8, 32))
    with pytest.raises(LayoutError, match="composition of Sw<3,2,3> with None: a layout is needed"):
        ml.composition(Swizzle(3, 2, 3), None)
    with pytest.raises(LayoutError, match="composition: lhs must be a layout or a swizzle, not 'a'"):
        ml.composition("a", layout)  # type: ignore[type-var]


def test_dynamic_swizzle(sym: Any) -> None:
    sw = Swizzle(2, 3, 3)
    i = sym("i")
    dynamic = sw(i)
    for value in range(512):
        assert dynamic.run({"i": value}) == sw(value)  # type: ignore[union-attr]
    small = sym("j", lower=0, upper=63)
    assert sw(small) is small
    assert Swizzle(0, 3, 3)(i) is i


def test_composed_layout() -> None:
    layout = composed("Sw<2,3,3> o 0 o (8,8):(8,1)")
    assert str(layout) == "Sw<2,3,3> o 0 o (8,8):(8,1)"
    assert layout == ComposedLayout(Swizzle(2, 3, 3), 0, Layout.parse("(8,8):(8,1)"))
    assert layout == composed("Sw<2,3,3> o (8,8):(8,1)")
    assert hash(layout) == hash(composed(str(layout)))
    assert (ml.size(layout), ml.shape(layout), ml.rank(layout), ml.stride(layout, 0)) == (64, (8, 8), 2, 8)
    assert layout(3, 2) == layout((3, 2)) == Swizzle(2, 3, 3)(26)
    assert pickle.loads(pickle.dumps(layout)) == copy.copy(layout) == layout
    with pytest.raises(LayoutError, match="is not in the notation of swizzled layouts"):
        composed("8:1")


def test_cosize_bounds_every_offset() -> None:
    for source in ("Sw<3,4,3> o 0 o (8,20):(128,1)", "Sw<2,0,3> o 0 o 9:1", "Sw<1,2,-3> o 0 o 5:1",
                   "Sw<2,3,3> o 16 o 70:1"):
        layout = composed(source)
        assert max(offsets(layout)) < ml.cosize(layout)
    assert ml.cosize(composed("Sw<3,4,3> o 0 o (8,128):(128,1)")) == 1024


def test_slices_keep_the_function() -> None:
    layout = composed("Sw<3,0,3> o 4 o (8,8,2):(8,1,64)")
    sub, offset = ml.slice_and_offset((None, 3, 1), layout)
    assert offset == 0
    assert str(layout[:, 3, 1]) == str(sub) == "Sw<3,0,3> o 71 o (8):(8)"
    assert [sub(i) for i in range(8)] == [layout(i, 3, 1) for i in range(8)]


def test_verbs_pass_through() -> None:
    layout = composed("Sw<2,0,3> o 0 o (16,8):(8,1)")
    tile = ml.zipped_divide(layout, (4, 2))
    assert str(tile) == "Sw<2,0,3> o 0 o ((4,2),(4,4)):((8,1),(32,2))"
    assert sorted(offsets(tile)) == sorted(offsets(layout))
    other = ml.composition(layout, make_layout((8, 16)))
    assert [other(i) for i in range(128)] == [layout(i) for i in range(128)]
    assert str(ml.flatten(tile)) == "Sw<2,0,3> o 0 o (4,2,4,4):(8,1,32,2)"
    assert [str(mode) for mode in layout] == ["Sw<2,0,3> o 0 o 16:8", "Sw<2,0,3> o 0 o 8:1"]
    atom = composed("Sw<3,3,3> o 0 o (8,64):(64,1)")
    assert str(ml.tile_to_shape(atom, (128, 64, 3))) == \
        "Sw<3,3,3> o 0 o ((8,16),(64,1),(1,3)):((64,512),(1,0),(0,8192))"


@pytest.mark.parametrize(("source", "old", "new", "result"), [
    ("(8,64):(64,1)", 16, 128, "(8,8):(8,1)"), ("(8,8):(8,1)", 128, 16, "(8,64):(64,1)"),
    ("(4,(2,3)):(2,(1,8))", 32, 64, "(4,(1,3)):(1,(1,4))"), ("(4,8):(0,1)", 8, 16, "(4,4):(0,1)"),
    ("(2,4):(2,4)", 16, 64, "(1,4):(1,1)"), ("(6,4):(1,6)", 16, 48, "(2,4):(1,2)"),
])
def test_recast(source: str, old: int, new: int, result: str) -> None:
    assert str(ml.recast(Layout.parse(source), old, new)) == result


def test_recast_is_the_same_memory() -> None:
    layout = composed("Sw<3,3,3> o 0 o (8,64):(64,1)")
    wide = ml.recast(layout, 16, 128)
    assert str(wide) == "Sw<3,0,3> o 0 o (8,8):(8,1)"
    for row in range(8):
        for column in range(64):
            assert layout(row, column) == wide(row, column // 8) * 8 + column % 8  # type: ignore[operator]
    assert ml.recast(wide, 128, 16) == layout
    assert str(ml.recast(layout, 16, 256)) == "Sw<2,0,3> o 0 o (8,4):(4,1)"


def test_recast_errors() -> None:
    with pytest.raises(LayoutError, match=r"^recast of \(3,4\):\(1,3\) from 16 to 32 bits: mode 3:1: 3 is not a"):
        ml.recast(Layout.parse("(3,4):(1,3)"), 16, 32)
    with pytest.raises(LayoutError, match=r"a swizzle changes only by powers of two$"):
        ml.recast(composed("Sw<3,3,3> o 0 o (9,9):(9,1)"), 16, 48)


def test_vector_of_swizzled_layouts() -> None:
    plain = make_layout((64, 8))
    assert ml.max_common_vector(composed("Sw<3,3,3> o 0 o (64,8):(1,64)"), plain) == 8
    assert ml.max_common_vector(plain, composed("Sw<3,3,3> o 4 o (64,8):(1,64)")) == 4
