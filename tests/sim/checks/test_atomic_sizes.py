"""Atomic accesses that overlap and have different sizes are not atomic to each other: each way to access a place."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def halves(x, out, how: mo.Constexpr):
    """One thread uses words, another one pairs of them; in the kernels that are right they do not meet."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    pairs = mo.recast(x, mo.uint64)
    if how == "blocks" and tid == 0:
        if bx == 0:
            mo.atomic_add(x, 1, 1)
        else:
            mo.atomic_add(pairs, 0, 1)
    elif how == "flag" and tid == 0:
        if bx == 0:
            mo.store(pairs, 0, 1, order="release")
        else:
            while mo.load(x, 0, order="acquire") == 0:
                pass
    elif how == "two loads" and tid == 0:
        if bx == 0:
            out[0] = mo.load(pairs, 0, order="relaxed")
        else:
            out[1] = mo.load(x, 0, order="relaxed")
    elif how == "beside" and tid == 0:
        mo.atomic_add(x, 2 + bx, 1)
        mo.atomic_add(pairs, 0, 1)
    elif how in ("warps", "lanes", "barrier") and bx == 0:
        if tid == 0:
            mo.atomic_add(x, 1, 1)
        if how == "barrier":
            mo.sync_threads()
        if tid == (1 if how == "lanes" else 40):
            mo.atomic_add(pairs, 0, 1)
    elif how == "one thread" and tid == 0 and bx == 0:
        mo.atomic_add(x, 1, 1)
        mo.atomic_add(pairs, 0, 1)


@pytest.mark.parametrize(("how", "found"), [
    ("blocks", ["G2"]), ("flag", ["G3"]), ("warps", ["C1"]), ("lanes", ["C3"]), ("two loads", []), ("beside", []),
    ("barrier", []), ("one thread", [])])
def test_in_global_memory(how, found):
    report = mo.check(halves, lints=False)[2, 64](np.zeros(8, np.uint32), np.zeros(8, np.uint64), how)
    assert [finding.code for finding in report.findings] == found, str(report)
    if found:
        assert "atomic accesses of 4 and of 8 bytes are not atomic to each other" in report.findings[0].message
        assert report.findings[0].hint == "access it in one size"


@mo.kernel
def words(a, b):
    if mo.block_idx().x == 0:
        mo.atomic_add(a, mo.thread_idx().x, 1)
    else:
        mo.atomic_add(b, mo.thread_idx().x, 1)


@pytest.mark.parametrize(("dtype", "found"), [(np.uint32, []), (np.uint64, ["G2"])])
def test_two_arguments_on_one_memory(dtype, found):
    memory = np.zeros(128, np.uint32)
    report = mo.check(words, lints=False)[2, 32](memory, memory.view(dtype))
    assert [finding.code for finding in report.findings] == found, str(report)


@mo.kernel
def shared_halves(out, first: mo.Constexpr, second: mo.Constexpr, barrier: mo.Constexpr):
    """Warp 0 uses a word of shared memory, then warp 1 a pair."""
    tid, found = mo.thread_idx().x, mo.uint32(0)
    s = mo.shared_array(mo.uint32, 8)
    pairs = mo.recast(s, mo.uint64)
    if tid < 8:
        s[tid] = 0
    mo.sync_threads()
    if tid == 0:
        if first == "adds":
            mo.atomic_add(s, 1, 1)
        elif first == "stores":
            mo.store(s, 1, 1, order="relaxed")
        else:
            found = mo.load(s, 1, order="relaxed")
    if barrier:
        mo.sync_threads()
    if tid == 32:
        if second == "stores":
            mo.store(pairs, 0, 1, order="relaxed")
        else:
            found = mo.uint32(mo.load(pairs, 0, order="relaxed") & 1)
    out[tid] = found


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("second", ["stores", "loads"])
@pytest.mark.parametrize("first", ["adds", "stores", "loads"])
def test_in_shared_memory(first, second, barrier):
    report = mo.check(shared_halves, lints=False)[1, 64](np.zeros(64, np.uint32), first, second, barrier)
    expected = [] if barrier or (first, second) == ("loads", "loads") else ["C1"]
    assert [finding.code for finding in report.findings] == expected, str(report)
    if expected:
        assert "atomic accesses of 4 and of 8 bytes" in report.findings[0].message


def test_atomics_on_a_recast_of_shared_memory_are_said_to_be_unknown():
    @mo.kernel
    def recast(out):
        pairs = mo.recast(mo.shared_array(mo.uint32, 8), mo.uint64)
        mo.atomic_add(pairs, 0, 1)
        out[0] = pairs[0]

    report = mo.check(recast, lints=False)[1, 1](np.zeros(1, np.uint64))
    assert "atomic add on a recast" in report.unsupported[0]
