"""Prefix sums of int32 over each 1024 elements: four a thread, warps by shuffles, the block in shared memory."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tid = mo.thread_idx().x
    scratch = mo.shared_array(mo.int32, 8)
    gX = mo.tile(x, (4,), (mo.block_idx().x * 256 + tid,))          # (4)
    gO = mo.tile(out, (4,), (mo.block_idx().x * 256 + tid,))        # (4)
    part = mo.make_fragment_like(gX)
    mo.copyto(part, gX)
    for j in mo.static_range(1, 4):
        part[j] += part[j - 1]
    before = mo.block_scan(part[3], scratch, "add", inclusive=False)
    mo.copyto(gO, part + before)


def case(small):
    n = 2048 if small else 1 << 25
    x = np.random.default_rng(0).integers(-1000, 1000, n).astype(np.int32)
    out = np.full_like(x, -(1 << 31))
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x), "grid": n // 1024, "block": 256,
            "expected": lambda: (x.reshape(-1, 1024).cumsum(1).ravel(),)}
