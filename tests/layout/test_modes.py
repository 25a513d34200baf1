"""Rearranged modes keep the function."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import Layout

Layouts = Callable[..., list[Layout]]
L3 = Layout.parse("((2,3),4,5):((1,2),6,24)")


def test_flatten(layouts: Layouts) -> None:
    assert str(ml.flatten(L3)) == "(2,3,4,5):(1,2,6,24)"
    assert ml.flatten(((2, 3), 4)) == (2, 3, 4)
    assert str(ml.flatten(Layout(8, 1))) == "8:1"
    for layout in layouts(40):
        flat = ml.flatten(layout)
        assert ml.depth(flat) <= 1
        assert [flat(i) for i in range(ml.size(flat))] == [layout(i) for i in range(ml.size(layout))]


def test_unflatten(layouts: Layouts) -> None:
    for layout in layouts(40):
        assert ml.unflatten(ml.flatten(layout), layout.shape) == layout


def test_group_modes() -> None:
    grouped = ml.group_modes(L3, 1, 3)
    assert str(grouped) == "((2,3),(4,5)):((1,2),(6,24))"
    assert [grouped(i) for i in range(120)] == [L3(i) for i in range(120)]
    with pytest.raises(LayoutError, match=r"^group_modes of .*: 1..4 is no range of its 3 modes$"):
        ml.group_modes(L3, 1, 4)


def test_select() -> None:
    assert str(ml.select(L3, 2, 0)) == "(5,(2,3)):(24,(1,2))"


def test_take() -> None:
    assert str(ml.take(L3, 1, 3)) == "(4,5):(6,24)"
    with pytest.raises(LayoutError, match=r"^take of .*: 1..5 is no range of its 3 modes$"):
        ml.take(L3, 1, 5)


def test_append() -> None:
    assert str(ml.append(Layout(4, 1), Layout(3, 8))) == "(4,3):(1,8)"
    assert str(ml.append(Layout(4, 1), rank=3)) == "(4,1,1):(1,0,0)"
    assert str(ml.append(Layout(4, 1), rank=1)) == "4:1"
    with pytest.raises(LayoutError, match=r"has rank 3 already: it cannot be padded to 2$"):
        ml.append(L3, rank=2)


def test_prepend() -> None:
    assert str(ml.prepend(Layout(4, 1), Layout(3, 8))) == "(3,4):(8,1)"
    assert str(ml.prepend(Layout(4, 1), rank=3)) == "(1,1,4):(0,0,1)"


def test_zip_modes() -> None:
    assert str(ml.zip_modes(Layout.parse("(4,2):(1,8)"), Layout.parse("(3,5):(0,7)"))) == "((4,3),(2,5)):((1,0),(8,7))"
    with pytest.raises(LayoutError, match=r"ranks 2 and 1 differ$"):
        ml.zip_modes(Layout.parse("(4,2):(1,8)"), Layout(3, 1))
