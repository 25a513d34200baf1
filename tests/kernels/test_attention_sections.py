"""The order in which blocks of attention take tiles: every tile once, and blocks that end together."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest

import attention_order  # benchmarks/attention_order.py
import moye as mo
from moye.kernels import attention, attention_backward
from moye.kernels.attention.sm90 import host
from moye.kernels.attention.sm90.forward import leave_out
from moye.kernels.attention.sm90.sections import _L2, in_sections, section_of
from random_attention import pinned


@pytest.mark.parametrize("seed", range(20))
def test_every_tile_has_one_number(seed):
    rng = random.Random(seed)
    heads, tiles, each = rng.randint(1, 70), rng.randint(1, 20), int(2 ** rng.uniform(10, 30))
    section = section_of(each, heads)
    numbers = [in_sections(number, section, tiles, heads) for number in range(heads * tiles)]
    assert sorted(numbers) == [(i, head) for i in range(tiles) for head in range(heads)]


@pytest.mark.parametrize("seed", range(20))
def test_l2_holds_a_section_and_few_heads_are_missing(seed):
    rng = random.Random(seed)
    heads, each = rng.randint(1, 600), int(2 ** rng.uniform(10, 30))
    section = section_of(each, heads)
    most = max(1, min(heads, _L2 // each))
    assert most / 2 <= section <= most
    assert all(-heads % section / section <= -heads % other / other for other in range(math.ceil(most / 2), most + 1))


def test_blocks_end_sooner_than_head_by_head():
    """Drawn gradients and sequences under a causal mask: of what is lost head by head, half is left at most."""
    rng = random.Random(1)
    drawn = [attention_order.lost(draw(rng)) for draw in (attention_order.gradients, attention_order.sequences)
             for _ in range(30)]
    before, now = (statistics.fmean(one[name] for one in drawn) for name in ("head by head", "in sections"))
    assert 0 <= now < 0.5 * before


def test_blocks_of_the_count_take_what_is_next():
    assert attention_order.finished([3, 1, 1, 1, 2], blocks=2) == 5


@pytest.mark.parametrize(("batch", "heads", "together"), [(1, 5, 3), (7, 1, 3), (1, 2, 1)])
def test_sections_that_lack_heads(monkeypatch, batch, heads, together):
    """Results are those of one section, and nothing is written that is not there."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    rng, found = np.random.default_rng(0), []
    q, k, v, dout = (rng.standard_normal((batch, 130, heads, 64)).astype(np.float16) for _ in range(4))
    for most in (None, together):
        if most is not None:
            monkeypatch.setattr(host, "section_of", lambda each, heads, most=most: min(most, heads))
        out, lse = np.full_like(q, np.nan), np.full((batch, heads, 130), np.nan, np.float32)
        gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
        with mo.checking(lints=False) as reports:
            attention(out, q, k, v, lse=lse, causal=True)
            attention_backward(*gradients, dout, q, k, v, out, lse, causal=True)
        assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
        found.append([out, lse, *gradients])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), atol=2e-3)


@pytest.mark.parametrize(("queries", "keys", "heads", "left", "right", "dim", "cap"), [
    (640, 640, 2, 383, 0, 128, 0), (700, 700, 1, 256, 0, 128, 0), (600, 700, 1, 300, 100, 128, 0),
    (700, 500, 1, 260, 30, 128, 0), (300, 300, 2, 70, 0, 128, 0), (600, 700, 2, 300, 0, 64, 0),
    (600, 600, 1, 200, 40, 64, 3)])
@pytest.mark.parametrize("tiles", [1, pytest.param(4, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow)])
def test_windows_of_several_tiles_a_block(monkeypatch, queries, keys, heads, left, right, dim, cap, tiles):
    """Two multiprocessors take all tiles, so that each block goes from one to the next; against float64.  The largest
    tiles, for 64 dimensions by three warpgroups, and smaller ones, in turn and from a counter."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    monkeypatch.setattr(mo, "multiprocessors", lambda array=None: 2)
    rng = np.random.default_rng(queries)
    q, k, v = (rng.standard_normal((1, n, heads, dim)).astype(np.float16) for n in (queries, keys, keys))
    out, lse = np.full_like(q, np.nan), np.full((1, heads, queries), np.nan, np.float32)
    slopes = rng.uniform(0, 0.1, heads).astype(np.float32) if cap else None
    with pinned(tiles), mo.checking(lints=False) as reports:
        attention(out, q, k, v, lse=lse, window=(left, right), softcap=cap, alibi=slopes)
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
    expected, total = exact(q, k, v, left, right, cap, slopes)
    np.testing.assert_allclose(out.astype(np.float64), expected, atol=4e-3)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(lse, np.log(total), atol=1e-4)


def exact(q, k, v, left, right, cap=0.0, slopes=None):
    """Results, and sums of exponentials, in float64; ``left`` and ``right``: None for all keys."""
    queries, keys = q.shape[1], k.shape[1]
    behind = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    scores = np.einsum("bqhd,bkhd->bhqk", *(x.astype(np.float64) for x in (q, k))) / math.sqrt(q.shape[3])
    if cap:
        scores = cap * np.tanh(scores / cap) - slopes.astype(np.float64)[:, None, None] * abs(behind)
    weights = np.exp(scores) * ((behind <= (math.inf if left is None else left))
                                & (behind >= (-math.inf if right is None else -right)))
    total = weights.sum(-1)
    shares = weights / np.where(total == 0, 1, total)[..., None]
    return np.einsum("bhqk,bkhd->bqhd", shares, v.astype(np.float64)), total


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))])
def test_warpgroups_leave_out_what_they_alone_do_not_need(monkeypatch, seed):
    """Drawn: last tiles with queries for one of three warpgroups, and keys of which one of two sees a tile less."""
    drawn = random.Random(seed)
    dim = drawn.choice([64, 64, 192, 256])
    queries = 192 * drawn.randrange(3) + drawn.randint(1, 64) if dim == 64 else drawn.randint(65, 400)
    keys, heads, batch = drawn.randint(1, 520), drawn.randint(1, 3), drawn.randint(1, 2)
    left, right = drawn.choice([(None, None), (None, 0), (None, drawn.randrange(150)), (drawn.randrange(300), 0),
                                (drawn.randrange(300), drawn.randrange(150)), (drawn.randrange(300), None)])
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    count = drawn.randint(1, 4)
    monkeypatch.setattr(mo, "multiprocessors", lambda array=None: count)
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((batch, n, heads, dim)).astype(np.float16) for n in (queries, keys, keys))
    out, lse = np.full_like(q, np.nan), np.full((batch, heads, queries), np.nan, np.float32)
    with pinned(drawn.randrange(2)), mo.checking(lints=False) as reports:
        attention(out, q, k, v, lse=lse, window=(left, right))
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
    expected, total = exact(q, k, v, left, right)
    np.testing.assert_allclose(out.astype(np.float64), expected, atol=4e-3)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(lse, np.log(total), atol=1e-4)


def test_warps_meet_before_a_stage_that_they_leave_out_is_free():
    """Else one of them may wait for it after the next load: outside of kernels with wgmma, warps are told apart."""
    @mo.kernel
    def left_out(out):
        tid, pipe = mo.thread_idx().x, mo.PipelineTma(2, 16, consumers=1)
        pipe.init()
        mo.sync_threads()
        if mo.warpgroup_idx() == 1:
            if tid == 128:
                state = pipe.producer_start()
                for _ in range(6):
                    pipe.producer_acquire(state, bytes=0)
                    state = state.next()
        else:
            leave_out(pipe, pipe.consumer_start(), 6)
            out[tid] = tid

    report = mo.check(left_out)[1, 256](np.zeros(128, np.int32))
    assert report.ok, str(report)
