"""Matrix products on tensor cores by mma.sync: C = alpha * A @ B.T + beta * C, with a fused epilogue; sm_80 and later.

In: A (M, K), B (N, K), C (M, N) or the same with a batch mode behind, of any strides.  Out: C, written in place.

    gemm_sm80(A, B, C, bias=b, activation="relu")

Multi-stage cp.async into swizzled shared memory, ldmatrix, fragments double-buffered over k, and an epilogue through
shared memory with 128-bit stores.  Edges are predicated and zero-filled; small problems are split over K.
"""

from __future__ import annotations

import math
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import (
    activation_of,
    addend,
    configured,
    matrices,
    part_count,
    same_problem,
    scalar,
)
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS, Activation, Epilogue, reduce_kernel, store
from moye.kernels.gemm.parts.operands import load, raster, side_of
from moye.kernels.gemm.sm80 import in_place, lines
from moye.kernels.gemm.sm80.choice import choose
from moye.kernels.gemm.sm80.config import TensorConfig, architecture, instruction, outputs
from moye.kernels.gemm.sm80.plan import SHIFTED, along_rows, major_of, make_plan, stored
from moye.kernels.pack import Plan as Shift
from moye.kernels.pack import make_plan as shift_of
from moye.kernels.workspace import MAKES_ARRAYS, empty, one_batch, swapped, words

_WIDE = (1 << 31) - (1 << 16)           # bytes that 32-bit offsets reach


@mo.jit
def mainloop(plan, a, b, acc, tCrA, tCrB, k_first, k_last, K, full):
    """acc += A * B over the k tiles [k_first, k_last): stages of shared memory, fragments one k block ahead."""
    tid = mo.thread_idx().x
    k_blocks, pipe, sides = mo.size(tCrA, 2), mo.Pipeline(plan.config.stages), (a, b)
    for s in mo.static_range(pipe.ahead):
        if k_first + s < k_last:
            begin(plan, sides, s, k_first + s, K, full)
        pipe.commit()
    rounding = tCrA.dtype == mo.tfloat32                                # float32 is rounded in registers
    tCfA = mo.make_fragment_like(tCrA, mo.float32) if rounding else tCrA
    tCfB = mo.make_fragment_like(tCrB, mo.float32) if rounding else tCrB
    rA = plan.read_A.get_slice(tid).retile_D(tCfA)                      # (CPY, CPY_M, CPY_K)
    rB = plan.read_B.get_slice(tid).retile_D(tCfB)                      # (CPY, CPY_N, CPY_K)
    if k_first < k_last:
        pipe.wait()
        state = pipe.start()
        tXsA, tXsB = a.operand[:, :, :, 0], b.operand[:, :, :, 0]       # (CPY, CPY_M, CPY_K)
        mo.copyto(plan.read_A, rA[:, :, 0], tXsA[:, :, 0])
        mo.copyto(plan.read_B, rB[:, :, 0], tXsB[:, :, 0])
        for k_tile in range(k_first, k_last):
            ahead = k_tile + pipe.ahead
            for k in mo.static_range(k_blocks):
                if k == k_blocks - 1:
                    pipe.wait()
                    state = state.next(k_tile + 1 < k_last)
                    tXsA, tXsB = a.operand[:, :, :, state.read], b.operand[:, :, :, state.read]
                mo.copyto(plan.read_A, rA[:, :, (k + 1) % k_blocks], tXsA[:, :, (k + 1) % k_blocks])
                mo.copyto(plan.read_B, rB[:, :, (k + 1) % k_blocks], tXsB[:, :, (k + 1) % k_blocks])
                if k == 0:
                    if ahead < k_last:
                        begin(plan, sides, state.write, ahead, K, full)
                    pipe.commit()
                if rounding:
                    mo.copyto(tCrA[:, :, k], tCfA[:, :, k])
                    mo.copyto(tCrB[:, :, k], tCfB[:, :, k])
                mo.gemm(plan.mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def begin(plan, sides, stage, k_tile, K, full):
    """A tile of both operands on its way to a stage."""
    for side, shift in zip(sides, plan.shifts, strict=True):
        if shift is None:
            load(side, stage, k_tile, K, full)
        else:
            in_place.fetch(side, shift, plan.config.threads, stage, k_tile, K)


@mo.jit
def one_of(X, parts, shift, batch):
    """A matrix of the batches, and ``parts`` of it: its memory is that of all, and it begins further on."""
    if shift is not None:
        words, head = parts
        parts = words, head + (mo.int64(batch) if shift.wide else batch) * (mo.stride(X)[2] * X.dtype.bytes)
    return X[:, :, batch], parts


@mo.jit
def operand_of(plan, which, X, parts, smem, copy, partition, rows, coordinate):
    """An operand, the first or the second of a product, and its tile (rows, bK) of the first stage."""
    if parts is None:
        ragged = plan.ragged[which], plan.ragged[2]
        return side_of(X, smem, copy, partition, (rows, plan.config.bK), coordinate, ragged), smem[:, :, 0]
    first, turned = coordinate * rows, plan.turned[which]
    if plan.raw[which] is None:
        side = in_place.words_of(X, parts, smem, partition, first, plan.shifts[which], turned)
    else:
        raw = mo.shared_array(mo.uint32, plan.raw[which], align=16)    # (4, parts, lines, stages)
        side = lines.lines_of(X, parts, raw, smem, partition, first, turned)
    return side, side.tile


@mo.jit
def allow_sums(plan):
    """What adds up the parts of a split may begin, and wait where blocks are free."""
    if plan.splits > 1:
        mo.griddepcontrol_launch_dependents()


@mo.kernel
def gemm_sm80_kernel(A, B, C, residual, bias, alpha, beta, chunk, parts_A, parts_B, plan: mo.Constexpr):
    """One (bM, bN) tile of C per block, or its part of the sum over K: then C is (M, N, splits * batches).

    Of operands whose lines begin anywhere, ``parts_A`` and ``parts_B`` are their memory and where they begin there.
    """
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    tid = mo.thread_idx().x
    pid, bz, column = mo.block_idx()
    allow_sums(plan)
    if plan.batched:
        (A, parts_A), (B, parts_B) = (one_of(*each, bz // plan.splits) for each in zip(
            (A, B), (parts_A, parts_B), plan.shifts, strict=True))
        residual = residual[:, :, bz] if plan.epilogue.residual else None
    whole, place = C, (bz,) if plan.batched or plan.splits > 1 else ()
    if plan.batched or plan.splits > 1:
        C = C[:, :, bz]
    M, N, K = mo.size(A, 0), mo.size(B, 0), mo.size(A, 1)
    bx, by = raster(pid, mo.ceil_div(M, bM), mo.ceil_div(N, bN)) if plan.waves else (pid, column)
    thr_mma = plan.mma.get_slice(tid)
    mo.min_blocks(plan.config.blocks)

    sA = mo.shared_array(A.dtype, plan.sA)                              # (bM, bK, stages), or one tile that is shifted
    sB = mo.shared_array(B.dtype, plan.sB)                              # (bN, bK, stages)
    read_A, read_B = plan.read_A.get_slice(tid).partition_S, plan.read_B.get_slice(tid).partition_S
    a, tile_A = operand_of(plan, 0, A, parts_A, sA, plan.copy_A, read_A, bM, bx)
    b, tile_B = operand_of(plan, 1, B, parts_B, sB, plan.copy_B, read_B, bN, by)
    tCrA = thr_mma.partition_fragment_A(tile_A)                         # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.partition_fragment_B(tile_B)                         # (MMA, MMA_N, MMA_K)
    acc = plan.mma.partition_fragment_C((bM, bN))                       # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    k_first, k_last = 0, mo.ceil_div(K, bK)
    if plan.splits > 1:
        k_first = bz % plan.splits * chunk
        k_last = mo.min(k_first + chunk, k_last)
    loop = mainloop if plan.raw == (None, None) else lines.mainloop
    loop(plan, a, b, acc, tCrA, tCrB, k_first, k_last, K, K // bK if plan.ragged[2] else None)
    mo.cp_async_wait()
    store(plan, acc, (whole, place, C), residual, bias, bx, by, alpha, beta)


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_sm80(A: Any, B: Any, C: Any, *, bias: Any = None, residual: Any = None, activation: Activation = "none",
              alpha: float = 1, beta: float = 0, config: TensorConfig | None = None, splits: int | None = None) -> Any:
    """C = activation(alpha * A @ B.T + beta * C + residual + bias), in place; returns C.

    A is (M, K), B (N, K) and C (M, N), or (M, K, L), (N, K, L) and (M, N, L), of any strides, on one device.  A and B
    may be float16, bfloat16, float8 (sm_89) or float32 (taken as tfloat32) with C float32, float16 or bfloat16;
    float64; int8 or uint8 with C int32.  ``residual`` is like C, and ``bias`` has N elements.  ``activation`` is
    "none", "relu", "gelu", "silu" or a function of a register tensor.  ``config`` and ``splits`` override the choice.
    ArgumentError for other arguments.
    """
    a, b, c = matrices("gemm_sm80", A, B, C, ranks=(2, 3))
    _check(a, b, c)
    addend("gemm_sm80", "bias", bias, (b.shape[0],), c)
    addend("gemm_sm80", "residual", residual, tuple(c.shape), c)
    configured("gemm_sm80", config, TensorConfig)
    splits = part_count("gemm_sm80", splits)
    factors = [scalar(x, a.dtype, "gemm_sm80") for x in (alpha, beta)]
    function, result = activation_of("gemm_sm80", activation, ACTIVATIONS), C
    if c.strides[0] == 1 and c.strides[1] != 1 and bias is None:
        A, B, C, residual = B, A, swapped(C), None if residual is None else swapped(residual)
        a, b, c = b, a, mo.describe(C)
    M, K, N, batches = a.shape[0], a.shape[1], b.shape[0], c.shape[2] if len(c.shape) == 3 else 1
    if M == 0 or N == 0 or batches == 0:
        return result
    majors = [major_of(a, M, K), major_of(b, N, K)]
    parts = [_parts(X, x, major) for X, x, major in ((A, a, majors[0]), (B, b, majors[1]))]
    majors = [major.replace("shift", "element") if part is None else major
              for major, part in zip(majors, parts, strict=True)]
    shifts = tuple(None if part is None else _shift(x, part, major)
                   for x, part, major in zip((a, b), parts, majors, strict=True))
    how = stored(c)
    chosen, several = choose(M, N, K, batches, a.dtype, mo.multiprocessors(a), architecture(C),
                             ways=(majors[0], majors[1]), store=how, out=c.dtype.bytes)
    config = config or chosen
    if splits is None:                                  # sums of several blocks meet in an array that C's library makes
        splits = several if config == chosen and c.kind in MAKES_ARRAYS else 1
    splits = max(1, min(splits, -(-K // config.bK)))
    chunk = -(-max(1, -(-K // config.bK)) // splits)
    finish = Epilogue(bool(alpha != 1), bool(beta != 0), residual is not None, bias is not None, function)
    ragged = (M % config.bM != 0, N % config.bN != 0, K % config.bK != 0)
    batched = len(c.shape) == 3
    tiles = -(-M // config.bM), -(-N // config.bN)
    waves = tiles[0] * tiles[1] * batches * splits > mo.multiprocessors(a) * config.blocks
    grid = (tiles[0] * tiles[1], batches * splits) if waves else (tiles[0], batches * splits, tiles[1])
    if splits == 1:
        plan = make_plan(config, a.dtype, c.dtype, *majors, ragged, how, batched, 1, finish, shifts, waves)
        gemm_sm80_kernel[grid, config.threads](A, B, C, residual, bias, *factors, chunk, *parts, plan)
        return result
    total = instruction(a.dtype).c_dtype
    quad = 16 // total.bytes
    sums = empty(C, total, (-(-N // quad) * quad, M, batches * splits))
    plan = make_plan(config, a.dtype, total, *majors, ragged, "vector", batched, splits, Epilogue(), shifts,
                     waves)
    gemm_sm80_kernel[grid, config.threads](A, B, swapped(sums), None, None, *factors, chunk, *parts, plan)
    whole, more = (x if batched or x is None else one_batch(x) for x in (C, residual))
    reduce_kernel.launch(whole, sums, more, bias, *factors, splits, finish, grid=(-(-M * N // 256), batches), block=256,
                         dependent=True)
    return result


def _parts(X: Any, info: Any, major: str) -> tuple[Any, int] | None:
    """All whole 16 bytes of the memory of lines that begin anywhere, and where they begin in it; None for others."""
    return words(X, info) if major in SHIFTED and info.kind in MAKES_ARRAYS else None


def _shift(info: Any, parts: tuple[Any, int], major: str) -> Shift:
    """What is known of how far lines are shifted."""
    mode = 1 if along_rows(major) else 0                # whose steps lead from line to line
    steps = [(extent, step * info.dtype.bytes) for i, (extent, step) in enumerate(
        zip(info.shape, info.strides, strict=True)) if i in (mode, 2) and extent > 1]
    return shift_of(math.gcd(16, parts[1], *(step for _, step in steps)), False,
                    sum(extent * step for extent, step in steps) >= _WIDE)


def _check(a: Any, b: Any, c: Any) -> None:
    if a.dtype != b.dtype:
        raise mo.ArgumentError(f"gemm_sm80: A holds {a.dtype} and B {b.dtype}; they must be the same")
    instruction(a.dtype)
    if c.dtype not in outputs(a.dtype):
        raise mo.ArgumentError(f"gemm_sm80: C holds {c.dtype}; for operands of {a.dtype} it may hold "
                               f"{', '.join(map(str, outputs(a.dtype)))}")
    same_problem("gemm_sm80", a, b, c)
