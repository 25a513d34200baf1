"""Asynchronous copies, proxies, pools, stale data and dependent launches: each fault by its class, its twin clean."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import moye as mo
from async_kernels import FAULTS, RIGHT, TILE, run


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=lambda part: part)
def test_faulty(name, fault):
    report = run(name, fault)
    codes = [finding.code for finding in report.findings]
    assert codes and codes[0] == FAULTS[name, fault], str(report)


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
