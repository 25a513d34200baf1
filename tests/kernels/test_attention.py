"""Attention in the simulator against float64: drawn cases, what is refused, and the kernels as compiled."""

from __future__ import annotations

import functools
import itertools
import random
import re
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import attention_fit  # benchmarks/attention_fit.py
import attention_registers  # benchmarks/attention_registers.py
import moye as mo
import random_attention
from fuzz import attention as fuzz
from moye.kernels import attention, attention_backward, attention_varlen, attention_varlen_backward
from moye.kernels.attention.parts.arguments import problem_of
from moye.kernels.attention.parts.scores import Rules, Scores, query_tiles, whole_from
from moye.kernels.attention.sm80 import backward, host
from moye.kernels.attention.sm80.forward import attention_sm80_kernel
from moye.kernels.attention.sm80.host import arguments_sm80
from moye.kernels.attention.sm90 import backward as sm90_backward
from moye.kernels.attention.sm90 import host as sm90_host
from moye.kernels.attention.sm90 import sequences as tiles_of_sequences
from moye.kernels.attention.sm90.config import (
    GROUP,
    SHARED,
    GradientConfig,
    candidates,
    choose,
    choose_gradient,
    gradient_candidates,
    modelled,
)
from moye.kernels.attention.sm90.costs import Calls, backward_work, forward_work
from moye.kernels.attention.sm90.forward import attention_sm90_kernel
from moye.kernels.attention.sm90.host import arguments_sm90
from moye.kernels.attention.sm90.plan import make_gradient_plan
from moye.kernels.workspace import ordered
from moye.runtime.prepare import compile_only
from random_attention import DIMS, NARROW_DIMS, Case, dimensions, draw, pinned, resized

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "attention_tiles.csv.gz"

# --- drawn -----------------------------------------------------------------------------------------------------------


def right(seeds):
    found = ((seed, case, fuzz.failure(case)) for seed in seeds for case in [fuzz.drawn(seed)])
    assert not (wrong := [f"{seed}: {case}\n{why}" for seed, case, why in found if why is not None]), wrong[0]


def test_a_few():
    right(range(3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(6, 14, 4))
def test_more(first):
    right(range(first, first + 4))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("seed", range(6))
def test_exact(seed, dtype):
    """float32 and float64: every rule and any strides, up to what sums in the dtype itself lose."""
    case = replace(draw(random.Random(seed), most=40, work=1 << 18), dtype=dtype)
    assert (why := fuzz.failure(case)) is None, why


@pytest.mark.parametrize("seed", [30, 36, 37, 41])
def test_operands_of_8_bits(seed):
    case = draw(random.Random(seed), most=200, archs=fuzz.ARCHS)
    assert case.dtype == "e4m3" and fuzz.failure(case) is None


@pytest.mark.parametrize("seed", [15, 25, 93, 169, 185, 256])
def test_head_dimensions_of_any_size(seed):
    """Most of these need all that shared memory has, and more with two stages of queries."""
    rng = random.Random(seed)
    case = resized(rng, draw(rng, most=40, work=1 << 22))
    assert case.dim > 200 and case.dim_v <= 128 and fuzz.failure(case) is None


def test_all_kinds_are_drawn():
    cases = [draw(random.Random(seed), most=200, archs=fuzz.ARCHS) for seed in range(600)]
    assert {(case.dim, case.dim_v) for case in cases if not case.out} == set(DIMS)
    assert {(case.dim, case.dim_v) for case in cases if case.out} == set(NARROW_DIMS)
    for i in range(3):
        assert {case.factors[i] for case in cases if case.out} == {"", "one", "head", "batch"}
    for name in ("causal", "softcap", "bias", "alibi", "sinks", "score", "lse"):
        assert len({bool(getattr(case, name)) for case in cases}) == 2, name
    assert {case.heads // case.heads_K for case in cases} == {1, 2, 4}
    assert any(case.queries > case.keys and case.causal for case in cases)
    dims = [dimensions(random.Random(seed), (16, 8, 1)) for seed in range(600)]
    assert {pair for i in range(2) for pair in ((dim[i] % 16 == 0, dim[i] > 128, dim[0] < dim[1]) for dim in dims)} \
        == set(itertools.product((False, True), repeat=3))


def test_a_fault_is_found(monkeypatch):
    """Weights that are a little off are seen by the bound of the comparison."""
    case = draw(random.Random(3), most=100)
    run = random_attention.attention
    monkeypatch.setattr(random_attention, "attention", lambda *args, **given: run(
        *args, **given | {"scale": 1.02 * (given["scale"] or case.dim ** -0.5)}))
    assert "results are off" in str(fuzz.failure(case))


@pytest.mark.parametrize("name", ["q_scale", "k_scale", "v_scale"])
def test_a_fault_of_a_factor_is_found(monkeypatch, name):
    """As large as a tenth: results of 8 bits may be off by as much for few keys, and by less for many."""
    case = Case(3, "e4m3", 1, 70, 150, 2, 1, 64, 64, draw(random.Random(37), most=9).places, out="f16", scale=0.5,
                factors=("batch", "batch", "batch"))
    assert fuzz.failure(case) is None
    run = random_attention.attention
    monkeypatch.setattr(random_attention, "attention", lambda *args, **given: run(
        *args, **given | {name: given[name] * np.float32(1.1)}))
    assert "are off by" in str(fuzz.failure(case))


@pytest.mark.parametrize("name", ["dq", "dk", "dv"])
def test_a_fault_of_a_gradient_is_found(monkeypatch, name):
    case = next(case for seed in range(100) if (case := draw(random.Random(seed), most=60)).lse and not case.score)
    run = random_attention.attention_backward

    def faulty(*args, **given):
        found = dict(zip(("dq", "dk", "dv"), run(*args, **given), strict=True))
        found[name][0, -1, -1] = found[name][0, -1, -1] * 1.03 + 0.03

    monkeypatch.setattr(random_attention, "attention_backward", faulty)
    assert f" of {name} are off" in str(fuzz.failure(case))


# --- rows that see nothing, and what is refused ----------------------------------------------------------------------


def arrays(queries=10, keys=20, heads=2, heads_K=1, dim=64, dim_v=64, dtype=ml_dtypes.bfloat16):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, *shape)).astype(dtype) for shape in
               ((queries, heads, dim), (keys, heads_K, dim), (keys, heads_K, dim_v)))
    return np.full((1, queries, heads, dim_v), np.nan, dtype), q, k, v


def test_no_keys_at_all():
    out, q, k, v = arrays(keys=0)
    lse = np.full((1, 2, 10), np.nan, np.float32)
    attention(out, q, k, v, lse=lse)
    assert (out == 0).all() and (lse == -np.inf).all()


@pytest.mark.parametrize("arch, dtype", [("sm_80", ml_dtypes.bfloat16), ("sm_90a", ml_dtypes.bfloat16),
                                         ("sm_90a", np.float32)])
def test_a_row_that_a_bias_hides_whole(monkeypatch, arch, dtype):
    """It gives 0, and has no part in the gradients."""
    monkeypatch.setattr(mo, "arch_of", lambda _: arch)
    out, q, k, v = arrays(64, 128, heads=1, dtype=dtype)
    bias = np.zeros((1, 1, 64, 128), np.float32)
    bias[..., 3, :], bias[..., 5, 9:] = -np.inf, -np.inf
    lse = np.full((1, 1, 64), np.nan, np.float32)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    attention(out, q, k, v, bias=bias, lse=lse)
    attention_backward(*gradients, np.ones_like(out), q, k, v, out, lse, bias=bias)
    assert (out[0, 3] == 0).all() and lse[0, 0, 3] == -np.inf and (gradients[0][0, 3] == 0).all()
    assert all(np.isfinite(x.astype(float)).all() for x in (out, *gradients)) and np.isfinite(lse[0, 0, 4:]).all()


@pytest.mark.parametrize(("queries", "keys", "causal"), [(64, 128, False), (70, 130, False), (200, 254, True),
                                                         (130, 66, True), (1, 2, False)])
@pytest.mark.parametrize("dim", [64, 128])
def test_biases_in_pairs(monkeypatch, queries, keys, causal, dim):
    """As words of two biases, and, where rows begin anywhere, one by one: the same bits."""
    monkeypatch.setattr(mo, "arch_of", lambda _: "sm_90a")
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, queries, 2, dim)).astype(np.float16)
    k, v = (rng.standard_normal((2, keys, 2, dim)).astype(np.float16) for _ in range(2))
    bias = rng.standard_normal((2, 2, queries, keys)).astype(np.float16)
    apart = np.full((2, 2, queries, keys + 1), np.nan, np.float16)[..., :keys]
    apart[...] = bias
    assert sm90_host.in_pairs(bias) and not sm90_host.in_pairs(apart)
    found = [attention(np.full_like(q, np.nan), q, k, v, bias=x, causal=causal) for x in (bias, apart)]
    assert np.array_equal(*found)
    scores = np.einsum("bmhd,bnhd->bhmn", q.astype(float), k.astype(float)) / dim**0.5 + bias
    if causal:
        scores[..., np.arange(keys) > np.arange(queries)[:, None] + keys - queries] = -np.inf
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    assert np.allclose(found[0], np.einsum("bhmn,bnhd->bmhd", weights, v.astype(float)), rtol=2e-3, atol=4e-3)


@pytest.mark.parametrize(("change", "paired"), [
    (lambda x: x, True), (lambda x: x.astype(np.float32), False), (lambda x: x[..., :-1], False),
    (lambda x: x[..., 1:-1], False), (lambda x: x[..., 2:], True), (lambda x: x[..., ::2], False),
    (lambda x: np.swapaxes(x, 2, 3), False), (lambda x: np.broadcast_to(x[:1, :1], x.shape), True),
    (lambda x: np.broadcast_to(x[..., :1], x.shape), False), (lambda x: x[..., ::-1], False), (lambda x: None, False)])
def test_which_biases_are_pairs(change, paired):
    bias = np.zeros(2 * 3 * 6 * 10 + 8, np.float16)
    bias = bias[-bias.ctypes.data % 16 // 2:][:360].reshape(2, 3, 6, 10)
    assert sm90_host.in_pairs(change(bias)) == paired


def test_no_queries():
    out, q, k, v = arrays(queries=0)
    assert attention(out, q, k, v) is out


@pytest.mark.parametrize(("change", "message"), [
    ({"k": lambda k: k.astype(np.float16)}, "q bfloat16 and k float16"),
    ({"q": lambda q: q[0]}, "q has 3 modes, not 4"),
    ({"v": lambda v: v[:, 1:]}, r"k is \(1, 20, 1, 64\) where the others ask for \(1, 19, 1, 64\)"),
    ({"out": lambda out: out[:, :, :1]}, r"out is \(1, 10, 1, 64\)"),
    ({"window": (-1, 0)}, r"window=\(-1, 0\) is no pair"),
    ({"softcap": float("nan")}, "softcap=nan is no number from 0 to 2"),
    ({"lse": np.zeros((1, 2, 9), np.float32)}, r"lse is \(1, 2, 9\) where the others ask for \(1, 2, 10\)"),
    ({"lse": np.zeros((1, 2, 10))}, "lse is float64, not float32"),
    ({"alibi": np.zeros(3, np.float32)}, r"alibi is \(3,\) where the others ask for \(2,\)"),
    ({"tensors": (np.zeros(3, np.float32),)}, "tensors are handed to a score function, and there is none"),
    ({"q": lambda q: q.tolist()}, "q is a list, no array"),
    ({"bias": np.ones((1, 2, 10, 20), bool)}, "bias is bool; it may be bfloat16"),
    ({"k": lambda k: k.astype(np.float32)}, "all float64, or q, .* of 16 bits, not q bfloat16 and k float32"),
])
def test_refused(change, message):
    out, q, k, v = arrays()
    given = {name: value(x) for (name, x) in (("out", out), ("q", q), ("k", k), ("v", v))
             if callable(value := change.get(name, lambda x: x))}
    options = {name: value for name, value in change.items() if name not in given}
    with pytest.raises(mo.ArgumentError, match=message):
        attention(given["out"], given["q"], given["k"], given["v"], **options)


def test_memory_that_is_shared_is_refused():
    _, q, k, v = arrays(heads=1)
    lse = np.zeros((1, 1, 10), np.float32)
    with pytest.raises(mo.ArgumentError, match="attention: out shares memory with q"):
        attention(q, q, k, v)
    with pytest.raises(mo.ArgumentError, match="attention_backward: dv shares memory with dk"):
        attention_backward(np.zeros_like(q), k, k, q.copy(), q, k.copy(), v.copy(), q.copy(), lse)


def test_heads_that_cannot_share():
    with pytest.raises(mo.ArgumentError, match="3 heads of queries cannot share 2 heads of keys"):
        attention(*arrays(heads=3, heads_K=2))


def narrow(queries=10, keys=20, dim=64, dim_v=64):
    out, *operands = arrays(queries, keys, dim=dim, dim_v=dim_v)
    return out, *(x.astype(E4M3) for x in operands)


E4M3 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(("options", "message"), [
    ({"q_scale": np.ones((1, 3), np.float32)}, r"q_scale is \(1, 3\), and not one of \(2,\), \(1, 2\)"),
    ({"k_scale": np.ones(2, np.float32)}, r"k_scale is \(2,\), and not one of \(1,\), \(1, 1\)"),
    ({"v_scale": float("inf")}, "v_scale=inf is no number from 0 to 2"),
    ({"v_scale": np.ones(1)}, "v_scale is float64, not float32")])
def test_factors_refused(options, message):
    with pytest.raises(mo.ArgumentError, match=message):
        attention(*narrow(), **options)


def test_factors_of_zero_and_below():
    """Scores of 0 are equal weights of the keys that count; of a negative factor, which is none, nothing comes."""
    out, q, k, v = narrow(20, 33)
    k_scale, q_scale = np.zeros(1, np.float32), np.array([1.0, -1.0], np.float32)
    attention(out, q, k, v, causal=True, k_scale=k_scale)
    seen = np.arange(14, 34)[:, None]
    means = np.cumsum(v[0, :, 0].astype(np.float64), 0)[seen[:, 0] - 1] / seen
    assert abs(out[0, :, 0].astype(np.float64) - means).max() < 0.1
    once = np.empty_like(out)
    attention(once, q, k, v, causal=True, k_scale=0.0)
    assert np.array_equal(once, out)
    attention(out, q, k, v, q_scale=q_scale)
    assert np.isnan(out[:, :, 1].astype(float)).all() and not np.isnan(out[:, :, 0].astype(float)).any()


def test_operands_of_8_bits_refused(monkeypatch):
    with pytest.raises(mo.ArgumentError, match="k_scale is for q, k and v of float8_e4m3fn, and these are bfloat16"):
        attention(*arrays(), k_scale=2.0)
    out, q, k, v = narrow()
    with pytest.raises(mo.ArgumentError, match="not q float8_e4m3fn and out float8_e4m3fn"):
        attention(out.astype(E4M3), q, k, v)
    with pytest.raises(mo.ArgumentError, match="not q float8_e4m3fn and k bfloat16"):
        attention(out, q, k.astype(out.dtype), v)
    with pytest.raises(mo.UnsupportedError, match="this is the host, 20 keys, dimensions 48 and 48"):
        attention(*narrow(dim=48, dim_v=48))
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_89")
    with pytest.raises(mo.UnsupportedError, match=r"need sm_90a, .* this is sm_89"):
        attention(*narrow())


def test_operands_of_8_bits_have_no_gradients():
    (out, q, k, v), ends = narrow(), np.array([0, 10], np.int32)
    message = "q, k and v are float8_e4m3fn, and gradients are of bfloat16 or float16"
    with pytest.raises(mo.ArgumentError, match=f"attention_backward: {message}"):
        attention_backward(q, k, v, out, q, k, v, out, np.zeros((1, 2, 10), np.float32))
    with pytest.raises(mo.ArgumentError, match=f"attention_varlen_backward: {message}"):
        attention_varlen_backward(*(x[0] for x in (q, k, v, out, q, k, v, out)), np.zeros((2, 10), np.float32), ends,
                                  np.array([0, 20], np.int32))


# --- sequences of any lengths ----------------------------------------------------------------------------------------


def sequences(rng, lengths, heads, dim, dtype=np.float16):
    return rng.standard_normal((sum(lengths), heads, dim)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "bounded"), [(0, True), (1, False), (2, False), (3, True)])
def test_varlen_is_what_each_sequence_gives(monkeypatch, seed, bounded):
    """Bit by bit: rows of one sequence do not see those of another, and none writes beyond its own."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_80")
    rng = np.random.default_rng(seed)
    queries, keys = ([int(n) for n in rng.choice([0, 1, 7, 64, 65, 130], 4)] for _ in range(2))
    dim, options = int(rng.choice([32, 64])), {"causal": bool(seed % 2), "window": (None, 40)[::1 - 2 * (seed // 2)]}
    q, k, v, dout = (sequences(rng, *x, dim) for x in ((queries, 4), (keys, 2), (keys, 2), (queries, 4)))
    out, lse = np.full_like(q, np.nan), np.full((4, sum(queries)), np.nan, np.float32)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    ends = [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (queries, keys)]
    longest = {"longest_q": 64, "longest_k": 64} if bounded else {}
    attention_varlen(out, q, k, v, *ends, lse=lse, **longest, **options)
    attention_varlen_backward(*gradients, dout, q, k, v, out, lse, *ends, **longest, **options)
    for s in range(4):
        rows, columns = (slice(x[s], x[s + 1]) for x in ends)
        one = [x[None, rows] for x in (q, dout)] + [x[None, columns] for x in (k, v)]
        own, own_lse = np.full_like(one[0], np.nan), np.full((1, 4, queries[s]), np.nan, np.float32)
        attention(own, one[0], one[2], one[3], lse=own_lse, **options)
        assert np.array_equal(own[0], out[rows]) and np.array_equal(own_lse[0], lse[:, rows])
        found = [np.full_like(x, np.nan) for x in (one[0], one[2], one[3])]
        attention_backward(*found, one[1], one[0], one[2], one[3], own, own_lse, **options)
        for mine, whole, part in zip(found, gradients, (rows, columns, columns), strict=True):
            assert np.array_equal(mine[0], whole[part])


@pytest.mark.parametrize(("seed", "blocks"), [(0, 1), (1, 3), (2, 132)])
def test_varlen_by_warpgroups(monkeypatch, seed, blocks):
    """Against each sequence by itself; blocks that find nothing to do, and tiles in any order."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    monkeypatch.setattr(mo, "multiprocessors", lambda array: blocks)
    rng = np.random.default_rng(seed)
    queries, keys = ([int(n) for n in rng.choice([0, 1, 7, 130, 200], 3)] for _ in range(2))
    options = {"causal": seed != 1}
    q, k, v = (sequences(rng, *x, 64) for x in ((queries, 2), (keys, 1), (keys, 1)))
    out, lse = np.full_like(q, np.nan), np.full((2, sum(queries)), np.nan, np.float32)
    ends = [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (queries, keys)]
    attention_varlen(out, q, k, v, *ends, lse=lse, longest_q=200, longest_k=200, **options)
    for s in range(3):
        rows, columns = (slice(x[s], x[s + 1]) for x in ends)
        own, own_lse = np.full_like(q[None, rows], np.nan), np.full((1, 2, queries[s]), np.nan, np.float32)
        attention(own, q[None, rows], k[None, columns], v[None, columns], lse=own_lse, **options)
        same = np.testing.assert_allclose
        same(out[rows].astype(np.float64), own[0].astype(np.float64), atol=2e-3)
        same(lse[:, rows], own_lse[0], atol=1e-5)


@pytest.mark.parametrize(("seed", "blocks", "causal"), [
    (0, 1, True), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((1, 3, False), (2, 132, True)))])
def test_varlen_of_8_bits(monkeypatch, seed, blocks, causal):
    """Bit by bit what each sequence gives by the same tiles, also where values of no sequence are NaN."""
    monkeypatch.setattr(mo, "multiprocessors", lambda array: blocks)
    rng = np.random.default_rng(seed)
    queries, keys = ([int(n) for n in rng.choice([0, 1, 7, 33, 130, 200], 4)] for _ in range(2))
    q, k, v = (sequences(rng, *x, 64, E4M3) for x in ((queries, 2), ([*keys, 40], 1), ([*keys, 40], 1)))
    v[sum(keys):] = np.nan                              # of no sequence
    factors = [rng.uniform(0.5, 2, (4, heads)).astype(np.float32) for heads in (2, 1, 1)]
    out, lse = np.full(q.shape, np.nan, np.float16), np.full((2, sum(queries)), np.nan, np.float32)
    ends = [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (queries, keys)]
    with pinned(0), mo.checking() as reports:
        attention_varlen(out, q, k, v, *ends, lse=lse, longest_q=200, longest_k=200, causal=causal,
                         **dict(zip(("q_scale", "k_scale", "v_scale"), factors, strict=True)))
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
    for s in range(4):
        rows, columns = (slice(x[s], x[s + 1]) for x in ends)
        if keys[s] == 0:
            assert (out[rows] == 0).all() and (lse[:, rows] == -np.inf).all()
            continue
        own, own_lse = np.full((1, *out[rows].shape), np.nan, np.float16), np.zeros((1, 2, queries[s]), np.float32)
        each = {name: x[s:s + 1] for name, x in zip(("q_scale", "k_scale", "v_scale"), factors, strict=True)}
        with pinned(0):
            attention(own, q[None, rows], k[None, columns], v[None, columns], lse=own_lse, causal=causal, **each)
        assert np.array_equal(own[0], out[rows]) and np.array_equal(own_lse[0], lse[:, rows])


@pytest.mark.parametrize(("seed", "dim"), [(0, 64), pytest.param(1, 128, marks=pytest.mark.slow),
                                           pytest.param(2, 256, marks=pytest.mark.slow),
                                           pytest.param(3, 96, marks=pytest.mark.slow)])
def test_gradients_of_sequences_by_warpgroups(monkeypatch, seed, dim):
    """Those of each sequence by itself; none writes beyond its own, or reads what nobody wrote."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    rng = np.random.default_rng(seed)
    queries, keys = ([int(n) for n in rng.choice([0, 1, 7, 64, 130, 200], 4)] for _ in range(2))
    queries[1], keys[1] = 0, 70                         # keys that nobody sees
    options = {"causal": seed != 1, "window": (None, 40)[::1 - 2 * (seed // 2 % 2)]}
    q, k, v, dout = (sequences(rng, *x, dim) for x in ((queries, 2), (keys, 1), (keys, 1), (queries, 2)))
    out, lse = np.full_like(q, np.nan), np.full((2, sum(queries)), np.nan, np.float32)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    ends = [np.cumsum([0, *lengths]).astype(np.int32) for lengths in (queries, keys)]
    attention_varlen(out, q, k, v, *ends, lse=lse, **options)
    with mo.checking(lints=False) as reports:
        attention_varlen_backward(*gradients, dout, q, k, v, out, lse, *ends, longest_q=200, longest_k=200, **options)
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
    assert "attention_backward_sm90_kernel" in [report.kernel for report in reports]
    for s in range(4):
        rows, columns = (slice(x[s], x[s + 1]) for x in ends)
        one = [x[None, rows] for x in (q, dout, out)] + [x[None, columns] for x in (k, v)]
        found = [np.full_like(x, np.nan) for x in (one[0], one[3], one[4])]
        attention_backward(*found, one[1], one[0], one[3], one[4], one[2], lse[None, :, rows], **options)
        for mine, whole, part in zip(found, gradients, (rows, columns, columns), strict=True):
            np.testing.assert_allclose(mine[0].astype(np.float64), whole[part].astype(np.float64), atol=4e-3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_sequence_that_is_longer_than_said(monkeypatch, arch):
    """All of it is right: what was said only tells where there is work."""
    monkeypatch.setattr(mo, "arch_of", lambda array: arch)
    rng, ends, found = np.random.default_rng(0), np.array([0, 300], np.int32), []
    q, k, v, dout = (sequences(rng, [300], 1, 64) for _ in range(4))
    for longest in (300, 100):
        out, lse = np.full_like(q, np.nan), np.full((1, 300), np.nan, np.float32)
        gradients, most = [np.full_like(x, np.nan) for x in (q, k, v)], {"longest_q": longest, "longest_k": longest}
        attention_varlen(out, q, k, v, ends, ends, lse=lse, **most)
        attention_varlen_backward(*gradients, dout, q, k, v, out, lse, ends, ends, **most)
        found.append([out, lse, *gradients])
    for whole, part in zip(*found, strict=True):
        assert np.array_equal(whole, part) and not np.isnan(part.astype(float)).any()


@mo.kernel
def places_kernel(out, offsets, rows: mo.Constexpr):
    slot = mo.block_idx().x
    tile, sequence = tiles_of_sequences.place_of_slot(offsets, rows, slot)
    out[0, slot], out[1, slot] = tile, sequence


@pytest.mark.parametrize("seed", range(12))
def test_numbers_of_tiles(seed):
    """Each tile of each sequence has one, from which its place is found; there are few more."""
    rng, rows = np.random.default_rng(seed), [1, 64, 128, 192][seed % 4]
    lengths = [int(n) for n in rng.choice([0, 1, rows - 1, rows, rows + 1, 5 * rows + 3], int(rng.integers(1, 9)))]
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    out = np.full((2, tiles_of_sequences.slots(int(offsets[-1]), len(lengths), rows)), -1, np.int32)
    places_kernel[out.shape[1], 1](out, offsets, rows)
    found = [(int(tile), int(s)) for tile, s in out.T if tile * rows < lengths[s]]
    assert found == [(tile, s) for s, n in enumerate(lengths) for tile in range(-(-n // rows))]


@pytest.mark.parametrize(("change", "message"), [
    ({"offsets_q": np.zeros(3, np.int64)}, "offsets_q is int64"),
    ({"offsets_k": np.zeros(4, np.int32)}, r"offsets_k is int32 \(4,\)"),
    ({"longest_q": -1}, "longest_q=-1 is no length"), ({"lse": np.zeros((2, 9), np.float32)}, r"lse is \(2, 9\)")])
def test_varlen_refused(change, message):
    rng = np.random.default_rng(0)
    q, k = sequences(rng, [5, 5], 2, 32), sequences(rng, [5, 5], 1, 32)
    given = {"offsets_q": np.array([0, 5, 10], np.int32), "offsets_k": np.array([0, 5, 10], np.int32)} | change
    with pytest.raises(mo.ArgumentError, match=message):
        attention_varlen(np.empty_like(q), q, k, k, **given)


# --- as compiled -----------------------------------------------------------------------------------------------------


def described(dim, dim_v, dtype=mo.bfloat16, **options):
    """A problem of 4096 queries and keys, and arrays like its."""
    def like(heads, each, dtype=dtype):
        return mo.TensorLike(dtype, (2, 4096, heads, each), (4096 * heads * each, heads * each, each, 1))

    out, q, k, v = like(8, dim_v, mo.bfloat16), like(8, dim), like(4, dim), like(4, dim_v)
    given = {"causal": False, "window": (None, None), "scale": None, "softcap": 0.0, "score": None} | options
    return problem_of(out, q, k, v, **given), (out, q, k, v)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "dim_v", "options"), [
    (128, 128, {"causal": True}), (64, 64, {"causal": True}),
    (192, 128, {"causal": True}), (256, 256, {}), (128, 128, {"window": (1024, 0), "softcap": 30.0})])
def test_sm90_as_compiled(dim, dim_v, options):
    problem, (out, q, k, v) = described(dim, dim_v, **options)
    _, block, given = arguments_sm90(problem, (out, q, k, ordered(v, (3, 1, 2, 0))))
    compiled = attention_sm90_kernel.compile(*given, block=block, arch="sm_90a")
    assert compiled.spills == 0 and not re.search(r"\b(LDL|STL)\b", compiled.sass)
    assert "HGMMA" in compiled.sass and not any("serializ" in str(note) for note in compiled.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "kind", "rules"), [
    ("left", "several", ()), ("both", "batches", ()), ("both", "several", ()), ("causal", "batches", ("alibi",)),
    ("both", "batches", ("alibi",)), ("both", "several", ("alibi",)), ("causal", "batches", ("score",))])
def test_three_warpgroups_as_compiled(mask, kind, rules):
    """Head dimension 64: 160 registers of those that multiply, and 32 of the one that loads, hold what they need."""
    compiled = of_call(64, mask, kind, rules)
    assert compiled.spills == 0 and compiled.stack == 0 and compiled.registers == 128


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "rules"), [("causal", ("alibi",)), ("full", ("bias",)), ("causal", ("bias",)),
                                             ("causal", ("softcap",)), ("both", ("softcap",))])
@pytest.mark.parametrize("dim", [64, 192, 256])
def test_rules_as_compiled(dim, mask, rules):
    """What scores are besides leaves registers for the products: no addresses are held from the first one on."""
    compiled = of_call(dim, mask, "batches", rules)
    assert compiled.spills == 0 and not re.search(r"\b(LDL|STL)\b", compiled.sass)
    assert not any("each other" in str(note) or "serializ" in str(note) for note in compiled.notes)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["full", "causal", "both"])
@pytest.mark.parametrize("kind", ["batches", "ragged"])
@pytest.mark.parametrize("dim", [64, 96, 128])
def test_biases_as_compiled(dim, kind, mask):
    """All biases of a tile are on their way at once: registers hold them, and no branch parts them."""
    compiled = of_call(dim, mask, kind, ("bias",))
    assert compiled.spills == 0 and compiled.stack == 0 and compiled.registers == 168
    found = re.findall(r"HGMMA|LDG|BRA|DEPBAR", compiled.sass)
    runs = ["".join(group) for key, group in itertools.groupby(x for x in found if x != "HGMMA") if key == "LDG"]
    assert max(len(run) // 3 for run in runs) >= 32            # words of two biases that a thread has of a tile


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize(("mask", "rules"), [("full", ()), ("both", ("softcap",))])
@pytest.mark.parametrize("dim", [64, 96, 128, 192])
def test_small_tiles_as_compiled(dim, mask, rules, dtype):
    """None of them spills, plain or with what takes most registers, and no product waits for another one."""
    narrow = dtype != "bfloat16"
    for tiles, config in enumerate(candidates((dim, dim), narrow=narrow)):
        if config.groups > 1:
            continue
        with pinned(2 * tiles + 1):
            compiled = of_call(dim, mask, "several", rules, dtype)
        assert compiled.spills == 0 and compiled.stack == 0, config
        assert not any("wait for each other" in str(note) for note in compiled.notes), config


def of_call(dim, mask, kind, rules, dtype="bfloat16"):
    call = attention_registers.Call(dtype, (dim, dim), mask, rules, kind)
    (compiled,) = (program for _, name, program in attention_registers.measured([call]) if name.startswith("attention"))
    return compiled


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "options"), [
    (64, {}), (128, {"causal": True}), (192, {"causal": True}), (256, {}),
    (128, {"window": (1024, 0), "softcap": 30.0})])
def test_8_bits_as_compiled(dim, options):
    problem, (out, q, k, _) = described(dim, dim, mo.float8_e4m3fn, **options)
    turned = mo.TensorLike(mo.float8_e4m3fn, (dim, 4096, 4, 2), (4096, 1, 4096 * dim, 4096 * dim * 4))
    factors = [mo.TensorLike(mo.float32, (2, heads), (heads, 1)) for heads in (8, 4, 4)]
    _, block, given = arguments_sm90(problem, (out, q, k, turned), factors=tuple(factors))
    compiled = attention_sm90_kernel.compile(*given, block=block, arch="sm_90a")
    assert compiled.spills == 0 and not re.search(r"\b(LDL|STL)\b", compiled.sass)
    assert "QGMMA" in compiled.sass and not any("serializ" in str(note) for note in compiled.notes)
    assert not any("wait for each other" in str(note) for note in compiled.notes)


@pytest.mark.parametrize(("dim", "keys"), [(64, 33), (128, 200), (96, 1)])
def test_turned_values(dim, keys):
    """Each 16 keys in the order in which a thread holds their weights; zeros behind the last."""
    v = np.random.default_rng(keys).standard_normal((2, keys, 3, dim)).astype(E4M3)
    with mo.checking() as reports:
        found = sm90_host.turned(v, None)
    assert found.shape == (dim, -(-keys // 32) * 32, 3, 2) and all(report.ok for report in reports)
    padded = np.pad(v.astype(np.float32), ((0, 0), (0, found.shape[1] - keys), (0, 0), (0, 0)))
    places = np.arange(found.shape[1])
    order = [place // 16 * 16 + {0: 0, 1: 1, 2: 8, 3: 9}[place % 4] + place % 16 // 4 * 2 for place in places]
    assert np.array_equal(found.astype(np.float32), padded[:, order].transpose(3, 1, 2, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "options"), [(64, {}), (128, {"causal": True})])
def test_sm80_as_compiled(dim, options):
    _, block, given = arguments_sm80(*described(dim, dim, **options))
    compiled = attention_sm80_kernel.compile(*given, block=block, arch="sm_80")
    assert compiled.spills == 0 and "HMMA.16816" in compiled.sass and "LDGSTS.E.BYPASS.128" in compiled.sass


@pytest.mark.parametrize(("dtype", "dim"), [(mo.float32, 256), (mo.float64, 128), (mo.float64, 256)])
def test_exact_as_compiled(dtype, dim):
    """Nothing spills, and no tensor core rounds an operand."""
    rows = mo.TensorLike(dtype, (2, 4096, 8, dim), (4096 * 8 * dim, 8 * dim, dim, 1))
    lse = mo.TensorLike(dtype, (2, 8, 4096), (8 * 4096, 4096, 1))
    with compile_only("sm_90a") as compiled:
        attention(rows, rows, rows, rows, causal=True, softcap=2.0, lse=lse)
        attention_backward(rows, rows, rows, rows, rows, rows, rows, rows, lse, causal=True, softcap=2.0)
    assert len(compiled.programs) == 4
    for program in compiled.programs:
        assert program.spills == 0 and not any(name in program.sass for name in ("HMMA", "DMMA"))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "dim"), [("keys", 64), ("keys", 128), ("keys", 256), ("queries", 256)])
def test_gradients_as_compiled(monkeypatch, kernel, dim):
    problem, (out, q, k, v) = described(dim, dim, causal=True)
    lse = mo.TensorLike(mo.float32, (2, 8, 4096), (8 * 4096, 4096, 1))
    calls = []
    for name in ("row_products_kernel", "keys_gradient_kernel", "queries_gradient_kernel"):
        def launcher(grid_and_block, name=name):
            return lambda *args: calls.append((name, grid_and_block[1], args))
        monkeypatch.setattr(host, name, type("Fake", (), {"__getitem__": lambda self, at, run=launcher: run(at)})())
    host.launch_gradients(problem, {"q": q, "k": k, "v": v, "out": out, "dout": out, "lse": lse, "dq": q, "dk": k,
                                    "dv": v})
    launched = [call for call in calls if call[0].startswith(kernel)]
    assert len(launched) == (2 if kernel == "keys" and dim == 256 else 1)
    for name, block, args in launched:
        compiled = getattr(backward, name).compile(*args, block=block, arch="sm_90a")
        assert compiled.spills == 0 and "HMMA.16816" in compiled.sass


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "options", "in_order"), [
    (64, {"window": (1024, 0)}, True), (128, {}, True), (128, {"causal": True}, False),
    (128, {"causal": True, "softcap": 30.0}, False), (256, {}, False), (256, {"causal": True}, True),
    (256, {"causal": True}, False), (192, {"softcap": 30.0}, False), (64, {"softcap": 30.0}, False)])
def test_gradients_sm90_as_compiled(monkeypatch, dim, options, in_order):
    problem, (out, q, k, v) = described(dim, dim, **options)
    lse = mo.TensorLike(mo.float32, (2, 8, 4096), (8 * 4096, 4096, 1))
    calls = {}
    for name in ("numbers_kernel", "attention_backward_sm90_kernel", "queries_kernel"):
        def launch(self, *args, grid, block, dependent, name=name):
            calls[name] = block, args
        fake = type("Fake", (), {"launch": launch, "__getitem__": lambda self, at, run=launch: functools.partial(
            run, self, grid=at[0], block=at[1], dependent=False)})()
        monkeypatch.setattr(sm90_host, name, fake)
    sm90_host.launch_gradients_sm90(problem, {"q": q, "k": k, "v": v, "out": out, "dout": out, "lse": lse, "dq": q,
                                              "dk": k, "dv": v}, in_order=in_order)
    assert len(calls) == 3
    for name, (block, args) in calls.items():
        compiled = getattr(sm90_backward, name).compile(*args, block=block, arch="sm_90a")
        assert compiled.spills == 0 and not re.search(r"\b(LDL|STL)\b", compiled.sass), name
        assert not any("wait for each other" in str(note) for note in compiled.notes), name
        assert ("HGMMA" in compiled.sass) == name.startswith("attention")


@pytest.mark.parametrize("seed", range(40))
def test_turns_of_gradients(seed):
    """All tiles of keys that queries see add to them in turns of their own; nobody waits for blocks of later launches,
    unless they are together."""
    rng = np.random.default_rng(seed)
    config, together = GradientConfig(*[(128, 128), (64, 128), (64, 64)][seed % 3]), int(rng.choice([1, 2, 3, 5, 32]))
    rules = Rules(left=seed % 4 == 1, right=seed % 4 in (1, 2))
    plan = make_gradient_plan(config, mo.float16, 64, 64, rules, 1, True, together)
    queries, keys, left, right = (int(n) for n in rng.integers(1, 2000, 4))
    how = Scores(rules, queries, keys, 1.0, None, left // 4, right // 4 * (seed % 8 > 3), None, None, ())
    m_tiles, n_tiles, orders = -(-queries // config.bM), -(-keys // config.bN), {}
    for n in range(n_tiles):
        least, most = (int(x) for x in sm90_backward.tiles_of(plan, how, n))
        places = [int(sm90_backward.step_of(plan, how, n, i, most)) for i in range(least, most)]
        assert sorted(places) == list(range(least, most))
        for m in places:
            orders.setdefault(m, []).append((int(sm90_backward.turn_of(plan, how, m, n)), n))
    assert plan.rotates or rules.right or rules.left
    for found in orders.values():
        assert sorted(turn for turn, _ in found) == list(range(len(found)))
        if plan.rotates:
            most = min(together, m_tiles, n_tiles)
            assert [n // most for _, n in sorted(found)] == sorted(n // most for _, n in found)
        else:
            assert [n for _, n in sorted(found)] == sorted((n for _, n in found), reverse=True)


@pytest.mark.parametrize(("options", "together"), [({}, 2), ({"causal": True}, 32),
                                                   pytest.param({"window": (90, 0)}, 32, marks=pytest.mark.slow),
                                                   pytest.param({}, 32, marks=pytest.mark.slow)])
def test_gradients_in_turns(monkeypatch, options, together):
    """Blocks that begin at any queries, and those that begin at their diagonal: checked, and against the others."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    monkeypatch.setattr(mo, "multiprocessors", lambda array: together)
    rng, found = np.random.default_rng(0), []
    q, k, v, dout = (rng.standard_normal((1, n, 1, 128)).astype(np.float16) for n in (300, 500, 500, 300))
    out, lse = np.empty_like(q), np.empty((1, 1, 300), np.float32)
    attention(out, q, k, v, lse=lse, **options)
    for deterministic in (True, False):
        gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
        with mo.checking(lints=False) as reports:
            attention_backward(*gradients, dout, q, k, v, out, lse, deterministic=deterministic, **options)
        assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
        found.append([x.astype(np.float64) for x in gradients])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.parametrize("dim", [64, 128, 256])
def test_stages_of_gradients_fit(dim):
    for config in gradient_candidates((dim, dim)):
        assert config.blocks * (config.shared(dim) + 2048) <= SHARED
        assert config.blocks * GROUP * (sum(config.registers) + (config.groups - 1) * config.registers[1]) <= 1 << 16


def test_biases_and_caps_take_small_tiles_of_gradients():
    """The large ones spill with them."""
    calls = Calls(64, 4096, 4096)
    rules = {}, {"biased": True}, {"capped": True}
    usual, biased, capped = (choose_gradient(calls, (64, 64), 132, **given) for given in rules)
    assert usual.bM == 128 and biased == capped == gradient_candidates((64, 64))[-1] and biased.bM == 64
    assert choose_gradient(calls, (128, 128), 132, biased=True) == choose_gradient(calls, (128, 128), 132)


@pytest.mark.parametrize(("right", "ragged"), [(None, False), (None, True), (0, False), (0, True), (70, False)])
def test_tiles_of_queries_that_see_whole_tiles_of_keys(right, ragged):
    """From the first of them on every query sees every key of the tile, and before it some query does not."""
    queries, bM, bN, keys = 300, 64, 128, 320 if ragged else 384
    how = Scores(Rules(False, right is not None, ragged), queries, keys, 1.0, None, None, right, None, None, ())
    for n in range(-(-keys // bN)):
        least, most = query_tiles(how, n * bN, bM, bN)
        low = whole_from(how, n * bN, bM, bN, least, most)
        for m in range(-(-queries // bM)):
            i, j = np.arange(m * bM, m * bM + bM)[:, None], np.arange(n * bN, n * bN + bN)[None, :]
            seen = (j < keys) & (j <= (i + keys - queries + right if right is not None else j))
            assert least <= m < most or not seen[i[:, 0] < queries].any()
            assert (low <= m < most) == (seen.all() and least <= m < most)


def by_wgmma(dims):
    dim, dim_v = dims
    return dim % 16 == 0 and dim_v % 16 == 0 and dim_v <= dim


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_stages_fit(narrow, biased):
    """Shared memory and registers hold every configuration, and as many of its blocks as it is meant for."""
    step = 32 if narrow else 16
    for dims in itertools.product(range(step, 257, step), repeat=2):
        if dims[1] <= dims[0]:
            fit(dims, narrow, candidates(dims, narrow=narrow, biased=biased))


def fit(dims, narrow, configs):
    assert configs
    for config in configs:
        assert config.blocks * (config.shared(*dims, width=1 if narrow else 2) + 2048) <= SHARED
        sums = config.bN // 2 + config.bN // (8 if narrow else 4) + dims[1] // 2    # scores, weights, results
        assert sums + 30 <= config.registers[1] and config.bN % (32 if narrow else 16) == 0
        assert config.blocks * GROUP * (config.registers[0] + config.groups * config.registers[1]) <= 1 << 16


# --- which tiles -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_work_by_counting(seed):
    """Tiles, and how many tiles of the others they go through, as counted one by one; the model looks at a few."""
    rng = random.Random(seed)
    bM, bN, queries, keys = (rng.choice(x) for x in ((64, 128, 192), (64, 96, 128), range(1, 700), range(1, 900)))
    left, right = (rng.choice((None, 0, rng.randint(0, 500))) for _ in range(2))
    calls = Calls(3, queries, keys, left, right, group=2)
    seen = np.ones((queries, keys), bool)
    apart = np.arange(keys) - (np.arange(queries)[:, None] + keys - queries)
    seen &= (right is None) | (apart <= (right or 0))
    seen &= (left is None) | (apart >= -(left or 0))
    tiles = [[seen[m:m + bM, n:n + bN].any() for n in range(0, keys, bN)] for m in range(0, queries, bM)]
    rows, columns = np.sum(tiles, axis=1), np.sum(tiles, axis=0)
    for found, size, counts, least, times in ((forward_work(bM, bN, calls), len(rows), rows, 1, 1),
                                              (backward_work(bM, bN, calls), len(columns), columns, 0, 2)):
        counts = times * np.maximum(counts, least)
        assert found.tiles == 3 * size and found.unequal == (left is not None or right is not None)
        if size <= 16 and queries <= keys:
            assert abs(found.mean - counts.mean()) <= times and found.most <= counts.max() + times
            assert found.most >= counts.max()


@pytest.mark.parametrize(("dim", "calls", "small"), [
    (128, Calls(4096, 112, 112, None, 0), True), (128, Calls(64, 8192, 8192), False),
    (64, Calls(512, 57, 57), True), (64, Calls(1, 4096, 4096, None, 0), True), (64, Calls(256, 4096, 4096), False),
    (192, Calls(512, 40, 40), True), (192, Calls(64, 4096, 4096, None, 0), False)])
def test_few_queries_or_few_tiles_take_small_ones(dim, calls, small):
    config = choose(calls, (dim, dim), 132)
    assert (config.bM == 64) == small and (config.blocks > 1) == small


@pytest.mark.parametrize("dims", [(64, 64), (96, 96), (128, 128), (192, 192), (192, 128)])
def test_the_model_grows_with_work(dims):
    """More heads, queries or keys never take less time by the same tiles."""
    rng = random.Random(0)
    for config in candidates(dims):
        for _ in range(40):
            heads, queries, keys = (2 ** rng.randint(0, 10) for _ in range(3))
            right = rng.choice((None, 0))
            times = [modelled(config, Calls(*n, None, right), dims, 132, narrow=False, biased=False) for n in (
                (heads, queries, keys), (2 * heads, queries, keys), (heads, queries, 2 * keys))]
            assert times[0] <= min(times[1:]) + 1e-9


def test_the_choice_of_the_data_is_good():
    """The tables are those of the fit: on all calls that were measured, at most 4 % over the best in the mean."""
    forward, backward = attention_fit.read(str(DATA))
    for sets in (forward, backward):
        found = [attention_fit.regret(rows, min(rows, key=lambda row: row.estimate())) for rows in sets]
        assert sum(found) / len(found) <= 0.04


def test_rules_say_what_is_masked():
    assert not Rules(ragged=False).masks and Rules(ragged=True).masks and not Rules(ragged=True).windowed
    assert Rules(left=True).windowed and Rules(right=True).masks


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("sink", [-np.inf, 0.5])
def test_a_sink_beside_a_row_in_which_nothing_counts(dtype, sink):
    """The row is 0, and its lse that of the sink alone."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, n, 1, 16)).astype(dtype) for n in (3, 2, 2))
    out, lse = np.full_like(q, np.nan), np.full((1, 1, 3), np.nan, np.float32)
    attention(out, q, k, v, causal=True, sinks=np.array([sink], np.float32), lse=lse)
    assert (out[0, 0] == 0).all() and lse[0, 0, 0] == sink and np.isfinite(out).all()
