"""Layout verbs on tensors: views of the same memory, with tiles that launch checks."""

import numpy as np
import pytest

import moye as mo


@mo.kernel
def takes_views(out, A):
    """Each row of out from another view of the (16, 8) array A."""
    whole = mo.coalesce(mo.group_modes(A, 0, 2), (1,))
    tiles = mo.zipped_divide(A, (4, 2))                             # ((4, 2), (M, N))
    flat = mo.flat_divide(A, (4, 2))                                # (4, 2, M, N)
    logical = mo.logical_divide(A, (4, None))                       # ((4, M), 8)
    column = mo.composition(A, (mo.make_layout(4, 2), None))        # (4:2, 8)
    origin = mo.domain_offset((3, 5), A)
    for i in mo.static_range(4):
        out[0, i] = whole[i]
        out[1, i] = tiles[(i, 1), (2, 3)]
        out[2, i] = flat[i, 1, 2, 3]
        out[3, i] = logical[(i, 2), 7]
        out[4, i] = column[i, 5]
        out[5, i] = origin[i, 0]
        out[6, i] = mo.select(A, 1, 0)[3, i]
        out[7, i] = mo.take(tiles, 0, 1)[((i, 1),)]


def test_views_of_a_tensor():
    A = np.asfortranarray(np.arange(128, dtype=np.float32).reshape(16, 8))
    out = np.zeros((8, 4), np.float32, order="F")
    takes_views[1, 1](out, A)
    expected = [A.T.ravel()[:4], A[8:12, 7], A[8:12, 7], A[8:12, 7], A[0:8:2, 5], A[3:7, 5], A[:4, 3], A[:4, 1]]
    assert np.array_equal(out, np.array(expected))


@mo.kernel
def divides(A, tile: mo.Constexpr):
    mo.zipped_divide(A, tile)[(0, 0), (0, 0)] = 1


def test_launch_checks_that_tiles_divide():
    divides[1, 1](np.zeros((16, 8), np.float32, order="F"), (4, 2))
    with pytest.raises(mo.PreconditionError, match=r"zipped_divide\(A, 4\): extent 18 of mode 0 is no multiple of 4"):
        divides[1, 1](np.zeros((18, 8), np.float32, order="F"), (4, 2))


@mo.kernel
def divides_shared(out, reach: mo.Constexpr):
    s = mo.shared_array(mo.float32, (16, 8))
    if reach:
        out[0] = mo.composition(s, (mo.make_layout(4, 5), None))[0, 0]
    else:
        out[0] = mo.logical_divide(s, (3, None))[0, 0]


def test_static_tiles_that_leave_a_tensor():
    out = np.zeros(1, np.float32)
    with pytest.raises(mo.TensorError, match=r"logical_divide\(s, 3\): extent 16 of mode 0 is no multiple of 3"):
        divides_shared[1, 1](out, False)
    wide = mo.make_layout(8, 5)

    @mo.kernel
    def beyond(out):
        s = mo.shared_array(mo.float32, (16, 8))
        out[0] = mo.composition(s, (wide, None))[0, 0]

    with pytest.raises(mo.TensorError, match=r"composition\(s, 8:5\) reaches index 35, past the extent 16 of mode 0"):
        beyond[1, 1](out)


@mo.kernel
def coordinates(out):
    c = mo.make_coord_tensor(mo.make_identity_layout((4, (2, 3))))
    tiles = mo.flat_divide(mo.identity_tensor((8, 6)), (2, 3))      # (2, 3, 4, 2)
    m, n = tiles[1, 2, 3, 1]
    i, (j, k) = c[3, (1, 2)]
    moved = mo.domain_offset((1, 2), mo.identity_tensor((8, 6)))[3, 3]
    for index, number in enumerate((m, n, i, j, k, *moved)):
        out[index] = number


def test_verbs_on_coordinate_tensors():
    out = np.zeros(7, np.int32)
    coordinates[1, 1](out)
    assert out.tolist() == [7, 5, 3, 1, 2, 4, 5]
    with pytest.raises(mo.LayoutError, match="maps to no coordinates"):
        mo.make_coord_tensor(mo.make_layout((4, 8)))
