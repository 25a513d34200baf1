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


def test_constexpr_of_a_class_as_in_cutlass():
    @mo.kernel
    def k(out, n: mo.Constexpr[int], quoted: mo.Constexpr[int]):
        for i in mo.static_range(n):
            out[i] = i + quoted if mo.is_static(n) and mo.is_static(quoted) else -1

    out = np.zeros(4, np.int32)
    k[1, 1](out, 4, 10)
    assert out.tolist() == [10, 11, 12, 13]


def test_parameters_by_place_alone_and_a_parameter_called_self():
    @mo.kernel
    def k(out, x, /, y, *, z=4):
        out[0] = x + y * z

    @mo.kernel
    def of_self(out, self):
        out[0] = self

    out = np.zeros(1, np.int32)
    k[1, 1](out, 3, y=5)
    assert out[0] == 23
    of_self[1, 1](out, self=7)
    of_self.launch(out, self=8, grid=1, block=1)
    assert out[0] == 8 and mo.check(of_self)[1, 1](out, self=9).ok and out[0] == 9


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


@pytest.mark.parametrize("text", [
    "4 in range(0, t)", "4 not in range(t)", "-1 in range(t, -5, -1)", "3 in range(t, 20, 2)", "True in range(t)",
    "5 in range(3, 8)", "n in range(t)", "t in range(2, n)", "2.5 in range(5)", "2.0 in range(5)"])
def test_numbers_in_ranges(text):
    assert np.allclose(launched(written(text, "t, x, n")), [eval(text, {"t": t, "n": 3}) for t in range(8)])


@pytest.mark.parametrize(("text", "hint"), [
    ("sum(mo.fragment((4,), mo.float32))", 'for i in range(mo.size(x, 0)), of registers mo.static_range, with x[i] '
     'inside; x.reduce("sum") adds'),
    ("mo.fragment(mo.float32, (4,))[0]", "mo.fragment((4,), mo.float32)"), ("x[1.0]", "an index is an integer"),
    ("x[[0]]", "elements are read one by one, in a loop over the indices"),
    ("mo.fragment((2,), mo.float32).__setitem__(..., [1, 2])", "assign elements one by one, or pass the numbers")])
def test_hints_for_what_numpy_takes(text, hint):
    with pytest.raises(mo.MoyeError) as error:
        launched(written(text, "t, x, n"))
    assert error.value.hint and error.value.hint.startswith(hint)
