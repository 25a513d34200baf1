"""Programs of Triton, TileLang, FLA, vLLM, bitsandbytes and CUTLASS around models: attention, products, optimizers.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import moye as mo
from ports import Port, floats

# --- retention by chunks of 32 on tensor cores (FLA, chunk_retention) -------------------------------------------------

TF32 = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.make_layout((2, 2)))
CHUNK = 32


@mo.kernel
def retention_kernel(out, q, k, v, decay, mma):
    """A block has a head.  The state (value, key) is in accumulators, and in shared memory as an operand."""
    tid, head = mo.thread_idx().x, mo.block_idx().x
    rows = mo.make_layout((CHUNK, CHUNK), (CHUNK + 4, 1))
    sQ, sK, sKT, sVT, sP, sS = (mo.shared_array(mo.tfloat32, rows) for _ in range(6))       # (32, 32)
    thr, rate = mma.get_slice(tid), mo.log2(decay[head])
    cP = thr.partition_C(mo.identity_tensor((CHUNK, CHUNK)))                                # (MMA, MMA_M, MMA_N)
    state = mma.partition_fragment_C((CHUNK, CHUNK))
    state.fill(0)

    def product(acc, A, B):
        a, b = thr.partition_fragment_A(A), thr.partition_fragment_B(B)
        mo.copyto(a, thr.partition_A(A))
        mo.copyto(b, thr.partition_B(B))
        mo.gemm(mma, a, b, acc)

    for chunk in range(mo.size(q, 1) // CHUNK):
        mo.copyto(thr.partition_C(sS), state)
        for i in range(tid, CHUNK * CHUNK, 128):
            row, d = i // CHUNK, i % CHUNK
            sQ[row, d], key = q[head, chunk * CHUNK + row, d], k[head, chunk * CHUNK + row, d]
            sK[row, d], sKT[d, row] = key, key * mo.exp2(rate * (CHUNK - 1 - row))
            sVT[d, row] = v[head, chunk * CHUNK + row, d]
        mo.sync_threads()
        P, result = mma.partition_fragment_C((CHUNK, CHUNK)), mma.partition_fragment_C((CHUNK, CHUNK))
        P.fill(0)
        result.fill(0)
        product(P, sQ, sK)
        product(result, sQ, sS)
        for i in mo.static_range(mo.size(P)):
            row, column = cP[i]
            P[i] = P[i] * mo.exp2(rate * (row - column)) if row >= column else 0.0
            result[i] *= mo.exp2(rate * (row + 1))
        mo.copyto(thr.partition_C(sP), P)
        mo.sync_threads()
        product(result, sP, sVT)
        mo.copyto(thr.partition_C(mo.tile(out[head, :, :], (CHUNK, CHUNK), (chunk, 0))), result)
        state *= mo.exp2(rate * CHUNK)
        product(state, sVT, sKT)
        mo.sync_threads()


def retention(out, q, k, v, decay):
    retention_kernel[q.shape[0], 128](out, q, k, v, decay, TF32)


def draw_retention(rng, size):
    heads, n = 2, 32 * (size % 3 + 1)
    q, k, v = (floats(rng, heads, n, 32) * np.float32(0.3) for _ in range(3))
    decay, wanted = np.array([0.9, 0.97], np.float32), np.zeros((heads, n, 32))
    for head in range(heads):
        state = np.zeros((32, 32))
        for t in range(n):
            state = float(decay[head]) * state + np.outer(k[head, t], v[head, t])
            wanted[head, t] = q[head, t] @ state
    return (np.zeros((heads, n, 32), np.float32), q, k, v, decay), {0: wanted}


# --- the delta rule, a column of the state in each thread's registers (FLA, fused_recurrent_delta_rule) ---------------


@mo.kernel
def delta_kernel(out, q, k, v, beta, width: mo.Constexpr):
    head, tid = mo.block_idx().x, mo.thread_idx().x
    state, key, query = (mo.fragment((width,), mo.float32) for _ in range(3))
    state.fill(0)
    for t in range(mo.size(q, 1)):
        mo.copyto(key, mo.tile(k[head, t, :], (width,), (0,)))
        mo.copyto(query, mo.tile(q[head, t, :], (width,), (0,)))
        state += key * (beta[head, t] * (v[head, t, tid] - (state * key).reduce("sum")))
        out[head, t, tid] = (state * query).reduce("sum")


def delta(out, q, k, v, beta):
    delta_kernel[q.shape[0], v.shape[2]](out, q, k, v, beta, 16)


def draw_delta(rng, n):
    q, k = (floats(rng, 2, n, 16) * np.float32(0.3) for _ in range(2))
    v, beta, wanted = floats(rng, 2, n, 32), rng.uniform(0, 1, (2, n)).astype(np.float32), np.zeros((2, n, 32))
    for head in range(2):
        state = np.zeros((16, 32))
        for t in range(n):
            key = k[head, t].astype(np.float64)
            state += np.outer(key, beta[head, t] * (v[head, t] - key @ state))
            wanted[head, t] = q[head, t] @ state
    return (np.zeros_like(v), q, k, v, beta), {0: wanted}


# --- a selective scan, a channel in each thread (Mamba) ---------------------------------------------------------------


@mo.kernel
def selective_kernel(y, u, delta, A: mo.Static, B, C, D):
    channel = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    batch, states = mo.block_idx().y, mo.size(A, 1)
    if channel >= mo.size(u, 1):
        return
    state, rate = mo.fragment((states,), mo.float32), mo.fragment((states,), mo.float32)
    state.fill(0)
    mo.copyto(rate, A[channel, :])
    for t in range(mo.size(u, 2)):
        step, x = mo.log1p(mo.exp(delta[batch, channel, t])), u[batch, channel, t]
        total = D[channel] * x
        for n in mo.static_range(states):
            state[n] = mo.exp(step * rate[n]) * state[n] + step * B[batch, n, t] * x
            total += state[n] * C[batch, n, t]
        y[batch, channel, t] = total


def selective(y, u, *rest):
    selective_kernel[(-(-u.shape[1] // 32), u.shape[0]), 32](y, u, *rest)


def draw_selective(rng, size):
    channels, steps = size, size % 13 + 4
    u, delta = floats(rng, 2, 2, channels, steps)
    A, D = -rng.uniform(0.5, 2, (channels, 4)).astype(np.float32), floats(rng, channels)
    B, C = floats(rng, 2, 2, 4, steps)
    step, state, wanted = np.log1p(np.exp(delta.astype(np.float64))), np.zeros((2, channels, 4)), np.zeros(u.shape)
    for t in range(steps):
        moved = (step[:, :, t] * u[:, :, t])[..., None] * B[:, None, :, t]
        state = np.exp(step[:, :, t, None] * A) * state + moved
        wanted[:, :, t] = (state * C[:, None, :, t]).sum(-1) + D * u[:, :, t]
    return (np.zeros_like(u), u, delta, A, B, C, D), {0: wanted}


# --- a linear recurrence by a scan with a function of one's own (Triton, associative_scan) ----------------------------


@mo.jit
def after(first, second):
    """The map x -> a x + b of one after the other."""
    return second[0] * first[0], second[0] * first[1] + second[1]


@mo.kernel
def recurrence_kernel(out, a, b):
    row, lane, n = mo.block_idx().x, mo.lane_idx(), mo.size(a, 1)
    carried = 0.0
    for first in range(0, n, 32):
        here = (a[row, first + lane], b[row, first + lane]) if first + lane < n else (1.0, 0.0)
        for step in (1, 2, 4, 8, 16):
            before = mo.shuffle_up(here[0], step), mo.shuffle_up(here[1], step)
            here = after(before, here) if lane >= step else here
        x = here[0] * carried + here[1]
        if first + lane < n:
            out[row, first + lane] = x
        carried = mo.shuffle_idx(x, 31)


def recurrence(out, a, b):
    recurrence_kernel[a.shape[0], 32](out, a, b)


def draw_recurrence(rng, n):
    a, b = rng.uniform(0.5, 1, (3, n)).astype(np.float32), floats(rng, 3, n)
    x, wanted = np.zeros(3), []
    for t in range(n):
        x = a[:, t] * x + b[:, t]
        wanted.append(x)
    return (np.zeros_like(a), a, b), {0: np.stack(wanted, 1)}


# --- gradients of layer norm's weights under locks (Triton's tutorial) ------------------------------------------------


@mo.kernel
def locked_kernel(gradient, dy, x, locks, groups: mo.Constexpr):
    """Rows of a group take turns; the first of them finds nothing, and overwrites what is there."""
    row, tid = mo.block_idx().x, mo.thread_idx().x
    group = row % groups
    if tid == 0:
        while mo.atomic_cas(locks, group, 0, 1, order="acquire") == 1:
            pass
    mo.sync_threads()
    seen = locks[groups + group]
    for j in range(tid, mo.size(x, 1), mo.block_dim().x):
        part = dy[row, j] * x[row, j]
        gradient[group, j] = part if seen == 0 else gradient[group, j] + part
    mo.sync_threads()
    if tid == 0:
        locks[groups + group] = 1
        mo.atomic_exch(locks, group, 0, order="release")


def locked(gradient, dy, x, locks):
    locked_kernel[x.shape[0], 64](gradient, dy, x, locks, 4)


def draw_locked(rng, n):
    x, dy = floats(rng, 11, n), floats(rng, 11, n)
    products = x.astype(np.float64) * dy
    wanted = np.stack([products[group::4].sum(0) for group in range(4)])
    return (np.full((4, n), np.nan, np.float32), dy, x, np.zeros(8, np.int32)), {0: wanted}


# --- Adam with states of eight bits (bitsandbytes, kOptimizerStatic8bit2StateBlockwise) -------------------------------

BLOCK = 64


@mo.kernel
def adam_kernel(p, g, states, maps, scales, rate, step):
    """A byte of each state is a place in a table of 256 numbers, times the largest of its block."""
    tid, block = mo.thread_idx().x, mo.block_idx().x
    i = block * BLOCK + tid
    inside = i < mo.size(p)
    tables, scratch = mo.shared_array(mo.float32, (256, 2)), mo.shared_array(mo.float32, 2)
    for j in range(tid, 512, BLOCK):
        tables[j // 2, j % 2] = maps[j % 2, j // 2]
    mo.sync_threads()
    gradient = g[i].to(mo.float32) if inside else 0.0
    moments = []
    for s, beta, x in ((0, 0.9, gradient), (1, 0.999, gradient * gradient)):
        old = tables[states[s, i], s] * scales[s, block] if inside else 0.0
        moments.append(old * beta + (1 - beta) * x)
    for s in mo.static_range(2):
        largest = mo.block_reduce(mo.abs(moments[s]), scratch, "max")
        if inside:
            x, low, high = moments[s] / largest, 0, 255
            while high - low > 1:
                middle = (low + high) // 2
                if tables[middle, s] <= x:
                    low = middle
                else:
                    high = middle
            states[s, i] = low if x - tables[low, s] <= tables[high, s] - x else high
        if tid == 0:
            scales[s, block] = largest
    if inside:
        root = mo.sqrt(1 - mo.pow(0.999, step))
        p[i] -= rate * root / (1 - mo.pow(0.9, step)) * moments[0] / (mo.sqrt(moments[1]) + 1e-8 * root)


def adam(p, g, states, maps, scales):
    adam_kernel[-(-p.shape[0] // BLOCK), BLOCK](p, g, states, maps, scales, 1e-3, 3.0)


def draw_adam(rng, n):
    maps = np.sort(rng.uniform(0, 1, (2, 256)).astype(np.float32), 1)
    maps[0] = 2 * maps[0] - 1
    maps[:, 255], maps[0, 0], maps[1, 0] = 1, -1, 0
    p, g, states = floats(rng, n), floats(rng, n, dtype=np.float16), rng.integers(0, 256, (2, n)).astype(np.uint8)
    block = np.arange(n) // BLOCK
    scales = rng.uniform(0.1, 1, (2, block[-1] + 1)).astype(np.float32)
    old = np.stack([maps[s].astype(np.float64)[states[s]] * scales[s, block] for s in range(2)])
    wide = g.astype(np.float64)
    new = np.stack([0.9 * old[0] + 0.1 * wide, 0.999 * old[1] + 0.001 * wide ** 2])
    largest = np.stack([[np.abs(new[s, block == b]).max() for b in range(block[-1] + 1)] for s in range(2)])
    root = np.sqrt(1 - 0.999 ** 3)
    wanted = p - 1e-3 * root / (1 - 0.9 ** 3) * new[0] / (np.sqrt(new[1]) + 1e-8 * root)
    return (p, g, states, maps, scales), {0: wanted, 4: largest}


# --- the k most likely experts of a token (vLLM, topkGatingSoftmax) ---------------------------------------------------


@mo.kernel
def experts_kernel(weights, experts, logits, each: mo.Constexpr):
    """A warp has a token, a lane ``each`` neighbours of its logits."""
    mo.assume(mo.size(logits, 1) == 32 * each)
    token, lane = mo.block_idx().x * (mo.block_dim().x // 32) + mo.warp_idx(), mo.lane_idx()
    if token >= mo.size(logits, 0):
        return
    x = mo.fragment((each,), mo.float32)
    mo.copyto(x, mo.tile(logits[token, :], (each,), (lane,)))
    x[...] = mo.exp(x - mo.warp_reduce(x.reduce("max"), "max"))
    x /= mo.warp_reduce(x.reduce("sum"))
    for k in range(mo.size(weights, 1)):
        best, at = x.argmax()
        best, at = mo.warp_reduce((best, lane * each + at), "argmax")
        if lane == 0:
            weights[token, k], experts[token, k] = best, at
        for i in mo.static_range(each):
            x[i] = -1.0 if at == lane * each + i else x[i]


def experts(weights, chosen, logits):
    experts_kernel[-(-logits.shape[0] // 2), 64](weights, chosen, logits, 4)


def draw_experts(rng, n):
    logits = rng.permutation(n * 128).reshape(n, 128).astype(np.float16) / np.float16(64 * n)
    wide = np.exp(logits.astype(np.float64))
    order = np.argsort(-logits, axis=1, kind="stable")[:, :3]
    shares = np.take_along_axis(wide / wide.sum(1, keepdims=True), order, 1)
    return (np.zeros((n, 3), np.float32), np.zeros((n, 3), np.int32), logits), {0: shares, 1: order}


# --- blocks of a product that a table names (Triton's block-sparse product) -------------------------------------------

BF16 = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32BF16BF16F32_TN, mo.make_layout((2, 2)), (32, 32, 16))
LOAD = mo.CopyAtom(mo.LdMatrix(4), mo.bfloat16)
STAGE = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.bfloat16), mo.make_layout((16, 8), (8, 1)),
                           mo.make_layout((1, 8)))
ROWS = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))


@mo.kernel
def blocks_kernel(out, A, B, where, stage, mma, load_A, load_B):
    tid, number = mo.thread_idx().x, mo.block_idx().x
    sA, sB = mo.shared_array(A.dtype, ROWS), mo.shared_array(B.dtype, ROWS)                 # (64, 64)
    gA, gB = mo.tile(A, (64, 64), (where[number, 0], None)), mo.tile(B, (64, 64), (where[number, 1], None))
    copy, thr, thr_A, thr_B = (x.get_slice(tid) for x in (stage, mma, load_A, load_B))
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)                 # (MMA, MMA_M, MMA_K)
    acc = mma.partition_fragment_C((64, 64))
    acc.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(stage, copy.partition_D(sA), copy.partition_S(gA)[..., k])
        mo.copyto(stage, copy.partition_D(sB), copy.partition_S(gB)[..., k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(load_A, thr_A.retile_D(tCrA), thr_A.partition_S(sA))
        mo.copyto(load_B, thr_B.retile_D(tCrB), thr_B.partition_S(sB))
        mo.gemm(mma, tCrA, tCrB, acc)
        mo.sync_threads()
    mo.copyto(thr.partition_C(out[number, :, :]), acc)


def blocks(out, A, B, where):
    blocks_kernel[where.shape[0], 128](out, A, B, where, STAGE, BF16, mo.make_tiled_copy_A(LOAD, BF16),
                                       mo.make_tiled_copy_B(LOAD, BF16))


def draw_blocks(rng, size):
    depth = 64 * (size % 3 + 1)
    A, B = floats(rng, 192, depth, dtype=ml_dtypes.bfloat16), floats(rng, 128, depth, dtype=ml_dtypes.bfloat16)
    where = np.array([[0, 1], [2, 0], [2, 1]], np.uint8)
    tiles = [A[64 * m:64 * m + 64].astype(np.float64) @ B[64 * n:64 * n + 64].astype(np.float64).T for m, n in where]
    return (np.zeros((3, 64, 64), np.float32), A, B, where), {0: np.stack(tiles)}


# --- products of matrices of several sizes in one launch (Triton, grouped GEMM) ---------------------------------------


@mo.kernel
def grouped_kernel(Cs, As, Bs):
    """Each product has code of its own, which the second index of a block chooses."""
    first, step = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x, mo.grid_dim().x * mo.block_dim().x
    for number, (C, A, B) in enumerate(zip(Cs, As, Bs, strict=True)):
        if mo.block_idx().y == number:
            columns = mo.size(C, 1)
            for i in range(first, mo.size(C), step):
                total = 0.0
                for k in range(mo.size(A, 1)):
                    total += A[i // columns, k] * B[k, i % columns]
                C[i // columns, i % columns] = total


def grouped(*matrices):
    Cs, As, Bs = matrices[:3], matrices[3:6], matrices[6:]
    grouped_kernel[(2, 3), 64](Cs, As, Bs)


def draw_grouped(rng, size):
    shapes = [tuple(int(x) for x in rng.integers(1, 2 + size // 3, 3)) for _ in range(3)]
    As, Bs = [floats(rng, m, k) for m, n, k in shapes], [floats(rng, k, n) for m, n, k in shapes]
    Cs = [np.zeros((m, n), np.float32) for m, n, k in shapes]
    return (*Cs, *As, *Bs), {i: A.astype(np.float64) @ B for i, (A, B) in enumerate(zip(As, Bs, strict=True))}


PORTS = [Port("retention", retention, draw_retention, tolerance=5e-3), Port("delta rule", delta, draw_delta, (17, 20)),
         Port("selective scan", selective, draw_selective), Port("recurrence", recurrence, draw_recurrence),
         Port("weights under locks", locked, draw_locked), Port("Adam of 8 bits", adam, draw_adam, tolerance=1e-5),
         Port("experts of tokens", experts, draw_experts, (3, 6), 100),
         Port("blocks of a product", blocks, draw_blocks), Port("grouped products", grouped, draw_grouped, large=200)]
