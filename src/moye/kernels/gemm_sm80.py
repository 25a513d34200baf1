"""Matrix products on tensor cores by mma.sync: C = alpha * A @ B.T + beta * C, with a fused epilogue; sm_80 and later.

In: A (M, K), B (N, K), C (M, N) or the same with a batch mode behind, of any strides.  Out: C, written in place.

>>> gemm_sm80(A, B, C, bias=b, activation="relu")

Multi-stage cp.async into swizzled shared memory, ldmatrix, fragments double-buffered over k, and an epilogue through
shared memory with 128-bit stores.  Edges are predicated and zero-filled.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.operands import load, raster, side_of
from moye.kernels.tensor_config import TensorConfig, choose, instruction
from moye.kernels.workspace import transposed


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to the accumulators before they are rounded and stored."""

    scaled: bool = False
    accumulate: bool = False
    bias: bool = False
    activation: str = "none"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on: layouts and tiled operations, and which edges are ragged."""

    config: TensorConfig
    sA: Any
    sB: Any
    sC: mo.Layout
    copy_A: mo.TiledCopy
    copy_B: mo.TiledCopy
    read_A: mo.TiledCopy
    read_B: mo.TiledCopy
    mma: mo.TiledMMA
    store: mo.TiledCopy
    ragged: tuple[bool, bool, bool]
    batched: bool
    epilogue: Epilogue


@mo.jit
def activated(x, name):
    """The activation function of this name."""
    if name == "relu":
        return mo.maximum(x, 0.0)
    if name == "gelu":
        return 0.5 * x * (1.0 + mo.erf(x * 0.7071067811865476))
    if name == "silu":
        return x * mo.sigmoid(x)
    return x


@mo.jit
def mainloop(plan, a, b, acc, tCrA, tCrB, K, full):
    """acc += A * B over all k tiles: stages of shared memory, fragments one k block ahead."""
    tid = mo.thread_idx().x
    stages, k_blocks, k_tiles = plan.config.stages, mo.size(tCrA, 2), mo.size(a.source, 3)
    for s in mo.static_range(stages - 1):
        if s < k_tiles:
            load(a, s, s, K, full)
            load(b, s, s, K, full)
        mo.cp_async_commit()
    rA = plan.read_A.get_slice(tid).retile_D(tCrA)                      # (CPY, CPY_M, CPY_K)
    rB = plan.read_B.get_slice(tid).retile_D(tCrB)                      # (CPY, CPY_N, CPY_K)
    if k_tiles > 0:
        mo.cp_async_wait(stages - 2)
        mo.sync_threads()
        read, write = 0, stages - 1
        tXsA, tXsB = a.operand[:, :, :, 0], b.operand[:, :, :, 0]       # (CPY, CPY_M, CPY_K)
        mo.copyto(plan.read_A, rA[:, :, 0], tXsA[:, :, 0])
        mo.copyto(plan.read_B, rB[:, :, 0], tXsB[:, :, 0])
        for k_tile in range(k_tiles):
            for k in mo.static_range(k_blocks):
                if k == k_blocks - 1:
                    mo.cp_async_wait(stages - 2)
                    mo.sync_threads()
                    following = read + 1 if read + 1 < stages else 0
                    read = following if k_tile + 1 < k_tiles else read  # after the last tile: any valid one
                    tXsA, tXsB = a.operand[:, :, :, read], b.operand[:, :, :, read]
                mo.copyto(plan.read_A, rA[:, :, (k + 1) % k_blocks], tXsA[:, :, (k + 1) % k_blocks])
                mo.copyto(plan.read_B, rB[:, :, (k + 1) % k_blocks], tXsB[:, :, (k + 1) % k_blocks])
                if k == 0:
                    if k_tile + (stages - 1) < k_tiles:
                        load(a, write, k_tile + (stages - 1), K, full)
                        load(b, write, k_tile + (stages - 1), K, full)
                    mo.cp_async_commit()
                    write = write + 1 if write + 1 < stages else 0
                mo.gemm(plan.mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def finish(plan, acc, tCgC, tCcC, tCgBias, M, N, alpha, beta):
    """alpha, the old C, the bias and the activation, on accumulators of (MMA, 1, MMA_N)."""
    epilogue = plan.epilogue
    if epilogue.scaled:
        acc[...] = acc * alpha
    if epilogue.accumulate or epilogue.bias:
        inside = mo.fragment(mo.make_layout(mo.shape(acc)), mo.bool)
        for v in mo.static_range(mo.size(acc)):
            m, n = tCcC[v]
            inside[v] = (m < M) & (n < N)
        if epilogue.accumulate:
            old = mo.make_fragment_like(acc, tCgC.dtype)
            mo.copyto(old, tCgC, pred=inside, zero_fill=True)
            acc[...] = acc + old * beta
        if epilogue.bias:
            bias = mo.make_fragment_like(acc, tCgBias.dtype)
            mo.copyto(bias, tCgBias, pred=inside, zero_fill=True)
            acc[...] = acc + bias
    acc[...] = activated(acc, epilogue.activation)


@mo.jit
def epilogue(plan, acc, C, bias, bx, by, alpha, beta):
    """Accumulators to C, MMA_M chunk by chunk: finished, rounded, through shared memory, stored 16 bytes at a time."""
    tid = mo.thread_idx().x
    M, N = mo.size(C, 0), mo.size(C, 1)
    rows, bN, chunks = mo.size(plan.sC, 0), plan.config.bN, mo.size(acc, 1)
    ragged = plan.ragged[0] or plan.ragged[1]
    thr_mma, thr_store = plan.mma.get_slice(tid), plan.store.get_slice(tid)
    sC = mo.shared_array(C.dtype, plan.sC)                              # (rows, bN)
    tCsC, tDsC = thr_mma.partition_C(sC), thr_store.partition_S(sC)     # (MMA, 1, MMA_N), (CPY, CPY_M, CPY_N)
    mo.cp_async_wait()
    for i in mo.static_range(chunks):
        gC = mo.tile(C, (rows, bN), (bx * chunks + i, by), ragged=ragged)
        cC = mo.tile(mo.identity_tensor((M, N)), (rows, bN), (bx * chunks + i, by), ragged=True)
        gBias = None
        if plan.epilogue.bias:
            wide = bias.with_layout(mo.make_layout((M, N), (0, mo.stride(bias.layout)[0])))
            gBias = thr_mma.partition_C(mo.tile(wide, (rows, bN), (bx * chunks + i, by), ragged=ragged))
        part = mo.make_fragment_like(tCsC, acc.dtype)                   # (MMA, 1, MMA_N)
        mo.copyto(part[:, 0, :], acc[:, i, :])
        finish(plan, part, thr_mma.partition_C(gC), thr_mma.partition_C(cC), gBias, M, N, alpha, beta)
        if i > 0:
            mo.sync_threads()
        mo.copyto(tCsC, part)
        mo.sync_threads()
        tDgC, tDcC = thr_store.partition_D(gC), thr_store.partition_D(cC)
        if ragged:
            inside = mo.fragment((1, mo.size(tDcC, 1), mo.size(tDcC, 2)), mo.bool)
            for p in mo.static_range(mo.size(tDcC, 1)):
                for q in mo.static_range(mo.size(tDcC, 2)):
                    m, n = tDcC[0, p, q]
                    inside[0, p, q] = (m < M) & (n < N)
            mo.copyto(plan.store, tDgC, tDsC, pred=inside)
        else:
            mo.copyto(plan.store, tDgC, tDsC)


@mo.kernel
def gemm_sm80_kernel(A, B, C, bias, alpha, beta, plan: mo.Constexpr):
    """One (bM, bN) tile of C per block."""
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    ragged_M, ragged_N, ragged_K = plan.ragged
    tid = mo.thread_idx().x
    pid, bz, _ = mo.block_idx()
    if plan.batched:
        A, B, C = A[:, :, bz], B[:, :, bz], C[:, :, bz]
    M, N, K = mo.size(A, 0), mo.size(B, 0), mo.size(A, 1)
    bx, by = raster(pid, mo.ceil_div(M, bM), mo.ceil_div(N, bN))
    thr_mma = plan.mma.get_slice(tid)
    mo.min_blocks(plan.config.blocks)

    sA = mo.shared_array(A.dtype, plan.sA)                              # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, plan.sB)                              # (bN, bK, stages)
    a = side_of(A, sA, plan.copy_A, plan.read_A.get_slice(tid).partition_S, (bM, bK), bx, (ragged_M, ragged_K))
    b = side_of(B, sB, plan.copy_B, plan.read_B.get_slice(tid).partition_S, (bN, bK), by, (ragged_N, ragged_K))
    tCrA = thr_mma.partition_fragment_A(sA[:, :, 0])                    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.partition_fragment_B(sB[:, :, 0])                    # (MMA, MMA_N, MMA_K)
    acc = plan.mma.partition_fragment_C((bM, bN))                       # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    mainloop(plan, a, b, acc, tCrA, tCrB, K, K // bK if ragged_K else None)
    epilogue(plan, acc, C, bias, bx, by, alpha, beta)


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_sm80(A: Any, B: Any, C: Any, *, bias: Any = None, activation: str = "none", alpha: float = 1,
              beta: float = 0, config: TensorConfig | None = None) -> Any:
    """C = activation(alpha * A @ B.T + beta * C + bias), in place; returns C.

    A is (M, K), B (N, K) and C (M, N), or (M, K, L), (N, K, L) and (M, N, L); float16 or bfloat16 (C also float32), any
    strides, on one device.  ``bias`` has N elements.  ``activation``: "none", "relu", "gelu", "silu".  ArgumentError for
    other shapes, dtypes and names.
    """
    a, b, c = mo.describe(A), mo.describe(B), mo.describe(C)
    _check(a, b, c, activation)
    if c.strides[0] == 1 and c.strides[1] != 1 and bias is None:
        return transposed(gemm_sm80(B, A, _swapped(C), activation=activation, alpha=alpha, beta=beta, config=config)) \
            if len(c.shape) == 2 else C
    M, K, N, batches = *a.shape[:2], b.shape[0], c.shape[2] if len(c.shape) == 3 else 1
    if M == 0 or N == 0 or batches == 0:
        return C
    config = config or choose(M, N, K, batches, a.dtype)
    plan = make_plan(config, a.dtype, c.dtype, _major(a, M, K), _major(b, N, K),
                     (M % config.bM != 0, N % config.bN != 0, K % config.bK != 0), _stores(c, N),
                     len(c.shape) == 3, Epilogue(alpha != 1, beta != 0, bias is not None, activation))
    grid = (-(-M // config.bM) * -(-N // config.bN), batches)
    gemm_sm80_kernel[grid, config.threads](A, B, C, bias, float(alpha), float(beta), plan)
    return C


def _swapped(x: Any) -> Any:
    return transposed(x)


def _check(a: Any, b: Any, c: Any, activation: str) -> None:
    for name, info in (("A", a), ("B", b), ("C", c)):
        if info is None or len(info.shape) not in (2, 3):
            found = "no array" if info is None else tuple(info.shape)
            raise mo.ArgumentError(f"gemm_sm80: {name} must be a matrix or a batch of them, not {found}")
    if a.dtype != b.dtype:
        raise mo.ArgumentError(f"gemm_sm80: A holds {a.dtype} and B {b.dtype}; they must be the same")
    instruction(a.dtype)
    if a.shape[1] != b.shape[1] or c.shape[:2] != (a.shape[0], b.shape[0]) or len({x.shape[2:] for x in (a, b, c)}) > 1:
        raise mo.ArgumentError(f"gemm_sm80: A {tuple(a.shape)}, B {tuple(b.shape)} and C {tuple(c.shape)} are not "
                               f"(M, K), (N, K) and (M, N), each with the same batch mode or none")
    if activation not in ("none", "relu", "gelu", "silu"):
        raise mo.ArgumentError(f'gemm_sm80: activation={activation!r} is none of "none", "relu", "gelu", "silu"')


def _major(info: Any, rows: int, K: int) -> str:
    """How an operand is copied: "k" or "mn" 16 bytes along what is contiguous, or "element"."""
    quad = 16 // info.dtype.bytes
    aligned = info.ptr % 16 == 0 and all(s % quad == 0 for s in info.strides if s != 1)
    if info.strides[1] == 1 and aligned and K % quad == 0:
        return "k"
    if info.strides[0] == 1 and aligned and rows % quad == 0 and info.dtype.bits == 16:
        return "mn"
    return "element"


def _stores(info: Any, N: int) -> int:
    """Elements of C per store."""
    quad = 16 // info.dtype.bytes
    aligned = info.strides[1] == 1 and info.ptr % 16 == 0 and all(s % quad == 0 for s in info.strides if s != 1)
    return quad if aligned and N % quad == 0 else 1


@functools.lru_cache(maxsize=1024)
def make_plan(config: TensorConfig, dtype: Any, out: Any, major_A: str, major_B: str,
              ragged: tuple[bool, bool, bool], vector: int, batched: bool, finish: Epilogue) -> Plan:
    """Layouts and tiled operations of one kind of problem; the same object for the same kind."""
    op = instruction(dtype)
    m, n, k = op.shape_mnk
    mma = mo.make_tiled_mma(op, mo.make_layout((config.wM, config.wN, 1)), (m * config.wM, 2 * n * config.wN, k))
    sA, copy_A = _operand(config, dtype, config.bM, major_A)
    sB, copy_B = _operand(config, dtype, config.bN, major_B)
    read_A = mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4, transpose=major_A == "mn"), dtype), mma)
    read_B = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(4, transpose=major_B == "mn"), dtype), mma)
    rows, pad = m * config.wM, 16 // out.bytes
    sC = mo.make_layout((rows, config.bN), (config.bN + pad, 1))
    across = min(config.bN // vector, config.threads)
    width = mo.UniversalCopy(mo.uint128) if vector > 1 else mo.UniversalCopy(out)
    store = mo.make_tiled_copy(mo.CopyAtom(width, out),
                               mo.make_layout((config.threads // across, across), (across, 1)), mo.make_layout((1, vector)))
    return Plan(config, sA, sB, sC, copy_A, copy_B, read_A, read_B, mma, store, ragged, batched, finish)


def _operand(config: TensorConfig, dtype: Any, rows: int, major: str) -> tuple[Any, mo.TiledCopy]:
    """Swizzled shared layout (rows, bK, stages) and the copy that fills it."""
    quad, threads, bK = 16 // dtype.bytes, config.threads, config.bK
    swizzle = mo.Swizzle(3, quad.bit_length() - 1, 3)
    line = 128 // dtype.bytes
    if major == "mn":
        atom = mo.ComposedLayout(swizzle, 0, mo.make_layout((line, 8), (1, line)))
        across = line // quad
        thr, val = mo.make_layout((across, threads // across)), mo.make_layout((quad, 1))
    else:
        atom = mo.ComposedLayout(swizzle, 0, mo.make_layout((8, line), (line, 1)))
        across = bK // quad if major == "k" else bK
        thr = mo.make_layout((threads // across, across), (across, 1))
        val = mo.make_layout((1, quad if major == "k" else 1))
    copy = mo.CpAsync(mo.uint128, cache="global") if major != "element" else mo.UniversalCopy(dtype)
    return mo.tile_to_shape(atom, (rows, bK, config.stages)), mo.make_tiled_copy(mo.CopyAtom(copy, dtype), thr, val)
