"""Python's operators in a kernel on what has no arithmetic of its own: bools count as int32, narrow floats as float32.

What a float of 8 or 16 bits holds is computed in float32 and rounded once, and float8 saturates; the numbers are drawn
from all patterns, so that some results lie beyond the largest one.
"""

from __future__ import annotations

import operator

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from exact_conversions import rounded

COUNT = 128
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
          "float8_e5m2": ml_dtypes.float8_e5m2}


@mo.kernel
def each(out, a, b, step: mo.Constexpr):
    i = mo.thread_idx().x
    out[i] = step(a[i], b[i])


def found(out, a, b, step):
    assert (report := mo.check(each, lints=False)[1, len(a)](out, a, b, step)).ok, report
    return out


@pytest.mark.parametrize("sign", ["+", "-", "*", "&", "|", "^"])
def test_operators_of_bools(sign):
    """Sums, differences and products are integers; & | ^ are bools."""
    a, b = np.arange(COUNT) % 2 == 0, np.arange(COUNT) % 3 == 0
    if sign in BITS:
        np.testing.assert_array_equal(found(np.zeros(COUNT, bool), a, b, BITS[sign]), BITS[sign](a, b))
        return
    wanted = ARITHMETIC[sign](a.astype(np.int32), b.astype(np.int32))
    np.testing.assert_array_equal(found(np.zeros(COUNT, np.int32), a, b, ARITHMETIC[sign]), wanted)


@pytest.mark.parametrize("sign", ARITHMETIC)
@pytest.mark.parametrize("name", NARROW)
def test_operators_of_narrow_floats(name, sign):
    dtype, rng = np.dtype(NARROW[name]), np.random.default_rng(len(name))
    pattern = f"u{dtype.itemsize}"
    a, b = (rng.integers(0, 1 << 8 * dtype.itemsize, COUNT).astype(pattern).view(dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        exact = ARITHMETIC[sign](a.astype(np.float32), b.astype(np.float32))
    wanted = [x if np.isnan(x) else rounded(float(x), name) for x in exact.tolist()]
    got = found(np.zeros(COUNT, dtype), a, b, ARITHMETIC[sign]).astype(np.float64)
    np.testing.assert_array_equal(got, np.array(wanted, np.float64))
