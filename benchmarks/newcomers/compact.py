"""The elements above a limit, in any order, and how many there are: one atomic for each of them."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, count, x, limit):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        value = x[i]
        if value > limit:
            out[mo.atomic_add(count, 0, 1)] = value


def case(small):
    n = 3000 if small else 1 << 22
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    out, count = np.zeros(n, np.float32), np.zeros(1, np.int32)
    return {"arguments": (out, count, x, 1.0), "outputs": (1,), "twin": (out, count, x, 1.0, n),
            "grid": mo.ceil_div(n, 256), "block": 256, "expected": lambda: ([(x > 1).sum()],), "restart": (1,)}
