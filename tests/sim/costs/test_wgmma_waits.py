"""P4 of wgmma: told where one warp group waits for products that the next ones need not wait for."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.jit
def multiply(C, sA, sB, full, empty, mma, tiles, how):
    """The role of one warp group, or two: C = A * B^T."""
    thr, stages = mma.get_slice(mo.thread_idx().x % mo.size(mma)), mo.size(sA, 2)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((mo.size(sA, 0), mo.size(sB, 0)))
    before = 0
    for k in range(tiles):
        stage = k % stages
        mo.mbarrier_wait(full, stage, k // stages % 2)
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA[:, :, :, stage], tCrB[:, :, :, stage], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()
        if how == "one-left":
            mo.warpgroup_wait(1)
            if k > 0 and mo.thread_idx().x % 128 == 0:
                mo.mbarrier_arrive(empty, before)
            before = stage
        else:
            mo.warpgroup_wait(0)
            if mo.thread_idx().x % 128 == 0:
                mo.mbarrier_arrive(empty, stage)
        if how == "scaled":
            acc[...] = acc * 0.5
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@mo.kernel
def ring(C: mo.Static, A, B, mma, layouts, how: mo.Constexpr):
    """Stages that one thread behind the warp groups fills by TMA."""
    sA, sB = mo.shared_array(A.dtype, layouts[0]), mo.shared_array(B.dtype, layouts[1])
    stages = mo.size(layouts[0], 2)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, gA, gB = mo.thread_idx().x, mo.tile(A.tensor, A.tile, (0, None)), mo.tile(B.tensor, B.tile, (0, None))
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, mo.size(mma) // 128)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < mo.size(mma):
        multiply(C, sA, sB, full, empty, mma, tiles, how)
    elif tid == mo.size(mma):
        for k in range(tiles):
            stage = k % stages
            mo.mbarrier_wait(empty, stage, k // stages % 2 ^ 1)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            mo.copyto(B, sB[:, :, stage], gB[:, :, k], barrier=(full, stage))


def run_ring(how="", *, stages=3, tiles=7, groups=1, blocks=1, pad=0):
    rng, M = np.random.default_rng(0), 64 * groups
    A, B = (rng.standard_normal((rows, 64 * tiles)).astype(np.float16) for rows in (M, 64))
    C = np.full((M, 64), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64), mo.make_layout((groups, 1)))
    atom = mo.smem_layout_atom(mo.float16, "k")
    copies = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(atom, (x.shape[0], 64))) for x in (A, B)]
    layouts = tuple(mo.tile_to_shape(atom, (x.shape[0], 64, stages)) for x in (A, B))
    report = mo.check(ring)[blocks, 128 * groups + 32](C, *copies, mma, layouts, how)
    assert {finding.code for finding in report.findings} <= ({"G1"} if blocks > 1 else set()), str(report)
    if how != "scaled":
        np.testing.assert_allclose(C, A.astype(np.float64) @ B.astype(np.float64).T, rtol=0, atol=1e-2)
    return [lint for lint in report.lints if lint.code == "P4"]


def test_a_wait_that_could_leave_one_group():
    """Six of the seven steps; the last one is read."""
    (lint,) = run_ring()
    assert lint.numbers == {"steps": 6} and "mo.warpgroup_wait(0)" in lint.locs[0].innermost.text()
    assert lint.hint.startswith("warpgroup_wait(1), and release the stage of the step before")


@pytest.mark.slow
@pytest.mark.parametrize("case", [
    {"how": "one-left"}, {"how": "scaled"}, {"groups": 2}, {"stages": 1}, {"tiles": 2}, {"blocks": 133}])
def test_waits_that_cost_nothing_or_are_needed(case):
    """One group left already; accumulators that are read; two warp groups; one stage; few steps; other blocks."""
    assert run_ring(**case) == []


@pytest.mark.slow
def test_blocks_that_do_not_share_a_multiprocessor():
    assert len(run_ring(blocks=132)) == 1


@mo.kernel
def filled_by_threads(C: mo.Static, A: mo.Static, B: mo.Static, mma, layout):
    """The next operands are written after the wait: it hides nothing that they could overlap."""
    sA, sB, tid = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout), mo.thread_idx().x
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (64, 64), (0, None))
    threads, thr = mo.make_layout((4, 32), (32, 1)), mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((64, 64))
    for k in range(mo.size(gA, 2)):
        stage = k % 2
        mo.copyto(mo.parallelize(sA[:, :, stage], threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sB[:, :, stage], threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
        mo.fence_proxy_async()
        mo.sync_threads()
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA[:, :, :, stage], tCrB[:, :, :, stage], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


def test_operands_that_are_written_after_the_wait():
    A, B = (np.random.default_rng(0).standard_normal((64, 384)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64, 2))
    report = mo.check(filled_by_threads)[1, 128](C, A, B, mma, layout)
    assert report.ok and "P4" not in {lint.code for lint in report.lints}, str(report)
