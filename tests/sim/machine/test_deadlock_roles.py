"""Roles that wait for each other's phases for ever, where the other threads are at a barrier that all would reach."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

STAGES = 2


@mo.kernel
def roles(out, A, end: mo.Constexpr, one_array: mo.Constexpr, fault: mo.Constexpr):
    """Lane 0 of warp 2 loads tiles, warps 0-1 add up their columns; ``end``: the barrier at which all meet."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(A.smem_layout, (*A.tile, STAGES)))       # (32, 32, stages)
    full = mo.mbarrier_array(2 * STAGES if one_array else STAGES)
    empty, first = (full, STAGES) if one_array else (mo.mbarrier_array(STAGES), 0)
    if tid == 0:
        for i in mo.static_range(STAGES):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, first + i, 64)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    gA = mo.tile(A.tensor, A.tile, (bx, None))          # (32, 32, k)
    tiles, warp, lane = mo.size(gA, 2), tid // 32, tid % 32
    if warp == 2:
        if lane == 0:
            for k in range(tiles - (fault == "fills one less")):
                stage, phase = k % STAGES, k // STAGES % 2
                if fault != "no acquire":
                    mo.mbarrier_wait(empty, first + stage, phase if fault == "first phase" else phase ^ 1)
                mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
                mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
                if fault == "barrier in a role":
                    mo.sync_threads()
    else:
        total = mo.float32(0)
        for k in range(tiles - 3 * (fault == "reads fewer")):
            stage, phase = k % STAGES, k // STAGES % 2
            mo.mbarrier_wait(full, stage, phase)
            if fault == "released first":
                mo.mbarrier_arrive(empty, first + stage)
            for i in range(16):
                total += sA[i + 16 * warp, lane, stage]
            if fault not in ("no release", "released first"):
                mo.mbarrier_arrive(empty, first + stage)
        out[tid, bx] = total
    if end == "cluster":
        mo.cluster_sync()
    elif end == "block":
        mo.sync_threads()
    elif end == "named":
        mo.barrier_sync(1, 96)


def run(end, fault, *, one_array=False, tiles=6, **options):
    A = np.random.default_rng(0).integers(-9, 9, (64, 32 * tiles)).astype(np.float32)
    out = np.full((64, 2), np.nan, np.float32)
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32)))
    report = mo.check(roles, lints=False, **options).launch(out, copy, end, one_array, fault, grid=2, block=96,
                                                            cluster=2)
    return report, out, A.reshape(2, 2, 16, tiles, 32).sum((2, 3)).reshape(2, 64).T


FAULTS = {"fills one less": "F3", "reads fewer": "F5", "first phase": "F4", "no release": "F4",
          "barrier in a role": "F7"}


@pytest.mark.slow
@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("end", ["none", "named", "block", "cluster"])
def test_a_barrier_for_all_does_not_hide_who_holds_them_up(end, earliest):
    """It is not the barrier that is wrong, but the roles that do not come there."""
    report, out, expected = run(end, "", earliest=earliest)
    assert report.ok and np.array_equal(out, expected)
    for fault, code in FAULTS.items():
        report, _, _ = run(end, fault, earliest=earliest)
        assert [finding.code for finding in report.findings] == [code], f"{fault}: {report}"


@pytest.mark.parametrize("fault", ["fills one less", "reads fewer"])
def test_one_tensor_of_barriers_for_both_sides(fault):
    """The barriers of copies are not taken for those at which readers arrive."""
    report, out, expected = run("none", "", one_array=True)
    assert report.ok and np.array_equal(out, expected)
    (finding,) = run("none", fault, one_array=True)[0].findings
    assert finding.code == FAULTS[fault]
    assert finding.hint.startswith("let the readers release" if finding.code == "F5" else "let both sides go")


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("one_array", [False, True])
@pytest.mark.parametrize("fault", ["no acquire", "released first"])
def test_a_stage_belongs_to_two_elements_of_one_tensor(fault, one_array, earliest):
    """F1, with the element at which the readers of the stage arrive; alone, with no copies or arrivals too many."""
    report, _, _ = run("none", fault, one_array=one_array, earliest=earliest)
    (finding,) = report.findings
    assert finding.code == "F1", str(report)
    name = "full(2)" if one_array else "empty(0)"
    words = f"nobody has waited for {name}" if fault == "no acquire" else f", at {name}, for which thread 64 waits"
    assert words in finding.message


def test_a_barrier_that_a_role_returns_before():
    """It is not for all: who waits there has not come to the end of its role."""
    @mo.kernel
    def kernel(x):
        tid, bars = mo.thread_idx().x, mo.mbarrier_array(1)
        if tid == 0:
            mo.mbarrier_init(bars, 0, 32)
            mo.fence_mbarrier_init()
        mo.sync_threads()
        if tid >= 32:
            mo.mbarrier_wait(bars, 0, 0)
            x[tid] = 1
            return
        mo.cluster_sync()
        mo.mbarrier_arrive(bars, 0)

    (finding,) = mo.check(kernel)[1, 64](np.zeros(64, np.float32)).findings
    assert finding.code == "C4"


@mo.kernel
def handed_on(out, x, fault: mo.Constexpr):
    """Warp 0 writes what warp 1 reads, turn by turn."""
    tid = mo.thread_idx().x
    part, full, empty = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
        mo.mbarrier_init(empty, 0, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for k in range(3):
        if tid < 32:
            mo.mbarrier_wait(empty, 0, k % 2 ^ 1)
            part[tid] = x[tid, k]
            mo.mbarrier_arrive(full, 0)
        else:
            mo.mbarrier_wait(full, 0, k % 2 ^ 1 if fault == "other parity" else k % 2)
            out[tid - 32, k] = part[63 - tid]
            if fault != "no release":
                mo.mbarrier_arrive(empty, 0)


def test_a_wait_for_the_other_parity_hangs():
    """It passes over a phase: what is wrong is not that somebody arrives too late."""
    x = np.arange(96, dtype=np.float32).reshape(32, 3)
    found = {fault: mo.check(handed_on)[1, 64](np.zeros((32, 3), np.float32), x, fault)
             for fault in ("", "no release", "other parity")}
    assert found[""].ok and [finding.code for finding in found["no release"].findings] == ["F4"]
    (finding,) = found["other parity"].findings
    assert finding.code == "D8" and "wait for the parity of each phase in turn" in finding.hint
    assert "warp 1 waits for phase 1 of full(0)" in finding.message
    assert "while nobody has waited for the phase before it, which is complete" in finding.message


@mo.kernel
def ahead(out, x, fault: mo.Constexpr):
    """Warp 1 writes what warp 0 reads, each in a loop of its own."""
    tid, turns = mo.thread_idx().x, mo.size(x, 1)
    part, full, empty = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
        mo.mbarrier_init(empty, 0, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= 32:
        for k in range(turns - 1 if fault == "fewer" else turns):
            if fault != "no acquire":
                mo.mbarrier_wait(empty, 0, 1 if fault == "same parity" else k % 2 ^ 1)
            part[tid - 32] = x[tid - 32, k]
            mo.mbarrier_arrive(full, 0)
    else:
        for k in range(turns):
            mo.mbarrier_wait(full, 0, k % 2)
            out[tid, k] = part[31 - tid]
            mo.mbarrier_arrive(empty, 0)


@pytest.mark.parametrize("turns", [2, 3, 4, 5, 40, 41])
@pytest.mark.parametrize(("fault", "code"), [("", ""), ("no acquire", "F1"), ("same parity", "D8"), ("fewer", "F3")])
def test_who_is_overtaken_waits_in_vain(fault, code, turns):
    """Both sides go through equally many phases, but one does not wait for the other."""
    x, out = np.arange(32 * turns, dtype=np.float32).reshape(32, turns), np.zeros((32, turns), np.float32)
    report = mo.check(ahead, lints=False)[1, 64](out, x, fault)
    assert [finding.code for finding in report.findings] == ([code] if code else []), str(report)
    told = "more phases are complete than they have waited for" in str(report)
    assert told == (code in ("F1", "D8"))
    assert code or np.array_equal(out, x[::-1])


@mo.kernel
def meets(out, x, count: mo.Constexpr, fault: mo.Constexpr):
    """Thread 64 hands rows to warps 0-1, which meet at a barrier of ``count`` threads after each."""
    tid = mo.thread_idx().x
    part, full, empty = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(empty, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= 64:
        if tid == 64:
            for k in range(mo.size(x, 1)):
                mo.mbarrier_wait(empty, 0, k % 2 ^ 1)
                for i in range(64):
                    part[i] = x[i, k]
                mo.mbarrier_arrive(full, 0)
        return
    for k in range(mo.size(x, 1)):
        mo.mbarrier_wait(full, 0, k % 2)
        out[tid, k] = part[tid]
        if fault != "one stays" or tid < 32 or k == 0:
            mo.barrier_sync(1, count)
        if tid == 0 and fault != "no release":
            mo.mbarrier_arrive(empty, 0)


@pytest.mark.parametrize(("count", "fault", "code"), [
    (64, "", ""), (96, "", "C5"), (64, "no release", "F4"), (64, "one stays", "F4")])
def test_a_count_that_those_who_are_there_cannot_meet(count, fault, code):
    """C5, though thread 64, which could come, waits for those at the barrier."""
    x, out = np.arange(192, dtype=np.float32).reshape(64, 3), np.zeros((64, 3), np.float32)
    report = mo.check(meets, lints=False)[1, 96](out, x, count, fault)
    assert [finding.code for finding in report.findings] == ([code] if code else []), str(report)
    assert code or np.array_equal(out, x)


@mo.kernel
def both_blocks(out, fault: mo.Constexpr):
    """Thread 32 of each block of a cluster goes on when thread 0 of both has come; turn by turn."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 2)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    for k in range(2):
        if tid == 32:
            mo.mbarrier_wait(bars, 0, k)
            out[rank, k] = 1
        elif tid == 0:
            for to in range(2):
                if fault == "" or rank == 0 or to == 1 or k == 0:
                    mo.mbarrier_arrive(bars, 0, cta=to)
        if fault == "":                                 # the wait is over before the next turn is
            mo.cluster_sync()
    if fault == "waits":
        mo.cluster_sync()


def test_the_same_thread_of_another_block_is_another_thread():
    """That of this block has come, that of the other block, which came the last time, does not: no D9."""
    out = np.zeros((2, 2), np.float32)
    assert mo.check(both_blocks).launch(out, "", grid=2, block=64, cluster=2).ok and (out == 1).all()
    for fault, code in (("returns", "F3"), ("waits", "F4")):
        (finding,) = mo.check(both_blocks, lints=False).launch(out, fault, grid=2, block=64, cluster=2).findings
        assert finding.code == code, str(finding)
        assert "thread 32 waits for phase 1 of bars(0)" in finding.message and "lacks 1 of 2" in finding.message


# --- a flag of another block -----------------------------------------------------------------------------------------


@mo.kernel
def polls_another_block(out, told: mo.Constexpr):
    """The address of the other block's flag is taken in each pass, which changes nothing."""
    flag = mo.shared_array(mo.int32, 1)
    if mo.thread_idx().x == 0:
        flag[0] = 0
    mo.cluster_sync()
    if mo.cluster_rank() == 0:
        while True:
            there = mo.map_shared_rank(flag, 1)
            if there[0] > 0:
                break
    elif told and mo.thread_idx().x == 0:
        flag[0] = 1
    mo.cluster_sync()
    if mo.thread_idx().x + 32 * mo.block_idx().x == 0:
        out[0] = 1


@pytest.mark.parametrize("told", [False, True])
def test_who_polls_another_block_forever_is_found_at_once(told):
    out = np.zeros(1, np.float32)
    report = mo.check(polls_another_block, lints=False).launch(out, told, grid=2, block=32, cluster=2)
    stuck = [finding.message for finding in report.findings if finding.code == "F4"]
    assert bool(stuck) != told
    assert all("polls memory forever: nobody changes what it waits for" in message for message in stuck)
