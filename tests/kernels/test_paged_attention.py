"""Attention over pages in the simulator against float64: drawn cases, what is refused, the kernels as compiled."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import random_pages
from moye.kernels import paged_attention
from moye.kernels.attention.decode import host, kernel
from moye.kernels.attention.decode.kernel import decode_kernel
from moye.kernels.attention.decode.plan import WARPS, make_plan
from moye.kernels.attention.parts.scores import Rules
from random_pages import Case, draw, run
from random_products import NumPy


def judged(case):
    with mock.patch.object(mo, "multiprocessors", lambda array: case.blocks), \
            mock.patch.object(host, "LONG", case.long), mo.checking() as reports:
        run(case, NumPy())
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)


@pytest.mark.parametrize("seed", range(4))
def test_a_few(seed):
    judged(draw(random.Random(seed), most=300))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(4, 40, 6))
def test_more(first):
    for seed in range(first, first + 6):
        judged(draw(random.Random(seed), most=500))


@pytest.mark.parametrize("seed", [10, 18, 21, 35])
def test_caches_of_8_bits(seed):
    case = draw(random.Random(seed), most=300)
    assert case.stored
    judged(case)


@pytest.mark.parametrize(("lengths", "long"), [((0, 5, 70, 16, 1) * 15, 1024), ((17, 0, 40) * 23, 1)])
def test_more_sequences_than_a_warp_has_lanes(lengths, long):
    judged(Case(3, "bf16", 1, lengths, 2, 1, 64, 64, 16, 1, blocks=2, long=long))


@pytest.mark.parametrize(("queries", "heads"), [(1, 3), (1, 9), (5, 4), (9, 4), (13, 4), (16, 4), (16, 8)])
@pytest.mark.parametrize(("dims", "stored"), [((64, 64), ""), ((40, 72), ""), ((96, 96), "e4m3"), ((192, 192), "e4m3")])
def test_rows_of_any_number(queries, heads, dims, stored):
    """Any of eight parts of up to 64 rows are computed; page ends are inside of tiles, and parts are added up."""
    factors = ("head", "token") if stored else ("", "")
    dims = tuple(-(-d // 16) * 16 for d in dims) if stored else dims
    for long, page in ((1, 16), (1024, 64)):
        judged(Case(queries, "bf16", queries, (70, 17, 33), heads, 1, *dims, page, 1, stored=stored, factors=factors,
                    blocks=8, long=long))


@pytest.mark.parametrize("stored", [mo.bfloat16, mo.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("dim", range(16, 257, 16))
def test_rounds_have_all_columns_once(dim, stored):
    """Of all head dimensions: what lies side by side in a round's memory does so in a row of results."""
    for dim_v in range(16, 257, 16):
        plan = make_plan((mo.bfloat16, stored), Rules(), (dim, dim_v), (4, 1), 1, 64, mo.hardware.of("sm_90a"))
        count, seen = plan.dim_v // plan.rounds // 4, []
        for r, quad in itertools.product(range(plan.rounds), range(4)):
            with mock.patch.object(mo, "lane_idx", lambda quad=quad: quad):
                for run in kernel.runs_of(plan, count):
                    places = [kernel.place_of.__wrapped__(plan, k) for k in run]
                    columns = [kernel.column_of.__wrapped__(plan, r * count + k) for k in run]
                    for found in (places, columns):
                        assert found == list(range(found[0], found[0] + len(run))) and found[0] % len(run) == 0
                    assert columns == [kernel.behind.__wrapped__(plan, u, r) for u in places]
                    seen += columns
        assert sorted(seen) == list(range(plan.dim_v))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_shares_of_drawn_lengths(seed):
    """Many sequences, most of them short, on devices of all sizes: shares begin and end anywhere."""
    rng = random.Random(seed)
    lengths = tuple(rng.choice((0, 1, 15, 40, 130, 600)) for _ in range(rng.choice((9, 33, 64))))
    heads_K = rng.choice((1, 2, 3, 5))
    judged(Case(seed, "f16", rng.choice((1, 3)), lengths, heads_K * rng.choice((1, 3)), heads_K, 64, 64, 32, 0,
                window=rng.choice((None, 50)), blocks=rng.choice((1, 3, 7, 132)), long=rng.choice((1, 1024))))


@pytest.mark.parametrize("dims", [(256, 256), (128, 128), (64, 64)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_devices_of_less_shared_memory(arch, dims, monkeypatch):
    """As many stages as fit, at least one."""
    device = mo.hardware.of(arch)
    plan = make_plan((mo.bfloat16, mo.bfloat16), Rules(), dims, (4, 1), 1, 16, device)
    held = 2 * (mo.cosize(plan.Q) + mo.cosize(plan.K) + mo.cosize(plan.V))
    assert 1 <= plan.stages <= 3 and held < device.block_shared and (dims[0] == 64 or plan.stages < 3)
    monkeypatch.setattr(mo, "arch_of", lambda array: arch)
    judged(Case(3, "bf16", 1, (100, 0, 33), 4, 1, *dims, 16, 1, blocks=1))


def test_both_ways_to_share_are_drawn():
    cases = [case for seed in range(40) if (case := draw(random.Random(seed), most=300)).long == 1]
    with mock.patch.object(host, "LONG", 1):
        assert {host.phases_of(len(case.lengths) * case.heads_K, 1, 8 * case.blocks) for case in cases} == {1, WARPS}


@pytest.mark.parametrize("rule", ["bias", "alibi", "sinks", "score", "softcap", "window"])
def test_each_rule(rule):
    case = Case(7, "f16", 3, (70, 0, 17), 4, 2, 64, 64, 16, 1)
    judged(replace(case, **{rule: {"bias": "bf16", "alibi": 2, "softcap": 5.0, "window": 20}.get(rule, True)}))
    judged(replace(case, stored="e4m3", factors=("token", "token"),
                   **{rule: {"bias": "f32", "alibi": 1, "softcap": 5.0, "window": 9}.get(rule, True)}))


def test_all_kinds_are_drawn():
    cases = [draw(random.Random(seed), most=200) for seed in range(400)]
    for name in ("stored", "bias", "alibi", "sinks", "score", "softcap", "window"):
        assert len({bool(getattr(case, name)) for case in cases}) == 2, name
    assert {kind for case in cases for kind in case.factors} == {"", "one", "head", "batch", "token"}
    assert {case.dtype for case in cases if case.stored} == {"bf16", "f16"}


@pytest.mark.parametrize(("seed", "name"), [(0, "scale"), (18, "scale"), (18, "k_scale"), (18, "v_scale"),
                                            (21, "v_scale")])
def test_a_fault_is_found(monkeypatch, seed, name):
    case = draw(random.Random(seed), most=300)
    call = random_pages.paged_attention

    def faulty(*args, **given):
        right = given[name] if given[name] is not None else case.dim ** -0.5
        return call(*args, **given | {name: np.float32(1.05) * right if name != "scale" else 1.05 * right})

    monkeypatch.setattr(random_pages, "paged_attention", faulty)
    with pytest.raises(AssertionError, match="off by"):
        judged(case)


E4M3 = ml_dtypes.float8_e4m3fn


def arrays(queries=1, heads=4, heads_K=2, dim=64, page_size=16, dtype=ml_dtypes.bfloat16, stored=None):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, queries, heads, dim)).astype(dtype)
    k, v = (rng.standard_normal((6, page_size, heads_K, dim)).astype(stored or dtype) for _ in range(2))
    table = np.array([[4, 0, 2], [1, 5, 3]], np.int32)
    return {"out": np.zeros_like(q), "q": q, "k_cache": k, "v_cache": v, "page_table": table,
            "lengths": np.array([40, 33], np.int32)}


@pytest.mark.parametrize(("change", "message"), [
    ({"q": lambda x: x.astype(np.float16)}, "q float16 and k_cache bfloat16"),
    ({"lengths": lambda x: x.astype(np.int64)}, "lengths is int64"),
    ({"page_table": lambda x: x[:1]}, r"page_table is int32 \(1, 3\), not int32 of 2 sequences"),
    ({"v_cache": lambda x: x[:, :12], "k_cache": lambda x: x[:, :12]}, "pages have 16, 32, 64, 128, 256 keys, not 12"),
    ({"out": lambda x: x[:, :, :1]}, r"out is \(2, 1, 1, 64\)"),
    ({"k_cache": lambda x: x[..., :60], "q": lambda x: x[..., :60]}, "k_cache has strides"),
    ({"k_cache": lambda x: x.astype(E4M3)}, "q bfloat16 and k_cache float8_e4m3fn"),
])
def test_refused(change, message):
    given = arrays()
    given.update({name: edit(given[name]) for name, edit in change.items()})
    with pytest.raises(mo.ArgumentError, match=message):
        paged_attention(**given)


def test_too_many_queries_and_odd_options():
    with pytest.raises(mo.ArgumentError, match="1 to 16 queries of a sequence, not 17"):
        paged_attention(**arrays(queries=17))
    with pytest.raises(mo.ArgumentError, match="3 heads of queries cannot share 2 heads"):
        paged_attention(**arrays(heads=3))
    with pytest.raises(mo.ArgumentError, match="window=-1"):
        paged_attention(**arrays(), window=-1)


def test_more_keys_than_are_counted():
    like, batch, pages = mo.TensorLike, 1 << 14, 1 << 16
    q = like(mo.bfloat16, (batch, 1, 4, 64), (256, 256, 64, 1))
    cache = like(mo.bfloat16, (100, 256, 2, 64), (256 * 128, 128, 64, 1))
    with pytest.raises(mo.ArgumentError, match="16384 sequences of up to 16777216 keys are more than numbers of"):
        paged_attention(q, q, cache, cache, like(mo.int32, (batch, pages), (pages, 1)), like(mo.int32, (batch,)))


@pytest.mark.parametrize(("options", "message"), [
    ({"k_scale": 2.0}, "k_scale is for caches of float8_e4m3fn, and these are bfloat16"),
    ({"tensors": (np.zeros(3, np.float32),)}, "tensors are handed to a score function, and there is none"),
    ({"bias": np.zeros((2, 4, 1, 40), np.float32)}, r"\(2, 4, 1, 40\) where the others ask for \(2, 4, 1, 48\)"),
    ({"sinks": np.zeros(3, np.float32)}, r"sinks is \(3,\) where the others ask for \(4,\)"),
    ({"alibi": np.zeros((4, 2), np.float32)}, r"alibi is \(4, 2\)")])
def test_options_refused(options, message):
    with pytest.raises(mo.ArgumentError, match=message):
        paged_attention(**arrays(), **options)


@pytest.mark.parametrize(("factor", "message"), [
    (-1.0, "v_scale=-1.0 is no number from 0 to 2"), ("a", "v_scale is a str, no number and no array"),
    (np.zeros(3, np.float32), r"v_scale is \(3,\), and not one of \(2,\), \(2, 2\), \(6, 16, 2\)"),
    (np.zeros(2), "v_scale is float64, not float32")])
def test_factors_refused(factor, message):
    with pytest.raises(mo.ArgumentError, match=message):
        paged_attention(**arrays(stored=E4M3), v_scale=factor)


@pytest.mark.parametrize(("stored", "options"), [
    (None, {"scale": 0.0}), (E4M3, {"scale": 0}), (E4M3, {"k_scale": 0.0}),
    *((E4M3, {"k_scale": np.zeros(shape, np.float32)}) for shape in (2, (2, 2), (6, 16, 2)))])
def test_scores_of_zero(stored, options):
    """All keys have the same weight."""
    given = arrays(stored=stored)
    paged_attention(**given, **options)
    for b, length in enumerate((40, 33)):
        rows = given["v_cache"][given["page_table"][b]].reshape(-1, 2, 64)[:length].astype(np.float64)
        assert abs(given["out"][b, 0].astype(np.float64) - rows.mean(0).repeat(2, 0)).max() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "arch", "stored", "factors"), [
    (64, "sm_80", mo.bfloat16, ()), (128, "sm_90a", mo.bfloat16, ()), (256, "sm_90a", mo.bfloat16, ()),
    (64, "sm_89", mo.float8_e4m3fn, (16, 8)), (64, "sm_90a", mo.float8_e4m3fn, (16, 8)),
    (128, "sm_90a", mo.float8_e4m3fn, (16, 8)),
    (128, "sm_90a", mo.float8_e4m3fn, (100, 64, 8)), (256, "sm_90a", mo.float8_e4m3fn, (100, 64, 8))])
def test_as_compiled(monkeypatch, dim, arch, stored, factors):
    compiled = decode_kernel.compile(*launched(monkeypatch, dim, stored, factors), block=WARPS * 32, arch=arch)
    assert compiled.spills == 0 and "LDGSTS.E.BYPASS.128" in compiled.sass and "HMMA.16816" in compiled.sass
    if stored is mo.float8_e4m3fn:
        assert "LDS.128" in compiled.sass and "F2FP.F16.E4M3.UNPACK_B" in compiled.sass


@pytest.mark.slow
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("stored", [mo.bfloat16, mo.float8_e4m3fn])
@pytest.mark.parametrize("queries", [1, 2, 4, 6, 8])
def test_nothing_spills_with_any_number_of_rows(monkeypatch, dim, stored, queries):
    """8 to 64 rows of a tile, 8 heads share keys: their scores and sums are a thread's registers."""
    compiled = decode_kernel.compile(*launched(monkeypatch, dim, stored, (), queries), block=WARPS * 32, arch="sm_90a")
    assert compiled.spills == compiled.stack == 0


def test_caches_of_8_bits_need_sm_89(monkeypatch):
    with pytest.raises(mo.MoyeError, match="conversions from float8_e4m3fn"):
        decode_kernel.compile(*launched(monkeypatch, 64, mo.float8_e4m3fn, ()), block=WARPS * 32, arch="sm_80")


def launched(monkeypatch, dim, stored, factors, queries=1):
    """What the kernel is launched with for 16 sequences of so many queries."""
    calls = []
    fake = type("Fake", (), {"__getitem__": lambda self, at: lambda *args: calls.append(args),
                             "launch": lambda self, *args, **options: calls.append(args)})()
    monkeypatch.setattr(host, "decode_kernel", fake)
    monkeypatch.setattr(host, "combine_kernel", fake)
    monkeypatch.setattr(mo, "multiprocessors", lambda array: 132)
    like = mo.TensorLike
    caches = [like(stored, (100, 64, 8, dim), (64 * 8 * dim, 8 * dim, dim, 1)) for _ in range(2)]
    q = like(mo.bfloat16, (16, queries, 64, dim), (queries * 64 * dim, 64 * dim, dim, 1))
    scale = like(mo.float32, factors, tuple(np.cumprod((1, *factors[:0:-1]))[::-1].tolist())) if factors else None
    paged_attention(q, q, *caches, like(mo.int32, (16, 128), (128, 1)), like(mo.int32, (16,)), k_scale=scale,
                    v_scale=scale)
    return calls[0]
