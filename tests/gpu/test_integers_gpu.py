"""Integers on the GPU: of two signs compared, narrow ones as indices and in folds, register tensors in shuffles."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from lang.test_collectives import THREADS, counted, of_registers, totals
from tensor.test_mixed_signs import SIGNED, UNSIGNED, compared, numbers
from tensor.test_narrow_indices import divided, of_a_table, of_layouts, of_threads, places


def run(kernel, threads, *args):
    """The first argument after a launch on the device."""
    placed = [mo.testing.array(x) if isinstance(x, np.ndarray) else x for x in args]
    kernel[1, threads](*placed)
    return mo.testing.host(placed[0])


@pytest.mark.parametrize("unsigned", UNSIGNED)
@pytest.mark.parametrize("signed", SIGNED)
def test_comparisons_are_of_the_numbers(signed, unsigned):
    a, b = numbers(signed, unsigned)
    found = run(compared, 32, np.full((32, 12), -1, np.int32), a, b)
    for row, x, y in zip(found, a.tolist(), b.tolist(), strict=True):
        there, back = [x < y, x <= y, x > y, x >= y, x == y, x != y], [y < x, y <= x, y > x, y >= x, y == x, y != x]
        assert row.tolist() == there + back


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_narrow_indices(dtype):
    at, x = places(dtype), np.arange(4096, dtype=np.int32)
    i = at.astype(int)
    assert (run(of_a_table, 32, np.zeros(32, np.int32), 7 * x[:300], at, 256) == 7 * i).all()
    found = run(of_layouts, 32, np.zeros((32, 4), np.int32), at)
    assert (found == np.stack([16 * i + 3, 16 * i + 3, 256 * i + 3, i], 1)).all()
    assert (run(of_threads, 32, np.zeros((32, 2), np.int32), x, at) == np.stack([31 * 128 + i, 32 * i + 5], 1)).all()
    assert (run(divided, 32, np.zeros((32, 2), np.int32), at) == np.stack([-(-i // 200), -(-i // 64)], 1)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_folds_of_narrow_integers(dtype):
    x = (np.arange(4 * THREADS) % 128).astype(dtype)
    found, first = run(totals, THREADS, np.full((THREADS, 6), -1, np.int64), x), x[:THREADS].astype(np.int64)
    assert (found[:, 0] == x.astype(np.int64).reshape(-1, 4).sum(1)).all()
    assert (found[:, 4] == first.sum()).all()
    assert (found[:, 5] == first.cumsum() - first).all()
    above = (x > 50).astype(int)
    found = run(counted, THREADS, np.full((THREADS, 4), -1, np.int32), x, 50)
    assert (found[:, 0] == above.reshape(-1, 4).sum(1)).all()
    assert (found[:, 2] == above[:THREADS].sum()).all()
    assert (found[:, 3] == above[:THREADS].cumsum()).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_shuffles_of_register_tensors(dtype):
    x = np.random.default_rng(0).integers(0, 9, 128).astype(dtype)
    rows, above = x.reshape(32, 4), (x.reshape(32, 4) > 3).astype(int)
    found = run(of_registers, 32, np.zeros_like(x), x).reshape(32, 4)
    assert (found == rows[np.arange(32) ^ 1] + 1000 * rows.max(0) + above.cumsum(0) - above).all()
