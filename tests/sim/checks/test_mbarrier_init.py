"""D10: copies of other blocks of a cluster complete on mbarriers, which their own blocks have to make and to show."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo

HOWS = ("both", "neither", "rank 0", "rank 1", "async", "relaxed", "async, relaxed")


@mo.kernel
def sends(out, x, how: mo.Constexpr):
    """Each block sends its row to the other one, and fences its mbarrier as ``how`` says."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, got, bars = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    s[tid] = x[tid]
    mo.fence_proxy_async()
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        if how in ("both", "relaxed") or (how == "rank 0" and rank == 0) or (how == "rank 1" and rank == 1):
            mo.fence_mbarrier_init()
        elif how in ("async", "async, relaxed"):
            mo.fence_proxy_async()
    if how in ("relaxed", "async, relaxed"):
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
        mo.sync_threads()
    else:
        mo.cluster_sync()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, 128)
        mo.copyto(mo.BulkCopy(), mo.map_shared_rank(got, rank ^ 1), s, barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    out[rank * 32 + tid] = got[tid]
    mo.cluster_sync()


@mo.kernel
def made_apart(out, x, how: mo.Constexpr):
    """The same, where the two blocks initialise at two lines and by two threads."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, got, bars = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    s[tid] = x[tid]
    mo.fence_proxy_async()
    if rank == 0:
        if tid == 5:
            mo.mbarrier_init(bars, 0, 1)                # of rank 0
            if how != "rank 1":
                mo.fence_mbarrier_init()
    else:
        if tid == 9:
            mo.mbarrier_init(bars, 0, 1)                # of rank 1
            if how != "rank 0":
                mo.fence_mbarrier_init()
    mo.cluster_sync()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, 128)
        mo.copyto(mo.BulkCopy(), mo.map_shared_rank(got, rank ^ 1), s, barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    out[rank * 32 + tid] = got[tid]
    mo.cluster_sync()


def findings_of(kernel, how):
    out, x = np.zeros(64, np.float32), np.ones(32, np.float32)
    return mo.check(kernel, lints=False).launch(out, x, how, grid=2, block=32, cluster=2).findings


@pytest.mark.parametrize("how", HOWS)
def test_each_block_fences_its_own(how):
    found = findings_of(sends, how)
    if how in ("both", "async", "relaxed"):
        assert not found, found
        return
    (finding,) = found
    assert finding.code == "D10" and finding.hint is not None and "fence_mbarrier_init()" in finding.hint
    if how == "async, relaxed":                         # a relaxed barrier hands over what that fence alone releases
        assert "with no barrier of the cluster since thread 0 of that block initialised it" in finding.message
    else:
        there = {"rank 0": "1", "rank 1": "0"}.get(how, "[01]")
        assert re.search(rf"completes on bars\(0\) of block \({there}, 0, 0\), whose initialisation at line \d+ is not "
                         "fenced there", finding.message)


@pytest.mark.parametrize(("how", "other"), [("both", None), ("rank 0", 1), ("rank 1", 0)])
def test_blocks_may_initialise_at_two_places(how, other):
    found = findings_of(made_apart, how)
    assert [finding.code for finding in found] == ["D10"] * (other is not None)
    if other is not None:
        assert f"of block ({other}, 0, 0)" in found[0].message
        assert f"# of rank {other}" in found[0].locs[0].innermost.text()
