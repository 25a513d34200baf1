"""What is annotated with a dtype has it: variables of kernels, parameters of functions with @mo.jit."""

from __future__ import annotations

from typing import Annotated, Final, Optional

import numpy as np
import pytest

import moye as mo
from moye.errors import DTypeError

BIG = np.array([2 ** 24, 0.1, 0.1], np.float32)         # whose sum float32 does not hold


def launched(kernel, *arguments, dtype=np.float64):
    out = np.zeros(4, dtype)
    with mo.checking() as reports:
        kernel[1, 1](out, *arguments)
    assert not reports[0].findings
    return out.tolist()


@mo.kernel
def summed(out, x):
    total: mo.float64 = 0
    for i in range(mo.size(x)):
        total += x[i]
    out[0] = total


@mo.jit
def product(a: mo.int64, b: np.int64 = 3, *, c: mo.int64 = 1):
    return a * b * c


@mo.kernel
def products(out, n, narrow):
    def own(a: mo.int64):
        return a * a

    i: mo.int64 = n
    out[0], out[1], out[2], out[3] = product(n, n), product(n, c=n), i * i, own(narrow[0])




@mo.kernel
def ignored(out, x):
    f = mo.fragment((2,), mo.float32)
    f.fill(x[0])
    held: mo.float64 = f                            # a tensor has its own
    a: float = 2
    b: undefined.float64 = 3                        # noqa: F821  Python does not look
    c: float64 = 4                                  # noqa: F821
    d: mo.float64
    d = 0.5
    out[0], out[1], out[2], out[3] = held.dtype == mo.float32, a, b + c, d


def test_variables():
    assert launched(summed, BIG)[0] == BIG.astype(np.float64).sum() != BIG.sum()


def test_parameters():
    n = 100_000
    assert launched(products, n, np.array([127], np.int8), dtype=np.int64) == [n * n, 3 * n * n, n * n, 127 * 127]


def test_others_as_in_python():
    assert launched(ignored, BIG) == [1, 2, 7, 0.5]


def test_numbers_that_do_not_fit():
    @mo.kernel
    def k(out):
        n: mo.uint8 = 300
        out[0] = n

    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        launched(k)


@pytest.mark.parametrize("dtype", [mo.float64, np.float64, np.dtype("float64")], ids=repr)
def test_arguments_by_dtypes_of_numpy(dtype):
    def k(out, x):
        out[0] = x

    k.__annotations__["x"] = dtype
    assert launched(mo.kernel(k), 0.1)[0] == 0.1


Wide = mo.float64


class Numbers:
    wide = mo.float64


def by_alias(out):
    total: Wide = 0
    total += 0.1
    out[0] = total


def by_attribute(out):
    total: Numbers.wide = 0
    total += 0.1
    out[0] = total


def quoted(out):
    total: "mo.float64" = 0                         # noqa: UP037
    total += 0.1
    out[0] = total


def optional(out):
    total: Optional[mo.float64] = 0                 # noqa: UP045
    total += 0.1
    out[0] = total


def or_none(out):
    total: mo.float64 | None = 0
    total += 0.1
    out[0] = total


def final(out):
    total: Final[mo.float64] = 0.1
    out[0] = total


def of_parameters(out):
    def own(a: Annotated[float, Wide], b: Wide | None = None):
        return a if b is None else a + b

    out[0] = own(0.1, 0)


@pytest.mark.parametrize("function", [by_alias, by_attribute, quoted, optional, or_none, final, of_parameters])
def test_wherever_the_dtype_stands_in_an_annotation(function):
    assert launched(mo.kernel(function))[0] == 0.1


@pytest.mark.parametrize("annotation", [
    mo.float64, "mo.float64", "'mo.float64'", "Wide", Optional[np.float64], "Optional[mo.float64]",         # noqa: UP045
    "Wide | None", Annotated[float, mo.float64], "Annotated[float, Wide]", "Union[None, 'Wide']", "Numbers.wide",
    "None | Numbers.wide"])
@pytest.mark.parametrize("kind", [mo.kernel, mo.jit])
def test_parameters_wherever_the_dtype_stands(kind, annotation):
    def function(out, s):
        out[0] = s

    function.__annotations__["s"] = annotation
    made = kind(function)
    if kind is mo.kernel:
        assert launched(made, 0.1)[0] == 0.1
        assert launched(made, 0.1)[0] == 0.1        # by its plan
    else:
        @mo.kernel
        def calls(out):
            made(out, 0.1)

        assert launched(calls)[0] == 0.1


def test_none_where_a_number_is_optional():
    @mo.kernel
    def k(out, s: Optional[mo.float64] = None):     # noqa: UP045
        out[0] = 0.25 if s is None else s

    assert [launched(k)[0], launched(k, 0.1)[0], launched(k, None)[0], launched(k, 0.1)[0]] == [0.25, 0.1, 0.25, 0.1]
    with pytest.raises(mo.ArgumentError, match=r"argument 's' is .*cannot hold"):
        launched(k, 10 ** 400)


def test_annotations_of_several_dtypes_or_of_none_ask_for_nothing():
    @mo.kernel
    def k(out, s: mo.float32 | mo.float64, t: list[mo.float64] | float, u: "no annotation at all"):     # noqa: F722
        a: mo.float32 | mo.float64 = 0.1
        out[0], out[1], out[2], out[3] = s, a, t, u

    assert launched(k, 0.1, 0.1, 0.1) == [np.float32(0.1), 0.1, np.float32(0.1), np.float32(0.1)]
