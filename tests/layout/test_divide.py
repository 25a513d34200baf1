"""Divisions: the tile is the composition, the rest reaches everything else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import Layout, make_layout, offsets, size

Layouts = Callable[..., list[Layout]]
A = Layout.parse("(9,(4,8)):(59,(13,1))")
BY_MODE = (Layout.parse("3:3"), Layout.parse("(2,4):(1,8)"))


def test_logical_divide(layouts: Layouts) -> None:
    assert str(ml.logical_divide(A, BY_MODE)) == "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    done = 0
    for layout in layouts(80):
        for tile in (make_layout(2), Layout.parse("2:2"), Layout.parse("(2,2):(2,1)")):
            try:
                divided = ml.logical_divide(layout, tile)
            except LayoutError:
                continue
            rest = ml.complement(tile, size(layout))
            assert divided == ml.composition(layout, make_layout(tile, rest))
            done += 1
            if size(divided) == size(layout):
                assert sorted(offsets(divided)) == sorted(offsets(layout))
    assert done > 100


def test_zipped_divide() -> None:
    zipped = ml.zipped_divide(A, BY_MODE)
    assert str(zipped) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    assert zipped[:, 0].mode(0) == ml.composition(A, BY_MODE)
    assert sorted(offsets(zipped)) == sorted(offsets(A))


def test_tiled_divide() -> None:
    assert str(ml.tiled_divide(A, BY_MODE)) == "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"
    assert offsets(ml.tiled_divide(A, BY_MODE)) == offsets(ml.zipped_divide(A, BY_MODE))


def test_flat_divide() -> None:
    assert offsets(ml.flat_divide(A, BY_MODE)) == offsets(ml.zipped_divide(A, BY_MODE))
    assert str(ml.flat_divide(A, BY_MODE)) == "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"


def test_tilers() -> None:
    layout = make_layout((16, 8, 4))
    assert str(ml.zipped_divide(layout, (4, 2))) == "((4,2),(4,4,4)):((1,16),(4,32,128))"
    assert str(ml.logical_divide(layout, (4, None))) == "((4,4),8,4):((1,4),16,128)"
    assert str(ml.zipped_divide(layout, (4, None, 2))) == "((4,8,2),(4,1,2)):((1,16,128),(4,0,256))"
    assert str(ml.zipped_divide(make_layout((128,)), (32,))) == "(32,4):(1,32)"
    assert str(ml.zipped_divide(make_layout(128), 32)) == "(32,4):(1,32)"
    assert str(ml.zipped_divide(make_layout(((4, 8), 2)), ((2, 4), 1))) \
        == "(((2,4),1),((2,2),2)):(((1,4),0),((2,16),32))"
    assert str(ml.zipped_divide(make_layout(((8,), 2)), ((2,), 1))) == "(((2),1),((4),2)):(((1),0),((2),8))"
    with pytest.raises(LayoutError, match=r"^logical_divide of 8:1 by <2,2>: the tiler has 2 modes, the layout 1$"):
        ml.logical_divide(make_layout(8), (2, 2))


def test_ragged_divide_rounds_up() -> None:
    assert str(ml.zipped_divide(make_layout((100, 60)), (32, 8))) == "((32,8),(4,8)):((1,100),(32,800))"
