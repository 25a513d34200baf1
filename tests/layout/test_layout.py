"""Layouts as functions: construction, notation, evaluation, slices."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import Layout, make_layout

Layouts = Callable[..., list[Layout]]


@pytest.mark.parametrize("source", ["8:1", "(8):(1)", "(32,8):(1,32)", "((2,2),4):((1,8),2)", "(20):(2)", "():()",
                                    "((4,2)):((1,16))", "(4,(2)):(-1,(0))", "(((3))):(((5)))"])
def test_parse(source: str) -> None:
    assert str(Layout.parse(source)) == source
    assert Layout.parse(str(Layout.parse(source))) == Layout.parse(source)


def test_parse_variants() -> None:
    assert Layout.parse("(4,):(1,)") == Layout.parse("(4):(1)") != Layout.parse("4:1")
    assert Layout.parse(" ( _32 , _8 ) : ( _1 , 32 ) ") == make_layout((32, 8))
    assert Layout.parse("(32,8)") == make_layout((32, 8))


@pytest.mark.parametrize(("source", "message"), [
    ("(4,8", "',' or ')' expected, the end found\n    (4,8\n        ^"),
    ("4:x", "an integer or '(' expected, 'x' found\n    4:x\n      ^"),
    ("4:1)", "the end expected, ')' found\n    4:1)\n       ^"),
    ("(4,8):1", "the stride differs in structure from the shape, which has 2 modes in parentheses here\n"
                "    (4,8):1\n          ^"),
    ("(4,(2,2)):(1,(2,2,2))", "the stride has 3 modes where the shape has 2\n"
                              "    (4,(2,2)):(1,(2,2,2))\n                      ^"),
    ("-4:1", "the extent -4 is negative\n    -4:1\n    ^"),
    ("(4,2@0):(1,4)", "the extent 2@0 is a coordinate, not a number\n    (4,2@0):(1,4)\n       ^"),
])
def test_parse_errors(source: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout.parse(source)
    assert caught.value.message == f"{source!r} is not in layout notation: {message}"


def test_parse_random(layouts: Layouts) -> None:
    for layout in layouts(50):
        assert Layout.parse(str(layout)) == layout
        assert hash(Layout.parse(str(layout))) == hash(layout)


def test_make_layout() -> None:
    assert str(make_layout(8)) == "8:1"
    assert str(make_layout((32, (2, 4)))) == "(32,(2,4)):(1,(32,64))"
    assert str(make_layout((4, 1, 2))) == "(4,1,2):(1,0,4)"
    assert str(make_layout((2, 3), (3, 1))) == "(2,3):(3,1)"
    assert str(make_layout([2, 3], [3, 1])) == "(2,3):(3,1)"  # type: ignore[call-overload]
    assert str(make_layout(make_layout(4), make_layout((2, 2)))) == "(4,(2,2)):(1,(1,2))"
    assert str(make_layout(make_layout(4))) == "(4):(1)"
    with pytest.raises(LayoutError, match="put the extents into one tuple"):
        make_layout(2, 3, 4)  # type: ignore[call-overload]
    with pytest.raises(LayoutError, match="not a mixture"):
        make_layout(make_layout(4), 4)  # type: ignore[call-overload]


def test_ordered_layouts() -> None:
    assert str(make_layout((2, (3, 4)), ml.LayoutRight)) == "(2,(3,4)):(12,(4,1))"
    assert str(make_layout((2, 3), ml.LayoutLeft)) == "(2,3):(1,2)"
    assert str(ml.make_ordered_layout((2, 3, 4), (2, 0, 1))) == "(2,3,4):(12,1,3)"
    assert str(ml.make_ordered_layout((2, (3, 4)), (1, 0))) == "(2,(3,4)):(12,(1,3))"
    with pytest.raises(LayoutError, match=r"^order \(0,1\) does not fit the shape \(2,3,4\): \(0,1\) orders 2"):
        ml.make_ordered_layout((2, 3, 4), (0, 1))


def test_call() -> None:
    layout = Layout.parse("((2,2),4):((1,8),2)")
    assert layout(1, 2) == 5
    assert layout((1, 2)) == 5
    assert layout((1, 1), 0) == 9
    assert layout(((1, 1), 3)) == 15
    assert [layout(i) for i in range(16)] == [layout(i % 4, i // 4) for i in range(16)]
    assert make_layout(4)(7) == 7
    with pytest.raises(LayoutError, match=r"^coordinate \(1, 2, 3\) has 3 modes, but shape \(\(2,2\),4\) has 2$"):
        layout(1, 2, 3)


def test_measures(layouts: Layouts) -> None:
    layout = Layout.parse("((2,3),4):((12,4),1)")
    assert (ml.size(layout), ml.size(layout, 0), ml.size(layout, (0, 1))) == (24, 6, 3)
    assert (ml.rank(layout), ml.rank(layout, 0), ml.depth(layout), ml.cosize(layout), len(layout)) == (2, 2, 2, 24, 2)
    assert (ml.shape(layout, 0), ml.stride(layout, (0, 1)), ml.size((2, (3, 4)))) == ((2, 3), 4, 24)
    assert [str(mode) for mode in layout] == ["(2,3):(12,4)", "4:1"]
    for item in layouts(60):
        assert ml.cosize(item) == max(item(i) for i in range(ml.size(item))) + 1
    with pytest.raises(LayoutError, match=r"^mode 2 of \(\(2,3\),4\) does not exist: it has 2$"):
        ml.size(layout, 2)


def test_measures_of_owners() -> None:
    class Owner:
        layout = make_layout((4, 8))
    assert (ml.size(Owner()), ml.size(Owner(), 1), ml.rank(Owner()), ml.stride(Owner()), ml.cosize(Owner())) \
        == (32, 8, 2, (1, 4), 32)


def test_slices() -> None:
    layout = Layout.parse("((2,3),4,5):((1,2),6,24)")
    assert str(layout[:, 3, 2]) == "((2,3)):((1,2))"
    assert str(layout[None, 3, :]) == "((2,3),5):((1,2),24)"
    assert str(layout[(None, 2), :, 0]) == "(2,4):(1,6)"
    assert str(layout[(None, None), 0, (0,)]) == "(2,3):(1,2)"
    assert str(layout[..., 2]) == "((2,3),4):((1,2),6)"
    assert layout[:] is layout
    sub, offset = ml.slice_and_offset(((None, 2), None, 3), layout)
    assert offset == 2 * 2 + 3 * 24
    for i in range(2):
        for j in range(4):
            assert layout((i, 2), j, 3) == sub(i, j) + offset


@pytest.mark.parametrize(("crd", "message"), [
    (3, "coordinate 3 leaves no mode of (4,8):(1,4) open, so it selects no sublayout"),
    ((1, 2), "coordinate (1, 2) leaves no mode of (4,8):(1,4) open, so it selects no sublayout"),
    ((None, 1, 2), "coordinate (None, 1, 2) has 3 modes, but (4,8):(1,4) has 2"),
    (((None, 1), 2), "coordinate (None, 1) has 2 modes, but the extent 4 is an integer"),
    ((slice(0, 2), 1), "slice(0, 2, None) is not a coordinate of a layout: only the full slice ':' is"),
])
def test_slice_errors(crd: object, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        make_layout((4, 8))[crd]  # type: ignore[index]
    assert caught.value.message == message


def test_open_coordinate_has_no_offset() -> None:
    with pytest.raises(LayoutError, match=r"^an open mode of shape 8 has no offset"):
        make_layout((4, 8))(1, None)


def test_value_semantics() -> None:
    layout = make_layout((4, 8))
    assert layout == Layout.parse("(4,8):(1,4)") != Layout.parse("(4,8):(8,1)")
    assert len({layout, make_layout((4, 8))}) == 1
    assert layout != "(4,8):(1,4)"
    assert pickle.loads(pickle.dumps(layout)) == copy.deepcopy(layout) == layout
    with pytest.raises(AttributeError, match="immutable"):
        layout.shape = 4  # type: ignore[misc]


def test_import_needs_the_standard_library_alone() -> None:
    code = "import sys, moye.layout; print(sorted({'numpy', 'torch', 'ml_dtypes'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
