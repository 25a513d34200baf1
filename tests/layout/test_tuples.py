"""Integer tuples: profiles, coordinates, divisions."""

from __future__ import annotations

import pytest

from moye.errors import LayoutError
from moye.layout import (
    ceil_div,
    compatible,
    congruent,
    crd2idx,
    idx2crd,
    product,
    product_each,
    shape_div,
    size,
    weakly_congruent,
)
from moye.layout import tuples as tp


def test_text_and_leaves() -> None:
    assert tp.text(((2,), 4, ())) == "((2),4,())"
    assert tp.flatten_tuple(((2, (3,)), 4)) == (2, 3, 4)
    assert (product(((2, 3), 4)), product_each(((2, 3), 4)), tp.tuple_depth(((2, 3), 4))) == (24, (6, 4), 2)


def test_profiles() -> None:
    assert congruent(((2, 3), 4), ((1, 1), 1))
    assert not congruent((6, 4), ((2, 3), 4))
    assert weakly_congruent((6, 4), ((2, 3), 4))
    assert not weakly_congruent(((2, 3), 4), (6, 4))
    assert compatible((6, 4), ((2, 3), 4))
    assert not compatible((5, 4), ((2, 3), 4))


def test_idx2crd_crd2idx() -> None:
    for shape in (7, (2, 3), ((2, 2), 3), ((2,), (1, 3), 2)):
        for i in range(size(shape)):
            crd = idx2crd(shape, i)
            assert congruent(crd, shape)
            assert crd2idx(crd, shape) == i


def test_crd2idx_forms() -> None:
    assert crd2idx((1, 2), (3, 4), (4, 1)) == 6
    assert crd2idx(5, (3, 4), (4, 1)) == 9
    assert crd2idx((3, 1), ((2, 2), 4)) == 7


def test_divisions() -> None:
    assert ceil_div((10, 9), (4, 3)) == (3, 3)
    assert ceil_div((6, 20), 30) == (1, 4)
    assert ceil_div((10, 9, 5), (4, 3)) == (3, 3, 5)
    assert shape_div((12, 3), 4) == (3, 3)
    assert shape_div((2, 6), 4) == (1, 3)
    assert shape_div((4, 6), (2, 3)) == (2, 2)
    with pytest.raises(LayoutError, match=r"^shape_div of 6 by 4: 6 is not a multiple of 4$"):
        shape_div(6, 4)


def test_unflatten() -> None:
    assert tp.unflatten_tuple((1, 2, 3), ((0, 0), 0)) == ((1, 2), 3)
    with pytest.raises(LayoutError, match=r"^unflatten of 2 modes: the profile \(\(0,0\),0\) has more leaves$"):
        tp.unflatten_tuple((1, 2), ((0, 0), 0))
    with pytest.raises(LayoutError, match=r"^unflatten of 3 modes: the profile \(0,0\) has only 2$"):
        tp.unflatten_tuple((1, 2, 3), (0, 0))


def test_leaves_must_be_integers() -> None:
    with pytest.raises(LayoutError, match=r"^a shape has the leaf 1.5, which is not an integer$"):
        size((2, 1.5))
