"""Early returns of inlined functions become arms of conditions, and mean the same."""

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel


@mo.jit
def clamp(v, low, high):
    if v < low:
        return low
    if v > high:
        return high
    return v


@mo.jit
def both_arms(v, low, high):
    if v < low:
        v = v + 1
    else:
        if v > high:
            return high
        v = v - 1
    if v == 0:
        return 100.0
    else:
        return 2 * v


@mo.jit
def in_the_second_arm(v, low, high):
    if v >= low:
        v = v * 3
    else:
        return low - v
    return v + high


@mo.jit
def nested(v, low, high):
    return clamp(both_arms(v, low, high), 4 * low, clamp(v, 0.0, high))


@mo.jit
def by_a_loop(v, low, high):
    for k in mo.range(5):
        if v > high:
            return v - k
        v = v + 1
    if v < low:
        return low
    return 0.0 * v


def run(function):
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        out[i] = function(x[i], -2.0, 3.0)
        if out[i] > 1.5:
            out[i] = -function(out[i] - 1, -1.0, 1.0)

    x = np.arange(-8, 8, dtype=np.float32)
    out = np.zeros(16, np.float32)
    assert mo.check(kernel)[1, 16](out, x).ok
    return x, out, print_kernel(kernel.trace(out, x, block=16)).source


def plain(function, v, low, high):
    """The function of Python's numbers."""
    if function is nested:
        return plain(clamp, plain(both_arms, v, low, high), 4 * low, plain(clamp, v, 0.0, high))
    if function is clamp:
        return low if v < low else high if v > high else v
    if function is both_arms:
        if v >= low and v > high:
            return high
        v = v + 1 if v < low else v - 1
        return 100.0 if v == 0 else 2 * v
    if function is in_the_second_arm:
        return v * 3 + high if v >= low else low - v
    for k in range(5):
        if v > high:
            return v - k
        v += 1
    return low if v < low else 0.0


@pytest.mark.parametrize("function, jumps", [(clamp, 0), (both_arms, 2), (in_the_second_arm, 0), (nested, 2),
                                             (by_a_loop, 2)], ids=lambda x: getattr(x, "__name__", ""))
def test_early_returns(function, jumps):
    x, out, source = run(function)
    for v, got in zip(x.tolist(), out.tolist(), strict=True):
        wanted = plain(function, v, -2.0, 3.0)
        if wanted > 1.5:
            wanted = -plain(function, wanted - 1, -1.0, 1.0)
        assert got == wanted, (v, got, wanted)
    assert source.count("goto") == jumps, source


@mo.jit
def leaves_a_loop_too(x, i):
    total = mo.float32(0)
    for k in mo.range(4):
        if x[k] < 0:
            if k > i:
                return total
            else:
                break
        total += x[k]
    return total + 1


def test_returns_beside_breaks():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        out[i] = leaves_a_loop_too(x, i)

    x, out = np.array([1, 2, -1, 5], np.float32), np.zeros(4, np.float32)
    assert mo.check(kernel)[1, 4](out, x).ok
    assert out.tolist() == [3, 3, 4, 4]
