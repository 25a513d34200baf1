"""Loops that only a return leaves: nothing comes behind them, so that no value is asked for there."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from moye.ir import ops


@mo.jit
def simple(t):
    i = 0
    while True:
        if i * i > t:
            return i
        i += 1


def from_an_inner_loop(t):
    i = 0
    while True:
        for j in range(i + 1):
            if i * i + j > t:
                return i * 10 + j
        i += 1


def from_an_unrolled_loop(t):
    i = 0
    while True:
        for j in (0, 1):
            if i * i + j > t:
                return i * 10 + j
        i += 1


def two_deep(t):
    i = 0
    while True:
        while True:
            i += 1
            if i > t:
                return i
            if i % 3 == 0:
                break
        i += 1


def in_one_arm(t):
    found = 5
    if t > 3:
        i = 0
        while True:
            i += 1
            if i * i > t:
                return i
    else:
        found = t
    return found * 10


def in_both_arms(t):
    i = 0
    if t % 2:
        while True:
            i += 1
            if i > t:
                return i
    else:
        while True:
            i += 2
            if i > t:
                return i * 100


def in_one_arm_and_a_return(t):
    i = 0
    if t % 2:
        return 7
    else:
        while True:
            i += 2
            if i > t:
                return i * 100


def in_a_loop(t):
    s = 0
    for k in range(4):
        s += k
        if s > t:
            while True:
                s += 1
                if s % 5 == 0:
                    return s
    return -s


def with_code_behind(t):
    i = 0
    while True:
        i += 1
        if i > t:
            return i
    i = 1000
    return i


def several_values(t):
    i = j = 0
    while 1:
        i, j = i + 1, j + i
        if j > t:
            return i, (j, t)


def of_each_other(t):
    s = 0
    while True:
        s += simple(s) + 1
        if s > t:
            return s


@pytest.mark.parametrize("function", [
    simple, from_an_inner_loop, from_an_unrolled_loop, two_deep, in_one_arm, in_both_arms, in_one_arm_and_a_return,
    in_a_loop, with_code_behind, several_values, of_each_other], ids=lambda function: function.__name__)
def test_as_python(function):
    traced = function if function is simple else mo.jit(function)

    @mo.kernel
    def kernel(out):
        t = mo.thread_idx().x
        found = traced(t)
        out[t] = found[0] * 100 + found[1][0] * 10 + found[1][1] if isinstance(found, tuple) else found

    out = np.full(8, -7, np.int32)
    assert mo.check(kernel)[1, 8](out).ok
    found = [function(t) for t in range(8)]
    assert out.tolist() == [x if isinstance(x, int) else x[0] * 100 + x[1][0] * 10 + x[1][1] for x in found]


def test_a_break_comes_out():
    @mo.jit
    def found(t):
        i = 0
        while True:
            if i > t:
                return i
            if i > 2:
                break
            i += 1

    @mo.kernel
    def kernel(out):
        out[mo.thread_idx().x] = found(mo.thread_idx().x)

    with pytest.raises(TraceError, match="found returns a value under a traced condition, but not on every path"):
        kernel[1, 8](np.zeros(8, np.int32))


def test_what_one_endless_arm_sets_does_not_count_behind_it():
    """Only the other arm comes to the end, so that its facts hold there, and its dtype."""
    @mo.kernel
    def kernel(out, n):
        t, step = mo.thread_idx().x, 4
        if t > 3:
            step = 3
            while True:
                step += 1
                if step > n:
                    return
        out[t * step] = step

    out = np.zeros(16, np.int32)
    kernel[1, 8](out, 9)
    assert out.tolist() == [4, 0, 0, 0] * 4
    last = kernel.trace(out, 9, block=8).body.ops[-1]
    assert isinstance(last, ops.Store) and "4" in str(last.value)
