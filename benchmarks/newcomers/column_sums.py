"""Mean and variance of each column of a matrix: a thread for each column and part of the rows, atomics at the end."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(sums, squares, x):
    rows, columns = mo.shape(x)
    j = mo.block_idx().x * 128 + mo.thread_idx().x
    if j >= columns:
        return
    each = mo.ceil_div(rows, mo.grid_dim().y)
    first = mo.block_idx().y * each
    total, square = mo.float32(0), mo.float32(0)
    for i in mo.range(first, mo.min(first + each, rows)):
        total += x[i, j]
        square += x[i, j] * x[i, j]
    mo.atomic_add(sums, j, total)
    mo.atomic_add(squares, j, square)


def case(small):
    rows, columns = (100, 200) if small else (32768, 1024)
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32) + 1
    sums, squares = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    return {"arguments": (sums, squares, x), "outputs": (0, 1), "twin": (sums, squares, x, rows, columns),
            "grid": (mo.ceil_div(columns, 128), 3 if small else 128), "block": 128,
            "expected": lambda: (x.sum(0, dtype=float), (x.astype(float) ** 2).sum(0))}
