"""What Python would decide while tracing by the identity of objects is refused, or told by values."""

from __future__ import annotations

import copy
import functools
import numbers
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.errors import MoyeError, TraceError
from written import written


def launched(body, n=0):
    """What a kernel stores that calls ``body`` with the thread's number, and with ``n`` too if that is given."""
    out = np.zeros(4, np.int32)

    @mo.kernel
    def kernel(out, n):
        i = mo.thread_idx().x
        out[i] = body(i, n) if given else body(i)

    given = n > 0
    kernel[1, len(out)](out, n)
    return out.tolist()


TABLE = {1: 10, 2: 20}


@pytest.mark.parametrize("body", [
    lambda i: TABLE.get(i, -1), lambda i: {1: 10}.get(i, -1), lambda i: len({i, 1}), lambda i: len({1, 2} & {i}),
    lambda i: {i: 3}.get(1, 0), lambda i: TABLE.setdefault(i, 5), lambda i: functools.lru_cache(lambda x: x + 1)(i),
    lambda i: 1 if i in frozenset((1, 2)) else 0, lambda i: hash(i)])
def test_keys(body):
    with pytest.raises(TraceError, match=r"the key .* is known only when the kernel runs|Python itself tests it"):
        launched(body)


@mo.jit
def is_key(i, table):
    return 1 if i in table else 0


@pytest.mark.parametrize("table", [{1: 0, 2: 0}, {1: 0, 2: 0}.keys(), {5: 1, 6: 2}.values(), {1, 2}, (1, 2), [2, 1]])
def test_membership(table):
    assert launched(lambda i: is_key(i, table)) == [0, 1, 1, 0]


@pytest.mark.parametrize(("dtype", "same"), [
    (np.float16, True), (np.dtype("float16"), True), ("float16", True), (mo.float16, True), (np.float32, False),
    (ml_dtypes.bfloat16, False), ("half", False), (None, False), (16, False)])
def test_dtypes_are_compared_by_what_they_stand_for(dtype, same):
    assert (mo.float16 == dtype) is same and (dtype == mo.float16) is same and (mo.float16 != dtype) is not same
    assert (mo.float16 in (np.int8, dtype)) is same


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch")
    assert mo.bfloat16 == torch.bfloat16 and torch.bfloat16 == mo.bfloat16 and mo.float32 != torch.float16


def test_arrays_of_numpy():
    for body in (lambda i: 1 if (np.asarray([0]) == i) else 2, lambda i: 1 if i in np.arange(3) else 0,
                 lambda i: (np.arange(4) != i)[0]):
        with pytest.raises(TraceError, match="an array of NumPy's is compared with"):
            launched(body)


def test_one_tensor():
    @mo.kernel
    def kernel(out, which: mo.Constexpr):
        x = mo.fragment((2,), mo.float32)
        x.fill(1)
        if which == "max":
            x /= max(x)
        elif which == "copy":
            y = copy.deepcopy([x])
            y[0] += 1
        elif which == "is":
            y = x
            out[0] = 1 if x is y else 2

    for which, told in {"max": "max of one tensor", "copy": "it copies no registers", "is": "two names of"}.items():
        with pytest.raises(MoyeError, match=told):
            kernel[1, 1](np.zeros(1, np.float32), which)


@mo.kernel
def counted(out, first: mo.uint32, last: mo.uint32):
    total = mo.int64(0)
    for i in range(first, last):
        total += i
    out[0] = total


@mo.kernel
def turns(out, last: mo.uint64):
    for _ in range(last):
        out[0] += 1


@pytest.mark.parametrize(("first", "last"), [(0, 5), (2**32 - 6, 2**32 - 4), (2**31 - 2, 2**31 + 3), (7, 7), (9, 2)])
def test_unsigned_bounds(first, last):
    out = np.zeros(1, np.int64)
    counted[1, 1](out, first, last)
    assert out[0] == sum(range(first, last))


def test_bounds_beyond_int64():
    with pytest.raises(TraceError, match="loops count in int64 at most"):
        turns[1, 1](np.zeros(1, np.int32), 3)


@pytest.mark.parametrize(("dtype", "base", "power"), [
    (np.int32, 7, 9), (np.int32, -3, 19), (np.int64, 101, 9), (np.int64, 3, 39), (np.int32, 1, 1000),
    (np.int32, -1, 77), (np.uint32, 3, 20), (np.int32, 0, 9), (np.int32, 7, np.int64(9)), (np.int32, 7, np.uint8(10))])
def test_powers_of_integers_are_exact(dtype, base, power):
    x, out = np.full(1, base, dtype), np.zeros(1, dtype)

    @mo.kernel
    def kernel(out, x):
        out[0] = x[0] ** power

    kernel[1, 1](out, x)
    assert int(out[0]) == base ** int(power)

    @mo.kernel
    def of_registers(out, x):
        t = mo.fragment((1,), x.dtype)
        t[0] = x[0]
        t[...] = t ** power
        out[0] = t[0]

    of_registers[1, 1](out, x)
    assert int(out[0]) == base ** int(power)


@mo.jit
def factorial(x):
    if x <= 1:
        return 1
    return x * factorial(x - 1)


def test_recursion_that_nothing_ends():
    with pytest.raises(TraceError, match="factorial calls itself more than 128 times over"):
        launched(lambda i, n: factorial(n), 5)
    assert launched(lambda i: factorial(5)) == [120] * 4


class Plain:
    def __init__(self, v):
        self.v = v


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


class Called(Plain):
    def __call__(self, x):
        return self.v * x


@pytest.mark.parametrize("kind", [Plain, Slotted, Called])
def test_objects_of_plain_classes(kind):
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        a, b = kind(x[i]), kind(2 * x[i])
        if i > 3:
            a = b
        out[i] = a.v

    with pytest.raises(TraceError, match=f"is one {kind.__name__} on one way to this point and another on") as error:
        kernel[1, 8](np.zeros(8, np.float32), np.ones(8, np.float32))
    assert error.value.hint == f"make {kind.__name__} a dataclass: its fields are carried"


# --- classes of Python's numbers -------------------------------------------------------------------------------------

def plain_isinstance(v):
    return 1 if isinstance(v, (int, float)) else 2


def plain_union(v):
    return 1 if isinstance(v, str | int) else 2


def plain_match(v):
    match [v, 1]:
        case [int(), _]:
            return 1
        case _:
            return 2


@functools.singledispatch
def dispatched(v):
    return 1


@dispatched.register
def _(v: int):
    return 2


@pytest.mark.parametrize("body", [
    "1 if isinstance(i, int) else 2", "1 if isinstance(i, (str, float)) else 2", "1 if isinstance(i > 2, bool) else 2",
    "1 if isinstance(i, int | None) else 2", "1 if isinstance(i, numbers.Number) else 2", "type(i)(3)",
    "1 if isinstance(i, np.floating) else 2", "1 if type(i) is int else 2", "1 if type(i) in (int, float) else 2",
    "1 if i.__class__ is int else 2", "sum(1 for v in (i, 1) if isinstance(v, int))",
    "(lambda ask: 1 if ask(i, int) else 2)(isinstance)", plain_isinstance, plain_union, plain_match, dispatched])
def test_classes_of_values(body):
    body = written(body, "i", {**globals(), "numbers": numbers}) if isinstance(body, str) else body
    with pytest.raises(TraceError, match="known only when the kernel runs, and has a dtype instead of") as error:
        launched(body)
    assert "mo.is_static(x)" in error.value.hint


@pytest.mark.parametrize(("body", "expected"), [
    ("isinstance(i, (tuple, list, str))", 0), ("isinstance((i, 1), tuple)", 1), ("isinstance(i, mo.Tensor)", 0),
    ("isinstance(None, int)", 0), ("isinstance(True, int)", 1), ("isinstance(i // 4, int)", 1),
    ("isinstance(i // 4, float)", 0), ("type(i // 4) is int", 1), ("isinstance(i < 4, bool)", 1),
    ("type(i < 4) is bool", 1), ("plain_isinstance(i < 4)", 1), ("type((i,)) is tuple", 1),
    ("type('Made', (), {'v': 7})().v", 7), ("plain_match(2)", 1), ("mo.is_static(i)", 0), ("mo.is_static(3)", 1),
    ("mo.is_static(i // 4)", 1), ("mo.is_static((3, 'a'))", 1), ("mo.is_static((3, i))", 0), ("i.dtype == mo.int32", 1),
    ("i.dtype.is_integer", 1), ("(i * 0.5).dtype.is_integer", 0), ("i.dtype(3)", 3)])
def test_classes_that_tracing_knows(body, expected):
    assert launched(written(body, "i", globals())) == [expected] * 4


@dataclass(frozen=True)
class Point:
    x: int = 0


@pytest.mark.parametrize("body", ["Point() == i", "i == Point()", "Point() in (i, Point(1))", "(i, Point()) == 3"])
def test_objects_that_are_compared_with_values(body):
    assert launched(written(f"1 if {body} else 2", "i", {"Point": Point})) == [2] * 4


@mo.jit
def matched(v, flag, given):
    match given:
        case "value":
            match v:
                case 3:
                    return 1
        case "items":
            match (v, 1):
                case (3, 1):
                    return 1
        case "class":
            match {"a": v}:
                case {"a": int()}:
                    return 1
        case "truth":
            match (flag, 1):
                case (True, 1):
                    return 1
        case "names":
            match (v, 1):
                case (a, 1):
                    return a
        case "static":
            match (v // 4 == 0, v // 4 < 1):
                case (a, _):
                    return 5
        case "decided":
            match v // 4 == 0:
                case True:
                    return 6
    return 2


@pytest.mark.parametrize(("given", "told"), [
    ("value", "a match statement cannot look at"), ("items", "cannot become a Python bool"),
    ("class", "has a dtype instead"), ("truth", "a match statement cannot tell whether values of the kernel are True")])
def test_match_statements(given, told):
    with pytest.raises(TraceError, match=told) as error:
        launched(lambda i: matched(i, i > 2, given))
    assert error.value.hint == "use if and elif" or given == "class"


def test_match_statements_that_tracing_decides():
    assert launched(lambda i: matched(i, i > 2, "names")) == [0, 1, 2, 3]
    assert launched(lambda i: matched(i, i > 2, "static")) == [5] * 4
    assert launched(lambda i: matched(i, i > 2, "decided")) == [6] * 4


def test_truths_in_plain_functions():
    plain = {"if": _plain_if, "lambda": PLAIN_LAMBDA, "sorted": lambda i: sorted([i, 1])[0]}
    hints = {"if": "decorate the function", "lambda": "write the lambda as a def with @mo.jit",
             "sorted": "Python itself"}
    for name, body in plain.items():
        with pytest.raises(TraceError) as error:
            launched(body)
        assert error.value.hint.startswith(hints[name])


def _plain_if(v):
    if v > 2:
        return 1
    return 2


PLAIN_LAMBDA = eval("lambda v: 1 if v > 2 else 2")
