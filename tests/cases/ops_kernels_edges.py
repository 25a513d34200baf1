"""The edges of the scalar operations, for ``CASES``: where C++, PTX, NumPy and Python disagree, and moye decides.

In: nothing.  Out: cases in ``CASES``: saturation, double rounding, ties, floors of floats, far shifts.
"""

from __future__ import annotations

import math

import numpy as np

import moye as mo
from exact_conversions import converted
from inline_kernels import N, bit_data, bits, bits_expected, expected, snippet_data, snippets
from moye import dtypes as dt
from ops_kernels import CASTABLE, INTEGERS, THREADS, add, numpy_of, poison


@mo.kernel
def edge_cast_kernel(outs, x):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        for out in outs:
            out[i] = x[i].to(out.dtype)


@mo.kernel
def edge_tf32_kernel(out, x):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        out[i] = x[i].to(mo.tfloat32).to(mo.float32)


@mo.kernel
def constants_kernel(outs, numbers: mo.Constexpr):
    """Literals are rounded as values are."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    for out in outs:
        for j in mo.static_range(len(numbers)):
            out[i, j] = out.dtype(numbers[j])


@mo.kernel
def float_floor_kernel(out, a, b):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        out[i, 0] = a[i] // b[i]
        out[i, 1] = a[i] % b[i]
        out[i, 2] = a[i] // 0.5
        out[i, 3] = -3.5 % b[i]


@mo.kernel
def shift_kernel(out, a, n):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        out[i, 0] = a[i] << n[i]
        out[i, 1] = a[i] >> n[i]
        out[i, 2] = a[i] * 0 if a.dtype in (dt.int32, dt.int64) else a[i] << 70     # where it does not overflow
        out[i, 3] = a[i] >> 70


# Ties and their neighbours at every width of mantissa, both sides of every limit.
_TIES = [s * (1 + k * 2.0**-m + e) * 2.0**x for s in (1, -1) for m in (3, 4, 8, 9, 11, 12) for k in (1, 3)
         for e in (0, 2.0**-30, -(2.0**-30)) for x in (0, 5, -13)]
_LIMITS = [s * x for s in (1, -1) for x in (0.0, 0.99, 126.5, 127.5, 128.5, 255.5, 256.5, 447.9, 448.0, 464.0, 465.0,
                                            1e3, 32767.5, 32769.0, 57344.0, 61440.0, 61441.0, 65519.9, 65520.0, 65536.5,
                                            1e6, 1e30, math.inf)]
_LARGE = [s * ((1 << x) + k * (1 << (x - m)) + e) for s in (1, -1) for x in (30, 40, 62) for m in (3, 4, 8, 9, 11)
          for k in (1, 3) for e in (0, 1, -1)]


def _numbers(n, dtype):
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.resize(np.array(_TIES + _LIMITS).astype(numpy_of(dtype)), n)
    info = np.iinfo(numpy_of(dtype))
    return np.resize(np.array([x for x in _LARGE if info.min <= x <= info.max], numpy_of(dtype)), n)


def _converted(x, source, target):
    """``x`` as ``target`` holds it, exactly; tfloat32 as float32."""
    values, where = np.unique(x, return_inverse=True)
    kept = numpy_of(dt.float32 if target == dt.tfloat32 else target)
    return np.array([converted(v.item(), source, target) for v in values]).astype(kept)[where].reshape(x.shape)


_NARROW = (*INTEGERS[:4], dt.int32, dt.uint32, *(d for d in CASTABLE if d.is_float and d.bits < 32))
for _d in (dt.float16, dt.float32, dt.float64, dt.int32, dt.uint32, dt.int64, dt.uint64):
    _to = tuple(t for t in _NARROW if t != _d and (_d.is_float or t.is_float))
    add(f"edge-cast-{_d}", edge_cast_kernel, lambda rng, n, d=_d, to=_to: [tuple(poison(n, t) for t in to),
        _numbers(n, d)], lambda args, d=_d, to=_to: {0: tuple(_converted(args[1], d, t) for t in to)}, sizes=(300,))
    add(f"edge-tf32-{_d}", edge_tf32_kernel, lambda rng, n, d=_d: [poison(n, dt.float32), _numbers(n, d)],
        lambda args, d=_d: {0: _converted(args[1], d, dt.tfloat32)}, sizes=(300,))
_LITERALS = (1 + 2**-8 + 2**-40, 1 + 2**-4 + 2**-30, -1 - 3 * 2**-9 - 2**-33, 1e5, -465.0, 448.0, 1e-9)
_FLOATS = tuple(d for d in CASTABLE if d.is_float and d.bits < 32)
add("edge-literals", constants_kernel,
    lambda rng, n: [tuple(poison((n, len(_LITERALS)), t) for t in _FLOATS), _LITERALS],
    lambda args: {0: tuple(np.broadcast_to(_converted(np.array(_LITERALS), dt.float64, t), out.shape)
                           for t, out in zip(_FLOATS, args[0], strict=True))}, sizes=(THREADS,))

_OPERANDS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 5.5, -5.5, 7.0, -2.0, 1024.25, math.inf, -math.inf, math.nan)
_PAIRS = np.array([(a, b) for a in _OPERANDS for b in _OPERANDS if b])


def _floors(args):
    """Python's own operators; every finite quotient here is small."""
    rows = [(a // b, a % b, a // 0.5, -3.5 % b) for a, b in zip(args[1].tolist(), args[2].tolist(), strict=True)]
    return {0: np.array(rows).astype(args[0].dtype)}


for _d in (dt.float16, dt.bfloat16, dt.float32, dt.float64):
    add(f"edge-floor-{_d}", float_floor_kernel, lambda rng, n, d=_d: [
        poison((n, 4), d), *(np.resize(x, n).astype(numpy_of(d)) for x in _PAIRS.T)], _floors, sizes=(len(_PAIRS),))


def _shifted(args):
    _, a, counts = args
    bits, rows = 8 * a.itemsize, []
    for x, n in zip(a.tolist(), counts.tolist(), strict=True):
        far = -1 if x < 0 else 0
        inside = 0 <= n < bits
        rows.append((x << n if inside else 0, x >> n if inside else far, 0, far))
    mask = (1 << bits) - 1
    return {0: np.array([[x & mask for x in row] for row in rows], f"u{a.itemsize}").view(a.dtype)}


def _shiftable(rng, n, dtype):
    """Any numbers, and counts up to far ones; those of a dtype that must not overflow stay within it."""
    limits, counts = np.iinfo(dtype.numpy), np.resize(np.arange(71), n).astype(np.int32)
    numbers = rng.integers(limits.min, limits.max, n, dtype.numpy, endpoint=True)
    if dtype in (dt.int32, dt.int64):
        numbers = np.where(counts < dtype.bits, numbers >> np.minimum(counts, dtype.bits - 1).astype(dtype.numpy), 0)
    return [poison((n, 4), dtype), numbers.astype(dtype.numpy), counts]


for _d in INTEGERS:
    add(f"edge-shift-{_d}", shift_kernel, lambda rng, n, d=_d: _shiftable(rng, n, d), _shifted, sizes=(300,))

add("snippets", snippets, lambda rng, n: list(snippet_data(n)), lambda args: {0: expected(*args[1:])}, sizes=(64,))
add("bits", bits, lambda rng, n: list(bit_data()), lambda args: {0: bits_expected(*args[1:])}, sizes=(N,), block=N,
    grid=lambda n: 1)
