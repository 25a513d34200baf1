"""The pages of MoYe.jl's manual on arrays, layouts and broadcasting, on host tensors, against NumPy.

Indices and threads count from 1 there and from 0 here.  The pages on matmul, copies, tensor cores and pipelines are
kernels, and are tested in tests/tensor/test_whole_arrays.py and as examples.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


def columns(data: np.ndarray, *shape: int) -> np.ndarray:
    """Data in column-major order, as Julia reshapes."""
    return data.reshape(shape, order="F")


# --- its first page --------------------------------------------------------------------------------------------------


def test_quick_start():
    data = np.arange(1, 49)
    a = mo.tensor(data, mo.make_layout((6, 8)))
    np.testing.assert_array_equal(a.numpy(), columns(data, 6, 8))
    subtile_a = mo.tile(a, (3, 4), (0, 1))
    np.testing.assert_array_equal(subtile_a.numpy(), [[25, 31, 37, 43], [26, 32, 38, 44], [27, 33, 39, 45]])
    assert subtile_a.layout == mo.Layout((3, 4), (1, 6))
    workitems_a = mo.parallelize(subtile_a, (3, 2), 0)
    np.testing.assert_array_equal(workitems_a.numpy(), [[25, 37]])
    assert mo.shape(workitems_a) == (1, 2)
    for i in range(mo.size(workitems_a)):
        workitems_a[i] = 0
    wanted = columns(np.arange(1, 49), 6, 8).copy()
    wanted[0, [4, 6]] = 0
    np.testing.assert_array_equal(a.numpy(), wanted)
    column = mo.tile(subtile_a, (3, 1), (0, 1))
    assert mo.shape(column) == (3, 1)
    np.testing.assert_array_equal(column.numpy(), [[31], [32], [33]])


def test_tile_iterator():
    data = np.arange(1, 37)
    tiled = mo.zipped_divide(mo.tensor(data, mo.make_layout((4, 9))), (mo.make_layout(2), mo.make_layout(3)))
    whole, found = columns(data, 4, 9), []
    for i in range(mo.size(tiled, 1)):
        tile = tiled[:, i]
        m, n = i % 2, i // 2
        np.testing.assert_array_equal(tile.numpy().reshape(2, 3, order="F"),
                                      whole[2 * m:2 * m + 2, 3 * n:3 * n + 3])
        found += tile.numpy().reshape(-1).tolist()
    assert sorted(found) == data.tolist()


# --- its page on arrays ----------------------------------------------------------------------------------------------


def test_an_array_of_one_element():
    one = np.ones(1)
    a = mo.tensor(one, mo.make_layout((3, 4), (0, 0)))
    assert mo.cosize(a.layout) == 1 and a.array is one
    np.testing.assert_array_equal(a.numpy(), np.ones((3, 4)))
    a[2, 3] = 5
    np.testing.assert_array_equal(a.numpy(), np.full((3, 4), 5.0))


def test_an_index_beyond_the_array_is_refused_and_not_periodic():
    b = mo.tensor(np.array([1, 2, 3]), mo.make_layout((3,), (1,)))
    with pytest.raises(mo.TensorError, match="index 3 is outside"):
        b[3]


def test_a_block_array():
    data = np.arange(1, 49)
    b = mo.tensor(data, mo.make_layout(((2, 3), (2, 4)), ((1, 16), (2, 4))))
    wanted = np.array([[data[p + 16 * q + 2 * r + 4 * s] for s in range(4) for r in range(2)]
                       for q in range(3) for p in range(2)])
    np.testing.assert_array_equal(b.numpy(), wanted)
    assert b[(1, 2), (0, 3)] == data[1 + 32 + 12]


def test_slicing():
    data = np.arange(1, 165)
    layout = mo.make_layout(((3, 2), (2, 5, 2)), ((4, 1), (2, 13, 100)))
    a = mo.tensor(data, layout)
    row = a[1, :]
    assert row.layout == mo.Layout(((2, 5, 2),), ((2, 13, 100),))
    np.testing.assert_array_equal(row.numpy().reshape(-1), [data[layout(1, j)] for j in range(20)])


# --- its page on broadcasting ----------------------------------------------------------------------------------------


def test_broadcasting():
    a = mo.tensor(np.empty(6), mo.make_layout((3, 2), (2, 1)))
    a.fill(1.0)
    np.testing.assert_array_equal((a * 3).numpy(), np.full((3, 2), 3.0))
    np.testing.assert_array_equal((a + a).numpy(), np.full((3, 2), 2.0))
    b = mo.tensor(np.zeros(5), mo.make_layout((3, 1), (2, 0)))     # a mode of size 1 is repeated
    b[...] = 0
    np.testing.assert_array_equal((a - b).numpy(), np.ones((3, 2)))
    a[...] = a * 2
    assert a.layout == mo.Layout((3, 2), (2, 1)) and a.reduce("add") == 12
    assert np.isclose(mo.exp(a).reduce("add"), 44.334337)


# --- its page on layouts ---------------------------------------------------------------------------------------------


def test_a_vector_with_a_stride():
    a = mo.tensor(np.arange(1, 9), mo.make_layout(4, 2))
    assert [a[i] for i in range(4)] == [1, 3, 5, 7]


def test_fundamentals_and_coordinates():
    layout = mo.make_layout((2, (2, 2)), (4, (1, 2)))
    assert (layout.shape, layout.stride) == ((2, (2, 2)), (4, (1, 2)))
    assert (mo.size(layout), mo.rank(layout), mo.depth(layout), mo.cosize(layout)) == (8, 2, 2, 8)
    assert layout(1, (0, 1)) == layout(1, 2) == layout(5) == 6
    np.testing.assert_array_equal(mo.tensor(np.arange(8), layout).numpy(), np.arange(8).reshape(2, 4))
    assert mo.coalesce(mo.make_layout((2, (1, 6)), (1, (6, 2)))) == mo.make_layout(12, 1)
    assert layout.mode(1) == mo.make_layout((2, 2), (1, 2)) and mo.make_layout(*layout) == layout


def offsets(layout: mo.Layout) -> np.ndarray:
    """The table of a layout: the tensor of the numbers from 0 on."""
    return mo.tensor(np.arange(mo.cosize(layout)), layout).numpy()


def test_complement():
    every = mo.make_layout(4, 2)
    rest = mo.complement(every, 24)
    np.testing.assert_array_equal(offsets(mo.make_layout(every, rest))[0],
                                  offsets(rest).reshape(-1, order="F"))
    wanted = [[1, 2, 9, 10, 17, 18], [3, 4, 11, 12, 19, 20], [5, 6, 13, 14, 21, 22], [7, 8, 15, 16, 23, 24]]
    np.testing.assert_array_equal(offsets(mo.make_layout(every, rest)) + 1, wanted)


def test_products_and_divisions():
    tile, tiles = mo.make_layout((2, 2), (1, 2)), mo.make_layout((3, 4), (4, 1))
    small = np.array([[0, 2], [1, 3]])
    order = np.arange(12).reshape(3, 4) * 4
    np.testing.assert_array_equal(offsets(mo.logical_product(tile, tiles)),
                                  small.reshape(-1, 1, order="F") + order.reshape(1, -1, order="F"))
    np.testing.assert_array_equal(offsets(mo.blocked_product(tile, tiles)),
                                  np.repeat(np.repeat(order, 2, 0), 2, 1) + np.tile(small, (3, 4)))
    raked = mo.raked_product(tile, tiles)
    wanted = np.tile(order, (2, 2)) + np.repeat(np.repeat(small, 3, 0), 4, 1)
    np.testing.assert_array_equal(offsets(raked), wanted)
    subtile = mo.make_layout(2, 3), mo.make_layout(2, 4)
    rows, cols = (np.array([r + 3 * i for r in range(3) for i in range(2)]),
                  np.array([c + 4 * j for c in range(4) for j in range(2)]))
    np.testing.assert_array_equal(offsets(mo.logical_divide(raked, subtile)), wanted[np.ix_(rows, cols)])
    zipped = offsets(mo.zipped_divide(raked, subtile))
    for i in range(12):
        r, c = i % 3, i // 3
        np.testing.assert_array_equal(zipped[:, i].reshape(2, 2, order="F"), wanted[r::3, c::4])
