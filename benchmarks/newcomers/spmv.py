"""A sparse matrix in rows (CSR) times a vector, a warp for each row."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(y, offsets, columns, values, x):
    row, lane = mo.block_idx().x * 8 + mo.thread_idx().x // 32, mo.lane_idx()
    if row < mo.size(y):
        total = mo.float32(0)
        for k in mo.range(offsets[row] + lane, offsets[row + 1], 32):
            total += values[k] * x[columns[k]]
        total = mo.warp_reduce(total, "add")
        if lane == 0:
            y[row] = total


def case(small):
    rows, most = (50, 90) if small else (1 << 18, 128)
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], rng.integers(0, most, rows).cumsum()]).astype(np.int32)
    columns = rng.integers(0, rows, offsets[-1]).astype(np.int32)
    values, x = rng.standard_normal(len(columns), np.float32), rng.standard_normal(rows, np.float32)
    y = np.full(rows, np.nan, np.float32)
    owners = np.repeat(np.arange(rows), np.diff(offsets))
    return {"arguments": (y, offsets, columns, values, x), "outputs": (0,),
            "twin": (y, offsets, columns, values, x, rows), "grid": mo.ceil_div(rows, 8), "block": 256,
            "expected": lambda: (np.bincount(owners, values * x[columns].astype(float), rows),)}
