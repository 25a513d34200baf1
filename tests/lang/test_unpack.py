"""Four and six bits as 16-bit floats: the bits that NumPy says, in few instructions; a product of int4 weights."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from unpack_kernels import (
    LANES,
    ROWS,
    WARPS,
    gemv_data,
    gemv_expected,
    gemv_int4,
    numbers,
    plain,
    scaled,
    several,
    six_bits,
    six_data,
)

FLOATS = [np.float16, ml_dtypes.bfloat16]
DTYPES = [mo.int4, mo.uint4, mo.float4_e2m1fn]


def words(n, seed=0):
    """Random ones, behind those of eight equal numbers."""
    found = np.random.default_rng(seed).integers(0, 1 << 32, n, dtype=np.uint32)
    found[:16] = np.arange(16, dtype=np.uint32) * 0x11111111
    return found


def same_bits(got, wanted):
    np.testing.assert_array_equal(got.view(np.uint16), wanted.astype(np.float32).astype(got.dtype).reshape(-1).view(
        np.uint16))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", FLOATS, ids=lambda t: t.__name__)
def test_every_number(to, dtype, interleaved):
    w = words(64)
    out = np.full(512, 77, to)
    report = mo.check(plain)[2, LANES](out, w, dtype, interleaved)
    assert not report.findings and not report.unsupported and not report.not_judged
    same_bits(out, numbers(w, dtype, interleaved))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", FLOATS, ids=lambda t: t.__name__)
def test_scales(to, dtype, interleaved):
    """A scale for each word; products are rounded once, infinities and NaN included."""
    w = words(128, 1)
    s = np.random.default_rng(2).standard_normal(128).astype(to)
    s[20:26] = np.array([np.inf, -np.inf, 6e4, 1e-7, 0, -0.0], to)
    out = np.full(1024, 77, to)
    scaled[2, LANES](out, w, s, None, None, dtype, interleaved)
    with np.errstate(all="ignore"):
        wanted = (numbers(w, dtype, interleaved) * s.astype(np.float64)[:, None]).astype(np.float32).astype(to)
    nan = np.isnan(wanted.astype(np.float32)).reshape(-1)
    np.testing.assert_array_equal(out.view(np.uint16)[~nan], wanted.reshape(-1).view(np.uint16)[~nan])
    assert (out.view(np.uint16)[nan] == 0x7FFF).all()
    assert nan.any()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("to", FLOATS, ids=lambda t: t.__name__)
def test_zero_points(to, interleaved):
    w, s = words(128, 3), np.ones(128, to)
    zeros = np.arange(64, dtype=np.int32) % 16
    for zero in (0, 8, 15, zeros):
        out = np.full(1024, 77, to)
        many = isinstance(zero, np.ndarray)
        scaled[2, LANES](out, w, s, zero if many else None, None if many else zero, mo.uint4, interleaved)
        less = np.repeat(zero, 2)[:, None] if many else zero
        same_bits(out, numbers(w, "uint4", interleaved) - less + 0.0)


SIX = [mo.float6_e2m3fn, mo.float6_e3m2fn]


def six_numbers(codes, dtype):
    """What ml_dtypes says of them."""
    return codes.view(getattr(ml_dtypes, str(dtype))).astype(np.float32)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", SIX, ids=str)
@pytest.mark.parametrize("to", FLOATS, ids=lambda t: t.__name__)
def test_every_number_of_six_bits(to, dtype, padded):
    """All 64, dense and padded, one group a thread and several, with a scale for each."""
    for groups in (1, 2):
        count = 2 * LANES * groups * (4 if padded else 16)
        codes, w = six_data(count, padded)
        out = np.full(count, 77, to)
        report = mo.check(six_bits)[2, LANES](out, w, None, dtype, padded, groups)
        assert not report.findings and not report.unsupported and not report.not_judged
        same_bits(out, six_numbers(codes, dtype))
        s = np.random.default_rng(5).standard_normal(2 * LANES * groups).astype(to)
        six_bits[2, LANES](out, w, s, dtype, padded, groups)
        exact = six_numbers(codes, dtype) * np.repeat(s.astype(np.float32), 4 if padded else 16)
        same_bits(out, exact)


@pytest.mark.slow
@pytest.mark.parametrize(("to", "dtype", "padded", "most"), [
    (np.float16, SIX[0], False, 56), (ml_dtypes.bfloat16, SIX[0], False, 56), (np.float16, SIX[1], False, 48),
    (ml_dtypes.bfloat16, SIX[1], False, 56), (np.float16, SIX[0], True, 40), (ml_dtypes.bfloat16, SIX[0], True, 40),
    (np.float16, SIX[1], True, 28), (ml_dtypes.bfloat16, SIX[1], True, 40),
], ids=str)
def test_instructions_for_sixteen_numbers(to, dtype, padded, most):
    """As written by hand, and two constants that ptxas makes again: those of five groups less those of one."""
    def count(groups):
        each, of = (4, 1) if padded else (16, 3)
        out, w = np.zeros(each * groups * LANES, to), np.zeros(of * groups * LANES, np.uint32)
        sass = six_bits.compile(out, w, None, dtype, padded, groups, block=LANES, arch="sm_90a").sass
        return sum(bool(COUNTED.search(line)) for line in sass.splitlines())
    found = (count(9) - count(1)) / (2 if padded else 8)
    assert most - 1 <= found <= most + 2


COUNTED = re.compile(r"\b(LOP3|PRMT|SHF|HADD2|HMUL2|HFMA2|I2F|I2FP|F2F|F2FP|I2I|IMAD|MOV)\b")


def instructions(to, how, scale=None):
    """For one word more: those of five words less those of one, without loads and stores."""
    def count(n):
        out, w = np.zeros((LANES, 8 * n), to), np.zeros((LANES, n), np.uint32)
        sass = several.compile(out, w, n, how, scale, block=LANES, arch="sm_90a").sass
        return sum(bool(COUNTED.search(line)) for line in sass.splitlines())
    return (count(5) - count(1)) / 4


@pytest.mark.slow
@pytest.mark.parametrize(("to", "interleaved", "most"), [
    (np.float16, False, 13.5), (np.float16, True, 9.5), (ml_dtypes.bfloat16, False, 13), (ml_dtypes.bfloat16, True, 11),
], ids=str)
def test_instructions_for_eight_numbers(to, interleaved, most):
    """12, 9, 13 and 11 as written by hand, and constants that ptxas makes again; four more for a scale."""
    assert instructions(to, interleaved) <= most
    assert instructions(to, interleaved, np.ones(1, to)) <= most + 4


@pytest.mark.slow
@pytest.mark.parametrize("to", FLOATS, ids=lambda t: t.__name__)
def test_instructions_without_tricks(to):
    assert instructions(to, None) >= 20


def test_gemv():
    y, weights, scales, x = gemv_data(32, 2048)
    report = mo.check(gemv_int4)[32 // (WARPS * ROWS), WARPS * LANES](y, weights, scales, x)
    assert not report.findings and not report.unsupported
    np.testing.assert_allclose(y, gemv_expected(weights, scales, x), rtol=1e-4, atol=1e-3)


def test_gemv_loads_128_bits():
    compiled = gemv_int4.compile(*gemv_data(32, 2048), block=WARPS * LANES, arch="sm_90a")
    assert compiled.spills == 0
    assert compiled.sass.count("LDG.E.128") >= 5


@pytest.mark.parametrize(("options", "message"), [
    ({"dtype": mo.int8}, "unpack of int8: it takes int4, uint4, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn"),
    ({"dtype": mo.float6_e2m3fn}, "unpack of float6_e2m3fn: 16 numbers are in 3 words, and there are 1"),
    ({"dtype": mo.float6_e3m2fn, "padded": True, "zero": 1}, "unpack of float6_e3m2fn has no zero"),
    ({"dtype": mo.float6_e3m2fn, "interleaved": True}, "unpack of float6_e3m2fn: 6 bits are not interleaved"),
    ({"padded": True}, "unpack of int4: 4 bits are not padded"),
    ({"to": mo.float32}, "unpack to float32: it makes float16 and bfloat16"),
    ({"zero": 3}, "unpack of int4 has no zero"),
    ({"dtype": mo.uint4, "zero": 16}, "the zero 16 is not from 0 to 15"),
    ({"dtype": mo.uint4, "zero": 1.5}, "zero=1.5, which is no integer"),
    ({"scale": 2.5}, None),
])
def test_refused(options, message):
    dtype, to = options.get("dtype", mo.int4), options.get("to", mo.float16)
    zero, scale = options.get("zero"), options.get("scale")
    padded, interleaved = options.get("padded", False), options.get("interleaved", False)

    @mo.kernel
    def kernel(out, w):
        f = mo.unpack(w[0], dtype, to, zero=zero, scale=scale, padded=padded, interleaved=interleaved)
        out[0] = f[0].to(mo.float16)

    out, w = np.zeros(1, np.float16), np.array([3], np.uint32)
    if message is None:
        kernel[1, 1](out, w)
        assert out[0] == 7.5
        return
    with pytest.raises(mo.MoyeError, match=re.escape(message)):
        kernel[1, 1](out, w)


def test_a_scale_of_another_dtype_is_refused():
    @mo.kernel
    def kernel(out, w, s):
        out[0] = mo.unpack(w[0], mo.int4, mo.float16, scale=s[0])[0]

    with pytest.raises(mo.DTypeError, match="is no scalar of float16"):
        kernel[1, 1](np.zeros(1, np.float16), np.zeros(1, np.uint32), np.zeros(1, np.float32))


@pytest.mark.parametrize("dtype", DTYPES + SIX, ids=str)
def test_there_are_no_scalars_below_a_byte(dtype):
    @mo.kernel
    def converted(out, w):
        out[0] = w[0].to(dtype).to(mo.float32)

    @mo.kernel
    def constant(out, w):
        out[0] = dtype(1).to(mo.float32)

    for kernel in (converted, constant):
        with pytest.raises(mo.DTypeError, match=f"a scalar of {dtype}: numbers narrower than a byte are only in words"):
            kernel[1, 1](np.zeros(1, np.float32), np.zeros(1, np.uint32))
