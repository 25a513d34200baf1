"""Scalar folding: constants, identities, and what the facts of integers prove.

In: an operation and its operands.  Out: an equal, simpler operand, or None; and the facts of a result.

    facts("mul", x, Literal(8, int32))     # x in [0, 31]
    # (0, 248, 8)

Facts are (lower, upper, divisor).  Signed 32- and 64-bit integers are taken not to overflow, not in shifts either
(the simulator reports it where ``may_overflow``); narrower and unsigned ones wrap.  No rule makes an overflow that the
program does not have.  Nothing is emitted here except through the ``build`` callback.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from moye import dtypes as dt
from moye.dtypes import DType, Kind
from moye.ir import ops
from moye.ir.constants import fits, limits, wrap, wraps
from moye.ir.nodes import Literal, Operand, Value

Facts = tuple[int | None, int | None, int]
Build = Callable[[str, Operand, Operand], Operand]

COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor", "land", "lor", "eq", "ne"})
_NEVER = 1 << 256  # the divisor of zero: a power of two that no other integer has
_SURE = 1 << 62  # larger divisors are not kept


def facts_of(operand: Operand) -> Facts:
    if isinstance(operand, Literal):
        number = int(operand.value)
        return number, number, abs(number) or _NEVER
    lower = 0 if operand.lower is None and operand.dtype.kind is Kind.UINT else operand.lower
    return lower, operand.upper, operand.divisor


def common_divisor(a: int, b: int) -> int:
    """The greatest common divisor of two divisors; zero's is a multiple of every other."""
    if a >= _NEVER or b >= _NEVER:
        return b if a >= _NEVER else a
    return math.gcd(a, b)


def meet(a: Facts, b: Facts) -> Facts:
    """What holds of a value that is one or the other."""
    lower = None if a[0] is None or b[0] is None else min(a[0], b[0])
    upper = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lower, upper, common_divisor(a[2], b[2])


def implied(strong: Facts, weak: Facts) -> bool:
    """Whether ``strong`` says at least what ``weak`` says."""
    lower = weak[0] is None or (strong[0] is not None and strong[0] >= weak[0])
    upper = weak[1] is None or (strong[1] is not None and strong[1] <= weak[1])
    return lower and upper and strong[2] % weak[2] == 0


def facts(kind: str, a: Operand, b: Operand) -> Facts:
    """Facts of ``a kind b`` for integers."""
    found = combined(kind, facts_of(a), facts_of(b))
    return _modulo(found, a.dtype) if wraps(a.dtype) else _possible(found, a.dtype)


def combined(kind: str, a: Facts, b: Facts) -> Facts:
    """Facts of an operation on exact integers with these facts."""
    rule = _FACTS.get(kind)
    lower, upper, divisor = rule(a, b) if rule else (None, None, 1)
    # What no dtype holds says no more than _NEVER: the digits of a product of products would double with each.
    lower = None if lower is None or lower < -_NEVER else min(lower, _NEVER)
    return lower, None if upper is None or upper > _NEVER else max(upper, -_NEVER), divisor


def cast_facts(a: Operand, dtype: DType) -> Facts:
    """Facts of an integer or bool converted to an integer dtype."""
    if a.dtype.kind is Kind.BOOL:
        return 0, 1, 1
    if not a.dtype.is_integer:
        return None, None, 1
    widens = dtype.bits >= a.dtype.bits and not wraps(dtype)
    return facts_of(a) if widens and a.dtype.kind is Kind.INT else _modulo(facts_of(a), dtype)


def unary_facts(kind: str, a: Operand) -> Facts:
    """Facts of neg and abs of an integer."""
    lower, upper, divisor = facts_of(a)
    if kind == "neg":
        found = None if upper is None else -upper, None if lower is None else -lower, divisor
    elif kind == "abs":
        ends = None if lower is None or upper is None else max(abs(lower), abs(upper))
        found = max(0, lower or 0, -upper if upper is not None else 0), ends, divisor
    elif kind in ops.COUNTS:
        return 0, a.dtype.bits, 1
    else:
        return None, None, 1
    return _modulo(found, a.dtype) if wraps(a.dtype) else _possible(found, a.dtype)


def _possible(found: Facts, dtype: DType) -> Facts:
    """The facts of arithmetic that must not overflow; none if it does for sure, so that it stays to be reported."""
    lower, upper, _ = found
    beyond = (lower is not None and lower > 0 and not fits(lower, dtype)) or \
        (upper is not None and upper < 0 and not fits(upper, dtype))
    return (None, None, 1) if beyond else found


def _modulo(found: Facts, dtype: DType) -> Facts:
    """The facts that survive arithmetic that wraps: bounds if they show that it does not wrap, and powers of two."""
    # Wrapping subtracts multiples of 2^bits: of a divisor only its powers of two survive that.
    lower, upper, divisor = found
    if lower is not None and upper is not None and fits(lower, dtype) and fits(upper, dtype):
        return found
    return None, None, math.gcd(divisor, 1 << dtype.bits)


def _add(a: Facts, b: Facts) -> Facts:
    lower = None if a[0] is None or b[0] is None else a[0] + b[0]
    upper = None if a[1] is None or b[1] is None else a[1] + b[1]
    return lower, upper, common_divisor(a[2], b[2])


def _sub(a: Facts, b: Facts) -> Facts:
    lower = None if a[0] is None or b[1] is None else a[0] - b[1]
    upper = None if a[1] is None or b[0] is None else a[1] - b[0]
    return lower, upper, common_divisor(a[2], b[2])


def _product(a: int, b: int) -> int:
    """A divisor of a product; if it is too large to keep, the power of two in it."""
    if a >= _NEVER or b >= _NEVER:
        return _NEVER
    both = a * b
    return both if both < _SURE else min(both & -both, _SURE)


def _mul(a: Facts, b: Facts) -> Facts:
    divisor = _product(a[2], b[2])
    # A product is linear in either factor, so it is least and greatest at ends of both.
    if None not in (a[0], a[1], b[0], b[1]):
        products = [x * y for x in a[:2] for y in b[:2] if x is not None and y is not None]
        return min(products), max(products), divisor
    # One side is a constant that is not negative: each bound of the other scales by itself, even if only one is known.
    for x, y in ((a, b), (b, a)):
        if y[0] is not None and y[0] == y[1] and y[0] >= 0:
            return None if x[0] is None else x[0] * y[0], None if x[1] is None else x[1] * y[0], divisor
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None, divisor
    return None, None, divisor


def _floordiv(a: Facts, b: Facts) -> Facts:
    # An unknown divisor still brings what is not negative no further from 0.
    if b[0] is None or b[0] != b[1] or b[0] <= 0:
        return (0 if _non_negative(a) and _non_negative(b) else None), (a[1] if _non_negative(a) else None), 1
    d = b[0]
    # Floor division by a positive constant is monotonic.
    lower = None if a[0] is None else a[0] // d
    upper = None if a[1] is None else a[1] // d
    return lower, upper, a[2] // d if a[2] % d == 0 else 1


def _mod(a: Facts, b: Facts) -> Facts:
    upper = None if b[1] is None else max(b[1] - 1, 0)
    # Floored, a remainder of what is not negative by a positive number is at most that number itself.
    if _non_negative(a) and a[1] is not None and (upper is None or a[1] < upper):
        upper = a[1]
    # a % b = a - (a // b) * b: whatever divides both operands divides the remainder.
    return (0 if b[0] is not None and b[0] >= 0 else None), upper, common_divisor(a[2], b[2])


def _min(a: Facts, b: Facts) -> Facts:
    lower, _, divisor = meet(a, b)
    # The minimum is below both upper bounds, and at least the smaller lower one.
    uppers = [x for x in (a[1], b[1]) if x is not None]
    return lower, min(uppers, default=None), divisor


def _max(a: Facts, b: Facts) -> Facts:
    _, upper, divisor = meet(a, b)
    lowers = [x for x in (a[0], b[0]) if x is not None]
    return max(lowers, default=None), upper, divisor


def _and(a: Facts, b: Facts) -> Facts:
    uppers = [f[1] for f in (a, b) if _non_negative(f) and f[1] is not None]
    # An AND keeps the trailing zeros of either side; an operand without a sign bit clears the other's sign, and bounds
    # it.
    low_bits = max(a[2] & -a[2], b[2] & -b[2])
    return (0 if _non_negative(a) or _non_negative(b) else None), min(uppers, default=None), low_bits


def _or(a: Facts, b: Facts) -> Facts:
    # Only trailing zeros of both sides stay, and no bit above the highest of both appears; this holds for XOR too.
    low_bits = min(a[2] & -a[2], b[2] & -b[2])
    if not (_non_negative(a) and _non_negative(b)) or a[1] is None or b[1] is None:
        return (0 if _non_negative(a) and _non_negative(b) else None), None, low_bits
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1, low_bits


def _shift_right(a: Facts, b: Facts) -> Facts:
    if b[0] is None or b[0] != b[1] or not 0 <= b[0] < 63:
        return (0 if _non_negative(a) else None), (a[1] if _non_negative(a) else None), 1
    # An arithmetic shift floors, as division by 2^n does here.
    return _floordiv(a, (1 << b[0], 1 << b[0], 1))


def _shift_left(a: Facts, b: Facts) -> Facts:
    if b[0] is None or b[0] != b[1] or not 0 <= b[0] < 64:
        return None, None, a[2]
    return _mul(a, (1 << b[0], 1 << b[0], 1 << b[0]))


_FACTS: dict[str, Callable[[Facts, Facts], Facts]] = {
    "add": _add, "sub": _sub, "mul": _mul, "floordiv": _floordiv, "mod": _mod, "min": _min, "max": _max,
    "and": _and, "or": _or, "xor": _or, "shr": _shift_right, "shl": _shift_left,
}


def _non_negative(facts: Facts) -> bool:
    return facts[0] is not None and facts[0] >= 0


# --- folding ---------------------------------------------------------------------------------------------------------


def may_overflow(kind: str, a: Operand, b: Operand | None = None) -> bool:
    """Whether the facts of the operands leave room for a result that a signed dtype of 32 or 64 bits does not hold."""
    if not a.dtype.is_integer or wraps(a.dtype):
        return False
    low, high = limits(a.dtype)
    if b is None:
        return kind in ("neg", "abs") and possible(a, low)
    if kind == "floordiv":
        # The only quotient out of range is that of the least integer by -1.
        return possible(a, low) and possible(b, -1)
    if kind not in ("add", "sub", "mul", "shl"):
        return False
    lower, upper, _ = facts(kind, a, b)
    return lower is None or upper is None or lower < low or upper > high


def possible(operand: Operand, number: int) -> bool:
    """Whether the facts of an integer allow it to be this number."""
    lower, upper, divisor = facts_of(operand)
    return (lower is None or lower <= number) and (upper is None or number <= upper) and number % divisor == 0


_PYTHON: dict[str, Callable[..., int | float | bool]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "min": min, "max": max, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "land": lambda a, b: bool(a and b), "lor": lambda a, b: bool(a or b),
}


def _constant(kind: str, a: Literal, b: Literal) -> Literal | None:
    if kind not in _PYTHON or (kind in ("floordiv", "mod") and b.value == 0):
        return None
    if a.dtype.is_float or (kind in ("shl", "shr") and not 0 <= int(b.value) < a.dtype.bits):
        return None  # leave floating-point rounding to the target
    result = _PYTHON[kind](a.value, b.value)
    if kind in ops.COMPARISONS or kind in ops.LOGICAL:
        return Literal(bool(result), dt.bool_)
    return _integer(int(result), a.dtype)


def _integer(result: int, dtype: DType) -> Literal | None:
    """The result of an operation on constants; None if it is an overflow, which the simulator is to see."""
    return None if not fits(result, dtype) and not wraps(dtype) else Literal(wrap(result, dtype), dtype)


def binary(kind: str, a: Operand, b: Operand, build: Build) -> Operand | None:
    """An equal operand that is simpler than ``a kind b``, or None."""
    if isinstance(a, Literal) and isinstance(b, Literal):
        return _constant(kind, a, b)
    if kind in ops.COMPARISONS:
        return _compare(kind, a, b)
    if kind in ops.LOGICAL:
        return _logical(kind, a, b)
    if not a.dtype.is_integer:
        return None
    rule = _RULES.get(kind)
    return rule(a, b, build) if rule else None


def _zero(x: Operand) -> Literal:
    return Literal(0, x.dtype)


def _is(x: Operand, number: int) -> bool:
    return isinstance(x, Literal) and x.value == number


def _producer(x: Operand, kind: str) -> ops.Binary | None:
    """The Binary of this kind that made x and has a literal on the right, if so."""
    op = x.op if isinstance(x, Value) else None
    return op if isinstance(op, ops.Binary) and op.kind == kind and isinstance(op.b, Literal) else None


def _right(op: ops.Binary) -> int:
    """The literal that ``_producer`` found on the right."""
    assert isinstance(op.b, Literal), "a producer has a literal on the right"
    return int(op.b.value)


def _literal(x: Operand) -> int | None:
    return int(x.value) if isinstance(x, Literal) else None


def _fold_add(a: Operand, b: Operand, build: Build) -> Operand | None:
    if _is(b, 0):
        return a
    number = _literal(b)
    # (x + m) + n = x + (m + n): the result is the program's own, with one step less that could overflow.
    inner = _producer(a, "add")
    if number is not None and inner is not None:
        return _with(build, "add", inner.a, _right(inner) + number)
    for one, other in ((a, b), (b, a)):
        whole = None if wraps(a.dtype) else _put_together(one, other, build)
        if whole is not None:
            return whole
    return None


def _put_together(multiple: Operand, rest: Operand, build: Build) -> Operand | None:
    """x of ``x // d * d + x % d``, and ``x % (n * d)`` of ``x // d % n * d + x % d``: an index that was split."""
    by = _product_of(multiple)
    if by is None:
        op = multiple.op if isinstance(multiple, Value) else None
        # (p + q) + r, of which q and r belong together.
        if isinstance(op, ops.Binary) and op.kind == "add":
            inner = _put_together(op.b, rest, build)
            return None if inner is None else build("add", op.a, inner)
        return None
    remainder = _of_kind(rest, "mod")
    if remainder is None:
        return None
    for quotient, d in (by, by[::-1]):
        if not _same(remainder.b, d):
            continue
        cut, count = quotient, None
        if (outer := _of_kind(quotient, "mod")) is not None:
            cut, count = outer.a, _literal(outer.b)
        divided = _of_kind(cut, "floordiv")
        if divided is None or divided.a is not remainder.a or not _same(divided.b, d):
            continue
        if cut is quotient:
            return remainder.a
        whole = _literal(d)
        if count is not None and whole is not None and count > 0 and whole > 0:
            return _with(build, "mod", remainder.a, count * whole)
    return None


def _of_kind(x: Operand, kind: str) -> ops.Binary | None:
    op = x.op if isinstance(x, Value) else None
    return op if isinstance(op, ops.Binary) and op.kind == kind else None


def _product_of(x: Operand) -> tuple[Operand, Operand] | None:
    op = _of_kind(x, "mul")
    return None if op is None else (op.a, op.b)


def _same(a: Operand, b: Operand) -> bool:
    """One number: a value, or two equal constants."""
    number = _literal(a)
    return a is b or (number is not None and number == _literal(b))


def _with(build: Build, kind: str, a: Operand, number: int) -> Operand | None:
    """``a kind number``, unless the number does not fit the dtype."""
    return build(kind, a, Literal(number, a.dtype)) if fits(number, a.dtype) else None


def _fold_sub(a: Operand, b: Operand, build: Build) -> Operand | None:
    number = _literal(b)
    if number is not None:
        # One form for both signs: the other rules look for additions alone.
        return _with(build, "add", a, -number) if number else a
    if isinstance(a, Value) and a is b:
        return _zero(a)
    return None


def _fold_mul(a: Operand, b: Operand, build: Build) -> Operand | None:
    number = _literal(b)
    if number is None:
        return None
    if number in (0, 1):
        return a if number else _zero(a)
    inner = _producer(a, "mul")
    if inner is not None:
        return _with(build, "mul", inner.a, _right(inner) * number)
    inner = _producer(a, "add")
    # The constant goes outermost, so that offsets that differ by a constant share the product.
    if inner is not None and fits(_right(inner) * number, a.dtype) and _distributes(inner, b):
        return build("add", build("mul", inner.a, b), Literal(_right(inner) * number, a.dtype))
    return None


def _distributes(inner: ops.Binary, factor: Operand) -> bool:
    """Whether ``x * factor`` cannot overflow where ``(x + number) * factor`` does not: x is no further from zero."""
    lower, upper, _ = facts_of(inner.a)
    same = (lower is not None and lower >= 0) if _right(inner) >= 0 else (upper is not None and upper <= 0)
    return same or not may_overflow("mul", inner.a, factor)


def _split(x: Operand, d: int) -> tuple[Operand, Operand] | None:
    """x as multiple + rest with d | multiple and 0 <= rest < d, if x is such a sum."""
    op = x.op if isinstance(x, Value) else None
    if not isinstance(op, ops.Binary) or op.kind != "add" or wraps(x.dtype):
        return None
    for multiple, rest in ((op.a, op.b), (op.b, op.a)):
        lower, upper, _ = facts_of(rest)
        if facts_of(multiple)[2] % d == 0 and lower is not None and lower >= 0 and upper is not None and upper < d:
            return multiple, rest
    return None


def _fold_floordiv(a: Operand, b: Operand, build: Build) -> Operand | None:
    d = _literal(b)
    if d is None or d <= 0:
        return _zero(a) if _is(a, 0) else None
    lower, upper, _ = facts_of(a)
    if d == 1:
        return a
    if lower is not None and upper is not None and lower // d == upper // d:
        return Literal(lower // d, a.dtype)
    # (x * m) // (m * k) = x // k holds for the product itself, not for one that has wrapped.
    inner = None if wraps(a.dtype) else _producer(a, "mul")
    if inner is not None and _right(inner) % d == 0:
        return build("mul", inner.a, Literal(_right(inner) // d, a.dtype))
    if inner is not None and _right(inner) > 0 and d % _right(inner) == 0:
        return build("floordiv", inner.a, Literal(d // _right(inner), a.dtype))
    # Floors nest: (x // m) // n = x // (m * n) for positive m and n.
    inner = _producer(a, "floordiv")
    if inner is not None and _right(inner) > 0:
        return _with(build, "floordiv", inner.a, _right(inner) * d)
    # Multiple + rest with 0 <= rest < d: the rest carries nothing into the quotient.
    parts = _split(a, d)
    return build("floordiv", parts[0], b) if parts else None


def _fold_mod(a: Operand, b: Operand, build: Build) -> Operand | None:
    d = _literal(b)
    if d is None or d <= 0:
        return _zero(a) if _is(a, 0) else None
    lower, upper, divisor = facts_of(a)
    if divisor % d == 0:
        return _zero(a)
    if lower is not None and lower >= 0 and upper is not None and upper < d:
        return a
    # x % (k * d) differs from x by a multiple of d.
    inner = _producer(a, "mod")
    if inner is not None and _right(inner) % d == 0:
        return build("mod", inner.a, b)
    parts = _split(a, d)
    return parts[1] if parts else None


def _fold_bits(kind: str) -> Callable[[Operand, Operand, Build], Operand | None]:
    def rule(a: Operand, b: Operand, build: Build) -> Operand | None:
        if not _is(b, 0):
            return None
        return _zero(a) if kind == "and" else a
    return rule


def _fold_extremum(kind: str) -> Callable[[Operand, Operand, Build], Operand | None]:
    def rule(a: Operand, b: Operand, build: Build) -> Operand | None:
        (alo, ahi, _), (blo, bhi, _) = facts_of(a), facts_of(b)
        if ahi is not None and blo is not None and ahi <= blo:
            return a if kind == "min" else b
        if bhi is not None and alo is not None and bhi <= alo:
            return b if kind == "min" else a
        # Two offsets from one base compare as their constants do, as sums that do not wrap are monotonic.
        (base_a, add_a), (base_b, add_b) = _sum(a), _sum(b)
        if base_a is not None and base_a is base_b and not wraps(a.dtype):
            return a if (add_a <= add_b) is (kind == "min") else b
        return None
    return rule


_RULES: dict[str, Callable[[Operand, Operand, Build], Operand | None]] = {
    "add": _fold_add, "sub": _fold_sub, "mul": _fold_mul, "floordiv": _fold_floordiv, "mod": _fold_mod,
    "and": _fold_bits("and"), "or": _fold_bits("or"), "xor": _fold_bits("xor"), "shl": _fold_bits("shl"),
    "shr": _fold_bits("shr"), "min": _fold_extremum("min"), "max": _fold_extremum("max"),
}


def _compare(kind: str, a: Operand, b: Operand) -> Literal | None:
    if not a.dtype.is_integer:
        return None                                     # x == x is false of a NaN
    if isinstance(a, Value) and a is b:
        return Literal(kind in ("le", "ge", "eq"), dt.bool_)
    # x + 1 < x + 2 by the constants alone: signed sums do not wrap.
    (base_a, add_a), (base_b, add_b) = _sum(a), _sum(b)
    if base_a is not None and base_a is base_b and not wraps(a.dtype):
        return _constant(kind, Literal(add_a, a.dtype), Literal(add_b, a.dtype))
    (alo, ahi, adiv), (blo, bhi, bdiv) = facts_of(a), facts_of(b)
    below = ahi is not None and blo is not None and ahi < blo
    above = alo is not None and bhi is not None and alo > bhi
    at_most = ahi is not None and blo is not None and ahi <= blo
    at_least = alo is not None and bhi is not None and alo >= bhi
    # A constant that the other side's divisor does not divide is none of its values.
    unequal = below or above or any(isinstance(x, Literal) and int(x.value) % divisor != 0
                                    for x, divisor in ((a, bdiv), (b, adiv)))
    proofs: dict[str, tuple[bool, bool]] = {
        "lt": (below, at_least), "le": (at_most, above), "gt": (above, at_most), "ge": (at_least, below),
        "eq": (False, unequal), "ne": (unequal, False),
    }
    yes, no = proofs[kind]
    return Literal(yes, dt.bool_) if yes or no else None


def _sum(x: Operand) -> tuple[Operand | None, int]:
    """x as base + constant."""
    inner = _producer(x, "add")
    if inner is not None:
        return inner.a, _right(inner)
    return (x, 0) if isinstance(x, Value) else (None, 0)


def _logical(kind: str, a: Operand, b: Operand) -> Operand | None:
    for literal, other in ((a, b), (b, a)):
        if isinstance(literal, Literal):
            if kind == "land":
                return other if literal.value else Literal(False, dt.bool_)
            return Literal(True, dt.bool_) if literal.value else other
    return a if a is b else None


def unary(kind: str, a: Operand) -> Operand | None:
    """Constants, not of not, and the absolute value of what is not negative."""
    if isinstance(a, Literal):
        if kind == "not":
            return Literal(not a.value, dt.bool_)
        if kind == "neg" and a.dtype.kind is not Kind.BOOL:
            return Literal(-a.value, a.dtype) if a.dtype.is_float else _integer(-int(a.value), a.dtype)
        if kind == "abs" and a.dtype.is_integer:
            return _integer(abs(int(a.value)), a.dtype)
        if kind == "invert" and a.dtype.is_integer:
            return Literal(wrap(~int(a.value), a.dtype), a.dtype)
        return None
    if kind == "not" and isinstance(a.op, ops.Unary) and a.op.kind == "not":
        return a.op.a
    if kind == "abs" and a.dtype.is_integer and (lower := facts_of(a)[0]) is not None and lower >= 0:
        return a
    return None
