"""A symbolic DynInt and random layouts for the layout tests, handed out as fixtures."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, ClassVar

import pytest

from moye.layout import Layout
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
                raise ValueError(f"{what}: {self} % {divisor} == 0 cannot be assumed")
            Sym.assumed.append(f"{self} % {divisor} == 0")
        return self.exact_div(divisor)


def random_shape(rng: random.Random, extents: tuple[int, ...] = (1, 2, 3, 4, 6, 8), deep: int = 2,
                 room: int = 256) -> Any:
    """A random nested shape of at most ``room`` elements."""
    if deep == 0 or rng.random() < 0.3:
        return rng.choice([e for e in extents if e <= room])
    modes = []
    for _ in range(rng.randint(1, 3)):
        modes.append(random_shape(rng, extents, deep - 1, room))
        room //= max(1, _size(modes[-1]))
    return tuple(modes)


def _size(shape: Any) -> int:
    result = 1
    for item in shape if isinstance(shape, tuple) else ():
        result *= _size(item)
    return result if isinstance(shape, tuple) else shape


def random_layout(rng: random.Random, injective: bool = False, **options: Any) -> Layout:
    """A random static layout: permuted compact strides, with gaps, and (unless injective) zeros."""
    from moye.layout.tuples import flatten_tuple, unflatten_tuple
    shape = random_shape(rng, **options)
    leaves = [int(leaf) for leaf in flatten_tuple(shape) if isinstance(leaf, int)]
    order = list(range(len(leaves)))
    rng.shuffle(order)
    steps, step = [0] * len(leaves), 1
    for i in order:
        if rng.random() < 0.2:
            step *= rng.choice((2, 3))
        if injective or rng.random() > 0.1:
            steps[i] = step
            step *= leaves[i]
    return Layout(shape, unflatten_tuple(steps, shape))


@pytest.fixture
def sym() -> type[Sym]:
    Sym.assumed = []
    return Sym


@pytest.fixture
def static() -> Callable[[Layout, Env], Layout]:
    """Evaluate the dynamic leaves of a layout."""
    from moye.layout.tuples import map_leaves
    return lambda layout, env: Layout(map_leaves(lambda x: value(x, env), layout.shape),
                                      map_leaves(lambda x: value(x, env), layout.stride))


@pytest.fixture
def layouts() -> Callable[..., list[Layout]]:
    """``layouts(count, seed=, injective=, ...)``: random layouts, the same ones in every run."""
    def make(count: int, seed: int = 0, **options: Any) -> list[Layout]:
        rng = random.Random(seed)
        return [random_layout(rng, **options) for _ in range(count)]
    return make
