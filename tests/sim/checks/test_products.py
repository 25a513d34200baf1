"""Operands of wgmma that threads overwrite: who must have waited, and for whose products.

PTX has one wgmma-group for each warpgroup, and a wait is for "a preceding warpgroup operation" (wgmma.commit_group,
wgmma.wait_group): any warp's wait covers what all four warps of its warpgroup read, and says nothing of another one.
"""

import numpy as np
import pytest

import moye as mo

ROWS, K, TILES = 64, 64, 3


def tools(warpgroups):
    """The product, the layouts of both operands, and the copy, for so many warpgroups below each other."""
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64), mo.make_layout((warpgroups, 1)))
    atom = mo.smem_layout_atom(mo.float16, "k")
    load = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16),
                              mo.make_layout((16 * warpgroups, 8), (8, 1)), mo.make_layout((1, 8)))
    return mma, mo.tile_to_shape(atom, (ROWS * warpgroups, K)), mo.tile_to_shape(atom, (64, K)), load


@mo.kernel
def product_kernel(C, A, B, mma: mo.Constexpr, layout_A: mo.Constexpr, layout_B: mo.Constexpr, load: mo.Constexpr,
                   order: mo.Constexpr):
    tid, rows = mo.thread_idx().x, mo.size(layout_A, 0)
    sA, sB = mo.shared_array(mo.float16, layout_A), mo.shared_array(mo.float16, layout_B)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (rows, K), (0, None)), mo.tile(B, (64, K), (0, None))   # (bM, bK, k), (bN, bK, k)
    thr, thr_load = mma.get_slice(tid), load.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((rows, 64))          # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(load, thr_load.partition_D(sA), thr_load.partition_S(gA[:, :, k]))
        mo.copyto(load, thr_load.partition_D(sB), thr_load.partition_S(gB[:, :, k]))
        mo.fence_proxy_async()
        mo.sync_threads()
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA, tCrB, acc)
        mo.warpgroup_commit_batch()
        if order == "sync, wait":
            mo.sync_threads()
        mo.warpgroup_wait(1 if order == "wait(1), sync" else 0)
        if order in ("wait, sync", "wait(1), sync"):
            mo.sync_threads()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(mo.tile(C, (rows, 64), (0, 0))), acc)


def checked(warpgroups, order):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((ROWS * warpgroups, K * TILES)).astype(np.float16)
    B = rng.standard_normal((64, K * TILES)).astype(np.float16)
    C = np.zeros((ROWS * warpgroups, 64), np.float32)
    report = mo.check(product_kernel)[1, 128 * warpgroups](C, A, B, *tools(warpgroups), order)
    return report, C, A.astype(np.float32) @ B.astype(np.float32).T


@pytest.mark.parametrize(("warpgroups", "order"), [(1, "wait, sync"), (1, "sync, wait"), (1, "wait"),
                                                   (2, "wait, sync")])
def test_a_wait_covers_the_product_of_its_whole_warpgroup(warpgroups, order):
    report, C, expected = checked(warpgroups, order)
    assert not report.findings, report
    np.testing.assert_allclose(C, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("order", ["sync, wait", "wait"])
def test_a_wait_says_nothing_of_another_warpgroup(order):
    report, _, _ = checked(2, order)
    assert {finding.code for finding in report.findings} == {"E3"}
    told = str(report)
    assert "sA(16, 0) of block (0, 0, 0) is overwritten" in told
    assert "hint: warpgroup_wait(0) by warpgroup 0, and then a barrier before the operand is written" in told
    assert "the wgmma at" in told and "of warpgroup 0 may still read it: the write by thread 128" in told


@pytest.mark.parametrize("warpgroups", [1, 2])
def test_the_newest_group_may_still_read(warpgroups):
    report, _, _ = checked(warpgroups, "wait(1), sync")
    assert {finding.code for finding in report.findings} == {"E3"}
