"""Static values that Python takes for equal, and kernels do not: 0.0 and -0.0, 1 and 1.0 and True."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest

import moye as mo
from moye.lang.likeness import same_value
from moye.lang.signature import StaticSpec
from moye.runtime.fast_launch import _key_function
from moye.runtime.leaves import kind_of

GLOBAL: object = 0
PAIRS = [(0.0, -0.0), (1, 1.0), (1, True), (np.float32(0.0), np.float32(-0.0))]


@dataclass(frozen=True)
class Record:
    number: object


@mo.kernel
def of_argument(out, z: mo.Constexpr):
    z = z.number if isinstance(z, Record) else z() if callable(z) else z
    z = z[0] if isinstance(z, tuple) else z
    out[0] = mo.float32(z) * -1
    out[1] = 1 if isinstance(z, bool) else 2 if isinstance(z, int) else 3


@mo.kernel
def of_global(out):
    out[0] = mo.float32(GLOBAL) * -1
    out[1] = 1 if isinstance(GLOBAL, bool) else 2 if isinstance(GLOBAL, int) else 3


def result(kernel, *arguments):
    out = np.full(2, np.nan, np.float32)
    kernel[1, 1](out, *arguments)
    return repr(out.tolist())


def expected(number):
    kind = 1.0 if isinstance(number, bool) else 2.0 if isinstance(number, int) else 3.0
    return repr([float(np.float32(number) * np.float32(-1)), kind])


def closure(number):
    return lambda: number


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x,), Record, lambda x: Record((x,)), closure],
                         ids=["itself", "tuple", "record", "record of a tuple", "closure"])
def test_arguments(pair, wrapped):
    for number in (*pair, *pair):
        assert result(of_argument, wrapped(number)) == expected(number)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("wrapped", [lambda x: x, Record], ids=["itself", "record"])
def test_globals(pair, wrapped, monkeypatch):
    @mo.kernel
    def of_record(out):
        z = GLOBAL.number
        out[0] = mo.float32(z) * -1
        out[1] = 1 if isinstance(z, bool) else 2 if isinstance(z, int) else 3

    for number in (*pair, *pair):
        monkeypatch.setattr(sys.modules[__name__], "GLOBAL", wrapped(number))
        assert result(of_record if wrapped is Record else of_global) == expected(number)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_the_short_way_of_a_launch_tells_them_apart(pair):
    """What a GPU's second launch looks up."""
    for wrapped in (lambda x: x, Record):
        a, b = map(wrapped, pair)
        key = _key_function(["a0"], [kind_of(StaticSpec(a, a), a)])
        assert type(a) is not type(b) or key((a,)) != key((b,))
        assert key((a,)) == key((wrapped(pair[0]),))


def test_nan_is_one_value():
    """It is unequal to itself, but needs no kernel of its own at each launch."""
    assert same_value(float("nan"), float("nan"))
    specialised = len(of_argument._specialised)
    for _ in range(3):
        result(of_argument, float("nan"))
    assert len(of_argument._specialised) == specialised + 1


@pytest.mark.parametrize("given", [np.float32, np.dtype("float32"), mo.float32], ids=repr)
def test_dtypes_of_numpy_are_dtypes(given):
    """As they are where a kernel makes memory of them."""
    @mo.kernel
    def typed(out, dtype):
        assert dtype is mo.float32
        out[0] = dtype(0.1).to(mo.float64)

    out = np.zeros(1)
    typed[1, 1](out, given)
    assert out[0] == np.float32(0.1)
    with pytest.raises(mo.ArgumentError, match=r"argument 'dtype' is a numpy\.dtypes\.StrDType"):
        typed[1, 1](out, np.dtype("U3"))


@pytest.mark.parametrize(("given", "expected"), [
    (np.int8(100), 300), (np.uint8(200), 600), (np.uint32(2), 6), (np.float16(60000), 180000), (np.bool_(True), 3),
    (np.int64(5), 15), (np.float64(0.5), 1.5)], ids=repr)
def test_numbers_of_numpy_are_python_numbers(given, expected):
    """NumPy's own wrap: np.int8(100) * 3 is 44."""
    @mo.kernel
    def tripled(out, n: mo.Constexpr):
        assert type(n) in (int, float, bool)
        out[0] = n * 3
        out[1] = n + n + n

    out = np.zeros(2)
    tripled[1, 1](out, given)
    tripled[1, 1](out, given)
    assert (out == expected).all()
