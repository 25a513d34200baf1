"""Shared arrays that change places: ``src, dst = dst, src`` in a loop of the kernel, rotations, choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import moye as mo


def run(kernel, *arguments, block=32, **how):
    out = np.zeros((block, 4), np.float32)
    report = mo.check(kernel, lints=False, **how)[1, block](out, *arguments)
    return out, report


@mo.kernel
def stencil(out, n, bad: mo.Constexpr):
    """Sums of neighbours, from one array to the other and back."""
    tid = mo.thread_idx().x
    src, dst = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32)
    src[tid] = mo.float32(tid)
    mo.sync_threads()
    for _ in range(n):
        dst[tid] = src[(tid + 1) % 32] + 1.0
        if not bad:
            mo.sync_threads()
        src, dst = dst, src
    out[tid, 0] = src[tid]


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_two_arrays_change_places(n):
    out, report = run(stencil, n, False)
    assert report.ok, str(report)
    assert (out[:, 0] == (np.arange(32) + n) % 32 + n).all()


def test_the_race_of_a_missing_barrier_is_told():
    report = run(stencil, 4, True)[1]
    assert {finding.code for finding in report.findings} <= {"C1", "C2", "C3"} and not report.ok


def test_the_code_has_one_array_and_two_pointers():
    source = stencil.compile(np.zeros((32, 4), np.float32), 3, False, arch="sm_80", block=32).source
    assert "src_dst[src + " in source and "dst" in source


@mo.kernel
def rotation(out, n):
    """Three arrays in turn, two of them in a tuple."""
    tid = mo.thread_idx().x
    a, b, c = (mo.shared_array(mo.float32, (32, 2)) for _ in range(3))
    pair = (a, b)
    for s, value in ((a, 1.0), (b, 2.0), (c, 3.0)):
        s[tid, 0] = value
        s[tid, 1] = value + 10.0
    mo.sync_threads()
    for _ in range(n):
        pair, c = (pair[1], c), pair[0]
    out[tid, 0] = pair[0][tid, 0]
    out[tid, 1] = pair[1][31 - tid, 1]
    out[tid, 2] = c[tid, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_three_arrays_rotate(n):
    out, report = run(rotation, n)
    assert report.ok, str(report)
    order = np.roll([1.0, 2.0, 3.0], -n)
    assert out[5].tolist() == [order[0], order[1] + 10, order[2], 0]


@dataclass
class Buffers:
    now: object
    then: object


@mo.kernel
def in_a_dataclass(out, n):
    tid = mo.thread_idx().x
    of = Buffers(mo.shared_array(mo.int32, 32), mo.shared_array(mo.int32, 32))
    of.now[tid] = 1
    of.then[tid] = 2
    for _ in range(n):
        of = Buffers(of.then, of.now)
    out[tid, 0] = of.now[tid]


@mo.kernel
def chosen(out, n):
    """Either of two arrays, by a condition of the kernel."""
    tid = mo.thread_idx().x
    a, b = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32)
    a[tid] = 1.0
    b[tid] = 2.0
    x = a
    if n > 3:
        x = b
    out[tid, 0] = x[tid]


@pytest.mark.parametrize(("kernel", "n", "wanted"), [
    (in_a_dataclass, 2, 1), (in_a_dataclass, 3, 2), (chosen, 3, 1), (chosen, 4, 2)])
def test_other_ways_to_mean_either(kernel, n, wanted):
    out, report = run(kernel, n)
    assert report.ok and (out[:, 0] == wanted).all(), str(report)


@mo.kernel
def swizzled(out, n):
    """Tiles with a swizzle, whose stages begin at multiples of its span."""
    tid = mo.thread_idx().x
    layout = mo.composition(mo.Swizzle(2, 0, 3), mo.make_layout((8, 4)))
    src, dst = mo.shared_array(mo.float32, layout), mo.shared_array(mo.float32, layout)
    src[tid % 8, tid // 8] = mo.float32(tid)
    mo.sync_threads()
    for _ in range(n):
        dst[tid % 8, tid // 8] = src[(tid + 1) % 32 % 8, (tid + 1) % 32 // 8]
        mo.sync_threads()
        src, dst = dst, src
    out[tid, 0] = src[tid % 8, tid // 8]


def test_swizzled_tiles():
    for n in (0, 1, 6):
        out, report = run(swizzled, n)
        assert report.ok and (out[:, 0] == (np.arange(32) + n) % 32).all(), str(report)


@mo.kernel
def beyond(out, n, bad: mo.Constexpr):
    """A read behind the end of the one array, which would be the other one."""
    tid = mo.thread_idx().x
    src, dst = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32)
    src[tid] = 1.0
    dst[tid] = 1.0
    mo.sync_threads()
    for _ in range(n):
        src, dst = dst, src
    out[tid, 0] = src[tid + 1 if bad else (tid + 1) % 32]


def test_an_index_beyond_one_of_them_is_told():
    assert run(beyond, 0, False)[1].ok
    for n in (0, 1):
        assert [finding.code for finding in run(beyond, n, True)[1].findings] == ["B2"]


def test_arrays_of_two_layouts_are_refused():
    @mo.kernel
    def other_layouts(out, n):
        tid = mo.thread_idx().x
        src, dst = mo.shared_array(mo.float32, (8, 4)), mo.shared_array(mo.float32, mo.make_layout((8, 4), (4, 1)))
        src[tid % 8, tid // 8] = 1.0
        dst[tid % 8, tid // 8] = 1.0
        for _ in range(n):
            src, dst = dst, src
        out[tid, 0] = src[tid % 8, tid // 8]

    with pytest.raises(mo.TraceError, match="changes its structure"):
        run(other_layouts, 2)


@mo.kernel
def swaps_arguments(out, a, b, n):
    tid = mo.thread_idx().x
    for _ in range(n):
        b[tid] = a[tid] + 1.0
        a, b = b, a
    out[tid, 0] = a[tid]


def test_arguments_are_refused_with_a_way_out():
    with pytest.raises(mo.TraceError, match="changes its structure") as refused:
        run(swaps_arguments, np.zeros(32, np.float32), np.zeros(32, np.float32), 3)
    assert "step(a, b) under if turn % 2 == 0" in str(refused.value)
