"""Arithmetic of 8 and 16 bits that loses bits which matter: told where C++ would have kept them, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

LARGE, SMALL = np.full(64, 200, np.uint8), np.full(64, 5, np.uint8)


@mo.kernel
def apply(out, x, function: mo.Constexpr):
    out[mo.thread_idx().x] = function(x, mo.thread_idx().x)


@mo.jit
def _checksum(x, i):
    total = mo.uint8(17)
    for k in range(3):
        total = total * 31 + x[i + k]
    return total.to(mo.int32)


LOSES = {
    "a negative": lambda x, i: (-x[i]).to(mo.int32),
    "a mean": lambda x, i: (x[i] + x[i + 1] + x[i + 2]) / 3,
    "a rounded mean": lambda x, i: (x[i] + x[i + 1] + 1) >> 1,
    "an absolute difference": lambda x, i: mo.abs(x[i] * 1 - x[i] - x[i + 1]),
    "a word of bytes": lambda x, i: x[i] << 8 | x[i + 1],
    "a weighted sum": lambda x, i: 0.5 * (x[i] * x[i + 1]),
    "a sum that is widened too late": lambda x, i: (x[i] + x[i + 1]).to(mo.int32),
    "an order": lambda x, i: mo.where(x[i] + x[i + 1] > x[i], 1, 0),
    "a quotient": lambda x, i: (x[i] + x[i + 1]) // 2,
}
KEEPS = {
    "bytes stay bytes": lambda x, i: x[i] + x[i + 1] * 3,
    "widened before": lambda x, i: (x[i].to(mo.int32) + x[i + 1]) / 2,
    "the low bits alone": lambda x, i: (x[i] + x[i + 1] & 15) / 2,
    "a bit pattern": lambda x, i: (x[i] ^ x[i + 1]).to(mo.int32) << 8,
    "an equality": lambda x, i: mo.where(x[i] + x[i + 1] == 144, 1, 0),
    "a checksum, of which a variable of C++ has the same bits": _checksum,
    "what is not chosen": lambda x, i: mo.where(x[i] > 250, (x[i] + x[i + 1]) / 2, 0.0),
}


@pytest.mark.parametrize("name", LOSES)
def test_lost_bits_are_told(name):
    out = np.zeros(32, np.float32)
    report = mo.check(apply)[1, 32](out, LARGE, LOSES[name])
    assert [finding.code for finding in report.findings][:1] == ["A11"], report
    assert "does not fit 8 bits" in str(report.findings[0])
    assert report.findings[0].hint == "compute it in 32 bits, as C++ does: an operand.to(mo.int32)"
    small = SMALL * 0 if name in ("a word of bytes", "an absolute difference", "a negative") else SMALL
    assert mo.check(apply)[1, 32](out, small, LOSES[name]).ok


@pytest.mark.parametrize("name", KEEPS)
def test_bits_that_nobody_needs_are_not(name):
    whole = np.uint8 if "bytes" in name else np.float32
    report = mo.check(apply)[1, 32](np.zeros(32, whole), LARGE, KEEPS[name])
    assert report.ok, report


def test_a_number_that_all_threads_have():
    @mo.kernel
    def alike(out, a: mo.uint8, b: mo.uint8):
        out[mo.thread_idx().x] = (a + b) / 2

    found = mo.check(alike)[1, 32](np.zeros(32, np.float32), 200, 100).findings
    assert [finding.code for finding in found] == ["A11"]
    assert "= 300, which does not fit 8 bits" in str(found[0])
    out = np.zeros(32, np.float32)
    assert mo.check(alike)[1, 32](out, 100, 100).ok
    assert out[0] == 100


def test_register_tensors():
    @mo.kernel
    def blurred(out, x):
        tid = mo.thread_idx().x
        a, b = mo.fragment((4,), x.dtype), mo.fragment((4,), x.dtype)
        mo.copyto(a, mo.tile(x, (4,), (tid,)))
        mo.copyto(b, mo.tile(x, (4,), (tid + 4,)))
        mo.copyto(mo.tile(out, (4,), (tid,)), ((a + b) // 2).to(mo.float32))

    found = mo.check(blurred)[1, 8](np.zeros(64, np.float32), LARGE).findings
    assert [finding.code for finding in found] == ["A11"]
    assert mo.check(blurred)[1, 8](np.zeros(64, np.float32), SMALL).ok


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_numbers_that_look_like_what_nothing_has_set(dtype):
    @mo.kernel
    def doubled(out, x):
        i = mo.thread_idx().x
        out[i] = (x[i] * 4).to(mo.int64)

    out = np.zeros(32, np.int64)
    found = mo.check(doubled)[1, 32](out, np.full(32, 0x7F7F7F7F).astype(dtype)).findings
    assert [finding.code for finding in found] == ["A11"]
    assert mo.check(doubled)[1, 32](out, np.full(32, 3, dtype)).ok


def test_registers_that_nothing_has_set_and_nobody_uses():
    @mo.kernel
    def masked(out, x, n):
        i = mo.thread_idx().x
        held = mo.fragment((2,), x.dtype)
        mo.copyto(held, mo.tile(x, (2,), (i,), ragged=True), pred=mo.elem_less(mo.tile(mo.identity_tensor((n,)), (2,),
                                                                                       (i,), ragged=True), (n,)))
        total = (held[0] + held[1]).to(mo.int32)
        if 2 * i + 1 < n:
            out[i] = total

    out = np.zeros(32, np.int32)
    assert mo.check(masked)[1, 32](out, np.full(41, 5, np.int8), 41).ok
    assert (out[:20] == 10).all()
    found = mo.check(masked)[1, 32](out, np.full(41, 100, np.int8), 41).findings
    assert [finding.code for finding in found] == ["A11"]


@pytest.mark.parametrize("function", [lambda x: mo.abs(x), lambda x: -x, lambda x: x // -1])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_the_least_number_has_no_opposite(function, dtype):
    @mo.kernel
    def opposite(out, x):
        i = mo.thread_idx().x
        out[i] = function(x[i])

    out, x = np.zeros(32, np.int32), np.full(32, -100, dtype)
    assert mo.check(opposite)[1, 32](out, x).ok
    x[3] = np.iinfo(dtype).min
    found = mo.check(opposite)[1, 32](out, x).findings
    assert [finding.code for finding in found] == ["A11"]
    assert mo.check(opposite)[1, 32](np.zeros(32, dtype), x).ok


def test_the_least_number_that_all_threads_have():
    @mo.kernel
    def opposites(out, x: mo.int8):
        out[0], out[1] = -x, mo.abs(x)

    assert mo.check(opposites)[1, 1](np.zeros(2, np.int32), -127).ok
    assert [finding.code for finding in mo.check(opposites)[1, 1](np.zeros(2, np.int32), -128).findings] == ["A11"] * 2
