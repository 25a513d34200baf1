"""A symbolic DynInt: a named integer with facts whose arithmetic builds text, facts and an evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, ClassVar

from moye.layout.ints import DynInt, Int

Env = Mapping[str, int]


class Traced:
    """A comparison of dynamic integers: code that asks for its truth is wrong."""

    def __bool__(self) -> bool:
        raise AssertionError("a comparison of dynamic integers was used as a Python bool")


def value(x: Int, env: Env) -> int:
    return x if isinstance(x, int) else x.run(env)  # type: ignore[attr-defined, no-any-return]


class Sym(DynInt):
    """A named integer with facts; arithmetic builds text, facts and an evaluator."""

    assumed: ClassVar[list[str]] = []
    assumptions: ClassVar[list[Callable[[Env], bool]]] = []

    def __init__(self, text: str, divisor: int = 1, lower: int | None = 0, upper: int | None = None,
                 run: Callable[[Env], int] | None = None, fixed: bool = False) -> None:
        self.text, self.divisor, self.lower, self.upper, self.fixed = text, divisor, lower, upper, fixed
        self.run = run or (lambda env: env[text])

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _facts(self, other: Int) -> tuple[int, int | None, int | None]:
        return (abs(other), other, other) if isinstance(other, int) else (other.divisor, other.lower, other.upper)

    def _make(self, op: str, a: Int, b: Int, f: Callable[[int, int], int], **facts: Any) -> Sym:
        ta, tb = (f"({x})" if any(c in str(x) for c in "+- ") and op != "+" else str(x) for x in (a, b))
        return Sym(f"{ta}{op}{tb}", run=lambda env: f(value(a, env), value(b, env)), **facts)

    def _sum(self, a: Int, b: Int) -> Int:
        (da, la, ua), (db, lb, ub) = self._facts(a), self._facts(b)
        return self._make("+", a, b, lambda x, y: x + y, divisor=gcd(da, db),
                          lower=None if la is None or lb is None else la + lb,
                          upper=None if ua is None or ub is None else ua + ub)

    def __add__(self, other: Int) -> Int:
        return self._sum(self, other)

    def __radd__(self, other: Int) -> Int:
        return self._sum(other, self)

    def __sub__(self, other: Int) -> Int:
        return self._difference(self, other)

    def __rsub__(self, other: Int) -> Int:
        return self._difference(other, self)

    def _difference(self, a: Int, b: Int) -> Int:
        (da, la, ua), (db, lb, ub) = self._facts(a), self._facts(b)
        return self._make("-", a, b, lambda x, y: x - y, divisor=gcd(da, db),
                          lower=None if la is None or ub is None else la - ub,
                          upper=None if ua is None or lb is None else ua - lb)

    def _product(self, a: Int, b: Int) -> Int:
        (da, la, ua), (db, lb, ub) = self._facts(a), self._facts(b)
        signed = la is None or lb is None or la < 0 or lb < 0
        return self._make("*", a, b, lambda x, y: x * y, divisor=max(da * db, 1),
                          lower=None if la is None or lb is None or signed else la * lb,
                          upper=None if ua is None or ub is None or signed else ua * ub)

    def __mul__(self, other: Int) -> Int:
        if not isinstance(other, (int, Sym)):
            return NotImplemented
        return self._product(self, other)

    def __rmul__(self, other: Int) -> Int:
        return self._product(other, self)

    def __floordiv__(self, other: Int) -> Int:
        low = None if self.lower is None or not isinstance(other, int) else self.lower // other
        high = None if self.upper is None or not isinstance(other, int) else self.upper // other
        return self._make("//", self, other, lambda x, y: x // y, lower=low, upper=high)

    def __rfloordiv__(self, other: Int) -> Int:
        return self._make("//", other, self, lambda x, y: x // y, lower=None)

    def __mod__(self, other: Int) -> Int:
        return self._make("%", self, other, lambda x, y: x % y, upper=other - 1 if isinstance(other, int) else None)

    def __rmod__(self, other: Int) -> Int:
        return self._make("%", other, self, lambda x, y: x % y)

    def __and__(self, other: Int) -> Int:
        return self._make("&", self, other, lambda x, y: x & y)

    def __xor__(self, other: Int) -> Int:
        return self._make("^", self, other, lambda x, y: x ^ y)

    def __lshift__(self, other: Int) -> Int:
        return self._make("<<", self, other, lambda x, y: x << y)

    def __rshift__(self, other: Int) -> Int:
        return self._make(">>", self, other, lambda x, y: x >> y)

    def __eq__(self, other: object) -> Any:
        return Traced()

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return hash(self.text)

    def __bool__(self) -> bool:
        raise AssertionError("a dynamic integer was used as a Python bool")

    def same(self, other: Int) -> bool:
        if isinstance(other, int):
            return self.lower is not None and self.lower == self.upper == other
        return str(self) == str(other)

    def exact_div(self, divisor: Int) -> Int:
        low = None if self.lower is None or not isinstance(divisor, int) else self.lower // divisor
        high = None if self.upper is None or not isinstance(divisor, int) else self.upper // divisor
        return self._make("/", self, divisor, lambda x, y: x // y, lower=low, upper=high,
                          divisor=max(1, self.divisor // divisor) if isinstance(divisor, int) else 1)

    def require_divisible(self, divisor: int, what: str) -> Int:
        if self.divisor % divisor:
            if self.fixed:
                raise ValueError(f"{what.format(value=self)}: {self} % {divisor} == 0 cannot be assumed")
            Sym.assumed.append(f"{self} % {divisor} == 0")
            Sym.assumptions.append(lambda env: self.run(env) % divisor == 0)
        return self.exact_div(divisor)
