"""moye's scalars as the documentation has them, one value at a time: dtypes, promotion, rounding, overflow.

In: Python numbers (weak) and ``Num`` (a value with a dtype).  Out: ``Num``; ``FAULTS`` collects overflow.

>>> Num("i8", 100) + 100        # int8(-56): narrow integers wrap

It shares no code with moye.  ``maybe``: a Python number in a variable, of which a reader cannot say whether it is
still weak; where that would matter the program is ``Unclear``.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

np.seterr(all="ignore")

BITS = {"bool": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
        "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
NAMES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
         "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32",
         "f64": "float64"}
_RANK = {"b": -1, "u": 0, "i": 1, "f": 2}


class Unclear(Exception):
    """The documentation does not say what this computes: the program is drawn again."""


class Fault(Exception):
    """What a kernel must not do; ``code`` is the finding's."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}")
        self.code = code


FAULTS: set[str] = set()
"""Codes of what went wrong without ending the program."""
SCRAMBLED: list[bool] = []
"""While it has an element, what overflows is another number: whoever reads it computes something else."""
EXACT: list[bool] = []
"""While it has an element, what overflows stays the number that it is: what folding computes with."""


def overflow(x: int, t: str) -> int:
    FAULTS.add("A11")
    if EXACT:
        return x
    return wrap(x ^ 0x55D5 if SCRAMBLED else x, t)


def family(t: str) -> str:
    return "f" if t in ("f16", "bf16", "f32", "f64") else t[0]


def limits(t: str) -> tuple[int, int]:
    bits = BITS[t]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if family(t) == "i" else (0, (1 << bits) - 1)


def promote(a: str, b: str) -> str:
    """Float over integer over bool, then the wider; of mixed signs the signed one only where it is wider."""
    if a == b:
        return a
    fa, fb = family(a), family(b)
    if fa == fb:
        return "f32" if BITS[a] == BITS[b] else a if BITS[a] > BITS[b] else b
    if {fa, fb} == {"u", "i"}:
        u, i = (a, b) if fa == "u" else (b, a)
        return i if BITS[i] > BITS[u] else u
    return a if _RANK[fa] > _RANK[fb] else b


# --- rounding --------------------------------------------------------------------------------------------------------


def f32(x: float) -> float:
    return float(np.float32(x))


def sticky(x: int | float) -> float:
    """A double whose last bit remembers whether anything was lost, so that rounding it on is rounding x."""
    if isinstance(x, float):
        return x
    size = abs(x)
    drop = size.bit_length() - 53
    if drop <= 0:
        return float(x)
    kept = size >> drop
    kept |= size & ((1 << drop) - 1) != 0
    return math.copysign(float(kept) * 2.0 ** drop, x)


def bf16(x: float) -> float:
    """Rounded once from a double to 8 bits of mantissa."""
    if x != x or math.isinf(x) or x == 0:
        return x
    exponent = max(math.frexp(x)[1] - 8, -133)
    steps = math.ldexp(x, -exponent)            # exact: below 2^8, or a denormal
    rounded = math.ldexp(float(round(steps)), exponent)
    return math.copysign(math.inf, x) if abs(rounded) >= 2.0 ** 128 else math.copysign(rounded, x)


def rounded(x: int | float, t: str) -> float:
    if t == "f64":
        return float(x)
    if t == "f32":
        return f32(sticky(x))
    return float(np.float16(sticky(x))) if t == "f16" else bf16(sticky(x))


def wrap(x: int, t: str) -> int:
    low, high = limits(t)
    return x if low <= x <= high else (x - low) % (high - low + 1) + low


def convert(x: Any, source: str, t: str) -> Any:
    """A value conversion."""
    if source == t:
        return x
    if t == "bool":
        return x != 0
    if family(t) == "f":
        return rounded(int(x) if isinstance(x, bool) else x, t)
    if isinstance(x, float):
        low, high = limits(t)
        if x != x or not low <= math.trunc(x) <= high:
            raise Unclear("a float beyond the integers")
        return math.trunc(x)
    if BITS[source] == 64 and BITS[t] == 32 and "i" in (family(source), family(t)):
        low = -(1 << 31)                    # a conversion that loses its number is taken for a mistake (A11)
        if not low <= x <= limits(t)[1]:
            return overflow(int(x), t)
    return wrap(int(x), t)


# --- values ----------------------------------------------------------------------------------------------------------


class Num:
    """A scalar with a dtype."""

    __slots__ = ("maybe", "t", "v")

    def __init__(self, t: str, v: Any, maybe: bool = False) -> None:
        self.t, self.v, self.maybe = t, v, maybe

    def __repr__(self) -> str:
        return f"{NAMES[self.t]}({self.v}){'?' if self.maybe else ''}"

    def __bool__(self) -> bool:
        return bool(self.v != 0)

    def __index__(self) -> int:
        if family(self.t) == "f":
            raise Unclear("a float as an index")
        return int(self.v)

    def to(self, dtype: DType) -> Num:
        return Num(dtype.t, convert(self.v, self.t, dtype.t))

    def bitcast(self, dtype: DType) -> Num:
        if self.v != self.v:
            raise Unclear("the bits of a NaN")
        return Num(dtype.t, from_bits(to_bits(self.v, self.t), dtype.t))

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
    def __rand__(self, o: Any) -> Any: return binary("and", o, self)
    def __or__(self, o: Any) -> Any: return binary("or", self, o)
    def __ror__(self, o: Any) -> Any: return binary("or", o, self)
    def __xor__(self, o: Any) -> Any: return binary("xor", self, o)
    def __rxor__(self, o: Any) -> Any: return binary("xor", o, self)
    def __lshift__(self, o: Any) -> Any: return shift("shl", self, o)
    def __rlshift__(self, o: Any) -> Any: return shift("shl", o, self)
    def __rshift__(self, o: Any) -> Any: return shift("shr", self, o)
    def __rrshift__(self, o: Any) -> Any: return shift("shr", o, self)
    def __eq__(self, o: object) -> Any: return binary("eq", self, o)
    def __ne__(self, o: object) -> Any: return binary("ne", self, o)
    def __lt__(self, o: Any) -> Any: return binary("lt", self, o)
    def __le__(self, o: Any) -> Any: return binary("le", self, o)
    def __gt__(self, o: Any) -> Any: return binary("gt", self, o)
    def __ge__(self, o: Any) -> Any: return binary("ge", self, o)
    def __neg__(self) -> Any: return unary("neg", self)
    def __pos__(self) -> Any: return self
    def __abs__(self) -> Any: return unary("abs", self)
    def __invert__(self) -> Any: return unary("not" if self.t == "bool" else "invert", self)

    def __pow__(self, o: Any) -> Any:
        if type(o) is not int or not 1 <= o <= 8:
            raise Unclear("a power")
        base = self.to(DType("f32")) if self.t in ("f16", "bf16") else self        # rounded once, behind all products
        result = base
        for _ in range(o - 1):
            result = result * base
        return result if base is self else result.to(DType(self.t))

    __hash__ = None  # type: ignore[assignment]


class DType:
    """``mo.int32``: a name, and a conversion."""

    def __init__(self, t: str) -> None:
        self.t = t
        self.bits = BITS[t]

    def __call__(self, x: Any) -> Any:
        if hasattr(x, "to"):
            return x.to(self)
        return Num(self.t, fitted(x, self.t))


def weak_type(x: Any) -> str:
    """What a Python number is where nothing else decides."""
    return "bool" if isinstance(x, bool) else "f32" if isinstance(x, float) else \
        "i32" if -(1 << 31) <= x < 1 << 31 else "i64"


def fitted(x: Any, t: str) -> Any:
    """A Python number as a value of the dtype; Unclear where it does not fit."""
    if family(t) == "f":
        return rounded(x if isinstance(x, float) else int(x), t)
    if t == "bool":
        return x != 0
    if isinstance(x, float) and (not math.isfinite(x) or x != int(x)):
        raise Unclear(f"{x} as {t}")
    if wrap(int(x), t) != int(x):
        raise Unclear(f"{x} as {t}")
    return int(x)


def hardened(x: Any, t: str = "") -> Any:
    """What a variable holds after control flow: a Python number may have become a scalar of the kernel, or not."""
    if type(x) in (int, float, bool):
        t = t or weak_type(x)
        value = fitted(x, t)
        if value != x and x == x:
            raise Unclear(f"{x} is not exact in {t}")
        return Num(t, value, True)
    if isinstance(x, (tuple, list)):
        return type(x)([hardened(item) for item in x])
    return x


def _weakly(strong: str, x: Any) -> str:
    """The dtype in which a value of dtype ``strong`` and a Python number meet."""
    if isinstance(x, float) and family(strong) != "f":
        return "f32"
    if strong == "bool" and not isinstance(x, bool):
        return weak_type(x)
    return strong


def _raw(x: Num) -> Any:
    return x.v


def masked(t: str, *values: Any) -> str:
    """The dtype of ``&``, ``|`` and ``^``: unsigned beside a Python integer that the signed one does not hold."""
    numbers = [x for x in values if isinstance(x, int) and not isinstance(x, bool)]
    return f"u{t[1:]}" if family(t) == "i" and any(x >> (int(t[1:]) - 1) > 0 for x in numbers) else t


def common(a: Any, b: Any) -> tuple[str, bool]:
    """The dtype of two operands, and whether the result may still be a Python number."""
    if not isinstance(a, Num):
        a, b = b, a
    if not isinstance(a, Num):
        return promote(weak_type(a), weak_type(b)), True
    if not isinstance(b, Num):
        t = _weakly(a.t, b)
        if a.maybe and promote(weak_type(_raw(a)), weak_type(b)) != t:
            raise Unclear("weak or not")
        return t, a.maybe
    t = promote(a.t, b.t)
    choices = {t}
    if a.maybe:
        choices.add(_weakly(b.t, _raw(a)))
    if b.maybe:
        choices.add(_weakly(a.t, _raw(b)))
    if a.maybe and b.maybe:
        choices.add(promote(weak_type(_raw(a)), weak_type(_raw(b))))
    if len(choices) > 1:
        raise Unclear("weak or not")
    return t, a.maybe and b.maybe


def operand(x: Any, t: str, pattern: bool = False) -> Any:
    """The value of an operand in dtype t; a bit pattern may be of either sign."""
    if isinstance(x, Num):
        return convert(x.v, x.t, t)
    if pattern and family(t) in "iu" and not isinstance(x, float) and -(1 << BITS[t] - 1) <= x < 1 << BITS[t]:
        return wrap(int(x), t)
    return fitted(x, t)


_COMPARE = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
_INTEGER = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": min, "max": max,
            "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "and": lambda a, b: a & b,
            "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


def checked(x: int, t: str) -> int:
    """An integer result: 32- and 64-bit signed ones must not overflow, the others wrap."""
    return overflow(x, t) if t in ("i32", "i64") and wrap(x, t) != x else wrap(x, t)


_LIMITS = {t: limits(t) for t in BITS if t[0] in "iu"}


def _quickly(kind: str, a: Any, b: Any) -> Any:
    """Integers of one dtype, or with a small Python integer: most of what runs."""
    ends = _LIMITS.get(a.t)
    if ends is None or a.maybe:
        return None
    if type(b) is Num:
        if b.t != a.t or b.maybe:
            return None
        y = b.v
    elif type(b) is int and ends[0] <= b <= ends[1]:
        y = b
    else:
        return None
    function = _COMPARE.get(kind)
    if function is not None:
        return Num("bool", function(a.v, y))
    function = _INTEGER.get(kind)
    if function is None or (y == 0 and kind in ("floordiv", "mod")):
        return None
    value = function(a.v, y)
    return Num(a.t, value if ends[0] <= value <= ends[1] else checked(value, a.t))


def binary(kind: str, a: Any, b: Any) -> Any:
    if type(a) is Num and (found := _quickly(kind, a, b)) is not None:
        return found
    if isinstance(a, Elementwise) or isinstance(b, Elementwise) or not _scalars(a, b):
        return NotImplemented
    t, maybe = common(a, b)
    if kind in _COMPARE and _of_numbers(kind, a, b):
        return Num("bool", bool(_COMPARE[kind](*(x.v if isinstance(x, Num) else x for x in (a, b)))))
    if kind in _COMPARE:
        work = "f32" if t in ("f16", "bf16") else t
        return Num("bool", bool(_COMPARE[kind](operand(a, work), operand(b, work))))
    if kind == "div" and family(t) != "f":
        if maybe:
            raise Unclear("a quotient of Python numbers")
        return Num("f32", float_binary("div", operand(a, "f32"), operand(b, "f32"), "f32"))
    if kind in ("and", "or", "xor"):
        if family(t) == "f":
            raise Unclear("bits of floats")
        t = masked(t, a, b)
        return Num(t, _INTEGER[kind](operand(a, t, True), operand(b, t, True)), maybe)
    t = "i32" if t == "bool" else t
    if family(t) == "f":
        if maybe:
            raise Unclear("arithmetic of Python floats")
        work = "f32" if t in ("f16", "bf16") else t         # of operands that are rounded to t first
        return Num(t, rounded(float_binary(kind, operand(a, t), operand(b, t), work), t))
    if kind in ("min", "max") and _of_numbers("eq", a, b):
        return Num(t, operand(a if (a.v < b.v) is (kind == "min") else b, t))
    x, y = operand(a, t), operand(b, t)
    if kind in ("floordiv", "mod") and y == 0:
        raise Unclear("division by zero")
    return Num(t, checked(_INTEGER[kind](x, y), t), maybe)


def _of_numbers(kind: str, a: Any, b: Any) -> bool:
    """Whether the numbers are compared as they are: integers of two signs, and an order with a Python integer."""
    families = [family(x.t) if isinstance(x, Num) else "python" if type(x) is int else "" for x in (a, b)]
    if sorted(families) == ["i", "u"]:
        return True
    return kind not in ("eq", "ne") and "python" in families and bool({"i", "u"} & set(families))


class Elementwise:
    """A base class of tensors: scalars leave the operator to them."""


def _scalars(*items: Any) -> bool:
    return all(isinstance(x, (Num, int, float)) for x in items)


def shift(kind: str, a: Any, b: Any) -> Any:
    if not _scalars(a, b):
        return NotImplemented
    t = a.t if isinstance(a, Num) else weak_type(a) if not isinstance(a, bool) else "i32"
    if isinstance(b, Num) and not isinstance(a, Num) and family(b.t) in "iu" and BITS[b.t] >= BITS[t] and a >= 0:
        t = b.t                             # a weak number takes the dtype of a wide count
    if family(t) == "f" or (isinstance(b, Num) and family(b.t) == "f"):
        raise Unclear("bits of floats")
    t = "i32" if t == "bool" else t
    x, count = operand(a, t, True), operand(b, "i32")
    if not 0 <= count < BITS[t]:
        raise Unclear("a shift beyond the width")
    if isinstance(a, Num) and a.maybe:
        raise Unclear("weak or not")
    return Num(t, checked(x << count, t) if kind == "shl" else x >> count)


def _divided(x: float, y: float) -> float:
    if y == 0:
        return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * math.copysign(1, y)
    try:
        return x / y
    except OverflowError:
        return math.copysign(math.inf, x) * math.copysign(1, y)


def _times(x: float, y: float) -> float:
    return float(np.float64(x) * np.float64(y))


def float_binary(kind: str, x: float, y: float, t: str) -> float:
    """One operation in float32 or float64, rounded once (of a float32 pair the double result is exact enough)."""
    def near(z: float) -> float:
        return f32(z) if t == "f32" else z
    if kind in ("min", "max"):
        if x != x or y != y:
            return y if x != x else x
        if x == y and math.copysign(1, x) != math.copysign(1, y):
            raise Unclear("the smaller of two zeros")
        return min(x, y) if kind == "min" else max(x, y)
    if kind in ("floordiv", "mod"):
        return _floored(kind, x, y, near)
    if kind == "div":
        return near(_divided(x, y))
    return near(x + y if kind == "add" else x - y if kind == "sub" else _times(x, y))


def _floored(kind: str, a: float, b: float, near: Any) -> float:
    """CPython's float_floor_div and float_rem in the given precision."""
    if b == 0 or a != a or b != b or math.isinf(a) or math.isinf(b):
        raise Unclear("the floor of a quotient that is not finite")
    rest = math.fmod(a, b)
    quotient = near(near(a - rest) / b) if b else 0.0
    if rest:
        if (b < 0) != (rest < 0):
            rest, quotient = near(rest + b), near(quotient - 1)
    else:
        rest = math.copysign(0.0, b)
    if kind == "mod":
        return rest
    if not math.isfinite(quotient):
        raise Unclear("the floor of a quotient that is not finite")
    if quotient == 0:
        return math.copysign(0.0, _divided(a, b))
    floor = float(math.floor(quotient))
    return near(floor + 1) if quotient - floor > 0.5 else floor


_MATH = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt, "abs": np.abs}


def unary(kind: str, a: Any) -> Any:
    """neg, abs, invert, not, popcount, clz, isnan, isinf and the exact functions of floats."""
    if not isinstance(a, Num):
        a = hardened(a)
    t, v = a.t, a.v
    if kind == "not":
        return Num("bool", not v)
    if kind in ("isnan", "isinf"):
        if family(t) != "f":
            raise Unclear(f"{kind} of an integer")
        return Num("bool", bool(v != v if kind == "isnan" else math.isinf(v)))
    if kind in ("popcount", "clz", "invert"):
        if family(t) not in "iu":
            raise Unclear(f"{kind} of {t}")
        bits = v & (1 << BITS[t]) - 1
        if kind == "invert":
            return Num(t, wrap(~v, t), a.maybe)
        return Num("i32", bits.bit_count() if kind == "popcount" else BITS[t] - bits.bit_length())
    if t == "bool":
        t, v = "i32", int(v)
    if family(t) != "f":
        if kind in ("neg", "abs"):
            return Num(t, checked(-v if kind == "neg" else abs(v), t), a.maybe)
        t, v = "f32", rounded(v, "f32")
    if kind == "neg":
        return Num(t, -v, a.maybe)
    work = np.float64(v)
    return Num(t, rounded(f32(float(_MATH[kind](work))) if t != "f64" else float(_MATH[kind](work)), t))


def to_bits(v: Any, t: str) -> int:
    if family(t) != "f":
        return int(v) & (1 << BITS[t]) - 1
    if t == "bf16":
        return int.from_bytes(struct.pack("<f", v), "little") >> 16
    return int.from_bytes(struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[t], v), "little")


def from_bits(bits: int, t: str) -> Any:
    if family(t) != "f":
        return wrap(bits, t)
    if t == "bf16":
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    return struct.unpack({"f16": "<e", "f32": "<f", "f64": "<d"}[t], bits.to_bytes(BITS[t] // 8, "little"))[0]
