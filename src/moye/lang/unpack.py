"""Numbers of four and six bits as pairs of 16-bit floats, by the tricks on bits that hand-written kernels use.

In: words of eight numbers each, or of six bits sixteen in three words.  Out: a fragment of float16 or bfloat16.

    w = mo.unpack(words, mo.int4, mo.float16, scale=s)      # 9 to 13 instructions for eight values, and 4 for the scale

Four bits under the exponent of 1024 (in bfloat16 128) are 1024 and the number: a subtraction is the conversion.  Floats
have their digits moved, and a product makes up for the other bias.
Source: Kim et al., "Who says elephants can't run" (2022), section 3; PTX ISA, lop3, prmt, fma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType, require_dtype
from moye.errors import DTypeError, TensorError, TraceError
from moye.ir.inline import Snippet
from moye.lang import bits
from moye.lang.bits import lop3, prmt, ptx
from moye.layout import make_layout
from moye.tensor.context import locate
from moye.tensor.expr import Expr, is_scalar, operand_of
from moye.tensor.space import static_size
from moye.tensor.tensor import Tensor, make_fragment, recast_tensor

Array = Any
_TWICE = 0x00010001


_LAYOUTS = {(4, False): (8, 1), (6, False): (16, 3), (6, True): (4, 1)}
"""(bits, padded) -> how many numbers lie in how many words."""


def unpack(words: Any, dtype: DType, to: DType = dt.float16, *, scale: Any = None, zero: Any = None,
           interleaved: bool = False, padded: bool = False) -> Tensor:
    """The numbers of 4 or 6 bits in words, as a fragment of ``to``: float16 or bfloat16.

    ``dtype`` is int4, uint4 or float4_e2m1fn, eight in a word: number i is in bits 4 * i to 4 * i + 3.  With
    ``interleaved`` the even ones, 2 * i, are there, and the odd ones, 2 * i + 1, in bits 4 * i + 16 to 4 * i + 19,
    which takes fewer instructions.  Or it is float6_e2m3fn or float6_e3m2fn, 16 in three words: number i is in bits
    6 * i to 6 * i + 5 of the 96; with ``padded`` there are four in a word, each in the lower bits of a byte (the upper
    two are not looked at).  ``words`` is an integer of 32 bits or a register tensor of them, for whole groups.

    The result is ``(number - zero) * scale``, rounded once: ``zero``, of uint4 alone, is an integer from 0 to 15,
    ``scale`` a scalar of ``to`` or a register tensor with one for each word, or each three.  Errors: DTypeError for
    other dtypes, TensorError for other numbers of words.
    """
    _check(dtype, to, zero)
    if (padded and dtype.bits != 6) or (interleaved and dtype.bits != 4):
        raise TraceError(f"unpack of {dtype}: " + (f"{dtype.bits} bits are not padded" if padded else
                                                   "6 bits are not interleaved"), locs=(locate(),))
    several = words if isinstance(words, Tensor) else None
    count = 1 if several is None else static_size(several.layout)
    each, of = _LAYOUTS[dtype.bits, padded]
    if count % of:
        raise TensorError(f"unpack of {dtype}: {each} numbers are in {of} words, and there are {count}",
                          locs=(locate(),))
    result = make_fragment(make_layout((each * (count // of),)), to)
    pairs = recast_tensor(result, dt.uint32)
    for i in range(count // of):
        group = [Expr(operand_of(words if several is None else several[of * i + j], dt.uint32, modulo=True))
                 for j in range(of)]
        parts = _six_bits(group, to, dtype) if dtype.bits == 6 else \
            _four_bits(group[0], to, dtype, zero, interleaved) if dtype.is_integer else \
            _e2m1(group[0], to, interleaved)
        factor = _scale(scale, i, count // of, to)
        for j, part in enumerate(parts):
            pairs[each // 2 * i + j] = part if factor is None else _form(to).times(part, factor)
    return result


def _check(dtype: DType, to: DType, zero: Any) -> None:
    for each in (dtype, to):
        require_dtype("unpack", each)
    if to not in (dt.float16, dt.bfloat16):
        raise DTypeError(f"unpack to {to}: it makes float16 and bfloat16", locs=(locate(),))
    if dtype not in (dt.int4, dt.uint4, dt.float4_e2m1fn, dt.float6_e2m3fn, dt.float6_e3m2fn):
        raise DTypeError(f"unpack of {dtype}: it takes int4, uint4, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn",
                         locs=(locate(),))
    if zero is not None and dtype is not dt.uint4:
        raise DTypeError(f"unpack of {dtype} has no zero: uint4 has", locs=(locate(),))
    own = zero.dtype if isinstance(zero, Expr) else dt.int32
    if zero is not None and not (own.is_integer and isinstance(zero, (int, Expr))):
        raise DTypeError(f"unpack: zero={zero!r}, which is no integer", locs=(locate(),))
    if isinstance(zero, int) and not 0 <= zero <= 15:
        raise TraceError(f"unpack: the zero {zero} is not from 0 to 15", locs=(locate(),))


def _scale(scale: Any, i: int, count: int, to: DType) -> Expr | None:
    """The scale of group ``i``, in both halves of a word."""
    if scale is None:
        return None
    if isinstance(scale, Tensor):
        if static_size(scale.layout) != count:
            raise TensorError(f"unpack: {scale.label} has {static_size(scale.layout)} scales for {count} groups",
                              locs=(locate(),))
        scale = scale[i]
    if not is_scalar(scale) or (isinstance(scale, Expr) and scale.dtype != to):
        raise DTypeError(f"unpack: the scale {scale} is no scalar of {to}", hint=f"convert it, with .to(mo.{to})",
                         locs=(locate(),))
    doubled: Expr = Expr(operand_of(scale, to)).bitcast(dt.uint16).to(dt.uint32) * _TWICE
    return doubled


# --- integers --------------------------------------------------------------------------------------------------------


def _four_bits(word: Expr, to: DType, dtype: DType, zero: Any, interleaved: bool) -> list[Expr]:
    """Four words of two floats each."""
    flip = 8 if dtype is dt.int4 else 0                 # a sign bit turned over is worth 8 more
    if flip:
        zero = 8
    zero = 0 if zero is None else zero
    make = _halves if to is dt.float16 else _brain_halves
    return make(word, flip, zero, interleaved)


def _placed(word: Any, mask: int, exponent: int, flip: int) -> Expr:
    """The bits of the mask under an exponent; those of ``flip`` turned over."""
    return lop3(word, mask, exponent ^ flip, lambda a, b, c: (a & b) ^ c)  # type: ignore[no-any-return]


def _halves(word: Expr, flip: int, zero: Any, interleaved: bool) -> list[Expr]:
    """Of float16, whose 10 digits hold 1024 + n, and 1024 + 16 * n too."""
    form = _form(dt.float16)
    low, high = _of_zero(0xE400, zero), _of_zero(0xD400, zero, 4)      # -(1024 + zero), -(64 + zero)
    if interleaved:
        found = []
        for part in (word, word >> 8):
            found.append(form.fma(_placed(part, 0x000F000F, 0x64006400, flip * _TWICE), _constant(0x3C003C00),
                                  low * _TWICE))
            shifted = _placed(part, 0x00F000F0, 0x64006400, flip * 16 * _TWICE)
            found.append(form.fma(shifted, _constant(0x2C002C00), high * _TWICE))
        return found
    turned = flip | flip << 20
    bytes_ = [prmt(word, 0, 0x1111 * i) for i in range(4)]
    both = low | high << 16
    return [form.fma(_placed(each, 0x00F0000F, 0x64006400, turned), _constant(0x2C003C00), both) for each in bytes_]


def _brain_halves(word: Expr, flip: int, zero: Any, interleaved: bool) -> list[Expr]:
    """Of bfloat16, whose 7 digits hold 128 + n."""
    form = _form(dt.bfloat16)
    less = _of_zero(0xC300, zero) * _TWICE               # -(128 + zero)
    if interleaved:
        parts = [word >> 4 * i if i else word for i in range(4)]
    else:
        shifted = word >> 4
        parts = [prmt(word, shifted, (4 + i) << 8 | i) for i in range(4)]
    return [form.fma(_placed(each, 0x000F000F, 0x43004300, flip * _TWICE), _constant(0x3F803F80), less)
            for each in parts]


def _of_zero(bits: int, zero: Any, shift: int = 0) -> Any:
    """The bits of a number that grows by the zero point."""
    if isinstance(zero, int):
        return _constant(bits | zero << shift)
    return Expr(operand_of(zero, dt.uint32)) << shift | bits if shift else Expr(operand_of(zero, dt.uint32)) | bits


def _constant(number: int) -> Expr:
    return Expr(operand_of(number & 0xFFFFFFFF, dt.uint32, modulo=True))


# --- float4_e2m1fn ---------------------------------------------------------------------------------------------------


def _e2m1(word: Expr, to: DType, interleaved: bool) -> list[Expr]:
    """Exponent and digit where ``to`` has its lowest ones, and a product that makes up for the other bias."""
    if interleaved:
        parts = [word << 12 - 4 * i if i < 3 else word for i in range(4)]
    else:
        lower = word << 4
        parts = [prmt(word, lower, i << 12 | (4 + i) << 4) for i in range(4)]
    shift, bias = (3, 0x74007400) if to is dt.float16 else (6, 0x7E807E80)      # 2^14, 2^126
    found = []
    for part in parts:
        moved = (part & 0x70007000) >> shift
        signed = lop3(part, 0x80008000, moved, lambda a, b, c: (a & b) | c)
        found.append(_form(to).times(signed, _constant(bias)))
    return found


# --- float6_e2m3fn, float6_e3m2fn ------------------------------------------------------------------------------------


def _six_bits(group: list[Expr], to: DType, dtype: DType) -> list[Expr]:
    """Words of two floats each, of one word of padded numbers or three words of dense ones."""
    if len(group) == 1:
        return _of_bytes(group[0], 0, to, dtype)
    return [part for four in range(4) for part in _of_bytes(_spread(group, four), 2, to, dtype)]


def _spread(words: list[Expr], four: int) -> Expr:
    """Numbers 4 * four to 4 * four + 3 in the upper six bits of the bytes of a word.

    First two come to lie at bit 2, and two at bit 18; then the second of each moves up by two bits.
    """
    lower, upper = (_at(words, 24 * four + 12 * i, 2 + 16 * i) for i in range(2))
    pairs = prmt(lower, upper, 0x7610)
    return prmt(pairs, pairs << 2, 0x7250)  # type: ignore[no-any-return]


def _at(words: list[Expr], first: int, place: int) -> Expr:
    """A word in which bit ``first`` of all of them lies at bit ``place``, and eleven more above it."""
    i, bit = divmod(first, 32)
    if bit + 12 > 32:
        return bits.funnel_shift_right(words[i], words[i + 1], bit - place)  # type: ignore[no-any-return]
    by = place - bit
    return words[i] << by if by > 0 else words[i] >> -by if by else words[i]


def _of_bytes(word: Expr, low: int, to: DType, dtype: DType) -> list[Expr]:
    """Two words of two floats each: byte i has number i in the six bits from ``low`` on.

    Sign and digits go to the upper and to the lower byte of each half, for four numbers at a time; then the bytes meet.
    """
    digits, bias = (3, 1) if dtype is dt.float6_e2m3fn else (2, 3)
    own, half_bias = (10, 15) if to is dt.float16 else (7, 127)
    lowest = own - digits                               # of the digits, in a half
    both = 0x1F << lowest                               # exponent and digits
    shift = low + 8 - lowest
    moved = (word >> shift if shift else word) & 0x01010101 * (both >> 8)
    upper = lop3(word << 2 - low if low < 2 else word, 0x80808080, moved, lambda a, b, c: (a & b) | c)
    if both & 0xFF:
        lower = word << lowest - low & 0x01010101 * (both & 0xFF)
        halves = [prmt(lower, upper, selector) for selector in (0x5140, 0x7362)]
    else:
        halves = [prmt(upper, 0, selector) for selector in (0x1404, 0x3424)]
    factor = _constant((2 * half_bias - bias << own) * _TWICE)          # 2 ** (half_bias - bias)
    return [_form(to).times(half, factor) for half in halves]


# --- pairs of 16-bit floats in a word --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """The instructions of one dtype: products, and products with a sum, rounded once."""

    product: Snippet | None
    product_and_sum: Snippet

    def times(self, a: Any, b: Any) -> Any:
        if self.product is None:
            return self.fma(a, b, _constant(0x80008000))    # -0 adds nothing
        return bits.words(self.product, a, b)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return bits.words(self.product_and_sum, a, b, c)


@cache
def _form(to: DType) -> _Form:
    if to is dt.float16:
        return _Form(ptx("mul", "mul.rn.f16x2 %0, %1, %2;", _pairs(_of_half, _half, lambda a, b: a * b)),
                     ptx("fma", "fma.rn.f16x2 %0, %1, %2, %3;", _pairs(_of_half, _half, lambda a, b, c: a * b + c)))
    # PTX has the product of bfloat16 from sm_90 on, with a sum from sm_80 on.
    return _Form(None, ptx("fma", "fma.rn.bf16x2 %0, %1, %2, %3;",
                           _pairs(_of_brain, _brain, lambda a, b, c: a * b + c)))


def _pairs(widen: Callable[[Array], Array], narrow: Callable[[Array], Array],
           function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of both halves of words, computed in float64: what is made here has fewer digits than that."""
    def meaning(*operands: Array) -> Array:
        lower, upper = (narrow(function(*(widen((x >> shift & 0xFFFF).astype("uint16")) for x in operands)))
                        for shift in (0, 16))
        return lower | upper << 16
    return meaning


def _of_half(bits: Array) -> Array:
    return bits.view("float16").astype("float64")


def _half(numbers: Array) -> Array:
    bits = numbers.astype("float16").view("uint16").astype("uint32")
    return _without_nan(numbers, bits)


def _of_brain(bits: Array) -> Array:
    return (bits.astype("uint32") << 16).view("float32").astype("float64")


def _brain(numbers: Array) -> Array:
    """To nearest, ties to even; float32 holds the numbers exactly."""
    bits = numbers.astype("float32").view("uint32")
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return _without_nan(numbers, rounded)


def _without_nan(numbers: Array, bits: Array) -> Array:
    """The bits, where the number is no NaN: PTX has one NaN alone."""
    wrong = (numbers != numbers).astype("uint32")
    return bits * (1 - wrong) + wrong * 0x7FFF
