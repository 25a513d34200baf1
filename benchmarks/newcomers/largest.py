"""The largest element of an array: four elements a turn and thread, shuffles, then an atomic maximum for each warp."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    vectors = mo.tile(x, (4,), (None,))                 # (4, n / 4)
    part = mo.fragment((4,), mo.float32)
    top = mo.float32(float("-inf"))
    for i in mo.range(mo.block_idx().x * 256 + mo.thread_idx().x, mo.size(vectors, 1), mo.grid_dim().x * 256):
        mo.copyto(part, vectors[:, i])
        top = mo.max(top, part.reduce("max"))
    top = mo.warp_reduce(top, "max")
    if mo.lane_idx() == 0:
        mo.atomic_max(out, 0, top)


def case(small):
    n = 9000 if small else 1 << 24
    x, out = np.random.default_rng(0).standard_normal(n, np.float32) - 9, np.full(1, -np.inf, np.float32)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, n), "grid": 3 if small else 132 * 8, "block": 256,
            "expected": lambda: (x.max(keepdims=True),)}
