"""Remainders that wrap round once at most are no divisions where conditions say so, and mean the same."""

import random

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel


@mo.kernel
def returns(out, x):
    t, n = mo.thread_idx().x, mo.size(x)
    if t >= n:
        return
    out[t] = x[(t + n - 1) % n] + 10 * x[(t + 1) % n] + 100 * x[(t + n) % n]


@mo.kernel
def either(out, x):
    t, n = mo.thread_idx().x, mo.size(x)
    if mo.block_idx().x > 0 or not n > t:
        return
    out[t] = x[(n + t - 1) % n] + 10 * x[(1 + t) % n] + 100 * x[t]


@mo.kernel
def arm(out, x):
    t, n = mo.thread_idx().x, mo.size(x)
    if t < n and t != 40:
        out[t] = x[(t - 1 + n) % n] + 10 * x[(t + 1) % n] + 100 * x[t]


@mo.kernel
def loop(out, x):
    n = mo.size(x)
    for t in range(mo.thread_idx().x, n, 32):
        out[t] = x[(t + n - 1) % n] + 10 * x[(t + 1) % n] + 100 * x[t]


@mo.kernel
def while_loop(out, x):
    t, n = mo.thread_idx().x, mo.size(x)
    while t < n:
        out[t] = x[(t + n - 1) % n] + 10 * x[(t + 1) % n] + 100 * x[t]
        t += 32


def remainders(source):
    """The lines of a kernel's code with a remainder."""
    return [line for line in source.splitlines() if "%" in line and "//" not in line and "asm" not in line]


@pytest.mark.parametrize("kernel", [returns, either, arm, loop], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("n", [1, 2, 7, 32])
def test_neighbours_of_a_ring(kernel, n):
    x, out = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    assert mo.check(kernel)[1, 32](out, x).ok
    assert np.array_equal(out, np.roll(x, 1) + 10 * np.roll(x, -1) + 100 * x)
    assert not remainders(print_kernel(kernel.trace(out, x, block=32)).source)


def test_a_variable_of_a_loop_may_be_negative():
    """Nothing says that it is not, so it stays a remainder."""
    x, out = np.arange(7, dtype=np.int32), np.zeros(7, np.int32)
    assert mo.check(while_loop)[1, 32](out, x).ok
    assert np.array_equal(out, np.roll(x, 1) + 10 * np.roll(x, -1) + 100 * x)


@mo.kernel
def further(out, x, m):
    t, n = mo.thread_idx().x, mo.size(x)
    if t >= n:
        return
    out[t] = x[(t + 2) % n] + x[(t + m) % n] + x[(2 * t) % n] + x[(t + 1) % m]


def test_what_may_wrap_more_than_once_stays_a_remainder():
    x, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    assert mo.check(further)[1, 32](out, x, 4).ok
    t = np.arange(5)
    assert np.array_equal(out, (t + 2) % 5 + (t + 4) % 5 + 2 * t % 5 + (t + 1) % 4)
    source = print_kernel(further.trace(out, x, 4, block=32)).source
    assert source.count("% (unsigned)x_0") == 2
    assert "floor_mod(tx + m, x_0)" in source and "floor_mod(tx + 1, m)" in source


@mo.kernel
def negative(out, x, shift):
    t, n = mo.thread_idx().x - shift, mo.size(x)
    if t >= n:
        return
    out[mo.thread_idx().x] = x[(t + 1) % n]


def test_what_may_be_negative_stays_a_remainder():
    x, out = np.arange(5, dtype=np.int32), np.zeros(32, np.int32)
    assert mo.check(negative)[1, 9](out, x, 4).ok
    assert out[:9].tolist() == [(t - 3) % 5 for t in range(9)]


@mo.kernel
def drawn(out, n, m, plan: mo.Constexpr):
    t = mo.thread_idx().x
    terms, period, guard = plan
    bound = n if guard[1] == "n" else m
    inside = t < bound if guard[0] == "lt" else bound > t if guard[0] == "gt" else not t >= bound
    if inside:
        total = mo.int32(0)
        for what in terms:
            total = total + (t if what == "t" else n if what == "n" else m if what == "m" else what)
        out[t] = total % (n if period == "n" else m)


@pytest.mark.parametrize("seed", range(60))
def test_drawn_sums(seed):
    """Of the index, both numbers and constants, in any order, by either period, behind a condition of either."""
    rng = random.Random(seed)
    n, m = rng.randint(1, 9), rng.randint(1, 9)
    terms = tuple(rng.choice(("t", "n", "m", -1, 1, 2, "n", "t")) for _ in range(rng.randint(1, 4)))
    plan = terms, rng.choice("nm"), (rng.choice(("lt", "gt", "ge")), rng.choice("nm"))
    out = np.full(16, -7, np.int32)
    assert mo.check(drawn)[1, 16](out, n, m, plan).ok
    values = {"n": n, "m": m}
    sums = [sum({"t": t, **values}.get(term, term) for term in terms) for t in range(16)]
    want = [total % values[plan[1]] if t < values[plan[2][1]] else -7 for t, total in enumerate(sums)]
    assert out.tolist() == want
