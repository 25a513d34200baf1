"""Kernels that convert register tensors, the values they are fed, and what must come out, bit for bit.

In: nothing.  Out: ``convert_kernel``, ``tf32_kernel``, ``patterns``, ``expected``, ``bits``.

>>> outs = run(dt.float32); bits(outs[dt.float16])

The oracle works in float64, where every format here has room to round without help: multiply, ``rint``, multiply.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from exact_conversions import FORMATS
from moye import dtypes as dt
from ops_kernels import CASTABLE, numpy_of

THREADS, EACH = 64, 8
BLOCK = THREADS * EACH
NARROW = (dt.float16, dt.bfloat16, dt.float8_e4m3fn, dt.float8_e5m2)
SOURCES = CASTABLE
ARRAYS = tuple(d for d in CASTABLE if d != dt.tfloat32)


@mo.kernel
def convert_kernel(outs, x, source):
    """outs[j] = x, first as ``source`` (tfloat32 is no dtype of an array), then as the dtype of outs[j]."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    gX = mo.tile(x, (EACH,), (i,))                      # (8,)
    regs = mo.make_fragment_like(gX)
    mo.copyto(regs, gX)
    values = regs.to(source)
    for out in outs:
        mo.copyto(mo.tile(out, (EACH,), (i,)), values.to(out.dtype))


@mo.kernel
def tf32_kernel(out, x):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    gX = mo.tile(x, (EACH,), (i,))
    regs = mo.make_fragment_like(gX)
    mo.copyto(regs, gX)
    mo.copyto(mo.tile(out, (EACH,), (i,)), mo.tfloat32(regs).to(mo.float32))


@mo.kernel
def narrow_kernel(out, x, y):
    """One 128-bit store of 8 or 16 results, scaled and with a residual."""
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    each = 128 // out.dtype.bits
    gX, gY = (mo.tile(t, (each,), (i,)) for t in (x, y))
    acc, residual = mo.make_fragment_like(gX), mo.make_fragment_like(gY)
    mo.copyto(acc, gX)
    mo.copyto(residual, gY)
    mo.copyto(mo.tile(out, (each,), (i,)), (acc * 0.5 + residual).to(out.dtype))


@mo.kernel
def activation_kernel(out, x, name: mo.Constexpr, options: mo.Constexpr):
    """``mo.<name>`` of register tensors; options are (keyword, value) pairs."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    gX = mo.tile(x, (EACH,), (i,))
    regs = mo.make_fragment_like(gX)
    mo.copyto(regs, gX)
    mo.copyto(mo.tile(out, (EACH,), (i,)), getattr(mo, name)(regs, **dict(options)))


# --- values ----------------------------------------------------------------------------------------------------------


def all_of(dtype):
    """Every value of a float of 8 or 16 bits, by pattern."""
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}").view(numpy_of(dtype))


def grid(name):
    """Every finite value >= 0 of a format of at most 16 bits, in order."""
    mantissa, smallest, largest, _ = FORMATS[name]
    exponents = np.arange(smallest, int(np.log2(largest)) + 1)
    normal = np.ldexp(1 + np.arange(1 << mantissa) / (1 << mantissa), exponents[:, None]).ravel()
    small = np.ldexp(np.arange(1 << mantissa) / (1 << mantissa), smallest)
    found = np.concatenate([small, normal])
    return found[found <= largest]


def ties(name):
    """Midpoints between neighbours of a format, as float64."""
    values = grid(name)
    return (values[1:] + values[:-1]) / 2


def _floats(rng, dtype, n):
    """Ties of every format and their neighbours, limits, NaNs, infinities, subnormals, and random bit patterns."""
    made = np.concatenate([np.concatenate([grid(name)[:600], ties(name)[:600], ties(name)[-300:], grid(name)[-300:]])
                           for name in FORMATS])
    with np.errstate(over="ignore"):
        near = made.astype(numpy_of(dtype))
    near = np.concatenate([np.nextafter(near, near.dtype.type(0)), near, np.nextafter(near, near.dtype.type(np.inf))])
    edges = np.array([0, 1e-45, 1.17549435e-38, 448, 464, 465, 57344, 61440, 65504, 65519.996, 65520, 3.3895e38,
                      3.4028234e38, 127.5, 128, 255.9, 256, 32768, 65536, 2.0**31, 2.0**63, 2.0**64, np.inf, np.nan])
    size = near.dtype.itemsize
    quiet = np.array([0x7FC01234, 0xFFC00001, 0x7F800001, 0x7FFFFFFF], "u4").view("f4")
    random = rng.integers(0, 1 << (8 * size - 1), n, f"u{size}", endpoint=True).view(near.dtype)
    with np.errstate(all="ignore"):
        positive = np.concatenate([edges.astype(near.dtype), quiet.astype(near.dtype), near, random])
        sign = np.where(rng.integers(0, 2, len(positive)) > 0, 1, -1).astype(near.dtype)
        return np.concatenate([edges.astype(near.dtype), -edges.astype(near.dtype), np.copysign(positive, sign)])


def _integers(rng, dtype, n):
    info = np.iinfo(numpy_of(dtype))
    shifted = rng.integers(info.min, info.max, n, numpy_of(dtype), endpoint=True) >> rng.integers(
        0, dtype.bits, n).astype(numpy_of(dtype))
    return np.concatenate([np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], shifted.dtype), shifted])


def patterns(source, n=1 << 14):
    """Values of a dtype for an array, a multiple of ``BLOCK``: all there are, or a dense set."""
    rng = np.random.default_rng(source.bits)
    kept = dt.float32 if source is dt.tfloat32 else source
    if kept is dt.bool_:
        found = rng.integers(0, 2, n).astype(bool)
    elif kept.is_integer:
        found = _integers(rng, kept, n)
    else:
        found = all_of(kept) if kept.bits <= 16 else _floats(rng, kept, n)
    return np.resize(found, -(-len(found) // BLOCK) * BLOCK)


# --- what must come out ----------------------------------------------------------------------------------------------


def rounded(x, name):
    """Float64 values at the nearest value of a format, ties to even (tfloat32: away from zero)."""
    mantissa, smallest, largest, saturates = FORMATS[name]
    with np.errstate(invalid="ignore"):
        x = np.asarray(x, np.float64)
    size = np.abs(x)
    finite = np.isfinite(size)
    exponent = np.maximum(np.frexp(np.where(finite, size, 1))[1] - 1, smallest)
    steps = np.ldexp(np.where(finite, size, 0), mantissa - exponent)
    away = np.floor(steps) + (steps - np.floor(steps) >= 0.5)   # (steps + 0.5 would round)
    with np.errstate(over="ignore"):
        whole = np.ldexp(away if name == "tfloat32" else np.rint(steps), exponent - mantissa)
    whole = np.where(whole > largest, largest if saturates else np.inf, whole)
    whole = np.where(np.isinf(size), largest if saturates else np.inf, whole)
    return np.copysign(np.where(np.isnan(x), np.nan, whole), x)


def bits(array):
    """Bit patterns, every NaN as one."""
    whole = array.view(f"u{array.dtype.itemsize}")
    if array.dtype.kind in "iub":
        return whole
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(array), whole.dtype.type(~whole.dtype.type(0)), whole)


def run(source, x=None, run_kernel=None):
    """dtype -> what the simulator makes of ``patterns(source)`` for every other dtype; tfloat32 kept as float32."""
    x = patterns(source) if x is None else x
    outs = {d: np.zeros(len(x), numpy_of(d)) for d in ARRAYS if d is not source}
    launch = run_kernel or (lambda kernel, *args: kernel[len(x) // BLOCK, THREADS](*args))
    made = launch(convert_kernel, tuple(outs.values()), x, source)
    outs = dict(zip(outs, made, strict=True)) if made is not None else outs
    if source is not dt.tfloat32:
        out = np.zeros(len(x), np.float32)
        made = launch(tf32_kernel, out, x)
        outs[dt.tfloat32] = out if made is None else made
    return x, outs
