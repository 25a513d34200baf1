"""Attention where scores are no ordinary numbers: rows of bias -inf, a scale of 0, NaN behind the last key."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.kernels import attention, attention_backward, paged_attention


def arrays(queries, keys, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((1, n, 2, 16)).astype(np.float16) for n in (queries, keys, keys)]


def weights(q, k, bias, scale=0.25):
    scores = np.einsum("bmhd,bnhd->bhmn", q.astype(float), k.astype(float)) * scale + bias
    top = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = shares.sum(-1, keepdims=True)
    return shares / np.where(total == 0, 1, total)


def bias_of(queries, keys):
    """A row of which nothing counts, one of which the last keys count alone, and one of which the first do."""
    bias = np.zeros((1, 2, queries, keys), np.float16)
    bias[:, :, 1], bias[:, 0, 2, :keys - 2], bias[:, 1, 3, 3:] = -np.inf, -np.inf, -np.inf
    return bias


@pytest.fixture(autouse=True)
def arch(request, monkeypatch):
    """By warps, whose kernels take less time to trace, unless a test asks for something else."""
    chosen = getattr(request, "param", "sm_80")
    monkeypatch.setattr(mo, "arch_of", lambda array: chosen)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"], indirect=True)
def test_rows_of_bias_that_count_nothing():
    keys = 150                                          # more than a tile
    (q, k, v), bias = arrays(5, keys), bias_of(5, keys)
    out, lse = np.full_like(q, np.nan), np.full((1, 2, 5), np.nan, np.float32)
    attention(out, q, k, v, bias=bias, lse=lse)
    shares = weights(q, k, bias)
    assert np.allclose(out.astype(float), np.einsum("bhmn,bnhd->bmhd", shares, v.astype(float)), atol=4e-3)
    assert (out[:, 1] == 0).all() and np.isneginf(lse[:, :, 1]).all() and np.isfinite(lse[:, :, [0, 2, 3, 4]]).all()
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    dout = arrays(5, 5, 1)[0]
    attention_backward(*gradients, dout, q, k, v, out, lse, bias=bias)
    values = np.einsum("bhmn,bmhd->bnhd", shares, dout.astype(float))
    assert np.allclose(gradients[2].astype(float), values, atol=4e-3)
    assert np.isfinite(gradients[1].astype(float)).all() and (gradients[0][:, 1] == 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("queries", "keys"), [(3, 0), (0, 3)])
def test_a_bias_of_no_elements(queries, keys, dtype):
    """Kernels clip to its last element, and there is none."""
    q, k, v = (x.astype(dtype) for x in arrays(queries, keys))
    out, lse = np.full_like(q, np.nan), np.full((1, 2, queries), np.nan, np.float32)
    bias = np.zeros((1, 2, queries, keys), dtype)
    attention(out, q, k, v, bias=bias, lse=lse)
    assert (out == 0).all() and np.isneginf(lse).all()
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    attention_backward(*gradients, np.ones_like(out), q, k, v, out, lse, bias=bias)
    assert all((x == 0).all() for x in gradients)


def test_a_scale_of_0_weighs_all_keys_alike():
    q, k, v = arrays(3, 5)
    out, lse = np.full_like(q, np.nan), np.full((1, 2, 3), np.nan, np.float32)
    attention(out, q, k, v, scale=0.0, lse=lse)
    assert np.allclose(out.astype(float), v.astype(float).mean(1, keepdims=True), atol=2e-3)
    assert np.allclose(lse, np.log(5))


def test_pages_with_a_scale_of_0_and_a_row_that_counts_nothing():
    q, pages = arrays(1, 1)[0], arrays(1, 16)[1:]
    table, lengths = np.zeros((1, 1), np.int32), np.array([5], np.int32)
    out, bias = np.full_like(q, np.nan), np.zeros((1, 2, 1, 16), np.float16)
    bias[:, 1] = -np.inf
    paged_attention(out, q, *pages, table, lengths, scale=np.float32(0), window=np.int64(9), bias=bias)
    assert np.allclose(out[0, 0, 0].astype(float), pages[1][0, :5, 0].astype(float).mean(0), atol=2e-3)
    assert (out[0, 0, 1] == 0).all()


def test_a_score_function_that_leaves_nothing():
    @mo.jit
    def odd_alone(score, row, column, head, batch):
        return mo.where((row != 1) & (column % 2 == 1), score, -float("inf"))

    q, k, v = arrays(3, 5)
    out = np.full_like(q, np.nan)
    attention(out, q, k, v, score=odd_alone)
    bias = np.where((np.arange(3) != 1)[:, None] & (np.arange(5) % 2 == 1), 0.0, -np.inf)
    exact = np.einsum("bhmn,bnhd->bmhd", weights(q, k, bias), v.astype(float))
    assert np.allclose(out.astype(float), exact, atol=4e-3)


def test_numbers_of_numpy():
    q, k, v = arrays(3, 5)
    found, wanted = np.full_like(q, np.nan), np.full_like(q, np.nan)
    attention(found, q, k, v, window=[np.int64(2), np.int32(1)], scale=np.float32(0.25), softcap=np.float16(2))
    attention(wanted, q, k, v, window=(2, 1), scale=0.25, softcap=2.0)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("options", [{"scale": "1"}, {"scale": [1]}, {"softcap": None}, {"softcap": 10**400},
                                     {"scale": 1e300}, {"scale": float("nan")}, {"window": (1.5, 0)}, {"window": 3}])
def test_what_is_no_number_is_refused(options):
    q, k, v = arrays(3, 5)
    with pytest.raises(mo.ArgumentError, match=f"attention: {next(iter(options))}"):
        attention(np.empty_like(q), q, k, v, **options)
