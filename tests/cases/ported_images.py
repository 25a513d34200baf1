# ruff: noqa
"""Operators on images as CUDA extensions have them: padding, dilation, samples between pixels, boxes.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
Their style is left as it is.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import moye as mo
from ports import Port, floats


# --- transposed conv --------------------------------------------------------------------------------------------------
class ConvArgs(NamedTuple):
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int = 1


@mo.kernel
def conv_transpose_kernel(out, x, w, bias, p: mo.Constexpr):
    N, Ci, H, W = mo.shape(x)
    _, Cog, R, S = mo.shape(w)
    _, Co, OH, OW = mo.shape(out)
    idx = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if idx >= N * Co * OH * OW:
        return
    ow = idx % OW
    oh = idx // OW % OH
    co = idx // (OW * OH) % Co
    n = idx // (OW * OH * Co)
    g, cog = co // Cog, co % Cog
    cig = Ci // p.groups
    acc = bias[co] if bias is not None else 0.0
    for r in range(R):
        th = oh + p.padding[0] - r * p.dilation[0]
        if th < 0 or th % p.stride[0] != 0:
            continue
        ih = th // p.stride[0]
        if ih >= H:
            continue
        for s in range(S):
            tw = ow + p.padding[1] - s * p.dilation[1]
            iw, rem = divmod(tw, p.stride[1])
            if rem or not 0 <= iw < W:
                continue
            for c in range(cig):
                acc += x[n, g * cig + c, ih, iw] * w[g * cig + c, cog, r, s]
    out[n, co, oh, ow] = acc


CP = ConvArgs(stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2)


def conv_transpose(out, x, w, bias):
    conv_transpose_kernel[mo.ceil_div(out.numel() if hasattr(out, "numel") else out.size, 128), 128](
        out, x, w, bias, CP
    )


def draw_ct(rng, n):
    x, w = floats(rng, 2, 4, n // 9, 5), floats(rng, 4, 3, 3, 4)
    b = floats(rng, 6)
    H, W = x.shape[2:]
    OH, OW = (H - 1) * 2 - 2 + 2 * 2 + 1, (W - 1) * 3 - 4 + 3 + 1
    full = np.zeros((2, 6, OH + 2, OW + 4))
    for g in range(2):
        for ci in range(2):
            for co in range(3):
                for r in range(3):
                    for s in range(4):
                        full[:, g * 3 + co, r * 2 : r * 2 + (H - 1) * 2 + 1 : 2, s : s + (W - 1) * 3 + 1 : 3] += (
                            x[:, g * 2 + ci].astype(float) * w[g * 2 + ci, co, r, s]
                        )
    want = full[:, :, 1 : 1 + OH, 2 : 2 + OW] + b[:, None, None]
    return (np.full((2, 6, OH, OW), np.nan, np.float32), x, w, b), {0: want}


# --- 3d max pool with indices -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pool3d:
    kernel: tuple[int, int, int] = (3, 2, 3)
    stride: tuple[int, int, int] = (2, 1, 2)
    padding: tuple[int, int, int] = (1, 1, 0)
    dilation: tuple[int, int, int] = (1, 2, 1)

    def out(self, extents):
        return tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(extents, self.kernel, self.stride, self.padding, self.dilation)
        )


@mo.kernel
def max_pool_kernel(out, where, x, pool: Pool3d):
    planes, *extents = mo.shape(x)
    outs = mo.shape(out)[1:]
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if i < mo.size(out):
        at = []
        rest = i
        for e in reversed(outs):
            at.insert(0, rest % e)
            rest //= e
        first = [a * s - p for a, s, p in zip(at, pool.stride, pool.padding)]
        best, best_at = float("-inf"), -1
        for z in range(pool.kernel[0]):
            for y in range(pool.kernel[1]):
                for w in range(pool.kernel[2]):
                    place = [f + k * d for f, k, d in zip(first, (z, y, w), pool.dilation)]
                    if all(0 <= q < e for q, e in zip(place, extents)):
                        v = x[(rest, *place)]
                        if v > best or mo.isnan(v):
                            best = v
                            best_at = (place[0] * extents[1] + place[1]) * extents[2] + place[2]
        out[(rest, *at)] = best
        where[(rest, *at)] = best_at


def max_pool(out, where, x):
    n = int(np.prod(tuple(out.shape)))
    max_pool_kernel[-(-n // 64), 64](out, where, x, Pool3d())


def draw_pool(rng, n):
    x = floats(rng, 3, n // 8, 6, 7)
    pool = Pool3d()
    o = pool.out(x.shape[1:])
    want, at = np.full((3, *o), -np.inf), np.full((3, *o), -1)
    for idx in np.ndindex(3, *o):
        for k in np.ndindex(*pool.kernel):
            pl = [a * s - p + q * d for a, s, p, q, d in zip(idx[1:], pool.stride, pool.padding, k, pool.dilation)]
            if all(0 <= q < e for q, e in zip(pl, x.shape[1:])):
                v = x[(idx[0], *pl)]
                if v > want[idx]:
                    want[idx] = v
                    at[idx] = np.ravel_multi_index(pl, x.shape[1:])
    return (np.full((3, *o), np.nan, np.float32), np.full((3, *o), -7, np.int32), x), {0: want, 1: at}


# --- grid sample ------------------------------------------------------------------------------------------------------
class Padding(enum.Enum):
    ZEROS = "zeros"
    BORDER = "border"
    REFLECTION = "reflection"


@mo.jit
def unnormalise(coord, size, align):
    return (coord + 1) / 2 * (size - 1) if align else ((coord + 1) * size - 1) / 2


@mo.jit
def reflect(v, twice_low, twice_high):
    if twice_low == twice_high:
        return 0.0
    low = twice_low / 2
    span = (twice_high - twice_low) / 2
    v = mo.abs(v - low)
    extra = mo.fmod(v, span)
    flips = mo.floor(v / span).to(mo.int32)
    return extra + low if flips % 2 == 0 else span - extra + low


@mo.jit
def source_index(coord, size, padding, align):
    v = unnormalise(coord, size, align)
    match padding:
        case Padding.ZEROS:
            return v
        case Padding.BORDER:
            return mo.min(mo.max(v, 0.0), size - 1.0)
        case Padding.REFLECTION:
            v = reflect(v, 0, 2 * (size - 1)) if align else reflect(v, -1, 2 * size - 1)
            return mo.min(mo.max(v, 0.0), size - 1.0)


@mo.kernel
def grid_sample_kernel(out, x, grid, padding: mo.Constexpr, align: mo.Constexpr = False):
    N, C, H, W = mo.shape(x)
    _, OH, OW, _ = mo.shape(grid)
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i >= N * OH * OW:
        return
    n, rest = divmod(i, OH * OW)
    h, w = divmod(rest, OW)
    ix = source_index(grid[n, h, w, 0], W, padding, align)
    iy = source_index(grid[n, h, w, 1], H, padding, align)
    x0, y0 = int(mo.floor(ix)), int(mo.floor(iy))
    fx, fy = ix - x0, iy - y0
    for c in range(C):
        total = 0.0
        for dy, wy in enumerate((1 - fy, fy)):
            for dx, wx in enumerate((1 - fx, fx)):
                if 0 <= x0 + dx < W and 0 <= y0 + dy < H:
                    total += x[n, c, y0 + dy, x0 + dx] * wx * wy
        out[n, c, h, w] = total


def grid_sample(outs, x, grid):
    for k, (pad, align) in enumerate((p, a) for p in Padding for a in (False, True)):
        n = grid.shape[0] * grid.shape[1] * grid.shape[2]
        grid_sample_kernel[-(-n // 128), 128](outs[k], x, grid, pad, align)


def draw_grid(rng, n):
    x = floats(rng, 2, 3, 5, 6)
    grid = (rng.random((2, n // 5, 4, 2)) * 4 - 2).astype(np.float32)

    def src(c, size, pad, align):
        c = c.astype(float)
        v = (c + 1) / 2 * (size - 1) if align else ((c + 1) * size - 1) / 2
        if pad is Padding.ZEROS:
            return v
        if pad is Padding.REFLECTION:
            lo, hi = (0, size - 1) if align else (-0.5, size - 0.5)
            span = hi - lo
            v = np.abs(v - lo)
            e = np.fmod(v, span)
            f = np.floor(v / span)
            v = np.where(f % 2 == 0, e + lo, span - e + lo)
        return np.clip(v, 0, size - 1)

    want = []
    for pad in Padding:
        for a in (False, True):
            ix, iy = src(grid[..., 0], 6, pad, a), src(grid[..., 1], 5, pad, a)
            x0, y0 = np.floor(ix).astype(int), np.floor(iy).astype(int)
            o = np.zeros((2, 3, *grid.shape[1:3]))
            for dy in (0, 1):
                for dx in (0, 1):
                    wt = np.where(dx, ix - x0, 1 - ix + x0) * np.where(dy, iy - y0, 1 - iy + y0)
                    X, Y = x0 + dx, y0 + dy
                    ok = (X >= 0) & (X < 6) & (Y >= 0) & (Y < 5)
                    for b in range(2):
                        o[b] += np.where(ok[b], x[b][:, np.clip(Y[b], 0, 4), np.clip(X[b], 0, 5)] * wt[b], 0)
            want.append(o)
    return (np.full((6, 2, 3, *grid.shape[1:3]), np.nan, np.float32), x, grid), {0: np.array(want)}


# --- non maximum suppression, the classic bit mask --------------------------------------------------------------------
@mo.jit
def iou(a, b):
    left, right = max(a[0], b[0]), min(a[2], b[2])
    top, bottom = max(a[1], b[1]), min(a[3], b[3])
    inter = max(right - left, 0.0) * max(bottom - top, 0.0)
    sa = (a[2] - a[0]) * (a[3] - a[1])
    sb = (b[2] - b[0]) * (b[3] - b[1])
    return inter / (sa + sb - inter)


@mo.kernel
def nms_mask_kernel(mask, boxes, threshold: float):
    n = mo.size(boxes, 0)
    row_start, col_start = mo.block_idx().y, mo.block_idx().x
    tid = mo.thread_idx().x
    if row_start > col_start:
        return
    row_size, col_size = min(n - row_start * 64, 64), min(n - col_start * 64, 64)
    block_boxes = mo.shared_array(mo.float32, (64, 4))
    if tid < col_size:
        for k in range(4):
            block_boxes[tid, k] = boxes[col_start * 64 + tid, k]
    mo.sync_threads()
    if tid < row_size:
        cur = [boxes[row_start * 64 + tid, k] for k in range(4)]
        t = mo.uint64(0)
        start = tid + 1 if row_start == col_start else 0
        for i in range(start, col_size):
            if iou(cur, block_boxes[i, :]) > threshold:
                t |= mo.uint64(1) << i
        mask[row_start * 64 + tid, col_start] = t


@mo.kernel
def nms_gather_kernel(keep, count, mask):
    n, words = mo.shape(mask)
    tid = mo.thread_idx().x
    removed = mo.shared_array(mo.uint64, 64)
    removed[tid] = 0
    mo.sync_threads()
    kept = 0
    for i in range(n):
        nblock, inblock = i // 64, i % 64
        if not removed[nblock] >> inblock & 1:
            if tid == 0:
                keep[kept] = i
            kept += 1
            mo.sync_threads()
            if nblock <= tid < words:
                removed[tid] |= mask[i, tid]
            mo.sync_threads()
    if tid == 0:
        count[0] = kept


def nms(keep, count, mask, boxes):
    n = boxes.shape[0]
    blocks = -(-n // 64)
    nms_mask_kernel[(blocks, blocks), 64](mask, boxes, 0.3)
    nms_gather_kernel[1, 64](keep, count, mask)


def draw_nms(rng, n):
    p = rng.random((n, 2)) * 10
    boxes = np.concatenate([p, p + 0.5 + rng.random((n, 2)) * 3], 1).astype(np.float32)
    keep = []
    dead = np.zeros(n, bool)
    for i in range(n):
        if dead[i]:
            continue
        keep.append(i)
        a, b = boxes[i].astype(float), boxes[i + 1 :].astype(float)
        inter = np.maximum(np.minimum(a[2], b[:, 2]) - np.maximum(a[0], b[:, 0]), 0) * np.maximum(
            np.minimum(a[3], b[:, 3]) - np.maximum(a[1], b[:, 1]), 0
        )
        u = (a[2] - a[0]) * (a[3] - a[1]) + (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) - inter
        dead[i + 1 :] |= inter / u > 0.3
    want = np.full(n, -1)
    want[: len(keep)] = keep
    return (np.full(n, -1, np.int32), np.zeros(1, np.int32), np.zeros((n, -(-n // 64)), np.uint64), boxes), {
        0: want,
        1: np.array([len(keep)]),
    }


# --- bilateral filter with neighbours in a generator and continue -----------------------------------------------------
def offsets(radius):
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            if dy * dy + dx * dx <= radius * radius:
                yield dy, dx


@mo.kernel
def bilateral_kernel(out, x, sigma_s: float, sigma_r: float, radius: mo.Constexpr = 2):
    H, W = x.shape
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i >= H * W:
        return
    r, c = divmod(i, W)
    here = x[r, c]
    top = bottom = 0.0
    for dy, dx in offsets(radius):
        y, z = r + dy, c + dx
        if not (0 <= y < H and 0 <= z < W):
            continue
        d = x[y, z] - here
        w = mo.exp(-(dy * dy + dx * dx) / (2 * sigma_s**2) - d * d / (2 * sigma_r**2), fast=True)
        top += w * x[y, z]
        bottom += w
    out[r, c] = top / bottom


def bilateral(out, x):
    bilateral_kernel[-(-x.shape[0] * x.shape[1] // 128), 128](out, x, 1.5, 0.4)


def draw_bilateral(rng, n):
    x = rng.random((n, n - 3)).astype(np.float32)
    X = np.pad(x.astype(float), 2, constant_values=np.nan)
    t = b = 0
    for dy, dx in offsets(2):
        s = X[2 + dy : 2 + dy + n, 2 + dx : 2 + dx + n - 3]
        w = np.exp(-(dy * dy + dx * dx) / 4.5 - (s - x) ** 2 / (2 * 0.16))
        ok = ~np.isnan(s)
        t = t + np.where(ok, w * s, 0)
        b = b + np.where(ok, w, 0)
    return (np.full_like(x, np.nan), x), {0: t / b}


# --- deformable convolution v2 (modulated), NHWC, one thread an output pixel and filter -------------------------------
@mo.kernel
def deform_kernel(out, x, offset, mask, w, stride: mo.Constexpr = 1, pad: mo.Constexpr = 1):
    N, H, W, C = x.shape
    K, R, S, _ = w.shape
    _, OH, OW, _ = out.shape
    t = mo.block_idx().x * 128 + mo.thread_idx().x
    if t >= N * OH * OW * K:
        return
    k = t % K
    ow = t // K % OW
    oh = t // K // OW % OH
    n = t // (K * OW * OH)
    acc = mo.float32(0)
    for r, s in itertools.product(range(3), range(3)):
        tap = r * 3 + s
        y = oh * stride - pad + r + offset[n, oh, ow, 2 * tap]
        z = ow * stride - pad + s + offset[n, oh, ow, 2 * tap + 1]
        if y <= -1 or z <= -1 or y >= H or z >= W:
            continue
        y0, z0 = int(mo.floor(y)), int(mo.floor(z))
        corners = []
        for dy, dz in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = (y - y0 if dy else 1 - (y - y0)) * (z - z0 if dz else 1 - (z - z0))
            ok = 0 <= y0 + dy < H and 0 <= z0 + dz < W
            corners.append((ok, y0 + dy, z0 + dz, weight * mask[n, oh, ow, tap]))
        for c in range(C):
            for ok, yy, zz, weight in corners:
                if not ok:
                    continue
                acc += weight * x[n, yy, zz, c] * w[k, r, s, c]
    out[n, oh, ow, k] = acc


def deform(out, x, offset, mask, w):
    deform_kernel[-(-int(np.prod(tuple(out.shape))) // 128), 128](out, x, offset, mask, w)


def draw_deform(rng, n):
    N, H, W, C, K = 2, n // 6, 5, 3, 4
    x, w = floats(rng, N, H, W, C), floats(rng, K, 3, 3, C)
    off = floats(rng, N, H, W, 18) * 1.5
    m = rng.random((N, H, W, 9)).astype(np.float32)
    P = np.pad(x.astype(float), ((0, 0), (12, 12), (12, 12), (0, 0)))
    want = np.zeros((N, H, W, K))
    for nn, h, ww in np.ndindex(N, H, W):
        for r in range(3):
            for s in range(3):
                t = r * 3 + s
                y = np.float32(h - 1 + r) + off[nn, h, ww, 2 * t]
                z = np.float32(ww - 1 + s) + off[nn, h, ww, 2 * t + 1]
                if y <= -1 or z <= -1 or y >= H or z >= W:
                    continue
                y0, z0 = int(np.floor(y)), int(np.floor(z))
                fy, fz = float(y) - y0, float(z) - z0
                v = sum(
                    (fy if a else 1 - fy) * (fz if b else 1 - fz) * P[nn, y0 + a + 12, z0 + b + 12]
                    for a in (0, 1)
                    for b in (0, 1)
                )
                want[nn, h, ww] += m[nn, h, ww, t] * (w[:, r, s].astype(float) @ v)
    return (np.full(want.shape, np.nan, np.float32), x, off, m, w), {0: want}


PORTS = (
    Port("transposed convolution", conv_transpose, draw_ct),
    Port("3d pooling", max_pool, draw_pool, large=100),
    Port("grid sample", grid_sample, draw_grid, tolerance=1e-3),
    Port("non-maximum suppression", nms, draw_nms, sizes=(37, 150)),
    Port("bilateral", bilateral, draw_bilateral),
    Port("deformable", deform, draw_deform, tolerance=1e-3, large=60),
)
