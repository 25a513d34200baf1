"""y = a x + y in a loop over the grid, one element a turn."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(y, x, a):
    first = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    for i in mo.range(first, mo.size(x), mo.grid_dim().x * mo.block_dim().x):
        y[i] = a * x[i] + y[i]


def case(small):
    n = 5000 if small else 1 << 25
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
    return {"arguments": (y, x, 2.5), "outputs": (0,), "twin": (y, x, 2.5, n), "grid": 4 if small else 132 * 8,
            "block": 256, "expected": lambda: (y + 2.5 * x.astype(float),)}
