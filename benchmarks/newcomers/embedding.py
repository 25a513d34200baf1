"""Rows of a table by tokens (int64), a block for each token, four columns a thread and turn."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, table, tokens):
    where, tid = mo.block_idx().x, mo.thread_idx().x
    row = tokens[where]
    gT, gO = mo.tile(table, (1, 4), (row, None)), mo.tile(out, (1, 4), (where, None))   # (1, 4, columns / 4)
    for k in mo.range(tid, mo.size(gT, 2), 128):
        mo.copyto(gO[0, :, k], gT[0, :, k])


def case(small):
    rows, columns, n = (50, 64, 7) if small else (50000, 1024, 16384)
    rng = np.random.default_rng(0)
    table, tokens = rng.standard_normal((rows, columns), np.float32), rng.integers(0, rows, n)
    out = np.full((n, columns), np.nan, np.float32)
    return {"arguments": (out, table, tokens), "outputs": (0,), "twin": (out, table, tokens, columns), "grid": n,
            "block": 128, "expected": lambda: (table[tokens],)}
