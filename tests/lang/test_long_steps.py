"""Loops whose step behind the last turn would leave 32 bits: they end, and others are printed as before."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel
from moye.errors import DTypeError, SimulationError
from written import block

MOST = 2**31 - 1


def counted(bounds, n=0, annotation=""):
    """The turns that a loop makes, and its line in CUDA C++."""
    text = f"total = mo.int64(0)\nfor i in range({bounds}):\n    out[0] = out[0] + 1\n    total += i\nout[1] = total"
    kernel = mo.kernel(block(text, f"out, n{annotation}"))
    out = np.zeros(2, np.int64)
    kernel[1, 1](out, n)
    source = print_kernel(kernel.trace(out, n, block=1), arch="sm_90a").source
    return out.tolist(), next(line.strip() for line in source.splitlines() if "for (" in line)


@pytest.mark.parametrize(("bounds", "n"), [
    ("0, 2000000000, 1500000000", 0), ("0, n, 1500000000", 2000000000), (f"{MOST - 7}, {MOST}, 5", 0),
    ("-2000000000, n, -1000000000", -(2**31)), (f"{-MOST}, {-MOST - 1}, -1", 0),
    ("0, n, 1 << 24", MOST), ("0, 3000000000, 1500000000", 0), ("0, 5, 3000000000", 0), ("5, n, 1 << 30", 5)])
def test_loops_that_would_wrap(bounds, n):
    (turns, total), line = counted(bounds, n)
    expected = eval(f"range({bounds})", {"n": n})
    assert (turns, total) == (len(expected), sum(expected))
    assert line.startswith("for (long long i = ") or "-1" in bounds


@pytest.mark.parametrize(("bounds", "printed"), [
    ("n", "for (int i = 0; i < n; ++i) {"), ("0, n, 256", "for (int i = 0; i < n; i += 256) {"),
    ("n, 0, -7", "for (int i = n; i > 0; i -= 7) {"), ("n, 5, 1 << 30", "for (int i = n; i < 5; i += 1073741824) {"),
    ("0, 2000000000, 500000000", "for (int i = 0; i < 2000000000; i += 500000000) {"),
    ("mo.thread_idx().x, n, mo.grid_dim().x * 256", "for (int i = 0; i < n; i += (int)gridDim.x * 256) {")])
def test_plain_loops_are_as_they_were(bounds, printed):
    assert counted(bounds, 3)[1] == printed


def test_the_variable_stays_an_int32():
    assert re.search(r"a int32", counted_dtype("range(0, n, 1 << 30)"))
    assert re.search(r"a int64", counted_dtype("range(0, 1 << 40, 1 << 30)"))


def counted_dtype(loop):
    kernel = mo.kernel(block(f"for i in {loop}:\n    assert i.dtype == mo.float32, f'a {{i.dtype}}'", "out, n"))
    with pytest.raises(mo.TraceError) as error:
        kernel[1, 1](np.zeros(1, np.int32), 3)
    return str(error.value)


@pytest.mark.parametrize(("bounds", "mended", "n", "annotation"), [
    ("n - 5, n, 3", "mo.int64(n) - 5, n, 3", MOST, ""), ("0, n, 1 << 20", "mo.int64(0), n, 1 << 20", MOST, ""),
    ("0, n, 1 << 62", "0, n - 1, 1 << 62", 2**62 + 1, ": mo.int64")])
def test_the_checker_tells_of_others(bounds, mended, n, annotation):
    with pytest.raises(SimulationError, match="A11") as error:
        counted(bounds, n, annotation)
    assert "the step behind its last turn" in error.value.hint
    assert counted(mended, n, annotation)[0][0] == len(eval(f"range({mended})", {"n": n, "mo": Plain}))


class Plain:
    int64 = int


def test_bounds_of_more_than_64_bits():
    with pytest.raises(DTypeError, match="does not fit int64") as error:
        counted("1 << 70")
    assert error.value.hint == "no integer of a kernel has more than 64 bits"
