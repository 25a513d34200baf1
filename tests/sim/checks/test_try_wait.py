"""mbarrier_try_wait: copies that are polled land."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

THREADS = 64


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


@pytest.mark.parametrize("fault", [False])
def test_a_loop_that_asks_for_several(fault):
    x = np.arange(6 * THREADS, dtype=np.float32)
    out = np.zeros_like(x)
    report = mo.check(whichever_comes, lints=False)[1, THREADS](out, x, 3, fault)
    found = [finding.code for finding in report.findings]
    assert found[:1] == (["D6"] if fault else []) and set(found) <= {"D6", "D8"}, str(report)
    if not fault:
        np.testing.assert_array_equal(out.reshape(6, -1), x.reshape(6, -1)[:, ::-1])
