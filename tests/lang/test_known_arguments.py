"""What facts decide is taken where a Python bool is: predicates, ``accumulate=``."""

from __future__ import annotations

import numpy as np

import moye as mo


@mo.kernel
def guarded(src: mo.Tensor, dst: mo.Tensor):
    warp = mo.thread_idx().x // 32                      # 0 in a block of one warp
    part = mo.fragment(1, mo.float32)
    part.fill(0)
    mo.copyto(part, mo.tile(src, (1,), (mo.thread_idx().x,)), pred=warp < 1)
    mo.copyto(mo.tile(dst, (1,), (mo.thread_idx().x,)), part, pred=warp == 0)
    mo.copyto(mo.tile(dst, (1,), (mo.thread_idx().x,)), part, pred=warp > 0)


def test_a_predicate_that_facts_decide():
    src, dst = np.random.default_rng(1).standard_normal(32).astype(np.float32), np.full(32, np.nan, np.float32)
    assert mo.check(guarded)[1, 32](src, dst).ok
    np.testing.assert_array_equal(dst, src)


@mo.kernel
def product(dst: mo.Tensor):
    fma = mo.UniversalFMA(mo.float32)
    a, b, c = mo.fragment((1, 1), mo.float32), mo.fragment((1, 1), mo.float32), mo.fragment((1, 1, 1), mo.float32)
    for x in (a, b, c):
        x.fill(2)
    mo.gemm(mo.make_tiled_mma(fma).op, a, b, c, accumulate=mo.thread_idx().x < 64)
    dst[mo.thread_idx().x] = c[0, 0, 0]


def test_an_accumulation_that_facts_decide():
    dst = np.full(32, np.nan, np.float32)
    product[1, 32](dst)
    assert (dst == 6).all()
