"""A11 of what a kernel counts without writing it down: the next value of a loop's variable, the number of a thread."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.runtime.arguments import classify

TOP = 2**31 - 1


@mo.kernel
def uniform(x, a, b):
    n = mo.int32(0)
    for i in range(a, b, 4):
        n += 1 + 0 * i
        if n > 5:
            break
    x[mo.thread_idx().x] = n


@mo.kernel
def by_threads(x, a, b):
    n = mo.int32(0)
    for _ in range(a + x[mo.thread_idx().x], b, 4):
        n += 1
    x[mo.thread_idx().x] = n


@mo.kernel
def with_barriers(x, a, b):
    n = mo.int32(0)
    for _ in range(a + x[mo.thread_idx().x], b, 4):
        n += 1
        mo.sync_warp()
    x[mo.thread_idx().x] = n


@mo.kernel
def with_a_step(x, a, b):
    n, step = mo.int32(0), mo.max(4 + x[mo.thread_idx().x], 1)
    for _ in range(a, b, step):
        n += 1
    x[mo.thread_idx().x] = n


KERNELS = [uniform, by_threads, with_barriers, with_a_step]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize(("a", "b", "fits"), [(TOP - 10, TOP, False), (TOP - 16, TOP - 3, True),
                                              (TOP - 9, TOP - 9, True), (7, 23, True)])
def test_the_step_behind_the_last_turn(kernel, a, b, fits):
    x = np.zeros(32, np.int32)
    report = mo.check(kernel)[1, 32](x, a, b)
    assert report.ok is fits, report
    assert fits or [finding.code for finding in report.findings] == ["A11"]
    assert x[0] == len(range(a, b, 4))


def test_a_loop_that_is_left_before_counts_no_further():
    x = np.zeros(32, np.int32)
    assert mo.check(uniform)[1, 32](x, TOP - 24, TOP).ok
    assert x[0] == 6


@mo.kernel
def downwards(x, a, b):
    n = mo.int32(0)
    for _ in range(a, b, -3):
        n += 1
    x[mo.thread_idx().x] = n


def test_downwards():
    x = np.zeros(32, np.int32)
    assert not mo.check(downwards)[1, 32](x, 7 - TOP, -TOP - 1).ok
    assert mo.check(downwards)[1, 32](x, 7 - TOP, 3 - TOP).ok


def test_steps_of_one_never_leave():
    @mo.kernel
    def k(x, a, b):
        n = mo.int32(0)
        for _ in range(a, b):
            n += 1
        x[mo.thread_idx().x] = n
    x = np.zeros(32, np.int32)
    assert mo.check(k)[1, 32](x, TOP - 5, TOP).ok
    assert (x == 5).all()


@mo.kernel
def numbered(x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        x[i] = 1.0


@pytest.mark.parametrize(("blocks", "bits"), [(1, 32), (1 << 23, 32), ((1 << 23) + 1, 64)])
def test_more_threads_than_32_bits_number_are_counted_in_64(blocks, bits):
    call = classify(numbered.signature, (np.zeros(256, np.float32),), {})
    _, spec = numbered._checked(call, (blocks, 1, 1), (256, 1, 1), (1, 1, 1))
    sums = [op for op in spec.func.body.walk() if getattr(op, "kind", "") == "mul"]
    assert {op.result.dtype.bits for op in sums} == {bits}
