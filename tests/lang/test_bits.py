"""prmt, lop3 and funnel shifts: against Python's integers, on words and on register tensors."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from inline_kernels import N, bit_data, bits, bits_expected


def test_words():
    out, a, b, c = bit_data()
    bits[1, N](out, a, b, c)
    np.testing.assert_array_equal(out, bits_expected(a, b, c))


@pytest.mark.parametrize("table", range(0, 256, 15))
def test_every_table_is_the_function_of_its_bits(table):
    @mo.kernel
    def kernel(out):
        out[0] = mo.lop3(0xF0, 0xCC, 0xAA, table)

    out = np.zeros(1, np.uint32)
    kernel[1, 1](out)
    assert out[0] & 255 == table


def test_one_instruction_each():
    compiled = bits.compile(*bit_data(), block=N, arch="sm_90a")
    sass = compiled.sass
    assert sass.count("PRMT") >= 2
    assert compiled.source.count("lop3.b32 %0, %1, %2, %3, 0xea;") == 1
    assert "shf.l.clamp.b32" in compiled.source


def test_register_tensors():
    @mo.kernel
    def kernel(out, a):
        r = mo.fragment((4,), mo.uint32)
        mo.copyto(r, mo.tile(a, (4,), (mo.thread_idx().x,)))
        mo.copyto(mo.tile(out, (4,), (mo.thread_idx().x,)), mo.prmt(r, 0, 0x0123) ^ mo.lop3(r, r, 1, 0x96))

    a = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint32)
    out = np.zeros(64, np.uint32)
    kernel[1, 16](out, a)
    np.testing.assert_array_equal(out, a.byteswap() ^ 1)
    assert kernel.compile(out, a, block=16, arch="sm_90a").spills == 0


def test_refused():
    @mo.kernel
    def wide(out, a):
        out[0] = mo.prmt(a[0], a[0], 0)

    with pytest.raises(mo.DTypeError, match="prmt is for integers of 32 bits, not int64"):
        wide[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.int64))

    @mo.kernel
    def table(out, a):
        out[0] = mo.lop3(a[0], a[0], a[0], 256)

    with pytest.raises(mo.TraceError, match="the table 256 of a function of three bits"):
        table[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))

    @mo.kernel
    def function(out, a):
        out[0] = mo.lop3(a[0], a[0], a[0], lambda a: a)

    with pytest.raises(mo.TraceError, match="is no function of three integers that gives one"):
        function[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))


@pytest.mark.parametrize("function", [lambda a, b, c: a + b, lambda a, b, c: a and b, lambda a, b, c: a if b else c,
                                      lambda a, b, c: a < b, lambda a, b, c: a << 1])
def test_a_function_that_is_not_of_bits(function):
    @mo.kernel
    def kernel(out, a):
        out[0] = mo.lop3(a[0], a[0], a[0], function)

    with pytest.raises(mo.TraceError, match="does not take each bit by itself"):
        kernel[1, 1](np.zeros(1, np.uint32), np.zeros(1, np.uint32))
