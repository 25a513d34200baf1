"""8-bit floats whose blocks have factors: operands inside poisoned memory, and their product in float64.

In: extents, strides.  Out: A (M, K), B (N, K), C and float32 factors, of a row and 128 of K, and of 128 x 128.

>>> A, B, C, scale_a, scale_b = operands(100, 72, 40); sums, error = exact(A, B, scale_a, scale_b)
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from warpgroup_products import DTYPES, filled

BLOCK = 128
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def blocks(extent):
    return -(-extent // BLOCK)


def factors(rng, shape, order="C", *, odd=False):
    """Factors from 0.1 to 10, behind and before poison."""
    memory = filled(rng, shape, np.float32, order, odd=odd)
    memory.x[...] = np.exp(rng.uniform(-2.3, 2.3, shape))
    return memory.x


def by_element(scale, rows, K, each):
    """A factor for each element of an operand, of which ``each`` rows have one in common."""
    return np.repeat(np.repeat(scale.astype(np.float64), each, 0)[:rows], BLOCK, 1)[:, :K]


def exact(A, B, scale_a, scale_b):
    """The product in float64, and the error that sums in float32 may have."""
    (M, K), N = A.shape, B.shape[0]
    a = A.astype(np.float64) * by_element(scale_a, M, K, 1)
    b = B.astype(np.float64) * by_element(scale_b, N, K, BLOCK)
    return a @ b.T, 4e-7 * np.sqrt(K + 16) * np.sqrt(a ** 2 @ (b ** 2).T)


def operands(M, N, K, orders="CC", scale_orders="FC", *, out="bf16", odd="", dtypes=("e4m3", "e4m3")):
    """(A, B, C, scale_a, scale_b); ``odd``: letters of A, B, C, and a and b for their factors."""
    rng = np.random.default_rng([M, N, K])
    A = filled(rng, (M, K), DTYPES[dtypes[0]], orders[0], odd="A" in odd).x
    B = filled(rng, (N, K), DTYPES[dtypes[1]], orders[1], odd="B" in odd).x
    C = filled(rng, (M, N), DTYPES[out], odd="C" in odd).x
    C[...] = np.nan
    return (A, B, C, factors(rng, (M, blocks(K)), scale_orders[0], odd="a" in odd),
            factors(rng, (blocks(N), blocks(K)), scale_orders[1], odd="b" in odd))
