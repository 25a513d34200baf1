"""Arithmetic of 16-bit floats on register tensors, and ``mo.fma``, for ``CASES``: equal bit by bit to exact arithmetic.

In: nothing.  Out: cases in ``CASES``; ``fused`` and ``rounded``, exact references by fractions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import THREADS, add, numpy_of, poison

KINDS = ("add", "sub", "mul", "min", "max", "neg", "abs", "muladd", "mulsub", "submul", "scaled", "mixed", "alone")


def twice(x):
    return x + x


def formula(m, kind, x, y, z, s):
    """One expression; ``m`` has min, max and abs."""
    found = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "min": lambda: m.min(x, y),
             "max": lambda: m.max(x, y), "neg": lambda: -x, "abs": lambda: m.abs(x), "muladd": lambda: x * y + z,
             "mulsub": lambda: x * y - z, "submul": lambda: z - x * y, "scaled": lambda: x * s + 0.1,
             "mixed": lambda: m.max((x + y) * 2.0 - z, y) * s, "alone": lambda: twice(x * y)}
    return found[kind]()


@mo.kernel
def halves_kernel(out, x, y, z, s, kinds: mo.Constexpr):
    """Eight elements a thread, as words; and the last of them alone."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    rX, rY, rZ = (mo.fragment((8,), x.dtype) for _ in range(3))
    for fragment, source in ((rX, x), (rY, y), (rZ, z)):
        mo.copyto(fragment, mo.tile(source, (8,), (i,)))
    for j in mo.static_range(len(kinds)):
        mo.copyto(mo.tile(out[:, j], (8,), (i,)), formula(mo, kinds[j], rX, rY, rZ, s))


@mo.kernel
def odd_kernel(out, x, y):
    """Elements that do not fill words: three of them, every other one, and one for all."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    rX, rY = mo.fragment((8,), x.dtype), mo.fragment((8,), x.dtype)
    mo.copyto(rX, mo.tile(x, (8,), (i,)))
    mo.copyto(rY, mo.tile(y, (8,), (i,)))
    three = mo.tile(rX, (3,), (0,), ragged=True) * mo.tile(rY, (3,), (1,), ragged=True)
    every = rX.with_layout(mo.make_layout(4, 2)) + rY.with_layout(mo.make_layout(4))
    repeated = rX + rY.with_layout(mo.make_layout(8, 0))
    shifted = rX.with_layout(mo.make_layout((4, 2), (1, 4))) * rY.with_layout(mo.make_layout((4, 2), (2, 1)))
    rX += rY
    for j in mo.static_range(3):
        out[j, i] = three[j]
    for j in mo.static_range(4):
        out[3 + j, i] = every[j]
    for j in mo.static_range(8):
        out[7 + j, i] = repeated[j]
        out[15 + j, i] = shifted[j % 4, j // 4]
        out[23 + j, i] = rX[j]


@mo.kernel
def fma_kernel(out, x, y, z):
    """Of scalars, of the same for all threads, and of register tensors."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        rX, rY, rZ = (mo.fragment((1,), x.dtype) for _ in range(3))
        rX[0], rY[0], rZ[0] = x[i], y[i], z[i]
        out[i, 0] = mo.fma(x[i], y[i], z[i])
        out[i, 1] = mo.fma(rX, rY, rZ)[0]
        out[i, 2] = mo.fma(x[0], y[1], 0.1)
        out[i, 3] = mo.fma(x[i], 2, -z[i])


DIGITS = {"float8_e4m3fn": (4, -9), "float8_e5m2": (3, -16), "float16": (11, -24), "bfloat16": (8, -133),
          "float32": (24, -149), "float64": (53, -1074)}


def rounded(exact: Fraction, dtype) -> float:
    """An exact number as a float of the dtype: to nearest, ties to even; numbers that overflow are not asked for."""
    digits, least = DIGITS[dtype.name]
    if exact == 0:
        return 0.0
    power = abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length()
    unit = Fraction(2) ** max(power - digits, least)
    while abs(exact) / unit >= 2**digits:
        unit *= 2
    while abs(exact) / unit < 2 ** (digits - 1) and unit > Fraction(2) ** least:
        unit /= 2
    return float(round(exact / unit) * unit)


def fused(x, y, z, dtype):
    """x * y + z by fractions, one element after the other."""
    found = [rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype)
             for a, b, c in zip(*(np.asarray(v, np.float64).ravel() for v in (x, y, z)), strict=True)]
    return np.array(found).reshape(np.shape(x)).astype(numpy_of(dtype))


class NumPy:
    min, max, abs = staticmethod(np.minimum), staticmethod(np.maximum), staticmethod(np.abs)


def halves(kind, x, y, z, s, dtype):
    """The expressions with their products and sums fused as moye documents it."""
    array = numpy_of(dtype)

    def single(value):
        return np.asarray(value).astype(array)
    wide = [np.asarray(v).astype(np.float32) for v in (x, y, z)]
    if kind == "muladd":
        return fused(x, y, z, dtype)
    if kind in ("mulsub", "submul"):
        return fused(x, y, -z, dtype) if kind == "mulsub" else fused(-x, y, z, dtype)
    if kind == "scaled":
        return fused(x, np.full_like(x, s), np.full_like(x, array.type(0.1)), dtype)
    if kind == "alone":                                 # one product, used twice, stays one
        return single(single(wide[0] * wide[1]).astype(np.float32) * 2)
    if kind == "mixed":
        total = single(wide[0] + wide[1])
        doubled = fused(total, np.full_like(total, 2), -z, dtype)
        return single(np.maximum(doubled, y).astype(np.float32) * np.float32(array.type(s)))
    return single(formula(NumPy, kind, *wide, s))


def _halves(args):
    out, x, y, z, s, kinds = args
    dtype = dt.from_name(str(x.dtype))
    wanted = out.copy()
    for j, kind in enumerate(kinds):
        wanted[:, j] = halves(kind, x, y, z, s, dtype)
    return {0: wanted}


def _odd(args):
    _, x, y = args
    dtype = x.dtype
    x, y = (v.reshape(-1, 8).T for v in (x, y))

    def of(a, b, sign):
        a, b = a.astype(np.float32), b.astype(np.float32)
        return (a + b if sign == "+" else a * b).astype(dtype)
    return {0: np.concatenate([of(x[:3], y[3:6], "*"), of(x[::2], y[:4], "+"), of(x, y[:1], "+"),
                               of(x, y[[0, 2, 4, 6, 1, 3, 5, 7]], "*"), of(x, y, "+")])}


def _fma(args):
    _, x, y, z = args
    dtype = dt.from_name(str(x.dtype))
    constant = rounded(Fraction(0.1), dtype)
    one = fused(x[:1], y[1:2], np.array([constant]), dtype)
    columns = [fused(x, y, z, dtype)] * 2 + [np.repeat(one, len(x)), fused(x, np.full_like(x, 2), -z, dtype)]
    return {0: np.stack(columns, 1)}


def _numbers(rng, shape, dtype):
    """Numbers of many sizes; products and sums stay finite."""
    span = {"float8_e4m3fn": 2, "float8_e5m2": 4, "float16": 5, "bfloat16": 20}.get(dtype.name, 30)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-span, span // 2 + 1, shape)).astype(numpy_of(dtype))


for _d in (dt.float16, dt.bfloat16):
    add(f"halves-{_d}", halves_kernel, lambda rng, n, d=_d: [
        np.asfortranarray(poison((8 * n, len(KINDS)), d)), *(_numbers(rng, 8 * n, d) for _ in range(3)),
        numpy_of(d).type(1.5), KINDS], _halves, sizes=(128,))
    add(f"halves-odd-{_d}", odd_kernel, lambda rng, n, d=_d: [
        poison((31, n), d), *(_numbers(rng, 8 * n, d) for _ in range(2))], _odd, sizes=(128,))
for _d in (dt.float8_e4m3fn, dt.float8_e5m2, dt.float16, dt.bfloat16, dt.float32, dt.float64):
    add(f"fma-{_d}", fma_kernel, lambda rng, n, d=_d: [
        poison((n, 4), d), *(_numbers(rng, n, d) for _ in range(3))], _fma)
