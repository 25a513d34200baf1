# ruff: noqa
"""Numbers in few bits, bytes of a compressed file, classes with operators, graphs.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
Their style is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

import moye as mo
from ports import Port, floats

# --- int8 gemm, cp.async 3 stages, ragged, per row and per column scales, bias, silu, bf16 out ------------------------
MMA8 = mo.make_tiled_mma(mo.mma.SM80_16x8x32_S32S8S8S32_TN, mo.make_layout((2, 2)), (32, 32, 32))


@mo.kernel
def int8_kernel(C, A, B, row_scale, col_scale, mma, smem, load_A, load_B, stages: mo.Constexpr = 3):
    M, N = C.shape
    K = A.shape[1]
    bM, bN, bK = 64, 64, 64
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    sA = mo.shared_array(mo.int8, mo.tile_to_shape(smem, (bM, bK, stages)))
    sB = mo.shared_array(mo.int8, mo.tile_to_shape(smem, (bN, bK, stages)))
    tiles = mo.ceil_div(K, bK)

    def load(stage, k):
        for s, g, first, rows in ((sA, A, bx * bM, M), (sB, B, by * bN, N)):
            for j in mo.static_range(2):
                r, c = (tid + 128 * j) // 4, (tid + 128 * j) % 4
                dst = mo.tile(s[r, :, stage], (16,), (c,))
                src = mo.tile(g[first + r, :], (16,), (k * 4 + c,), ragged=True)
                inside = first + r < rows and k * 64 + c * 16 < K
                mo.copyto(mo.CpAsync(mo.uint128, cache="global"), dst, src, pred=inside, zero_fill=True)

    for s in mo.static_range(stages - 1):
        if s < tiles:
            load(s, s)
        mo.cp_async_commit()
    thr = mma.get_slice(tid)
    cA, cB = load_A.get_slice(tid), load_B.get_slice(tid)
    rA, rB = thr.partition_fragment_A(sA[:, :, 0]), thr.partition_fragment_B(sB[:, :, 0])
    acc = mma.partition_fragment_C((bM, bN))
    acc.fill(0)
    read, write = 0, stages - 1
    for k in range(tiles):
        mo.cp_async_wait(stages - 2)
        mo.sync_threads()
        if k + stages - 1 < tiles:
            load(write, k + stages - 1)
        mo.cp_async_commit()
        mo.copyto(load_A, cA.retile_D(rA), cA.partition_S(sA[:, :, read]))
        mo.copyto(load_B, cB.retile_D(rB), cB.partition_S(sB[:, :, read]))
        mo.gemm(mma, rA, rB, acc)
        write = read
        read = read + 1 if read + 1 < stages else 0
    view = mo.mn_view(acc, mma)
    where = mo.mn_view(thr.partition_C(mo.identity_tensor((bM, bN))), mma)
    for i in mo.static_range(mo.size(view, 0)):
        for j in mo.static_range(mo.size(view, 1)):
            r, c = where[i, j]
            r, c = r + bx * bM, c + by * bN
            if r < M and c < N:
                v = view[i, j] * row_scale[r] * col_scale[c]
                C[r, c] = mo.silu(v).to(C.dtype)


def int8_gemm(C, A, B, rs, cs):
    ld = mo.CopyAtom(mo.LdMatrix(4), mo.int8)
    smem = mo.smem_layout_atom(mo.int8, "k", 64)
    int8_kernel[(mo.ceil_div(C.shape[0], 64), mo.ceil_div(C.shape[1], 64)), 128](
        C, A, B, rs, cs, MMA8, smem, mo.make_tiled_copy_A(ld, MMA8), mo.make_tiled_copy_B(ld, MMA8)
    )


def draw_int8(rng, n):
    M, N, K = n, n + 3, n // 2 * 16
    A, B = (rng.integers(-127, 128, (r, K)).astype(np.int8) for r in (M, N))
    rs, cs = (rng.random(k).astype(np.float32) * 1e-3 for k in (M, N))
    x = (A.astype(float) @ B.T.astype(float)) * rs[:, None] * cs
    return (np.full((M, N), np.nan, ml_dtypes.bfloat16), A, B, rs, cs), {0: x / (1 + np.exp(-x))}


# --- MX quantisation: blocks of 32 with a shared e8m0 exponent, e4m3 elements; 8 per thread ---------------------------
@mo.kernel
def mx_kernel(q, scales, x):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    gX = mo.tile(x, (8,), (i,), ragged=True)
    gQ = mo.tile(q, (8,), (i,), ragged=True)
    cX = mo.tile(mo.identity_tensor(x.shape), (8,), (i,), ragged=True)
    ok = mo.elem_less(cX, x.shape)
    r = mo.make_fragment_like(gX)
    mo.copyto(r, gX, pred=ok, other=0.0)
    f = r.to(mo.float32)
    top = mo.warp_reduce(mo.abs(f).reduce("max"), "max", width=4)
    bits = top.bitcast(mo.uint32)
    e = int(bits >> 23 & 0xFF) - 8
    e = min(max(e, 0), 254)
    factor = (mo.uint32(254 - e) << 23).bitcast(mo.float32)
    mo.copyto(gQ, (f * factor).to(mo.float8_e4m3fn), pred=ok)
    if i % 4 == 0 and i * 8 < mo.size(x):
        scales[i // 4] = e.to(mo.uint8)


def mx(q, scales, x):
    mx_kernel[-(-x.shape[0] // 1024), 128](q, scales, x)


def draw_mx(rng, n):
    x = (floats(rng, 32 * n + 5) * np.exp2(rng.integers(-20, 20, 32 * n + 5))).astype(ml_dtypes.bfloat16)
    pad = np.zeros(32 * (n + 1))
    pad[: len(x)] = x.astype(float)
    b = pad.reshape(-1, 32)
    top = abs(b).max(1)
    e = np.floor(np.log2(top)).astype(int) + 127 - 8
    qv = (
        np.clip(b / np.exp2(e - 127.0)[:, None], -448, 448)
        .astype(ml_dtypes.float8_e4m3fn)
        .astype(float)
        .reshape(-1)[: len(x)]
    )
    return (np.zeros(len(x), ml_dtypes.float8_e4m3fn), np.zeros(n + 1, np.uint8), x), {0: qv, 1: e}


# --- NF4: nearest of 16 levels among constants, two in a byte, and back by a table in shared memory --------------------
NF4 = (
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.39491749,
    -0.28444138,
    -0.18477343,
    -0.09105004,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
)


@mo.jit
def nearest(v):
    at = 0
    for k in mo.static_range(15):
        at += v > (NF4[k] + NF4[k + 1]) / 2
    return at


@mo.kernel
def nf4_kernel(packed, absmax, back, x, block: mo.Constexpr = 64):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    table = mo.shared_array(mo.float32, 16)
    for k, level in enumerate(NF4):
        if tid == k:
            table[k] = level
    mo.sync_threads()
    i = b * block + 2 * tid
    pair = [x[i + j] if i + j < mo.size(x) else 0.0 for j in (0, 1)]
    top = mo.warp_reduce(max(abs(pair[0]), abs(pair[1])), "max")
    lo, hi = (nearest(v / top) for v in pair)
    byte = (hi << 4 | lo).to(mo.uint8)
    if tid == 0:
        absmax[b] = top
    if i < mo.size(x):
        packed[i // 2] = byte
        back[i] = table[byte & 15] * top
        if i + 1 < mo.size(x):
            back[i + 1] = table[byte >> 4] * top


def nf4(packed, absmax, back, x):
    nf4_kernel[-(-x.shape[0] // 64), 32](packed, absmax, back, x)


def draw_nf4(rng, n):
    x = floats(rng, 17 * n)
    L = len(x)
    pad = np.zeros(-(-L // 64) * 64)
    pad[:L] = x
    b = pad.reshape(-1, 64)
    top = abs(b).max(1)
    lv = np.array(NF4)
    idx = np.searchsorted((lv[1:] + lv[:-1]) / 2, (b / top[:, None]).ravel())[:L]
    idx2 = np.append(idx, 7) if L % 2 else idx
    return (np.zeros(-(-L // 2), np.uint8), np.zeros(len(top), np.float32), np.full(L, np.nan, np.float32), x), {
        0: idx2[::2] | idx2[1::2] << 4,
        1: top,
        2: lv[idx] * np.repeat(top, 64)[:L],
    }


# --- stochastic rounding Lion in bf16 ---------------------------------------------------------------------------------
@dataclass
class Lion:
    lr: float = 1e-2
    b1: float = 0.9
    b2: float = 0.99
    decay: float = 0.1


@mo.jit
def stochastic(v, noise):
    bits = v.bitcast(mo.uint32) + (noise & 0xFFFF)
    return (bits & 0xFFFF0000).bitcast(mo.float32).to(mo.bfloat16)


@mo.kernel
def lion_kernel(p, m, g, opt: Lion, seed: mo.uint64):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    words = mo.philox(seed, i)
    for j, w in enumerate(words):
        k = 4 * i + j
        if k >= mo.size(p):
            return
        gj, mj = g[k].to(mo.float32), m[k]
        u = opt.b1 * mj + (1 - opt.b1) * gj
        pk = float(p[k])
        sign = 1 if u > 0 else -1 if u < 0 else 0
        p[k] = stochastic(pk - opt.lr * (sign + opt.decay * pk), w)
        m[k] = opt.b2 * mj + (1 - opt.b2) * gj


def lion(p, m, g):
    lion_kernel[-(-p.shape[0] // 512), 128](p, m, g, Lion(), 1234)


def draw_lion(rng, n):
    p = floats(rng, 40 * n + 3).astype(ml_dtypes.bfloat16)
    m, g = floats(rng, len(p)), floats(rng, len(p)).astype(ml_dtypes.bfloat16)
    P, M, G = p.astype(float), m.astype(float), g.astype(float)
    return (p, m, g), {1: 0.99 * M + 0.01 * G, 0: P - 1e-2 * (np.sign(0.9 * M + 0.1 * G) + 0.1 * P)}


# --- dual numbers, a class with operators: Newton's method ------------------------------------------------------------
class Dual:
    def __init__(self, v, d=0.0):
        self.v, self.d = v, d

    @staticmethod
    def lift(o):
        return o if isinstance(o, Dual) else Dual(o)

    def __add__(self, o):
        o = self.lift(o)
        return Dual(self.v + o.v, self.d + o.d)

    __radd__ = __add__

    def __sub__(self, o):
        o = self.lift(o)
        return Dual(self.v - o.v, self.d - o.d)

    def __mul__(self, o):
        o = self.lift(o)
        return Dual(self.v * o.v, self.v * o.d + self.d * o.v)

    __rmul__ = __mul__

    def __pow__(self, k):
        return self * self ** (k - 1) if k > 1 else self

    def exp(self):
        e = mo.exp(self.v)
        return Dual(e, e * self.d)


def polynomial(x, a):
    return x**3 - a * x + Dual.exp(x * -0.5) * 2


@mo.kernel
def newton_kernel(root, turns, a, tol: float = 1e-6):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if not i < mo.size(a):
        return
    x, k = 3.0, 0
    while k < 50:
        f = polynomial(Dual(x, 1.0), a[i])
        x -= (step := f.v / f.d)
        k += 1
        if abs(step) < tol * (1 + abs(x)):
            break
    root[i], turns[i] = x, k


def newton(root, turns, a):
    newton_kernel[-(-a.shape[0] // 64), 64](root, turns, a)


def draw_newton(rng, n):
    a = rng.random(n).astype(np.float32) * 4 + 3
    x = np.full(n, 3.0)
    for _ in range(60):
        f = x**3 - a * x + 2 * np.exp(-x / 2)
        d = 3 * x * x - a - np.exp(-x / 2)
        x = x - f / d
    return (np.full(n, np.nan, np.float32), np.zeros(n, np.int32), a), {0: x}


# --- LZ4 block decode, a thread per block, bytes ----------------------------------------------------------------------
@mo.jit
def read_length(src, at, base):
    n = base
    if base == 15:
        while True:
            b = int(src[at])
            at += 1
            n += b
            if b != 255:
                break
    return n, at


@mo.kernel
def lz4_kernel(dst, lengths, src, offsets):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i >= mo.size(lengths):
        return
    at, end, out = offsets[i], offsets[i + 1], 0
    while at < end:
        token = src[at]
        at += 1
        literals, at = read_length(src, at, int(token >> 4))
        for k in range(literals):
            dst[i, out + k] = src[at + k]
        at += literals
        out += literals
        if at >= end:
            break
        back = int(src[at]) | int(src[at + 1]) << 8
        match_len, at = read_length(src, at + 2, int(token & 15))
        for _ in range(match_len + 4):
            dst[i, out] = dst[i, out - back]
            out += 1
    lengths[i] = out


def lz4(dst, lengths, src, offsets):
    lz4_kernel[-(-lengths.shape[0] // 32), 32](dst, lengths, src, offsets)


def lz4_encode(rng):
    out, plain = bytearray(), bytearray()

    def ext(n):
        r = []
        if n >= 15:
            n -= 15
            while n >= 255:
                r.append(255)
                n -= 255
            r.append(n)
        return r

    for last in [0] * int(rng.integers(1, 5)) + [1]:
        lit = bytes(rng.integers(0, 256, int(rng.choice([1, 3, 14, 15, 16, 300]))).astype(np.uint8))
        plain += lit
        m = int(rng.choice([0, 3, 10, 11, 12, 280]))
        out.append(min(len(lit), 15) << 4 | (0 if last else min(m, 15)))
        out += bytes(ext(len(lit)))
        out += lit
        if not last:
            back = int(rng.integers(1, min(len(plain), 65535) + 1))
            out += bytes([back & 255, back >> 8])
            out += bytes(ext(m))
            for _ in range(m + 4):
                plain.append(plain[-back])
    return bytes(out), bytes(plain)


def draw_lz4(rng, n):
    pairs = [lz4_encode(rng) for _ in range(n)]
    off = np.concatenate([[0], np.cumsum([len(a) for a, _ in pairs])]).astype(np.int32)
    src = np.frombuffer(b"".join(a for a, _ in pairs), np.uint8).copy()
    w = max(len(b) for _, b in pairs)
    want = np.zeros((n, w))
    for k, (_, b) in enumerate(pairs):
        want[k, : len(b)] = np.frombuffer(b, np.uint8)
    return (np.zeros((n, w), np.uint8), np.zeros(n, np.int32), src, off), {
        0: want,
        1: np.array([len(b) for _, b in pairs]),
    }


# --- bfs with frontier queues, warp-aggregated atomics, one grid launch per level, and cooperative --------------------
@mo.kernel
def bfs_kernel(level, frontier, counts, starts, edges):
    tid = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    threads = mo.grid_dim().x * mo.block_dim().x
    lane = mo.lane_idx()
    depth, cur = 0, 0
    while counts[cur % 3] > 0:
        n = counts[cur % 3]
        if tid == 0:
            counts[(cur + 2) % 3] = 0
        src, dst = cur % 2, (cur + 1) % 2
        for base in range(0, n, threads):
            k = base + tid
            begin, end = (starts[frontier[k, src]], starts[frontier[k, src] + 1]) if k < n else (0, 0)
            while mo.vote_any(begin < end):
                found, v = False, -1
                if begin < end:
                    v = edges[begin]
                    found = mo.atomic_cas(level, v, -1, depth + 1) == -1
                    begin += 1
                mask = mo.ballot(found)
                if mask != 0:
                    leader = mo.ffs(mask) - 1
                    slot = 0
                    if lane == leader:
                        slot = mo.atomic_add(counts, (cur + 1) % 3, mo.popcount(mask))
                    slot = mo.shuffle_idx(slot, leader)
                    if found:
                        frontier[slot + mo.popcount(mask & ((1 << lane) - 1)), dst] = v
        mo.grid_sync()
        depth += 1
        cur += 1


def bfs(level, frontier, counts, starts, edges):
    bfs_kernel[2, 64](level, frontier, counts, starts, edges)


def draw_bfs(rng, n):
    deg = rng.integers(0, 5, n)
    starts = np.concatenate([[0], deg.cumsum()]).astype(np.int32)
    edges = rng.integers(0, n, starts[-1]).astype(np.int32)
    lev = np.full(n, -1)
    lev[0] = 0
    q = [0]
    for u in q:
        for v in edges[starts[u] : starts[u + 1]]:
            if lev[v] < 0:
                lev[v] = lev[u] + 1
                q.append(v)
    l0 = np.full(n, -1, np.int32)
    l0[0] = 0
    return (l0, np.zeros((n, 2), np.int32), np.array([1, 0, 0], np.int32), starts, edges), {0: lev}


# --- union find connected components ----------------------------------------------------------------------------------
@mo.jit
def find(parent, i):
    while (p := mo.load(parent, i, order="relaxed")) != i:
        i = p
    return i


@mo.kernel
def union_kernel(parent, us, vs):
    e = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if e >= mo.size(us):
        return
    u, v = find(parent, us[e]), find(parent, vs[e])
    while u != v:
        if u < v:
            u, v = v, u
        old = mo.atomic_cas(parent, u, u, v)
        if old == u:
            break
        u, v = find(parent, old), find(parent, v)


@mo.kernel
def flatten_kernel(label, parent):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i < mo.size(parent):
        label[i] = find(parent, i)


def components(label, parent, us, vs):
    union_kernel[-(-us.shape[0] // 64), 64](parent, us, vs)
    flatten_kernel[-(-parent.shape[0] // 64), 64](label, parent)


def draw_cc(rng, n):
    us, vs = rng.integers(0, n, (2, n * 2 // 3)).astype(np.int32)
    p = list(range(n))

    def f(i):
        while p[i] != i:
            i = p[i]
        return i

    for u, v in zip(us, vs):
        a, b = f(u), f(v)
        if a != b:
            p[max(a, b)] = min(a, b)
    return (np.full(n, -1, np.int32), np.arange(n, dtype=np.int32), us, vs), {0: np.array([f(i) for i in range(n)])}


PORTS = (
    Port("int8 gemm", int8_gemm, draw_int8, tolerance=5e-3, large=300),
    Port("mx blocks", mx, draw_mx),
    Port("nf4", nf4, draw_nf4),
    Port("lion", lion, draw_lion, tolerance=2e-2),
    Port("newton", newton, draw_newton, tolerance=2e-3),
    Port("lz4", lz4, draw_lz4, large=200),
    Port("breadth first", bfs, draw_bfs),
    Port("components", components, draw_cc),
)
