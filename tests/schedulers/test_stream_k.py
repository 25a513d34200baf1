"""``mo.StreamKScheduler``: every k-tile once, equal shares, who waits for whom; a product with sums handed over.

``UPDATE_GOLDEN=1 pytest tests/schedulers`` rewrites the golden files.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import moye as mo
import scheduler_kernels as kernels
from moye.errors import ArgumentError, TraceError

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduled_stream_k.cu"
SETTINGS = settings(max_examples=300, deadline=None)
SCHEDULES = st.builds(
    lambda tiles, k_tiles, blocks, hybrid: mo.StreamKScheduler(*tiles, k_tiles, blocks=blocks, hybrid=hybrid),
    st.tuples(st.integers(1, 16), st.integers(1, 16)), st.integers(1, 24), st.integers(1, 140), st.booleans())


def units(sched, block):
    """All units of a block, in order."""
    unit, found = sched.start(block), []
    while unit.valid:
        found.append(unit)
        unit = unit.next()
    return found


def owners(sched):
    """The block of every (tile, k-tile); fails where two have one."""
    found = {}
    for block in range(sched.blocks):
        for unit in units(sched, block):
            for k in range(unit.k_first, unit.k_last):
                assert (unit.tile, k) not in found
                found[unit.tile, k] = block
    return found


# --- laws ------------------------------------------------------------------------------------------------------------


@SETTINGS
@given(SCHEDULES)
@example(mo.StreamKScheduler(3, 1, 4, blocks=140))
@example(mo.StreamKScheduler(12, 11, 5, blocks=132))
def test_every_k_tile_once(sched):
    assert len(owners(sched)) == sched.tiles * sched.k_tiles


@pytest.mark.slow
@SETTINGS
@given(SCHEDULES)
def test_equal_shares(sched):
    """Of what is split, but for one k-tile; of the rest every block has as many tiles."""
    split = [sum(u.k_last - u.k_first for u in units(sched, b) if u.tile < sched.split) for b in range(sched.blocks)]
    assert max(split) - min(split) <= 1
    assert [sched.begin(b) for b in range(sched.blocks)] == [sum(split[:b]) for b in range(sched.blocks)]
    whole = [sum(u.tile >= sched.split for u in units(sched, b)) for b in range(sched.blocks)]
    assert max(whole) - min(whole) <= int(sched.split == 0)


@pytest.mark.slow
@SETTINGS
@given(SCHEDULES)
def test_who_finishes_a_tile(sched):
    """Whoever began it; its peers are those with the rest of its k-tiles, in order."""
    owner = owners(sched)
    for block in range(sched.blocks):
        for unit in units(sched, block):
            others = sorted({owner[unit.tile, k] for k in range(sched.k_tiles)} - {block})
            assert unit.finishes == (owner[unit.tile, 0] == block)
            if unit.finishes:
                assert list(range(*unit.peers)) == others


@SETTINGS
@given(SCHEDULES)
def test_what_others_wait_for_comes_first(sched):
    """A block hands over one partial sum at most, before anything else: slots are blocks, and waits have no cycle."""
    for block in range(sched.blocks):
        assert all(unit.finishes for unit in units(sched, block)[1:])


@SETTINGS
@given(SCHEDULES)
def test_what_is_split(sched):
    """Of a hybrid: nothing where the waves are whole; else less than two waves, and at least a tile for each block."""
    if sched.split == sched.tiles:
        return
    assert (sched.tiles - sched.split) % sched.blocks == 0
    assert sched.split == 0 or sched.blocks < sched.split < 2 * sched.blocks
    assert sched.slots == (sched.blocks if sched.split else 0)
    assert sched.workspace_shape(128, 256) == (sched.slots, 128, 256)


@SETTINGS
@given(SCHEDULES)
def test_quantisation(sched):
    """The busiest block's k-tiles, counted; never worse than whole tiles."""
    busiest = max(sum(u.k_last - u.k_first for u in units(sched, b)) for b in range(sched.blocks))
    found = mo.schedulers.quantisation(sched, sched.blocks)
    assert found.waves == pytest.approx(busiest / sched.k_tiles)
    assert found.efficiency == pytest.approx(sched.tiles / (found.waves * sched.blocks))
    assert found.efficiency >= mo.schedulers.quantisation(sched.whole, sched.blocks).efficiency - 1e-12


def test_the_last_wave_of_a_tile():
    """133 tiles on 132 blocks take two waves whole, and hardly more than one split."""
    sched = mo.StreamKScheduler(19, 7, 64, blocks=132)
    assert mo.schedulers.quantisation(sched.whole, 132).efficiency == pytest.approx(133 / 264)
    assert mo.schedulers.quantisation(sched, 132).efficiency > 0.99


# --- a product -------------------------------------------------------------------------------------------------------


def product(M, N, K, blocks, hybrid=True, fault="", launches=1):
    """The report of the last launch, and the worst relative error against float64."""
    C, A, B = kernels.arguments(M, N, K)
    sums, flags = kernels.workspace(blocks)
    exact, worst = A.astype(np.float64) @ B.astype(np.float64).T, 0.0
    for _ in range(launches):
        C[...] = np.nan
        report = kernels.stream_k(mo.check(kernels.stream_k_kernel), C, A, B, sums, flags, hybrid, fault)
        worst = max(worst, float(np.linalg.norm(C - exact) / np.linalg.norm(exact)))
    assert fault or not flags.any()
    return report, worst


PRODUCTS = [((100, 130, 100), 7), ((100, 70, 60), 5), ((32, 32, 100), 11), ((33, 33, 100), 6), ((96, 96, 64), 3),
            ((64, 96, 8), 5), ((128, 64, 1), 3), ((130, 40, 33), 9)]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "blocks", "hybrid"), [*((*one, True) for one in PRODUCTS),
                                                        *((*one, False) for one in PRODUCTS[1::2])], ids=str)
def test_products(size, blocks, hybrid):
    """Tiles of two blocks and of many, shares of no k-tile, waves that are whole; some twice with the same flags."""
    report, error = product(*size, blocks, hybrid, launches=2 if blocks == 5 else 1)
    assert report.ok, str(report)
    assert error < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["relaxed", "no barrier"])
def test_faults_between_blocks_are_found(fault):
    """A flag that acquires nothing; threads that do not wait for the one that did."""
    report, _ = product(100, 70, 60, 5, fault=fault)
    assert {finding.code for finding in report.findings} == {"G3"}
    assert "sums(" in str(report)


@mo.kernel
def listed(out, M, N, K):
    sched = mo.StreamKScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 128), mo.ceil_div(K, 64))
    unit = sched.start()
    while unit.valid:
        m, n, _ = sched.coordinates(unit.tile)
        first, last = unit.peers
        out[unit.tile, unit.block, 0] = m + n
        out[unit.tile, unit.block, 1] = unit.k_last - unit.k_first
        if unit.finishes:
            out[unit.tile, unit.block, 2] = last - first
        unit = unit.next()


def test_golden():
    """Divisions: for the wave, the share and the beginning; per unit, strip and width, and who has the last k-tile."""
    program = listed.compile(mo.TensorLike(mo.int32, (9, 9, 3)), 999, 999, 999, block=32, arch="sm_90a")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(program.source)
    assert program.source == GOLDEN.read_text(), f"{GOLDEN} differs; UPDATE_GOLDEN=1 rewrites it"
    assert program.source.count(" / ") == 3 + 2 + 2
    assert "floor" not in program.source


# --- errors ----------------------------------------------------------------------------------------------------------


def test_outside_of_a_kernel_blocks_are_told():
    with pytest.raises(TraceError) as caught:
        mo.StreamKScheduler(4, 4, 4)
    assert caught.value.message == "StreamKScheduler: outside of a kernel it must be told how many blocks there are"


def test_quantisation_of_other_blocks():
    with pytest.raises(ArgumentError, match=r"^quantisation: the scheduler has shares for 8 blocks, not 132$"):
        mo.schedulers.quantisation(mo.StreamKScheduler(4, 4, 4, blocks=8), 132)
