"""Products of few k, whose lines begin anywhere: a block has all k of its tile at once.

In: A (M, K) and B (N, K) of 16 or 32 bits, K of at most 512 bytes, or batches.  Out: C (M, N), written in place.

    gemm_shallow(A, B, C)                                   # C = A @ B.T

There is little to multiply: such a product takes what its operands take to arrive and C to leave.  So there is one copy
of the whole 16 bytes of memory that hold a tile's lines, as they lie, one barrier, and the products.  Lines at
multiples of 16 bytes are read by ldmatrix, others element by element: nothing is shifted into place first.  A tile of C
waits in shared memory as far behind 16 bytes as it lies in C, and leaves 16 bytes at a time: of whole rows as one
piece.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import configured, matrices, same_problem
from moye.kernels.gemm.shallow.config import MOST, ShallowConfig, choose, fits, unfit
from moye.kernels.gemm.shallow.leave import leave, out_of, stage
from moye.kernels.gemm.shallow.lines import fetch, side_of
from moye.kernels.gemm.shallow.multiply import products
from moye.kernels.gemm.shallow.plan import MOST_BATCHES, plan_of, size_of, suits
from moye.kernels.workspace import swapped, words


@mo.kernel
def gemm_shallow_kernel(A, B, C, memory_A, memory_B, plan: mo.Constexpr):
    """A tile of C (M, N) = A (M, K) @ B (N, K).T a block; or of one of many, which are the last mode of all three.

    ``memory_A`` and ``memory_B``: the whole 16 bytes of A and B, and how many bytes behind the first they begin.
    """
    mo.min_blocks(plan.config.resident)
    x, y, batch = mo.block_idx()
    config, n, m = plan.config, x * plan.config.bN, y * plan.config.bM
    a = side_of(plan, plan.ways[0], A, memory_A, config.bM, m, batch)
    b = side_of(plan, plan.ways[1], B, memory_B, config.bN, n, batch)
    fetch(plan, plan.ways[0], a)
    fetch(plan, plan.ways[1], b)
    mo.cp_async_commit()
    mo.cp_async_wait()
    mo.sync_threads()
    inside = mo.min(config.bM, mo.size(A, 0) - m), mo.min(config.bN, mo.size(B, 0) - n)
    sC, out = mo.shared_array(C.dtype, (config.staged(C.dtype.bytes),), align=16), out_of(plan, C, batch)
    place = mo.warp_idx() % config.wM * config.rows, mo.warp_idx() // config.wM * config.columns
    if (place[0] < inside[0]) & (place[1] < inside[1]):
        stage(plan, out, sC, place, inside, products(plan, (a, b), place))
    mo.sync_threads()
    leave(plan, out, sC, (m, n), inside)


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_shallow(A: Any, B: Any, C: Any, *, config: ShallowConfig | None = None) -> Any:
    """C = A @ B.T, in place; returns C.

    A is (M, K), B (N, K) and C (M, N), or (M, K, L), (N, K, L) and (M, N, L) with up to 65535 batches, on one device
    (sm_80 and later), with K at most 256, or 128 of float32.  A and B are both float16, bfloat16 or float32, each
    contiguous along K or along its rows, and C of these, or float32; contiguous along a mode, from a multiple of 16
    bytes on.  Lines and batches begin anywhere.  float32 is taken as tfloat32.  ``config`` overrides the choice.
    ArgumentError for other arguments.
    """
    a, b, c = matrices("gemm_shallow", A, B, C, ranks=(2, 3))
    same_problem("gemm_shallow", a, b, c)
    configured("gemm_shallow", config, ShallowConfig)
    if 0 in c.shape:
        return C
    if not suits(a, b, c):
        given = ", ".join(f"{name} {tuple(x.shape)} of {x.dtype} with strides {tuple(x.strides)}"
                          for name, x in (("A", a), ("B", b), ("C", c)))
        raise mo.ArgumentError(f"gemm_shallow: {given}: A and B must both be float16, bfloat16 or float32, of lines "
                               f"along a mode that do not overlap, with K at most {MOST} bytes; C of these or float32, "
                               "contiguous along a mode, from a multiple of 16 bytes on; and batches at most "
                               f"{MOST_BATCHES}",
                               hint="mo.kernels.gemm takes others")
    size, (X, x), (Y, y), out = size_of(a, b, c), (A, a), (B, b), C
    if c.strides[1] != 1:
        (X, x), (Y, y), out = (B, b), (A, a), swapped(C)
    memory = words(X, x), words(Y, y)
    if None in memory:
        raise mo.ArgumentError("gemm_shallow: an operand has less than 16 bytes, or torch's memory, which begins at no "
                               "multiple of 4 bytes", hint="mo.kernels.gemm takes others")
    most = mo.hardware.of(mo.arch_of(C) or mo.hardware.DEFAULT_ARCH).block_shared
    config = config or choose(size, mo.multiprocessors(c), most)
    if reason := unfit(config):
        raise mo.ArgumentError(f"gemm_shallow: {config} is none that the kernel can have: {reason}")
    if not fits(config, size, most):
        raise mo.ArgumentError(f"gemm_shallow: {config} has no room in shared memory for tiles of K = {size.K}, or "
                               f"a grid none for those of {size.M} rows", hint="mo.kernels.gemm takes others")
    gemm_shallow_kernel.launch(X, Y, out, *memory, plan_of(config, size, a.dtype), block=config.threads,
                               grid=(-(-size.N // config.bN), -(-size.M // config.bM), size.batches))
    return C
