"""Signals as programs really write them: right ones that look suspicious are clean, and one fault in each is found."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


def ints(n):
    return np.zeros(n, np.int32)


def floats(n):
    return np.zeros(n, np.float32)


@mo.kernel
def all_fence_then_one_signals(parts, out, ticket, n, fault: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    last = mo.shared_array(mo.int32, 1)
    parts[bid * 64 + tid] = 1.0
    if tid < (32 if fault == "half fence" else 64):
        mo.fence()
    mo.sync_threads()
    if tid == 0:
        last[0] = mo.atomic_add(ticket, 0, 1)
    mo.sync_threads()
    mo.fence()
    if last[0] == n - 1:
        s = mo.float32(0)
        for b in range(n):
            s += parts[b * 64 + tid]
        out[tid] = s


@mo.kernel
def ticket_persistent(counter, out, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    tile = mo.shared_array(mo.int32, 1)
    if tid == 0:
        tile[0] = mo.atomic_add(counter, 0, 1)
    mo.sync_threads()
    t = tile[0]
    mo.sync_threads()
    while t < n:
        out[t * 32 + tid] = t
        if tid == 0:
            tile[0] = mo.atomic_add(counter, 0, 1)
        mo.sync_threads()
        t = tile[0]
        if fault != "no barrier":
            mo.sync_threads()


@mo.kernel
def dynamic_ids(counter, prefix, status, out, fault: mo.Constexpr):
    """lookback with block ids drawn."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.int32, 1)
    if tid == 0:
        b = mo.atomic_add(counter, 0, 1)
        s[0] = b
        before = mo.int32(0)
        if b > 0:
            while mo.load(status, b - 2 if fault == "one before" and b > 1 else b - 1) == 0:
                pass
            before = mo.int32(prefix[b - 1])
        prefix[b] = before + 1
        mo.store(status, b, 1)
    mo.sync_threads()
    out[s[0] * 32 + tid] = prefix[s[0]]


@mo.kernel
def packed(status, out, fault: mo.Constexpr):
    """value and flag in one word: relaxed is enough."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        before = mo.int32(0)
        if bid > 0:
            seen = mo.load(status, bid - 1, order="relaxed")
            while seen == 0:
                seen = mo.load(status, bid - 1, order="relaxed")
            before = seen
        mo.store(status, bid, before + 1, order="relaxed")
        out[bid] = before


@mo.kernel
def atomics_only(hist, x, n, fault: mo.Constexpr):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    mo.fence()
    mo.atomic_add(hist, x[i] % 8, 1)


@mo.kernel
def append(count, items, n, fault: mo.Constexpr):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if i % 3 == 0:
        at = mo.load(count, 0, order="relaxed") if fault == "read and add" else mo.atomic_add(count, 0, 1)
        if fault == "read and add":
            mo.atomic_add(count, 0, 1)
        items[at] = i


@mo.kernel
def claim(owner, data, fault: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if mo.atomic_cas(owner, tid, 0, bid + 1) <= (1 if fault == "second" else 0):
        data[tid] = bid


@mo.kernel
def grid_sync_fenced(x, y, bar, n, rounds, fault: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    for r in range(rounds):
        x[bid * 32 + tid] = x[bid * 32 + tid] + bid
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            mo.atomic_add(bar, 0, 1)
            while mo.load(bar, 0, order="relaxed") < n * (2 * r + 1):
                pass
            mo.fence()
        mo.sync_threads()
        y[bid * 32 + tid] = x[(bid + 1) % n * 32 + tid]
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            mo.atomic_add(bar, 0, 1)
            while mo.load(bar, 0, order="relaxed") < n * (2 * r + (1 if fault == "counted wrong" else 2)):
                pass
            mo.fence()
        mo.sync_threads()


@mo.kernel
def handoff_shared(y, fault: mo.Constexpr):
    """warp 0 produces into a ring in shared memory, warp 1 consumes, flags by elements."""
    tid = mo.thread_idx().x
    ring, head, tail = mo.shared_array(mo.int32, 64), mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        mo.store(head, 0, 0, order="relaxed", scope="cta")
        mo.store(tail, 0, 0, order="relaxed", scope="cta")
    mo.sync_threads()
    lane = tid % 32
    if tid < 32:
        for i in range(6):
            while mo.load(tail, 0, order="acquire", scope="cta") < (i - 2 if fault == "too early" else i - 1):
                pass
            ring[i % 2 * 32 + lane] = i
            mo.sync_warp()
            if lane == 0:
                mo.store(head, 0, i + 1, order="release", scope="cta")
    else:
        for i in range(6):
            while mo.load(head, 0, order="relaxed" if fault == "relaxed" else "acquire", scope="cta") < (
                    i if fault == "one too far" else i + 1):
                pass
            y[i * 32 + lane] = ring[i % 2 * 32 + lane]
            mo.sync_warp()
            if lane == 0:
                mo.store(tail, 0, i + 1, order="release", scope="cta")


@mo.kernel
def pairs(y, fault: mo.Constexpr):
    """sixteen pairs of lanes sync by sync_warp masks."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.int32, 128)
    s[tid] = tid
    lane = tid % 32
    for p in mo.static_range(16):
        if lane // 2 == p and not (fault == "one pair" and p == 11):
            mo.sync_warp(3 << (2 * p))
    y[tid] = s[tid ^ (2 if fault == "wrong mate" else 1)]


@mo.kernel
def lock_counter_many(locks, sums, n, fault: mo.Constexpr):
    """a lock for each of four bins."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        for i in range(4):
            b = (bid + i) % 4
            while mo.atomic_cas(locks, b, 0, 1, order="acquire") != 0:
                pass
            at = (b + 1) % 4 if fault == "wrong bin" and i == 2 else b
            sums[at] = sums[at] + 1
            mo.atomic_exch(locks, b, 0, order="release")


@mo.kernel
def rw(flag, x, y, fault: mo.Constexpr):
    """chain: 0 -> 1 -> 2 through different flags."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid > 0:
        if tid == 0:
            while mo.load(flag, bid - 1) == 0:
                pass
        mo.sync_threads()
        y[bid * 32 + tid] = x[tid]
    else:
        x[tid] = 5
    mo.sync_threads()
    if tid == 0:
        if fault == "link" and bid == 2:
            mo.store(flag, bid, 1, order="relaxed")
        else:
            mo.store(flag, bid, 1)


CASES = {
    all_fence_then_one_signals: (6, 64, lambda: (floats(384), floats(64), ints(1), 6), ["half fence"]),
    ticket_persistent: (4, 32, lambda: (ints(1), ints(320), 10), ["no barrier"]),
    dynamic_ids: (8, 32, lambda: (ints(1), ints(8), ints(8), ints(256)), ["one before"]),
    packed: (8, 32, lambda: (ints(8), ints(8)), []),
    atomics_only: (8, 64, lambda: (ints(8), ints(512), 1), []),
    append: (8, 64, lambda: (ints(1), ints(512), 1), ["read and add"]),
    claim: (8, 64, lambda: (ints(64), ints(64)), ["second"]),
    grid_sync_fenced: (6, 32, lambda: (ints(192), ints(192), ints(1), 6, 3), ["counted wrong"]),
    handoff_shared: (1, 64, lambda: (ints(192),), ["relaxed", "one too far", "too early"]),
    pairs: (1, 128, lambda: (ints(128),), ["wrong mate", "one pair"]),
    lock_counter_many: (5, 32, lambda: (ints(4), ints(4), 4), ["wrong bin"]),
    rw: (5, 32, lambda: (ints(5), ints(32), ints(160)), ["link"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.__name__)
def test_right(kernel):
    grid, block, arguments, _ = CASES[kernel]
    report = mo.check(kernel, lints=False)[grid, block](*arguments(), "")
    assert report.ok, str(report)


@pytest.mark.parametrize(("kernel", "fault"), [(kernel, fault) for kernel, case in CASES.items() for fault in case[3]],
                         ids=lambda x: getattr(x, "__name__", x))
def test_faulty(kernel, fault):
    grid, block, arguments, _ = CASES[kernel]
    report = mo.check(kernel, lints=False)[grid, block](*arguments(), fault)
    found = {f.code for f in report.findings}
    assert found and found <= {"C1", "C2", "C3", "C4", "G1", "G2", "G3"}, str(report)


@mo.kernel
def queue_of_tasks(out, work, ready, head, tail, done, n, fault: mo.Constexpr):
    """Blocks take tasks from a queue, and put two more there for each of the first half."""
    if mo.thread_idx().x != 0:
        return
    while mo.load(done, 0) < n:
        at = mo.load(head, 0, order="relaxed")
        if at >= mo.load(tail, 0):
            continue
        if mo.atomic_cas(head, 0, at, at + 1) != at:
            continue
        if fault != "no wait":
            while mo.load(ready, at) == 0:
                pass
        task = work[at]
        out[at] = task
        if at < n // 2:
            s = mo.atomic_add(tail, 0, 2)
            work[s], work[s + 1] = task + 1, task + 2
            for k in mo.static_range(2):
                if fault == "plain store":
                    ready[s + k] = 1
                else:
                    mo.store(ready, s + k, 1, order="relaxed" if fault == "relaxed store" else "release")
        mo.atomic_add(done, 0, 1, order="acq_rel")


@pytest.mark.parametrize("fault", ["", "no wait", "plain store", "relaxed store"])
def test_a_queue_whose_counter_of_what_is_done_orders_tasks_by_luck(fault):
    """Who waits for a task has looked at ``done`` before, and may have found it as it was before the task was there."""
    n, ready, tail = 15, ints(15), ints(1)
    ready[0] = tail[0] = 1
    report = mo.check(queue_of_tasks, lints=False)[3, 32](ints(n), ints(n), ready, ints(1), tail, ints(1), n, fault)
    assert {finding.code for finding in report.findings} == ({"G3"} if fault else set())
