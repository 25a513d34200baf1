"""Cells of layouts, swizzles and bank maps: labels are offsets, facts are true, nothing is left out silently."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moye as mo
from moye.layout import Layout
from moye.layout.tuples import flatten_tuple, text

shapes = st.recursive(st.integers(1, 4), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)


@st.composite
def layouts(draw):
    shape = draw(shapes)
    strides = [draw(st.integers(-3, 40)) for _ in flatten_tuple(shape)]
    it = iter(strides)

    def fill(x):
        return tuple(map(fill, x)) if isinstance(x, tuple) else next(it)
    return Layout(shape, fill(shape))


def cells(picture):
    return [cell for panel in picture.sheet.panels for cell in panel.cells]


@settings(deadline=None)
@given(layouts())
def test_every_label_is_the_offset_of_its_coordinate(layout):
    picture = mo.draw(layout)
    assert sorted(cell.index for cell in cells(picture)) == list(range(mo.size(layout)))
    for cell in cells(picture):
        coordinate = Layout.parse(cell.coordinate).shape
        assert cell.lines == (str(layout(coordinate)),)
        assert cell.offset == layout(cell.index) == layout(coordinate)


@settings(deadline=None)
@given(layouts())
def test_cells_stand_in_their_rows_and_columns(layout):
    for panel in mo.draw(layout).sheet.panels:
        assert len(panel.grid()) == len(panel.cells) == len(panel.rows) * len(panel.columns)
        for cell in panel.cells:
            coordinate = Layout.parse(cell.coordinate).shape
            if isinstance(layout.shape, tuple) and len(layout.shape) > 1:
                assert panel.rows.labels[cell.row] == text(coordinate[0])
                assert panel.columns.labels[cell.column] == text(coordinate[1])


@settings(deadline=None)
@given(layouts(), st.integers(1, 30))
def test_no_more_cells_than_allowed_and_a_note_says_so(layout, most):
    picture = mo.draw(layout, max_cells=most)
    assert len(cells(picture)) <= most
    assert any("cropped" in note for note in picture.sheet.notes) == (len(cells(picture)) < mo.size(layout))


def test_a_layout_beyond_memory_is_cropped():
    picture = mo.draw("(1073741824,1073741824,7)", max_cells=100)
    assert len(cells(picture)) == 100
    assert picture.sheet.notes == ("cropped to 10 of 1073741824 rows, 10 of 1073741824 columns, 1 of 7 slices: "
                                   "max_cells=100",)


def test_hierarchical_modes_have_breaks_where_they_roll_over():
    panel = mo.draw("((2,2,2),(3,1,2))").sheet.panels[0]
    assert panel.rows.breaks == (0, 0, 1, 0, 2, 0, 1, 0)
    assert panel.columns.breaks == (0, 0, 0, 1, 0, 0)
    assert panel.rows.labels[:3] == ("(0,0,0)", "(1,0,0)", "(0,1,0)")


def test_each_coordinate_of_further_modes_has_a_panel():
    sheet = mo.draw("(2,3,(2,2),2)").sheet
    assert [panel.title for panel in sheet.panels] == [
        f"(_,_,({i},{j}),{k})" for k in range(2) for j in range(2) for i in range(2)]
    assert len({panel.place for panel in sheet.panels}) == 8


def test_size_0_and_rank_0():
    assert mo.draw("(4,0)").sheet.panels == ()
    assert "has no coordinates" in mo.draw("(4,0)").text
    (only,) = cells(mo.draw(Layout((), ())))
    assert (only.coordinate, only.lines) == ("()", ("0",))


def test_a_dynamic_leaf_is_named():
    from moye.layout import DynInt

    class Unknown(DynInt):
        divisor, lower, upper = 1, 0, None
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = None
        __mod__ = __rmod__ = __and__ = __xor__ = __lshift__ = __rshift__ = exact_div = require_divisible = None
        __str__ = __repr__ = lambda self: "n"
        __hash__ = object.__hash__

        def same(self, other):
            return self is other

    n = Unknown()
    with pytest.raises(mo.FactError, match=r"the shape of \(4,\(2,n\)\):\(1,\(4,8\)\) has the dynamic mode 1,1 n"):
        mo.draw(Layout((4, (2, n)), (1, (4, 8))))
    with pytest.raises(mo.FactError, match=r"the stride of 4:n has the dynamic leaf n"):
        mo.draw(Layout(4, n))
    with pytest.raises(mo.FactError, match=r"the offset of .* has the dynamic leaf n"):
        mo.draw(mo.ComposedLayout(mo.Swizzle(1, 0, 1), n, Layout(4, 1)))
    with pytest.raises(mo.FactError, match="the dynamic leaf n"):
        mo.draw(thr=Layout(4, n))


SWIZZLES = [(2, 0, 2), (1, 2, 3), (3, 3, 3), (2, 1, -3), (0, 2, 1)]


@pytest.mark.parametrize("three", SWIZZLES, ids=str)
def test_the_picture_of_a_swizzle_is_one_period(three):
    sw = mo.Swizzle(*three)
    drawn = cells(mo.draw(sw))
    in_order = [cell.offset for cell in sorted(drawn, key=lambda cell: (cell.row, cell.column))]
    assert in_order == [sw(i) for i in range(len(drawn))]
    assert sorted(in_order) == list(range(len(drawn)))
    assert len(drawn) % sw.period == 0 or sw.bits == 0


def test_a_swizzle_around_a_layout():
    swizzled = mo.draw("(8,8):(8,1)", swizzle="3,0,3")
    assert [cell.offset for cell in cells(swizzled)] == [
        mo.Swizzle(3, 0, 3)(8 * i + j) for i in range(8) for j in range(8)]
    assert swizzled.sheet == mo.draw("Sw<3,0,3> o (8,8):(8,1)").sheet
    assert swizzled.sheet == mo.draw(mo.Layout.parse("(8,8):(8,1)"), swizzle=mo.Swizzle(3, 0, 3)).sheet
    moved = mo.draw("Sw<1,1,1> o 4 o (4,4)")
    assert [cell.offset for cell in cells(moved)] == [
        mo.Swizzle(1, 1, 1)(4 + i + 4 * j) for i in range(4) for j in range(4)]


def test_colours_of_a_swizzled_layout_follow_what_the_swizzle_moves():
    cell = next(c for c in cells(mo.draw("(8,64):(64,1)", swizzle="3,3,3")) if c.coordinate == "(1,0)")
    assert (cell.offset, cell.colour) == (72, 9)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([4, 8, 16, 32, 64, 128]), st.sampled_from([16, 32]))
def test_banks(rows, columns, bits, banks):
    layout = mo.make_layout((rows, columns), (columns + 1, 1))
    for cell in cells(mo.draw(layout, banks=banks, bits=bits)):
        byte = cell.offset * bits / 8
        assert cell.bank == int(byte // 4) % banks
        assert cell.lines == (str(cell.offset), f"b{cell.bank}")
    assert [c.bank for c in cells(mo.draw(layout, bits=bits))] == [
        c.bank for c in cells(mo.draw(layout, banks=32, bits=bits))]


def test_one_colour_is_a_16_byte_access():
    drawn = cells(mo.draw("128", banks=True, bits=16))
    assert [cell.colour for cell in drawn] == [i // 8 % 8 for i in range(128)]


def test_banks_need_the_width_of_an_element():
    with pytest.raises(mo.LayoutError, match="the width of an element is not given") as told:
        mo.draw("(4,4)", banks=True)
    assert "bits=16" in told.value.hint


@pytest.mark.parametrize("option", ["bits", "banks", "max_cells"])
def test_counts_are_positive(option):
    with pytest.raises(mo.LayoutError, match=f"{option}=0 is not positive"):
        mo.draw("(4,4)", **{"bits": 8, option: 0})


def test_the_number_of_cells_of_a_page_is_its_size():
    sheet = mo.draw("(3,(2,2),2)").sheet
    assert [len(panel.cells) for panel in sheet.panels] == [prod((3, 4))] * 2
