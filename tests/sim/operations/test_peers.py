"""Shared memory of other blocks of a cluster in the simulator: values against NumPy, faults by class and line."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.sim.machine import machine

BLOCKS, THREADS = 4, 64


def codes(report):
    return [finding.code for finding in report.findings]


def line_of(finding, which=0):
    """The text of the line that a finding points at."""
    frame = finding.locs[which].innermost
    return open(frame.file).read().splitlines()[frame.line - 1].strip()


def check(kernel, *arguments, grid=BLOCKS, block=THREADS, cluster=2, **options):
    return mo.check(kernel, lints=False, **options).launch(*arguments, grid=grid, block=block, cluster=cluster)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def nans(*shape):
    return np.full(shape, np.nan, np.float32)


# --- values ----------------------------------------------------------------------------------------------------------


@mo.kernel
def swap(out, x, fault: mo.Constexpr = ""):
    """Each block hands its row to the next one of its cluster, which reads it there."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    n = mo.cluster_dim().x
    s = mo.shared_array(mo.float32, THREADS)
    if fault != "unwritten":
        s[tid] = x[tid, bx]
    if fault == "block":
        mo.sync_threads()
    elif fault == "fence":
        mo.fence("seq_cst", "cta")
    elif fault == "relaxed":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    elif fault != "none":
        mo.cluster_sync()
    peer = mo.map_shared_rank(s, (rank + (n if fault == "rank" else 1)) % (2 * n if fault == "rank" else n))
    value = peer[63 - tid]
    if fault == "overwritten":
        s[tid] = 0.0
    if fault == "written there":
        mo.map_shared_rank(s, 0)[tid] = 1.0
    out[tid, bx] = value
    if fault == "end relaxed":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    elif fault != "end":
        mo.cluster_sync()


def swapped(x, cluster):
    return np.roll(x.reshape(THREADS, -1, cluster), -1, axis=2)[::-1].reshape(x.shape)


@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("lanes", [1 << 20, 4 * THREADS])
def test_values(cluster, lanes, monkeypatch):
    """All clusters in one batch, and one cluster of four blocks a batch."""
    monkeypatch.setattr(machine, "LANES", lanes)
    x, out = normal(THREADS, 8), nans(THREADS, 8)
    report = check(swap, out, x, grid=8, cluster=cluster)
    assert report.ok and not report.not_judged, str(report)
    np.testing.assert_array_equal(out, swapped(x, cluster))


def test_values_unchecked(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")
    x, out = normal(THREADS, 8), nans(THREADS, 8)
    swap.launch(out, x, grid=8, block=THREADS, cluster=4)
    np.testing.assert_array_equal(out, swapped(x, 4))


@pytest.mark.parametrize("cluster", [(2, 1, 1), (1, 2, 2), (2, 2, 2), (1, 1, 3)])
def test_every_thread_a_rank_of_its_own(cluster):
    """Rank is per thread, in clusters of any shape: x fastest."""
    @mo.kernel
    def gathers(out, x):
        tid, block = mo.thread_idx().x, mo.block_idx()
        a, b, c = mo.cluster_dim()
        s = mo.shared_array(mo.float32, 32)
        s[tid] = x[tid, block.x, block.y, block.z]
        mo.cluster_sync()
        out[tid, block.x, block.y, block.z] = mo.map_shared_rank(s, tid % (a * b * c))[31 - tid]
        mo.cluster_sync()

    grid = tuple(2 * extent for extent in cluster)
    x, out = normal(32, *grid), nans(32, *grid)
    report = check(gathers, out, x, grid=grid, block=32, cluster=cluster)
    assert report.ok, str(report)
    for block in np.ndindex(*grid):
        for t in range(32):
            rank = t % np.prod(cluster)
            inside = rank % cluster[0], rank // cluster[0] % cluster[1], rank // (cluster[0] * cluster[1])
            there = tuple(b // c * c + i for b, c, i in zip(block, cluster, inside, strict=True))
            assert out[(t, *block)] == x[(31 - t, *there)]


def test_under_divergence():
    """Half of the warps read one block, half another, the blocks in different branches."""
    @mo.kernel
    def parts(out, x):
        tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
        s = mo.shared_array(mo.float32, THREADS)
        s[tid] = x[tid, bx]
        mo.cluster_sync()
        if rank % 2 == 0:
            if tid < 32:
                out[tid, bx] = mo.map_shared_rank(s, 3)[tid]
            else:
                out[tid, bx] = mo.map_shared_rank(s, rank + 1)[tid]
        else:
            if tid >= 48:
                out[tid, bx] = mo.map_shared_rank(s, 0)[tid]
        mo.cluster_sync()

    x, out = normal(THREADS, 8), nans(THREADS, 8)
    report = check(parts, out, x, grid=8, cluster=4)
    assert report.ok, str(report)
    for b, t in np.ndindex(8, THREADS):
        base, rank = b // 4 * 4, b % 4
        of = (base + 3 if t < 32 else b + 1) if rank % 2 == 0 else base if t >= 48 else None
        assert np.isnan(out[t, b]) if of is None else out[t, b] == x[t, of]


def test_recast_and_narrow_elements_elsewhere():
    """Words of a float16 tensor read there, halves of words written there."""
    @mo.kernel
    def recasts(out, x):
        tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
        s, back = mo.shared_array(mo.float16, 64), mo.shared_array(mo.uint32, 32)
        s[2 * tid], s[2 * tid + 1] = x[2 * tid, bx], x[2 * tid + 1, bx]
        mo.cluster_sync()
        word = mo.recast(mo.map_shared_rank(s, rank ^ 1), mo.uint32)[31 - tid]
        halves = mo.recast(mo.map_shared_rank(back, rank ^ 1), mo.uint16)
        halves[2 * tid], halves[2 * tid + 1] = mo.uint16(word >> 16), mo.uint16(word)
        mo.cluster_sync()
        out[tid, bx] = back[tid]

    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float16)
    out = np.zeros((32, 4), np.uint32)
    report = check(recasts, out, x, block=32)
    assert report.ok, str(report)
    words = np.ascontiguousarray(x.T).view(np.uint32).T[::-1]
    np.testing.assert_array_equal(out, words >> 16 | words << 16)


@pytest.mark.parametrize("columns", [32, 21])
def test_tiled_copies_elsewhere(columns):
    """Partitions of a mapped tile, four elements at a time there and one by one with a predicate back."""
    @mo.kernel
    def tiles(out, x, wide, narrow, columns):
        tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
        s = mo.shared_array(mo.float32, mo.make_layout((32, 32), (1, 36)))
        there = mo.map_shared_rank(s, rank ^ 1)
        thr, back = wide.get_slice(tid), narrow.get_slice(tid)
        gX, gO = (mo.tile(array, (32, 32, 1), (0, 0, bx))[:, :, 0] for array in (x, out))
        mo.cluster_sync()
        mo.copyto(wide, thr.partition_D(there), thr.partition_S(gX))
        mo.cluster_sync()
        tOs, tOg = back.partition_S(there), back.partition_D(gO)
        regs = mo.make_fragment_like(tOs)
        regs.fill(0.0)
        place = back.partition_S(mo.identity_tensor((32, 32)))
        pred = mo.make_fragment_like(tOs, mo.bool)
        for i in mo.static_range(mo.size(pred)):
            pred[i] = place[i][1] < columns
        mo.copyto(regs, tOs, pred=pred)
        mo.copyto(tOg, regs)
        mo.cluster_sync()

    def tiled(op, threads, values):
        return mo.make_tiled_copy(mo.CopyAtom(op, mo.float32), mo.make_layout(threads), mo.make_layout(values))

    x, out = (np.asfortranarray(array) for array in (normal(32, 32, 4), nans(32, 32, 4)))
    report = check(tiles, out, x, tiled(mo.UniversalCopy(mo.uint128), (8, 8), (4, 1)),
                   tiled(mo.UniversalCopy(mo.float32), (32, 2), (1, 1)), columns)
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, np.where(np.arange(32)[:, None] < columns, x, 0))


# --- faults ----------------------------------------------------------------------------------------------------------

FAULTS = {
    "": ([], None, ()),
    "none": (["C1"], "s[tid] = x[tid, bx]", ("by thread 0 of block (1, 0, 0)", "thread 63 of block (0, 0, 0)")),
    "relaxed": (["C1"], "s[tid] = x[tid, bx]", ("no barrier of the cluster between",)),
    "block": (["D19"], "s[tid] = x[tid, bx]", ("sync_threads at line", "orders the threads of one block alone")),
    "fence": (["D19"], "s[tid] = x[tid, bx]", ("the fence at line", "orders the threads of one block alone")),
    "unwritten": (["B6"], "value = peer[63 - tid]", ("is read before anything wrote it", "of block (1, 0, 0)")),
    "overwritten": (["C2"], "s[tid] = 0.0", ("may be overwritten while it is still being read", "(0, 0, 0)")),
    "written there": (["C2", "C1"], "mo.map_shared_rank(s, 0)[tid] = 1.0", ()),
    "end": (["D18"], "value = peer[63 - tid]", ("block (1, 0, 0) may end before the read by thread",)),
    "end relaxed": (["D18"], "value = peer[63 - tid]", ()),
    "rank": (["D20"], "peer = mo.map_shared_rank(s, (rank + (n if", ("addresses block 2", "its cluster of 2")),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("grid", [2, 6])
def test_faults(fault, grid):
    wanted, line, words = FAULTS[fault]
    report = check(swap, nans(THREADS, grid), normal(THREADS, grid), fault, grid=grid)
    assert codes(report) == wanted or (fault == "written there" and set(codes(report)) <= {"C1", "C2"}), str(report)
    for finding in report.findings[:1]:
        assert line_of(finding).startswith(line)
        assert all(word in finding.message for word in words), finding.message
        assert "cluster_sync" in (finding.hint or "") or finding.code in ("B6", "D20")
    if fault == "relaxed":
        assert report.findings[0].hint.endswith("a relaxed arrival orders nothing")


@mo.kernel
def pushes(out, x, fault: mo.Constexpr = ""):
    """Each block writes its row into the other's memory."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, THREADS)
    if fault != "early":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    there = mo.map_shared_rank(s, 0 if fault == "both" else rank ^ 1)
    there[tid // 2 if fault == "one statement" else tid] = x[tid, bx]
    if fault == "no barrier":
        mo.sync_threads()
    else:
        mo.cluster_sync()
    if fault == "own block":
        there[63 - tid] = 1.0
    out[tid, bx] = s[tid] if fault not in ("both", "one statement") else 0.0
    if fault == "own block":
        mo.cluster_sync()


@pytest.mark.parametrize(("fault", "wanted", "words"), [
    ("", [], ()),
    ("early", ["D18"], ("block (1, 0, 0) may start after the write by thread 0 of block (0, 0, 0)",)),
    ("both", ["C1"], ("is written twice", "thread 0 of block (1, 0, 0)", "thread 0 of block (0, 0, 0)")),
    ("one statement", ["C1"], ("thread 0 of block (0, 0, 0)", "thread 1 of block (0, 0, 0)")),
    ("no barrier", ["D19", "D18"], ("may be read before it is written",)),
    ("own block", ["C1"], ("may be read before it is written", "block (1, 0, 0)")),
])
def test_faults_of_writes(fault, wanted, words):
    report = check(pushes, nans(THREADS, BLOCKS), normal(THREADS, BLOCKS), fault)
    assert codes(report) == wanted, str(report)
    assert all(word in report.findings[0].message for word in words), str(report)


def test_lanes_of_one_warp_and_threads_of_one_block():
    """Threads of one block that clash in another's memory lack a barrier of their own."""
    @mo.kernel
    def clash(out, distance):
        tid, rank = mo.thread_idx().x, mo.cluster_rank()
        s = mo.shared_array(mo.float32, 128)
        s[tid] = 0.0
        mo.cluster_sync()
        if rank == 0:
            there = mo.map_shared_rank(s, 1)
            there[tid] = 1.0
            out[tid] = there[tid ^ distance]
        mo.cluster_sync()

    for distance, code, hint in ((1, "C3", "sync_warp() between the two"),
                                 (32, "C1", "sync_threads() between the two")):
        finding, = check(clash, nans(128), distance, grid=2, block=128).findings
        assert (finding.code, finding.hint) == (code, hint)


@mo.kernel
def reads_there(out, n):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((8, 8)))
    for i in mo.static_range(2):
        s[i * 32 + tid] = 0.0
    mo.cluster_sync()
    out[tid, bx] = mo.map_shared_rank(s, 1)[tid % 8, n]
    mo.cluster_sync()


def test_a_tensor_that_is_allocated_again():
    """B11: the second time round nobody has written it."""
    @mo.kernel
    def again(out, n):
        tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
        for k in range(n):
            s = mo.shared_array(mo.float32, THREADS)
            if k == 0:
                s[tid] = 1.0
            mo.cluster_sync()
            out[tid, bx] = mo.map_shared_rank(s, rank ^ 1)[tid]
            mo.cluster_sync()

    assert check(again, nans(THREADS, 2), 1, grid=2).ok
    found, = check(again, nans(THREADS, 2), 2, grid=2).findings
    assert found.code == "B11" and "of block (1, 0, 0) is read before anything wrote it since s was" in found.message


def test_bounds():
    """B2 names the element and the block whose memory it is."""
    assert check(reads_there, nans(32, 2), 7, grid=2, block=32).ok
    finding, = check(reads_there, nans(32, 2), 8, grid=2, block=32).findings
    assert finding.code == "B2" and "thread 0 of block (0, 0, 0) reads s(0, 8) of block (1, 0, 0)" in finding.message
    finding, = check(reads_there, nans(32, 2), -1, grid=2, block=32).findings
    assert finding.code == "B2"


def test_alignment():
    """What the trace was promised does not hold: four elements from element n on, which is no multiple of 4."""
    @mo.kernel
    def wide(out, index):
        tid, bx, n = mo.thread_idx().x, mo.block_idx().x, index[0]
        s, t, regs = mo.shared_array(mo.float32, 64), mo.shared_array(mo.float32, 64), mo.fragment((4,), mo.float32)
        s[tid] = 0.0
        mo.cluster_sync()
        mo.assume(n % 4 == 0)
        there, other = (mo.map_shared_rank(x, 1).moved(n).with_layout(mo.make_layout(4)) for x in (s, t))
        mo.copyto(mo.UniversalCopy(mo.uint128), regs, there)
        mo.copyto(mo.UniversalCopy(mo.uint128), other, regs, pred=mo.cluster_rank() + tid == 0)
        out[tid, bx] = regs[0]
        mo.cluster_sync()

    assert check(wide, nans(THREADS, 2), np.array([8], np.int32), grid=2).ok
    found = check(wide, nans(THREADS, 2), np.array([6], np.int32), grid=2).findings
    assert [finding.code for finding in found][:3] == ["A12", "B3", "B3"]
    assert "accesses 16 bytes of" in found[1].message


# --- mbarriers of other blocks ---------------------------------------------------------------------------------------


@mo.kernel
def ring(out, src, rounds, fault: mo.Constexpr = ""):
    """Values go from block to block by remote arrivals, through two stages of the next block's memory."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    n = mo.cluster_dim().x
    after, before = (rank + 1) % n, (rank + n - 1) % n
    s = mo.shared_array(mo.float32, (THREADS, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid < 2:
        mo.mbarrier_init(full, tid, THREADS)
        mo.mbarrier_init(empty, tid, THREADS)
        mo.fence_mbarrier_init()
    if fault == "start":
        mo.sync_threads()
    else:
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    there = mo.map_shared_rank(s, after)
    value = src[tid, bx]
    for k in range(rounds):
        stage, phase = k % 2, k // 2 % 2
        if fault != "no wait":
            mo.mbarrier_wait(empty, stage, phase ^ 1)
        there[tid, stage] = value
        mo.mbarrier_arrive(full, stage, cta=after)
        mo.mbarrier_wait(full, stage, phase)
        if fault == "early release":
            mo.mbarrier_arrive(empty, stage, cta=before)
        value = s[63 - tid, stage] + 1
        if fault != "early release":
            mo.mbarrier_arrive(empty, stage, cta=after if fault == "wrong block" and n > 2 else before)
    out[tid, bx] = value
    if fault != "end":
        mo.cluster_sync()


@pytest.mark.parametrize("cluster", [2, 4])
def test_arrivals_order_blocks(cluster):
    src, out = normal(THREADS, 8), nans(THREADS, 8)
    report = check(ring, out, src, 7, grid=8, cluster=cluster)
    assert report.ok, str(report)
    held = src.astype(np.float64).reshape(THREADS, -1, cluster)
    for _ in range(7):
        held = np.roll(held, 1, axis=2)[::-1] + 1
    np.testing.assert_allclose(out, held.reshape(out.shape), rtol=1e-6)


@pytest.mark.parametrize(("fault", "cluster", "wanted", "line"), [
    ("no wait", 4, ["C2"], "there[tid, stage] = value"),
    ("early release", 4, ["C2"], "there[tid, stage] = value"),
    ("wrong block", 4, ["C2"], "there[tid, stage] = value"),
    ("start", 2, ["D10", "D18"], "mo.mbarrier_init(full, tid, THREADS)"),
])
def test_faults_of_arrivals(fault, cluster, wanted, line):
    report = check(ring, nans(THREADS, 8), normal(THREADS, 8), 7, fault, grid=8, cluster=cluster)
    assert set(wanted) <= set(codes(report)), str(report)
    found = next(f for f in report.findings if f.code == wanted[0])
    assert line_of(found) == line
    assert found.message.count("of block") >= 2


def test_an_arrival_at_a_barrier_that_is_not_initialised_there():
    """The words name both blocks, and the hint a barrier of the cluster."""
    report = check(ring, nans(THREADS, 2), normal(THREADS, 2), 1, "start", grid=2)
    found = next(f for f in report.findings if f.code == "D10")
    assert "uses full(0) of block (0, 0, 0)" in found.message and "thread 0 of block (1, 0, 0)" in found.message
    assert "no barrier of the cluster since thread 0 of that block initialised it" in found.message
    assert found.hint.endswith("cluster_sync() after mbarrier_init")


@mo.kernel
def tells_the_first(out, ends: mo.Constexpr):
    """The last thread of each block arrives at a barrier of block 0, which waits for nobody."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 2)
        mo.fence_mbarrier_init()
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    out[tid, mo.block_idx().x] = 1.0
    if rank > 0:
        for i in range(100):
            out[tid, mo.block_idx().x] = i
        mo.mbarrier_arrive(bars, 0, cta=0)
    if ends == "waits" and rank == 0:
        mo.mbarrier_arrive(bars, 0)
        mo.mbarrier_wait(bars, 0, 0)
    elif ends != "at once" and ends != "waits":
        mo.cluster_arrive(relaxed=ends == "relaxed")
        mo.cluster_wait()


@pytest.mark.parametrize("ends", ["after all", "waits"])
def test_a_block_that_stays_until_others_have_arrived(ends):
    assert "D18" not in codes(check(tells_the_first, nans(1, 2), ends, grid=2, block=1))


@pytest.mark.parametrize("ends", ["at once", "relaxed"])
def test_an_arrival_at_a_block_that_has_ended(ends):
    """A relaxed arrival at the cluster's barrier does not wait for what is on its way."""
    found = next(f for f in check(tells_the_first, nans(1, 2), ends, grid=2, block=1).findings if f.code == "D18")
    assert "block (0, 0, 0) may end before the arrival by thread 0 of block (1, 0, 0)" in found.message
    assert line_of(found) == "mo.mbarrier_arrive(bars, 0, cta=0)"


# --- multicasts ------------------------------------------------------------------------------------------------------

HALF = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))


@mo.kernel
def shared_tiles(out, source, stages: mo.Constexpr, fault: mo.Constexpr = ""):
    """Two blocks each load a half of every tile for both; four warps of each read it and let both go on."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    smem = mo.shared_array(source.dtype, mo.tile_to_shape(source.smem_layout, (32, 32, stages)))
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    gA = mo.tile(source.tensor, (32, 32), (None, 0))                    # (32, 32, k)
    if tid == 0:
        for s in mo.static_range(stages):
            mo.mbarrier_init(full, s, 1)
            mo.mbarrier_init(empty, s, 4 if fault == "own" else 8)
        mo.fence_mbarrier_init()
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    stage, phase = 0, 0
    if tid >= 128:
        if tid == 128:
            for k in range(mo.size(gA, 2)):
                mo.mbarrier_wait(empty, stage, phase ^ 1)
                mo.mbarrier_arrive_expect_tx(full, stage, source.bytes)
                mo.copyto(source, smem[:, :, stage], gA[:, :, k], barrier=(full, stage), multicast=0b11)
                stage += 1
                if stage == stages:
                    stage, phase = 0, phase ^ 1
    else:
        total = mo.float32(0)
        for _ in range(mo.size(gA, 2)):
            mo.mbarrier_wait(full, stage, phase)
            if fault == "early" and tid % 32 < 2:
                mo.mbarrier_arrive(empty, stage, cta=tid % 32)
            for i in mo.static_range(8):
                total += smem[tid % 32, tid // 32 * 8 + i, stage]
            mo.sync_warp()
            if fault == "own":
                if tid % 32 == 0:
                    mo.mbarrier_arrive(empty, stage)
            elif fault != "early" and tid % 32 < 2:
                mo.mbarrier_arrive(empty, stage, cta=tid % 32)
            stage += 1
            if stage == stages:
                stage, phase = 0, phase ^ 1
        out[tid, bx] = total
    mo.cluster_sync()


def run_tiles(fault="", blocks=4, tiles=6, **options):
    A = normal(32 * tiles, 32)
    source = mo.make_tma_copy(mo.TmaLoad(), A, HALF, multicast=2)
    out = nans(128, blocks)
    report = check(shared_tiles, out, source, 2, fault, grid=blocks, block=160, **options)
    sums = A.astype(np.float64).reshape(tiles, 32, 4, 8).sum(axis=(0, 3))       # (row, group of columns)
    return report, out, sums.T.reshape(128, 1)


@pytest.mark.parametrize("earliest", [False, True])
def test_multicasts_wait_for_readers_of_both_blocks(earliest):
    report, out, wanted = run_tiles(earliest=earliest)
    assert report.ok, str(report)
    np.testing.assert_allclose(out, np.broadcast_to(wanted, out.shape), rtol=0, atol=1e-4)


@pytest.mark.parametrize("fault", ["own", "early"])
def test_a_multicast_over_readers_of_another_block(fault):
    """D13: readers tell the thread that loads in their own block alone, or before they have read."""
    report, _, _ = run_tiles(fault)
    found = next(f for f in report.findings if f.code == "D13")
    assert {"D13"} == set(codes(report)), str(report)
    assert any(line_of(found, i).startswith("mo.copyto(source, smem[:, :, stage]") for i in range(2))
    if fault == "own":
        assert "smem(0, 0, 0) of block (1, 0, 0) may be overwritten" in found.message
        assert "the copy by thread 128 of block (0, 0, 0)" in found.message


# --- global memory ---------------------------------------------------------------------------------------------------


@mo.kernel
def through_memory(out, scratch, sync: mo.Constexpr):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    scratch[tid, bx] = bx * 1000 + tid
    if sync == "cluster":
        mo.cluster_sync()
    elif sync == "relaxed":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    elif sync == "block":
        mo.sync_threads()
    other = scratch[tid, bx ^ (2 if sync == "other cluster" else 1)]
    if sync == "again":
        mo.cluster_sync()
    out[tid, bx] = other


@pytest.mark.parametrize(("sync", "wanted", "hint"), [
    ("cluster", [], None), ("relaxed", ["G5"], "cluster_sync() between the two"),
    ("block", ["G5"], "cluster_sync() between the two"), ("again", ["G5"], "cluster_sync() between the two"),
    ("other cluster", ["G5"], "read from another array than the one that is written")])
def test_global_memory_between_blocks_of_a_cluster(sync, wanted, hint):
    out, scratch = np.zeros((THREADS, BLOCKS), np.int32), np.zeros((THREADS, BLOCKS), np.int32)
    report = check(through_memory, out, scratch, sync)
    assert codes(report) == wanted, str(report)
    assert not report.findings or report.findings[0].hint == hint
    assert report.not_judged == ()


def test_a_chain_over_a_cluster_and_a_flag():
    """Block 1 writes, a barrier of the cluster, block 0 releases a flag, block 2 acquires it, its cluster meets."""
    @mo.kernel
    def chain(out, data, flag, good: mo.Constexpr):
        tid, bx = mo.thread_idx().x, mo.block_idx().x
        if bx == 1:
            data[tid] = tid + 1
        if bx < 2 and good:
            mo.cluster_sync()
        if bx == 0:
            mo.sync_threads()
            if tid == 0:
                mo.store(flag, 0, 1, order="release")
        if bx >= 2:
            if bx == 2 and tid == 0:
                while mo.load(flag, 0, order="acquire") == 0:
                    pass
            mo.cluster_sync()
            if bx == 3:
                out[tid] = data[tid]

    for good, wanted in ((True, []), (False, ["G3"])):
        out, data, flag = (np.zeros(n, np.int32) for n in (THREADS, THREADS, 1))
        report = check(chain, out, data, flag, good)
        assert codes(report) == wanted, str(report)
        assert not good or (out == np.arange(THREADS) + 1).all()


# --- the interface ---------------------------------------------------------------------------------------------------


def test_check_takes_a_cluster_by_launch():
    """``mo.check(kernel)`` launches clusters by ``launch``; the short form has none, and the error says so."""
    report = mo.check(swap, lints=False).launch(nans(THREADS, 2), normal(THREADS, 2), grid=2, block=THREADS, cluster=2)
    assert report.ok
    with pytest.raises(mo.MoyeError):
        mo.check(swap)[2, THREADS, 2](nans(THREADS, 2), normal(THREADS, 2))


def test_what_else_a_check_can_tell():
    """Timelines, expected results and where wrong ones come from, snapshots: with mapped tensors as with others."""
    x, out = normal(THREADS, 4), nans(THREADS, 4)
    launch = {"grid": 4, "block": THREADS, "cluster": 2}
    report = mo.check(swap, lints=False, timeline=True).launch(out, x, **launch)
    kinds = {event.kind for event in report.timeline().events}
    assert {"write", "read"} <= kinds, kinds
    assert mo.check(swap, expect=lambda out, x: swapped(x, 2)).launch(nans(THREADS, 4), x, **launch).ok
    report = mo.check(swap, expect=lambda out, x: x).launch(nans(THREADS, 4), x, **launch)
    assert codes(report) == ["V1"]

    @mo.kernel
    def shows(x):
        s = mo.shared_array(mo.float32, 4)
        s[mo.thread_idx().x] = x[mo.thread_idx().x, mo.block_idx().x]
        mo.cluster_sync()
        mo.inspect("there", peer=mo.map_shared_rank(s, mo.cluster_rank() ^ 1))
        mo.cluster_sync()

    mo.check(shows, lints=False).launch(x, grid=2, block=4, cluster=2)
    snapshot, = mo.inspections()
    for block in range(2):
        np.testing.assert_array_equal(snapshot.value("peer", 3, block), x[:4, block ^ 1])


@mo.kernel
def sent_on(out, how: mo.Constexpr, fence: mo.Constexpr):
    """Each block stores by a bulk copy what the other has put, or added, into its memory."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    mo.assume(mo.size(out) % THREADS == 0)
    s = mo.shared_array(mo.int32, THREADS)
    s[tid] = 0
    mo.fence_proxy_async()
    mo.cluster_sync()
    if how == "put":
        mo.map_shared_rank(s, rank ^ 1)[tid] = tid
    else:
        mo.atomic_add(mo.map_shared_rank(s, rank ^ 1), tid, tid, scope="cluster")
    if fence == "writers":
        mo.fence_proxy_async()
    mo.cluster_sync()
    if fence == "readers":
        mo.fence_proxy_async()
        mo.sync_threads()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), mo.tile(out, (THREADS,), (bx,)), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)
    mo.cluster_sync()


@pytest.mark.parametrize("fence", ["", "writers", "readers"])
@pytest.mark.parametrize("how", ["put", "added"])
def test_proxy_fences_of_what_another_block_has_changed(how, fence):
    out = np.zeros(2 * THREADS, np.int32)
    report = check(sent_on, out, how, fence, grid=2)
    assert codes(report) == ([] if fence else ["D12"]), str(report)
    assert fence == "" or np.array_equal(out, np.tile(np.arange(THREADS), 2))
