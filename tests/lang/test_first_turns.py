"""What is wrong for the values of a loop's first turn alone, under a condition that they never meet, is no error."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

X = np.arange(6, dtype=np.int32)


@mo.kernel
def the_one_before(out, x):
    at = 0
    for _ in range(6):
        if x[at] > 3:
            out[0] = x[at - 1]
        at += 1                                             # noqa: SIM113  carried by the loop


@mo.kernel
def the_last_one(out, x):
    last = -1
    for i in range(6):
        if i > 0:
            out[0] = x[last]
        last = i


@mo.kernel
def behind_continue(out, x):
    last = -1
    for i in range(6):
        if i == 0:
            last = i
            continue
        out[0] = x[last]
        last = i


@mo.kernel
def in_a_value(out, x):
    last = -1
    for i in range(6):
        out[0] = x[last] if i > 0 else 7
        last = i


@mo.kernel
def in_an_operand(out, x):
    last = -1
    for i in range(6):
        if i > 0 and x[last] == 4:
            out[0] = x[i - 1]
        last = i


@mo.kernel
def forever(out, x):
    at = mo.size(x) - mo.size(x)
    while True:
        if x[at] == 5:
            out[0] = x[at - 1]
            break
        at += 1


@mo.kernel
def a_static_condition(out, x):
    at, done = 0, False
    while not done:
        if x[at] > 4:
            out[0] = x[at - 1]
            done = True
        at += 1


@mo.kernel
def downwards(out, x):
    staged, at = mo.shared_array(mo.int32, 5), 4
    staged[4] = x[0]
    while at >= 0:
        if at < 4:
            staged[at] = staged[at + 1] + 1
        at -= 1
    out[0] = staged[0]


@mo.kernel
def quotients(out, x):
    at, below = 0, 1
    while at < 6:
        if x[at] == 5:
            out[0] = 20 // (below - 1)
        at += 1
        below += 1


@mo.kernel
def shifts(out, x):
    at = 0
    while at < 6:
        if x[at] == 3:
            out[0] = 1 << (at - 1)
        at += 1


@mo.kernel
def in_two_loops(out, x):
    at = 0
    for i in range(3):
        for j in range(2):
            if i + j > 0:
                out[0] = x[at - 1]
            at += 1


@mo.kernel
def set_in_the_body(out, x):
    """``twice`` has no value before the loop, and the pass that fails leaves none."""
    last = -1
    for i in range(6):
        twice = 2 * i
        if i > 0:
            out[0] = x[last] + twice - 10
        last = i
    out[0] += last - 5


KERNELS = [the_one_before, the_last_one, behind_continue, in_a_value, in_an_operand, forever, a_static_condition,
           downwards, quotients, shifts, in_two_loops, set_in_the_body]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_what_no_turn_does_is_no_error(kernel):
    out = np.full(1, -9, np.int32)
    assert mo.check(kernel)[1, 1](out, X).ok
    assert out[0] == 4
    assert kernel.compile(out, X, block=1, arch="sm_80").spills == 0


@mo.kernel
def before_the_first(out, x):
    at = 0
    for _ in range(6):
        out[0] = x[at - 1]
        at += 1                                             # noqa: SIM113  carried by the loop


@mo.kernel
def never_right(out, x):
    at = 0
    for i in range(6):
        if i > 2:
            out[0] = x[-1]
        at += 1
    out[0] += at


@mo.kernel
def of_registers(out, x):
    held, at = mo.fragment((4,), mo.int32), 0
    held.fill(0)
    for i in range(6):
        if i > 2:
            held[at] = 1
        at += 1                                             # noqa: SIM113  carried by the loop
    out[0] = held[0]


@mo.kernel
def another_one_behind(out, x):
    last = -1
    for i in range(6):
        if i > 0:
            out[0] = x[last]
            out[0, 0] = 1
        last = i


@pytest.mark.parametrize(("kernel", "message"), [
    (before_the_first, "index -1 is outside mode 0"), (never_right, "index -1 is outside mode 0"),
    (of_registers, "it cannot be indexed with at, which is not static"),
    (another_one_behind, "a coordinate of 2 entries")])
def test_what_is_wrong_in_any_turn_is_told(kernel, message):
    with pytest.raises(mo.TensorError) as caught:
        kernel.trace(np.zeros(1, np.int32), X, block=1)
    assert message in str(caught.value)
    assert len(caught.value.locs) == 1 and len(caught.value.locs[0].frames) == 1


@mo.kernel
def too_far(out, x):
    last = -1
    for i in range(6):
        if i > 0:
            out[0] = x[last - 3]
        last = i


def test_what_is_wrong_in_some_turns_is_found_where_it_happens():
    report = mo.check(too_far)[1, 1](np.zeros(1, np.int32), X)
    assert [f.code for f in report.findings] == ["B1"] and "reads x(-3)" in report.findings[0].message


def test_loops_that_fail_in_loops_do_not_take_for_ever():
    @mo.kernel
    def nested(x, depth: mo.Constexpr):
        a = b = c = d = e = -1
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    for m in range(3):
                        for n in range(3):
                            if n > 0:
                                x[-1] = a + b + c + d + e
                            e = n
                        d = m
                    c = k
                b = j
            a = i

    with pytest.raises(mo.TensorError, match="index -1 is outside"):
        nested.trace(X, 5, block=1)
