"""Where NumPy's own integers have 32 bits, as in a browser, the simulator counts in 64 all the same."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.sim.costs.wavefronts import line_cost


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """np.arange as a machine of 32 bits has it."""
    arange = np.arange

    def short(*args, **named):
        made = arange(*args, **named)
        return made.astype(np.int32) if "dtype" not in named and made.dtype == np.int64 else made

    monkeypatch.setattr(np, "arange", short)


def test_a_race_between_blocks_is_found():
    """Records of global memory hold the block above bit 32."""
    @mo.kernel
    def total(out, x):
        if mo.thread_idx().x == 0:
            out[0] += x[mo.block_idx().x]

    report = mo.check(total)[8, 128](np.zeros(1, np.float32), np.ones(8, np.float32))
    assert [finding.code for finding in report.findings] == ["G2"]


def test_the_lanes_of_a_warp_in_a_timeline():
    """A warp's lanes are 32 bits of a number, and none of them is a sign."""
    @mo.kernel
    def staged(out, x):
        tid = mo.thread_idx().x
        tile = mo.shared_array(mo.float32, 128)
        mo.copyto(mo.CpAsync(mo.uint128), mo.tile(tile, (4,), (tid,)), mo.tile(x, (4,), (tid,)))
        mo.cp_async_wait()
        mo.sync_threads()
        turned = mo.shuffle_xor(tile[tid], 1)
        out[tid] = turned

    out, x = np.zeros(32, np.float32), np.random.default_rng(0).permutation(128).astype(np.float32)
    report = mo.check(staged, timeline=True)[1, 32](out, x)
    assert report.ok and np.array_equal(out, x[:32].reshape(-1, 2)[:, ::-1].reshape(-1))
    assert "staged" in report.timeline().svg() and report.timeline().overlap()


def test_lines_of_memory_that_are_far_apart(monkeypatch):
    """What a copy costs depends on which lanes share a line, however the lines are numbered."""
    nonzero = np.nonzero
    monkeypatch.setattr(np, "nonzero", lambda x: tuple(found.astype(np.int32) for found in nonzero(x)))
    address = np.arange(32).reshape(1, 32, 1) * 4
    lines = np.arange(32).reshape(1, 32, 1).astype(np.int64) // 8
    assert line_cost(address, 4, None, lines << 33) == line_cost(address, 4, None, lines)


def test_the_mask_of_a_shuffle():
    """Lanes that a shuffle reads in a warp that is not whole are looked up in a mask of 32 bits."""
    @mo.kernel
    def neighbour(out, x):
        tid = mo.thread_idx().x
        out[tid] = mo.shuffle_down(x[tid], 1)

    report = mo.check(neighbour)[1, 40](np.zeros(40, np.float32), np.ones(40, np.float32))
    assert [finding.code for finding in report.findings] == ["C7"]
