"""Python's operators on register tensors, element by element, out of place and in place.

In: a register tensor and a scalar or a register tensor.  Out: a new register tensor; ``a += b`` writes a.

    a * 2 + b; a[...] += 1; mo.where(a == b, a, 0)

``expr.py`` has what one element does, ``tensor.py`` how elements are walked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from moye.tensor import expr


class Elementwise:
    """The operators, for a class that can compute a function of elements and assign."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars leave the operation to this class

    @abstractmethod
    def _elementwise(self, fn: Callable[..., Any], *operands: object) -> Any:
        """A new tensor with ``fn`` of the operands' elements, or NotImplemented."""

    @abstractmethod
    def _assign(self, value: object) -> None:
        """Set every element."""

    def _pair(self, kind: str, a: object, b: object) -> Any:
        return self._elementwise(lambda x, y: expr.arithmetic(kind, x, y), a, b)

    def _compare(self, kind: str, other: object) -> Any:
        return self._elementwise(lambda x, y: expr.compare(kind, x, y), self, other)

    def _bits(self, kind: str, a: object, b: object) -> Any:
        return self._elementwise(lambda x, y: expr.bitwise(kind, x, y), a, b)

    def _floor(self, kind: str, a: object, b: object) -> Any:
        return self._elementwise(lambda x, y: expr.floor_divide(kind, x, y), a, b)

    def _in_place(self, value: Any) -> Self:
        if value is NotImplemented:
            return value  # type: ignore[no-any-return]
        self._assign(value)
        return self

    def __add__(self, o: object) -> Any: return self._pair("add", self, o)
    def __radd__(self, o: object) -> Any: return self._pair("add", o, self)
    def __sub__(self, o: object) -> Any: return self._pair("sub", self, o)
    def __rsub__(self, o: object) -> Any: return self._pair("sub", o, self)
    def __mul__(self, o: object) -> Any: return self._pair("mul", self, o)
    def __rmul__(self, o: object) -> Any: return self._pair("mul", o, self)
    def __truediv__(self, o: object) -> Any: return self._elementwise(expr.divide, self, o)
    def __rtruediv__(self, o: object) -> Any: return self._elementwise(expr.divide, o, self)
    def __floordiv__(self, o: object) -> Any: return self._floor("floordiv", self, o)
    def __rfloordiv__(self, o: object) -> Any: return self._floor("floordiv", o, self)
    def __mod__(self, o: object) -> Any: return self._floor("mod", self, o)
    def __rmod__(self, o: object) -> Any: return self._floor("mod", o, self)
    def __pow__(self, o: object) -> Any: return self._elementwise(lambda x, y: x**y, self, o)
    def __rpow__(self, o: object) -> Any: return self._elementwise(lambda x, y: x**y, o, self)
    def __and__(self, o: object) -> Any: return self._bits("and", self, o)
    def __rand__(self, o: object) -> Any: return self._bits("and", o, self)
    def __or__(self, o: object) -> Any: return self._bits("or", self, o)
    def __ror__(self, o: object) -> Any: return self._bits("or", o, self)
    def __xor__(self, o: object) -> Any: return self._bits("xor", self, o)
    def __rxor__(self, o: object) -> Any: return self._bits("xor", o, self)
    def __lshift__(self, o: object) -> Any: return self._bits("shl", self, o)
    def __rlshift__(self, o: object) -> Any: return self._bits("shl", o, self)
    def __rshift__(self, o: object) -> Any: return self._bits("shr", self, o)
    def __rrshift__(self, o: object) -> Any: return self._bits("shr", o, self)
    def __divmod__(self, o: object) -> Any: return self // o, self % o
    def __rdivmod__(self, o: object) -> Any: return o // self, o % self
    def __pos__(self) -> Any: return self._elementwise(lambda x: x, self)
    def __neg__(self) -> Any: return self._elementwise(lambda x: expr.unary("neg", x), self)
    def __abs__(self) -> Any: return self._elementwise(lambda x: expr.unary("abs", x), self)
    def __invert__(self) -> Any: return self._elementwise(lambda x: ~x, self)
    def __lt__(self, o: object) -> Any: return self._compare("lt", o)
    def __le__(self, o: object) -> Any: return self._compare("le", o)
    def __gt__(self, o: object) -> Any: return self._compare("gt", o)
    def __ge__(self, o: object) -> Any: return self._compare("ge", o)
    def __eq__(self, o: object) -> Any: return self._compare("eq", o)
    def __ne__(self, o: object) -> Any: return self._compare("ne", o)
    def __iadd__(self, o: object) -> Self: return self._in_place(self + o)
    def __isub__(self, o: object) -> Self: return self._in_place(self - o)
    def __imul__(self, o: object) -> Self: return self._in_place(self * o)
    def __itruediv__(self, o: object) -> Self: return self._in_place(self / o)
    def __ifloordiv__(self, o: object) -> Self: return self._in_place(self // o)
    def __imod__(self, o: object) -> Self: return self._in_place(self % o)
    def __iand__(self, o: object) -> Self: return self._in_place(self & o)
    def __ior__(self, o: object) -> Self: return self._in_place(self | o)
    def __ixor__(self, o: object) -> Self: return self._in_place(self ^ o)
    def __ilshift__(self, o: object) -> Self: return self._in_place(self << o)
    def __irshift__(self, o: object) -> Self: return self._in_place(self >> o)
    def __ipow__(self, o: object) -> Self: return self._in_place(self**o)

    __hash__ = object.__hash__
