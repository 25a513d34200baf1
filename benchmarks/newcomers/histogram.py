"""A histogram of bytes: each block counts in shared memory, and adds its bins to the result."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tid = mo.thread_idx().x
    bins = mo.shared_array(mo.int32, 256)
    bins[tid] = 0
    mo.sync_threads()
    vectors = mo.tile(x, (16,), (None,))                # (16, n / 16)
    part = mo.fragment((16,), mo.uint8)
    for i in mo.range(mo.block_idx().x * 256 + tid, mo.size(vectors, 1), mo.grid_dim().x * 256):
        mo.copyto(part, vectors[:, i])
        for j in mo.static_range(16):
            mo.atomic_add(bins, part[j], 1)
    mo.sync_threads()
    mo.atomic_add(out, tid, bins[tid])


def case(small):
    n = 8192 if small else 1 << 26
    x = np.random.default_rng(0).integers(0, 256, n).astype(np.uint8)
    out = np.zeros(256, np.int32)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, n), "grid": 2 if small else 132 * 8, "block": 256,
            "expected": lambda: (np.bincount(x, minlength=256),)}
