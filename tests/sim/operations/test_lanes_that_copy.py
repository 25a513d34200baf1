"""Copies that several lanes of a warp issue: one each, or all the same one (D21); who waits for them (D18)."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def boxes(out, tma, same: mo.Constexpr):
    """Each of four lanes loads a tile."""
    tid = mo.thread_idx().x
    sX, full = mo.shared_array(tma.dtype, mo.make_layout((8, 16, 4), (16, 1, 128))), mo.mbarrier_array(1)
    gX = mo.tile(tma.tensor, tma.tile, (0, None))               # (8, 16, 4), coordinates
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, 4 * tma.bytes)
    mo.sync_warp()
    if tid < 4:
        at = 0 if same else tid
        mo.copyto(tma, sX[:, :, at], gX[:, :, at], barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    for i in range(4):
        out[tid, i] = sX[tid % 8, tid // 8, i]


@pytest.mark.parametrize("same", [False, True])
def test_boxes_of_lanes(same):
    x, out = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros((32, 4), np.float32)
    tma = mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout((8, 16), (16, 1)))
    report = mo.check(boxes, lints=False)[1, 32](out, tma, same)
    if same:
        assert "D21" in [finding.code for finding in report.findings]
        assert "threads 0-3" in str(report)
    else:
        assert report.ok, str(report)
        lane = np.arange(32)
        assert all((out[:, i] == x[lane % 8, 16 * i + lane // 8]).all() for i in range(4))


@mo.kernel
def handed_out(y, x, wait: mo.Constexpr):
    """Lanes of the first block send its numbers to all blocks of the cluster, a copy each."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    mine, inbox, full = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, 128)
    mo.cluster_sync()
    if rank == 0:
        mine[tid] = x[tid]
        mo.fence_proxy_async()
        mo.sync_warp()
        if tid < mo.cluster_dim().x:
            mo.copyto(mo.BulkCopy(), mo.map_shared_rank(inbox, tid), mine, barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    y[mo.block_idx().x * 32 + tid] = inbox[tid]
    if wait == "all":
        mo.cluster_sync()
    if wait == "relaxed":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()


@pytest.mark.parametrize(("wait", "codes"), [("all", []), ("relaxed", []), ("", ["D18"])])
def test_a_block_that_sends_stays_until_it_has_heard(wait, codes):
    """Whatever the order of the run: others have waited for the copies, and it has not been told of that.  A relaxed
    barrier is enough, as there is nothing to see behind it."""
    x, y = np.arange(32, dtype=np.float32), np.zeros(128, np.float32)
    report = mo.check(handed_out, lints=False).launch(y, x, wait, grid=4, block=32, cluster=4)
    assert [finding.code for finding in report.findings] == codes, str(report)
    assert np.array_equal(y, np.tile(x, 4))
