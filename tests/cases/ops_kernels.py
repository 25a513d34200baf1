"""Small kernels that together use every op and every kind, each with its data and its result in NumPy.

In: nothing.  Out: ``CASES``, by name.

>>> case = CASES["binary-int32"]; arguments = case.arguments(201); case.launch(arguments, 201)

``test_coverage_ops.py`` runs them in the simulator and watches that none is missing, ``gpu/test_ops_gpu.py`` runs them
on the GPU.  Here are scalars, conversions and ordered memory; ``ops_kernels_tiles.py`` adds the rest.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any, get_args
from unittest import mock

import ml_dtypes
import numpy as np

import moye as mo
from moye import dtypes as dt
from moye.ir import effects, ops

THREADS = 64
FULL, RAGGED = 256, 201
INTEGERS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64)
FLOATS = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
ORDERS, SCOPES = get_args(effects.Order), get_args(effects.Scope_)
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12}


def numpy_of(dtype):
    return np.dtype(getattr(ml_dtypes, dtype.numpy, None) or dtype.numpy)


def poison(shape, dtype):
    """NaN for floats, a pattern of bits for integers."""
    made = np.empty(shape, numpy_of(dtype) if isinstance(dtype, dt.DType) else dtype)
    made.view(np.uint8)[...] = 0xA5 if made.dtype.kind in "iub" else 0xFF
    return made


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments at a size, and ``expected(arguments)``: position -> array, of every array that changes.

    ``tolerance`` (relative, absolute below 1) is against NumPy; 0 means equal bit by bit, and then the back ends too.
    """

    name: str
    kernel: Any
    make: Callable[[np.random.Generator, int], list[Any]]
    expected: Callable[[list[Any]], dict[int, Any]]
    tolerance: float = 0.0
    gpu_tolerance: float | None = None
    sizes: tuple[int, ...] = (FULL, RAGGED)
    block: Any = THREADS
    grid: Callable[[int], Any] = field(default=lambda n: math.ceil(n / THREADS))
    cluster: tuple[int, int, int] = (1, 1, 1)
    lossy: bool = False
    """Signed integers go beyond their bits on purpose, to see how: the simulator says A11."""

    def arguments(self, n: int) -> list[Any]:
        return self.make(np.random.default_rng([n, len(self.name)]), n)

    def launch(self, arguments: list[Any], n: int) -> None:
        with mock.patch.dict(os.environ, {"MOYE_CHECK": "0"} if self.lossy else {}):
            if self.cluster == (1, 1, 1):
                self.kernel[self.grid(n), self.block](*arguments)
            else:
                self.kernel.launch(*arguments, grid=self.grid(n), block=self.block, cluster=self.cluster)

    def trace(self):
        return self.kernel.trace(*self.arguments(self.sizes[-1]), block=self.block, cluster=self.cluster)


CASES: dict[str, Case] = {}


def add(name, kernel, make, expected, **options):
    assert name not in CASES, name
    CASES[name] = Case(name, kernel, make, expected, **options)


def leaves(argument):
    if isinstance(argument, mo.TmaCopy):
        return [argument.array]
    return [x for a in argument for x in leaves(a)] if isinstance(argument, tuple) else [argument]


def difference(got, want) -> float:
    """The largest error, relative above 1 and absolute below; infinite if NaNs and infinities differ."""
    got, want = (np.asarray(x).astype(np.float64) for x in (got, want))
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return math.inf
    return float((np.abs(got - want) / np.maximum(np.abs(want), 1))[finite].max(initial=0))


def mismatch(case, got, want, tolerance) -> str:
    """A sentence if an array is not what it should be."""
    if got.dtype.kind in "iub" or not tolerance:
        with np.errstate(invalid="ignore"):
            same = (got == want) | (got != got) & (want != want)  # NaNs are equal
        bad = np.argwhere(~np.asarray(same, bool))
        return f"{case.name}: {len(bad)} of {got.size} differ, first at {bad[0]}: {got[tuple(bad[0])]} instead of " \
               f"{want[tuple(bad[0])]}" if len(bad) else ""
    error = difference(got, want)
    return f"{case.name}: error {error:.1e} above {tolerance:.1e}" if not error <= tolerance else ""


def compare(case, arguments, tolerance, n) -> None:
    """Every array among the arguments is what it should be: changed as expected, or not at all."""
    before = case.arguments(n)
    wanted = case.expected(before)
    for position, (got, was) in enumerate(zip(arguments, before, strict=True)):
        if any(isinstance(x, np.ndarray) for x in leaves(was)):
            pairs = zip(leaves(got), leaves(wanted.get(position, was)), strict=True)
            exact = 0.0 if position not in wanted else tolerance
            problems = [told for mine, theirs in pairs if (told := mismatch(case, mine, theirs, exact))]
            assert not problems, f"size {n}, argument {position}: {problems}"


# --- data ------------------------------------------------------------------------------------------------------------


def integers(rng, n, dtype, largest=1000):
    """Random integers, negative ones included, none of them zero."""
    info = np.iinfo(numpy_of(dtype))
    low, high = max(info.min + 1, -largest), min(info.max, largest)
    values = rng.integers(low, high, n, endpoint=True, dtype=np.uint64 if low >= 0 else np.int64)
    return np.where(values == 0, 1, values).astype(numpy_of(dtype))


def normal(rng, n, dtype=dt.float32, scale=1.0):
    return (rng.standard_normal(n) * scale).astype(numpy_of(dtype))


def values(rng, n, dtype):
    return normal(rng, n, dtype) if dtype.is_float else integers(rng, n, dtype)


# --- scalars ---------------------------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])
_BITS = np.vectorize(lambda x, bits: (int(x) & ((1 << bits) - 1)).bit_count(), otypes=[np.int32])
_LENGTH = np.vectorize(lambda x, bits: bits - (int(x) & ((1 << bits) - 1)).bit_length(), otypes=[np.int32])
_LOWEST = np.vectorize(lambda x: (int(x) & -int(x)).bit_length(), otypes=[np.int32])
_TURNED = np.vectorize(lambda x, bits: int(f"{int(x) & ((1 << bits) - 1):0{bits}b}"[::-1], 2), otypes=[np.uint64])


def _own(function):
    """A function of Python's for arrays, NaN where it is not defined."""
    def one(*numbers):
        try:
            return function(*numbers)
        except (ArithmeticError, ValueError):
            return math.nan
    return np.vectorize(one, otypes=[np.float64])


NP = SimpleNamespace(
    min=np.minimum, max=np.maximum, abs=np.abs, isnan=np.isnan, isinf=np.isinf, round=np.rint, where=np.where,
    rcp=lambda x: 1 / x, rsqrt=lambda x: 1 / np.sqrt(x), erf=_erf, sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    ffs=lambda x: _LOWEST(x), brev=lambda x: _TURNED(x, x.dtype.itemsize * 8),
    cbrt=np.cbrt, atan2=np.arctan2, fmod=np.fmod, hypot=np.hypot, copysign=np.copysign, nextafter=np.nextafter,
    remainder=_own(math.remainder), erfc=_own(math.erfc), lgamma=_own(math.lgamma), tgamma=_own(math.gamma),
    erfinv=_own(lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)),
    **{f"a{name}{h}": getattr(np, f"arc{name}{h}") for name in ("sin", "cos", "tan") for h in ("", "h")},
    popcount=lambda x: _BITS(x, x.dtype.itemsize * 8), clz=lambda x: _LENGTH(x, x.dtype.itemsize * 8),
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "tanh",
                                            "floor", "ceil", "trunc", "sinh", "cosh", "log1p", "expm1")})
_SIGNS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
          "floordiv": operator.floordiv, "mod": operator.mod, "and": operator.and_, "or": operator.or_,
          "xor": operator.xor, **{name: getattr(operator, name) for name in ops.COMPARISONS}}
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "rcp", "lgamma", "tgamma")
WHOLE = ("floor", "ceil", "round", "trunc")


def binary(m, kind, x, y):
    """One binary operation of the language ``m``: moye's, or NumPy's."""
    if kind in ("min", "max"):
        return getattr(m, kind)(x, y)
    if kind in ("land", "lor"):
        return (x > 0) & (y > 0) if kind == "land" else (x > 0) | (y > 0)
    if kind in ("shl", "shr"):
        return x << (y & 7) if kind == "shl" else x >> (y & 7)
    return m.abs(x) ** y if kind == "pow" else _SIGNS[kind](x, y)


def unary(m, kind, x, **options):
    """One unary operation, on arguments that lie where it is defined."""
    if kind in ("neg", "invert", "not"):
        return -x if kind == "neg" else ~x if kind == "invert" else ~(x > 0)
    if kind in POSITIVE:
        x = m.abs(x) + 0.125
    x = x * 0.75 if kind == "erfinv" else x
    return getattr(m, kind)(x * 4 if kind in WHOLE else x, **options)


@mo.kernel
def binary_kernel(out, a, b, kinds: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        x, y = a[i], b[i]
        for j in mo.static_range(len(kinds)):
            out[i, j] = binary(mo, kinds[j], x, y)


@mo.kernel
def uniform_kernel(out, a, b, kinds: mo.Constexpr, dtype):
    """On scalars that are the same for every thread."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    x, y = a.to(dtype), b.to(dtype)
    if i < mo.size(out, 0):
        for j in mo.static_range(len(kinds)):
            out[i, j] = binary(mo, kinds[j], x, y)


@mo.kernel
def unary_kernel(out, a, kinds: mo.Constexpr, fast: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        for j in mo.static_range(len(kinds)):
            if fast:
                out[i, j] = unary(mo, kinds[j], a[i], fast=True)
            else:
                out[i, j] = unary(mo, kinds[j], a[i])


def _binary_expected(args):
    out, a, b, kinds = args[:4]
    wanted = out.copy()
    if len(args) > 4:
        a, b = (np.full(len(out), x).astype(out.dtype) for x in (a, b))
    with np.errstate(all="ignore"):
        for j, kind in enumerate(kinds):
            wanted[:, j] = binary(NP, kind, a, b).astype(out.dtype)
    return {0: wanted}


def _unary_expected(args):
    out, a, kinds, _ = args
    wanted = out.copy()
    wide = a if a.dtype.kind in "iu" or a.dtype.itemsize == 8 else a.astype(np.float32)
    with np.errstate(all="ignore"):
        for j, kind in enumerate(kinds):
            wanted[:, j] = unary(NP, kind, wide).astype(out.dtype)
    return {0: wanted}


_INTEGER_KINDS = tuple(k for k in ops.BINARY if k not in ("div", "pow", "mul_hi", *ops.MATH_PAIRS))
_EXACT_FLOAT = ("add", "sub", "mul", "div", "min", "max", *ops.COMPARISONS, *ops.LOGICAL)
_INTEGER_UNARY = ("neg", "not", "invert", "popcount", "clz", "abs", "ffs", "brev")


def _two(kinds, dtype):
    def make(rng, n):
        a, b = values(rng, n, dtype), values(rng, n, dtype)
        b[::7] = a[::7]                                 # (comparisons differ where operands are equal)
        return [poison((n, len(kinds)), dtype), a, b, kinds]
    return make


def _one(kinds, dtype, fast=False):
    def make(rng, n):
        x = np.clip(rng.standard_normal(n), -1.2, 1.2)
        x[: n // 4] = np.round(x[: n // 4] * 8) / 8     # ties of round(4 * x)
        return [poison((n, len(kinds)), dtype), x.astype(numpy_of(dtype)), kinds, fast]
    return make


def _special_floats(dtype):
    def make(rng, n):
        x = normal(rng, n, dtype)
        x[:6] = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan)
        return [poison((n, 4), dtype), x, ("isnan", "isinf", "neg", "abs"), False]
    return make


@mo.kernel
def pairs_kernel(out, a, b, exponents, kinds: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        for j in mo.static_range(len(kinds)):
            out[i, j] = mo.ldexp(a[i], exponents[i]) if kinds[j] == "ldexp" else getattr(mo, kinds[j])(a[i], b[i])


@mo.kernel
def mul_hi_kernel(out, a, b):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        out[i, 0] = mo.mul_hi(a[i], b[i])
        out[i, 1] = mo.mul_hi(a[0], b[0])


def _pairs(dtype):
    kinds = tuple(kind for kind in ops.MATH_PAIRS if kind != "nextafter" or dtype.bits >= 32)

    def make(rng, n):
        return [poison((n, len(kinds)), dtype), normal(rng, n, dtype), normal(rng, n, dtype),
                rng.integers(-6, 7, n).astype(np.int32), kinds]
    return make


def _pairs_expected(args):
    out, a, b, exponents, kinds = args
    wide = [x.astype(np.float32) if x.dtype.itemsize < 4 else x for x in (a, b)]
    return {0: np.stack([np.ldexp(wide[0], exponents) if kind == "ldexp" else getattr(NP, kind)(*wide)
                         for kind in kinds], 1).astype(out.dtype)}


def _mul_hi_expected(args):
    out, a, b = args
    bits = out.dtype.itemsize * 8
    high = [int(x) * int(y) >> bits for x, y in zip(a, b, strict=True)]
    return {0: np.stack([np.array(high, out.dtype), np.full(len(high), high[0], out.dtype)], 1)}


for _d in (dt.int32, dt.uint32, dt.int64, dt.uint64):
    add(f"mul-hi-{_d}", mul_hi_kernel, lambda rng, n, d=_d: [poison((n, 2), d), *(
        integers(rng, n, d, 1 << 63) for _ in range(2))], _mul_hi_expected)
for _d in INTEGERS:
    add(f"binary-{_d}", binary_kernel, _two(_INTEGER_KINDS, _d), _binary_expected)
    add(f"unary-{_d}", unary_kernel, lambda rng, n, d=_d: [poison((n, 8), d), integers(rng, n, d), _INTEGER_UNARY,
                                                           False], _unary_expected)
for _d in (dt.int8, dt.int32, dt.uint32, dt.int64):
    add(f"uniform-{_d}", uniform_kernel, lambda rng, n, d=_d: [poison((n, len(_INTEGER_KINDS)), d),
        -37 if d.is_signed else 37, 5, _INTEGER_KINDS, d], _binary_expected)
for _d in FLOATS:
    _tol = TOLERANCE[_d.name]
    add(f"binary-{_d}", binary_kernel, _two(_EXACT_FLOAT, _d), _binary_expected)
    add(f"uniform-{_d}", uniform_kernel, lambda rng, n, d=_d: [poison((n, len(_EXACT_FLOAT)), d), -3.75, 0.625,
                                                               _EXACT_FLOAT, d], _binary_expected)
    add(f"rounded-{_d}", binary_kernel, _two(("floordiv", "mod", "pow"), _d), _binary_expected, tolerance=10 * _tol)
    add(f"math-{_d}", unary_kernel, _one(ops.MATH, _d), _unary_expected, tolerance=_tol)
    add(f"slow-math-{_d}", unary_kernel, _one(ops.SLOW_MATH, _d), _unary_expected, tolerance=_tol)
    add(f"pairs-{_d}", pairs_kernel, _pairs(_d), _pairs_expected, tolerance=_tol)
    add(f"special-{_d}", unary_kernel, _special_floats(_d), _unary_expected)
for _d in (dt.float16, dt.bfloat16):
    add(f"math-fast-{_d}", unary_kernel, _one(ops.NARROW_FAST, _d, True), _unary_expected, tolerance=TOLERANCE[_d.name])
add("math-fast", unary_kernel, _one(ops.MATH, dt.float32, True), _unary_expected, tolerance=2e-5, gpu_tolerance=1e-3)


@mo.kernel
def specials_kernel(out):
    t, b, g, d = mo.thread_idx(), mo.block_idx(), mo.grid_dim(), mo.block_dim()
    block = b.x + g.x * (b.y + g.y * b.z)
    i = block * (d.x * d.y * d.z) + t.x + d.x * (t.y + d.y * t.z)
    cycles, time = mo.clock(), mo.globaltimer()
    found = (t.x, t.y, t.z, b.x, b.y, b.z, g.x, g.y, g.z, mo.clock() >= cycles, mo.globaltimer() >= time)
    for j in mo.static_range(len(found)):
        out[i, j] = found[j]


def _specials(args):
    gz, gy, gx, tz, ty, tx = np.indices((2, 3, 5, 2, 4, 8)).reshape(6, -1)
    one = np.ones_like(tx)
    return {0: np.stack([tx, ty, tz, gx, gy, gz, 5 * one, 3 * one, 2 * one, one, one], 1).astype(np.int32)}


add("specials", specials_kernel, lambda rng, n: [poison((2 * 3 * 5 * 64, 11), dt.int32)], _specials, sizes=(FULL,),
    block=(8, 4, 2), grid=lambda n: (5, 3, 2))

# --- conversions -----------------------------------------------------------------------------------------------------

CASTABLE = tuple(d for d in dt.ALL if d.bits <= 64)
BITCASTS = tuple((a, b) for a in CASTABLE for b in CASTABLE
                 if a.bits == b.bits and dt.bool_ not in (a, b) and dt.tfloat32 not in (a, b) and a != b)


@mo.kernel
def cast_kernel(outs, x, source):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        value = x[i].to(source)                         # (tfloat32 is no dtype of an array)
        for out in outs:
            positive = source.is_float and out.dtype.kind.name == "UINT"
            out[i] = (mo.abs(value) if positive else value).to(out.dtype)


@mo.kernel
def tf32_kernel(out, x):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        out[i] = x[i].to(mo.tfloat32).to(mo.float32)


@mo.kernel
def bitcast_kernel(outs, x):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(x, 0):
        for out in outs:
            out[i] = x[i].bitcast(out.dtype)


@mo.kernel
def choose_kernel(out, a, b, flags):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(a, 0):
        out[i, 0] = mo.where(flags[i], a[i], b[i])
        out[i, 1] = a[i] if flags[i] and a[i] < b[i] else b[i]
        out[i, 2] = mo.where(not flags[i] or a[i] > 0, a[i] + 1, 0)


def _sources(rng, n, dtype):
    """Values that every dtype can hold roughly, to 10 bits of mantissa where they come from integers."""
    if dtype == dt.bool_:
        return rng.integers(0, 2, n).astype(bool)
    return integers(rng, n, dtype, 100) if dtype.is_integer else normal(rng, n, dtype, 20.0)


def _cast_expected(args):
    outs, x, source = args
    with np.errstate(all="ignore"):
        return {0: tuple((np.abs(x) if source.is_float and out.dtype.kind == "u" else x).astype(out.dtype)
                         for out in outs)}


def _bits_expected(args):
    return {0: tuple(args[1].view(out.dtype) for out in args[0])}


_ARRAYS = tuple(d for d in CASTABLE if d != dt.tfloat32)
for _d in CASTABLE:
    _from = dt.float16 if _d == dt.tfloat32 else _d     # what tfloat32 holds exactly
    _to = tuple(d for d in _ARRAYS if d != _d)
    add(f"cast-{_d}", cast_kernel, lambda rng, n, d=_d, f=_from, to=_to: [tuple(poison(n, t) for t in to),
        _sources(rng, n, f), d], _cast_expected)
    add(f"tf32-{_d}", tf32_kernel, lambda rng, n, f=_from: [poison(n, dt.float32), _sources(rng, n, f)],
        lambda args: {0: args[1].astype(np.float32)}, tolerance=2**-10) if _d != dt.tfloat32 else None
for _d in (dt.int32, dt.uint32, dt.int64, dt.uint64):
    add(f"cast-wide-{_d}", cast_kernel, lambda rng, n, d=_d: [
        tuple(poison(n, t) for t in (*INTEGERS, dt.float32, dt.float64) if t != d), integers(rng, n, d, 1 << 63), d],
        _cast_expected, lossy=_d.bits == 64)
for _d in dict.fromkeys(a for a, _ in BITCASTS):
    add(f"bitcast-{_d}", bitcast_kernel, lambda rng, n, d=_d: [
        tuple(poison(n, b) for a, b in BITCASTS if a == d), values(rng, n, d)], _bits_expected)
add("choose", choose_kernel, lambda rng, n: [poison((n, 3), dt.float32), normal(rng, n), normal(rng, n),
                                             rng.integers(0, 2, n).astype(bool)],
    lambda args: {0: np.stack([np.where(args[3], args[1], args[2]),
                               np.where(args[3] & (args[1] < args[2]), args[1], args[2]),
                               np.where(~args[3] | (args[1] > 0), args[1] + np.float32(1), 0)], 1)})

# --- ordered accesses, fences, atomics -------------------------------------------------------------------------------


@mo.kernel
def ordered_kernel(out, x):
    """Each thread sends its value through its own cells, with every order and scope."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    cells = mo.shared_array(x.dtype, THREADS)
    if i < mo.size(x, 0):
        for scope in SCOPES:
            for put, get in (("relaxed", "acquire"), ("release", "relaxed")):
                mo.store(cells, tid, x[i], order=put, scope=scope)
                mo.store(out, i, mo.load(cells, tid, order=get, scope=scope), order=put, scope=scope)
                cells[tid] = mo.load(out, i, order=get, scope=scope)
        out[i] = cells[tid]


@mo.kernel
def message_kernel(data, flag, out, orders: mo.Constexpr):
    """Block 0 writes and raises a flag; block 1 polls it and reads."""
    tid = mo.thread_idx().x
    if mo.block_idx().x == 0:
        data[tid] = 3 * tid - 5
        for order in orders:
            for scope in SCOPES:
                mo.fence(order, scope)
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        while mo.load(flag, 0) != 1:
            pass
        out[tid] = data[tid]


@mo.kernel
def patient_kernel(data, flag, out):
    """Block 1 polls with pauses that grow; every thread sleeps for a time of its own."""
    tid = mo.thread_idx().x
    mo.nanosleep(tid % 4)
    if mo.block_idx().x == 0:
        data[tid] = 7 * tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        ns = 8
        while mo.load(flag, 0) != 1:
            mo.nanosleep(ns)
            ns = mo.min(2 * ns, 256)
        out[tid] = data[tid]


@mo.kernel
def grid_kernel(out, x):
    """Each block reads what the next one has written, in every step."""
    i, n = mo.block_idx().x * THREADS + mo.thread_idx().x, mo.size(x, 0)
    for step in range(3):
        mo.grid_sync()
        out[i] = x[(i + THREADS) % n] + step
        mo.grid_sync()
        x[i] = out[i]


PINNED = ("float32", "float16", "bfloat16", "float64", "int8", "uint16", "int32", "int64", "bool")


@mo.kernel
def pin_kernel(out, x):
    """Registers of every kind, in arrays and in scalars, keep their values."""
    tid = mo.thread_idx().x
    mo.pin()
    for name in PINNED:
        dtype = getattr(mo, name)
        one, many = mo.fragment((1,), dtype), mo.fragment((6,), dtype)
        one[0] = (x[tid] % 2).to(dtype)
        for j in mo.static_range(6):
            many[j] = ((x[tid] + j) % 2).to(dtype)
        mo.pin(one, many)
        out[tid] += one[0].to(mo.int32)
        many[...] = mo.where(many == many[0], many, one[0])
        mo.pin(many)
        for j in mo.static_range(6):
            out[tid] += many[j].to(mo.int32)


@mo.kernel
def copies_arrive_kernel(out, x):
    """Each thread copies four elements, and the barrier knows when they are there; another thread asks, and reads."""
    tid = mo.thread_idx().x
    held, bars = mo.shared_array(x.dtype, 4 * THREADS), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, THREADS)
    mo.sync_threads()
    mo.copyto(mo.CpAsync(mo.uint128), mo.tile(held, (4,), (tid,)), mo.tile(x, (4,), (tid,)))
    mo.cp_async_mbarrier_arrive(bars, 0)
    if not mo.mbarrier_try_wait(bars, 0, 0):
        mo.mbarrier_wait(bars, 0, 0)
    for j in mo.static_range(4):
        out[j * THREADS + tid] = held[(tid + 1) % THREADS * 4 + j]


def atomic(step, cells, at, value):
    """One step of ``STEPS`` on ``cells[at]``."""
    kind, order, scope = step
    if kind == "cas":
        return mo.atomic_cas(cells, at, value, value + 1, order=order, scope=scope)
    return getattr(mo, f"atomic_{kind}")(cells, at, value, order=order, scope=scope)


@mo.kernel
def atomic_kernel(out, cells, x, steps: mo.Constexpr):
    """Each thread on cells of its own in global and shared memory: the old values, then what is left."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    local = mo.shared_array(x.dtype, THREADS)
    if i < mo.size(x, 0):
        local[tid] = cells[i]
        for j in mo.static_range(len(steps)):
            value = x[i] if steps[j][0] in ("exch", "cas") else x[i] + j
            out[i, 2 * j] = atomic(steps[j], cells, i, value)
            out[i, 2 * j + 1] = atomic(steps[j], local, tid, value)
        out[i, 2 * len(steps)] = local[tid]


@mo.kernel
def contended_kernel(totals, x):
    """All threads on the same few cells, old values unused."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    bins = mo.shared_array(mo.int32, 16)
    if tid < 16:
        bins[tid] = 0
    mo.sync_threads()
    if i < mo.size(x, 0):
        mo.atomic_add(bins, x[i] % 16, 1)
        mo.atomic_min(totals, 16, x[i])
        mo.atomic_max(totals, 17, x[i], order="release", scope="sys")
        mo.atomic_or(totals, 18, x[i])
        mo.atomic_and(totals, 19, x[i], order="acq_rel")
        mo.atomic_xor(totals, 20, x[i])
        mo.atomic_add(totals, 21, x[i])
    mo.sync_threads()
    if tid < 16:
        mo.atomic_add(totals, tid, bins[tid])


@mo.kernel
def red_kernel(out, apart, x, kind: mo.Constexpr):
    """Both blocks change the same elements, eight a thread, as wide as may be; then single ones far apart."""
    tid = mo.thread_idx().x
    mine = mo.fragment((8,), x.dtype)
    mo.copyto(mine, mo.tile(x, (8,), (mo.block_idx().x * THREADS + tid,)))
    mo.red(mo.tile(out, (8,), (tid,)), mine, kind)
    two = mo.fragment((2,), x.dtype)
    mo.copyto(two, mo.tile(mine, (2,), (0,)))
    mo.red(apart[:, tid], two, kind, order="release", scope="sys")


ATOMICS = ("add", "cas", "exch", "cas", "min", "max", "or", "and", "xor")
STEPS = tuple((kind, ORDERS[(j + k) % 5], SCOPES[(2 * j + k) % 5]) for k in range(5) for j, kind in enumerate(ATOMICS))
_NEW = {"add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "exch": lambda old, x: x, "cas": lambda old, x: np.where(old == x, x + 1, old)}


def _atomics(args):
    out, cells, x, steps = args
    cells, wanted = cells.copy(), out.copy()
    for j, (kind, *_) in enumerate(steps):
        wanted[:, 2 * j] = wanted[:, 2 * j + 1] = cells
        value = x if kind in ("exch", "cas") else x + x.dtype.type(j)
        cells = _NEW[kind](cells, value).astype(x.dtype)
    wanted[:, -1] = cells
    return {0: wanted, 1: cells}


def _small(rng, n, dtype):
    """Whole numbers whose sums every dtype holds, so that their order does not matter."""
    return rng.integers(0, 16, n).astype(numpy_of(dtype))


def _red(args):
    out, apart, x, kind = args
    parts, fold = x.reshape(2, -1), _NEW[kind]
    firsts = parts.reshape(2, -1, 8)[:, :, :2]
    return {0: fold(fold(out, parts[0]), parts[1]), 1: fold(fold(apart, firsts[0].T), firsts[1].T)}


def _contended(args):
    wanted, x = args[0].copy(), args[1]
    np.add.at(wanted, x % 16, 1)
    for j, fold in enumerate((np.minimum, np.maximum, np.bitwise_or, np.bitwise_and, np.bitwise_xor, np.add), 16):
        wanted[j] = fold(wanted[j], fold.reduce(x))
    return {0: wanted}


for _d in (dt.int8, dt.bfloat16, dt.int32, dt.float32, dt.uint64, dt.float64):
    add(f"ordered-{_d}", ordered_kernel, lambda rng, n, d=_d: [poison(n, d), values(rng, n, d)],
        lambda args: {0: args[1]}, sizes=(RAGGED,))     # has whole blocks, too
add("message", message_kernel, lambda rng, n: [poison(THREADS, dt.int32), np.zeros(1, np.int32),
                                               poison(THREADS, dt.int32), ORDERS],
    lambda args: {0: 3 * np.arange(THREADS) - 5, 1: np.ones(1), 2: 3 * np.arange(THREADS) - 5}, sizes=(FULL,),
    grid=lambda n: 2)
add("grid_sync", grid_kernel, lambda rng, n: [poison(4 * THREADS, dt.int32), values(rng, 4 * THREADS, dt.int32)],
    lambda args: dict.fromkeys((0, 1), np.roll(args[1], -3 * THREADS) + 3), sizes=(FULL,), grid=lambda n: 4)
add("copies arrive", copies_arrive_kernel,
    lambda rng, n: [poison(4 * THREADS, dt.float32), values(rng, 4 * THREADS, dt.float32)],
    lambda args: {0: np.roll(args[1].reshape(-1, 4), -1, axis=0).T.reshape(-1)}, sizes=(FULL,), grid=lambda n: 1)
add("pin", pin_kernel, lambda rng, n: [np.zeros(THREADS, np.int32), np.arange(THREADS, dtype=np.int32)],
    lambda args: {0: 7 * len(PINNED) * (args[1] % 2)}, sizes=(FULL,), grid=lambda n: 1)
add("patient", patient_kernel, lambda rng, n: [poison(THREADS, dt.int32), np.zeros(1, np.int32),
                                               poison(THREADS, dt.int32)],
    lambda args: {0: 7 * np.arange(THREADS), 1: np.ones(1), 2: 7 * np.arange(THREADS)}, sizes=(FULL,),
    grid=lambda n: 2)
# Each dtype meets every kind and every order, and each kind every order, of integers and of floats.
for _k, _d in enumerate((dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float32, dt.float64,
                         dt.float16, dt.bfloat16)):
    _steps = tuple((kind, *_how) for j, (kind, *_how) in enumerate(STEPS) if j // len(ATOMICS) in (
        (_k % 5,) if _d.is_integer else (_k % 5, (_k + 1) % 5)) and
        (_d.is_integer or kind in ("add", "exch", "cas", "min", "max")))
    add(f"atomic-{_d}", atomic_kernel, lambda rng, n, d=_d, steps=_steps: [
        poison((n, 2 * len(steps) + 1), d), values(rng, n, d), values(rng, n, d), steps], _atomics, sizes=(RAGGED,))
for _d in (dt.float32, dt.float16, dt.bfloat16, dt.float64, dt.int32, dt.int16):
    for _kind in ("add", "max") if _d.is_float else ("add", "min", "xor"):
        add(f"red-{_kind}-{_d}", red_kernel, lambda rng, n, d=_d, kind=_kind: [
            _small(rng, 8 * THREADS, d), _small(rng, 2 * THREADS, d).reshape(2, -1), _small(rng, 16 * THREADS, d),
            kind], _red, sizes=(FULL,), grid=lambda n: 2)
add("contended", contended_kernel, lambda rng, n: [integers(rng, 22, dt.int32), integers(rng, n, dt.int32)], _contended)
