"""Kernels that newcomers write: rays, trees, springs, fluids, filters, and streams that pipelines bring."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass

import numpy as np

import moye as mo
from ports import Port, floats

# --- rays and triangles (Moeller and Trumbore), with a class of vectors -----------------------------------------------


@dataclass(frozen=True)
class Vector:
    x: object
    y: object
    z: object

    def __sub__(self, o):
        return Vector(self.x - o.x, self.y - o.y, self.z - o.z)

    def __matmul__(self, o):
        return self.x * o.x + self.y * o.y + self.z * o.z

    def cross(self, o):
        return Vector(self.y * o.z - self.z * o.y, self.z * o.x - self.x * o.z, self.x * o.y - self.y * o.x)


@mo.jit
def hit(origin, direction, triangle, farthest):
    """(distance, True), or (farthest, False)."""
    a, b, c = triangle
    e1, e2 = b - a, c - a
    p = direction.cross(e2)
    det = e1 @ p
    if abs(det) < 1e-8:
        return farthest, False
    s = origin - a
    u = (s @ p) / det
    if u < 0 or u > 1:
        return farthest, False
    q = s.cross(e1)
    v = (direction @ q) / det
    if not 0 <= v <= 1 - u:
        return farthest, False
    t = (e2 @ q) / det
    return (t, True) if 0 < t < farthest else (farthest, False)


@mo.kernel
def rays_kernel(which, origins, directions, triangles):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i >= which.shape[0]:
        return
    origin, direction = (Vector(*(a[i, k] for k in range(3))) for a in (origins, directions))
    best, found = mo.float32(math.inf), -1
    for j in range(triangles.shape[0]):
        corners = tuple(Vector(*[triangles[j, v, k] for k in range(3)]) for v in range(3))
        best, ok = hit(origin, direction, corners, best)
        if ok:
            found = j
    which[i] = found


def rays(which, origins, directions, triangles):
    rays_kernel[mo.ceil_div(len(which), 32), 32](which, origins, directions, triangles)


def draw_rays(rng, n):
    origins, directions, triangles = floats(rng, n, 3), floats(rng, n, 3), floats(rng, n % 9 + 1, 3, 3)
    which, depth = np.full(n, -1), np.full(n, np.inf)
    for j, (a, b, c) in enumerate(triangles.astype(np.float64)):
        ways = np.stack([-directions, *np.broadcast_arrays(b - a, c - a, directions)[:2]], 2)
        t, u, v = np.linalg.solve(ways, (origins - a)[..., None])[..., 0].T
        hits = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0) & (t < depth)
        which[hits], depth[hits] = j, t[hits]
    return (np.full(n, -9, np.int32), origins, directions, triangles), {0: which}


# --- Kalman filters, a thread for each, whose matrices are tuples of Python -------------------------------------------


def product(A, B):
    return tuple(tuple(functools.reduce(operator.add, (a * b for a, b in zip(row, column, strict=True)))
                       for column in zip(*B, strict=True)) for row in A)


def total(A, B, sign=1):
    return tuple(tuple(a + sign * b for a, b in zip(p, q, strict=True)) for p, q in zip(A, B, strict=True))


@mo.kernel
def kalman_kernel(out, z, dt: float, q: float = 0.1, r: float = 0.5):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < z.shape[1]:
        F, noise, H = ((1.0, dt), (0.0, 1.0)), ((q, 0.0), (0.0, q)), ((1.0, 0.0),)
        x, P = ((0.0,), (0.0,)), ((1.0, 0.0), (0.0, 1.0))
        for t in range(z.shape[0]):
            x, P = product(F, x), total(product(product(F, P), tuple(zip(*F, strict=True))), noise)
            certain = product(product(H, P), tuple(zip(*H, strict=True)))[0][0] + r
            gain = tuple((p[0] / certain,) for p in P)
            surprise = z[t, i] - x[0][0]
            x = total(x, tuple((g[0] * surprise,) for g in gain))
            P = total(P, product(product(gain, H), P), sign=-1)
            out[t, i, 0], out[t, i, 1] = x[0][0], x[1][0]


def kalman(out, z):
    kalman_kernel[mo.ceil_div(z.shape[1], 32), 32](out, z, np.float64(0.25), r=np.float16(0.5))


def draw_kalman(rng, n):
    z, F, wanted = floats(rng, 7, n), np.array([[1, 0.25], [0, 1]]), np.zeros((7, n, 2))
    x, P = np.zeros((n, 2)), np.eye(2)
    for t in range(7):
        x, P = x @ F.T, F @ P @ F.T + 0.1 * np.eye(2)
        gain = P[:, 0] / (P[0, 0] + 0.5)
        x, P = x + (z[t] - x[:, 0])[:, None] * gain, P - np.outer(gain, P[0])
        wanted[t] = x
    return (np.full((7, n, 2), np.nan, np.float32), z), {0: wanted}


# --- forces of a tree of masses, by a stack for each thread (Barnes and Hut) ------------------------------------------


@mo.kernel
def tree_kernel(out, points, centre, mass, size, theta: float = 0.5):
    tid = mo.thread_idx().x
    i, nodes = mo.block_idx().x * 32 + tid, mo.size(mass)
    stack = mo.shared_array(mo.int16, (16, 32))
    if i >= mo.size(out):
        return
    x, force, depth = points[i], mo.float32(0), 1
    stack[0, tid] = 0
    while depth > 0:
        depth -= 1
        node = mo.int32(stack[depth, tid])
        d = centre[node] - x
        if 2 * node + 1 >= nodes or size[node] < theta * abs(d):
            force += mass[node] * d / (abs(d) ** 3 + 0.01)
            continue
        for child in (2 * node + 1, 2 * node + 2):
            if mass[child] != 0:
                stack[depth, tid] = child
                depth += 1
    out[i] = force


def tree(out, *of):
    tree_kernel[mo.ceil_div(len(out), 32), 32](out, *of)


def draw_tree(rng, n):
    count = 63
    mass, centre = np.zeros(count, np.float32), np.zeros(count, np.float32)
    mass[31:], centre[31:] = rng.integers(0, 3, 32), np.sort(floats(rng, 32))
    low, high = centre.copy(), centre.copy()
    for k in range(30, -1, -1):
        a, b = 2 * k + 1, 2 * k + 2
        mass[k], low[k], high[k] = mass[a] + mass[b], min(low[a], low[b]), max(high[a], high[b])
        centre[k] = (mass[a] * centre[a] + mass[b] * centre[b]) / mass[k] if mass[k] else 0
    points, size, wanted = floats(rng, n), high - low, np.zeros(n)
    for i, x in enumerate(points):
        stack = [0]
        while stack:
            k = stack.pop()
            d = centre[k] - x
            if 2 * k + 1 >= count or size[k] < np.float32(0.5) * abs(d):
                wanted[i] += float(mass[k]) * float(d) / (abs(float(d)) ** 3 + 0.01)
            else:
                stack += [child for child in (2 * k + 1, 2 * k + 2) if mass[child]]
    return (np.full(n, np.nan, np.float32), points, centre, mass, size), {0: wanted}


# --- springs of a cloth: forces are added up by atomics (Warp) --------------------------------------------------------


@dataclass
class Springs:
    i: object
    j: object
    rest: object
    k: float = 10.0


@mo.jit
def pulled(x, springs, e):
    a, b = springs.i[e], springs.j[e]
    d = [x[b, c] - x[a, c] for c in range(3)]
    length = mo.sqrt(sum(v * v for v in d))
    return a, b, [springs.k * (length - springs.rest[e]) / max(length, 1e-6) * v for v in d]


@mo.kernel
def springs_kernel(force, x, springs):
    e = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if e < mo.size(springs.i):
        a, b, pull = pulled(x, springs, e)
        for c, v in enumerate(pull):
            mo.atomic_add(force, (a, c), v)
            mo.atomic_add(force, (b, c), -v)


def springs(force, x, i, j, rest):
    springs_kernel[mo.ceil_div(len(i), 96), 96](force, x, Springs(i, j, rest))


def draw_springs(rng, n):
    x, rest = floats(rng, n + 1, 3), rng.uniform(0.5, 2, 2 * n).astype(np.float32)
    i, j = rng.integers(0, n + 1, (2, 2 * n)).astype(np.int16)
    d, wanted = x[j].astype(np.float64) - x[i], np.zeros((n + 1, 3))
    length = np.sqrt((d ** 2).sum(1))
    pull = (10 * (length - rest) / np.maximum(length, 1e-6))[:, None] * d
    np.add.at(wanted, i, pull)
    np.add.at(wanted, j, -pull)
    return (np.zeros((n + 1, 3), np.float32), x, i, j, rest), {0: wanted}


# --- a fluid on a grid with nine directions (lattice Boltzmann) -------------------------------------------------------

CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)


@mo.kernel
def fluid_kernel(new, old, omega: mo.float32):
    y, x = mo.block_idx().y, mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    H, W = old.shape[1:]
    if x >= W:
        return
    f = [old[q, (y - CY[q]) % H, (x - CX[q]) % W] for q in range(9)]
    rho = sum(f)
    ux, uy = (sum(c * v for c, v in zip(cs, f, strict=True)) / rho for cs in (CX, CY))
    for q, (cx, cy, w, v) in enumerate(zip(CX, CY, WEIGHTS, f, strict=True)):
        cu = 3 * (cx * ux + cy * uy)
        new[q, y, x] = v + omega * (w * rho * (1 + cu + cu * cu / 2 - 1.5 * (ux ** 2 + uy ** 2)) - v)


def fluid(new, old):
    fluid_kernel[(mo.ceil_div(old.shape[2], 32), old.shape[1]), 32](new, old, 1)


def draw_fluid(rng, n):
    old = rng.uniform(0.1, 1, (9, n // 8 + 2, n // 3 + 2)).astype(np.float32)
    moved = np.stack([np.roll(old[q].astype(np.float64), (CY[q], CX[q]), (0, 1)) for q in range(9)])
    rho = moved.sum(0)
    ux, uy = (np.tensordot(c, moved, 1) / rho for c in (CX, CY))
    cu = 3 * (np.multiply.outer(CX, ux) + np.multiply.outer(CY, uy))
    wanted = np.multiply.outer(WEIGHTS, rho) * (1 + cu + cu * cu / 2 - 1.5 * (ux ** 2 + uy ** 2))
    return (np.full_like(old, np.nan), old), {0: wanted}


# --- pairs of charges in a periodic box, in float64; their number is an array without modes ---------------------------


@mo.kernel
def charges_kernel(energy, pairs, at, charge, box: float, cutoff: float = 0.45):
    tid = mo.thread_idx().x
    i, n = mo.block_idx().x * 64 + tid, mo.size(charge)
    others = mo.shared_array(mo.float32, (4, 64))
    found, count = mo.float64(0), mo.int64(0)
    me = [at[i, c] if i < n else 0.0 for c in range(3)]
    for first in range(0, n, 64):
        for c in range(3):
            others[c, tid] = at[first + tid, c] if first + tid < n else 0.0
        others[3, tid] = charge[first + tid] if first + tid < n else 0.0
        mo.sync_threads()
        for k in range(min(64, n - first) if i < n else 0):
            if first + k == i:
                continue
            d = [me[c] - others[c, k] for c in range(3)]
            r2 = sum((v - box * mo.round(v / box)) ** 2 for v in d)
            if r2 < cutoff ** 2:
                r = mo.sqrt(r2)
                found += mo.float64(charge[i] * others[3, k] * mo.erfc(3 * r) / r)
                count += 1
        mo.sync_threads()
    if i < n:
        energy[i] = found / 2
        mo.atomic_add(pairs, (), count)


def charges(energy, pairs, at, charge):
    charges_kernel[mo.ceil_div(len(charge), 64), 64](energy, pairs, at, charge, 1.0)


def draw_charges(rng, n):
    at = (rng.permutation(16 ** 3)[:n, None] // [1, 16, 256] % 16 / 16 + rng.random((n, 3)) / 64).astype(np.float32)
    charge, erfc = floats(rng, n), np.vectorize(math.erfc, otypes=[float])
    d = at[:, None].astype(np.float64) - at
    r = np.sqrt(((d - np.round(d)) ** 2).sum(-1)) + 9 * np.eye(n)
    wanted = np.where(r < 0.45, charge[:, None].astype(np.float64) * charge * erfc(3 * r) / r, 0).sum(1) / 2
    return (np.full(n, np.nan), np.zeros((), np.int64), at, charge), {0: wanted}


# --- what is positive, in order, in one pass with look-back -----------------------------------------------------------


@mo.kernel
def positive_kernel(out, total, x, words):
    """A block's word: 1 and its own count, or 2 and that of all up to it; the upper half says which."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    i = bid * 128 + tid
    scratch, base = mo.shared_array(mo.int32, 4), mo.shared_array(mo.int32, ())
    keep = False
    if i < mo.size(x):
        keep = x[i] > 0
    rank = mo.block_scan(int(keep), scratch, inclusive=False)
    count = mo.block_reduce(int(keep), scratch, "sum")
    if tid == 0:
        before, j = 0, bid - 1
        if bid > 0:
            mo.store(words, bid, (mo.int64(1) << 32) | count.to(mo.int64))
        while j >= 0:
            word = mo.load(words, j)
            if word >> 32 == 0:
                continue
            before += (word & 0xFFFFFFFF).to(mo.int32)
            if word >> 32 == 2:
                break
            j -= 1
        mo.store(words, bid, (mo.int64(2) << 32) | (before + count).to(mo.int64))
        base[()] = before
        if bid == mo.grid_dim().x - 1:
            total[()] = before + count
    mo.sync_threads()
    if keep:
        out[base[()] + rank] = x[i]


def positive(out, total, x, words):
    positive_kernel[mo.ceil_div(len(x), 128), 128](out, total, x, words)


def draw_positive(rng, n):
    x = floats(rng, n)
    kept = x[x > 0]
    wanted = np.concatenate([kept, np.full(n - len(kept), -7.0)])
    arguments = np.full(n, -7, np.float32), np.array(-1, np.int32), x, np.zeros(-(-n // 128), np.int64)
    return arguments, {0: wanted, 1: np.array(len(kept))}


# --- rows times a vector: three stages of cp.async in a warp, with zeros behind the end -------------------------------


@mo.kernel
def rows_kernel(y, A, x, stages: mo.Constexpr = 3):
    tid, row, K = mo.thread_idx().x, mo.block_idx().x, A.shape[1]
    ring = mo.shared_array(A.dtype, (128, stages))
    steps = mo.ceil_div(K, 128)

    @mo.jit
    def fetch(k):
        if k < steps:
            gA, cA = (mo.tile(t, (4,), (k * 32 + tid,), ragged=True) for t in (A[row, None], mo.identity_tensor((K,))))
            mo.copyto(mo.CpAsync(mo.uint128), mo.tile(ring[:, k % stages], (4,), (tid,)), gA,
                      pred=mo.elem_less(cA[0], (K,)), zero_fill=True)
        mo.cp_async_commit()

    for s in mo.static_range(stages - 1):
        fetch(s)
    found = 0.0
    for k in range(steps):
        mo.cp_async_wait(stages - 2)
        mo.sync_warp()
        fetch(k + stages - 1)
        for j in range(tid, 128, 32):
            if k * 128 + j < K:
                found += ring[j, k % stages] * x[k * 128 + j]
        mo.sync_warp()
    found = mo.warp_reduce(found, "add")
    if tid == 0:
        y[row] = found


def rows(y, A, x):
    rows_kernel[A.shape[0], 32](y, A, x)


def draw_rows(rng, n):
    A, x = floats(rng, n % 7 + 1, 4 * n), floats(rng, 4 * n)
    return (np.full(len(A), np.nan, np.float32), A, x), {0: A.astype(np.float64) @ x}


PORTS = (Port("rays", rays, draw_rays), Port("Kalman", kalman, draw_kalman),
         Port("tree of masses", tree, draw_tree, tolerance=1e-3),
         Port("springs", springs, draw_springs, tolerance=1e-3), Port("fluid", fluid, draw_fluid),
         Port("charges", charges, draw_charges, large=500), Port("positive in order", positive, draw_positive),
         Port("rows by cp.async", rows, draw_rows, tolerance=1e-3))
