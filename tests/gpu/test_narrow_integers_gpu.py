"""Arithmetic of narrow integers at the ends of their dtypes, where compilers have been wrong, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import moye as mo


@mo.kernel
def narrow(a, o):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    x = a[i]
    zero, one = mo.thread_idx().x // 64, mo.thread_idx().x // 64 + 1
    o[i, 0] = mo.max(-x, x + 2)
    o[i, 1] = mo.where(x - x * 2 <= x, one, zero).to(x.dtype)
    o[i, 2] = mo.where(-x < x + 64, one, zero).to(x.dtype)
    o[i, 3] = mo.min(x * -1, x - 3)
    o[i, 4] = mo.where((~x) + 1 < x, one, zero).to(x.dtype)
    o[i, 5] = mo.max(abs(x), x + 1)
    o[i, 6] = mo.max((zero.to(x.dtype) if hasattr(zero, "to") else x * 0) - x, x)
    o[i, 7] = mo.where(x + x > x, one, zero).to(x.dtype)


def expected(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        two, one = x.dtype.type(2), x.dtype.type(1)
        columns = [np.maximum(-x, x + two), x - x * two <= x, -x < x + x.dtype.type(64),
                   np.minimum(-x, x - x.dtype.type(3)),
                   ~x + one < x, np.maximum(np.abs(x), x + one), np.maximum(-x, x), x + x > x]
    return np.stack([column.astype(x.dtype) for column in columns], axis=1)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_all_values(dtype):
    info = np.iinfo(dtype)
    x = np.arange(info.min, info.max + 1, dtype=np.int64).astype(dtype)
    o = torch.full((len(x), 8), 77, dtype=torch.from_numpy(x[:1]).dtype, device="cuda")
    narrow[len(x) // 64, 64](torch.from_numpy(x).cuda(), o)
    np.testing.assert_array_equal(o.cpu().numpy(), expected(x))


@mo.kernel
def of_indices(o):
    t, b = mo.thread_idx().x, mo.block_idx().x
    i = b * 32 + t
    turned = ~abs(t)
    o[i, 0] = mo.max(turned + 1, -98)
    o[i, 1] = mo.where(mo.max(turned + 1, -98) >= -97, 1, 0) + mo.max(-t, -16) * 16
    r = mo.fragment(4, mo.int32)
    r.fill(-b)
    r[1] = b | t
    r[...] = r // 4 + 1
    mo.copyto(mo.tile(o, (1, 4), (i, 1))[0, :], r)


def test_negated_indices():
    o = torch.full((96, 8), 77, dtype=torch.int32, device="cuda")
    of_indices[3, 32](o)
    i = np.arange(96)
    t, b = i % 32, i // 32
    quarter = -b // 4 + 1
    wanted = np.stack([-t, 1 + np.maximum(-t, -16) * 16, 0 * t + 77, 0 * t + 77, quarter, (b | t) // 4 + 1, quarter,
                       quarter], axis=1)
    np.testing.assert_array_equal(o.cpu().numpy(), wanted)
