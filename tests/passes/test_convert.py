"""Conversions of 8-bit elements on their own: which Maps are split, and that values stay bit for bit the same."""

import numpy as np
import pytest

import moye as mo
from convert_kernels import all_of, bits, patterns
from moye import dtypes as dt
from moye.cuda.printing.printer import print_kernel
from moye.ir import ops
from moye.passes.convert import packed_conversion
from ops_kernels import numpy_of

FLOAT8 = (dt.float8_e4m3fn, dt.float8_e5m2)


@mo.kernel
def scaled(out, x, scale, each: mo.Constexpr, step: mo.Constexpr):
    """``each`` elements a thread, every ``step``-th of a fragment."""
    tid = mo.thread_idx().x
    regs = mo.fragment((each,), x.dtype)
    mo.copyto(regs, mo.tile(x, (each,), (tid,)))
    made = mo.fragment((step, each), out.dtype)
    made[0, :][...] = regs * scale
    mo.copyto(mo.tile(out, (each,), (tid,)), made[0, :])


@mo.kernel
def quantised(out, x):
    """Down to 8 bits and back within one expression, and a select that needs the 8-bit value itself."""
    tid = mo.thread_idx().x
    regs = mo.fragment((8,), x.dtype)
    mo.copyto(regs, mo.tile(x, (8,), (tid,)))
    for k in mo.range(2):
        small = (regs * 0.5).to(mo.float8_e4m3fn)
        regs[...] = small.to(mo.float32) + mo.where(small > 0, small, 0).to(mo.float32)
        if k == 1:
            regs[...] = regs * 2
    mo.copyto(mo.tile(out, (8,), (tid,)), regs)


def maps(func):
    return [op for op in func.body.walk() if isinstance(op, ops.Map)]


@pytest.mark.parametrize("target", (*FLOAT8, dt.int8, dt.uint8), ids=str)
@pytest.mark.parametrize(("each", "step", "call"), [(8, 1, "x4("), (12, 1, "x4("), (6, 1, "x2("), (5, 1, ""),
                                                    (1, 1, ""), (8, 2, "")], ids=str)
def test_words_pairs_or_neither(target, each, step, call):
    """Fours where neighbours come in fours, pairs where in twos, one by one where they are apart or odd."""
    x = mo.TensorLike(dt.float32, (32 * each,))
    func = scaled.trace(mo.TensorLike(target, (32 * each,)), x, 0.5, each, step, block=32)
    alone = [op for op in maps(func) if packed_conversion(op)]
    assert len(alone) == bool(call)
    source = print_kernel(func).source
    body = source[source.index("extern"):]
    name = {"int8": "to_s8", "uint8": "to_u8"}.get(target.name, f"to_{target.cuda}")
    if call:
        assert name + call in body and f"{name}(" not in body
    else:
        assert f"{name}x" not in body


@pytest.mark.parametrize("each", [8, 6, 5])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("target", (*FLOAT8, dt.int8, dt.uint8), ids=str)
def test_narrowed_values(target, each, step):
    x = np.resize(patterns(dt.float32)[::7], 32 * each)
    x[np.isnan(x)] = 0
    out = np.zeros(32 * each, numpy_of(target))
    scaled[1, 32](out, x, 0.5, each, step)
    with np.errstate(all="ignore"):
        half = x * np.float32(0.5)
        if target in FLOAT8:
            largest = {8: 448, 16: 57344}[8 if target is dt.float8_e4m3fn else 16]
            wanted = np.clip(half, -largest, largest).astype(out.dtype)
        else:
            info = np.iinfo(out.dtype)
            wanted = np.clip(np.trunc(half), info.min, info.max).astype(out.dtype)
    np.testing.assert_array_equal(bits(out), bits(wanted))


@pytest.mark.parametrize("source", FLOAT8, ids=str)
@pytest.mark.parametrize("each", [8, 2, 5])
def test_widened_values(source, each):
    """Read as float16 before the product, which is one of float32."""
    x = np.resize(all_of(source), 160 * each)
    out = np.zeros(len(x), np.float32)
    scaled[1, 160](out, x, 1.0, each, 1)
    np.testing.assert_array_equal(bits(out), bits(x.astype(np.float32)))
    func = scaled.trace(out, x, 1.0, each, 1, block=160)
    widened = [op for op in maps(func) if packed_conversion(op) and op.dst.dtype is dt.float16]
    assert len(widened) == (each % 2 == 0)


def test_within_an_expression():
    """Inside a loop; what reads the 8-bit tile twice reads it as float16."""
    x = np.resize(np.linspace(-600, 600, 97), 256).astype(np.float32)
    out = np.zeros_like(x)
    quantised[1, 32](out, x)
    wanted = x
    for k in range(2):
        small = np.clip(wanted * np.float32(0.5), -448, 448).astype(numpy_of(dt.float8_e4m3fn)).astype(np.float32)
        wanted = (small + np.where(small > 0, small, 0)) * np.float32(1 + k)
    np.testing.assert_array_equal(out, wanted)
    program = quantised.compile(out, x, block=32, arch="sm_90a")
    assert program.spills == program.stack == 0 and "to_e4m3x4(" in program.source


def test_other_conversions_stay():
    """From float64 and 32-bit integers there is no packed instruction."""
    for source in (dt.float64, dt.int32):
        func = scaled.trace(mo.TensorLike(dt.int8, (256,)), mo.TensorLike(source, (256,)), 2, 8, 1, block=32)
        assert not any(packed_conversion(op) for op in maps(func))
