"""Programs of CUDA's samples and of numerical libraries: transforms, factorisations, stencils, trees, an iteration.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
"""

from __future__ import annotations

import math

import numpy as np

import moye as mo
from ports import Port, floats

# --- fast Fourier transform in shared memory (Stockham, radix 2) ------------------------------------------------------


@mo.kernel
def fft_kernel(real_out, imag_out, real, imag, n: mo.Constexpr):
    """A block of n / 2 threads has a row; each step reads one pair of buffers and writes the other."""
    tid, row = mo.thread_idx().x, mo.block_idx().x
    re, im = mo.shared_array(mo.float32, (n, 2)), mo.shared_array(mo.float32, (n, 2))
    for place in (tid, tid + n // 2):
        re[place, 0], im[place, 0] = real[row, place], imag[row, place]
    here, length = 0, 1
    while length < n:
        mo.sync_threads()
        k = tid % length
        s, c = mo.sincos(k * (-math.pi / length))
        ur, ui, xr, xi = re[tid, here], im[tid, here], re[tid + n // 2, here], im[tid + n // 2, here]
        vr, vi = xr * c - xi * s, xr * s + xi * c
        to, here = (tid // length) * length * 2 + k, 1 - here
        re[to, here], im[to, here] = ur + vr, ui + vi
        re[to + length, here], im[to + length, here] = ur - vr, ui - vi
        length *= 2
    mo.sync_threads()
    for place in (tid, tid + n // 2):
        real_out[row, place], imag_out[row, place] = re[place, here], im[place, here]


def fft(real_out, imag_out, real, imag):
    fft_kernel[real.shape[0], 64](real_out, imag_out, real, imag, 128)


def draw_fft(rng, rows):
    real, imag = floats(rng, rows, 128), floats(rng, rows, 128)
    wanted = np.fft.fft(real.astype(np.float64) + 1j * imag)
    return (np.zeros_like(real), np.zeros_like(imag), real, imag), {0: wanted.real, 1: wanted.imag}


# --- Cholesky factors of 32 x 32, a matrix for each warp --------------------------------------------------------------


@mo.kernel
def cholesky_kernel(factor, matrix):
    """A lane has a row in registers; columns come from the lane of the pivot by shuffles."""
    lane = mo.lane_idx()
    number = mo.block_idx().x * (mo.block_dim().x // 32) + mo.warp_idx()
    if number >= mo.size(matrix, 0):
        return
    row = mo.fragment((32,), mo.float32)
    for j in mo.static_range(32):
        row[j] = matrix[number, lane, j]
    for k in mo.static_range(32):
        row[k] *= mo.rsqrt(mo.shuffle_idx(row[k], k))
        for j in mo.static_range(k + 1, 32):
            row[j] -= row[k] * mo.shuffle_idx(row[k], j)
    for j in mo.static_range(32):
        factor[number, lane, j] = row[j] if j <= lane else 0.0


def cholesky(factor, matrix):
    cholesky_kernel[-(-matrix.shape[0] // 2), 64](factor, matrix)


def draw_cholesky(rng, size):
    x = rng.standard_normal((size % 4 + 1, 32, 32))
    matrix = (x @ x.transpose(0, 2, 1) + 32 * np.eye(32)).astype(np.float32)
    return (np.zeros_like(matrix), matrix), {0: np.linalg.cholesky(matrix.astype(np.float64))}


# --- LU factors of 32 x 32 with pivots, a matrix for each warp --------------------------------------------------------


@mo.kernel
def lu_kernel(matrix, pivots):
    lane, number = mo.lane_idx(), mo.block_idx().x
    held = mo.shared_array(mo.float32, mo.make_layout((32, 32), (33, 1)))
    for j in range(32):
        held[lane, j] = matrix[number, lane, j]
    mo.sync_warp()
    for k in range(32):
        size = mo.abs(held[lane, k]) if lane >= k else -1.0
        _, pivot = mo.warp_reduce((size, lane), "argmax")
        upper, lower = held[k, lane], held[pivot, lane]
        mo.sync_warp()
        held[k, lane] = lower
        if pivot != k:
            held[pivot, lane] = upper
        mo.sync_warp()
        if lane > k:
            held[lane, k] /= held[k, k]
            for j in range(k + 1, 32):
                held[lane, j] -= held[lane, k] * held[k, j]
        if lane == 0:
            pivots[number, k] = pivot
        mo.sync_warp()
    for j in range(32):
        matrix[number, lane, j] = held[lane, j]


def lu(matrix, pivots):
    lu_kernel[matrix.shape[0], 32](matrix, pivots)


def draw_lu(rng, size):
    matrix = floats(rng, size % 3 + 1, 32, 32)
    factors, pivots = matrix.astype(np.float64), np.zeros((len(matrix), 32), np.int32)
    for x, order in zip(factors, pivots, strict=True):
        for k in range(32):
            order[k] = k + np.abs(x[k:, k]).argmax()
            x[[k, order[k]]] = x[[order[k], k]]
            x[k + 1:, k] /= x[k, k]
            x[k + 1:, k + 1:] -= np.outer(x[k + 1:, k], x[k, k + 1:])
    return (matrix, np.zeros_like(pivots)), {0: factors, 1: pivots}


# --- conjugate gradients in one launch (CUDA samples, conjugateGradientMultiBlockCG) ----------------------------------


@mo.kernel
def gradients_kernel(x, r, p, Ap, dots, turns):
    """The matrix has 2.5 on its diagonal and -1 beside it; three sums of the grid in each turn."""
    first, step = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x, mo.grid_dim().x * mo.block_dim().x
    n, scratch = mo.size(x), mo.shared_array(mo.float32, 2)
    for turn in range(turns):
        pAp, rr = 0.0, 0.0
        for i in range(first, n, step):
            left, right = p[i - 1] if i > 0 else 0.0, p[i + 1] if i + 1 < n else 0.0
            Ap[i] = 2.5 * p[i] - left - right
            pAp += Ap[i] * p[i]
            rr += r[i] * r[i]
        pAp, rr = mo.block_reduce(pAp, scratch), mo.block_reduce(rr, scratch)
        if mo.thread_idx().x == 0:
            mo.atomic_add(dots, (turn, 0), pAp)
            mo.atomic_add(dots, (turn, 1), rr)
        mo.grid_sync()
        along = dots[turn, 1] / dots[turn, 0]
        rest = 0.0
        for i in range(first, n, step):
            x[i] += along * p[i]
            r[i] -= along * Ap[i]
            rest += r[i] * r[i]
        rest = mo.block_reduce(rest, scratch)
        if mo.thread_idx().x == 0:
            mo.atomic_add(dots, (turn, 2), rest)
        mo.grid_sync()
        for i in range(first, n, step):
            p[i] = r[i] + dots[turn, 2] / dots[turn, 1] * p[i]
        mo.grid_sync()


def gradients(x, r, p, Ap, dots):
    gradients_kernel[2, 64](x, r, p, Ap, dots, dots.shape[0])


def draw_gradients(rng, n):
    b = floats(rng, n)
    matrix = 2.5 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    wanted = np.linalg.solve(matrix, b.astype(np.float64))
    return (np.zeros_like(b), b.copy(), b.copy(), np.zeros_like(b), np.zeros((20, 3), np.float32)), {0: wanted}


# --- a stencil along three axes whose planes are in registers (CUDA samples, FDTD3d) ----------------------------------

REACH = 2


@mo.kernel
def stencil_kernel(out, x, weights):
    """``x`` has a rim of two.  A thread goes along z with five values of its column; its plane is in shared memory."""
    depth, height, width = mo.shape(out)
    tx, ty = mo.thread_idx().x, mo.thread_idx().y
    column, row = mo.block_idx().x * 16 + tx, mo.block_idx().y * 8 + ty
    inside = column < width and row < height
    cx, cy = mo.min(column, width - 1) + REACH, mo.min(row, height - 1) + REACH
    plane = mo.shared_array(mo.float32, mo.make_layout((8 + 2 * REACH, 16 + 2 * REACH), mo.LayoutRight))
    line = [x[i, cy, cx] for i in range(2 * REACH + 1)]
    for z in range(depth):
        mo.sync_threads()
        for i in range(ty * 16 + tx, (8 + 2 * REACH) * (16 + 2 * REACH), 128):
            below, beside = mo.block_idx().y * 8 + i // 20, mo.block_idx().x * 16 + i % 20
            plane[i // 20, i % 20] = x[z + REACH, mo.min(below, height + 3), mo.min(beside, width + 3)]
        mo.sync_threads()
        total = weights[0] * line[REACH]
        for i in mo.static_range(1, REACH + 1):
            across = plane[ty + REACH, tx + REACH - i] + plane[ty + REACH, tx + REACH + i]
            along = plane[ty + REACH - i, tx + REACH] + plane[ty + REACH + i, tx + REACH]
            total += weights[i] * (line[REACH - i] + line[REACH + i] + across + along)
        if inside:
            out[z, row, column] = total
        if z + 1 < depth:
            line = [*line[1:], x[z + 2 * REACH + 1, cy, cx]]


def stencil(out, x, weights):
    stencil_kernel[(-(-out.shape[2] // 16), -(-out.shape[1] // 8)), (16, 8)](out, x, weights)


def draw_stencil(rng, size):
    depth, height, width = 4, size % 13 + 3, size % 29 + 5
    x = floats(rng, depth + 4, height + 4, width + 4)
    weights = np.array([0.5, 0.25, 0.125], np.float32)

    def moved(dz=0, dy=0, dx=0):
        return x.astype(np.float64)[2 + dz:2 + dz + depth, 2 + dy:2 + dy + height, 2 + dx:2 + dx + width]

    wanted = weights[0] * moved()
    for i in (1, 2):
        wanted = wanted + weights[i] * sum(moved(s) + moved(0, s) + moved(0, 0, s) for s in (-i, i))
    return (np.zeros((depth, height, width), np.float32), x, weights), {0: wanted}


# --- options by a tree of prices (CUDA samples, binomialOptions) ------------------------------------------------------

STEPS, EACH = 128, 4


@mo.kernel
def options_kernel(out, price, strike, drift, up, down):
    """A block has an option.  A thread has four leaves in registers, and shows its first one to the thread before."""
    tid, option = mo.thread_idx().x, mo.block_idx().x
    shown, leaves = mo.shared_array(mo.float32, STEPS // EACH + 1), mo.fragment((EACH + 1,), mo.float32)
    for i in mo.static_range(EACH):
        value = price[option] * mo.exp(drift[option] * (2.0 * (tid * EACH + i) - STEPS)) - strike[option]
        leaves[i] = mo.max(value, 0.0)
    if tid == 0:
        shown[STEPS // EACH] = mo.max(price[option] * mo.exp(drift[option] * STEPS) - strike[option], 0.0)
    for left in mo.range(STEPS, 0, -1):
        shown[tid] = leaves[0]
        mo.sync_threads()
        leaves[EACH] = shown[tid + 1]
        mo.sync_threads()
        if left > tid * EACH:
            leaves[0:EACH] = up[option] * leaves[1:EACH + 1] + down[option] * leaves[0:EACH]
    if tid == 0:
        out[option] = leaves[0]


def options(out, *of):
    options_kernel[out.shape[0], STEPS // EACH](out, *of)


def draw_options(rng, size):
    n = size % 5 + 2
    price, strike, years = rng.uniform(5, 30, n), rng.uniform(1, 30, n), rng.uniform(0.25, 2, n)
    drift, rate = 0.1 * np.sqrt(years / STEPS), 0.06 * years / STEPS
    up = (np.exp(rate) - np.exp(-drift)) / (np.exp(drift) - np.exp(-drift)) * np.exp(-rate)
    of = [x.astype(np.float32) for x in (price, strike, drift, up, np.exp(-rate) - up)]
    price, strike, drift, up, down = (x.astype(np.float64)[:, None] for x in of)
    values = np.maximum(price * np.exp(drift * (2.0 * np.arange(STEPS + 1) - STEPS)) - strike, 0)
    for _ in range(STEPS):
        values = up * values[:, 1:] + down * values[:, :-1]
    return (np.zeros(n, np.float32), *of), {0: values[:, 0]}


# --- a sparse matrix by rows times a vector ---------------------------------------------------------------------------


@mo.kernel
def sparse_kernel(y, starts, columns, values, x):
    row, lane = mo.block_idx().x * (mo.block_dim().x // 32) + mo.warp_idx(), mo.lane_idx()
    if row < mo.size(y):
        total = 0.0
        for i in range(starts[row] + lane, starts[row + 1], 32):
            total += values[i] * x[columns[i]]
        total = mo.warp_reduce(total)
        if lane == 0:
            y[row] = total


def sparse(y, starts, columns, values, x):
    sparse_kernel[-(-y.shape[0] // 4), 128](y, starts, columns, values, x)


def draw_sparse(rng, n):
    matrix = rng.standard_normal((n, n + 9)) * (rng.random((n, n + 9)) < 0.3)
    starts, columns = np.concatenate([[0], (matrix != 0).sum(1).cumsum()]).astype(np.uint32), np.nonzero(matrix)[1]
    x, values = floats(rng, n + 9), matrix[matrix != 0].astype(np.float32)
    return (np.zeros(n, np.float32), starts, columns.astype(np.uint16), values, x), {0: matrix @ x.astype(np.float64)}


PORTS = [Port("Fourier transform", fft, draw_fft, (1, 3), 200, 1e-3), Port("Cholesky", cholesky, draw_cholesky),
         Port("LU with pivots", lu, draw_lu, tolerance=2e-3), Port("stencil in z", stencil, draw_stencil),
         Port("conjugate gradients", gradients, draw_gradients, large=200),
         Port("binomial options", options, draw_options, tolerance=1e-3), Port("sparse rows", sparse, draw_sparse)]
