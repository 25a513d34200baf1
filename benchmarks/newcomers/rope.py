"""Rotary embedding of (tokens, heads, 128): the halves of each head are turned by the angle of the token."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, cos, sin):
    token, d = mo.block_idx().x, mo.thread_idx().x % 64
    half = mo.size(x, 2) // 2
    c, s = cos[token, d], sin[token, d]
    for h in mo.range(mo.thread_idx().x // 64, mo.size(x, 1), 4):
        a, b = x[token, h, d], x[token, h, d + half]
        out[token, h, d] = a * c - b * s
        out[token, h, d + half] = b * c + a * s


def case(small):
    tokens, heads, d = (3, 8, 128) if small else (8192, 32, 128)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((tokens, heads, d), np.float32)
    angle = np.outer(np.arange(tokens), 10000.0 ** (-np.arange(d // 2) / (d // 2)))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = np.full_like(x, np.nan)

    def expected():
        a, b, c, s = x[..., :64].astype(float), x[..., 64:].astype(float), cos[:, None], sin[:, None]
        return (np.concatenate([a * c - b * s, b * c + a * s], axis=2),)
    return {"arguments": (out, x, cos, sin), "outputs": (0,), "twin": (out, x, cos, sin, heads, d), "grid": tokens,
            "block": 256, "expected": expected}
