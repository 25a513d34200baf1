"""Rows of a matrix added to the rows of another that an array of indices names."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, rows, places):
    n, columns = mo.shape(rows)
    t = mo.block_idx().x * 256 + mo.thread_idx().x
    if t < n * columns:
        i, j = t // columns, t % columns
        mo.atomic_add(out, (places[i], j), rows[i, j])


def case(small):
    n, columns, targets = (60, 48, 9) if small else (1 << 17, 96, 20000)
    rng = np.random.default_rng(0)
    rows, places = rng.standard_normal((n, columns), np.float32), rng.integers(0, targets, n).astype(np.int32)
    out = np.zeros((targets, columns), np.float32)

    def expected():
        order = np.argsort(places, kind="stable")
        edges = np.searchsorted(places[order], np.arange(targets))
        sums = np.add.reduceat(np.concatenate([rows[order].astype(float), np.zeros((1, columns))]), edges)
        sums[np.bincount(places, minlength=targets) == 0] = 0
        return (sums,)
    return {"arguments": (out, rows, places), "outputs": (0,), "twin": (out, rows, places, n, columns),
            "grid": mo.ceil_div(n * columns, 256), "block": 256, "expected": expected}
