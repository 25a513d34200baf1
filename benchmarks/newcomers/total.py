"""The sum of an array: four elements a turn and thread, shuffles, then one atomic a block."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tid = mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, 8)
    vectors = mo.tile(x, (4,), (None,))                 # (4, n / 4)
    part = mo.fragment((4,), mo.float32)
    mine = mo.float32(0)
    for i in mo.range(mo.block_idx().x * 256 + tid, mo.size(vectors, 1), mo.grid_dim().x * 256):
        mo.copyto(part, vectors[:, i])
        mine += part.reduce("add")
    mine = mo.block_reduce(mine, scratch, "add")
    if tid == 0:
        mo.atomic_add(out, 0, mine)


def case(small):
    n = 9000 if small else 1 << 26
    x, out = np.random.default_rng(0).standard_normal(n, np.float32) + 1, np.zeros(1, np.float32)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, n), "grid": 3 if small else 132 * 8, "block": 256,
            "expected": lambda: (x.sum(dtype=float),)}
