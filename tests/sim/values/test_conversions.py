"""Conversions in the simulator, bit for bit: every 8- and 16-bit pattern upward, ties and random patterns downward."""

import math
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from convert_kernels import NARROW, SOURCES, all_of, bits, grid, patterns, rounded, run, ties
from exact_conversions import FORMATS, converted
from exact_conversions import rounded as exactly
from moye import dtypes as dt
from moye.ir.constants import cast_literal
from moye.ir.nodes import Literal
from moye.sim.values import scalars

WIDE = tuple(d for d in SOURCES if d.bits >= 32 and d.is_float)


@cache
def converted_by_kernel(source):
    return run(source)


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")


def as_double(x):
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def as_tf32(x):
    """Float32 as tfloat32: as ``rounded``, and a NaN none of whose kept bits is set becomes infinite."""
    lost = np.isnan(x) & (x.view(np.uint32) & 0x7FE000 == 0)
    return np.where(lost, np.copysign(np.inf, x), rounded(as_double(x), "tfloat32"))


def decoded(pattern, name):
    """The value of one bit pattern, by the definition of the format."""
    mantissa, smallest, _, _ = FORMATS[name]
    width = {"float16": 5, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 5}[name]
    field, fraction = pattern >> mantissa & (1 << width) - 1, pattern & (1 << mantissa) - 1
    sign = -1.0 if pattern >> (mantissa + width) else 1.0
    if name == "float8_e4m3fn":
        if pattern & 0x7F == 0x7F:
            return np.nan
    elif field == (1 << width) - 1:
        return np.nan if fraction else sign * np.inf
    return sign * (fraction + ((field > 0) << mantissa)) * 2.0 ** (max(field, 1) - 1 + smallest - mantissa)


@pytest.mark.parametrize("source", NARROW, ids=str)
def test_every_pattern_upward(source):
    """All 2^8 or 2^16 values, exactly, through a kernel's register tensors."""
    x, outs = converted_by_kernel(source)
    count = 1 << source.bits
    wanted = np.array([decoded(p, source.name) for p in range(count)])
    np.testing.assert_array_equal(bits(x)[:count], bits(all_of(source)))
    np.testing.assert_array_equal(bits(outs[dt.float32][:count]), bits(wanted.astype(np.float32)))
    np.testing.assert_array_equal(bits(outs[dt.float64][:count]), bits(wanted))


@pytest.mark.slow
@pytest.mark.parametrize("target", (*NARROW, dt.tfloat32), ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_rounded_once(source, target):
    """To nearest, ties to even (tfloat32: away); subnormals, infinities and saturation included."""
    if source is target:
        return
    x, outs = converted_by_kernel(source)
    exact = as_tf32(x) if source is dt.tfloat32 else x
    if exact.dtype.kind in "iu" and exact.dtype.itemsize == 8:
        wanted = np.array([exactly(int(v), target.name) for v in exact])
    elif (source, target) == (dt.float32, dt.tfloat32):
        wanted = as_tf32(x)
    else:
        wanted = rounded(as_double(exact), target.name)
    np.testing.assert_array_equal(bits(as_double(outs[target])), bits(wanted))


@pytest.mark.parametrize("target", (*NARROW, dt.tfloat32), ids=str)
def test_oracle(target):
    """The vectorised rounding of these tests against fractions."""
    for x in [*as_double(patterns(dt.float32)[:300]).tolist(), *patterns(dt.float64)[-200:].tolist()]:
        a, b = rounded(x, target.name), exactly(x, target.name)
        assert a == b or (np.isnan(a) and np.isnan(b)) or abs(b) > 1e38, x


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_every_tie(target):
    """Between all neighbours of the format, and one float64 step to either side."""
    values = grid(target.name)
    middle = ties(target.name)
    even = np.where(np.arange(len(middle)) % 2, values[1:], values[:-1])
    below, above = np.nextafter(middle, 0), np.nextafter(middle, np.inf)
    for x, wanted in ((middle, even), (below, values[:-1]), (above, values[1:])):
        for sign in (1, -1):
            found = as_double(scalars.cast(sign * x, dt.float64, target))
            np.testing.assert_array_equal(found, sign * wanted)


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_ml_dtypes_agree(target):
    """Where nothing saturates, the conversion of NumPy and ml_dtypes is the same."""
    x = patterns(dt.float32)
    x = x[np.abs(x) <= FORMATS[target.name][2]]
    wanted = x.astype(scalars.numpy_dtype(target))
    np.testing.assert_array_equal(bits(scalars.cast(x, dt.float32, target)), bits(wanted))


@pytest.mark.parametrize(("target", "largest"), [(dt.float8_e4m3fn, 448), (dt.float8_e5m2, 57344)], ids=str)
def test_float8_saturates(target, largest):
    x = np.array([largest, largest * 1.01, 1e30, np.inf], np.float32)
    for sign in (1, -1):
        np.testing.assert_array_equal(scalars.cast(sign * x, dt.float32, target).astype(np.float32), sign * largest)


def test_nan_patterns():
    """The canonical NaN, whatever the sign and the payload were; tfloat32 drops the lower bits of it."""
    x = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    for target, nan in ((dt.float16, 0x7FFF), (dt.bfloat16, 0x7FFF), (dt.float8_e4m3fn, 0x7F), (dt.float8_e5m2, 0x7F)):
        with np.errstate(invalid="ignore"):
            made = scalars.cast(x, dt.float32, target)
        np.testing.assert_array_equal(made.view(f"u{target.bytes}"), nan)
    tf32 = scalars.cast(x, dt.float32, dt.tfloat32).view(np.uint32)
    np.testing.assert_array_equal(tf32, [0x7FC00000, 0xFFC00000, 0x7F800000, 0x7FFFE000])


@pytest.mark.parametrize("target", [d for d in SOURCES if d.is_integer], ids=str)
@pytest.mark.parametrize("source", [d for d in SOURCES if d.is_float], ids=str)
def test_floats_to_integers_saturate(source, target):
    x, outs = converted_by_kernel(source)
    exact = as_double(as_tf32(x) if source is dt.tfloat32 else x)
    sample = slice(None, None, 7 if len(x) > 4096 else 1)
    wanted = [converted(float(v), source, target) for v in exact[sample]]
    assert np.isnan(exact[sample]).any()
    np.testing.assert_array_equal(outs[target][sample], np.array(wanted, outs[target].dtype))


def test_what_a_nan_becomes():
    """PTX ISA, cvt: 0, but from float64 or to 64 bits the top bit alone; 8 and 16 bits come of a clamped int32."""
    signed, unsigned = (dt.int8, dt.int16, dt.int32, dt.int64), (dt.uint8, dt.uint16, dt.uint32, dt.uint64)
    for source, small in ((dt.float16, 0), (dt.float32, 0), (dt.float64, 1)):
        nan = np.full(1, np.nan, source.name)
        lows = [-(1 << (d.bits - 1)) * (small or d.bits == 64) for d in signed]
        tops = [(1 << (d.bits - 1)) * ((small and d.bits == 32) or d.bits == 64) for d in unsigned]
        for target, wanted in zip((*signed, *unsigned), (*lows, *tops), strict=True):
            assert int(scalars.cast(nan, source, target)[0]) == wanted, f"{source} to {target}"
            assert cast_literal(Literal(math.nan, source), target).value == wanted, f"{source} to {target}"


@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float8_e4m3fn, dt.float8_e5m2], ids=str)
def test_bits_that_the_host_passes(dtype):
    """Every pattern gives itself, and numbers between two of them what ml_dtypes rounds them to."""
    kind = getattr(ml_dtypes, dtype.name)
    every = np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}")
    values = every.view(kind).astype(np.float64)
    sure = np.isfinite(values)
    assert [dt.bits_of(x, dtype) for x in values[sure].tolist()] == every[sure].tolist()
    drawn = np.random.default_rng(0).standard_normal(3000).astype(np.float32) * np.float32(10.0) ** 2
    assert [dt.bits_of(x, dtype) for x in drawn.tolist()] == drawn.astype(kind).view(every.dtype).tolist()
    assert np.isnan(np.array([dt.bits_of(math.nan, dtype)], every.dtype).view(kind).astype(np.float32)).all()
