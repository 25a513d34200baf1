"""Each row of a part of a matrix, every other column, scaled and shifted by numbers of its column."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, factor, offset):
    j = mo.block_idx().x * 128 + mo.thread_idx().x
    rows, columns = mo.shape(x)
    if j < columns:
        f, o = factor[j], offset[j]
        for i in mo.range(mo.block_idx().y, rows, mo.grid_dim().y):
            out[i, j] = f * x[i, j] + o


def case(small):
    rows, columns = (30, 150) if small else (4096, 4000)
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((rows, 2 * columns + 3), np.float32)
    x, factor, offset = whole[:, 1:2 * columns + 1:2], *(rng.standard_normal(columns, np.float32) for _ in range(2))
    out = np.full((rows, columns), np.nan, np.float32)
    return {"arguments": (out, x, factor, offset), "outputs": (0,),
            "twin": (out, x, factor, offset, rows, columns, columns, whole.shape[1], 2),
            "grid": (mo.ceil_div(columns, 128), 4 if small else 64), "block": 128,
            "expected": lambda: (x.astype(float) * factor + offset,)}
