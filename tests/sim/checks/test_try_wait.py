"""mbarrier_try_wait may be false although the phase is complete: whoever does not heed that has not waited."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

THREADS = 64


@mo.kernel
def reversed_row(out, how: mo.Constexpr):
    """Each thread reads what another has written, after it has asked whether all have arrived."""
    tid = mo.thread_idx().x
    s, bars = mo.shared_array(mo.float32, THREADS), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, THREADS)
    mo.sync_threads()
    s[tid] = 1.0 * tid
    mo.mbarrier_arrive(bars, 0)
    if how == "polls":
        while not mo.mbarrier_try_wait(bars, 0, 0):
            mo.nanosleep(20)
    elif how == "asks, then waits":
        if not mo.mbarrier_try_wait(bars, 0, 0):
            mo.mbarrier_wait(bars, 0, 0)
    elif how == "asks some times, for as long as it takes":
        done = mo.mbarrier_try_wait(bars, 0, 0)
        while not done:
            for _ in range(3):
                if mo.mbarrier_try_wait(bars, 0, 0):
                    done = done | True
                    break
    elif how == "ignored":
        mo.mbarrier_try_wait(bars, 0, 0)
    elif how == "stored":
        out[THREADS + tid] = mo.where(mo.mbarrier_try_wait(bars, 0, 0), mo.float32(1), mo.float32(0))
    elif how == "asks twice":
        if not mo.mbarrier_try_wait(bars, 0, 0):
            mo.mbarrier_try_wait(bars, 0, 0)
    elif how == "asks four times":
        for _ in range(4):
            if mo.mbarrier_try_wait(bars, 0, 0):
                break
    elif how == "waits on the wrong side" and mo.mbarrier_try_wait(bars, 0, 0):
        mo.mbarrier_wait(bars, 0, 0)
    if how == "reads before it waits":
        done = mo.mbarrier_try_wait(bars, 0, 0)
        out[tid] = s[THREADS - 1 - tid]
        if not done:
            mo.mbarrier_wait(bars, 0, 0)
    elif how == "reads if it may":
        if mo.mbarrier_try_wait(bars, 0, 0):
            out[tid] = s[THREADS - 1 - tid]
    else:
        out[tid] = s[THREADS - 1 - tid]


RIGHT = ["polls", "asks, then waits", "asks some times, for as long as it takes", "reads if it may"]
WRONG = ["ignored", "stored", "asks twice", "asks four times", "waits on the wrong side", "reads before it waits"]


@pytest.mark.parametrize("how", RIGHT + WRONG)
def test_whether_the_answer_is_heeded(how):
    out = np.zeros(2 * THREADS, np.float32)
    report = mo.check(reversed_row, lints=False)[1, THREADS](out, how)
    assert {finding.code for finding in report.findings} == ({"C1"} if how in WRONG else set()), str(report)
    assert np.array_equal(out[:THREADS], np.arange(THREADS)[::-1]), "the outputs are those of the first run"
    if how in WRONG:
        finding = report.findings[0]
        assert "mbarrier_try_wait() may be false" in finding.message and "mbarrier_wait()" in finding.hint


@mo.kernel
def polled_copy(out, x, how: mo.Constexpr):
    """A bulk copy lands at its latest moment, which is when somebody who polls can go no further without it."""
    tid = mo.thread_idx().x
    mo.assume(mo.size(x) % THREADS == 0)
    s, bars = mo.shared_array(mo.float32, THREADS), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, 4 * THREADS)
        if how != "nothing comes":
            mo.copyto(mo.BulkCopy(), s, mo.tile(x, (THREADS,), (0,)), barrier=(bars, 0))
    if how == "one polls":
        if tid == 0:
            while not mo.mbarrier_try_wait(bars, 0, 0):
                pass
        mo.sync_threads()
    else:
        while not mo.mbarrier_try_wait(bars, 0, 1 if how == "another phase" else 0):
            pass
    out[tid] = s[tid]


@pytest.mark.parametrize(("how", "code"), [("all poll", None), ("one polls", None), ("another phase", "D8"),
                                           ("nothing comes", "F4")])
def test_copies_that_are_polled(how, code):
    x, out = np.arange(THREADS, dtype=np.float32), np.zeros(THREADS, np.float32)
    report = mo.check(polled_copy, lints=False)[1, THREADS](out, x, how)
    assert next((finding.code for finding in report.findings), None) == code, str(report)
    assert code is not None or np.array_equal(out, x)


@mo.kernel
def whichever_comes(out, x, n, fault: mo.Constexpr):
    """Two copies of several rounds, taken in the order in which they come; a thread asks for both in one loop."""
    tid = mo.thread_idx().x
    mo.assume(mo.size(x) % THREADS == 0)
    s, bars = mo.shared_array(mo.float32, mo.make_layout((THREADS, 2), (1, THREADS))), mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for turn in range(n):
        if tid == 0:
            for i in mo.static_range(2):
                mo.mbarrier_arrive_expect_tx(bars, i, 4 * THREADS)
                mo.copyto(mo.BulkCopy(), s[:, i], mo.tile(x, (THREADS,), (2 * turn + i,)), barrier=(bars, i))
        left = mo.int32(3)
        while left != 0:
            for i in mo.static_range(2):
                came = mo.mbarrier_try_wait(bars, i, turn % 2)
                if (left & 1 << i != 0) & (came | (fault and i == 1)):
                    out[tid + (2 * turn + i) * THREADS] = s[THREADS - 1 - tid, i]
                    left = left & ~(1 << i)
        mo.sync_threads()


@pytest.mark.parametrize("fault", [False, True])
def test_a_loop_that_asks_for_several(fault):
    x = np.arange(6 * THREADS, dtype=np.float32)
    out = np.zeros_like(x)
    report = mo.check(whichever_comes, lints=False)[1, THREADS](out, x, 3, fault)
    found = [finding.code for finding in report.findings]
    assert found[:1] == (["D6"] if fault else []) and set(found) <= {"D6", "D8"}, str(report)
    if not fault:
        np.testing.assert_array_equal(out.reshape(6, -1), x.reshape(6, -1)[:, ::-1])


def test_what_is_too_much_to_run_again_is_said(monkeypatch):
    monkeypatch.setattr("moye.sim.machine.machine.MOST_BYTES", 1)
    report = mo.check(reversed_row, lints=False)[1, THREADS](np.zeros(2 * THREADS, np.float32), "ignored")
    assert "mbarrier_try_wait is false, or elect() chooses another lane: it is too much" in report.not_judged[-1]


@mo.kernel
def asked_ahead(out, x, how: mo.Constexpr):
    """Two copies; whoever uses one asks for the other, and waits where the answer is no."""
    tid = mo.thread_idx().x
    mo.assume(mo.size(x) == 2 * THREADS)
    s, bars = mo.shared_array(mo.float32, (THREADS, 2)), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(bars, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_arrive_expect_tx(bars, i, 4 * THREADS)
            mo.copyto(mo.BulkCopy(), s[:, i], mo.tile(x, (THREADS,), (i,)), barrier=(bars, i))
    total, there = mo.float32(0), mo.mbarrier_try_wait(bars, 0, 0)
    for i in mo.static_range(2):
        if not there:
            mo.mbarrier_wait(bars, i, 0)
        if i == 0 and how != "kept":
            new = mo.mbarrier_try_wait(bars, 1, 0)
            if how == "kept if true":
                there = new or there
            elif how == "asked for the next":
                there = new
        total += s[tid, i]
    out[tid] = total


@pytest.mark.parametrize(("how", "said"), [("asked for the next", ""), ("kept", "may be true at once"),
                                           ("kept if true", "may be true once and false later")])
def test_an_answer_about_another_phase(how, said):
    """In the usual order copies land late, and a first answer is no; there nobody relies on it."""
    x, out = np.arange(2 * THREADS, dtype=np.float32), np.zeros(THREADS, np.float32)
    report = mo.check(asked_ahead, lints=False)[1, THREADS](out, x, how)
    assert [finding.code for finding in report.findings] == (["D6"] if said else []), str(report)
    assert all(said in finding.message for finding in report.findings), str(report)
    assert np.array_equal(out, x[:THREADS] + x[THREADS:]), "the outputs are those of the first run"
