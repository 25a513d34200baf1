"""Embedding in the checking simulator: rows bit by bit, gradients against float64 and the same in each order."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from drawn_arrays import FLOATS, clean, close, drawn, laid_out, poisoned, wide
from moye.kernels import embedding, embedding_backward
from moye.kernels.embedding import (
    TILE,
    Plan,
    gather_kernel,
    gradient_kernel,
    place_kernel,
    sorted_gradient_kernel,
    sorted_places,
)


@pytest.mark.parametrize("seed", range(10))
def test_drawn_rows(seed):
    rng = np.random.default_rng(seed)
    dtype = [np.float32, ml_dtypes.bfloat16, np.float64, np.int8, np.float16][seed % 5]
    rows, columns = int(rng.integers(1, 40)), int(rng.choice([1, 3, 8, 40, 64, 130]))
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 4)))
    table = laid_out(rng, rng.integers(-100, 100, (rows, columns)).astype(dtype))
    ids = np.asarray(rng.integers(0, rows, shape)).astype([np.int32, np.int64][seed % 2])
    ids = laid_out(rng, ids) if shape else ids
    out = laid_out(rng, np.zeros((*shape, columns), dtype))
    with clean():
        embedding(out, table, ids)
    assert np.array_equal(out, table[ids])


@pytest.mark.parametrize("seed", range(10))
def test_drawn_gradients(seed):
    """Few rows and many ids, and the other way round."""
    rng = np.random.default_rng([1, seed])
    name = list(FLOATS)[seed % 4]
    rows, count = int(rng.integers(1, 30)), int(rng.choice([0, 1, 7, 130, 300]))
    columns = int(rng.choice([1, 5, 8, 40, 130, 520]))
    ids = rng.integers(0, rows, count).astype([np.int32, np.int64][seed % 2])
    dout, dtable = drawn(rng, (count, columns), name), poisoned(rng, (rows, columns), name)
    padding = int(rng.integers(rows)) if seed % 3 == 0 else None
    with clean():
        embedding_backward(dtable, dout, ids, padding_idx=padding)
    expected = np.zeros((rows, columns))
    np.add.at(expected, ids, wide(dout))
    if padding is not None:
        expected[padding] = 0
    close(dtable, expected, name)


def test_gradients_are_the_same_bits_in_each_run():
    """Sums that rounding makes depend on their order: it is that of ids."""
    rng = np.random.default_rng(2)
    ids = np.zeros(500, np.int32)
    dout = (rng.standard_normal((500, 8)) * 10.0 ** rng.integers(-6, 6, (500, 1))).astype(np.float32)
    dtable, expected = np.zeros((2, 8), np.float32), np.zeros(8, np.float32)
    for row in dout:
        expected += row
    embedding_backward(dtable, dout, ids)
    assert np.array_equal(dtable[0], expected) and not dtable[1].any()


def added_up(ids, dout, rows, piece):
    """float32 sums in the order of sorted ids: whole pieces of the order that are one row's are summed before."""
    order, totals = np.argsort(ids, kind="stable"), np.zeros((rows, dout.shape[1]), np.float32)

    def in_turn(start, parts):
        for part in parts:
            start = start + part
        return start
    for row in range(rows):
        first, end = np.searchsorted(ids[order], [row, row + 1])
        least, most = -(-first // piece), end // piece
        if least >= most:
            totals[row] = in_turn(totals[row], dout[order[first:end]])
            continue
        totals[row] = in_turn(totals[row], dout[order[first:least * piece]])
        for i in range(least, most):
            totals[row] += in_turn(np.zeros_like(totals[row]), dout[order[i * piece:(i + 1) * piece]])
        totals[row] = in_turn(totals[row], dout[order[most * piece:end]])
    return totals


def test_many_ids_are_sorted(monkeypatch):
    """By two digits, in two tiles; float32 sums are those of loops over ids, bit by bit, in pieces of 64."""
    monkeypatch.setattr(sys.modules["moye.kernels.embedding"], "SEARCHED", 4000)
    rng = np.random.default_rng(4)
    ids = (rng.random(4200) ** 3 * 290).astype(np.int64)
    dout = (rng.standard_normal((4200, 3)) * 10.0 ** rng.integers(-6, 6, (4200, 1))).astype(np.float32)
    dtable, expected = np.full((300, 3), np.nan, np.float32), added_up(ids, dout, 300, 64)
    assert np.bincount(ids).max() > 200
    expected[ids[5]] = 0
    with clean() as reports:
        embedding_backward(dtable, dout, ids, padding_idx=int(ids[5]))
    assert np.array_equal(dtable, expected) and len(reports) == 1 + 2 * 3 + 3


@pytest.mark.parametrize(("count", "rows"), [(1500, 70000), (1000, 255), (700, 1)])
def test_sorts_are_stable(count, rows):
    """By three digits, and by one."""
    ids = np.random.default_rng(rows).integers(0, min(rows, 300), count).astype(np.int32) * (rows // min(rows, 300))
    with clean():
        order = sorted_places(ids, ids, count, rows)
    assert np.array_equal(order, np.argsort(ids, kind="stable"))


@pytest.mark.parametrize("seed", range(6))
def test_drawn_sorts(seed, monkeypatch):
    """Sorted where a search would do: of any strides, from no id to several tiles of them, from many rows to one."""
    rng = np.random.default_rng([3, seed])
    name, columns = list(FLOATS)[seed % 4], int(rng.choice([1, 8, 130, 520]))
    rows, count = [90, 1, 40, 2, 70, 5][seed], [0, 1, 31, 700, 1500, 4100][seed]
    ids = laid_out(rng, rng.integers(0, rows, count).astype([np.int32, np.int64][seed % 2]))
    dout, found = drawn(rng, (count, columns), name), []
    for most in (1 << 30, 0):
        monkeypatch.setattr(sys.modules["moye.kernels.embedding"], "SEARCHED", most)
        found.append(np.full((rows, columns), np.nan, FLOATS[name]))
        with clean() as reports:
            embedding_backward(found[-1], dout, ids)
    expected = np.zeros((rows, columns))
    np.add.at(expected, ids, wide(dout))
    for one in found:
        close(one, expected, name)
    assert (len(reports) >= 6) == (count > 0)


@pytest.mark.parametrize("seed", range(4))
def test_ids_that_are_counted_first(seed, monkeypatch):
    """The same bits as where each row reads all ids; rows without ids, and one that has no gradient."""
    rng = np.random.default_rng([5, seed])
    rows, count, columns = int(rng.integers(1, 300)), int(rng.integers(1, 1025)), int(rng.choice([1, 8, 600]))
    ids, dout = rng.integers(0, rows, count) // 2 * 2, drawn(rng, (count, columns), list(FLOATS)[seed])
    ids, found = laid_out(rng, np.minimum(ids, rows - 1)), []
    for most in (1 << 30, 0):
        monkeypatch.setattr(sys.modules["moye.kernels.embedding"], "_READ", most)
        found.append(np.full((rows, columns), np.nan, dout.dtype))
        with clean() as reports:
            embedding_backward(found[-1], dout, ids, padding_idx=int(ids[0]) if seed % 2 else None)
        assert len(reports) == (1 if most else 3)
    assert np.array_equal(wide(found[0]), wide(found[1]))


@pytest.mark.parametrize("most", [16384, 2])
def test_ids_beyond_the_table(most, monkeypatch):
    monkeypatch.setattr(sys.modules["moye.kernels.embedding"], "SEARCHED", most)
    table, out = np.zeros((4, 8), np.float32), np.zeros((3, 8), np.float32)
    for ids in ([0, 4, 1], [0, -1, 1]):
        with pytest.raises(mo.SimulationError, match="an id that is no row of the table"):
            embedding(out, table, np.array(ids))
        with pytest.raises(mo.SimulationError, match="an id that is no row of the table"):
            embedding_backward(table, out, np.array(ids))


def test_what_is_refused():
    table, ids = np.zeros((4, 8), np.float32), np.zeros((2, 3), np.int32)
    for arguments, text in [((table, table, ids), r"out has shape \(4, 8\).* make it \(2, 3, 8\)"),
                            ((np.zeros((2, 3, 8)), table, ids), "out holds float64, and table float32"),
                            ((table, table[0], ids), r"table has shape \(8,\)"),
                            ((table, table, ids.astype(np.float32)), "ids holds float32")]:
        with pytest.raises(mo.ArgumentError, match=text):
            embedding(*arguments)
    with pytest.raises(mo.ArgumentError, match="padding_idx=4 is none of the 4 rows"):
        embedding_backward(table, np.zeros((2, 3, 8), np.float32), ids, padding_idx=4)


def test_accesses_are_16_bytes():
    x, ids = mo.TensorLike(mo.bfloat16, (4096, 16384)), mo.TensorLike(mo.int32, (16384,))
    gather = gather_kernel.compile(x, x, ids, Plan(8, 128, 4, True, None), block=256, arch="sm_90a")
    moves = [line for line in gather.sass.splitlines() if " LDG" in line or " STG" in line]
    assert sum(".128" in line for line in moves) == 2 and len(moves) == 3              # and the id
    plan = Plan(8, 128, 4, True, None, 2, 64)
    gradient = gradient_kernel.compile(x, x, ids, None, mo.float32, plan, block=128, arch="sm_90a")
    assert gradient.spills == gather.spills == 0
    pieces = mo.TensorLike(mo.float32, (4096, 256))
    sums = sorted_gradient_kernel.compile(x, x, pieces, ids, ids, ids, mo.float32, plan, block=128, arch="sm_90a")
    wide_ones = [line for line in sums.sass.splitlines() if (" LDG" in line or " STG" in line) and ".128" in line]
    assert len(wide_ones) >= 8 and sums.spills == 0
    starts = mo.TensorLike(mo.int32, (256, 16384 // TILE))
    assert place_kernel.compile(ids, starts, ids, ids, 128256, 8, block=256, arch="sm_90a").spills == 0
