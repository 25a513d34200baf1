"""Tiles dealt out while the kernel runs: each once, whatever the grid; counters are ready for the next launch."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import thread_pipelines as kernels
from moye.errors import TensorError
from thread_pipelines import THREADS, dealt_result


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 4, 33])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (8, 3)])
def test_each_tile_once(blocks, shape):
    out, counter = np.zeros((*shape, THREADS), np.int32), np.zeros(1, np.int32)
    for _ in range(2):                                  # the counter is 0 again
        out[...] = 0
        report = mo.check(kernels.dealt)[blocks, THREADS + 32](out, counter, *shape, "")
        assert report.ok and not report.not_judged, report
        assert np.array_equal(out, dealt_result(*shape)) and counter[0] == 0


@pytest.mark.parametrize("seed", range(4))
def test_in_every_schedule(seed):
    out, counter = np.zeros((5, 7, THREADS), np.int32), np.zeros(1, np.int32)
    assert mo.check(kernels.dealt, seed=seed)[6, THREADS + 32](out, counter, 5, 7, "").ok
    assert np.array_equal(out, dealt_result(5, 7)) and counter[0] == 0


def test_a_number_that_has_been_left_is_found():
    out, counter = np.zeros((5, 7, THREADS), np.int32), np.zeros(1, np.int32)
    report = mo.check(kernels.dealt)[2, THREADS + 32](out, counter, 5, 7, "reads the slot")
    assert not report.ok and "tile_numbers" in str(report), report


def test_it_compiles():
    out, counter = np.zeros((5, 7, THREADS), np.int32), np.zeros(1, np.int32)
    program = kernels.dealt.compile(out, counter, 5, 7, "", block=THREADS + 32, arch="sm_90a")
    assert "atom" in program.ptx and program.spills == 0


def test_other_counters_are_refused():
    @mo.kernel
    def wrong(counter):
        mo.DynamicTileScheduler(counter, 2, 2, consumers=32)

    with pytest.raises(TensorError, match="the counter is an int32 tensor in global memory, not counter"):
        wrong.compile(np.zeros(1, np.float32), block=32, arch="sm_90a")
