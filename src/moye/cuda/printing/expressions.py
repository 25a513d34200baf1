"""C++ expressions with as few parentheses as a reader needs: literals, arithmetic, conversions, sums of offsets.

In: an operation and the ``Text`` of its operands.  Out: ``Text``: the expression, how tightly it binds, what it reads.

>>> infix("*", infix("+", Text("a"), Text("b")), Text("c")).text
'(a + b) * c'

Where a value is evaluated is decided in ``values.py``; this module only spells.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from moye import dtypes as dt
from moye.cuda.printing.intrinsics import APPROXIMATIONS, Intrinsics
from moye.cuda.printing.uses import NOTHING
from moye.dtypes import DType, Kind
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Literal, Operand, Value

PRIMARY, UNARY, MUL, DIV, ADD, SHIFT, REL, EQ, AND, XOR, OR, LAND, LOR, SELECT = range(17, 3, -1)
# DIV binds like MUL, but a product may not swallow it: x * (i % 4) is not x * i % 4.

_LEVELS = {"*": MUL, "/": DIV, "%": DIV, "+": ADD, "-": ADD, "<<": SHIFT, ">>": SHIFT, "<": REL, "<=": REL, ">": REL,
           ">=": REL, "==": EQ, "!=": EQ, "&": AND, "^": XOR, "|": OR, "&&": LAND, "||": LOR}
_BITWISE = frozenset(("<<", ">>", "&", "^", "|"))
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^",
          "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "&&", "lor": "||"}
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_STEM = {"round": "rint", "abs": "fabs"}
_MUL_HI = {(Kind.INT, 32): "__mulhi", (Kind.UINT, 32): "__umulhi", (Kind.INT, 64): "__mul64hi",
           (Kind.UINT, 64): "__umul64hi"}
_COUNTS = {"popcount": "__popc", "clz": "__clz", "ffs": "__ffs", "brev": "__brev"}
# function: its approximation by another one, with a factor before or after
_SCALED = {"exp": ("exp2", 1 / math.log(2), 1.0), "log": ("log2", 1.0, math.log(2)),
           "log10": ("log2", 1.0, math.log10(2))}


@dataclass(frozen=True, slots=True)
class Text:
    """An expression: its spelling, its precedence, and what must not change before it is evaluated."""

    text: str
    level: int = PRIMARY
    deps: frozenset[int] = NOTHING

    def at(self, level: int) -> str:
        """The spelling as an operand of something that binds with ``level``."""
        return self.text if self.level >= level else f"({self.text})"


def call(name: str, *args: Text) -> Text:
    return Text(f"{name}({', '.join(arg.text for arg in args)})", PRIMARY, _deps(*args))


def _deps(*texts: Text) -> frozenset[int]:
    found = NOTHING
    for text in texts:
        if text.deps:
            found = found | text.deps
    return found


def infix(sign: str, a: Text, b: Text, *, associative: bool = False) -> Text:
    """``a sign b``; ``associative`` drops the parentheses of a right operand of the same kind."""
    level = _LEVELS[sign]
    left, right = level, level + (not associative)
    if level in (MUL, DIV):
        left, right = DIV, MUL + (not associative)
        level = min(level, a.level) if a.level >= DIV else level        # i % 4 * x is still no factor of y * i % 4 * x
    if sign in _BITWISE:  # legible without knowing C's table by heart
        left, right = (left if f" {sign} " in a.text and a.level == level else UNARY), UNARY
    elif sign == "||":
        left = right = LAND + 1
        left = LOR if a.level == LOR else left
    elif level in (REL, EQ):
        left = right = ADD
    if sign == "+" and b.text.startswith("-") and b.level == UNARY and b.text[1:2] != "(":
        return Text(f"{a.at(level)} - {b.text[1:]}", level, _deps(a, b))
    return Text(f"{a.at(left)} {sign} {b.at(right)}", level, _deps(a, b))


def prefix(sign: str, a: Text) -> Text:
    inner = a.at(UNARY)
    return Text(f"{sign}({inner})" if inner.startswith(sign) and sign in "-+&" else f"{sign}{inner}", UNARY, a.deps)


def c_cast(ctype: str, a: Text) -> Text:
    if a.text.startswith(f"({ctype})") and a.level == UNARY:
        return a
    return Text(f"({ctype}){a.at(UNARY)}", UNARY, a.deps)


def negated(cond: Text, integers: bool) -> Text:
    """``!cond``; a comparison of integers is turned around."""
    if cond.text.startswith("!") and cond.level == UNARY:
        return Text(cond.text[1:], UNARY, cond.deps)
    if integers and cond.level in (REL, EQ) and cond.text.count(" ") == 2:
        left, sign, right = cond.text.split(" ")
        sign = _NEGATED[sign]
        return Text(f"{left} {sign} {right}", _LEVELS[sign], cond.deps)
    return prefix("!", cond)


# --- literals --------------------------------------------------------------------------------------------------------


def literal(value: int | float | bool, dtype: DType, helpers: Intrinsics) -> Text:
    """A constant with the suffix of its type."""
    if dtype.kind is Kind.BOOL:
        return Text("true" if value else "false")
    if dtype.is_float:
        return _float_literal(float(value), dtype, helpers)
    return _int_literal(int(value), dtype)


def _int_literal(value: int, dtype: DType) -> Text:
    if dtype.bits > 64:
        if not 0 <= value < 1 << 128:
            raise UnsupportedError(f"{value} is no literal of {dtype}")
        words = ", ".join(f"{value >> shift & 0xFFFFFFFF}u" for shift in (0, 32, 64, 96))
        return Text(f"make_uint4({words})")
    suffix = ("u" if dtype.kind is Kind.UINT else "") if dtype.bits <= 32 else \
        ("ULL" if dtype.kind is Kind.UINT else "LL")
    if dtype.bits < 32:
        suffix = ""
    if dtype.kind is Kind.INT and value == -1 << (dtype.bits - 1) and dtype.bits >= 32:
        return Text(f"-{-value - 1}{suffix} - 1", ADD)
    return Text(f"{value}{suffix}", UNARY if value < 0 else PRIMARY)


def _float_literal(value: float, dtype: DType, helpers: Intrinsics) -> Text:
    value = dt.rounded(value, dtype)
    if dtype.bits < 32:
        bits = _narrow_bits(value, dtype)
        if bits is not None:
            return Text(f"{helpers.ctype(dtype)}{{{bits:#0{dtype.bits // 4 + 2}x}}}")
        return call(helpers.from_f32(dtype), _float_literal(value, dt.float32, helpers))
    double = dtype.bits == 64
    if math.isfinite(value):
        text = repr(value) if double else f"{_shortest(value)}f"
        return Text(text, UNARY if text.startswith("-") else PRIMARY)
    if double:
        positive = Text(f"__longlong_as_double({'0x7ff8' if math.isnan(value) else '0x7ff0'}000000000000LL)")
    else:
        positive = Text(f"__int_as_float({'0x7fc00000' if math.isnan(value) else '0x7f800000'})")
    return prefix("-", positive) if value < 0 else positive


def _shortest(value: float) -> str:
    """The fewest digits that stand for this float32."""
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if dt.rounded(short, dt.float32) == value:
            return repr(short)
    return repr(value)


def _narrow_bits(value: float, dtype: DType) -> int | None:
    """The bits of a narrow float; None if the conversion is left to the device."""
    if value == 0:
        return 1 << (dtype.bits - 1) if math.copysign(1, value) < 0 else 0
    if dtype.bits == 8:
        return dt.bits_of(value, dtype)
    if dtype.bits != 16:
        return None
    if math.isnan(value):
        return 0x7FFF
    if dtype == dt.float16:
        return int.from_bytes(struct.pack("<e", value), "little")
    return int.from_bytes(struct.pack("<f", value), "little") >> 16


# --- facts -----------------------------------------------------------------------------------------------------------


def non_negative(operand: Operand) -> bool:
    """Whether facts prove the integer >= 0."""
    if operand.dtype.kind is not Kind.INT:
        return True
    if isinstance(operand, Literal):
        return operand.value >= 0
    return operand.lower is not None and operand.lower >= 0


def _below(operand: Operand, bound: int) -> bool:
    """Whether facts prove the integer < bound."""
    upper = int(operand.value) if isinstance(operand, Literal) else operand.upper
    return upper is not None and upper < bound


def _power_of_two(operand: Operand) -> int | None:
    """log2 of a literal power of two; None for anything else."""
    number = int(operand.value) if isinstance(operand, Literal) else 0
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def _visibly_non_negative(operand: Operand, depth: int = 6) -> bool:
    """Whether the compiler too could see that the integer is >= 0: made of hardware indices and constants."""
    if isinstance(operand, Literal):
        return operand.value >= 0
    op = operand.op
    if operand.dtype.kind is Kind.UINT:
        return True
    if isinstance(op, ops.Special) and op.kind not in ("clock", "globaltimer"):
        return not op.kind.startswith("cluster_")       # read by an asm, of which it knows nothing
    if isinstance(op, ops.Binary) and depth and op.kind in ("add", "mul", "floordiv", "mod", "and", "shr"):
        return _visibly_non_negative(op.a, depth - 1) and _visibly_non_negative(op.b, depth - 1)
    return False


def _non_negative_beside(a: Operand, b: Operand) -> bool:
    """Whether facts prove ``a >= 0`` where it is divided by ``b``, which is then 1 or more: ``i - 1 + n`` by ``n``."""
    if non_negative(a):
        return True
    if not isinstance(b, Value) or not non_negative(b):
        return False
    lowest, found, rest = 0, 0, [a]
    while rest:
        term = rest.pop()
        op = term.op if isinstance(term, Value) else None
        if term is b:
            found += 1
        elif isinstance(op, ops.Binary) and op.kind == "add":
            rest += (op.a, op.b)
        else:
            lower = int(term.value) if isinstance(term, Literal) else term.lower
            if lower is None:
                return False
            lowest += lower
    return found > 0 and lowest + found >= 0


# --- operations ------------------------------------------------------------------------------------------------------


def binary(op: ops.Binary, a: Text, b: Text, helpers: Intrinsics) -> Text:
    """The expression of a Binary op."""
    if op.kind in ("floordiv", "mod"):
        return _floored(op, a, b, helpers)
    if op.kind in ("shl", "shr") and isinstance(op.b, Literal) and not 0 <= op.b.value < op.a.dtype.bits:
        return _shifted_out(op, a)
    if op.kind in ("shl", "shr") and not (non_negative(op.b) and _below(op.b, max(op.a.dtype.bits, 32))):
        shifted = call(helpers.shift(op.kind, op.a.dtype), a, b)
        return c_cast(op.a.dtype.cuda, shifted) if op.a.dtype.bits < 32 else shifted
    a, b = _plain_literal(op, op.a, op.b, a), _plain_literal(op, op.b, op.a, b)
    return combine(op.kind, op.a.dtype, a, b, helpers)


def _shifted_out(op: ops.Binary, a: Text) -> Text:
    """A shift by a literal that is negative or too large: as PTX clamps it, which C++ leaves undefined."""
    if op.kind == "shl" or op.a.dtype.kind is Kind.UINT:
        return _int_literal(0, op.a.dtype)
    return infix(">>", a, _int_literal(op.a.dtype.bits - 1, dt.int32))


def _plain_literal(op: ops.Binary, mine: Operand, other: Operand, text: Text) -> Text:
    """A 64-bit literal without suffix, where the other operand makes the arithmetic 64 bits wide anyway."""
    if isinstance(mine, Literal) and mine.dtype == dt.int64 and isinstance(other, Value) \
            and op.kind in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor") \
            and abs(mine.value) < 1 << 31:
        return _int_literal(int(mine.value), dt.int32)
    return text


def combine(kind: str, dtype: DType, a: Text, b: Text, helpers: Intrinsics) -> Text:
    """``a kind b`` of two operands of one dtype; floors not included."""
    if dtype.is_float and dtype.bits == 16 and kind in ("add", "sub", "mul"):
        return call(helpers.arithmetic_16(kind, dtype), a, b)
    if dtype.is_float and dtype.bits < 32:
        up = helpers.to_f32(dtype)
        wide = combine(kind, dt.float32, call(up, a), b if kind == "ldexp" else call(up, b), helpers)
        return wide if kind in ops.COMPARISONS else call(helpers.from_f32(dtype), wide)
    if kind in ("min", "max"):
        return call(_float_name("f" + kind, dtype) if dtype.is_float else kind, a, b)
    if kind == "pow" or kind in ops.MATH_PAIRS:
        return call(_float_name(kind, dtype), a, b)
    if kind == "mul_hi":
        return call(_MUL_HI[dtype.kind, dtype.bits], a, b)
    if kind not in _INFIX:
        raise UnsupportedError(f"the CUDA printer does not know the binary operation {kind!r}")
    if kind == "xor" and dtype.kind is Kind.BOOL:
        return infix("!=", a, b)
    if kind == "mul" and dtype == dt.uint16:            # in int, as C++ would have it, 65535 * 65535 overflows
        a = c_cast("unsigned", a)
    whole = infix(_INFIX[kind], a, b, associative=(kind in ("add", "mul") and dtype.is_integer) or kind in ops.LOGICAL)
    narrow = dtype.is_integer and dtype.bits < 32 and kind in ("add", "sub", "mul", "shl")
    return _wrapped(kind, dtype, whole, helpers) if narrow else whole


def _wrapped(kind: str, dtype: DType, whole: Text, helpers: Intrinsics) -> Text:
    """Arithmetic in int, brought back to a narrow dtype."""
    if dtype == dt.int16 and kind in ("sub", "mul", "neg"):
        return call(helpers.low16(), whole)
    return c_cast(dtype.cuda, whole)


def _float_name(stem: str, dtype: DType) -> str:
    return stem if dtype.bits == 64 else stem + "f"


def _floored(op: ops.Binary, a: Text, b: Text, helpers: Intrinsics) -> Text:
    dtype = op.a.dtype
    division = op.kind == "floordiv"
    if dtype.is_float and dtype.bits < 32:
        up = helpers.to_f32(dtype)
        return call(helpers.from_f32(dtype), call(helpers.floor(op.kind, dt.float32), call(up, a), call(up, b)))
    if dtype.is_float and not division and isinstance(op.b, Literal) and op.b.value == 1:
        return call(helpers.fraction(dtype), a)
    if dtype.is_float:
        return call(helpers.floor(op.kind, dtype), a, b)
    power = _power_of_two(op.b)
    if power is not None and _visibly_non_negative(op.a):
        # With a shift, which says more, the compiler keeps more addresses in registers: attention's gradients, at 255,
        # spilled 88 to 336 bytes.
        return infix("/" if division else "%", a, _plain(op.b, b))
    if power is not None:
        amount = _int_literal(power if division else (1 << power) - 1, dtype if not division else dt.int32)
        return infix(">>" if division else "&", a, amount)
    if non_negative(op.b) and _non_negative_beside(op.a, op.b):
        return _unsigned("/" if division else "%", op, a, b)
    whole = call(helpers.floor(op.kind, dtype), a, b)
    return c_cast(dtype.cuda, whole) if division and dtype.bits < 32 else whole  # -128 // -1


def _unsigned(sign: str, op: ops.Binary, a: Text, b: Text) -> Text:
    """A quotient or remainder of what is not negative, without the sign, which the compiler would keep track of."""
    dtype = op.a.dtype
    if dtype.kind is not Kind.INT or dtype.bits < 32:
        return infix(sign, a, _plain(op.b, b))
    unsigned = "unsigned" if dtype.bits == 32 else "unsigned long long"
    a, b = _as_unsigned(unsigned, dtype, a), _as_unsigned(unsigned, dtype, _plain(op.b, b))
    return c_cast(dtype.cuda, infix(sign, a, b))


def _as_unsigned(unsigned: str, dtype: DType, a: Text) -> Text:
    """An integer as an unsigned one; of what is an unsigned one converted, without the conversion."""
    if a.text.isdecimal():
        return a
    head = f"({dtype.cuda})("
    if a.level == UNARY and a.text.startswith(f"{head}({unsigned})") and a.text.endswith(")"):
        return Text(a.text[len(head):-1], DIV, a.deps)
    return c_cast(unsigned, a)


def _plain(operand: Operand, text: Text) -> Text:
    return Text(str(operand.value)) if isinstance(operand, Literal) and operand.value < 1 << 31 else text


def unary(op: ops.Unary, a: Text, helpers: Intrinsics) -> Text:
    """The expression of a Unary op."""
    dtype, kind = op.a.dtype, op.kind
    if dtype.is_float and dtype.bits < 32:
        if op.fast and kind in ops.NARROW_FAST and dtype.bits == 16:
            return call(helpers.approx_16(kind, dtype), a)
        wide = _unary(kind, dt.float32, call(helpers.to_f32(dtype), a), op.fast, helpers)
        return wide if kind in ("isnan", "isinf") else call(helpers.from_f32(dtype), wide)
    whole = _unary(kind, dtype, a, op.fast, helpers)
    narrow = dtype.is_integer and dtype.bits < 32 and \
        kind in (("neg", "invert", "abs") if dtype.kind is Kind.INT else ("neg", "invert"))
    return _wrapped(kind, dtype, whole, helpers) if narrow else whole


def _unary(kind: str, dtype: DType, a: Text, fast: bool, helpers: Intrinsics) -> Text:
    if kind == "neg":
        return prefix("-", a)
    if kind == "not":
        return negated(a, False)
    if kind == "invert":
        return prefix("!" if dtype.kind is Kind.BOOL else "~", a)
    if kind in _COUNTS:
        return _bit_count(kind, dtype, a)
    if kind in ("isnan", "isinf"):
        return call(kind, a) if dtype.is_float else Text("false")
    if kind == "abs" and dtype.is_integer:
        return a if dtype.kind is Kind.UINT else call("llabs" if dtype.bits == 64 else "abs", a)
    if kind not in (*ops.MATH, *ops.SLOW_MATH) or not dtype.is_float:
        raise UnsupportedError(f"the CUDA printer does not know the operation {kind!r} of {dtype}")
    return _math(kind, dtype, a, fast and dtype.bits == 32, helpers)


def _math(kind: str, dtype: DType, a: Text, fast: bool, helpers: Intrinsics) -> Text:
    if fast and (approximate := _approximate(kind, a, helpers)) is not None:
        return approximate
    if kind in ("sigmoid", "rcp"):
        one = literal(1, dtype, helpers)
        below = a if kind == "rcp" else infix("+", one, call(_float_name("exp", dtype), prefix("-", a)))
        return infix("/", one, below)
    return call(_float_name(_STEM.get(kind, kind), dtype), a)


def _approximate(kind: str, a: Text, helpers: Intrinsics) -> Text | None:
    """A float32 function by the hardware's approximations, as CUDA's intrinsics compute it; None if it has none."""
    if kind in _SCALED:
        other, before, after = _SCALED[kind]
        return _times(call(helpers.approx(other), _times(a, before, helpers)), after, helpers)
    if kind == "tan":
        below = call(helpers.approx("rcp"), call(helpers.approx("cos"), a))
        return infix("*", call(helpers.approx("sin"), a), below)
    if kind == "sigmoid":
        power = call(helpers.approx("exp2"), _times(a, -1 / math.log(2), helpers))
        return call(helpers.approx("rcp"), infix("+", literal(1, dt.float32, helpers), power))
    return call(helpers.approx(kind), a) if kind in APPROXIMATIONS else None


def _times(a: Text, factor: float, helpers: Intrinsics) -> Text:
    return a if factor == 1 else infix("*", a, literal(factor, dt.float32, helpers))


def _bit_count(kind: str, dtype: DType, a: Text) -> Text:
    """A count of bits, or the bits in reverse order; narrow integers are counted as unsigned words."""
    name = _COUNTS[kind] + ("ll" if dtype.bits == 64 else "")
    if dtype.bits >= 32:
        return c_cast(dtype.cuda, call(name, a)) if kind == "brev" and dtype.kind is Kind.INT else call(name, a)
    if dtype.kind is Kind.INT:
        a = c_cast({8: "unsigned char", 16: "unsigned short"}[dtype.bits], a)
    count = call(name, a)
    if kind == "brev":
        return c_cast(dtype.cuda, infix(">>", count, Text(str(32 - dtype.bits))))
    return infix("-", count, Text(str(32 - dtype.bits))) if kind == "clz" else count


def assignment(place: str, value: Text) -> str:
    """``place = value;``, or ``place += x;`` where value is ``place + x`` with a plain x."""
    rest = value.text.removeprefix(f"{place} ")
    sign, _, operand = rest.partition(" ")
    if rest != value.text and sign in ("+", "-", "*", "&", "|", "^") and _is_plain(operand):
        return f"{place} {sign}= {operand};"
    return f"{place} = {value.text};"


def _is_plain(text: str) -> bool:
    """Whether an expression is one name, constant, element or call, whatever is inside its brackets."""
    depth = 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == " " and not depth:
            return False
    return bool(text)


def select(cond: Text, a: Text, b: Text) -> Text:
    return Text(f"{cond.at(SELECT + 1)} ? {a.at(SELECT + 1)} : {b.at(SELECT)}", SELECT, _deps(cond, a, b))


# --- conversions -----------------------------------------------------------------------------------------------------


def cast(op: ops.Cast, a: Text, helpers: Intrinsics) -> Text:
    """The expression of a Cast op."""
    return bitcast(op.a.dtype, op.result.dtype, a, helpers) if op.bits else \
        convert(op.a.dtype, op.result.dtype, a, helpers)


def convert(source: DType, target: DType, a: Text, helpers: Intrinsics) -> Text:
    """Value conversion."""
    if source == target:
        return a
    if source.bits > 64 or target.bits > 64:
        raise UnsupportedError(f"there is no conversion from {source} to {target}")
    if source.is_float and source.bits < 32:
        return convert(dt.float32, target, call(helpers.to_f32(source), a), helpers)
    if target.kind is Kind.BOOL:
        return infix("!=", a, literal(0, source, helpers))
    if (target.is_float and target.bits < 32) or target == dt.tfloat32:
        return call(helpers.from_f32(target), _to_float(source, target, a, helpers))
    if source.is_float and target.is_integer and target.bits < 32:
        return _saturated(source, target, a)
    return a if source.cuda == target.cuda else c_cast(target.cuda, a)


def _to_float(source: DType, target: DType, a: Text, helpers: Intrinsics) -> Text:
    """The value as float, such that the rounding to the narrower target that follows is the only one."""
    if source.cuda == "float":
        return a
    if source.bits == 64 and (source.is_float or target != dt.float16):
        return call(helpers.round_to_odd(source.cuda), a)
    if source.is_integer and source.bits == 32 and target != dt.float16:
        return call(helpers.round_to_odd("double"), c_cast("double", a))
    return c_cast("float", a)


def _saturated(source: DType, target: DType, a: Text) -> Text:
    """A float as an integer of 8 or 16 bits; conversions to 32 and 64 bits saturate by themselves."""
    unsigned = target.kind is Kind.UINT
    low = 0 if unsigned else -1 << (target.bits - 1)
    high = (1 << (target.bits - (not unsigned))) - 1
    whole = call(f"__{source.cuda}2int_rz", a)
    return c_cast(target.cuda, call("min", call("max", whole, Text(str(low))), Text(str(high))))


def bits_of(dtype: DType, a: Text) -> Text:
    """An element's bits as an unsigned integer of its width."""
    if dtype.is_float:
        if dtype.bits < 32:
            return Text(f"{a.at(PRIMARY)}.bits", PRIMARY, a.deps)
        return call("__float_as_uint", a) if dtype.bits == 32 else \
            c_cast("unsigned long long", call("__double_as_longlong", a))
    if dtype.kind is Kind.INT:
        return c_cast({8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}[dtype.bits],
                      a)
    return a


def from_bits(dtype: DType, a: Text, helpers: Intrinsics) -> Text:
    """The element with these bits; ``a`` is an unsigned integer whose higher bits are ignored for narrow dtypes."""
    if dtype.is_float:
        if dtype.bits < 32:
            word = c_cast("unsigned char" if dtype.bits == 8 else "unsigned short", a)
            return Text(f"{helpers.ctype(dtype)}{{{word.text}}}", PRIMARY, a.deps)
        return call("__uint_as_float", a) if dtype.bits == 32 else call("__longlong_as_double", a)
    if dtype.kind is Kind.BOOL:
        return infix("!=", infix("&", a, Text("255")), Text("0"))
    return c_cast(dtype.cuda, a)


def bitcast(source: DType, target: DType, a: Text, helpers: Intrinsics) -> Text:
    """The same bits as another dtype of the same width."""
    if source.bits != target.bits or source.bits > 64:
        raise UnsupportedError(f"there is no bitcast from {source} to {target}")
    if source.cuda == target.cuda:
        return a
    if source.is_integer and target.is_integer:
        return c_cast(target.cuda, a)
    return from_bits(target, bits_of(source, a), helpers)


# --- offsets ---------------------------------------------------------------------------------------------------------


def number(a: Text) -> int | None:
    """The integer that a text without suffix spells, or None."""
    digits = a.text.removeprefix("-")
    return int(a.text) if digits.isdigit() else None


def scaled(a: Text, factor: int) -> Text:
    """``factor * a``, without what a reader would strike out."""
    if factor == 1:
        return a
    constant = number(a)
    if constant is not None:
        return Text(str(constant * factor))
    return infix("*", Text(str(factor), UNARY if factor < 0 else PRIMARY), a, associative=True)


def total(terms: list[Text]) -> Text:
    """The sum; zeros vanish, the constants go last as one."""
    constant = sum(number(term) or 0 for term in terms)
    kept = [term for term in terms if number(term) is None]
    if constant or not kept:
        kept.append(Text(str(constant), UNARY if constant < 0 else PRIMARY))
    result = kept[0]
    for term in kept[1:]:
        result = infix("+", result, term, associative=True)
    return result
