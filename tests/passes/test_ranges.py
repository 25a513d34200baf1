"""Two comparisons of a range are one of unsigned numbers, where the end is not negative, and mean the same."""

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel


@mo.kernel
def inside(out, x, shift):
    i = mo.thread_idx().x - shift
    out[mo.thread_idx().x] = x[i] if 0 <= i < mo.size(x) else -1


@mo.kernel
def turned(out, x, shift):
    i = mo.thread_idx().x - shift
    out[mo.thread_idx().x] = x[i] if mo.size(x) > i and mo.thread_idx().x != 3 and i >= 0 else -1


@mo.kernel
def outside(out, x, shift):
    t = mo.thread_idx().x
    i = t - shift
    if i < 0 or i >= mo.size(x):
        out[t] = -1
    else:
        out[t] = x[i]


@mo.kernel
def up_to_a_constant(out, x, shift):
    i = mo.thread_idx().x - shift
    out[mo.thread_idx().x] = x[i] if i >= 0 and i <= 9 else -1


@mo.kernel
def unknown_end(out, x, shift, n):
    i = mo.thread_idx().x - shift
    out[mo.thread_idx().x] = x[i] if 0 <= i < n else -1


@mo.kernel
def two_values(out, x, shift):
    i = mo.thread_idx().x - shift
    out[mo.thread_idx().x] = x[i] if mo.thread_idx().x >= shift and i < mo.size(x) and i >= 0 else -1


def expected(skip=()):
    return [-1 if t in skip or not 0 <= t - 5 < 10 else t - 5 for t in range(32)]


@pytest.mark.parametrize("kernel, condition, arguments, skip", [
    (inside, "(unsigned)i < (unsigned)x_0", (), ()),
    (turned, "(unsigned)x_0 > (unsigned)i && tx != 3", (), (3,)),
    (outside, "(unsigned)i >= (unsigned)x_0", (), ()),
    (up_to_a_constant, "(unsigned)i <= 9u", (), ()),
    (unknown_end, "i >= 0 && i < n", (10,), ()),
    (two_values, "tx >= shift && (unsigned)i < (unsigned)x_0", (), ()),
], ids=lambda x: getattr(x, "__name__", ""))
def test_ranges(kernel, condition, arguments, skip):
    out, x = np.zeros(32, np.int32), np.arange(10, dtype=np.int32)
    assert mo.check(kernel)[1, 32](out, x, 5, *arguments).ok
    assert out.tolist() == expected(skip)
    assert condition in print_kernel(kernel.trace(out, x, 5, *arguments, block=32)).source


@mo.kernel
def window(out, x):
    i, j = mo.thread_idx().y - 1, mo.thread_idx().x - 1
    total = mo.float32(0)
    for r in mo.static_range(3):
        for s in mo.static_range(3):
            if i + r >= 0 and i + r < mo.size(x, 0) and j + s >= 0 and j + s < mo.size(x, 1):
                total += x[i + r, j + s]
    out[mo.thread_idx().y, mo.thread_idx().x] = total


def test_a_comparison_that_several_conditions_need_is_made_once():
    x, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((3, 4), np.float32)
    assert mo.check(window)[1, (4, 3)](out, x).ok
    padded = np.pad(x, 1)
    assert np.array_equal(out, sum(padded[r:r + 3, s:s + 4] for r in range(3) for s in range(3)))
    source = print_kernel(window.trace(out, x, block=(4, 3))).source
    assert source.count("(unsigned)i < (unsigned)x_0") == 1 and "i_inside" in source


def test_the_same_comparison_may_be_of_one_kind_only():
    """i >= 0 and i >= n is no range."""
    @mo.kernel
    def above(out, n: mo.uint32):
        i = mo.thread_idx().x - 4
        out[mo.thread_idx().x] = 1 if i >= 0 and i >= mo.size(out) - 30 else 0

    out = np.zeros(32, np.int32)
    assert mo.check(above)[1, 32](out, 3).ok
    assert out.tolist() == [int(t - 4 >= 2) for t in range(32)]
