"""grid_sync: all blocks meet, what they wrote before is seen after, and who does not come is told of."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver
from moye.errors import LaunchError, TraceError

THREADS = 64


@mo.kernel
def shift(x, y, before: mo.Constexpr, after: mo.Constexpr):
    i, n = mo.block_idx().x * THREADS + mo.thread_idx().x, mo.size(x, 0)
    x[i] = x[i] + 1
    for _ in range(3):
        if before:
            mo.grid_sync()
        y[i] = x[(i + 77) % n]
        if after:
            mo.grid_sync()
        x[i] = y[i] * 2


@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_what_was_written_before_is_seen_after(blocks):
    start = np.random.default_rng(blocks).random(blocks * THREADS, np.float32)
    x = start.copy()
    report = mo.check(shift)[blocks, THREADS](x, np.zeros_like(x), True, True)
    assert report.ok and not report.not_judged, report
    assert np.array_equal(x, np.roll(start + 1, -77 * 3) * 8)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_without_one_of_the_two_it_races(before, after):
    x = np.zeros(4 * THREADS, np.float32)
    report = mo.check(shift)[4, THREADS](x, np.zeros_like(x), before, after)
    assert {finding.code for finding in report.findings} == {"G5"}, report


@pytest.mark.parametrize("seed", range(4))
def test_in_every_schedule(seed):
    x = np.ones(9 * THREADS, np.float32)
    assert mo.check(shift, seed=seed)[9, THREADS](x, np.zeros_like(x), True, True).ok
    assert (x == 16).all()


def test_it_is_printed_and_launched_cooperatively():
    x = np.zeros(THREADS, np.float32)
    program = shift.compile(x, x.copy(), True, True, block=THREADS, arch="sm_80")
    assert program.source.count("        grid_sync();") == 2 and program.printed.cooperative
    assert "envreg" in program.ptx and "atom.add.release.gpu" in program.ptx and "ld.acquire.gpu" in program.ptx
    assert not shift.compile(x, x.copy(), False, False, block=THREADS, arch="sm_80").printed.cooperative


# --- who does not come -----------------------------------------------------------------------------------------------


@mo.kernel
def absent(x, block, thread, how: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if how == "returns":
        if bid == block and tid >= thread:
            return
        mo.grid_sync()
    elif how == "elsewhere":
        if tid >= thread:
            mo.sync_threads()
        else:
            mo.grid_sync()
    elif bid != block:
        mo.grid_sync()
    if tid == 0:
        x[bid] = 1


@pytest.mark.parametrize(("how", "told"), [
    ("returns", "which threads of block (2, 0, 0) have not come to"),
    ("elsewhere", "warp 1 waits at sync_threads"),
    ("block", "warps 0-1 wait at grid_sync (line 75), which threads of block (2, 0, 0) have not come to")])
def test_threads_that_do_not_come(how, told):
    finding, = mo.check(absent)[4, THREADS](np.zeros(4, np.float32), 2, 32, how).findings
    assert finding.code == "C4" and told in str(finding), finding
    assert "every thread of every block" in str(finding)


@mo.kernel
def passes(x):
    for _ in range(1 + mo.thread_idx().x // 32):
        mo.grid_sync()
    x[0] = 1


def test_threads_of_a_block_in_different_passes():
    codes = {finding.code for finding in mo.check(passes)[2, THREADS](np.zeros(1, np.float32)).findings}
    assert "C4" in codes


# --- a grid that is too large ----------------------------------------------------------------------------------------


@mo.kernel
def large(x):
    held = mo.shared_array(mo.float32, 25_000)          # two blocks of 100000 bytes on each multiprocessor
    held[0] = 1.0
    mo.grid_sync()
    if mo.thread_idx().x == 0:
        x[mo.block_idx().x] = held[0]


def test_a_grid_that_cannot_be_resident_is_refused():
    x = np.zeros(265, np.float32)
    assert mo.check(large)[264, 32](x).ok and x.sum() == 264
    finding, = mo.check(large)[265, 32](x).findings
    assert finding.code == "G4"
    assert "the 265 blocks of the grid meet at grid_sync" in finding.message
    assert "at most 264 are resident at once: 2 on each of 132 multiprocessors" in finding.message
    with pytest.raises(mo.MoyeError, match="at most 264 are resident"):
        large[265, 32](x)


def test_the_device_refuses_it_with_the_figures():
    driver.check_resident("k", (132, 2, 1), 2, 132)
    with pytest.raises(LaunchError, match="265 of them are more than 2 on each of 132 multiprocessors, 264 at once"):
        driver.check_resident("k", (265, 1, 1), 2, 132)


def test_some_blocks_alone_cannot_be_checked():
    report = mo.check(large, blocks=2)[4, 32](np.zeros(4, np.float32))
    assert not report.findings and "only 2 of 4 blocks run" in str(report)


def test_clusters_are_refused():
    with pytest.raises(TraceError, match=r"grid_sync\(\) in clusters of \(2, 1, 1\)"):
        large.launch(np.zeros(4, np.float32), grid=4, block=32, cluster=2)


# --- flags and asynchronous copies around it -------------------------------------------------------------------------


@mo.kernel
def flags(x, count, meets: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.store(count, bid, bid + 1, order="relaxed")
    if meets:
        mo.grid_sync()
    other = (bid + 1) % mo.grid_dim().x
    x[bid * 32 + tid] = mo.load(count, other, order="relaxed")


def test_flags_are_up_to_date_behind_it():
    x = np.zeros(32 * 8, np.int32)
    report = mo.check(flags)[8, 32](x, np.zeros(8, np.int32), True)
    assert report.ok and np.array_equal(x.reshape(8, 32)[:, 0], np.roll(np.arange(1, 9), -1)), report


@mo.kernel
def staged(out, x, waits: mo.Constexpr):
    """Each block copies its part with cp.async, and overwrites that of the next block afterwards."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    held = mo.shared_array(x.dtype, 128)
    mo.copyto(mo.CpAsync(mo.uint128), mo.tile(held, (4,), (tid,)), mo.tile(mo.tile(x, (128,), (bid,)), (4,), (tid,)))
    if waits:
        mo.cp_async_wait()
    mo.grid_sync()
    x[(bid + 1) % mo.grid_dim().x * 128 + tid] = -1.0
    mo.cp_async_wait()
    mo.sync_threads()
    out[bid * 128 + tid] = held[tid]


def test_a_source_is_overwritten_behind_it():
    x = np.arange(512, dtype=np.float32)
    assert mo.check(staged)[4, 32](np.zeros_like(x), x.copy(), True).ok
    report = mo.check(staged)[4, 32](np.zeros_like(x), x.copy(), False)
    assert not report.ok and report.findings, report
