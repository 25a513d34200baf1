"""Asynchronous copies, proxies, pools, stale data and dependent launches: each fault by its class, its twin clean."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import moye as mo
from async_kernels import FAULTS, RIGHT, TILE, run


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=lambda part: part)
def test_faulty(name, fault):
    report = run(name, fault)
    codes = [finding.code for finding in report.findings]
    assert codes and codes[0] == FAULTS[name, fault], str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), RIGHT, ids=lambda part: part or "right")
def test_right(name, variant):
    report = run(name, variant)
    assert report.ok and not report.unsupported, str(report)


def test_a_missing_empty_barrier_is_named():
    finding, = run("named roles", "no empty").findings
    assert finding.hint is not None and '"empty"' in finding.hint
    assert "overwritten while it is still being read" in finding.message


def test_the_wait_that_leaves_a_store_in_flight_is_told():
    for fault, told in (("two left", "leaves the group of the store in flight"),
                        ("no commit", "no tma_store_arrive() lies between the store and the wait")):
        assert told in run("epilogue", fault).findings[0].message
    assert "only thread 0, which issued it, can wait for it" in run("epilogue", "another waits").findings[0].message


SIMULATED = """
import re
import numpy as np
import moye as mo
from async_kernels import TILE

@mo.kernel
def through(load, store):
    s, full, tid = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x
    place = mo.block_idx().x, mo.block_idx().y
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), place), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
        mo.copyto(store, mo.tile(store.tensor, (32, 32), place), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)

x = np.arange(1024 * 1024, dtype=np.float32).reshape(1024, 1024)
y = np.zeros_like(x)
through[(32, 32), 32](mo.make_tma_copy(mo.TmaLoad(), x, TILE), mo.make_tma_copy(mo.TmaStore(), y, TILE))
assert np.array_equal(x, y)
# not ru_maxrss, which remembers the process that started this one
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
def test_boxes_of_many_blocks_take_little_memory(tmp_path):
    """A store once kept what it read of the shared memory of all blocks of the batch, for each of them."""
    script = tmp_path / "through.py"
    script.write_text(SIMULATED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400_000


def test_a_copy_of_another_width_reads_the_block_that_stores():
    """Shared memory of one dtype, stored by TMA as another."""
    @mo.kernel
    def kernel(store, x):
        memory, tid, bx = mo.shared_array(mo.uint64, 512, align=128), mo.thread_idx().x, mo.block_idx().x
        s = mo.recast(memory, mo.float32).with_layout(TILE)
        for i in range(tid, 1024, 32):
            s[i // 32, i % 32] = x[i // 32, i % 32 + 32 * bx]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(store, mo.tile(store.tensor, (32, 32), (0, bx)), s)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)

    x = np.arange(32 * 96, dtype=np.float32).reshape(32, 96)
    y = np.zeros_like(x)
    report = mo.check(kernel, lints=False)[3, 32](mo.make_tma_copy(mo.TmaStore(), y, TILE), x)
    assert report.ok, str(report)
    np.testing.assert_array_equal(y, x)


# --- many readers ----------------------------------------------------------------------------------------------------


@mo.kernel
def third_reader(out, x, flag, reader: mo.Constexpr, readers: mo.Constexpr):
    """All read x(0); one of them goes on after the flag of another, and writes it."""
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        out[b] = x[0]
        if b != reader and b < readers:
            mo.atomic_add(flag, 0, 1, order="release")
        if b == readers:
            while mo.load(flag, 0) < (readers if reader < 0 else readers - 1):
                pass
            x[0] = 7


@pytest.mark.parametrize("readers", [2, 3, 4, 9])
def test_every_reader_is_remembered(readers):
    """One of the readers does not say that it is through, whichever that is."""
    for reader in range(readers):
        report = mo.check(third_reader, lints=False)[readers + 1, 32](
            np.zeros(readers + 1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), reader, readers)
        assert {finding.code for finding in report.findings} == {"G3"}, str(report)
    report = mo.check(third_reader, lints=False)[readers + 1, 32](
        np.zeros(readers + 1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), -1, readers)
    assert report.ok, str(report)


@mo.kernel
def warps_read(out, x, late: mo.Constexpr, warps: mo.Constexpr):
    """All warps read x; one of them does not come to the named barrier behind which the first one writes it."""
    tid = mo.thread_idx().x
    warp = tid // 32
    out[tid] = x[tid % 32]
    if warp != late:
        mo.barrier_sync(1, 32 * (warps if late < 0 else warps - 1))
        if warp == 0:
            x[tid] = 1


@pytest.mark.parametrize("late", [-1, 1, 2, 3])
def test_every_warp_that_reads_is_remembered(late):
    report = mo.check(warps_read, lints=False)[1, 128](np.zeros(128, np.int32), np.zeros(32, np.int32), late, 4)
    assert {finding.code for finding in report.findings} == (set() if late < 0 else {"C2"}), str(report)


def test_overlapping_arguments_are_named_in_the_hint():
    """A sync_warp alone would not do where two warps meet; nor is it what was meant."""
    @mo.kernel
    def both(a, b):
        tid = mo.thread_idx().x
        a[tid] = 1.0
        b[tid] = 2.0

    x = np.zeros(80, np.float32)
    findings = mo.check(both, lints=False)[1, 64](x[:64], x[1:65]).findings
    assert [finding.code for finding in findings] == ["C1"]
    assert "through a" in findings[0].message and findings[0].hint.startswith("pass arguments that do not overlap")


def test_an_mbarrier_that_is_read_as_data():
    @mo.kernel
    def peek(out, over: mo.Constexpr):
        tid = mo.thread_idx().x
        bar = mo.shared_array(mo.uint64, 2)
        if tid == 0:
            mo.mbarrier_init(bar, 1, 32)
        mo.sync_threads()
        if tid == 0 and over:
            bar[1] = 5
        mo.sync_threads()
        out[tid] = mo.int32(bar[1])

    for over in (False, True):
        findings = mo.check(peek, lints=False)[1, 32](np.zeros(32, np.int32), over).findings
        assert [finding.code for finding in findings] == ["D11", "B6"][not over:]
        assert "is an mbarrier since its initialisation" in findings[-1].message
        assert "before anything wrote it" not in findings[-1].message
