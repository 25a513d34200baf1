"""``reversed(range(...))`` whose bounds are known only when the kernel runs is a loop of the kernel."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def from_behind(out, low, high, step: mo.Constexpr):
    n = 0
    for i in reversed(range(low, high, step)):
        out[n] = i
        n += 1
    out[15] = n


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -5])
def test_all_its_numbers_from_behind(step):
    for low, high in [(0, 0), (0, 1), (-4, 5), (3, -4), (-1, 4), (4, -3), (2, 3), (-3, -4)]:
        out, expected = np.zeros(16, np.int32), [*reversed(range(low, high, step))]
        with mo.checking() as reports:
            from_behind[1, 1](out, low, high, step)
        assert reports[0].ok and out[15] == len(expected) and out[:len(expected)].tolist() == expected


@pytest.mark.parametrize("stop", [0, 1, 5])
def test_unsigned_bounds(stop):
    @mo.kernel
    def counted(out, stops):
        number = 1
        for i in reversed(range(stops[0])):
            out[i] = number
            number += 1

    out = np.zeros(8, np.int64)
    counted[1, 1](out, np.array([stop], np.uint32))
    assert out.tolist() == [*reversed(range(1, stop + 1)), *[0] * (8 - stop)]


def test_steps_of_the_kernel_are_refused():
    @mo.kernel
    def stepped(out, step):
        mo.assume(step > 0)
        for i in reversed(range(0, 8, step)):
            out[0] = i

    with pytest.raises(mo.TraceError, match="reversed: the step step of the range is known only when the kernel runs"):
        stepped[1, 1](np.zeros(1, np.int32), 2)
