"""Data read between two looks at a number: every fence that a seqlock needs is missed, and nothing else is told."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def seqlock(out, data, seq, begin: mo.Constexpr, end: mo.Constexpr, first: mo.Constexpr, last: mo.Constexpr):
    """Block 0 writes, block 1 reads; the four words say what orders at each of the four places."""
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if b == 0 and tid == 0:
        for k in range(1, 4):
            mo.store(seq, 0, 2 * k - 1, order="relaxed")
            if begin == "fence":
                mo.fence("acq_rel")
            for i in mo.static_range(2):
                mo.store(data, i, k, order="release" if begin == "release" else "relaxed")
            if end == "fence":
                mo.fence("acq_rel")
            mo.store(seq, 0, 2 * k, order="release" if end == "release" else "relaxed")
    elif b == 1:
        done = False
        while not done:
            before = mo.load(seq, 0, order="acquire" if first == "acquire" else "relaxed")
            if first == "fence":
                mo.fence("acq_rel")
            x = mo.load(data, 0, order="acquire" if last == "acquire" else "relaxed")
            y = mo.load(data, 1, order="acquire" if last == "acquire" else "relaxed")
            if last == "fence":
                mo.fence("acq_rel")
            done = before == mo.load(seq, 0, order="relaxed") and before % 2 == 0
            if done:
                out[tid] = x + y


def judged(*words, block=1):
    arrays = np.zeros(32, np.int32), np.zeros(2, np.int32), np.zeros(1, np.int32)
    return mo.check(seqlock, lints=False)[2, block](*arrays, *words)


@pytest.mark.parametrize("begin", ["fence", "release", ""])
@pytest.mark.parametrize("end", ["fence", "release", ""])
@pytest.mark.parametrize("first", ["fence", "acquire", ""])
@pytest.mark.parametrize("last", ["fence", "acquire", ""])
def test_each_fence_is_needed(begin, end, first, last):
    report = judged(begin, end, first, last)
    # A release of the data is a fence for the number before it, and acquired data for the look behind it.
    right = all((begin, end, first, last))
    assert report.ok == right, str(report)
    assert {finding.code for finding in report.findings} <= {"G3"}
    if not right:
        lacking = {"writer": not (begin and end), "reader": not (first and last)}
        assert any(lacking[who] for who in lacking for f in report.findings if f"the {who} has no fence" in f.message)


def test_whole_warps_read():
    assert judged("fence", "release", "acquire", "fence", block=32).ok
    assert [f.code for f in judged("fence", "release", "acquire", "", block=32).findings] == ["G3", "G3"]


@mo.kernel
def counts_beside(out, total, stop, bad: mo.Constexpr):
    """A number that others count up, read between two looks at a flag: it belongs to nothing."""
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if tid == 0 and b == 0:
        for _ in range(4):
            mo.atomic_add(total, 0, 1)
    elif tid == 0 and b == 1:
        mo.store(stop, 0, 2, order="relaxed")
    elif tid == 0:
        before = mo.load(stop, 0, order="relaxed")
        seen = mo.load(total, 0, order="relaxed")
        if before == mo.load(stop, 0, order="relaxed"):
            out[0] = seen


def test_what_the_number_does_not_guard_is_not_judged():
    report = mo.check(counts_beside, lints=False)[3, 1](*(np.zeros(1, np.int32) for _ in range(3)), False)
    assert report.ok, str(report)


@mo.kernel
def handed_over(out, data, seq):
    """All was written before a barrier: nothing can be torn."""
    tid = mo.thread_idx().x
    if tid == 0:
        mo.store(seq, 0, 1, order="relaxed")
        mo.store(data, 0, 5, order="relaxed")
        mo.store(seq, 0, 2, order="relaxed")
    mo.sync_threads()
    before = mo.load(seq, 0, order="relaxed")
    x = mo.load(data, 0, order="relaxed")
    if before == mo.load(seq, 0, order="relaxed"):
        out[tid] = x


def test_what_a_barrier_orders_is_not_torn():
    report = mo.check(handed_over, lints=False)[1, 64](np.zeros(64, np.int32), np.zeros(1, np.int32),
                                                       np.zeros(1, np.int32))
    assert report.ok, str(report)


@mo.kernel
def nothing_yet(out, data, seq, fenced: mo.Constexpr):
    """0 says that there is no data: what is read under it is not used, whatever it is."""
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if b == 0 and tid == 0:
        for i in mo.static_range(2):
            mo.store(data, i, 5, order="relaxed")
        if fenced:
            mo.fence("acq_rel")
        mo.store(seq, 0, 2, order="relaxed")
    elif b == 1:
        done = False
        while not done:
            before = mo.load(seq, 0)
            x = mo.load(data, 0, order="relaxed")
            y = mo.load(data, 1, order="relaxed")
            mo.fence("acq_rel")
            done = before == mo.load(seq, 0, order="relaxed") and before != 0
            if done:
                out[tid] = x + y


@pytest.mark.parametrize("fenced", [False, True])
def test_data_under_a_number_that_is_not_used_may_be_torn(fenced):
    arrays = np.zeros(1, np.int32), np.zeros(2, np.int32), np.zeros(1, np.int32)
    report = mo.check(nothing_yet, lints=False)[2, 1](*arrays, fenced)
    assert report.ok == fenced, str(report)


@mo.kernel
def bumped_beside(out, data, seq, hits):
    """A counter that others bump without a number of their own is read between the looks: it belongs to none."""
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if b == 0 and tid == 0:
        for k in range(1, 4):
            mo.store(seq, 0, 2 * k - 1, order="relaxed")
            mo.fence("acq_rel")
            mo.store(data, 0, k, order="relaxed")
            mo.store(seq, 0, 2 * k)
    elif b == 1 and tid == 0:
        for k in range(3):
            mo.store(hits, 0, k, order="relaxed")
    elif b == 2:
        done = False
        while not done:
            before = mo.load(seq, 0)
            x = mo.load(data, 0, order="relaxed")
            n = mo.load(hits, 0, order="relaxed")
            mo.fence("acq_rel")
            done = before == mo.load(seq, 0, order="relaxed") and before % 2 == 0
            if done:
                out[tid] = x + mo.min(n, 0)


def test_a_counter_of_others_is_no_data_of_the_number():
    arrays = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = mo.check(bumped_beside, lints=False)[3, 1](*arrays)
    assert report.ok, str(report)
