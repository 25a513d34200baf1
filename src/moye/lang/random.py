"""Random numbers by counter: the same for a seed and an offset wherever and whenever they are drawn.

In: a seed, and an offset that is another one for each number wanted.  Out: words, or numbers made of them.

    keep = mo.rand(seed, i) > p

The generator is Philox4x32 with ten rounds, counted as Triton and cuRAND count it.  Source: Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3" (SC11); triton.language.rand; cuRAND, Philox_4x32_10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye import dtypes as dt
from moye.errors import DTypeError
from moye.lang.math import cos, log, maximum, sin, sqrt
from moye.tensor.context import locate
from moye.tensor.expr import Expr, operand_of, plain, require_scalar
from moye.tensor.products import mul_hi
from moye.tensor.tensor import Tensor, elementwise

Argument = Any
Four = tuple[Argument, Argument, Argument, Argument]

_ROUNDS = 10
_FACTORS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85                          # the golden ratio, and the square root of 3 less 1
_UNIT = 4.6566127342e-10                                # the largest float32 that takes 2^31 below 1 (Triton's)
_LEAST = 1e-7                                           # what Box and Muller's logarithm is taken of at least
_TURN = 6.283185307179586


def philox(seed: Argument, offset: Argument, subsequence: Argument = 0) -> Four:
    """Four random words, uint32, of a counter: Philox4x32-10.

    The key is the ``seed`` of 64 bits, the counter has ``offset`` in its words 0 and 1 and ``subsequence`` in 2 and 3.
    Integers of 32 bits leave the upper word 0; a seed is extended by its sign.  These are the words of Triton's
    ``randint4x(seed, offset)``, and those that cuRAND draws after ``curand_init(seed, subsequence, 4 * offset)``.
    """
    return _four(_words, seed, offset, subsequence)


def randint(seed: Argument, offset: Argument) -> Argument:
    """A random uint32, all of them equally likely: the first word of ``philox``, as Triton's ``randint``."""
    return _each(lambda s, o: _words(s, o, 0)[0], seed, offset)


def rand(seed: Argument, offset: Argument) -> Argument:
    """A random float32 from 0 to below 1, the bits of Triton's ``rand``."""
    return _each(lambda s, o: _uniform(_words(s, o, 0)[0]), seed, offset)


def rand4x(seed: Argument, offset: Argument) -> Four:
    """Four of them for the price of one, as Triton's ``rand4x``."""
    return _four(lambda s, o: tuple(map(_uniform, _words(s, o, 0))), seed, offset)


def randn(seed: Argument, offset: Argument) -> Argument:
    """A random float32 of the normal distribution, by the formula of Triton's ``randn`` (Box and Muller).

    It is as accurate as ``mo.log`` and ``mo.cos``; Triton's are approximations, so that last digits differ.
    """
    return _each(lambda s, o: _normal(*map(_uniform, _words(s, o, 0)[:2]))[0], seed, offset)


def randn4x(seed: Argument, offset: Argument) -> Four:
    """Four of them for the price of one, as Triton's ``randn4x``."""
    def normals(s: Any, o: Any) -> Four:
        a, b, c, d = map(_uniform, _words(s, o, 0))
        return (*_normal(a, b), *_normal(c, d))
    return _four(normals, seed, offset)


# --- scalars and tensors ---------------------------------------------------------------------------------------------


def _each(function: Callable[..., Any], *arguments: Argument) -> Argument:
    """The function of scalars, or of each element."""
    return elementwise(function, *arguments) if any(isinstance(x, Tensor) for x in arguments) else function(*arguments)


def _four(function: Callable[..., Any], *arguments: Argument) -> Four:
    if not any(isinstance(x, Tensor) for x in arguments):
        return function(*arguments)  # type: ignore[no-any-return]
    a, b, c, d = (_each(lambda *xs, i=i: function(*xs)[i], *arguments) for i in range(4))
    return a, b, c, d


# --- the generator ---------------------------------------------------------------------------------------------------


def _words(seed: Any, offset: Any, subsequence: Any) -> tuple[Expr, Expr, Expr, Expr]:
    keys = _halves("seed", seed, extend=True)
    c0, c1 = _halves("offset", offset)
    c2, c3 = _halves("subsequence", subsequence)
    a, b = _FACTORS
    for turn in range(_ROUNDS):
        k0, k1 = (key + (turn * step & 0xFFFFFFFF) for key, step in zip(keys, _STEPS, strict=True))
        c0, c1, c2, c3 = mul_hi(c2, b) ^ c1 ^ k0, c2 * b, mul_hi(c0, a) ^ c3 ^ k1, c0 * a
    return c0, c1, c2, c3


def _halves(what: str, value: Any, *, extend: bool = False) -> tuple[Any, Any]:
    """The lower and the upper word of an integer; the upper one of 32 bits is 0, or with ``extend`` its sign."""
    require_scalar(f"philox ({what})", value)
    value = plain(value)
    if not isinstance(value, Expr):
        if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
            raise DTypeError(f"philox: the {what} {value} is no integer of 64 bits", locs=(locate(),))
        wide = extend or not -(1 << 31) <= value < 0
        return _constant(value), _constant(value >> 32 if wide else 0)
    if not value.dtype.is_integer:
        raise DTypeError(f"philox: the {what} is a {value.dtype}, not an integer", locs=(locate(),))
    if value.dtype.bits == 64:
        return (value & 0xFFFFFFFF).to(dt.uint32), (value >> 32 & 0xFFFFFFFF).to(dt.uint32)
    upper = (value >> 31).to(dt.uint32) if extend and value.dtype.is_signed else _constant(0)
    return value.to(dt.uint32), upper


def _constant(number: int) -> Expr:
    return Expr(operand_of(number & 0xFFFFFFFF, dt.uint32))


def _uniform(word: Any) -> Any:
    """A word as a float from 0 to below 1: its upper bit folds the others."""
    signed = word.bitcast(dt.int32)
    return (signed ^ signed >> 31).to(dt.float32) * _UNIT


def _normal(u: Any, v: Any) -> tuple[Any, Any]:
    radius = sqrt(-2.0 * log(maximum(u, _LEAST)))
    angle = v * _TURN
    return radius * cos(angle), radius * sin(angle)
