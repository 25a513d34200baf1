"""Products: disjoint copies of the block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import moye.layout as ml
from moye.errors import LayoutError
from moye.layout import Layout, make_layout, offsets, size

Layouts = Callable[..., list[Layout]]
BLOCK, TILER = Layout.parse("(2,5):(5,1)"), Layout.parse("(3,4):(1,3)")


def test_logical_product(layouts: Layouts) -> None:
    assert str(ml.logical_product(Layout.parse("(2,2):(4,1)"), Layout.parse("6:1"))) == "((2,2),(2,3)):((4,1),(2,8))"
    done = 0
    for block in layouts(60, injective=True, room=32):
        for tiler in (Layout.parse("3:1"), Layout.parse("(2,3):(3,1)")):
            try:
                result = ml.logical_product(block, tiler)
            except LayoutError:
                continue
            done += 1
            assert result.mode(0) == block
            assert ml.compatible(tiler, result.mode(1))
            assert ml.is_injective(result)
            assert size(result) == size(block) * size(tiler)
    assert done > 80


def test_logical_product_by_mode() -> None:
    by_mode = ml.logical_product(make_layout((2, 4)), (3, None))
    assert str(by_mode) == "((2,3),4):((1,2),2)"


def test_zipped_product() -> None:
    assert str(ml.zipped_product(BLOCK, TILER)) == "((2,5),(3,4)):((5,1),(10,30))"


def test_tiled_product() -> None:
    assert str(ml.tiled_product(BLOCK, TILER)) == "((2,5),3,4):((5,1),10,30)"


def test_flat_product() -> None:
    assert str(ml.flat_product(BLOCK, TILER)) == "(2,5,3,4):(5,1,10,30)"


def test_blocked_product() -> None:
    result = ml.blocked_product(BLOCK, TILER)
    assert str(result) == "((2,3),(5,4)):((5,10),(1,30))"
    assert offsets(result[(None, 1), (None, 2)]) == offsets(BLOCK)
    assert sorted(offsets(result)) == list(range(120))
    assert str(ml.blocked_product(make_layout(2), make_layout(3))) == "(2,3):(1,2)"


def test_raked_product() -> None:
    result = ml.raked_product(BLOCK, TILER)
    assert str(result) == "((3,2),(4,5)):((10,5),(30,1))"
    assert sorted(offsets(result)) == list(range(120))
    thread_values = ml.raked_product(Layout.parse("(32,8):(1,32)"), Layout.parse("(4,1):(1,1)"))
    assert str(thread_values) == "((4,32),(1,8)):((256,1),(256,32))"


def test_tile_to_shape() -> None:
    assert str(ml.tile_to_shape(Layout.parse("(8,8):(8,1)"), (16, 32))) == "((8,2),(8,4)):((8,64),(1,128))"
    assert str(ml.tile_to_shape(Layout.parse("(8,8):(8,1)"), (16, 32), (1, 0))) == "((8,2),(8,4)):((8,256),(1,64))"
    assert str(ml.tile_to_shape(make_layout((8, 8)), (8, 16, 3))) == "((8,1),(8,2),(1,3)):((1,0),(8,64),(0,128))"
    with pytest.raises(LayoutError) as caught:
        ml.tile_to_shape(make_layout((8, 8)), (16, 20))
    assert caught.value.message == "tile_to_shape of (8,8):(1,8) to (16,20): extent 8 of mode 1 does not divide 20"
    with pytest.raises(LayoutError, match="the block has 2 modes, the target 1"):
        ml.tile_to_shape(make_layout((8, 8)), 64)
