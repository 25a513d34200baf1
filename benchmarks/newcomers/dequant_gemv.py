"""A matrix of int8 with a factor for each row, times a float32 vector: a warp for each row, 16 columns at a time."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(y, A, factors, x):
    mo.assume(mo.size(A, 1) % 16 == 0 and mo.size(x) % 16 == 0)
    row, lane = mo.block_idx().x * 8 + mo.thread_idx().x // 32, mo.lane_idx()
    if row < mo.size(y):
        gA, gX = mo.tile(A, (1, 16), (row, None)), mo.tile(x, (16,), (None,))   # (1, 16, k), (16, k)
        a, b = mo.fragment((16,), mo.int8), mo.fragment((16,), mo.float32)
        total = mo.float32(0)
        for k in mo.range(lane, mo.size(gX, 1), 32):
            mo.copyto(a, gA[0, :, k])
            mo.copyto(b, gX[:, k])
            total += (a.to(mo.float32) * b).reduce("add")
        total = mo.warp_reduce(total, "add")
        if lane == 0:
            y[row] = total * factors[row]


def case(small):
    rows, columns = (20, 1040) if small else (16384, 8192)
    rng = np.random.default_rng(0)
    A = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
    factors, x = rng.standard_normal(rows, np.float32), rng.standard_normal(columns, np.float32)
    y = np.full(rows, np.nan, np.float32)
    return {"arguments": (y, A, factors, x), "outputs": (0,), "twin": (y, A, factors, x, rows, columns),
            "grid": mo.ceil_div(rows, 8), "block": 256,
            "expected": lambda: (np.concatenate([part.astype(float) @ x for part in np.array_split(A, 16)]) * factors,)}
