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
    Plan,
    gather_kernel,
    gradient_kernel,
    sorted_gradient_kernel,
)
from moye.kernels.embedding_sort import TILE, place_kernel, sort_kernel, sorted_ids


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


def in_slots(slots, totals, parts):
    """The totals (slots, columns) with every slots-th of the parts."""
    for i, part in enumerate(parts):
        totals[i % slots] += part
    return totals


def joined(totals):
    """The sum of the slots' totals, from the first on."""
    total = totals[0].copy()
    for other in totals[1:]:
        total += other
    return total


def added_up(ids, dout, rows, piece, slots):
    """float32 sums in the order of sorted ids: whole pieces of the order that are one row's are summed before."""
    order, sums = np.argsort(ids, kind="stable"), np.zeros((rows, dout.shape[1]), np.float32)
    for row in range(rows):
        first, end = np.searchsorted(ids[order], [row, row + 1])
        least, most, totals = -(-first // piece), end // piece, np.zeros((slots, dout.shape[1]), np.float32)
        pieces = [order[i * piece:(i + 1) * piece] for i in range(least, most)]
        alone = [*order[first:least * piece], *order[most * piece:end]] if pieces else order[first:end]
        in_slots(slots, totals, dout[alone])
        in_slots(slots, totals, [joined(in_slots(slots, np.zeros_like(totals), dout[which])) for which in pieces])
        sums[row] = joined(totals)
    return sums


@pytest.mark.parametrize(("columns", "slots"), [(8, 64), (40, 8), (600, 1)])
def test_gradients_are_the_same_bits_in_each_run(columns, slots):
    """Sums that rounding makes depend on their order: threads below each other have every so manieth of the ids."""
    rng = np.random.default_rng(2)
    ids = np.zeros(500, np.int32)
    dout = (rng.standard_normal((500, columns)) * 10.0 ** rng.integers(-6, 6, (500, 1))).astype(np.float32)
    dtable = np.zeros((2, columns), np.float32)
    embedding_backward(dtable, dout, ids)
    assert np.array_equal(dtable, added_up(ids, dout, 2, 1 << 30, slots)) and not dtable[1].any()


@pytest.mark.parametrize("cleared", [0, 1000])
def test_many_ids_are_sorted(cleared, monkeypatch):
    """By two digits, in two tiles or by a cluster; float32 sums are those of loops over ids, bit by bit, in pieces of
    64."""
    monkeypatch.setattr(sys.modules["moye.kernels.embedding"], "SEARCHED", 4000)
    monkeypatch.setattr(sys.modules["moye.kernels.embedding_sort"], "CLEARED", cleared)
    rng = np.random.default_rng(4)
    ids = (rng.random(4200) ** 3 * 290).astype(np.int64)
    dout = (rng.standard_normal((4200, 3)) * 10.0 ** rng.integers(-6, 6, (4200, 1))).astype(np.float32)
    dtable, expected = np.full((300, 3), np.nan, np.float32), added_up(ids, dout, 300, 64, 32)
    assert np.bincount(ids).max() > 200
    expected[ids[5]] = 0
    with clean() as reports:
        embedding_backward(dtable, dout, ids, padding_idx=int(ids[5]))
    assert np.array_equal(dtable, expected) and len(reports) == (3 if cleared else 1 + 2 * 3 + 3)


@pytest.mark.parametrize(("count", "rows", "cleared"), [(1500, 70000, 0), (1000, 255, 0), (700, 1, 0),
                                                        (8193, 70000, 1 << 18),
                                                        (8192, 255, 1 << 18), (1, 1, 1)])
def test_sorts_are_stable(count, rows, cleared, monkeypatch):
    """By three digits, and by one; by one block, by a cluster, and a launch a step."""
    monkeypatch.setattr(sys.modules["moye.kernels.embedding_sort"], "CLEARED", cleared)
    ids = np.random.default_rng(rows).integers(0, min(rows, 300), count).astype(np.int32) * (rows // min(rows, 300))
    with clean() as reports:
        order, first, end = sorted_ids(ids, ids, count, rows)
    assert np.array_equal(order, np.argsort(ids, kind="stable")) and (len(reports) == 1) == (rows <= cleared)
    named, begin, many = np.unique(ids[order], return_index=True, return_counts=True)
    assert np.array_equal(first[named], begin) and np.array_equal(end[named], begin + many)
    assert not np.delete(end, named).any() and not np.delete(first, named).any()


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
    assert len(reports) == (2 + (count >= 64) if count else 1)


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
    gather = gather_kernel.compile(x, x, ids, Plan(8, True), block=256, arch="sm_90a")
    moves = [line for line in gather.sass.splitlines() if " LDG" in line or " STG" in line]
    assert sum(".128" in line for line in moves) == 2 and len(moves) == 3              # and the id
    for lanes, rounds, ahead in ((128, 4, 2), (128, 1, 8), (16, 1, 8)):
        plan = Plan(8, True, None, 128, lanes, rounds, ahead, 64)
        gradient = gradient_kernel.compile(x, x, ids, None, mo.float32, plan, block=128, arch="sm_90a")
        assert gradient.spills == gather.spills == 0
        pieces = mo.TensorLike(mo.float32, (4096, 256))
        sums = sorted_gradient_kernel.compile(x, x, pieces, ids, ids, ids, mo.float32, plan, block=128, arch="sm_90a")
        wide_ones = [line for line in sums.sass.splitlines() if (" LDG" in line or " STG" in line) and ".128" in line]
        assert len(wide_ones) >= 8 and sums.spills == 0


def test_sorts_do_not_spill():
    ids, starts = mo.TensorLike(mo.int32, (16384,)), mo.TensorLike(mo.int32, (256, 16384 // TILE))
    assert place_kernel.compile(ids, starts, ids, ids, 128256, 8, block=256, arch="sm_90a").spills == 0
    rows = mo.TensorLike(mo.int32, (128256,))
    for each in (1, 4, 16):
        arrays = (ids, ids), (ids, ids), rows, rows, ids
        assert sort_kernel.compile(*arrays, 2, each, block=512, cluster=8, arch="sm_90a").spills == 0
