"""Integers of layouts: a Python ``int`` (static), or a ``DynInt`` (a value known only while the kernel runs).

In: leaves of shapes, strides and coordinates.  Out: their products, quotients, and what is *provable* about them.

>>> ceil_div(10, 4), divides(4, 12), known_less(3, 4)
(3, True, True)

A dynamic integer is never compared with ``==`` or ``<`` here.  Every question goes to its facts (divisor, bounds,
``same``).  If they do not answer it, the result is None, or FactError if an answer is indispensable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeGuard

from moye.errors import FactError, LayoutError


class DynInt:
    """A dynamic integer and its facts: ``value % divisor == 0`` and ``lower <= value <= upper`` (None: no bound).

    Arithmetic has floor semantics and takes ints on either side.  Comparisons give traced booleans, not Python's.
    It has no metaclass: each operation of a kernel asks whether something is one, and ``abc`` answers that slowly.
    """

    __slots__ = ()

    divisor: int
    lower: int | None
    upper: int | None

    def comparison(self, kind: str, other: Int) -> object:
        """``self kind other`` ("lt", "le", "gt", "ge") as a traced bool; None for integers that trace nothing."""
        return None

    def as_index(self) -> Int:
        """The same integer, in a width in which sums and products of the algebra do not wrap."""
        return self

    def rounded_up(self, dividend: Int, divisor: Int) -> Int:
        """The least n with ``n * divisor >= dividend``, where self is one of the two."""
        return (dividend + (divisor - 1)) // divisor

    @abstractmethod
    def __add__(self, other: Int) -> Int: ...

    @abstractmethod
    def __radd__(self, other: Int) -> Int: ...

    @abstractmethod
    def __sub__(self, other: Int) -> Int: ...

    @abstractmethod
    def __rsub__(self, other: Int) -> Int: ...

    @abstractmethod
    def __mul__(self, other: Int) -> Int: ...

    @abstractmethod
    def __rmul__(self, other: Int) -> Int: ...

    @abstractmethod
    def __floordiv__(self, other: Int) -> Int: ...

    @abstractmethod
    def __rfloordiv__(self, other: Int) -> Int: ...

    @abstractmethod
    def __mod__(self, other: Int) -> Int: ...

    @abstractmethod
    def __rmod__(self, other: Int) -> Int: ...

    @abstractmethod
    def __and__(self, other: Int) -> Int: ...

    @abstractmethod
    def __xor__(self, other: Int) -> Int: ...

    @abstractmethod
    def __lshift__(self, other: Int) -> Int: ...

    @abstractmethod
    def __rshift__(self, other: Int) -> Int: ...

    @abstractmethod
    def __hash__(self) -> int: ...

    @abstractmethod
    def same(self, other: Int) -> bool:
        """Whether both values are provably equal."""

    @abstractmethod
    def exact_div(self, divisor: Int) -> Int:
        """The quotient of a division that is known to be exact."""

    @abstractmethod
    def require_divisible(self, divisor: int, what: str, code: str = "A12") -> Int:
        """The exact quotient; that ``divisor`` divides is proven, assumed, or an error is raised.

        ``code`` is the class of the error: A4 if tiles would not divide an extent.
        """


Int: TypeAlias = int | DynInt


def is_static(x: object) -> TypeGuard[int]:
    """Whether x is a Python integer.

    Law: ``is_static(n)`` for every int, and for no DynInt.
    """
    return isinstance(x, int)


def as_index(x: Int) -> Int:
    """An integer as the algebra computes with it: 8- and 16-bit ones of a kernel widened, anything else as it is."""
    return x.as_index() if isinstance(x, DynInt) else x


def is_const(x: object, value: int) -> bool:
    """Whether x is the static integer ``value``."""
    # DynInt first: ``isinstance(x, int)`` would ask a traced value for its class, which takes ten times as long.
    return not isinstance(x, DynInt) and isinstance(x, int) and x == value


def same(a: Int, b: Int) -> bool:
    """Whether a and b are provably equal.

    Law: ``same(a, b)`` implies that the values are equal; for two static integers it is ``a == b``.
    """
    if isinstance(a, int):
        return a == b if isinstance(b, int) else b.same(a)
    return a is b or a.same(b)


def lower_bound(x: Int) -> int | None:
    """A number that x is provably not below, or None."""
    return x if isinstance(x, int) else x.lower


def upper_bound(x: Int) -> int | None:
    """A number that x is provably not above, or None."""
    return x if isinstance(x, int) else x.upper


def known_less(a: Int, b: Int) -> bool | None:
    """Whether a < b; None if the facts do not tell.

    Law: an answer agrees with the values; two static integers always have one.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if same(a, b):
        return False
    a_low, a_high, b_low, b_high = lower_bound(a), upper_bound(a), lower_bound(b), upper_bound(b)
    if a_high is not None and b_low is not None and a_high < b_low:
        return True
    if a_low is not None and b_high is not None and a_low >= b_high:
        return False
    return None


def known_less_equal(a: Int, b: Int) -> bool | None:
    """Whether a <= b; None if the facts do not tell."""
    greater = known_less(b, a)
    return None if greater is None else not greater


def divides(d: Int, n: Int) -> bool | None:
    """Whether d divides n; None if the facts do not tell.

    Law: an answer agrees with ``n % d == 0`` of the values; two static integers with d != 0 always have one.
    """
    if isinstance(d, int) and d != 0:
        if isinstance(n, int):
            return n % d == 0
        return True if n.divisor % d == 0 else None
    if same(d, n) or is_const(n, 0):
        return True
    return None


def add(a: Int, b: Int) -> Int:
    """The sum a + b; if one is a static 0, it is the other object."""
    if type(a) is int and type(b) is int:               # nearly always
        return a + b
    if is_const(a, 0):
        return b
    return a if is_const(b, 0) else as_index(a) + as_index(b)


def mul(a: Int, b: Int) -> Int:
    """The product a * b; a static 0 gives static 0, and a static 1 gives the other object."""
    if type(a) is int and type(b) is int:
        return a * b
    if is_const(a, 0) or is_const(b, 0):
        return 0
    if is_const(a, 1):
        return b
    return a if is_const(b, 1) else as_index(a) * as_index(b)


def prod(factors: Iterable[Int]) -> Int:
    """The product; static factors are multiplied first."""
    static, dynamic = 1, list[DynInt]()
    for factor in factors:
        if isinstance(factor, int):
            static *= factor
        else:
            dynamic.append(factor)
    result: Int = static
    for value in dynamic:
        result = mul(result, value)
    return result


def _below(a: Int, b: Int) -> bool:
    # Floored, a negative number below b has the quotient -1 or less: an upper bound alone proves nothing.
    low = lower_bound(a)
    return low is not None and low >= 0 and known_less(a, b) is True


def floor_div(a: Int, b: Int) -> Int:
    """a // b, without a division if the facts give the quotient."""
    if is_const(b, 1) or is_const(a, 0):
        return a
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    a, b = as_index(a), as_index(b)
    if _below(a, b):
        return 0
    if isinstance(a, DynInt) and isinstance(b, int) and divides(b, a):
        return a.exact_div(b)
    return 1 if same(a, b) else a // b


def mod(a: Int, b: Int) -> Int:
    """a % b, without a division if the facts give the remainder."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    a, b = as_index(a), as_index(b)
    if divides(b, a):
        return 0
    return a if _below(a, b) else a % b


def ceil_div(a: Int, b: Int) -> Int:
    """The least n with n * b >= a, for b > 0; an exact quotient if b is known to divide a."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    a, b = as_index(a), as_index(b)
    if is_const(b, 1) or is_const(a, 0):
        return a
    low = lower_bound(a)
    if same(a, b) or (low is not None and low >= 1 and known_less_equal(a, b)):
        return 1
    if isinstance(a, DynInt) and isinstance(b, int) and divides(b, a):
        return a.exact_div(b)
    dynamic = a if isinstance(a, DynInt) else b
    assert isinstance(dynamic, DynInt), "two static integers are divided above"
    return dynamic.rounded_up(a, b)


def said(what: str | Callable[[], str]) -> str:
    """A text, or what a function returns as one: messages are put together only when they are raised."""
    return what if isinstance(what, str) else what()


def exact_div(a: Int, b: Int, what: str | Callable[[], str]) -> Int:
    """a / b, where b must divide a: this is proven, assumed of a, or an error about ``what`` is raised."""
    if isinstance(a, int) and isinstance(b, int) and b and a % b == 0:
        return a // b
    if is_const(b, 1) or is_const(a, 0):
        return a
    if same(a, b):
        return 1
    if isinstance(b, int):
        if isinstance(a, DynInt):
            if divides(b, a):
                return a.exact_div(b)
            return a.require_divisible(b, f"{said(what)}: {{value}} is not a multiple of {b}")
        raise LayoutError(f"{said(what)}: {a} is not a multiple of {b}")
    raise FactError(f"{said(what)} needs to know that {a} is a multiple of the dynamic integer {b}")


def minimum(a: Int, b: Int, what: str = "minimum") -> Int:
    """The smaller of two integers; FactError if the facts do not tell which it is."""
    less = known_less_equal(a, b)
    if less is None:
        raise FactError(f"{what} needs a bound that tells whether {a} <= {b}")
    return a if less else b
