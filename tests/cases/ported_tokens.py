# ruff: noqa
"""Dynamic programs and samplers of sequence models, written as newcomers write them.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
Their style is left as it is.
"""

from __future__ import annotations

import functools
import math

import numpy as np

import moye as mo
from ports import Port, floats


# --- CTC loss (forward), a block per sequence, alphas in two shared rows ----------------------------------------------
@mo.jit
def log_add(*terms):
    top = functools.reduce(mo.max, terms)
    if top == -math.inf:
        return top
    return top + mo.log(sum(mo.exp(t - top) for t in terms))


@mo.kernel
def ctc_kernel(loss, logp, targets, in_lens, out_lens, blank: int = 0):
    b, tid, threads = mo.block_idx().x, mo.thread_idx().x, mo.block_dim().x
    T, L = in_lens[b], out_lens[b]
    S = 2 * L + 1
    row = mo.shared_array(mo.float32, (2 * 64 + 1, 2))

    def label(s):
        return targets[b, s // 2] if s % 2 else blank

    for s in range(tid, S, threads):
        row[s, 0] = logp[0, b, label(s)] if s < 2 else -math.inf
    mo.sync_threads()
    cur, nxt = 0, 1
    for t in range(1, T):
        for s in range(tid, S, threads):
            here = label(s)
            a0 = row[s, cur]
            a1 = row[s - 1, cur] if s > 0 else -math.inf
            skip = s > 1 and here != blank and here != label(s - 2)
            a2 = row[s - 2, cur] if skip else -math.inf
            row[s, nxt] = log_add(a0, a1, a2) + logp[t, b, here]
        mo.sync_threads()
        cur, nxt = nxt, cur
    if tid == 0:
        last = row[S - 1, cur]
        before = row[S - 2, cur] if L > 0 else -math.inf
        loss[b] = -log_add(last, before)


def ctc(loss, logp, targets, il, ol):
    ctc_kernel[logp.shape[1], 64](loss, logp, targets, il, ol)


def draw_ctc(rng, n):
    B, V, T = 3, 6, n
    x = floats(rng, T, B, V)
    lp = (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(np.float32)
    tg = rng.integers(1, V, (B, 12)).astype(np.int32)
    il = rng.integers(T // 2, T + 1, B).astype(np.int32)
    ol = np.array([0, 5, 12], np.int32)
    want = []
    for b in range(B):
        S = 2 * ol[b] + 1
        lab = np.zeros(S, int)
        lab[1::2] = tg[b, : ol[b]]
        a = np.full(S, -np.inf)
        a[:2] = lp[0, b, lab[:2]]
        for t in range(1, il[b]):
            new = a.copy()
            for s in range(S):
                terms = (
                    [a[s]]
                    + ([a[s - 1]] if s else [])
                    + ([a[s - 2]] if s > 1 and lab[s] and lab[s] != lab[s - 2] else [])
                )
                new[s] = np.logaddexp.reduce(terms) + lp[t, b, lab[s]]
            a = new
        want.append(-np.logaddexp.reduce(a[-2:]))
    return (np.full(B, np.nan, np.float32), lp, tg, il, ol), {0: np.array(want)}


# --- RNN-T alphas by anti-diagonals in shared memory ------------------------------------------------------------------
@mo.kernel
def rnnt_kernel(loss, blank, emit, T_of, U_of):
    b, u = mo.block_idx().x, mo.thread_idx().x
    T, U = T_of[b], U_of[b]
    alpha = mo.shared_array(mo.float32, (64, 2))
    for d in range(T + U - 1):
        t = d - u
        if u < U and 0 <= t < T:
            if t == 0 and u == 0:
                a = 0.0
            elif t == 0:
                a = alpha[u - 1, (d - 1) % 2] + emit[b, 0, u - 1]
            elif u == 0:
                a = alpha[0, (d - 1) % 2] + blank[b, t - 1, 0]
            else:
                p, q = alpha[u, (d - 1) % 2] + blank[b, t - 1, u], alpha[u - 1, (d - 1) % 2] + emit[b, t, u - 1]
                hi, lo = max(p, q), min(p, q)
                a = hi + mo.log1p(mo.exp(lo - hi))
            alpha[u, d % 2] = a
            if t == T - 1 and u == U - 1:
                loss[b] = -(a + blank[b, t, u])
        mo.sync_threads()


def rnnt(loss, *of):
    rnnt_kernel[loss.shape[0], 64](loss, *of)


def draw_rnnt(rng, n):
    B, T, U = 3, n, 20
    bl, em = -rng.random((2, B, T, U)).astype(np.float32) * 2
    Ts, Us = rng.integers(1, T + 1, B).astype(np.int32), rng.integers(1, U + 1, B).astype(np.int32)
    L = []
    for b in range(B):
        a = np.full((Ts[b], Us[b]), -np.inf)
        a[0, 0] = 0
        for t in range(Ts[b]):
            for u in range(Us[b]):
                if t:
                    a[t, u] = np.logaddexp(a[t, u], a[t - 1, u] + bl[b, t - 1, u])
                if u:
                    a[t, u] = np.logaddexp(a[t, u], a[t, u - 1] + em[b, t, u - 1])
        L.append(-(a[-1, -1] + bl[b, Ts[b] - 1, Us[b] - 1]))
    return (np.full(B, np.nan, np.float32), bl, em, Ts, Us), {0: np.array(L)}


# --- top-p with temperature, block per row: bisection on probability threshold ----------------------------------------
@mo.kernel
def top_p_kernel(token, logits, uniform, p: float = 0.9, temperature: float = 0.7):
    row, tid, V = mo.block_idx().x, mo.thread_idx().x, logits.shape[1]
    scratch = mo.shared_array(mo.float32, 4)

    def fold(f, kind):
        v = mo.float32(-math.inf if kind == "max" else 0)
        for i in range(tid, V, 128):
            v = mo.max(v, f(i)) if kind == "max" else v + f(i)
        return mo.block_reduce(v, scratch, kind)

    top = fold(lambda i: logits[row, i], "max")
    weight = lambda i: mo.exp((logits[row, i] - top) / temperature)
    z = fold(weight, "sum")
    low, high = 0.0, 1.0
    for _ in range(24):
        mid = (low + high) / 2
        if fold(lambda i: mo.where(weight(i) >= mid, weight(i), 0.0), "sum") >= p * z:
            low = mid
        else:
            high = mid
    kept = fold(lambda i: weight(i) if weight(i) >= low else 0.0, "sum")
    target = uniform[row] * kept
    sums = mo.shared_array(mo.float32, 4)
    chosen = mo.shared_array(mo.int32, 1)
    if tid == 0:
        chosen[0] = V - 1
    carry = 0.0
    for base in range(0, V, 128):
        i = base + tid
        w = 0.0
        if i < V:
            w = weight(i)
            if w < low:
                w = 0.0
        upto = mo.block_scan(w, sums) + carry
        if i < V and w > 0 and upto > target:
            mo.atomic_min(chosen, 0, i)
        carry += mo.block_reduce(w, scratch, "sum")
    mo.sync_threads()
    if tid == 0:
        token[row] = chosen[0]


def top_p(token, logits, uniform):
    top_p_kernel[logits.shape[0], 128](token, logits, uniform)


def draw_top_p(rng, n):
    logits, u = floats(rng, 7, 5 * n) * 2, (rng.random(7) * 0.98 + 0.01).astype(np.float32)
    want = []
    for r in range(7):
        w = np.exp((logits[r].astype(float) - logits[r].max()) / 0.7)
        s = np.sort(w)[::-1]
        k = np.searchsorted(s.cumsum(), 0.9 * s.sum()) + 1
        w[w < s[min(k, len(s)) - 1]] = 0
        want.append(np.searchsorted(w.cumsum(), u[r] * w.sum(), side="right"))
    return (np.full(7, -1, np.int32), logits, u), {0: np.array(want)}


# --- beam search step: k best of beams x vocab with log probs, sorted insertion lists, early exit ---------------------
@mo.kernel
def beam_kernel(scores, tokens, parents, logp, before, width: mo.Constexpr = 4):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    B, beams, V = logp.shape
    best = [(-math.inf, -1)] * width
    for i in range(tid, beams * V, 64):
        v = before[b, i // V] + logp[b, i // V, i % V]
        item = (v, i)
        for k in mo.static_range(width):
            if item[0] > best[k][0]:
                best[k], item = item, best[k]
    keys, places = mo.shared_array(mo.float32, 2), mo.shared_array(mo.int32, 2)
    for k in mo.static_range(width):
        top, at = mo.block_reduce(best[0], (keys, places), "argmax")
        if tid == 0:
            scores[b, k], tokens[b, k], parents[b, k] = top, at % V, at // V
        if best[0][1] == at:
            best = [*best[1:], (-math.inf, -1)]


def beam(scores, tokens, parents, logp, before):
    beam_kernel[logp.shape[0], 64](scores, tokens, parents, logp, before)


def draw_beam(rng, n):
    lp, be = floats(rng, 3, 4, 7 * n), floats(rng, 3, 4)
    v = (be[:, :, None] + lp).reshape(3, -1)
    o = np.argsort(-v, axis=1, kind="stable")[:, :4]
    return (np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int32), np.zeros((3, 4), np.int32), lp, be), {
        0: np.take_along_axis(v.astype(float), o, 1),
        1: o % (7 * n),
        2: o // (7 * n),
    }


# --- the first token that is one of some words ------------------------------------------------------------------------
STOPS = (13, 7, 99)


@mo.kernel
def stops_kernel(length, which, tokens):
    row = mo.block_idx().x * 32 + mo.thread_idx().x
    rows, n = tokens.shape
    if row >= rows:
        return
    at, hit = 0, -1
    while at < n and hit < 0:
        token = tokens[row, at]
        for k, stop in enumerate(STOPS):
            if token == stop:
                hit = k
                break
        at += 1
    length[row], which[row] = at, hit


def stops(length, which, tokens):
    stops_kernel[-(-tokens.shape[0] // 32), 32](length, which, tokens)


def draw_stops(rng, n):
    t = rng.integers(0, 120, (n, 40)).astype(np.int32)
    L, Wh = [], []
    for r in t:
        h = [i for i, v in enumerate(r) if v in STOPS]
        L.append(h[0] + 1 if h else 40)
        Wh.append(STOPS.index(r[h[0]]) if h else -1)
    return (np.zeros(n, np.int32), np.zeros(n, np.int32), t), {0: np.array(L), 1: np.array(Wh)}


# --- Sinkhorn, block per problem --------------------------------------------------------------------------------------
@mo.kernel
def sinkhorn_kernel(plan, cost, a, b, eps: float, iterations: mo.Constexpr = 20):
    prob, tid = mo.block_idx().x, mo.thread_idx().x
    C = cost[prob, ...]
    m, n = C.shape
    f, g = (mo.shared_array(mo.float32, 128) for _ in range(2))
    for i in range(tid, 128, mo.block_dim().x):
        f[i], g[i] = 0.0, 0.0
    mo.sync_threads()

    def half(dst, src, marg, rows, cols, at):
        for r in range(tid, rows, mo.block_dim().x):
            top = -math.inf
            for c in range(cols):
                top = max(top, (src[c] - at(r, c)) / eps)
            s = 0.0
            for c in range(cols):
                s += mo.exp((src[c] - at(r, c)) / eps - top)
            dst[r] = eps * (mo.log(marg[prob, r]) - top - mo.log(s))
        mo.sync_threads()

    for _ in range(iterations):
        half(f, g, a, m, n, lambda r, c: C[r, c])
        half(g, f, b, n, m, lambda r, c: C[c, r])
    for k in range(tid, m * n, mo.block_dim().x):
        i, j = k // n, k % n
        plan[prob, i, j] = mo.exp((f[i] + g[j] - C[i, j]) / eps)


def sinkhorn(plan, cost, a, b):
    sinkhorn_kernel[cost.shape[0], 64](plan, cost, a, b, 0.2)


def draw_sinkhorn(rng, n):
    m, k = n, n - 9
    C = rng.random((3, m, k)).astype(np.float32)
    a, b = rng.random((3, m)).astype(np.float32) + 0.1, rng.random((3, k)).astype(np.float32) + 0.1
    a /= a.sum(1, keepdims=True)
    b /= b.sum(1, keepdims=True)
    K = np.exp(-C.astype(float) / 0.2)
    v = np.ones((3, k))
    for _ in range(20):
        u = a / np.einsum("pij,pj->pi", K, v)
        v = b / np.einsum("pij,pi->pj", K, u)
    return (np.full_like(C, np.nan), C, a, b), {0: u[:, :, None] * K * v[:, None, :]}


# --- RWKV-4 wkv: a thread per channel ---------------------------------------------------------------------------------
@mo.kernel
def wkv_kernel(y, state, w, u, k, v):
    B, T, C = mo.shape(k)
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i >= B * C:
        return
    b, c = i // C, i % C
    aa, bb, pp = (state[b, c, j] for j in range(3))
    ww, uu = -mo.exp(w[c]), u[c]
    for t in range(T):
        kk, vv = k[b, t, c], v[b, t, c]
        p = max(pp, uu + kk)
        e1, e2 = mo.exp(pp - p), mo.exp(uu + kk - p)
        y[b, t, c] = (e1 * aa + e2 * vv) / (e1 * bb + e2)
        p = max(ww + pp, kk)
        e1, e2 = mo.exp(ww + pp - p), mo.exp(kk - p)
        aa, bb, pp = e1 * aa + e2 * vv, e1 * bb + e2, p
    for j, s in enumerate([aa, bb, pp]):
        state[b, c, j] = s


def wkv(y, state, w, u, k, v):
    wkv_kernel[-(-k.shape[0] * k.shape[2] // 32), 32](y, state, w, u, k, v)


def draw_wkv(rng, n):
    B, T, C = 2, n, 24
    k, v, w, u = floats(rng, B, T, C), floats(rng, B, T, C), floats(rng, C), floats(rng, C)
    st = np.zeros((B, C, 3), np.float32)
    st[..., 2] = -1e38
    Y = np.zeros((B, T, C))
    num = np.zeros((B, C))
    den = np.zeros((B, C))
    W = np.exp(-np.exp(w.astype(float)))
    for t in range(T):
        kk, vv = k[:, t].astype(float), v[:, t].astype(float)
        Y[:, t] = (num + np.exp(u + kk) * vv) / (den + np.exp(u + kk))
        num, den = W * num + np.exp(kk) * vv, W * den + np.exp(kk)
    return (np.full((B, T, C), np.nan, np.float32), st, w, u, k, v), {0: Y}


PORTS = (
    Port("ctc", ctc, draw_ctc),
    Port("rnn-t", rnnt, draw_rnnt),
    Port("top p", top_p, draw_top_p, large=300),
    Port("beam", beam, draw_beam),
    Port("stop words", stops, draw_stops),
    Port("sinkhorn", sinkhorn, draw_sinkhorn, sizes=(20, 33), large=128),
    Port("wkv", wkv, draw_wkv),
)
