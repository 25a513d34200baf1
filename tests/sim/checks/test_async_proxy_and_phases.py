"""Atomics beside asynchronous units, copies by cp.async that are fenced too early, and mbarriers' phases.

Arrivals may mix phases, and waits may miss them.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

TILE = mo.make_layout((32, 32), (32, 1))
SWIZZLED = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))


def codes(kernel, args, block, **options):
    return {finding.code for finding in mo.check(kernel, **options).launch(*args, grid=1, block=block).findings}


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def store():
    return mo.make_tma_copy(mo.TmaStore(), np.zeros((32, 32), np.float32), TILE)


@mo.kernel
def histogram(T, x, fault: mo.Constexpr):
    """Atomics, then a tensor copy reads what they made."""
    tid = mo.thread_idx().x
    counts = mo.shared_array(mo.float32, T.smem_layout)
    for i in range(32):
        counts[i, tid % 32] = 0.0
    if fault != "late clear":
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid >= 32:
        for i in range(32):
            mo.atomic_add(counts, (i, x[i, tid % 32].to(mo.int32) % 32), 1.0)
        if fault != "no fence":
            mo.fence_proxy_async()
    if fault != "no barrier":
        mo.sync_threads()
    if fault == "fence behind" and tid >= 32:
        mo.fence_proxy_async()
    if tid == 0:
        mo.copyto(T, mo.tile(T.tensor, T.tile, (0, 0)), counts)
        mo.tma_store_arrive()
    if fault == "changed":
        mo.sync_threads()
        if tid == 40:
            mo.atomic_add(counts, (3, 5), 1.0)
    if tid == 0:
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("fault", "found"), [
    ("", set()), ("no fence", {"D12"}), ("no barrier", {"C1"}), ("changed", {"D15"})])
def test_atomics_are_writes(fault, found):
    assert codes(histogram, (store(), numbers(32, 32), fault), 64) == found


@mo.kernel
def rounds(T, x):
    """Round after round of counts and fences; a tensor copy at the end."""
    tid = mo.thread_idx().x
    counts = mo.shared_array(mo.float32, T.smem_layout)
    for i in range(32):
        counts[i, tid % 32] = 0.0
    mo.fence_proxy_async()
    mo.sync_threads()
    for k in range(100):
        if tid >= 32:
            mo.atomic_add(counts, (k % 32, x[k % 32, tid % 32].to(mo.int32) % 32), 1.0)
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(T, mo.tile(T.tensor, T.tile, (0, 0)), counts)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def test_more_fences_than_are_kept():
    assert not codes(rounds, (store(), numbers(32, 32)), 64)


@mo.kernel
def multiplied(C, A: mo.Static, B: mo.Static, mma, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, SWIZZLED), mo.shared_array(mo.float16, SWIZZLED)
    for i in range(32):
        sA[tid % 64, tid // 64 + 2 * i] = A[tid % 64, tid // 64 + 2 * i]
        sB[tid % 64, tid // 64 + 2 * i] = B[tid % 64, tid // 64 + 2 * i]
    if fault != "before":
        mo.atomic_add(sA, (tid % 64, tid // 64), mo.float16(1))
    mo.fence_proxy_async()
    mo.sync_threads()
    if fault == "before":
        mo.atomic_add(sA, (tid % 64, tid // 64), mo.float16(1))
        mo.sync_threads()
    thr = mma.get_slice(tid)
    acc = mma.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=False)
    mo.warpgroup_commit_batch()
    if fault == "during":
        mo.atomic_add(sA, (tid % 64, tid // 64), mo.float16(1))
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@pytest.mark.parametrize(("fault", "found"), [("", set()), ("before", {"D12"}), ("during", {"E3"})])
def test_atomics_on_operands_of_wgmma(fault, found):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    operands = (numbers(64, 64, dtype=np.float16) % 5 for _ in range(2))
    assert codes(multiplied, (np.zeros((64, 64), np.float32), *operands, mma, fault), 128) == found


@mo.kernel
def brought(T, x: mo.Static, way: mo.Constexpr):
    """Copies by cp.async; the fence that shows them to a tensor copy comes before or behind the wait."""
    tid = mo.thread_idx().x
    held, full = mo.shared_array(mo.float32, T.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
    mo.sync_threads()
    if tid < 32:
        for i in range(8):
            mo.copyto(mo.CpAsync(mo.uint128), mo.tile(held[tid, None], (4,), (i,)),
                      mo.tile(x[tid, None], (4,), (i,)))
        if way == "early":
            mo.cp_async_commit()
            mo.fence_proxy_async()
            mo.cp_async_wait(0)
        elif way == "behind":
            mo.cp_async_commit()
            mo.cp_async_wait(0)
            mo.fence_proxy_async()
        else:
            mo.fence_proxy_async()
            mo.cp_async_mbarrier_arrive(full, 0)
    if way in ("early", "behind"):
        mo.sync_threads()
    if tid == 32:
        if way not in ("early", "behind"):
            mo.mbarrier_wait(full, 0, 0)
        if way == "arrives, fenced":
            mo.fence_proxy_async()
        mo.copyto(T, mo.tile(T.tensor, T.tile, (0, 0)), held)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("way", "found"), [
    ("early", {"D12"}), ("behind", set()), ("arrives", {"D12"}), ("arrives, fenced", set())])
def test_a_fence_covers_what_has_been_waited_for(way, found):
    assert codes(brought, (store(), numbers(32, 32), way), 64) == found


# --- phases ----------------------------------------------------------------------------------------------------------


@mo.kernel
def skips(out, A, n, stages: mo.Constexpr, waits: mo.Constexpr):
    """A ring of tiles; warp 1 reads two of three, and releases the third with or without a wait for it."""
    tid = mo.thread_idx().x
    ring = mo.shared_array(mo.float32, mo.make_layout((32, 32, stages), (32, 1, 1024)))
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 64:
        for k in range(n):
            mo.mbarrier_wait(empty, k % stages, k // stages % 2 ^ 1)
            mo.mbarrier_arrive_expect_tx(full, k % stages, A.bytes)
            mo.copyto(A, ring[:, :, k % stages], mo.tile(A.tensor, A.tile, (k, 0)), barrier=(full, k % stages))
    elif tid < 64:
        total = mo.float32(0)
        for k in range(n):
            mine = tid < 32 or k % 3 != 1
            if waits or mine:
                mo.mbarrier_wait(full, k % stages, k // stages % 2)
            if mine:
                total += ring[0, tid % 32, k % stages]
            mo.mbarrier_arrive(empty, k % stages)
        out[tid] = total


@pytest.mark.parametrize(("n", "stages"), [(5, 4), (6, 2), (8, 3)])
@pytest.mark.parametrize(("waits", "found"), [(True, set()), (False, {"D8"})])
def test_who_skips_a_tile_may_release_another(n, stages, waits, found):
    A = mo.make_tma_copy(mo.TmaLoad(), numbers(256, 32), TILE)
    assert codes(skips, (np.zeros(64, np.float32), A, n, stages, waits), 96) == found


@mo.kernel
def two_arrive(out, x, fault: mo.Constexpr):
    """One barrier that counts two: a warp each, twice."""
    tid, bar = mo.thread_idx().x, mo.mbarrier_array(1)
    held = mo.shared_array(mo.float32, 64)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 2)
    mo.sync_threads()
    for k in range(2):
        held[tid] = x[tid] + k
        mo.sync_warp()
        if tid % 32 == 0:
            mo.mbarrier_arrive(bar, 0)
        if fault == "" or tid < 32:
            mo.mbarrier_wait(bar, 0, k % 2)
        out[tid] = held[tid ^ 32] if fault == "" else x[tid]


@pytest.mark.parametrize(("fault", "found"), [("", {"C2"}), ("runs ahead", {"D8"})])
def test_arrivals_of_the_next_phase_come_after_the_last(fault, found):
    assert codes(two_arrive, (np.zeros(64, np.float32), numbers(64), fault), 64) == found


MORE = ("arrives", "votes", "apart")


@mo.kernel
def follows(out, how: mo.Constexpr):
    """Warp 1 completes phases; warp 0 waits for the first of them, or for the one before it."""
    tid, bar = mo.thread_idx().x, mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 33 if how in MORE else 32)
    mo.sync_threads()
    if tid < 32:
        if how in MORE and tid == 0:
            mo.mbarrier_arrive(bar, 0)
        if how == "asks":
            while not mo.mbarrier_try_wait(bar, 0, 0):
                pass
        else:
            mo.mbarrier_wait(bar, 0, 1 if how == "first" else 0)
        if how == "told":
            mo.barrier_arrive(1, 64)
        elif how == "told late":
            mo.barrier_sync(2, 64)
        elif how == "arrives":
            mo.sync_warp()
        elif how == "votes":
            mo.vote_any(tid == 0)
        if how in MORE and tid == 0:
            mo.mbarrier_arrive(bar, 0)
    else:
        if how == "once":
            mo.mbarrier_arrive(bar, 0)
        else:
            for k in mo.static_range(1 if how == "first" else 2):
                if how == "told" and k == 1:
                    mo.barrier_sync(1, 64)
                mo.mbarrier_arrive(bar, 0)
                if how in MORE:
                    mo.mbarrier_wait(bar, 0, k)
        if how == "told late":
            mo.barrier_sync(2, 64)
    out[tid] = tid


@pytest.mark.parametrize(("how", "found"), [
    ("once", set()), ("told", set()), ("arrives", set()), ("votes", set()), ("apart", {"D8"}), ("asks", {"F4"}),
    ("missed", {"D8"}), ("told late", {"D8"}), ("first", {"D8"})])
def test_a_wait_is_over_before_the_next_phase_is(how, found):
    assert codes(follows, (np.zeros(64, np.float32), how), 64) == found


@mo.kernel
def hands_on(out, x, way: mo.Constexpr, told: mo.Constexpr):
    """Warp 0 waits for each phase of bars(0), which warp 1 of its block, or of the other one, completes.

    bars(1) tells that warp of the wait by cp.async, which tells nothing of memory.
    """
    tid, rank = mo.thread_idx().x, mo.cluster_rank() if way == "remote" else 0
    held, bars = mo.shared_array(mo.float32, (32, 2)), mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.mbarrier_init(bars, 1, 32)
        mo.fence_mbarrier_init()
    if way == "remote":
        mo.cluster_sync()
    else:
        mo.sync_threads()
    for k in range(2):
        if tid < 32:
            mo.mbarrier_wait(bars, 0, k)
            if way == "remote":
                if told:
                    mo.mbarrier_arrive(bars, 1, cta=1 - rank)
            else:
                mo.copyto(mo.CpAsync(mo.float32), mo.tile(held[:, k], (1,), (tid,)), mo.tile(x, (1,), (tid,)))
                mo.cp_async_mbarrier_arrive(bars, 1)
        else:
            if way == "remote":
                mo.mbarrier_arrive(bars, 0, cta=1 - rank)
            else:
                mo.mbarrier_arrive(bars, 0)
            if told:
                mo.mbarrier_wait(bars, 1, k)
    if way == "remote":
        mo.cluster_sync()
    else:
        mo.cp_async_wait()
    out[tid] = tid


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("way", ["cp.async", "remote"])
def test_waits_that_others_hear_of_by_copies_and_from_other_blocks(way, told):
    blocks = {"grid": 2, "cluster": 2} if way == "remote" else {"grid": 1}
    report = mo.check(hands_on, lints=False).launch(np.zeros(64, np.float32), np.zeros(32, np.float32), way, told,
                                                    block=64, **blocks)
    assert {x.code for x in report.findings} - {"G1"} == (set() if told else {"D8"})


@mo.kernel
def expects(out, A, by: mo.Constexpr):
    tid = mo.thread_idx().x
    tile, full = mo.shared_array(mo.float32, A.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_expect_tx(full, 0, A.bytes)
        mo.copyto(A, tile, mo.tile(A.tensor, A.tile, (0, 0)), barrier=(full, 0))
    if by == "ordered":
        mo.sync_threads()
    if tid == (0 if by == "itself" else 32):
        mo.mbarrier_arrive(full, 0)
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = tile[tid % 32, tid // 32]


@pytest.mark.parametrize(("by", "found"), [("itself", set()), ("ordered", set()), ("another", {"D7"})])
def test_bytes_are_expected_before_the_last_arrival(by, found):
    A = mo.make_tma_copy(mo.TmaLoad(), numbers(32, 32), TILE)
    assert codes(expects, (np.zeros(64, np.float32), A, by), 64) == found


# --- numbers that an mbarrier does not have --------------------------------------------------------------------------


@mo.kernel
def counters(out, x, parities: mo.Constexpr):
    """Two warps take turns; the parity of a wait is that of the phase, or its number."""
    tid = mo.thread_idx().x
    held, full, empty = mo.shared_array(mo.float32, (32, 2)), mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in range(2):
            mo.mbarrier_init(full, i, 32)
            mo.mbarrier_init(empty, i, 32)
    mo.sync_threads()
    if tid < 32:
        for k in range(8):
            mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            held[tid, k % 2] = x[tid]
            mo.mbarrier_arrive(full, k % 2)
    else:
        total = mo.float32(0)
        for k in range(8):
            if parities == "asks":
                while not mo.mbarrier_try_wait(full, k % 2, k // 2):
                    mo.nanosleep(20)
            else:
                mo.mbarrier_wait(full, k % 2, k // 2 % 2 if parities == "turns" else k // 2)
            total += held[63 - tid, k % 2]
            mo.mbarrier_arrive(empty, k % 2)
        out[tid - 32] = total


@pytest.mark.parametrize(("parities", "found"), [("turns", False), ("counts", True), ("asks", True)])
def test_parities(parities, found):
    assert ("D8" in codes(counters, (np.zeros(32, np.float32), numbers(32), parities), 64)) is found


@mo.kernel
def counted(out, n, bytes_):
    bar = mo.mbarrier_array(1)
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(bar, 0, n)
        mo.mbarrier_arrive_expect_tx(bar, 0, bytes_)
    out[mo.thread_idx().x] = 1


@pytest.mark.parametrize(("n", "bytes_", "found"), [
    (2, 16, None), (0, 16, "D9"), (1 << 20, 16, "D9"), ((1 << 20) - 1, 16, None), (2, 1 << 20, "D7"), (2, -16, "D7")])
def test_counts_and_bytes(n, bytes_, found):
    told = codes(counted, (np.zeros(32, np.float32), n, bytes_), 32)
    assert found in told if found else not told


@mo.kernel
def counts_there(out, fenced: mo.Constexpr, ordered: mo.Constexpr):
    """Two warps add to the cells of the other block, which leave there by a bulk copy; ``fenced`` are warps."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    mo.assume(mo.size(out) % 32 == 0)
    cells = mo.shared_array(mo.int32, 32)
    if tid < 32:
        cells[tid] = 0
        mo.fence_proxy_async()
    mo.cluster_sync()
    there = mo.map_shared_rank(cells, 1 - rank)
    for warp in mo.static_range(2):
        if tid // 32 == warp:
            mo.atomic_add(there, tid % 32, 1)
            if warp in fenced:
                mo.fence_proxy_async()
        if ordered:
            mo.cluster_sync()
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), mo.tile(out, (32,), (rank,)), cells)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("fenced", "ordered", "found"), [
    ((0, 1), False, set()), ((0,), False, {"D12"}), ((1,), False, {"D12"}), ((1,), True, set()), ((), True, {"D12"})])
def test_either_of_two_atomics_from_another_block_may_be_the_last(fenced, ordered, found):
    out = numbers(64, dtype=np.int32)
    report = mo.check(counts_there, lints=False).launch(out, fenced, ordered, grid=2, block=64, cluster=(2, 1, 1))
    assert {finding.code for finding in report.findings} == found, str(report)


@mo.kernel
def in_turn(out, x, rounds: mo.Constexpr, parities: mo.Constexpr, told: mo.Constexpr):
    """Two warps add to one sum in turn; ``parities`` of warp 0, whose first turn is free, and who tells it of more."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
    warp, lane, turn = tid // 32, tid % 32, mo.mbarrier_array(2)
    if tid < 2:
        mo.mbarrier_init(turn, tid, 1)
        mo.fence_mbarrier_init()
    if warp == 0:
        s[lane] = 0.0
    mo.sync_threads()
    for k in mo.static_range(rounds):
        mo.mbarrier_wait(turn, warp, mo.where(warp == 0, parities[k], k % 2))
        s[31 - lane] = s[31 - lane] * 2 + x[(2 * k + warp) * 32 + lane]
        mo.sync_warp()
        if lane == 0:
            mo.mbarrier_arrive(turn, 1 - warp)
        if told:
            mo.sync_threads()
    mo.sync_threads()
    if warp == 0:
        out[lane] = s[lane]


@pytest.mark.parametrize(("parities", "told", "found"), [
    ((1, 0, 1), False, set()), ((1, 1, 1), False, {"D8"}), ((1, 0, 0), False, {"D8"}),
    # A barrier of the block tells that the phase is over, for which nobody has waited.
    ((1, 0, 1), True, set()), ((1, 0), False, set()), ((1, 1), False, {"D8"}), ((1, 0), True, set())])
def test_who_waits_for_a_phase_comes_after_the_one_before(parities, told, found):
    """It finds the parity of two phases ago otherwise, and does not wait."""
    arguments = np.full(32, np.nan, np.float32), numbers(192), len(parities), parities, told
    assert bool(codes(in_turn, arguments, 64) & {"D8", "C1", "C2"}) is bool(found)


@mo.kernel
def last_of_two(out, first: mo.Constexpr):
    """Warp 0 completes two phases, and warp 1 waits for the second of them; ``first`` it waits for the one before, or
    comes to a barrier of the cluster that orders no memory."""
    tid, s, bar = mo.thread_idx().x, mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        s[tid] = 1.0
        mo.sync_warp()
        if tid == 0:
            mo.mbarrier_arrive(bar, 0)
        if first == "waits":
            mo.barrier_sync(1, 64)
        elif first == "meets":
            mo.cluster_arrive(relaxed=True)
            mo.cluster_wait()
        if tid == 0:
            mo.mbarrier_arrive(bar, 0)
    else:
        if first == "meets":
            mo.cluster_arrive(relaxed=True)
            mo.cluster_wait()
        if first == "waits":
            mo.mbarrier_wait(bar, 0, 0)
            mo.barrier_arrive(1, 64)
        mo.mbarrier_wait(bar, 0, 1)
        out[tid - 32] = s[63 - tid]


@pytest.mark.parametrize(("first", "found"), [("waits", []), ("meets", []), ("", ["D8"])])
def test_a_wait_that_came_in_time_might_have_come_too_early(first, found):
    report = mo.check(last_of_two, lints=False)[1, 64](np.zeros(32, np.float32), first)
    assert [finding.code for finding in report.findings] == found
    assert not found or "waits for the end of phase 1 of bar(0)" in report.findings[0].message
