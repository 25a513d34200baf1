"""Philox in Python's integers, kernels that draw from it, and dropout, for tests of both back ends.

In: nothing.  Out: kernels, and what they draw.

>>> philox((0, 0, 0, 0), (0, 0))[0] == 0x6627E8D5
True
"""

from __future__ import annotations

import numpy as np

import moye as mo

WORD = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 of Salmon et al., figure 2 and table 2."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [second >> 32 ^ c[1] ^ k[0], second & WORD, first >> 32 ^ c[3] ^ k[1], first & WORD]
        k = [k[0] + 0x9E3779B9 & WORD, k[1] + 0xBB67AE85 & WORD]
    return c


def split(number):
    return number & WORD, number >> 32 & WORD


def uniform(words):
    """Triton's numbers of words, which are float32 from 0 to below 1."""
    signed = np.asarray(words, np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


@mo.kernel
def draw(words, floats, normals, seed, first):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    offset = first + i
    four = mo.philox(seed, offset)
    for j in mo.static_range(4):
        words[i, j] = four[j]
    floats[i] = mo.rand(seed, offset)
    normals[i] = mo.randn(seed, offset)


@mo.kernel
def draw_counters(words, seeds, offsets, subsequences):
    i = mo.thread_idx().x
    four = mo.philox(seeds[i], offsets[i], subsequences[i])
    for j in mo.static_range(4):
        words[i, j] = four[j]


@mo.kernel
def dropout(out, x, p: mo.float32, seed: mo.int64):
    """Four neighbours a thread: one counter gives the four numbers that decide about them."""
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    mo.assume(mo.size(x, 0) % 4 == 0)
    mo.assume(mo.size(out, 0) % 4 == 0)
    if i * 4 < mo.size(x, 0):
        r = mo.fragment((4,), x.dtype)
        mo.copyto(r, mo.tile(x, (4,), (i,)))
        keep = mo.rand4x(seed, i)
        for j in mo.static_range(4):
            r[j] = mo.where(keep[j] > p, r[j] / (1 - p), 0.0)
        mo.copyto(mo.tile(out, (4,), (i,)), r)


def dropped(x, p, seed):
    """What dropout leaves."""
    words = np.array([philox((*split(i), 0, 0), split(seed)) for i in range(len(x) // 4)])
    return np.where(uniform(words).reshape(-1) > np.float32(p), x / (1 - np.float32(p)), 0).astype(np.float32)
