"""Lower triangular systems of 32 unknowns, a warp for each; the matrix lies in shared memory, unknowns in the lanes."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(x, L, b):
    lane, warp = mo.lane_idx(), mo.thread_idx().x // 32
    system = mo.block_idx().x * 4 + warp
    staged = mo.shared_array(mo.float32, mo.make_layout((32, 32, 4), (33, 1, 33 * 32)))
    for r in mo.range(32):
        staged[r, lane, warp] = L[system, r, lane]
    mo.sync_warp()
    mine = b[system, lane]
    for r in mo.range(32):
        solved = mo.shuffle_idx(mine / staged[lane, lane, warp], r)
        if lane == r:
            mine = solved
        elif lane > r:
            mine -= staged[lane, r, warp] * solved
    x[system, lane] = mine


def case(small):
    n = 8 if small else 1 << 16
    rng = np.random.default_rng(0)
    L = np.tril(rng.standard_normal((n, 32, 32), np.float32) / 8) + 2 * np.eye(32, dtype=np.float32)
    b, x = rng.standard_normal((n, 32), np.float32), np.full((n, 32), np.nan, np.float32)
    some = min(n, 2048)
    return {"arguments": (x, L, b), "outputs": (0,), "twin": (x, L, b), "grid": n // 4, "block": 128,
            "expected": lambda: (np.linalg.solve(L[:some].astype(float), b[:some, :, None].astype(float)),)}
