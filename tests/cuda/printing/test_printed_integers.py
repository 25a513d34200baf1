"""What C++ makes of printed integer arithmetic, by brute force: facts decide between ``/``, ``>>``, ``&`` and helpers.

The printed text of one operation is computed with C's rules (division truncates) and must floor, for every value that
the facts allow, at the ends of every dtype too.
"""

from __future__ import annotations

import itertools
import random
import re

import pytest

from folding import COMPARISONS, fresh
from ir_interpreter import Fault, wrap
from ir_interpreter import binary as exact
from moye import dtypes as dt
from moye.cuda.printing.expressions import Text, binary
from moye.cuda.printing.intrinsics import Intrinsics
from moye.ir import constants, ops
from moye.ir.nodes import Literal, Value

DTYPES = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64)
KINDS = ("floordiv", "mod", "shl", "shr", "add", "sub", "mul", "and", "or", "xor", "min", "max", *COMPARISONS)


class C:
    """An integer of a C++ type: operations promote to int, and division truncates."""

    def __init__(self, value, dtype):
        self.value, self.dtype = wrap(value, dtype), dtype

    def _meet(self, other):
        other = other if isinstance(other, C) else C(other, dt.int32 if -2**31 <= other < 2**31 else dt.int64)
        wide = [dt.int32 if x.dtype.bits < 32 else x.dtype for x in (self, other)]
        return dt.promote(*wide), wrap(self.value, dt.promote(*wide)), wrap(other.value, dt.promote(*wide))

    def _apply(self, other, how, back=False):
        dtype, a, b = self._meet(other)
        return C(how(b, a) if back else how(a, b), dtype)

    def _shift(self, count, how):
        dtype = dt.int32 if self.dtype.bits < 32 else self.dtype
        count = count.value if isinstance(count, C) else count
        assert 0 <= count < dtype.bits, "undefined in C++"
        return C(how(self.value, count), dtype)

    def __add__(self, other): return self._apply(other, lambda a, b: a + b)
    def __radd__(self, other): return self._apply(other, lambda a, b: a + b)
    def __sub__(self, other): return self._apply(other, lambda a, b: a - b)
    def __rsub__(self, other): return self._apply(other, lambda a, b: a - b, True)
    def __mul__(self, other): return self._apply(other, lambda a, b: a * b)
    def __rmul__(self, other): return self._apply(other, lambda a, b: a * b)
    def __truediv__(self, other): return self._apply(other, truncated)
    def __rtruediv__(self, other): return self._apply(other, truncated, True)
    def __mod__(self, other): return self._apply(other, lambda a, b: a - b * truncated(a, b))
    def __rmod__(self, other): return self._apply(other, lambda a, b: a - b * truncated(a, b), True)
    def __and__(self, other): return self._apply(other, lambda a, b: a & b)
    def __rand__(self, other): return self._apply(other, lambda a, b: a & b)
    def __or__(self, other): return self._apply(other, lambda a, b: a | b)
    def __ror__(self, other): return self._apply(other, lambda a, b: a | b)
    def __xor__(self, other): return self._apply(other, lambda a, b: a ^ b)
    def __rxor__(self, other): return self._apply(other, lambda a, b: a ^ b)
    def __lshift__(self, other): return self._shift(other, lambda a, n: a << n)
    def __rshift__(self, other): return self._shift(other, lambda a, n: a >> n)
    def __lt__(self, other): return self._meet(other)[1] < self._meet(other)[2]
    def __le__(self, other): return self._meet(other)[1] <= self._meet(other)[2]
    def __gt__(self, other): return self._meet(other)[1] > self._meet(other)[2]
    def __ge__(self, other): return self._meet(other)[1] >= self._meet(other)[2]
    def __eq__(self, other): return self._meet(other)[1] == self._meet(other)[2]
    def __ne__(self, other): return self._meet(other)[1] != self._meet(other)[2]
    __hash__ = None


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def helper(kind):
    """floor_div, floor_mod, min, max, and the shifts that PTX clamps, on C++ values."""
    def compute(x, y):
        number = x if isinstance(x, C) else C(x, dt.int32)
        dtype, a, b = number._meet(y)
        if kind in ("shl", "shr"):
            dtype, b = (dt.int32 if number.dtype.bits < 32 else number.dtype), (y.value if isinstance(y, C) else y)
            a = number.value
            far = not 0 <= b < dtype.bits
            return C(0 if far and kind == "shl" else a >> 64 if far else a << b if kind == "shl" else a >> b, dtype)
        return C({"floor_div": lambda: a // b, "floor_mod": lambda: a % b, "min": lambda: min(a, b),
                  "max": lambda: max(a, b)}[kind](), dtype)
    return compute


HELPERS = {name: helper(name) for name in ("floor_div", "floor_mod", "min", "max", "shl", "shr")}
HELPERS["low16"] = lambda x: C(x.value if isinstance(x, C) else x, dt.int16)
CASTS = {f"({dtype.cuda})": f"{dtype.name}_ ** " for dtype in DTYPES}


class Cast:
    """``(char)x`` as ``int8_ ** x``, which binds as tightly."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __pow__(self, x):
        return C(x.value if isinstance(x, C) else x, self.dtype)


def computed(text, x, y):
    for cast, name in CASTS.items():
        text = text.replace(cast, name)
    text = re.sub(r"\b(\d+)(?:ULL|LL|u)\b", r"\1", text)
    result = eval(text, {**HELPERS, **{f"{d.name}_": Cast(d) for d in DTYPES}, "x": x, "y": y})
    return result.value if isinstance(result, C) else result


def pool(dtype):
    low, high = constants.limits(dtype)
    numbers = {low, low + 1, low // 2, -9, -8, -7, -4, -3, -1, 0, 1, 2, 3, 4, 7, 8, 31, 100, high // 2, high // 2 + 1,
               high - 1, high}
    return sorted(n for n in numbers if low <= n <= high)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_printed_arithmetic(kind, dtype):
    rng = random.Random(f"{kind} {dtype}")
    numbers, tested = pool(dtype), 0
    shift = kind in ("shl", "shr")
    counts = [-3, 0, 1, 3, dtype.bits - 1, dtype.bits, 40, 70]
    for _ in range(10):
        right, right_dtype = (counts, dt.int32) if shift else (numbers, dtype)
        (alo, ahi), (blo, bhi) = (sorted(rng.choices(p, k=2)) for p in (numbers, right))
        facts = [(rng.choice((low, None)), rng.choice((high, None)), 1) for low, high in ((alo, ahi), (blo, bhi))]
        _, (a, b) = fresh([dtype, right_dtype], facts)
        b = Literal(rng.choice(right), right_dtype) if rng.random() < 0.5 else b
        result = Value(dt.bool_ if kind in COMPARISONS else dtype)
        y_text = Text("y") if isinstance(b, Value) else Text(f"{b.value}" if b.value >= 0 else f"({b.value})")
        text = binary(ops.Binary(result=result, kind=kind, a=a, b=b), Text("x"), y_text, Intrinsics()).text
        held = [b.value] if isinstance(b, Literal) else [n for n in right if within(n, facts[1])]
        for x, y in itertools.product([n for n in numbers if within(n, facts[0])], held):
            wanted = expected(kind, x, y, dtype)
            if wanted is None or (kind in ("floordiv", "mod") and y == 0):
                continue
            got = computed(text, C(x, dtype), C(y, right_dtype) if isinstance(b, Value) else y)
            assert (got if kind in COMPARISONS else wrap(got, dtype)) == wanted, (text, x, y)
            tested += 1
    assert tested > 10


def within(number, facts):
    return (facts[0] is None or facts[0] <= number) and (facts[1] is None or number <= facts[1])


def expected(kind, x, y, dtype):
    """The value, None where it overflows; far shifts are clamped."""
    if kind in ("shl", "shr") and not 0 <= y < dtype.bits:
        return 0 if kind == "shl" else x >> 64
    try:
        return exact(kind, x, y, dtype)
    except Fault:
        return None
