"""Conditions in comprehensions choose items while tracing: what tracing knows does, all else is refused."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from written import written


def launched(body, n=3):
    """What each of eight threads stores, of eight numbers."""
    body = written(body, "x, t, n") if isinstance(body, str) else body
    out, x = np.zeros(8, np.float32), np.arange(1, 9, dtype=np.float32)

    @mo.kernel
    def kernel(out, x, n):
        out[mo.thread_idx().x] = body(x, mo.thread_idx().x, n)

    kernel[1, 8](out, x, n)
    return out.tolist()


KNOWN = [
    "sum([x[i] for i in mo.static_range(8) if i % 2])",
    "sum(x[i] * j for i in range(4) for j in range(3) if j != i if i > 0)",
    "sum(x[i] for i in range(8) if 2 < i < 5 or i == 7)",
    "sum(x[i] for i in range(8) if not i & 1 and i in (2, 4, 5))",
    "max(x[i] for i in range(4) if i and i != 3)",
    "min(x[i] for i in range(4) if i is not None and i > 1)",
    "sum({i: x[i] for i in range(8) if i in (2, 3)}.values())",
    "sum({i // 2 for i in range(8) if i > 3})",
    "sum([y for i in range(8) if (y := i * i) > 9])",
    "sum([y for i in range(8) if i > 2 and (y := i * i) < 40])",
    "sum(sum(x[j] for j in range(i) if j % 2) for i in range(5) if i > 1)",
    "sum(map(lambda i: x[i], filter(lambda i: i % 2, range(8))))",
    "sum(x[i] for i in range(8) if (i if i > 3 else 0))",
]


@pytest.mark.parametrize("body", KNOWN)
def test_conditions_that_tracing_knows(body):
    x = np.arange(1, 9, dtype=np.float32)
    assert launched(body) == [float(eval(body, {"x": x, "t": 0, "n": 3, "mo": mo}))] * 8


@pytest.mark.parametrize(("body", "expected"), [
    ("any(x[i] > 7 for i in range(8) if not i % 3)", 0),
    ("all(x[i] > 1 for i in range(8) if i > 1)", 1),
    ("sum(x[i] for i in range(8) if t // 8 == 0)", 36),         # facts decide
    ("sum(x[i] for i in range(8) if t < 8 and i > 6)", 8)])
def test_truths_and_facts(body, expected):
    assert launched(body) == [expected] * 8


ASKED = [
    "sum(x[i] for i in mo.static_range(8) if i < t)",
    "sum(1 for i in range(8) if x[i] > 3)",
    "len([i for i in range(8) if t == i])",
    "len({i for i in range(8) if i > 2 and i != n})",
    "len({i: 1 for i in range(8) if 2 < i < n})",
    "max(x[i] for i in range(8) if i in (1, n))",
    "any(x[i] > 1 for i in range(8) if not x[i])",
    "len([y for i in range(8) if (y := x[i]) > n])",
    "len([y for i in range(8) if i and (y := x[i]) and y > 2])",
]


@pytest.mark.parametrize("body", ASKED)
def test_conditions_that_only_the_kernel_knows(body):
    with pytest.raises(TraceError) as error:
        launched(body)
    assert error.value.hint.startswith("keep every item, as in sum(x[i] if c else 0 for ...)")


def test_what_the_hint_says():
    x = np.arange(1, 9)
    assert launched("sum(x[i] if i < t else 0 for i in range(8))") == [x[:t].sum() for t in range(8)]
    assert launched("any(i < t and x[i] > 2 for i in range(8))") == [t > 2 for t in range(8)]

    @mo.jit
    def counted(x, t, n):
        found = 0
        for i in range(8):
            if x[i] > n:
                found += 1
        return found

    assert launched(counted) == [5] * 8


def test_in_a_plain_function():
    def plain(x, t, n):
        return sum(x[i] for i in range(8) if i < t)

    with pytest.raises(TraceError) as error:
        launched(plain)
    assert error.value.hint.startswith("keep every item")
