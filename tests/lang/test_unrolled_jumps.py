"""break and continue that the kernel decides, in loops that tracing unrolls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import moye as mo
from plain_and_traced import agree

CASES = [(np.array(x, np.int32), n) for n, *x in ((0, 0, 0, 0, 0), (2, 3, 1, 2, 5), (3, -1, 4, -2, 6), (9, 2, 2, 9, -9),
                                                  (4, 7, -7, 0, 1), (1, 1, 3, -2, 1))]
FUNCTIONS = []


def function(f):
    FUNCTIONS.append(f)
    return f


@function
def skips(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        if x[k] < n:
            continue
        total += x[k] * (k + 1)
    return total


@function
def stops(x, n):
    total = 0
    for k, weight in enumerate((5, 7, 11, 13)):
        if x[k] > n:
            break
        total += x[k] * weight
    return total


@function
def both(x, n):
    total, seen, last = 1, 0, -1
    for k in (0, 1, 2, 3):
        seen += 1
        if x[k] == n:
            continue
        total = total * 3 + x[k]
        if total > 20:
            last = k
            break
        seen += 10
    return total, seen, last


@function
def nested_conditions(x, n):
    a, b = 0, 0
    for k in (0, 1, 2, 3):
        if x[k] > 0:
            a += 1
            if x[k] > n:
                b += 2
                continue
            b += x[k]
        elif x[k] < -1:
            b -= 5
            break
        else:
            a += 100
        a += 10
    return a, b


@function
def tracing_decides_too(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        if k == 1:
            continue
        if x[k] < 0:
            continue
        if k == 3:
            break
        total += x[k] + k
    return total


@function
def jumps_first(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        if x[k] > n:
            total += 1
            continue
        if k == 2:
            break
        total += 10
    return total


@function
def loops_in_loops(x, n):
    total = 0
    for k in (0, 1, 2):
        for j in (0, 1, 2, 3):
            if j * k > n:
                break
            if x[j] == k:
                continue
            total += x[j]
        if total > 12:
            break
        total += 1
    return total


@function
def a_loop_of_the_kernel_inside(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        for i in range(n):
            if x[k] == i:
                break
            total += i
        if total > 6:
            continue
        total += 100
    return total


@function
def inside_a_loop_of_the_kernel(x, n):
    total, turns = 0, 0
    for i in range(n):
        turns += 1
        for k in (0, 1, 2, 3):
            if x[k] > i:
                break
            total += x[k] + 1
        else_ = total % 3
        if else_ == 1:
            continue
        total += i
    return total, turns


@function
def returns(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        if x[k] < 0:
            continue
        if x[k] > n:
            return total - 1000
        total += x[k]
    return total


@function
def returns_while_tracing(x, n):
    total = 0
    for k in (0, 1, 2, 3):
        if x[k] < n:
            continue
        total += x[k]
        if k == 2:
            return total + 500
    return total


@function
def returns_at_once(x, n):
    for k in (0, 1):
        if k == 1:
            return x[k] * 2
        if x[k] > 100:
            continue
    return 0


@function
def what_is_left_behind(x, n):
    k, y = -1, 0
    for k in (0, 1, 2, 3):
        y = x[k] * 2
        if y > n:
            break
    return k, y


@function
def puts_back(x, n):
    value, total = x[0], 0
    for k in (0, 1, 2, 3):
        kept = value
        if x[k] > 0:
            value = 1
        total += value * (k + 1)
        value = kept
        if x[k] == n:
            continue
        value += 2
    return total, value


@function
def puts_back_in_an_arm(x, n):
    value, total = x[0], 0
    for i in range(4):
        if i % 2 == 0:
            kept = value
            if x[i] > 0:
                value = 1
            total += value * (i + 1)
            value = kept
        else:
            value = value * 2
        value += 1
    return total, value


@function
def lists(x, n):
    parts = [0, 0, 0]
    for k in (0, 1, 2, 3):
        parts[0] += 1
        if x[k] > n:
            parts[1] += x[k]
            continue
        parts[2] -= x[k]
        if parts[2] > 3:
            break
    return tuple(parts)


@dataclass
class Sums:
    plus: int = 0
    minus: int = 0


@function
def objects(x, n):
    s = Sums()
    for k in (0, 1, 2, 3):
        if x[k] < 0:
            s.minus -= x[k]
            continue
        s.plus += x[k]
        if s.plus > n:
            break
    return s.plus, s.minus


@function
def one_object_or_another(x, n):
    pair = (x[0], 1)
    for k in (1, 2, 3):
        if x[k] <= pair[0]:
            continue
        pair = (x[k], pair[1] + k)
        if pair[0] > n:
            break
    return pair


@function
def stays_known(x, n):
    stage, total = 0, 0
    for k in (0, 1, 2, 3):
        stage = (stage + 1) % 3
        if x[k] > n:
            continue
        total += (10, 20, 30)[stage] + x[k]         # a tuple, which only a static number indexes
    return total


@function
def swaps(x, n):
    a, b = x[0], x[1]
    for k in (0, 1, 2):
        a, b = b, a + k
        if a > n:
            continue
        if b > 3 * n:
            break
        a, b = b, a
    return a, b


@function
def from_a_generator(x, n):
    total = 0
    for k in (j for j in range(4) if j != 2):
        if x[k] == 0 or x[k] > n:
            continue
        total += x[k]
    return total


@function
def all_leave(x, n):
    for k in (0, 1, 2):
        if x[k] > n:
            y = k
            break
        else:
            y = 10 + k
            break
    return y


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_python(f):
    agree(f, *CASES)


def test_known_numbers_stay_known():
    """What every way leaves alike needs no variable of the kernel."""
    @mo.kernel
    def k(x, n):
        part = mo.fragment((4,), mo.int32)
        at = 0
        for j in (0, 1, 2, 3):
            at = 3 - j
            if x[j] > n:
                continue
            part[at] = x[j]                             # registers take static indices only
        x[0] = at

    x = np.arange(4, dtype=np.int32)
    k[1, 1](x, 9)
    assert x[0] == 0


def test_a_variable_that_some_way_leaves_without_a_value():
    @mo.kernel
    def k(x, n):
        for j in (0, 1):
            if x[j] > n:
                break
            y = x[j]
        x[0] = y

    with pytest.raises(mo.TraceError, match="'y' has no value on some way out of the loop before"):
        k[1, 1](np.zeros(4, np.int32), 3)


def test_two_dtypes_meet():
    @mo.kernel
    def k(out, x, n):
        y = x[0].to(mo.int8)
        for j in (0, 1):
            if x[j] > n:
                continue
            y = x[j]
        out[0] = y

    out = np.zeros(1, np.int32)
    k[1, 1](out, np.array([1000, 5], np.int32), 2000)
    assert out[0] == 5
    k[1, 1](out, np.array([1000, 3000], np.int32), 2000)
    assert out[0] == 1000


def test_a_list_that_grows_is_refused():
    @mo.kernel
    def k(x, n):
        found = []
        for j in (0, 1):
            if x[j] > n:
                continue
            found.append(x[j])
        x[0] = sum(found)

    with pytest.raises(mo.TraceError, match="the list found changes its parts in a loop or branch"):
        k[1, 1](np.zeros(4, np.int32), 3)


def test_in_a_kernel_whose_threads_go_on():
    @mo.kernel
    def k(out, x):
        tid, shared = mo.thread_idx().x, mo.shared_array(mo.int32, 64)
        total = 0
        for shift in (1, 2, 4, 8, 16):
            shared[tid] = total + x[tid]
            mo.sync_threads()
            if tid >= shift:
                total += shared[tid - shift]
            mo.sync_threads()
        for word in (3, 5, 7):
            if total % word == 0:
                break
            total += word
        out[tid] = total

    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    assert mo.check(k)[1, 64](out, x).ok

    @mo.kernel
    def wrong(x):
        tid = mo.thread_idx().x
        for word in (3, 5):
            if x[tid] % word == 0:
                continue
            mo.sync_threads()

    report = mo.check(wrong)[1, 64](x)
    assert not report.ok and report.findings[0].code == "C4"


def test_conditions_rather_than_jumps():
    """The rest of a turn is the other arm, and a variable is assigned in place."""
    @mo.kernel
    def k(out, x):
        tid, total = mo.thread_idx().x, 0.0
        for step in (-2, 0, 2):
            at = tid + step
            if not 0 <= at < mo.size(x):
                continue
            total += x[at]
        out[tid] = total

    x = np.zeros(64, np.float32)
    source = k.compile(x, x.copy(), block=64, arch="sm_90a").source
    assert "goto" not in source and "else" not in source and source.count("if (") == 3
    assert source.count("float total") == 1


def test_many_turns_are_no_deep_nest():
    @mo.kernel
    def k(out, x):
        tid = mo.thread_idx().x
        total = 0
        for j in mo.static_range(200):
            if x[j] == tid:
                break
            total += x[j] ^ j
        out[tid] = total

    x, out = np.arange(1, 201, dtype=np.int32), np.zeros(32, np.int32)
    k[1, 32](out, x)
    sums = np.cumsum(x ^ np.arange(200))
    assert out.tolist() == [int(sums[-1]), 0, *map(int, sums[:30])]
    program = k.compile(out, x, block=32, arch="sm_90a")
    assert max(len(line) - len(line.lstrip()) for line in program.source.splitlines()) < 160
    assert program.spills == 0


def test_jumps_that_tracing_decides_leave_no_trace():
    """What one turn has computed is not computed again in the next."""
    @mo.kernel
    def jumps(out, x):
        row, total = mo.thread_idx().x, 0.0
        for j in (0, 1, 2, 3):
            if j == 2:
                continue
            total += x[row, j] * x[row, j + 1]
        out[row] = total

    @mo.kernel
    def conditions(out, x):
        row, total = mo.thread_idx().x, 0.0
        for j in (0, 1, 2, 3):
            if j != 2:
                total += x[row, j] * x[row, j + 1]
        out[row] = total

    arrays = mo.TensorLike(mo.float32, (32,)), mo.TensorLike(mo.float32, (32, 8), (8, 1))
    one, other = (kernel.trace(*arrays, block=32) for kernel in (jumps, conditions))
    assert [type(op) for op in one.body.walk()] == [type(op) for op in other.body.walk()]
