"""Values that no lane may rely on: told where one is used, and not where nobody does."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

HALF = 0xFFFF


def judged(kernel, ok, n=20, block=32):
    x, y = np.ones(4 * block, np.float32), np.zeros(4 * block, np.float32)
    return mo.check(kernel, lints=False)[1, block](y, x, n, ok)


# --- C7: a shuffle that reads a lane which is not there --------------------------------------------------------------


@mo.kernel
def sum_down(y, x, n, ok: mo.Constexpr):
    """Lanes 8-15 read lanes that are not there; lane 0 depends on none of them."""
    tid = mo.thread_idx().x
    if tid < 16:
        v = x[tid]
        for d in (8, 4, 2, 1):
            v += mo.shuffle_down(v, d, mask=HALF)
        if tid == 0 or not ok:
            y[tid] = v


@mo.kernel
def sum_of_odd_count(y, x, n, ok: mo.Constexpr):
    """From twelve lanes in steps of eight: lane 4 reads lane 12, and lane 0 reads lane 4."""
    tid = mo.thread_idx().x
    if tid < 12:
        v = x[tid]
        for d in (8, 4, 2, 1):
            o = mo.shuffle_down(v, d, mask=0xFFF)
            v += mo.where(tid + d < 12, o, 0.0) if ok else o
        if tid == 0:
            y[0] = v


@mo.kernel
def neighbour(y, x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid >= n:
        return
    after = mo.shuffle_down(x[tid], 1)
    y[tid] = mo.where(tid < (n - 1 if ok else n), after, 0.0)


@mo.kernel
def sum_in_a_while(y, x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid >= n:
        return
    v, d = x[tid], tid * 0 + 16
    while d > 0:
        o = mo.shuffle_down(v, d)
        if tid + d < n or not ok:
            v += o
        d = d // 2
    if tid == 0:
        y[0] = v


@mo.kernel
def decides(y, x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid >= n:
        return
    after = mo.shuffle_down(x[tid], 1)
    if ok:
        if tid < n - 1 and after > 0:
            y[tid] = 1.0
    elif after > 0:
        y[tid] = 1.0


@mo.kernel
def indexes(y, x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid >= n:
        return
    j = mo.shuffle_up(tid, 1) if ok else mo.shuffle_down(tid, 1)
    y[tid] = x[j % 32]


@mo.kernel
def through_registers(y, x, n, ok: mo.Constexpr):
    tid, r = mo.thread_idx().x, mo.fragment(2, mo.float32)
    if tid >= n:
        return
    r[0] = mo.shuffle_down(x[tid], 1)
    r[1] = r[0] * 2.0
    if tid < n - 1 or not ok:
        y[tid] = r[1]


@pytest.mark.parametrize("kernel", [sum_down, sum_of_odd_count, neighbour, sum_in_a_while, decides, indexes,
                                    through_registers])
def test_a_lane_that_is_not_there(kernel):
    wrong, right = judged(kernel, False), judged(kernel, True)
    assert [finding.code for finding in wrong.findings] == ["C7"], str(wrong)
    assert right.ok, str(right)


def test_who_reads_what_is_told_where_it_is_used():
    (finding,) = judged(neighbour, False).findings
    assert finding.message.startswith("thread 19 of block (0, 0, 0) reads lane 20, which has exited, in the shuffle at")
    assert finding.threads == (19,) and len(finding.locs) == 2
    assert f"and what comes of it is used at line {finding.locs[1].line}" in finding.message


# --- B7: a register that nothing has set -----------------------------------------------------------------------------


@mo.kernel
def predicated(y, x, n, ok: mo.Constexpr):
    """Loaded, computed with and stored under one predicate."""
    tid, r = mo.thread_idx().x, mo.fragment(4, mo.float32)
    for i in mo.static_range(4):
        if tid * 4 + i < n:
            r[i] = x[tid * 4 + i]
    for i in mo.static_range(4):
        r[i] = r[i] * 2.0 + 1.0
    for i in mo.static_range(4):
        if tid * 4 + i < n or not ok:
            y[tid * 4 + i] = r[i]


@mo.kernel
def predicated_tiles(y, x, n, ok: mo.Constexpr):
    tid, r, q = mo.thread_idx().x, mo.fragment(4, mo.float32), mo.fragment(4, mo.float32)
    for i in mo.static_range(4):
        if tid * 4 + i < n:
            r[i] = x[tid * 4 + i]
    r[...] = mo.exp(r) * 2.0
    q[...] = r + 1.0
    for i in mo.static_range(4):
        if tid * 4 + i < n or not ok:
            y[tid * 4 + i] = q[i]


@mo.kernel
def predicated_copies(y, x, n, ok: mo.Constexpr):
    tid, r, pred = mo.thread_idx().x, mo.fragment(4, mo.float32), mo.fragment(4, mo.bool)
    for i in mo.static_range(4):
        pred[i] = tid * 4 + i < n
    gX, gY = mo.tile(x, (4,), (tid,), ragged=True), mo.tile(y, (4,), (tid,), ragged=True)
    mo.copyto(r, gX, pred=pred)
    r[...] = r * 2.0
    if not ok:
        for i in mo.static_range(4):
            pred[i] = True
    mo.copyto(gY, r, pred=pred)


@mo.kernel
def under_one_condition(y, x, n, ok: mo.Constexpr):
    tid, r = mo.thread_idx().x, mo.fragment(1, mo.float32)
    if tid < n:
        r[0] = x[tid]
    v = r[0] * 3.0
    if tid < (n if ok else n + 1):
        y[tid] = v


@mo.kernel
def summed(y, x, n, ok: mo.Constexpr):
    tid, acc = mo.thread_idx().x, mo.fragment(2, mo.float32)
    if ok:
        acc.fill(0)
    for k in range(4):
        acc[0] = acc[0] + x[tid]
        acc[1] += x[tid] * k
    y[tid] = acc[0] + acc[1]


@mo.kernel
def asked(y, x, n, ok: mo.Constexpr):
    tid, r = mo.thread_idx().x, mo.fragment(1, mo.float32)
    if tid < n or ok:
        r[0] = x[tid]
    if r[0] > 0:
        y[tid] = 1.0


@mo.kernel
def handed_round(y, x, n, ok: mo.Constexpr):
    """A lane reads the register of one that has not set it."""
    tid, r = mo.thread_idx().x, mo.fragment(1, mo.float32)
    if tid < 16 or not ok:
        r[0] = 1.0 if ok else x[tid]
    if not ok:
        q = mo.fragment(1, mo.float32)
        if tid < 16:
            q[0] = r[0]
        y[tid] = mo.shuffle_xor(q[0], 16)
    else:
        y[tid] = mo.where(tid < 16, 0.0, mo.shuffle_xor(r[0], 16))


@pytest.mark.parametrize("kernel", [predicated, predicated_tiles, predicated_copies, under_one_condition,
                                    summed, asked, handed_round])
def test_a_register_that_is_not_set(kernel):
    wrong, right = judged(kernel, False), judged(kernel, True)
    assert {finding.code for finding in wrong.findings} == {"B7"}, str(wrong)
    assert right.ok, str(right)


def test_it_is_told_where_it_was_read_first():
    (finding, *_) = judged(predicated, False).findings
    assert "uses r(0)" in finding.message and len(finding.locs) == 2 and finding.tensor == "r"


# --- A10: some of the block's threads take a slice -------------------------------------------------------------------

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 2)))     # 128 threads


@mo.kernel
def sliced(C: mo.Static, mma, how: mo.Constexpr):
    tid = mo.thread_idx().x
    first = 32 if how == "second" else 0
    if how == "returns" and tid >= 128:
        return
    if how in ("all", "returns") or (tid >= 32 if how == "second" else mo.warp_idx() < 4 if how == "warps" else
                                     tid < (144 if how == "too many" else 128)):
        thr = mma.get_slice(tid - first)
        acc = mma.partition_fragment_C((32, 16))
        acc.fill(1)
        tCgC = thr.partition_C(C)
        for i in mo.static_range(mo.size(acc)):
            tCgC[i] = acc[i]


@pytest.mark.parametrize(("how", "codes"), [("some", []), ("second", []), ("warps", []), ("returns", []),
                                            ("too many", ["A10"]), ("all", ["A10"])])
def test_a_slice_by_some_of_the_threads(how, codes):
    C = np.zeros((32, 16), np.float32, order="F")
    report = mo.check(sliced, lints=False)[1, 160](C, MMA, how)
    assert [finding.code for finding in report.findings] == codes, str(report)
    assert codes or (C == 1).all()


@mo.kernel
def sliced_by_data(C: mo.Static, mma, n):
    tid = mo.thread_idx().x
    if tid < n:
        thr = mma.get_slice(tid)
        acc = mma.partition_fragment_C((32, 16))
        acc.fill(1)
        tCgC = thr.partition_C(C)
        for i in mo.static_range(mo.size(acc)):
            tCgC[i] = acc[i]


@pytest.mark.parametrize(("n", "codes"), [(128, set()), (129, {"A10"})])
def test_what_the_trace_cannot_tell_is_looked_at_in_the_simulator(n, codes):
    report = mo.check(sliced_by_data, lints=False)[1, 160](np.zeros((32, 16), np.float32, order="F"), MMA, n)
    assert {finding.code for finding in report.findings} - {"B1", "G1", "C1"} == codes, str(report)
