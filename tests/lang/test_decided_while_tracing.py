"""What Python would decide while tracing by the identity of objects is refused, or told by values."""

from __future__ import annotations

import copy
import functools

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.errors import MoyeError, TraceError


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


def test_objects_of_plain_classes():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        a, b = Plain(x[i]), Plain(2 * x[i])
        if i > 3:
            a = b
        out[i] = a.v

    with pytest.raises(TraceError, match="is one Plain on one way to this point and another on another") as error:
        kernel[1, 8](np.zeros(8, np.float32), np.ones(8, np.float32))
    assert error.value.hint == "make Plain a dataclass: its fields are carried"
