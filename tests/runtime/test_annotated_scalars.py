"""``s: mo.uint32``: the annotation of a scalar parameter is its dtype, and values that it cannot hold are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt


@mo.kernel
def shifted(y, seed: mo.uint32):
    y[mo.thread_idx().x] = mo.int64(seed >> 31)


@mo.kernel
def scaled(y, factor: mo.float64):
    y[mo.thread_idx().x] = mo.float32(factor * 3)


def kernel_of(annotation):
    def k(y, s):
        y[0] = mo.float32(s)
    k.__annotations__["s"] = annotation
    return mo.kernel(k)


def test_unsigned_numbers_beyond_int32():
    y = np.zeros(32, np.int64)
    for value in (2**32 - 1, np.int64(2**31), np.uint32(2**31)):
        shifted[1, 32](y, value)
        assert (y == 1).all()
    shifted[1, 32](y, True)
    assert (y == 0).all()
    assert "unsigned seed" in shifted.compile(y, 7, block=32, arch="sm_90a").source
    assert not shifted.why_recompiled()


def test_a_float64_keeps_its_digits():
    text = scaled.trace(np.zeros(32, np.float32), 1 / 3, block=32)
    assert [p.value.dtype for p in text.params if not hasattr(p, "buffer")] == [mo.float64]


@pytest.mark.parametrize(("annotation", "value"), [
    (mo.uint32, -1), (mo.uint32, 2**32), (mo.int8, 128), (mo.int8, np.int32(-129)), (mo.uint8, 1.0), (mo.int32, 0.5),
    (mo.float32, 1e39), (mo.float16, 65536), (dt.bool_, 2), (mo.int32, "3"), (mo.uint32, np.zeros(2, np.uint32)),
    (mo.int64, 2**63), (mo.float8_e4m3fn, math.inf), (mo.float64, 10**400), ("mo.uint16", -3), ("uint16", 65536),
    (mo.int32, None)])
def test_refused(annotation, value):
    y = np.zeros(1, np.float32)
    with pytest.raises(mo.ArgumentError, match="argument 's' is"):
        kernel_of(annotation)[1, 1](y, value)


@pytest.mark.parametrize(("annotation", "value", "expected"), [
    (mo.float32, 3, 3.0), (mo.float32, math.inf, math.inf), (mo.int8, -128, -128.0), (mo.uint8, np.uint8(255), 255.0),
    (dt.bool_, True, 1.0), (dt.bool_, 0, 0.0), (mo.uint64, 2**63, 2.0**63), ("mo.uint16", 65535, 65535.0),
    (mo.float16, 0.5, 0.5), (mo.int16, np.float32(2) > 1, 1.0)])
def test_converted(annotation, value, expected):
    y = np.zeros(1, np.float32)
    kernel_of(annotation)[1, 1](y, value)
    assert y[0] == expected
