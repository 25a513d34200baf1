"""Copies of rows at any indices on a GPU of sm_100, against NumPy bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from gathered_rows import BLOCK, CASES, moved_kernel

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _blackwell():
    if not (10, 0) <= torch.cuda.get_device_capability() < (12, 0):
        pytest.skip("tile::scatter4 needs sm_100a")


@pytest.mark.parametrize("name", CASES)
def test_rows_are_moved(name):
    case = CASES[name]
    arguments = case.arguments(1)
    target, source, picks, places = arguments
    expected = case.expected(*arguments)
    wide = torch.from_numpy(np.ascontiguousarray(source.base)).cuda()[:, :case.columns]
    out, *rest = (torch.from_numpy(x).cuda() for x in (target, picks, places))
    moved_kernel[3, BLOCK](*case.copies(out, wide), *rest, case.column, case.rows)
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), expected)
