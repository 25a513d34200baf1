"""One Jacobi step of a five-point stencil, 32 x 8 points a block, with their neighbours in shared memory."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tx, ty = mo.thread_idx().x, mo.thread_idx().y
    rows, columns = mo.shape(x)
    tile = mo.shared_array(mo.float32, mo.make_layout((10, 34), (34, 1)))
    top, left = mo.block_idx().y * 8, mo.block_idx().x * 32
    for k in mo.range(ty * 32 + tx, 10 * 34, 256):
        i, j = top + k // 34 - 1, left + k % 34 - 1
        value = mo.float32(0)
        if 0 <= i < rows and 0 <= j < columns:
            value = x[i, j]
        tile[k // 34, k % 34] = value
    mo.sync_threads()
    i, j = top + ty, left + tx
    if i < rows and j < columns:
        out[i, j] = 0.25 * (tile[ty, tx + 1] + tile[ty + 2, tx + 1] + tile[ty + 1, tx] + tile[ty + 1, tx + 2])


def case(small):
    rows, columns = (20, 70) if small else (6000, 6001)
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    out = np.full_like(x, np.nan)

    def expected():
        p = np.pad(x.astype(float), 1)
        return (0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]),)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected}
