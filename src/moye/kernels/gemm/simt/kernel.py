"""Matrix products on the ordinary cores: C = alpha * A @ B.T + beta * C in float32, float64 or int32.

In: A (M, K), B (N, K), C (M, N), of any strides.  Out: C, written in place.

    gemm_simt(A, B, C)                       # any transposes are views: gemm_simt(A.T, B, C)

Multi-stage cp.async into [k][m] tiles, 128-bit shared reads through a permuted MMA tile, fragments double-buffered over
k.  Edges are predicated and zero-filled; problems too small for the machine are split over K.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import configured, matrices, part_count, same_problem, scalar
from moye.kernels.gemm.parts.operands import factor, load, raster, side_of
from moye.kernels.gemm.simt.config import TileConfig, choose
from moye.kernels.workspace import empty, swapped


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on: layouts and tiled operations, and which edges are ragged."""

    config: TileConfig
    sA: mo.Layout
    sB: mo.Layout
    copy_A: mo.TiledCopy
    copy_B: mo.TiledCopy
    mma: mo.TiledMMA
    ragged: tuple[bool, bool, bool]
    vector: int
    """Elements along M that C is stored by."""
    split: bool = False
    scaled: bool = False
    accumulate: bool = False


@mo.jit
def edge_predicate(acc, coords, M, N, vector):
    """Which of a thread's elements of C lie inside, ``vector`` rows at a time."""
    groups, columns = mo.size(acc, 1) // vector, mo.size(acc, 2)
    inside = mo.fragment((1, groups, columns), mo.bool)
    for i in mo.static_range(groups):
        for j in mo.static_range(columns):
            m, n = coords[0, i * vector, j]
            inside[0, i, j] = (m < M) & (n < N)
    return inside.with_layout(mo.make_layout((1, (vector, groups), columns), (0, (0, 1), groups)))


@mo.jit
def store(C, acc, pred, plan, beta):
    """Add the old C, store."""
    if plan.accumulate:
        old = mo.make_fragment_like(acc)
        mo.copyto(old, C, pred=pred, zero_fill=pred is not None)
        acc[...] = acc + old * factor(beta, C.dtype)
    mo.copyto(C, acc, pred=pred)


@mo.jit
def mainloop(plan, a, b, acc, k_first, k_last, K, full):
    """acc += A * B over the k tiles [k_first, k_last): stages of shared memory, fragments one k ahead."""
    bK, pipe = plan.config.bK, mo.Pipeline(plan.config.stages)
    for s in mo.static_range(pipe.ahead):
        if k_first + s < k_last:
            load(a, s, k_first + s, K, full)
            load(b, s, k_first + s, K, full)
        pipe.commit()
    tCrA = mo.fragment((1, mo.size(a.operand, 1), 2), a.operand.dtype)      # (MMA, MMA_M, 2)
    tCrB = mo.fragment((1, mo.size(b.operand, 1), 2), b.operand.dtype)      # (MMA, MMA_N, 2)
    if k_first < k_last:
        pipe.wait()
        state = pipe.start()
        tCsA, tCsB = a.operand[:, :, :, 0], b.operand[:, :, :, 0]           # (MMA, MMA_M, MMA_K)
        mo.copyto(tCrA[:, :, 0], tCsA[:, :, 0])
        mo.copyto(tCrB[:, :, 0], tCsB[:, :, 0])
        for k_tile in range(k_first, k_last):
            for k in mo.static_range(bK):
                if k == bK - 1:
                    pipe.wait()
                    state = state.next(k_tile + 1 < k_last)
                    tCsA, tCsB = a.operand[:, :, :, state.read], b.operand[:, :, :, state.read]
                mo.copyto(tCrA[:, :, (k + 1) % 2], tCsA[:, :, (k + 1) % bK])
                mo.copyto(tCrB[:, :, (k + 1) % 2], tCsB[:, :, (k + 1) % bK])
                if k == 0:
                    if k_tile + pipe.ahead < k_last:
                        load(a, state.write, k_tile + pipe.ahead, K, full)
                        load(b, state.write, k_tile + pipe.ahead, K, full)
                    pipe.commit()
                mo.gemm(plan.mma, tCrA[:, :, k % 2], tCrB[:, :, k % 2], acc)


@mo.kernel
def gemm_kernel(A, B, C, alpha, beta, chunk, plan: mo.Constexpr):
    """One (bM, bN) tile of C per block, or its part of the sum over K: then C is (M, N, splits)."""
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    M, N, K = mo.size(A, 0), mo.size(B, 0), mo.size(A, 1)
    ragged_M, ragged_N, ragged_K = plan.ragged
    pid, bz, _ = mo.block_idx()
    bx, by = raster(pid, mo.ceil_div(M, bM), mo.ceil_div(N, bN))
    thr_mma = plan.mma.get_slice(mo.thread_idx().x)
    mo.min_blocks(1 if ragged_M or ragged_N or ragged_K else plan.config.blocks)    # predicates want the registers

    sA = mo.shared_array(A.dtype, plan.sA)                              # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, plan.sB)                              # (bN, bK, stages)
    mC = C[:, :, bz] if plan.split else C                               # (M, N)
    gC = mo.tile(mC, (bM, bN), (bx, by), ragged=ragged_M or ragged_N)   # (bM, bN)
    cC = mo.tile(mo.identity_tensor((M, N)), (bM, bN), (bx, by), ragged=True)
    a = side_of(A, sA, plan.copy_A, thr_mma.partition_A, (bM, bK), bx, (ragged_M, ragged_K))
    b = side_of(B, sB, plan.copy_B, thr_mma.partition_B, (bN, bK), by, (ragged_N, ragged_K))
    tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)       # (MMA, MMA_M, MMA_N)
    rows, columns = mo.size(tCgC, 1), mo.size(tCgC, 2)
    acc = mo.fragment(mo.make_layout((1, rows, columns), (0, columns, 1)), C.dtype)     # (MMA, MMA_M, MMA_N)
    acc.fill(0)

    k_first, k_last = 0, mo.size(a.source, 3)
    if plan.split:
        k_first = bz * chunk
        k_last = mo.min(k_first + chunk, k_last)
    mainloop(plan, a, b, acc, k_first, k_last, K, K // bK if ragged_K else None)

    if plan.scaled:
        acc[...] = acc * factor(alpha, C.dtype)
    if not (ragged_M or ragged_N) or ((bx + 1) * bM <= M and (by + 1) * bN <= N):
        store(tCgC, acc, None, plan, beta)
    else:
        store(tCgC, acc, edge_predicate(acc, tCcC, M, N, plan.vector), plan, beta)


@mo.kernel
def sum_kernel(C, parts, alpha, beta, scaled: mo.Constexpr, accumulate: mo.Constexpr):
    """C = alpha * (sum of parts (M, N, splits) over splits) + beta * C; one element a thread, rows fastest."""
    M, N = mo.size(C, 0), mo.size(C, 1)
    index = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if index < M * N:
        m, n = index % M, index // M
        total = parts[m, n, 0]
        for s in range(1, mo.size(parts, 2)):
            total = total + parts[m, n, s]
        if scaled:
            total = total * factor(alpha, C.dtype)
        if accumulate:
            total = total + factor(beta, C.dtype) * C[m, n]
        C[m, n] = total


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_simt(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, config: TileConfig | None = None,
              splits: int | None = None) -> Any:
    """C = alpha * A @ B.T + beta * C, in place; returns C.

    A is (M, K), B (N, K) and C (M, N), of one dtype (float32, float64, int32), of any strides, on one device.
    ``config`` and ``splits`` override the choice.  ArgumentError for other shapes and dtypes.
    """
    a, b, c = matrices("gemm_simt", A, B, C)
    _check(a, b, c)
    configured("gemm_simt", config, TileConfig)
    part_count("gemm_simt", splits)
    factors, result = [scalar(x, c.dtype, "gemm_simt") for x in (alpha, beta)], C
    if c.strides[0] != 1 and c.strides[1] == 1:
        A, B, C = B, A, swapped(C)
        a, b, c = b, a, mo.describe(C)
    (M, K), N = a.shape, b.shape[0]
    scaled, accumulate = alpha != 1, beta != 0
    if M == 0 or N == 0:
        return result
    if config is None:
        config, chosen = choose(M, N, K, c.dtype.bytes, mo.multiprocessors(c))
        splits = chosen if splits is None else splits
    splits = max(1, min(splits or 1, -(-K // config.bK)))
    chunk = -(-max(1, -(-K // config.bK)) // splits)
    final = splits == 1
    plan = make_plan(config, c.dtype, _major(a, config, M), _major(b, config, N),
                     (M % config.bM != 0, N % config.bN != 0, K % config.bK != 0), _store_vector(c, M), not final,
                     final and scaled, final and accumulate, _store_vector(c, M) > 1 or K > 1024)
    target = C if final else empty(C, c.dtype, (M, N, splits))
    grid = (-(-M // config.bM) * -(-N // config.bN), splits)
    gemm_kernel[grid, config.threads](A, B, target, *factors, chunk, plan)
    if not final:
        sum_kernel[-(-M * N // 256), 256](C, target, *factors, scaled, accumulate)
    return result


def _check(a: Any, b: Any, c: Any) -> None:
    for name, info in (("A", a), ("B", b), ("C", c)):
        if info.dtype not in (mo.float32, mo.float64, mo.int32) or info.dtype != a.dtype:
            raise mo.ArgumentError(f"gemm_simt: {name} holds {info.dtype}" + (f", A {a.dtype}" if name != "A" else "")
                                   + "; A, B and C are all float32, float64 or int32")
    same_problem("gemm_simt", a, b, c)


def _major(info: Any, config: TileConfig, extent: int) -> str:
    """How an operand is copied: "vector" along M, "k" for contiguous K, else "element"."""
    quad = 16 // info.dtype.bytes
    if info.strides[0] == 1 and extent % quad == 0 and info.strides[1] % quad == 0 and info.ptr % 16 == 0:
        return "vector"
    return "k" if info.strides[1] == 1 and info.strides[0] != 1 else "element"


def _store_vector(info: Any, M: int) -> int:
    quad = 16 // info.dtype.bytes
    aligned = info.strides[0] == 1 and info.strides[1] % quad == 0 and info.ptr % 16 == 0
    return quad if aligned and M % quad == 0 else 1


@functools.lru_cache(maxsize=1024)
def make_plan(config: TileConfig, dtype: Any, major_A: str, major_B: str, ragged: tuple[bool, bool, bool], vector: int,
              split: bool = False, scaled: bool = False, accumulate: bool = False, wide: bool = True) -> Plan:
    """Layouts and tiled operations of one kind of problem; the same object for the same kind.

    ``wide``: a thread's rows are 16 bytes together (128-bit shared reads and stores); else 8 lanes' rows are, for
    outputs whose columns are not aligned and short sums, where coalesced stores matter more.
    """
    sA, copy_A = _operand(config, dtype, config.bM, major_A)
    sB, copy_B = _operand(config, dtype, config.bN, major_B)
    quad = 16 // dtype.bytes
    lanes, groups = (8, 4), (quad if wide else 1, quad)
    atoms = mo.Layout(((8, config.wM), (4, config.wN)), ((1, 32), (8, 32 * config.wM)))
    perms = tuple(mo.Layout(((lane, warps), (group, values // group)), ((group, lane * values), (1, group * lane)))
                  for lane, group, warps, values in zip(lanes, groups, (config.wM, config.wN), (config.tM, config.tN),
                                                        strict=True))
    mma = mo.make_tiled_mma(mo.UniversalFMA(dtype), atoms, perms)
    return Plan(config, sA, sB, copy_A, copy_B, mma, ragged, vector, split, scaled, accumulate)


def _operand(config: TileConfig, dtype: Any, rows: int, major: str) -> tuple[mo.Layout, mo.TiledCopy]:
    """Shared layout [stage][k][row] and the copy that fills it."""
    bK, threads, quad = config.bK, config.threads, 16 // dtype.bytes
    pitch = rows + (quad if major == "k" else 0)
    layout = mo.make_layout((rows, bK, config.stages), (1, pitch, pitch * bK))
    if major == "vector":
        across = min(rows // quad, threads)
        atom = mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), dtype)
        return layout, mo.make_tiled_copy(atom, mo.make_layout((across, threads // across)), mo.make_layout((quad, 1)))
    atom = mo.CopyAtom(mo.CpAsync(dtype), dtype)
    if major == "element":
        across = min(rows, threads, 32)
        thr = mo.make_layout((across, min(threads // across, bK)))
        return layout, mo.make_tiled_copy(atom, thr, mo.make_layout((1, 1)))
    warps = threads // 32
    by_k = min(warps, bK // 8)
    thr = mo.Layout(((4, warps // by_k), (8, by_k)), ((8, 32 * by_k), (1, 32)))
    return layout, mo.make_tiled_copy(atom, thr, mo.make_layout((1, 1)))
