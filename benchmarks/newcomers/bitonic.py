"""Bitonic sort of each 1024 keys in shared memory, two keys a thread."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    tid, start = mo.thread_idx().x, mo.block_idx().x * 1024
    keys = mo.shared_array(mo.int32, 1024)
    keys[tid], keys[tid + 512] = x[start + tid], x[start + tid + 512]
    size = 2
    while size <= 1024:
        step = size // 2
        while step > 0:
            mo.sync_threads()
            i = 2 * tid - tid % step
            a, b = keys[i], keys[i + step]
            if (a > b) == ((tid & size // 2) == 0):
                keys[i], keys[i + step] = b, a
            step //= 2
        size *= 2
    mo.sync_threads()
    out[start + tid], out[start + tid + 512] = keys[tid], keys[tid + 512]


def case(small):
    n = 2048 if small else 1 << 22
    x = np.random.default_rng(0).integers(-(1 << 31), (1 << 31) - 1, n).astype(np.int32)
    out = np.zeros_like(x)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x), "grid": n // 1024, "block": 512,
            "expected": lambda: (np.sort(x.reshape(-1, 1024)).ravel(),)}
