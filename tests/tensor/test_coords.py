"""Coordinate tensors stay what they say through tiles, partitions and slices; predicated and zero-filled copies."""

import numpy as np
import pytest

import moye as mo


@mo.kernel
def coordinates_of(out, copy, mma):
    """Writes, for each element that a thread owns, its own coordinates (row * 1000 + column) at that element."""
    tid = mo.thread_idx().x
    bx, by, _ = mo.block_idx()
    c = mo.tile(mo.identity_tensor(mo.shape(out)), (32, 16), (bx, by))
    g = mo.tile(out, (32, 16), (bx, by))
    if copy is not None:
        tc, tg = copy.get_slice(tid).partition_D(c), copy.get_slice(tid).partition_D(g)
    else:
        tc, tg = mma.get_slice(tid).partition_C(c), mma.get_slice(tid).partition_C(g)
    for v in mo.static_range(mo.size(tg, 0)):
        for i in mo.static_range(mo.size(tg, 1)):
            for j in mo.static_range(mo.size(tg, 2)):
                row, column = tc[v, i, j]
                tg[v, i, j] = row * 1000 + column


def tiled():
    atom = mo.CopyAtom(mo.UniversalCopy(mo.int64), mo.int32)
    yield mo.make_tiled_copy(atom, mo.make_layout((8, 4)), mo.make_layout((2, 1))), None
    yield mo.make_tiled_copy(atom, mo.make_layout((8, 4), (4, 1)), mo.make_layout((2, 2))), None
    perm = mo.Layout((8, 4), (4, 1))
    yield None, mo.make_tiled_mma(mo.UniversalFMA(mo.int32), mo.make_layout((8, 4)))
    yield None, mo.make_tiled_mma(mo.UniversalFMA(mo.int32), mo.make_layout((8, 4)), (perm, None, None))


@pytest.mark.parametrize("copy, mma", list(tiled()))
def test_coordinates_follow_every_partition(copy, mma):
    out = np.full((64, 48), -1, np.int32, order="F")
    coordinates_of[(2, 3), 32](out, copy, mma)
    rows, columns = np.indices(out.shape)
    assert np.array_equal(out, rows * 1000 + columns)


@mo.kernel
def edge_copy(dst, src, copy, fill: mo.Constexpr, through_shared: mo.Constexpr):
    """dst = src where src has elements; the rest of the tile keeps its value or becomes zero."""
    bM, bN = 32, 16
    bx, by, _ = mo.block_idx()
    thr = copy.get_slice(mo.thread_idx().x)
    gS = mo.tile(src, (bM, bN), (bx, by), ragged=True)
    gD = mo.tile(dst, (bM, bN), (bx, by))
    tS, tD = thr.partition_S(gS), thr.partition_D(gD)
    tC = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(src)), (bM, bN), (bx, by), ragged=True))
    inside = mo.fragment((1, mo.size(tS, 1), mo.size(tS, 2)), mo.bool)
    for i in mo.static_range(mo.size(tS, 1)):
        for j in mo.static_range(mo.size(tS, 2)):
            m, n = tC[0, i, j]
            inside[0, i, j] = (m < mo.size(src, 0)) & (n < mo.size(src, 1))
    if through_shared:
        smem = mo.shared_array(src.dtype, mo.make_layout((bM, bN)))
        mo.copyto(copy, thr.partition_D(smem), tS, pred=inside, zero_fill=True)
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(tD, thr.partition_S(smem))
    else:
        mo.copyto(tD, tS, pred=inside, zero_fill=fill)


@pytest.mark.parametrize("shape", [(64, 32), (61, 31), (33, 17), (40, 20)])
@pytest.mark.parametrize("how", ["keep", "fill", "cp.async"])
def test_predicated_copies_at_the_edge(shape, how):
    op = mo.CpAsync(mo.float32) if how == "cp.async" else mo.UniversalCopy(mo.float32)
    copy = mo.make_tiled_copy(mo.CopyAtom(op, mo.float32), mo.make_layout((8, 4)), mo.make_layout((1, 1)))
    src = np.asfortranarray(np.random.default_rng(1).standard_normal(shape, np.float32))
    dst = np.full((64, 32), 7, np.float32, order="F")
    edge_copy[(2, 2), 32](dst, src, copy, how == "fill", how == "cp.async")
    expected = np.full((64, 32), 7 if how == "keep" else 0, np.float32)
    expected[:shape[0], :shape[1]] = src
    assert np.array_equal(dst, expected)


@mo.kernel
def writes_coordinates(x):
    mo.identity_tensor(mo.shape(x))[0, 0] = 1


def test_coordinates_cannot_be_written():
    with pytest.raises(mo.TensorError, match="holds coordinates and cannot be written"):
        writes_coordinates[1, 1](np.zeros((4, 4), np.float32))


@mo.kernel
def iterates_over_coordinates(x):
    tuple(mo.identity_tensor(mo.shape(x)))


def test_coordinates_are_not_iterated_over():
    """By its ``__getitem__`` alone an iteration would never end."""
    with pytest.raises(mo.TensorError, match="cannot be iterated over; loop over coordinates"):
        iterates_over_coordinates[1, 1](np.zeros((4, 4), np.float32))
