"""GELU of bfloat16, eight elements a thread."""

import math

import ml_dtypes
import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    part = mo.fragment((8,), x.dtype)
    mo.copyto(part, mo.tile(x, (8,), (i,)))
    mo.copyto(mo.tile(out, (8,), (i,)), mo.gelu(part))


def case(small):
    n = 4096 if small else 1 << 25
    x = np.random.default_rng(0).standard_normal(n, np.float32).astype(ml_dtypes.bfloat16)
    out = np.full_like(x, np.nan)

    def expected():
        wide = x[:4096].astype(float)
        return (wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))),)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x), "grid": n // 2048, "block": 256,
            "expected": expected, "tolerance": 4e-3}
