"""Copies with hints for caches on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

import cache_hint_kernels as cases

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("hint", "prefetch", "dtype"), cases.CASES)
def test_copies_are_the_same(hint, prefetch, dtype):
    args = cases.arguments(dtype, hint, prefetch)
    wanted = cases.expected(args)
    whole = torch.from_numpy(args[2].base).cuda()
    device = [torch.from_numpy(args[0]).cuda(), torch.from_numpy(args[1]).cuda(), whole[:, 0], *args[3:]]
    cases.hinted_kernel[1, 32](*device)
    torch.cuda.synchronize()
    assert np.array_equal(device[0].cpu().numpy(), wanted[0])
    assert np.array_equal(device[2].cpu().numpy(), wanted[1])
