"""Products that nobody listed: drawn from a seed, as ``gemm_random.py`` measures them and ``gemm_fit.py`` learns from.

In: a seed, how many, a kind of ``gemm_rows``.  Out: ``Row``s.  It imports neither torch nor moye.

>>> rows = draw(1, 87, "bf16")

Seeds below 1000 are for work on the kernels; figures that are told come from the seeds from 1000 on.
"""

import math
import random

from gemm_rows import KINDS, Row

LEAST, MOST_ROWS, MOST, DEEPEST = 16, 16384, 32768, 131072
FEW = 1 << 19
"""Elements of C up to which K may be as long as ``DEEPEST``."""
LAYERS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (14336, 4096), (8192, 8192), (10240, 8192),
          (2112, 7168), (7168, 2048), (1280, 8192), (8192, 3584), (768, 3072), (5120, 5120), (2048, 2048), (2048, 256))
"""(N, K) of weights."""
WORK, MEMORY = 1 << 40, 1 << 32
"""Multiplications of a product, and bytes of its arrays, at most: what a benchmark has time and room for."""


def draw(seed, count, kind="bf16"):
    """So many products: extents log-uniform, a third of them multiples of 128, of 8 and of 1; half in torch's order."""
    rng = random.Random(f"{seed} {kind}")
    rows = []
    while len(rows) < count:
        row = _row(rng, seed, kind)
        if row.M * row.N * row.K <= WORK and _bytes(row) <= MEMORY:
            rows.append(row)
    return rows


def layers(kind="bf16"):
    """Layers of well-known models, x @ w.T, from one row to 8192."""
    return [Row("layers", kind, M, N, K) for M in (1, 4, 16, 64, 128, 256, 384, 512, 1024, 2000, 2048, 4096, 8192)
            for N, K in LAYERS]


def _row(rng, seed, kind):
    multiple = rng.choice((128, 8, 1))
    M = _extent(rng, 1, MOST_ROWS, multiple)
    N = _extent(rng, LEAST, MOST, multiple)
    K = _extent(rng, LEAST, DEEPEST if M * N <= FEW else MOST, multiple)
    orders = "KK" if rng.random() < 0.5 else rng.choice(("KK", "KM", "MK", "MM"))
    if KINDS[kind].operands.startswith("float8"):       # cuBLAS takes no others
        orders = "KK"
    return Row(f"seed {seed}", kind, M, N, K, orders)


def _extent(rng, least, most, multiple):
    """Log-uniform; rows below a multiple of 128 stay as few as they are, for few rows are a kind of their own."""
    drawn = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    return drawn if drawn < multiple and least == 1 else max(multiple, round(drawn / multiple) * multiple)


def _bytes(row):
    return (row.M + row.N) * row.K * KINDS[row.kind].bytes + row.M * row.N * 4
