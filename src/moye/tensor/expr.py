"""A recorded scalar: arithmetic on it writes IR.  It implements ``DynInt``, so layouts may hold it.

In: Values and Python numbers.  Out: ``Expr``, or ``Known``, a static integer with a dtype, where facts say what it is.

    tid = Expr(value); (tid // 32) * 4 + 1

Python numbers are weak: they take the other operand's dtype, while what facts decide keeps that of the value.  ``//``
and ``%`` floor; ``/`` of integers gives float32.  Truth of a traced value is an error here: control flow is rewritten
by ``moye.lang``.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn, TypeAlias

from moye import dtypes as dt
from moye.dtypes import DType, Kind
from moye.errors import DTypeError, FactError, TraceError
from moye.ir import builder as ir_builder
from moye.ir import constants, fold, ops
from moye.ir.nodes import Literal, Operand, TensorParam, Value
from moye.layout import DynInt
from moye.tensor.asking import asks_for_a_number, in_plain_code, instead_of_a_test, no_class
from moye.tensor.context import builder, is_internal, known_internal, locate, text_is_asked_for
from moye.tensor.known import Known, KnownBool, KnownInt, known, take_operators, weak

Number: TypeAlias = "int | float | bool"
Scalar: TypeAlias = "int | float | bool | Expr"    # a Known is an int
Int: TypeAlias = "int | DynInt"

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_BITWISE = {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
_INTEGER_ONLY = ("invert", "brev", *ops.COUNTS)
_PREDICATE = "pad the array, or use mo.tile(..., ragged=True) with predicated copies"
HALF = frozenset((dt.float16, dt.bfloat16))
NARROW = HALF | {dt.float8_e4m3fn, dt.float8_e5m2}


class Expr(DynInt):
    """A scalar of the kernel being traced: an operand of the IR with Python's operators."""

    __slots__ = ("operand",)
    __array_ufunc__ = None  # NumPy scalars leave the operation to this class

    def __init__(self, operand: Operand) -> None:
        self.operand = operand

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What ``isinstance`` asks for where the type is another one than it looks for."""
        asking = sys._getframe(1)
        if not known_internal(asking.f_code.co_filename) and asks_for_a_number(asking):
            raise no_class(self, f"whether {self!r} is a number of Python's")
        return Expr

    # --- facts (DynInt) ---

    @property
    def dtype(self) -> DType:
        return self.operand.dtype

    @property
    def divisor(self) -> int:  # type: ignore[override]
        return fold.facts_of(self.operand)[2]

    @property
    def lower(self) -> int | None:  # type: ignore[override]
        return fold.facts_of(self.operand)[0]

    @property
    def upper(self) -> int | None:  # type: ignore[override]
        return fold.facts_of(self.operand)[1]

    def same(self, other: Int) -> bool:
        if isinstance(other, Expr):
            return ir_builder.key_of(self.operand) == ir_builder.key_of(other.operand)
        return isinstance(other, int) and self.lower == other == self.upper

    def require_divisible(self, divisor: int, what: str, code: str = "A12") -> Int:
        """The exact quotient by ``divisor``; if divisibility is not known, the launch assumes it."""
        if self.divisor % divisor:
            assume_divisible(self, divisor, what or f"{self} must be a multiple of {divisor}",
                             _PREDICATE if code == "A4" else None, code)
        return self.exact_div(divisor)

    def as_index(self) -> Int:
        if self.dtype.is_float:
            raise DTypeError(f"{self} is no integer, and extents, indices and ceil_div take nothing else",
                             hint="x.to(mo.int32) converts; mo.ceil(x / y) rounds a quotient of floats up",
                             locs=(locate(),))
        return _index(wrap(builder().cast(self.operand, dt.int32), self)) if self.dtype.bits < 32 else self

    def rounded_up(self, dividend: Any, divisor: Any) -> Int:
        """Where an unsigned sum may wrap, no sum is made."""
        dtype = together(dividend, divisor)
        if dtype.kind is not Kind.UINT or \
                fold.facts("add", operand_of(dividend, dtype), operand_of(divisor, dtype))[1] is not None:
            return super().rounded_up(dividend, divisor)
        return _index(dividend // divisor + compare("ne", dividend % divisor, 0))

    def exact_div(self, divisor: Int) -> Int:
        return _index(self // divisor)

    def comparison(self, kind: str, other: Int) -> Scalar:
        return compare(kind, self, other)

    # --- arithmetic ---

    def __add__(self, other: Any) -> Any: return arithmetic("add", self, other)
    def __radd__(self, other: Any) -> Any: return arithmetic("add", other, self)
    def __sub__(self, other: Any) -> Any: return arithmetic("sub", self, other)
    def __rsub__(self, other: Any) -> Any: return arithmetic("sub", other, self)
    def __mul__(self, other: Any) -> Any: return arithmetic("mul", self, other)
    def __rmul__(self, other: Any) -> Any: return arithmetic("mul", other, self)
    def __truediv__(self, other: Any) -> Any: return divide(self, other)
    def __rtruediv__(self, other: Any) -> Any: return divide(other, self)
    def __floordiv__(self, other: Any) -> Any: return floor_divide("floordiv", self, other)
    def __rfloordiv__(self, other: Any) -> Any: return floor_divide("floordiv", other, self)
    def __mod__(self, other: Any) -> Any: return floor_divide("mod", self, other)
    def __rmod__(self, other: Any) -> Any: return floor_divide("mod", other, self)
    def __divmod__(self, other: Any) -> Any: return self // other, self % other
    def __rdivmod__(self, other: Any) -> Any: return other // self, other % self
    def __and__(self, other: Any) -> Any: return bitwise("and", self, other)
    def __rand__(self, other: Any) -> Any: return bitwise("and", other, self)
    def __or__(self, other: Any) -> Any: return bitwise("or", self, other)
    def __ror__(self, other: Any) -> Any: return bitwise("or", other, self)
    def __xor__(self, other: Any) -> Any: return bitwise("xor", self, other)
    def __rxor__(self, other: Any) -> Any: return bitwise("xor", other, self)
    def __lshift__(self, other: Any) -> Any: return bitwise("shl", self, other)
    def __rlshift__(self, other: Any) -> Any: return bitwise("shl", other, self)
    def __rshift__(self, other: Any) -> Any: return bitwise("shr", self, other)
    def __rrshift__(self, other: Any) -> Any: return bitwise("shr", other, self)
    def __neg__(self) -> Any: return unary("neg", self)
    def __pos__(self) -> Any: return self
    def __abs__(self) -> Any: return unary("abs", self)
    def __invert__(self) -> Any: return unary("not" if self.dtype.kind is Kind.BOOL else "invert", self)

    def __pow__(self, other: Any) -> Any:
        """A small constant power multiplies, and any of an integer; TraceError where an integer's is known only when
        the kernel runs.  Others are the float function: negative powers and floats.  Those of 16- and 8-bit floats are
        computed in float32, and rounded once."""
        other = _exponent(plain(other))
        if isinstance(other, int) and other > 2 and self.dtype in NARROW:
            return (self.to(dt.float32) ** other).to(self.dtype)
        if isinstance(other, int) and not isinstance(other, bool) and 0 <= other <= 8:
            result: Scalar = self if other else wrap(operand_of(1, self.dtype), self)
            for _ in range(other - 1):
                result = arithmetic("mul", result, self)
            return result
        if self.dtype.is_integer and isinstance(other, int) and other > 8:
            half = self ** (other // 2)
            return half * half * self if other % 2 else half * half
        _no_integer_power(self, other)
        return power(self, other)

    def __rpow__(self, other: Any) -> Any:
        other, exponent = plain(other), _exponent(self)
        if isinstance(exponent, int) and isinstance(other, int):
            return Expr(operand_of(other)) ** exponent
        _no_integer_power(other, self)
        return power(other, self)

    # --- comparison ---

    def __eq__(self, other: object) -> Any: return _told(compare("eq", self, other))
    def __ne__(self, other: object) -> Any: return _told(compare("ne", self, other))
    def __lt__(self, other: Any) -> Any: return _told(compare("lt", self, other))
    def __le__(self, other: Any) -> Any: return _told(compare("le", self, other))
    def __gt__(self, other: Any) -> Any: return _told(compare("gt", self, other))
    def __ge__(self, other: Any) -> Any: return _told(compare("ge", self, other))

    def __hash__(self) -> int:
        # Equal numbers would have to hash alike: a dict or a set looked up by identity would miss in silence.
        raise TraceError(f"the key {self} is known only when the kernel runs; dicts, sets and caches look it up "
                         "while tracing", hint="compare the key in if and elif, or keep a table in an array",
                         locs=(locate(),))

    # --- conversion ---

    def to(self, dtype: DType) -> Expr:
        """Convert the value to another dtype."""
        dtype = _scalar_dtype(dt.as_dtype(".to", dtype))
        return Expr(builder().cast(self.operand, dtype))

    def bitcast(self, dtype: DType) -> Expr:
        """The same bits as another dtype of the same width."""
        dtype = dt.as_dtype(".bitcast", dtype)
        if dtype.bits != self.dtype.bits:
            raise DTypeError(f"bitcast from {self.dtype} to {dtype}: {self.dtype.bits} bits against {dtype.bits}")
        return Expr(builder().cast(self.operand, dtype, bits=True))

    def __bool__(self) -> bool:
        self._no_truth("a Python bool")

    def __index__(self) -> int:
        plain = ", and range(n) is a loop in a function with @mo.jit" if in_plain_code(sys._getframe(1)) else ""
        raise TraceError(f"{self} is known only when the kernel runs; a static integer is needed here",
                         hint=f"a loop variable is static in mo.static_range; a parameter is with mo.Constexpr{plain}",
                         locs=(locate(),))

    def __int__(self) -> int:
        if is_internal(sys._getframe(1).f_code.co_filename):    # moye's own code wants what is static
            return self.__index__()
        raise TraceError(f"{self} is known only when the kernel runs and cannot become a Python int while tracing",
                         hint="x.to(mo.int32) converts, and so does int(x) in a function with @mo.jit",
                         locs=(locate(),))

    def __float__(self) -> float:
        raise TraceError(f"{self} is known only when the kernel runs and cannot become a Python float while tracing",
                         hint="use moye's function, as mo.exp for math.exp; x.to(mo.float32) converts",
                         locs=(locate(),))

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            raise TraceError(f"round({self!r}, {digits}): a kernel rounds to integers only",
                             hint="mo.round(x * 100) / 100 rounds to two digits", locs=(locate(),))
        return self._integer("round")

    def __floor__(self) -> Any: return self._integer("floor")
    def __ceil__(self) -> Any: return self._integer("ceil")
    def __trunc__(self) -> Any: return self._integer("trunc")

    def _integer(self, kind: str) -> Any:
        """What Python's ``round``, ``math.floor`` and their like give: an integer, which stays what it is."""
        return self if self.dtype.is_integer else Expr(operand_of(unary(kind, self))).to(dt.int32)

    def __array_function__(self, function: Any, types: object, args: object, options: object) -> NoReturn:
        no_numpy(function)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        no_numpy(None)

    def __iter__(self) -> NoReturn:
        raise TraceError(f"{self} is a scalar of the kernel and cannot be iterated over", locs=(locate(),))

    def _no_truth(self, what: str) -> NoReturn:
        raise TraceError(f"{self} is known only when the kernel runs and cannot become {what} while tracing",
                         hint=instead_of_a_test(sys._getframe(2)), locs=(locate(),))

    def __str__(self) -> str:
        """The text in a layout or a coordinate: its value or name, else ``?``."""
        self._no_text()
        return str(self.operand.value) if isinstance(self.operand, Literal) else self.operand.name or "?"

    def __repr__(self) -> str:
        """The text in a sentence."""
        self._no_text()
        article = "an" if self.dtype.name.startswith("int") else "a"
        return str(self) if isinstance(self.operand, Literal) or self.operand.name else f"{article} {self.dtype} value"

    def __format__(self, spec: str) -> str:
        self._no_text()
        return format(repr(self), spec)

    def _no_text(self) -> None:
        """Refuse to make a Python string of a value in code of a kernel; moye's own messages may."""
        if text_is_asked_for(sys._getframe(2)):
            no_text()


take_operators(Expr)


def _told(found: Any) -> Any:
    """What a comparison of the user's gives: a truth that facts decided is one of the kernel's."""
    return KnownBool(found) if isinstance(found, bool) else found


def lifted(x: Any) -> Any:
    """A scalar as operations take it: what facts decided as a constant of its dtype, NumPy's scalars as numbers."""
    return x if type(x) is Expr else Expr(Literal(weak(x), x.dtype)) if isinstance(x, Known) else plain(x)


def beside(left: object, right: Any) -> Any:
    """The right operand of an operator.

    A Python float would take what facts decided for an integer of Python's, and forget its dtype: there it is a value.
    """
    return lifted(right) if isinstance(right, KnownInt) and isinstance(plain(left), float) else right


def no_text() -> NoReturn:
    """TraceError: a Python string is made of a value in code of a kernel."""
    raise TraceError("a value of the kernel is known only when it runs and cannot become text while tracing",
                     hint='print("x =", x) shows it, and so does an f-string in a function of the kernel',
                     locs=(locate(),))


def no_numpy(function: Any) -> NoReturn:
    """TraceError: NumPy computes while tracing, but what it was given is known only when the kernel runs."""
    name = getattr(function, "__name__", "")
    own = {"where": "mo.where(cond, a, b)", "maximum": "mo.max(a, b)", "minimum": "mo.min(a, b)"}.get(name)
    raise TraceError(f"NumPy{f', in np.{name},' if name else ''} does not take scalars and tensors of a kernel",
                     hint=f"use {own}" if own else
                     "use moye's function, as mo.exp for np.exp; x.to(mo.float32) converts",
                     locs=(locate(),))


def _index(x: Scalar) -> Int:
    if isinstance(x, (int, Expr)):
        return weak(x)  # type: ignore[no-any-return]
    raise TraceError(f"{x} is no integer", locs=(locate(),))


def is_number(x: object) -> bool:
    """Whether x is a Python number or a NumPy scalar."""
    if isinstance(x, (int, float, Known)):
        return True
    return type(x).__module__ == "numpy" and hasattr(x, "item") and getattr(x, "shape", None) == ()


def is_scalar(x: object) -> bool:
    """Whether x is a traced scalar or a number."""
    return isinstance(x, Expr) or is_number(x)


def plain(x: Any) -> Any:
    """A NumPy scalar as a Python number; anything else as it is."""
    return x.item() if type(x).__module__ == "numpy" and is_number(x) else x


def default_dtype(x: Number) -> DType:
    """The dtype that a number takes when nothing else decides: its own, or int32, float32 or bool."""
    if isinstance(x, Known):
        return x.dtype
    if isinstance(x, bool):
        return dt.bool_
    if isinstance(x, int):
        return dt.int32 if -(1 << 31) <= x < 1 << 31 else dt.int64
    return dt.float32


def operand_of(x: Scalar, dtype: DType | None = None, *, modulo: bool = False) -> Operand:
    """The IR operand of a scalar, converted to ``dtype`` if given.

    A Python integer must fit the dtype.  With ``modulo`` (for bit patterns) the range of either sign is allowed.
    """
    x = lifted(x)
    if isinstance(x, Expr):
        return x.operand if dtype is None or dtype is x.operand.dtype else builder().cast(x.operand, dtype)
    if not is_number(x):
        raise TraceError(f"{x!r} of type {type(x).__name__} is no scalar of a kernel", locs=(locate(),))
    number, chosen = x, _scalar_dtype(dtype or default_dtype(x))
    if chosen.is_integer:
        if isinstance(number, float):
            if not math.isfinite(number) or number != int(number):
                raise DTypeError(f"{number} does not fit {chosen}: it is no integer", locs=(locate(),))
            number = int(number)
        pattern = modulo and -(1 << (chosen.bits - 1)) <= number < 1 << chosen.bits
        if not pattern and not constants.fits(number, chosen):
            raise DTypeError(f"{number} does not fit {chosen}", locs=(locate(),),
                             hint=constants.instead_of(number, chosen))
    elif chosen.is_float and isinstance(number, int) and abs(number) >= 1 << 1023:
        raise DTypeError(f"an integer of {number.bit_length()} bits does not fit {chosen}", locs=(locate(),))
    elif chosen.is_float and math.isfinite(number) and math.isinf(dt.rounded(number, chosen)):
        raise DTypeError(f"{number} does not fit {chosen}: it would be infinite", locs=(locate(),),
                         hint=f"float('{'-' * (number < 0)}inf') is, where that is meant; x.to(mo.float32) has room")
    return constants.literal(number, chosen)


def _scalar_dtype(dtype: DType) -> DType:
    """The dtype, unless it is one that words hold several of."""
    if dtype.bits < 8:
        raise DTypeError(f"a scalar of {dtype}: numbers narrower than a byte are only in words",
                         hint="mo.unpack makes 16-bit floats of those in a word", locs=(locate(),))
    return dtype


def wrap(operand: Operand, *sources: Scalar) -> Scalar:
    """The scalar of an operand: a static number for constants of the index and bool types, else an Expr.

    A number made of ``sources`` of the kernel keeps its dtype.  What was made from a constant that the user gave a
    dtype stays one: no static integer.
    """
    if isinstance(operand, Value) or operand.dtype not in (dt.bool_, dt.int32, builder().index):
        return Expr(operand)
    given = any(isinstance(x, Expr) and isinstance(x.operand, Literal) for x in sources)
    if given and operand.dtype is not dt.bool_:
        return Expr(operand)
    decided = any(isinstance(x, (Expr, Known)) for x in sources)
    return known(operand.value, operand.dtype) if decided else operand.value


def position(x: Expr) -> Scalar:
    """An index or offset: a Python number if it is a constant, whatever its dtype."""
    return x.operand.value if isinstance(x.operand, Literal) else x


def _common(a: Scalar, b: Scalar) -> DType:
    """The dtype in which ``a`` and ``b`` meet; Python numbers are weak."""
    if isinstance(a, Expr) and isinstance(b, Expr):
        return dt.promote(a.dtype, b.dtype)
    strong, weak = (a, b) if isinstance(a, Expr) else (b, a)
    if not isinstance(strong, Expr):
        return dt.promote(default_dtype(a), default_dtype(b))  # type: ignore[arg-type]
    if isinstance(weak, float) and not strong.dtype.is_float:
        return dt.float32
    if strong.dtype.kind is Kind.BOOL and not isinstance(weak, bool):
        return default_dtype(weak)  # type: ignore[arg-type]
    return strong.dtype


def arithmetic(kind: str, a: Scalar, b: Scalar) -> Scalar:
    """``a kind b`` in their common dtype, rounded once.

    Sums, products and extrema of 16-bit floats are those of the hardware; all else of 16- and 8-bit floats is computed
    in float32, and the result is rounded.
    """
    if not (is_scalar(a) and is_scalar(b)):
        return NotImplemented  # type: ignore[no-any-return]
    if kind in ("min", "max") and (kept := _never_beyond(kind, plain(a), plain(b))) is not None:
        return kept
    sources = a, b
    a, b = lifted(a), lifted(b)
    dtype = _common(a, b)
    if dtype.kind is Kind.BOOL:
        dtype = dt.int32
    dtype = _wide_enough(kind, a, b, dtype)
    if kind in ("min", "max") and (first := _of_two_signs("lt" if kind == "min" else "gt", a, b)) is not None:
        if kind == "min":                               # the least of both is a number of the signed one
            dtype = {8: dt.int8, 16: dt.int16, 32: dt.int32, 64: dt.int64}[dtype.bits]
        return where(first, Expr(operand_of(a, dtype)), Expr(operand_of(b, dtype)))
    native = kind in ops.NARROW_ARITHMETIC and dtype in HALF
    work = dt.float32 if dtype in NARROW and not native else dtype
    if dtype in HALF and not native:                    # a Python number is one of the 16-bit dtype in either case
        a, b = Expr(operand_of(a, dtype)), Expr(operand_of(b, dtype))
    b_ = builder()
    result = b_.binary(kind, operand_of(a, work), operand_of(b, work))
    return wrap(result if work is dtype else b_.cast(result, dtype), *sources)


def _wide_enough(kind: str, a: Scalar, b: Scalar, dtype: DType) -> DType:
    """int64 for arithmetic on thread and block indices that leaves 32 bits, if the kernel's indices have 64."""
    if dtype is not dt.int32 or builder().index is dt.int32:
        return dtype
    x, y = operand_of(a, dtype), operand_of(b, dtype)
    if not fold.may_overflow(kind, x, y) or not (_of_indices(x) and _of_indices(y)):
        return dtype
    return dt.int64


def _of_indices(operand: Operand, depth: int = 16) -> bool:
    """Whether an integer is made only of thread indices and constants."""
    op = None if isinstance(operand, Literal) else operand.op
    if isinstance(op, ops.Binary) and depth:
        return _of_indices(op.a, depth - 1) and _of_indices(op.b, depth - 1)
    return isinstance(operand, Literal) or isinstance(op, ops.Special)


def divide(a: Scalar, b: Scalar) -> Scalar:
    """``a / b``; integers are divided in float32."""
    if not (is_scalar(a) and is_scalar(b)):
        return NotImplemented  # type: ignore[no-any-return]
    dtype = together(a, b)
    if not dtype.is_float:
        return wrap(builder().binary("div", operand_of(a, dt.float32), operand_of(b, dt.float32)))
    return arithmetic("div", a, b)


def power(a: Scalar, b: Scalar) -> Scalar:
    """``a ** b`` as floats; integers are converted to float32."""
    if not (is_scalar(a) and is_scalar(b)):
        return NotImplemented  # type: ignore[no-any-return]
    dtype = together(a, b) if together(a, b).is_float else dt.float32
    return arithmetic("pow", Expr(operand_of(a, dtype)), Expr(operand_of(b, dtype)))


def _exponent(x: Any) -> Any:
    """An integer that the user gave a dtype, ``mo.int32(2)``, is as constant as 2."""
    return position(x) if isinstance(x, Expr) and x.dtype.is_integer else x


def _no_integer_power(base: Scalar, exponent: Any) -> None:
    """TraceError for an integer to the power of one that is known only when the kernel runs."""
    if isinstance(exponent, Expr) and exponent.dtype.is_integer and is_scalar(base) and \
            (base.dtype.is_integer if isinstance(base, Expr) else isinstance(base, int)):
        raise TraceError(f"{base} ** {exponent}: how often an integer is multiplied is known only when the kernel runs",
                         hint="1 << n for 2 ** n; a loop that multiplies; x.to(mo.float32) ** n for the float",
                         locs=(locate(),))


def function_of_two(kind: str, a: Scalar, b: Scalar) -> Scalar:
    """A math function of two floats; integers are converted to float32."""
    dtype = together(a, b) if together(a, b).is_float else dt.float32
    if kind == "nextafter" and dtype in NARROW:
        raise DTypeError(f"nextafter of {dtype}: it is for float32 and float64", locs=(locate(),))
    return arithmetic(kind, Expr(operand_of(a, dtype)), Expr(operand_of(b, dtype)))


def floor_divide(kind: str, a: Scalar, b: Scalar) -> Scalar:
    """``a // b`` or ``a % b`` of any scalars, as in Python; also of floats, with infinities."""
    if not (is_scalar(a) and is_scalar(b)):
        return NotImplemented  # type: ignore[no-any-return]
    if isinstance(plain(b), (int, float)) and weak(plain(b)) == 0:
        raise TraceError(f"{a} {'//' if kind == 'floordiv' else '%'} 0: division by zero", locs=(locate(),))
    return arithmetic(kind, a, b)


def bitwise(kind: str, a: Scalar, b: Scalar) -> Scalar:
    """``&``, ``|``, ``^`` (logical on bools), ``<<`` and ``>>`` of integers."""
    if not (is_scalar(a) and is_scalar(b)):
        return NotImplemented  # type: ignore[no-any-return]
    sources = a, b
    a, b = lifted(a), lifted(b)
    shift = kind in ("shl", "shr")
    dtype = _shifted(a, b) if shift else _common(a, b)
    if shift and operand_of(b).dtype.is_float:
        raise DTypeError(f"{a} {_BITWISE[kind]} {b}: the count is no integer", locs=(locate(),))
    if dtype.is_float:
        raise DTypeError(f"{a} {_BITWISE[kind]} {b}: bitwise operations are for integers, not {dtype}",
                         hint="& and | bind before comparisons: (x > 0) & (x < 3); x.bitcast(mo.uint32) is x's bits",
                         locs=(locate(),))
    if dtype.kind is Kind.BOOL and not shift:
        logical = {"and": "land", "or": "lor", "xor": "ne"}
        return wrap(builder().binary(logical[kind], operand_of(a, dtype), operand_of(b, dtype)), *sources)
    if dtype.kind is Kind.BOOL:
        dtype = dt.int32
    dtype = _wide_enough(kind, a, b, dtype) if shift else _of_mask(a, b, dtype)
    right = operand_of(b, dt.int32) if shift else operand_of(b, dtype, modulo=True)
    return wrap(builder().binary(kind, operand_of(a, dtype, modulo=True), right), *sources)


def _of_mask(a: Scalar, b: Scalar, dtype: DType) -> DType:
    """The unsigned dtype as wide beside a Python integer that only this one holds: ``x & 0xFF`` is 0 to 255 of int8."""
    numbers = [x for x in (a, b) if isinstance(x, int)]
    unsigned = next(x for x in (dt.uint8, dt.uint16, dt.uint32, dt.uint64) if x.bits == dtype.bits)
    alone = any(constants.fits(x, unsigned) and not constants.fits(x, dtype) for x in numbers)
    return unsigned if alone else dtype


def _shifted(a: Scalar, b: Scalar) -> DType:
    """The dtype of a shift is that of what is shifted; a Python number takes that of its count, of 32 bits or more."""
    if isinstance(a, Expr):
        return a.dtype
    own = dt.int32 if isinstance(a, bool) else default_dtype(a)
    if not isinstance(b, Expr) or not isinstance(a, int) or not b.dtype.is_integer or b.dtype.bits < own.bits:
        return own
    return b.dtype if constants.fits(a, b.dtype) else own


def compare(kind: str, a: Scalar, b: Any) -> Scalar:
    """A comparison, as a bool; anything but a scalar is left to its own operator."""
    if not is_scalar(b):
        if getattr(b, "__array_interface__", None) is not None:         # Python would ask whether they are one object
            raise TraceError(f"an array of NumPy's is compared with {a}, which is known only when the kernel runs",
                             hint="pass the array to the kernel, and compare its elements", locs=(locate(),))
        return NotImplemented  # type: ignore[no-any-return]
    if (decided := _beyond(kind, plain(a), plain(b))) is not None:
        return decided
    if (found := _of_two_signs(kind, lifted(a), lifted(b))) is not None:
        return found
    dtype = together(a, b)
    work = dt.float32 if dtype in NARROW else dtype
    return wrap(builder().binary(kind, operand_of(a, work), operand_of(b, work)))


def _beyond(kind: str, a: Scalar, b: Scalar) -> bool | None:
    """What a comparison with a Python integer that the other side's dtype does not hold comes to; else None."""
    if isinstance(a, int):
        return None if isinstance(b, int) else _beyond(_MIRRORED.get(kind, kind), b, a)
    if not isinstance(a, Expr) or not isinstance(b, int) or isinstance(b, (bool, Known)) or not a.dtype.is_integer:
        return None
    if constants.fits(b, a.dtype) or kind in ("eq", "ne"):     # == with what no value is equal to is a mistake
        return None
    return kind in (("lt", "le") if b > 0 else ("gt", "ge"))


def _never_beyond(kind: str, a: Scalar, b: Scalar) -> Scalar | None:
    """The extremum of an integer and a Python integer that its dtype does not hold, where it is the former."""
    sign = "lt" if kind == "min" else "gt"
    return next((x for x, number in ((a, b), (b, a)) if isinstance(number, int) and _beyond(sign, x, number)), None)


def _of_two_signs(kind: str, a: Scalar, b: Scalar) -> Scalar | None:
    """A comparison of the numbers that a signed and an unsigned integer are; None where C's is that, or for others.

    C takes a negative number for a large one if the unsigned integer is as wide.
    """
    if not isinstance(a, Expr) or not isinstance(b, Expr) or {a.dtype.kind, b.dtype.kind} != {Kind.INT, Kind.UINT}:
        return None
    if a.dtype.kind is Kind.UINT:
        return _of_two_signs(_MIRRORED.get(kind, kind), b, a)
    if b.dtype.bits < a.dtype.bits or (a.lower is not None and a.lower >= 0):
        return None
    here, common = builder(), dt.promote(a.dtype, b.dtype)
    negative = here.binary("lt", a.operand, operand_of(0, a.dtype))
    found = here.binary(kind, here.cast(a.operand, common), here.cast(b.operand, common))
    if kind in ("lt", "le", "ne"):
        return wrap(here.binary("lor", negative, found), a, b)
    return wrap(here.binary("land", here.unary("not", negative), found), a, b)


def unary(kind: str, a: Scalar, *, fast: bool = False) -> Scalar:
    """A unary operation or math function of a scalar; integers are converted to float32 for math functions."""
    source, a = a, lifted(a)
    dtype = a.dtype if isinstance(a, Expr) else default_dtype(a)
    if kind in _INTEGER_ONLY and not dtype.is_integer:
        raise DTypeError(f"{kind} of {a}: it is for integers, not {dtype}", locs=(locate(),))
    if dtype.kind is Kind.BOOL and kind in ("neg", "abs"):
        dtype = dt.int32
    keeps = kind in ("neg", "not", *_INTEGER_ONLY) or (kind == "abs" and not dtype.is_float)
    work = dt.float32 if dtype in NARROW or not (keeps or dtype.is_float) else dtype
    if dtype in HALF and (kind in ("neg", "abs") or (fast and kind in ops.NARROW_FAST)):
        work = dtype
    b = builder()
    result = b.unary(kind, operand_of(a, work), fast=fast)
    return wrap(b.cast(result, dtype) if work is not dtype and dtype in NARROW and result.dtype.is_float else result,
                source)


def require_scalar(what: str, *values: object) -> None:
    """TraceError unless all are scalars."""
    for x in values:
        if not is_scalar(x):
            raise TraceError(f"{what} takes scalars of the kernel and numbers, not {shorten(x)} of type "
                             f"{type(x).__name__}", locs=(locate(),))


def shorten(value: object) -> str:
    """A value for a sentence, at most one line long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def where(cond: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """``a if cond else b`` for scalars, both evaluated."""
    if not any(isinstance(x, (Expr, Known)) for x in (cond, a, b)):
        return a if cond else b
    dtype = together(a, b)
    if not isinstance(cond, Expr):
        return typed(a if cond else b, dtype)
    return wrap(builder().select(truth(cond).operand, operand_of(a, dtype), operand_of(b, dtype)), cond, a, b)


def together(a: Scalar, b: Scalar) -> DType:
    """The dtype in which two scalars meet."""
    return _common(lifted(a), lifted(b))


def typed(value: Scalar, dtype: DType) -> Scalar:
    """A scalar that has this dtype, and is no weak number any more."""
    operand = operand_of(value, dtype)
    return Expr(operand) if isinstance(value, Expr) else wrap(operand, known(0, dtype))


def truth(value: Expr) -> Expr:
    """A traced value as a bool: whether it is not zero."""
    if value.dtype.kind is Kind.BOOL:
        return value
    return Expr(builder().binary("ne", value.operand, operand_of(0, value.dtype)))


# --- assumptions -----------------------------------------------------------------------------------------------------


def can_guard(operand: Operand, *, conditional: bool = False) -> bool:
    """Whether a condition can be checked at launch: it is made of arguments and grid extents, and always needed here.

    ``conditional`` allows it under a traced condition too, for bounds that took the condition into account.
    """
    return (conditional or builder().conditions == 0) and ir_builder.expressible(operand, builder().parameters)


def extent_name(x: object) -> str | None:
    """What a kernel calls an extent of an argument, if ``x`` is one."""
    for param in builder().func.params:
        for mode, extent in enumerate(param.shape if isinstance(param, TensorParam) else ()):
            if isinstance(x, Expr) and extent is x.operand:
                return f"mo.size({param.name}, {mode})"
    return None


def _assumed(x: Expr, divisor: int) -> str:
    """How the user can say that a value is a multiple, given that an extent has no name of the user's own."""
    if (extent := extent_name(x)) is not None:
        return f"say mo.assume({extent} % {divisor} == 0) before"
    strides = [s for param in builder().func.params if isinstance(param, TensorParam) for s in param.strides]
    if isinstance(x.operand, Value) and x.operand.name and not any(s is x.operand for s in strides):
        return f"say mo.assume({x.operand.name} % {divisor} == 0) before"
    return f"say before, with mo.assume, that it is a multiple of {divisor}"


def assume_divisible(x: Expr, divisor: int, message: str, hint: str | None = None, code: str = "A12") -> None:
    """Assume ``x % divisor == 0`` from here on, checked at every launch; FactError if that is not possible."""
    b = builder()
    cond = b.binary("eq", b.binary("mod", x.operand, operand_of(divisor, x.dtype)), operand_of(0, x.dtype))
    if isinstance(cond, Literal) and not cond.value:
        raise FactError(message.format(value=x), hint=hint, locs=(locate(),), code=code)
    if not can_guard(cond):
        why = "under a traced condition it cannot be checked at launch"
        if not ir_builder.expressible(cond, b.parameters):
            why = "launch cannot check it, since it depends on more than arguments"
        raise FactError(f"it is not known whether {x} is a multiple of {divisor}, and {why}; if it is none, "
                        f"{message.format(value=x)}", hint=_assumed(x, divisor), locs=(locate(),))
    b.guard(cond, message, {"value": x.operand}, hint, code)
    if isinstance(x.operand, Value):
        x.operand.divisor = math.lcm(x.operand.divisor, divisor)
