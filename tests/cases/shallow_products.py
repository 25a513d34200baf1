"""Drawn products of few k, of any orders, whose lines begin anywhere; for the simulator and the GPU."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from moye.kernels import gemm_shallow
from moye.kernels.gemm.shallow.config import MOST
from streamed_products import OUTPUTS

DTYPES = np.float16, ml_dtypes.bfloat16, np.float32
ROUNDED = {np.float32: 2.0 ** -10}
"""Operands that are rounded to fewer bits: tfloat32."""


def lines(rng, rows, columns, order, dtype):
    """Random-normal (rows, columns), contiguous along K or along its rows, inside of what is no number."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    room = np.full((shape[0] + 1, shape[1] + int(rng.integers(9))), np.nan, dtype)
    first = int(rng.integers(2)), int(rng.integers(room.shape[1] - shape[1] + 1))
    inner = room[first[0]:, first[1]:][:shape[0], :shape[1]]
    inner[...] = rng.standard_normal(shape)
    return inner if order == "K" else inner.T


def close(A, B, C):
    """C against float64: rounding of its dtype, of operands, and of sums in float32."""
    a, b = A.astype(np.float64), B.astype(np.float64)
    want, size = a @ b.T, np.abs(a) @ np.abs(b).T
    off = np.abs(C.astype(np.float64) - want)
    rounded = 1e-5 + ROUNDED.get(A.dtype.type, 0.0)
    assert (off <= OUTPUTS[C.dtype.type] * np.abs(want) + rounded * size + 1e-6).all(), off.max()


def drawn(seed, most=300, put=lambda x: x, get=lambda x: x):
    """A product of drawn extents, orders and dtypes; ``put`` and ``get`` know the device."""
    rng = np.random.default_rng(seed)
    M, N = (int(np.exp(rng.uniform(np.log(16), np.log(most)))) for _ in range(2))
    dtype = DTYPES[rng.integers(3)]
    K = int(np.exp(rng.uniform(0, np.log(MOST // np.dtype(dtype).itemsize))))
    A, B = (lines(rng, rows, K, "KM"[rng.integers(2)], dtype) for rows in (M, N))
    C = np.full((M, N), np.nan, (np.float32, dtype)[rng.integers(2)])
    if rng.integers(2):
        C = np.asfortranarray(C)
    on = put(C)
    gemm_shallow(put(A), put(B), on)
    close(A, B, get(on))


def batch(rng, rows, columns, order, dtype, count):
    """Random-normal (rows, columns, count): one matrix behind the other, beside each other in the lines as heads of
    attention are, or one for all; inside of what is no number.
    """
    shape = (rows, columns) if order == "K" else (columns, rows)
    lying = rng.integers(3)
    if lying == 0:                                      # matrices begin anywhere
        apart = shape[0] * shape[1] + int(rng.integers(9))
        room = np.full((count, apart), np.nan, dtype)
        inner = room[:, :shape[0] * shape[1]].reshape(count, *shape)
    elif lying == 1:
        inner = np.full((shape[0], count, shape[1] + int(rng.integers(3))), np.nan, dtype)[..., :shape[1]]
        inner = inner.transpose(1, 0, 2)
    else:
        inner = np.broadcast_to(rng.standard_normal(shape).astype(dtype), (count, *shape))
    if lying < 2:
        inner[...] = rng.standard_normal(inner.shape)
    return inner.transpose(1, 2, 0) if order == "K" else inner.transpose(2, 1, 0)


def drawn_batch(seed, most=100, put=lambda x: x, get=lambda x: x):
    """Many products of drawn extents, orders and dtypes, one call; what lies around C stays as it is."""
    rng = np.random.default_rng(seed)
    count, dtype = int(rng.integers(1, 7)), DTYPES[rng.integers(3)]
    K = int(np.exp(rng.uniform(0, np.log(MOST // np.dtype(dtype).itemsize))))
    least = max(1, 20 // K)                             # whole 16 bytes
    M, N = (least + int(np.exp(rng.uniform(0, np.log(most)))) - 1 for _ in range(2))
    A, B = (batch(rng, rows, K, "KM"[rng.integers(2)], dtype, count) for rows in (M, N))
    around = rng.standard_normal((count, M, N + int(rng.integers(9)))).astype((np.float32, dtype)[rng.integers(2)])
    if rng.integers(2):
        around = np.ascontiguousarray(around.transpose(1, 0, 2)).transpose(1, 0, 2)
    if turned := rng.integers(2):                       # C.T lies along N
        A, B = B, A
    before, on = around.copy(), put(around)

    def result(x):
        x = x[..., :N].swapaxes(1, 2) if turned else x[..., :N]
        return x.permute(1, 2, 0) if hasattr(x, "permute") else x.transpose(1, 2, 0)

    result(on)[...] = math.nan
    gemm_shallow(put(A), put(B), result(on))
    after = get(on)
    assert np.array_equal(after[..., N:], before[..., N:])
    for i in range(count):
        close(A[..., i], B[..., i], result(after)[..., i])
