"""Numbers of four bits as pairs of 16-bit floats, by the tricks on bits that hand-written kernels use.

In: words of eight numbers each.  Out: a fragment of float16 or bfloat16.

    w = mo.unpack(words, mo.int4, mo.float16, scale=s)      # 9 to 13 instructions for eight values, and 4 for the scale

Four bits under the exponent of 1024 (in bfloat16 128) are 1024 and the number: a subtraction is the conversion.
Source: Kim et al., "Who says elephants can't run" (2022), section 3; PTX ISA, lop3, prmt, fma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType
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


def unpack(words: Any, dtype: DType, to: DType = dt.float16, *, scale: Any = None, zero: Any = None,
           interleaved: bool = False) -> Tensor:
    """The eight numbers of 4 bits in each word, as a fragment of ``to``: float16 or bfloat16.

    ``words`` is an integer of 32 bits or a register tensor of n of them; the fragment has 8 * n elements.  ``dtype`` is
    int4, uint4 or float4_e2m1fn.  Number i is in bits 4 * i to 4 * i + 3 of its word; with ``interleaved`` the even
    ones, 2 * i, are there, and the odd ones, 2 * i + 1, in bits 4 * i + 16 to 4 * i + 19, which takes fewer
    instructions.  The result is ``(number - zero) * scale``, rounded once: ``zero``, of uint4 alone, is an integer from
    0 to 15, ``scale`` a scalar of ``to`` or a register tensor with one for each word.  Errors: DTypeError for other
    dtypes.
    """
    _check(dtype, to, zero)
    several = words if isinstance(words, Tensor) else None
    count = 1 if several is None else static_size(several.layout)
    result = make_fragment(make_layout((8 * count,)), to)
    pairs = recast_tensor(result, dt.uint32)
    for i in range(count):
        word = Expr(operand_of(words if several is None else several[i], dt.uint32, modulo=True))
        parts = _four_bits(word, to, dtype, zero, interleaved) if dtype.is_integer else _e2m1(word, to, interleaved)
        factor = _scale(scale, i, count, to)
        for j, part in enumerate(parts):
            pairs[4 * i + j] = part if factor is None else _form(to).times(part, factor)
    return result


def _check(dtype: DType, to: DType, zero: Any) -> None:
    if to not in (dt.float16, dt.bfloat16):
        raise DTypeError(f"unpack to {to}: it makes float16 and bfloat16", locs=(locate(),))
    if dtype not in (dt.int4, dt.uint4, dt.float4_e2m1fn):
        raise DTypeError(f"unpack of {dtype}: it takes int4, uint4 and float4_e2m1fn", locs=(locate(),))
    if zero is not None and dtype is not dt.uint4:
        raise DTypeError(f"unpack of {dtype} has no zero: uint4 has", locs=(locate(),))
    own = zero.dtype if isinstance(zero, Expr) else dt.int32
    if zero is not None and not (own.is_integer and isinstance(zero, (int, Expr))):
        raise DTypeError(f"unpack: the zero {zero} is no integer", locs=(locate(),))
    if isinstance(zero, int) and not 0 <= zero <= 15:
        raise TraceError(f"unpack: the zero {zero} is not from 0 to 15", locs=(locate(),))


def _scale(scale: Any, i: int, count: int, to: DType) -> Expr | None:
    """The scale of word ``i``, in both halves of a word."""
    if scale is None:
        return None
    if isinstance(scale, Tensor):
        if static_size(scale.layout) != count:
            raise TensorError(f"unpack: {scale.label} has {static_size(scale.layout)} scales for {count} words",
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
