"""What the checks remember is bounded: nothing is accused because of what they have forgotten, or passed in silence."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from device_maps import COLUMNS, LAYOUT, arrays, places
from moye.sim.checks import async_reads, global_proxies, map_order


def codes(report):
    return sorted({finding.code for finding in report.findings})


def zeros(n, dtype=np.float32):
    return np.zeros(n, dtype)


@mo.kernel
def in_place(y, x: mo.Static, how: mo.Constexpr):
    """All warps fetch one row by cp.async; then the first one writes it anew."""
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    s, copy = mo.shared_array(mo.float32, (32, 6)), mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    mo.copyto(copy, mo.tile(s[:, warp], (1,), (lane,)), mo.tile(x, (1,), (lane,)))
    if how != "one waits late" or warp != 3:
        mo.cp_async_wait()
    if how != "no barrier":
        mo.sync_threads()
    if warp == 0:
        x[lane] = s[31 - lane, 0]
    mo.cp_async_wait()
    y[tid] = s[lane, warp]


@pytest.mark.parametrize(("how", "found"), [("", []), ("no barrier", ["C2", "D3"]), ("one waits late", ["B9"])])
def test_many_warps_read_one_element_by_cp_async(how, found):
    """Of a unit two readers are kept in the track, and the others in a crowd: they have waited, too."""
    assert codes(mo.check(in_place, lints=False)[1, 192](zeros(192), zeros(32), how)) == found


@mo.kernel
def loads_then_told(y, x: mo.Static, flag, loads: mo.Constexpr, order: mo.Constexpr):
    """Block 0 loads tile 0, then tile 1 many times, and tells block 1, which writes tile 0."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_warp()
    if bid == 0:
        total = mo.float32(0)
        for k in range(loads):
            if tid == 0:
                mo.mbarrier_arrive_expect_tx(bar, 0, 128)
                mo.copyto(mo.BulkCopy(), s, mo.tile(x, (32,), (k > 0,)), barrier=(bar, 0))
            mo.mbarrier_wait(bar, 0, k & 1)
            total += s[tid]
            mo.sync_warp()
        y[tid] = total
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, 0, 1, order=order)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
        mo.sync_warp()
        x[tid] = 1.0


@pytest.mark.parametrize(("order", "found"), [("release", []), ("relaxed", ["G3"])])
def test_a_bulk_copy_with_many_after_it(monkeypatch, order, found):
    """It is no longer known whether it is complete; but it has begun, and who is not ordered after that races."""
    monkeypatch.setattr(async_reads, "KEPT", 4)
    report = mo.check(loads_then_told, lints=False)[2, 32](zeros(32), zeros(64), zeros(1, np.int32), 30, order)
    assert codes(report) == found and not report.unsupported


@mo.kernel
def fenced_by_block(y, x, part: mo.Static, fenced: mo.Constexpr):
    """Each block writes a part of global memory and loads it by a bulk copy; the first ``fenced`` blocks fence."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, 128), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    part[bid * 128 + tid] = x[bid * 128 + tid]
    if bid < fenced:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bar, 0, 512)
        mo.copyto(mo.BulkCopy(), s, mo.tile(part, (128,), (bid,)), barrier=(bar, 0))
    mo.mbarrier_wait(bar, 0, 0)
    y[bid * 128 + tid] = s[127 - tid]


@pytest.mark.parametrize(("fenced", "found"), [(64, []), (63, ["D14"])])
def test_every_pair_of_a_write_and_a_bulk_copy_is_judged(fenced, found):
    """64 copies of what 128 threads have written each: the last ones count, too."""
    n = 64 * 128
    assert codes(mo.check(fenced_by_block, lints=False)[64, 128](zeros(n), zeros(n), zeros(n), fenced)) == found


@mo.kernel
def fences_often(y, x, part: mo.Static, flag, fences: mo.Constexpr, late: mo.Constexpr):
    """Block 0 writes a part, fences and tells block 1, which loads it; meanwhile it goes on with other fences."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_warp()
    if bid == 0:
        if not late:
            part[tid] = x[tid]
        mo.fence_proxy_async()
        if late:
            part[tid] = x[tid]
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, 0, 1)
            mo.store(flag, 1, 1)
        for _ in range(fences):
            mo.fence_proxy_async()
        if tid == 0:
            mo.store(flag, 2, 1)
    else:
        if tid == 0:
            while mo.load(flag, 2, order="relaxed") == 0:
                pass
            while mo.load(flag, 1) == 0:
                pass
            mo.mbarrier_arrive_expect_tx(bar, 0, 128)
            mo.copyto(mo.BulkCopy(), s, mo.tile(part, (32,), (0,)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, 0)
        y[tid] = s[31 - tid]


@pytest.mark.parametrize(("fences", "late", "found"), [(3, False, []), (3, True, ["D14"]), (30, False, [])])
def test_a_proxy_fence_with_many_after_it(monkeypatch, fences, late, found):
    """A fence that may be forgotten is no reason to accuse anybody: the report says so."""
    monkeypatch.setattr(global_proxies, "KEPT", 8)
    report = mo.check(fences_often, lints=False)[2, 32](zeros(32), zeros(32), zeros(32), zeros(3, np.int32), fences,
                                                        late)
    assert codes(report) == found
    assert bool(report.unsupported) == (fences > 8), report


@mo.kernel
def acquired_by_all(out, tma, workspace, flag, how: mo.Constexpr):
    """Block 0 releases a tensor map; all acquire it, meet, copy by it several times, meet; block 0 releases it anew."""
    smem, full, maps = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1), mo.tensormap_array(1)
    tid, bid, slot = mo.thread_idx().x, mo.block_idx().x, workspace[0, :]
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_warp()
    if bid == 0:
        if tid == 0:
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], shape=(2, COLUMNS))
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
    mo.sync_warp()
    if how != "one acquires not" or bid > 0:
        mo.acquire_tensormap(slot)
    mo.grid_sync()
    for k in range(3):
        if tid == 0:
            mapped = tma.at(slot, (2, COLUMNS))
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.sync_warp()
        mo.mbarrier_wait(full, 0, k & 1)
        mo.sync_warp()
    out[tid, bid] = smem[tid]
    if how != "released early":
        mo.grid_sync()
    if bid == 0:
        mo.release_tensormap(slot, maps[:, 0])


@pytest.mark.parametrize(("how", "found"), [("", []), ("one acquires not", ["D22"]), ("released early", ["D22"])])
def test_many_blocks_acquire_one_map(monkeypatch, how, found):
    monkeypatch.setattr(map_order, "KEPT", 4)
    tma = mo.make_tma_copy(mo.TmaLoad(), arrays()[1], LAYOUT)
    report = mo.check(acquired_by_all, lints=False)[40, 32](zeros((32, 40)), tma, places(1), zeros(1, np.int32), how)
    assert codes(report) == found


@mo.kernel
def writes_first(y):
    y[mo.thread_idx().x] = 1.0


@mo.kernel
def writes_other(z):
    z[mo.thread_idx().x] = 1.0


@mo.kernel
def reads_behind_a_wait(z, y):
    mo.griddepcontrol_wait()
    z[mo.thread_idx().x] = y[mo.thread_idx().x]


@pytest.mark.parametrize("between", [12, 70])
def test_dependent_launches_none_of_which_waits(between):
    """The wait of the last one is for the one before, which has waited for nobody: the first may still run."""
    y, others = zeros(32), [zeros(32) for _ in range(between)]
    mo.check(writes_first, lints=False).launch(y, grid=1, block=32)
    for z in others:
        mo.check(writes_other, lints=False).launch(z, grid=1, block=32, dependent=True)
    report = mo.check(reads_behind_a_wait, lints=False).launch(zeros(32), y, grid=1, block=32, dependent=True)
    assert codes(report) == ["G3"] or report.not_judged == ("what more than 64 launches before may still be doing",)
    assert bool(report.findings) == (between < 64)
