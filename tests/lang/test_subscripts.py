"""subscripts.py: what was given in place of an array is named where it is indexed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError


@dataclass(frozen=True)
class Holder:
    rows: Any


@mo.kernel
def reads(y, x):
    i = mo.thread_idx().x
    y[i] = x[i]


@mo.kernel
def writes(x, y):
    x[mo.thread_idx().x] = y[0]


@mo.kernel
def of_a_part(y, holder):
    y[mo.thread_idx().x] = holder.rows[mo.thread_idx().x]


@mo.jit
def first_of(x):
    return x[0]


@mo.kernel
def in_a_callee(y, x):
    y[mo.thread_idx().x] = first_of(x)


def zeros():
    return np.zeros(4, np.float32)


@pytest.mark.parametrize(("given", "told", "hint"), [
    ([1.0, 2.0], "x is a list of 2 elements, and i, at which it is indexed, is known only when the kernel runs",
     "np.asarray(x)"),
    ((1.0,), "x is a tuple of 1 element, and i", "np.asarray(x)"),
    ("abc", "x is a str of 3 elements, and i", "pass an array"),
    ({"a": 1.0}, "x is a dict of 1 element, and i", "pass an array"),
    (None, "x is None, which has no elements", "pass an array"),
    (max, "x is a builtin_function_or_method, which has no elements", None),
    (3.0, "x is a float32 scalar of the kernel, which has no elements", None),
    (np.int64(3), "x is an int64 scalar of the kernel, which has no elements", None),
])
def test_what_was_given_for_an_array(given, told, hint):
    with pytest.raises(TraceError) as error:
        reads[1, 4](zeros(), given)
    assert error.value.message.startswith(told)
    assert (hint or "") in (error.value.hint or "") and (error.value.hint is None) is (hint is None)
    assert error.value.locs[0].innermost.text().strip() == "y[i] = x[i]"


def test_one_of_two_numbers_by_a_condition():
    @mo.kernel
    def sign(y, x):
        i = mo.thread_idx().x
        y[i] = x[i] * (-1, 1)[x[i] > 2]

    with pytest.raises(TraceError, match=r"^\(-1, 1\) is a tuple of 2 elements, and x\[i\] > 2, at which") as error:
        sign[1, 4](zeros(), zeros())
    assert "b if condition else a" in error.value.hint


def test_coordinates_are_not_numbers():
    @mo.kernel
    def inside(y, n):
        i = mo.thread_idx().x
        if mo.identity_tensor((4,))[i] < n:
            y[i] = 1
        elif mo.tile(mo.identity_tensor((4, 4)), (2, 2), (0, 0))[0, 0] < n:
            y[i] = 2

    with pytest.raises(TraceError, match="'<' not supported between instances of 'tuple' and a scalar") as error:
        inside[1, 4](zeros(), 3)
    assert "mo.elem_less(coordinate, shape)" in error.value.hint


@pytest.mark.parametrize("given", [[1.0, 2.0], (1.0, 2.0), "ab", None, 2.5])
def test_what_was_given_for_an_output(given):
    with pytest.raises(TraceError, match=r"^x is "):
        writes[1, 4](given, zeros())


@pytest.mark.parametrize("given", [{"a": 1.0}, {}, ])
def test_a_dict_is_no_output(given):
    with pytest.raises(TraceError, match=r"x is a dict of \d elements?, and mo\.thread_idx\(\)\.x, at which"):
        writes[1, 4](given, zeros())


def test_parts_and_callees():
    with pytest.raises(TraceError, match=r"holder\.rows is a list of 2 elements, and mo\.thread_idx\(\)\.x"):
        of_a_part[1, 4](zeros(), Holder([1.0, 2.0]))
    with pytest.raises(TraceError, match="x is a float32 scalar of the kernel") as error:
        in_a_callee[1, 4](zeros(), 1.0)
    assert [frame.function for frame in error.value.locs[0].frames] == ["in_a_callee", "first_of"]


def test_containers_with_static_indices_are_as_ever():
    @mo.kernel
    def static(y, values, names):
        total = values[0]
        for k in mo.static_range(1, len(values)):
            total = total + values[k]
        y[mo.thread_idx().x] = total + names["a"]

    y = zeros()
    static[1, 4](y, [1.0, 2.0, 3.0], {"a": 4.0})
    assert (y == 10).all()


def test_other_errors_stay_what_they_are():
    @mo.kernel
    def beyond(y, values):
        y[mo.thread_idx().x] = values[7]

    @mo.kernel
    def unknown(y, values):
        y[mo.thread_idx().x] = values["b"]

    with pytest.raises(IndexError):
        beyond[1, 4](zeros(), [1.0])
    with pytest.raises(KeyError):
        unknown[1, 4](zeros(), {"a": 1.0})


TABLE = np.arange(32)


@pytest.mark.parametrize(("index", "said"), [
    (lambda: 2, "the kernel reads 'TABLE', an array that may change between launches"),
    (lambda: mo.thread_idx().x, r"TABLE is an array of 32 elements, and at\(\), at which it is indexed, is known")])
def test_an_array_of_the_module_is_an_argument(index, said):
    @mo.kernel
    def reads(out, at: mo.Constexpr):
        out[0] = TABLE[at()]

    with pytest.raises(TraceError, match=said) as error:
        reads[1, 32](np.zeros(1, np.int32), index)
    assert error.value.hint == "pass it as an argument"


@pytest.mark.parametrize(("index", "kind"), [((0, 1), "a tuple"), ("a", "a str"), (0.5, "a float")])
def test_what_is_no_index_of_a_tuple(index, kind):
    @mo.kernel
    def k(y, index: mo.Constexpr):
        table = (1, 2)
        y[0] = table[index]

    with pytest.raises(TraceError, match=f"tuple of 2 elements, which takes one integer or slice, not {kind}"):
        k[1, 1](zeros(), index)
