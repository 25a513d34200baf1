"""Attention over pages in the simulator against float64: drawn cases, what is refused, the kernels as compiled."""

from __future__ import annotations

import random
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import random_pages
from moye.kernels import paged_attention
from moye.kernels.attention.decode import host
from moye.kernels.attention.decode.kernel import decode_kernel
from moye.kernels.attention.decode.plan import WARPS
from random_pages import draw, run
from random_products import NumPy


def judged(case):
    with mock.patch.object(mo, "multiprocessors", lambda array: case.blocks), mo.checking() as reports:
        run(case, NumPy())
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)


@pytest.mark.parametrize("seed", range(4))
def test_a_few(seed):
    judged(draw(random.Random(seed), most=300))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(4, 22, 6))
def test_more(first):
    for seed in range(first, first + 6):
        judged(draw(random.Random(seed), most=500))


def test_a_fault_is_found(monkeypatch):
    case = draw(random.Random(0), most=300)
    call = random_pages.paged_attention
    monkeypatch.setattr(random_pages, "paged_attention", lambda *args, **given: call(
        *args, **given | {"scale": 1.05 * (given["scale"] or case.dim ** -0.5)}))
    with pytest.raises(AssertionError, match="off by"):
        judged(case)


def arrays(queries=1, heads=4, heads_K=2, dim=64, page_size=16, dtype=ml_dtypes.bfloat16):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in (
        (2, queries, heads, dim), (6, page_size, heads_K, dim), (6, page_size, heads_K, dim)))
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


def test_splits():
    assert host.splits_of(132, 128, 8192) == 2 and host.splits_of(132, 1, 1 << 20) == 264
    assert host.splits_of(132, 1, 512) == 2 and host.splits_of(132, 1000, 8192) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "arch"), [(64, "sm_80"), (128, "sm_90a"), (256, "sm_90a")])
def test_as_compiled(monkeypatch, dim, arch):
    calls = []
    fake = type("Fake", (), {"__getitem__": lambda self, at: lambda *args: calls.append(args)})()
    monkeypatch.setattr(host, "decode_kernel", fake)
    monkeypatch.setattr(host, "combine_kernel", fake)
    monkeypatch.setattr(mo, "multiprocessors", lambda array: 132)
    like = mo.TensorLike
    caches = [like(mo.bfloat16, (100, 64, 8, dim), (64 * 8 * dim, 8 * dim, dim, 1)) for _ in range(2)]
    q = like(mo.bfloat16, (16, 1, 64, dim), (64 * dim, 64 * dim, dim, 1))
    paged_attention(q, q, *caches, like(mo.int32, (16, 128), (128, 1)), like(mo.int32, (16,)))
    compiled = decode_kernel.compile(*calls[0], block=WARPS * 32, arch=arch)
    assert compiled.spills == 0 and "LDGSTS.E.BYPASS.128" in compiled.sass and "HMMA.16816" in compiled.sass
