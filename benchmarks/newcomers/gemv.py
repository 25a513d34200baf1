"""A matrix times a vector, a warp for each row, four columns at a time."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(y, A, x):
    row, lane = mo.block_idx().x * 8 + mo.thread_idx().x // 32, mo.lane_idx()
    if row >= mo.size(y):
        return
    gA, gX = mo.tile(A, (1, 4), (row, None)), mo.tile(x, (4,), (None,))         # (1, 4, k), (4, k)
    a, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    total = mo.float32(0)
    for k in mo.range(lane, mo.size(gX, 1), 32):
        mo.copyto(a, gA[0, :, k])
        mo.copyto(b, gX[:, k])
        for j in mo.static_range(4):
            total += a[j] * b[j]
    total = mo.warp_reduce(total, "add")
    if lane == 0:
        y[row] = total


def case(small):
    rows, columns = (20, 516) if small else (8192, 8192)
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((rows, columns), np.float32), rng.standard_normal(columns, np.float32)
    y = np.full(rows, np.nan, np.float32)
    return {"arguments": (y, A, x), "outputs": (0,), "twin": (y, A, x, rows, columns), "grid": mo.ceil_div(rows, 8),
            "block": 256, "expected": lambda: (A.astype(float) @ x,)}
