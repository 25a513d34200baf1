"""Arithmetic of 16-bit floats two elements at a time: which instructions are printed, what is fused, what stays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.ir import ops

HALF, BRAIN = np.float16, ml_dtypes.bfloat16


@mo.kernel
def each(out, x, y, fn: mo.Constexpr):
    i = mo.thread_idx().x
    rX, rY = mo.fragment((8,), x.dtype), mo.fragment((8,), y.dtype)
    mo.copyto(rX, mo.tile(x, (8,), (i,)))
    mo.copyto(rY, mo.tile(y, (8,), (i,)))
    mo.copyto(mo.tile(out, (8,), (i,)), fn(rX, rY))


def arrays(dtype):
    x = np.random.default_rng(0).uniform(0.5, 4, 256).astype(dtype)
    return np.zeros_like(x), x, x[::-1].copy()


def ptx(fn, dtype, arch="sm_90a"):
    return each.compile(*arrays(dtype), fn, block=32, arch=arch).ptx


def instructions(fn, dtype, arch="sm_90a"):
    """The packed instructions of the kernel, and what converts to float32 or rounds."""
    found = [line.split()[0] for line in ptx(fn, dtype, arch).splitlines() if line.strip()]
    found = [word.lstrip("{") for word in found]
    return sorted(word for word in found if "f16x2" in word or word.startswith("cvt."))


@pytest.mark.slow
@pytest.mark.parametrize("fn, half, brain", [
    (lambda x, y: x * y + x, "fma.rn.f16x2", "fma.rn.bf16x2"), (lambda x, y: x + y, "add.rn.f16x2", "fma.rn.bf16x2"),
    (lambda x, y: x - y, "sub.rn.f16x2", "fma.rn.bf16x2"), (lambda x, y: x * y, "mul.rn.f16x2", "fma.rn.bf16x2"),
    (lambda x, y: x * 2.0 + 1.0, "fma.rn.f16x2", "fma.rn.bf16x2"),
    (lambda x, y: mo.max(x, y), "max.f16x2", "max.bf16x2"), (lambda x, y: mo.min(x, 0.0), "min.f16x2", "min.bf16x2"),
    (lambda x, y: -x, "neg.f16x2", "neg.bf16x2"), (lambda x, y: mo.abs(x), "abs.f16x2", "abs.bf16x2"),
    (lambda x, y: mo.fma(x, y, y), "fma.rn.f16x2", "fma.rn.bf16x2"),
    (lambda x, y: mo.exp2(x, fast=True), "ex2.approx.f16x2", "ex2.approx.ftz.bf16x2"),
    (lambda x, y: mo.tanh(x, fast=True), "tanh.approx.f16x2", "tanh.approx.bf16x2")], ids=range(12))
def test_one_instruction_for_two(fn, half, brain):
    """Four for eight elements, and no conversion."""
    assert instructions(fn, HALF) == [half] * 4
    assert instructions(fn, BRAIN) == [brain] * 4


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_results(dtype):
    """Fused where documented, each other operation rounded once."""
    out, x, y = arrays(dtype)
    each[1, 32](out, x, y, lambda x, y: mo.max(x * y + x, 2.0) - y)
    wide = (x.astype(np.float64) * y.astype(np.float64) + x.astype(np.float64)).astype(np.float32).astype(dtype)
    assert (out == (np.maximum(wide, dtype(2)).astype(np.float32) - y.astype(np.float32)).astype(dtype)).all()


@mo.kernel
def folded(out, x: mo.Static, kind: mo.Constexpr, shape: mo.Constexpr, mode: mo.Constexpr):
    i = mo.thread_idx().x
    held = mo.fragment(shape, x.dtype)
    mo.copyto(held, x[:, i].with_layout(held.layout))
    found = held.reduce(kind, mode)
    out[0, i] = found if mode is None else found[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [HALF, BRAIN])
@pytest.mark.parametrize("count, packed", [(32, 16), (8, 4), (4, 2), (13, 7), (6, 3)])
def test_folds_take_two_chains_at_a_time(dtype, count, packed):
    """A packed instruction for two elements, and one or two for the chains; no conversions."""
    x = np.asfortranarray(np.zeros((count, 32), dtype))
    for kind in ("max", "sum"):
        found = folded.compile(x[:1], x, kind, (count,), None, block=32, arch="sm_90a").ptx.splitlines()
        assert sum("16x2" in line for line in found) == packed and not any("cvt." in line for line in found)


@pytest.mark.parametrize("mode", [0, 1])
def test_folds_of_a_mode_have_no_conversions(mode):
    """Neighbours along the folded mode that lie apart are packed first."""
    x = np.asfortranarray(np.zeros((32, 32), HALF))
    found = folded.compile(x[:1], x, "max", (4, 8), mode, block=32, arch="sm_90a").ptx
    assert "max.f16x2" in found and "cvt." not in found


def test_sm_80_has_no_approximations_of_bfloat16():
    assert "tanh.approx.f32" in ptx(lambda x, y: mo.tanh(x, fast=True), BRAIN, "sm_80")
    assert instructions(lambda x, y: x * y + x, BRAIN, "sm_80") == ["fma.rn.bf16x2"] * 4


def twice(x):
    return x + x


def fmas(fn, dtype=HALF):
    func = each.trace(*arrays(dtype), fn, block=32)
    return [op for op in func.body.walk() if isinstance(op, ops.Fma)]


@pytest.mark.parametrize("fn, count", [
    (lambda x, y: x * y + x, 1), (lambda x, y: x + x * y, 1), (lambda x, y: x * y - x, 1), (lambda x, y: x - x * y, 1),
    (lambda x, y: x * y + y * 2.0, 1), (lambda x, y: (x * y).to(mo.float32).to(mo.float16) + x, 0),
    (lambda x, y: (x.to(mo.float32) * y.to(mo.float32)).to(mo.float16) + x, 0), (lambda x, y: twice(x * y), 0),
    (lambda x, y: mo.max(x * y, x) + y, 0), (lambda x, y: x.to(mo.float32) * y.to(mo.float32) + 1.0, 0)], ids=range(10))
def test_what_is_contracted(fn, count):
    """A product that one sum alone takes; not through a conversion that the user wrote, and not in float32."""
    assert len(fmas(fn)) == count


def test_other_functions_keep_single_elements():
    """exp is computed in float32: the whole of the fused loop is."""
    source = each.compile(*arrays(HALF), lambda x, y: mo.exp(x * y), block=32, arch="sm_90a").source
    assert "f16x2(" not in source.replace("to_f16x2", "")


def test_numbers_take_the_dtype():
    """0.1 is a float16 beside float16, in tensors and in scalars."""
    @mo.kernel
    def kernel(out, x):
        held = mo.fragment((2,), x.dtype)
        held[0], held[1] = x[0], x[1]
        tripled = held * 0.1
        out[0], out[1] = tripled[0], x[0] * 0.1
        out[2] = x[0] / 0.1

    x, out = np.array([3, 5], HALF), np.zeros(3, HALF)
    kernel[1, 1](out, x)
    assert out.tolist() == [HALF(3) * HALF(0.1), HALF(3) * HALF(0.1), HALF(3) / HALF(0.1)]


def test_in_place_and_from_scalars():
    @mo.kernel
    def kernel(out, x, s):
        i = mo.thread_idx().x
        acc = mo.fragment((8,), x.dtype)
        mo.copyto(acc, mo.tile(x, (8,), (i,)))
        for _ in mo.range(3):
            acc += acc * s
        mo.copyto(mo.tile(out, (8,), (i,)), acc)

    out, x, _ = arrays(HALF)
    kernel[1, 32](out, x, HALF(0.5))
    want = x
    for _ in range(3):
        want = (want.astype(np.float64) * 0.5 + want.astype(np.float64)).astype(HALF)
    assert (out == want).all()
    assert "fma_f16x2(" in kernel.compile(out, x, HALF(0.5), block=32, arch="sm_90a").source


@pytest.mark.parametrize("fn, words", [(lambda x: mo.fma(1, x, 2), "int32"),
                                       (lambda x: mo.fma(mo.tfloat32(1.0), mo.tfloat32(2.0), 1.0), "tfloat32")])
def test_fma_is_of_floats(fn, words):
    @mo.kernel
    def kernel(out):
        out[0] = fn(mo.thread_idx().x)

    with pytest.raises(mo.DTypeError, match=words):
        kernel.trace(np.zeros(4, np.int32), block=32)
