"""Atomic operations as calls of inline functions: one instruction, or a loop around compare-and-swap.

In: ``ops.Atomic``.  Out: ``red_add_relaxed_gpu_global(&out[i], x);``, ``const float old = atom_max_...(&out[i], x);``.

    atomic(helpers, "max", dt.float32, Space.GLOBAL, "relaxed", "gpu", used=True)

PTX has no min and max of floats, and of 16 bits only compare-and-swap and the sums of floats; those of bfloat16 are
instructions from sm_90 on.  The min and max of float32 and float64 are those of their bits where nobody asks for the
old value.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.cuda.printing.expressions import Text, combine
from moye.cuda.printing.intrinsics import Intrinsics, register_input
from moye.cuda.printing.peers import load
from moye.dtypes import DType, Kind, Space
from moye.errors import UnsupportedError

_VECTORS = {dt.float32: "f32", dt.float16: "f16", dt.bfloat16: "bf16"}
_WORDS = {16: dt.uint16, 32: dt.uint32, 64: dt.uint64}
_ORDERED = {dt.float32: (dt.int32, dt.uint32), dt.float64: (dt.int64, dt.uint64)}
_SUMS_OF_BFLOAT16 = 90
"""The architecture from which on PTX has them."""


def atomic(helpers: Intrinsics, kind: str, dtype: DType, space: Space, order: str, scope: str, used: bool,
           capability: int = 0) -> str:
    """The function: (pointer, [compare,] value) -> the old value; without a result where nobody uses it.

    ``capability`` is that of the architecture that it is printed for, 0 of any.
    """
    if _is_instruction(kind, dtype, capability):
        return helpers.atomic(kind, dtype, space, order, scope, used)
    if kind in ("min", "max") and dtype in _ORDERED and order == "relaxed" and not used and space is not Space.CLUSTER:
        return _by_bits(helpers, kind, dtype, space, scope)
    return _by_cas(helpers, kind, dtype, space, order, scope)


def _is_instruction(kind: str, dtype: DType, capability: int) -> bool:
    if kind == "cas":
        return dtype.bits != 16 or dtype.kind is Kind.UINT
    if kind == "add" and dtype == dt.bfloat16:
        return not 0 < capability < _SUMS_OF_BFLOAT16
    if dtype.is_float and kind in ("min", "max"):
        return False
    return dtype.bits >= 32 or (kind == "add" and dtype.is_float)


def vector(helpers: Intrinsics, dtype: DType, count: int, order: str, scope: str) -> str:
    """red.global.add of ``count`` elements side by side: (pointer, value, ...)."""
    ctype = helpers.ctype(dtype)
    places = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(register_input(dtype, f"x{i}") for i in range(count))
    scope = "cta" if scope == "thread" else scope
    body = (f'asm volatile("red.{order}.{scope}.global.add{_sum(dtype, count)} [%0], {{{places}}};"',
            f'             :: "l"(p), {inputs} : "memory");')
    return helpers.function(f"red_add_{order}_{scope}_global_v{count}",
                            f"void ({ctype}* p, {', '.join(f'{ctype} x{i}' for i in range(count))})", *body,
                            overload=f"{ctype}{count}", arch=90, what="atomics of several elements")


def _sum(dtype: DType, count: int) -> str:
    return f"{'' if dtype.bits == 32 else '.noftz'}.v{count}.{_VECTORS[dtype]}"


def _by_cas(helpers: Intrinsics, kind: str, dtype: DType, space: Space, order: str, scope: str) -> str:
    """A loop that tries to put in the new value until nobody else was faster."""
    bits = _WORDS.get(dtype.bits)
    if bits is None:
        raise UnsupportedError(f"there is no atomic {kind} of {dtype}")
    ctype, word = helpers.ctype(dtype), bits.cuda
    cas = helpers.atomic("cas", bits, space, order, scope, True)
    name, peers = f"atom_{kind}_{order}_{scope}_{space.value}", space is Space.CLUSTER
    pointer, place = ("unsigned", "p") if peers else (f"{ctype}*", f"({word}*)p")
    first = f"{load(helpers, bits)}(p)" if peers else f"*(volatile {word}*)p"
    if kind == "cas":
        swap = f"{cas}({place}, {_bits(dtype, 'expected')}, {_bits(dtype, 'x')})"
        return helpers.function(name, f"{ctype} ({pointer} p, {ctype} expected, {ctype} x)",
                                f"return {_seen(dtype, swap)};", overload=ctype)
    new = "x" if kind == "exch" else combine(kind, dtype, Text(_seen(dtype, "seen")), Text("x"), helpers).text
    loop = (f"{word} seen, old = {first};", "do {", "    seen = old;",
            f"    const {ctype} next = ({ctype})({new});" if dtype.is_integer else f"    const {ctype} next = {new};",
            f"    old = {cas}({place}, seen, {_bits(dtype, 'next')});", "} while (old != seen);",
            f"return {_seen(dtype, 'old')};")
    return helpers.function(name, f"{ctype} ({pointer} p, {ctype} x)", *loop, overload=ctype)


def _by_bits(helpers: Intrinsics, kind: str, dtype: DType, space: Space, scope: str) -> str:
    """The minimum or maximum of floats as one of their bits, where it changes anything.

    Positive floats are in the order of their bits as integers, and below the negative ones, whose order is the
    opposite, as unsigned integers.  A NaN in memory gives way to a number, which takes the loop.
    """
    ctype, (signed, unsigned) = helpers.ctype(dtype), _ORDERED[dtype]
    opposite = "min" if kind == "max" else "max"
    of_positive, of_negative = (helpers.atomic(which, bits, space, "relaxed", scope, False)
                                for which, bits in ((kind, signed), (opposite, unsigned)))
    loop = _by_cas(helpers, kind, dtype, space, "relaxed", scope)
    mine, next_, seen = (_bits(dtype, name) for name in ("x", "next", "seen"))
    next_is = combine(kind, dtype, Text("seen"), Text("x"), helpers).text
    return helpers.function(f"red_{kind}_relaxed_{scope}_{space.value}", f"void ({ctype}* p, {ctype} x)",
                            f"const {ctype} seen = *(volatile {ctype}*)p, next = {next_is};",
                            f"if (x != x || {next_} == {seen}) {{",
                            "    return;",
                            "}",
                            "if (seen != seen) {",
                            f"    {loop}(p, x);",
                            f"}} else if (({signed.cuda}){mine} >= 0) {{",
                            f"    {of_positive}(({signed.cuda}*)p, ({signed.cuda}){mine});",
                            "} else {",
                            f"    {of_negative}(({unsigned.cuda}*)p, {mine});",
                            "}", overload=ctype)


def _seen(dtype: DType, word: str) -> str:
    """The element that a word holds."""
    if dtype.bits == 16 and dtype.is_float:
        return f"{dtype.cuda}{{{word}}}"
    if dtype.is_float:
        return f"__longlong_as_double({word})" if dtype.bits == 64 else f"__uint_as_float({word})"
    return f"({dtype.cuda})({word})"


def _bits(dtype: DType, element: str) -> str:
    """The word that holds an element."""
    if dtype.bits == 16 and dtype.is_float:
        return f"{element}.bits"
    if dtype.is_float:
        return f"__double_as_longlong({element})" if dtype.bits == 64 else f"__float_as_uint({element})"
    return f"(unsigned short){element}" if dtype.bits == 16 else element
