"""LayerNorm of rows of 1024, a row in the registers of a warp: eight vectors a lane."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, weight, bias, eps, columns: mo.Constexpr):
    lane, row = mo.thread_idx().x % 32, mo.block_idx().x * 8 + mo.thread_idx().x // 32
    if row >= mo.size(x, 0):
        return
    parts = columns // 128
    held = mo.fragment((4, parts), mo.float32)
    for j in mo.static_range(parts):
        mo.copyto(held[:, j], mo.tile(x, (1, 4), (row, 32 * j + lane))[0, :])
    mean = mo.warp_reduce(held.reduce("add"), "add") / columns
    centred = held - mean
    variance = mo.warp_reduce((centred * centred).reduce("add"), "add") / columns
    scale = mo.rsqrt(variance + eps)
    w, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    for j in mo.static_range(parts):
        mo.copyto(w, mo.tile(weight, (4,), (32 * j + lane,)))
        mo.copyto(b, mo.tile(bias, (4,), (32 * j + lane,)))
        mo.copyto(mo.tile(out, (1, 4), (row, 32 * j + lane))[0, :], centred[:, j] * scale * w + b)


def case(small):
    rows, n = (9, 1024) if small else (16384, 1024)
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(shape, np.float32) for shape in ((rows, n), n, n))
    out = np.full_like(x, np.nan)

    def expected():
        wide = x.astype(float)
        centred = wide - wide.mean(1, keepdims=True)
        return (centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5) * weight + bias,)
    return {"arguments": (out, x, weight, bias, 1e-5, n), "outputs": (0,), "twin": (out, x, weight, bias, 1e-5, rows),
            "grid": mo.ceil_div(rows, 8), "block": 256, "expected": expected}
