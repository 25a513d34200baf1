"""Stages of a ring that TMA fills: acquired and released too early, too late, or for another phase."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import moye as mo


@mo.jit
def consume(out, sA, full, empty, other, tiles, fault):
    """A warp adds up the columns of tiles."""
    tid, stages = mo.thread_idx().x, mo.size(sA, 2)
    stage, phase, total = 0, 0, mo.float32(0)
    for _ in range(tiles - 2 if fault in ("fewer", "returns") else tiles):
        if fault == "unseen":
            mo.mbarrier_arrive(empty, stage)
        if fault != "no-full-wait":
            mo.mbarrier_wait(full, stage, phase ^ 1 if fault == "reader-parity" else phase)
        if fault in ("early", "two-pairs"):
            mo.mbarrier_arrive(empty, stage)
        for i in range(32):
            total += sA[i, tid % 32, stage]
        if fault == "one-lane":
            if tid % 32 == 0:
                mo.mbarrier_arrive(empty, stage)
        elif fault == "count":
            if tid % 16 == 0:
                mo.mbarrier_arrive(empty, stage)
        elif fault not in ("unseen", "early", "two-pairs"):
            mo.mbarrier_arrive(empty, stage)
        if fault == "two-pairs":
            mo.mbarrier_arrive(other, stage)
        stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages
    out[mo.block_idx().x, tid % 32] = total


@mo.jit
def produce(A, sA, full, empty, gA, fault):
    """A thread loads them."""
    stage, phase, stages = 0, 0, mo.size(sA, 2)
    for k in range(mo.size(gA, 2)):
        if fault in ("prologue", "unseen"):
            if k >= stages:
                mo.mbarrier_wait(empty, stage, phase ^ 1)
        elif fault != "no-empty-wait":
            mo.mbarrier_wait(empty, stage, 1 if fault == "same-parity" else phase ^ 1)
        if fault == "expects":
            mo.mbarrier_expect_tx(full, stage, A.bytes)
            mo.mbarrier_arrive(full, stage)
        else:
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
        mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
        stage, phase = (stage + 1) % stages, phase ^ (stage + 1) // stages


@mo.kernel
def ring_kernel(out, A, layout, fault: mo.Constexpr, readers_first: mo.Constexpr):
    """The column sums of A, of which one thread loads tiles of (32, 32) into a ring of stages."""
    stages = mo.size(layout, 2)
    sA = mo.shared_array(A.dtype, layout)               # (32, 32, stages)
    full, empty, other = (mo.mbarrier_array(stages) for _ in range(3))
    tid = mo.thread_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, mo.block_idx().x))        # (32, 32, k)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 1 if fault in ("one-lane", "count") else 32)
            mo.mbarrier_init(other, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if readers_first:
        if tid < 32:
            consume(out, sA, full, empty, other, mo.size(gA, 2), fault)
            if fault == "returns":
                return
        elif tid == 32:
            produce(A, sA, full, empty, gA, fault)
    else:
        if tid == 0:
            produce(A, sA, full, empty, gA, fault)
        elif tid >= 32:
            consume(out, sA, full, empty, other, mo.size(gA, 2), fault)


def run_ring(fault, *, tiles=6, stages=2, readers_first=True, **options):
    A = np.random.default_rng(0).standard_normal((32 * tiles, 64)).astype(np.float32)
    out = np.full((2, 32), np.nan, np.float32)
    atom = mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)))
    layout = mo.tile_to_shape(atom, (32, 32, stages))
    report = mo.check(ring_kernel, lints=False, **options)[2, 64](out, copy, layout, fault, readers_first)
    return report, out, A.astype(np.float64).sum(axis=0).reshape(2, 32)


def lines_of(finding):
    frames = [loc.innermost for loc in finding.locs]
    return [open(frame.file).read().splitlines()[frame.line - 1].strip() for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("readers_first", [False, True])
@pytest.mark.parametrize(("tiles", "stages"), [(1, 2), (6, 2), (7, 3), (5, 1)])
@pytest.mark.parametrize("fault", ["", "prologue", "expects"])
def test_a_ring_that_is_right(fault, tiles, stages, readers_first, earliest):
    report, out, sums = run_ring(fault, tiles=tiles, stages=stages, readers_first=readers_first, earliest=earliest)
    assert report.ok, str(report)
    np.testing.assert_allclose(out, sums, rtol=0, atol=1e-3)


FILL, COPY, ARRIVE, READ = "mbarrier_arrive_expect_tx", "mo.copyto", "mbarrier_arrive(empty", "total +="
WRONG = {                                               # (readers first, earliest) or all -> class and lines
    "no-empty-wait": {(True, False): ("F1", [FILL]), (False, False): ("F1", [FILL]), (True, True): ("F1", [COPY]),
                      (False, True): ("F1", [COPY])},
    "early": {None: ("F1", [ARRIVE, READ, COPY])},
    "unseen": {(True, False): ("F1", [ARRIVE, FILL]), (False, False): ("F1", [ARRIVE, FILL]),
               (False, True): ("F1", [ARRIVE, COPY])},
    "one-lane": {None: ("D13", [READ, COPY])}, "count": {None: ("D9", [ARRIVE])},
    "same-parity": {(True, False): ("D8", ["wait(empty", FILL]), (False, False): ("D8", ["wait(empty", FILL]),
                    (False, True): ("D8", ["wait(empty", COPY])},
    "no-full-wait": {None: ("D6", [COPY, READ])},
    "reader-parity": dict.fromkeys(((True, False), (True, True), (False, False)), ("D8", [COPY, "wait(full", READ])),
}
CASES = [(fault, *order, *told) for fault, of in WRONG.items() for orders, told in of.items()
         for order in ([orders] if orders else itertools.product((True, False), repeat=2))]


@pytest.mark.parametrize(("fault", "readers_first", "earliest", "code", "lines"), CASES)
def test_what_is_wrong_is_told_once(fault, readers_first, earliest, code, lines):
    """Not what follows from it: arrivals too many, tiles lost, threads that wait for ever."""
    report, _, _ = run_ring(fault, readers_first=readers_first, earliest=earliest)
    assert [finding.code for finding in report.findings] == [code], str(report)
    for part, line in zip(lines, lines_of(report.findings[0]), strict=True):
        assert part in line


@pytest.mark.parametrize(("fault", "said", "lines"), [
    ("fewer", "threads 0-31 and 33-63 have come to the end of the kernel", ["wait(empty", ARRIVE]),
    ("returns", "warp 0 has returned (line", ["wait(empty", ARRIVE, "return"])])
def test_readers_that_leave(fault, said, lines):
    """F5, with where they arrived last and where they left; the other way round it is F3 (test_hopper.py)."""
    report, _, _ = run_ring(fault, tiles=6, stages=1)
    (finding,) = report.findings
    assert finding.code == "F5" and "(warp 0 has arrived there at line" in finding.message
    assert said in finding.message
    assert all(part in line for part, line in zip(lines, lines_of(finding), strict=True))


@mo.kernel
def filled_ahead_kernel(out, A, B, layout, fault: mo.Constexpr):
    """Sums of A + B by 32 threads, tile by tile; all stages are filled before the first is used."""
    stages = mo.size(layout, 2)
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(A.dtype, layout)
    full, tid = mo.mbarrier_array(stages), mo.thread_idx().x
    gA, gB = (mo.tile(x.tensor, x.tile, (None, 0)) for x in (A, B))     # (32, 32, k)
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
        mo.fence_mbarrier_init()
        for k in range(stages if fault == "all" else mo.min(stages, tiles + 1 if fault == "one-more" else tiles)):
            mo.mbarrier_arrive_expect_tx(full, k, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, k))
            mo.copyto(B, sB[:, :, k], gB[:, :, k], barrier=(full, k))
    mo.sync_threads()
    total = mo.float32(0)
    for k in range(tiles):
        mo.mbarrier_wait(full, k % stages, k // stages % 2)
        total += sA[0, tid, k % stages] + sB[0, tid, k % stages]
        mo.sync_threads()
        if tid == 0 and k + stages < tiles:
            mo.mbarrier_arrive_expect_tx(full, k % stages, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, k % stages], gA[:, :, k + stages], barrier=(full, k % stages))
            mo.copyto(B, sB[:, :, k % stages], gB[:, :, k + stages], barrier=(full, k % stages))
    out[tid] = total


@pytest.mark.parametrize(("fault", "tiles", "stages", "codes", "said"), [
    ("", 2, 4, [], ""), ("", 9, 4, [], ""), ("all", 4, 4, [], ""), ("all", 5, 3, [], ""),
    ("all", 2, 4, ["F2", "F2"], "has 2 k-tiles: nobody waits for full(2) and full(3)"),
    ("all", 1, 2, ["F2", "F2"], "has 1 k-tile: nobody waits for full(1)"),
    ("one-more", 2, 4, ["D18", "D18"], "")])
def test_fewer_tiles_than_stages(fault, tiles, stages, codes, said):
    """A stage more than there are tiles is no prologue that fills them all: D18."""
    A, B = (np.random.default_rng(0).standard_normal((32 * tiles, 32)).astype(np.float32) for _ in range(2))
    out, atom = np.full(32, np.nan, np.float32), mo.smem_layout_atom(mo.float32, "k")
    copies = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(atom, (32, 32))) for x in (A, B)]
    report = mo.check(filled_ahead_kernel, lints=False)[1, 32](
        out, *copies, mo.tile_to_shape(atom, (32, 32, stages)), fault)
    assert [finding.code for finding in report.findings] == codes, str(report)
    np.testing.assert_allclose(out, (A + B)[::32].astype(np.float64).sum(axis=0), rtol=0, atol=1e-4)
    if codes:
        assert said in report.findings[0].message
        assert {finding.tensor for finding in report.findings} == {"sA", "sB"}


@pytest.mark.parametrize("stages", [1, 3])
def test_other_numbers_of_stages(stages):
    report, _, _ = run_ring("early", stages=stages)
    assert [finding.code for finding in report.findings] == ["F1"], str(report)


def test_two_barriers_that_could_be_meant():
    """Which of them belongs to the stages is not known: it is the copy over its readers, D13."""
    report, _, _ = run_ring("two-pairs")
    assert [finding.code for finding in report.findings][:1] == ["D13"], str(report)


def test_a_wait_for_the_readers_orders_what_another_thread_copies():
    """One lane of the warp that loads waits, another one copies after sync_warp."""
    @mo.kernel
    def kernel(out, A):
        sA, full, empty = mo.shared_array(A.dtype, A.smem_layout), mo.mbarrier_array(1), mo.mbarrier_array(1)
        tid = mo.thread_idx().x
        gA = mo.tile(A.tensor, A.tile, (None, 0))
        if tid == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.mbarrier_init(empty, 0, 32)
            mo.fence_mbarrier_init()
        mo.sync_threads()
        if tid < 32:
            for k in range(mo.size(gA, 2)):
                mo.mbarrier_wait(full, 0, k % 2)
                out[k, tid] = sA[0, tid]
                mo.mbarrier_arrive(empty, 0)
        else:
            for k in range(mo.size(gA, 2)):
                if tid == 32:
                    mo.mbarrier_wait(empty, 0, k % 2 ^ 1)
                mo.sync_warp()
                if tid == 33:
                    mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
                    mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))

    A, out = np.random.default_rng(0).standard_normal((96, 32)).astype(np.float32), np.zeros((3, 32), np.float32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    report = mo.check(kernel, lints=False)[1, 64](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, A[::32])


@mo.kernel
def one_after_the_other(out, X, fault: mo.Constexpr):
    """Tiles through one buffer and one mbarrier, which is made anew for each of them."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    sX, full = mo.shared_array(X.dtype, X.smem_layout), mo.mbarrier_array(1)
    gX = mo.tile(X.tensor, X.tile, (bx, None))          # (32, 32, k)
    for k in range(mo.size(gX, 2)):
        if tid == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
        mo.sync_threads()
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, X.bytes)
            mo.copyto(X, sX, gX[:, :, k], barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
        out[tid, k, bx] = sX[tid % 32, tid // 32]
        if fault == "":
            mo.sync_threads()


@pytest.mark.parametrize("earliest", [False, True])
def test_a_barrier_that_is_made_anew_while_others_may_wait_for_it(earliest):
    """D11: no phase is under way, but a warp may not have seen yet that the last one is complete."""
    X = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)
    copy = mo.make_tma_copy(mo.TmaLoad(), X, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32)))
    check = mo.check(one_after_the_other, lints=False, earliest=earliest)
    assert check[2, 64](np.full((64, 3, 2), np.nan, np.float32), copy, "").ok
    assert check[2, 32](np.full((32, 3, 2), np.nan, np.float32), copy, "no barrier").ok         # there is no other warp
    (finding,) = check[2, 64](np.full((64, 3, 2), np.nan, np.float32), copy, "no barrier").findings
    assert finding.code == "D11" and finding.threads == (32, 0)
    assert "full(0) of block (0, 0, 0) is initialised again by thread 0" in finding.message
    assert lines_of(finding) == ["mo.mbarrier_wait(full, 0, 0)", "mo.mbarrier_init(full, 0, 1)"]


@mo.kernel
def made_anew(out, fault: mo.Constexpr):
    """An mbarrier counts the threads that were here, and nobody waits for it; each time it is another one."""
    tid = mo.thread_idx().x
    bars = mo.mbarrier_array(1)
    for turn in range(3):
        if tid == 0:
            mo.mbarrier_init(bars, 0, 64)
        mo.sync_threads()
        mo.mbarrier_arrive(bars, 0)
        if fault == "one waits" and tid == 0:
            mo.mbarrier_wait(bars, 0, 0)
        if fault == "":
            mo.sync_threads()
        out[tid + 64 * turn] = turn


@pytest.mark.parametrize(("fault", "found"), [("", []), ("one waits", []), ("no barrier", ["D11"])])
def test_a_barrier_that_is_made_anew_while_others_may_arrive(fault, found):
    """Who waits for the phase knows of all arrivals in it."""
    report = mo.check(made_anew, lints=False)[2, 64](np.zeros(192, np.int32), fault)
    told = [finding for finding in report.findings if finding.code != "G1"]
    assert [finding.code for finding in told] == found, str(report)
    if found:
        assert told[0].threads == (32, 0) and "with no barrier since thread 32 arrived there" in told[0].message
        assert lines_of(told[0]) == ["mo.mbarrier_arrive(bars, 0)", "mo.mbarrier_init(bars, 0, 64)"]


@mo.kernel
def through_one_then_the_other(out, A):
    """Tiles through a buffer with the one mbarrier of a tensor, and a last one through another with the other."""
    tid = mo.thread_idx().x
    first, last, bars = (mo.shared_array(A.dtype, A.smem_layout), mo.shared_array(A.dtype, A.smem_layout),
                         mo.mbarrier_array(2))
    gA = mo.tile(A.tensor, A.tile, (None, 0))           # (32, 32, k)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(bars, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for k in range(mo.size(gA, 2)):
        which = k // (mo.size(gA, 2) - 1)
        if tid == 32:
            mo.mbarrier_expect_tx(bars, which, A.bytes)
            mo.mbarrier_arrive(bars, which)
            if which == 0:
                mo.copyto(A, first, gA[:, :, k], barrier=(bars, 0))
            else:
                mo.copyto(A, last, gA[:, :, k], barrier=(bars, 1))
        mo.mbarrier_wait(bars, which, 0 if which == 1 else k % 2)
        out[k, tid] = first[0, tid % 32] if which == 0 else last[0, tid % 32]


def test_barriers_of_two_buffers_are_no_pair():
    """Readers arrive at neither of them: a copy over what is read is D13."""
    A, out = np.ones((96, 32), np.float32), np.zeros((3, 64), np.float32)
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32)))
    report = mo.check(through_one_then_the_other, lints=False)[1, 64](out, copy)
    assert [finding.code for finding in report.findings] == ["D13"], str(report)


@mo.kernel
def for_both(out, A, layout, fault: mo.Constexpr):
    """Each block of a pair loads its half of the tiles for both of them; warp 0 adds up the columns."""
    tid, rank, stages = mo.thread_idx().x, mo.cluster_rank(), mo.size(layout, 2)
    sA = mo.shared_array(A.dtype, layout)               # (32, 32, stages)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    gA = mo.tile(A.tensor, A.tile, (None, 0))           # (32, 32, k)
    if tid == 32:
        for k in range(mo.size(gA, 2)):
            if fault != "no-empty-wait":
                mo.mbarrier_wait(empty, k % stages, k // stages % 2 ^ 1)
            mo.mbarrier_arrive_expect_tx(full, k % stages, A.bytes)
            mo.copyto(A, sA[:, :, k % stages], gA[:, :, k], barrier=(full, k % stages), multicast=0b11)
    elif tid < 32:
        total = mo.float32(0)
        for k in range(mo.size(gA, 2)):
            if fault != "no-full-wait":
                mo.mbarrier_wait(full, k % stages, k // stages % 2)
            for i in range(32):
                total += sA[i, tid, k % stages]
            mo.sync_warp()
            if tid < 2:
                mo.mbarrier_arrive(empty, k % stages, cta=tid)
        out[rank, tid] = total
    mo.cluster_sync()


@pytest.mark.slow
@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("fault", "code"), [("", ""), ("no-empty-wait", "F1"), ("no-full-wait", "D6")])
def test_copies_for_two_blocks(fault, code, stages, earliest):
    """One step that is left out is told once, not for the other block as well."""
    A = np.random.default_rng(0).standard_normal((160, 32)).astype(np.float32)
    out, atom = np.full((2, 32), np.nan, np.float32), mo.smem_layout_atom(mo.float32, "k")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(atom, (32, 32)), multicast=2)
    report = mo.check(for_both, lints=False, earliest=earliest).launch(
        out, copy, mo.tile_to_shape(atom, (32, 32, stages)), fault, grid=2, block=64, cluster=2)
    assert [finding.code for finding in report.findings] == ([code] if code else []), str(report)
    if not code:
        np.testing.assert_allclose(out, np.tile(A.astype(np.float64).sum(axis=0), (2, 1)), rtol=0, atol=1e-3)
