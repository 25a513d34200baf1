"""elect() may choose any lane of a warp: whoever takes it for lane 0 is found out in a run in which it is the last."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

THREADS = 64


@mo.kernel
def stored(out, x, fault: mo.Constexpr):
    """Warp 0 elects a thread that stores; the same one waits before the source is filled again."""
    tid = mo.thread_idx().x
    mo.assume(mo.size(out) % THREADS == 0)
    s, elected = mo.shared_array(mo.float32, THREADS), (tid < 32) & mo.elect()
    for turn in range(2):
        if (tid == 0) if fault == "lane 0 waits" else elected:
            mo.tma_store_wait(0, read=True)
        mo.sync_threads()
        s[tid] = x[tid] + turn
        mo.fence_proxy_async()
        mo.sync_threads()
        if elected:
            mo.copyto(mo.BulkCopy(), mo.tile(out, (THREADS,), (turn,)), s)
            if fault != "lane 0 commits":
                mo.tma_store_arrive()
        if fault == "lane 0 commits" and tid == 0:
            mo.tma_store_arrive()
    mo.tma_store_wait(0, read=True)


@pytest.mark.parametrize(("fault", "found"), [("", None), ("lane 0 waits", "D16"), ("lane 0 commits", "D15")])
def test_who_stores(fault, found):
    x, out = np.arange(THREADS, dtype=np.float32), np.zeros(2 * THREADS, np.float32)
    report = mo.check(stored, lints=False)[1, THREADS](out, x, fault)
    assert next((finding.code for finding in report.findings), None) == found, str(report)
    np.testing.assert_array_equal(out, np.concatenate([x, x + 1]))
    if found:
        assert "elect() may choose another lane than the first" in report.findings[0].message


@mo.kernel
def announced(out, fault: mo.Constexpr):
    """Thread 0 makes an mbarrier, and the elected thread of its warp arrives there first."""
    tid = mo.thread_idx().x
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
    if not fault:
        mo.sync_warp()
    if tid < 32:                                        # noqa: SIM102
        if mo.elect():
            mo.mbarrier_arrive(bars, 0)
    mo.sync_threads()
    mo.mbarrier_wait(bars, 0, 0)
    out[tid] = tid


@pytest.mark.parametrize("fault", [False, True])
def test_who_makes_an_mbarrier(fault):
    report = mo.check(announced, lints=False)[1, THREADS](np.zeros(THREADS, np.int32), fault)
    assert [finding.code for finding in report.findings] == (["D10"] if fault else []), str(report)
