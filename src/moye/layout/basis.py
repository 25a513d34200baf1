"""Basis strides: they say along which coordinate a mode moves, and how far.

In: the position of a coordinate, ``E(0)``, ``E(0, 1)``.  Out: leaves of strides, written ``2@0`` and ``1@1@0`` (the
outermost position last, as CuTe prints them), and the coordinates that they add up to.

>>> str(2 * E(0, 1)), 3 * E(0) + E(1), ArithmeticTuple((1, 2)) + ArithmeticTuple((0, 0, 5))
('2@1@0', (3, 1), (1, 2, 5))

A layout with such strides maps coordinates to coordinates.  Source: cute/numeric/arithmetic_tuple.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from moye.errors import LayoutError
from moye.layout.ints import DynInt, Int, add, is_const, mul, same
from moye.layout.tuples import IntTuple


class ScaledBasis(DynInt):
    """``value`` steps along the coordinate at ``path``: a leaf of strides that is not a number."""

    __slots__ = ("path", "value")

    divisor, lower, upper = 1, None, None

    def __init__(self, value: Int, path: tuple[int, ...]) -> None:
        if not isinstance(path, tuple) or not path or not all(isinstance(i, int) and i >= 0 for i in path):
            raise LayoutError(f"E{path!r} is no basis: it takes the positions of a coordinate, outermost first")
        self.value = value
        self.path = path

    def __add__(self, other: Any) -> Any:
        # Sums of different directions are coordinates; CuTe's ScaledBasis becomes an ArithmeticTuple there, too.
        return self if is_const(other, 0) else as_arithmetic_tuple(self) + other

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (ScaledBasis, tuple)):
            return NotImplemented
        return ScaledBasis(mul(self.value, other), self.path)

    __rmul__ = __mul__

    def __neg__(self) -> ScaledBasis:
        return ScaledBasis(mul(self.value, -1), self.path)

    def __abs__(self) -> ScaledBasis:
        return ScaledBasis(abs(self.value), self.path) if isinstance(self.value, int) else self

    def _number(self, *_: object) -> NoReturn:
        raise LayoutError(f"the stride {self} is a coordinate: it can be scaled and added, and nothing else")

    __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _number
    __and__ = __xor__ = __lshift__ = __rshift__ = _number

    def same(self, other: Int) -> bool:
        return isinstance(other, ScaledBasis) and self.path == other.path and same(self.value, other.value)

    def exact_div(self, divisor: Int) -> NoReturn:
        self._number()

    def require_divisible(self, divisor: int, what: str, code: str = "A12") -> NoReturn:
        self._number()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledBasis) and self.same(other)

    def __hash__(self) -> int:
        return hash((self.value, self.path))

    def __reduce__(self) -> tuple[type[ScaledBasis], tuple[Int, tuple[int, ...]]]:
        return ScaledBasis, (self.value, self.path)

    def __str__(self) -> str:
        return f"{self.value}{''.join(f'@{i}' for i in reversed(self.path))}"

    __repr__ = __str__


class ArithmeticTuple(tuple[Any, ...]):
    """A coordinate that adds by position; missing positions are 0.  Otherwise it is a tuple."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> ArithmeticTuple:
        if not isinstance(items, Iterable) or getattr(items, "shape", None) == ():
            raise LayoutError(f"an ArithmeticTuple is made of the items of a tuple, not of {items!r}")
        return super().__new__(cls, [ArithmeticTuple(x) if type(x) is tuple else x for x in items])

    def __add__(self, other: Any) -> ArithmeticTuple:
        if is_const(other, 0):
            return self
        if not isinstance(other, (tuple, ScaledBasis)):
            raise LayoutError(f"the coordinate {tuple(self)} and the number {other} do not add up: a layout's strides "
                              "are all numbers or all coordinates")
        total: ArithmeticTuple = _sum(self, as_arithmetic_tuple(other))
        return total

    __radd__ = __add__

    def __mul__(self, other: Any) -> ArithmeticTuple:
        return ArithmeticTuple(x * other if isinstance(x, tuple) else mul(x, other) for x in self)

    __rmul__ = __mul__


def _sum(a: Any, b: Any) -> Any:
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return add(a, b)
    if is_const(a, 0) or is_const(b, 0):
        return b if is_const(a, 0) else a
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        raise LayoutError(f"the coordinates {a} and {b} have different structures and do not add up")
    rest = a[len(b):] or b[len(a):]
    return ArithmeticTuple((*map(_sum, a, b), *rest))


def E(*path: int) -> ScaledBasis:
    """The unit step along the coordinate at a position, outermost first.

    Law: ``E(i, j)`` as a coordinate has 1 at ``[i][j]`` and 0 elsewhere (cute/numeric/arithmetic_tuple.hpp).
    """
    return ScaledBasis(1, path)


def as_arithmetic_tuple(x: Any) -> ArithmeticTuple:
    """The coordinate that a basis stride, or a tuple, stands for.

    Law: ``basis_get(e, as_arithmetic_tuple(e)) == basis_value(e)`` (cute/numeric/arithmetic_tuple.hpp).
    """
    if not isinstance(x, ScaledBasis):
        return ArithmeticTuple(x)
    result: Any = x.value
    for i in reversed(x.path):
        result = ArithmeticTuple((0,) * i + (result,))
    return result  # type: ignore[no-any-return]


def basis_value(e: Int) -> Int:
    """The number of steps of a basis stride; an integer is its own value.

    Law: ``basis_value(n * E(...)) == n`` (cute/numeric/arithmetic_tuple.hpp).
    """
    return e.value if isinstance(e, ScaledBasis) else e


def basis_get(e: Int, x: Any) -> Any:
    """The entry of a tuple at the position of a basis stride; for an integer, the whole tuple.

    Law: ``basis_get(E(i, j), x) == x[i][j]`` (cute/numeric/arithmetic_tuple.hpp).
    """
    for depth, i in enumerate(e.path if isinstance(e, ScaledBasis) else ()):
        if not isinstance(x, tuple) or i >= len(x):
            raise LayoutError(f"basis_get of {e}: {x} has no position {i} at depth {depth}")
        x = x[i]
    return x


def make_basis_like(shape: IntTuple, *path: int) -> IntTuple:
    """For every leaf of a shape, the basis at the leaf's own position.

    Law: ``crd2idx(c, shape, make_basis_like(shape)) == c`` for natural c (cute/numeric/arithmetic_tuple.hpp).
    """
    if isinstance(shape, tuple):
        return tuple(make_basis_like(item, *path, i) for i, item in enumerate(shape))
    return E(*path) if path else 1


def has_basis(stride: IntTuple) -> bool:
    """Whether some leaf of a stride is a basis."""
    if isinstance(stride, tuple):
        return any(map(has_basis, stride))
    return isinstance(stride, ScaledBasis)
