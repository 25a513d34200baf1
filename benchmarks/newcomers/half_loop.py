"""Horner's rule in float16, one element a thread: every product and sum is rounded to float16."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, a, b, turns):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        v, p, q = x[i], a[0], b[0]
        for _ in mo.range(turns):
            v = v * p + q
        out[i] = v * v - v


def case(small):
    n, turns = (3000, 20) if small else (1 << 22, 64)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, np.float32).astype(np.float16)
    a, b = (rng.uniform(0.25, 0.75, 1).astype(np.float16) for _ in range(2))
    out = np.full_like(x, np.nan)

    def expected():
        v = x.astype(float)
        for _ in range(turns):
            v = ((v * float(a[0])).astype(np.float16) + b[0]).astype(float)
        return ((v * v).astype(np.float16).astype(float) - v,)
    return {"arguments": (out, x, a, b, turns), "outputs": (0,), "twin": (out, x, a, b, turns, n),
            "grid": mo.ceil_div(n, 256), "block": 256, "expected": expected, "tolerance": 2e-3}
