"""Several products in one launch: groups of rows of A, each with a B of its own, as in mixtures of experts; sm_90a.

In: A (M, K), B (N, K, G), offsets (G + 1), C (M, N).  Out: rows offsets[g] to offsets[g + 1] of C written in place.

    grouped_gemm_sm90(tokens, experts, out, offsets)    # out[o[g]:o[g+1]] = tokens[o[g]:o[g+1]] @ experts[:, :, g].T
    grouped_gemm_sm90([A0, A1], [B0, B1], [C0, C1])     # matrices that lie anywhere: ``separate``

The offsets stay on the device.  A tile has rows of only one group; a tile at the end of a group is stored row by row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.gemm.grouped.choice import config_of_groups, rounded
from moye.kernels.gemm.grouped.separate import separate_products
from moye.kernels.gemm.parts.arguments import activation_of, array, configured, matrices, scalar
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS
from moye.kernels.gemm.sm90.config import GROUP, MOST, Problem, WarpgroupConfig
from moye.kernels.gemm.sm90.epilogue import Epilogue, below, finish_stores, store
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import EIGHTH, check_dtypes, check_extents, line_of, loaded, multiplied, stored, width
from moye.kernels.gemm.sm90.kernel import share_registers, sharers, stages_of
from moye.kernels.gemm.sm90.mainloop import TURN, await_turn, first_turn, mainloop, promoted_mainloop
from moye.kernels.gemm.sm90.plan import Plan, make_plan
from moye.kernels.gemm.sm90.scales import (
    BLOCK,
    FOUR,
    by_tma,
    check_scales,
    no_blocks,
    scales_of_tile,
    stages_of_scales,
    tma_scales,
)
from moye.kernels.memory import apart
from moye.kernels.options import flag
from moye.kernels.pack import packed
from moye.kernels.views import info_of
from moye.kernels.workspace import zeros

Activation = str | Callable[[Any], Any]


@mo.kernel
def grouped_gemm_sm90_kernel(A, B, out, offsets, scale_A, scale_B, whole: mo.Constexpr, partly: mo.Constexpr):
    """Tiles of all groups, block after block of the persistent grid; two plans, which differ in how C is stored."""
    plan, tid = whole, mo.thread_idx().x
    config, groups = plan.config, plan.config.groups
    sA, sB, _ = stages_of(plan)                                         # (bM, bK, stages), (bN, bK, stages)
    sC = mo.shared_array(plan.C.dtype, plan.C.staged) if plan.C.major else None     # (64 * groups, columns, 2)
    sS = stages_of_scales(plan)                                         # (bM + 4, 1, stages)
    pipe = mo.PipelineTma(config.stages, A.bytes + B.bytes + (0 if sS is None else scale_A.bytes),
                          consumers=sharers(plan) * plan.product.readers)
    pipe.init()
    mo.sync_threads()
    k_tiles, n_tiles = mo.ceil_div(mo.size(A.tensor, 1), config.bK), mo.ceil_div(out.N, config.bN)
    work = mo.GroupedTileScheduler(offsets, config.bM, n_tiles, config.raster).start()
    if mo.warpgroup_idx() == groups:
        share_registers(plan, loads=True)
        if tid == groups * GROUP:
            produce(plan, A, B, sA, sB, pipe, work, k_tiles, (scale_A, sS))
    else:
        share_registers(plan, loads=False)
        consume(plan, partly, out, sA, sB, sC, pipe, work, k_tiles, (scale_A, sS, scale_B))


@mo.jit
def produce(plan, A, B, sA, sB, pipe, work, k_tiles, scales):
    """One thread fills the stages; a tile of A begins at any row, its factors at a multiple of four in front."""
    config = plan.config
    gB = mo.tile(B.tensor, (config.bN, config.bK, 1), (None, None, None), ragged=True)      # (bN, bK, 1, n, k, g)
    state = pipe.producer_start()
    while work.valid:
        group, _, n, row, _ = work.coordinates()
        gA = mo.tile(below(A.tensor, row), (config.bM, config.bK), (0, None), ragged=True)  # (bM, bK, k)
        for k in range(k_tiles):
            pipe.producer_acquire(state)
            mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
            mo.copyto(B, sB[:, :, state.stage], gB[:, :, :, n, k, group], barrier=pipe.barrier(state))
            if scales[1] is not None:
                gS = mo.tile(below(scales[0].tensor, row // FOUR * FOUR), (config.bM + FOUR, 1), (0, None), ragged=True)
                mo.copyto(scales[0], scales[1][:, :, state.stage], gS[:, :, k], barrier=pipe.barrier(state))
            state = state.next()
        work = work.next()


@mo.jit
def consume(whole, partly, out, sA, sB, sC, pipe, work, k_tiles, scales):
    """Tiles of the block, of its warpgroups together or in turns; rows of the next group are not a tile's to store."""
    plan, config, tid = whole, whole.config, mo.thread_idx().x
    thr_mma = plan.product.mma.get_slice(tid % (sharers(plan) * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)                             # (MMA, MMA_M, MMA_K, stages)
    tCrB = thr_mma.partition_fragment_B(sB)                             # (MMA, MMA_N, MMA_K, stages)
    state = pipe.consumer_start()
    if plan.in_turns and mo.warpgroup_idx() == 1:
        mo.barrier_arrive(TURN, 2 * GROUP)              # warpgroup 0 begins
        state, work = state.advance(k_tiles), work.next()               # the stages of the first tile are the other's
    first_turn(plan)
    while work.valid:
        group, _, n, row, rows = work.coordinates()
        acc = plan.product.mma.partition_fragment_C((config.bM, config.bN))         # (MMA, MMA_M, MMA_N)
        await_turn(plan)
        if plan.product.promote:
            factors = scales_of_tile(plan, scales, (out.M, row), n, group, thr_mma)
            state = promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles), factors)
        else:
            state = mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles))
        here = replace(out, M=rows, row=row)            # C from the tile's first row on, with the rows that are left
        if plan.C.major == "":
            store(partly, here, None, acc, (0, n, 0))
        elif rows >= config.bM:
            store(whole, here, sC, acc, (0, n, 0))
        else:                                           # TMA would write the next group's rows as well
            store(partly, here, None, acc, (0, n, 0))
        work = work.next()
        if plan.in_turns:                               # past the tile that the other multiplies meanwhile
            state, work = state.advance(k_tiles), work.next()
    finish_stores(plan)


# --- host ------------------------------------------------------------------------------------------------------------


def grouped_gemm_sm90(A: Any, B: Any, C: Any, offsets: Any = None, *, activation: Activation = "none", alpha: float = 1,
                      scale_a: Any = None, scale_b: Any = None, fast_accum: bool = False,
                      config: WarpgroupConfig | None = None) -> Any:
    """C[o[g]:o[g+1]] = activation(alpha * A[o[g]:o[g+1]] @ B[:, :, g].T) for every group g, in place; returns C.

    A is (M, K), B (N, K, G), C (M, N), with dtypes and strides as in ``gemm_sm90``.  ``offsets`` o has G + 1 int32 that
    do not decrease, from 0 to M, on the same device.  Groups may be empty; rows of no group stay as they are.
    ``scale_a`` (M, K / 128) and ``scale_b`` (N / 128, K / 128, G) are factors of blocks, as in ``gemm_sm90``.

    Without offsets, A, B and C are lists of matrices (M_i, K_i), (N_i, K_i) and (M_i, N_i) that lie anywhere, of one
    dtype each, and C[i] = activation(alpha * A[i] @ B[i].T); factors of blocks are lists as well.

    In ``config`` each tile is one block's, and not turned.  ArgumentError for other arguments.
    """
    if offsets is None:
        return separate_products("grouped_gemm_sm90", A, B, C, scale_a, scale_b, activation=activation, alpha=alpha,
                                 fast_accum=fast_accum, config=config)
    fast_accum = flag("grouped_gemm_sm90", "fast_accum", fast_accum)
    a, _, c = matrices("grouped_gemm_sm90", A, A, C)
    b, o = array("grouped_gemm_sm90", "B", B, (3,), "(N, K, G)"), info_of("grouped_gemm_sm90", "offsets", offsets)
    _check(a, b, c, o)
    apart("grouped_gemm_sm90", "B", b, c)
    scaled = check_scales("grouped_gemm_sm90", scale_a, scale_b, a, b, c, {"fast_accum=True": fast_accum})
    alpha = scalar(alpha, a.dtype, "grouped_gemm_sm90")
    configured("grouped_gemm_sm90", config, WarpgroupConfig)
    function = activation_of("grouped_gemm_sm90", activation, ACTIVATIONS)
    if 0 in (*c.shape, b.shape[2]):
        return C
    if a.shape[1] == 0:
        A, B = (zeros(C, a.dtype, (x.shape[0], 16, *x.shape[2:])) for x in (a, b))     # TMA has no maps of empty arrays
        a, b = mo.describe(A), mo.describe(B)
        if scaled:
            scale_a, scale_b = no_blocks(C, a), no_blocks(C, b, BLOCK)
    if loaded(a) == 0:                                  # groups begin at any row, and TMA at multiples of 16 bytes
        A = packed(A)
        a = mo.describe(A)
    A, B = (X if loaded(x) is not None else packed(X) for X, x in ((A, a), (B, b)))
    fusion = Fusion(scaled=alpha != 1, activation=function)
    whole, partly = _plans(*(x._replace(ptr=x.ptr % 16) for x in (a, b, c)), fusion,
                           a.dtype in EIGHTH and not fast_accum, config, mo.multiprocessors(c),
                           ("anywhere" if by_tma(scale_a) else "threads") if scaled else "")
    chosen = whole.config
    tma_A, tma_B = (mo.TmaCopy(mo.TmaLoad(rounding=mo.tfloat32 if x.dtype == mo.float32 else None), X, tile, box, 1)
                    for X, x, tile, box in ((A, a, whole.A.box, (chosen.bM, chosen.bK)),
                                            (B, b, whole.B.box, (chosen.bN, chosen.bK, 1))))
    tma_C = mo.TmaCopy(mo.TmaStore(), C, whole.C.box, (64, whole.C.columns), 1) if whole.C.major else None
    out = Epilogue(tma_C, C, None, (None,), None, (None,), alpha, 0, c.shape[0], c.shape[1])
    grouped_gemm_sm90_kernel.launch(tma_A, tma_B, out, offsets, tma_scales(whole, scale_a), scale_b, whole, partly,
                                    grid=mo.multiprocessors(c), block=chosen.threads)
    return C


@functools.lru_cache(maxsize=1024)
def _plans(a: Any, b: Any, c: Any, fusion: Fusion, promote: bool, config: WarpgroupConfig | None,
           multiprocessors: int, scaled: str = "") -> tuple[Plan, Plan]:
    """How whole tiles are stored, and those at the end of a group."""
    check_extents("grouped_gemm_sm90", a, b)
    rows = rounded(c.shape[0] // b.shape[2])            # of a mean group: there may be more groups than rows
    problem = Problem(rows, c.shape[1], a.shape[1], b.shape[2], a.dtype, promote, lines=(line_of(a), line_of(b)),
                      scaled=scaled != "", most=_most(c, fusion), out=c.dtype.bytes)
    config = config_of_groups("grouped_gemm_sm90", problem, multiprocessors, config)
    majors = ["mn" if loaded(x) == 0 else "k" for x in (a, b)]
    dtypes = (multiplied(a.dtype), multiplied(b.dtype))
    major_C = stored(c, "warpgroup")
    whole, partly = (make_plan(config, dtypes, c.dtype, *majors, major, fusion, width(c), promote, scaled=scaled)
                     for major in (major_C if major_C == "k" else "", ""))
    return whole, partly


def _most(c: Any, fusion: Fusion) -> int:
    """Sums of a thread that leave registers for what is fused, and for addresses of elements that are stored alone."""
    return 128 if not fusion.plain else 160 if width(c) == 1 else MOST


def _check(a: Any, b: Any, c: Any, o: Any) -> None:
    """ArgumentError for what is no group of products."""
    check_dtypes("grouped_gemm_sm90", a, b, c)
    (M, K), (N, depth, groups) = a.shape, b.shape
    if depth != K or tuple(c.shape) != (M, N):
        raise mo.ArgumentError(f"grouped_gemm_sm90: A {tuple(a.shape)}, B {tuple(b.shape)} and C {tuple(c.shape)} are "
                               "not (M, K), (N, K, G) and (M, N)")
    if o is None or o.dtype != mo.int32 or tuple(o.shape) != (groups + 1,):
        found = "what is no array" if o is None else f"{o.dtype} {tuple(o.shape)}"
        raise mo.ArgumentError(f"grouped_gemm_sm90: offsets must be int32 ({groups + 1},) for {groups} groups, not "
                               f"{found}")
