"""Maxima of 3 x 3 windows at every other pixel, padded by one: (images * channels, rows, columns)."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    _, rows, columns = mo.shape(out)
    j = mo.block_idx().x * 64 + mo.thread_idx().x
    i = mo.block_idx().y * 4 + mo.thread_idx().y
    plane = mo.block_idx().z
    if i < rows and j < columns:
        top = mo.float32(float("-inf"))
        for r in range(3):
            for s in range(3):
                y, z = 2 * i + r - 1, 2 * j + s - 1
                if 0 <= y < mo.size(x, 1) and 0 <= z < mo.size(x, 2):
                    top = mo.max(top, x[plane, y, z])
        out[plane, i, j] = top


def case(small):
    planes, rows, columns = (3, 10, 70) if small else (512, 128, 128)
    x = np.random.default_rng(0).standard_normal((planes, 2 * rows - 1, 2 * columns - 1), np.float32)
    out = np.full((planes, rows, columns), np.nan, np.float32)

    def expected():
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = [padded[:, r:r + 2 * rows - 1:2, s:s + 2 * columns - 1:2] for r in range(3) for s in range(3)]
        return (np.max(windows, 0),)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, rows, columns, *x.shape[1:]),
            "grid": (mo.ceil_div(columns, 64), mo.ceil_div(rows, 4), planes), "block": (64, 4), "expected": expected}
