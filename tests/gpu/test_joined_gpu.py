"""Shared arrays that change places in a loop, on the device: as tests/lang/test_joined.py has them simulated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import moye as mo

WIDTH, BLOCK = 200, 128


@mo.kernel
def relaxed(out, x, n, turns):
    """``turns`` means of three neighbours of a row of x; the ends stay.  A block a row."""
    row, src, dst = mo.block_idx().x, mo.shared_array(mo.float32, WIDTH), mo.shared_array(mo.float32, WIDTH)
    for i in range(mo.thread_idx().x, n, BLOCK):
        src[i] = x[row, i]
    mo.sync_threads()
    for _ in range(turns):
        for i in range(mo.thread_idx().x, n, BLOCK):
            if (i > 0) & (i + 1 < n):
                dst[i] = (src[i - 1] + src[i] + src[i + 1]) / 3.0
            else:
                dst[i] = src[i]
        mo.sync_threads()
        src, dst = dst, src
    for i in range(mo.thread_idx().x, n, BLOCK):
        out[row, i] = src[i]


@mo.kernel
def rotated(out, x, turns):
    """Three tiles of x in turn, in a tuple and alone; what is left of each, after ``turns``."""
    tid, rows = mo.thread_idx().x, x.shape[0]
    a, b, c = (mo.shared_array(mo.float16, (3, 64)) for _ in range(3))
    for which, tile in enumerate((a, b, c)):
        for row in mo.static_range(3):
            tile[row, tid] = x[3 * which + row, tid]
    mo.sync_threads()
    pair = (a, b)
    for _ in range(turns):
        pair, c = (pair[1], c), pair[0]
    for row in range(rows):
        if row < 3:
            out[row, tid] = pair[0][row % 3, tid]
        elif row < 6:
            out[row, tid] = pair[1][row % 3, 63 - tid]
        else:
            out[row, tid] = c[row % 3, tid]


@pytest.mark.parametrize(("n", "turns"), [(200, 1), (200, 30), (131, 7), (3, 2), (1, 4), (57, 0)])
def test_two_arrays_change_places(n, turns):
    x = np.random.default_rng(n).standard_normal((37, n)).astype(np.float32)
    out = torch.full(x.shape, float("nan"), device="cuda")
    relaxed[len(x), BLOCK](out, torch.from_numpy(x).cuda(), n, turns)
    want = x.astype(np.float64)
    for _ in range(turns):
        want[:, 1:-1] = (want[:, :-2] + want[:, 1:-1] + want[:, 2:]) / 3
    np.testing.assert_allclose(out.cpu().numpy(), want, atol=1e-5)


@pytest.mark.parametrize("turns", range(5))
def test_three_arrays_rotate(turns):
    x = np.random.default_rng(turns).standard_normal((9, 64)).astype(np.float16)
    out = torch.full(x.shape, float("nan"), device="cuda", dtype=torch.float16)
    rotated[1, 64](out, torch.from_numpy(x).cuda(), turns)
    tiles = [x[3 * (i % 3):][:3] for i in range(turns, turns + 3)]
    assert np.array_equal(out.cpu().numpy(), np.concatenate([tiles[0], tiles[1][:, ::-1], tiles[2]]))
