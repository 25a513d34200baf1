"""Variables where two ways meet: a dtype that holds the numbers of both ways, and zeros that keep their sign."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo

WIDER = [("uint8", "int32"), ("uint8", "int16"), ("uint32", "int64"), ("int8", "int64"), ("uint16", "uint64"),
         ("float16", "float32"), ("bfloat16", "float64"), ("float32", "float64"), ("float16", "float64")]
APART = [("int8", "uint8"), ("int32", "uint32"), ("int8", "uint64"), ("int32", "float64"), ("bool", "int32"),
         ("uint8", "float32")]


def ends(name):
    """Numbers of a dtype, the least and the largest among them."""
    if name == "bool":
        return np.array([False, True] * 4)
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return np.array([low, high, 0, 1, low, high, 3, high // 2], kind)
    most = ml_dtypes.finfo(kind).max
    return np.array([most, -most, 0.0, -0.0, 1 / 3, 1e-5, np.inf, 7], kind)


@mo.kernel
def branch(out, a, b, n):
    i = mo.thread_idx().x
    if i < n:
        x = a[i]
    else:
        i = mo.thread_idx().x
        x = b[i]
    out[i] = x


@mo.kernel
def once(out, a, b, n):
    i = mo.thread_idx().x
    x = b[i]
    if i < n:
        x = a[i]
    out[i] = x


@mo.kernel
def loop(out, a, b, n):
    i = mo.thread_idx().x
    x = b[i]
    for _ in range(n):
        if i < n:
            x = a[i]
    out[i] = x


@mo.kernel
def function(out, a, b, n):
    i = mo.thread_idx().x

    def chosen():
        if i >= n:
            return b[i]
        return a[i]

    out[i] = chosen()


@mo.kernel
def container(out, a, b, n):
    i = mo.thread_idx().x
    x = [b[i], 0]
    if i < n:
        x[0] = a[i]
    out[i] = x[0]


KERNELS = [branch, once, loop, function, container]


@pytest.mark.parametrize("narrow, wide", WIDER)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_the_wider_dtype_holds_both(kernel, narrow, wide):
    for first, second in ((narrow, wide), (wide, narrow))[:2 if kernel is branch else 1]:
        a, b = ends(first), ends(second)
        out = np.zeros(8, ends(wide).dtype)
        report = mo.check(kernel)[1, 8](out, a, b, 5)
        assert report.ok, report
        expected = np.where(np.arange(8) < 5, a.astype(out.dtype), b.astype(out.dtype))
        assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("a, b", APART)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_what_no_dtype_of_the_two_holds_is_refused(kernel, a, b):
    for first, second in ((a, b), (b, a)):
        with pytest.raises(mo.TraceError, match=f"{first}|{second}"):
            kernel.trace(np.zeros(8), ends(first), ends(second), 5, block=8)


def test_the_printed_conversion_compiles():
    source = branch.compile(np.zeros(8), np.zeros(8, np.float16), np.zeros(8), 5, block=8, arch="sm_90a").source
    assert "double" in source


@mo.kernel
def zeros(out, n):
    i = mo.thread_idx().x
    x, pair, box = 0.0, (0.0, 1), [-0.0]
    if n < 0:
        x, pair = -x, (-0.0, 1)
        box[0] = 0.0
    out[i, 0], out[i, 1], out[i, 2] = x, pair[0], box[0]
    out[i, 3] = -0.0 if n < 0 else 0.0


@pytest.mark.parametrize("n", [1, -1])
def test_zeros_keep_their_sign(n):
    out = np.ones((4, 4), np.float32, order="F")
    assert mo.check(zeros)[1, 4](out, n).ok
    assert (np.signbit(out) == [n < 0, n < 0, n > 0, n < 0]).all() and not out.any()


# --- functions that each turn of a loop makes anew -------------------------------------------------------------------


@mo.kernel
def makes_functions(out, a, way: mo.Constexpr):
    """The first turn is decided by facts, so that the loop begins with the functions of that turn."""
    turn, total = a[0] % 5, 0
    while turn < 5:
        turn += 1
        if way == "def":
            def once(q, by=3):
                return q * by + turn                            # noqa: B023
        else:
            once = lambda q: q * 3 + turn                       # noqa: B023, E731

        def twice(q):
            return once(once(q))                                # noqa: B023
        total += twice(1)
    out[0] = total


@pytest.mark.parametrize("way", ["def", "lambda"])
def test_functions_of_a_loop(way):
    out = np.zeros(1, np.int32)
    assert mo.check(makes_functions)[1, 1](out, np.array([2], np.int32), way).ok
    assert out[0] == sum(3 * (3 + turn) + turn for turn in (3, 4, 5))


@mo.kernel
def other_functions(out, a):
    def step(q):
        return q + 1
    for turn in range(a[0]):
        out[0] = step(turn)
        def step(q):
            return q + 2


def test_another_function_is_refused():
    with pytest.raises(mo.TraceError, match="'step' changes its structure"):
        other_functions[1, 1](np.zeros(1, np.int32), np.array([2], np.int32))
