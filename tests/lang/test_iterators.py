"""Conditions of the kernel under Python's own iteration: what the iterator will give is the same in both arms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from written import written


def launched(body):
    out, x = np.zeros(8, np.int32), np.arange(1, 9, dtype=np.int32)

    @mo.kernel
    def kernel(out, x):
        out[mo.thread_idx().x] = body(x, mo.thread_idx().x)

    kernel[1, 8](out, x)
    return out.tolist()


ITERATED = [
    "range(8)", "mo.static_range(8)", "range(8, 1, -2)", "[3, 1, 4]", "(3, 1, 4)", "{1, 5}", "{2: 0, 6: 0}",
    "{1: 3, 2: 4}.values()", "reversed([3, 1])", "reversed({2: 0, 6: 0})", "(i * i for i in range(3))",
    "map(abs, (-1, 2))", "itertools.chain((1, 5), range(3))", "itertools.islice(range(9), 3, 6)",
    "filter(None, range(3))", "(i + j for i, j in zip(range(2), {4: 0, 5: 0}))",
    "(i + j for i, j in enumerate(range(3)))", "(i * j for i, j in itertools.product(range(3), range(2)))",
    "(i + j for i, j in itertools.pairwise(range(4)))", "(i * j for i, j in {1: 3, 2: 4}.items())",
]


@pytest.mark.parametrize("made", ITERATED)
def test_conditions_under_iterators(made):
    text = f"sum(v if v < t else 0 for v in {made})"
    names = {"itertools": itertools}
    assert launched(written(text, "x, t", names)) == [eval(text, {"t": t, "mo": mo, **names}) for t in range(8)]
    text = f"sum([x[v % 8] if v < t and v != 2 else 1 for v in {made}])"
    expected = [eval(text, {"t": t, "x": range(1, 9), "mo": mo, **names}) for t in range(8)]
    assert launched(written(text, "x, t", names)) == expected


@pytest.mark.parametrize("made", [
    iter(range(5)), iter({1: 2}), iter({3}), iter([3]), zip([1], [2], strict=True), reversed([1, 2])])
def test_iterators_that_an_arm_moves_on(made):
    @mo.jit
    def body(x, t):
        found, it = 0, made
        if t > 3:
            found = 1
            next(it)
        return found

    with pytest.raises(TraceError, match="moves on in a loop or branch"):
        launched(body)


class OfIndices:
    """Python asks it for 0, 1, ... until it raises IndexError."""

    def __init__(self, value):
        self.value = value

    def __getitem__(self, k):
        if k >= 3:
            raise IndexError(k)
        return self.value + k


def test_objects_that_have_indices_alone():
    @mo.kernel
    def k(out, x):
        i, total = mo.thread_idx().x, 0
        for item in OfIndices(x[i]):
            if item > 6:
                break
            total += item
        out[i] = total

    out = np.zeros(8, np.int32)
    k[1, 8](out, np.arange(8, dtype=np.int32))
    assert out.tolist() == [sum(n for n in (i, i + 1, i + 2) if n < 7) for i in range(8)]
