"""The product that begins a tile of attention on sm_90a.

In: a tiled wgmma, its operands (MMA, M, K) and (MMA, N, K).  Out: the product is under way.

    multiply(plan.scores, tQ, tK, S, rolled=True)
"""

from __future__ import annotations

import moye as mo


@mo.jit
def multiply(mma, A, B, D, rolled=False):
    """Begin D = A B.

    ``rolled``: in a loop, for products that run before others of the same operand do.  Unrolled, the compiler keeps
    each address of that operand in registers from here on, up to 14 of a thread, and spills where registers are few.
    """
    mo.warpgroup_arrive()
    if rolled:
        for k in mo.range(mo.size(A, 2), unroll=4):
            mo.gemm(mma, A[:, :, k], B[:, :, k], D, accumulate=k > 0)
    else:
        mo.gemm(mma, A, B, D, accumulate=False)
    mo.warpgroup_commit_batch()
