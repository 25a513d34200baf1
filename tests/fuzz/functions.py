"""What moye's functions of scalars compute, one value at a time: the ``mo`` of ``extremes.py``.

In: ``Num`` and Python numbers.  Out: ``Num``; ``Unclear`` where the documentation does not say, or says "finding".

>>> MO.mul_hi(Num("i32", -1), Num("i32", 1))        # int32(-1)

It shares no code with moye: numbers are Python's, rounded once.  8-bit floats are here as well (``e4m3``, ``e5m2``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from fuzz import scalars
from fuzz.scalars import Num, Unclear, family, limits

FLOAT8 = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
BITS = {**scalars.BITS, "e4m3": 8, "e5m2": 8}
NAMES = {**scalars.NAMES, "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
NARROW = ("f16", "bf16", *FLOAT8)


def is_float(t: str) -> bool:
    return t in FLOAT8 or family(t) == "f"


def rounded(x: Any, t: str) -> float:
    """Rounded once; 8-bit floats saturate, infinities too."""
    if t not in FLOAT8:
        return scalars.rounded(x, t)
    x = scalars.sticky(x)
    if x != x:
        return x
    # A double to 8 bits in one step: ml_dtypes goes through float32, whose last bit remembers what is lost.
    single = np.float32(x)
    if float(single) != x:
        bits = int(single.view(np.uint32)) - (abs(float(single)) > abs(x))
        single = np.uint32(bits | 1).view(np.float32)
    return float(np.clip(single, -LARGEST[t], LARGEST[t]).astype(FLOAT8[t]))


def convert(x: Any, source: str, t: str) -> Any:
    """A conversion as the page has it: floats saturate, and a NaN is 0 or the top bit alone."""
    if source == t:
        return x
    if t == "bool":
        return x != 0
    if is_float(t):
        return rounded(int(x) if isinstance(x, bool) else x, t)
    if not is_float(source):
        if BITS[source] == 64 and BITS[t] < 64 and not limits(t)[0] <= x <= limits(t)[1]:
            raise Unclear("an integer of 64 bits that does not fit is a finding")
        return scalars.wrap(int(x), t)
    low, high = limits(t)
    if x == x:
        return int(max(low, min(high, x if math.isinf(x) else math.trunc(x))))
    if source != "f64" and BITS[t] < 64:
        return 0
    top = -(1 << BITS[t] - 1) if family(t) == "i" else 1 << BITS[t] - 1
    return top if BITS[t] >= 32 else low


class Value(Num):
    """A scalar with all of the operators and conversions."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{NAMES[self.t]}({self.v})"

    def to(self, dtype: DType) -> Value:
        return Value(dtype.t, convert(self.v, self.t, dtype.t))

    def bitcast(self, dtype: DType) -> Value:
        if self.v != self.v:
            raise Unclear("the bits of a NaN")
        return Value(dtype.t, from_bits(to_bits(self.v, self.t), dtype.t))

    def __add__(self, o: Any) -> Any: return binary("add", self, o)
    def __radd__(self, o: Any) -> Any: return binary("add", o, self)
    def __sub__(self, o: Any) -> Any: return binary("sub", self, o)
    def __rsub__(self, o: Any) -> Any: return binary("sub", o, self)
    def __mul__(self, o: Any) -> Any: return binary("mul", self, o)
    def __rmul__(self, o: Any) -> Any: return binary("mul", o, self)
    def __truediv__(self, o: Any) -> Any: return binary("div", self, o)
    def __rtruediv__(self, o: Any) -> Any: return binary("div", o, self)
    def __floordiv__(self, o: Any) -> Any: return binary("floordiv", self, o)
    def __rfloordiv__(self, o: Any) -> Any: return binary("floordiv", o, self)
    def __mod__(self, o: Any) -> Any: return binary("mod", self, o)
    def __rmod__(self, o: Any) -> Any: return binary("mod", o, self)
    def __and__(self, o: Any) -> Any: return binary("and", self, o)
    def __or__(self, o: Any) -> Any: return binary("or", self, o)
    def __xor__(self, o: Any) -> Any: return binary("xor", self, o)
    def __lshift__(self, o: Any) -> Any: return shift("shl", self, o)
    def __rlshift__(self, o: Any) -> Any: return shift("shl", o, self)
    def __rshift__(self, o: Any) -> Any: return shift("shr", self, o)
    def __rrshift__(self, o: Any) -> Any: return shift("shr", o, self)
    def __eq__(self, o: object) -> Any: return compare("eq", self, o)
    def __ne__(self, o: object) -> Any: return compare("ne", self, o)
    def __lt__(self, o: Any) -> Any: return compare("lt", self, o)
    def __le__(self, o: Any) -> Any: return compare("le", self, o)
    def __gt__(self, o: Any) -> Any: return compare("gt", self, o)
    def __ge__(self, o: Any) -> Any: return compare("ge", self, o)
    def __neg__(self) -> Any: return unary("neg", self)
    def __abs__(self) -> Any: return unary("abs", self)

    def __invert__(self) -> Any:
        return Value("bool", not self.v) if self.t == "bool" else Value(self.t, scalars.wrap(~self.v, self.t))

    def __pow__(self, n: Any) -> Any:
        found = self
        for _ in range(n - 1):
            found = found * self
        return found

    __hash__ = None  # type: ignore[assignment]


class DType(scalars.DType):
    """``mo.int32``: a name, and a conversion."""

    def __init__(self, t: str) -> None:
        self.t, self.bits = t, BITS[t]

    def __call__(self, x: Any) -> Value:
        return x.to(self) if isinstance(x, Num) else Value(self.t, rounded(x, self.t) if is_float(self.t) else x)


def to_bits(v: Any, t: str) -> int:
    return int(np.array(v, FLOAT8[t]).view(np.uint8)) if t in FLOAT8 else scalars.to_bits(v, t)


def from_bits(bits: int, t: str) -> Any:
    return float(np.uint8(bits).view(FLOAT8[t])) if t in FLOAT8 else scalars.from_bits(bits, t)


# --- operators -------------------------------------------------------------------------------------------------------


def meet(*values: Any) -> str:
    """The dtype of values and weak numbers together."""
    strong = [x.t for x in values if isinstance(x, Num)]
    t = strong[0]
    for other in strong[1:]:
        t = _promote(t, other)
    for x in values:
        if not isinstance(x, Num):
            t = "f32" if isinstance(x, float) and not is_float(t) else \
                scalars.weak_type(x) if t == "bool" and not isinstance(x, bool) else t
    return t


def _promote(a: str, b: str) -> str:
    if a == b or not {a, b} & set(FLOAT8):
        return scalars.promote(a, b)
    if not (is_float(a) and is_float(b)):
        return a if is_float(a) else b
    return "f32" if BITS[a] == BITS[b] else a if BITS[a] > BITS[b] else b


def held(x: Any, t: str, pattern: bool = False) -> Any:
    """An operand in a dtype; a Python number must fit."""
    if isinstance(x, Num):
        return convert(x.v, x.t, t)
    if is_float(t):
        return rounded(x, t)
    return scalars.operand(x, t, pattern)


def checked(x: int, t: str) -> int:
    if t in ("i32", "i64") and scalars.wrap(x, t) != x:
        raise Unclear("an overflow is a finding")
    return scalars.wrap(x, t)


def compare(kind: str, a: Any, b: Any) -> Value:
    """Integers as the numbers that they are; floats of 8 and 16 bits in float32."""
    t = meet(a, b)
    if not is_float(t):
        x, y = (v.v if isinstance(v, Num) else v for v in (a, b))
        if kind in ("eq", "ne"):
            for v in (a, b):
                held(v, t if isinstance(v, Num) else meet(a, b))
        return Value("bool", bool(scalars._COMPARE[kind](x, y)))
    work = "f32" if t in NARROW else t
    return Value("bool", bool(scalars._COMPARE[kind](held(a, work), held(b, work))))


def binary(kind: str, a: Any, b: Any) -> Value:
    t = meet(a, b)
    if kind in ("and", "or", "xor"):
        t = scalars.masked(t, a, b)
        return Value(t, scalars._INTEGER[kind](held(a, t, True), held(b, t, True)))
    t = "i32" if t == "bool" else t
    if kind == "div" and not is_float(t):
        return Value("f32", _floats("div", held(a, "f32"), held(b, "f32"), "f32"))
    if is_float(t):
        return Value(t, _narrow(kind, a, b, t))
    if kind in ("min", "max"):
        x, y = (v.v if isinstance(v, Num) else v for v in (a, b))
        return Value(t, held(a if (x < y) is (kind == "min") else b, t))
    x, y = held(a, t), held(b, t)
    if kind in ("floordiv", "mod") and y == 0:
        raise Unclear("division by zero")
    return Value(t, checked(scalars._INTEGER[kind](int(x), int(y)), t))


def _narrow(kind: str, a: Any, b: Any, t: str) -> float:
    """Floats of 16 bits are operands of their dtype; those of 8 bits, and Python numbers beside them, of float32."""
    work = "f32" if t in NARROW else t
    x, y = (held(v, work if t in FLOAT8 else t) for v in (a, b))
    return rounded(_floats(kind, x, y, work), t)


def _floats(kind: str, x: float, y: float, t: str) -> float:
    if kind in ("min", "max"):
        if x != x or y != y:
            return y if x != x else x
        ordered = sorted((x, y), key=lambda v: (v, math.copysign(1, v)))
        return ordered[kind == "max"]
    if kind in ("floordiv", "mod"):
        with np.errstate(all="ignore"):
            of = np.float32 if t == "f32" else np.float64
            return float((np.floor_divide if kind == "floordiv" else np.mod)(of(x), of(y)))
    return scalars.float_binary(kind, x, y, t)


def shift(kind: str, a: Any, b: Any) -> Value:
    """A count is unsigned, and of all that is beyond the width."""
    if isinstance(a, Num):
        t = "i32" if a.t == "bool" else a.t
    else:
        t = scalars.weak_type(a) if not isinstance(a, bool) else "i32"
        if isinstance(b, Num) and not is_float(b.t) and b.t != "bool" and BITS[b.t] >= BITS[t] and a >= 0:
            t = b.t
    x, count = held(a, t, True), held(b, "i32")
    if count < 0:
        raise Unclear("a negative count")
    if count >= BITS[t]:
        if kind == "shl" and x and t in ("i32", "i64"):
            raise Unclear("an overflow is a finding")
        return Value(t, 0 if kind == "shl" or x >= 0 else -1)
    return Value(t, checked(x << count, t) if kind == "shl" else x >> count)


_ROUND = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}


def unary(kind: str, a: Any) -> Value:
    t, v = (a.t, a.v) if isinstance(a, Num) else (scalars.weak_type(a), a)
    if kind in ("neg", "abs") and not is_float(t):
        t = "i32" if t == "bool" else t
        return Value(t, checked(-int(v) if kind == "neg" else abs(int(v)), t))
    if not is_float(t):
        t, v = "f32", rounded(int(v), "f32")
    if kind in ("isnan", "isinf"):
        return Value("bool", v != v if kind == "isnan" else math.isinf(v))
    if kind in ("neg", "abs"):
        return Value(t, rounded(-v if kind == "neg" else abs(v), t))
    work = "f32" if t in NARROW else t
    with np.errstate(all="ignore"):
        if kind == "rcp":
            return Value(t, rounded(scalars.float_binary("div", 1.0, v, work), t))
        if kind == "sqrt":
            return Value(t, rounded(float(np.sqrt(np.float32(v) if work == "f32" else np.float64(v))), t))
        return Value(t, rounded(float(_ROUND[kind](np.float64(v))), t))


# --- functions -------------------------------------------------------------------------------------------------------


def counted(kind: str, a: Any) -> Value:
    if not isinstance(a, Num) or family(a.t) not in "iu":
        raise Unclear("bits of no integer")
    n = BITS[a.t]
    bits = a.v & (1 << n) - 1
    if kind == "brev":
        return Value(a.t, scalars.wrap(int(f"{bits:0{n}b}"[::-1], 2), a.t))
    return Value("i32", {"popcount": bits.bit_count(), "clz": n - bits.bit_length(),
                         "ffs": (bits & -bits).bit_length()}[kind])


def of_two(kind: str, a: Any, b: Any) -> Value:
    """copysign, fmod, remainder, nextafter: exact."""
    t = meet(a, b)
    t = t if is_float(t) else "f32"
    x, y = (held(v, t) for v in (a, b))
    work = "f32" if t in NARROW else t
    if kind == "copysign":
        if y != y:
            raise Unclear("the sign of a NaN")
        return Value(t, rounded(math.copysign(x, y), t))
    if kind == "nextafter":
        of = np.float32 if work == "f32" else np.float64
        return Value(t, float(np.nextafter(of(x), of(y))))
    try:
        found = math.fmod(x, y) if kind == "fmod" else math.remainder(x, y)
    except ValueError:
        found = math.nan
    return Value(t, rounded(found, t))


def fma(a: Any, b: Any, c: Any) -> Value:
    t = meet(a, b, c)
    x, y, z = (held(v, t) for v in (a, b, c))
    if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z):
        return Value(t, rounded(z, t))
    if not all(map(math.isfinite, (x, y, z))):
        return Value(t, rounded(float(np.float64(x) * np.float64(y) + np.float64(z)), t))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:      # IEEE 754: of exact zeros the sign of both, and else the positive one
        product = math.copysign(1, x) * math.copysign(1, y)
        zero = x * y == 0 and z == 0 and product == math.copysign(1, z) == -1
        return Value(t, -0.0 if zero else 0.0)
    return Value(t, of_fraction(exact, t))


def of_fraction(x: Fraction, t: str) -> float:
    """A fraction rounded once: to a double whose last bit is sticky, and then on."""
    size = abs(x)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 54, -1074)
    steps = size / Fraction(2) ** exponent
    whole = steps.numerator // steps.denominator
    if t == "f64":
        try:
            return float(x)
        except OverflowError:
            return -math.inf if x < 0 else math.inf
    whole |= whole != steps                             # far below what narrower floats hold
    try:
        wide = math.ldexp(scalars.sticky(whole), exponent)
    except OverflowError:
        wide = math.inf
    return rounded(-wide if x < 0 else wide, t)


def ldexp(x: Any, n: Any) -> Value:
    t = meet(x, 0.0)
    value, power = held(x, t), held(n, "i32")
    if not math.isfinite(value) or value == 0:
        return Value(t, rounded(value, t))
    work = "f32" if t in NARROW else t
    return Value(t, rounded(of_fraction(Fraction(value) * Fraction(2) ** max(-3000, min(3000, power)), work), t))


def mul_hi(a: Any, b: Any) -> Value:
    t = meet(a, b)
    if is_float(t) or BITS[t] < 32:
        raise Unclear("mul_hi of narrow integers")
    return Value(t, scalars.wrap(held(a, t) * held(b, t) >> BITS[t], t))


def where(cond: Any, a: Any, b: Any) -> Value:
    t = meet(a, b)
    return Value(t, held(a if cond else b, t))


def _word(x: Any) -> int:
    return scalars.wrap(x.v if isinstance(x, Num) else x, "u32")


def prmt(a: Any, b: Any, selector: Any) -> Value:
    octets = (_word(a) | _word(b) << 32).to_bytes(8, "little")
    made = []
    for i in range(4):
        digit = _word(selector) >> 4 * i & 15
        octet = octets[digit & 7]
        made.append((255 if octet & 128 else 0) if digit & 8 else octet)
    return Value("u32", int.from_bytes(bytes(made), "little"))


def lop3(a: Any, b: Any, c: Any, table: Any) -> Value:
    x, y, z = map(_word, (a, b, c))
    if callable(table):
        return Value("u32", table(x, y, z) & 0xFFFFFFFF)
    cases = ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1) for i in range(32))
    return Value("u32", sum((table >> case & 1) << i for i, case in enumerate(cases)))


def funnel(left: bool, low: Any, high: Any, count: Any, clamp: bool) -> Value:
    both = _word(high) << 32 | _word(low)
    by = min(_word(count), 32) if clamp else _word(count) & 31
    return Value("u32", (both << by >> 32 if left else both >> by) & 0xFFFFFFFF)


def relu(x: Any) -> Value:
    return where(compare("lt", x, 0), 0, x)


MO = SimpleNamespace(
    **{NAMES[t]: DType(t) for t in BITS},
    min=lambda a, b: binary("min", a, b), max=lambda a, b: binary("max", a, b), abs=lambda a: unary("abs", a),
    **{kind: (lambda a, kind=kind: unary(kind, a)) for kind in (*_ROUND, "sqrt", "rcp", "isnan", "isinf")},
    **{kind: (lambda a, kind=kind: counted(kind, a)) for kind in ("popcount", "clz", "ffs", "brev")},
    **{kind: (lambda a, b, kind=kind: of_two(kind, a, b)) for kind in ("copysign", "fmod", "remainder", "nextafter")},
    fma=fma, ldexp=ldexp, mul_hi=mul_hi, where=where, prmt=prmt, lop3=lop3, relu=relu,
    funnel_shift_left=lambda a, b, n, clamp=False: funnel(True, a, b, n, clamp),
    funnel_shift_right=lambda a, b, n, clamp=False: funnel(False, a, b, n, clamp))
