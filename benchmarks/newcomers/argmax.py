"""The place of the largest element of each row, the first of equals; a block for each row."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(place, x):
    row, tid = mo.block_idx().x, mo.thread_idx().x
    keys, places = mo.shared_array(mo.float32, 8), mo.shared_array(mo.int32, 8)
    best, where = mo.float32(float("-inf")), 0
    for j in mo.range(tid, mo.size(x, 1), 256):
        if x[row, j] > best:
            best, where = x[row, j], j
    best, where = mo.block_reduce((best, where), (keys, places), "argmax")
    if tid == 0:
        place[row] = where


def case(small):
    rows, n = (4, 1000) if small else (2048, 32001)
    x = np.random.default_rng(0).standard_normal((rows, n), np.float32)
    place = np.full(rows, -1, np.int32)
    return {"arguments": (place, x), "outputs": (0,), "twin": (place, x, n), "grid": rows, "block": 256,
            "expected": lambda: (x.argmax(1),)}
