"""Rotary embedding in the checking simulator against float64: both pairings, positions, parts, in place, and back."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from drawn_arrays import CLOSE, FLOATS, clean, close, drawn, laid_out, poisoned, wide
from moye.kernels import rope
from moye.kernels.rope import Plan, rope_kernel


def tables(count, half, dtype=np.float32):
    angles = np.outer(np.arange(count), 10000.0 ** (-np.arange(half) / max(half, 1)))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def exact(x, cos, sin, places, interleaved, inverse):
    """In float64; ``places`` is (batch, seq)."""
    x, half = wide(x), cos.shape[1]
    c, s = wide(cos)[places][:, :, None], wide(sin)[places][:, :, None] * (-1 if inverse else 1)
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (
        slice(0, half), slice(half, 2 * half))
    out = x.copy()
    out[..., first] = x[..., first] * c - x[..., second] * s
    out[..., second] = x[..., second] * c + x[..., first] * s
    return out


@pytest.mark.parametrize("seed", range(12))
def test_drawn(seed):
    rng = np.random.default_rng(seed)
    name = list(FLOATS)[seed % 4]
    batch, seq, heads = (int(rng.integers(1, 5)) for _ in range(3))
    dim = int(rng.choice([2, 6, 15, 16, 32, 48]))
    half = int(rng.integers(0, dim // 2 + 1)) if seed % 3 == 0 else dim // 2
    interleaved, inverse, kind = bool(seed % 2), bool(seed // 2 % 2), seed % 3
    to = list(FLOATS)[(seed + seed // 8) % 4]           # of the last ones another dtype than x has
    x, out = drawn(rng, (batch, seq, heads, dim), name), poisoned(rng, (batch, seq, heads, dim), to)
    cos, sin = tables(20, half, np.float64 if name == "f64" else np.float32)
    offset = int(rng.integers(0, 5))
    ids = [None, rng.integers(0, 15, seq).astype(np.int32), rng.integers(0, 15, (batch, seq))][kind]
    places = np.broadcast_to(np.arange(seq) if ids is None else ids, (batch, seq)) + offset
    with clean():
        rope(out, x, laid_out(rng, cos), laid_out(rng, sin), positions=ids, offset=offset, interleaved=interleaved,
             inverse=inverse)
    close(out, exact(x, cos, sin, places, interleaved, inverse), max(name, to, key=CLOSE.get))


@pytest.mark.parametrize("half", [0, 5])
def test_what_does_not_turn_has_the_dtype_of_the_result(half):
    """It is the same number in the other dtype, and not the same bits."""
    x = np.random.default_rng(2).standard_normal((1, 7, 2, 16)).astype(np.float32)
    cos, sin = tables(7, half)
    for name in ("bf16", "f64"):
        out = np.full(x.shape, np.nan, FLOATS[name])
        with clean():
            rope(out, x, cos, sin)
        close(out, exact(x, cos, sin, np.arange(7)[None], False, False), max(name, "f32", key=CLOSE.get))


@pytest.mark.parametrize("interleaved", [False, True])
def test_in_place_and_back(interleaved):
    x = np.random.default_rng(0).standard_normal((2, 9, 3, 64)).astype(np.float32)
    before = x.copy()
    cos, sin = tables(9, 24)
    with clean():
        rope(x, x, cos, sin, interleaved=interleaved)
    close(x, exact(before, cos, sin, np.tile(np.arange(9), (2, 1)), interleaved, False), "f32")
    rope(x, x, cos, sin, interleaved=interleaved, inverse=True)
    assert np.allclose(x, before, atol=1e-6)


def test_three_axes_and_nothing():
    cos, sin = tables(5, 8)
    x = np.random.default_rng(1).standard_normal((5, 2, 16)).astype(np.float32)
    out = np.full_like(x, np.nan)
    rope(out, x, cos, sin)
    close(out, exact(x[None], cos, sin, np.arange(5)[None], False, False)[0], "f32")
    rope(x[:0], x[:0], cos, sin)


def test_a_position_beyond_the_tables():
    cos, sin = tables(5, 8)
    x = np.zeros((1, 3, 1, 16), np.float32)
    with pytest.raises(mo.ArgumentError, match="positions go from 3 to 5, and the tables have 5"):
        rope(x, x, cos, sin, offset=3)
    with pytest.raises(mo.SimulationError, match="a position beyond the tables"):
        rope(x, x, cos, sin, positions=np.array([0, 5, 1]))


def test_what_is_refused():
    cos, sin = tables(5, 8)
    x = np.zeros((1, 3, 1, 16), np.float32)
    four = np.zeros(4, np.int32)
    for arguments, options, text in [((x[..., :8], x, cos, sin), {}, "out has shape"),
                                     ((x, x, cos, sin[:, :4]), {}, "sin has shape"),
                                     ((x[0, 0], x[0, 0], cos, sin), {}, "x has shape"),
                                     ((x[..., :8], x[..., :8], cos, sin), {}, "at most 4 pairs"),
                                     ((x, x, cos, sin), {"positions": four}, r"positions have shape \(4,\)"),
                                     ((x, x, cos, sin), {"positions": np.zeros(3)}, "positions holds float64")]:
        with pytest.raises(mo.ArgumentError, match=text):
            rope(*arguments, **options)


@pytest.mark.parametrize("interleaved", [False, True])
def test_accesses_are_16_bytes(interleaved):
    """Two vectors of x and of out, two of each table (float32); no local memory."""
    x = mo.TensorLike(mo.bfloat16, (128, 32, 4096, 2), (1, 128, 4096, 4096 * 4096))
    table = mo.TensorLike(mo.float32, (64, 4096))
    plan = Plan(8, interleaved, 1, mo.float32)
    program = rope_kernel.compile(x, x, table, table, None, 0, plan, block=256, arch="sm_90a")
    moves = [line for line in program.sass.splitlines() if " LDG" in line or " STG" in line]
    assert len(moves) == 8 and all(".128" in line for line in moves)
    assert program.spills == 0 and program.registers <= 64
