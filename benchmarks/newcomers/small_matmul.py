"""Products of many pairs of 4 x 4 matrices, one pair a thread."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(C, A, B):
    for t in (A, B, C):
        mo.assume(mo.size(t, 1) == 4 and mo.size(t, 2) == 4)
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(A, 0):
        rA, rB = (mo.fragment(mo.make_layout((4, 4), (4, 1)), mo.float32) for _ in range(2))
        rC = mo.fragment(mo.make_layout((4, 4), (4, 1)), mo.float32)
        mo.copyto(rA, A[i, None, None])
        mo.copyto(rB, B[i, None, None])
        rC.fill(0)
        for r in mo.static_range(4):
            for c in mo.static_range(4):
                for k in mo.static_range(4):
                    rC[r, c] += rA[r, k] * rB[k, c]
        mo.copyto(C[i, None, None], rC)


def case(small):
    n = 500 if small else 1 << 20
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, 4, 4), np.float32) for _ in range(2))
    C = np.full_like(A, np.nan)
    return {"arguments": (C, A, B), "outputs": (0,), "twin": (C, A, B, n), "grid": mo.ceil_div(n, 256), "block": 256,
            "expected": lambda: (A.astype(float) @ B.astype(float),)}
