"""Matrix products on the ordinary cores: C = alpha * A @ B.T + beta * C in float32, float64 or int32.

In: A (M, K), B (N, K), C (M, N), of any strides.  Out: C, written in place.

>>> gemm_simt(A, B, C)                       # any transposes are views: gemm_simt(A.T, B, C)

Multi-stage cp.async into [k][m] tiles, 128-bit shared reads through a permuted MMA tile, fragments double-buffered over
k.  Edges are predicated and zero-filled; problems too small for the machine are split over K.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.simt_config import Config, choose
from moye.kernels.workspace import empty, transposed


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on: layouts and tiled operations, and which edges are ragged."""

    config: Config
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
def load(copy, dst, src, rows, coords, k_tile, k_extent, full):
    """One tile of an operand into a stage: rows beyond the edge, and k beyond the end, become zero."""
    if full is None:
        mo.copyto(copy, dst, src[:, :, :, k_tile], pred=rows, zero_fill=rows is not None)
    elif k_tile < full:
        mo.copyto(copy, dst, src[:, :, :, k_tile], pred=rows, zero_fill=rows is not None)
    else:
        inside = mo.fragment((1, mo.size(dst, 1), mo.size(dst, 2)), mo.bool)
        for i in mo.static_range(mo.size(dst, 1)):
            for j in mo.static_range(mo.size(dst, 2)):
                ends = coords[0, i, j, k_tile][1] < k_extent
                inside[0, i, j] = ends if rows is None else ends & rows[0, i, 0]
        mo.copyto(copy, dst, src[:, :, :, k_tile], pred=inside, zero_fill=True)


@mo.jit
def row_predicate(coords, copies, extent):
    """Whether each row that a thread copies lies inside the array."""
    rows = mo.fragment((1, copies, 1), mo.bool)
    for i in mo.static_range(copies):
        rows[0, i, 0] = coords[0, i, 0, 0][0] < extent
    return rows


@mo.jit
def store(C, acc, coords, M, N, plan, alpha, beta):
    """The epilogue: scale, add the old C, store what lies inside."""
    if plan.scaled:
        acc[...] = acc * alpha
    pred = None
    if plan.ragged[0] or plan.ragged[1]:
        m_count, n_count, v = mo.size(acc, 1), mo.size(acc, 2), plan.vector
        pred = mo.fragment((1, m_count // v, n_count), mo.bool)
        for i in mo.static_range(m_count // v):
            for j in mo.static_range(n_count):
                m, n = coords[0, i * v, j]
                pred[0, i, j] = (m < M) & (n < N)
        pred = pred.with_layout(mo.make_layout((1, (v, m_count // v), n_count), (0, (0, 1), m_count // v)))
    if plan.accumulate:
        old = mo.make_fragment_like(acc)
        mo.copyto(old, C, pred=pred, zero_fill=pred is not None)
        acc[...] = acc + old * beta
    mo.copyto(C, acc, pred=pred)


@mo.kernel
def gemm_kernel(A, B, C, alpha, beta, chunk, plan: mo.Constexpr):
    """One (bM, bN) tile of C per block, or its part of the sum over K: C is (M, N, splits)."""
    config = plan.config
    bM, bN, bK, stages = config.bM, config.bN, config.bK, config.stages
    M, N, K = mo.size(A, 0), mo.size(B, 0), mo.size(A, 1)
    bx, by, bz = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, plan.sA)                              # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, plan.sB)                              # (bN, bK, stages)
    gA = mo.tile(A, (bM, bK), (bx, None), ragged=plan.ragged[0] or plan.ragged[2])      # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None), ragged=plan.ragged[1] or plan.ragged[2])      # (bN, bK, k)
    mC = C[:, :, bz] if plan.split else C                          # (M, N)
    gC = mo.tile(mC, (bM, bN), (bx, by), ragged=plan.ragged[0] or plan.ragged[1])           # (bM, bN)
    cA = mo.tile(mo.identity_tensor((M, K)), (bM, bK), (bx, None), ragged=True)
    cB = mo.tile(mo.identity_tensor((N, K)), (bN, bK), (by, None), ragged=True)
    cC = mo.tile(mo.identity_tensor((M, N)), (bM, bN), (bx, by), ragged=True)

    thr_A, thr_B, thr_mma = plan.copy_A.get_slice(tid), plan.copy_B.get_slice(tid), plan.mma.get_slice(tid)
    tAgA, tAsA, tAcA = thr_A.partition_S(gA), thr_A.partition_D(sA), thr_A.partition_S(cA)  # (CPY, CPY_M, CPY_K, ..)
    tBgB, tBsB, tBcB = thr_B.partition_S(gB), thr_B.partition_D(sB), thr_B.partition_S(cB)  # (CPY, CPY_N, CPY_K, ..)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K, stages)
    tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)       # (MMA, MMA_M, MMA_N)
    rows_A = row_predicate(tAcA, mo.size(tAsA, 1), M) if plan.ragged[0] else None
    rows_B = row_predicate(tBcB, mo.size(tBsB, 1), N) if plan.ragged[1] else None
    full = K // bK if plan.ragged[2] else None

    k_first = bz * chunk if plan.split else 0
    k_last = mo.size(tAgA, 3)
    if plan.split:
        k_last = mo.min(k_first + chunk, k_last)
    for s in mo.static_range(stages - 1):
        if k_first + s < k_last:
            load(plan.copy_A, tAsA[:, :, :, s], tAgA, rows_A, tAcA, k_first + s, K, full)
            load(plan.copy_B, tBsB[:, :, :, s], tBgB, rows_B, tBcB, k_first + s, K, full)
        mo.cp_async_commit()

    tCrA = mo.fragment((1, mo.size(tCsA, 1), 2), A.dtype)               # (MMA, MMA_M, 2)
    tCrB = mo.fragment((1, mo.size(tCsB, 1), 2), B.dtype)               # (MMA, MMA_N, 2)
    acc = thr_mma.make_fragment_C(tCgC)                                 # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    if k_first < k_last:
        mo.cp_async_wait(stages - 2)
        mo.sync_threads()
        read, write = 0, stages - 1
        tCsA_p, tCsB_p = tCsA[:, :, :, 0], tCsB[:, :, :, 0]             # (MMA, MMA_M, MMA_K)
        mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
        mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
        for k_tile in range(k_first, k_last):
            for k in mo.static_range(bK):
                if k == bK - 1:
                    mo.cp_async_wait(stages - 2)
                    mo.sync_threads()
                    following = read + 1 if read + 1 < stages else 0
                    read = following if k_tile + 1 < k_last else read   # after the last tile: any valid one
                    tCsA_p, tCsB_p = tCsA[:, :, :, read], tCsB[:, :, :, read]
                mo.copyto(tCrA[:, :, (k + 1) % 2], tCsA_p[:, :, (k + 1) % bK])
                mo.copyto(tCrB[:, :, (k + 1) % 2], tCsB_p[:, :, (k + 1) % bK])
                if k == 0:
                    if k_tile + (stages - 1) < k_last:
                        load(plan.copy_A, tAsA[:, :, :, write], tAgA, rows_A, tAcA, k_tile + (stages - 1), K, full)
                        load(plan.copy_B, tBsB[:, :, :, write], tBgB, rows_B, tBcB, k_tile + (stages - 1), K, full)
                    mo.cp_async_commit()
                    write = write + 1 if write + 1 < stages else 0
                mo.gemm(plan.mma, tCrA[:, :, k % 2], tCrB[:, :, k % 2], acc)
    store(tCgC, acc, tCcC, M, N, plan, alpha, beta)


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
            total = total * alpha
        if accumulate:
            total = total + beta * C[m, n]
        C[m, n] = total


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_simt(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, config: Config | None = None,
              splits: int | None = None) -> Any:
    """C = alpha * A @ B.T + beta * C, in place; returns C.

    A is (M, K), B (N, K) and C (M, N), of one dtype (float32, float64, int32), any strides, on one device.  ``config``
    and ``splits`` override the choice.  ArgumentError for other shapes and dtypes.
    """
    a, b, c = mo.describe(A), mo.describe(B), mo.describe(C)
    _check(a, b, c)
    if c.strides[0] != 1 and c.strides[1] == 1 or c.shape[0] == 1 and c.strides[1] != 1:
        A, B, C = B, A, transposed(C)
        a, b, c = b, a, mo.describe(C)
    (M, K), N = a.shape, b.shape[0]
    if M == 0 or N == 0:
        return C
    if config is None:
        config, chosen = choose(M, N, K, c.dtype.bytes)
        splits = chosen if splits is None else splits
    splits = max(1, min(splits or 1, -(-K // config.bK)))
    chunk = -(-max(1, -(-K // config.bK)) // splits)
    final = splits == 1
    plan = make_plan(config, c.dtype, _major(a, config, M), _major(b, config, N),
                     (M % config.bM != 0, N % config.bN != 0, K % config.bK != 0), _store_vector(c, M), not final,
                     final and alpha != 1, final and beta != 0)
    target = C if final else empty(C, c.dtype, (M, N, splits))
    grid = (-(-M // config.bM), -(-N // config.bN), splits)
    gemm_kernel[grid, config.threads](A, B, target, alpha, beta, chunk, plan)
    if not final:
        sum_kernel[-(-M * N // 256), 256](C, target, alpha, beta, alpha != 1, beta != 0)
    return C


def _check(a: Any, b: Any, c: Any) -> None:
    for name, info in (("A", a), ("B", b), ("C", c)):
        if info is None or len(info.shape) != 2:
            raise mo.ArgumentError(f"gemm_simt: {name} must be a matrix, not {'no array' if info is None else info.shape}")
        if info.dtype not in (mo.float32, mo.float64, mo.int32) or info.dtype != a.dtype:
            raise mo.ArgumentError(f"gemm_simt: {name} holds {info.dtype}; A, B and C are all float32, float64 or int32")
    if a.shape[1] != b.shape[1] or c.shape != (a.shape[0], b.shape[0]):
        raise mo.ArgumentError(f"gemm_simt: A {tuple(a.shape)}, B {tuple(b.shape)} and C {tuple(c.shape)} are not (M, K), "
                               f"(N, K) and (M, N)")


def _major(info: Any, config: Config, extent: int) -> str:
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
def make_plan(config: Config, dtype: Any, major_A: str, major_B: str, ragged: tuple[bool, bool, bool], vector: int,
              split: bool = False, scaled: bool = False, accumulate: bool = False) -> Plan:
    """Layouts and tiled operations of one kind of problem; the same object for the same kind."""
    sA, copy_A = _operand(config, dtype, config.bM, major_A)
    sB, copy_B = _operand(config, dtype, config.bN, major_B)
    quad = 16 // dtype.bytes
    lanes = (8, 4)
    atoms = mo.Layout(((8, config.wM), (4, config.wN)), ((1, 32), (8, 32 * config.wM)))
    perms = tuple(mo.Layout(((lane, warps), (quad, values // quad)), ((quad, lane * values), (1, quad * lane)))
                  for lane, warps, values in zip(lanes, (config.wM, config.wN), (config.tM, config.tN), strict=True))
    mma = mo.make_tiled_mma(mo.UniversalFMA(dtype), atoms, perms)
    return Plan(config, sA, sB, copy_A, copy_B, mma, ragged, vector, split, scaled, accumulate)


def _operand(config: Config, dtype: Any, rows: int, major: str) -> tuple[mo.Layout, mo.TiledCopy]:
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
        return layout, mo.make_tiled_copy(atom, mo.make_layout((across, min(threads // across, bK))), mo.make_layout((1, 1)))
    warps = threads // 32
    by_k = min(warps, bK // 8)
    thr = mo.Layout(((4, warps // by_k), (8, by_k)), ((8, 32 * by_k), (1, 32)))
    return layout, mo.make_tiled_copy(atom, thr, mo.make_layout((1, 1)))
