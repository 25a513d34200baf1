"""The dtype in which two values meet: the table of docs/kernel-language.md, and all pairs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt

PAGE = (Path(__file__).parents[2] / "docs" / "kernel-language.md").read_text()
EXAMPLES = re.findall(r"(\w+) \+ (\w+) = (\w+)", PAGE[PAGE.index("| dtypes | meet in |"):].partition("\n\n")[0])
DTYPES = [dt.bool_, dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float8_e4m3fn,
          dt.float8_e5m2, dt.float16, dt.bfloat16, dt.float32, dt.float64]


FOUND = []


def note(*values):
    """A plain function: it runs while tracing."""
    FOUND[:] = [value.dtype for value in values]


def met(a, b):
    """The dtypes that a sum, a product and a choice of values of two dtypes have in a kernel."""
    @mo.kernel
    def kernel(out, x, y):
        p, q = x.to(a), y.to(b)
        note(p + q, p * q, mo.where(x > y, p, q))

    kernel.trace(np.zeros(1, np.float32), 1, 2, block=1)
    return list(FOUND)


@pytest.mark.parametrize(("a", "b", "both"), EXAMPLES)
def test_examples_of_the_page(a, b, both):
    a, b, both = dt.BY_NAME[a], dt.BY_NAME[b], dt.BY_NAME[both]
    for first, second in ((a, b), (b, a)):
        total, product, chosen = met(first, second)
        assert total is product is both
        assert chosen is both or first is second is dt.bool_


def by_the_page(a, b):
    """What the rows of the table say, in order."""
    if a is b:
        return dt.int32 if a is dt.bool_ else a
    if dt.bool_ in (a, b):
        return b if a is dt.bool_ else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float or a.kind is b.kind:
        return dt.float32 if a.bits == b.bits else max(a, b, key=lambda x: x.bits)
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return signed if signed.bits > unsigned.bits else unsigned


def test_all_pairs():
    assert len(EXAMPLES) >= 14
    for a in DTYPES:
        for b in DTYPES:
            assert met(a, b)[:2] == [by_the_page(a, b)] * 2, f"{a} with {b}"


def test_results_wrap_as_the_page_says():
    x, y, out = np.full(1, -3, np.int8), np.full(1, 1, np.uint8), np.zeros(1, np.int32)

    @mo.kernel
    def kernel(out, x, y):
        out[0] = x[0] + y[0]

    kernel[1, 1](out, x, y)
    assert out[0] == 254
    kernel[1, 1](out, x.astype(np.int16), y)
    assert out[0] == -2
