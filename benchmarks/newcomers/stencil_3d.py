"""A seven-point stencil in three dimensions; each thread walks along a column, three planes in registers."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, c0, c1):
    planes, rows, columns = mo.shape(x)
    i = mo.block_idx().y * 8 + mo.thread_idx().y
    j = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < 1 or i >= rows - 1 or j < 1 or j >= columns - 1:
        return
    below, here = x[0, i, j], x[1, i, j]
    for k in mo.range(1, planes - 1):
        above = x[k + 1, i, j]
        around = x[k, i - 1, j] + x[k, i + 1, j] + x[k, i, j - 1] + x[k, i, j + 1]
        out[k, i, j] = c0 * here + c1 * (below + above + around)
        below, here = here, above


def case(small):
    planes, rows, columns = (6, 18, 40) if small else (256, 256, 512)
    x = np.random.default_rng(0).standard_normal((planes, rows, columns), np.float32)
    out = np.zeros_like(x)
    out[1:-1, 1:-1, 1:-1] = np.nan

    def expected():
        w, made = x.astype(float), np.zeros(x.shape)
        made[1:-1, 1:-1, 1:-1] = 0.5 * w[1:-1, 1:-1, 1:-1] + 0.1 * (
            w[:-2, 1:-1, 1:-1] + w[2:, 1:-1, 1:-1] + w[1:-1, :-2, 1:-1] + w[1:-1, 2:, 1:-1] + w[1:-1, 1:-1, :-2]
            + w[1:-1, 1:-1, 2:])
        return (made,)
    return {"arguments": (out, x, 0.5, 0.1), "outputs": (0,), "twin": (out, x, 0.5, 0.1, planes, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected}
