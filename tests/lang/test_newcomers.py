"""Python as newcomers write it means in a kernel what it means outside of one."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import newcomers
from moye.errors import TraceError
from written import written


def launched(body):
    @mo.kernel
    def kernel(out, x, n):
        t = mo.thread_idx().x
        out[t] = body(t, x, n)

    out, x = np.full(8, -77, np.float32), np.arange(1, 9, dtype=np.float32)
    kernel[1, 8](out, x, 3)
    return out


@pytest.mark.parametrize("function", newcomers.FUNCTIONS, ids=lambda function: function.__name__)
def test_as_python(function):
    x = [float(i) for i in range(1, 9)]
    expected = [float(function(t, x, 3)) for t in range(8)]
    assert np.allclose(launched(mo.jit(function)), expected, rtol=1e-5)


@pytest.mark.parametrize("text", [
    "max((t, 2, n), key=lambda v: -v)", "min([t, 5, n], key=lambda v: (v - 3) * (v - 3))", "max([], default=t)",
    "min((t, 2), default=9)", "max(t, 4, key=lambda v: v % 3)", "max((3, 1, 2), key=lambda v: x[v])",
    "min([x[0], x[3], x[5]], key=lambda v: abs(v - t))", "max(1, 2, key=lambda v: -v)"])
def test_extrema_by_keys(text):
    x = [float(i) for i in range(1, 9)]
    assert np.allclose(launched(written(text, "t, x, n")), [eval(text, {"t": t, "x": x, "n": 3}) for t in range(8)])


def test_objects_by_keys():
    assert launched(written("max((t, 1), (2, 3), key=lambda p: p[1])[0]", "t, x, n")).tolist() == [2] * 8
    with pytest.raises(TraceError, match="max chooses one of several objects by a key") as error:
        launched(written("max((t, 1), (2, 3), key=lambda p: p[0])[0]", "t, x, n"))
    assert error.value.hint == "choose among numbers, or with an if"


def test_only_break_leaves_a_loop_without_a_condition():
    """What other turns have not set is not asked for behind it; what a break has not set is."""
    def found(t, x, n):
        i = 0
        while True:
            if x[i] > t:
                place = i
                break
            i += 1
        return place

    def lost(t, x, n):
        i = 0
        while True:
            if i > n:
                break
            place = i
            i += 1
        return place

    assert launched(mo.jit(found)).tolist() == list(range(8))
    with pytest.raises(TraceError, match="the variable 'place' has no value on some way out of the loop before"):
        launched(mo.jit(lost))
