"""The body of a loop is traced several times: what an earlier time left in Python's names does not enter the IR."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def both_arms(a, o):
    tid = mo.thread_idx().x
    i = 0
    while True:
        i += 1
        if i > a[tid]:
            break
        if a[tid] < 3:
            j = mo.int32(tid)
        else:
            o[tid] = -1
            j = a[tid] * 2
        o[tid] = j


@mo.kernel
def two_dtypes(a, o):
    tid = mo.thread_idx().x
    i = 0
    while True:
        i += 1
        if i > a[tid]:
            break
        if a[tid] < 3:
            j = mo.int16(tid)
        else:
            o[tid] = -1
            j = a[tid] * 2
        o[tid] = mo.int32(j)


@mo.kernel
def three_arms(a, o):
    tid = mo.thread_idx().x
    i = 0
    while True:
        i += 1
        if i > a[tid]:
            break
        if a[tid] < 2:
            j = mo.int32(tid)
        elif a[tid] < 3:
            j = tid
        else:
            j = a[tid] * 2
        o[tid] = j


@pytest.mark.parametrize("kernel", [both_arms, two_dtypes, three_arms])
def test_a_variable_that_every_arm_sets(kernel):
    a, o = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    report = mo.check(kernel)[1, 32](a, o)
    assert report.ok, report
    assert o.tolist() == [0 if x == 0 else x if x < 3 else 2 * x for x in range(32)]
