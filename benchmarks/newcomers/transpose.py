"""The transpose of a matrix of any extents through padded shared memory, 32 x 32 a block."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tx, ty = mo.thread_idx().x, mo.thread_idx().y
    rows, columns = mo.shape(x)
    staged = mo.shared_array(mo.float32, mo.make_layout((32, 32), (33, 1)))
    j = mo.block_idx().x * 32 + tx
    for k in mo.static_range(0, 32, 8):
        i = mo.block_idx().y * 32 + ty + k
        if i < rows and j < columns:
            staged[ty + k, tx] = x[i, j]
    mo.sync_threads()
    j = mo.block_idx().y * 32 + tx
    for k in mo.static_range(0, 32, 8):
        i = mo.block_idx().x * 32 + ty + k
        if i < columns and j < rows:
            out[i, j] = staged[tx, ty + k]


def case(small):
    rows, columns = (70, 41) if small else (5000, 6001)
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    out = np.full((columns, rows), np.nan, np.float32)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 32)), "block": (32, 8), "expected": lambda: (x.T,)}
